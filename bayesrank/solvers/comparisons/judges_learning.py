"""Reliabilities and scales by EP's evidence, at fixed cavities (the M-step)."""

import numpy as np
from numpy.typing import NDArray

from bayesrank.models.comparisons import SCALES
from bayesrank.solvers.comparisons.judges_sites import Moments
from bayesrank.solvers.comparisons.judges_state import ArenaState

Floats = NDArray[np.float64]

_LONGEST = 0.5  # of a step, in the logarithm


def learn_reliabilities(state: ArenaState, cavity: tuple[Floats, Floats, Moments]) -> Floats:
    """Take a Newton step for each judge's log reliability; return the posterior precisions."""
    design, count = state.design, state.design.data.counts
    _, difference, _ = state.margins()
    reliability = state.reliability
    _, variance, found = cavity
    change = 0.0
    if state.variances is not None:
        # How the cavity's mean and variance of the margin change with the log reliability.
        with_margin = reliability * state.variances.difference + state.variances.both
        share = with_margin * (1.0 + variance * state.precision)
        residual = state.precision * state.margins()[0] - state.shift
        difference = difference + share * residual
        own = state.variances.difference + state.precision * with_margin * share
        both = state.variances.both + state.precision * share * (
            state.variances.margin(reliability) - reliability * with_margin
        )
        change = reliability**2 * own + reliability * both
    slope = found.mean * reliability * difference + (found.mean2 + found.mean**2) * change
    bend = -found.mean2 * (reliability * difference) ** 2
    precision = state.scales["reliability_scale"] ** -2.0
    slopes = design.to_local(count * slope)
    # In the logarithm the evidence bends by its own slope, too: what keeps a random judge's steps
    # from growing.
    bends = design.to_local(count * bend) + np.maximum(-slopes, 0.0) + precision
    slopes -= precision * state.log_reliability
    state.log_reliability = state.log_reliability + np.clip(slopes / bends, -_LONGEST, _LONGEST)
    if state.fixed & {"scale", "category_scale"}:
        return bends
    level = state.log_reliability.mean()
    state.log_reliability -= level
    state.x = state.x.copy()
    skills = design.size - design.data.with_position
    state.x[:skills] *= np.exp(level)
    return bends


def learn_tie_width(state: ArenaState, cavity: tuple[Floats, Floats, Moments]) -> None:
    """Take a Newton step in the logarithm of the tie width, unless it is held fixed."""
    if "tie_width" in state.fixed:
        return
    found = cavity[2]
    count, prior, width = state.design.data.counts, SCALES["tie_width"], state.tie_width
    slope = width * float(count @ found.width)
    bend = slope + width**2 * float(count @ found.width2) - prior.sd**-2.0
    slope -= np.log(width / prior.median) / prior.sd**2
    step = np.clip(slope / max(-bend, abs(slope)), -_LONGEST, _LONGEST)
    state.scales["tie_width"] = float(width * np.exp(step))


def learn_scale(state: ArenaState, name: str, means: Floats, information: Floats) -> None:
    """Set a scale that is not fixed to the evidence's mode at given shrinkage (MacKay's update)."""
    if name in state.fixed:
        return
    prior, old = SCALES[name], state.scales[name]
    ratios = np.maximum(information, 0.0) * old**2
    known = float((ratios / (1.0 + ratios)).sum())  # number of latents that the data determine
    total, log = float((means**2).sum()), np.log(old)
    for _ in range(50):
        ratio = total * np.exp(-2.0 * log)
        value = ratio - known - (log - np.log(prior.median)) / prior.sd**2
        step = value / (2.0 * ratio + prior.sd**-2.0)
        log += np.clip(step, -1.0, 1.0)
        if abs(step) < 1e-10:
            break
    # Half the way: where the data say little, whole steps go to and fro.
    state.scales[name] = float(np.sqrt(old * np.exp(log)))
