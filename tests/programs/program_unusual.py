"""Programs of less usual kinds: scans over time, odd densities, odd operations on the latents.

Importing this enters them into the table.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.nn import sigmoid
from jax.scipy.special import log_ndtr
from numpyro import handlers
from numpyro.contrib.control_flow import scan
from numpyro.infer.reparam import LocScaleReparam
from program_table import (
    COUNT,
    FIRST,
    GRID,
    GROUP,
    LEVEL,
    POSITIVE,
    PROGRAMS,
    SECOND,
    SHARE,
    WIN,
    X,
    Y,
    draw,
    effects,
    enter,
    line,
    normal,
    observe,
    process,
    program,
)

__all__ = ["PROGRAMS"]

# ---------------------------------------------------------------- scans over time


def _steps(move: Any, see: Any, start: Any, data: Any = Y) -> None:
    """Each step moves the state by one `sample` site and sees it by another."""

    def step(carry: Any, now: Any) -> tuple[Any, None]:
        carry, level = move(carry)
        numpyro.sample("y", see(level), obs=now)
        return carry, None

    scan(step, start, data)


@program
def autoregression():
    """AR(1) by NumPyro's scan."""

    def move(last: Any) -> tuple[Any, Any]:
        x = numpyro.sample("x", dist.Normal(0.2 + 0.7 * last, 0.6))
        return x, x

    _steps(move, lambda x: dist.Normal(x, 0.5), normal("start"))


@program
def autoregression_of_counts():
    """AR(2) by NumPyro's scan."""

    def move(lasts: Any) -> tuple[Any, Any]:
        x = numpyro.sample("x", dist.Normal(0.5 * lasts[0] + 0.3 * lasts[1], 0.5))
        return (x, lasts[0]), x

    _steps(move, lambda x: dist.Poisson(jnp.exp(x)), (0.0, 0.0), COUNT)


@program
def local_level():
    """A level that walks, seen with heavy tails."""

    def move(last: Any) -> tuple[Any, Any]:
        x = numpyro.sample("level", dist.Normal(last, 0.4))
        return x, x

    data = np.where(np.arange(10) == 3, 3.0, Y)
    _steps(move, lambda x: dist.StudentT(4.0, x, 0.4), normal("start"), data)


@program
def local_trend():
    def move(carry: Any) -> tuple[Any, Any]:
        level, slope = carry
        slope = numpyro.sample("slope", dist.Normal(0.9 * slope, 0.2))
        level = numpyro.sample("level", dist.Normal(level + slope, 0.3))
        return (level, slope), level

    _steps(move, lambda x: dist.Normal(x, 0.4), (0.0, 0.0))


@program
def noise_centred_walk():
    """JAX's own scan over steps that are drawn beforehand."""
    step = normal("step", 0.5, (10,))
    _, walk = jax.lax.scan(lambda x, e: (0.9 * x + e, 0.9 * x + e), 0.0, step)
    observe(dist.Bernoulli(logits=2.0 * walk), WIN)


@program
def moving_average():
    """MA(1): each noise counts in its own step and the next."""
    noise = normal("noise", 0.8, (11,))
    observe(dist.Normal(noise[1:] + 0.6 * noise[:-1], 0.3), Y)


@program
def seasons():
    """A level for each of three seasons, by gathering and by a sum over the others."""
    season = normal("season", 0.7, (2,))
    all_three = jnp.concatenate([season, -season.sum(keepdims=True)])
    observe(dist.Poisson(jnp.exp(0.5 + all_three[np.arange(10) % 3])), COUNT)


# ---------------------------------------------------------------- odd densities


enter("gumbel_regression", lambda: observe(dist.Gumbel(line(), 0.6), Y))
enter("cauchy_regression", lambda: observe(dist.Cauchy(line(1.0), 0.3), Y))
enter(
    "quantile_regression",
    lambda: observe(dist.AsymmetricLaplaceQuantile(line(), 0.5, 0.75), Y),
    "The upper quartile, by an asymmetric Laplace density.",
)
enter("weibull_regression", lambda: observe(dist.Weibull(jnp.exp(line(1.0)), 1.5), POSITIVE))


@program
def log_logistic_survival():
    log_odds = (jnp.log(POSITIVE) - line(1.0)) / 0.6
    numpyro.factor("y", log_odds - 2 * jnp.logaddexp(0.0, log_odds))


