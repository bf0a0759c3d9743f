"""Ranked lists laid end to end: what every metric is summed over.

All queries of all draws lie in one flat array, sorted by list and then by score, best first. Among
equal scores, labels go from high to low. Metrics are cumulative sums over such arrays.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayesrank.metrics.problem import Array


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
