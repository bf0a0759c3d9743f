"""Ranking functions against brute force, closed forms, invariances and simulated coverage."""

import itertools
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused
from scipy import stats
from scipy.stats import rankdata

from bayesrank.ranking import (
    SkillMixture,
    expected_rank,
    pairwise_probability,
    prob_best,
    prob_top_k,
    rank_distribution,
    rank_interval,
    rank_samples,
    summarize,
)
from bayesrank.ranking.columns import columns_of


def make_draws(draws=200, n=7, seed=0, ties=False):
    rng = np.random.default_rng(seed)
    samples = rng.normal(size=(draws, n)) + np.linspace(0.0, 1.5, n)
    return np.round(samples, 1) if ties else samples


def brute_distribution(samples):
    """Rank probabilities by handing each tied group every order of its members."""
    draws, n = samples.shape
    out = np.zeros((n, n))
    for row in samples:
        orders = [p for p in itertools.permutations(range(n)) if all(np.diff(row[list(p)]) <= 0)]
        for order in orders:
            out[order, range(n)] += 1.0 / len(orders)
    return out / draws


@pytest.mark.parametrize("ties", [False, True])
def test_summaries_match_brute_force(ties):
    samples = make_draws(40, 5, ties=ties)
    if ties:
        samples[0] = 1.0
    truth = brute_distribution(samples)
    np.testing.assert_allclose(rank_distribution(samples), truth, atol=1e-12)
    np.testing.assert_allclose(prob_best(samples), truth[:, 0], atol=1e-12)
    for k in range(1, 6):
        np.testing.assert_allclose(prob_top_k(samples, k), truth[:, :k].sum(1), atol=1e-12)
    np.testing.assert_allclose(expected_rank(samples), truth @ np.arange(1, 6), atol=1e-12)


@pytest.mark.parametrize("ties", ["average", "min", "max"])
def test_rank_samples_agrees_with_scipy(ties):
    samples = make_draws(60, 9, ties=True)
    np.testing.assert_array_equal(
        rank_samples(samples, ties=ties), rankdata(-samples, method=ties, axis=1)
    )
    assert (rank_samples(samples) % 1 == 0.5).any(), "the case has no ties to test"


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize(("draws", "n"), [(7, 3), (300, 6), (520, 261)])
def test_pairwise_matches_direct_comparison(draws, n, ties):
    samples = make_draws(draws, n, ties=ties)
    rows = samples if n < 50 else samples[:, :: n - 1]
    wins = (rows[:, :, None] > rows[:, None, :]).mean(0)
    even = (rows[:, :, None] == rows[:, None, :]).mean(0)
    got = pairwise_probability(samples)
    corner = got if n < 50 else got[:: n - 1, :: n - 1]
    np.testing.assert_allclose(corner, wins + even / 2, atol=1e-12)
    np.testing.assert_allclose(got + got.T, 1.0, atol=1e-15)
    np.testing.assert_array_equal(np.diag(got), 0.5)


def test_rank_interval_is_equal_tailed_and_as_narrow_as_allowed():
    samples = make_draws(1000, 12)
    ranks = rank_samples(samples)
    for prob in (0.5, 0.9, 0.99):
        tail = (1 - prob) / 2 + 1e-12
        interval = rank_interval(samples, prob)
        assert interval.dtype == np.int64
        for rank, (lower, upper) in zip(ranks.T, interval, strict=True):
            assert (rank < lower).mean() <= tail < (rank < lower + 1).mean()
            assert (rank > upper).mean() <= tail < (rank > upper - 1).mean()


def test_rank_interval_with_ties_holds_however_the_tie_is_broken():
    np.testing.assert_array_equal(rank_interval(np.ones((10, 3))), [[1, 3]] * 3)
    samples = np.tile([2.0, 1.0, 1.0, 0.0], (10, 1))
    np.testing.assert_array_equal(rank_interval(samples), [[1, 1], [2, 3], [2, 3], [4, 4]])


