"""Programs as others write them, on small data: what EP is held to.

Programs are those of textbooks, of posteriordb and of NumPyro's examples, with their
hyperparameters at fixed values, so that each has one posterior of its latents.  The data are made
up, but for the eight schools, which are Rubin's published table (1981).
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.nn import sigmoid
from jax.scipy.special import log_ndtr, ndtr
from numpyro import handlers

from bayesrank.distributions import (
    BradleyTerry,
    BradleyTerryTies,
    OrderedLogit,
    OrderedProbit,
    Thurstone,
    ThurstoneTies,
)

__all__ = ["PROGRAMS", "program"]

PROGRAMS: dict[str, Callable[[], Any]] = {}

X = np.array([-1.6, -1.1, -0.7, -0.4, 0.0, 0.3, 0.5, 0.9, 1.4, 1.9])
GROUP = np.array([0, 0, 1, 1, 1, 2, 2, 3, 3, 3])
OTHER = np.array([0, 1, 2, 0, 1, 2, 0, 1, 2, 0])
Y = np.array([-1.2, -0.3, 0.1, -0.9, 0.4, 0.8, 0.2, 1.5, 1.1, 2.3])
WIN = np.array([0, 0, 1, 0, 1, 0, 1, 1, 1, 1])
COUNT = np.array([0, 1, 1, 0, 2, 3, 1, 4, 6, 5])
LEVEL = np.array([0, 0, 1, 1, 1, 2, 1, 2, 2, 2])
POSITIVE = np.array([0.3, 0.7, 0.5, 1.2, 0.9, 2.1, 1.4, 3.3, 2.6, 5.0])
SHARE = np.array([0.1, 0.25, 0.3, 0.2, 0.5, 0.55, 0.45, 0.7, 0.8, 0.9])
FIRST = np.array([0, 1, 2, 3, 0, 1, 0, 2])
SECOND = np.array([1, 2, 3, 4, 2, 3, 4, 4])
WON = np.array([1, 1, 0, 1, 1, 0, 1, 1])
ANSWERS = np.array([[1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 1, 0], [0, 1, 0, 0], [1, 1, 1, 1]])
COACHING = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
ERROR = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
CUTS = jnp.array([-0.8, 0.9])
TIES = np.array([2, 1, 2, 1, 2, 0, 2, 1])
GRID = np.exp(-0.5 * (X[:, None] - X) ** 2 / 0.8**2) + 1e-6 * np.eye(10)
CHAIN = np.diag(np.ones(5), 1) + np.diag(np.ones(5), -1)


def program(function: Callable[[], Any]) -> Callable[[], Any]:
    """Enter a program into the table, under its own name."""
    PROGRAMS[function.__name__] = function
    return function


def enter(name: str, function: Callable[[], Any], says: str | None = None) -> None:
    """Enter a program of one expression."""
    function.__doc__ = says
    PROGRAMS[name] = function


def normal(name: str, scale: Any = 1.0, shape: tuple[int, ...] = (), loc: Any = 0.0) -> Any:
    return numpyro.sample(name, dist.Normal(loc, scale).expand(shape))


def observe(fn: Any, value: Any, name: str = "y") -> None:
    numpyro.sample(name, fn, obs=value)


def draw(name: str, fn: Any) -> Any:
    return numpyro.sample(name, fn)


def effects(fn: Any, size: int = 4) -> Any:
    """Effects of groups that are not Gaussian."""
    return numpyro.sample("effect", fn.expand([size]))


def gap() -> Any:
    """Differences of the skills of those who met."""
    f = normal("skill", 1.0, (5,))
    return f[FIRST] - f[SECOND]


def easier(scale: float = 1.0) -> Any:
    """How much each person's ability is above each item's difficulty."""
    return normal("ability", 1.0, (5,))[:, None] - normal("difficulty", scale, (4,))


def line(scale: float = 2.0) -> Any:
    return normal("intercept", scale) + normal("slope", scale) * X


def process() -> Any:
    return draw("f", dist.MultivariateNormal(jnp.zeros(10), covariance_matrix=GRID))


# ---------------------------------------------------------------- Gaussian


enter(
    "eight_schools",
    lambda: observe(dist.Normal(normal("theta", 8.0, (8,), normal("mu", 5.0)), ERROR), COACHING),
    "Effects of coaching (Rubin, 1981), with the spread between schools at 8.",
)
enter(
    "eight_schools_not_centred",
    lambda: observe(
        dist.Normal(normal("mu", 5.0) + 8.0 * normal("white", 1.0, (8,)), ERROR), COACHING
    ),
)


@program
def radon():
    """A level for each county, around a line in the county's uranium, and a floor's effect."""
    uranium = np.array([-0.5, 0.1, 0.4, 0.9])
    level = normal("level", 0.6, (4,), normal("a") + normal("b") * uranium)
    observe(dist.Normal(level[GROUP] + normal("floor") * (X > 0), 0.8), Y)


enter("linear_regression", lambda: observe(dist.Normal(line(), 0.7), Y))


@program
def varying_slopes():
    root = np.array([[1.0, 0.0], [0.3, 0.5]])
    both = draw("both", dist.MultivariateNormal(jnp.zeros(2), scale_tril=root).expand([4]))
    observe(dist.Normal(both[GROUP, 0] + both[GROUP, 1] * X, 0.6), Y)


enter("gp_regression", lambda: observe(dist.Normal(process(), 0.4), Y))


@program
def hilbert_space_gp():
    j = np.arange(1, 7) * np.pi / 6
    basis = np.sin((X[:, None] + 3) * j) / np.sqrt(3.0)
    spectrum = np.sqrt(np.sqrt(2 * np.pi) * 0.8) * np.exp(-0.25 * (0.8 * j) ** 2)
    observe(dist.Normal(basis @ (spectrum * normal("white", 1.0, (6,))), 0.5), Y)


@program
def additive_splines():
    hinge = np.maximum(X[:, None] - np.array([-1.0, 0.0, 1.0]), 0.0)
    observe(dist.Normal(line() + hinge @ normal("bend", 0.7, (3,)), 0.5), Y)


@program
def sum_to_zero_effects():
    effect = draw("effect", dist.ZeroSumNormal(1.0, (4,)))
    observe(dist.Normal(normal("mean", 2.0) + effect[GROUP], 0.7), Y)


@program
def weighted_regression():
    predictor = line()
    with handlers.scale(scale=np.linspace(0.2, 2.0, 10)):
        observe(dist.Normal(predictor, 0.7), Y)


@program
def missing_values():
    y = np.where(np.arange(10) % 4 == 0, np.nan, Y)
    numpyro.sample("y", dist.Normal(line(), 0.7), obs=y, obs_mask=~np.isnan(y))


@program
def nested_levels():
    county = normal("county", 0.7, (4,), normal("state", 1.0))
    school = normal("school", 0.5, (10,), county[GROUP])
    observe(dist.Normal(school, 0.6), Y)


@program
def measurement_error():
    """A covariate seen twice, with an error; its slope is known."""
    x = normal("x", 1.0, (10,))
    observe(dist.Normal(x, 0.3), X, "seen")
    observe(dist.Normal(normal("intercept", 2.0) + 1.2 * x, 0.6), Y)


# ---------------------------------------------------------------- time and space


enter(
    "random_walk_sum", lambda: observe(dist.Normal(jnp.cumsum(normal("step", 0.6, (10,))), 0.5), Y)
)
enter(
    "gaussian_random_walk",
    lambda: observe(dist.Normal(draw("walk", dist.GaussianRandomWalk(0.6, 10)), 0.5), Y),
)


@program
def state_space():
    move = np.array([[1.0, 1.0], [0.0, 0.9]])
    fn = dist.GaussianStateSpace(10, move, covariance_matrix=jnp.diag(jnp.array([0.2, 0.1])))
    observe(dist.Normal(draw("state", fn)[:, 0], 0.5), Y)


@program
def neighbours():
    """A proper conditional autoregression and counts."""
    f = draw("f", dist.CAR(0.0, 0.8, 1.5, jnp.asarray(CHAIN)))
    observe(dist.Poisson(jnp.exp(0.5 + f)), COUNT[:6])


@program
def intrinsic_neighbours():
    """BYM: an intrinsic autoregression as a factor, beside independent effects."""
    graph = np.diag(CHAIN.sum(0)) - CHAIN
    space, own = normal("space", 5.0, (6,)), normal("own", 0.4, (6,))
    numpyro.factor("smooth", -space @ graph @ space)
    observe(dist.Poisson(jnp.exp(0.3 + space + own)), COUNT[:6])


enter("log_gaussian_cox", lambda: observe(dist.Poisson(0.8 * jnp.exp(process())), COUNT))


@program
def stochastic_volatility():
    log_variance = -0.5 + jnp.cumsum(normal("step", 0.4, (10,)))
    observe(dist.Normal(0.0, jnp.exp(0.5 * log_variance)), Y)


enter(
    "dynamic_poisson",
    lambda: observe(dist.Poisson(jnp.exp(draw("walk", dist.GaussianRandomWalk(0.4, 10)))), COUNT),
)
enter(
    "dynamic_logit",
    lambda: observe(dist.Bernoulli(logits=draw("walk", dist.GaussianRandomWalk(0.7, 10))), WIN),
)


# ---------------------------------------------------------------- binary


enter("logistic_regression", lambda: observe(dist.Bernoulli(logits=line()), WIN))
enter("probit_regression", lambda: observe(dist.Bernoulli(probs=ndtr(line())), WIN))
enter(
    "complementary_log_log",
    lambda: observe(dist.Bernoulli(probs=-jnp.expm1(-jnp.exp(line()))), WIN),
)
enter(
    "robit_regression",
    lambda: observe(dist.Bernoulli(probs=0.05 + 0.9 * ndtr(line())), WIN),
    "A share of the answers is at random.",
)
enter(
    "separated_logistic", lambda: observe(dist.Bernoulli(logits=line(3.0)), (X > 0.1).astype(int))
)
enter("gp_classification", lambda: observe(dist.Bernoulli(logits=1.5 * process()), WIN))


@program
def crossed_effects():
    """As in election88: states and groups of people."""
    predictor = normal("mean") + normal("state", 0.8, (4,))[GROUP] + normal("age", 0.5, (3,))[OTHER]
    observe(dist.Bernoulli(logits=predictor + normal("slope") * X), WIN)


enter("item_response_1pl", lambda: observe(dist.Bernoulli(logits=easier(1.5)), ANSWERS))
enter(
    "item_response_2pl",
    lambda: observe(dist.Bernoulli(logits=np.array([0.6, 1.0, 1.5, 2.0]) * easier()), ANSWERS),
    "With known discriminations.",
)
enter(
    "item_response_3pl",
    lambda: observe(dist.Bernoulli(probs=0.2 + 0.8 * sigmoid(easier())), ANSWERS),
    "With a known chance of guessing.",
)


@program
def binomial_groups():
    effect = normal("effect", 0.8, (4,), normal("mean"))
    observe(dist.Binomial(np.array([8, 12, 5, 20]), logits=effect), np.array([2, 7, 4, 15]))


@program
def beta_binomial():
    p = sigmoid(line(1.0))
    observe(dist.BetaBinomial(6.0 * p, 6.0 * (1 - p), 6), np.minimum(COUNT, 6))


# ---------------------------------------------------------------- choices and orders


enter("bradley_terry", lambda: observe(dist.Bernoulli(logits=gap()), WON))
enter("bradley_terry_distribution", lambda: observe(BradleyTerry(gap()), WON))
enter("bradley_terry_ties", lambda: observe(BradleyTerryTies(gap(), 0.5), TIES))
enter("thurstone", lambda: observe(Thurstone(gap()), WON))
enter("thurstone_ties", lambda: observe(ThurstoneTies(gap(), 0.4), TIES))
enter("home_advantage", lambda: observe(dist.Bernoulli(logits=gap() + normal("home", 0.5)), WON))


@program
def ordinal_mixed():
    effect = normal("effect", 0.7, (4,))
    observe(dist.OrderedLogistic(normal("slope") * X + effect[GROUP], CUTS), LEVEL)


enter("ordered_probit", lambda: observe(OrderedProbit(line(), CUTS), LEVEL))
enter("ordered_logit", lambda: observe(OrderedLogit(line(), CUTS), LEVEL))
enter(
    "softmax_of_two",
    lambda: observe(dist.Categorical(logits=jnp.stack([jnp.zeros(10), line()], axis=-1)), WIN),
    "A softmax against a reference category.",
)


# ---------------------------------------------------------------- counts


enter("poisson_regression", lambda: observe(dist.Poisson(jnp.exp(line())), COUNT))


@program
def poisson_random_effects():
    predictor = normal("mean") + normal("own", 0.5, (10,)) + normal("slope") * X
    observe(dist.Poisson(jnp.exp(predictor)), COUNT)


@program
def poisson_exposure():
    exposure = np.linspace(0.5, 3.0, 10)
    observe(dist.Poisson(exposure * jnp.exp(normal("rate", 1.0, (4,))[GROUP])), COUNT)


@program
def negative_binomial():
    predictor = normal("mean") + normal("group", 0.6, (4,))[GROUP]
    observe(dist.NegativeBinomial2(jnp.exp(predictor), 2.0), COUNT)


enter(
    "zero_inflated_poisson",
    lambda: observe(dist.ZeroInflatedPoisson(0.2, jnp.exp(line(1.0))), COUNT),
)
enter("geometric", lambda: observe(dist.Geometric(logits=line(1.0)), COUNT))
enter("soft_plus_counts", lambda: observe(dist.Poisson(jnp.logaddexp(0.0, line())), COUNT))


# ---------------------------------------------------------------- positive, censored


enter("exponential_survival", lambda: observe(dist.Exponential(jnp.exp(line(1.0))), POSITIVE))


@program
def weibull_censored():
    """Censored at 2: those that are alive then say that they lived longer."""
    predictor = line(1.0)
    alive = POSITIVE > 2.0
    log_hazard = 1.5 * (jnp.log(np.minimum(POSITIVE, 2.0)) - predictor)
    density = jnp.log(1.5) + log_hazard - jnp.log(np.minimum(POSITIVE, 2.0))
    numpyro.factor("time", jnp.where(alive, 0.0, density) - jnp.exp(log_hazard))


@program
def delayed_entry():
    """Survival seen from an age of entry on (left truncation), and censored at 2."""
    predictor, entry = line(1.0), 0.5 * POSITIVE
    end = np.maximum(np.minimum(POSITIVE, 2.0), entry + 0.1)
    log_hazard = 1.5 * (jnp.log(jnp.stack([end, entry])) - predictor)
    density = jnp.log(1.5) + log_hazard[0] - jnp.log(end)
    survived = jnp.exp(log_hazard[1]) - jnp.exp(log_hazard[0])
    numpyro.factor("time", jnp.where(POSITIVE > 2.0, 0.0, density) + survived)


enter("gamma_regression", lambda: observe(dist.Gamma(3.0, 3.0 / jnp.exp(line(1.0))), POSITIVE))
enter("log_normal_regression", lambda: observe(dist.LogNormal(line(), 0.5), POSITIVE))


@program
def beta_regression():
    p = sigmoid(line(1.0))
    observe(dist.Beta(8.0 * p, 8.0 * (1 - p)), SHARE)


@program
def tobit():
    predictor = line()
    log_density = dist.Normal(predictor, 0.7).log_prob(Y)
    numpyro.factor("y", jnp.where(Y > 0, log_density, log_ndtr((0.0 - predictor) / 0.7)))


enter(
    "truncated_regression",
    lambda: observe(dist.TruncatedNormal(line(1.0), 0.8, low=0.0), POSITIVE),
    "Seen because it is positive.",
)


@program
def interval_censored():
    predictor, low = line(), np.floor(Y)
    upper, lower = log_ndtr((low + 1 - predictor) / 0.8), log_ndtr((low - predictor) / 0.8)
    numpyro.factor("y", upper + jnp.log1p(-jnp.exp(lower - upper)))


# ---------------------------------------------------------------- robust


@program
def student_t_regression():
    y = np.where(np.arange(10) == 3, 4.0, Y)
    observe(dist.StudentT(4.0, line(), 0.5), y)


enter("laplace_regression", lambda: observe(dist.Laplace(line(), 0.5), Y))
enter("logistic_errors", lambda: observe(dist.Logistic(line(), 0.4), Y))


@program
def outlier_mixture():
    y = np.where(np.arange(10) == 3, 4.0, Y)
    predictor = line()
    good, bad = dist.Normal(predictor, 0.5).log_prob(y), dist.Normal(predictor, 4.0).log_prob(y)
    numpyro.factor("y", jnp.logaddexp(jnp.log(0.9) + good, jnp.log(0.1) + bad))


# ---------------------------------------------------------------- latents that are not Gaussian


@program
def lasso():
    design = np.stack([X, X**2 - 1, np.sin(3 * X)], axis=1)
    weight = draw("weight", dist.Laplace(0.0, 0.5).expand([3]))
    observe(dist.Normal(normal("intercept", 2.0) + design @ weight, 0.6), Y)


@program
def student_t_schools():
    theta = draw("theta", dist.StudentT(4.0, normal("mu", 5.0), 8.0).expand([8]))
    observe(dist.Normal(theta, ERROR), COACHING)


@program
def positive_slope():
    slope = draw("slope", dist.HalfNormal(1.0))
    observe(dist.Normal(normal("intercept", 2.0) + slope * X, 0.7), Y)


enter(
    "positive_effects", lambda: observe(dist.Normal(effects(dist.HalfNormal(1.0))[GROUP], 0.8), Y)
)


@program
def gamma_effects():
    effect = effects(dist.Gamma(3.0, 3.0))
    observe(dist.Normal(normal("mean") + effect[GROUP], 0.8), Y)
