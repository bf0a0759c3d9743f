"""What quadrature has wrong of likelihoods with several narrow peaks is said, and nothing else."""

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
from bayesrank.infer.missed import faults_of
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


def many_roots():
    """Its log integral is found to .01, its mean and variance are not."""
    f: Any = numpyro.sample("f", dist.Normal(0.0, 3.0))
    numpyro.sample("y", dist.Normal(jnp.sin(f), 0.1), obs=0.4)


def log_odds(loc: float, scale: float, first: float, second: float) -> float:
    return float(norm.logpdf(second, loc, scale) - norm.logpdf(first, loc, scale))


# Peaks of a width of .1 and .05: what their widths do to the prior's density is within a hundredth.
CASES = {two_peaks: log_odds(0.3, 5.0, 0.0, 4.0), both_roots: log_odds(0.1, 1.0, 9.975, -9.975)}


@pytest.mark.slow
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


@pytest.mark.slow
def test_wrong_moments_of_the_right_mass_are_said_to_be():
    with pytest.warns(AccuracyWarning, match="mean or the standard deviation of a factor of 'y'"):
        result = EP(many_roots).run(KEY)
    grid = np.linspace(-40, 40, 400_001)
    log_density = norm.logpdf(grid, 0, 3) + norm.logpdf(0.4, np.sin(grid), 0.1)
    log_z = logsumexp(log_density) + np.log(grid[1] - grid[0])
    weight = np.exp(log_density - logsumexp(log_density))
    mean = weight @ grid
    sd = np.sqrt(weight @ (grid - mean) ** 2)
    assert abs(result.log_evidence - log_z) < 0.02
    assert not result.missed_mass
    found = result.joint_mean[0], np.sqrt(result.joint_covariance[0, 0])
    off = max(abs(found[0] - mean), abs(found[1] - sd)) / sd
    assert off > 0.5
    assert abs(result.moment_errors["y"] / off - 1) < 0.02
    said = f"wrong by about {result.moment_errors['y']:.0%}"
    assert said in repr(result)
    with pytest.warns(AccuracyWarning, match=f"poor: .*{said}"):
        assert not result.trust.is_good


@pytest.mark.slow
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
        moments = tilted_moments(lambda x: log_likelihood(x, *factor), m[None], v[None])
        return jax.tree.map(lambda x: x[0], moments)

    with jax.enable_x64(True):
        factors = share, width, centre
        found = jax.jit(jax.vmap(alone))(mean, variance, *factors)
        faults = jax.jit(faults_of, static_argnums=0)(
            lambda x: log_likelihood(x, *factors), mean, variance, found
        )
    total = width**2 + variance[:, None]
    parts = np.log(share * np.sqrt(2 * np.pi))
    parts += norm.logpdf(mean[:, None], centre, np.sqrt(total))
    error = np.asarray(found.log_z) - logsumexp(parts, axis=1)
    flagged = np.asarray(faults.missed) > 0.01
    half = error < -np.log(2)
    assert np.sum(half) > 15
    assert np.mean(flagged[half]) > 0.95
    assert np.mean(flagged[error < -0.01]) > 0.85
    assert not np.any(flagged[error > -0.005])
    # Moments of each part's product with the cavity, and of all.
    odds = np.exp(parts - logsumexp(parts, axis=1, keepdims=True))
    centres = (mean[:, None] * width**2 + centre * variance[:, None]) / total
    tilted = np.sum(odds * centres, axis=1)
    deviation = centres - tilted[:, None]
    sd = np.sqrt(np.sum(odds * (width**2 * variance[:, None] / total + deviation**2), axis=1))
    shift = np.abs(mean + found.d1 * variance - tilted) / sd
    ratio = np.sqrt(variance * np.maximum(1 + found.d2 * variance, 0)) / sd
    off = np.maximum(shift, np.abs(ratio - 1))
    flagged = np.asarray(faults.error) > 0
    same_mass = np.abs(error) < 0.01
    assert np.sum(flagged[same_mass & (off > 0.1)]) >= 1
    assert np.mean(flagged[same_mass & (off > 0.1)]) > 0.5
    assert not np.any(flagged[same_mass & (off < 0.03)])
