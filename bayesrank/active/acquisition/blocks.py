"""Criteria that pass each candidate over all items, for a block of candidates at a time.

A block is all pairs of a few items (its rows) with many (its columns). An item needs one column of
a table, so a block needs slices of it. Candidates in no order gather a row of the covariance for
each of their items instead.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax
from jax.tree_util import Partial

from bayesrank.active.acquisition.beliefs import (
    Beliefs,
    expected_shrinkage,
    margins,
    possible_answers,
)
from bayesrank.active.acquisition.pool import FACTORS, pool_entropy, pool_variance


class BlockForm(NamedTuple):
    """An acquisition as a function of blocks of pairs."""

    table: Callable[[Array], Array]  # of the covariance: what it needs of n items, (..., n)
    # Of beliefs, pairs (r, c, 2), and the table at their rows and columns: (r, c).
    scores: Callable[[Beliefs, Array, Array, Array], Array]


def block_form(acquisition: Partial) -> BlockForm | None:
    """The block form of an acquisition, where it has one."""
    bare = not acquisition.args and not acquisition.keywords
    return _FORMS.get(acquisition.func) if bare else None


def _entropy_table(covariance: Array) -> Array:
    variance = jnp.diagonal(covariance)
    # A skill that is known already has nothing to lose.
    known = variance > 0
    scale = jnp.where(known, 1.0 / jnp.sqrt(jnp.where(known, variance, 1.0)), 0.0)
    return _grouped(scale[:, None] * covariance)


def _entropy_scores(beliefs: Beliefs, pairs: Array, rows: Array, columns: Array) -> Array:
    # An answer that cannot come is not taken into account.
    answers = [
        (a.probability, jnp.where(a.probability > 0, a.shrinkage, 0.0))
        for a in possible_answers(beliefs, *margins(beliefs, pairs))
    ]

    def add(total: Array, items: tuple[Array, Array]) -> tuple[Array, None]:
        squares = _squares(*items)
        for probability, shrinkage in answers:
            left = [1.0 - shrinkage * square for square in squares]
            total += probability * log_of_product(left)
        return total, None

    nothing = jnp.zeros_like(answers[0][0])
    return -0.5 * lax.scan(add, nothing, (rows, columns))[0]


def log_of_product(factors: list[Array]) -> Array:
    """Logarithm of a product of twice as many factors as do not underflow."""
    # The exponent of half the product is set aside, which costs less than a second logarithm.
    half, rest = factors[:FACTORS], factors[FACTORS:]
    mantissa, exponent = jnp.frexp(math.prod(half[1:], start=half[0]))
    return jnp.log(math.prod(rest, start=mantissa)) + math.log(2.0) * exponent


def _variance_table(covariance: Array) -> Array:
    return _grouped(covariance - jnp.mean(covariance, axis=0))


def _variance_scores(beliefs: Beliefs, pairs: Array, rows: Array, columns: Array) -> Array:
    def add(total: Array, items: tuple[Array, Array]) -> tuple[Array, None]:
        return total + sum(_squares(*items)), None

    shrinkage = expected_shrinkage(beliefs, pairs)
    total, _ = lax.scan(add, jnp.zeros_like(shrinkage), (rows, columns))
    return shrinkage * 2.0 * total / (beliefs.mean.shape[0] - 1)


def _grouped(table: Array) -> Array:
    """Rows of a table (m, n) in groups, (groups, 2 FACTORS, n), the last filled up with zeros."""
    size = 2 * FACTORS
    groups = -(-table.shape[0] // size)
    padding = ((0, groups * size - table.shape[0]), (0, 0))
    return jnp.pad(table, padding).reshape(groups, size, -1)


def _squares(rows: Array, columns: Array) -> list[Array]:
    """Squared differences (r, c) of rows (k, r) and columns (k, c), one array for each k."""
    return [jnp.square(r[:, None] - c) for r, c in zip(rows, columns, strict=True)]


_FORMS: dict[Callable[..., Array], BlockForm] = {
    pool_entropy: BlockForm(_entropy_table, _entropy_scores),
    pool_variance: BlockForm(_variance_table, _variance_scores),
}
