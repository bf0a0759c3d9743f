"""A function that EP calls after each sweep."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from compilations import compilations
from numpy.testing import assert_array_equal

from bayesrank.infer import EP

KEY = jax.random.key(0)
COUNT = np.array([0, 3, 9])


def counts(count: Any) -> None:
    f: Any = numpyro.sample("f", dist.Normal(0.0, 2.0).expand([3]))
    numpyro.sample("y", dist.Poisson(jnp.exp(f + f[1])), obs=count)


def line(value: Any) -> None:
    f: Any = numpyro.sample("f", dist.Normal(0.0, 2.0))
    numpyro.sample("y", dist.Normal(f, 1.0), obs=value)


@pytest.mark.slow
def test_every_sweep_is_reported_and_the_answer_is_the_same():
    engine = EP(counts)
    seen: list[tuple[int, float]] = []
    plain = engine.run(KEY, COUNT)
    result = engine.run(KEY, COUNT, callback=lambda sweep, delta: seen.append((sweep, delta)))
    assert_array_equal(result.joint_mean, plain.joint_mean)
    assert_array_equal(result.joint_covariance, plain.joint_covariance)
    assert [sweep for sweep, _ in seen] == list(range(1, result.num_sweeps + 1))
    assert seen[-1][1] == result.max_change <= engine.tol < seen[-2][1]
    # Another function is called by the same code, and no function by no code.
    again = []
    with compilations() as compiled:
        assert engine.run(KEY, COUNT, callback=lambda *now: again.append(now)).converged
    assert not compiled
    assert again == seen
    engine.run(KEY, COUNT)
    assert again == seen

    def fail(sweep: int, delta: float) -> None:
        raise RuntimeError(f"stopped at {sweep}")

    with pytest.raises(RuntimeError, match="stopped at 1"):
        engine.run(KEY, COUNT, callback=fail)


@pytest.mark.parametrize("structure", ["dense", pytest.param("factorised", marks=pytest.mark.slow)])
def test_programs_that_take_one_sweep_and_those_of_many_latents_report_too(structure):
    program = line if structure == "dense" else counts_apart
    seen: list[int] = []
    result = EP(program, structure=structure).run(
        KEY, np.array([1.0, 2.0]), callback=lambda sweep, _: seen.append(sweep)
    )
    assert seen == list(range(1, result.num_sweeps + 1))


def counts_apart(count: Any) -> None:
    f: Any = numpyro.sample("f", dist.Normal(0.0, 2.0).expand([2]))
    numpyro.sample("y", dist.Poisson(jnp.exp(f)), obs=count)
