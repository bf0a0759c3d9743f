"""What EP cannot take is refused: the message names the site, what is wrong, and the fix."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers

from bayesrank.distributions import Thurstone
from bayesrank.infer import EP, ConvergenceWarning
from bayesrank.infer.reader.program import read_program
from bayesrank.infer.reader.traced import trace

KEY = jax.random.key(0)
PAIRS = np.array([[0, 1], [1, 2], [0, 2]])


def items(*distribution: Any) -> Any:
    prior = distribution[0] if distribution else dist.Normal(0.0, 1.0)
    return numpyro.sample("f", prior.expand([3]))


def wins(f: Any, name: str = "win") -> None:
    numpyro.sample(name, Thurstone(f[PAIRS[:, 0]] - f[PAIRS[:, 1]]), obs=1)


# ---------------------------------------------------------------- latents


def student_t_vector():
    root = jnp.eye(3)
    wins(numpyro.sample("f", dist.MultivariateStudentT(4.0, jnp.zeros(3), root)))


def laplace_latent_around_the_square_of_another():
    level: Any = numpyro.sample("level", dist.Normal(0.0, 1.0))
    wins(items(dist.Laplace(level + level**2, 1.0)))


def flat_latent():
    wins(numpyro.sample("f", dist.ImproperUniform(dist.constraints.real, (3,), ())))


def mean_not_affine():
    level: Any = numpyro.sample("level", dist.Normal(0.0, 1.0))
    wins(items(dist.Normal(level**2, 1.0)))


def masked_latent():
    with handlers.mask(mask=np.array([True, False, True])):
        f = items()
    wins(f)


# ---------------------------------------------------------------- likelihoods


def scaled_by_a_latent():
    f = items()
    with handlers.scale(scale=1.0 + f[0] ** 2):
        wins(f)


def seen_through_a_window():
    f = items()
    numpyro.sample("win", dist.Uniform(f - 0.5, f + 0.5), obs=np.zeros(3))


def bounded_latent_said_to_be_real():
    shift = dist.transforms.AffineTransform(1.0, 2.0)
    wins(items(dist.TransformedDistribution(dist.HalfNormal(1.0), shift)))


def product_of_latents():
    f = items()
    numpyro.sample("win", dist.Bernoulli(logits=f[0] * f[1] + f[2]), obs=1)


def predictor_not_affine():
    f = items()
    numpyro.sample("win", Thurstone(f[PAIRS[:, 0]] ** 2 - f[PAIRS[:, 1]] * f[0]), obs=1)


def repelling_factor():
    f = items()
    numpyro.factor("graph", jnp.dot(f, f))
    wins(f)


def factor_improper_in_two_directions():
    """The determinant is positive, and so is every variance of the matrix that comes out."""
    f = numpyro.sample("f", dist.MultivariateNormal(0.0, covariance_matrix=jnp.eye(3)))
    ones = jnp.ones((3, 3)) / 3
    precision = -1.0 * (jnp.eye(3) - ones) + 0.1 * ones
    numpyro.factor("graph", -0.5 * f @ (precision - jnp.eye(3)) @ f)
    wins(f)


def subsampled_plate():
    f = items()
    with numpyro.plate("pair", 3, subsample_size=2) as pair:
        rows = jnp.asarray(PAIRS)[pair]
        numpyro.sample("win", Thurstone(f[rows[:, 0]] - f[rows[:, 1]]), obs=1)


def no_data():
    items()


def no_latent():
    scale = numpyro.sample("scale", dist.HalfNormal(1.0))
    numpyro.sample("y", dist.Normal(0.0, scale), obs=1.0)


REFUSED = {
    student_t_vector: ["'f' (MultivariateStudentT dis", "is not Gaussian", "params={'f': ...}"],
    laplace_latent_around_the_square_of_another: ["'f' (Laplace", "Normal or MultivariateNormal"],
    flat_latent: ["'f' (ImproperUniform", "is not Gaussian"],
    mean_not_affine: ["prior mean of latent site 'f' is not an affine", "Make it affine"],
    masked_latent: ["latent site 'f' is masked", "Mask the observed sites only"],
    scaled_by_a_latent: ["site 'win'", "handlers.scale", "latent site(s) f", "Fix these"],
    seen_through_a_window: ["'win' can take depends on latent site(s) f", "params={...}"],
    bounded_latent_said_to_be_real: ["site 'f' is bounded", "domain=base.support"],
    product_of_latents: ["factor 0 of observed site 'win'", "more than two", "or use NUTS"],
    predictor_not_affine: ["site 'win'", "predictor is not affine", "two affine predictors per"],
    repelling_factor: ["factor(s) 'graph'", "without a finite integral", "Check the sign"],
    factor_improper_in_two_directions: ["factor(s) 'graph'", "without a finite integral"],
    subsampled_plate: ["plate 'pair' is subsampled", "leave out subsample_size"],
    no_data: ["no observed site", "pass the data"],
    no_latent: ["no unobserved sample site with real support for EP to infer; give it one"],
}


def read(model: Any, *args: Any, **params: Any) -> None:
    """Read a program and raise what `EP.run` would, without compiling a solution."""
    refusals = []

    @jax.jit
    def checks(args, params):
        program = read_program(trace(model, args, {}, params), params)
        refusals.extend(refusal for refusal, _ in program.checks)
        return [passed for _, passed in program.checks]

    for refusal, passed in zip(refusals, checks(args, params), strict=True):
        refusal.raise_unless(np.asarray(passed))


@pytest.mark.parametrize("model", REFUSED, ids=lambda model: model.__name__)
def test_refusal(model):
    with pytest.raises(ValueError) as caught:
        read(model)
    for part in REFUSED[model]:
        assert part in str(caught.value)


def test_a_root_that_is_not_triangular_is_no_prior():
    """Densities and draws of such a distribution do not belong together."""

    def model(spread, correlation):
        root = spread[:, None] * correlation
        wins(numpyro.sample("f", dist.MultivariateNormal(jnp.zeros(3), scale_tril=root)))

    with pytest.raises(ValueError, match="'f' is not a proper Gaussian.*not lower triangular"):
        read(model, np.ones(3), 0.5 * np.eye(3) + 0.5)


def test_a_program_whose_latents_are_all_fixed():
    def model():
        wins(items())

    with pytest.raises(ValueError, match=r"give it one, or leave one out of params \(f\)"):
        read(model, f=np.zeros(3))


@pytest.mark.parametrize("covariance", [np.ones((3, 3)), -np.eye(3), np.full((3, 3), np.nan)])
def test_improper_prior(covariance):
    def model(covariance):
        scale = numpyro.sample("scale", dist.HalfNormal(1.0))
        wins(numpyro.sample("f", dist.MultivariateNormal(0.0, scale * covariance)))

    message = (
        r"prior of latent site 'f' is not a proper Gaussian.*jitter.*hyperparameters \(scale\)"
    )
    with pytest.raises(ValueError, match=message):
        read(model, covariance)


@pytest.mark.parametrize(
    ("distribution", "values"),
    [
        (lambda f: dist.Normal(f, 1.0), [0.1, np.nan, 2.0]),
        (lambda f: dist.Poisson(jnp.exp(f)), [2, -1, 0]),
        (Thurstone, [1, 2, 0]),
        (lambda f: Thurstone(f).to_event(1), [1.0, np.nan, 0.0]),
        # Cross entropy of shares, for NumPyro; known moments are of wins and losses alone.
        (lambda f: dist.Bernoulli(logits=f, validate_args=False), [1.0, 0.8, 0.0]),
    ],
)
def test_values_without_density(distribution, values):
    def model(y):
        numpyro.sample("y", distribution(items()), obs=y)

    with pytest.raises(ValueError, match="element 1 of observed site 'y' is not a number, or out"):
        read(model, np.array(values))


def test_data_of_other_things_than_numbers():
    def model(y):
        numpyro.sample("y", dist.Bernoulli(logits=items()), obs=y)

    with pytest.raises(TypeError, match="site 'y' is given a ndarray of dtype object.*mask what"):
        EP(model).run(KEY, np.array([True, None, False]))


def test_masked_arrays_are_refused_by_name():
    hidden = np.ma.masked_array([1.0, 2.0, np.nan], mask=[False, False, True])

    def model(*, y):
        numpyro.sample("y", dist.Normal(items(), 1.0), obs=y)

    def closed_over():
        numpyro.sample("y", dist.Normal(items(), 1.0), obs=hidden)

    with pytest.raises(ValueError, match=r"argument y is a masked array.*handlers\.mask"):
        trace(model, (), {"y": hidden}, {})
    with pytest.raises(ValueError, match="the value of site 'y' is a masked array"):
        trace(closed_over, (), {}, {})


@pytest.mark.parametrize("look", [lambda f: bool(f[0] > 0), np.asarray])
def test_a_program_that_looks_at_its_latents(look):
    def model():
        f = items()
        look(f)
        wins(f)

    with pytest.raises(TypeError, match=r"looks at the value of a latent.*jnp.where.*to_numpy\(\)"):
        EP(model).run(KEY)


def test_arguments_that_are_not_numbers():
    """They get as far as the solution, which says that it is none."""

    def model(x):
        numpyro.sample("win", Thurstone(x @ items()), obs=1)

    engine = EP(model, max_sweeps=5)
    assert engine.run(KEY, np.eye(3)).converged
    with pytest.warns(ConvergenceWarning, match="no evidence of the data.*arguments are finite"):
        result = engine.run(KEY, np.full((3, 3), np.nan))
    assert not result.converged


@pytest.mark.parametrize(
    ("params", "parts"),
    [
        ({"skill": 1.0}, ["params names 'skill'", "not a site of the model", "'f'"]),
        ({"win": np.zeros(3)}, ["params names 'win'", "observed"]),
        ({"bonus": 1.0}, ["params names 'bonus'", "factor"]),
        ({"margin": np.zeros(3)}, ["params names 'margin'", "not a site of the model"]),
        ({"scale": np.ones(2)}, ["params['scale'] has shape (2,)", "the site has shape ()"]),
    ],
)
def test_refused_params(params, parts):
    def model():
        scale = numpyro.sample("scale", dist.HalfNormal(1.0))
        f = items(dist.Normal(0.0, scale))
        numpyro.deterministic("margin", f - f[0])
        numpyro.factor("bonus", f[0])
        wins(f)

    with pytest.raises(ValueError) as caught:
        read(model, **params)
    for part in parts:
        assert part in str(caught.value)


def test_run_with_what_is_no_key_no_count_or_traced():
    engine = EP(lambda: wins(items()))
    with pytest.raises(TypeError, match=r"rng_key is an array of shape \(3, 2\) .*jax.random.key"):
        engine.run(PAIRS)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="rng_key is of type int; pass a random key"):
        engine.run(0)  # type: ignore[arg-type]
    for wrong in (-1, 1.5, True, "10"):
        with pytest.raises(ValueError, match=f"num_samples is '?{wrong}'?; pass a whole number"):
            engine.run(KEY, num_samples=wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="cannot be traced by jit.*solve, log_evidence"):
        jax.jit(lambda y: EP(lambda y: wins(items())).run(KEY, y).mean["f"])(1.0)


def test_repelling_elements_are_not_passed_over():
    """Improper factors of single elements are sites that EP has to skip: it says so."""

    def model(strength):
        f = items()
        numpyro.factor("repel", strength * f**2)
        wins(f)

    engine = EP(model, max_sweeps=20)
    assert engine.run(KEY, np.array(0.1)).converged
    with pytest.warns(ConvergenceWarning, match="site updates were skipped"):
        result = engine.run(KEY, np.array(1.0))
    assert not result.converged
    assert result.skipped_sites > 0


def test_structure_that_is_being_traced():
    """Under `jit`, what the elements of a site share has to be known; `run` finds out."""

    def model(index, counts):
        numpyro.sample("count", dist.Poisson(jnp.exp(items())[index]), obs=counts)

    engine = EP(model)
    with pytest.raises(ValueError, match=r"site 'count'.*exp\(f\[i\]\), not exp\(f\)\[i\]"):
        jax.jit(lambda *args: engine.read({}, *args).mean)(PAIRS[:, 0], np.array([1, 2, 0]))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"power": 0.0}, "power is 0.0; pass a number above 0 and at most 1"),
        ({"power": 1.5}, "power is 1.5"),
        ({"power": "1"}, "power is '1'"),
        ({"damping": np.nan}, "damping is nan"),
        ({"max_sweeps": 0}, "max_sweeps is 0; pass a whole number from 1 on"),
        ({"max_sweeps": 2.5}, "max_sweeps is 2.5"),
        ({"tol": 0.0}, "tol is 0.0; pass a positive number"),
        ({"tol": np.array([1e-4, 1e-3])}, "tol is array"),
        ({"precision": "float16"}, "precision is 'float16'; choose 'float64' or 'float32'"),
    ],
)
def test_refused_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        EP(no_data, **settings)


# ---------------------------------------------------------------- parameters of distributions


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
    def model(**own):
        numpyro.sample("f", prior())
        numpyro.sample("y", dist.Normal(0.0, 1.0), obs=0.0)

    with pytest.raises(ValueError, match="distribution is invalid") as raised:
        EP(model).run(KEY)
    assert all(part in str(raised.value) for part in parts)
    # As NumPyro's own checks, they can be turned off; then the prior is found improper.
    with numpyro.validation_enabled(False), pytest.raises(ValueError) as raised:
        EP(model).run(KEY)
    assert "is invalid" not in str(raised.value)


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


def test_tracing_leaves_validation_as_it_was():
    EP(lambda: wins(items())).run(KEY)
    with pytest.raises(ValueError, match="invalid scale parameter"):
        dist.Normal(0.0, -1.0)
