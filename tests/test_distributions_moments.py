"""Closed-form tilted moments against high precision, quadrature and calculus."""

from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from jax.scipy.special import ndtr

from bayesrank.distributions import (
    OrderedProbit,
    Thurstone,
    ThurstoneTies,
)
from bayesrank.distributions._moments import interval

NAMES = ["Thurstone", "ThurstoneTies", "OrderedProbit"]
every_likelihood = pytest.mark.parametrize("name", NAMES)
both_dtypes = pytest.mark.parametrize("dtype", [np.float64, np.float32])

# Means in units of the predictive standard deviation: both sides of every change of formula.
STANDARD = np.array(
    [-1e4, -300.0, -40.0, -8.0, -4.01, -3.99, -2.0, -0.5, 0.0, 1e-3, 1.0, 4.0, 20.0, 37.0, 1e4]
)
# Distances between edges in the same units: those below one half are narrow.
WIDTHS = np.array([1e-6, 1e-3, 0.1, 0.499, 0.5, 0.8, 2.0, 10.0, 100.0])
VARIANCES = np.array([1e-8, 1.0, 1e8])


class Rows(NamedTuple):
    """Arguments of tilted moments, a row each; ``edges`` (row, edge) separate the outcomes."""

    value: Any
    mean: Any
    variance: Any
    noise: Any
    edges: Any


def _moments(name: str, rows: Rows) -> tuple[jax.Array, jax.Array, jax.Array]:
    if name == "Thurstone":
        likelihood = Thurstone(0.0, rows.noise)
    elif name == "ThurstoneTies":
        likelihood = ThurstoneTies(0.0, rows.edges[..., 1], rows.noise)
    else:
        likelihood = OrderedProbit(0.0, rows.edges, rows.noise)
    return likelihood.tilted_moments(rows.value, rows.mean, rows.variance)


@cache
def _rows(name: str, dtype: type) -> Rows:
    """Every combination of outcome, standard mean, cavity variance and width."""
    outcomes = np.arange(2 if name == "Thurstone" else 3)
    widths, noises = ([1.0], [1e-3, 1.0]) if name == "Thurstone" else (WIDTHS, [1.0])
    grid = np.meshgrid(outcomes, STANDARD, VARIANCES, widths, noises, indexing="ij")
    value, standard, variance, width, noise = (axis.ravel() for axis in grid)
    sd = np.sqrt(variance + _error_variance(name, noise))
    offsets = {"Thurstone": [0.0], "ThurstoneTies": [-0.5, 0.5], "OrderedProbit": [0.0, 1.0]}
    edges = (width * sd)[:, None] * np.array(offsets[name])
    return Rows(value, *(a.astype(dtype) for a in (standard * sd, variance, noise, edges)))


def _error_variance(name: str, noise: Any) -> Any:
    return noise**2 if name == "OrderedProbit" else 2 * noise**2


@cache
def _reference(name: str, dtype: type) -> np.ndarray:
    """Moments of every row to 80 digits, rounded: columns log_z, d1, d2."""
    rows, table = _rows(name, dtype), []
    with mpmath.workdps(80):
        for value, mean, variance, noise, edges in zip(*rows, strict=True):
            ends = [-mpmath.inf, *(mpmath.mpf(float(edge)) for edge in edges), mpmath.inf]
            total = mpmath.mpf(float(variance)) + _error_variance(name, mpmath.mpf(float(noise)))
            table.append(_exact(ends[value], ends[value + 1], mpmath.mpf(float(mean)), total))
    return np.array(table)


def _exact(lower, upper, mean, variance):
    """Log mass of a normal between two ends and its derivatives, in plain high precision."""
    sd = mpmath.sqrt(variance)
    a, b, sign = (lower - mean) / sd, (upper - mean) / sd, 1
    if a + b < 0:
        a, b, sign = -b, -a, -1
    above_a, above_b = mpmath.erfc(a / mpmath.sqrt(2)) / 2, mpmath.erfc(b / mpmath.sqrt(2)) / 2
    mass = above_a - above_b
    below_a = mpmath.erfc(-a / mpmath.sqrt(2)) / 2
    log_mass = mpmath.log1p(-(below_a + above_b)) if mass > 0.5 else mpmath.log(mass)
    hazard_a = mpmath.npdf(a) / mass
    hazard_b, slope_b = (0, 0) if b == mpmath.inf else (mpmath.npdf(b) / mass, b * mpmath.npdf(b))
    first = hazard_a - hazard_b
    second = a * hazard_a - slope_b / mass - first**2
    return float(log_mass), float(sign * first / sd), float(second / variance)


@both_dtypes
@every_likelihood
def test_moments_agree_with_high_precision(name, dtype):
    """Of d2, what is compared is how far it is from 0; both dtypes underflow to exact zeros."""
    computed = jax.jit(_moments, static_argnums=0)(name, _rows(name, dtype))
    rtol, tiny = (2e-12, 1e-300) if dtype is np.float64 else (5e-5, 1e-37)
    for got, wanted in zip(computed, _reference(name, dtype).T, strict=True):
        assert got.dtype == dtype
        np.testing.assert_allclose(got, wanted, rtol=rtol, atol=tiny * np.abs(wanted).max())


