"""How far a ranking can be trusted: each question answered, either way."""

from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from bayesrank.cli.words import Params, win_chance
from bayesrank.datasets import ComparisonData
from bayesrank.ranking import RankSummary

if TYPE_CHECKING:
    from bayesrank.diagnostics import Transitivity
    from bayesrank.diagnostics.quick import Crosschecked

Reply = Literal["yes", "NO", "unknown"]

_MOST_SHIFT, _STANDARD_ERRORS = 0.1, 4.0

_OUTCOMES: dict[str, Reply] = {"agrees": "yes", "close": "yes", "differs": "NO"}


class Check(NamedTuple):
    """A question, its answer, and what that rests on."""

    question: str
    answer: Reply
    sentence: str

    def __str__(self) -> str:
        return f"{self.question} {self.answer}. {self.sentence}"


def trust_checks(
    data: ComparisonData,
    summary: RankSummary,
    skills: np.ndarray,
    params: Params,
    found: "Crosschecked | str",
) -> tuple[Check, ...]:
    """Return the answers to all questions."""
    return (
        _enough(summary),
        _connected(data, summary),
        _right(found),
        _ties(data),
        _order_bias(data),
        _transitive(data, skills, params),
    )


def _enough(summary: RankSummary) -> Check:
    question, few = "Enough comparisons?", int(summary.provisional.sum())
    if not few:
        return Check(question, "yes", "Every item's rank is known better than half way.")
    are, their = ("is", "its") if few == 1 else ("are", "their")
    sentence = (
        f"{few:,} of {len(summary):,} items {are} provisional: {their} ranks span more than half "
        "of what they would without comparisons."
    )
    return Check(question, "NO", sentence)


def _connected(data: ComparisonData, summary: RankSummary) -> Check:
    question = "Are all items linked by comparisons?"
    if data.features is not None:
        return Check(question, "yes", "If not by comparisons, then by their features.")
    if summary.num_components == 1:
        return Check(question, "yes", "Directly or through others.")
    sizes = np.bincount(summary.component)
    smallest = [summary.names[i] for i in np.flatnonzero(summary.component == len(sizes) - 1)]
    names = ", ".join(smallest[:3]) + (", ..." if len(smallest) > 3 else "")
    sentence = (
        f"No comparison links the {len(sizes)} components that the items fall into; the smallest "
        f"holds {names}. Each is ranked by itself: compare items across them."
    )
    return Check(question, "NO", sentence)


def _right(found: "Crosschecked | str") -> Check:
    question = "Does the fast fit (EP) agree with simulation (NUTS)?"
    if isinstance(found, str):
        return Check(question, "unknown", found)
    if found.check is not None:
        verdict = found.check.verdict
        sentence = verdict.sentence
        if "ep" in found.check.runs and found.check.params:
            sentence += " NUTS held the scales of the model at the values that count most."
        return Check(question, _OUTCOMES.get(verdict.status, "unknown"), sentence)
    from bayesrank.diagnostics.quick import BUDGET

    late = f"NUTS would take more than {BUDGET:g} s, and was given up (--crosscheck full runs it)."
    if found.importance is None:
        return Check(question, "unknown", late)
    trust = found.importance
    answer: Reply = "yes" if trust.is_good else "unknown"
    # The largest of many figures is off by some standard errors by chance.
    noise = _STANDARD_ERRORS / np.sqrt(max(trust.ess, 1.0))
    if trust.is_reliable and trust.mean_error > _MOST_SHIFT + noise:
        answer = "NO"
    return Check(question, answer, f"{late} By importance sampling: {trust}.")


def _ties(data: ComparisonData) -> Check:
    question, tied = "Are ties allowed for?", int(data.tied.sum())
    if data.orders is not None:
        return Check(question, "yes", "Nothing is said of items that an order puts side by side.")
    if not tied:
        return Check(question, "yes", "There are none.")
    return Check(question, "yes", f"{tied:,} of {len(data.tied):,}: a third outcome of the model.")


def _order_bias(data: ComparisonData) -> Check:
    question = "Is an advantage of position allowed for?"
    if data.position is not None:
        return Check(question, "yes", f"What {data.position_label} is worth is learned.")
    sentence = (
        "An advantage of being named first, shown first or at home, if there is one, counts as "
        "skill."
    )
    return Check(question, "NO", sentence)


def _transitive(data: ComparisonData, skills: np.ndarray, params: Params) -> Check:
    from bayesrank.diagnostics import transitivity

    question = "Does one order fit (few circles such as A beats B beats C beats A)?"
    if data.times is not None or data.orders is not None:
        why = "move" if data.times is not None else "are compared in whole orders"
        return Check(question, "unknown", f"Not looked into where items {why}.")
    if data.judges is not None or data.categories is not None or data.position is not None:
        why = "judges, categories or positions matter"
        sentence = (
            f"Not looked into where {why}: they make circles of their own, and this check supposes "
            "that skills alone decide."
        )
        return Check(question, "unknown", sentence)

    def chance(difference: np.ndarray) -> np.ndarray:
        win, loss = (win_chance(side * difference, params) for side in (1.0, -1.0))
        return np.asarray(win / (win + loss))

    found = transitivity(data.comparisons, skills, chance, tied=data.tied, weights=data.weights)
    return Check(question, *_on_circles(found))


def _on_circles(found: "Transitivity") -> tuple[Reply, str]:
    if not found.is_known:
        return "unknown", "There are too few triads of items that were all compared to tell."
    sentence = (
        f"{found.share:.1%} of {found.num_triads:,} triads are circles; the model expects "
        f"{found.expected_lower:.1%} to {found.expected_upper:.1%}."
    )
    if found.is_good:
        return "yes", sentence
    return "NO", f"{sentence} Who wins depends on who meets whom, which no single order says."
