"""Equal factors are one site with a count.

A thousand equal rows of data make a thousand factors that differ in nothing. Sites of equal factors
are equal at EP's fixed point, by symmetry, and at every sweep on the way there. So each group of
equal factors is integrated once, and its site counts as often in the posterior and the evidence.

How many factors differ is known only where the data are. Before code that solves EP is compiled,
`traits_of` collects what tells a program's factors apart, as arrays, and `group_equal` finds on the
host which of them agree in all of it, to the last bit; `bayesrank.infer.reader.elements` evaluates
one of each group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array

from bayesrank.infer.gaussian.arrow import ArrowPrior
from bayesrank.infer.gaussian.dense import DensePrior
from bayesrank.infer.gaussian.diagonal import DiagonalPrior
from bayesrank.infer.sites import Problem
from bayesrank.infer.solution import Solution

__all__ = [
    "Equal",
    "EqualFactors",
    "collapsed",
    "expanded",
    "group_equal",
    "may_have_equal_rows",
    "traits_of",
]

# Fewer rows than this are quick anyway; and of a group of rows, so many are equal on average.
_FEWEST_ROWS = 256
_FEWEST_EQUAL = 4
_ODD = np.uint64(0x9E3779B97F4A7C15)


class EqualFactors(NamedTuple):
    """Equal factors of one block.

    Attributes
    ----------
    first
        Number of a factor of each group, padded by factor 0 to a length that few data sets change.
    multiplicity
        Number of factors of each group, 0 where padded.
    """

    first: Any
    multiplicity: Any


# For each block, groups of its factors and the group that each factor is in.
Equal = tuple[tuple[EqualFactors, np.ndarray] | None, ...]


def may_have_equal_rows(arguments: Any) -> bool:
    """Whether the rows of a program's array arguments are few different ones, many times each."""
    by_length: dict[int, list[np.ndarray]] = {}
    for leaf in jax.tree.leaves(arguments):
        if isinstance(leaf, (np.ndarray, jax.Array)) and np.ndim(leaf) > 0:
            numeric = getattr(leaf.dtype, "kind", "") in tuple("biuf")
            if numeric and len(leaf) >= _FEWEST_ROWS:
                by_length.setdefault(len(leaf), []).append(np.asarray(leaf))
    return any(_few_differ(_hashes(arrays)) for arrays in by_length.values())


def traits_of(problem: Problem) -> tuple[tuple[Array, ...] | None, ...]:
    """For each block, arrays whose k-th rows hold all that factor k may differ by; else None."""
    if not isinstance(problem.prior, (DensePrior, DiagonalPrior, ArrowPrior)):
        return (None,) * len(problem.blocks)
    found: list[tuple[Array, ...] | None] = []
    for block in problem.blocks:
        if block.elements is None:
            found.append(None)
            continue
        columns = () if block.rows.columns is None else (block.rows.columns,)
        found.append((block.rows.values, *columns, block.offset, *block.elements.arguments))
    return tuple(found)


def group_equal(traits: Sequence[Any] | None) -> tuple[EqualFactors, np.ndarray] | None:
    """Find factors with equal traits, and the group of each factor; None if that saves little.

    Only factors that agree in every bit are put together.
    """
    arrays = [np.asarray(trait) for trait in traits or ()]
    if not arrays or len(arrays[0]) < _FEWEST_ROWS:
        return None
    hashes = _hashes(arrays)
    if not _few_differ(hashes):
        return None
    _, first, inverse, count = np.unique(
        hashes, return_index=True, return_inverse=True, return_counts=True
    )
    inverse = inverse.reshape(-1)
    # Hashes of factors that differ may agree.
    if any(not np.array_equal(_bits(x), _bits(x)[first[inverse]]) for x in arrays):
        return None
    # Numbers of groups that are near each other share compiled code.
    padding = max(32, 2 ** int(np.ceil(np.log2(first.size)))) - first.size
    padded = (np.pad(x, (0, padding)) for x in (first.astype(np.int32), count.astype(float)))
    return EqualFactors(*padded), inverse


def collapsed(problem: Problem, groups: Sequence[EqualFactors | None]) -> Problem:
    """The problem with one counted factor for each group; blocks without groups as they are."""
    blocks = []
    for block, group in zip(problem.blocks, groups, strict=True):
        if group is None or block.elements is None:
            blocks.append(block)
            continue
        columns, first = block.rows.columns, group.first
        blocks.append(
            block._replace(
                rows=block.rows._replace(
                    values=block.rows.values[first],
                    columns=None if columns is None else columns[first],
                ),
                offset=block.offset[first],
                moments=block.elements.moments(first),
                elements=None,
                multiplicity=group.multiplicity,
            )
        )
    return problem._replace(blocks=tuple(blocks))


def expanded(solution: Solution, found: Equal) -> Solution:
    """Give each factor its group's site."""
    if not found:
        return solution
    tau, nu = (
        tuple(
            x if each is None else np.asarray(x)[each[1]] for x, each in zip(xs, found, strict=True)
        )
        for xs in (solution.tau, solution.nu)
    )
    return solution._replace(tau=tau, nu=nu)


def _few_differ(hashes: np.ndarray) -> bool:
    return np.unique(hashes).size * _FEWEST_EQUAL <= hashes.size


def _bits(array: np.ndarray) -> np.ndarray:
    """The rows of an array as whole numbers (G, k); zeros of either sign differ."""
    flat = array.reshape(len(array), -1)
    return np.ascontiguousarray(flat).view(f"u{flat.dtype.itemsize}")


def _hashes(arrays: Sequence[np.ndarray]) -> np.ndarray:
    total = np.zeros(len(arrays[0]), np.uint64)
    for array in arrays:
        for column in _bits(array).T:
            total = (total ^ column.astype(np.uint64)) * _ODD
            total ^= total >> np.uint64(29)
    return total
