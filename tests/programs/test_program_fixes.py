"""What EP refuses of the wider class: the message names the site and a fix, and the fix works."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpy.testing import assert_allclose
from numpyro.contrib.control_flow import scan
from numpyro.infer.util import log_density
from program_table import GROUP, WIN, Y, normal, observe

from bayesrank.infer import EP

KEY = jax.random.key(0)


def mean_tail_and_scale():
    f, g, h = normal("f", 1.0, (4,)), normal("g", 0.5), normal("h", 0.5)
    observe(dist.StudentT(jnp.exp(h), f[GROUP], jnp.exp(g)), Y)


def scale_known():
    f = normal("f", 1.0, (4,))
    observe(dist.StudentT(np.exp(1.0), f[GROUP], np.exp(0.3)), Y)


def product_of_sites():
    """A product beside a sum."""
    ability, slope = normal("ability", 1.0, (4,)), normal("slope", 0.3, (2,), 1.0)
    easy = normal("easy", 1.0)
    observe(dist.Bernoulli(logits=slope[np.arange(10) % 2] * ability[GROUP] + easy), WIN)


def slopes_known():
    slope = np.array([0.8, 1.3])[np.arange(10) % 2]
    ability, easy = normal("ability", 1.0, (4,)), normal("easy", 1.0)
    observe(dist.Bernoulli(logits=slope * ability[GROUP] + easy), WIN)


def choice_of_four():
    first, second, third = (normal(k, 1.0, (4,))[GROUP] for k in ("first", "second", "third"))
    logits = jnp.stack([jnp.zeros(10), first, second, third], axis=-1)
    observe(dist.Categorical(logits=logits), np.arange(10) % 4)


def two_utilities_known():
    first = normal("first", 1.0, (4,))[GROUP]
    logits = jnp.stack([jnp.zeros(10), first, jnp.full(10, 0.3), jnp.full(10, 0.1)], axis=-1)
    observe(dist.Categorical(logits=logits), np.arange(10) % 4)


def choice_of_two():
    """Both utilities are free, though only their difference counts."""
    logits = normal("f", 1.0, (4, 2))[GROUP]
    observe(dist.Categorical(logits=logits), WIN)


def difference_of_two():
    f = normal("f", 1.0, (4, 2))[GROUP]
    observe(dist.Bernoulli(logits=f[:, 1] - f[:, 0]), WIN)


def choice_of_three_free():
    """All three utilities are free, though only their differences count."""
    observe(dist.Categorical(logits=normal("f", 1.0, (4, 3))[GROUP]), np.arange(10) % 3)


def differences_of_three():
    """Differences from the first of three free utilities."""
    d: Any = numpyro.sample("d", dist.MultivariateNormal(0.0, np.eye(2) + 1.0).expand([4]))
    observe(dist.Categorical(logits=jnp.pad(d[GROUP], ((0, 0), (1, 0)))), np.arange(10) % 3)


def scale_of_a_prior():
    f = normal("f", jnp.exp(normal("log_scale", 0.5)), (4,))
    observe(dist.Normal(f[GROUP], 0.7), Y)


def scale_of_a_prior_known():
    observe(dist.Normal(normal("f", np.exp(0.2), (4,))[GROUP], 0.7), Y)


def scan_with(mean: Any) -> None:
    def step(last: Any, now: Any) -> tuple[Any, None]:
        x = numpyro.sample("x", dist.Normal(mean(last), 0.5))
        numpyro.sample("y", dist.Normal(x, 0.5), obs=now)
        return x, None

    scan(step, 0.0, Y)


def carry_not_affine():
    scan_with(jnp.sin)


def carry_made_affine():
    scan_with(lambda last: 0.9 * last)


def weights_of_a_mixture():
    """A group for each datum."""
    f = normal("f", 1.0, (2,))
    group: Any = numpyro.sample("group", dist.Bernoulli(0.4).expand([10]))
    observe(dist.Normal(f[0] + 2.0 * group, 0.7), Y)


def summed_out():
    centre = normal("f", 1.0, (2,))[0]
    parts = [dist.Normal(centre + 2.0 * k, 0.7).log_prob(Y) for k in range(2)]
    numpyro.factor("y", jnp.logaddexp(jnp.log(0.6) + parts[0], jnp.log(0.4) + parts[1]))


def tempered_latents():
    with numpyro.handlers.scale(scale=2.0):
        f = normal("f", 1.0, (4,))
    observe(dist.Normal(f[GROUP], 0.7), Y)


def tempered_data():
    f = normal("f", 1.0, (4,))
    with numpyro.handlers.scale(scale=2.0):
        observe(dist.Normal(f[GROUP], 0.7), Y)


def tempered_positive_effects():
    with numpyro.handlers.scale(scale=2.0):
        effect: Any = numpyro.sample("effect", dist.HalfNormal(1.0).expand([4]))
    observe(dist.Normal(effect[GROUP], 0.7), Y)


def data_of_positive_effects_tempered():
    effect: Any = numpyro.sample("effect", dist.HalfNormal(1.0).expand([4]))
    with numpyro.handlers.scale(scale=2.0):
        observe(dist.Normal(effect[GROUP], 0.7), Y)


def masked_positive_effects():
    with numpyro.handlers.mask(mask=np.arange(4) > 0):
        effect: Any = numpyro.sample("effect", dist.HalfNormal(1.0).expand([4]))
    observe(dist.Normal(effect[GROUP], 0.7), Y)


def data_masked():
    effect: Any = numpyro.sample("effect", dist.HalfNormal(1.0).expand([4]))
    with numpyro.handlers.mask(mask=GROUP > 0):
        observe(dist.Normal(effect[GROUP], 0.7), Y)


def scales_of_groups():
    scale: Any = numpyro.sample("scale", dist.HalfNormal(1.0).expand([4]))
    observe(dist.Normal(normal("f", 1.0), scale[GROUP]), Y)


def scales_of_groups_known():
    observe(dist.Normal(normal("f", 1.0), np.array([0.5, 1.0, 0.8, 0.9])[GROUP]), Y)


def one_sum_of_logistics():
    f = normal("f", 1.0, (4,))
    numpyro.factor("y", jnp.sum(jax.nn.log_sigmoid((2 * WIN - 1) * f[GROUP])))


def one_logistic_each():
    f = normal("f", 1.0, (4,))
    numpyro.factor("y", jax.nn.log_sigmoid((2 * WIN - 1) * f[GROUP]))


def convolution():
    signal = normal("f", 1.0, (12,))
    observe(dist.Normal(jnp.convolve(signal, np.array([0.2, 0.5, 0.3]), "valid"), 0.3), Y)


def convolution_by_a_matrix():
    kernel = 0.3 * np.eye(10, 12) + 0.5 * np.eye(10, 12, k=1) + 0.2 * np.eye(10, 12, k=2)
    observe(dist.Normal(kernel @ normal("f", 1.0, (12,)), 0.3), Y)


def fourier():
    half = normal("f", 0.8, (6,))
    observe(dist.Normal(jnp.fft.irfft(half.astype(complex), 10), 0.5), Y)


def fourier_by_a_matrix():
    basis = np.stack([np.fft.irfft(unit, 10) for unit in np.eye(6)], axis=1)
    observe(dist.Normal(basis @ normal("f", 0.8, (6,)), 0.5), Y)


# What is refused, parts of the message, and the fix that it names: values to hold fixed (and a
# program that has them written in), or another program.
KNOWN: dict[Any, tuple[list[str], dict[str, Any], Any]] = {
    scale_of_a_prior: (
        ["prior scale of latent site 'f' depends on latent site(s) log_scale", "Fix these"],
        {"log_scale": 0.2},
        scale_of_a_prior_known,
    ),
    mean_tail_and_scale: (
        ["'y'", "more than two", "all but two of f, g, h"],
        {"g": 0.3, "h": 1.0},
        scale_known,
    ),
    product_of_sites: (
        ["'y'", "predictor is not affine", "fix all but two of ability, easy, slope with params"],
        {"slope": np.array([0.8, 1.3])},
        slopes_known,
    ),
    choice_of_four: (
        ["'y'", "more than two affine functions", "fix all but two of first, second, third with"],
        {"second": np.full(4, 0.3), "third": np.full(4, 0.1)},
        two_utilities_known,
    ),
}
REWRITTEN: dict[Any, tuple[list[str], Any]] = {
    carry_not_affine: (["prior mean of latent site 'x'", "Make it affine"], carry_made_affine),
    weights_of_a_mixture: (["'group' is discrete", "Sum it out of the model"], summed_out),
    tempered_latents: (["'f' stands under handlers.scale", "Scale the observed"], tempered_data),
    tempered_positive_effects: (
        ["'effect' stands under handlers.scale", "Scale the observed"],
        data_of_positive_effects_tempered,
    ),
    masked_positive_effects: (["'effect' is masked", "Mask the observed"], data_masked),
    choice_of_three_free: (
        ["'y'", "two affine predictors per", "logits=f[i] - f[j]"],
        differences_of_three,
    ),
    convolution: (
        ["'y'", "predictor is not affine", "two affine predictors"],
        convolution_by_a_matrix,
    ),
    fourier: (["'y'", "predictor is not affine", "two affine predictors"], fourier_by_a_matrix),
    one_sum_of_logistics: (["'y'", "one such element per term"], one_logistic_each),
}
# EP sees what is wrong with these only once it has compiled them.
LATE = {mean_tail_and_scale, product_of_sites, choice_of_four, convolution, fourier}
LATE |= {choice_of_three_free, one_sum_of_logistics}


def _refused(model: Any) -> Any:
    marks = [pytest.mark.slow] if model in LATE else []
    return pytest.param(model, marks=marks, id=model.__name__)


@pytest.mark.parametrize("model", [_refused(model) for model in (*KNOWN, *REWRITTEN)])
def test_refused_with_the_fix(model):
    with pytest.raises(ValueError) as caught:
        EP(model).run(KEY)
    for part in (KNOWN.get(model) or REWRITTEN[model])[0]:
        assert part in str(caught.value)


@pytest.mark.parametrize("model", [_refused(model) for model in KNOWN])
def test_values_given_are_values_written_in(model):
    _, params, same = KNOWN[model]
    fixed, other = EP(model).run(KEY, params=params), EP(same).run(KEY)
    assert fixed.converged
    assert_allclose(fixed.joint_mean, other.joint_mean, atol=1e-6)
    assert_allclose(fixed.joint_covariance, other.joint_covariance, atol=1e-6)


@pytest.mark.slow
def test_pure_functions_hold_no_vector_at_its_medians():
    with pytest.raises(ValueError, match="'scale' is a hyperparameter of 4 elements without a"):
        EP(scales_of_groups).log_evidence({})
    scale = np.array([0.5, 1.0, 0.8, 0.9])
    fixed, other = (
        EP(scales_of_groups).run(KEY, params={"scale": scale}),
        EP(scales_of_groups_known).run(KEY),
    )
    assert_allclose(fixed.joint_mean, other.joint_mean, atol=1e-6)
    held = EP(scales_of_groups, hyperparameters="prior").run(KEY)
    assert held.defaulted_params == ("scale",)
    assert_allclose(held.params["scale"], dist.HalfNormal(1.0).icdf(0.5), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("model", REWRITTEN, ids=lambda model: model.__name__)
def test_what_is_rewritten_runs(model):
    assert EP(REWRITTEN[model][1]).run(KEY).converged


@pytest.mark.parametrize(
    ("model", "shape"),
    [(convolution, (12,)), (fourier, (6,)), (one_sum_of_logistics, (4,))],
)
def test_what_is_rewritten_has_the_density_of_what_is_refused(model, shape):
    f = np.sin(np.arange(1.0, 1 + np.prod(shape))).reshape(shape)
    both = jax.jit(lambda f: [log_density(m, (), {}, {"f": f})[0] for m in programs])
    programs = [model, REWRITTEN[model][1]]
    assert_allclose(*both(f), rtol=1e-5)


@pytest.mark.slow
def test_two_free_utilities_are_their_difference():
    both, one = EP(choice_of_two).run(KEY), EP(difference_of_two).run(KEY)
    assert_allclose(both.joint_mean, one.joint_mean, atol=1e-4)
    assert_allclose(both.joint_covariance, one.joint_covariance, atol=1e-4)
    assert_allclose(both.log_evidence, one.log_evidence, atol=1e-4)


def test_a_tempered_scale_stays_a_hyperparameter():
    def model() -> None:
        with numpyro.handlers.scale(scale=2.0):
            noise: Any = numpyro.sample("noise", dist.HalfNormal(1.0))
        observe(dist.Normal(normal("f", 1.0, (4,))[GROUP], noise), Y)

    result = EP(model, hyperparameters="prior").run(KEY)
    assert result.defaulted_params == ("noise",)
    assert_allclose(result.params["noise"], dist.HalfNormal(1.0).icdf(0.5), rtol=1e-5)
