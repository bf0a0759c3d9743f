"""Scales of base kernels against a direct maximisation of the objective that they are to raise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

from bayesrank.solvers.collaborative.carry import CoreKernels, carry
from bayesrank.solvers.collaborative.kernel_prior import Tier, make_tiers
from bayesrank.solvers.collaborative.scales import Moments, update_scales

M, USERS = 6, 9.0
RNG = np.random.default_rng(3)
ROOTS = RNG.normal(size=(2, M, M))
KERNELS = np.stack([*(ROOTS @ ROOTS.transpose(0, 2, 1) / M), np.eye(M)])
DRAWS = RNG.normal(size=(int(USERS), M)) @ np.linalg.cholesky(np.einsum("c,cij", [2.0, 0.1, 0.5],
    KERNELS)).T  # fmt: skip
MOMENTS = DRAWS.T @ DRAWS


def _objective(scales, tiers):
    """Of draws of the core, and of what is left of other items: normal variables of their own."""
    base, core = np.einsum("c,cij->ij", scales, KERNELS), tiers[-1].end
    inside, total = base[:core, :core], 0.0
    for start, end, strength in tiers:
        shared = (MOMENTS[:core, :core] + strength * inside) / (USERS + strength)
        ours, theirs = (
            np.linalg.slogdet(matrix[:end, :end])[1] - np.linalg.slogdet(matrix[:start, :start])[1]
            for matrix in (inside, shared)
        )
        total += 0.5 * strength * ours - 0.5 * (USERS + strength) * theirs
    weights = np.linalg.solve(inside, base[:core, core:])
    own = np.diagonal(base)[core:] - np.sum(base[:core, core:] * weights, axis=0)
    left = DRAWS[:, core:] - DRAWS[:, :core] @ weights
    rest = USERS * np.log(own) + (left**2).sum(axis=0) / own
    return total - 0.5 * rest.sum()


def _step(scales, tiers, hold_size):
    core = tiers[-1].end
    kernels = CoreKernels(
        jnp.asarray(KERNELS[:, :core, :core]),
        jnp.asarray(KERNELS[:, :core, core:]),
        jnp.diagonal(jnp.asarray(KERNELS), axis1=1, axis2=2)[:, core:],
    )
    carried = carry(scales, kernels)
    inside = jnp.asarray(DRAWS[:, :core])
    left = jnp.asarray(DRAWS[:, core:]) - inside @ carried.weights
    moments = Moments(inside.T @ inside, inside.T @ left, jnp.sum(left**2, axis=0))
    users = jnp.asarray(USERS)
    return update_scales(scales, kernels, carried, moments, users, tiers, hold_size=hold_size)


@pytest.mark.parametrize(
    ("tiers", "hold_size", "second"),
    [
        (make_tiers(M, 2.0), False, 1.0),
        (make_tiers(M, 5000.0), True, 1.0),
        (make_tiers(3, 2.0), False, 1.0),
        (make_tiers(1, 50.0), False, 1e-6),  # as small as may be, and has to stay so
        ((Tier(0, 2, 2.0), Tier(2, M, 50.0)), False, 1.0),
        ((Tier(0, 2, 9.0), Tier(2, 3, 3.0), Tier(3, 4, 30.0)), True, 1.0),
    ],
)
def test_steps_never_lower_the_objective_and_end_at_its_maximum(tiers, hold_size, second):
    with jax.enable_x64(True):
        step = jax.jit(lambda scales: _step(scales, tiers, hold_size))
        scales, trace = np.array([1.0, second, 1.0]), []
        for _ in range(60):
            trace.append(_objective(scales, tiers))
            scales = np.asarray(step(scales))
    assert np.diff(trace).min() > -1e-9 * abs(trace[0])
    core = tiers[-1].end
    size = np.trace(KERNELS[:, :core, :core], axis1=1, axis2=2)

    def loss(logs):
        scales = np.exp(logs)
        if hold_size:
            scales *= size.sum() / (scales @ size)
        return -_objective(scales, tiers)

    best = minimize(loss, np.zeros(3), method="Nelder-Mead",
                    options={"xatol": 1e-6, "fatol": 1e-9, "maxiter": 4000})  # fmt: skip
    np.testing.assert_allclose(trace[-1], -best.fun, atol=1e-4)
    if hold_size:
        np.testing.assert_allclose(scales @ size, size.sum(), rtol=1e-9)