@both_dtypes
@every_likelihood
def test_likelihoods_are_log_concave_and_no_sharper_than_certainty(name, dtype):
    rows = _rows(name, dtype)
    _, _, d2 = jax.jit(_moments, static_argnums=0)(name, rows)
    assert bool(jnp.all(d2 <= 0))
    assert bool(jnp.all(d2 * rows.variance >= -1))


@cache
def _gradients(name: str, dtype: type) -> list[Any]:
    """Gradient of each moment with respect to every row's mean, variance, noise and edges."""
    value, *floats = _rows(name, dtype)

    @jax.jit
    def gradients(*floats):
        moments, pullback = jax.vjp(lambda *floats: _moments(name, Rows(value, *floats)), *floats)
        one, zero = jnp.ones_like(moments[0]), jnp.zeros_like(moments[0])
        unit = [type(moments)(*(one if i == j else zero for j in range(3))) for i in range(3)]
        return [pullback(cotangent) for cotangent in unit]

    return gradients(*floats)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("Thurstone", np.float64),
        ("Thurstone", np.float32),
        pytest.param("ThurstoneTies", np.float64, marks=pytest.mark.slow),
        pytest.param("OrderedProbit", np.float32, marks=pytest.mark.slow),
    ],
)
def test_gradients_of_all_three_are_finite_everywhere(name, dtype):
    for gradient in jax.tree.leaves(_gradients(name, dtype)):
        assert gradient.dtype == dtype
        assert bool(jnp.all(jnp.isfinite(gradient)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Thurstone", "ThurstoneTies"])
def test_moments_are_derivatives_of_the_first(name):
    """In the mean as claimed; and a normal mass obeys the heat equation in mean and variance."""
    _, d1, d2 = jax.jit(_moments, static_argnums=0)(name, _rows(name, np.float64))
    (by_mean, by_variance, *_), (d1_by_mean, *_), _ = _gradients(name, np.float64)
    np.testing.assert_allclose(by_mean, d1, rtol=1e-9, atol=1e-290)
    np.testing.assert_allclose(d1_by_mean, d2, rtol=1e-9, atol=1e-290)
    heat, size = 0.5 * (d2 + d1**2), 0.5 * (jnp.abs(d2) + d1**2)
    assert bool(jnp.all(jnp.abs(by_variance - heat) <= 1e-9 * size + 1e-290))


def test_the_instance_has_no_say_in_the_predictor():
    cutpoints = jnp.array([0.0, 1.0])
    for make in (
        lambda margin: Thurstone(margin, 0.7, validate_args=False),
        lambda margin: ThurstoneTies(margin, 0.4, validate_args=False),
        lambda loc: OrderedProbit(loc, cutpoints, validate_args=False),
    ):
        pair = [make(predictor).tilted_moments(1, 0.5, 2.0) for predictor in (0.0, np.nan)]
        np.testing.assert_array_equal(*pair)


@pytest.mark.usefixtures("strict_rank")
def test_arguments_and_parameters_broadcast():
    value, mean, variance = jnp.array([[0], [1]]), jnp.zeros((1, 5)), jnp.ones((1, 1))
    for d in (
        Thurstone(0.0, jnp.ones((2, 5))),
        ThurstoneTies(0.0, 0.5, jnp.ones((1, 5))),
        OrderedProbit(0.0, jnp.array([0.0, 1.0])),
    ):
        assert {m.shape for m in jax.eval_shape(d.tilted_moments, value, mean, variance)} == {
            (2, 5)
        }


def test_vmap_over_rows_is_elementwise():
    rows = jax.tree.map(lambda a: a[::37], _rows("OrderedProbit", np.float64))
    together = jax.jit(_moments, static_argnums=0)("OrderedProbit", rows)
    mapped = jax.jit(jax.vmap(lambda row: _moments("OrderedProbit", row)))(rows)
    for a, b in zip(together, mapped, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize(
    "ends", [(-0.5, 0.5), (0.2, 2.0), (0.1, 0.2), (-np.inf, 0.3), (0.7, np.inf)]
)
def test_second_derivatives_are_those_of_the_mass(ends):
    """Wherever the ends are, one of them infinite or not."""
    finite = np.isfinite(ends)

    def both(x):
        low, high = (x[k] if finite[k] else ends[k] for k in range(2))
        below, above = ((end - x[2]) / jnp.sqrt(x[3]) for end in (low, high))
        mass = (ndtr(above) if finite[1] else 1.0) - (ndtr(below) if finite[0] else 0.0)
        return jnp.stack([interval(low, high, x[2], x[3]).log_z, jnp.log(mass)])

    at = jnp.array([*np.where(finite, ends, 0.0), 0.1, 1.3])
    for derivative in (jax.jacobian(both), jax.hessian(both)):
        found, expected = jax.jit(derivative)(at)
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)
