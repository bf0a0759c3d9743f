"""Moments of what users say, against adaptive quadrature, for narrow and for wide cavities."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit, ndtr

from bayesrank.solvers.collaborative.data import LIKELIHOODS
from bayesrank.solvers.collaborative.likelihood_ordinal import Ordinal

THETA = np.array([0.3, -0.4])  # log gap, log noise
# A user who is sure of every rating has little noise beside the width of the cavity.
CAVITIES = np.array([(0.3, 0.1), (-1.0, 1.0), (4.0, 5.0), (0.5, 30.0), (-9.0, 2.0)])


def _probability(kind, theta, level, x):
    edges, below = np.exp(theta[0]) * np.array([-0.5, 0.5]), {"probit": ndtr, "logit": expit}
    above = [1.0, *below[kind]((x - edges) / np.exp(theta[1])), 0.0]
    return above[level] - above[level + 1]


def _log_z(kind, theta, level, mean, sd):
    norm = sd * np.sqrt(2 * np.pi)

    def integrand(x):
        return _probability(kind, theta, level, x) * np.exp(-0.5 * ((x - mean) / sd) ** 2) / norm

    ends, near = (mean - 9 * sd, mean + 9 * sd), np.linspace(-6.0, 6.0, 9)
    points = near[(near > ends[0]) & (near < ends[1])]
    return np.log(quad(integrand, *ends, points=points, limit=200, epsabs=0, epsrel=1e-12)[0])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["probit", "logit"])
def test_moments_and_scores_are_those_of_quadrature(kind):
    likelihood = LIKELIHOODS[kind]
    assert isinstance(likelihood, Ordinal)
    theta = jnp.asarray(THETA)
    cases = [(level, mean, sd) for level in (0, 1, 2) for mean, sd in CAVITIES]

    def both(*args):
        def log_z(theta):
            moments = likelihood.moments(theta, *args)
            return moments.log_z, moments

        score, moments = jax.grad(log_z, has_aux=True)(theta)
        return moments, score

    with jax.enable_x64(True):
        level, mean, sd = (jnp.asarray(x, float) for x in zip(*cases, strict=True))
        moments, score = jax.jit(jax.vmap(both))(level, mean, sd**2)
    for row, (level, mean, sd) in enumerate(cases):
        step = 1e-3 * max(sd, 1.0)
        low, middle, high = (
            _log_z(kind, theta, level, mean + k * step, sd) for k in (-1.0, 0.0, 1.0)
        )
        np.testing.assert_allclose(moments.log_z[row], middle, atol=1e-8)
        np.testing.assert_allclose(moments.d1[row], (high - low) / (2 * step), atol=1e-6)
        d2 = (high - 2 * middle + low) / step**2
        np.testing.assert_allclose(moments.d2[row], d2, atol=2e-5)
        for k, change in enumerate(1e-3 * np.eye(len(theta))):
            ends = [_log_z(kind, theta + x, level, mean, sd) for x in (-change, change)]
            np.testing.assert_allclose(score[row, k], np.diff(ends)[0] / 2e-3, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "tolerance"), [("probit", 1e-6), pytest.param("logit", 0.1, marks=pytest.mark.slow)]
)
def test_the_information_is_what_scores_are_expected_to_have(kind, tolerance):
    """Averaged over all levels; that of logistic noise is that of the normal noise most alike."""
    likelihood = LIKELIHOODS[kind]
    assert isinstance(likelihood, Ordinal)

    def both(mean, variance):
        theta, levels = jnp.asarray(THETA), jnp.arange(3)

        def log_z(theta, level):
            return likelihood.moments(theta, level, mean, variance).log_z

        values, scores = jax.vmap(jax.value_and_grad(log_z), (None, 0))(theta, levels)
        expected = jnp.einsum("y,yp,yq->pq", jnp.exp(values), scores, scores)
        return likelihood.information(theta, mean, variance), expected

    with jax.enable_x64(True):
        mean, sd = CAVITIES[:3].T
        for found, expected in zip(*jax.jit(jax.vmap(both))(mean, sd**2), strict=True):
            np.testing.assert_allclose(found, expected, atol=tolerance * np.abs(expected).max())
