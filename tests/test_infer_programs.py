"""EP on whole programs: fixed point and evidence against EP in plain NumPy."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from infer_oracles import (
    Gaussian,
    LogLikelihood,
    pair_rows,
    rbf,
    sequential_ep,
)
from jax.scipy.special import log_ndtr, ndtr
from numpy.testing import assert_allclose
from numpyro import handlers
from scipy import stats
from scipy.special import gammaln, log_expit

from bayesrank.distributions import OrderedProbit, Thurstone, ThurstoneTies
from bayesrank.infer import EP, EPResult

KEY = jax.random.key(0)
WINNER = np.array([0, 1, 2, 0, 3, 2])
LOSER = np.array([1, 2, 3, 2, 1, 1])
K = rbf(np.array([[0.0], [0.4], [1.0], [1.7]]), 0.8, 1.5)
ROWS = pair_rows(4, WINNER, LOSER)
ROOT2 = np.sqrt(2.0)


class Problem(NamedTuple):
    """A program, and what it says by hand: prior, rows and log likelihoods of its factors."""

    model: Callable[..., Any]
    args: tuple
    prior_mean: np.ndarray
    prior_covariance: np.ndarray
    rows: np.ndarray
    log_likelihoods: list[LogLikelihood]
    offsets: np.ndarray | None = None
    constant: float = 0.0

    def reference(self) -> Gaussian:
        exact = sequential_ep(
            self.prior_mean, self.prior_covariance, self.rows, self.log_likelihoods, self.offsets
        )
        return exact._replace(log_evidence=exact.log_evidence + self.constant)


def probit(x: np.ndarray) -> np.ndarray:
    """Log probability of a win under Thurstone's model with noise 1."""
    return stats.norm.logcdf(x / ROOT2)


def assert_close(result: EPResult, exact: Gaussian, error: float = 1e-6) -> None:
    sd = np.sqrt(np.diag(exact.covariance))
    size = len(sd)
    assert_allclose((result.joint_mean[:size] - exact.mean) / sd, 0.0, atol=error)
    covariance = result.joint_covariance[:size, :size]
    assert_allclose((covariance - exact.covariance) / np.outer(sd, sd), 0.0, atol=error)
    assert_allclose(result.log_evidence, exact.log_evidence, rtol=0.0, atol=error)


# ---------------------------------------------------------------- programs


def probit_stock() -> Problem:
    def model(winner, loser):
        f: Any = numpyro.sample("f", dist.MultivariateNormal(0.0, covariance_matrix=K))
        margin = (f[winner] - f[loser]) / ROOT2
        numpyro.sample("win", dist.Bernoulli(probs=ndtr(margin)), obs=jnp.ones(len(winner)))

    return Problem(model, (WINNER, LOSER), np.zeros(4), K, ROWS, [probit] * 6)


def dense_rows() -> Problem:
    """Linear predictors of all latents, whose prior is stated by its precision."""
    design = np.random.default_rng(0).normal(size=(5, 4))

    def model(design):
        precision = jnp.linalg.inv(K)
        w: Any = numpyro.sample("w", dist.MultivariateNormal(0.0, precision_matrix=precision))
        numpyro.sample("win", Thurstone(design @ w - 0.3), obs=1)

    return Problem(model, (design,), np.zeros(4), K, design, [probit] * 5, np.full(5, -0.3))


def poisson() -> Problem:
    """The rate is taken before the gather, so all counts of an item make one factor."""
    index, counts = np.array([0, 1, 1, 3]), np.array([2, 0, 1, 6])

    def model(index, counts):
        scale_tril = jnp.linalg.cholesky(K)
        f: Any = numpyro.sample("f", dist.MultivariateNormal(jnp.ones(4), scale_tril=scale_tril))
        numpyro.sample("count", dist.Poisson(jnp.exp(f)[index]), obs=counts)

    def log_likelihood(item: int) -> LogLikelihood:
        own = counts[index == item]
        constant = gammaln(own + 1).sum()
        return lambda x: own.sum() * x - own.size * np.exp(x) - constant

    factors = [log_likelihood(item) for item in (0, 1, 3)]
    return Problem(model, (index, counts), np.ones(4), K, np.eye(4)[[0, 1, 3]], factors)


