"""`CalibratedPerceptron` against a literal transcription of the paper's Algorithm 1."""

from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from refusals import refused
from sklearn.linear_model import LogisticRegression

from bayesrank import metrics
from bayesrank.online import (
    CalibratedPerceptron,
    LabelConstraints,
    constraint_loss,
    expand_constraints,
)


def stream(seed, n=120, c=4, d=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    utility = X @ rng.normal(size=(d, c)) + 0.5 * rng.normal(size=(n, c))
    return X, [[int(a) for a in np.argsort(-row) if row[a] > 0] for row in utility]


def bucket_scores(y, c):
    """Scores of the labels and the zero: higher for what comes earlier."""
    length = len(y)
    return [-y.index(a) if a in y else -length - 1 for a in range(c)] + [-length]


def algorithm_1(X, targets, c, pairs, relevant, loss):
    """As printed, but for the names: alternative 0 of the paper is the last one here."""
    w = np.zeros((c + 1, X.shape[1]))
    distance = {"kendall": metrics.kendall_distance, "footrule": metrics.spearman_footrule}[loss]
    updates = 0
    for x, y in zip(X, targets, strict=True):
        inner = w @ x
        h = sorted((a for a in range(c) if inner[a] > 0), key=lambda a: (-inner[a], a))
        lost = distance(bucket_scores(h, c), bucket_scores(y, c)).mean
        if lost > 0:
            beta, broken = np.zeros(c), 0
            R = list(zip(y[:-1], y[1:], strict=True)) if pairs == "adjacent" else combinations(y, 2)
            P = y[-1:] if relevant == "lowest" else y
            N = [a for a in range(c) if a not in y]
            for r, s in [*R, *((r, s) for r in P for s in N)]:
                if inner[r] <= inner[s]:
                    beta[r] += 1
                    beta[s] -= 1
                    broken += 1
            for r in P:
                if inner[r] <= 0:
                    beta[r] += 1
                    broken += 1
            for r in N:
                if inner[r] >= 0:
                    beta[r] -= 1
                    broken += 1
            assert broken > 0
            updates += 1
            w[:c] += lost * beta[:, None] / broken * x
    return w[:c], updates


@pytest.mark.parametrize("pairs", ["adjacent", "all"])
@pytest.mark.parametrize("relevant", ["all", "lowest"])
@pytest.mark.parametrize("loss", ["kendall", "footrule"])
def test_it_is_algorithm_1(pairs, relevant, loss):
    X, y = stream(0)
    model = CalibratedPerceptron(4, pairs=pairs, relevant=relevant, loss=loss)
    model.partial_fit(X[:50], y[:50]).partial_fit(X[50:], y[50:])
    weights, updates = algorithm_1(X, y, 4, pairs, relevant, loss)
    assert_allclose(model.coef_, weights, atol=1e-12)
    assert (model.n_updates_, model.n_seen_) == (updates, 120)
    inner = X[:20] @ weights.T
    expected = [
        sorted((a for a in range(4) if row[a] > 0), key=lambda a, row=row: -row[a]) for row in inner
    ]
    assert model.predict(X[:20]) == expected


def general_targets(X, seed=0, c=4):
    """Random parts of what a linear ranking of labels and zero says."""
    rng = np.random.default_rng(seed)
    utility = X @ rng.normal(size=(X.shape[1], c))
    targets = []
    for row in utility:
        known = rng.permutation(c)[: rng.integers(0, c + 1)].tolist()
        pairs = [(r, s) for r, s in combinations(range(c), 2) if rng.random() < 0.3]
        targets.append(
            LabelConstraints(
                [(r, s) if row[r] > row[s] else (s, r) for r, s in pairs],
                [a for a in known if row[a] > 0],
                [a for a in known if row[a] <= 0],
            )
        )
    return targets


def constraints_of(target):
    """Constraints as pairs of alternatives, None being the zero."""
    P, N = target.positive, target.negative
    pairs = {*target.preferred, *((r, s) for r in P for s in N)}
    return [*pairs, *((r, None) for r in P), *((None, s) for s in N)]


def test_general_targets_follow_algorithm_1_with_the_share_broken_as_loss():
    X = np.random.default_rng(0).normal(size=(90, 3))
    targets = general_targets(X)
    w = np.zeros((4, 3))
    for x, target in zip(X, targets, strict=True):
        value = {None: 0.0, **dict(enumerate(w @ x))}
        wanted = constraints_of(target)
        broken = [(r, s) for r, s in wanted if value[r] <= value[s]]
        loss = len(broken) / max(len(wanted), 1)
        assert constraint_loss((w @ x)[None], [target])[0] == pytest.approx(loss)
        for r, s in broken:
            if r is not None:
                w[r] += loss / len(broken) * x
            if s is not None:
                w[s] -= loss / len(broken) * x
    even = LabelConstraints([(2, 3)], [0], [1])  # a constraint that just holds is broken
    assert constraint_loss(np.zeros((1, 4)), [even])[0] == 1.0
    refused("utility is nan in row 0", constraint_loss, np.full((1, 4), np.nan), [even])
    with pytest.raises(ValueError, match="utility has 1 rows; pass one for each of 2"):
        constraint_loss(np.zeros((1, 4)), [even, even])
    model = CalibratedPerceptron(4).partial_fit(X[:40], targets[:40])
    model.partial_fit(X[40:], targets[40:])
    assert_allclose(model.coef_, w, atol=1e-12)
    model.fit(X, [[0]] * 90).partial_fit(X, targets)  # rankings and constraints take turns
    assert model.n_seen_ == 180


def test_the_expansion_is_that_of_the_paper_and_any_linear_learner_ranks_by_it():
    X = np.random.default_rng(1).normal(size=(60, 3))
    targets = general_targets(X, 1)
    rows, signs = expand_constraints(X, targets, 4)
    expected = []
    for x, target in zip(X, targets, strict=True):
        for r, s in constraints_of(target):
            z = np.zeros(12)
            if r is not None:
                z[3 * r : 3 * r + 3] = x
            if s is not None:
                z[3 * s : 3 * s + 3] = -x
            expected += [(1, *z), (-1, *-z)]
    found = np.c_[signs, rows.toarray()]
    assert_allclose(
        found[np.lexsort(found.T)], np.array(expected)[np.lexsort(np.array(expected).T)]
    )
    learner = LogisticRegression(C=1e6, fit_intercept=False, max_iter=2000).fit(rows, signs)
    assert constraint_loss(X @ learner.coef_.reshape(4, 3).T, targets).max() == 0.0


def test_a_ranking_is_constraints_and_contradictions_are_refused():
    target = LabelConstraints.of_ranking([2, 0], 4)
    assert target == ([(2, 0)], [2, 0], [1, 3])
    for wrong, message in [
        (LabelConstraints([(0, 1), (1, 2), (2, 0)]), "contradicts itself in row 1"),
        (LabelConstraints([(1, 0)], [0], [1]), "contradicts itself in row 1"),
        (LabelConstraints((), [0], [0]), "contradicts itself in row 1"),
        (LabelConstraints([(0, 4)]), r"has labels \[0, 4\] in row 1; they are numbered 0 to 3"),
        ([0], "has 1 LabelConstraints among 2 entries"),
    ]:
        refused(message, CalibratedPerceptron(4).partial_fit, np.eye(2), [target, wrong])


def test_fit_forgets_and_arrays_are_padded_by_minus_one():
    X, y = stream(1)
    table = np.full((len(y), 4), -1)
    for row, labels in zip(table, y, strict=True):
        row[: len(labels)] = labels
    model = CalibratedPerceptron(4).fit(X, y)
    again = CalibratedPerceptron(4).fit(X[::-1], y[::-1]).fit(X, table)
    np.testing.assert_array_equal(model.coef_, again.coef_)
    assert again.n_seen_ == len(y)


@pytest.mark.parametrize(
    ("options", "y", "message"),
    [
        ({}, [[0]], "y has 1 entries; pass one for each of the 2"),
        ({}, [[0], [4]], "y has label 4 in row 1; they are numbered 0 to 3"),
        ({}, [[0], [-1]], "y has label -1 in row 1"),
        ({}, [[0, 0], [1]], "names a label twice in row 0"),
        ({}, None, "y has 0 entries; pass one for each of the 2"),
        ({}, np.eye(2) > 0, "not whole numbers"),
        ({}, [["a"], [1]], "not whole numbers"),
        ({"pairs": "some"}, [[0], [1]], "pairs is 'some'; choose 'adjacent' or 'all'"),
        ({"loss": "zero"}, [[0], [1]], "loss is 'zero'; choose 'kendall' or 'footrule'"),
    ],
)
def test_refuses(options, y, message):
    refused(message, CalibratedPerceptron(4, **options).partial_fit, np.eye(2), y)


def test_refuses_other_streams_and_overflow():
    model = CalibratedPerceptron(2).partial_fit(np.eye(2), [[0], [1]])
    before = model.coef_.copy()
    with pytest.raises(ValueError, match="3 columns, but the examples before had 2"):
        model.partial_fit(np.eye(3), [[0], [1], []])
    with pytest.raises(ValueError, match="but 2 labels have been learned"):
        model.set_params(num_labels=3).partial_fit(np.eye(2), [[0], [1]])
    np.testing.assert_array_equal(model.coef_, before)


def test_a_saved_state_is_continued_exactly(tmp_path):
    X, y = stream(2)
    model = CalibratedPerceptron(4, loss="footrule").partial_fit(X[:70], y[:70])
    model.save(tmp_path / "state.npz")
    loaded = CalibratedPerceptron.load(tmp_path / "state.npz")
    assert loaded.loss == "footrule" and loaded.n_seen_ == 70
    assert loaded.predict(X[70:]) == model.predict(X[70:])
    for learner in (model, loaded):
        learner.partial_fit(X[70:], y[70:])
    np.testing.assert_array_equal(loaded.coef_, model.coef_)
    assert loaded.n_updates_ == model.n_updates_
