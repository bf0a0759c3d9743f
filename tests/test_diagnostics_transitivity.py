"""Cycles among three items, by enumeration; does the check see when there are too many?"""

import itertools

import numpy as np
import pytest
from scipy.special import expit

from bayesrank.diagnostics import transitivity


def brute(pairs, tied, n):
    """Count triads and circles one by one."""
    margin = np.zeros((n, n))
    for (winner, loser), equal in zip(pairs, tied, strict=True):
        margin[winner, loser] += not equal
        margin[loser, winner] -= not equal
    triads = circles = 0
    for three in itertools.combinations(range(n), 3):
        if all(margin[i, j] for i, j in itertools.combinations(three, 2)):
            triads += 1
            beaten = [sum(margin[i, j] > 0 for j in three if j != i) for i in three]
            circles += beaten == [1, 1, 1]
    return triads, circles


@pytest.mark.parametrize("seed", range(6))
def test_circles_by_enumeration(seed):
    rng = np.random.default_rng(seed)
    n = 9
    pairs = np.array([rng.choice(n, 2, replace=False) for _ in range(90)])
    tied = rng.random(90) < 0.2
    found = transitivity(pairs, np.zeros((5, n)), expit, tied=tied, num_replicates=5)
    assert (found.num_triads, found.num_circles) == brute(pairs, tied, n)
    weights = rng.integers(1, 4, 90)
    again = transitivity(pairs, np.zeros((5, n)), expit, tied=tied, weights=weights)
    repeated = np.repeat(np.arange(90), weights)
    assert (again.num_triads, again.num_circles) == brute(pairs[repeated], tied[repeated], n)


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
    assert (few.num_triads, few.num_circles) == brute(pairs, np.zeros(300), 6)
