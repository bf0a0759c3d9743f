"""Criteria that pass each candidate over all items, for a block of candidates at a time.

A block is all pairs of a few items (its rows) with many (its columns). An item needs one column of
a table, so a block needs slices of it. Candidates in no order gather a row of the covariance for
each of their items instead.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax
from jax.tree_util import Partial

from bayesrank.active.acquisition.beliefs import Beliefs, expected_shrinkage
from bayesrank.active.acquisition.pool import pool_variance

# Rows of the table that are added up in one step.
_TOGETHER = 32


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
    groups = -(-table.shape[0] // _TOGETHER)
    padding = ((0, groups * _TOGETHER - table.shape[0]), (0, 0))
    return jnp.pad(table, padding).reshape(groups, _TOGETHER, -1)


def _squares(rows: Array, columns: Array) -> list[Array]:
    """Squared differences (r, c) of rows (k, r) and columns (k, c), one array for each k."""
    return [jnp.square(r[:, None] - c) for r, c in zip(rows, columns, strict=True)]


_FORMS: dict[Callable[..., Array], BlockForm] = {
    pool_variance: BlockForm(_variance_table, _variance_scores),
}
