"""Counts of pairs in ``O(n log n)``, and the pair losses of single items.

Discordant pairs are inversions. They are counted bit by bit of the labels' ranks, from the
highest bit down: among items that agree in the higher bits, each 1 counts the 0s ranked above
it, and a stable partition by the bit keeps such items together for the next one. Every step is a
cumulative sum over all lists at once.
"""

from types import ModuleType
from typing import NamedTuple

import jax
import jax.numpy as jnp
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
    both = starts(lists.xp, lists.score_key) | starts(lists.xp, lists.label_code)
    zero = lists.xp.zeros(lists.num_lists)
    return PairCounts(
        discordant=discordant,
        tied_score=zero if lists.tie_free else lists.total((lists.group_size - 1) / 2),
        tied_label=tied_label,
        tied_both=zero
        if lists.tie_free
        else _tied(lists, both | starts(lists.xp, lists.list_id), lists.list_id),
        total=lists.size * (lists.size - 1) / 2,
    )


def _inversions(lists: Lists) -> tuple[Array, Array]:
    """Discordant pairs and pairs of equal label, in each list."""
    xp = lists.xp
    bits = (lists.num_codes - 1).bit_length()
    dtype = np.int32 if lists.num_lists << bits < 2**31 else np.int64

    def step(number: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        key, discordant = state
        shift = bits - 1 - number
        bit = (key >> shift) & 1
        zeros = xp.cumsum(1 - bit, dtype=dtype)
        new_block = starts(xp, key >> (shift + 1))
        base = running_max(xp, xp.where(new_block, zeros - (1 - bit), 0))
        discordant = discordant + lists.total((zeros - base) * bit, key >> bits)
        return _partition(xp, key, bit, zeros), discordant

    key = (lists.list_id.astype(dtype) << bits) + lists.label_code.astype(dtype)
    state = (key, lists.total(xp.zeros(key.shape)))
    if xp is np:
        for number in range(bits):
            state = step(number, state)
    else:
        state = jax.lax.fori_loop(0, bits, step, state)
    key, discordant = state
    return discordant, _tied(lists, starts(xp, key), key >> bits)


def _partition(xp: ModuleType, key: Array, bit: Array, zeros: Array) -> Array:
    """Zeros first, then ones, each in the order that they had."""
    if xp is np:
        one = bit.astype(bool)
        return np.concatenate([key[np.flatnonzero(~one)], key[np.flatnonzero(one)]])
    place = jnp.where(bit == 1, zeros[-1] + jnp.cumsum(bit, dtype=zeros.dtype) - 1, zeros - 1)
    return jnp.zeros_like(key).at[place].set(key)


def _tied(lists: Lists, new_run: Array, ids: Array) -> Array:
    """Pairs inside runs of equal items: each item counts those of its run before it."""
    index = lists.xp.arange(len(new_run))
    first = running_max(lists.xp, lists.xp.where(new_run, index, 0))
    return lists.total(index - first, ids)


def item_losses(lists: Lists, levels: tuple[float, ...], alpha: float) -> Array:
    """Sum of ``|m - l|**alpha`` over the pairs that go wrong for each item, shape ``(items,)``.

    A tied pair counts one half. Every pair shows up in both of its items.
    """
    loss = lists.xp.zeros(lists.label.shape)
    for level in levels:
        member = (lists.label == level) * 1.0
        above = lists.before(member) + (0.0 if lists.tie_free else lists.within(member) / 2)
        below = lists.total(member)[lists.list_id] - above
        gap = lists.label - level
        wrong = lists.xp.where(gap > 0, above, below)
        weight = lists.xp.where(gap != 0, abs(lists.xp.where(gap != 0, gap, 1.0)) ** alpha, 0.0)
        loss = loss + weight * wrong
    return loss
