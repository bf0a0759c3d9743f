"""Programs of pairwise preference: their priors, densities, posteriors and messages."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro import handlers
from numpyro.infer import Predictive
from numpyro.infer.util import log_density
from scipy import stats

from bayesrank.models import preference_gp, thurstone

RNG = np.random.default_rng(11)
X = RNG.normal(size=(8, 2))
X_NEW = RNG.normal(size=(3, 2))
SKILL = np.sin(2.0 * X[:, 0]) - X[:, 1]
PAIRS = np.array([RNG.choice(8, size=2, replace=False) for _ in range(20)])
FIRST_WINS = stats.norm.cdf(SKILL[PAIRS[:, 0]] - SKILL[PAIRS[:, 1]]) > RNG.uniform(size=20)
COMPARISONS = np.where(FIRST_WINS[:, None], PAIRS, PAIRS[:, ::-1])
OUTCOMES = RNG.integers(0, 3, size=20)
HYPER: dict[str, Any] = {"amplitude": 1.4, "lengthscale": 0.9, "noise": 0.8}


def _trace(model, *args, **kwargs) -> Any:
    return handlers.trace(handlers.seed(model, 0)).get_trace(*args, **kwargs)


def _log_density(model, args, kwargs, values):
    """Log joint density, and the log likelihood in it; compiled whole, not each operation."""

    def density(values):
        total, sites = log_density(model, args, kwargs, values)
        site = sites.get("comparison")
        return total, 0.0 if site is None else jnp.sum(site["fn"].log_prob(site["value"]))

    return jax.jit(density)(values)


def _covariance(a, b, amplitude, lengthscale):
    squares = ((a[:, None] - b[None]) / lengthscale) ** 2
    return amplitude**2 * np.exp(-0.5 * squares.sum(-1))


def _prior_covariance(amplitude=1.4, lengthscale=0.9):
    jitter = 1e-6 * amplitude**2 * np.eye(len(X))
    return _covariance(X, X, amplitude, lengthscale) + jitter


SCALED = {"scale": (), "f": (8,)}
PROCESS = {"amplitude": (), "lengthscale": (), "noise": (), "f": (8,)}
SEEN = {"comparison": (20,)}
ALL = {**PROCESS, **SEEN, "lengthscale": (2,), "f_new": (3,), "tie_width": ()}
EVERY = {"ard": True, "X_new": X_NEW, "outcomes": OUTCOMES}


@pytest.mark.parametrize(
    ("model", "args", "kwargs", "shapes"),
    [
        (preference_gp, (X, COMPARISONS), {}, PROCESS | SEEN),
        (preference_gp, (X, COMPARISONS), EVERY, ALL),
        (preference_gp, (X,), {}, PROCESS),
        (thurstone, (8, COMPARISONS), {}, SCALED | SEEN),
        (thurstone, (8, COMPARISONS), {"scale": 2.0}, {"f": (8,)} | SEEN),
        (thurstone, (8, COMPARISONS), {"outcomes": OUTCOMES}, SCALED | SEEN | {"tie_width": ()}),
        (thurstone, (8,), {}, SCALED),
    ],
)
def test_sites_and_shapes(model, args, kwargs, shapes):
    observed = []

    def values():
        trace = _trace(model, *args, **kwargs)
        sites = {name: site for name, site in trace.items() if site["type"] == "sample"}
        observed.extend(name for name, site in sites.items() if site["is_observed"])
        return {name: jnp.asarray(site["value"]) for name, site in sites.items()}

    found = jax.eval_shape(values)
    assert {name: value.shape for name, value in found.items()} == shapes
    assert observed == (["comparison"] if "comparison" in shapes else [])


def _log_probability(margin, likelihood, outcomes=None, noise=1.0, tie_width=None):
    """Log probability of the outcomes by SciPy, summed; each outcome a win if none are given."""
    law, scale = (
        (stats.norm, np.sqrt(2) * noise) if likelihood == "probit" else (stats.logistic, noise)
    )
    if outcomes is None:
        return law.logcdf(margin, scale=scale).sum()
    first, second = (law.cdf(s * margin - tie_width, scale=scale) for s in (1, -1))
    table = np.log(np.stack([second, 1 - first - second, first]))
    return np.take_along_axis(table, outcomes[None], axis=0).sum()


@pytest.mark.parametrize("likelihood", ["probit", "logit"])
@pytest.mark.parametrize("outcomes", [None, OUTCOMES], ids=["wins", "ties"])
def test_log_density_of_preference_gp_is_the_one_computed_by_hand(likelihood, outcomes):
    f, f_new = RNG.normal(size=8), RNG.normal(size=3)
    values = {**HYPER, "f": f, "f_new": f_new}
    lognormal = {"amplitude": (0, 1), "lengthscale": (0.5 * np.log(2), 1), "noise": (0, 0.1)}
    if outcomes is not None:
        values["tie_width"] = 0.3
        lognormal["tie_width"] = (np.log(0.5), 1)
    expected = sum(
        stats.lognorm.logpdf(values[name], s, scale=np.exp(loc))
        for name, (loc, s) in lognormal.items()
    )
    prior = _prior_covariance()
    across = _covariance(X, X_NEW, 1.4, 0.9)
    weights = np.linalg.solve(prior, across)
    new = _covariance(X_NEW, X_NEW, 1.4, 0.9) + 1e-6 * 1.4**2 * np.eye(3) - across.T @ weights
    expected += stats.multivariate_normal.logpdf(f, cov=prior)
    expected += stats.multivariate_normal.logpdf(f_new, weights.T @ f, new)
    margin = f[COMPARISONS[:, 0]] - f[COMPARISONS[:, 1]]
    expected += _log_probability(margin, likelihood, outcomes, HYPER["noise"], 0.3)

    kwargs = {"X_new": X_NEW, "likelihood": likelihood, "outcomes": outcomes}
    computed, _ = _log_density(preference_gp, (X, COMPARISONS), kwargs, values)
    np.testing.assert_allclose(computed, expected, rtol=1e-7)


@pytest.mark.parametrize("likelihood", ["probit", "logit"])
@pytest.mark.parametrize("outcomes", [None, OUTCOMES], ids=["wins", "ties"])
def test_log_density_of_thurstone_is_the_one_computed_by_hand(likelihood, outcomes):
    f = RNG.normal(size=8)
    values = {"f": f, "scale": 1.7, **({} if outcomes is None else {"tie_width": 0.3})}
    expected = stats.lognorm.logpdf(1.7, 1.0) + stats.norm.logpdf(f, scale=1.7).sum()
    if outcomes is not None:
        expected += stats.lognorm.logpdf(0.3, 1.0, scale=0.5)
    margin = f[COMPARISONS[:, 0]] - f[COMPARISONS[:, 1]]
    expected += _log_probability(margin, likelihood, outcomes, tie_width=0.3)
    kwargs = {"likelihood": likelihood, "outcomes": outcomes}
    computed, _ = _log_density(thurstone, (8, COMPARISONS), kwargs, values)
    np.testing.assert_allclose(computed, expected, rtol=1e-9)


def test_outcomes_of_given_pairs_are_drawn_without_conditioning():
    """``uncondition`` turns the program into a predictive one; frequencies are the likelihood's."""
    f = jnp.tile(jnp.asarray(SKILL), (4000, 1))
    samples = {"f": f, "scale": jnp.ones(4000), "tie_width": jnp.full(4000, 0.3)}
    margin = SKILL[COMPARISONS[:, 0]] - SKILL[COMPARISONS[:, 1]]
    drawn = Predictive(handlers.uncondition(thurstone), samples)(jax.random.key(1), 8, COMPARISONS)
    probability = stats.norm.cdf(margin / np.sqrt(2))
    error = np.sqrt(probability * (1 - probability) / 4000)
    assert np.max(np.abs(drawn["comparison"].mean(0) - probability) / error) < 4.5

    with_ties = Predictive(handlers.uncondition(thurstone), samples)(
        jax.random.key(1), 8, COMPARISONS, outcomes=OUTCOMES
    )
    first = stats.norm.cdf((margin - 0.3) / np.sqrt(2))
    error = np.sqrt(first * (1 - first) / 4000)
    assert np.max(np.abs((with_ties["comparison"] == 2).mean(0) - first) / error) < 4.5


