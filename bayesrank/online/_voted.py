"""The voted perceptron, with PRank for the perceptron."""

from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted
from tinygp.kernels import Kernel

from bayesrank.online._base import Array, Block
from bayesrank.online._kernel_form import KernelRanker
from bayesrank.online._members import init_members, learn_block
from bayesrank.online._store import Store, empty_store

__all__ = ["VotedPRank"]


class Ballots(NamedTuple):
    """The rule at work, and those that it replaced.

    Attributes
    ----------
    weights, thresholds, votes
        Of the past rules, shapes (m, D), (m, k - 1) and (m,); votes count right predictions. In the
        kernel form there are no weights, D = 0: a rule has the coefficients of the examples that
        were stored before it came about.
    born
        Number of the example after which each past rule came about, shape (m,).
    now_weights, now_thresholds, now_born
        Of the rule at work; in the kernel form the coefficients of the stored examples, (budget,).
    seen
        Number of examples.
    support, stamps
        The stored examples, shapes (budget, d) and (budget,), see `Store`.
    """

    weights: Any
    thresholds: Any
    votes: Any
    born: Any
    now_weights: Any
    now_thresholds: Any
    now_born: Any
    seen: Any
    support: Any
    stamps: Any


class Path(NamedTuple):
    """The rule at work as it met each example of a block.

    Attributes
    ----------
    X
        Examples, shape (B, d).
    rows
        What weights are multiplied with: the same, or the kernel with the examples stored before.
    weights, thresholds
        Before each example, shapes (B + 1, D) and (B + 1, k - 1); the last ones after all.
    mistaken
        Whether it was wrong, shape (B + 1,).
    slots
        Where the example was stored if it was, shape (B,).
    """

    X: Any
    rows: Any
    weights: Any
    thresholds: Any
    mistaken: Any
    slots: Any


