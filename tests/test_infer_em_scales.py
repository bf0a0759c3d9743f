"""Scales of base kernels against a direct maximisation of the objective that they are to raise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

from bayesrank.infer._em_scales import update_scales

M, USERS = 6, 9.0
RNG = np.random.default_rng(3)
ROOTS = RNG.normal(size=(2, M, M))
KERNELS = np.stack([*(ROOTS @ ROOTS.transpose(0, 2, 1) / M), np.eye(M)])
SIZE = np.trace(KERNELS, axis1=1, axis2=2) / M
DRAWS = RNG.normal(size=(int(USERS), M)) @ np.linalg.cholesky(np.einsum("c,cij", [2.0, 0.1, 0.5],
    KERNELS)).T  # fmt: skip
MOMENTS = DRAWS.T @ DRAWS


def _objective(scales, strength):
    base = np.einsum("c,cij->ij", scales, KERNELS)
    shared = (MOMENTS + strength * base) / (USERS + strength)
    log_det = (np.linalg.slogdet(matrix)[1] for matrix in (base, shared))
    ours, theirs = log_det
    return 0.5 * strength * ours - 0.5 * (USERS + strength) * theirs


@pytest.mark.parametrize("strength", [2.0, 5000.0])
@pytest.mark.parametrize("hold_size", [False, True])
def test_steps_never_lower_the_objective_and_end_at_its_maximum(strength, hold_size):
    with jax.enable_x64(True):
        given = jnp.asarray(KERNELS), jnp.asarray(MOMENTS), jnp.asarray(USERS)
        step = jax.jit(lambda s: update_scales(s, *given, strength, hold_size=hold_size))
        scales, trace = np.ones(3), []
        for _ in range(60):
            trace.append(_objective(scales, strength))
            scales = np.asarray(step(scales))
    assert np.diff(trace).min() > -1e-9 * abs(trace[0])

    def loss(logs):
        scales = np.exp(logs)
        if hold_size:
            scales *= SIZE.sum() / (scales @ SIZE)
        return -_objective(scales, strength)

    best = minimize(loss, np.zeros(3), method="Nelder-Mead",
                    options={"xatol": 1e-6, "fatol": 1e-9, "maxiter": 4000})  # fmt: skip
    np.testing.assert_allclose(trace[-1], -best.fun, atol=1e-4)
    if hold_size:
        np.testing.assert_allclose(scales @ SIZE, SIZE.sum(), rtol=1e-9)