@pytest.mark.parametrize("kind", [np.asarray, jnp.asarray, lambda a: a.tolist()])
def test_arrays_of_any_kind_are_taken(kind):
    one, _ = _log_density(preference_gp, (X, COMPARISONS), {}, {**HYPER, "f": SKILL})
    args = kind(X), kind(COMPARISONS)
    other, _ = _log_density(preference_gp, args, {}, {**HYPER, "f": SKILL})
    np.testing.assert_array_equal(one, other)


def test_whole_numbered_features_are_numbers():
    prior = _trace(preference_gp, np.array([[0], [1], [2]]))["f"]["fn"]
    assert jnp.issubdtype(prior.covariance_matrix.dtype, jnp.floating)


def test_single_precision_is_kept():
    hyper = jax.tree.map(jnp.float32, HYPER)
    values = {**hyper, "f": jnp.asarray(SKILL, jnp.float32)}
    args = jnp.asarray(X, jnp.float32), jnp.asarray(COMPARISONS, jnp.int32)
    single, _ = _log_density(preference_gp, args, {}, values)
    prior = jax.eval_shape(
        lambda: log_density(preference_gp, args, {}, values)[1]["f"]["fn"].covariance_matrix
    )
    assert prior.dtype == jnp.float32
    double = _log_density(preference_gp, (X, COMPARISONS), {}, {**HYPER, "f": SKILL})[0]
    np.testing.assert_allclose(single, double, rtol=1e-2)


@pytest.mark.slow
def test_programs_can_be_traced_in_all_their_arrays():
    """Under jit and vmap no value is known, so none is looked at."""

    def density(X, comparisons, outcomes, f):
        kwargs = {"outcomes": outcomes, "X_new": X_NEW}
        values = {**HYPER, "tie_width": 0.3, "f": f, "f_new": np.zeros(3)}
        return log_density(preference_gp, (X, comparisons), kwargs, values)[0]

    args = X, COMPARISONS, OUTCOMES, SKILL
    direct = density(*args)
    np.testing.assert_allclose(jax.jit(density)(*args), direct, rtol=1e-9)
    mirrored = COMPARISONS[:, ::-1], 2 - OUTCOMES
    stacked = (np.stack(pair) for pair in zip(args[1:3], mirrored, strict=True))
    batch = jax.jit(jax.vmap(density, in_axes=(None, 0, 0, None)))(X, *stacked, SKILL)
    np.testing.assert_allclose(batch, np.full(2, direct), rtol=1e-9)
