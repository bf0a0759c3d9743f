"""Programs that EP refuses or warns of, with what it says and the program that the fix leads to.

Each is one row of ``EXPECTED``; the programs that EP answers are in `program_table`.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro import handlers
from numpyro.contrib.control_flow import scan
from program_table import GROUP, WIN, Y, draw, effects, normal, observe
from structure_worlds import REFUSED

from bayesrank.distributions import Thurstone


class Row(NamedTuple):
    """A program and its arguments, and what `EP` with these options has to say of it."""

    expected: str  # "refused" or "warns"
    program: Callable[..., Any]
    says: tuple[str, ...]  # parts of the message
    args: tuple[Any, ...] = ()
    params: dict[str, Any] | None = None
    options: dict[str, Any] = {}
    kind: type[Exception] = ValueError
    instead: Callable[[], Any] | None = None  # the program that the message leads to
    held: dict[str, Any] | None = None  # values that are written into that one
    slow: bool = False
    good: tuple[Any, ...] | None = None  # arguments with which the same program runs


EXPECTED: dict[str, Row] = {}


def refused(
    *says: str, expected: str = "refused", name: str = "", **more: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a program, under its own name or another."""

    def enter(program: Callable[..., Any]) -> Callable[..., Any]:
        EXPECTED[name or program.__name__] = Row(expected, program, says, **more)
        return program

    return enter


def expression(name: str, program: Callable[..., Any], *says: str, **more: Any) -> None:
    """Enter a program of one expression."""
    refused(*says, name=name, **more)(program)


PAIRS = np.array([[0, 1], [1, 2], [0, 2]])
NORMAL, I3 = dist.Normal(0.0, 1.0), np.eye(3)


def items(prior: Any = NORMAL) -> Any:
    return numpyro.sample("f", prior.expand([3]))


def wins(f: Any) -> None:
    numpyro.sample("win", Thurstone(f[PAIRS[:, 0]] - f[PAIRS[:, 1]]), obs=1)


def shifted(fn: Any, by: Any) -> Any:
    """NumPyro says of a shifted distribution that it takes all real numbers."""
    return dist.TransformedDistribution(fn, dist.transforms.AffineTransform(by, 1.0))


def grouped(f: Any, scale: Any = 0.7) -> None:
    observe(dist.Normal(f[GROUP], scale), Y)


def skills(scale: Any = 1.0) -> Any:
    return normal("f", scale, (4,))


# ---------------------------------------------------------------- latents


expression(
    "student_t_vector",
    lambda: wins(draw("f", dist.MultivariateStudentT(4.0, jnp.zeros(3), jnp.eye(3)))),
    *("'f' (MultivariateStudentT dis", "is not Gaussian", "params={'f': ...}"),
)
expression(
    "flat_latent",
    lambda: wins(draw("f", dist.ImproperUniform(dist.constraints.real, (3,), ()))),
    "'f' is ImproperUniform, and EP averages over priors of mass one",
)
expression(
    "bounded_latent_said_to_be_real",
    lambda: wins(items(shifted(dist.HalfNormal(1.0), 1.0))),
    *("site 'f' is bounded", "domain=base.support"),
)


@refused("'f' (Laplace", "Normal or MultivariateNormal")
def laplace_latent_around_the_square_of_another():
    level = normal("level")
    wins(items(dist.Laplace(level + level**2, 1.0)))


expression(
    "mean_not_affine",
    lambda: wins(items(dist.Normal(normal("level") ** 2, 1.0))),
    *("prior mean of latent site 'f' is not an affine", "Make it affine"),
)
expression(
    "scale_of_a_prior",
    lambda: grouped(skills(jnp.exp(normal("log_scale", 0.5)))),
    *("prior scale of latent site 'f' depends on latent site(s) log_scale", "Fix these"),
    held={"log_scale": 0.2},
    instead=lambda: grouped(skills(np.exp(0.2))),
)


def scan_with(mean: Any, reverse: bool = False) -> None:
    def step(last: Any, now: Any) -> tuple[Any, None]:
        x = numpyro.sample("x", dist.Normal(mean(last), 0.5))
        numpyro.sample("y", dist.Normal(x, 0.5), obs=now)
        return x, None

    scan(step, 0.0, Y, reverse=reverse)


expression(
    "carry_not_affine",
    lambda: scan_with(jnp.sin),
    *("prior mean of latent site 'x'", "Make it affine"),
    instead=lambda: scan_with(lambda last: 0.9 * last),
)
# NumPyro pairs the values of its sites with the densities of other steps than their own.
expression(
    "reversed_scan",
    lambda: scan_with(lambda last: 0.8 * last, reverse=True),
    "'x' stand in another order than its values",
)


