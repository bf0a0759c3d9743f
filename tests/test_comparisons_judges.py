"""Logs of comparisons: the program by three engines, the solver against EP, and what is learned."""

from typing import Any

import jax
import numpy as np
import pandas as pd
import pytest
from numpyro import handlers
from numpyro.infer import MCMC, NUTS
from refusals import refused
from scipy import stats

from bayesrank.estimators import Ranker
from bayesrank.infer import EP
from bayesrank.models.comparisons import SCALES, judged_comparisons
from bayesrank.solvers.comparisons import fit_arena
from bayesrank.solvers.comparisons.judged_gaussian import Precisions
from bayesrank.solvers.comparisons.judged_moments import matched, moments, row_cavities
from bayesrank.solvers.comparisons.judged_rows import judged_rows


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


PARTS = {
    "skills": (),
    "position": ("position",),
    "ties": ("outcomes",),
    "categories": ("categories", "num_categories"),
    "all": ("outcomes", "position", "categories", "num_categories"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PARTS)
def test_the_solver_has_the_means_and_variances_of_ep(name):
    _, pairs, log = simulate(1, 5, 3, 2, 120)
    log = {part: log[part] for part in PARTS[name]}
    log["weights"] = np.tile([1.0, 2.0, 0.5], 40)
    scales = fit_arena(5, pairs, **log).scales
    fit = fit_arena(5, pairs, scales=scales, tolerance=1e-4, **log)
    with jax.enable_x64(True):
        result = EP(judged_comparisons).run(jax.random.key(0), 5, pairs, params=scales, **log)
    sites = [site for site in ("f", "category_skill", "position_effect") if site in result.mean]
    mean = np.concatenate([np.ravel(result.mean[site]) for site in sites])
    np.testing.assert_allclose(fit.mean[: mean.size], mean, atol=2e-4)
    variance = np.concatenate([np.ravel(result.sd[site]) for site in sites]) ** 2
    np.testing.assert_allclose(np.diagonal(fit.covariance)[: mean.size], variance, rtol=3e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["skills", "ties", "categories"])
def test_scales_are_at_the_maximum_of_ep_s_evidence(name):
    _, pairs, log = simulate(2, 6, 3, 2, 300)
    log = {part: log[part] for part in PARTS[name]}
    fit = fit_arena(6, pairs, tolerance=1e-3, **log)
    engine = EP(judged_comparisons)

    def objective(logs):
        params = dict(zip(fit.scales, np.exp(logs), strict=True))
        with jax.enable_x64(True):
            result = engine.run(jax.random.key(0), 6, pairs, params=params, **log)
        priors = [SCALES[name] for name in params]
        of_prior = [
            -0.5 * (x - np.log(p.median)) ** 2 / p.sd**2 for x, p in zip(logs, priors, strict=True)
        ]
        return result.log_evidence + sum(of_prior)

    mode = np.log(list(fit.scales.values()))
    at_mode = objective(mode)
    for step in 0.1 * np.eye(mode.size):
        up, down = objective(mode + step), objective(mode - step)
        # What the top of the parabola through the three points has above the fit, in nats.
        assert 0.125 * (up - down) ** 2 / (2 * at_mode - up - down) < 2e-3


def test_moments_against_three_dimensional_quadrature():
    """Of a win and a tie, for a cavity whose three predictors are correlated."""
    mean, root = (
        np.array([0.6, -0.2, 0.1]),
        np.array([[0.7, 0, 0], [0.2, 0.3, 0], [-0.1, 0.1, 0.3]]),
    )
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    grid = np.stack(np.meshgrid(nodes, nodes, nodes, indexing="ij")).reshape(3, -1)
    weight = np.prod(np.meshgrid(weights, weights, weights, indexing="ij"), axis=0).ravel()
    x = mean[:, None] + root @ grid
    margin, width = np.exp(x[2]) * x[0] + x[1], 0.4
    wins, not_losses = (stats.norm.cdf((margin + w) / np.sqrt(2)) for w in (-width, width))
    covariance = root @ root.T
    columns = np.tile(mean[:, None], 2), np.tile(covariance[..., None], 2)
    found = moments(1, *columns, width, 11)
    precision, shift, usable = matched(found, *columns)
    assert usable.all()
    for k, outcome in enumerate((wins, not_losses - wins)):
        z = weight @ outcome / weight.sum()
        tilted = weight * outcome / (weight @ outcome)
        np.testing.assert_allclose(found.z[k], z, rtol=1e-5)
        posterior: Any = np.linalg.inv(np.linalg.inv(covariance) + precision[..., k])
        true = x @ tilted
        centred = x - true[:, None]
        np.testing.assert_allclose(posterior, (tilted * centred) @ centred.T, atol=1e-5)
        pulled = posterior @ (np.linalg.solve(covariance, mean) + shift[:, k])
        np.testing.assert_allclose(pulled, true, atol=1e-5)
        # and back: without its site, the posterior is the cavity
        back, without, proper = row_cavities(
            precision[..., k : k + 1], shift[:, k : k + 1], pulled[:, None], posterior[..., None]
        )
        assert proper.all()
        np.testing.assert_allclose(back[:, 0], mean, atol=1e-8)
        np.testing.assert_allclose(without[..., 0], covariance, atol=1e-8)
    wider, narrower = (moments(1, *columns, width * f, 11).z for f in (1.001, 0.999))
    np.testing.assert_allclose(np.log(wider / narrower) / (0.002 * width), found.width, rtol=1e-5)


def test_the_posterior_of_two_items_and_a_judge_against_a_grid():
    """Only the difference of the items and the judge's log reliability matter.

    One judge of one pair is the hardest case: the two trade off along a bent ridge, of which sites
    see the width and not the bend. Standard deviations are then a fifth too small, means are right.
    """
    pairs = np.array([(0, 1)] * 14 + [(1, 0)] * 6)
    scales = {"scale": 0.8, "reliability_scale": 0.5}
    fit = fit_arena(2, pairs, judges=np.zeros(20, int), num_judges=1, scales=scales)
    d, rho = np.meshgrid(np.linspace(-4, 6, 401), np.linspace(-2.5, 2.5, 301), indexing="ij")
    log = 14 * stats.norm.logcdf(np.exp(rho) * d / np.sqrt(2))
    log += 6 * stats.norm.logcdf(-np.exp(rho) * d / np.sqrt(2))
    log += stats.norm.logpdf(d, 0, 0.8 * np.sqrt(2)) + stats.norm.logpdf(rho, 0, 0.5)
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    contrast = np.array([1.0, -1.0])
    judges = fit.judges
    found = [
        (contrast @ fit.mean, contrast @ fit.covariance @ contrast),
        (judges.log_reliability[0], judges.log_reliability_variance[0]),
    ]
    for (mean, variance), x in zip(found, (d, rho), strict=True):
        true = np.sum(weight * x)
        sd = np.sqrt(np.sum(weight * (x - true) ** 2))
        assert abs(mean - true) < 0.05 * sd and 0.8 < np.sqrt(variance) / sd < 1.05


@pytest.mark.slow
def test_the_posterior_of_a_judged_log_against_nuts():
    _, pairs, log = simulate(30, 6, 20, 1, 250)
    log = {name: log[name] for name in ("outcomes", "position", "judges", "num_judges")}
    fit = fit_arena(6, pairs, scales={"reliability_scale": 0.6}, **log)
    given = {name: value for name, value in fit.scales.items() if name != "tie_width"}
    program = handlers.condition(judged_comparisons, {k: np.asarray(v) for k, v in given.items()})
    chains = MCMC(NUTS(program), num_warmup=500, num_samples=3000, progress_bar=False)
    chains.run(jax.random.key(0), 6, pairs, **log)
    draws = {name: np.asarray(value) for name, value in chains.get_samples().items()}
    centre, judges = np.eye(6) - 1.0 / 6.0, fit.judges
    skills = centre @ fit.mean[:6], np.diagonal(centre @ fit.covariance[:6, :6] @ centre)
    against = [
        (*skills, draws["f"] @ centre),
        (judges.log_reliability, judges.log_reliability_variance, np.log(draws["reliability"])),
        (judges.bias, judges.bias_variance, draws["bias"]),
        (fit.position[0], fit.position[1] ** 2, draws["position_effect"]),
        (fit.mean[-1], fit.covariance[-1, -1], np.log(draws["tie_width"])),
    ]
    # The tie width is at its most likely value; Monte Carlo errors are some .03.
    for (mean, variance, drawn), most in zip(against, (0.1, 0.1, 0.1, 0.1, 0.2), strict=True):
        sd = drawn.std(0)
        assert np.abs((mean - drawn.mean(0)) / sd).max() < most
        np.testing.assert_allclose(np.sqrt(variance) / sd, 1.0, atol=0.12)


def test_intervals_of_many_judges_of_few_votes_hold_their_reliabilities():
    """Each judge says little of itself; all say how far reliabilities spread."""
    inside, spreads = [], []
    for seed in range(2):
        true, pairs, log = simulate(seed, 20, 1500, 1, 7500)
        log = {name: log[name] for name in ("outcomes", "position", "judges", "num_judges")}
        fit = fit_arena(20, pairs, **log)
        judges = fit.judges
        off = judges.log_reliability - np.log(true["reliability"])
        inside += (np.abs(off) < 1.645 * np.sqrt(judges.log_reliability_variance)).tolist()
        spreads.append(fit.scales["reliability_scale"])
        assert fit.converged
    # The spread of a log's judges is known within a sixth, and counts as known.
    assert 0.82 < np.mean(inside) < 0.94 and abs(np.mean(spreads) / 0.3 - 1) < 0.2


def test_rows_that_count_twice_are_two_rows():
    _, pairs, log = simulate(4, 4, 2, 2, 50)
    twice: dict = {k: v if np.isscalar(v) else np.tile(v, 2) for k, v in log.items()}
    one = fit_arena(4, np.tile(pairs, (2, 1)), tolerance=1e-5, **twice)
    other = fit_arena(4, pairs, weights=np.full(50, 2.0), tolerance=1e-5, **log)
    for mine, theirs in zip(one[:2], other[:2], strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-4)


@pytest.mark.slow
def test_intervals_hold_what_is_true_and_effects_are_recovered():
    inside = {"skill": [], "category": [], "reliability": [], "bias": [], "effects": []}
    for seed in range(30):
        true, pairs, log = simulate(seed + 100, 10, 15, 3, 1500)
        fit = fit_arena(10, pairs, **log)
        n, tail = 10, 1.645
        centre = np.eye(n) - 1.0 / n
        sd = np.sqrt(np.diagonal(centre @ fit.covariance[:n, :n] @ centre))
        inside["skill"] += (np.abs(centre @ (fit.mean[:n] - true["f"])) < tail * sd).tolist()
        skills, within = zip(*map(fit.skills, np.eye(fit.num_categories)), strict=True)
        wrong = (np.array(skills) - true["f"] - true["category"]) @ centre
        sd = np.sqrt([np.diagonal(centre @ c @ centre) for c in within])
        inside["category"] += (np.abs(wrong) < tail * sd).ravel().tolist()
        judges = fit.judges
        off = judges.log_reliability - np.log(true["reliability"])
        sd = np.sqrt(judges.log_reliability_variance)
        inside["reliability"] += (np.abs(off) < tail * sd).tolist()
        inside["bias"] += (
            np.abs(judges.bias - true["bias"]) < tail * np.sqrt(judges.bias_variance)
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
def test_a_log_is_refused_if_its_numbers_cannot_be(change, message):
    refused(message, fit_arena, 2, **{"comparisons": [(0, 1)]} | change)


def test_scales_that_the_model_of_a_log_has_not_are_not_held_fixed():
    with pytest.raises(ValueError, match="scales names 'tie_width'; there are"):
        fit_arena(2, [(0, 1)], scales={"tie_width": 1.0})


def test_judges_and_categories_are_counted_where_nobody_says_how_many():
    fit = fit_arena(2, [(0, 1), (1, 0)], judges=[0, 2], categories=[1, 0])
    assert (len(fit.judges.log_reliability), fit.num_categories) == (3, 2)


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


@pytest.mark.parametrize("columns", [(), ("position",), ("judges",), ("position", "judges")])
def test_an_arrow_is_the_gaussian_of_its_rows(columns):
    """By a dense matrix of what each row sees of all latents."""
    rng, n, count, judges = np.random.default_rng(0), 4, 30, 3
    pairs = np.array([rng.choice(n, 2, replace=False) for _ in range(count)])
    said = {"position": rng.choice((-1, 0, 1), count), "judges": rng.integers(judges, size=count)}
    said = {name: said[name] for name in columns}
    categories = rng.integers(2, size=count)
    rows = judged_rows(n, pairs, categories=categories, weights=rng.uniform(1, 2, count), **said)
    # sites that see nothing of a predictor say nothing of it
    half = 0.3 * rng.normal(size=(3, 3, count))
    sites = np.einsum("ijk,ljk->ilk", half, half), rng.normal(size=(3, count))
    size, width = rows.core.shape[0], len(rows.alone)
    prior = rng.uniform(1, 2, size), rng.uniform(1, 2, width)
    arrow = Precisions.of(rows, sites, prior).arrow()
    order = np.argsort(said["judges"], kind="stable") if "judges" in said else np.arange(count)
    at, (first, second) = np.arange(count), pairs[order].T
    seen = np.zeros((3, count, size + judges * width))
    for start in (0, n * (1 + categories[order])):
        seen[0, at, start + first] += 1.0
        seen[0, at, start + second] -= 1.0
    own = size + said["judges"][order] * width if width else None
    if "position" in said:
        seen[1, at, size - 1] = said["position"][order]
    if own is not None and "position" in said:
        seen[1, at, own] = said["position"][order]
    if own is not None:
        seen[2, at, own + width - 1] = 1.0
    weighted = rows.counts * sites[0], rows.counts * sites[1]
    precision = np.einsum("pka,pqk,qkb->ab", seen, weighted[0], seen)
    precision += np.diag(np.concatenate([prior[0], np.tile(prior[1], judges)])[: len(precision)])
    covariance = np.linalg.inv(precision)
    mean = covariance @ np.einsum("pka,pk->a", seen, weighted[1])
    np.testing.assert_allclose(arrow.means(), mean)
    np.testing.assert_allclose(arrow.variances(), np.diagonal(covariance))
    some = slice(5, 17)
    means, covariances = arrow.predictors(rows, some)
    np.testing.assert_allclose(means, (seen @ mean)[:, some], atol=1e-12)
    expected = np.einsum("pka,ab,qkb->pqk", seen, covariance, seen)[..., some]
    np.testing.assert_allclose(covariances, expected, atol=1e-12)


def test_learned_scales_are_uncertain():
    _, pairs, log = simulate(3, 6, 4, 2, 120)
    learned = fit_arena(6, pairs, **log)
    held = fit_arena(6, pairs, scales=learned.scales, **log)
    np.testing.assert_allclose(learned.mean, held.mean, atol=0.02)
    wider = np.diagonal(learned.covariance)[:-1] / np.diagonal(held.covariance)[:-1]
    assert (wider > 0.99).all() and wider[:6].max() > 1.03  # but for the tie width, which is held
    own = learned.judges.log_reliability_variance / held.judges.log_reliability_variance
    assert (own > 1.0).all()


@pytest.mark.slow
def test_the_unit_of_skill_is_as_uncertain_as_by_nuts():
    """All skills and one over all reliabilities may be larger: no comparison tells that."""
    random, n, number = np.random.default_rng(1), 8, 400
    skills, logs = random.normal(size=n), 0.4 * random.normal(size=8)
    pairs = np.array([random.choice(n, 2, replace=False) for _ in range(number)])
    judges = random.integers(0, 8, number)
    margin = np.exp(logs[judges]) * (skills[pairs[:, 0]] - skills[pairs[:, 1]])
    margin += 2**0.5 * random.normal(size=number)
    pairs = np.where(margin[:, None] > 0, pairs, pairs[:, ::-1])
    said = {"judges": judges, "num_judges": 8}
    chains = MCMC(NUTS(judged_comparisons), num_warmup=500, num_samples=2000, progress_bar=False)
    with jax.enable_x64(True):
        chains.run(jax.random.key(0), n, pairs, **said)
        drawn = np.asarray(chains.get_samples()["f"])
    along = drawn.mean(axis=0) - drawn.mean()
    along /= np.linalg.norm(along)
    spread = (drawn @ along).std()
    fit = fit_arena(n, pairs, **said)
    held = fit_arena(n, pairs, scales=fit.scales, **said)
    found, known = (float(np.sqrt(along @ each.skills()[1] @ along)) for each in (fit, held))
    # 0.415 by NUTS; 0.344, and 0.309 at scales that are known.
    assert 0.78 * spread < found < 1.05 * spread and known < 0.78 * spread
