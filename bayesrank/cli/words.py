"""What people read below and above a ranking: its verdict, its unit, and what it depends on."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.special import expit, ndtr

from bayesrank._names import count_of, shown
from bayesrank.datasets import ComparisonData
from bayesrank.ranking import RankSummary, comparisons_needed
from bayesrank.ranking.columns import percent

_MOST = 100_000  # beyond this, a number of comparisons is no help
_NAMED = 5
# The logistic curve of this slope is nowhere further than 0.01 from the normal one.
_LOGITS_PER_PROBIT = 1.702

Params = Mapping[str, np.ndarray]


def win_chance(difference: Any, params: Params, likelihood: str = "probit") -> Any:
    """Chance that an item wins a comparison against one whose skill is lower by `difference`."""
    noise, width = _noise(params), float(params.get("tie_width", 0.0))
    if likelihood == "logit":
        return expit((difference - width) / noise)
    return ndtr((difference - width) / (np.sqrt(2.0) * noise))


def elo_per_skill(params: Params, likelihood: str = "probit") -> float:
    """Elo points of a unit of skill: 400 for odds of ten to one.

    With normal noise, those of the logistic curve that comes closest to the normal one.
    """
    points = 400.0 / np.log(10.0) / _noise(params)
    return points if likelihood == "logit" else points * _LOGITS_PER_PROBIT / np.sqrt(2.0)


def _noise(params: Params) -> float:
    return float(params.get("noise", 1.0))


def conclusion(summary: RankSummary, skills: np.ndarray, chance: Callable[[float], float]) -> str:
    """Say whether there is a winner, a tie, or not enough evidence, and what would settle it."""
    group = summary.component == 0
    tier = np.flatnonzero(group & (summary.tier == 1))
    said = ""
    if summary.num_components > 1:
        said = (
            f"No comparison links the {summary.num_components} components that the items fall "
            "into: there is no winner of them all. Of component 1, the largest: "
        )
    size, first = int(group.sum()), shown(summary.names[0])
    if size == 1:
        return f"{said}it holds one item."
    if len(tier) == 1:
        return f"{said}{first} is the best ({percent(float(summary.prob_best[0]))} sure)."
    if summary.provisional[0]:
        said += "There is not enough evidence to say which item is the best: "
        said += f"{len(tier):,} of {size:,} may be."
    else:
        names = ", ".join(shown(summary.names[i]) for i in tier[:_NAMED])
        more = ", ..." if len(tier) > _NAMED else "."
        said += f"A tie of {len(tier):,} of {size:,} items at the top: {names}{more}"
    return f"{said} {_what_would_tell(skills[:, summary.indices[tier]], chance)}"


def _what_would_tell(skills: np.ndarray, chance: Callable[[float], float]) -> str:
    number = comparisons_needed(skills, chance)
    if number > _MOST:
        return "They are estimated too close to say how many more comparisons would tell."
    digits = max(0, len(str(int(number))) - 2)
    rough = max(1, round(number / 10**digits) * 10**digits)
    more = "comparison" if rough == 1 else "comparisons"
    return (
        f"Roughly {rough:,} more {more} of the first with the others would tell, if they "
        "differ by what is estimated now."
    )


def is_log(data: ComparisonData) -> bool:
    """Whether there are positions, judges or categories to learn of."""
    return any(part is not None for part in (data.position, data.judges, data.categories))


def notes_on(
    data: ComparisonData, params: Params, spread: Mapping[str, np.ndarray] | None
) -> tuple[str, ...]:
    """Return sentences for a person who knows none of the methods."""
    notes = [f"{_counts(data)} {_unit(params)}"]
    if data.features is not None and len(data.feature_names) > 1:
        order = np.argsort(params["lengthscale"], kind="stable")
        names = ", ".join(data.feature_names[i] for i in order)
        notes.append(f"Features by how much skill depends on them, most first: {names}.")
    if data.times is not None:
        notes.append(
            f"Skills move with time, and are those at {_last(data.times)}. The time in which they "
            "do is `lengthscale`, in units of that from the first comparison to the last."
        )
    log = is_log(data) and spread is None
    notes.append(_scales_of_log(params) if log else _scales(params, spread))
    return tuple(notes)


def _last(times: np.ndarray) -> str:
    last = times.max()
    if times.dtype.kind != "M":
        return f"{last:g}"
    return str(last).removesuffix("T00:00:00.000000")


def _scales(params: Params, spread: Mapping[str, np.ndarray] | None) -> str:
    known = ", ".join(f"{name} {_numbers(value)}" for name, value in params.items())
    if spread is None:
        return (
            "The intervals allow for what the comparisons leave open about the skills. The scales "
            f"of the model are taken as known: {known}."
        )
    likely = ", ".join(
        f"{name} {_numbers(params[name])} ({_numbers(low)} to {_numbers(high)})"
        for name, (low, high) in spread.items()
    )
    return (
        "The intervals allow for what the comparisons leave open about the skills and about the "
        f"scales of the model, whose means (and 90% intervals) are: {likely}."
    )


def _scales_of_log(params: Params) -> str:
    known = ", ".join(
        f"{name} {_numbers(value)}" for name, value in params.items() if name != "tie_width"
    )
    return (
        "The intervals allow for what the comparisons leave open about the skills and the effects. "
        f"The scales of the priors are taken as known: {known}. That makes intervals of small logs "
        "too narrow: in leagues of 40 games 90% intervals hold 84%."
    )


def _counts(data: ComparisonData) -> str:
    parts = [count_of(data.num_items, "item"), count_of(data.num_comparisons, "comparison")]
    if data.orders is not None:
        parts[-1] = count_of(int(data.orders.counts.sum()), "order") + ", each one event"
    if data.tied.any():
        parts[-1] += f" ({count_of(int(data.tied.sum()), 'tie')})"
    if data.features is not None:
        parts.append(count_of(len(data.feature_names), "feature"))
    return ", ".join(parts) + "."


def _unit(params: Params) -> str:
    win, loss = (100 * win_chance(side, params) for side in (1.0, -1.0))
    tie = f", a tie in {100 - win - loss:.0f}" if "tie_width" in params else ""
    return (
        "Skills are above (+) or below (-) the average item's; one higher by 1 wins "
        f"{win:.0f} comparisons in 100{tie}."
    )


def _numbers(value: np.ndarray) -> str:
    return " ".join(f"{number:.3g}" for number in np.atleast_1d(value))