@refused("latent site 'f' is masked", "Mask the observed sites only")
def masked_latent():
    with handlers.mask(mask=np.array([True, False, True])):
        f = items()
    wins(f)


def half_normal_effects() -> Any:
    return effects(dist.HalfNormal(1.0))


def levels(prior: Any) -> None:
    cuts = draw("cuts", prior)
    observe(dist.OrderedLogistic(normal("f", shape=(10,)), cuts), np.arange(10) % 3)


expression(
    "improper_cut_points",
    lambda: levels(dist.ImproperUniform(dist.constraints.ordered_vector, (), (2,))),
    *("'cuts' is ImproperUniform", "OrderedTransform())), fix it with params"),
    instead=lambda: levels(
        dist.TransformedDistribution(
            dist.Normal(0.0, 5.0).expand([2]).to_event(1), dist.transforms.OrderedTransform()
        )
    ),
)


def imputed(prior: Any, seen: Any) -> None:
    """Two of ten ages are not known."""
    unknown = np.array([2, 7])
    age = jnp.asarray(Y).at[unknown].set(draw("age", prior.expand([2])))
    known = age if seen is None else np.delete(Y, unknown)
    numpyro.sample("seen", dist.Normal(0.3, 1.0), obs=known)
    observe(dist.Normal(0.8 * age, 0.5), Y[::-1])


expression(
    "imputed_ages",
    lambda: imputed(dist.Normal(0.3, 1.0).mask(False), None),
    *("'age' is masked", "observe those that were seen alone"),
    instead=lambda: imputed(dist.Normal(0.3, 1.0), True),
)
doubled = partial(handlers.scale, scale=2.0)
expression(
    "masked_positive_effects",
    lambda: grouped(handlers.mask(half_normal_effects, mask=np.arange(4) > 0)()),
    *("'effect' is masked", "Mask the observed"),
    instead=lambda: handlers.mask(grouped, mask=GROUP > 0)(half_normal_effects()),
)
for what, make in (("f", skills), ("effect", half_normal_effects)):
    expression(
        f"tempered_{what}",
        lambda make=make: grouped(doubled(make)()),
        *(f"'{what}' stands under handlers.scale", "Scale the observed"),
        instead=lambda make=make: doubled(grouped)(make()),
    )


@refused("prior of hyperparameter 'noise' depends on latent", options={"hyperparameters": "prior"})
def hyperparameter_that_latents_govern():
    noise: Any = numpyro.sample("noise", dist.LogNormal(normal("mu"), 0.5))
    observe(dist.Normal(normal("a"), noise), 1.0)


def _mixture(centre: Any) -> None:
    parts = [dist.Normal(centre + 2.0 * k, 0.7).log_prob(Y) for k in range(2)]
    numpyro.factor("y", jnp.logaddexp(jnp.log(0.6) + parts[0], jnp.log(0.4) + parts[1]))


@refused(*("'group' is discrete", "Sum it out of the model"), instead=lambda: _mixture(skills()[0]))
def group_for_each_datum():
    group = draw("group", dist.Bernoulli(0.4).expand([10]))
    observe(dist.Normal(skills()[0] + 2.0 * group, 0.7), Y)


# ---------------------------------------------------------------- priors that are none


def _correlated(spread: Any, correlation: Any) -> None:
    wins(draw("f", dist.MultivariateNormal(jnp.zeros(3), scale_tril=spread[:, None] * correlation)))


# Densities and draws of such a distribution do not belong together.
expression(
    "root_that_is_not_triangular",
    _correlated,
    *("'f' is not a proper Gaussian", "not lower triangular"),
    args=(np.ones(3), 0.5 * I3 + 0.5),
)


def _scaled(covariance: Any) -> None:
    scale: Any = numpyro.sample("scale", dist.HalfNormal(1.0))
    wins(draw("f", dist.MultivariateNormal(0.0, scale * covariance)))


for name, matrix in (("singular", 1.0 + 0 * I3), ("negative", -I3), ("missing", np.nan * I3)):
    expression(
        f"covariance_that_is_{name}",
        _scaled,
        *("prior of latent site 'f' is not a proper Gaussian", "jitter", "hyperparameters (scale)"),
        args=(matrix,),
    )


# ---------------------------------------------------------------- likelihoods


@refused("site 'win'", "handlers.scale", "latent site(s) f", "Fix these")
def scaled_by_a_latent():
    f = items()
    with handlers.scale(scale=1.0 + f[0] ** 2):
        wins(f)


@refused("'win' can take depends on latent site(s) f", "params={...}")
def seen_through_a_window():
    f = items()
    numpyro.sample("win", dist.Uniform(f - 0.5, f + 0.5), obs=np.zeros(3))


