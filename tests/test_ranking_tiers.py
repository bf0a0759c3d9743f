"""Tiers, records and what settles a ranking, against brute force over draws and closed forms."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import norm

from bayesrank.ranking import (
    ItemRecords,
    SkillMixture,
    comparisons_needed,
    connected_components,
    count_records,
    is_provisional,
    prob_best,
    prob_better_than_next,
    summarize,
    tiers,
)


def brute_tiers(samples, prob):
    """Follow the definition item by item and draw by draw."""
    mean = samples.mean(0)
    draws, tier, number = samples.tolist(), {}, 0
    left = sorted(range(samples.shape[1]), key=lambda i: (-mean[i], i))
    while left:
        number += 1
        first = left[0]
        best = dict.fromkeys(left, 0.0)
        for draw in draws:
            top = max(draw[i] for i in left)
            winners = [i for i in left if draw[i] == top]
            for i in winners:
                best[i] += 1.0 / len(winners) / len(draws)
        inside = {first}
        for i in left:
            beaten = sum(1.0 if d[first] > d[i] else 0.5 * (d[first] == d[i]) for d in draws)
            if beaten / len(draws) < prob - 1e-9:
                inside.add(i)
        held = 0.0
        for i in sorted(left, key=lambda i: (-best[i], -mean[i], i)):
            if held >= prob - 1e-9:
                break
            inside.add(i)
            held += best[i]
        while left and left[0] in inside:
            tier[left.pop(0)] = number
    return [tier[i] for i in range(samples.shape[1])]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("prob", [0.8, 0.95])
def test_tiers_by_brute_force(seed, prob):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 15))
    samples = rng.normal(size=(80, n)) * rng.uniform(0.1, 3.0, n) + rng.normal(0, 2, n)
    if seed % 3 == 0:
        samples = np.round(samples)
    np.testing.assert_array_equal(tiers(samples, prob), brute_tiers(samples, prob))


def test_the_first_stands_alone_where_it_is_probably_the_best():
    """Thirty rivals, each separated from the first, of which one may well be the best."""
    rng = np.random.default_rng(0)
    alone, with_others = 0, 0
    for gap in np.linspace(1.5, 4.5, 16):
        samples = rng.normal(size=(4000, 31))
        samples[:, 0] += gap
        first = np.flatnonzero(tiers(samples, 0.95) == 1)
        if prob_best(samples)[0] >= 0.95:
            assert len(first) == 1
        alone, with_others = alone + (len(first) == 1), with_others + (len(first) > 1)
    assert alone and with_others


@pytest.mark.parametrize("seed", range(5))
def test_provisional_items_are_wide_in_ranks_and_in_no_tier_unless_they_lead(seed):
    rng = np.random.default_rng(seed)
    samples = rng.normal(size=(500, 12)) * rng.uniform(0.1, 4.0, 12) + rng.normal(0, 2, 12)
    prior_sd = 1.5
    summary = summarize(samples, prior_sd=prior_sd)
    wide = 2 * (summary.rank_upper - summary.rank_lower + 1) > 12
    np.testing.assert_array_equal(summary.provisional, (summary.sd**2 > 0.75 * prior_sd**2) & wide)
    assert summary.provisional.any() and not summary.provisional.all()
    assert summary.tier[0] == 1
    np.testing.assert_array_equal(summary.tier[1:] == 0, summary.provisional[1:])
    kept = np.append(0, 1 + np.flatnonzero(~summary.provisional[1:]))
    known = summary.indices[kept]
    np.testing.assert_array_equal(summary.tier[kept], tiers(samples[:, known], 0.9))
    assert (np.diff(summary.tier[kept]) >= 0).all()


def test_who_certainly_leads_is_not_provisional_however_little_is_known_of_the_skill():
    samples = np.random.default_rng(0).normal(size=(2000, 4)) + [9.0, 0.0, -9.0, -18.0]
    summary = summarize(samples, prior_sd=1.0)
    assert summary.tier.tolist() == [1, 2, 3, 4] and not summary.provisional.any()


def test_the_first_tier_holds_the_true_best_as_often_as_it_says():
    """Skills from the prior, data from the skills, exact posterior: at least 90 times in 100."""
    rng, noise, held, sizes = np.random.default_rng(12), 0.5, [], []
    shrink = 1.0 / (1.0 + noise**2)
    for _ in range(400):
        skill = rng.normal(size=20)
        data = skill + noise * rng.normal(size=20)
        draws = shrink * data + np.sqrt(1.0 - shrink) * rng.normal(size=(1000, 20))
        first = tiers(draws) == 1
        held.append(first[np.argmax(skill)])
        sizes.append(first.sum())
    assert np.mean(held) > 0.9 - 2 * np.sqrt(0.1 * 0.9 / 400)
    assert np.mean(sizes) < 10  # and it does not hold everything


def test_better_than_next_of_gaussians():
    rng = np.random.default_rng(3)
    mean, sd = np.array([2.0, 1.0, 0.7]), np.array([1.0, 0.5, 0.2])
    got = prob_better_than_next(mean + sd * rng.normal(size=(40_000, 3)))
    exact = norm.cdf(-np.diff(mean) / np.hypot(sd[1:], sd[:-1]))
    np.testing.assert_allclose(got[:2], exact, atol=0.01)
    assert np.isnan(got[2])


@pytest.mark.parametrize("n", [2, 3, 10, 139])
def test_without_evidence_all_items_are_provisional_and_with_much_none(n):
    """Skills of standard deviation 2 before any comparison, measured from their average."""
    rng = np.random.default_rng(n)
    prior_sd = 2.0 * np.sqrt(1.0 - 1.0 / n)
    alike = 2.0 * rng.normal(size=(4000, n))
    alike -= alike.mean(axis=1, keepdims=True)
    assert summarize(alike, prior_sd=prior_sd).provisional.all()
    assert not summarize(0.8 * alike, prior_sd=prior_sd).provisional.any()
    assert not summarize(alike).provisional.any()
    assert not is_provisional(0.86, 1.0) and is_provisional(0.87, 1.0)


def test_an_item_that_was_compared_with_nobody_is_provisional():
    summary = summarize(np.random.default_rng(0).normal(size=(50, 3)), components=[0, 0, 1])
    assert summary.provisional.tolist() == [False, False, True]


def test_records_are_counts():
    rng = np.random.default_rng(4)
    pairs = np.array([rng.choice(5, 2, replace=False) for _ in range(60)])
    tied, weights = rng.random(60) < 0.3, rng.integers(1, 4, 60)
    repeated = np.repeat(np.arange(60), weights)
    plain = count_records(pairs[repeated], 6, tied=tied[repeated])
    weighted = count_records(pairs, 6, tied=tied, weights=weights)
    for one, other in zip(plain, weighted, strict=True):
        np.testing.assert_array_equal(one, other)
    rows = [tuple(row) for row in zip(*pairs[repeated].T, tied[repeated], strict=True)]
    for item in range(6):
        assert plain.wins[item] == sum(w == item and not t for w, _, t in rows)
        assert plain.losses[item] == sum(loser == item and not t for _, loser, t in rows)
        assert plain.ties[item] == sum(item in (w, loser) and t for w, loser, t in rows)
    np.testing.assert_array_equal(plain.comparisons, np.bincount(pairs[repeated].ravel(), None, 6))


@pytest.mark.slow
def test_comparisons_needed_of_two_items_against_a_grid():
    """True gaps as estimated; outcomes by chance; the exact posterior on a grid each time."""
    grid, rng = np.linspace(-3.0, 4.0, 701), np.random.default_rng(5)
    sd, d = 0.5, 0.3
    samples = np.c_[d + sd * rng.standard_normal(200_000), np.zeros(200_000)]
    needed = comparisons_needed(samples, lambda x: float(expit(x)))
    assert needed[0] < needed[1]
    for number, power in zip(needed, (0.5, 0.8), strict=True):
        wins = rng.binomial(round(number), expit(d), 1000)[:, None]
        log = -0.5 * ((grid - d) / sd) ** 2
        log = log + wins * np.log(expit(grid)) + (round(number) - wins) * np.log(expit(-grid))
        density = np.exp(log - log.max(axis=1, keepdims=True))
        better = density[:, grid > 0].sum(axis=1) / density.sum(axis=1)
        assert np.mean(better >= 0.9) == pytest.approx(power, abs=0.07)


@pytest.mark.parametrize("apart", [0.6, 1.2, 1.27, 1.28])
def test_a_leader_that_is_nearly_separated_is_not_said_to_be(apart):
    """In closed form for two items `apart` standard deviations of 0.5."""
    samples = np.c_[0.5 * (apart + norm.ppf((np.arange(2000) + 0.5) / 2000)), np.zeros(2000)]
    chance = expit(0.5 * apart) * expit(-0.5 * apart)

    def short(number, power):  # of what separates: precision 4 today, and what the comparisons add
        told = number * chance
        return (
            0.5 * apart * (4 + told) ** 0.5
            + norm.ppf(1 - power) * (told / (4 + told)) ** 0.5
            - norm.ppf(0.9)
        )

    even, likely = comparisons_needed(samples, lambda x: float(expit(x)))
    assert even == pytest.approx(brentq(short, 1e-9, 1e4, (0.5,)), rel=0.3, abs=1.5)
    assert likely == pytest.approx(brentq(short, 1, 1e4, (0.8,)), rel=0.2)


@pytest.mark.slow
def test_comparisons_needed_of_a_tier_against_simulated_logs():
    """Three rivals at once: wins by chance, Laplace's method, and who is the best by draws."""
    rng, gaps, sd = np.random.default_rng(6), np.array([0.3, 0.45, 0.6]), 0.25
    noise = sd * rng.standard_normal((50_000, 4)) / np.sqrt(2.0)
    samples = np.r_[0.0, -gaps] + noise - noise.mean(axis=0)
    before = np.linalg.inv(np.cov((samples[:, :1] - samples[:, 1:]).T))
    chance = expit(gaps) * expit(-gaps)
    share = 1.0 / (gaps**2 * chance)
    draws = rng.standard_normal((1000, 3))
    for number, power in zip(
        comparisons_needed(samples, lambda x: float(expit(x))), (0.5, 0.8), strict=True
    ):
        each = np.rint(number * share / share.sum())
        alone = []
        for _ in range(600):
            wins, at, bend = rng.binomial(each.astype(int), expit(gaps)), gaps, before
            for _ in range(8):
                bend = before + np.diag(each * expit(at) * expit(-at))
                at = at + np.linalg.solve(bend, wins - each * expit(at) - before @ (at - gaps))
            root = np.linalg.cholesky(np.linalg.inv(bend))
            alone.append((at + draws @ root.T > 0.0).all(axis=1).mean() >= 0.9)
        assert np.mean(alone) == pytest.approx(power, abs=0.11)


