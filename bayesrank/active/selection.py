"""Which questions to ask next: the best of all pairs, without holding all their scores.

The ``n (n - 1) / 2`` pairs of n items are walked through by distance round a circle: the pairs
``(i, i + d mod n)`` with ``d = 1, 2, ..., n // 2`` are each pair once. A chunk is a few distances;
its scores are compared with the best so far and forgotten, so that memory does not grow with the
number of pairs. Criteria that look at all items for each pair are walked through in blocks of
neighbours on the circle instead, ``(i + r, i + 1 + c)``.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.tree_util import Partial
from jax.typing import ArrayLike
from numpyro.util import not_jax_tracer

from bayesrank._memory import check_room
from bayesrank._validate import check_count
from bayesrank.active.acquisition import Acquisition
from bayesrank.active.acquisition.beliefs import Beliefs, anticipate
from bayesrank.active.acquisition.blocks import BlockForm, block_form

__all__ = ["best_batch", "best_pairs"]

_CHUNK = 65_536
# Items whose pairs with half the circle make a block: few, so that its arrays stay in the cache.
_HEIGHT = 32


class _Best(NamedTuple):
    """The best pairs so far, best first: scores (q,), pairs (q, 2)."""

    scores: Array
    pairs: Array


def best_pairs(
    acquisition: Acquisition,
    beliefs: Beliefs,
    q: int = 1,
    *,
    candidates: ArrayLike | None = None,
    exclude: ArrayLike | None = None,
    chunk: int = _CHUNK,
) -> tuple[Array, Array]:
    """The q pairs with the highest scores, each judged alone.

    Code is compiled once for arrays of the same shapes and the same `acquisition`; pad `candidates`
    and `exclude` with rows of one item twice, ``(0, 0)``, to keep shapes the same.

    Parameters
    ----------
    acquisition : callable
        ``acquisition(beliefs, pairs) -> scores``, as in `bayesrank.active.acquisition`.
    beliefs : Beliefs
        Beliefs about n skills. Scores are computed in the precision that JAX gives these arrays.
    q : int, default 1
        Number of pairs.
    candidates : ArrayLike, optional
        Pairs to choose from, integers of shape (m, 2). By default all pairs of items. A pair that
        stands there twice can be chosen twice, though not in a batch.
    exclude : ArrayLike, optional
        Pairs not to choose, integers of shape (k, 2), in either order of the items.
    chunk : int, default 65536
        About how many pairs to score at a time.

    Returns
    -------
    tuple
        Pairs (q, 2), integers, best first, and scores (q,). If there are fewer than q pairs to
        choose from, the rest are ``(0, 0)`` with score minus infinity.

    Raises
    ------
    ValueError
        If an argument cannot be used, or memory is too small; the message says what to do.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from bayesrank.active import Beliefs, bald, best_pairs
    >>> beliefs = Beliefs(jnp.zeros(3), jnp.diag(jnp.array([1.0, 2.0, 3.0])), noise=0.5)
    >>> pairs, scores = best_pairs(bald, beliefs, 2)
    >>> pairs.tolist()
    [[1, 2], [0, 2]]
    """
    beliefs, acquisition = _as_arrays(beliefs), _as_tree(acquisition)
    q, chunk = check_count(q, "q"), check_count(chunk, "chunk")
    n = beliefs.mean.shape[0]
    blocks = candidates is None and block_form(acquisition) is not None
    _check_room(beliefs, q, chunk, blocks)
    excluded = _check_pairs(exclude, "exclude", n)
    if candidates is None:
        best = _best_of_all(acquisition, beliefs, excluded, q, chunk)
    else:
        pairs = _check_pairs(candidates, "candidates", n)
        best = _best_of_some(acquisition, beliefs, pairs, excluded, q, chunk)
    return _checked(best)


def best_batch(
    acquisition: Acquisition,
    beliefs: Beliefs,
    q: int,
    *,
    candidates: ArrayLike | None = None,
    exclude: ArrayLike | None = None,
    chunk: int = _CHUNK,
) -> tuple[Array, Array]:
    """Choose q pairs jointly, to be asked before any of the answers is known.

    Greedy: each next pair is the best under the beliefs to be expected once the pairs before it
    have been answered (`anticipate`: the mean as it is, the covariance averaged over the answers).
    Two questions that would tell the same are therefore not both asked, which the q best of
    `best_pairs` often are. It costs q calls of `best_pairs`; of very many pairs, pass the best few
    thousand singles as `candidates`.

    Parameters
    ----------
    acquisition, beliefs, candidates, exclude, chunk
        As for `best_pairs`.
    q : int
        Number of pairs.

    Returns
    -------
    tuple
        Pairs (q, 2), integers, in the order in which they were chosen, and their scores (q,), each
        given the pairs before it. If there are fewer than q pairs to choose from, the rest are
        ``(0, 0)`` with score minus infinity.

    Raises
    ------
    ValueError
        If an argument cannot be used, or memory is too small; the message says what to do.
    """
    beliefs, acquisition = _as_arrays(beliefs), _as_tree(acquisition)
    q, chunk = check_count(q, "q"), check_count(chunk, "chunk")
    n = beliefs.mean.shape[0]
    blocks = candidates is None and block_form(acquisition) is not None
    _check_room(beliefs, q, chunk, blocks)
    excluded = _check_pairs(exclude, "exclude", n)
    pairs = None if candidates is None else _check_pairs(candidates, "candidates", n)
    return _checked(_greedy(acquisition, beliefs, pairs, excluded, q, chunk))


@partial(jax.jit, static_argnums=(4, 5))
def _greedy(
    acquisition: Partial,
    beliefs: Beliefs,
    candidates: Array | None,
    excluded: Array,
    q: int,
    chunk: int,
) -> _Best:
    def choose(carry: tuple[Beliefs, Array], place: Array) -> tuple[tuple[Beliefs, Array], _Best]:
        beliefs, chosen = carry
        taken = jnp.concatenate([excluded, chosen])
        if candidates is None:
            best = _best_of_all(acquisition, beliefs, taken, 1, chunk)
        else:
            best = _best_of_some(acquisition, beliefs, candidates, taken, 1, chunk)
        pair = best.pairs[0]
        return (anticipate(beliefs, pair), chosen.at[place].set(pair)), _Best(best.scores[0], pair)

    none = jnp.zeros((q, 2), excluded.dtype)
    return lax.scan(choose, (beliefs, none), jnp.arange(q))[1]


@partial(jax.jit, static_argnums=(3, 4))
def _best_of_all(
    acquisition: Partial, beliefs: Beliefs, excluded: Array, q: int, chunk: int
) -> _Best:
    """The best of all pairs, a few distances round the circle at a time."""
    form = block_form(acquisition)
    if form is not None:
        return _best_of_blocks(form, beliefs, excluded, q, chunk)
    n = beliefs.mean.shape[0]
    furthest = n // 2
    lengths = min(max(1, chunk // n), max(1, furthest))
    first = jnp.arange(n, dtype=excluded.dtype)
    distance_out, first_out = _place_on_circle(excluded, n)

    def score(start: Array) -> _Best:
        distance = start + jnp.arange(lengths, dtype=excluded.dtype)[:, None]
        second = (first + distance) % n
        counted = _is_counted(distance, first, second, n)
        pairs = jnp.stack(jnp.broadcast_arrays(first, second), axis=-1).reshape(-1, 2)
        scores = _scores(acquisition, beliefs, pairs).reshape(lengths, n)
        scores = jnp.where(counted, scores, -jnp.inf)
        row = distance_out - start
        row = jnp.where((row >= 0) & (row < lengths), row, lengths)
        scores = scores.at[row, first_out].set(-jnp.inf, mode="drop")
        return _Best(scores.reshape(-1), pairs)

    starts = jnp.arange(1, max(furthest, 1) + 1, lengths, dtype=excluded.dtype)
    best = _running_best(score, starts, q)
    return best._replace(pairs=jnp.sort(best.pairs, axis=-1))


def _best_of_blocks(
    form: BlockForm, beliefs: Beliefs, excluded: Array, q: int, chunk: int
) -> _Best:
    """The best of all pairs, a few first items and all distances at a time."""
    n = beliefs.mean.shape[0]
    furthest = max(n // 2, 1)
    height = max(1, min(_HEIGHT, n, chunk // furthest))
    width = furthest + height - 1
    table = form.table(jnp.asarray(beliefs.covariance))
    table = table[..., jnp.arange(n + height + width) % n]
    distance_out, first_out = _place_on_circle(excluded, n)

    def score(start: Array) -> _Best:
        first = start + jnp.arange(height, dtype=excluded.dtype)[:, None]
        second = start + 1 + jnp.arange(width, dtype=excluded.dtype)
        pairs = jnp.stack(jnp.broadcast_arrays(first % n, second % n), axis=-1)
        rows = lax.dynamic_slice_in_dim(table, start, height, axis=-1)
        columns = lax.dynamic_slice_in_dim(table, start + 1, width, axis=-1)
        counted = (first < n) & _is_counted(second - first, pairs[..., 0], pairs[..., 1], n)
        scores = jnp.where(counted, form.scores(beliefs, pairs, rows, columns), -jnp.inf)
        row = first_out - start
        row = jnp.where((row >= 0) & (row < height) & (distance_out > 0), row, height)
        scores = scores.at[row, row + distance_out - 1].set(-jnp.inf, mode="drop")
        return _Best(scores.reshape(-1), pairs.reshape(-1, 2))

    best = _running_best(score, jnp.arange(0, n, height, dtype=excluded.dtype), q)
    return best._replace(pairs=jnp.sort(best.pairs, axis=-1))


def _is_counted(distance: Array, first: Array, second: Array, n: int) -> Array:
    """Whether a pair at a distance round the circle is to be counted here."""
    # Halfway round an even circle each pair is met from both its ends.
    halfway = (2 * distance < n) | (first < second)
    return (distance > 0) & (distance <= n // 2) & halfway


def _place_on_circle(pairs: Array, n: int) -> tuple[Array, Array]:
    """Distance round the circle and first item with which a pair is met; distance 0 is no pair."""
    low, high = jnp.min(pairs, axis=-1), jnp.max(pairs, axis=-1)
    ahead = high - low
    return jnp.minimum(ahead, n - ahead), jnp.where(2 * ahead <= n, low, high)


@partial(jax.jit, static_argnums=(4, 5))
def _best_of_some(
    acquisition: Partial,
    beliefs: Beliefs,
    candidates: Array,
    excluded: Array,
    q: int,
    chunk: int,
) -> _Best:
    """The best of given pairs, a chunk at a time."""
    n = beliefs.mean.shape[0]
    chunk = max(1, min(chunk, candidates.shape[0]))
    rows = max(1, -(-candidates.shape[0] // chunk))
    padding = ((0, rows * chunk - candidates.shape[0]), (0, 0))
    chunks = jnp.pad(candidates, padding).reshape(rows, chunk, 2)
    distance_out, first_out = _place_on_circle(excluded, n)

    def score(pairs: Array) -> _Best:
        distance, first = _place_on_circle(pairs, n)
        met = (distance[:, None] == distance_out) & (first[:, None] == first_out)
        unusable = (distance == 0) | jnp.any(met, axis=1)
        return _Best(jnp.where(unusable, -jnp.inf, _scores(acquisition, beliefs, pairs)), pairs)

    return _running_best(score, chunks, q)


def _scores(acquisition: Partial, beliefs: Beliefs, pairs: Array) -> Array:
    scores = jnp.asarray(acquisition(beliefs, pairs))
    if scores.shape != pairs.shape[:-1]:
        raise ValueError(
            f"the acquisition gives scores of shape {scores.shape} to pairs of shape "
            f"{pairs.shape}; give each pair one"
        )
    return scores


def _running_best(score: Callable[[Array], _Best], chunks: Array, q: int) -> _Best:
    """The q best of the pairs that a function scores chunk by chunk."""

    def update(best: _Best, chunk: Array) -> tuple[_Best, None]:
        new = score(chunk)

        def merge(best: _Best) -> _Best:
            both = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), best, new)
            scores, places = lax.top_k(both.scores, q)
            return _Best(scores, both.pairs[places])

        # Few chunks hold one of the best. A score that is not a number is carried to the end.
        return lax.cond(jnp.max(new.scores) <= best.scores[-1], lambda b: b, merge, best), None

    shapes = jax.eval_shape(score, chunks[0])
    scores = jnp.full(q, -jnp.inf, shapes.scores.dtype)
    best, _ = lax.scan(update, _Best(scores, jnp.zeros((q, 2), shapes.pairs.dtype)), chunks)
    return best._replace(pairs=jnp.where(best.scores[:, None] == -jnp.inf, 0, best.pairs))


def _check_room(beliefs: Beliefs, q: int, chunk: int, blocks: bool) -> None:
    """Refuse what needs more memory than there is, by a bound of what it needs at the least."""
    n, size = beliefs.mean.shape[0], beliefs.covariance.dtype.itemsize
    # Pairs and scores of a chunk and of the best ones, twice; in blocks also the covariances, laid
    # round the circle one and a half times.
    need = 6 * (q + min(chunk, n**2)) + (1.5 * n**2 if blocks else 0)
    what = f"the scores of pairs of {n:,} items, {q:,} of them to be chosen,"
    check_room(size * need, what, "pass fewer items or `candidates`, or a smaller `q` or `chunk`")


def _checked(best: _Best) -> tuple[Array, Array]:
    """Pairs and scores, unless there are scores that are not numbers."""
    if not_jax_tracer(best.scores) and bool(jnp.any(jnp.isnan(best.scores))):
        pair = best.pairs[jnp.argmax(jnp.isnan(best.scores))].tolist()
        raise ValueError(
            f"the acquisition's score of the pair {pair} is not a number; look for beliefs that "
            "are not finite, a covariance that is not positive semi-definite, or a noise of zero."
        )
    return best.pairs, best.scores


def _as_arrays(beliefs: Beliefs) -> Beliefs:
    """Beliefs as arrays of one floating dtype."""
    dtype = jnp.result_type(*(part for part in beliefs if part is not None), float)
    if np.size(beliefs[0]) == 0:
        raise ValueError("`beliefs` is about no item; pass beliefs about two or more.")
    mean, covariance, noise = (jnp.asarray(part, dtype) for part in beliefs[:3])
    tie_width = None if beliefs[3] is None else jnp.asarray(beliefs[3], dtype)
    if mean.ndim != 1 or covariance.shape != (mean.size, mean.size) or noise.ndim != 0:
        raise ValueError(
            f"`beliefs` has a mean of shape {mean.shape}, a covariance of shape "
            f"{covariance.shape} and a noise of shape {noise.shape}; pass (n,), (n, n) and ()."
        )
    if not_jax_tracer(noise) and not noise > 0:
        raise ValueError(
            f"`beliefs` has a noise of {noise}; pass a positive standard deviation: where answers "
            "are certain, a small one."
        )
    if tie_width is not None and not_jax_tracer(tie_width) and not tie_width > 0:
        raise ValueError(
            f"`beliefs` has a tie width of {tie_width}; pass a positive number, or None where no "
            "answer is a tie."
        )
    return Beliefs(mean, covariance, noise, tie_width)


def _as_tree(acquisition: Acquisition) -> Partial:
    """The acquisition with its arrays as arguments of compiled code."""
    if not callable(acquisition):
        raise ValueError(
            f"`acquisition` is {acquisition!r}; pass a function of beliefs and pairs, such as "
            "bayesrank.active.bald."
        )
    return acquisition if isinstance(acquisition, Partial) else Partial(acquisition)


def _check_pairs(pairs: ArrayLike | None, name: str, n: int) -> Array:
    """Pairs as integers of shape (k, 2); None is no pair."""
    if pairs is None:
        return jnp.zeros((0, 2), jnp.int32)
    known = not_jax_tracer(pairs)
    array = np.asarray(pairs) if known else jnp.asarray(pairs)
    if array.shape == (0,):  # an empty list
        return jnp.zeros((0, 2), jnp.int32)
    if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iu":
        raise ValueError(
            f"`{name}` has shape {array.shape} and dtype {array.dtype}; pass pairs of items, "
            "integers of shape (k, 2)."
        )
    if known and array.size and not 0 <= int(array.min()) <= int(array.max()) < n:
        raise ValueError(
            f"`{name}` holds items from {array.min()} to {array.max()}; items are numbered from 0 "
            f"to {n - 1}."
        )
    return jnp.asarray(array, jnp.int32)
