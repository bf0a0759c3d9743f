"""The voted perceptron, with PRank for the perceptron."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from tinygp.kernels import Kernel

from bayesrank._sizes import next_size
from bayesrank._validate import check_count
from bayesrank.online._base import Array, ExampleBlock
from bayesrank.online._blocks import LARGE, SMALL
from bayesrank.online._kernel_form import KernelRanker
from bayesrank.online._members import Members, init_members, learn_block
from bayesrank.online._store import Store, kernel_rows


class Ballots(NamedTuple):
    """The rule at work, and those that it replaced; without weights (D = 0) in the kernel form."""

    weights: Any  # of the past rules, (m, D)
    thresholds: Any  # (m, k - 1)
    votes: Any  # right predictions, (m,)
    born: Any  # number of the example after which each came about, (m,)
    now_weights: Any
    now_thresholds: Any
    now_born: Any
    seen: Any  # number of examples
    support: Any  # the last 2 budget stored examples in their order, (M, d)
    coefficients: Any  # (M,)
    stamps: Any  # numbers of the examples, (M,)
    slots: Any  # that they have in the rule at work, (M,)


class Path(NamedTuple):
    """The rule at work as it met each example of a block."""

    X: Any  # explicit features, (B, D), or examples, (B, d)
    weights: Any  # before each example, and after all, (B + 1, D)
    thresholds: Any  # the same, (B + 1, k - 1)
    mistaken: Any  # whether it was wrong, (B + 1,)


class VotedPRank(KernelRanker):
    r"""PRank that keeps every rule, which votes by how long it lasted.

    After each mistake the rule changes, and the old one stays with the number of levels :math:`v_i`
    that it predicted rightly. The prediction is the weighted average of the ranks,
    :math:`\sum_i v_i h_i(x) / \sum_i v_i`, a real number: see ``rounded`` in `predict`.

    Parameters
    ----------
    num_levels : int
        Number of levels, at least 2.
    kernel : Kernel, optional
        As for `PRank`.
    budget : int, optional, default 10000
        Number of past rules to keep: those with most votes, of equals the older ones. None keeps
        all, in memory that grows with each mistake. Rules without a vote are never kept. In the
        kernel form it is the number of examples that a rule may have, and not None; the oldest
        leaves for the next. As many that have left stay for past rules: a rule leaves when one of
        its examples is not among them.

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

    def _init_state(self, num_features: int) -> Ballots:
        slots, edges = self._slots(num_features), self.num_levels - 1
        width = 0 if slots else self._width(num_features)
        past = np.zeros((0, width)), np.zeros((0, edges)), np.zeros(0), np.zeros(0, np.int64)
        now = np.zeros(width), np.zeros(edges), np.int64(0)
        store = np.zeros((0, num_features)), np.zeros(0), *[np.zeros(0, np.int64)] * 2
        return Ballots(*past, *now, np.int64(0), *store)

    @property
    def _most(self) -> int:
        """Number of stored examples that a rule may have."""
        return check_count(self.budget, "budget")

    @property
    def _stored(self) -> bool:
        return not len(self.state_.now_weights)

    def _record_width(self, num_features: int) -> int:
        explicit = self._explicit(num_features)
        return (0 if explicit is None else explicit.count(num_features)) + self.num_levels + 1

    def _learn(self, state: Ballots, block: ExampleBlock) -> tuple[Ballots, Path]:
        count, stored = int(block.count), not len(state.now_weights)
        after, records = learn_block(
            self._members(state, block.X.shape[1]),
            *block,
            np.int64(0),
            np.float64(1.0),
            self.kernel if stored else None,
            keep_weights=not stored,
        )
        votes = np.append(np.asarray(records.votes)[:count, 0], np.asarray(after.votes))
        last = np.asarray(after.weights).T[:, : len(state.now_weights)]
        path = Path(
            np.asarray(block.X),
            np.concatenate([records.weights[:count, :, 0], last]),
            np.concatenate([records.thresholds[:count, :, 0], np.asarray(after.thresholds).T]),
            np.append(np.diff(votes) == 0.0, False),
        )
        return self._walk(state, path, count)[0], path

    def _members(self, state: Ballots, num_features: int) -> Members:
        """Return the rule at work as the only member of an ensemble."""
        budget = 0 if len(state.now_weights) else self._most
        members = init_members(1, self.num_levels, num_features, budget)
        if budget:
            here = state.slots[-budget:]
            members.weights[here, 0] = state.coefficients[-budget:]
            members.support[here], members.stamps[here] = (
                values[-budget:] for values in (state.support, state.stamps)
            )
        else:
            members.weights[:, 0] = state.now_weights
        members.thresholds[:, 0] = state.now_thresholds
        return members._replace(seen=np.asarray(state.seen))

    def _walk(self, state: Ballots, path: Path, count: int) -> tuple[Ballots, int]:
        """Keep the rules given up in `count` examples; return how many stored ones are dropped."""
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
        store, first = _store(state), 0
        if len(state.now_weights):
            keep = np.sort(np.lexsort((past[3], -past[2]))[: self.budget])
        else:
            # Thresholds move by minus one for each step of the weights.
            steps = (path.thresholds[ends] - path.thresholds[ends + 1]).sum(1)
            last = state.slots[-1] if len(state.slots) else -1
            slots = (last + 1 + np.arange(len(ends))) % self._most
            new = path.X[ends], steps, born[1:], slots
            store = [np.concatenate(pair) for pair in zip(store, new, strict=True)]
            first = max(0, len(store[0]) - 2 * self._most)
            ends_at = np.searchsorted(store[2], past[3], side="right")
            keep = np.flatnonzero((ends_at >= first + self._most) | (first == 0))
            store = [values[first:] for values in store]
        keep = keep[past[2][keep] > 0.0]
        now = path.weights[count], path.thresholds[count], born[-1], np.int64(seen + count)
        return Ballots._make([*(values[keep] for values in past), *now, *store]), first

    def _met(self, state: Ballots, records: Path) -> Array:
        votes, stored = [np.zeros(0)], not len(state.now_weights)
        support = np.concatenate([state.support, records.X[records.mistaken]]) if stored else None
        for start, rows in self._parts(support, records.X):
            for i, row in enumerate(rows, start):
                now, first = self._walk(state, records, i)
                row = row[first : first + len(now.stamps)] if stored else row
                votes.append(self._vote(now, row[None]))
        return np.concatenate(votes)

    def _foresee(self, X: Array) -> Array:
        parts = self._parts(self.state_.support if self._stored else None, X)
        return np.concatenate([np.zeros(0), *(self._vote(self.state_, rows) for _, rows in parts)])

    def _parts(self, support: Array | None, X: Array) -> Iterator[tuple[int, Array]]:
        """Cut examples into parts: explicit features, or kernels with the stored examples."""
        size = LARGE if support is None else SMALL
        for start in range(0, len(X), size):
            part = X[start : start + size]
            yield start, part if support is None else self._kernels(support, part)

    def _kernels(self, support: Array, X: Array) -> Array:
        """Kernel of each example with the stored ones, in arrays of few shapes."""
        count = len(support)
        padded = np.zeros((next_size(count, 16), X.shape[1]))
        padded[:count] = support
        stamps = np.arange(len(padded)) < count
        kernel: Any = self.kernel
        with jax.enable_x64(True):
            return kernel_rows(kernel, Store(padded, stamps), X)[:, :count]

    def _spans(self, state: Ballots) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Beginning and end of each rule's stored examples, the one at work last; (m + 1,) each."""
        end = np.searchsorted(state.stamps, np.append(state.born, state.now_born), side="right")
        return np.maximum(end - self._most, 0), end

    def _scores(self, state: Ballots, rows: Array) -> Array:
        """Scores by the past rules and the one at work, shape (n, m + 1)."""
        if len(state.now_weights):
            return rows @ np.concatenate([state.weights, state.now_weights[None]]).T
        sums = np.cumsum(np.pad(rows * state.coefficients, ((0, 0), (1, 0))), axis=1)
        start, end = self._spans(state)
        return sums[:, end] - sums[:, start]

    def _vote(self, state: Ballots, rows: Array) -> Array:
        """Average the ranks; rows hold explicit features, or kernels with the stored examples."""
        thresholds = np.concatenate([state.thresholds, state.now_thresholds[None]])
        votes = np.append(state.votes, float(state.seen - state.now_born))
        votes = votes if votes.any() else np.ones(1)  # before the first right prediction
        predictions = np.empty(len(rows))
        for i, scores in enumerate(self._scores(state, rows)):
            ranks = 1.0 + (scores[:, None] >= thresholds).sum(1)
            predictions[i] = votes @ ranks / votes.sum()
        return predictions

    @property
    def support_(self) -> Array:
        """Stored examples of the kernel form, those that only past rules have included, (M, d)."""
        check_is_fitted(self, "state_")
        return np.asarray(self.state_.support)

    @property
    def coef_(self) -> Array:
        """Weights of the rules, the one at work last, (m, D); in the kernel form of `support_`."""
        check_is_fitted(self, "state_")
        state = self.state_
        if not self._stored:
            return np.concatenate([state.weights, state.now_weights[None]])
        start, end = self._spans(state)
        place = np.arange(len(state.stamps))
        has = (start[:, None] <= place) & (place < end[:, None])
        return np.where(has, state.coefficients, 0.0)

    @property
    def thresholds_(self) -> Array:
        """Thresholds of the rules, the one at work last, shape (m, num_levels - 1)."""
        check_is_fitted(self, "state_")
        return np.concatenate([self.state_.thresholds, self.state_.now_thresholds[None]])


def _store(state: Ballots) -> list[Array]:
    return [state.support, state.coefficients, state.stamps, state.slots]
