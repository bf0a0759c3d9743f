"""Ranked lists laid end to end, and counts of their pairs: what every metric is summed over.

All queries of all draws lie in one flat array, sorted by list and then by score, best first. Among
equal scores, labels go from high to low. Metrics are cumulative sums over such arrays.

Counts of pairs in ``O(n log n)``, and the pair losses of single items.

Discordant pairs are inversions, counted by the bits of the labels' ranks, the highest bit first.
Among items that agree in the higher bits, each 1 counts the 0s ranked above it. A stable partition
by the bit then keeps such items together. Every step is a cumulative sum over all lists at once.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

Array = Any


@dataclass(frozen=True)
class Lists:
    """Items of `num_lists` lists in ranked order; all arrays have shape ``(items,)``.

    `list_id` ascends, `score_key` is equal within a list for tied items only, and `label_code`
    numbers the labels in their order, below `num_codes`.
    """

    list_id: Array
    score_key: Array
    label: Array
    label_code: Array
    score: Array
    num_lists: int
    num_codes: int
    levels: tuple[float, ...] | None

    def total(self, values: Array, ids: Array | None = None, length: int | None = None) -> Array:
        """Sum `values` by list, or by `ids` below `length`."""
        where = self.list_id if ids is None else ids
        return np.bincount(where, weights=values, minlength=length or self.num_lists)

    def within(self, values: Array) -> Array:
        """Sum `values` by tie group, given to each member."""
        if self.tie_free:
            return values
        return self.total(values, self._group, len(self.label))[self._group]

    def before(self, values: Array) -> Array:
        """Sum `values` over the items of the list that stand strictly above the tie group."""
        sums = np.cumsum(values) - values
        return sums[self._group_first] - sums[self._first]

    @cached_property
    def size(self) -> Array:
        """Number of items of each list, shape ``(num_lists,)``."""
        return self.total(np.ones(self.label.shape))

    @cached_property
    def held(self) -> Array:
        """Whether the item holds a place: its score is above ``-inf``."""
        return self.score > -np.inf

    @cached_property
    def place(self) -> Array:
        """Place of each item in its list, from 0; arbitrary inside a tie group."""
        return self._index - self._first

    @cached_property
    def group_place(self) -> Array:
        """First place of the item's tie group."""
        return self._group_first - self._first

    @cached_property
    def group_size(self) -> Array:
        """Number of items in the item's tie group."""
        return self.within(np.ones(self.label.shape))

    @cached_property
    def tie_free(self) -> bool:
        """Whether no list has equal scores."""
        return bool(self._new_group.all())

    @cached_property
    def _index(self) -> Array:
        return np.arange(len(self.label))

    @cached_property
    def _first(self) -> Array:
        size = self.size.astype(int)
        return (np.cumsum(size) - size)[self.list_id]

    @cached_property
    def _new_group(self) -> Array:
        return starts(self.list_id) | starts(self.score_key)

    @cached_property
    def _group(self) -> Array:
        return np.cumsum(self._new_group) - 1

    @cached_property
    def _group_first(self) -> Array:
        if self.tie_free:
            return self._index
        return running_max(np.where(self._new_group, self._index, 0))


def starts(values: Array) -> Array:
    """Mark the items that differ from the one before them; the first does."""
    return np.concatenate([np.ones(min(len(values), 1), bool), values[1:] != values[:-1]])


def running_max(values: Array) -> Array:
    """Largest value so far."""
    return np.maximum.accumulate(values)


def ratio(numerator: Array, denominator: Array) -> Array:
    """Quotient, NaN where the denominator is zero."""
    zero = denominator == 0
    return np.where(zero, np.nan, numerator / np.where(zero, 1, denominator))


def rank_codes(values: Array) -> tuple[Array, int]:
    """Whole numbers in the order of `values`, equal for equal values, and a bound on them."""
    unique, codes = np.unique(values, return_inverse=True)
    return codes, max(len(unique), 1)


