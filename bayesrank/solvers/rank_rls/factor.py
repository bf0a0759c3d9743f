"""RankRLS with a kernel for one regularisation constant: a Cholesky factor instead of all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from bayesrank.solvers.rank_rls.contrasts import Contrasts
from bayesrank.solvers.rank_rls.spectrum import KernelForm

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class KernelFactor(KernelForm):
    """Answers for one constant by the inverse Cholesky factor of ``S K S + lam I``."""

    contrasts: Contrasts
    target: Array
    means: Array
    inverse: Array

    @classmethod
    def of(cls, K: Array, y: Array, contrasts: Contrasts, lam: float) -> KernelFactor:
        """Factorise for rows that stand list after list; `K` is overwritten."""
        means = contrasts.whiten_kernel(K)
        K[np.diag_indices_from(K)] += lam
        # The transpose of a symmetric matrix in C order is in LAPACK's, and nothing is copied.
        factor, invert = linalg.get_lapack_funcs(("potrf", "trtri"), (K,))
        lower, failed = factor(K.T, lower=1, clean=1, overwrite_a=1)
        inverse, singular = invert(lower, lower=1, overwrite_c=1)
        if failed or singular:
            raise ValueError(
                f"regularization is {lam:.3g}, too small for this kernel: its matrix is not "
                "positive definite to working precision; pass a larger one"
            )
        return cls(contrasts, contrasts.whiten(y), means, inverse)

    def quadratic(self, lam: float) -> float:
        """``t' P t``."""
        return float(self.target @ self.alpha(lam))

    def log_determinant(self, lam: float) -> float:
        """Log determinant of ``S K S + lam`` on the contrasts."""
        null = len(self.target) - self.contrasts.num_contrasts
        return float(-2 * np.log(np.diagonal(self.inverse)).sum() - null * np.log(lam))

    def alpha(self, lam: float) -> Array:
        """``P t``, shape (m,)."""
        return self.inverse.T @ (self.inverse @ self.target)

    def root_times(self, right: Array, lam: float) -> Array:
        """Multiply by a root of P: the squares of a column sum to its quadratic form."""
        return self.inverse @ right

    def reduction(self, across: Array, lams: Array, squared_scales: Array) -> Array:
        """What is known of columns' variances, ``c' P c``, times the one squared scale."""
        return squared_scales.sum() * ((self.inverse @ across) ** 2).sum(axis=0)

    def root_columns(self, lam: float, rows: NDArray[np.intp]) -> Array:
        """Columns of that root, shape (m, n)."""
        return self.inverse[:, rows]
