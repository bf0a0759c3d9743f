"""Which questions to ask next: the best of all pairs, without holding all their scores.

Each chunk of pairs, a few first items with all second ones, is compared with the best so far. Its
scores are then forgotten, so that memory does not grow with the number of pairs.
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

from bayesrank._memory import check_memory
from bayesrank._process import enter_jax
from bayesrank._validate import check_count, check_pairs
from bayesrank.active.acquisition import Acquisition
from bayesrank.active.acquisition.beliefs import Beliefs, anticipate
from bayesrank.active.acquisition.pool import block_form

_CHUNK = 65_536
# Items whose pairs with all others make a block: few, so that its arrays stay in the cache.
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
    return _checked(_best(*_arguments(acquisition, beliefs, candidates, exclude, q, chunk)))


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

    Each next pair is the best under the beliefs expected after the pairs before it
    (`anticipate`). So two questions that tell the same are not both asked, as the q best of
    `best_pairs` may be. It costs q calls of `best_pairs`; with very many pairs, pass the best few
    thousand as `candidates`.

    Parameters
    ----------
    acquisition, beliefs, q, candidates, exclude, chunk
        As for `best_pairs`.

    Returns
    -------
    tuple
        As of `best_pairs`, but in the order of choice, each score given the pairs before it.

    Raises
    ------
    ValueError
        If an argument cannot be used, or memory is too small; the message says what to do.
    """
    return _checked(_greedy(*_arguments(acquisition, beliefs, candidates, exclude, q, chunk)))


@partial(jax.jit, static_argnums=(4, 5))
def _greedy(
    acquisition: Partial,
    beliefs: Beliefs,
    candidates: Array | None,
    excluded: Array,
    q: int,
    chunk: int,
) -> _Best:
    """The best pair, q times, each under what the ones before it are expected to tell."""

    def choose(carry: tuple[Beliefs, Array], place: Array) -> tuple[tuple[Beliefs, Array], _Best]:
        beliefs, chosen = carry
        taken = jnp.concatenate([excluded, chosen])
        best = _best(acquisition, beliefs, candidates, taken, 1, chunk)
        pair = best.pairs[0]
        return (anticipate(beliefs, pair), chosen.at[place].set(pair)), _Best(best.scores[0], pair)

    none = jnp.zeros((q, 2), excluded.dtype)
    return lax.scan(choose, (beliefs, none), jnp.arange(q))[1]


