"""What the quadrature of likelihoods with several narrow peaks misses is said, and nothing else."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy.special import expit, logsumexp
from scipy.stats import norm

from bayesrank.infer import EP, AccuracyWarning
from bayesrank.infer.missed import missed_mass
from bayesrank.infer.quadrature import tilted_moments

KEY = jax.random.key(0)
COUNT, PARTS = 250, 3


def two_peaks():
    """A mixture that is not written as one; half of its mass is beside the peak that is found."""
    f: Any = numpyro.sample("f", dist.Normal(0.3, 5.0))
    near: Any = dist.Normal(f, 0.1).log_prob(0.0)
    far: Any = dist.Normal(f - 4.0, 0.1).log_prob(0.0)
    numpyro.factor("y", jnp.logaddexp(near, far))


def both_roots():
    """The second peak is ten standard deviations of the prior away, and as likely as the first."""
    f: Any = numpyro.sample("f", dist.Normal(0.1, 1.0))
    numpyro.sample("y", dist.Normal(f**2, 1.0), obs=100.0)


def log_odds(loc: float, scale: float, first: float, second: float) -> float:
    return float(norm.logpdf(second, loc, scale) - norm.logpdf(first, loc, scale))


# Peaks of a width of .1 and .05: what their widths do to the prior's density is within a hundredth.
CASES = {two_peaks: log_odds(0.3, 5.0, 0.0, 4.0), both_roots: log_odds(0.1, 1.0, 9.975, -9.975)}


@pytest.mark.parametrize("program", CASES, ids=lambda program: program.__name__)
def test_a_peak_that_is_missed_is_said_to_be(program):
    with pytest.warns(AccuracyWarning, match="missed at least .*% of the mass of a factor of 'y'"):
        result = EP(program).run(KEY)
    assert result.converged
    # The look counts what it sees from below.
    assert 0.5 < result.missed_mass["y"] / expit(CASES[program]) < 1.02
    share = f"{result.missed_mass['y']:.0%}"
    assert f"at least {share} of a factor of y missed" in repr(result)
    if program is two_peaks:
        with pytest.warns(AccuracyWarning, match=f"poor: the quadrature missed at least {share}"):
            assert not result.trust.is_good


def test_random_mixtures_that_are_missed_are_flagged_and_no_others():
    rng = np.random.default_rng(0)
    share, width = rng.dirichlet(np.ones(PARTS), COUNT), 10 ** rng.uniform(-2, 1, (COUNT, PARTS))
    centre, mean = 5 * rng.normal(size=(COUNT, PARTS)), 5 * rng.normal(size=COUNT)
    variance = 10 ** rng.uniform(-2, 2 * np.log10(20), COUNT)

    def log_likelihood(x: Any, *factor: Any) -> Any:
        weight, scale, loc = factor
        z = (x[..., None] - loc) / scale
        return jax.nn.logsumexp(jnp.log(weight / scale) - 0.5 * z**2, axis=-1)

    def alone(m: Any, v: Any, *factor: Any) -> Any:
        return tilted_moments(lambda x: log_likelihood(x, *factor), m[None], v[None]).log_z[0]

    with jax.enable_x64(True):
        factors = share, width, centre
        found = jax.jit(jax.vmap(alone))(mean, variance, *factors)
        missed = jax.jit(missed_mass, static_argnums=0)(
            lambda x: log_likelihood(x, *factors), mean, variance, found
        )
    spread = np.sqrt(width**2 + variance[:, None])
    parts = np.log(share * np.sqrt(2 * np.pi)) + norm.logpdf(mean[:, None], centre, spread)
    error, flagged = np.asarray(found) - logsumexp(parts, axis=1), np.asarray(missed) > 0.01
    half = error < -np.log(2)
    assert np.sum(half) > 15
    assert np.mean(flagged[half]) > 0.95
    assert np.mean(flagged[error < -0.01]) > 0.85
    assert not np.any(flagged[error > -0.005])
