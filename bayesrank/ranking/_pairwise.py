"""The matrix of P(i beats j): the probability that the skill of ``i`` exceeds that of ``j``.

From draws it is a count over all pairs, ``n^2 / 2`` comparisons a draw, on as many threads as the
machine has cores. Skills become their ranks in 16 bits, which keeps order and ties, so comparisons
run on whole vector registers. Bytes add up 255 draws before they empty into wide counters.
"""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import ArrayLike

from bayesrank._memory import check_memory
from bayesrank.ranking._ranks import Array, check_samples, rank_bounds

_BLOCK = 256
_BYTE = 255
# Arrays as large as the result that are held at once.
_COPIES = 4


def _count_block(ranks: Array, start: int, stop: int) -> Array:
    """Count the draws in which items ``start..stop`` rank better than items ``start..n``."""
    n = ranks.shape[1]
    total = np.zeros((stop - start, n - start), np.int64)
    part = np.empty(total.shape, np.uint8)
    better = np.empty(total.shape, bool)
    for first in range(0, ranks.shape[0], _BYTE):
        part[:] = 0
        for row in ranks[first : first + _BYTE]:
            np.less(row[start:stop, None], row[None, start:], out=better)
            np.add(part, better.view(np.uint8), out=part)
        total += part
    return total


def _wins(ranks: Array) -> Array:
    """Upper triangle of the number of draws in which ``i`` ranks strictly better than ``j``."""
    n = ranks.shape[1]
    wins = np.zeros((n, n), np.int64)
    starts = range(0, n, _BLOCK)

    def fill(start: int) -> None:
        stop = min(start + _BLOCK, n)
        wins[start:stop, start:] = _count_block(ranks, start, stop)

    with ThreadPoolExecutor(min(len(starts), os.cpu_count() or 1)) as pool:
        list(pool.map(fill, starts))
    return np.triu(wins, 1)


def pairwise_probability(samples: ArrayLike) -> Array:
    """Probability that the skill of item ``i`` exceeds the skill of item ``j``, for all pairs.

    This is about the skills themselves. The chance that ``i`` wins a single noisy comparison is
    nearer to one half: ask the model's likelihood for that.

    Parameters
    ----------
    samples
        Posterior draws of skill, shape ``(draws, n)``. A draw in which the two are equal counts
        one half.

    Returns
    -------
    Array
        Shape ``(n, n)``; ``P + P.T`` is 1 everywhere and the diagonal is one half. The Monte Carlo
        error is ``sqrt(p (1 - p) / draws)``.

    Raises
    ------
    ValueError
        If ``samples`` is not a finite ``(draws, n)`` array.

    Examples
    --------
    >>> pairwise_probability([[2.0, 5.0], [3.0, 3.0]])
    array([[0.5 , 0.25],
           [0.75, 0.5 ]])
    """
    low, high = rank_bounds(check_samples(samples))
    draws, n = low.shape
    check_memory(
        _COPIES * 8.0 * n**2,
        f"probabilities of all pairs of {n:,} items",
        "pass the draws of fewer items; a result's difference tells single pairs",
    )
    wins = _wins(low)
    losses = np.triu(draws - wins, 1) if low is high else _wins((n + 1 - low).astype(low.dtype))
    margin = wins - losses
    return (draws + margin - margin.T) / (2.0 * draws)
