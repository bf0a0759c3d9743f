"""EM for a log of comparisons: EP over skills and biases, the evidence for the rest."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, cg

from bayesrank._stack import outside
from bayesrank.infer import ConvergenceWarning
from bayesrank.solvers.comparisons.counted import ArenaData
from bayesrank.solvers.comparisons.judges_gaussian import Posterior, posterior, row_variances, solve
from bayesrank.solvers.comparisons.judges_learning import (
    learn_reliabilities,
    learn_scale,
    learn_tie_width,
)
from bayesrank.solvers.comparisons.judges_result import ArenaFit, arena_fit
from bayesrank.solvers.comparisons.judges_state import ArenaState, initial_arena_state

Floats = NDArray[np.float64]

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
