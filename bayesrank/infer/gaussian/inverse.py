"""The inverse of a large positive definite matrix, mostly by products of matrices."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array, lax

__all__ = ["LARGEST_BLOCK", "inverse_and_pivots"]

# LAPACK inverts blocks of this size. Products take a quarter of its time a flop, and compiling
# them half a second.
LARGEST_BLOCK = 400


def inverse_and_pivots(matrix: Array) -> tuple[Array, Array]:
    r"""Invert a symmetric positive definite matrix by halves.

    With the roots ``U U' = A^-1`` and ``V V' = (D - X X')^-1``, and ``X = B U``, the inverse is

    .. math:: \begin{pmatrix} A & B' \\ B & D \end{pmatrix}^{-1} = R R', \quad
        R = \begin{pmatrix} U & -U X' V \\ 0 & V \end{pmatrix}

    Products with ``A^-1`` itself in place of its root would lose as many digits again as the
    condition number has.

    Parameters
    ----------
    matrix
        Shape (n, n).

    Returns
    -------
    tuple
        The inverse (n, n), and the squared diagonal of the Cholesky factor (n,), whose product is
        the determinant; NaN where the matrix is not positive definite.
    """
    _, inverse, pivots = _by_halves(matrix)
    return inverse, pivots


def _by_halves(matrix: Array) -> tuple[Array, Array, Array]:
    """An upper triangular root of the inverse, the inverse and the pivots."""
    size = matrix.shape[0]
    if size <= LARGEST_BLOCK:
        factor = lax.linalg.cholesky(matrix, symmetrize_input=False)
        root = lax.linalg.triangular_solve(
            factor,
            jnp.eye(size, dtype=matrix.dtype),
            left_side=True,
            lower=True,
            transpose_a=True,
        )
        return root, root @ root.T, jnp.diagonal(factor) ** 2
    half = size // 2
    upper, first, pivots = _by_halves(matrix[:half, :half])
    below = matrix[half:, :half] @ upper
    lower, second, more = _by_halves(matrix[half:, half:] - below @ below.T)
    # A product whose left side is transposed would take XLA twice as long on a CPU.
    across = -(upper @ below.T) @ lower
    corner = across @ lower.T
    inverse = jnp.block([[first + across @ across.T, corner], [corner.T, second]])
    root = jnp.block([[upper, across], [jnp.zeros_like(across.T), lower]])
    return root, inverse, jnp.concatenate([pivots, more])
