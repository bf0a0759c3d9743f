"""Logs of comparisons: the program by three engines, the solver against EP, and what is learned."""

from typing import Any

import jax
import numpy as np
import pandas as pd
import pytest
from numpyro import handlers
from refusals import refused
from scipy import stats

from bayesrank.estimators import Ranker
from bayesrank.infer import EP
from bayesrank.models.comparisons import SCALES, judged_comparisons
from bayesrank.solvers.comparisons import arena_data, fit_arena
from bayesrank.solvers.comparisons.judges_state import initial_arena_state


def simulate(seed, n, judges, categories, size, *, careless=0):
    """Draw a log from the program, and what is true of it; the last judges answer at random."""
    rng = np.random.default_rng(seed)
    true = {
        "f": rng.normal(0, 1.0, n),
        "category": rng.normal(0, 0.3, (categories, n)),
        "reliability": np.exp(rng.normal(0, 0.3, judges)),
        "bias": rng.normal(0, 0.3, judges),
        "position": rng.normal(0, 0.3),
        "width": 0.4,
    }
    true["reliability"][judges - careless :] = 0.0
    first = rng.integers(0, n, size)
    second = (first + rng.integers(1, n, size)) % n
    judge, category = rng.integers(0, judges, size), rng.integers(0, categories, size)
    skill = true["f"] + true["category"]
    margin = true["reliability"][judge] * (skill[category, first] - skill[category, second])
    margin += true["position"] + true["bias"][judge] + np.sqrt(2) * rng.normal(size=size)
    outcome = np.where(margin > true["width"], 2, np.where(margin < -true["width"], 0, 1))
    log = {
        "outcomes": outcome,
        "position": np.ones(size),
        "judges": judge,
        "categories": category,
        "num_judges": judges,
        "num_categories": categories,
    }
    return true, np.stack([first, second], 1), log


def as_params(fit):
    """The solver's scales and reliabilities as the program's hyperparameters."""
    params = dict(fit.scales)
    if len(fit.log_reliability):
        params["reliability"] = np.exp(fit.log_reliability)
    return params


