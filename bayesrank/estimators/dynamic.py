"""Skills that move, ahead of the last comparison; see `bayesrank.models.dynamic`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from bayesrank.estimators.comparisons import Comparisons
from bayesrank.estimators.skills import SkillComponent, components, weighted_results
from bayesrank.estimators.times import Clock, read_times
from bayesrank.infer import EPResult, IntegratedEPResult
from bayesrank.models.dynamic import PROCESSES
from bayesrank.solvers.comparisons import check_room, move, pace_of, steps_of

__all__ = ["components_at", "moving"]

Array = NDArray[np.float64]


def moving(
    process: Any, num_items: int, data: Comparisons
) -> tuple[Clock, dict[str, tuple[int, ...]], dict[str, Any]]:
    """What a fit of the program needs: a clock, shapes of hyperparameters, and arguments.

    Raises
    ------
    ValueError
        If there is no such process, the times are none, or there is too little memory.
    """
    if process not in PROCESSES:
        raise ValueError(f"time is {process!r}; choose None or one of {PROCESSES}")
    if data.time is None:
        raise ValueError(
            f"PairwiseRanker(time={process!r}) has to know when each comparison was; pass time to "
            "fit, or a column time"
        )
    check_room(num_items, len(data.pairs), process)
    times, dates = read_times(data.time, "time")
    clock = Clock(float(times.min()), float(times.max()), dates)
    distinct, period = np.unique(clock.scaled(times), return_inverse=True)
    options = {"times": distinct, "period": period, "process": process}
    return clock, {"scale": (), pace_of(process): ()}, options


def components_at(
    result: EPResult | IntegratedEPResult, clock: Clock | None, time: Any, count: int
) -> Iterator[tuple[NDArray[np.intp], list[SkillComponent]]]:
    """What the posterior of the skills is made of at each of some times.

    Parameters
    ----------
    result
        The posterior; where skills move, of `bayesrank.solvers.comparisons.DynamicEP`.
    clock
        None where skills stand still.
    time
        One time, or one for each row, no earlier than the last comparison; None is that one's.
    count
        How many rows there are.

    Yields
    ------
    tuple
        The rows that are of one time, and the components then.

    Raises
    ------
    ValueError
        If times are given and skills stand still, or a time is too early or of another kind.
    """
    if clock is None:
        if time is not None:
            raise ValueError("time is given, but skills stand still; pass PairwiseRanker(time=)")
        yield np.arange(count), components(result)
        return
    gaps = np.zeros(count) if time is None else clock.ahead(time)
    if gaps.size not in (1, count):
        raise ValueError(f"time has {gaps.size} entries; pass one, or {count}")
    gaps = np.broadcast_to(gaps, count)
    for gap in np.unique(gaps):
        parts = [_moved(part, result.model_kwargs, gap) for part in weighted_results(result)]
        yield np.flatnonzero(gaps == gap), parts


def _moved(part: Any, options: dict[str, Any], gap: float) -> SkillComponent:
    weight, params, moments = part
    process = options["process"]
    num_items = len(moments.mean["f"])
    mean = moments.joint_mean.reshape(-1, num_items)
    covariance = moments.joint_covariance.reshape(mean.shape * 2)
    scale, pace = params["scale"], params[pace_of(process)]
    with jax.enable_x64(True):
        steps = steps_of(process, scale, pace, jnp.array([gap]))
        moved = move(jnp.asarray(mean), jnp.asarray(covariance), steps.decay[0], steps.noise[0])
    mean, covariance = (np.asarray(array) for array in moved)
    prior = float(scale) ** 2
    if process == "walk":
        prior += float(pace) ** 2 * (float(np.ptp(options["times"])) + gap)
    return SkillComponent(weight, params, mean[0], covariance[0, :, 0], prior)
