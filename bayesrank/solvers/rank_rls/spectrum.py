r"""RankRLS with a kernel: all constants by one eigendecomposition, or one by Cholesky.

With the whitened targets :math:`t = S y` and :math:`P = (S K S + \lambda I)^{-1}`, the dual
coefficients are :math:`S \alpha` with :math:`\alpha = P t`. Evidence and hold-out are functions of
:math:`P`, too. The eigendecomposition gives it for each :math:`\lambda` in the time of a product.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from bayesrank.solvers.rank_rls.contrasts import Contrasts, Folds

Array = NDArray[np.float64]
_FOLDS = 64  # whose levels are found at once
_THIN = 0.07  # share of entries below which a sparse product is faster than a dense one
_DENSE_ROWS = 4096  # that are dense at once


@dataclass(frozen=True, eq=False)
class Spectrum:
    """What the linear and the kernel form share: targets, eigenvalues and coordinates."""

    contrasts: Contrasts  # the operator S
    target: Array  # shape (m,): ``t = S y``
    values: Array  # shape (k,): eigenvalues of ``S K S``, not below zero
    coordinates: Array  # shape (k,): of the target in the eigenvectors
    outside: float  # square of the length of that part of the target that is in none of them

    def quadratic(self, lam: float | Array) -> Array:
        """``t' P t`` for each constant."""
        lam = np.asarray(lam, np.float64)[..., None]
        inside = (self.coordinates**2 / (self.values + lam)).sum(axis=-1)
        return inside + self.outside / lam[..., 0]

    def log_determinant(self, lam: float | Array) -> Array:
        """Log determinant of ``S K S + lam`` on the contrasts, for each constant."""
        lam = np.asarray(lam, np.float64)[..., None]
        rest = self.contrasts.num_contrasts - len(self.values)
        return np.log(self.values + lam).sum(axis=-1) + rest * np.log(lam[..., 0])


@dataclass(frozen=True, eq=False)
class LinearSpectrum(Spectrum):
    """The linear kernel, through ``Z'Z`` (d, d) of whitened features ``Z = S X`` (m, d)."""

    Z: Any
    means: Array
    rotation: Array
    all_values: Array

    @classmethod
    def of(cls, X: Any, y: Array, contrasts: Contrasts) -> LinearSpectrum:
        """Decompose ``Z'Z`` for rows that stand list after list."""
        target = contrasts.whiten(y)
        means: Any = contrasts.means(X)
        if sparse.issparse(X):
            Z, means = X, means.toarray()
            gram, projected = _sparse_gram(X, means, contrasts), X.T @ contrasts.whiten(target)
        else:
            Z = contrasts.whiten(X)
            gram, projected = Z.T @ Z, Z.T @ target
        values, rotation = linalg.eigh(gram, driver="evd", overwrite_a=True, check_finite=False)
        values = np.maximum(values, 0.0)
        kept = values > values[-1] * max(X.shape) * np.finfo(float).eps
        coordinates = (rotation.T @ projected)[kept] / np.sqrt(values[kept])
        outside = max(float(target @ target - coordinates @ coordinates), 0.0)
        spectrum = (values[kept], coordinates, outside)
        return cls(contrasts, target, *spectrum, Z, means, rotation, values)

    @cached_property
    def basis(self) -> Array:
        """Eigenvectors of ``Z Z'`` whose eigenvalues are not zero, shape (m, k)."""
        kept = self.all_values.size - self.values.size
        rotated = self.Z @ (self.rotation[:, kept:] / np.sqrt(self.values))
        return self.contrasts.whiten(rotated) if sparse.issparse(self.Z) else rotated

    def weights(self, lam: float) -> Array:
        """Weights of the features, shape (d,)."""
        start = self.all_values.size - self.values.size
        scaled = np.sqrt(self.values) / (self.values + lam) * self.coordinates
        return self.rotation[:, start:] @ scaled

    def alpha(self, lam: float) -> Array:
        """``P t``, shape (m,)."""
        share = self.values / (self.values + lam)
        return (self.target - self.basis @ (share * self.coordinates)) / lam

    def inverse_block(self, lam: float, rows: NDArray[np.intp]) -> Array:
        """Block of P of some rows."""
        part = self.basis[rows] * np.sqrt(self.values / (self.values + lam))
        return (np.eye(len(part)) - part @ part.T) / lam

    def solve_blocks(self, lam: float, folds: Folds) -> Array:
        """Solve with each fold's block of P for alpha, folds of one size together; shape (m,)."""
        sizes = np.array([len(rows) for rows in folds.rows])
        right = self.alpha(lam) * lam
        part = self.basis * np.sqrt(self.values / (self.values + lam))
        out = np.empty_like(right)
        for size in np.unique(sizes):
            rows = np.stack([folds.rows[k] for k in np.flatnonzero(sizes == size)])
            B, r = part[rows], right[rows][..., None]
            Bt = B.transpose(0, 2, 1)
            if size <= B.shape[2]:
                solution = np.linalg.solve(np.eye(size) - B @ Bt, r)
            else:
                solution = r + B @ np.linalg.solve(np.eye(B.shape[2]) - Bt @ B, Bt @ r)
            out[rows] = solution[..., 0]
        return out

    def levels(self, lam: float, solved: Array, folds: Folds) -> Array:
        """Mean score of each list when its fold is held out, shape (q,)."""
        start = self.all_values.size - self.values.size
        means = self.means @ self.rotation[:, start:]
        means *= np.sqrt(self.values) / (self.values + lam)
        removed = self.contrasts.sums(self.basis, solved)
        for lists in folds.lists:
            removed[lists] = removed[lists].sum(axis=0)
        return means @ self.coordinates - np.einsum("qk,qk->q", means, removed)

    def variance(self, X: Any, lams: Array, squared_scales: Array) -> Array:
        """Posterior variance of scores of new rows, added up over constants and scales."""
        rotated = np.asarray(X @ self.rotation)
        return rotated**2 @ (squared_scales * lams / (self.all_values[:, None] + lams)).sum(axis=1)


