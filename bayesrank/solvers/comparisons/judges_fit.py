"""EM for a log of comparisons: EP over skills and biases, the evidence for the rest."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, cg

from bayesrank._stack import outside
from bayesrank.infer import ConvergenceWarning
from bayesrank.models.comparisons import SCALES
from bayesrank.solvers.comparisons.counted import ArenaData
from bayesrank.solvers.comparisons.judges_result import ArenaFit, arena_fit
from bayesrank.solvers.comparisons.judges_state import (
    ArenaState,
    Moments,
    Posterior,
    initial_arena_state,
    posterior,
    row_variances,
    solve,
)

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


_STEPS = 30  # of one round, at most
_REST = 0.01  # a round's last change, in posterior standard deviations


def fit_arena(
    data: ArenaData,
    *,
    scales: Mapping[str, float] | None = None,
    max_rounds: int = 50,
    tolerance: float = 0.1,
    callback: Callable[[int, float], None] | None = None,
) -> ArenaFit:
    """Learn the scales and reliabilities, and the posterior of all else.

    Each round computes the covariances once, which dominates the time with thousands of latents. In
    between, sites, reliabilities and the tie width converge at fixed cavity variances; conjugate
    gradients find the means.

    Parameters
    ----------
    data
        The log.
    scales
        Values of scales that are held fixed, by their names in
        `bayesrank.models.judged_comparisons`; the others are learned.
    max_rounds
        Largest number of rounds.
    tolerance
        Largest change in a round at which the fit has converged: of means in posterior standard
        deviations, and of log scales.
    callback
        Called after each round with its number and its largest change.

    Returns
    -------
    ArenaFit
        Scales, reliabilities, and the Gaussian posterior of all else.

    Raises
    ------
    ValueError
        If `scales` has a name that this log's model has not, or a value that is not positive.

    Warns
    -----
    ConvergenceWarning
        If it has not converged after `max_rounds`.
    """
    state, change, rounds = initial_arena_state(data, scales or {}), np.inf, 0
    state.update_sites()
    known: dict[str, Floats] = {}
    for rounds in range(1, max_rounds + 1):
        before = _unknowns(state)
        found = _covariances(state)
        state.variances, state.precision_then = row_variances(state.design, found), state.precision
        fresh = _information(state, found)
        # Half of the last round's: two scales that the data cannot tell apart would change places.
        known = {k: 0.5 * (v + known.get(k, v)) for k, v in fresh.items()}
        sure = _settle(state, found, known)
        change = float(np.abs((_unknowns(state) - before) / _deviations(state, found, sure)).max())
        if callback is not None:
            callback(rounds, change)
        if change < tolerance:
            break
    else:
        warnings.warn(
            f"the fit of the log has not converged after {max_rounds} rounds; the last changed "
            f"something by {change:.2g} standard deviations",
            ConvergenceWarning,
            stacklevel=outside(),
        )
    return arena_fit(state, change < tolerance, rounds)


def _covariances(state: ArenaState) -> Posterior:
    own = []
    if state.design.num_local:
        own = [(state.design.position, state.scales["bias_scale"])]
    return posterior(state.shared_precision(), *state.judges_blocks(own))


def _shifts(state: ArenaState) -> tuple[Floats, Floats]:
    """Precision times mean of the latents, which the sites make."""
    design = state.design
    shift = design.data.counts * state.shift
    return design.to_global(shift * state.reliability, shift), _to_bias(state, shift)


def _to_bias(state: ArenaState, weight: Floats) -> Floats:
    if not state.design.num_local:
        return np.zeros(0)
    return state.design.to_local(weight * state.design.position)


def _settle(state: ArenaState, found: Posterior, information: dict[str, Floats]) -> Floats:
    """Bring all to rest with the variances held; return precisions of the log reliabilities."""
    data = state.design.data
    sure = np.ones(len(state.log_reliability))
    for _ in range(_STEPS):
        before = _unknowns(state)
        cavity = state.cavity()
        state.update_sites(cavity)
        if data.num_judges:
            sure = learn_reliabilities(state, cavity)
            prior = state.scales["reliability_scale"] ** -2.0
            learn_scale(state, "reliability_scale", state.log_reliability, sure - prior)
        if data.with_ties:
            learn_tie_width(state, cavity)
        _solve_means(state, found)
        for name, latents in _latents(state).items():
            learn_scale(state, name, latents, information[name])
        moved = (_unknowns(state) - before) / _deviations(state, found, sure)
        if np.abs(moved).max() < _REST:
            break
    return sure


def _latents(state: ArenaState) -> dict[str, Floats]:
    """Means of the latents that share each scale."""
    data = state.design.data
    n = data.num_items
    latents = {"scale": state.x[:n]}
    if state.design.with_categories:
        latents["category_scale"] = state.x[n : n + n * data.num_categories]
    if state.design.num_local:
        latents["bias_scale"] = state.bias
    return latents


def _information(state: ArenaState, found: Posterior) -> dict[str, Floats]:
    """What the data add to the prior precision of each latent, by the scale of its prior."""
    data, variances = state.design.data, np.diagonal(found.covariance)
    n = data.num_items
    parts = {"scale": variances[:n]}
    if state.design.with_categories:
        parts["category_scale"] = variances[n : n + n * data.num_categories]
    if state.design.num_local:
        parts["bias_scale"] = found.local[:, 0, 0]
    return {name: 1.0 / part - state.scales[name] ** -2.0 for name, part in parts.items()}


def _solve_means(state: ArenaState, found: Posterior) -> None:
    """Solve for the means at the present sites; an earlier posterior is the preconditioner."""
    design, size = state.design, state.design.size
    weight, reliability = design.data.counts * state.precision, state.reliability
    prior = state.prior()
    prior_bias = state.scales.get("bias_scale", 1.0) ** -2.0

    def product(vector: Floats) -> Floats:
        x, bias = vector[:size], vector[size:]
        margin = reliability * design.differences(x) + design.advantages(x, bias)
        margin *= weight
        own = design.to_global(margin * reliability, margin) + prior * x
        return np.concatenate([own, _to_bias(state, margin) + prior_bias * bias])

    def precondition(vector: Floats) -> Floats:
        return np.concatenate(solve(found, vector[:size], vector[size:]))

    total = size + design.num_local
    operator: Any = LinearOperator
    start = np.concatenate([state.x, state.bias])
    target = np.concatenate(_shifts(state))
    solution, _ = cg(
        operator((total, total), matvec=product, dtype=np.float64),
        target,
        x0=start,
        rtol=1e-6,
        maxiter=100,
        M=operator((total, total), matvec=precondition, dtype=np.float64),
    )
    state.x, state.bias = solution[:size], solution[size:]


def _unknowns(state: ArenaState) -> Floats:
    """All that is learned, with skills relative to the average item's."""
    n = state.design.data.num_items
    logs = np.log(list(state.scales.values()))
    x = state.x.copy()
    x[:n] -= x[:n].mean()  # comparisons say nothing of the level
    return np.concatenate([x, state.bias, state.log_reliability, logs])


