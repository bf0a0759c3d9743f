r"""The best of all pairs if there are too many items for a dense covariance.

With :math:`A = B B^\top + \mathrm{diag}(d)` the margin of items i and j has variance

.. math:: v_{ij} = \lVert b_i - b_j \rVert^2 + d_i + d_j \le (\rho_i + \rho_j)^2 + d_i + d_j, \quad
   \rho_i = \lVert b_i - \bar b \rVert .

BALD is greatest for an even question, and grows with its variance. So a bound on the variance of
two blocks of items bounds the scores of all their pairs. The search scores blocks in the order of
their bounds, until no bound is above the best score. This proves that no other pair scores more,
although it never scored most pairs.
"""

import heapq
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from numpy.typing import NDArray

from bayesrank._process import enter_jax
from bayesrank._validate import check_count, check_pairs
from bayesrank.active.acquisition.beliefs import Beliefs, expected_shrinkage
from bayesrank.active.acquisition.pairs import bald_of_margin

Array = NDArray[Any]

_BLOCK = 512


class FactoredBeliefs(NamedTuple):
    r"""A Gaussian over n skills whose covariance is :math:`B B^\top + \mathrm{diag}(d)`.

    Attributes
    ----------
    mean
        Of the skills, shape (n,).
    factor
        :math:`B`, shape (n, M); M may be 0: then skills are independent.
    diagonal
        :math:`d`, not negative, shape (n,).
    noise
        Standard deviation of a performance, on the scale of the skills, positive.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesrank.active import FactoredBeliefs, best_pair
    >>> beliefs = FactoredBeliefs(np.zeros(3), np.zeros((3, 0)), np.array([1.0, 1.0, 0.1]))
    >>> sorted(int(item) for item in best_pair(beliefs).pair)
    [0, 1]
    """

    mean: ArrayLike
    factor: ArrayLike
    diagonal: ArrayLike
    noise: ArrayLike = 1.0


@dataclass(frozen=True)
class BestPair:
    """A question, and whether there is none better.

    Attributes
    ----------
    pair
        Numbers of the two items; (0, 0) if there is no pair to choose from.
    score
        Its BALD score in nats.
    certified
        Whether it is proved that no pair scores more.
    gap
        How much more another pair might score at the most, in nats; 0 if certified.
    num_scored
        Number of pairs that were scored.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesrank.active import FactoredBeliefs, best_pair
    >>> beliefs = FactoredBeliefs(np.zeros(3), np.zeros((3, 0)), np.array([1.0, 1.0, 0.1]))
    >>> best_pair(beliefs).certified
    True
    """

    pair: tuple[int, int]
    score: float
    certified: bool
    gap: float
    num_scored: int


def best_pair(
    beliefs: FactoredBeliefs,
    *,
    candidates: ArrayLike | None = None,
    exclude: ArrayLike | None = None,
    max_scored: int = 20_000_000,
) -> BestPair:
    """The pair whose comparison is expected to tell most (`bald`), of any number of items.

    Time grows with the number of pairs that are scored, times M. Memory is that of the factor.

    Parameters
    ----------
    beliefs : FactoredBeliefs
        Beliefs about n skills. Scores are computed in the precision of the factor.
    candidates : ArrayLike, optional
        Pairs to choose from, integers of shape (m, 2), all of which are scored. By default all
        pairs of items.
    exclude : ArrayLike, optional
        Pairs not to choose, integers of shape (k, 2), in either order of the items.
    max_scored : int, default 20000000
        Number of pairs after which to stop without a proof.

    Raises
    ------
    ValueError
        If an argument cannot be used; the message names it and what to do.

    Examples
    --------
    >>> import numpy as np
    >>> beliefs = FactoredBeliefs(np.zeros(4), np.zeros((4, 0)), np.array([1.0, 4.0, 2.0, 3.0]))
    >>> found = best_pair(beliefs)
    >>> found.pair, found.certified
    ((1, 3), True)
    """
    [found] = best_pair_batch(
        beliefs, 1, candidates=candidates, exclude=exclude, max_scored=max_scored
    )
    return found


