"""The generic quadrature at its extremes, against closed forms and mpmath."""

from typing import Any

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import numpyro.distributions as dist
import pytest
from jax.scipy.special import log_ndtr
from numpy.testing import assert_allclose
from scipy.special import log_ndtr as log_ndtr_scipy

from bayesrank.infer.quadrature import tilted_moments

PROBIT, LOGISTIC, POISSON, STUDENT_T = range(4)
COUNT, DEGREES, SCALE = 3.0, 2.0, 0.3


def moments(kind, mean, variance, slope):
    """Of four likelihoods of ``slope * x``, element by element, in one go."""

    def log_likelihood(x):
        x = slope * x
        choices = (
            log_ndtr(x),
            jax.nn.log_sigmoid(x),
            COUNT * x - jnp.exp(x),
            dist.StudentT(DEGREES, x, SCALE).log_prob(2.0),
        )
        return jnp.stack([jnp.broadcast_to(c, x.shape) for c in choices])[
            kind, jnp.arange(x.shape[0])
        ]

    return tilted_moments(log_likelihood, mean, variance)


compiled = jax.jit(moments)


def run(kind, mean, variance, dtype: type = np.float64):
    kind, mean, variance = np.broadcast_arrays(kind, np.asarray(mean), np.asarray(variance))
    with jax.enable_x64(dtype is np.float64):
        found = compiled(kind, mean.astype(dtype), variance.astype(dtype), dtype(1.0))
        return [np.asarray(part, float) for part in found]


def probit(mean, variance):
    """Closed form of log Z and its derivatives; far left, the last is an asymptotic series."""
    z, width = mean / np.sqrt(1 + variance), np.sqrt(1 + variance)
    mills = np.exp(-0.5 * z**2 - 0.5 * np.log(2 * np.pi) - log_ndtr_scipy(z))
    far = np.minimum(z, -20.0) ** -2.0
    second = np.where(z < -20, -1 + far - 6 * far**2 + 50 * far**3, -mills * (z + mills))
    return log_ndtr_scipy(z), mills / width, second / width**2


MARGINS = np.array([-40.0, -12.0, -3.0, -0.1, 0.0, 0.7, 5.0, 40.0])
VARIANCES = np.array([1e-8, 1e-4, 0.1, 1.0, 30.0, 1e4, 1e8])
GRID = np.array([(m * np.sqrt(1 + v), v) for m in MARGINS for v in VARIANCES]).T


@pytest.mark.slow
def test_probit_by_quadrature():
    """Margins from -40 to 40 of their scale, cavity variances from 1e-8 to 1e8."""
    log_z, d1, d2 = run(PROBIT, *GRID)
    exact = probit(*GRID)
    assert_allclose(log_z, exact[0], rtol=1e-8, atol=5e-6)
    variance = GRID[1]
    tilted_variance = variance + variance**2 * exact[2]
    assert_allclose((d1 - exact[1]) * variance / np.sqrt(tilted_variance), 0.0, atol=2e-5)
    assert_allclose((d2 - exact[2]) * variance**2 / tilted_variance, 0.0, atol=5e-5)


@pytest.mark.slow
def test_probit_by_quadrature_in_single_precision():
    inside = np.abs(GRID[0] / np.sqrt(1 + GRID[1])) <= 12
    mean, variance = GRID[:, inside]
    log_z, d1, d2 = run(PROBIT, mean, variance, np.float32)
    exact = probit(mean, variance)
    assert_allclose(log_z, exact[0], rtol=2e-6, atol=1e-4)
    tilted_sd = np.sqrt(variance + variance**2 * exact[2])
    assert_allclose((d1 - exact[1]) * variance / tilted_sd, 0.0, atol=1e-3)
    assert_allclose((d2 - exact[2]) * variance, 0.0, atol=1e-3)


# ---------------------------------------------------------------- against mpmath