def student_t() -> Problem:
    """Regression on two scalar sites; data that contradict each other: negative precisions."""
    x, y = np.array([-1.0, 0.0, 0.5, 1.5, 2.0]), np.array([-0.9, 0.3, 0.4, 9.0, 2.3])

    def model(x, y):
        intercept: Any = numpyro.sample("intercept", dist.Normal(0.0, 2.0))
        slope: Any = numpyro.sample("slope", dist.Normal(1.0, 1.5))
        numpyro.sample("y", dist.StudentT(4.0, intercept + slope * x, 0.6), obs=y)

    rows = np.stack([np.ones(5), x], axis=1)
    factors = [lambda m, v=v: stats.t.logpdf(v, 4.0, m, 0.6) for v in y]
    prior = np.array([0.0, 1.0]), np.diag([4.0, 2.25])
    return Problem(model, (x, y), *prior, rows, factors)


def skill_and_offset() -> Problem:
    """Two Gaussian sites added: the skill of items, and how users lean to the first one shown."""
    user = np.array([0, 1, 0, 1, 0, 1])

    def model(winner, loser, user):
        with numpyro.plate("item", 4):
            skill: Any = numpyro.sample("skill", dist.Normal(0.0, 1.2))
        offset: Any = numpyro.sample("offset", dist.Normal(jnp.zeros(2), 0.7))
        margin = skill[winner] - skill[loser] + offset[user]
        with numpyro.plate("pair", len(winner)):
            numpyro.sample("win", Thurstone(margin), obs=jnp.ones(len(winner), int))

    covariance = np.diag([1.44] * 4 + [0.49] * 2)
    rows = np.concatenate([ROWS, np.eye(2)[user]], axis=1)
    return Problem(model, (WINNER, LOSER, user), np.zeros(6), covariance, rows, [probit] * 6)


def hierarchical() -> Problem:
    """The mean of the items is a latent itself, and has items of its own in the data."""

    def model(winner, loser):
        level: Any = numpyro.sample("level", dist.Normal(0.3, 0.8))
        f: Any = numpyro.sample("f", dist.Normal(2.0 * level, 1.1).expand([4]).to_event(1))
        numpyro.sample("win", Thurstone(f[winner] - f[loser]), obs=1)
        numpyro.sample("good", Thurstone(f[:2]).to_event(1), obs=np.array([1, 0]))

    ones = np.ones(4)
    covariance = np.block(
        [
            [np.full((1, 1), 0.64), 1.28 * ones[None]],
            [1.28 * ones[:, None], 2.56 * np.outer(ones, ones) + 1.21 * np.eye(4)],
        ]
    )
    rows = np.pad(np.concatenate([ROWS, np.eye(4)[:2]]), [(0, 0), (1, 0)])
    factors = [probit] * 7 + [lambda x: probit(-x)]
    prior_mean = np.array([0.3, 0.6, 0.6, 0.6, 0.6])
    return Problem(model, (WINNER, LOSER), prior_mean, covariance, rows, factors)


def several_sites() -> Problem:
    """Comparisons with ties, ratings, and measurements with a known error of the same items."""
    outcome, rating, y = np.array([2, 1, 2, 0, 1, 2]), np.array([0, 2, 1, 1]), np.array([0.4, -1.0])
    cuts = np.array([-0.5, 0.8])

    def model(winner, loser):
        f: Any = numpyro.sample("f", dist.MultivariateNormal(0.0, covariance_matrix=K))
        numpyro.sample("pair", ThurstoneTies(f[winner] - f[loser], 0.4), obs=outcome)
        numpyro.sample("rating", OrderedProbit(f, cuts), obs=rating)
        numpyro.sample("y", dist.Normal(f[1:3] + 0.2, np.array([0.5, 2.0])), obs=y)

    def interval(low: float, high: float, sd: float) -> LogLikelihood:
        def log_probability(x: np.ndarray) -> np.ndarray:
            a, b = (low - x) / sd, (high - x) / sd
            flip = a > 0
            a, b = np.where(flip, -b, a), np.where(flip, -a, b)
            with np.errstate(divide="ignore"):
                upper, lower = stats.norm.logcdf(b), stats.norm.logcdf(a)
                return upper + np.log1p(-np.exp(lower - upper))

        return log_probability

    wide, edge = [-np.inf, -0.4, 0.4, np.inf], [-np.inf, *cuts, np.inf]
    factors = [interval(wide[k], wide[k + 1], ROOT2) for k in outcome]
    factors += [interval(edge[k], edge[k + 1], 1.0) for k in rating]
    factors += [
        lambda m, v=v, s=s: stats.norm.logpdf(v, m, s) for v, s in zip(y, (0.5, 2), strict=True)
    ]
    rows = np.concatenate([ROWS, np.eye(4), np.eye(4)[1:3]])
    offsets = np.array([0.0] * 10 + [0.2] * 2)
    return Problem(model, (WINNER, LOSER), np.zeros(4), K, rows, factors, offsets)


