"""Which pairs are scored for the next question, by what, and which is chosen."""

from collections.abc import Hashable, Iterator, Sequence
from numbers import Integral
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from numpy.typing import NDArray
from scipy.special import ndtr

from bayesrank._validate import check_choice
from bayesrank.active.acquisition import (
    Acquisition,
    bald,
    entropy_gain,
    margin_variance,
    pool_variance,
    random_gain,
    top_gain,
)
from bayesrank.active.acquisition.beliefs import Beliefs
from bayesrank.active.history import History
from bayesrank.active.selection import best_batch, best_pairs
from bayesrank.active.stopping import StoppingRule

ItemNumbers = NDArray[np.int32]
ItemPairs = NDArray[np.int32]

# A judge answers so many other questions before a pair comes again, or half of them all if fewer.
_PAUSE = 5

_NAMED = {
    "bald": bald,
    "entropy": entropy_gain,
    "margin_variance": margin_variance,
}


# Compiled whole: JAX would compile each operation by itself.
_scores = jax.jit(lambda acquisition, beliefs, pairs: acquisition(beliefs, pairs))


def acquisition_for(
    goal: str | None, k: int | None, rule: StoppingRule, num_items: int
) -> str | Acquisition:
    """What makes a question a good one for a goal, by default that of the rule for stopping."""
    if goal is None:
        goal = "pair" if rule.top is None or rule.gain is not None else "top"
    if k is None:
        k = rule.top or 3
    check_choice(goal, "goal", "pair", "order", "top")
    if goal == "top" and not (isinstance(k, Integral) and 1 <= k < num_items):
        raise ValueError(f"k is {k!r}; pass a number from 1 to {num_items - 1}")
    return {"pair": "bald", "order": pool_variance}.get(goal) or top_gain(int(k))


class Question(NamedTuple):
    """A pair to compare.

    Attributes
    ----------
    first, second
        Names of the two items, in random order.
    gain
        Score of the question. By goal "pair", and by "bald" and "entropy", it is what the answer is
        expected to tell, in nats. In a batch it is given the questions before it.
    win_probability, tie_probability
        Probabilities that the answer is `first`, and "about equal"; the latter is 0 until there was
        such an answer.

    Examples
    --------
    >>> from bayesrank.active import QueryLoop
    >>> with QueryLoop(["tea", "milk", "water"], journal=None, hyperparameters="prior") as loop:
    ...     question = loop.ask()[0]
    >>> question.first != question.second, question.win_probability
    (True, 0.5)
    """

    first: Hashable
    second: Hashable
    gain: float
    win_probability: float
    tie_probability: float = 0.0


