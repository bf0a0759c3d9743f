"""Scales of base kernels against a direct maximisation of the objective that they are to raise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

from bayesrank.gp import KernelPrior, Tier
from bayesrank.solvers.collaborative.kernel_prior import (
    CoreKernels,
    FunctionMoments,
    condition_on_core,
    update_scales,
)

M, USERS = 6, 9.0
RNG = np.random.default_rng(3)
ROOTS = RNG.normal(size=(2, M, M))
KERNELS = np.stack([*(ROOTS @ ROOTS.transpose(0, 2, 1) / M), np.eye(M)])
DRAWS = RNG.normal(size=(int(USERS), M)) @ np.linalg.cholesky(np.einsum("c,cij", [2.0, 0.1, 0.5],
    KERNELS)).T  # fmt: skip
MOMENTS = DRAWS.T @ DRAWS


def _objective(scales, prior):
    """Of draws of the core, and of what is left of other items: normal variables of their own."""
    base, core = np.einsum("c,cij->ij", scales, KERNELS), prior.num_core
    inside, total = base[:core, :core], 0.0
    for start, end, strength in prior.tiers:
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


def _step(scales, prior, hold_size):
    core = prior.num_core
    kernels = CoreKernels(
        jnp.asarray(KERNELS[:, :core, :core]),
        jnp.asarray(KERNELS[:, :core, core:]),
        jnp.diagonal(jnp.asarray(KERNELS), axis1=1, axis2=2)[:, core:],
    )
    conditional = condition_on_core(scales, kernels)
    inside = jnp.asarray(DRAWS[:, :core])
    left = jnp.asarray(DRAWS[:, core:]) - inside @ conditional.weights
    moments = FunctionMoments(inside.T @ inside, inside.T @ left, jnp.sum(left**2, axis=0))
    users = jnp.asarray(USERS)
    return update_scales(scales, kernels, conditional, moments, users, prior, hold_size=hold_size)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("prior", "hold_size", "second"),
    [
        (KernelPrior.for_items(M, 2.0), False, 1.0),
        (KernelPrior.for_items(M, 5000.0), True, 1.0),
        (KernelPrior.for_items(3, 2.0), False, 1.0),
        (KernelPrior.for_items(1, 50.0), False, 1e-6),  # as small as may be, and has to stay so
        (KernelPrior((Tier(0, 2, 2.0), Tier(2, M, 50.0))), False, 1.0),
        (KernelPrior((Tier(0, 2, 9.0), Tier(2, 3, 3.0), Tier(3, 4, 30.0))), True, 1.0),
    ],
)
def test_steps_never_lower_the_objective_and_end_at_its_maximum(prior, hold_size, second):
    with jax.enable_x64(True):
        step = jax.jit(lambda scales: _step(scales, prior, hold_size))
        scales, trace = np.array([1.0, second, 1.0]), []
        for _ in range(60):
            trace.append(_objective(scales, prior))
            scales = np.asarray(step(scales))
    assert np.diff(trace).min() > -1e-9 * abs(trace[0])
    core = prior.num_core
    size = np.trace(KERNELS[:, :core, :core], axis1=1, axis2=2)

    def loss(logs):
        scales = np.exp(logs)
        if hold_size:
            scales *= size.sum() / (scales @ size)
        return -_objective(scales, prior)

    best = minimize(loss, np.zeros(3), method="Nelder-Mead",
                    options={"xatol": 1e-6, "fatol": 1e-9, "maxiter": 4000})  # fmt: skip
    np.testing.assert_allclose(trace[-1], -best.fun, atol=1e-4)
    if hold_size:
        np.testing.assert_allclose(scales @ size, size.sum(), rtol=1e-9)