def test_rank_intervals_cover_in_an_exchangeable_gaussian_world():
    """Skills from the prior, data from the skills, exact posterior: hardly more than 90%."""
    rng, n, noise = np.random.default_rng(11), 60, 0.7
    shrink = 1.0 / (1.0 + noise**2)
    hits = []
    for _ in range(60):
        skill = rng.normal(size=n)
        data = skill + noise * rng.normal(size=n)
        draws = shrink * data + np.sqrt(1.0 - shrink) * rng.normal(size=(600, n))
        lower, upper = rank_interval(draws, 0.9).T
        truth = rank_samples(skill[None])[0]
        hits.append(np.mean((lower <= truth) & (truth <= upper)))
    error = np.std(hits) / np.sqrt(len(hits))
    assert 0.9 - 3 * error < np.mean(hits) < 0.93


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 8), st.booleans())
def test_invariances(seed, n, ties):
    samples = make_draws(30, n, seed, ties)
    moved = np.random.default_rng(seed).permutation(n)
    for f in (prob_best, expected_rank, rank_interval, lambda s: prob_top_k(s, n - 1)):
        base = f(samples)
        np.testing.assert_allclose(f(samples[:, moved]), base[moved], atol=1e-12)
        np.testing.assert_array_equal(f(np.exp(samples)), base)
        np.testing.assert_array_equal(f(samples * 4.0), base)
    pairs = pairwise_probability(samples)
    np.testing.assert_array_equal(pairwise_probability(samples[:, moved]), pairs[moved][:, moved])
    shift = np.random.default_rng(seed).integers(-4, 5, (30, 1)) * 8.0
    same = np.round(samples * 64) / 64  # exact in binary, so a shift cannot make or break ties
    np.testing.assert_array_equal(
        pairwise_probability(same + shift), pairwise_probability(same), strict=True
    )
    np.testing.assert_allclose(rank_distribution(samples).sum(axis=0), 1.0)
    np.testing.assert_allclose(rank_distribution(samples).sum(axis=1), 1.0)


def test_accepts_jax_float32_lists_and_integers():
    samples = make_draws(50, 4)
    single = samples.astype(np.float32)
    want = pairwise_probability(single)
    np.testing.assert_array_equal(pairwise_probability(jnp.asarray(single)), want)
    np.testing.assert_array_equal(pairwise_probability(single.tolist()), want)
    np.testing.assert_array_equal(expected_rank(np.array([[3, 1, 2], [9, 8, 7]])), [1, 2.5, 2.5])
    np.testing.assert_array_equal(expected_rank(np.array([[True, False]])), [1, 2])


def test_summary_collects_the_single_functions():
    samples = make_draws(300, 6)
    names = [f"item {c}" for c in "abcdef"]
    summary = summarize(samples, names, level=0.8, k=2)
    order = np.argsort(-samples.mean(0), kind="stable")
    np.testing.assert_array_equal(summary.indices, order)
    assert summary.names == [names[i] for i in order]
    np.testing.assert_allclose(summary.mean, samples.mean(0)[order])
    np.testing.assert_allclose(summary.sd, samples.std(0)[order])
    np.testing.assert_allclose(summary.prob_best, prob_best(samples)[order])
    np.testing.assert_allclose(summary.prob_top_k, prob_top_k(samples, 2)[order])
    np.testing.assert_allclose(summary.expected_rank, expected_rank(samples)[order])
    got = np.stack([summary.rank_lower, summary.rank_upper], 1)
    np.testing.assert_array_equal(got, rank_interval(samples, 0.8)[order])
    inside = (samples[:, order] >= summary.skill_lower) & (samples[:, order] <= summary.skill_upper)
    np.testing.assert_allclose(inside.mean(0), 0.8, atol=0.01)


def test_files_screens_and_text_have_one_list_of_columns():
    summary = summarize(make_draws(100, 3) * [1, 1, 99], ["ann", "bob\x1b[2J", "eve"])
    frame = summary.to_dataframe()
    assert frame.columns.tolist() == [
        "rank", "item", "skill_mean", "skill_sd", "skill_lower", "skill_upper", "prob_best",
        "prob_top_3", "prob_better_than_next", "expected_rank", "rank_lower", "rank_upper", "tier",
        "provisional", "component",
    ]  # fmt: skip
    assert list(frame["item"]) == summary.names and list(frame["rank"]) == [1, 2, 3]
    lines = str(summary).splitlines()
    assert lines[0].split("  ")[-1] == "Tier" and len(lines) == 4
    assert "\x1b" not in str(summary) and "\x1b" in "".join(summary.names)
    assert [column.title for column in columns_of(summary)] == [
        "Rank", "90% ranks", "Item", "Skill ± SD", "P(best)", "P(beats next)", "Tier",
    ]  # fmt: skip