class KernelForm:
    """What any kernel is held out by: columns of a root of P, and means of its Gram matrix."""

    def inverse_block(self: Any, lam: float, rows: NDArray[np.intp]) -> Array:
        """Block of P of some rows."""
        part = self.root_columns(lam, rows)
        return part.T @ part

    def solve_blocks(self: Any, lam: float, folds: Folds) -> Array:
        """Solve with each fold's block of P, for alpha; shape (m,)."""
        alpha = self.alpha(lam)
        out = np.empty_like(alpha)
        for rows in folds.rows:
            out[rows] = linalg.solve(self.inverse_block(lam, rows), alpha[rows], assume_a="pos")
        return out

    def levels(self: Any, lam: float, solved: Array, folds: Folds) -> Array:
        """Mean score of each list when its fold is held out, shape (q,)."""
        levels = self.means @ self.alpha(lam)
        for start in range(0, len(folds.rows), _FOLDS):
            part = slice(start, start + _FOLDS)
            lists = np.concatenate(folds.lists[part])
            scaled = self.root_times(self.means[lists].T, lam)
            removed = [self.root_columns(lam, rows) @ solved[rows] for rows in folds.rows[part]]
            mine = np.repeat(np.array(removed), [len(each) for each in folds.lists[part]], axis=0)
            levels[lists] -= np.einsum("mq,qm->q", scaled, mine)
        return levels


@dataclass(frozen=True, eq=False)
class KernelSpectrum(KernelForm, Spectrum):
    """Any kernel, through ``S K S`` of shape (m, m)."""

    means: Array  # mean row of the Gram matrix of each list, whitened, shape (q, m)
    basis: Array  # eigenvectors of ``S K S``, shape (m, m)

    @classmethod
    def of(cls, K: Array, y: Array, contrasts: Contrasts) -> KernelSpectrum:
        """Decompose ``S K S`` for rows that stand list after list; `K` is overwritten."""
        target = contrasts.whiten(y)
        means = contrasts.whiten_kernel(K)
        values, basis = linalg.eigh(K, driver="evd", overwrite_a=True, check_finite=False)
        return cls(contrasts, target, np.maximum(values, 0.0), basis.T @ target, 0.0, means, basis)

    def alpha(self, lam: float) -> Array:
        """``P t``, shape (m,)."""
        return self.basis @ (self.coordinates / (self.values + lam))

    def root_times(self, right: Array, lam: float) -> Array:
        """Multiply by a root of P: the squares of a column sum to its quadratic form."""
        return ((self.basis.T @ right).T / np.sqrt(self.values + lam)).T

    def reduction(self, across: Array, lams: Array, squared_scales: Array) -> Array:
        """What is known of columns' variances, ``c' P c``, added up over constants and scales."""
        known = (squared_scales / (self.values[:, None] + lams)).sum(axis=1)
        return known @ (self.basis.T @ across) ** 2

    def root_columns(self, lam: float, rows: NDArray[np.intp]) -> Array:
        """Columns of that root, shape (m, n)."""
        return (self.basis[rows] / np.sqrt(self.values + lam)).T


def _sparse_gram(X: Any, means: Array, contrasts: Contrasts) -> Array:
    """``Z'Z`` of sparse features, which centring would make dense."""
    root = contrasts.spread(np.sqrt(contrasts.delta))
    means = means * np.sqrt(contrasts.delta * contrasts.sizes)[:, None]
    scaled = (sparse.diags_array(root) @ X).tocsr()
    if scaled.nnz < _THIN * np.prod(X.shape):
        product: Any = scaled.T @ scaled
        return product.toarray() - means.T @ means
    gram = -(means.T @ means)
    for start in range(0, X.shape[0], _DENSE_ROWS):
        part = scaled[start : start + _DENSE_ROWS].toarray()
        gram += part.T @ part
    return gram


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
