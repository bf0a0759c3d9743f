"""How far a ranking can be trusted: checks, each with its status, warnings first."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from bayesrank.cli.words import Params, times, win_chance
from bayesrank.datasets import ComparisonData
from bayesrank.datasets.counted import COUNTED
from bayesrank.ranking import RankSummary

if TYPE_CHECKING:
    from bayesrank.diagnostics import CrossCheck, Transitivity
    from bayesrank.diagnostics.agreement import DesignEffect, Sway
    from bayesrank.diagnostics.quick import Crosschecked
    from bayesrank.infer.spi import ImportanceCheck

CheckStatus = Literal["warning", "ok", "not checked", "n/a"]

ORDER: tuple[CheckStatus, ...] = ("warning", "ok", "not checked", "n/a")
_MOST_SHIFT, _STANDARD_ERRORS = 0.1, 4.0
_MOST_IN_TIME, _DRAWS = 2_000, 200  # comparisons with times, and draws of their margins
_MOST_ITEMS = 2_000  # whose order under another prior is found
_SURE, _SHARE = 3.0, 0.55
# Of pairs that count as they are told apart, 16 sparse random logs had 0.92 and more.
_SAME_ORDER, _SAME_WHERE_SURE = 0.8, 0.9
_FEWEST = 100  # effective draws of importance sampling that say something


class Check(NamedTuple):
    """What was checked, how it ended, and what that rests on."""

    name: str
    status: CheckStatus
    sentence: str


def trust_checks(
    data: ComparisonData,
    summary: RankSummary,
    skills: np.ndarray,
    params: Params,
    found: "Crosschecked | str",
    result: Any = None,
) -> tuple[Check, ...]:
    """All checks, warnings first; `found` is a sentence where EP was not checked."""
    repeats, sways = _agreement(data, params, result)
    checks = (
        Check("Data", *_enough(summary)),
        Check("Connected", *_connected(data, summary)),
        Check("EP vs NUTS", *_right(found)),
        Check("Ties", *_ties(data)),
        Check("Position", *_position(data)),
        Check("Independent rows", *_independent(data, repeats)),
        Check("Other traits", *_swayed(data, sways)),
        Check("Prior", *_sensitive(data, skills, params)),
        Check("One ranking", *_transitive(data, skills, params, result, repeats)),
    )
    return tuple(sorted(checks, key=lambda check: ORDER.index(check.status)))


def _enough(summary: RankSummary) -> tuple[CheckStatus, str]:
    few, n = int(summary.provisional.sum()), len(summary)
    if not few:
        return "ok", "no item is provisional"
    are, their = ("is", "its") if few == 1 else ("are", "their")
    sentence = (
        f"{few:,} of {n:,} items {are} provisional (*): {their} rank interval holds over half of "
        "the ranks, and over 3/4 of the prior variance is left; add comparisons"
    )
    return "warning", sentence


def _connected(data: ComparisonData, summary: RankSummary) -> tuple[CheckStatus, str]:
    if data.features is not None:
        return "ok", "comparisons and features link all items"
    if summary.num_components == 1:
        return "ok", "comparisons link all items, directly or through others"
    sizes = np.bincount(summary.component)
    smallest = [summary.names[i] for i in np.flatnonzero(summary.component == len(sizes) - 1)]
    names = ", ".join(smallest[:3]) + (", ..." if len(smallest) > 3 else "")
    sentence = (
        f"the items form {len(sizes):,} groups with no comparisons between them (the smallest: "
        f"{names}); each is ranked separately; add comparisons between groups"
    )
    return "warning", sentence


def _right(found: "Crosschecked | str") -> tuple[CheckStatus, str]:
    if isinstance(found, str):
        return "not checked", found
    weighed = (
        "" if found.importance is None else f"importance sampling: {_weighed(found.importance)}"
    )
    if found.check is not None:
        if found.importance is not None and found.importance.ess < _FEWEST:
            weighed = f"importance sampling cannot tell ({found.importance.ess:.0f} draws count)"
        status, sentence = _against_nuts(found.check)
        if found.importance is not None and found.importance.misses_mass:
            status = "warning"  # chains of NUTS may have missed it, too
        return status, sentence + (f"; {weighed}" if weighed else "")
    more = "NUTS takes minutes (--crosscheck full)"
    if found.importance is None:
        return "not checked", more
    return _by_weights(found.importance), f"{weighed}; {more}"


def _against_nuts(check: "CrossCheck") -> tuple[CheckStatus, str]:
    """The status of a comparison, and by how much means and standard deviations are off."""
    verdict = check.verdict
    if verdict.status not in ("agrees", "close"):
        status: CheckStatus = "warning" if verdict.status == "differs" else "not checked"
        return status, verdict.sentence.rstrip(".")
    shift = max(np.abs(each.error).max() for each in check.comparisons)
    change = 100.0 * (np.concatenate([each.ratio for each in check.comparisons]) - 1.0)
    median = float(np.median(change))
    fixed = "; hyperparameters were fixed" if check.params else ""
    sentence = (
        f"means within {shift:.2f} SD, SDs within {np.abs(change).max():.0f}% "
        f"(tolerance {100 * check.tolerance:.0f}%); SDs are {abs(median):.1f}% too "
        f"{'large' if median > 0 else 'small'} in the median{fixed}"
    )
    return "ok", sentence


def _weighed(found: "ImportanceCheck") -> str:
    """What importance sampling says, in a clause."""
    if found.misses_mass or not found.is_reliable:
        return str(found).partition(". ")[0]
    return (
        f"means within {found.mean_error:.2f} SD, SDs within {found.sd_error:.0%} "
        f"({found.ess:,.0f} of {found.num_draws:,} draws count)"
    )


def _by_weights(found: "ImportanceCheck") -> CheckStatus:
    # The largest of many errors is off by some standard errors by chance.
    noise = _STANDARD_ERRORS / np.sqrt(max(found.ess, 1.0))
    if found.misses_mass or (found.is_reliable and found.mean_error > _MOST_SHIFT + noise):
        return "warning"
    return "ok" if found.is_good else "not checked"


def _ties(data: ComparisonData) -> tuple[CheckStatus, str]:
    tied, every = times(data, data.tied), times(data)
    if data.orders is not None:
        return "n/a", "items side by side in an order are not compared"
    if not tied:
        return "n/a", "none in the data"
    return "ok", f"{tied:,} in {every:,} comparisons, modelled as a third outcome"


def _position(data: ComparisonData) -> tuple[CheckStatus, str]:
    if data.position is not None:
        return "ok", f"the advantage of {data.position_label} is estimated"
    if data.position_label and data.orders is None:
        return "warning", f"left out, though the file has it: {data.position_label} counts as skill"
    return "n/a", "the data do not say who was first or at home"


def _agreement(
    data: ComparisonData, params: Params, result: Any
) -> "tuple[list[DesignEffect], list[Sway]]":
    """Design effects of what rows share, the largest first, and effects of what sides have."""
    from bayesrank.diagnostics.agreement import Residuals, design_effects, residuals_of
    from bayesrank.estimators.skills import ranker_posterior

    if result is None:
        return [], []
    posterior, sways = ranker_posterior(result), []
    rows = residuals_of(data, posterior, params) if data.contrasts else None
    if isinstance(rows, Residuals):
        sways = [rows.sway(name, gap) for name, gap in data.contrasts.items()]
        sways.sort(key=lambda each: -abs(each.z))
    return design_effects(data, posterior, params), sways


def _independent(data: ComparisonData, effects: "list[DesignEffect]") -> tuple[CheckStatus, str]:
    if not effects:
        if data.times is not None:
            return "not checked", "skills move"
        if data.clusters:
            return "not checked", "there are too many items or different orders"
        if COUNTED in data.notes:
            return "not checked", "rows were counted where they lie"
        return "n/a", "no column repeats in five groups or more"
    worst = effects[0]
    row = "comparison" if data.orders is None else "order"
    if not worst.is_large:
        names = ", ".join(each.column for each in effects[:3])
        return "ok", f"{row}s of the same {names} agree no more than others"
    if worst.column == "judge":
        fix = "add judges"
    elif worst.column == "judge and pair":
        fix = "keep one row for each judge and pair"
    elif data.orders is not None:
        fix = f"keep one order for each {worst.column}, or rank groups that agree separately"
    else:
        names = "--category" if data.features is not None else "--category or --judge"
        fix = f"keep one row for each {worst.column}, or name it with {names}"
    return "warning", (
        f"{row}s of the same {worst.column} agree (design effect {worst.value:.1f}), so intervals "
        f"are {np.sqrt(worst.value):.1f} times as wide as without that; to have narrower ones, "
        f"{fix}"
    )


def _swayed(data: ComparisonData, sways: "list[Sway]") -> tuple[CheckStatus, str]:
    if not sways:
        return "n/a", "no numbers of both sides, such as length_a and length_b"
    worst = sways[0]
    share = max(worst.share, 1.0 - worst.share)
    if abs(worst.z) < _SURE or share < _SHARE:
        names, more = ", ".join(each.column for each in sways[:3]), f"--covariate {worst.column}"
        return "ok", f"{names} decide little beside skill ({more} allows for it nonetheless)"
    more = "more" if worst.share > 0.5 else "less"
    return "warning", (
        f"{worst.column} counts as skill: between equals, the side with {more} of it (1 SD) wins "
        f"{share:.0%}; compare items at equal {worst.column}: --covariate {worst.column}"
    )


def _sensitive(data: ComparisonData, skills: np.ndarray, params: Params) -> tuple[CheckStatus, str]:
    from bayesrank.diagnostics.sensitivity import order_under_wide_prior

    if "scale" not in params or data.orders is not None or data.times is not None:
        return "n/a", "the check is for comparisons of items without features or times"
    if data.num_items > _MOST_ITEMS:
        return "not checked", f"more than {_MOST_ITEMS:,} items"
    alike = skills if "graph_weight" in params else None
    found = order_under_wide_prior(data, float(params["scale"]), alike)
    if not (found.tau < _SAME_ORDER and found.sure < _SAME_WHERE_SURE):
        said = "" if alike is None else "near-equals meet, which the prior takes into account; "
        if found.tau < _SAME_ORDER:
            return "ok", f"{said}a wider prior moves only items that are hardly told apart"
        return "ok", f"{said}a wider prior leaves the order as it is"
    return "warning", (
        f"a wider prior changes the order (Kendall's tau {found.tau:.2f}): few comparisons link "
        "strong and weak items, so gaps between them are too small; add such comparisons"
    )


def _transitive(
    data: ComparisonData,
    skills: np.ndarray,
    params: Params,
    result: Any,
    repeats: "list[DesignEffect]",
) -> tuple[CheckStatus, str]:
    from bayesrank.diagnostics import transitivity

    if data.orders is not None:
        return "n/a", "an order has no cycles"

    def chance(difference: np.ndarray) -> np.ndarray:
        win, loss = (win_chance(side * difference, params) for side in (1.0, -1.0))
        return np.asarray(win / (win + loss))

    found = _margins(data, params, result, len(skills))
    if found is None:
        return "not checked", "the most probable margins of the comparisons did not settle"
    data, margins = found
    counts = {"tied": data.tied, "weights": data.weights}
    found = transitivity(data.comparisons, skills, chance, margins=margins, **counts)
    return _on_cycles(found, repeats)


def _margins(
    data: ComparisonData, params: Params, result: Any, number: int
) -> tuple[ComparisonData, Callable[[int], np.ndarray] | None] | None:
    """Which comparisons to look at, and their margins where more than today's skill decides."""
    from bayesrank.diagnostics.transitivity import margins_in_time, margins_of_log
    from bayesrank.estimators.skills import ranker_posterior

    if data.times is not None:
        data = data.distinct()  # as the fit has them
        times: Any = data.times
        late = np.argsort(times, kind="stable")[-_MOST_IN_TIME:]
        rows = np.isin(np.arange(data.num_comparisons), late) & ~data.tied
        margins = margins_in_time(result, params, rows, _DRAWS)
        return None if margins is None else (data.where(rows), lambda k: margins[k % _DRAWS])
    if data.is_log:
        rows = data.distinct()
        return rows, margins_of_log(rows, ranker_posterior(result), number)
    return data, None


def _on_cycles(found: "Transitivity", repeats: "list[DesignEffect]") -> tuple[CheckStatus, str]:
    if not found.is_known:
        return "not checked", "fewer than 10 triads in which every pair was compared"
    sentence = (
        f"{found.share:.1%} of {found.num_triads:,} triads are cycles (A > B > C > A), "
        f"{100 * found.expected_lower:.1f}–{found.expected_upper:.1%} expected"
    )
    if found.is_good:
        return "ok", sentence
    if repeats and repeats[0].is_large:
        return "not checked", f"{sentence}; rows of the same {repeats[0].column} explain them"
    return "warning", (
        f"{sentence}; either rows repeat each other (a question, a judge, copies), or who wins "
        "depends on the pairing and no one ranking fits well"
    )