def _deviations(state: ArenaState, found: Posterior, sure: Floats) -> Floats:
    """Posterior standard deviations of all that is learned; one for logarithms of scales."""
    variances = np.concatenate([np.diagonal(found.covariance), found.local[:, :1, :1].ravel()])
    return np.sqrt(np.concatenate([variances, 1.0 / sure, np.ones(len(state.scales))]))


# What averaging may change where it is left out, in posterior standard deviations of a skill: its
# mean, and its own standard deviation as a share.
_SHIFT, _GROWTH = 0.1, 0.03


def settles_scales(data: ArenaData, fit: ArenaFit, fixed: Mapping[str, float]) -> bool:
    """Whether averaging over the scales would change no skill by more than a little.

    Learned scales of skills, overall and in categories, move by one posterior standard deviation of
    their logarithm either way. Averaging the two fits is Gauss-Hermite quadrature by two points.

    Parameters
    ----------
    data, fit
        The log, and what `fit_arena` made of it.
    fixed
        Scales that were held fixed, by name.
    """
    mean, variance = _skills(fit)
    shift, growth = np.zeros_like(mean), np.zeros_like(mean)
    for name in sorted({"scale", "category_scale"} & fit.scales.keys() - fixed.keys()):
        step = np.exp(_deviation(fit, name))
        moved = [
            _skills(fit_arena(data, scales={**fit.scales, name: fit.scales[name] * factor}))
            for factor in (1.0 / step, step)
        ]
        (low, low_variance), (high, high_variance) = moved
        shift += np.abs(0.5 * (low + high) - mean)
        growth += 0.5 * (low_variance + high_variance) + 0.25 * (high - low) ** 2 - variance
    sd = np.sqrt(variance)
    few = (shift <= _SHIFT * sd).all() and (growth <= ((1.0 + _GROWTH) ** 2 - 1.0) * variance).all()
    return bool(few and fit.converged)


def _skills(fit: ArenaFit) -> tuple[Floats, Floats]:
    """Means and variances of skills about their average, overall and in each category."""
    shares = [None, *np.eye(fit.num_categories)]
    means, covariances = map(np.array, zip(*map(fit.skills, shares), strict=True))
    own = np.diagonal(covariances, axis1=1, axis2=2) - 2.0 * covariances.mean(axis=2)
    variances = own + covariances.mean(axis=(1, 2))[:, None]
    return means - means.mean(axis=1, keepdims=True), variances


def _deviation(fit: ArenaFit, name: str) -> float:
    """Standard deviation of the logarithm of a scale, by how much of each latent data determine."""
    scale, n = fit.scales[name], fit.num_items
    variances, own = np.diagonal(fit.covariance)[:n], n * (1 + fit.num_categories)
    if name == "category_scale":
        variances = np.diagonal(fit.covariance)[n:own]
    known = np.clip(1.0 - variances / scale**2, 0.0, 1.0)
    return float((2.0 * (known**2).sum() + SCALES[name].sd ** -2.0) ** -0.5)