def best_pair_batch(
    beliefs: FactoredBeliefs,
    q: int,
    *,
    candidates: ArrayLike | None = None,
    exclude: ArrayLike | None = None,
    max_scored: int = 20_000_000,
) -> list[BestPair]:
    r"""Choose q pairs jointly, to be asked before any of the answers is known.

    As in `bayesrank.active.best_batch`, each next pair is the best under the beliefs expected
    after those before it, :math:`A - \bar\omega c c^\top` with :math:`c = A (e_i - e_j)`. With
    :math:`\sqrt{d_i} e_i` and :math:`\sqrt{d_j} e_j` as further columns of :math:`B`, these have
    the same form: :math:`c = B u` and
    :math:`B (I - \bar\omega u u^\top) B^\top + \mathrm{diag}(d)`.

    Parameters
    ----------
    beliefs, candidates, exclude
        As for `best_pair`.
    q : int
        Number of pairs. The factor gets two columns for each.
    max_scored : int, default 20000000
        Number of pairs to score for each of them.

    Returns
    -------
    list of BestPair
        In the order of choice, each score given the pairs before it. If fewer than q pairs are
        there, the list ends with one of score minus infinity.

    Raises
    ------
    ValueError
        If an argument cannot be used; the message names it and what to do.
    """
    enter_jax()
    mean, factor, diagonal, noise = _checked(beliefs)
    q, max_scored = check_count(q, "q"), check_count(max_scored, "max_scored")
    n, rank = len(mean), factor.shape[1]
    pairs = None if candidates is None else check_pairs(candidates, n, "candidates")
    out = _keys(check_pairs(np.zeros((0, 2), int) if exclude is None else exclude, n, "exclude"), n)
    if q > 1:
        # Columns of zeros, which change nothing: compiled code sees one shape.
        factor = np.pad(factor, ((0, 0), (0, 2 * (q - 1))))
        diagonal = diagonal.copy()
    found: list[BestPair] = []
    with jax.enable_x64(factor.dtype == np.float64):
        for place in range(q):
            if pairs is not None:
                best = _best_of_some((mean, factor, diagonal), noise, pairs, out)
            else:
                best = _SortedBlocks(mean, factor, diagonal, noise, out).run(max_scored)
            found.append(best)
            if best.score == -np.inf:
                break
            if place < q - 1:
                out = np.append(out, _keys(np.array([best.pair]), n))
                _expect_answer((mean, factor, diagonal), noise, best.pair, rank + 2 * place)
    return found


def _expect_answer(
    skills: tuple[Array, Array, Array], noise: float, pair: tuple[int, int], column: int
) -> None:
    """Take off the covariance what an answer will; two columns of the factor are free for it."""
    mean, factor, diagonal = skills
    both = np.array(pair)
    factor[both, [column, column + 1]] = np.sqrt(diagonal[both])
    diagonal[both] = 0.0
    used = factor[:, : column + 2]
    direction = used[pair[0]] - used[pair[1]]
    square = float(direction @ direction)
    if square == 0:  # the answer tells nothing
        return
    # Two skills with the same margin.
    alone = Beliefs(np.array([mean[pair[0]] - mean[pair[1]], 0.0]), np.diag([square, 0.0]), noise)
    removed = float(expected_shrinkage(alone, np.array([0, 1])))
    # The root of I - w u u' is I - a u u'.
    part = (1 - np.sqrt(max(0.0, 1 - removed * square))) / square
    used -= part * np.outer(used @ direction, direction)


