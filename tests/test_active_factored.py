"""The best of all pairs of many items, against all pairs under a dense covariance."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesrank.active import (
    Beliefs,
    FactoredBeliefs,
    bald,
    best_batch,
    best_pair,
    best_pair_batch,
    best_pairs,
)
from bayesrank.active.acquisition.pairs import bald_of_margin


def beliefs_of(n, rank, seed=0, spread=1.0):
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(n, rank)) * rng.gamma(2.0, 0.3, (n, 1)) + 3.0
    return FactoredBeliefs(spread * rng.normal(size=n), factor, rng.gamma(1.0, 0.4, n), 0.8)


def dense(beliefs):
    covariance = beliefs.factor @ beliefs.factor.T + np.diag(beliefs.diagonal)
    return Beliefs(jnp.asarray(beliefs.mean), jnp.asarray(covariance), beliefs.noise)


@pytest.mark.parametrize("n, rank", [(2, 1), (40, 3), (1100, 5), (1300, 0)])
def test_it_is_the_best_of_all_pairs(n, rank):
    beliefs = beliefs_of(n, rank)
    with jax.enable_x64(True):
        pairs, scores = best_pairs(bald, dense(beliefs), 1)
    found = best_pair(beliefs)
    assert found.certified and found.gap == 0.0
    assert found.pair == tuple(np.asarray(pairs[0]))
    assert found.score == pytest.approx(float(scores[0]), abs=1e-9)
    assert found.num_scored < n * (n - 1) // 2 or n < 1000


def test_pairs_that_were_asked_are_left_out():
    beliefs = beliefs_of(600, 4)
    with jax.enable_x64(True):
        pairs = np.asarray(best_pairs(bald, dense(beliefs), 30)[0])
    found = best_pair(beliefs, exclude=pairs[:29, ::-1])
    chosen = best_pair(beliefs, candidates=pairs[3:], exclude=pairs[3:5])
    assert found.pair == tuple(pairs[29])
    assert chosen.pair == tuple(pairs[5]) and chosen.num_scored == 25
    none = best_pair(
        FactoredBeliefs(np.zeros(2), np.zeros((2, 0)), np.ones(2)), exclude=np.array([[1, 0]])
    )
    assert none.pair == (0, 0) and none.score == -np.inf


def test_without_a_proof_the_gap_bounds_what_was_missed():
    rng = np.random.default_rng(1)
    factor = rng.normal(size=(1200, 6))
    factor /= np.linalg.norm(factor, axis=1, keepdims=True)
    beliefs = FactoredBeliefs(rng.normal(size=1200), factor, np.full(1200, 0.1), 0.8)
    best, stopped = best_pair(beliefs), best_pair(beliefs, max_scored=1)
    assert best.certified and not stopped.certified
    assert stopped.num_scored < best.num_scored
    assert stopped.score <= best.score <= stopped.score + stopped.gap


def test_single_precision_is_kept_and_close():
    beliefs = beliefs_of(700, 3)
    mean, factor, diagonal = (np.asarray(part, np.float32) for part in beliefs[:3])
    single = FactoredBeliefs(mean, factor, diagonal, 0.8)
    assert best_pair(single).score == pytest.approx(best_pair(beliefs).score, abs=1e-5)


def test_bald_is_greatest_for_even_questions_and_grows_with_the_variance():
    """What the proof rests on, on a grid."""
    with jax.enable_x64(True):
        mean, variance = jnp.linspace(0.0, 6.0, 61), jnp.logspace(-3, 3, 61)[:, None]
        score = np.asarray(bald_of_margin(mean, variance, 0.7))
    assert (np.diff(score, axis=1) <= 2e-7).all()
    assert (np.diff(score[:, 0]) > 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 4])
def test_a_batch_is_that_of_a_dense_covariance(rank):
    beliefs = beliefs_of(120, rank, spread=0.5)
    pairs = np.random.default_rng(3).integers(120, size=(200, 2))
    with jax.enable_x64(True):
        several: Any = ({"exclude": pairs[:50]}, {"candidates": pairs})
        for options in several:
            chosen, scores = best_batch(bald, dense(beliefs), 6, **options)
            with jax.enable_x64(False):
                found = best_pair_batch(beliefs, 6, **options)
            np.testing.assert_array_equal([each.pair for each in found], np.sort(chosen, axis=1))
            np.testing.assert_allclose([each.score for each in found], scores, atol=1e-9)
            assert all(each.certified for each in found)
    assert len(best_pair_batch(beliefs, 6, candidates=np.array([(0, 1), (1, 0), (2, 2)]))) == 2
