"""Scales of a log's priors averaged over, and what `Ranker` predicts from either posterior."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from bayesrank.datasets import ComparisonData
from bayesrank.estimators import Ranker
from bayesrank.infer import EPResult
from bayesrank.solvers.comparisons import ArenaFit, fit_arena, settles_scales
from bayesrank.solvers.comparisons.terms import arguments_of

ITEMS = ("a", "b", "c", "d", "e")


def league(seed, size, judges=0):
    """Games at home, some tied, as `Ranker.fit` takes them."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 5, size)
    second = (first + rng.integers(1, 5, size)) % 5
    judge = rng.integers(0, max(judges, 1), size)
    seen = np.where(judge == 0, 2.0, 0.5)
    margin = seen * 0.6 * (second - first) + 0.5 + 1.4 * rng.normal(size=size)
    lost = margin < 0
    names = np.array(ITEMS)[np.stack([first, second], 1)]
    given = {"ties": np.abs(margin) < 0.5, "position": np.where(lost, -1, 1)}
    if judges:
        given["judge"] = [f"j{j}" for j in judge]
    return np.where(lost[:, None], names[:, ::-1], names), given


@pytest.fixture(scope="module")
def averaged():
    games, given = league(0, 40)
    return Ranker(hyperparameters="integrate").fit(games, **given)


def test_averaging_widens_intervals_of_few_games(averaged):
    games, given = league(0, 40)
    known = Ranker(hyperparameters="map").fit(games, **given)
    assert isinstance(averaged.result, EPResult) and isinstance(known.result, ArenaFit)
    assert (averaged.hyperparameters_, known.hyperparameters_) == ("integrate", "map")
    wide, narrow = (
        np.subtract(s.skill_upper, s.skill_lower) for s in (averaged.rank(), known.rank())
    )
    assert (wide > narrow).mean() > 0.7
    assert {"scale", "tie_width"} == averaged.params_.keys()
    effect, ties = averaged.effects()
    assert effect.lower < effect.mean < effect.upper and 0 < ties.percent_lower < ties.percent


@pytest.mark.parametrize(("size", "settled"), [(40, False), (1500, True)])
def test_the_data_say_whether_their_scales_are_averaged_over(size, settled):
    """By the moments of the mixture of three points, where the rule looks at two."""
    games, given = league(4, size)
    place = {name: number for number, name in enumerate(ITEMS)}
    pairs = np.vectorize(place.get)(games)
    data = ComparisonData(tuple(ITEMS), pairs, given["ties"], position=given["position"])
    data = data.distinct()

    def fitted(**scales):
        return fit_arena(5, data.comparisons, **scales, **arguments_of(data))

    fit = fitted()
    assert [settles_scales(data, fit, {}) for _ in range(2)] == [settled] * 2
    assert settles_scales(data, fit, fit.scales)  # nothing is left to average over
    # Of five latents, 2 * 5 + 1 is the curvature in the logarithm of the scale, at most.
    step = np.exp(np.sqrt(3.0 / (2 * 5 + 1)))
    scales = [fit.scales["scale"] * factor for factor in (1 / step, 1.0, step)]
    means, variances = [], []
    for scale in scales:
        at = fitted(scales={**fit.scales, "scale": scale})
        contrast = np.eye(5) - 0.2
        means.append(contrast @ at.mean[:5])
        variances.append(np.diagonal(contrast @ at.covariance[:5, :5] @ contrast))
    weights = np.array([1, 4, 1]) / 6
    mean = weights @ np.array(means)
    sd = np.sqrt(weights @ (np.array(variances) + (np.array(means) - mean) ** 2))
    known = np.sqrt(variances[1])
    worst = max((np.abs(mean - means[1]) / known).max() / 0.1, (sd / known - 1).max() / 0.03)
    assert worst < 1.0 if settled else worst > 1.0


@pytest.mark.slow
def test_skills_of_a_log_that_settles_its_scales_are_as_if_averaged(monkeypatch):
    games, given = league(4, 1500)
    chosen = Ranker(num_samples=8000).fit(games, **given)
    monkeypatch.setattr("bayesrank.estimators.skills.settles_scales", lambda *args: False)
    averaged = Ranker(num_samples=8000).fit(games, **given)
    assert (chosen.hyperparameters_, averaged.hyperparameters_) == ("map", "integrate")
    draws = [each.samples() for each in (chosen, averaged)]
    (mean, sd), (other, other_sd) = (
        (x.mean(0), x.std(0)) for x in (each - each.mean(1, keepdims=True) for each in draws)
    )
    np.testing.assert_allclose((mean - other) / other_sd, 0.0, atol=0.15)
    np.testing.assert_allclose(sd / other_sd, 1.0, atol=0.06)  # Monte Carlo: .008 each