class _SortedBlocks:
    """Blocks of items in the order of their standard deviations, most uncertain first."""

    def __init__(
        self, mean: Array, factor: Array, diagonal: Array, noise: float, out: Array
    ) -> None:
        n = len(mean)
        # Only differences of rows count: from their mean they are shortest.
        factor = factor - factor.mean(axis=0)
        length = np.einsum("ij,ij->i", factor, factor)
        self.order = np.argsort(-(length + diagonal), kind="stable")
        place = np.empty(n, np.int64)
        place[self.order] = np.arange(n)
        self.num_blocks = -(-n // _BLOCK)
        self.n, self.noise = n, noise
        self.mean, self.factor = self._padded(mean), self._padded(factor)
        self.own = self._padded(length + diagonal)
        self.reach = self._largest(np.sqrt(length))
        self.rest = self._largest(diagonal)
        first, second = (place[part] for part in np.divmod(out, n))
        self.out = np.minimum(first, second), np.maximum(first, second)

    def run(self, max_scored: int) -> BestPair:
        """Score blocks while their bounds are above the best score."""
        pair, best, scored = (0, 0), -np.inf, 0
        waiting = [(-self._bound(block, block), block, block) for block in range(self.num_blocks)]
        heapq.heapify(waiting)
        while waiting and -waiting[0][0] > best and scored < max_scored:
            _, row, column = heapq.heappop(waiting)
            if column + 1 < self.num_blocks:
                bound = self._bound(row, column + 1)
                heapq.heappush(waiting, (-bound, row, column + 1))
            score, i, j = self._score(row, column)
            scored += self._size(row, column)
            if score > best:
                best = score
                pair = int(self.order[row * _BLOCK + i]), int(self.order[column * _BLOCK + j])
        if best == -np.inf:
            return BestPair((0, 0), best, True, 0.0, scored)
        gap = max(0.0, -waiting[0][0] - best) if waiting else 0.0
        return BestPair((min(pair), max(pair)), best, gap == 0.0, gap, scored)

    def _bound(self, row: int, column: int) -> float:
        """More than the score of any pair of two blocks."""
        variance = (self.reach[row] + self.reach[column]) ** 2 + self.rest[row] + self.rest[column]
        # Variances and scores are rounded, and a score is right to 1.7e-7 nats before that.
        rounding = 16.0 * float(np.finfo(self.factor.dtype).eps)
        return float(_even_score(variance * (1.0 + rounding), self.noise)) + 4e-7 + rounding

    def _score(self, row: int, column: int) -> tuple[float, int, int]:
        parts = [
            [array[block * _BLOCK : (block + 1) * _BLOCK] for block in (row, column)]
            for array in (self.mean, self.factor, self.own)
        ]
        left_out = np.arange(_BLOCK)[:, None] >= np.arange(_BLOCK) if row == column else None
        left_out = np.zeros((_BLOCK, _BLOCK), bool) if left_out is None else left_out
        left_out[max(0, self.n - row * _BLOCK) :] = True
        left_out[:, max(0, self.n - column * _BLOCK) :] = True
        rows, columns = self.out
        here = (rows // _BLOCK == row) & (columns // _BLOCK == column)
        left_out[rows[here] % _BLOCK, columns[here] % _BLOCK] = True
        score, at = _best_of_block(*parts, self.noise, left_out)
        return float(score), *divmod(int(at), _BLOCK)

    def _size(self, row: int, column: int) -> int:
        rows, columns = (min(_BLOCK, self.n - block * _BLOCK) for block in (row, column))
        return rows * (rows - 1) // 2 if row == column else rows * columns

    def _padded(self, array: Array) -> Array:
        filled = np.zeros((self.num_blocks * _BLOCK, *array.shape[1:]), array.dtype)
        filled[: self.n] = array[self.order]
        return filled

    def _largest(self, values: Array) -> Array:
        """Greatest value in any block from each on, in double precision."""
        blocks = self._padded(values).reshape(-1, _BLOCK).max(axis=1).astype(float)
        return np.maximum.accumulate(blocks[::-1])[::-1]


@jax.jit
def _best_of_block(
    mean: list[Any], factor: list[Any], own: list[Any], noise: Any, left_out: Any
) -> tuple[jax.Array, jax.Array]:
    variance = own[0][:, None] + own[1] - 2.0 * factor[0] @ factor[1].T
    margin = mean[0][:, None] - mean[1]
    score = bald_of_margin(margin, jnp.maximum(variance, 0.0), noise)
    score = jnp.where(left_out, -jnp.inf, score)
    best = jnp.argmax(score)
    return score.ravel()[best], best


@jax.jit
def _even_score(variance: Any, noise: Any) -> jax.Array:
    return bald_of_margin(jnp.zeros(()), variance, noise)


def _best_of_some(
    skills: tuple[Array, Array, Array], noise: float, pairs: Array, out: Array
) -> BestPair:
    """The best of given pairs, a chunk at a time."""
    mean, factor, diagonal = skills
    n = len(mean)
    usable = (pairs[:, 0] != pairs[:, 1]) & ~np.isin(_keys(pairs, n), out)
    pair, best = (0, 0), -np.inf
    for chunk in np.array_split(pairs[usable], max(1, len(pairs) // 65_536)):
        if len(chunk):
            i, j = chunk.T
            apart = factor[i] - factor[j]
            variance = np.einsum("ij,ij->i", apart, apart) + diagonal[i] + diagonal[j]
            scores = np.asarray(bald_of_margin(jnp.asarray(mean[i] - mean[j]), variance, noise))
            at = int(scores.argmax())
            if scores[at] > best:
                best, pair = float(scores[at]), (int(i[at]), int(j[at]))
    return BestPair((min(pair), max(pair)), best, True, 0.0, int(usable.sum()))


def _keys(pairs: Array, n: int) -> Array:
    """One number a pair, whatever the order of its items."""
    pairs = pairs.astype(np.int64)
    return pairs.min(axis=1, initial=n) * n + pairs.max(axis=1, initial=0)


def _checked(beliefs: FactoredBeliefs) -> tuple[Array, Array, Array, float]:
    factor = np.asarray(beliefs.factor)
    dtype = factor.dtype if factor.dtype == np.float32 else np.float64
    mean, factor, diagonal = (np.asarray(part, dtype) for part in beliefs[:3])
    if mean.ndim != 1 or factor.shape[:-1] != mean.shape or diagonal.shape != mean.shape:
        raise ValueError(
            f"beliefs has a mean of shape {mean.shape}, a factor of shape {factor.shape} and a "
            f"diagonal of shape {diagonal.shape}; pass (n,), (n, M) and (n,)"
        )
    if mean.size < 2:
        raise ValueError("beliefs is about fewer than two items; pass beliefs about two or more")
    if not all(np.isfinite(part).all() for part in (mean, factor, diagonal)):
        raise ValueError("beliefs holds numbers that are not finite; pass finite ones")
    if (diagonal < 0).any():
        raise ValueError(
            f"beliefs has {diagonal.min()} on the diagonal; pass variances from zero on"
        )
    noise = float(np.asarray(beliefs.noise))
    if not 0 < noise < np.inf:
        raise ValueError(f"beliefs has a noise of {noise}; pass a positive standard deviation")
    return mean, factor, diagonal, noise