def masked() -> Problem:
    """Under a mask: an item against itself, a win, and a value that is not a number."""
    loser = np.where(np.arange(6) == 4, WINNER, LOSER)
    mask = np.array([True, True, False, True, False, True])
    y = np.array([0.4, np.nan, -1.0, 2.0])

    def model(winner, loser, mask, y):
        f: Any = numpyro.sample("f", dist.MultivariateNormal(0.0, covariance_matrix=K))
        with handlers.mask(mask=mask):
            numpyro.sample("win", Thurstone(f[winner] - f[loser]), obs=1)
        numpyro.sample("y", dist.Normal(f, 0.5), obs=y, obs_mask=~jnp.isnan(y))

    kept = np.array([0, 2, 3])
    factors = [probit] * 4 + [lambda m, v=v: stats.norm.logpdf(v, m, 0.5) for v in y[kept]]
    rows = np.concatenate([ROWS[mask], np.eye(4)[kept]])
    return Problem(model, (WINNER, loser, mask, y), np.zeros(4), K, rows, factors)


def tempered() -> Problem:
    """Likelihoods to a power: one that is integrated by a rule, and a Gaussian."""
    weight, y = np.array([0.5, 2.0, 1.0, 0.1, 3.0, 0.7]), np.array([0.2, -0.4])

    def model(winner, loser, weight):
        f: Any = numpyro.sample("f", dist.MultivariateNormal(0.0, covariance_matrix=K))
        with handlers.scale(scale=weight):
            numpyro.sample("win", dist.Bernoulli(jax.nn.sigmoid(f[winner] - f[loser])), obs=1)
        with handlers.scale(scale=0.3):
            numpyro.sample("y", dist.Normal(f[:2], 0.5), obs=y)

    factors = [lambda x, w=w: w * log_expit(x) for w in weight]
    factors += [lambda m, v=v: 0.3 * stats.norm.logpdf(v, m, 0.5) for v in y]
    rows = np.concatenate([ROWS, np.eye(4)[:2]])
    return Problem(model, (WINNER, LOSER, weight), np.zeros(4), K, rows, factors)


def factors() -> Problem:
    """Quadratic and linear factors join the Gaussian part; nonlinear ones are likelihoods."""
    graph = np.array([[1.0, -1, 0, 0], [-1, 2, -1, 0], [0, -1, 2, -1], [0, 0, -1, 1]])
    pull = np.array([0.5, -0.2, 0.0, 0.1])

    def model(winner, loser):
        f: Any = numpyro.sample("f", dist.MultivariateNormal(jnp.ones(4), covariance_matrix=K))
        numpyro.factor("smooth", -0.5 * f @ graph @ f + 0.7)
        numpyro.factor("pull", jnp.dot(f, pull))
        numpyro.factor("win", log_ndtr((f[winner] - f[loser]) / ROOT2))

    precision = np.linalg.inv(K) + graph
    covariance = np.linalg.inv(precision)
    shift = np.linalg.solve(K, np.ones(4)) + pull
    mean = covariance @ shift
    constant = 0.7 + 0.5 * (np.linalg.slogdet(covariance)[1] - np.linalg.slogdet(K)[1])
    constant += 0.5 * (shift @ mean - np.ones(4) @ np.linalg.solve(K, np.ones(4)))
    args = WINNER, LOSER
    return Problem(model, args, mean, covariance, ROWS, [probit] * 6, constant=constant)


PROBLEMS = {
    "probit_stock": probit_stock,
    "dense_rows": dense_rows,
    "poisson": poisson,
    "student_t": student_t,
    "skill_and_offset": skill_and_offset,
    "hierarchical": hierarchical,
    "several_sites": several_sites,
    "masked": masked,
    "tempered": tempered,
    "factors": factors,
}


FAST = ["dense_rows", "skill_and_offset", "hierarchical", "masked"]