enter(
    "angles",
    lambda: observe(dist.VonMises(normal("a", 0.7) + normal("b", 0.5) * X, 3.0), 0.8 * X),
    "Directions on a circle about a line in X: the density goes round.",
)


@program
def zero_inflated_negative_binomial():
    predictor = normal("mean") + normal("group", 0.6, (4,))[GROUP]
    observe(dist.ZeroInflatedNegativeBinomial2(jnp.exp(predictor), 2.0, gate=0.2), COUNT)


@program
def hurdle():
    """Whether there is anything, and if so how much: two sites, two lines."""
    observe(dist.Bernoulli(logits=normal("any") + X), (COUNT > 0).astype(int), "some")
    rate = jnp.exp(line(1.0))
    seen = COUNT * jnp.log(rate) - rate - jnp.log(-jnp.expm1(-rate))
    numpyro.factor("much", jnp.where(COUNT > 0, seen, 0.0))


@program
def binomial_with_misses():
    """Answers are flipped one time in ten."""
    p = sigmoid(line(1.0))
    observe(dist.Binomial(5, probs=0.9 * p + 0.1 * (1 - p)), np.minimum(COUNT, 5))


@program
def graded_responses():
    """Items with their own thresholds, abilities of persons (Samejima)."""
    ability = normal("ability", 1.0, (4,))
    cuts = jnp.stack([jnp.array([-1.0, 0.5]), jnp.array([-0.3, 1.2])])[np.arange(10) % 2]
    observe(dist.OrderedLogistic(1.4 * ability[GROUP], cuts), LEVEL)


@program
def shares_of_two():
    """A softmax of two utilities that share all but one effect."""
    f = normal("f", 1.0, (5,))
    share = f[FIRST] - f[SECOND]
    observe(dist.Binomial(7, probs=jnp.exp(share) / (1 + jnp.exp(share))), np.arange(8) % 7)


@program
def correlated_errors():
    """Errors of neighbouring data are correlated."""
    covariance = 0.3 * np.exp(-np.abs(X[:, None] - X)) + 0.05 * np.eye(10)
    observe(dist.MultivariateNormal(line(), covariance_matrix=jnp.asarray(covariance)), Y)


# ---------------------------------------------------------------- books


@program
def trials_of_beta_blockers():
    """BUGS, `blocker`: each trial's control group and the treatment's effect on it."""
    control, effect = normal("control", 1.5, (4,)), normal("effect", 0.3, (4,), normal("mean"))
    observe(dist.Binomial(40, logits=control - 2.0), np.array([3, 7, 5, 9]), "controls")
    treated = dist.Binomial(40, logits=control - 2.0 + effect)
    observe(treated, np.array([2, 4, 6, 5]), "treated")


@program
def seeds():
    """BUGS, `seeds`: germination by two treatments, with an effect for each plate."""
    treated, kind = np.arange(8) % 2, np.arange(8) // 4
    predictor = normal("a0") + normal("a1") * treated + normal("a2") * kind
    predictor = predictor + normal("a12") * treated * kind + normal("plate", 0.4, (8,))
    total, grown = (
        np.array([39, 62, 16, 30, 28, 45, 53, 8]),
        np.array([10, 23, 5, 15, 8, 10, 32, 3]),
    )
    observe(dist.Binomial(total, logits=predictor), grown)


@program
def pumps():
    """BUGS, `pumps`: log-normal failure rates, as Gaussian effects, and hours of work."""
    hours = np.array([94.3, 15.7, 62.9, 126.0, 5.24])
    log_rate = normal("log_rate", 1.0, (5,), normal("mean", 1.0, (), -2.0))
    observe(dist.Poisson(hours * jnp.exp(log_rate)), np.array([5, 1, 5, 14, 3]))


@program
def ages_and_cohorts():
    """Effects of age, period and cohort that are not identified without their priors."""
    age, period = np.arange(9) % 3, np.arange(9) // 3
    predictor = normal("age", 0.5, (3,))[age] + normal("period", 0.5, (3,))[period]
    predictor = predictor + normal("cohort", 0.5, (5,))[2 + period - age]
    observe(dist.Poisson(4.0 * jnp.exp(predictor)), np.array([3, 5, 2, 6, 8, 4, 9, 7, 12]))


