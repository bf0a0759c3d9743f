r"""New users and new items, without learning anything anew.

The base process carries a function over to a new item (Yu, Tresp and Schwaighofer, 2005, Learning
Gaussian processes from multiple tasks, ICML). With :math:`K` the mixed base kernel of the known
items, :math:`w = K^{-1} k(X, x)` and :math:`\epsilon \sim N(0, k(x, x) - w' k(X, x))`,

.. math:: f_j(x) = l + w'(f_j(X) - l 1) + \epsilon,

which extends mean and kernel of the known items to all of them.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve

from bayesrank.gp import KernelPrior
from bayesrank.infer.spi import jit
from bayesrank.solvers.collaborative.blocks import make_blocks
from bayesrank.solvers.collaborative.data import check_observations
from bayesrank.solvers.collaborative.e_step import expect
from bayesrank.solvers.collaborative.likelihood_ordinal import Ordinal
from bayesrank.solvers.collaborative.state import EMState, fingerprint, pack, unpack
from bayesrank.solvers.collaborative.types import (
    LikelihoodParams,
    Observations,
    Setting,
    SharedPrior,
    State,
    UserBlock,
    UserState,
)

_STEPS = 200
_TOL = 1e-4


def fit_users(
    setting: Setting, state: EMState, users: ArrayLike, items: ArrayLike, levels: ArrayLike | None
) -> tuple[Observations, EMState, dict[str, Any]]:
    """Fit new users' functions and own parameters: observations, state, and `EMResult` fields."""
    observations = check_observations(
        setting.likelihood.name, users, items, levels, None, len(state.mean)
    )
    parameters = len(state.shared_theta)
    if isinstance(setting.likelihood, Ordinal) and observations.levels.max() > parameters:
        raise ValueError(
            f"levels go up to {observations.levels.max():g}, those known to {parameters}"
        )
    n, count = observations.num_users, len(observations.users)
    start = state._replace(
        tau=np.zeros(count),
        nu=np.zeros(count),
        theta=np.tile(state.shared_theta, (n, 1)),
        user_level=np.zeros(n),
        user_scale=np.ones(n),
        fingerprint=fingerprint(observations),
    )
    blocks = make_blocks(observations, max_blocks=2, alike=True)
    with jax.enable_x64(True):
        laid_out, placed = jax.device_put((unpack(start, blocks), blocks))
        figures: dict[str, Any] = {}
        for _ in range(_STEPS):
            laid_out, figures = _round(setting, laid_out, placed)
            if figures["converged"]:
                break
        return observations, pack(laid_out, blocks, observations, setting.model), figures


def _round(
    setting: Setting, state: State, blocks: tuple[UserBlock, ...]
) -> tuple[State, dict[str, Any]]:
    """Make a step of all blocks; also return the results of the state that it began with."""
    # Code is compiled for a kind of observation, whatever else was settled when EM was run.
    fixed = Setting(
        setting.likelihood,
        collaborative=False,
        kernel_prior=KernelPrior(()),
        mean_strength=0.0,
        learn_base=False,
    )
    pairs = zip(blocks, state.users, strict=True)
    steps = [_step(fixed, state.prior, state.params, user, block) for block, user in pairs]
    users, log_evidence, log_prior, moved = zip(*steps, strict=True)
    return state._replace(users=users), {
        "log_evidence": float(sum(log_evidence)),
        "log_prior": float(sum(log_prior)),
        "converged": float(max(moved)) < _TOL,
    }


@partial(jit, static_argnums=0)
def _step(
    setting: Setting,
    prior: SharedPrior,
    params: LikelihoodParams,
    users: UserState,
    block: UserBlock,
) -> tuple[UserState, Array, Array, Array]:
    """E- and M-step of a block: users, log evidence (), log prior () before it, and the change."""
    likelihood, known = setting.likelihood, block.known
    users, moved = likelihood.alone(params, prior, users, block)
    log_prior = likelihood.log_prior(params, users.theta, known)
    after, own, sums = expect(setting, None, prior, users, block)
    if not likelihood.exact and params.shared.shape[0]:
        after = likelihood.m_step(params, (after,), (own,), (known,), pooled=False)[1][0]
        change = jnp.abs(after.theta - users.theta)
        moved = jnp.max(jnp.where(known[..., None], change, 0.0))
    return after, sums.log_evidence, log_prior, jnp.maximum(moved, sums.delta)


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
