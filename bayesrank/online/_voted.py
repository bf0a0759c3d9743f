"""The voted perceptron, with PRank for the perceptron."""

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted
from tinygp.kernels import Kernel

from bayesrank._validate import check_count
from bayesrank.online._base import LARGE, Array, ExampleBlock, OnlineRanker, check_kernel
from bayesrank.online._kernel_form import FeatureMap, feature_map
from bayesrank.online._members import init_members, learn_block


class Ballots(NamedTuple):
    """The rule at work, and those that it replaced."""

    weights: Any  # of the past rules, (m, D)
    thresholds: Any  # (m, k - 1)
    votes: Any  # right predictions, (m,)
    born: Any  # number of the example after which each came about, (m,)
    now_weights: Any
    now_thresholds: Any
    now_born: Any
    seen: Any  # number of examples


class Path(NamedTuple):
    """The rule at work as it met each example of a block."""

    X: Any  # explicit features, (B, D)
    weights: Any  # before each example, and after all, (B + 1, D)
    thresholds: Any  # the same, (B + 1, k - 1)
    mistaken: Any  # whether it was wrong, (B + 1,)


class VotedPRank(OnlineRanker):
    r"""PRank that keeps every rule, which votes by how long it lasted.

    After each mistake the rule changes, and the old one stays with the number of levels :math:`v_i`
    that it predicted rightly. The prediction is the weighted average of the ranks,
    :math:`\sum_i v_i h_i(x) / \sum_i v_i`, a real number: see ``rounded`` in `predict`.

    Parameters
    ----------
    num_levels : int
        Number of levels, at least 2.
    kernel : Kernel, optional
        A kernel with finitely many features, such as a tinygp ``Polynomial``; by default the
        features as they are.
    budget : int, optional, default 10000
        Number of past rules to keep: those with most votes, of equals the older ones. None keeps
        all, in memory that grows with each mistake. Rules without a vote are never kept.

    References
    ----------
    .. [1] Freund, Y. and Schapire, R. E. (1999). Large margin classification using the perceptron
       algorithm. Machine Learning, 37, 277-296.
    .. [2] Harrington, E. F. (2003). Online ranking/collaborative filtering using the perceptron
       algorithm. ICML, section 3.1.

    Examples
    --------
    >>> from bayesrank.online import VotedPRank
    >>> model = VotedPRank(3).partial_fit([[-1.0], [0.1], [1.0]] * 20, [1, 2, 3] * 20)
    >>> model.predict([[-2.0], [0.1], [2.0]])
    array([1, 2, 3])
    """

    def __init__(
        self,
        num_levels: int,
        *,
        kernel: Kernel | None = None,
        budget: int | None = 10_000,
    ) -> None:
        self.num_levels = num_levels
        self.kernel = kernel
        self.budget = budget

    def _explicit(self, num_features: int) -> FeatureMap:
        features = feature_map(check_kernel(self.kernel), num_features, None)
        if features is None:
            raise ValueError(
                "kernel has no finite features, which VotedPRank needs; take a polynomial kernel, "
                "or PRank or OAPVoted"
            )
        return features

    def _init_state(self, num_features: int) -> Ballots:
        if self.budget is not None:
            check_count(self.budget, "budget")
        width = self._explicit(num_features).count(num_features)
        edges = self.num_levels - 1
        past = np.zeros((0, width)), np.zeros((0, edges)), np.zeros(0), np.zeros(0, np.int64)
        return Ballots(*past, np.zeros(width), np.zeros(edges), np.int64(0), np.int64(0))

    def _record_width(self, num_features: int) -> int:
        return self._explicit(num_features).count(num_features) + self.num_levels + 1

    def _expand(self, X: Array) -> Array:
        return self._explicit(X.shape[1])(X)

    def _learn(self, state: Ballots, block: ExampleBlock) -> tuple[Ballots, Path]:
        count = int(block.count)
        members = init_members(1, self.num_levels, block.X.shape[1], 0)
        members.weights[:, 0], members.thresholds[:, 0] = state.now_weights, state.now_thresholds
        after, records = learn_block(
            members._replace(seen=np.asarray(state.seen)),
            *block,
            np.int64(0),
            np.float64(1.0),
            None,
            keep_weights=True,
        )
        votes = np.append(np.asarray(records.votes)[:count, 0], np.asarray(after.votes))
        path = Path(
            np.asarray(block.X),
            np.concatenate([records.weights[:count, :, 0], np.asarray(after.weights).T]),
            np.concatenate([records.thresholds[:count, :, 0], np.asarray(after.thresholds).T]),
            np.append(np.diff(votes) == 0.0, False),
        )
        return self._walk(state, path, count), path

    def _walk(self, state: Ballots, path: Path, count: int) -> Ballots:
        """Keep the rules given up in `count` examples."""
        ends = np.flatnonzero(path.mistaken[:count])
        seen = int(state.seen)
        born = np.append(int(state.now_born), seen + ends + 1)
        votes = (np.append(seen + ends, seen + count) - born).astype(float)
        past = (
            np.concatenate([state.weights, path.weights[ends]]),
            np.concatenate([state.thresholds, path.thresholds[ends]]),
            np.concatenate([state.votes, votes[:-1]]),
            np.concatenate([state.born, born[:-1]]),
        )
        keep = np.sort(np.lexsort((past[3], -past[2]))[: self.budget])
        keep = keep[past[2][keep] > 0.0]
        now = path.weights[count], path.thresholds[count], born[-1], np.int64(seen + count)
        return Ballots._make([*(values[keep] for values in past), *now])

    def _met(self, state: Ballots, records: Path) -> Array:
        rules = (self._walk(state, records, i) for i in range(len(records.X)))
        votes = (self._vote(rule, row[None]) for rule, row in zip(rules, records.X, strict=True))
        return np.concatenate([np.zeros(0), *votes])

    def _foresee(self, X: Array) -> Array:
        parts = (X[start : start + LARGE] for start in range(0, len(X), LARGE))
        return np.concatenate([np.zeros(0), *(self._vote(self.state_, rows) for rows in parts)])

    def _vote(self, state: Ballots, rows: Array) -> Array:
        """Average the ranks by the past rules and the one at work."""
        thresholds = np.concatenate([state.thresholds, state.now_thresholds[None]])
        votes = np.append(state.votes, float(state.seen - state.now_born))
        votes = votes if votes.any() else np.ones(1)  # before the first right prediction
        predictions = np.empty(len(rows))
        weights = np.concatenate([state.weights, state.now_weights[None]])
        for i, scores in enumerate(rows @ weights.T):
            ranks = 1.0 + (scores[:, None] >= thresholds).sum(1)
            predictions[i] = votes @ ranks / votes.sum()
        return predictions

    @property
    def coef_(self) -> Array:
        """Weights of the rules, the one at work last, shape (m, D)."""
        check_is_fitted(self, "state_")
        return np.concatenate([self.state_.weights, self.state_.now_weights[None]])

    @property
    def thresholds_(self) -> Array:
        """Thresholds of the rules, the one at work last, shape (m, num_levels - 1)."""
        check_is_fitted(self, "state_")
        return np.concatenate([self.state_.thresholds, self.state_.now_thresholds[None]])