PARTS = {
    "skills": (),
    "position": ("position",),
    "ties": ("outcomes",),
    "categories": ("categories", "num_categories"),
    "judges": ("judges", "num_judges"),
    "all": ("outcomes", "position", "judges", "categories", "num_judges", "num_categories"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PARTS)
def test_the_solver_has_the_means_and_variances_of_ep(name):
    _, pairs, log = simulate(1, 5, 3, 2, 120)
    log = {part: log[part] for part in PARTS[name]}
    log["weights"] = np.tile([1.0, 2.0, 0.5], 40)
    fit = fit_arena(arena_data(5, pairs, **log), tolerance=1e-3)
    with jax.enable_x64(True):
        result = EP(judged_comparisons).run(
            jax.random.key(0), 5, pairs, params=as_params(fit), **log
        )
    np.testing.assert_allclose(fit.mean[:5], result.mean["f"], atol=2e-3)
    contrast = np.eye(5) - 0.2
    own = np.diagonal(contrast @ fit.covariance[:5, :5] @ contrast)
    by_ep = np.diagonal(contrast @ result.covariance["f"] @ contrast)
    if name in ("skills", "position", "categories"):  # nothing but Gaussian latents
        np.testing.assert_allclose(own, by_ep, rtol=2e-3)
    else:  # reliabilities and the tie width are uncertain, too
        assert (own > 0.999 * by_ep).all() and (own < 1.6 * by_ep).all()
    if "position" in log:
        np.testing.assert_allclose(fit.position[0], result.mean["position_effect"], atol=2e-3)
    if "categories" in log:
        own = fit.mean[len(fit.skills()[0]) :][: result.mean["category_skill"].size]
        np.testing.assert_allclose(own, result.mean["category_skill"].ravel(), atol=2e-3)
    if "judges" in log and "position" in log:
        np.testing.assert_allclose(fit.bias, result.mean["bias"], atol=2e-3)


def test_a_small_log_has_the_means_and_variances_of_ep():
    said = [(0, 1), (1, 2), (0, 2)] * 4, [(0, 1), (2, 1), (0, 2), (1, 0), (1, 2), (2, 0)] * 2
    pairs, judges = np.concatenate(said), np.repeat([0, 1], 12)  # the second wavers
    log = {"position": np.tile([1, -1, 0, 1], 6), "judges": judges}
    ranker = Ranker(hyperparameters="prior", items=range(3))
    ranker.fit(pairs, position=log["position"], judge=judges)
    fit: Any = ranker.result_
    assert fit.log_reliability[0] > fit.log_reliability[1] + 0.1
    result = EP(judged_comparisons).run(
        jax.random.key(0), 3, pairs, params=as_params(fit), num_samples=1, num_judges=2, **log
    )
    mean, sd = ranker.predict()
    np.testing.assert_allclose(mean, result.mean["f"], atol=0.01)
    np.testing.assert_allclose(fit.bias, result.mean["bias"], atol=0.01)
    np.testing.assert_allclose(fit.position[0], result.mean["position_effect"], atol=0.01)
    # Reliabilities are uncertain to the solver, and given to EP.
    assert (sd > 0.999 * result.sd["f"]).all() and (sd < 1.1 * result.sd["f"]).all()


@pytest.mark.slow
def test_reliabilities_and_tie_width_are_at_the_mode_of_ep_s_evidence():
    _, pairs, log = simulate(2, 5, 3, 2, 300)
    fit = fit_arena(arena_data(5, pairs, **log), tolerance=1e-3)
    spread = fit.scales["reliability_scale"]

    def objective(log_reliability, log_width):
        params = {
            **as_params(fit),
            "reliability": np.exp(log_reliability),
            "tie_width": np.exp(log_width),
        }
        with jax.enable_x64(True):
            result = EP(judged_comparisons).run(jax.random.key(0), 5, pairs, params=params, **log)
        prior = SCALES["tie_width"]
        width = stats.norm.logpdf(log_width, np.log(prior.median), prior.sd)
        return result.log_evidence + stats.norm.logpdf(log_reliability, 0, spread).sum() + width

    start, width = fit.log_reliability, np.log(fit.scales["tie_width"])
    at_mode = objective(start, width)
    steps = [np.array([1.0, -1.0, 0.0]), np.array([0.0, 1.0, -1.0])]
    for step, wide in [*((s, 0.0) for s in steps), (np.zeros(3), 1.0)]:
        up, down = (objective(start + e * step, width + e * wide) for e in (0.1, -0.1))
        # The parabola through the three points has its top within a hundredth of the fit.
        assert abs(0.05 * (up - down) / (2 * at_mode - up - down)) < 0.01


def test_rows_that_count_twice_are_two_rows():
    _, pairs, log = simulate(4, 4, 2, 2, 50)
    twice: dict = {k: v if np.isscalar(v) else np.tile(v, 2) for k, v in log.items()}
    one = arena_data(4, np.tile(pairs, (2, 1)), **twice)
    other = arena_data(4, pairs, weights=np.full(50, 2.0), **log)
    assert one.counts.sum() == 100.0 and len(one.first) <= 50
    for mine, theirs in zip(one, other, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.slow
def test_intervals_hold_what_is_true_and_effects_are_recovered():
    inside = {"skill": [], "category": [], "reliability": [], "bias": [], "effects": []}
    for seed in range(30):
        true, pairs, log = simulate(seed + 100, 10, 15, 3, 1500)
        fit = fit_arena(arena_data(10, pairs, **log))
        n, tail = 10, 1.645
        centre = np.eye(n) - 1.0 / n
        sd = np.sqrt(np.diagonal(centre @ fit.covariance[:n, :n] @ centre))
        inside["skill"] += (np.abs(centre @ (fit.mean[:n] - true["f"])) < tail * sd).tolist()
        skills, within = zip(*map(fit.skills, np.eye(fit.num_categories)), strict=True)
        wrong = (np.array(skills) - true["f"] - true["category"]) @ centre
        sd = np.sqrt([np.diagonal(centre @ c @ centre) for c in within])
        inside["category"] += (np.abs(wrong) < tail * sd).ravel().tolist()
        off = fit.log_reliability - np.log(true["reliability"])
        sd = np.sqrt(fit.log_reliability_variance)
        inside["reliability"] += (np.abs(off) < tail * sd).tolist()
        inside["bias"] += (
            np.abs(fit.bias - true["bias"]) < tail * np.sqrt(fit.bias_variance)
        ).tolist()
        effects = [(fit.position, true["position"]), (fit.log_tie_width, np.log(true["width"]))]
        inside["effects"] += [abs(mean - at) < tail * sd for (mean, sd), at in effects]
    shares = {name: np.mean(values) for name, values in inside.items()}
    # 30 logs: the share of one log varies by some 0.1 around the mean of all.
    assert all(0.84 < share < 0.96 for share in shares.values()), shares


def as_table(true, pairs, log):
    """The log with names, the winner first."""
    names = np.array([f"m{i}" for i in range(len(true["f"]))])
    lost = log["outcomes"] == 0
    sides = np.where(lost[:, None], pairs[:, ::-1], pairs)
    return pd.DataFrame(
        {
            "winner": names[sides[:, 0]],
            "loser": names[sides[:, 1]],
            "tie": log["outcomes"] == 1,
            "position": np.where(lost, -1, 1),
            "judge": [f"j{j}" for j in log["judges"]],
            "category": [f"g{g}" for g in log["categories"]],
        }
    )


def test_a_judge_who_answers_at_random_gets_low_reliability_and_counts_less():
    true, pairs, log = simulate(5, 8, 12, 1, 6000, careless=2)
    judges = Ranker().fit(as_table(true, pairs, log)).judges()
    assert set(judges.index[:2]) == {"j10", "j11"}
    middle, lower, upper = (
        judges[f"reliability{end}"].to_numpy() for end in ("", "_lower", "_upper")
    )
    assert (middle[:2] < 0.4).all() and upper[:2].max() < lower[2:].min()


@pytest.fixture(scope="module")
def fitted():
    true, pairs, log = simulate(6, 6, 4, 2, 1200)
    return true, Ranker().fit(as_table(true, pairs, log))


def test_the_ranker_by_names(fitted):
    true, ranker = fitted
    summary = ranker.rank()
    assert summary.names[0] == f"m{np.argmax(true['f'])}"
    by_outcome = [ranker.predict_proba([("m0", "m1")], outcome=o) for o in ("win", "tie", "loss")]
    np.testing.assert_allclose(sum(by_outcome), 1.0)
    first, second = (ranker.predict_proba([("m0", "m1")], position=p)[0] for p in (1, -1))
    assert (first > second) == (ranker.effects()[0].mean > 0)
    turned = ranker.predict_proba([("m1", "m0")], position=-1, outcome="loss")[0]
    np.testing.assert_allclose(turned, first)
    overall, inside = ranker.predict(["m2"])[0], ranker.predict(["m2"], category="g1")[0]
    assert overall != inside
    assert ranker.rank(category="g0").names != []


def test_effects_in_a_hundred_comparisons(fitted):
    _, ranker = fitted
    position, ties = ranker.effects()
    width = ranker.params_["tie_width"]
    win, loss = (stats.norm.cdf((x - width) / np.sqrt(2)) for x in (position.mean, -position.mean))
    np.testing.assert_allclose(position.percent, 100 * win / (win + loss))
    np.testing.assert_allclose(ties.percent, 100 * (1 - 2 * stats.norm.cdf(-width / np.sqrt(2))))
    sentence = ranker.notes()[0]
    assert sentence.startswith(
        f"Being shown first wins {position.percent:.0f}% of comparisons between equal items (90% "
    )


def test_a_tie_width_that_was_given_has_no_interval():
    games = {"winner": ["x", "y"], "loser": ["y", "x"], "tie": [1, 0]}
    ranker = Ranker(hyperparameters="prior").fit(pd.DataFrame(games))
    assert ranker.notes() == ("Equal items tie in 28% of comparisons (taken as known).",)


@pytest.mark.slow
def test_without_any_part_it_is_a_ranking_of_skills():
    games = [("a", "b"), ("b", "c"), ("a", "c"), ("a", "b")]
    ranker = Ranker(hyperparameters="map").fit(games)
    assert ranker.rank().names == ["a", "b", "c"]
    assert ranker.effects() == [] and ranker.notes() == ()
    assert len(ranker.judges()) == 0
    refused("category is 'maths', but fit was given no column", ranker.rank, category="maths")
    for told in (ranker.effects, ranker.judges, ranker.notes):
        refused("level is 95; pass a number above 0", told, 95)
    with pytest.raises(ValueError, match="judge is 'Eve', but fit was given no column"):
        ranker.predict_proba([("a", "b")], judge="Eve")
    with pytest.raises(ValueError, match="position is 1, but fit was given no positions"):
        ranker.predict_proba([("a", "b")], position=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"position": [1, 2]}, "position is 2 in row 1; pass 1, 0 or -1"),
        ({"position": ["first", "second"]}, "position has shape .* and dtype <U6; pass"),
        ({"judge": ["x"]}, "judge has shape"),
        ({"category": ["x", None]}, "category is missing in some rows"),
    ],
)
def test_bad_covariates_are_refused(options, message):
    refused(message, Ranker().fit, [("a", "b"), ("b", "a")], **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"judges": [0, 1]}, "num_judges is not given"),
        ({"judges": [0, 5], "num_judges": 2}, "judges is 5 in row 1; pass numbers from 0 to 1"),
        ({"categories": [0.0, 1.0], "num_categories": 2}, "categories has shape"),
        ({"position": [1, 3]}, "position is 3 in row 1; pass 1, 0 or -1"),
        ({"position": [1]}, "position has shape"),
    ],
)
def test_the_program_refuses_what_does_not_fit(options, message):
    refused(message, handlers.seed(judged_comparisons, 0), 2, [(0, 1), (1, 0)], **options)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"comparisons": [(0, 2)]}, "comparisons names item 2 in row 0, but the 2 items"),
        ({"comparisons": [(0.0, 1.7)]}, "comparisons has shape .* and dtype float64"),
        ({"outcomes": [0.5]}, "outcomes has shape .* and dtype float64"),
        ({"position": [3]}, "position is 3 in row 0"),
        ({"weights": [np.nan]}, "weights is nan in row 0"),
        ({"judges": [2], "num_judges": 2}, "judges is 2 in row 0; pass numbers from 0 to 1"),
    ],
)
def test_a_log_is_not_counted_if_its_numbers_cannot_be(change, message):
    refused(message, arena_data, 2, **{"comparisons": [(0, 1)]} | change)