class VotedPRank(KernelRanker):
    r"""PRank whose every rule is kept, and votes by how long it lasted.

    After each mistake the rule changes, and the old one is kept with the number of levels
    :math:`v_i` that it predicted rightly. The prediction is the weighted average of the ranks,
    :math:`\sum_i v_i h_i(x) / \sum_i v_i`, a real number: see ``rounded`` in `predict`.

    Parameters
    ----------
    n_levels : int
        Number of levels, at least 2.
    kernel : Kernel, optional
        A kernel of tinygp; without it, the scalar product. A polynomial kernel with no more
        monomials than `budget` is used through explicit features, which is exact.
    budget : int, optional, default 10000
        Number of past rules that are kept: those with most votes, of equals the older ones. None
        keeps all, in memory that grows with each mistake. Rules without a vote are never kept. In
        the kernel form it is the number of examples that may be stored, and not None: all rules
        share them, so that a rule takes no more room than its thresholds.
    evict : {"oldest", "smallest"}, default "oldest"
        Which example leaves a full store, and with it the rule that came about by it; the other
        rules lose its term.

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
        n_levels: int,
        *,
        kernel: Kernel | None = None,
        budget: int | None = 10_000,
        evict: Literal["oldest", "smallest"] = "oldest",
    ) -> None:
        self.n_levels = n_levels
        self.kernel = kernel
        self.budget = budget
        self.evict = evict

    def _init_state(self, n_features: int) -> Ballots:
        slots, edges = self._slots(n_features), self.n_levels - 1
        width = self._width(n_features)
        weights = np.zeros((0, 0 if slots else width))
        past = weights, np.zeros((0, edges)), np.zeros(0), np.zeros(0, np.int64)
        now = np.zeros(width), np.zeros(edges), np.int64(0)
        return Ballots(*past, *now, np.int64(0), *empty_store(slots, n_features if slots else 0))

    def _record_width(self, n_features: int) -> int:
        return self._width(n_features) + self.n_levels + 1

    def _learn(self, state: Ballots, block: Block) -> tuple[Ballots, Path]:
        count, slots = int(block.count), state.support.shape[0]
        start = init_members(1, self.n_levels, block.X.shape[1], slots)
        start = start._replace(
            weights=np.asarray(state.now_weights)[:, None],
            thresholds=np.asarray(state.now_thresholds)[:, None],
            seen=np.asarray(state.seen),
        )
        if slots:
            start = start._replace(support=state.support, stamps=state.stamps)
        after, records = learn_block(
            start,
            *block,
            np.int64(0),
            np.float64(1.0),
            self.kernel if slots else None,
            evict=self.evict,
            keep_rules=True,
        )
        votes = np.append(np.asarray(records.votes)[:count, 0], np.asarray(after.votes))
        last = np.asarray(after.weights).T[:, : 0 if slots else None]
        path = Path(
            np.asarray(block.X),
            np.asarray(records.rows) if slots else np.asarray(block.X),
            np.concatenate([records.weights[:count, :, 0], last]),
            np.concatenate([records.thresholds[:count, :, 0], np.asarray(after.thresholds).T]),
            np.append(np.diff(votes) == 0.0, False),
            np.asarray(records.slots),
        )
        return self._walk(state, path, count), path

    def _walk(self, state: Ballots, path: Path, count: int) -> Ballots:
        """Follow the rule for a number of examples, and keep the rules that it gave up."""
        ends = np.flatnonzero(path.mistaken[:count])
        seen, stored = int(state.seen), bool(state.support.shape[0])
        born = np.append(int(state.now_born), seen + ends + 1)
        votes = (np.append(seen + ends, seen + count) - born).astype(float)
        past = (
            np.concatenate([state.weights, path.weights[ends]]),
            np.concatenate([state.thresholds, path.thresholds[ends]]),
            np.concatenate([state.votes, votes[:-1]]),
            np.concatenate([state.born, born[:-1]]),
        )
        if stored:
            now_weights, store = _restock(state, path, ends)
            # The first rule, which has no example, stays; it is as it was.
            keep = np.flatnonzero(np.isin(past[3], np.append(store.stamps, 0)))
        else:
            now_weights, store = path.weights[count], Store(state.support, state.stamps)
            keep = np.sort(np.lexsort((past[3], -past[2]))[: self.budget])
        keep = keep[past[2][keep] > 0.0]
        return Ballots(
            *(values[keep] for values in past),
            now_weights=now_weights,
            now_thresholds=path.thresholds[count],
            now_born=born[-1],
            seen=np.int64(seen + count),
            **store._asdict(),
        )

    def _met(self, state: Ballots, records: Path) -> Array:
        rows = records.rows
        votes = [self._vote(self._walk(state, records, i), rows[[i]]) for i in range(len(rows))]
        return np.concatenate(votes)

    def _foresee(self, X: Array) -> Array:
        return self._vote(self.state_, self._rows(X))

    def _vote(self, state: Ballots, rows: Array) -> Array:
        thresholds = np.concatenate([state.thresholds, state.now_thresholds[None]])
        votes = np.append(state.votes, float(state.seen - state.now_born))
        votes = votes if votes.any() else np.ones(1)  # before the first right prediction
        predictions = np.empty(len(rows))
        for i, scores in enumerate(_scores(state, rows)):
            ranks = 1.0 + (scores[:, None] >= thresholds).sum(1)
            predictions[i] = votes @ ranks / votes.sum()
        return predictions

    @property
    def coef_(self) -> Array:
        """Weights of the rules, the one at work last, (m, D); in the kernel form of `support_`."""
        check_is_fitted(self, "state_")
        state = self.state_
        if not self._stored:
            return np.concatenate([state.weights, state.now_weights[None]])
        used = np.asarray(state.stamps) > 0
        born = np.append(state.born, state.now_born)
        return np.where(state.stamps[used] <= born[:, None], state.now_weights[used], 0.0)

    @property
    def thresholds_(self) -> Array:
        """Thresholds of the rules, the one at work last, shape (m, n_levels - 1)."""
        check_is_fitted(self, "state_")
        return np.concatenate([self.state_.thresholds, self.state_.now_thresholds[None]])


def _restock(state: Ballots, path: Path, ends: Any) -> tuple[Array, Store]:
    """Store the examples of some mistakes; return also the coefficients."""
    coefficients, support, stamps = (
        np.array(value) for value in (state.now_weights, state.support, state.stamps)
    )
    slots = path.slots[ends]
    # Thresholds move by minus one for each step of the weights.
    coefficients[slots] = (path.thresholds[ends] - path.thresholds[ends + 1]).sum(1)
    support[slots] = path.X[ends]
    stamps[slots] = int(state.seen) + ends + 1
    return coefficients, Store(support, stamps)


def _scores(state: Ballots, rows: Array) -> Array:
    """Scores by the past rules and the one at work, shape (n, m + 1)."""
    if not state.support.shape[0]:
        return rows @ np.concatenate([state.weights, state.now_weights[None]]).T
    order = np.argsort(state.stamps, kind="stable")
    terms = np.cumsum((rows * state.now_weights)[:, order], axis=1)
    sums = np.concatenate([np.zeros((len(rows), 1)), terms], axis=1)
    born = np.append(state.born, state.now_born)
    return sums[:, np.searchsorted(np.asarray(state.stamps)[order], born, side="right")]
