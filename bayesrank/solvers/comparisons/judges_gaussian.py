"""The Gaussian posterior of a log: judges' own latents are eliminated, the rest is dense."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, get_blas_funcs, get_lapack_funcs

from bayesrank.solvers.comparisons.judges_design import Design

Floats = NDArray[np.float64]


class Posterior(NamedTuple):
    """Covariances of N global latents, and of L of each judge's own, at given precisions."""

    covariance: Floats  # of the global latents, shape (N, N)
    gain: NDArray[np.floating]  # minus covariance of global and local, (L, N, J)
    local: Floats  # of each judge's own, shape (J, L, L)
    coupling: Floats  # precisions of global with local, (L, N, J)
    local_given: Floats  # of the local given the global, (J, L, L)


def posterior(precision: Floats, coupling: Floats, local: Floats) -> Posterior:
    """Invert a precision (N, N), overwritten, of couplings (L, N, J) and blocks (J, L, L)."""
    given: Any = np.linalg.inv(local)
    width = len(coupling)
    if not width:
        return Posterior(_inverse(precision), coupling, given, coupling, given)
    root: Any = np.linalg.cholesky(given).transpose(1, 2, 0)
    scaled = np.stack([_mixed(coupling, root[:, m]) for m in range(width)])
    rank_update: Any = get_blas_funcs("syrk", dtype=np.float64)
    for block in scaled:
        # Of symmetric matrices BLAS computes one triangle.
        precision = rank_update(
            -1.0, block.T, beta=1.0, c=precision.T, trans=1, lower=1, overwrite_c=True
        ).T
    covariance = _inverse(precision)
    # Single precision is enough for what these are used for: variances.
    half = covariance.astype(np.float32)
    product = np.stack([half @ block.astype(np.float32) for block in scaled])
    gain = np.stack([_mixed(product, root[m]) for m in range(width)])
    weighed = np.array(
        [[np.einsum("nj,nj->j", one, other) for other in gain] for one in coupling]
    ).transpose(2, 0, 1)
    return Posterior(covariance, gain, given + given @ weighed, coupling, given)


def _mixed(blocks: NDArray[np.floating], weights: Floats) -> NDArray[np.floating]:
    """Weighted sum of matrices with a row of weights of the columns for each."""
    out = blocks[0] * weights[0].astype(blocks.dtype)
    for block, weight in zip(blocks[1:], weights[1:], strict=True):
        if weight.any():  # a triangle of the weights is zero
            out += block * weight.astype(blocks.dtype)
    return out


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
    data, n = design.data, design.data.num_items
    covariance = found.covariance
    blocks = np.broadcast_to(covariance[:n, :n], (design.num_parts, n, n)).copy()
    if design.with_categories:
        for part in range(design.num_parts):
            at = slice(n + part * n, 2 * n + part * n)
            cross = covariance[:n, at]
            blocks[part] += covariance[at, at] + cross + cross.T
    own = np.diagonal(blocks, axis1=1, axis2=2).ravel()
    between = blocks.reshape(-1)[design.first * n + data.second]
    difference = own[design.first] + own[design.second] - 2.0 * between
    if not data.with_position:
        zero = np.zeros_like(difference)
        return RowVariances(difference, zero, zero)
    with_position = design.differences(covariance[:, -1])
    advantage = np.full_like(difference, covariance[-1, -1])
    if len(found.gain):
        gain, judges = found.gain[0], data.num_judges
        with_bias = np.zeros_like(difference)
        for sign, item in ((1.0, data.first), (-1.0, data.second)):
            with_bias += sign * gain.ravel()[item * judges + data.judge]
            if design.with_categories:
                in_category = n + data.category * n + item
                with_bias += sign * gain.ravel()[in_category * judges + data.judge]
        with_position = with_position - with_bias
        advantage += (found.local[:, 0, 0] - 2.0 * gain[-1])[data.judge]
    position = design.position
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
