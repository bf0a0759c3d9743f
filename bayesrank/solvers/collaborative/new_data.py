r"""New users and new items, without learning anything anew.

The base process carries a function over to a new item (Yu, Tresp and Schwaighofer, 2005, Learning
Gaussian processes from multiple tasks, ICML). With :math:`K` the mixed base kernel of the known
items, :math:`w = K^{-1} k(X, x)` and :math:`\epsilon \sim N(0, k(x, x) - w' k(X, x))`,

.. math:: f_j(x) = l + w'(f_j(X) - l 1) + \epsilon,

which extends mean and kernel of the known items to all of them.
"""

from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve
from threadpoolctl import threadpool_limits

from bayesrank.solvers.collaborative.data import check_observations
from bayesrank.solvers.collaborative.likelihoods import Likelihood, Ordinal
from bayesrank.solvers.collaborative.loop import EMSteps
from bayesrank.solvers.collaborative.posteriors import Observations
from bayesrank.solvers.collaborative.state import EMState, fingerprint

_STEPS = 200
_TOL = 1e-4


def fit_users(
    likelihood: Likelihood,
    state: EMState,
    users: ArrayLike,
    items: ArrayLike,
    levels: ArrayLike | None,
) -> tuple[Observations, EMState, dict[str, Any]]:
    """Fit new users' functions and own parameters: observations, state, and `EMResult` fields."""
    observations = check_observations(likelihood.name, users, items, levels, None, len(state.mean))
    parameters = len(state.shared_theta)
    if isinstance(likelihood, Ordinal) and observations.levels.max() > parameters:
        raise ValueError(
            f"levels go up to {observations.levels.max():g}, those known to {parameters}"
        )
    n, count = observations.num_users, len(observations.users)
    new = state._replace(
        tau=np.zeros(count),
        nu=np.zeros(count),
        theta=np.tile(state.shared_theta, (n, 1)),
        user_level=np.zeros(n),
        user_scale=np.ones(n),
        fingerprint=fingerprint(observations),
    )
    steps = EMSteps(observations, likelihood, None)
    with jax.enable_x64(True), threadpool_limits(1, user_api="blas"):
        figures: dict[str, Any] = {}
        moved = np.inf
        for _ in range(_STEPS):
            before, found = new, steps.expect(new)
            figures = {"log_evidence": found.log_evidence, "log_prior": steps.log_prior(before)}
            new = found.state
            if new.spread.any():
                new = steps.users_own(new, found, pooled=False)
            moved = max(found.delta, float(np.abs(new.theta - before.theta).max(initial=0.0)))
            if moved < _TOL:
                break
        return observations, new, figures | {"converged": moved < _TOL}


def extend_prior(
    state: EMState, kernels: NDArray[np.float64], across: ArrayLike, own: ArrayLike
) -> tuple[EMState, NDArray[np.float64]]:
    """Mean and kernel of known and new items, and the base kernels of all."""
    m, parts = len(state.mean), len(kernels)
    given = np.asarray(across), np.asarray(own)
    for name, array in zip(("across", "own"), given, strict=True):
        if array.dtype.kind not in "biuf":
            raise ValueError(f"{name} has dtype {array.dtype}; pass numbers")
    between, among = (x[None].astype(float) if x.ndim == 2 else x.astype(float) for x in given)
    k = between.shape[-1] if between.ndim else 0
    if between.shape != (parts, m, k) or among.shape != (parts, k, k):
        raise ValueError(
            f"across has shape {given[0].shape} and own {given[1].shape}; pass ({parts}, {m}, k) "
            f"and ({parts}, k, k), a base kernel each"
        )
    if not np.isfinite(between).all():
        raise ValueError("across is not finite; pass covariances of known with new items")
    if not np.isfinite(among).all() or not np.allclose(among, np.swapaxes(among, 1, 2)):
        raise ValueError("own is not symmetric, or not finite; pass a covariance matrix")
    mixed, cross, rest = (
        np.einsum("c,cij->ij", state.scales, x) for x in (kernels, between, among)
    )
    weights = cho_solve(cho_factor(mixed, lower=True), cross)
    residual = rest - cross.T @ weights
    residual = 0.5 * (residual + residual.T)
    size = max(float(np.diagonal(x).max(initial=0.0)) for x in (mixed, rest))
    _check_residual(residual, weights, size * _rounding(*given))
    mean = np.append(state.mean, state.level + weights.T @ (state.mean - state.level))
    follow = state.kernel @ weights
    kernel = np.block([[state.kernel, follow], [follow.T, weights.T @ follow + residual]])
    extended = np.block([[kernels, between], [np.swapaxes(between, 1, 2), among]])
    return state._replace(mean=mean, kernel=kernel), extended


def _rounding(*arrays: NDArray[Any]) -> float:
    """Relative error of the numbers in arrays."""
    dtype = np.result_type(*arrays)
    return float(np.finfo(dtype if dtype.kind == "f" else float).eps)


def _check_residual(
    residual: NDArray[np.float64], weights: NDArray[np.float64], error: float
) -> None:
    """Refuse new items that vary less than the known ones say; all kernels have an error."""
    # What such errors can make of the smallest eigenvalue, and those of solving.
    slack = sum(weights.shape) * error * (1.0 + np.abs(weights).sum(axis=0).max(initial=0.0)) ** 2
    least = np.linalg.eigvalsh(residual).min(initial=0.0)
    if least < -slack:
        raise ValueError(
            "own is too small for across: given the known items, the new ones would have a "
            f"variance of {least:.2g}; make own, across and the kernel of run by one function"
        )