@program
def centred_by_reparam():
    """`handlers.reparam` moves the program's effects to a white site."""

    with handlers.reparam(config={"effect": LocScaleReparam(0.0)}):
        effect: Any = numpyro.sample("effect", dist.Normal(normal("mean"), jnp.full(4, 0.8)))
    observe(dist.Poisson(jnp.exp(effect[GROUP])), COUNT)


# ---------------------------------------------------------------- odd operations


enter(
    "kinked_predictor",
    lambda: observe(dist.Normal(jax.nn.relu(normal("f", 1.0, (4,), 0.3))[GROUP], 0.8), Y),
    "Effects act where they are positive only.",
)


@program
def step_function():
    """A latent that counts by its sign alone."""
    f = normal("f", 1.0, (4,))
    observe(dist.Normal(jnp.where(f[GROUP] > 0, 1.0, -0.5), 1.0), Y)


@program
def solved_system():
    """The mean solves a linear system in the latents."""
    force = normal("force", 0.5, (10,))
    stiff = 2 * np.eye(10) - 0.9 * np.eye(10, k=1) - 0.9 * np.eye(10, k=-1)
    observe(dist.Normal(jnp.linalg.solve(jnp.asarray(stiff), force), 0.4), Y)


@program
def sums_over_segments():
    """Only sums over groups are seen."""
    f = normal("f", 1.0, (10,))
    sums = jax.ops.segment_sum(f, jnp.asarray(GROUP), num_segments=4)
    observe(dist.Normal(sums, 0.3), np.array([-1.0, 0.5, 1.2, 4.0]))


enter(
    "probit_gp_with_lapses",
    lambda: observe(dist.Bernoulli(probs=0.02 + 0.96 * jnp.exp(log_ndtr(process()))), WIN),
)
enter(
    "logistic_of_a_square",
    lambda: observe(dist.Normal(normal("f", 1.0, (), 0.3) ** 2, 0.5), np.array([1.0, 1.4])),
    "A likelihood with two peaks in one direction of the latents.",
)
enter(
    "shares_by_beta",
    lambda: observe(dist.BetaProportion(sigmoid(normal("group", 1.0, (4,))[GROUP]), 9.0), SHARE),
)


# ---------------------------------------------------------------- latents that are not Gaussian


@program
def horseshoe_like():
    """Cauchy weights, which are few and large."""
    weight = draw("weight", dist.Cauchy(0.0, 0.3).expand([4]))
    observe(dist.Normal(weight[GROUP], 0.6), Y)


@program
def mixture_of_effects():
    """Effects come from two groups (spike and slab)."""
    parts = dist.Normal(jnp.zeros(2), jnp.array([0.1, 1.5]))
    mixture = dist.MixtureSameFamily(dist.Categorical(jnp.array([0.5, 0.5])), parts)
    effect = effects(mixture)
    observe(dist.Normal(effect[GROUP], 0.7), Y)


@program
def log_normal_effects():
    effect = effects(dist.LogNormal(0.0, 0.6))
    observe(dist.Normal(normal("mean") + effect[GROUP], 0.7), Y)


@program
def truncated_effects():
    effect = effects(dist.TruncatedNormal(0.3, 0.7, low=-0.2))
    observe(dist.Poisson(jnp.exp(effect[GROUP])), COUNT)


enter(
    "uniform_effects",
    lambda: observe(dist.Bernoulli(logits=effects(dist.Uniform(-1.0, 2.0))[GROUP]), WIN),
)


@program
def laplace_jumps():
    """A walk whose steps are mostly small and sometimes large."""
    step = draw("step", dist.Laplace(0.0, 0.3).expand([10]))
    observe(dist.Normal(jnp.cumsum(step), 0.4), Y)


@program
def student_t_walk():
    """The same with heavy tails, by NumPyro's scan."""

    def move(last: Any) -> tuple[Any, Any]:
        x = numpyro.sample("x", dist.StudentT(3.0, last, 0.3))
        return x, x

    _steps(move, lambda x: dist.Normal(x, 0.4), 0.0)


@program
def gp_of_two_scales():
    """A smooth part and a rough one, which only their sum tells apart."""
    zeros, rough = jnp.zeros(10), jnp.asarray(0.3 * np.exp(-np.abs(X[:, None] - X) / 0.2))
    smooth = numpyro.sample("smooth", dist.MultivariateNormal(zeros, covariance_matrix=GRID))
    own = numpyro.sample("rough", dist.MultivariateNormal(zeros, covariance_matrix=rough))
    observe(dist.StudentT(5.0, smooth + own, 0.3), Y)
