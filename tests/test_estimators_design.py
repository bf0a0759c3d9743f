"""Designs in which near-equals meet: the prior along the graph, its choice, and what is refused."""

from typing import Any

import jax
import numpy as np
import pytest
from numpyro.infer import Predictive
from scipy.special import ndtr

from bayesrank import Ranker, gp
from bayesrank.cli.trust import trust_checks
from bayesrank.datasets import ComparisonData
from bayesrank.estimators.design import looks_matched
from bayesrank.models import thurstone

GRAPH = np.array([[0, 3, 0, 0], [3, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]])


def divisions(seed, gap=1.5, cup=10, size=10):
    """Two divisions that play a double round, few games between them, and the skills."""
    rng = np.random.default_rng(seed)
    skills = 0.5 * rng.normal(size=2 * size)
    skills[:size] += gap
    within = [
        (i, j) for d in (0, size) for i in range(d, d + size) for j in range(d, d + size) if i != j
    ]
    between = np.stack([rng.integers(size, size=cup), size + rng.integers(size, size=cup)], 1)
    pairs = np.concatenate([within, within, between])
    won = rng.random(len(pairs)) < ndtr((skills[pairs[:, 0]] - skills[pairs[:, 1]]) / np.sqrt(2.0))
    return skills, np.where(won[:, None], pairs, pairs[:, ::-1])


def as_data(games, n):
    names: Any = tuple(range(n))
    return ComparisonData(names, games, np.zeros(len(games), bool))


def dense_covariance(scale, weight):
    """The prior of the four items of `GRAPH` by its formula: three that met, and one alone."""
    laplacian = np.diag(GRAPH.sum(axis=0)) - GRAPH
    mean_degree = GRAPH.sum() / 3
    inside = np.diag([1.0, 1.0, 1.0, 0.0])
    average = np.diag([0.0, 0.0, 0.0, 1.0])
    average[:3, :3] = 1.0 / 3.0
    inverse = np.linalg.inv(np.eye(4) + weight * laplacian / mean_degree)
    center = np.eye(4) - average
    apart = inside @ center @ inverse @ center @ inside
    return scale**2 * (apart * 2.0 / np.trace(apart) + average)


def test_the_prior_along_the_graph_is_its_dense_formula():
    program = Predictive(thurstone, posterior_samples={"graph_weight": np.full(20_000, 20.0)})
    draws = program(jax.random.key(0), 4, scale=1.5, laplacian=gp.laplacian(GRAPH))["f"]
    expected = dense_covariance(1.5, 20.0)
    np.testing.assert_allclose(np.cov(draws.T), expected, atol=0.1)


def test_the_fit_is_that_by_weighted_draws_of_the_dense_prior():
    games = np.array([(0, 1), (1, 0), (0, 1), (1, 2)])
    fixed = {"scale": 1.5, "graph_weight": 20.0}
    found = Ranker(items=range(4), design="matched", hyperparameters=fixed).fit(games)
    draws = np.random.default_rng(0).multivariate_normal(
        np.zeros(4), dense_covariance(1.5, 20.0), size=400_000
    )
    margins = draws[:, games[:, 0]] - draws[:, games[:, 1]]
    weights = ndtr(margins / np.sqrt(2.0)).prod(axis=1)
    mean = weights @ draws / weights.sum()
    sd = np.sqrt(weights @ (draws - mean) ** 2 / weights.sum())
    got_mean, got_sd = found.predict()
    np.testing.assert_allclose(got_mean, mean, atol=0.03)
    np.testing.assert_allclose(got_sd, sd, atol=0.03)


def test_a_design_looks_matched_by_who_meets_whom_alone():
    rng = np.random.default_rng(0)
    for rows in (3, 20, 60, 100, 400):
        random = np.array([rng.choice(20, 2, replace=False) for _ in range(rows)])
        assert not looks_matched(as_data(random, 20))
    skills, games = divisions(0)
    assert looks_matched(as_data(games, skills.size))
    assert looks_matched(as_data(games[:, ::-1], skills.size))


@pytest.mark.slow
def test_divisions_come_apart_where_few_games_link_them():
    skills, games = divisions(1)
    found = {each: Ranker(items=range(20), design=each).fit(games) for each in ("random", "auto")}
    gap = {}
    for name, ranker in found.items():
        draws = ranker.samples()
        apart = draws[:, :10].mean(axis=1) - draws[:, 10:].mean(axis=1)
        gap[name] = np.quantile(apart, [0.05, 0.5, 0.95])
    truth = skills[:10].mean() - skills[10:].mean()
    assert "graph_weight" in found["auto"].params_
    assert found["auto"].log_evidence_ > found["random"].log_evidence_
    assert abs(gap["auto"][1] - truth) < abs(gap["random"][1] - truth)
    assert np.ptp(gap["auto"]) > 1.3 * np.ptp(gap["random"])
    data = as_data(games, 20)
    for ranker in found.values():
        rank, draws = ranker.rank(), ranker.samples()
        checks = trust_checks(data, rank, draws, ranker.params_, "skipped", ranker.result)
        [prior] = [check for check in checks if check.name == "Prior"]
        assert prior.status in ("ok", "warning") and "wider prior" in prior.sentence


@pytest.mark.parametrize(
    ("options", "given", "message"),
    [
        ({"design": "swiss"}, {}, "design is 'swiss'"),
        ({"design": "matched", "item_features": np.eye(3)}, {}, "not go with item_features"),
        ({"design": "matched"}, {"judge": ["x", "y", "x"]}, "judges, which do not go with design"),
        ({"design": "matched"}, {"time": [0, 1, 2]}, "skills move"),
    ],
)
def test_a_design_that_does_not_fit_is_refused(options, given, message):
    with pytest.raises(ValueError, match=message):
        Ranker(**options).fit([(0, 1), (1, 2), (2, 0)], **given)
    with pytest.raises(ValueError, match="not go with orders"):
        Ranker(design="matched").fit([["a", "b", "c"]])