def log_likelihood_mpmath(kind: int, x: Any) -> Any:
    if kind == LOGISTIC:
        return -mpmath.log1p(mpmath.exp(-x))
    if kind == POISSON:
        return COUNT * x - mpmath.exp(x)
    constant = mpmath.loggamma((DEGREES + 1) / 2) - mpmath.loggamma(DEGREES / 2)
    constant -= mpmath.log(SCALE) + mpmath.log(DEGREES * mpmath.pi) / 2
    return constant - (DEGREES + 1) / 2 * mpmath.log1p(((2 - x) / SCALE) ** 2 / DEGREES)


def exact_moments(kind, mean, variance, cuts):
    """Log Z, and the tilted mean and variance, to 20 digits; the integral is split at `cuts`."""
    with mpmath.workdps(20):
        mean, variance = mpmath.mpf(mean), mpmath.mpf(variance)
        shift = log_likelihood_mpmath(kind, mpmath.mpf(cuts[len(cuts) // 2]))

        def mass(x):
            value = log_likelihood_mpmath(kind, x) - shift - (x - mean) ** 2 / (2 * variance)
            return mpmath.exp(value)

        def integral(f: Any) -> Any:
            return mpmath.quad(f, cuts, method="gauss-legendre", maxdegree=5)

        zero = integral(mass)
        first = integral(lambda x: x * mass(x)) / zero
        second = integral(lambda x: (x - first) ** 2 * mass(x)) / zero
        log_z = mpmath.log(zero) + shift - mpmath.log(2 * mpmath.pi * variance) / 2
        return float(log_z), float(first), float(second)


def around(*pieces):
    """Where to split: each piece (centre, width) at a few widths to either side."""
    steps = np.array([-16, -7, -3, -1, 0, 1, 3, 7, 16])
    return sorted({float(c + w * s) for c, w in pieces for s in steps})


EXTREMES = [
    (LOGISTIC, -40.0, 1.0, around((-39, 1))),
    (LOGISTIC, -300.0, 100.0, around((-200, 10), (0, 3))),
    (LOGISTIC, -1e5, 1e8, around((0, 1), (2e3, 2e3), (5e3, 1e4))),
    (LOGISTIC, 0.0, 1e8, around((0, 1), (0, 1e2), (0, 1e4))),
    (POISSON, -40.0, 1.0, around((-37, 1))),
    (POISSON, 40.0, 1.0, around((3.6, 0.15))),
    (POISSON, 0.5, 1e-8, around((0.5, 1e-4))),
    (POISSON, 0.0, 1e8, around((np.log(COUNT), 0.6), (-20, 3))),
    # The data and the prior disagree: two modes, about as heavy as each other.
    (STUDENT_T, -2.0, 0.5, around((2.0, 0.25), (-1.8, 0.7))),
    (STUDENT_T, -2.6, 0.5, around((2.0, 0.25), (-2.4, 0.7))),
    (STUDENT_T, -40.0, 1.0, around((-39.9, 1), (2.0, 0.3))),
    (STUDENT_T, 0.0, 1e8, around((2.0, 0.3), (0, 1e2), (0, 1e4))),
    (STUDENT_T, 1.7, 1e-8, around((1.7, 1e-4))),
]


@pytest.mark.slow
def test_extremes_against_mpmath():
    kind, mean, variance, _ = zip(*EXTREMES, strict=True)
    kind, mean, variance = np.array(kind), np.array(mean), np.array(variance)
    log_z, d1, d2 = run(kind, mean, variance)
    exact = np.array([exact_moments(*row) for row in EXTREMES]).T
    sd = np.sqrt(exact[2])
    assert_allclose(log_z, exact[0], rtol=2e-8, atol=1e-7)
    assert_allclose((mean + variance * d1 - exact[1]) / sd, 0.0, atol=5e-6)
    assert_allclose((variance + variance**2 * d2) / exact[2], 1.0, atol=5e-5)
