r"""New users and new items, without learning anything anew.

A new item is carried over by the base process: with :math:`K` the mixed base kernel of the known
items and :math:`w = K^{-1} k(X, x)`,

.. math::
    f_j(x) = l + w'(f_j(X) - l 1) + \epsilon, \qquad
    \epsilon \sim N(0, k(x, x) - k(x, X) K^{-1} k(X, x)),

which makes mean and kernel of the known items into those of all of them.

References
----------
Yu, K., Tresp, V. and Schwaighofer, A. (2005). Learning Gaussian processes from multiple
tasks. ICML.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve

from bayesrank.infer._compile import jit
from bayesrank.infer._em_blocks import Block, Observations, make_blocks
from bayesrank.infer._em_checks import check_observations
from bayesrank.infer._em_estep import Sums, no_sums
from bayesrank.infer._em_iterate import Setting, expect
from bayesrank.infer._em_posterior import Prior, UserState
from bayesrank.infer._em_state import EMState, fingerprint, pack, unpack

__all__ = ["extend_prior", "fit_users"]

Array = NDArray[np.float64]

_SWEEPS = 50
_TOL = 1e-4


def fit_users(
    setting: Setting, state: EMState, users: ArrayLike, items: ArrayLike, levels: ArrayLike | None
) -> tuple[Observations, EMState, dict[str, Any]]:
    """Sweep over the sites of new users, whose likelihood has the shared parameters.

    Returns
    -------
    tuple
        Their observations, their state, and the figures of an `EMResult`.
    """
    observations = check_observations(
        setting.likelihood, users, items, levels, None, len(state.mean)
    )
    parameters = len(state.shared_theta)
    if setting.likelihood in ("probit", "logit") and observations.levels.max() > parameters:
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
    blocks = make_blocks(observations, most=2, alike=True)
    with jax.enable_x64(True):
        laid_out = unpack(start, blocks)
        sums = no_sums(len(state.mean), shared=False)
        for _ in range(_SWEEPS):
            sums, users = no_sums(len(state.mean), shared=False), []
            for block, user in zip(blocks, laid_out.users, strict=True):
                after, sums = _sweep(setting, laid_out.prior, user, block, sums)
                users.append(after)
            laid_out = laid_out._replace(users=tuple(users))
            if float(sums.delta) < _TOL:
                break
        figures = {
            "log_evidence": float(sums.log_evidence),
            "log_prior": 0.0,
            "converged": float(sums.delta) < _TOL,
        }
        return observations, pack(laid_out, blocks, observations), figures


@partial(jit, static_argnums=0)
def _sweep(
    setting: Setting, prior: Prior, users: UserState, block: Block, sums: Sums
) -> tuple[UserState, Sums]:
    """Make the E-step of a block, without what shared parameters are learned from."""
    fixed = setting._replace(collaborative=False, learn_spread=False)
    after, _, sums = expect(fixed, None, prior, users, block, sums)
    return after, sums


def extend_prior(
    state: EMState, kernels: Array, across: ArrayLike, own: ArrayLike
) -> tuple[EMState, Array]:
    """Mean and kernel of known and new items, and the base kernels of all."""
    m, parts = len(state.mean), len(kernels)
    between, among = (np.asarray(x, float) for x in (across, own))
    between = between[None] if between.ndim == 2 else between
    among = among[None] if among.ndim == 2 else among
    k = between.shape[-1]
    if between.shape != (parts, m, k) or among.shape != (parts, k, k):
        raise ValueError(
            f"across has shape {np.shape(across)} and own {np.shape(own)}; pass ({parts}, {m}, k) "
            f"and ({parts}, k, k), a base kernel each"
        )
    mixed, cross, rest = (
        np.einsum("c,cij->ij", state.scales, x) for x in (kernels, between, among)
    )
    weights = cho_solve(cho_factor(mixed, lower=True), cross)
    residual = rest - cross.T @ weights
    mean = np.append(state.mean, state.level + weights.T @ (state.mean - state.level))
    carried = state.kernel @ weights
    kernel = np.block([[state.kernel, carried], [carried.T, weights.T @ carried + residual]])
    extended = np.block([[kernels, between], [np.swapaxes(between, 1, 2), among]])
    return state._replace(mean=mean, kernel=kernel), extended
