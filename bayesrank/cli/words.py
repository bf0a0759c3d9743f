"""What people read above and below a ranking: its verdict, its unit, and what it depends on."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from bayesrank._names import count_of, shown
from bayesrank.datasets import ComparisonData
from bayesrank.ranking import RankSummary, comparisons_needed
from bayesrank.ranking.columns import percent, span

_MOST = 100_000  # beyond this, a number of comparisons is no help
_NAMED = 4
# The logistic curve of this slope is nowhere further than 0.01 from the normal one.
_LOGITS_PER_PROBIT = 1.702

Params = Mapping[str, np.ndarray]


def win_chance(difference: Any, params: Params) -> Any:
    """Chance that an item wins a comparison against one whose skill is lower by `difference`."""
    return ndtr((difference - float(params.get("tie_width", 0.0))) / _noise(params))


def elo_per_skill(params: Params) -> float:
    """Elo points of a unit of skill, by the nearest logistic curve; 400 are odds of ten to one."""
    return 400.0 / np.log(10.0) * _LOGITS_PER_PROBIT / _noise(params)


def _noise(params: Params) -> float:
    """SD of the difference of two performances."""
    return np.sqrt(2.0) * float(params.get("noise", 1.0))


def conclusion(summary: RankSummary, skills: np.ndarray, chance: Callable[[float], float]) -> str:
    """Say whether there is a winner, who is tied with the leader, and what would settle it."""
    group = summary.component == 0
    said = ""
    if summary.num_components > 1:
        said = (
            f"The items form {summary.num_components:,} groups with no comparisons between them, "
            "so there is no overall winner. In group 1: "
        )
    size, first = int(group.sum()), shown(summary.names[0])
    if size == 1:
        return f"{said}one item."
    if summary.prob_best[0] >= summary.level and not summary.provisional[0]:
        return f"{said}{first} is the best (probability {percent(float(summary.prob_best[0]))})."
    known = np.flatnonzero(group & ~summary.provisional)
    if not len(known):
        return f"{said}Too few comparisons to name a winner: any of the {size:,} items may be best."
    tier = np.flatnonzero(group & (summary.tier == 1))
    parts = [f"{said}No clear winner. {_leading(summary, tier)}", _most_likely(summary, size)]
    if summary.provisional[group].any():
        few = int(summary.provisional[group].sum())
        are = "item is" if few == 1 else "items are"
        parts.append(f"{few:,} {are} provisional: too few comparisons.")
    if len(tier) > 1:
        parts.append(_needed(skills[:, summary.indices[tier]], chance))
    return "\n".join(parts)


def _leading(summary: RankSummary, tier: np.ndarray) -> str:
    """Who leads, and how many are statistically tied with that item."""
    leader, others = shown(summary.names[tier[0]]), len(tier) - 1
    among = " among the items that are not provisional" if tier[0] else ""
    level = f"({100 * summary.level:g}% level)"
    if not others and among:
        return f"{leader} leads{among}."
    if not others and summary.provisional.any():
        return f"{leader} leads: it is better than each item that is not provisional {level}."
    if not others:
        return (
            f"{leader} leads: it is better than each other item {level}, but not surely than all."
        )
    items = "item is" if others == 1 else "items are"
    return (
        f"{leader} leads{among}, but {others:,} other {items} statistically tied with it {level}."
    )


def _most_likely(summary: RankSummary, size: int) -> str:
    order = np.argsort(-summary.prob_best[:size], kind="stable")[:_NAMED]
    names = [f"{shown(summary.names[i])} ({percent(float(summary.prob_best[i]))})" for i in order]
    return f"Most likely best: {', '.join(names)}{', ...' if size > _NAMED else ''}"


def _needed(skills: np.ndarray, chance: Callable[[float], float]) -> str:
    number = comparisons_needed(skills, chance)
    if number > _MOST:
        return "They are too close to say how many more comparisons would separate them."
    digits = max(0, len(str(int(number))) - 2)
    rough = max(1, round(number / 10**digits) * 10**digits)
    more = count_of(rough, "more comparison")
    return (
        f"About {more} with the leader should separate them, if the true gaps match today's "
        "estimates."
    )


def is_log(data: ComparisonData) -> bool:
    """Whether there are positions, judges or categories to learn of."""
    return any(part is not None for part in (data.position, data.judges, data.categories))


def notes_on(data: ComparisonData, params: Params) -> tuple[str, ...]:
    """Sentences on what skill depends on."""
    notes = []
    if data.features is not None and len(data.feature_names) > 1:
        order = np.argsort(params["lengthscale"], kind="stable")
        names = ", ".join(data.feature_names[i] for i in order)
        notes.append(f"Features, strongest effect first: {names}.")
    if data.times is not None:
        notes.append(f"Skills change over time; the ranking is as of {moment(data.times.max())}.")
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
        said = [
            "Intervals include uncertainty in the skills only; with few comparisons they are too "
            f"narrow. Hyperparameters were fixed at: {listed}."
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
    parts = [count_of(data.num_items, "item"), count_of(*observations(data))]
    if data.tied.any():
        parts[-1] += f" ({count_of(times(data, data.tied), 'tie')})"
    if data.features is not None:
        parts.append(count_of(len(data.feature_names), "feature"))
    return ", ".join(parts)


def observations(data: ComparisonData) -> tuple[int, str]:
    """How many pieces of evidence there are, and what one is: a choice is an order, too."""
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
