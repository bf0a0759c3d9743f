"""`PreferenceGP.query`: the questions of a fit."""

import copy

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from bayesrank import PreferenceGP
from bayesrank.active import Beliefs, bald

X = np.random.default_rng(1).normal(size=(7, 2))
COMPARISONS = [(0, 1), (2, 3), (2, 1), (4, 0)]


@pytest.fixture(scope="module")
def fitted():
    return PreferenceGP(hyperparameters="prior").fit(X, COMPARISONS)


@pytest.mark.slow
def test_the_best_pair_of_all_that_were_not_compared(fitted):
    pairs = np.stack(np.triu_indices(7, 1), axis=1)
    compared = {frozenset(pair) for pair in COMPARISONS}
    pairs = np.array([pair for pair in pairs if frozenset(pair.tolist()) not in compared])
    result = fitted.result
    scores = bald(Beliefs(result.mean["f"], result.covariance["f"], result.params["noise"]), pairs)
    best = pairs[np.argmax(scores)]
    assert fitted.query().tolist() == [best.tolist()]
    assert fitted.query(candidates=pairs[::-1]).tolist() == [best.tolist()]


def test_fewer_pairs_than_asked_for(fitted):
    chosen = fitted.query(5, candidates=[(0, 1), (5, 6), (6, 5), (3, 4)])
    assert {frozenset(pair) for pair in chosen.tolist()} == {frozenset((5, 6)), frozenset((3, 4))}


def test_refusals(fitted):
    with pytest.raises(NotFittedError):
        PreferenceGP().query()
    with pytest.raises(ValueError, match="`candidates` names item 7 in row 0"):
        fitted.query(candidates=[(7, 1)])
    with pytest.raises(ValueError, match="n is 0"):
        fitted.query(0)
    assert fitted.query(candidates=[]).shape == (0, 2)


def test_logistic_noise_counts_by_its_variance(fitted):
    result, pairs = fitted.result, np.stack(np.triu_indices(7, 1), axis=1)
    # A logistic variable of scale s has the variance (pi s)**2 / 3, two normal ones 2 sigma**2.
    noise = result.params["noise"] * np.sqrt(np.pi**2 / 3 / 2)
    scores = bald(Beliefs(result.mean["f"], result.covariance["f"], noise), pairs)
    compared = {frozenset(pair) for pair in COMPARISONS}
    order = [p for p in pairs[np.argsort(-scores)].tolist() if frozenset(p) not in compared]
    logistic = copy.copy(fitted)
    logistic.likelihood = "logit"
    assert logistic.query().tolist() == [order[0]]
