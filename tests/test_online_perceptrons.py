"""PRank and its ensembles against the paper's algorithms in plain Python."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from tinygp.kernels import DotProduct, ExpSquared, Polynomial

from bayesrank.online import (
    OAPBPM,
    OAPBagging,
    OAPVoted,
    PRank,
    VotedPRank,
    WidrowHoff,
    polynomial_features,
)
from bayesrank.online._kernel_form import FeatureMap, feature_map
from bayesrank.online._members import _shown, init_members, learn_block

K, D, N, SEED = 4, 3, 5, 7
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, D))
Y = 1 + (X @ [1.0, -2.0, 0.5] + 0.4 * RNG.normal(size=60) > [[-1.5], [0.0], [1.0]]).sum(0)


class LiteralPRank:
    """Algorithm 1, line by line, with a kernel for the scalar product and a store of examples."""

    def __init__(self, kernel=np.dot, budget=10**6):
        self.kernel, self.budget = kernel, budget
        self.support, self.alpha = [], []
        self.c = [0.0] * (K - 1)

    def score(self, x):
        return sum(a * self.kernel(s, x) for a, s in zip(self.alpha, self.support, strict=True))

    def predict(self, x):
        f = self.score(x)
        return min(r for r in range(1, K + 1) if r == K or f - self.c[r - 1] < 0)

    def learn(self, x, y):
        f, predicted = self.score(x), self.predict(x)
        if predicted == y:
            return predicted
        labels = [-1 if y <= r else 1 for r in range(1, K)]
        a = [label if (f - c) * label <= 0 else 0 for c, label in zip(self.c, labels, strict=True)]
        self.c = [c - step for c, step in zip(self.c, a, strict=True)]
        if len(self.support) == self.budget:
            del self.support[0], self.alpha[0]
        self.support.append(x)
        self.alpha.append(sum(a))
        return predicted

    @property
    def w(self):
        return sum((a * s for a, s in zip(self.alpha, self.support, strict=True)), np.zeros(D))


class LiteralVotes(LiteralPRank):
    """All rules of a literal PRank, as they were."""

    def __init__(self, *options):
        super().__init__(*options)
        self.past, self.won = [], 0

    def rule(self):
        return self.won, list(self.c), list(self.alpha), list(self.support)

    def vote(self, x):
        ranks, votes = [], []
        for won, c, alpha, support in [*self.past, self.rule()]:
            f = sum(a * self.kernel(s, x) for a, s in zip(alpha, support, strict=True))
            ranks.append(min(r for r in range(1, K + 1) if r == K or f - c[r - 1] < 0))
            votes.append(won)
        return np.average(ranks, weights=votes) if any(votes) else ranks[-1]

    def learn(self, x, y):
        rule, predicted = self.rule(), super().learn(x, y)
        if predicted == y:
            self.won += 1
            return predicted
        self.won, self.past = 0, [*self.past, *([rule] if rule[0] else [])]
        return predicted


def _rbf(a, b):
    return np.exp(-0.5 * ((a - b) ** 2).sum() / 0.8**2)


def _matern(a, b):
    r = np.sqrt(3.0 * ((a - b) ** 2).sum()) / 0.9
    return 2.5 * (1 + r) * np.exp(-r)


def _shown_to(tau, n=60, members=N, poisson=False):
    seed, seen = jnp.asarray(SEED), jnp.asarray(0)
    return np.asarray(_shown(seed, seen, (n, members), jnp.asarray(tau), poisson))


@pytest.mark.parametrize("budget", [None, 8])
def test_one_member_is_the_literal_prank(budget):
    """With explicit features, and as an expansion with a budget."""
    literal = LiteralPRank(_rbf, budget) if budget else LiteralPRank()
    expected = [literal.learn(x, y) for x, y in zip(X, Y, strict=True)]
    model = PRank(K, kernel=ExpSquared(0.8), budget=budget) if budget else PRank(K)
    np.testing.assert_array_equal(model.prequential(X, Y), expected)
    np.testing.assert_array_equal(model.thresholds_, literal.c)
    np.testing.assert_array_equal(model.predict(X), [literal.predict(x) for x in X])
    scores = [literal.score(x) for x in X]
    np.testing.assert_allclose(model.decision_function(X), scores, atol=1e-10)
    if budget is None:
        np.testing.assert_allclose(model.coef_, literal.w, rtol=1e-12)
        return
    stored = np.array(literal.support)
    assert len(model.coef_) == len(stored)
    np.testing.assert_array_equal(
        model.support_[np.lexsort(model.support_.T)], stored[np.lexsort(stored.T)]
    )


@pytest.mark.parametrize(("sampling", "tau"), [("bernoulli", 0.4), ("poisson", 1.0)])
def test_ensembles_are_algorithm_2_and_its_variants(sampling: Any, tau: float):
    """Members, averages and votes from literal PRanks, each shown its part of the stream.

    Poisson with a mean of one is Oza's bagging.
    """
    shown = _shown_to(tau, poisson=sampling == "poisson")
    members, votes = [LiteralPRank() for _ in range(N)], np.zeros(N)
    bayes_point, bagging, voted = [], [], []
    for t, (x, y) in enumerate(zip(X, Y, strict=True)):
        mean_w = sum(m.w for m in members) / N
        mean_c = np.mean([m.c for m in members], axis=0)
        score = mean_w @ x
        bayes_point.append(min(r for r in range(1, K + 1) if r == K or score < mean_c[r - 1]))
        ranks = np.array([m.predict(x) for m in members])
        bagging.append(ranks.mean())
        voted.append(votes @ ranks / votes.sum() if votes.any() else ranks.mean())
        for j in np.repeat(np.arange(N), shown[t]):
            votes[j] += members[j].learn(x, y) == y
    models = [cls(K, N, tau, SEED, sampling=sampling) for cls in (OAPBPM, OAPBagging, OAPVoted)]
    for model, expected in zip(models, (bayes_point, bagging, voted), strict=True):
        np.testing.assert_allclose(model.prequential(X, Y, rounded=False), expected, rtol=1e-12)
    point, bag, vote = models
    np.testing.assert_allclose(point.coef_, sum(m.w for m in members) / N, rtol=1e-12)
    np.testing.assert_allclose(point.thresholds_, np.mean([m.c for m in members], axis=0))
    np.testing.assert_allclose(bag.coef_, [m.w for m in members], rtol=1e-12)
    np.testing.assert_array_equal(vote.thresholds_, [m.c for m in members])
    np.testing.assert_array_equal(vote.state_.votes, votes)
    ranks = np.array([[m.predict(x) for m in members] for x in X])
    np.testing.assert_allclose(bag.decision_function(X), ranks.mean(1))
    np.testing.assert_allclose(vote.decision_function(X), ranks @ votes / votes.sum())
    np.testing.assert_array_equal(bag.predict(X), np.floor(ranks.mean(1) + 0.5))


@pytest.mark.parametrize(("budget", "eta"), [(None, 0.05), (8, 0.2)])
def test_widrow_hoff_is_its_formula(budget, eta):
    """With a kernel it keeps its last errors."""
    product, support, steps, scores = _rbf if budget else np.dot, [], [], []

    def score(x):
        return sum(a * product(s, x) for a, s in zip(steps, support, strict=True))

    for x, y in zip(X, Y, strict=True):
        scores.append(score(x))
        if len(support) == budget:
            del support[0], steps[0]
        support.append(x)
        steps.append(eta * (y - scores[-1]))
    model = WidrowHoff(K, eta)
    if budget:
        model = WidrowHoff(K, eta, kernel=ExpSquared(0.8), budget=budget)
    np.testing.assert_allclose(model.prequential(X, Y, rounded=False), scores, atol=1e-9)
    expected = np.array([score(x) for x in X])
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-9)
    coef = np.sort(steps) if budget else np.array(steps) @ np.array(support)
    np.testing.assert_allclose(np.sort(model.coef_) if budget else model.coef_, coef)
    nearest = np.abs(np.arange(1, K + 1) - expected[:, None]).argmin(1) + 1
    np.testing.assert_array_equal(model.predict(X), nearest)
    np.testing.assert_array_equal(model.thresholds_, [1.5, 2.5, 3.5])


def test_members_are_shown_independent_parts_of_the_stream():
    shown = _shown_to(0.3, 4000, 6).astype(float)
    assert abs(shown.mean() - 0.3) < 4 * np.sqrt(0.21 / shown.size)
    correlation = np.corrcoef(shown.T) - np.eye(6)
    assert np.abs(correlation).max() < 5 / np.sqrt(4000)
    successive = np.corrcoef(shown[:-1].ravel(), shown[1:].ravel())[0, 1]
    assert abs(successive) < 5 / np.sqrt(shown.size)
    assert _shown_to(1.0).all()
    often = _shown_to(1.0, 4000, 6, poisson=True)
    assert often.mean() == pytest.approx(1.0, abs=0.03)
    assert often.var() == pytest.approx(1.0, abs=0.06)
    with pytest.raises(ValueError, match="sampling is 'often'; choose 'bernoulli' or 'poisson'"):
        OAPBagging(K).set_params(sampling="often").partial_fit(X, Y)


streams = st.lists(
    st.tuples(st.tuples(*[st.integers(-3, 3)] * D), st.integers(1, K)), min_size=16, max_size=16
)


@settings(max_examples=60, deadline=None)
@given(streams, st.integers(0, 2**31))
def test_thresholds_stay_in_order_after_every_update(stream, seed):
    rows, levels = (np.array(part) for part in zip(*stream, strict=True))
    one = np.float64(0.6)
    after, records = learn_block(
        init_members(N, K, D), rows * 1.0, levels, np.int64(16), np.int64(seed), one
    )
    history = np.concatenate([records.thresholds, np.asarray(after.thresholds)[None]])
    assert (np.diff(history, axis=1) >= 0).all()
    assert (np.diff(history.mean(2), axis=1) >= 0).all()


@pytest.mark.parametrize(
    ("degree", "sigma", "scale"), [(1, 1.0, 1.0), (2, 1.0, 1.0), (3, 0.7, 2.0)]
)
def test_explicit_features_are_the_polynomial_kernel(degree, sigma, scale):
    kernel = Polynomial(order=degree, sigma=sigma, scale=scale)
    features = polynomial_features(X, degree, sigma=sigma, scale=scale)
    np.testing.assert_allclose(
        features @ features.T, kernel(jnp.asarray(X), jnp.asarray(X)), rtol=1e-10, atol=1e-12
    )
    assert features.shape[1] == FeatureMap(degree, sigma, scale).count(D)
    without = polynomial_features(X, degree, sigma=0.0)
    np.testing.assert_allclose(without @ without.T, (X @ X.T) ** degree, atol=1e-10)
    assert without.shape[1] == FeatureMap(degree, 0.0).count(D)
    np.testing.assert_array_equal(
        features[:1], polynomial_features(X[:1], degree, sigma=sigma, scale=scale)
    )


def test_explicit_features_are_chosen_where_they_are_cheaper():
    quadratic = Polynomial(order=2, sigma=1.0)
    assert feature_map(quadratic, 3, 10) == FeatureMap(2, 1.0, 1.0)
    assert feature_map(quadratic, 3, 9) is None
    assert feature_map(DotProduct(), 3, 1) == feature_map(None, 3, 1) == FeatureMap()
    assert feature_map(ExpSquared(), 3, 10**9) is None
    assert feature_map(Polynomial(order=1.5), 3, 10**9) is None
    with pytest.raises(ValueError, match="degree is 0; pass a whole number from 1 on"):
        polynomial_features(X, 0)


def test_voted_prank_weighs_every_rule_by_its_right_predictions():
    literal, expected = LiteralVotes(), []
    for x, y in zip(X, Y, strict=True):
        expected.append(literal.vote(x))
        literal.learn(x, y)
    model = VotedPRank(K)
    np.testing.assert_allclose(model.prequential(X, Y, rounded=False), expected, rtol=1e-12)
    np.testing.assert_allclose(model.decision_function(X), [literal.vote(x) for x in X])
    votes = [rule[0] for rule in literal.past]
    np.testing.assert_array_equal(model.state_.votes, votes)
    np.testing.assert_array_equal(
        model.thresholds_, [*(rule[1] for rule in literal.past), literal.c]
    )
    rules = [np.array(rule[2]) @ np.array(rule[3]) for rule in literal.past]
    np.testing.assert_allclose(model.coef_, [*rules, literal.w], atol=1e-12)
    few = VotedPRank(K, budget=2).partial_fit(X, Y)
    best = sorted(range(len(votes)), key=lambda i: (-votes[i], i))[:2]
    np.testing.assert_array_equal(few.state_.votes, [votes[i] for i in sorted(best)])


def test_stored_examples_and_explicit_features_are_the_same():
    kernel = Polynomial(order=2, sigma=1.0)
    copies: Any = clone([OAPBagging(K, N, budget=60)] * 2)
    explicit = copies[0].set_params(kernel=kernel).partial_fit(X, Y)
    stored = copies[1].set_params(kernel=1.0 * kernel).partial_fit(X, Y)
    assert explicit.coef_.shape[1] == 10 and not len(explicit.support_)
    assert stored.coef_.shape[1] == len(stored.support_) > 0
    np.testing.assert_array_equal(explicit.thresholds_, stored.thresholds_)
    np.testing.assert_allclose(explicit.decision_function(X), stored.decision_function(X))