class QuestionChooser:
    """Chooses questions among given pairs, or so many drawn each time; shapes stay the same."""

    def __init__(
        self,
        num_items: int,
        candidates: int | Sequence[tuple[int, int]],
        acquisition: str | Acquisition,
        again: bool,
        seed: int,
    ) -> None:
        if isinstance(acquisition, str) and acquisition not in (*_NAMED, "random"):
            raise ValueError(
                f"acquisition is {acquisition!r}; choose one of {(*_NAMED, 'random')}, or pass a "
                "function of beliefs and pairs"
            )
        self._n, self._seed, self._acquisition = num_items, seed, acquisition
        self._again = again
        self._all: ItemPairs | None = None
        if not isinstance(candidates, int):
            self._all = np.array(candidates, np.int32).reshape(-1, 2)
            self._count = len(self._all)
        elif num_items * (num_items - 1) // 2 <= candidates:
            self._all = np.stack(np.triu_indices(num_items, 1), axis=1).astype(np.int32)
            self._count = len(self._all)
        else:
            self._count = candidates
        if self._count < 1:
            raise ValueError(f"candidates is {candidates!r}; pass at least one pair")

    def choose(
        self, beliefs: Beliefs, n: int, history: History, judge: str | None
    ) -> Iterator[tuple[int, int, float, float, float]]:
        """Items, score, and probabilities that the first item wins and of a tie."""
        pool, beliefs = self._pool(history, judge, n), _without_retired(beliefs, history)
        with jax.enable_x64(True):
            acquisition = self._function(history)
            if n == 1:
                chosen = best_pairs(acquisition, beliefs, 1, candidates=pool)
            else:
                chosen = best_batch(acquisition, beliefs, n, candidates=pool)
            gains = np.asarray(chosen[1])
            pairs = np.array(chosen[0])
        for pair, gain in zip(pairs, gains, strict=True):
            if pair[0] != pair[1]:
                i, j = self._in_random_order(pair).tolist()
                yield i, j, float(gain), *_probabilities(beliefs, i, j)

    def scored(self, beliefs: Beliefs, history: History) -> tuple[ItemPairs, NDArray[np.float64]]:
        """The pairs that a choice is made from, (m, 2), and their scores, (m,)."""
        pool, beliefs = self._pool(history, None, 1), _without_retired(beliefs, history)
        with jax.enable_x64(True):
            arrays = jax.tree.map(jnp.asarray, beliefs)
            scores = np.asarray(_scores(Partial(self._function(history)), arrays, pool))
        usable = pool[:, 0] != pool[:, 1]
        return pool[usable], scores[usable]

    def _in_random_order(self, pair: NDArray[Any]) -> NDArray[Any]:
        """People favour a side: chance decides, for each pair once and for all."""
        turned = np.random.default_rng([self._seed, *np.sort(pair)]).random() < 0.5
        return np.sort(pair)[::-1] if turned else np.sort(pair)

    def _function(self, history: History) -> Acquisition:
        if not isinstance(self._acquisition, str):
            return self._acquisition
        if self._acquisition == "random":
            return random_gain(jax.random.fold_in(jax.random.key(self._seed), _place(history)))
        return _NAMED[self._acquisition]

    def _pool(self, history: History, judge: str | None, wanted: int) -> ItemPairs:
        """Pairs to score; (0, 0) for those not to ask this judge, or with a retired item."""
        retired = sorted(history.retired)
        skipped = np.unique(self._key(history.skipped_by(judge)))
        if self._all is not None:
            pairs = self._all.copy()
            pairs[np.isin(self._key(pairs), skipped) | np.isin(pairs, retired).any(axis=1)] = 0
            left = len(np.setdiff1d(self._key(pairs), 0))
            pairs[np.isin(self._key(pairs), self._answered(history, judge, left))] = 0
            return pairs
        rng = np.random.default_rng([self._seed, _place(history)])
        items = np.setdiff1d(np.arange(self._n, dtype=np.int32), retired)
        left = len(items) * (len(items) - 1) // 2 - len(skipped)
        seen = np.union1d(skipped, self._answered(history, judge, left))
        pairs = _drawn(rng, items, max(self._count, wanted))
        pairs[np.isin(self._key(pairs), seen)] = 0
        if len(np.unique(self._key(pairs))) <= wanted:  # with (0, 0), perhaps
            unseen = self._unseen(rng, items, seen, wanted)
            pairs[: len(unseen)], pairs[len(unseen) :] = unseen, 0
        return pairs

    def _answered(self, history: History, judge: str | None, left: int) -> NDArray[np.int64]:
        """Answered pairs not to ask this judge now: the last few of those left, or all of them."""
        keys = self._key(history.answered_by(judge))
        pause = min(_PAUSE, max(left, 0) // 2) if self._again else len(keys)
        return keys[len(keys) - min(pause, len(keys)) :]

    def _unseen(
        self, rng: np.random.Generator, items: ItemNumbers, seen: NDArray[np.int64], wanted: int
    ) -> ItemPairs:
        """So many pairs that have not been seen, all different, or all that there are."""
        if len(items) * (len(items) - 1) // 2 <= 4 * (len(seen) + wanted):
            pairs = items[np.stack(np.triu_indices(len(items), 1), axis=1)]
            return rng.permutation(pairs[~np.isin(self._key(pairs), seen)])[:wanted]
        keys = np.zeros(0, np.int64)  # of most pairs, few have been seen
        while len(keys) < wanted:
            drawn = self._key(_drawn(rng, items, 2 * wanted))
            keys = np.union1d(keys, np.setdiff1d(drawn, seen))
        keys = rng.permutation(keys)[:wanted]
        return np.stack([keys // self._n, keys % self._n], axis=1).astype(np.int32)

    def _key(self, pairs: NDArray[Any]) -> NDArray[np.int64]:
        return pairs.min(axis=1).astype(np.int64) * self._n + pairs.max(axis=1)


def _drawn(rng: np.random.Generator, items: ItemNumbers, count: int) -> ItemPairs:
    first = rng.integers(len(items), size=count)
    second = (first + rng.integers(1, len(items), size=count)) % len(items)
    return items[np.stack([first, second], axis=1)]


def _probabilities(beliefs: Beliefs, i: int, j: int) -> tuple[float, float]:
    """Probability that the first item wins, and of a tie."""
    mean, covariance = beliefs.mean, beliefs.covariance
    variance = max(covariance[i, i] + covariance[j, j] - 2.0 * covariance[i, j], 0.0)
    scale, width = np.sqrt(2.0 * np.square(beliefs.noise) + variance), beliefs.tie_width or 0.0
    first, second = ndtr((np.array([1.0, -1.0]) * (mean[i] - mean[j]) - width) / scale)
    tie = 0.0 if beliefs.tie_width is None else 1.0 - first - second
    return float(first), float(tie)


def _without_retired(beliefs: Beliefs, history: History) -> Beliefs:
    """Beliefs in which no retired item is among the best."""
    mean = np.array(beliefs.mean)
    mean[sorted(history.retired)] = mean.min() - 1e6
    return beliefs._replace(mean=mean)


def _place(history: History) -> int:
    """Seed of a choice: after an undo the same question comes back."""
    return len(history.events)