def test_nothing_more_is_needed_where_they_are_told_apart_and_no_number_where_they_are_equal():
    samples, normal = np.random.default_rng(6).normal(size=(4000, 2)), lambda x: float(norm.cdf(x))
    assert comparisons_needed(samples + [5.0, 0.0], normal) == (0.0, 0.0)
    assert np.isinf(comparisons_needed(samples[:, [0, 0]], normal)).all()


def test_a_mixture_says_without_draws_what_its_draws_say():
    rng = np.random.default_rng(0)
    roots = rng.normal(size=(3, 5, 5))
    mixture = SkillMixture(np.array([0.5, 0.3, 0.2]), rng.normal(0, 2, (3, 5)), roots @ roots.mT)
    part = rng.choice(3, 50_000, p=mixture.weights)
    samples = mixture.means[part] + np.einsum(
        "dij,dj->di", roots[part], rng.standard_normal((50_000, 5))
    )
    mean, sd = mixture.moments()
    np.testing.assert_allclose(mean, samples.mean(axis=0), atol=0.06)
    np.testing.assert_allclose(sd, samples.std(axis=0), rtol=0.02)
    np.testing.assert_allclose(
        mixture.interval(0.9), np.quantile(samples, [0.05, 0.95], axis=0), atol=0.1
    )
    first, second = np.array([0, 1, 4, 2]), np.array([1, 2, 0, 2])
    better = np.mean(samples[:, first] > samples[:, second], axis=0)
    np.testing.assert_allclose(mixture.better(first, second)[:3], better[:3], atol=0.01)
    assert mixture.better(2, 2) == 0.5
    weights = np.random.default_rng(0).dirichlet(np.ones(7), 50)
    apart = [np.broadcast_to(x, (7, *np.shape(x))) for x in ([9.0, 0.0], np.eye(2) * 1e-9)]
    assert max(SkillMixture(each, *apart).better(0, 1) for each in weights) == 1.0
    averages, group = (
        np.array([[0.5, 0.5, 0, 0, 0], [0, 0, 0.2, 0.2, 0.6]]),
        np.array([0, 0, 1, 1, 1]),
    )
    relative, drawn = mixture.relative(averages, group), samples - (samples @ averages.T)[:, group]
    np.testing.assert_allclose(relative.moments()[0], drawn.mean(axis=0), atol=0.06)
    np.testing.assert_allclose(relative.covariance(), np.cov(drawn.T), atol=0.1)
    np.testing.assert_allclose(mixture.of(first).moments()[0], mean[first])


