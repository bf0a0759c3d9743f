"""Cycles among three items, by enumeration; does the check see when there are too many?"""

import dataclasses
import importlib
import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, ndtr

from bayesrank.datasets import ComparisonData
from bayesrank.diagnostics import transitivity
from bayesrank.diagnostics.transitivity import margins_in_time, margins_of_log
from bayesrank.solvers.comparisons import JudgedSkills, fit_arena


def brute(pairs, tied, n):
    """Count triads and cycles one by one."""
    margin = np.zeros((n, n))
    for (winner, loser), equal in zip(pairs, tied, strict=True):
        margin[winner, loser] += not equal
        margin[loser, winner] -= not equal
    triads = cycles = 0
    for three in itertools.combinations(range(n), 3):
        if all(margin[i, j] for i, j in itertools.combinations(three, 2)):
            triads += 1
            beaten = [sum(margin[i, j] > 0 for j in three if j != i) for i in three]
            cycles += beaten == [1, 1, 1]
    return triads, cycles


@pytest.mark.parametrize("seed", range(6))
def test_circles_by_enumeration(seed):
    rng = np.random.default_rng(seed)
    n = 9
    pairs = np.array([rng.choice(n, 2, replace=False) for _ in range(90)])
    tied = rng.random(90) < 0.2
    found = transitivity(pairs, np.zeros((5, n)), expit, tied=tied, num_replicates=5)
    assert (found.num_triads, found.num_cycles) == brute(pairs, tied, n)
    weights = rng.integers(1, 4, 90)
    again = transitivity(pairs, np.zeros((5, n)), expit, tied=tied, weights=weights)
    repeated = np.repeat(np.arange(90), weights)
    assert (again.num_triads, again.num_cycles) == brute(pairs[repeated], tied[repeated], n)


def games(rng, skills, count):
    pairs = np.array([rng.choice(len(skills), 2, replace=False) for _ in range(count)])
    wins = rng.random(count) < expit(skills[pairs[:, 0]] - skills[pairs[:, 1]])
    return np.where(wins[:, None], pairs, pairs[:, ::-1])


def test_data_of_the_model_pass_about_as_often_as_they_should():
    """The true skills stand for the posterior, so that p-values are nearly uniform."""
    rng = np.random.default_rng(0)
    p_values = []
    for _ in range(60):
        skills = rng.normal(size=15)
        found = transitivity(games(rng, skills, 400), skills[None], expit, num_replicates=60)
        p_values.append(found.p_value)
    assert 0.35 < np.mean(p_values) < 0.7
    assert np.mean(np.array(p_values) < 0.05) < 0.15


def test_rock_paper_scissors_is_found():
    rng = np.random.default_rng(1)
    kind = np.arange(18) % 3
    pairs = np.array([p for p in itertools.combinations(range(18), 2) if kind[p[0]] != kind[p[1]]])
    wins = (kind[pairs[:, 1]] - kind[pairs[:, 0]]) % 3 == 1
    played = np.where(wins[:, None], pairs, pairs[:, ::-1])
    found = transitivity(played, rng.normal(0.0, 0.3, (50, 18)), expit)
    assert found.is_known and not found.is_good and found.share == 1.0
    assert found.expected_upper < 0.5


def test_without_triads_nothing_is_known():
    found = transitivity([(0, 1), (1, 2)], np.zeros((3, 4)), expit)
    assert not found.is_known and not found.is_good and np.isnan(found.share)
    nothing = transitivity(np.zeros((0, 2), int), np.zeros((3, 4)), expit)
    assert nothing.num_triads == 0


def test_of_many_items_those_with_most_opponents_are_looked_at():
    rng = np.random.default_rng(2)
    pairs = games(rng, np.zeros(6), 300)
    lonely = np.array([(6 + i, 0) for i in range(5)])
    played = np.concatenate([pairs, lonely])
    few = transitivity(played, np.zeros((4, 11)), expit, max_items=6)
    assert (few.num_triads, few.num_cycles) == brute(pairs, np.zeros(300), 6)


def order_biased(rng, n, skill_weight, cycle_weight=0.0):
    """Every two items once, by one of three judges: those shown first have a great advantage."""
    met = np.array(list(itertools.combinations(range(n), 2)))
    first, second = rng.permuted(met, axis=1).T
    judge = rng.integers(3, size=len(first))
    skills = skill_weight * rng.normal(size=n)
    turn = np.array([0.0, 1.0, -1.0])[(first - second) % 3]
    bias = np.array([1.5, 2.5, 2.0])[judge]
    wins = rng.random(len(first)) < ndtr(
        (skills[first] - skills[second] + cycle_weight * turn + bias) / np.sqrt(2.0)
    )
    pairs = np.where(wins[:, None], np.stack([first, second], 1), np.stack([second, first], 1))
    names = tuple(str(i) for i in range(n))
    said = {"position": np.where(wins, 1.0, -1.0), "judges": judge, "judge_names": ("a", "b", "c")}
    return ComparisonData(names, pairs, np.zeros(len(pairs), bool), **said)


