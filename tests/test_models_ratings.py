"""Programs of ratings: densities by hand, and EP, NUTS and SVI on the same small instance."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro import handlers
from numpyro.infer.util import log_density
from scipy import stats

from bayesrank.distributions.ordinal import centred_thresholds
from bayesrank.gp import KernelPrior, Tier
from bayesrank.infer import EP
from bayesrank.models import (
    collaborative_ordinal_gp,
    collaborative_preference_gp,
    collaborative_rating_gp,
    ordinal_gp,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(6, 2))
USERS = np.array([0, 0, 1, 1, 2])
ITEMS = np.array([0, 1, 1, 2, 0])
LEVELS = np.array([0, 2, 1, 1, 0])
SIZES = (3, 3)
ROOT = RNG.normal(size=(3, 3))
SIGMA = ROOT @ ROOT.T + np.eye(3)
H = np.array([0.3, -0.2, 0.5])
PARAMS = {"h": H, "Sigma": SIGMA}


def _gaussian_prior(f):
    normal: Any = stats.multivariate_normal
    return sum(normal.logpdf(row, H, SIGMA) for row in f)


def test_thresholds_have_their_gaps_and_mean_zero():
    edges = centred_thresholds(jnp.array([[0.5, 2.0], [1.0, 0.1]]))
    np.testing.assert_allclose(np.diff(edges, axis=1), [[0.5, 2.0], [1.0, 0.1]])
    np.testing.assert_allclose(edges.mean(axis=1), 0.0, atol=1e-12)
    np.testing.assert_allclose(centred_thresholds(jnp.zeros(0)), [0.0])


def _log_density(model, args, kwargs, values):
    """Log joint density, and log likelihoods of the ratings; compiled whole."""

    def density(values):
        total, sites = log_density(model, args, kwargs, values)
        site = sites.get("rating")
        return total, None if site is None else site["fn"].log_prob(site["value"])

    return jax.jit(density)(values)


@pytest.mark.parametrize("likelihood", ["probit", "logit"])
def test_density_of_levels_is_the_one_computed_by_hand(likelihood):
    f, gaps = RNG.normal(size=(3, 3)), np.array([0.8])
    args = USERS, ITEMS, LEVELS, *SIZES
    values = {**PARAMS, "gaps": gaps, "f": f}
    computed, _ = _log_density(collaborative_ordinal_gp, args, {"likelihood": likelihood}, values)
    law = stats.norm if likelihood == "probit" else stats.logistic
    edges = np.array([-np.inf, -0.4, 0.4, np.inf])
    seen = f[USERS, ITEMS]
    expected = np.log(law.cdf(edges[LEVELS + 1] - seen) - law.cdf(edges[LEVELS] - seen)).sum()
    np.testing.assert_allclose(computed, expected + _gaussian_prior(f), rtol=1e-9)


def test_density_of_numbers_and_of_the_prior():
    f, ratings = RNG.normal(size=(3, 3)), RNG.normal(size=5)
    args = USERS, ITEMS, ratings, *SIZES
    values = {**PARAMS, "noise": 0.7, "f": f}
    computed, _ = _log_density(collaborative_rating_gp, args, {}, values)
    expected = stats.norm.logpdf(ratings, f[USERS, ITEMS], 0.7).sum() + _gaussian_prior(f)
    np.testing.assert_allclose(computed, expected, rtol=1e-9)
    with_prior, _ = _log_density(
        collaborative_rating_gp, args, {"strength": 4.0, "mean_strength": 2.0},
        {**values, "level": 0.1},
    )  # fmt: skip
    base, gap = 0.5 * (np.eye(3) + 1), H - 0.1
    inverse = np.linalg.inv(SIGMA)
    divergence = np.log(np.linalg.det(SIGMA) / np.linalg.det(base)) + np.trace(base @ inverse) - 3
    penalty = -0.5 * (4.0 * divergence + 2.0 * gap @ inverse @ gap)
    np.testing.assert_allclose(with_prior - computed, penalty, rtol=1e-9)
    parts = 0.5 * np.stack([np.ones((3, 3)), np.eye(3)])
    mixed = 0.5 * (3.0 * np.eye(3) + 0.4)
    other, _ = _log_density(
        collaborative_rating_gp, args, {"strength": 4.0, "kernel": parts},
        {**values, "level": 0.1, "scales": np.array([0.4, 3.0])},
    )  # fmt: skip
    divergence = np.log(np.linalg.det(SIGMA) / np.linalg.det(mixed)) + np.trace(mixed @ inverse) - 3
    np.testing.assert_allclose(other - computed, -2.0 * divergence, rtol=1e-9)


def test_users_stretch_the_function_about_the_mean_rating():
    f, ratings, factor = RNG.normal(size=(3, 3)), RNG.normal(size=5), np.array([0.5, 1.0, 3.0])
    scale = np.array([2.0, 0.5, 1.0])
    values = {**PARAMS, "noise": 0.7, "f": f, "noise_factor": factor, "scale_factor": scale}
    args = USERS, ITEMS, ratings, *SIZES
    _, found = _log_density(collaborative_rating_gp, args, {"user_scales": 0.3}, values)
    mean = ratings.mean() + scale[USERS] * (f[USERS, ITEMS] - ratings.mean())
    expected = stats.norm.logpdf(ratings, mean, 0.7 * factor[USERS])
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_density_of_comparisons():
    f = RNG.normal(size=(3, 3))
    losers = (ITEMS + 1) % 3
    args = USERS, ITEMS, losers, *SIZES
    computed, _ = _log_density(collaborative_preference_gp, args, {}, {**PARAMS, "f": f})
    margin = f[USERS, ITEMS] - f[USERS, losers]
    expected = stats.logistic.logcdf(margin).sum() + _gaussian_prior(f)
    np.testing.assert_allclose(computed, expected, rtol=1e-9)


def test_users_thresholds_multiply_the_shared_ones():
    args = USERS, ITEMS, LEVELS, *SIZES
    factor, noise = np.array([[1.5], [0.5], [1.0]]), np.array([1.0, 2.0, 0.7])
    values = {**PARAMS, "gaps": np.array([0.8]), "f": np.zeros((3, 3)),
              "gap_factor": factor, "noise_factor": noise}  # fmt: skip
    _, found = _log_density(collaborative_ordinal_gp, args, {"user_thresholds": 0.3}, values)
    half = 0.4 * factor[USERS, 0] / noise[USERS]
    edges = np.stack([np.full(5, -np.inf), -half, half, np.full(5, np.inf)], axis=1)
    row = np.arange(5)
    expected = stats.norm.cdf(edges[row, LEVELS + 1]) - stats.norm.cdf(edges[row, LEVELS])
    np.testing.assert_allclose(np.exp(found), expected, rtol=1e-9)


def test_gaussian_regression_is_exact():
    ratings = RNG.normal(size=6)
    params = {"amplitude": 1.2, "lengthscale": 0.9, "noise": 0.5}
    result = EP(ordinal_gp).run(
        jax.random.key(0), X, ratings, params=params, likelihood="gaussian", ard=False
    )
    distance = ((X[:, None] - X) ** 2).sum(-1)
    prior = 1.44 * np.exp(-0.5 * distance / 0.81) + 4.0 + 5.44e-6 * np.eye(6)
    total = prior + 0.25 * np.eye(6)
    np.testing.assert_allclose(
        result.log_evidence, stats.multivariate_normal(np.zeros(6), total).logpdf(ratings)
    )
    np.testing.assert_allclose(result.mean["f"], prior @ np.linalg.solve(total, ratings), atol=1e-8)


def test_levels_of_one_person_order_the_function():
    levels = np.digitize(X[:, 0], [-0.3, 0.5])
    result = EP(ordinal_gp).run(jax.random.key(0), X, levels, ard=False)
    f = result.mean["f"]
    assert result.converged
    assert f[levels == 0].max() < f[levels == 1].min()
    assert f[levels == 1].max() < f[levels == 2].min()


SHARED: dict[str, Any] = {"users": USERS, "num_users": 3, "num_items": 3}
LEVELLED = {**SHARED, "items": ITEMS, "levels": LEVELS}
RATED = {**SHARED, "items": ITEMS, "ratings": np.ones(5)}
PREFERRED = {**SHARED, "winners": ITEMS, "losers": (ITEMS + 1) % 3}
ALONE = {"X": X, "levels": LEVELS}
REFUSED: list[tuple[Any, dict[str, Any], dict[str, Any], str]] = [
    (collaborative_rating_gp, RATED, {"ratings": [1.0, 2.0]}, r"ratings has shape"),
    (collaborative_rating_gp, RATED, {"ratings": np.full(5, np.nan)}, "ratings is nan in row 0"),
    (collaborative_preference_gp, PREFERRED, {"losers": ITEMS + 9}, "losers is 9 in row 0"),
    (collaborative_preference_gp, PREFERRED, {"losers": ITEMS}, "and so is winners"),
    (ordinal_gp, ALONE, {}, "levels has shape"),
    (ordinal_gp, ALONE, {"levels": X[:, 0], "num_levels": 3, "likelihood": "gaussian"}, "is g"),
    (ordinal_gp, ALONE, {"levels": np.arange(6), "likelihood": "cauchit"}, "is 'cauchit'"),
]
LEVELS_REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"items": ITEMS + 1}, "items is 3 in row 3"),
    ({"users": USERS * 1.0}, "users has shape"),
    ({"levels": LEVELS * 0.5}, "levels has shape"),
    ({"num_levels": 2}, "levels is 2 in row 1; the 2 levels"),
    ({"num_levels": 3.5}, "num_levels is 3.5; pass a whole number from 1 on"),
    ({"users": np.zeros(5, int)}, "user 0 has rated item 1 before row 2"),
    ({"likelihood": "cauchit"}, "likelihood is 'cauchit'"),
    ({"kernel": np.eye(2)}, r"kernel has shape \(2, 2\)"),
    ({"kernel": np.full((3, 3), np.nan)}, "kernel is not symmetric, or not finite"),
    ({"strength": -1.0}, "strength is -1.0; pass a number from 0 on"),
    ({"user_thresholds": np.nan}, "user_thresholds is nan"),
    ({"num_users": 0}, "num_users is 0; pass a"),
    ({"strength": KernelPrior.for_items(4, 1.0)}, "has tiers of 4 items, but there are 3"),
    ({"strength": KernelPrior((Tier(0, 2, 1.0),), (0, 1))}, "orders 2 items; give it each of the"),
]
REFUSED += [(collaborative_ordinal_gp, LEVELLED, *row) for row in LEVELS_REFUSED]


@pytest.mark.parametrize(("model", "given", "changed", "message"), REFUSED)
def test_unusable_arguments_are_refused_by_name(model, given, changed, message):
    with pytest.raises(ValueError, match=message), handlers.seed(rng_seed=0):
        model(**(given | changed))
