"""The posterior of a log's latents: an arrow of core latents, and of each judge's own."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, get_lapack_funcs

from bayesrank.solvers.comparisons.judged_rows import JudgedRows

Floats = NDArray[np.float64]

# Products from which on single precision saves seconds.
_LARGE = 1e10
_AT_ONCE = 500_000  # covariances of own latents with core ones that are worked on together


class Arrow(NamedTuple):
    """A Gaussian of N core latents and of L own latents of each of J judges."""

    mean: Floats  # of the core, shape (N,)
    covariance: Floats  # of the core, shape (N, N)
    own_mean: Floats  # shape (J, L)
    across: Floats  # covariances of own with core latents, (J, L, N)
    own_covariance: Floats  # shape (J, L, L)

    def predictors(self, rows: JudgedRows, some: slice) -> tuple[Floats, Floats]:
        """Means (3, k) and covariances (3, 3, k) of what some rows see."""
        count = len(rows.counts[some])
        mean, covariance = np.zeros((3, count)), np.zeros((3, 3, count))
        rows.core.gather(self.mean, some, mean)
        rows.own.gather(self.own_mean, some, mean)
        rows.within_core.gather(self.covariance, some, covariance)
        rows.across.gather(self.across, some, covariance)
        rows.within_own.gather(self.own_covariance, some, covariance)
        return mean, covariance + covariance.swapaxes(0, 1)

    def variances(self) -> Floats:
        """Variances of all latents, the core's first."""
        own = np.diagonal(self.own_covariance, axis1=1, axis2=2)
        return np.concatenate([np.diagonal(self.covariance), own.ravel()])

    def means(self) -> Floats:
        """Means of all latents, the core's first."""
        return np.concatenate([self.mean, self.own_mean.ravel()])


class Precisions(NamedTuple):
    """Blocks of the precision of an arrow, and precisions times means."""

    core: Floats  # shape (N, N)
    across: Floats  # shape (J, L, N)
    own: Floats  # shape (J, L, L)
    shift: Floats  # shape (N,)
    own_shift: Floats  # shape (J, L)

    @classmethod
    def of(
        cls, rows: JudgedRows, sites: tuple[Floats, Floats], prior: tuple[Floats, Floats]
    ) -> "Precisions":
        """Add sites (3, 3, K) and (3, K) to a prior of these precisions, (N,) and (L,)."""
        precision, shift = sites
        if (rows.counts != 1.0).any():
            precision, shift = rows.counts * precision, rows.counts * shift
        core, own = rows.within_core.sums(precision), rows.within_own.sums(precision)
        core, own = core + core.T, own + own.swapaxes(1, 2)
        for block, alone in zip((core, own), prior, strict=True):
            at = np.arange(alone.size)
            block[..., at, at] += alone
        across = rows.across.sums(precision)
        return cls(core, across, own, rows.core.sums(shift), rows.own.sums(shift))

    def bordered(self, core: Floats, own: Floats, alone: Floats) -> "Precisions":
        """Add B core latents behind all others, of precisions `alone` (B,).

        `core` (B, N) has those that they share with the others, `own` (B, J, L) with judges' own.
        """
        joined = np.block([[self.core, core.T], [core, np.diag(alone)]])
        across = np.concatenate([self.across, np.moveaxis(own, 0, -1)], axis=2)
        shift = np.concatenate([self.shift, np.zeros(alone.size)])
        return self._replace(core=joined, across=across, shift=shift)

    def arrow(self) -> Arrow:
        """The Gaussian of these precisions.

        Raises
        ------
        LinAlgError
            If they are not positive definite.
        """
        root: Any = np.linalg.inv(np.linalg.cholesky(self.own))
        pulled = (root @ self.own_shift[..., None])[..., 0]
        core, shift = self.core.copy(), self.shift.copy()
        for some, half in self._halves(root):
            flat = half.reshape(-1, shift.size)
            core -= flat.T @ flat
            shift -= flat.T @ pulled[some].ravel()
        covariance = _inverse(core)
        mean = covariance @ shift
        # Of large ones single precision is enough for what these are used for: variances.
        kind = np.float32 if self.across.size * mean.size > _LARGE else np.float64
        plain, one = covariance.astype(kind), np.eye(root.shape[1])
        own_mean, own = np.empty_like(pulled), np.empty_like(self.own)
        across: Any = np.empty(self.across.shape, kind)
        for some, half in self._halves(root):
            turned = root[some].swapaxes(1, 2)
            own_mean[some] = (turned @ (pulled[some] - half @ mean)[..., None])[..., 0]
            seen = (half.reshape(-1, mean.size).astype(kind) @ plain).reshape(half.shape)
            own[some] = turned @ (one + seen @ half.swapaxes(1, 2)) @ root[some]
            across[some] = -turned.astype(kind) @ seen
        return Arrow(mean, covariance, own_mean, across, own)

    def _halves(self, root: Floats) -> Iterator[tuple[slice, Floats]]:
        """Some judges at a time, whose numbers stay in a processor's cache: roots times across."""
        many = max(1, _AT_ONCE // max(1, self.across[:1].size))
        for start in range(0, len(root), many):
            some = slice(start, start + many)
            yield some, root[some] @ self.across[some]


def _inverse(matrix: Floats) -> Floats:
    """Inverse of a symmetric matrix."""
    factor = cholesky(matrix, lower=True, check_finite=False, overwrite_a=True)
    invert: Any = get_lapack_funcs("potri", dtype=np.float64)
    inverse, info = invert(factor, lower=1, overwrite_c=1)
    if info:
        raise LinAlgError("the precision matrix is singular")
    inverse += inverse.T  # the other triangle is zero
    inverse[np.diag_indices(len(inverse))] *= 0.5
    return inverse.T  # the same, in the order in which rows look it up