@pytest.mark.parametrize("seed", range(6))
def test_items_of_the_same_evidence_have_the_same_ranks_whatever_the_draws(seed):
    """Five exchangeable items: their intervals and chances are equal, by 500 draws of any seed."""
    covariance = 0.3 * np.eye(6) + 0.1
    mean = np.array([1.0, 0, 0, 0, 0, 0])
    samples = np.random.default_rng(seed).multivariate_normal(mean, covariance, 500)
    samples += mean - samples.mean(axis=0)
    posterior = SkillMixture(np.ones(1), mean[None], covariance[None])
    summary = summarize(samples, posterior=posterior)
    for name in ("rank_lower", "rank_upper", "prob_best", "prob_top_k", "expected_rank"):
        assert len(set(getattr(summary, name)[1:])) == 1
    for name in ("skill_lower", "skill_upper", "sd"):
        assert np.ptp(getattr(summary, name)[1:]) < 1e-12
    np.testing.assert_allclose(summary.prob_better_than_next[1:5], 0.5)
    assert summary.prob_best.sum() == pytest.approx(1.0)


def test_components_are_ranked_each_by_itself():
    rng = np.random.default_rng(7)
    samples = rng.normal(size=(300, 6)) + [0, 1, 2, 3, 4, 5]
    component = np.array([1, 0, 1, 0, 0, 2])
    summary = summarize(samples, components=component)
    assert summary.num_components == 3
    np.testing.assert_array_equal(summary.indices, [4, 3, 1, 2, 0, 5])
    np.testing.assert_array_equal(summary.rank, [1, 2, 3, 1, 2, 1])
    for number in range(3):
        inside = np.flatnonzero(component == number)
        alone = summarize(samples[:, inside])
        rows = summary.component == number
        for name in ("prob_best", "rank_lower", "rank_upper", "tier", "expected_rank"):
            np.testing.assert_array_equal(getattr(summary, name)[rows], getattr(alone, name))
    frame = summary.to_dataframe()
    assert frame["component"].tolist() == [1, 1, 1, 2, 2, 3]
    assert frame["prob_better_than_next"].isna().tolist() == [False, False, True, False, True, True]
    columns = summarize(samples).to_dataframe().columns
    assert list(columns) == list(frame.columns)
    assert list(summarize(samples[:, :2]).to_dataframe().columns) == list(columns)


