"""Cases of `benchmarks.calibration` in which people differ: users who rate, and judges.

The exact posterior of `ordinal_version_space`, by tempered sequential Monte Carlo.

The likelihood comes in step by step, each as large as keeps three fifths of the particles
effective; after each the particles are drawn again and moved by Metropolis steps. Six latents and
a few dozen examples take a second, and sites that are nearly edges do no harm.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import log_ndtr, logsumexp
from scipy.stats import invwishart, norm

from bayesrank import CollaborativeGP, CollaborativeOrdinalGP
from bayesrank.estimators import Ranker
from bayesrank.models.comparisons import judged_comparisons
from benchmarks.calibration import Trial, drawn, of_draws, of_levels, of_normals

Array = NDArray[Any]

_PARTICLES, _STEPS, _LAST_STEPS = 2000, 8, 16
_EFFECTIVE, _ACCEPTED = 0.6, 0.25


def exact_weights(
    X: Array, y: NDArray[np.int64], num_levels: int, threshold_scale: float, seed: int
) -> Array:
    """Draws of the weights, shape (2000, d), noise and thresholds integrated over."""
    rng, d = np.random.default_rng(seed), X.shape[1]
    side = np.where(y[:, None] > np.arange(1, num_levels), 1.0, -1.0)

    def log_likelihood(z: Array) -> Array:
        score, edges = z[:, 1 : 1 + d] @ X.T, threshold_scale * z[:, 1 + d :]
        margin = side * (score[:, :, None] - edges[:, None])
        return log_ndtr(margin / np.exp(z[:, :1, None])).sum(axis=(1, 2))

    def log_prior(z: Array) -> Array:
        # Half-Cauchy noise, in its log; the others are standard normal.
        return z[:, 0] - np.log1p(np.exp(2.0 * z[:, 0]) / d) - 0.5 * (z[:, 1:] ** 2).sum(axis=1)

    noise = np.sqrt(d) * np.abs(rng.standard_cauchy((_PARTICLES, 1)))
    z = np.hstack([np.log(noise), rng.normal(size=(_PARTICLES, d + num_levels - 1))])
    power, size, fit = 0.0, 0.6, log_likelihood(z)
    while power < 1.0:
        step = _step(fit, 1.0 - power)
        power += step
        share = np.exp(step * fit - np.asarray(logsumexp(step * fit)))
        levels = (np.arange(_PARTICLES) + rng.random()) / _PARTICLES
        z = z[np.minimum(np.searchsorted(np.cumsum(share), levels), _PARTICLES - 1)]
        fit, prior = log_likelihood(z), log_prior(z)
        root = np.linalg.cholesky(np.cov(z.T))
        for _ in range(_STEPS if power < 1.0 else _LAST_STEPS):
            moved = z + size * rng.lognormal(0.0, 0.5) * rng.normal(size=z.shape) @ root.T
            new_fit, new_prior = log_likelihood(moved), log_prior(moved)
            log_ratio = power * (new_fit - fit) + new_prior - prior
            taken = np.log(rng.random(_PARTICLES)) < log_ratio
            z[taken], fit[taken], prior[taken] = moved[taken], new_fit[taken], new_prior[taken]
            size *= np.exp(0.3 * (taken.mean() - _ACCEPTED))
    return z[:, 1 : 1 + d]


def _step(fit: Array, most: float) -> float:
    """How much of the likelihood keeps the particles effective."""

    def too_many(step: float) -> float:
        share = np.exp(step * fit - np.asarray(logsumexp(step * fit)))
        return float(1.0 / (share**2).sum()) - _EFFECTIVE * _PARTICLES

    if too_many(most) > 0.0:
        return most
    found: Any = brentq(too_many, 0.0, most)
    return float(found)


LEVELS = 5

_FIRST_SEED = 3_000_000  # of ratings, on which nothing was chosen
_USER_SPREAD = 0.3
_ONE_SD = float(2.0 * norm.cdf(1.0) - 1.0)  # probability of the interval from -1 to 1


def styled(seed: int, *, told: bool) -> Trial:
    """Battles of twenty items, of which some are longer, and longer ones please."""
    rng = np.random.default_rng(seed)
    skill, verbose = rng.normal(size=(2, 20))
    pairs = np.array([rng.choice(20, 2, replace=False) for _ in range(1_500)])
    length = np.exp(5.0 + 0.35 * verbose[pairs] + 0.5 * rng.normal(size=pairs.shape))
    more = np.log(length[:, 0] / length[:, 1])
    margin = skill[pairs[:, 0]] - skill[pairs[:, 1]] + 0.8 * more / more.std()
    margin += np.sqrt(2.0) * rng.normal(size=len(pairs))
    lost, tied = margin < 0.0, np.abs(margin) < 0.4
    pairs[lost] = pairs[lost, ::-1]
    given = {"covariates": np.where(lost, -more, more)} if told else {}
    return of_draws(Ranker(items=range(20)).fit(pairs, ties=tied, **given).samples(), skill)


def opinionated(seed: int, *, judges: int, tastes: Any = "auto") -> Trial:
    """Battles of twenty items, which each judge likes a little more or less than others do."""
    rng = np.random.default_rng(seed)
    skill, count = rng.normal(size=20), 150 * judges if judges < 20 else 3_000
    liked = skill + 0.4 * rng.normal(size=(judges, 20))
    pairs = np.array([rng.choice(20, 2, replace=False) for _ in range(count)])
    judge, rows = rng.integers(judges, size=count), np.arange(count)
    seen = liked[judge] * np.exp(0.2 * rng.normal(size=judges))[judge, None]
    margin = (
        seen[rows, pairs[:, 0]] - seen[rows, pairs[:, 1]] + np.sqrt(2.0) * rng.normal(size=count)
    )
    games = np.where(margin[:, None] > 0.0, pairs, pairs[:, ::-1])
    return of_draws(Ranker(items=range(20), tastes=tastes).fit(games, judge=judge).samples(), skill)


def arena(seed: int, *, rows: int, judges: int = 0, categories: int = 0) -> Trial:
    """Games of twenty items, one of them at home, with ties; perhaps with judges and categories."""
    rng, n = np.random.default_rng(seed), 20
    pairs = np.array([rng.choice(n, 2, replace=False) for _ in range(rows)])
    said: dict[str, Any] = {"outcomes": np.full(rows, 2), "position": np.ones(rows, int)}
    given: dict[str, Any] = {}
    if judges:
        given = {
            "judge": rng.integers(judges, size=rows),
            "category": rng.integers(categories, size=rows),
        }
        said |= {"judges": given["judge"], "num_judges": judges}
        said |= {"categories": given["category"], "num_categories": categories}
    truth = drawn(judged_comparisons, seed, n, pairs, **said)
    tied, first = truth["comparison"] == 1, truth["comparison"] > 0
    games = np.where(first[:, None], pairs, pairs[:, ::-1])
    ranker = Ranker(items=range(n))
    ranker.fit(games, ties=tied, position=np.where(first, 1, -1), **given)
    skills = truth["f"]
    if judges:  # the ranker's are averages over the log's categories
        share = np.bincount(given["category"], minlength=categories) / rows
        skills = skills + share @ truth["category_skill"]
    return of_draws(ranker.samples(), skills)


def divisions(seed: int, **options: Any) -> Trial:
    """Two divisions of ten, 1.5 apart: each pair of a division meets four times, ten games link."""
    rng, half = np.random.default_rng(seed), 10
    truth = 0.5 * rng.normal(size=2 * half) + np.repeat([1.5, 0.0], half)
    within = np.array([(i, j) for i, j in itertools.permutations(range(half), 2)] * 2)
    cup = np.stack([rng.integers(half, size=10), half + rng.integers(half, size=10)], axis=1)
    return _games(rng, truth, np.concatenate([within, within + half, cup]), options)


def near_equals(seed: int, **options: Any) -> Trial:
    """Twenty items, 1,500 games between those of near-equal skill."""
    rng, n = np.random.default_rng(seed), 20
    truth = 0.6 * rng.normal(size=n)
    odds = np.exp(-0.5 * ((truth[:, None] - truth) / 0.2) ** 2) * (1.0 - np.eye(n))
    odds /= odds.sum(axis=1, keepdims=True)
    first = rng.integers(n, size=1500)
    pairs = np.stack([first, [rng.choice(n, p=odds[i]) for i in first]], axis=1)
    return _games(rng, truth, pairs, options)


def _games(rng: np.random.Generator, truth: Array, pairs: Array, options: Any) -> Trial:
    margin = truth[pairs[:, 0]] - truth[pairs[:, 1]] + np.sqrt(2.0) * rng.normal(size=len(pairs))
    games = np.where(margin[:, None] > 0.0, pairs, pairs[:, ::-1])
    return of_draws(Ranker(items=range(truth.size), **options).fit(games).samples(), truth)


def ratings(seed: int, *, num_users: int, num_items: int) -> Trial:
    """Levels by users who told half of theirs: the others."""
    attempts = itertools.count(_FIRST_SEED + 1000 * seed)
    levels, told = _draw(num_users, num_items, next(attempts))
    while len(np.unique(levels[told])) < LEVELS:
        levels, told = _draw(num_users, num_items, next(attempts))
    users, items = np.nonzero(told)
    model = CollaborativeOrdinalGP().fit(users, items, levels[told])
    return of_levels(model.predict_proba(*np.nonzero(~told)), levels[~told], seed)


def numbers(seed: int, *, num_users: int, num_items: int) -> Trial:
    """Numbers by users who told half of theirs: the others, noise included."""
    rng, n, m = np.random.default_rng([_FIRST_SEED, seed]), num_users, num_items
    mean, kernel = _of_the_prior(rng, m)
    f = mean + rng.normal(size=(n, m)) @ np.linalg.cholesky(kernel).T
    scale, noise = np.exp(_USER_SPREAD * rng.normal(size=(2, n, 1)))
    values = mean.mean() + scale * (f - mean.mean()) + noise * rng.normal(size=(n, m))
    told = np.argsort(rng.random((n, m)), axis=1) < m // 2
    users, items = np.nonzero(told)
    model = CollaborativeGP().fit(users, items, values[told])
    low, high = model.predict_interval(*np.nonzero(~told), level=_ONE_SD)
    return of_normals((low + high) / 2.0, (high - low) / 2.0, values[~told])


def _draw(num_users: int, num_items: int, seed: int) -> tuple[Array, Array]:
    """Levels of all users and items, shape (n, m), and which half of them each user tells.

    The kernel is drawn from the program's prior. Strengths run from the number of items to ten
    times it, the mean's from 2 to 15 users, and users differ in thresholds and noise.
    """
    rng, n, m = np.random.default_rng([seed, num_users, num_items]), num_users, num_items
    mean, kernel = _of_the_prior(rng, m)
    f = mean + rng.normal(size=(n, m)) @ np.linalg.cholesky(kernel).T
    size = np.sqrt(1.0 + np.trace(kernel) / m + mean.var())
    shares = rng.dirichlet(np.full(LEVELS, 8.0))
    edges = size * norm.ppf(np.cumsum(shares)[:-1]) + mean.mean()
    gaps = np.diff(edges) * np.exp(_USER_SPREAD * rng.normal(size=(n, LEVELS - 2)))
    own = np.hstack([np.zeros((n, 1)), np.cumsum(gaps, axis=1)])
    own += edges.mean() - own.mean(1, keepdims=True)
    noise = np.exp(_USER_SPREAD * rng.normal(size=(n, 1)))
    levels = ((f + noise * rng.normal(size=(n, m)))[:, :, None] > own[:, None]).sum(2)
    return levels, np.argsort(rng.random((n, m)), axis=1) < m // 2


def _of_the_prior(rng: np.random.Generator, m: int) -> tuple[Array, Array]:
    """Mean and kernel of m items from the program's prior, their strengths drawn as well."""
    strength = np.exp(rng.uniform(np.log(m + 4), np.log(10 * m)))
    shared, size = rng.uniform(0.1, 0.9), 3.0 * np.exp(0.5 * rng.normal())
    base = size * (shared * np.ones((m, m)) + (1.0 - shared) * np.eye(m))
    kernel = invwishart(strength, base * (strength - m - 1)).rvs(random_state=rng)
    kappa = np.exp(rng.uniform(np.log(2.0), np.log(15.0)))
    return np.linalg.cholesky(kernel) @ rng.normal(size=m) / np.sqrt(kappa), kernel
