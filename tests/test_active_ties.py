"""Two items that are about equal: the posterior, the scores of questions, and the journal."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ndtr, xlogy

from bayesrank.active import (
    Beliefs,
    QueryLoop,
    anticipate,
    bald,
    best_pairs,
    entropy_gain,
    pool_variance,
    read_journal,
)

WIDTH, NOISE = 0.7, 0.8
PAIR = np.array([0, 1])


@pytest.mark.slow
def test_ties_are_kept_and_undone(tmp_path):
    path = tmp_path / "a.jsonl"
    with QueryLoop(4, journal=path, hyperparameters="prior") as loop:
        loop.tell(0, 1)
        assert "tie_width" not in loop.params and loop.beliefs.tie_width is None
        before = loop.result.mean["f"]
        loop.tell(1, 2, tie=True, judge="Ann")
        assert loop.answers[1] == (1, 2, "Ann", True, None)
        assert loop.comparisons.tolist() == [[0, 1]] and loop.ties.tolist() == [[1, 2]]
        assert loop.params["tie_width"] == pytest.approx(0.5)
        mean = loop.result.mean["f"]
        assert abs(mean[1] - mean[2]) < abs(before[1] - before[2])
        question = loop.ask()[0]
        assert 0 < question.tie_probability < 1 - question.win_probability
        assert {1, 2} not in [set(q[:2]) for q in loop.ask(6, judge="Ann")]
    with QueryLoop(4, journal=path, hyperparameters="prior") as loop:
        np.testing.assert_allclose(loop.result.mean["f"], mean)
        assert loop.undo() == (1, 2, "Ann", True, None)
        np.testing.assert_allclose(loop.result.mean["f"], before, atol=1e-6)
        assert loop.ask()[0].tie_probability == 0
    assert read_journal(path).header["version"] == 2


@pytest.mark.slow
def test_the_width_of_ties_is_learned_and_can_be_given():
    loop = QueryLoop(5, refit_after=100)
    for first, second in ((0, 1), (1, 2), (2, 3), (3, 4)):
        loop.tell(first, second)
    assert set(loop.learn()) == {"scale"}
    for first in range(5):
        for second in range(first):
            loop.tell(first, second, tie=True)
    few = loop.params["tie_width"]  # the scale that was learned goes on until both are learned
    assert few == pytest.approx(0.5) and set(loop.params) == {"scale", "tie_width"}
    assert loop.learn()["tie_width"] > few
    fixed = QueryLoop(5, hyperparameters={"tie_width": 0.2, "scale": 1.0})
    assert set(fixed.params) == {"scale"}
    fixed.tell(0, 1, tie=True)
    assert fixed.params["tie_width"] == 0.2


# ---------------------------------------------------------------- scores


def of_margin(mean, variance):
    return Beliefs(
        jnp.array([mean, 0.0]), jnp.diag(jnp.array([variance, 0.0])), NOISE, tie_width=WIDTH
    )


def entropy(margin, spread=0.0):
    scale = np.sqrt(2 * NOISE**2 + spread)
    first, second = ndtr((margin - WIDTH) / scale), ndtr((-margin - WIDTH) / scale)
    probabilities = np.array([second, np.maximum(1 - first - second, 0.0), first])
    return -xlogy(probabilities, probabilities).sum(axis=0)


@pytest.mark.parametrize("mean", [0.0, 0.9, -3.0])
@pytest.mark.parametrize(("variance", "error"), [(0.01, 1e-9), (4.0, 1e-5), (20.0, 1e-3)])
def test_bald_with_ties_is_the_mutual_information(mean, variance, error):
    sd = np.sqrt(variance)
    z = np.linspace(-9, 9, 20_001)
    given = np.average(entropy(mean + sd * z), weights=np.exp(-0.5 * z**2))
    expected = entropy(mean, variance) - given
    assert float(jax.jit(bald)(of_margin(mean, variance), PAIR)) == pytest.approx(
        expected, abs=error
    )


@pytest.mark.parametrize(("mean", "variance"), [(0.0, 1.0), (1.2, 0.5), (-2.0, 4.0)])
def test_what_an_answer_with_ties_leaves_on_average(mean, variance):
    """Moments of the margin after each of three answers, by quadrature."""
    sd, gain, left = np.sqrt(variance), 0.0, 0.0
    edges = {0: (-np.inf, -WIDTH), 1: (-WIDTH, WIDTH), 2: (WIDTH, np.inf)}
    grid = mean + sd * np.linspace(-10, 10, 40_001)
    prior = np.exp(-0.5 * ((grid - mean) / sd) ** 2)
    for low, high in edges.values():
        scale = np.sqrt(2) * NOISE
        weight = prior * (ndtr((high - grid) / scale) - ndtr((low - grid) / scale))
        probability = weight.sum() / prior.sum()
        after = np.average((grid - np.average(grid, weights=weight)) ** 2, weights=weight)
        gain += probability * 0.5 * np.log(variance / after)
        left += probability * after
    beliefs = of_margin(mean, variance)
    assert float(jax.jit(entropy_gain)(beliefs, PAIR)) == pytest.approx(gain, abs=1e-6)
    expected = jax.jit(anticipate)(beliefs, PAIR).covariance
    assert float(expected[0, 0]) == pytest.approx(left, abs=1e-6)


SLOW = [pytest.param(score, marks=pytest.mark.slow) for score in (bald, pool_variance)]


@pytest.mark.parametrize("score", [entropy_gain, *SLOW])
def test_ties_hardly_ever_told_are_no_ties(score):
    rng = np.random.default_rng(0)
    factor = rng.normal(size=(6, 6))
    beliefs = Beliefs(jnp.asarray(rng.normal(size=6)), jnp.asarray(factor @ factor.T), 1.0)
    rare = beliefs._replace(tie_width=1e-7)
    pairs = np.stack(np.triu_indices(6, 1), axis=1)
    several = jax.jit(score)
    np.testing.assert_allclose(several(rare, pairs), several(beliefs, pairs), atol=2e-5)
    found, scores = best_pairs(score, rare, 2)
    assert found.shape == (2, 2) and np.all(np.diff(scores) <= 0)
