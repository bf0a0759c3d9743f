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

    .. math:: \begin{pmatrix} A & B' \\ B & D \end{pmatrix}^{-1} =
        \begin{pmatrix} A^{-1} + X T X' & -X T \\ -T X' & T \end{pmatrix}, \quad
        X = A^{-1} B',\ T = (D - B X)^{-1}

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
        return root @ root.T, jnp.diagonal(factor) ** 2
    half = size // 2
    below = matrix[half:, :half]
    first, pivots = inverse_and_pivots(matrix[:half, :half])
    across = first @ below.T
    second, more = inverse_and_pivots(matrix[half:, half:] - below @ across)
    # A product whose left side is transposed would take XLA twice as long on a CPU.
    weighted = across @ second
    inverse = jnp.block([[first + weighted @ across.T, -weighted], [-weighted.T, second]])
    return inverse, jnp.concatenate([pivots, more])
