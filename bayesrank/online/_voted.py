"""The voted perceptron, with PRank for the perceptron."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted
from tinygp.kernels import Kernel

from bayesrank.online._base import RECORD_BYTES, Array, Block, OnlineRanker
from bayesrank.online._features import FeatureMap, feature_map
from bayesrank.online._members import init_members, learn_block
from bayesrank.online._validate import check_count

__all__ = ["VotedPRank"]


class Ballots(NamedTuple):
    """The rule at work, and those that it replaced.

    Attributes
    ----------
    weights, thresholds, votes
        Of the past rules, shapes (m, D), (m, k - 1) and (m,); votes count right predictions.
    born
        Number of the example after which each past rule came about, shape (m,).
    now_weights, now_thresholds, now_born
        Of the rule at work.
    seen
        Number of examples.
    """

    weights: Any
    thresholds: Any
    votes: Any
    born: Any
    now_weights: Any
    now_thresholds: Any
    now_born: Any
    seen: Any


class Path(NamedTuple):
    """The rule at work as it met each example of a block.

    Attributes
    ----------
    X
        Examples, shape (B, D).
    weights, thresholds
        Before each example, shapes (B + 1, D) and (B + 1, k - 1); the last ones after all.
    mistaken
        Whether it was wrong, shape (B + 1,).
    """

    X: Any
    weights: Any
    thresholds: Any
    mistaken: Any


class VotedPRank(OnlineRanker):
    r"""PRank whose every rule is kept, and votes by how long it lasted.

    After each mistake the rule changes, and the old one is kept with the number of levels
    :math:`v_i` that it predicted rightly. The prediction is the weighted average of the ranks,
    :math:`\sum_i v_i h_i(x) / \sum_i v_i`, a real number: see ``rounded`` in `predict`.

    Parameters
    ----------
    n_levels : int
        Number of levels, at least 2.
    kernel : Kernel, optional
        None, or a polynomial kernel of tinygp, which is used through explicit features.
    budget : int, optional, default 10000
        Number of past rules that are kept: those with most votes, of equals the older ones. None
        keeps all, in memory that grows with each mistake. Rules without a vote are never kept.

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
        self, n_levels: int, *, kernel: Kernel | None = None, budget: int | None = 10_000
    ) -> None:
        self.n_levels = n_levels
        self.kernel = kernel
        self.budget = budget

    def _explicit(self, n_features: int) -> FeatureMap:
        explicit = feature_map(self.kernel, n_features, RECORD_BYTES)
        if explicit is None:
            raise ValueError(
                f"`kernel` is {self.kernel!r}; the voted perceptron keeps weights: pass None or a "
                "polynomial kernel."
            )
        return explicit

    def _init_state(self, n_features: int) -> Ballots:
        if self.budget is not None:
            check_count(self.budget, "budget")
        size, edges = self._explicit(n_features).count(n_features), self.n_levels - 1
        past = np.zeros((0, size)), np.zeros((0, edges)), np.zeros(0), np.zeros(0, np.int64)
        return Ballots(*past, np.zeros(size), np.zeros(edges), np.int64(0), np.int64(0))

    def _expand(self, X: Array) -> Array:
        return self._explicit(X.shape[1])(X)

    def _record_width(self, n_features: int) -> int:
        return self._explicit(n_features).count(n_features) + self.n_levels + 1

    def _learn(self, state: Ballots, block: Block) -> tuple[Ballots, Path]:
        count = int(block.count)
        start = init_members(1, self.n_levels, block.X.shape[1])
        start = start._replace(
            weights=np.asarray(state.now_weights)[:, None],
            thresholds=np.asarray(state.now_thresholds)[:, None],
            seen=np.asarray(state.seen),
        )
        after, records = learn_block(start, *block, np.int64(0), np.float64(1.0), keep_weights=True)
        votes = np.append(np.asarray(records.votes)[:count, 0], np.asarray(after.votes))
        path = Path(
            np.asarray(block.X),
            np.concatenate([records.weights[:count, :, 0], np.asarray(after.weights).T]),
            np.concatenate([records.thresholds[:count, :, 0], np.asarray(after.thresholds).T]),
            np.append(np.diff(votes) == 0.0, False),
        )
        return self._walk(state, path, count), path

    def _walk(self, state: Ballots, path: Path, count: int) -> Ballots:
        """Follow the rule for a number of examples, and keep the rules that it gave up."""
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
        keep = np.lexsort((past[3], -past[2]))[: self.budget]
        keep = np.sort(keep[past[2][keep] > 0.0])
        return Ballots(
            *(values[keep] for values in past),
            now_weights=path.weights[count],
            now_thresholds=path.thresholds[count],
            now_born=born[-1],
            seen=np.int64(seen + count),
        )

    def _met(self, state: Ballots, records: Path) -> Array:
        rows = records.X
        votes = [self._vote(self._walk(state, records, i), rows[[i]]) for i in range(len(rows))]
        return np.concatenate(votes)

    def _foresee(self, X: Array) -> Array:
        return self._vote(self.state_, X)

    def _vote(self, state: Ballots, X: Array) -> Array:
        weights = np.concatenate([state.weights, state.now_weights[None]])
        thresholds = np.concatenate([state.thresholds, state.now_thresholds[None]])
        votes = np.append(state.votes, float(state.seen - state.now_born))
        votes = votes if votes.any() else np.ones(1)  # before the first right prediction
        predictions = np.empty(len(X))
        for i, scores in enumerate(X @ weights.T):
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
        """Thresholds of the rules, the one at work last, shape (m, n_levels - 1)."""
        check_is_fitted(self, "state_")
        return np.concatenate([self.state_.thresholds, self.state_.now_thresholds[None]])

    def decision_function(self, X: ArrayLike) -> Array:
        """Weighted average of the rules' ranks, a real number; shape (n,).

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features.

        Raises
        ------
        NotFittedError
            If nothing has been learned.
        ValueError
            If the examples cannot be used.
        """
        return self._foresee(self._known_rows(X))
