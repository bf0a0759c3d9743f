"""Ordered logit against high precision, NumPyro's own and quadrature."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import numpyro.distributions as dist
import pytest

from bayesrank.distributions import OrderedLogit, OrderedProbit
from bayesrank.infer.quadrature import tilted_moments

CUTS = np.array([-1.3, 0.2, 0.9])


def _exact(value: int, loc: float, cuts: np.ndarray, noise: float) -> float:
    """Log of the difference of two logistic distribution functions, to 800 digits."""
    with mpmath.workdps(800):
        ends = [-mpmath.inf, *(mpmath.mpf(float(c)) for c in cuts), mpmath.inf]
        low, high = (
            1 / (1 + mpmath.exp(-(end - mpmath.mpf(loc)) / mpmath.mpf(noise)))
            if mpmath.isfinite(end)
            else mpmath.mpf(end > 0)
            for end in (ends[value], ends[value + 1])
        )
        return float(mpmath.log(high - low))


@pytest.mark.parametrize("loc", [-500.0, -40.0, -1.0, 0.0, 3.0, 40.0, 500.0])
@pytest.mark.parametrize("gap", [1e-9, 0.7, 30.0])
def test_every_level_is_right_to_rounding(loc, gap):
    cuts = np.array([-0.4, -0.4 + gap, 35.0])
    computed = OrderedLogit(loc, cuts, 0.6).log_prob(jnp.arange(4))
    expected = [_exact(value, loc, cuts, 0.6) for value in range(4)]
    # The gap itself is rounded in the array of cutpoints.
    np.testing.assert_allclose(computed, expected, rtol=1e-7 if gap < 1e-6 else 1e-12)
    slope = jax.grad(lambda loc: OrderedLogit(loc, cuts, 0.6).log_prob(jnp.arange(4)).sum())
    assert np.isfinite(slope(loc))


def test_it_is_numpyros_ordered_logistic_at_scale_one():
    loc = np.linspace(-3, 3, 7)
    levels = np.arange(7) % 4
    computed = OrderedLogit(loc, CUTS).log_prob(levels)
    np.testing.assert_allclose(computed, dist.OrderedLogistic(loc, CUTS).log_prob(levels), 1e-10)


def test_scaling_all_of_it_changes_nothing():
    for law in (OrderedLogit, OrderedProbit):
        one, other = (law(c * 0.4, c * CUTS, c * 0.7).probs for c in (1.0, 13.0))
        np.testing.assert_allclose(one, other, rtol=1e-10)
        np.testing.assert_allclose(one.sum(), 1.0, rtol=1e-12)


@pytest.mark.slow
def test_narrow_cavities_see_the_density_itself():
    """Quadrature of the logit meets the density's own derivatives as the cavity narrows."""

    def density(x):
        return OrderedLogit(x, CUTS, 0.5).log_prob(2)

    @jax.jit
    def both():
        slope = jax.grad(density)
        moments = tilted_moments(density, jnp.array([0.3]), jnp.array([1e-10]))
        return moments, (density(0.3), slope(0.3), jax.grad(slope)(0.3))

    for found, wanted in zip(*both(), strict=True):
        np.testing.assert_allclose(found[0], wanted, rtol=1e-6)