def checked(data, number=100):
    """The check with what judges saw, and with skills alone."""
    columns: dict[str, Any] = {"position": data.position}
    if data.judges is not None:
        columns |= {"judges": data.judges, "num_judges": 3}
    fit = fit_arena(data.num_items, data.comparisons, **columns)
    posterior = JudgedSkills(fit)
    skills = posterior.draws(None, number, np.random.RandomState(0))
    seen = margins_of_log(data, posterior, number)
    called = data.comparisons, skills, lambda margin: ndtr(margin / np.sqrt(2.0))
    return transitivity(*called, margins=seen), transitivity(*called), seen, fit


def test_cycles_that_positions_and_judges_make_are_expected():
    worlds = [order_biased(np.random.default_rng(seed), 14, 1.5) for seed in range(6)]
    seen, alone = np.array([[found.p_value for found in checked(w)[:2]] for w in worlds]).T
    assert min(seen) > 0.05 and 0.3 < np.mean(seen) < 0.75
    assert np.mean(alone) < 0.15  # to skills alone they are too many


def test_rock_paper_scissors_is_found_under_judges_and_positions():
    found, _, seen, fit = checked(order_biased(np.random.default_rng(3), 18, 0.0, 5.0))
    assert found.is_known and not found.is_good
    assert np.isfinite(seen(0)).all() and fit.converged


@pytest.mark.parametrize("judged", [True, False])
def test_margins_of_a_log_are_those_of_its_fit(judged):
    data = order_biased(np.random.default_rng(5), 8, 1.0)
    data = data if judged else dataclasses.replace(data, judges=None, judge_names=())
    *_, seen, fit = checked(data, 1000)
    winner, loser = data.comparisons.T
    mean, advantage = fit.mean[winner] - fit.mean[loser], fit.position[0]
    if judged:
        own = fit.judges
        mean *= np.exp(own.log_reliability + own.log_reliability_variance / 2.0)[data.judges]
        advantage = advantage + own.bias[data.judges]
    mean += np.asarray(data.position) * advantage
    drawn = np.array([seen(draw) for draw in range(1000)])  # of 200 draws of skill
    assert np.abs((drawn.mean(0) - mean) / drawn.std(0)).max() < 4.5 / np.sqrt(200)


def test_margins_in_time_against_weighted_draws_of_the_prior():
    """Three items at three times: Laplace's margins against importance sampling of all skills."""
    times, pairs = np.array([0.0, 0.4, 1.0]), np.array([[0, 1], [1, 2], [2, 0], [0, 1], [0, 2]])
    period = np.array([0, 0, 1, 2, 2])
    said = {"times": times, "period": period, "process": "matern12"}
    params = {"scale": 0.8, "lengthscale": 0.7}
    result = SimpleNamespace(model_args=(3, pairs), model_kwargs=said)
    drawn = margins_in_time(result, params, np.ones(5, bool), 4000)
    assert drawn is not None
    root = np.linalg.cholesky(0.64 * np.exp(-np.abs(times[:, None] - times) / 0.7))
    skills = np.random.default_rng(0).standard_normal((200_000, 3, 3)) @ root.T
    margin = skills[:, pairs[:, 0], period] - skills[:, pairs[:, 1], period]
    weight = ndtr(margin / np.sqrt(2.0)).prod(axis=1)
    mean = weight @ margin / weight.sum()
    covariance = (weight[:, None] * (margin - mean)).T @ (margin - mean) / weight.sum()
    sd = np.sqrt(np.diagonal(covariance))
    assert np.abs((drawn.mean(0) - mean) / sd).max() < 0.15
    assert np.abs(np.cov(drawn.T) / np.outer(sd, sd) - covariance / np.outer(sd, sd)).max() < 0.15


def test_only_the_rows_that_are_asked_for_are_drawn():
    said = {"times": np.array([0.0, 1.0]), "period": np.array([0, 1, 1]), "process": "walk"}
    result = SimpleNamespace(model_args=(2, np.array([[0, 1], [0, 1], [1, 0]])), model_kwargs=said)
    drawn = margins_in_time(result, {"scale": 1.0, "drift": 0.1}, np.array([1, 1, 0], bool), 50)
    assert drawn is not None and drawn.shape == (50, 2) and drawn.mean() > 0


def test_margins_that_do_not_settle_are_not_drawn(monkeypatch):
    there = importlib.import_module("bayesrank.diagnostics.transitivity")
    monkeypatch.setattr(there, "_STEPS", 1)
    said = {"times": np.array([0.0, 1.0]), "period": np.array([0, 1]), "process": "walk"}
    result = SimpleNamespace(model_args=(2, np.array([[0, 1], [1, 0]])), model_kwargs=said)
    params = {"scale": 1.0, "drift": 0.1}
    assert margins_in_time(result, params, np.ones(2, bool), 50) is None
