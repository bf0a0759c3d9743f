"""The best questions against sorting all scores, and batches against choosing by hand."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

from bayesrank import _memory
from bayesrank.active import (
    Beliefs,
    anticipate,
    bald,
    best_batch,
    best_pairs,
    entropy_gain,
    pool_variance,
    random_gain,
)


def make_beliefs(n, seed=0):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(n, n + 2))
    return Beliefs(jnp.asarray(rng.normal(size=n)), jnp.asarray(root @ root.T / n), 0.5)


def all_pairs(n):
    return np.stack(np.triu_indices(n, 1), axis=1)


@jax.jit
def table(acquisition, beliefs):
    """Scores of all ordered pairs, (n, n), compiled once for each n."""
    n = beliefs.mean.shape[0]
    pairs = jnp.stack(jnp.meshgrid(jnp.arange(n), jnp.arange(n), indexing="ij"), axis=-1)
    return acquisition(beliefs, pairs)


def by_sorting(acquisition, beliefs, pairs, q):
    pairs = np.asarray(pairs)
    scores = np.asarray(table(Partial(acquisition), beliefs))[tuple(pairs.T)]
    order = np.argsort(-scores)[:q]
    return pairs[order], scores[order]


@pytest.mark.parametrize(("n", "chunk"), [(2, 65_536), (7, 8), (8, 17)])
def test_best_of_all_pairs_are_those_of_sorting(n, chunk):
    beliefs = make_beliefs(n)
    q = min(4, n * (n - 1) // 2)
    pairs, scores = best_pairs(bald, beliefs, q, chunk=chunk)
    expected_pairs, expected_scores = by_sorting(bald, beliefs, all_pairs(n), q)
    np.testing.assert_array_equal(pairs, expected_pairs)
    np.testing.assert_allclose(scores, expected_scores)


@pytest.mark.parametrize("n", [7, 8])
def test_each_pair_is_met_once(n):
    count = n * (n - 1) // 2
    pairs, scores = best_pairs(random_gain(jax.random.key(0)), make_beliefs(n), count + 2, chunk=20)
    assert {tuple(pair) for pair in pairs[:count].tolist()} == {*map(tuple, all_pairs(n).tolist())}
    assert np.all(np.diff(scores[:count]) < 0)
    np.testing.assert_array_equal(pairs[count:], 0)
    assert np.all(scores[count:] == -np.inf)


@pytest.mark.parametrize(
    ("acquisition", "n"), [(bald, 7), (bald, 8), (pool_variance, 7), (pool_variance, 8)]
)
def test_excluded_pairs_are_not_chosen_in_either_order(acquisition, n):
    """Pools are scored in blocks of pairs, and have the scores of single pairs."""
    beliefs, count = make_beliefs(n), n * (n - 1) // 2
    best, scores = by_sorting(acquisition, beliefs, all_pairs(n), count)
    out = np.concatenate([best[:5:2], best[1:5:2, ::-1], [[0, 0]]])
    for candidates in (None, best):
        options = {"candidates": candidates, "exclude": out, "chunk": 8}
        pairs, found = best_pairs(acquisition, beliefs, count, **options)
        np.testing.assert_array_equal(pairs, [*best[5:], *[[0, 0]] * 5])
        np.testing.assert_allclose(found, [*scores[5:], *[-np.inf] * 5])


def test_candidates_are_chosen_as_they_are_given():
    beliefs = make_beliefs(7)
    candidates = np.array([[3, 1], [0, 0], [6, 2], [1, 5], [4, 4]])
    pairs, scores = best_pairs(bald, beliefs, 4, candidates=candidates, chunk=2)
    expected, values = by_sorting(bald, beliefs, candidates[[0, 2, 3]], 3)
    np.testing.assert_array_equal(pairs, [*expected.tolist(), [0, 0]])
    np.testing.assert_allclose(scores, [*values, -np.inf])


def test_no_candidates_leave_nothing_to_ask():
    none: Any
    for none in (np.zeros((0, 2), int), []):
        pairs, scores = best_pairs(bald, make_beliefs(4), candidates=none, exclude=none)
        assert pairs.tolist() == [[0, 0]] and scores.tolist() == [-np.inf]
    pairs, scores = best_pairs(bald, make_beliefs(1), 2)
    assert pairs.tolist() == [[0, 0]] * 2 and np.all(scores == -np.inf)


@pytest.mark.parametrize("given", [False, True])
def test_batch_is_chosen_one_by_one_under_what_answers_will_tell(given):
    n, q = 8, 3
    beliefs, pairs = make_beliefs(n), all_pairs(n)
    out = pairs[:2]
    candidates = pairs if given else None
    chosen, scores = best_batch(entropy_gain, beliefs, q, candidates=candidates, exclude=out)
    left = {tuple(pair) for pair in pairs[2:].tolist()}
    for pair, score in zip(chosen.tolist(), scores.tolist(), strict=True):
        (best,), (value,) = by_sorting(entropy_gain, beliefs, sorted(left), 1)
        assert pair == best.tolist()
        assert score == pytest.approx(value)
        beliefs = jax.jit(anticipate)(beliefs, best)
        left.remove(tuple(pair))


def test_batch_of_more_than_there_is():
    pairs, scores = best_batch(bald, make_beliefs(3), 5)
    assert sorted(map(tuple, pairs[:3].tolist())) == [(0, 1), (0, 2), (1, 2)]
    assert pairs[3:].tolist() == [[0, 0]] * 2 and np.all(scores[3:] == -np.inf)


def test_new_arrays_of_the_same_shapes_do_not_compile_anew():
    traces = []

    def scored(weight, beliefs, pairs):
        traces.append(weight)
        return weight * bald(beliefs, pairs)

    for seed in range(3):
        acquisition, exclude = Partial(scored, jnp.asarray(seed + 1.0)), np.full((2, 2), seed)
        _, scores = best_pairs(acquisition, make_beliefs(5, seed), exclude=exclude)
        alone = best_pairs(bald, make_beliefs(5, seed), exclude=exclude)[1]
        np.testing.assert_allclose(scores, (seed + 1) * alone)
        if seed == 0:
            traces.append("all traced")
    assert traces[-1] == "all traced"


def test_what_does_not_fit_into_memory_is_refused(monkeypatch):
    monkeypatch.setattr(_memory, "available", lambda: 10**7)
    beliefs = make_beliefs(3)
    for choose in (best_pairs, best_batch):
        with pytest.raises(
            _memory.TooLargeError, match="900,000 of them to be chosen, take .* are f"
        ):
            choose(bald, beliefs, 900_000)
    assert best_pairs(bald, beliefs)[0].shape == (1, 2)