def test_scales_that_the_model_of_a_log_has_not_are_not_held_fixed():
    with pytest.raises(ValueError, match="scales names 'tie_width'; there are"):
        fit_arena(arena_data(2, [(0, 1)]), scales={"tie_width": 1.0})


def test_judges_and_categories_are_counted_where_nobody_says_how_many():
    data = arena_data(2, [(0, 1), (1, 0)], judges=[0, 2], categories=[1, 0])
    assert (data.num_judges, data.num_categories) == (3, 2)


def test_standard_deviations_of_a_ranking_are_free_of_the_chance_of_draws():
    """From the average of each component, by the covariance of the posterior."""
    games = [("a", "b"), ("b", "c"), ("a", "c"), ("c", "a"), ("x", "y")]
    one, other = (
        Ranker(hyperparameters="map", num_samples=50, random_state=seed).fit(games).rank()
        for seed in (0, 1)
    )
    fitted: Any = Ranker(hyperparameters="map").fit(games)
    covariance, names = fitted.posterior_.mixture().covariance(), list(fitted.names_)
    for group in ("abc", "xy"):
        at = [names.index(name) for name in group]
        centre = np.eye(len(at)) - 1.0 / len(at)
        sd = np.sqrt(np.diagonal(centre @ covariance[np.ix_(at, at)] @ centre))
        for found in (one, other):
            shown = [found.sd[found.names.index(name)] for name in group]
            np.testing.assert_allclose(shown, sd, rtol=1e-9)


@pytest.mark.parametrize("positions", [(0, 1), (-1, 0, 1), (-1.0, 0.5, 2.0)])
def test_the_precision_of_latents_is_that_of_the_rows_whatever_the_positions(positions):
    rng = np.random.default_rng(0)
    pairs = np.array([rng.choice(4, 2, replace=False) for _ in range(30)])
    data = arena_data(4, pairs, position=np.ones(30))
    data = data._replace(position=rng.choice(positions, len(data.first)))
    state = initial_arena_state(data, {})
    state.precision = rng.uniform(0.1, 1.0, len(data.first))
    rows = np.zeros((len(data.first), 5))
    rows[np.arange(len(rows)), data.first], rows[np.arange(len(rows)), data.second] = 1.0, -1.0
    rows[:, 4] = data.position
    expected = rows.T @ ((data.counts * state.precision)[:, None] * rows) + np.diag(state.prior())
    np.testing.assert_allclose(state.shared_precision(), expected)
