r"""Matrices that are near a sparse precision, and easy to solve with.

Conjugate gradients take a step for each eigenvalue that they distinguish of :math:`M^{-1} P`, with
:math:`P` the precision and :math:`M` such a matrix. For independent latents `Diagonal` is enough.
In a walk each latent depends on the one before it, and so on all of them. `Forest` takes the prior
in which each latent is drawn given that one other on which it depends most, and factorises it
without fill.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import splu

Numbers = NDArray[np.float64]


class Diagonal:
    """``M`` is diagonal, (n,)."""

    def __init__(self, diagonal: Numbers) -> None:
        self.diagonal = diagonal

    def solve(self, right: Numbers) -> Numbers:
        """``M^-1 B`` of right-hand sides (n, S), in their type."""
        return right * (1 / self.diagonal[:, None]).astype(right.dtype)

    def rough(self, rng: np.random.Generator, count: int) -> Numbers:
        """Right-hand sides of covariance ``M``, made of random signs, shape (n, count)."""
        return np.sqrt(self.diagonal)[:, None] * white(rng, (self.diagonal.size, count), signs=True)

    def log_determinant(self) -> float:
        """Log determinant of ``M``."""
        return float(np.sum(np.log(self.diagonal)))


class Forest:
    """``F' Q^-1 F + R``: latents drawn given one other, `rows` ``F`` (n, n), and a diagonal."""

    def __init__(self, rows: Any, spread: Numbers, diagonal: Numbers) -> None:
        self._root = (sparse.diags_array(1 / np.sqrt(spread)) @ rows).T.tocsr()
        own = self._root @ self._root.T
        self._rest = np.maximum(diagonal - own.diagonal(), 0.0)
        matrix = (own + sparse.diags_array(self._rest)).tocsc()
        # Without pivoting, the order of least degree takes the leaves first and fills nothing.
        symmetric = {"SymmetricMode": True}
        self._factor = splu(matrix, "MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=symmetric)

    def solve(self, right: Numbers) -> Numbers:
        """``M^-1 B`` of right-hand sides (n, S), in their type."""
        return self._factor.solve(right.astype(float)).astype(right.dtype)

    def rough(self, rng: np.random.Generator, count: int) -> Numbers:
        """Right-hand sides of covariance ``M``, made of random signs, shape (n, count)."""
        first, second = white(rng, (2, self._rest.size, count), signs=True)
        return self._root @ first + np.sqrt(self._rest)[:, None] * second

    def log_determinant(self) -> float:
        """Log determinant of ``M``."""
        return float(np.sum(np.log(self._factor.U.diagonal())))


Preconditioner = Diagonal | Forest


def white(rng: np.random.Generator, shape: tuple[int, ...], *, signs: bool) -> Numbers:
    """Independent numbers of mean zero and variance one: random signs, or normal."""
    return rng.choice([-1.0, 1.0], shape) if signs else rng.standard_normal(shape)