@partial(jax.jit, static_argnums=(4, 5))
def _best(
    acquisition: Partial,
    beliefs: Beliefs,
    candidates: Array | None,
    excluded: Array,
    q: int,
    chunk: int,
) -> _Best:
    """The q best of the candidates (m, 2), or of all pairs."""
    n = beliefs.mean.shape[0]
    low, high = jnp.min(excluded, axis=-1), jnp.max(excluded, axis=-1)

    def of_rows(start: Array) -> _Best:
        first, second = start + jnp.arange(height)[:, None], jnp.arange(n)
        pairs = jnp.stack(jnp.broadcast_arrays(jnp.minimum(first, n - 1), second), axis=-1)
        if form is None:
            scores = _scores(acquisition, beliefs, pairs)
        else:
            rows = lax.dynamic_slice_in_dim(table, start, height, axis=-1)
            scores = form.scores(beliefs, pairs, rows, table[..., :n])
        scores = jnp.where(first < second, scores, -jnp.inf)
        row = jnp.where((low >= start) & (low < start + height), low - start, height)
        scores = scores.at[row, high].set(-jnp.inf, mode="drop")
        return _Best(scores.ravel(), pairs.reshape(-1, 2).astype(excluded.dtype))

    def of_chunk(pairs: Array) -> _Best:
        first, second = jnp.min(pairs, axis=-1), jnp.max(pairs, axis=-1)
        out = jnp.any((first[:, None] == low) & (second[:, None] == high), axis=1)
        scores = _scores(acquisition, beliefs, pairs)
        return _Best(jnp.where(out | (first == second), -jnp.inf, scores), pairs)

    if candidates is None:
        form, height = block_form(acquisition), max(1, min(n, chunk // n))
        if form is not None:
            height = min(height, _HEIGHT)
            table = form.table(jnp.asarray(beliefs.covariance))
            table = jnp.pad(table, [(0, 0)] * (table.ndim - 1) + [(0, height)])
        return _running_best(of_rows, jnp.arange(0, n, height), q)
    size = max(1, min(chunk, candidates.shape[0]))
    count = max(1, -(-candidates.shape[0] // size))
    padding = ((0, count * size - candidates.shape[0]), (0, 0))
    return _running_best(of_chunk, jnp.pad(candidates, padding).reshape(count, size, 2), q)


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


def _arguments(
    acquisition: Acquisition,
    beliefs: Beliefs,
    candidates: ArrayLike | None,
    exclude: ArrayLike | None,
    q: int,
    chunk: int,
) -> tuple[Partial, Beliefs, Array | None, Array, int, int]:
    """The arguments of compiled code, checked, unless what they ask for needs too much memory."""
    enter_jax()
    beliefs, acquisition = _as_arrays(beliefs), _as_tree(acquisition)
    q, chunk = check_count(q, "q"), check_count(chunk, "chunk")
    n, size = beliefs.mean.shape[0], beliefs.covariance.dtype.itemsize
    what = f"the scores of pairs of {n:,} items, {q:,} of them to be chosen,"
    fix = "pass fewer items or candidates, or a smaller q or chunk"
    check_memory(6 * size * (q + min(chunk, n**2)), what, fix)  # of a chunk and of the best, twice
    pairs = None if candidates is None else check_pairs(candidates, n, "candidates")
    excluded = check_pairs(np.zeros((0, 2), int) if exclude is None else exclude, n, "exclude")
    pairs, excluded = jax.tree.map(lambda a: jnp.asarray(a, jnp.int32), (pairs, excluded))
    return acquisition, beliefs, pairs, excluded, q, chunk


def _checked(best: _Best) -> tuple[Array, Array]:
    """Pairs and scores, unless there are scores that are not numbers."""
    if not_jax_tracer(best.scores) and bool(jnp.any(jnp.isnan(best.scores))):
        pair = best.pairs[jnp.argmax(jnp.isnan(best.scores))].tolist()
        raise ValueError(
            f"the acquisition's score of the pair {pair} is not a number; look for beliefs that "
            "are not finite, a covariance that is not positive semi-definite, or a noise of zero"
        )
    return best.pairs, best.scores


def _as_arrays(beliefs: Beliefs) -> Beliefs:
    """Beliefs as arrays of one floating dtype."""
    dtype = jnp.result_type(*(part for part in beliefs if part is not None), float)
    if np.size(beliefs[0]) == 0:
        raise ValueError("beliefs is about no item; pass beliefs about two or more")
    mean, covariance, noise = (jnp.asarray(part, dtype) for part in beliefs[:3])
    tie_width = None if beliefs[3] is None else jnp.asarray(beliefs[3], dtype)
    if mean.ndim != 1 or covariance.shape != (mean.size, mean.size) or noise.ndim != 0:
        raise ValueError(
            f"beliefs has a mean of shape {mean.shape}, a covariance of shape "
            f"{covariance.shape} and a noise of shape {noise.shape}; pass (n,), (n, n) and ()"
        )
    if not_jax_tracer(noise) and not noise > 0:
        raise ValueError(
            f"beliefs has a noise of {noise}; pass a positive standard deviation: where answers "
            "are certain, a small one"
        )
    if tie_width is not None and not_jax_tracer(tie_width) and not tie_width > 0:
        raise ValueError(
            f"beliefs has a tie width of {tie_width}; pass a positive number, or None where no "
            "answer is a tie"
        )
    return Beliefs(mean, covariance, noise, tie_width)


def _as_tree(acquisition: Acquisition) -> Partial:
    """The acquisition with its arrays as arguments of compiled code."""
    if not callable(acquisition):
        raise ValueError(
            f"acquisition is {acquisition!r}; pass a function of beliefs and pairs, such as "
            "bayesrank.active.bald"
        )
    return acquisition if isinstance(acquisition, Partial) else Partial(acquisition)
