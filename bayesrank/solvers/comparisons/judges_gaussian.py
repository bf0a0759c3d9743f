"""The Gaussian posterior of a log: judges' own latents are eliminated, the rest is dense."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, get_lapack_funcs

from bayesrank.solvers.comparisons.judges_design import Design
from bayesrank.solvers.comparisons.posterior import variances_of

Floats = NDArray[np.float64]


class Posterior(NamedTuple):
    """Covariances of N global latents, and of L of each judge's own, at given precisions."""

    covariance: Floats  # of the global latents, shape (N, N)
    gain: NDArray[np.floating]  # minus covariance of global and local, (L, N, J)
    local: Floats  # of each judge's own, shape (J, L, L)
    coupling: Floats  # precisions of global with local, (L, N, J)
    local_given: Floats  # of the local given the global, (J, L, L)


def posterior(precision: Floats, coupling: Floats, local: Floats) -> Posterior:
    """Invert a precision (N, N) of couplings (L, N, J) and blocks (J, L, L)."""
    given: Any = np.linalg.inv(local)
    pulled = np.einsum("jlm,mnj->lnj", given, coupling)
    for block, other in zip(coupling, pulled, strict=True):
        precision = precision - block @ other.T
    covariance = _inverse(precision)
    # Single precision is enough for what these are used for: variances.
    gain = covariance.astype(np.float32) @ pulled.astype(np.float32)
    own = given + np.einsum("lnj,mnj->jlm", pulled, gain)
    return Posterior(covariance, gain, own, coupling, given)


def _inverse(matrix: Floats) -> Floats:
    """Inverse of a symmetric matrix of which the upper triangle is given."""
    factor = cholesky(matrix.T, lower=True, check_finite=False, overwrite_a=True)
    invert: Any = get_lapack_funcs("potri", dtype=np.float64)
    inverse, info = invert(factor, lower=1, overwrite_c=1)
    if info:
        raise LinAlgError("the precision matrix is singular")
    inverse += inverse.T.copy()  # the other triangle is zero
    inverse[np.diag_indices(len(inverse))] *= 0.5
    return inverse


class RowVariances(NamedTuple):
    """Posterior variances in each row: of the skill difference, the advantage, and between them."""

    difference: Floats
    advantage: Floats
    both: Floats

    def margin(self, reliability: Floats) -> Floats:
        """Variance of the margin."""
        return reliability**2 * self.difference + 2.0 * reliability * self.both + self.advantage


def row_variances(design: Design, found: Posterior) -> RowVariances:
    """Variances of the rows; of the locals, the first is the order bias."""
    data, covariance, position = design.data, found.covariance, design.position
    difference = variances_of(covariance, design.rows)
    if not data.with_position:
        zero = np.zeros_like(difference)
        return RowVariances(difference, zero, zero)
    with_position = design.differences(covariance[:, -1])
    advantage = np.full_like(difference, covariance[-1, -1])
    if len(found.gain):
        gain, (values, columns) = found.gain[0], design.rows
        with_position -= np.sum(values * gain[columns, data.judge[:, None]], axis=1)
        advantage += (found.local[:, 0, 0] - 2.0 * gain[-1])[data.judge]
    return RowVariances(difference, position**2 * advantage, position * with_position)


def solve(found: Posterior, x: Floats, local: Floats) -> tuple[Floats, Floats]:
    """Product of the covariance with a vector of the global latents and one of the locals."""
    if not len(local):
        return found.covariance @ x, local
    width, _, judges = found.coupling.shape
    given = np.einsum("jlm,mj->lj", found.local_given, local.reshape(width, judges))
    pulled = sum(block @ part for block, part in zip(found.coupling, given, strict=True))
    solution = found.covariance @ (x - pulled)
    back = np.stack([solution @ block for block in found.coupling])
    return solution, (given - np.einsum("jlm,mj->lj", found.local_given, back)).ravel()