@refused("factor 0 of observed site 'win'", "more than two", "or use NUTS")
def product_of_latents():
    f = items()
    numpyro.sample("win", dist.Bernoulli(logits=f[0] * f[1] + f[2]), obs=1)


expression(
    "mean_tail_and_scale",
    lambda: observe(
        dist.StudentT(jnp.exp(normal("h", 0.5)), skills()[GROUP], jnp.exp(normal("g", 0.5))), Y
    ),
    *("'y'", "more than two", "all but two of f, g, h"),
    held={"g": 0.3, "h": 1.0},
    instead=lambda: observe(dist.StudentT(np.exp(1.0), skills()[GROUP], np.exp(0.3)), Y),
)


def _answers(slope: Any) -> None:
    logits = slope[np.arange(10) % 2] * normal("ability", 1.0, (4,))[GROUP] + normal("easy")
    observe(dist.Bernoulli(logits=logits), WIN)


expression(
    "product_of_sites_beside_a_sum",
    lambda: _answers(normal("slope", 0.3, (2,), 1.0)),
    *("'y'", "predictor is not affine", "fix all but two of ability, easy, slope with params"),
    held={"slope": np.array([0.8, 1.3])},
    instead=lambda: _answers(np.array([0.8, 1.3])),
)


def _choice(second: Any, third: Any) -> None:
    logits = [jnp.zeros(10), normal("first", 1.0, (4,))[GROUP], second, third]
    observe(dist.Categorical(logits=jnp.stack(logits, axis=-1)), np.arange(10) % 4)


expression(
    "choice_of_four",
    lambda: _choice(*(normal(name, 1.0, (4,))[GROUP] for name in ("second", "third"))),
    *("'y'", "more than two affine functions", "fix all but two of first, second, third with"),
    held={"second": np.full(4, 0.3), "third": np.full(4, 0.1)},
    instead=lambda: _choice(jnp.full(10, 0.3), jnp.full(10, 0.1)),
)


def _choice_of_three(utility: Any) -> None:
    observe(dist.Categorical(logits=utility[GROUP]), np.arange(10) % 3)


# All three utilities are free, though only their differences count.
expression(
    "choice_of_three_free",
    lambda: _choice_of_three(normal("f", 1.0, (4, 3))),
    *("'y'", "two affine predictors per", "logits=f[i] - f[j]"),
    instead=lambda: _choice_of_three(
        jnp.pad(
            draw("d", dist.MultivariateNormal(0.0, np.eye(2) + 1.0).expand([4])), ((0, 0), (1, 0))
        )
    ),
)


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


def _logistics() -> Any:
    return jax.nn.log_sigmoid((2 * WIN - 1) * skills()[GROUP])


NOT_AFFINE = "'y'", "predictor is not affine", "two affine predictors"
refused(*NOT_AFFINE, instead=convolution_by_a_matrix)(convolution)
refused(*NOT_AFFINE, instead=fourier_by_a_matrix)(fourier)
expression(
    "one_sum_of_logistics",
    lambda: numpyro.factor("y", jnp.sum(_logistics())),
    *("'y'", "one such element per term"),
    instead=lambda: numpyro.factor("y", _logistics()),
)


@refused("factor(s) 'graph'", "without a finite integral", "Check the sign")
def repelling_factor():
    f = items()
    numpyro.factor("graph", jnp.dot(f, f))
    wins(f)


@refused("factor(s) 'graph'", "without a finite integral")
def factor_improper_in_two_directions():
    """The determinant is positive, and so is every variance of the matrix that comes out."""
    f = draw("f", dist.MultivariateNormal(0.0, covariance_matrix=jnp.eye(3)))
    ones = jnp.ones((3, 3)) / 3
    precision = -1.0 * (jnp.eye(3) - ones) + 0.1 * ones
    numpyro.factor("graph", -0.5 * f @ (precision - jnp.eye(3)) @ f)
    wins(f)


@refused("plate 'pair' is subsampled", "leave out subsample_size")
def subsampled_plate():
    f = items()
    with numpyro.plate("pair", 3, subsample_size=2) as pair:
        rows = jnp.asarray(PAIRS)[pair]
        numpyro.sample("win", Thurstone(f[rows[:, 0]] - f[rows[:, 1]]), obs=1)


expression("no_data", lambda: items(), "no observed site", "pass the data")
expression(
    "no_latent",
    lambda: observe(dist.Normal(0.0, draw("scale", dist.HalfNormal(1.0))), 1.0),
    "no unobserved sample site with real support for EP to infer; give it one",
)


# ---------------------------------------------------------------- data


def _seen(distribution: Any) -> Any:
    return lambda y: numpyro.sample("y", distribution(items()), obs=y)


