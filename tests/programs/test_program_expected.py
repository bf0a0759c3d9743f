"""What EP refuses and warns of, program by program; the fix that a message names works."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpy.testing import assert_allclose
from numpyro.infer.util import log_density
from program_expected import EXPECTED, Row, grouped, items, skills, wins
from program_table import GROUP, WIN, normal, observe

from bayesrank.infer import EP, ConvergenceWarning
from bayesrank.infer.reader.program import read_program
from bayesrank.infer.reader.traced import trace

KEY = jax.random.key(0)


def read(row: Row) -> None:
    """Read a program and raise what `EP.run` would, without compiling a solution."""
    if row.options:
        EP(row.program, **row.options).run(KEY, *row.args, params=row.params)
        return
    refusals = []

    @jax.jit
    def checks(args, params):
        program = read_program(trace(row.program, args, {}, params), params)
        refusals.extend(refusal for refusal, _ in program.checks)
        return [passed for _, passed in program.checks]

    for refusal, passed in zip(refusals, checks(row.args, row.params or {}), strict=True):
        refusal.raise_unless(np.asarray(passed))


def _rows(expected: str) -> list[Any]:
    return [
        pytest.param(row, id=name, marks=[pytest.mark.slow] if row.slow else [])
        for name, row in EXPECTED.items()
        if row.expected == expected
    ]


@pytest.mark.parametrize("row", _rows("refused"))
def test_refused(row):
    with pytest.raises(row.kind) as caught:
        read(row)
    for part in row.says:
        assert part in str(caught.value)


@pytest.mark.parametrize("row", _rows("warns"))
def test_warned_of(row):
    engine = EP(row.program, max_sweeps=20)
    with pytest.warns(ConvergenceWarning) as said:
        assert not engine.run(KEY, *row.args).converged
    text = " ".join(str(each.message) for each in said)
    assert all(part in text for part in row.says)
    assert row.good is None or EP(row.program).run(KEY, *row.good).converged


FIXED = {name: row for name, row in EXPECTED.items() if row.instead}


@pytest.mark.slow
@pytest.mark.parametrize("row", FIXED.values(), ids=FIXED)
def test_the_fix_works(row):
    """Values given are values written in; and what is rewritten runs."""
    other = EP(row.instead).run(KEY)
    assert other.converged
    if row.held:
        fixed = EP(row.program).run(KEY, params=row.held)
        assert_allclose(fixed.joint_mean, other.joint_mean, atol=1e-6)
        assert_allclose(fixed.joint_covariance, other.joint_covariance, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "size"), [("convolution", 12), ("fourier", 6), ("one_sum_of_logistics", 4)]
)
def test_what_is_rewritten_has_the_density_of_what_is_refused(name, size):
    programs: Any = EXPECTED[name].program, EXPECTED[name].instead
    f = np.sin(np.arange(1.0, 1 + size))
    both = jax.jit(lambda f: [log_density(each, (), {}, {"f": f})[0] for each in programs])
    assert_allclose(*both(f), rtol=1e-5)


# ---------------------------------------------------------------- held, or read after all


@pytest.mark.slow
def test_pure_functions_hold_no_vector_at_its_medians():
    def scales_of_groups(scale: Any = None) -> None:
        if scale is None:
            scale = numpyro.sample("scale", dist.HalfNormal(1.0).expand([4]))
        observe(dist.Normal(normal("f"), scale[GROUP]), np.arange(10.0))

    with pytest.raises(ValueError, match="'scale' is a hyperparameter of 4 elements without a"):
        EP(scales_of_groups).log_evidence({})
    scale = np.array([0.5, 1.0, 0.8, 0.9])
    fixed = EP(scales_of_groups).run(KEY, params={"scale": scale})
    other = EP(scales_of_groups).run(KEY, scale)
    assert_allclose(fixed.joint_mean, other.joint_mean, atol=1e-6)
    held = EP(scales_of_groups, hyperparameters="prior").run(KEY)
    assert held.defaulted_params == ("scale",)
    assert_allclose(held.params["scale"], dist.HalfNormal(1.0).icdf(0.5), rtol=1e-5)


@pytest.mark.slow
def test_two_free_utilities_are_their_difference():
    def both_free() -> None:
        observe(dist.Categorical(logits=normal("f", 1.0, (4, 2))[GROUP]), WIN)

    def difference() -> None:
        f = normal("f", 1.0, (4, 2))[GROUP]
        observe(dist.Bernoulli(logits=f[:, 1] - f[:, 0]), WIN)

    both, one = EP(both_free).run(KEY), EP(difference).run(KEY)
    assert_allclose(both.joint_mean, one.joint_mean, atol=1e-4)
    assert_allclose(both.joint_covariance, one.joint_covariance, atol=1e-4)
    assert_allclose(both.log_evidence, one.log_evidence, atol=1e-4)


def test_a_tempered_scale_stays_a_hyperparameter():
    def model() -> None:
        with numpyro.handlers.scale(scale=2.0):
            noise: Any = numpyro.sample("noise", dist.HalfNormal(1.0))
        grouped(skills(), noise)

    result = EP(model, hyperparameters="prior").run(KEY)
    assert result.defaulted_params == ("noise",)
    assert_allclose(result.params["noise"], dist.HalfNormal(1.0).icdf(0.5), rtol=1e-5)


# ---------------------------------------------------------------- parameters of distributions


def _prior(fn: Any) -> Any:
    def model() -> None:
        numpyro.sample("f", fn())
        observe(dist.Normal(0.0, 1.0), 0.0)

    return model


@pytest.mark.parametrize(
    ("prior", "parts"),
    [
        (lambda: dist.Normal(0.0, -1.0), ["site 'f'", "scale=-1.0", "Normal", "Positive"]),
        (
            lambda: dist.MultivariateNormal(0.0, covariance_matrix=np.diag([1.0, 1.0, -1.0])),
            ["site 'f'", "covariance_matrix", "MultivariateNormal", "PositiveDefinite"],
        ),
        (
            lambda: dist.Normal(np.zeros(3), np.array([1.0, 0.0, 1.0])).mask(True).to_event(1),
            ["site 'f'", "scale, an array,", "Normal"],
        ),
    ],
)
def test_invalid_parameters(prior, parts):
    with pytest.raises(ValueError, match="distribution is invalid") as raised:
        EP(_prior(prior)).run(KEY)
    assert all(part in str(raised.value) for part in parts)
    # As NumPyro's own checks, they can be turned off; then the prior is found improper.
    with numpyro.validation_enabled(False), pytest.raises(ValueError) as raised:
        EP(_prior(prior)).run(KEY)
    assert "is invalid" not in str(raised.value)
    with pytest.raises(ValueError, match="invalid scale parameter"):  # as it was before
        dist.Normal(0.0, -1.0)


@pytest.mark.parametrize(
    ("likelihood", "parts"),
    [
        (lambda x: dist.OrderedLogistic(0.0, x), ["cutpoints", "OrderedVector"]),
        (dist.Categorical, ["probs", "Simplex"]),
    ],
)
def test_invalid_vectors_that_the_program_computes(likelihood, parts):
    def model(x):
        numpyro.sample("y", likelihood(1.5 * x), obs=0)
        wins(items())

    with pytest.raises(ValueError, match="site 'y'.* is invalid") as raised:
        EP(model).run(KEY, np.array([1.0, 0.0]))
    assert all(part in str(raised.value) for part in parts)


def test_masked_arrays_are_refused_by_name():
    hidden = np.ma.masked_array([1.0, 2.0, np.nan], mask=[False, False, True])

    def model(*, y=hidden):
        numpyro.sample("y", dist.Normal(items(), 1.0), obs=y)

    with pytest.raises(ValueError, match=r"argument y is a masked array.*handlers\.mask"):
        trace(model, (), {"y": hidden}, {})
    with pytest.raises(ValueError, match="the value of site 'y' is a masked array"):
        trace(model, (), {}, {})


def test_structure_that_is_being_traced():
    """Under `jit`, what the elements of a site share has to be known; `run` finds out."""

    def model(index, counts):
        numpyro.sample("count", dist.Poisson(jnp.exp(items())[index]), obs=counts)

    engine = EP(model)
    with pytest.raises(ValueError, match=r"site 'count'.*exp\(f\[i\]\), not exp\(f\)\[i\]"):
        jax.jit(lambda *args: engine.read({}, *args).mean)(np.array([0, 1, 0]), np.arange(3))