def assert_averaged(ranker, pair, margin, width, **asked):
    """Probabilities of outcomes are averages over draws of the margin and of the width of ties."""
    wins = stats.norm.cdf((margin - width) / np.sqrt(2))
    losses = stats.norm.cdf((-margin - width) / np.sqrt(2))
    for outcome, expected in {"win": wins, "loss": losses, "tie": 1 - wins - losses}.items():
        found = ranker.predict_proba([pair], outcome=outcome, **asked)[0]
        assert abs(found - expected.mean()) < 5 * expected.std() / np.sqrt(len(wins))


@pytest.mark.parametrize("position", [1, 0, -1])
def test_predictions_are_averages_over_the_draws(averaged, position):
    draws = averaged.result.get_samples()
    margin = draws["f"][:, 0] - draws["f"][:, 1] + position * draws["position_effect"]
    assert_averaged(averaged, ("a", "b"), margin, draws["tie_width"], position=position)


@pytest.mark.parametrize("judge", [None, "j0", "j1"])
def test_predictions_before_a_judge_are_averages_over_its_joint_draws(judge):
    games, given = league(1, 60, judges=2)
    ranker = Ranker().fit(games, **given)
    fit: Any = ranker.result
    assert ranker.hyperparameters_ == "map" and isinstance(fit, ArenaFit)
    # Skills, position, log tie width; then the judge's bias and log reliability.
    mean, covariance = np.zeros(9), np.zeros((9, 9))
    mean[:7], covariance[:7, :7] = fit.mean, fit.covariance
    if judge is not None:
        j = ranker.judge_names_.index(judge)
        mean[7:], covariance[7:, 7:] = fit.own_mean[j], fit.own_covariance[j]
        assert fit.across is not None
        cross = fit.across[j]
        covariance[7:, :7], covariance[:7, 7:] = cross, cross.T
    rng = np.random.default_rng(0)
    x = rng.multivariate_normal(mean, covariance, 200_000)
    margin = np.exp(x[:, 8]) * (x[:, 0] - x[:, 3]) + x[:, 5] + x[:, 7]
    assert_averaged(ranker, ("a", "d"), margin, np.exp(x[:, 6]), position=1, judge=judge)


@pytest.mark.slow
def test_skills_in_categories_are_averaged_too():
    games, given = league(2, 60)
    category = np.where(np.arange(60) % 3 == 0, "code", "maths")
    ranker = Ranker().fit(games, category=category, **given)
    assert ranker.hyperparameters_ == "integrate"
    draws = ranker.samples("code")
    mean, sd = ranker.predict(category="code")
    np.testing.assert_allclose(draws.mean(0), mean, atol=5 * sd.max() / np.sqrt(len(draws)))
    np.testing.assert_allclose(draws.std(0), sd, rtol=0.15)
    assert not np.allclose(ranker.predict(category="maths")[0], mean)


def test_scales_that_are_given_stand(averaged):
    games, given = league(3, 60, judges=2)
    chosen = {"scale": 0.7, "tie_width": 0.4}
    ranker = Ranker(hyperparameters=chosen).fit(games, **given)
    assert ranker.params_["scale"] == 0.7 and ranker.params_["tie_width"] == 0.4
    assert ranker.hyperparameters_ == "map"
    ties = ranker.effects()[1]
    assert ties.lower == ties.upper == pytest.approx(0.4)
    prior = Ranker(hyperparameters="prior").fit(games, **given)
    assert prior.hyperparameters_ == "prior" and prior.params_["scale"] == 1.0
    assert prior.to_arviz()["posterior"]["tie_width"].std() == 0.0
    with pytest.raises(ValueError, match="hyperparameters names 'amplitude'"):
        Ranker(hyperparameters={"amplitude": 1.0}).fit(games, **given)


def test_a_scale_given_at_its_mode_changes_nothing():
    pairs = np.array([(0, 1), (1, 2), (0, 2), (2, 0), (0, 1), (2, 1)])
    judges = {"judges": [0, 1, 0, 1, 1, 0], "num_judges": 2}
    free = fit_arena(3, pairs, tolerance=1e-3, **judges)
    held = fit_arena(3, pairs, scales=free.scales, tolerance=1e-3, **judges)
    skills = [fit.mean - fit.mean.mean() for fit in (held, free)]
    np.testing.assert_allclose(*skills, atol=0.02)