def test_items_of_equal_means_stay_in_their_order():
    """Where equals and nearly equals stand is not left to rounding, on any scale of skill."""
    draws = np.random.default_rng(0).standard_normal((300, 5))
    draws -= draws.mean(axis=0)
    for scale in (1.0, 1e-9):
        shifted = scale * (draws + [0.0, 1.0, 1e-9, 1.0 + 1e-9, 1e-3])
        summary = summarize(shifted)
        assert summary.indices.tolist() == [1, 3, 4, 0, 2]
        assert tiers(shifted)[1] == 1 and summary.tier[0] == 1


def test_records_stand_beside_their_items():
    samples = np.random.default_rng(8).normal(size=(50, 3)) + [0.0, 9.0, 18.0]
    records = ItemRecords(np.array([1, 2, 3]), np.array([4, 5, 6]), np.array([7, 8, 9]))
    frame = summarize(samples, records=records).to_dataframe()
    assert frame["wins"].tolist() == [3, 2, 1]
    assert frame["comparisons"].tolist() == [18, 15, 12]
    assert "wins" not in summarize(samples).to_dataframe()


def by_search(pairs, num_items):
    """Sets of items that can be reached from each other, the largest first."""
    left, found = set(range(num_items)), []
    while left:
        inside, frontier = set(), [min(left)]
        while frontier:
            item = frontier.pop()
            inside.add(item)
            for pair in pairs:
                frontier += [other for other in pair if item in pair and other not in inside]
        found.append(inside)
        left -= inside
    return sorted(found, key=lambda items: (-len(items), min(items)))


def test_components_are_those_of_a_search_the_largest_first():
    rng = np.random.default_rng(0)
    for num_pairs in (0, 3, 8, 14):
        pairs = rng.integers(0, 15, (num_pairs, 2))
        labels = connected_components(pairs, 15)
        groups = [set(np.flatnonzero(labels == k).tolist()) for k in range(labels.max() + 1)]
        assert groups == by_search(pairs.tolist(), 15)


def test_of_two_items_the_better_one_is_as_likely_the_best():
    draws = np.zeros((2000, 2))
    draws[:, 0] = np.where(np.arange(2000) < 3, -1.0, 1.0)
    summary = summarize(draws, ["a", "b"])
    assert summary.prob_better_than_next[0] == summary.prob_best[0] == 1997 / 2000
