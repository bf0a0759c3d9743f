"""What people read above and below a ranking: its verdict, its unit, and what it depends on."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from bayesrank._names import count_of, shown
from bayesrank.datasets import ComparisonData, ScoreTable
from bayesrank.ranking import RankSummary, comparisons_needed
from bayesrank.ranking.columns import percent, span

_MOST = 100_000  # beyond this, a number of comparisons is no help
_NAMED = 4

Params = Mapping[str, np.ndarray]


def win_chance(difference: Any, params: Params) -> Any:
    """Chance that an item wins a comparison against one whose skill is lower by `difference`."""
    return ndtr((difference - float(params.get("tie_width", 0.0))) / _noise(params))


def _noise(params: Params) -> float:
    """SD of the difference of two performances."""
    return np.sqrt(2.0) * float(params.get("noise", 1.0))


class Headline(NamedTuple):
    """Who leads a ranking, and how far, as screen, page, card and JSON say it."""

    leader: str  #: the item in the first row
    standing: str  #: how it stands to the others, in a few words
    verdict: str  #: in a sentence or more, a line each


def headline(summary: RankSummary, needed: Callable[[NDArray[np.integer[Any]]], str]) -> Headline:
    """Say whether there is a winner, who is tied with the leader, and what would settle it.

    `needed` says that of the items that are tied, by their indices, the leader first.
    """
    group = summary.component == 0
    size, first = int(group.sum()), shown(summary.names[0])
    said, among = "", ""
    if summary.num_components > 1:
        among = " in group 1"
        said = (
            f"The items form {summary.num_components:,} groups with no comparisons between them, "
            "so there is no overall winner. In group 1: "
        )
    if size == 1:
        return Headline(summary.names[0], "compared with no other", f"{said}one item.")
    if summary.prob_best[0] >= summary.level:
        best = f"{first} is the best (probability {percent(float(summary.prob_best[0]))})."
        return Headline(summary.names[0], f"ahead of all others{among}", f"{said}{best}")
    tier = np.flatnonzero(group & (summary.tier == 1))
    few = int(summary.provisional[group].sum())
    if few == size:
        standing = "too few comparisons to say"
        parts = [
            f"{said}No clear winner: {first} leads, but any of the {size:,} items may be best."
        ]
    else:
        standing = _standing(len(tier) - 1, bool(summary.provisional[0]))
        level = f"({100 * summary.level:g}% level)"
        parts = [f"{said}No clear winner. {first} leads, {standing} {level}."]
    parts.append(_most_likely(summary, size))
    if few:
        are = "item is" if few == 1 else "items are"
        parts.append(f"{few:,} {are} provisional: too few comparisons.")
    if len(tier) > 1:
        parts.append(needed(summary.indices[tier]))
    return Headline(summary.names[0], standing + among, "\n".join(filter(None, parts)))


def _standing(others: int, provisional: bool) -> str:
    """How a leader stands that is not the best with the probability asked for."""
    itself = "provisional, " if provisional else ""
    if not others:
        return f"{itself}better than each item that is not provisional"
    return f"{itself}statistically tied with {count_of(others, 'other item')}"


def _most_likely(summary: RankSummary, size: int) -> str:
    order = np.argsort(-summary.prob_best[:size], kind="stable")[:_NAMED]
    names = [f"{shown(summary.names[i])} ({percent(float(summary.prob_best[i]))})" for i in order]
    return f"Most likely best: {', '.join(names)}{', ...' if size > _NAMED else ''}"


def needed_comparisons(
    skills: np.ndarray, params: Params, level: float, tied: NDArray[np.integer[Any]]
) -> str:
    """How many more comparisons would tell the leader from those that are tied with it."""
    chance = partial(win_chance, params=params)
    even, likely = comparisons_needed(skills[:, tied], chance, level=level)
    if likely > _MOST:
        return "They are too close to say how many more comparisons would separate them."
    more, enough = count_of(rough(even), "more comparison"), rough(likely)
    also = "" if enough == rough(even) else f" with an even chance, {enough:,}"
    return (
        f"{more} with the leader would separate it from them{also} with a chance of 80%, if the "
        "true gaps match today's estimates."
    )


def rough(number: float) -> int:
    """A number of comparisons, to two digits."""
    unit = 10 ** max(0, len(str(int(number))) - 2)
    return max(1, round(number / unit) * unit)


def part_of(summary: RankSummary) -> str:
    """What several rankings are of: categories, or questions that score tables answer."""
    return "category" if summary.measure == "skill" else "question"


def heading(measure: str, part: str) -> str:
    """What stands above one of several rankings."""
    return f"Category {part}" if measure == "skill" else f"On {part}"


def notes_on(data: ComparisonData, params: Params, at: Any = None) -> tuple[str, ...]:
    """Sentences on what skill depends on."""
    notes = []
    if data.features is not None and len(data.feature_names) > 1:
        order = np.argsort(params["lengthscale"], kind="stable")
        names = ", ".join(data.feature_names[i] for i in order)
        notes.append(f"Features, strongest effect first: {names}.")
    if data.times is not None:
        at = data.times.max() if at is None else at
        notes.append(f"Skills change over time; the ranking is as of {moment(at)}.")
    return tuple(notes)


def moment(time: Any) -> str:
    """A number or a date, with all that it says and no more."""
    if not isinstance(time, np.datetime64):
        return f"{time:.15g}"
    return np.datetime_as_string(time, unit="auto")


def method(
    data: ComparisonData,
    params: Params,
    spread: Mapping[str, np.ndarray] | None,
    level: float = 0.9,
) -> tuple[str, ...]:
    """Sentences on what the intervals include, and the hyperparameters by name."""
    known = [name for name in params if spread is None or name not in spread]
    values = [_value(name, data, params[name], None) for name in known]
    values += [_value(name, data, params[name], ends) for name, ends in (spread or {}).items()]
    listed = "; ".join(values)
    if spread is not None:
        include = "Intervals include uncertainty in the skills and in the hyperparameters."
        said = [include, f"Hyperparameters (mean, {100 * level:g}% interval): {listed}."]
    else:
        more = "in the judges' reliabilities and order biases" if data.judges is not None else ""
        still = data.times is None and data.features is None
        ties = "in the tie width" if data.tied.any() and data.is_log and still else ""
        known = ", ".join(["in the skills", *filter(None, (more, ties))])
        said = [
            f"Intervals include uncertainty {known}, and none in the prior scales; with few "
            f"comparisons they are too narrow. Estimates: {listed}."
        ]
    if data.times is not None and "lengthscale" in params:
        said.append("The length scale of time is a fraction of the observed period.")
    return tuple(said)


def _value(name: str, data: ComparisonData, value: np.ndarray, ends: Any) -> str:
    """A hyperparameter, by feature where it has one value for each."""
    label = {"lengthscale": "length scale", "scale": "skill SD"}.get(name, name.replace("_", " "))
    numbers = np.atleast_1d(value)
    texts = [f"{number:.3g}" for number in numbers]
    if ends is not None:
        low, high = (np.atleast_1d(end) for end in ends)
        texts = [
            f"{text} ({span(f'{a:.3g}', f'{b:.3g}')})"
            for text, a, b in zip(texts, low, high, strict=True)
        ]
    if len(numbers) > 1 and len(numbers) == len(data.feature_names):
        texts = [f"{shown(n)} {text}" for n, text in zip(data.feature_names, texts, strict=True)]
    return f"{label} {', '.join(texts)}"


def counts(data: ComparisonData) -> str:
    """How much there is of everything."""
    if data.scores is not None:
        return score_counts(data.scores)
    parts = [count_of(data.num_items, "item"), count_of(*observations(data))]
    if data.tied.any():
        parts[-1] += f" ({count_of(times(data, data.tied), 'tie')})"
    if data.features is not None:
        parts.append(count_of(len(data.feature_names), "feature"))
    return ", ".join(parts)


def score_counts(table: ScoreTable) -> str:
    """How much there is of everything."""
    n, count = table.runs.shape
    there = int((table.runs > 0).sum())
    parts = [count_of(n, "system"), count_of(count, "task"), count_of(there, "score")]
    if table.clusters is not None:
        parts.insert(2, count_of(len(table.cluster_names), "cluster"))
    if table.runs.max() > 1:
        parts[-1] += f" of {count_of(int(table.runs.sum()), 'run')}"
    if there < table.runs.size:
        parts[-1] += f" ({1 - there / table.runs.size:.1%} of the cells missing)"
    return ", ".join(parts)


def observations(data: ComparisonData) -> tuple[int, str]:
    """How many pieces of evidence there are, and what one is: a choice is an order, too."""
    if data.scores is not None:
        return int(data.scores.runs.sum()), "run"
    if data.orders is None:
        return times(data), "comparison"
    number, groups = int(data.orders.counts.sum()), data.orders.groups
    one_of_many = all(len(each) == 2 and len(each[0]) == 1 < len(each[1]) for each in groups)
    return number, "choice" if one_of_many else "order"


def times(data: ComparisonData, rows: NDArray[np.bool_] | None = None) -> int:
    """How often comparisons (those of `rows`) came; broken weights do not say how often."""
    rows = np.ones(data.num_comparisons, bool) if rows is None else rows
    if data.weights is None or (data.weights % 1 != 0).any():
        return int(rows.sum())
    return int(data.weights[rows].sum())


def unit(params: Params) -> str:
    """What a unit of skill is worth."""
    win, loss = (100 * win_chance(side, params) for side in (1.0, -1.0))
    tie = f" and ties {100 - win - loss:.0f}%" if "tie_width" in params else ""
    return f"an item 1 unit better wins {win:.0f}%{tie}; "
