"""Scores of pairs by what their comparison says of all items, one by one or in blocks.

Criteria that pass each candidate over all items, for a block of candidates at a time.

A block is all pairs of a few items (its rows) with many (its columns). An item needs one column of
a table, so a block needs slices of it. Candidates in no order gather a row of the covariance for
each of their items instead.

References
----------
.. [1] Cohn, D. A., Ghahramani, Z. and Jordan, M. I. (1996). Active learning with statistical
       models. Journal of Artificial Intelligence Research, 4, 129-145.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax
from jax.tree_util import Partial
from jax.typing import ArrayLike

from bayesrank.active.acquisition.beliefs import Beliefs, expected_shrinkage

# Candidates that are passed over the items together.
_TOGETHER = 64


def pool_variance(beliefs: Beliefs, pairs: ArrayLike) -> Array:
    r"""Expected reduction of the variance of a margin, averaged over all pairs of items ([1]_).

    An answer is expected to take :math:`\bar\omega (c_a - c_b)^2` off the variance of the margin of
    items a and b (`bayesrank.active.anticipate`). Its average over all pairs is
    :math:`2 \bar\omega` times the sample variance of c, which takes one pass over the items.

    Parameters
    ----------
    beliefs, pairs
        Beliefs about n > 1 skills, and candidates, integers of shape (..., 2).

    Returns
    -------
    Array
        Expected reductions, on the squared scale of the skills, shape (...).
    """
    pairs, covariance = jnp.asarray(pairs), jnp.asarray(beliefs.covariance)
    shrinkage = expected_shrinkage(beliefs, pairs)

    def of_pair(pair: Array) -> Array:
        return 2.0 * jnp.var(covariance[pair[0]] - covariance[pair[1]], ddof=1)

    width = lax.map(of_pair, pairs.reshape(-1, 2), batch_size=_TOGETHER)
    return shrinkage * width.reshape(pairs.shape[:-1])


# Rows of the table that are added up in one step.
_ROWS_TOGETHER = 32


class BlockForm(NamedTuple):
    """An acquisition as a function of blocks of pairs."""

    table: Callable[[Array], Array]  # of the covariance: what it needs of n items, (..., n)
    # Of beliefs, pairs (r, c, 2), and the table at their rows and columns: (r, c).
    scores: Callable[[Beliefs, Array, Array, Array], Array]


def block_form(acquisition: Partial) -> BlockForm | None:
    """The block form of an acquisition, where it has one."""
    bare = not acquisition.args and not acquisition.keywords
    return _FORMS.get(acquisition.func) if bare else None


def _variance_table(covariance: Array) -> Array:
    return _grouped(covariance - jnp.mean(covariance, axis=0))


def _variance_scores(beliefs: Beliefs, pairs: Array, rows: Array, columns: Array) -> Array:
    def add(total: Array, items: tuple[Array, Array]) -> tuple[Array, None]:
        return total + sum(_squares(*items)), None

    shrinkage = expected_shrinkage(beliefs, pairs)
    total, _ = lax.scan(add, jnp.zeros_like(shrinkage), (rows, columns))
    return shrinkage * 2.0 * total / (beliefs.mean.shape[0] - 1)


def _grouped(table: Array) -> Array:
    """Rows of a table (m, n) in groups, (groups, 32, n), the last filled up with zeros."""
    groups = -(-table.shape[0] // _ROWS_TOGETHER)
    padding = ((0, groups * _ROWS_TOGETHER - table.shape[0]), (0, 0))
    return jnp.pad(table, padding).reshape(groups, _ROWS_TOGETHER, -1)


def _squares(rows: Array, columns: Array) -> list[Array]:
    """Squared differences (r, c) of rows (k, r) and columns (k, c), one array for each k."""
    return [jnp.square(r[:, None] - c) for r, c in zip(rows, columns, strict=True)]


_FORMS: dict[Callable[..., Array], BlockForm] = {
    pool_variance: BlockForm(_variance_table, _variance_scores),
}
