"""What to say below the table: the unit of skill, and what it depends on."""

from collections.abc import Mapping

import numpy as np

from bayesrank._names import count_of
from bayesrank.cli.unit import win_chance
from bayesrank.datasets import ComparisonData


def is_log(data: ComparisonData) -> bool:
    """Whether there are positions, judges or categories to learn of."""
    return any(part is not None for part in (data.position, data.judges, data.categories))


def notes_on(
    data: ComparisonData, params: Mapping[str, np.ndarray], spread: Mapping[str, np.ndarray] | None
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


def _scales(params: Mapping[str, np.ndarray], spread: Mapping[str, np.ndarray] | None) -> str:
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


def _scales_of_log(params: Mapping[str, np.ndarray]) -> str:
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


def _unit(params: Mapping[str, np.ndarray]) -> str:
    win, loss = (100 * win_chance(side, params) for side in (1.0, -1.0))
    tie = f", a tie in {100 - win - loss:.0f}" if "tie_width" in params else ""
    return (
        "Skills are above (+) or below (-) the average item's; one higher by 1 wins "
        f"{win:.0f} comparisons in 100{tie}."
    )


def _numbers(value: np.ndarray) -> str:
    return " ".join(f"{number:.3g}" for number in np.atleast_1d(value))
