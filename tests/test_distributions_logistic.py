"""Moments with logistic noise, against a fine trapezoidal rule about the tilted mode, and SciPy."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit, log_expit, logsumexp

from bayesrank.distributions import logistic_interval_moments

EDGES = [(-np.inf, 0.0), (0.0, np.inf), (-1.0, 1.0), (0.0, 0.01)]
CASES = list(
    itertools.product(EDGES, (0.3, -3.0, 20.0, -60.0, 200.0), (0.01, 1.0, 30.0, 900.0), (1.0, 0.2))
)


def _log_probability(x, lower, upper, scale):
    value = np.zeros_like(x)
    if np.isfinite(upper):
        value += log_expit((upper - x) / scale)
    if np.isfinite(lower):
        value += log_expit((x - lower) / scale)
    if np.isfinite(lower) and np.isfinite(upper):
        value += np.log(-np.expm1((lower - upper) / scale))
    return value


def _slope(x, lower, upper, scale):
    return (expit((lower - x) / scale) - expit((x - upper) / scale)) / scale


def _by_trapezoids(lower, upper, mean, variance, scale):
    """The slope of the log probability is bounded, so the mode is near; the density log-concave."""
    sd, reach = np.sqrt(variance), variance / scale + 1.0
    args = lower, upper, scale
    mode = brentq(lambda x: _slope(x, *args) - (x - mean) / variance, mean - reach, mean + reach,
                  xtol=1e-12)  # fmt: skip
    x, step = np.linspace(mode - 12.0 * sd, mode + 12.0 * sd, 8_001, retstep=True)
    density = _log_probability(x, *args) - 0.5 * (x - mean) ** 2 / variance
    total = logsumexp(density)
    weights = np.exp(density - total)
    slopes = _slope(x, *args)
    d1 = weights @ slopes
    d2 = weights @ (slopes * (x - weights @ x)) / variance
    return total + np.log(step) - 0.5 * np.log(2.0 * np.pi * variance), d1, d2


def test_moments_are_those_of_a_fine_rule():
    edges, mean, variance, scale = (np.array(x, float) for x in zip(*CASES, strict=True))
    with jax.enable_x64(True):
        found = jax.jit(logistic_interval_moments)(*edges.T, mean, variance, scale)
    for row, (ends, *case) in enumerate(CASES):
        log_z, d1, d2 = _by_trapezoids(*ends, *case)
        np.testing.assert_allclose(found.log_z[row], log_z, rtol=1e-12, atol=1e-9)
        # Of the probability of a sure outcome nothing is left of the slopes but rounding.
        np.testing.assert_allclose(found.d1[row] * case[2], d1 * case[2], rtol=1e-9, atol=1e-10)
        unit = max(case[1], case[2] ** 2)
        np.testing.assert_allclose(found.d2[row] * unit, d2 * unit, atol=1e-8)


def test_far_outside_of_a_wide_cavity():
    """The outcome is 35 standard deviations away, a standard deviation 27 times the noise."""
    case = -np.inf, 0.0, 950.0, 750.0, 1.0
    with jax.enable_x64(True):
        found = jax.jit(logistic_interval_moments)(*case)
    log_z, d1, _ = _by_trapezoids(*case)
    np.testing.assert_allclose([found.log_z, found.d1], [log_z, d1], atol=1e-9)


@pytest.mark.parametrize("mean", [0.0, 2.5, 40.0, -300.0])
def test_no_variance_is_the_logistic_distribution(mean):
    compiled = jax.jit(logistic_interval_moments)
    for lower, upper in EDGES:
        with jax.enable_x64(True):
            found = compiled(lower, upper, mean, 0.0, 0.7)
        expected = _log_probability(np.array(mean), lower, upper, 0.7)
        np.testing.assert_allclose(found.log_z, expected, rtol=1e-12, atol=1e-9)


@pytest.mark.slow
def test_log_z_has_derivatives_in_all_arguments():
    """The derivative in the mean is `d1`, half of `d2` and of its square that in the variance."""
    with jax.enable_x64(True):
        args = [jnp.asarray(x) for x in (-0.4, 0.9, 3.0, 2.0, 0.6)]
        value = jax.jit(lambda *x: logistic_interval_moments(*x))
        slopes = jax.jit(jax.grad(lambda *x: value(*x).log_z, tuple(range(5))))(*args)
        found = value(*args)
        for k, slope in enumerate(slopes):
            ends = [
                value(*(x + sign * 1e-5 * (i == k) for i, x in enumerate(args))).log_z
                for sign in (-1.0, 1.0)
            ]
            np.testing.assert_allclose(slope, (ends[1] - ends[0]) / 2e-5, rtol=1e-5)
    np.testing.assert_allclose(slopes[2], found.d1, rtol=1e-8)
    np.testing.assert_allclose(slopes[3], 0.5 * (found.d2 + found.d1**2), rtol=1e-7)


def test_single_precision_is_enough_to_run_in():
    args = (jnp.asarray(x, jnp.float32) for x in (-1.0, 1.0, 0.3, 2.0))
    found = jax.jit(logistic_interval_moments)(*args)
    assert found.log_z.dtype == jnp.float32
    np.testing.assert_allclose(found.log_z, _by_trapezoids(-1.0, 1.0, 0.3, 2.0, 1.0)[0], rtol=1e-5)
