"""EP on the answers of a loop: the same by other spaces, other starts, and quadrature."""

import numpy as np
import pytest
from compilations import compilations
from scipy.special import log_ndtr, ndtri, roots_hermitenorm

from bayesrank.active.settle import Answers, SkillPrior, settle


def problem(n, count, noise=1.0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    squared = ((X[:, None] - X[None]) ** 2).sum(-1)
    prior = SkillPrior(np.zeros(n), 2.0 * np.exp(-0.5 * squared) + 1e-6 * np.eye(n))
    skill = X[:, 0] + np.sin(2 * X[:, 1])
    first = rng.integers(n, size=count)
    second = (first + rng.integers(1, n, size=count)) % n
    wins = skill[first] + noise * rng.normal(size=count) > skill[second]
    pairs = np.where(wins[:, None], np.c_[first, second], np.c_[second, first])
    return prior, Answers(pairs, np.full(count, noise))


def doubled(prior):
    """The same skills twice over, so that there are more items than comparisons."""
    return SkillPrior(np.tile(prior.mean, 4), np.tile(prior.covariance, (4, 4)))


@pytest.mark.parametrize("noise", [1.0, 0.05])
def test_margin_space_and_item_space_agree(noise):
    prior, answers = problem(10, 30, noise)
    by_items, by_margins = settle(prior, answers), settle(doubled(prior), answers)
    assert by_items.converged and by_margins.converged
    np.testing.assert_allclose(by_margins.mean[:10], by_items.mean, atol=1e-6)
    np.testing.assert_allclose(by_margins.covariance[:10, :10], by_items.covariance, atol=1e-6)
    np.testing.assert_allclose(by_margins.tau, by_items.tau, rtol=1e-5)
    assert by_margins.log_evidence == pytest.approx(by_items.log_evidence, abs=1e-6)


@pytest.mark.parametrize("count", [24, 60, 200])  # fewer than the items, more, many more
def test_from_what_was_known_before_the_last_answer(count):
    prior, answers = problem(40, count)
    before = settle(prior, Answers(answers.comparisons[:-1], answers.noise[:-1]))
    cold, sites = settle(prior, answers), (np.append(before.tau, 0.0), np.append(before.nu, 0.0))
    for warm in (settle(prior, answers, before), settle(prior, answers, sites)):
        np.testing.assert_allclose(warm.mean, cold.mean, atol=1e-6)
        np.testing.assert_allclose(warm.covariance, cold.covariance, atol=1e-6)
        np.testing.assert_allclose(warm.tau, cold.tau, rtol=1e-5, atol=1e-8)
        assert warm.log_evidence == pytest.approx(cold.log_evidence, abs=1e-6)
        assert warm.num_sweeps <= 10  # what an answer costs does not grow with the answers
        assert warm.num_sweeps < cold.num_sweeps


def test_one_answer_is_exact():
    prior, answers = problem(5, 1, noise=0.7)
    (i, j), mean = answers.comparisons[0], np.array([0.3, -0.2, 0.9, 0.0, 0.4])
    fit = settle(prior._replace(mean=mean), answers)
    node, weight = roots_hermitenorm(200)
    direction = prior.covariance[:, i] - prior.covariance[:, j]
    variance = direction[i] - direction[j]
    margin = mean[i] - mean[j] + np.sqrt(variance) * node
    likelihood = weight * np.exp(log_ndtr(margin / (np.sqrt(2) * 0.7)))
    mass = likelihood.sum()
    moved = (likelihood @ margin / mass - (mean[i] - mean[j])) / variance
    spread = likelihood @ margin**2 / mass - (likelihood @ margin / mass) ** 2
    np.testing.assert_allclose(fit.mean, mean + moved * direction, atol=1e-8)
    shrunk = prior.covariance - np.outer(direction, direction) * (variance - spread) / variance**2
    np.testing.assert_allclose(fit.covariance, shrunk, atol=1e-8)
    assert fit.log_evidence == pytest.approx(np.log(mass / np.sqrt(2 * np.pi)), abs=1e-8)


def test_no_answer_leaves_the_prior():
    prior, _ = problem(6, 1)
    fit = settle(prior, Answers(np.zeros((0, 2), np.intp), np.zeros(0)))
    np.testing.assert_array_equal(fit.covariance, prior.covariance)
    assert fit.converged and fit.log_evidence == 0.0


def test_an_answer_against_all_odds_stays_finite():
    prior = SkillPrior(np.array([40.0, -40.0]), np.eye(2))
    fit = settle(prior, Answers(np.array([[1, 0]]), np.array([0.5])))
    # The far tail of a normal: the likelihood is a Gaussian of the noise's variance, but for a
    # share that falls with the square of the distance.
    variance, total = 2.0, 2 * 0.5**2 + 2.0
    moved = fit.mean[1] - fit.mean[0] + 80.0
    assert moved == pytest.approx(80.0 * variance / total, rel=1e-2)
    assert fit.log_evidence == pytest.approx(log_ndtr(-80.0 / np.sqrt(total)), rel=1e-10)


def test_too_few_sweeps_are_reported():
    fit = settle(*problem(10, 8), max_sweeps=1)
    assert not fit.converged and fit.max_change > 1e-4


def test_contradictions_almost_without_noise():
    prior, _ = problem(4, 1)
    pairs = np.array([(0, 1), (1, 0), (2, 3), (0, 1)] * 5)
    wide = prior._replace(covariance=1e4 * prior.covariance)
    fit = settle(wide, Answers(pairs, np.full(20, 0.01)))
    assert fit.converged
    # The two contradict each other by two to one: the margin is where a probit is two thirds.
    assert fit.mean[0] - fit.mean[1] == pytest.approx(ndtri(2 / 3) * np.sqrt(2) * 0.01, rel=0.05)


def test_sites_compile_anew_only_where_the_answers_double():
    prior, answers = problem(5, 1040)
    fits = {}
    for count in (1015, 1024, 1025, 1040):
        known = Answers(answers.comparisons[:count], answers.noise[:count])
        with compilations() as compiled:
            fits[count] = settle(prior, known)
        assert fits[count].converged and (count in (1015, 1025) or not compiled)