def test_long_table_says_what_it_leaves_out():
    text = str(summarize(make_draws(20, 100)))
    assert "... 60 more ..." in text and len(text.splitlines()) == 42
    assert text.splitlines()[-1].split()[0] == "100"
    assert "more" not in str(summarize(make_draws(20, 40)))


def test_pairs_of_very_many_items_are_refused(monkeypatch):
    monkeypatch.setattr("bayesrank._memory.available", lambda: 100 * 2**20)
    for ask in (pairwise_probability, rank_distribution):
        refused(r"of 3,000 items take 275 MiB of memory, and 100", ask, np.zeros((2, 3000)))
    assert len(expected_rank(np.zeros((2, 3000)))) == 3000


def test_import_loads_no_jax():
    code = "import sys, bayesrank.ranking, bayesrank.metrics; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_ranking_shows_itself_in_notebooks_and_no_name_is_markup():
    draws = np.arange(140.0) + np.random.default_rng(0).normal(size=(50, 140))
    table = summarize(draws, ["<b>", *map(str, range(139))])._repr_html_()
    assert table.count("<tr>") == 42 and "... " in table
    assert "<b>" not in table and "<th>P(best)</th>" in table
    assert "&lt;b&gt;" in summarize(draws[:, :2], ["<b>", "c"])._repr_html_()


def test_known_skills_condition_a_mixture_as_a_wide_prior_of_the_level_does():
    rng = np.random.default_rng(0)
    roots = rng.normal(size=(3, 4, 4))
    mixture = SkillMixture(np.array([0.5, 0.3, 0.2]), rng.normal(size=(3, 4)), roots @ roots.mT)
    items, known, sds = np.array([2, 0, 3]), np.array([1.0, -0.5, 2.0]), np.array([0.3, 0.0, 1.5])
    found, _ = mixture.given(items, known, sds)
    wide, logs, expected = 1e6, [], []
    for mean, covariance in zip(mixture.means, mixture.covariances, strict=True):
        whole = covariance + wide
        seen = whole[np.ix_(items, items)] + np.diag(sds**2)
        gain = np.linalg.solve(seen, whole[items]).T
        expected.append((mean + gain @ (known - mean[items]), whole - gain @ whole[items]))
        logs.append(stats.multivariate_normal.logpdf(known, mean[items], seen))
    weights = mixture.weights * np.exp(np.array(logs) - max(logs))
    np.testing.assert_allclose(found.weights, weights / weights.sum(), atol=1e-4)
    np.testing.assert_allclose(found.means, [mean for mean, _ in expected], atol=1e-4)
    np.testing.assert_allclose(found.covariances, [each for _, each in expected], atol=1e-3)
    draws = found.draws(20_000, np.random.RandomState(0))
    np.testing.assert_allclose(draws.mean(axis=0), found.moments()[0], atol=0.05)
    np.testing.assert_allclose(np.cov(draws.T), found.covariance(), atol=0.1)


def test_known_skills_contradict_what_is_expected_as_often_as_they_should():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(4, 4))
    mixture = SkillMixture(np.ones(1), np.zeros((1, 4)), (root @ root.T)[None])
    items, sds = np.array([0, 1, 3]), np.array([0.5, 0.0, 1.0])
    skills = rng.normal(size=(500, 4)) @ root.T
    known = skills[:, items] + sds * rng.normal(size=(500, 3)) + rng.normal(0.0, 9.0, (500, 1))
    chances = [mixture.given(items, each, sds)[1] for each in known]
    assert stats.kstest(chances, "uniform").pvalue > 0.01
    assert mixture.given(items[:1], known[0, :1], sds[:1])[1] == 1.0