NO_DENSITY: list[tuple[str, Any, list[Any]]] = [
    ("missing", lambda f: dist.Normal(f, 1.0), [0.1, np.nan, 2.0]),
    ("negative_count", lambda f: dist.Poisson(jnp.exp(f)), [2, -1, 0]),
    ("third_outcome", Thurstone, [1, 2, 0]),
    ("event_with_a_gap", lambda f: Thurstone(f).to_event(1), [1.0, np.nan, 0.0]),
    # Cross entropy of shares, for NumPyro; known moments are of wins and losses alone.
    ("share", lambda f: dist.Bernoulli(logits=f, validate_args=False), [1.0, 0.8, 0.0]),
]
for name, distribution, values in NO_DENSITY:
    expression(
        f"value_without_density_{name}",
        _seen(distribution),
        "element 1 of observed site 'y' is not a number, or out",
        args=(np.array(values),),
    )


def _weighted(weight: Any) -> None:
    f = normal("f")
    with handlers.scale(scale=2.0 * weight):
        observe(dist.Normal(f, 1.0), np.zeros(2))


for weight in (-1.0, np.nan, np.inf):
    expression(
        f"weight_of_{weight}",
        _weighted,
        "element 1 of observed site 'y' counts under handlers.scale",
        "negative or not finite",
        args=(np.array([1.0, weight]),),
    )


def several(*, y: Any = None) -> None:
    """A hyperparameter, a latent, a name for a function of it, a factor and data."""
    f = items(dist.Normal(0.0, draw("scale", dist.HalfNormal(1.0))))
    numpyro.deterministic("margin", f - f[0])
    numpyro.factor("bonus", f[0])
    wins(f)


GIVEN: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"skill": 1.0}, ("params names 'skill'", "not a site of the model", "'f'")),
    ({"win": np.zeros(3)}, ("params names 'win'", "observed")),
    ({"bonus": 1.0}, ("params names 'bonus'", "factor")),
    ({"margin": np.zeros(3)}, ("params names 'margin'", "not a site of the model")),
    ({"scale": np.ones(2)}, ("params['scale'] has shape (2,)", "the site has shape ()")),
    ({"f": np.zeros(3)}, ("give it one, or leave one out of params (f)",)),
]
for params, says in GIVEN:
    expression(f"given_{'_'.join(params)}", several, *says, params=params)

TYPED: dict[str, Any] = {"options": {"power": 1.0}, "kind": TypeError}
expression(
    "data_of_other_things_than_numbers",
    _seen(lambda f: dist.Bernoulli(logits=f)),
    *("site 'y' is given a ndarray of dtype object", "mask what"),
    args=(np.array([True, None, False]),),
    **TYPED,
)
for look in (lambda f: bool(f[0] > 0), np.asarray):
    expression(
        f"looks_by_{look.__name__}",
        lambda look=look: look(items()),
        *("looks at the value of a latent", "jnp.where", "to_numpy()"),
        **TYPED,
    )


# ---------------------------------------------------------------- structures

for program, structure, power, args, says in REFUSED:
    expression(
        f"{program.__name__}_kept_{structure}_at_power_{power:g}",
        program,
        says,
        slow=True,
        args=args,
        options={"structure": structure, "power": power},
    )


# ---------------------------------------------------------------- warned of


@refused("site updates were skipped", expected="warns", args=(1.0,), good=(0.1,))
def repelling_elements(strength):
    """Improper factors of single elements are sites that EP has to skip."""
    f = items()
    numpyro.factor("repel", strength * f**2)
    wins(f)


@refused(
    *("no evidence of the data", "arguments are finite"),
    expected="warns",
    args=(np.full((3, 3), np.nan),),
    good=(np.eye(3),),
)
def arguments_that_are_not_numbers(x):
    numpyro.sample("win", Thurstone(x @ items()), obs=1)


def _lost(make: Any) -> Any:
    return lambda: observe(dist.Normal(make(), 1e-3), Y)


def _both() -> Any:
    root = 1e9 * np.array([[1.0, 0.0], [0.3, 1.0]])
    return draw("both", dist.MultivariateNormal(jnp.zeros(2), scale_tril=root)).sum()


for name, make in (
    ("two_wide_intercepts", lambda: normal("a", 1e9) + normal("b", 1e9)),
    ("correlated_wide_intercepts", _both),
):
    expression(name, _lost(make), "it found no proper posterior", expected="warns")


expression(
    "shifted_beyond_its_data",
    lambda y: observe(shifted(dist.Exponential(1.0), normal("f")), y),
    *("no density where the sweeps look", "Use NUTS"),
    expected="warns",
    args=(-2.0,),
    slow=True,
)