def order_of(*keys: tuple[Array, int]) -> Array:
    """Order by the first key, of equals by the next; whole numbers, each below its bound."""
    if math.prod(bound for _, bound in keys) >= 2**62:
        return np.lexsort([key for key, _ in reversed(keys)])
    together = np.zeros(1, np.int64)
    for key, bound in keys:
        together = together * bound + key
    return np.argsort(together)


def arrange(
    list_id: Array,
    score_key: Array,
    num_keys: int,
    label: Array,
    score: Array,
    num_lists: int,
    levels: tuple[float, ...] | None,
) -> Lists:
    """Sort items into `Lists`; `score_key` is a whole number below `num_keys`, low is best."""
    code, num_codes = rank_codes(label)
    keys = (list_id, num_lists), (score_key, num_keys), (num_codes - 1 - code, num_codes)
    order = order_of(*keys)
    return Lists(
        list_id[order],
        score_key[order],
        label[order],
        code[order],
        score[order],
        num_lists,
        num_codes,
        levels,
    )


class PairCounts(NamedTuple):
    """Numbers of unordered pairs in each list, shape ``(num_lists,)``."""

    discordant: Array  #: ordered one way by the scores and the other way by the labels
    tied_score: Array  #: of equal score
    tied_label: Array  #: of equal label
    tied_both: Array  #: equal in both
    total: Array  #: all pairs


def count_pairs(lists: Lists) -> PairCounts:
    """Count the pairs of each list by how scores and labels order them."""
    discordant, tied_label = _inversions(lists)
    both = starts(lists.score_key) | starts(lists.label_code)
    return PairCounts(
        discordant=discordant,
        tied_score=lists.total((lists.group_size - 1) / 2),
        tied_label=tied_label,
        tied_both=_tied(lists, both | starts(lists.list_id), lists.list_id),
        total=lists.size * (lists.size - 1) / 2,
    )


def _inversions(lists: Lists) -> tuple[Array, Array]:
    """Discordant pairs and pairs of equal label, in each list."""
    bits = (lists.num_codes - 1).bit_length()
    dtype = np.int32 if lists.num_lists << bits < 2**31 else np.int64
    key = (lists.list_id.astype(dtype) << bits) + lists.label_code.astype(dtype)
    discordant = lists.total(np.zeros(key.shape))
    for shift in range(bits - 1, -1, -1):
        bit = (key >> shift) & 1
        zeros = np.cumsum(1 - bit, dtype=dtype)
        new_block = starts(key >> (shift + 1))
        base = running_max(np.where(new_block, zeros - (1 - bit), 0))
        discordant = discordant + lists.total((zeros - base) * bit, key >> bits)
        one = bit.astype(bool)  # zeros first, then ones, each in the order that they had
        key = np.concatenate([key[~one], key[one]])
    return discordant, _tied(lists, starts(key), key >> bits)


def _tied(lists: Lists, new_run: Array, ids: Array) -> Array:
    """Pairs inside runs of equal items: each item counts those of its run before it."""
    index = np.arange(len(new_run))
    first = running_max(np.where(new_run, index, 0))
    return lists.total(index - first, ids)


def item_losses(lists: Lists, levels: tuple[float, ...], alpha: float, tied: float = 0.5) -> Array:
    """Sum of ``|m - l|**alpha`` over each item's pairs that go wrong, (items,); ties `tied`."""
    loss = np.zeros(lists.label.shape)
    for level in levels:
        member = (lists.label == level) * 1.0
        ties = np.zeros(1) if lists.tie_free else lists.within(member)
        above = lists.before(member) + tied * ties
        below = lists.total(member)[lists.list_id] - above + (2.0 * tied - 1.0) * ties
        gap = lists.label - level
        wrong = np.where(gap > 0, above, below)
        weight = np.where(gap != 0, abs(np.where(gap != 0, gap, 1.0)) ** alpha, 0.0)
        loss = loss + weight * wrong
    return loss