def _problem(name: str) -> Any:
    return pytest.param(name, marks=[] if name in FAST else [pytest.mark.slow])


@pytest.mark.parametrize("name", [_problem(name) for name in PROBLEMS])
def test_fixed_point(name):
    problem = PROBLEMS[name]()
    result = EP(problem.model, tol=1e-8).run(KEY, *problem.args)
    assert result.converged
    # Where data contradict each other, some cavities are improper on the way.
    assert (result.skipped_sites > 0) == (name == "student_t")
    assert_close(result, problem.reference())


def test_data_may_be_a_list():
    """JAX warns of lists that it is asked for the shape of, and warnings are errors here."""

    def model(y):
        numpyro.sample("y", dist.Normal(numpyro.sample("f", dist.Normal(0.0, 1.0)), 1.0), obs=y)

    result = EP(model).run(jax.random.key(0), [1.0, 2.0, 3.0])
    np.testing.assert_allclose(result.mean["f"], 6.0 / 4.0)


def test_what_a_program_computes_has_a_mean_and_a_standard_deviation():
    """Sums without chance, others by quadrature, hyperparameters with them; data have none."""

    def program(held: bool) -> None:
        spread = 1.0 if held else numpyro.sample("spread", dist.HalfNormal(1.0))
        f = jnp.asarray(numpyro.sample("f", dist.Normal(0.0, spread).expand([2]).to_event(1)))
        numpyro.deterministic("gap", f[0] - f[1])
        numpyro.deterministic("chance", jax.nn.sigmoid(f))
        numpyro.deterministic("variance", jnp.square(spread) * jnp.ones(3))
        numpyro.deterministic("rows", jnp.ones(2))
        numpyro.sample("y", dist.Normal(f, 0.5).to_event(1), obs=jnp.array([1.0, -0.5]))

    result = EP(program).run(jax.random.key(0), True)
    assert result.computed_sites == ("gap", "chance") and "rows" not in result.mean
    np.testing.assert_allclose(result.mean["gap"], [1, -1] @ result.mean["f"], atol=1e-9)
    np.testing.assert_allclose(result.sd["gap"], np.sqrt(2) * result.sd["f"][0], rtol=0.05)
    points, weights = np.polynomial.hermite_e.hermegauss(40)
    at = result.mean["f"] + result.sd["f"] * points[:, None]
    mean = weights @ (1 / (1 + np.exp(-at))) / weights.sum()
    np.testing.assert_allclose(result.mean["chance"], mean, atol=2e-3)
    averaged = EP(program).run(jax.random.key(0), False)
    assert averaged.computed_sites == ("gap", "chance", "variance")
    squares = averaged.mean["spread"] ** 2 + averaged.sd["spread"] ** 2
    np.testing.assert_allclose(averaged.mean["variance"], np.full(3, squares), rtol=0.1)


@pytest.mark.slow
def test_a_program_without_latents_is_integrated_over_its_hyperparameters():
    """The conjugate posterior of a precision, and its evidence."""
    y, a, b = np.array([0.4, -1.3, 0.9, 2.1, -0.2]), 2.0, 1.5

    def program() -> None:
        precision = numpyro.sample("precision", dist.Gamma(a, b))
        numpyro.deterministic("variance", 1.0 / precision)
        numpyro.sample("y", dist.Normal(0.0, precision**-0.5), obs=y)

    shape, rate = a + len(y) / 2, b + y @ y / 2
    evidence = gammaln(shape) - gammaln(a) + a * np.log(b) - shape * np.log(rate)
    evidence -= len(y) / 2 * np.log(2 * np.pi)
    for choice in ("integrate", "nuts"):
        engine = EP(program, hyperparameters=choice)
        result = engine.run(jax.random.key(0), target_accept_prob=0.95)
        assert result.shapes == {} and {*result.get_samples()} == {"precision"}
        error = np.sqrt(shape) / rate
        assert_allclose(result.mean["precision"], shape / rate, atol=0.15 * error)
        assert_allclose(result.sd["precision"], error, rtol=0.15)
        assert_allclose(result.log_evidence, evidence, atol=0.05)
        assert_allclose(result.mean["variance"], rate / (shape - 1), rtol=0.1)
        assert str(result.accuracy).startswith("good")
    with pytest.raises(ValueError, match="no unobserved sample site with real support"):
        EP(program, hyperparameters="prior").run(jax.random.key(0))
