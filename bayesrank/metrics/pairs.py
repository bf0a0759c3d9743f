"""Counts of pairs in ``O(n log n)``, and the pair losses of single items.

Discordant pairs are inversions, counted by the bits of the labels' ranks, the highest bit first.
Among items that agree in the higher bits, each 1 counts the 0s ranked above it. A stable partition
by the bit then keeps such items together. Every step is a cumulative sum over all lists at once.
"""

from typing import NamedTuple

import numpy as np

from bayesrank.metrics.lists import Lists, running_max, starts
from bayesrank.metrics.problem import Array


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
