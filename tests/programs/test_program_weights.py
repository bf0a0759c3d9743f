"""Weights and masks where latents are not Gaussian and stand in a scan.

A weight of two is the same datum twice, a mask is a datum left out.  With Gaussian observations EP
gives the same answer both ways.
"""

from typing import Any

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpy.testing import assert_allclose
from numpyro import handlers
from numpyro.contrib.control_flow import scan
from program_table import Y

from bayesrank.infer import EP, AccuracyWarning

KEY = jax.random.key(0)
WEIGHT = np.array([2.0, 1, 1, 2, 1, 1, 1, 2, 1, 1])
SEEN = np.arange(10) % 4 != 1
REPEATED = np.repeat(np.arange(10), np.where(SEEN, WEIGHT, 0).astype(int))


def walk() -> Any:
    """A walk with heavy-tailed steps, by NumPyro's scan."""

    def step(last: Any, _: Any) -> tuple[Any, Any]:
        x = numpyro.sample("x", dist.StudentT(3.0, 0.9 * last, 0.4))
        return x, x

    return scan(step, 0.0, None, length=10)[1]


@pytest.mark.slow
def test_weights_and_masks():
    def weighted() -> None:
        fn = dist.Normal(walk(), 0.5)
        with handlers.scale(scale=WEIGHT):
            numpyro.sample("y", fn, obs=Y, obs_mask=SEEN)

    def repeated() -> None:
        numpyro.sample("y", dist.Normal(walk()[REPEATED], 0.5), obs=Y[REPEATED])

    # The tails of the last step, which no datum holds back, are cut off: see the last lines.
    with pytest.warns(AccuracyWarning, match="deviation of a factor of 'x' wrong by about 5%"):
        one, other = EP(weighted).run(KEY), EP(repeated).run(KEY)
    assert one.converged
    assert_allclose(one.joint_mean, other.joint_mean, atol=1e-3)
    assert_allclose(one.joint_covariance, other.joint_covariance, atol=1e-3)
    assert_allclose(one.log_evidence, other.log_evidence, atol=1e-3)
    row = np.zeros(10)
    row[-2:] = -0.9, 1.0
    own = np.sqrt(row @ one.joint_covariance @ row)
    assert 0.03 < 1 - own / (0.4 * np.sqrt(3)) < 0.1
