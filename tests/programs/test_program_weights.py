"""Weights and masks on programs whose latents are not Gaussian, or stand in a scan.

A weight of two is the same datum twice, a mask is a datum left out.  With Gaussian observations EP
gives the same answer both ways.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpy.testing import assert_allclose
from numpyro import handlers
from numpyro.contrib.control_flow import scan
from program_table import GROUP, Y, normal

from bayesrank.infer import EP

KEY = jax.random.key(0)
WEIGHT = np.array([2.0, 1, 1, 2, 1, 1, 1, 2, 1, 1])
SEEN = np.arange(10) % 4 != 1
REPEATED = np.repeat(np.arange(10), np.where(SEEN, WEIGHT, 0).astype(int))
MIXTURE = dist.MixtureSameFamily(
    dist.Categorical(jnp.array([0.4, 0.6])), dist.Normal(jnp.zeros(2), jnp.array([0.2, 1.5]))
)
PRIORS = {
    "Laplace": dist.Laplace(0.0, 0.7),
    "StudentT": dist.StudentT(3.0, 0.2, 0.7),
    "HalfNormal": dist.HalfNormal(1.0),
    "LogNormal": dist.LogNormal(0.0, 0.5),
    "TruncatedNormal": dist.TruncatedNormal(0.0, 1.0, low=-0.5),
    "MixtureSameFamily": MIXTURE,
}


def effects() -> Any:
    """An effect for each group, of every kind of prior that is not Gaussian."""
    parts = [numpyro.sample(name, prior.expand([4])) for name, prior in PRIORS.items()]
    return sum(parts, normal("mean"))[GROUP]


def walk() -> Any:
    """A walk with heavy-tailed steps, by NumPyro's scan."""

    def step(last: Any, _: Any) -> tuple[Any, Any]:
        x = numpyro.sample("x", dist.StudentT(3.0, 0.9 * last, 0.4))
        return x, x

    return scan(step, 0.0, None, length=10)[1]


@pytest.mark.parametrize("predictor", [effects, walk])
def test_weights_and_masks(predictor: Callable[[], Any]):
    def weighted() -> None:
        with handlers.scale(scale=WEIGHT):
            fn = dist.Normal(predictor(), 0.5)
            numpyro.sample("y", fn, obs=Y, obs_mask=SEEN)

    def weighted_data() -> None:
        fn = dist.Normal(predictor(), 0.5)
        with handlers.scale(scale=WEIGHT):
            numpyro.sample("y", fn, obs=Y, obs_mask=SEEN)

    def repeated() -> None:
        numpyro.sample("y", dist.Normal(predictor()[REPEATED], 0.5), obs=Y[REPEATED])

    with pytest.raises(ValueError, match="under handlers.scale.*Scale the observed sites only"):
        EP(weighted).run(KEY)
    one, other = EP(weighted_data).run(KEY), EP(repeated).run(KEY)
    assert one.converged
    assert_allclose(one.joint_mean, other.joint_mean, atol=1e-3)
    assert_allclose(one.joint_covariance, other.joint_covariance, atol=1e-3)
    assert_allclose(one.log_evidence, other.log_evidence, atol=1e-3)
