r"""Sites of judged comparisons, which see three predictors at once.

A comparison depends on the latents by a difference ``d``, an advantage ``a`` and a log reliability
``rho``. Its margin is ``exp(rho) d + a``, of which normal noise makes an outcome. Under a Gaussian
cavity of the three, the margin is normal once ``rho`` is known, so quadrature over ``rho`` alone
gives the integral ``Z`` and its derivatives.

With the gradient ``g`` and Hessian ``H`` of :math:`\log Z` by the cavity mean ``m``, and the cavity
covariance ``V``, the site :math:`\exp(\nu' s - s' T s / 2)` that matches the moments has

.. math:: T = -H (1 + V H)^{-1}, \qquad \nu = (1 + H V)^{-1} g + T m.

No covariance is inverted, so a predictor may be known without doubt.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfc

Floats = NDArray[np.float64]

_ROOT_HALF, _DENSITY = np.sqrt(0.5), 1.0 / np.sqrt(2.0 * np.pi)
# Below this an outcome is too improbable for its derivatives.
_LEAST = 1e-280


class Moments(NamedTuple):
    """Integrals of k outcomes and the derivatives of their logarithms."""

    z: Floats  # shape (k,)
    gradient: Floats  # by the three predictors' means, shape (3, k)
    hessian: Floats  # shape (3, 3, k)
    width: Floats  # derivative by the tie width, shape (k,)


def moments(tied: int, mean: Floats, covariance: Floats, width: float, num_nodes: int) -> Moments:
    """Average outcomes over cavities: means (3, k), covariances (3, 3, k).

    The first item wins in all rows but the last `tied` ones, which are ties.
    """
    nodes, weights = _quadrature(num_nodes)
    spread = np.sqrt(covariance[2, 2])
    inverse = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0.0)
    pull, push = covariance[:2, 2] * inverse
    r = np.exp(mean[2] + spread * nodes)
    margin = r * (mean[0] + pull * nodes) + mean[1] + push * nodes
    own, both, alone = covariance[0, 0] - pull**2, covariance[0, 1] - pull * push, covariance[1, 1]
    per_sd = 1.0 / np.sqrt(r * (r * own + 2.0 * both) + (alone - push**2 + 2.0))
    z, first, second, by_width = _outcomes(tied, margin, per_sd, width)
    z, first, second = weights * z, weights * first, weights * second
    total = z.sum(axis=0)
    inside = 1.0 / np.maximum(total, _LEAST)
    # By the mean of the log reliability nodes move, and so do margins given them.
    along, at = (pull * r + push) * inverse, nodes * inverse
    bent, of_second = at * first - along * second, r * second
    gradient = inside * np.stack(
        [_over(r, first), first.sum(0), (at * z).sum(0) - _over(along, first)]
    )
    curve = _over((nodes**2 - 1.0) * inverse**2, z) - _over(along, at * first + bent)
    upper = [
        [_over(r, of_second), of_second.sum(0), _over(r, bent)],
        [second.sum(0), bent.sum(0)],
        [curve],
    ]
    hessian = np.empty_like(covariance)
    for i, row in enumerate(upper):
        for j, value in enumerate(row, start=i):
            hessian[i, j] = hessian[j, i] = inside * value - gradient[i] * gradient[j]
    return Moments(total, gradient, hessian, inside * (weights * by_width).sum(axis=0))


def _over(a: Floats, b: Floats) -> Floats:
    """Sums over the nodes of products, both (Q, k)."""
    return np.einsum("qk,qk->k", a, b)


@cache
def _quadrature(number: int) -> tuple[Floats, Floats]:
    """Nodes and weights of a standard normal, shape (number, 1)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(number)
    return nodes[:, None], (weights / weights.sum())[:, None]


def _outcomes(
    tied: int, mean: Floats, per_sd: Floats, width: float
) -> tuple[Floats, Floats, Floats, Floats]:
    """Probabilities of outcomes, first and second derivatives by margins, first by the width."""
    ties = slice(mean.shape[1] - tied, None)
    # A win is a performance below one edge; a tie is one between two edges. It is seen from the
    # side of the lower tail, where nothing cancels.
    seen, scale = -np.abs(mean[:, ties]), per_sd[:, ties]
    high, low = (mean - width) * per_sd, (seen - width) * scale
    high[:, ties] = (seen + width) * scale
    z = 0.5 * erfc(-_ROOT_HALF * high)
    z[:, ties] -= 0.5 * erfc(-_ROOT_HALF * low)
    first = _DENSITY * per_sd * np.exp(-0.5 * high**2)
    at_low = _DENSITY * scale * np.exp(-0.5 * low**2)
    second, by_width = -high * per_sd * first, -first
    second[:, ties] += low * scale * at_low
    by_width[:, ties] = first[:, ties] + at_low
    first[:, ties] = -np.sign(mean[:, ties]) * (first[:, ties] - at_low)
    return z, first, second, by_width


def _product(a: Floats, b: Floats) -> Floats:
    """Products of k symmetric matrices, both of shape (3, 3, k)."""
    return np.einsum("ijk,jlk->ilk", a, b)


def inverse_of_threes(matrix: Floats) -> tuple[Floats, Floats]:
    """Inverses (3, 3, k) and determinants (k,) by cofactors."""
    out = np.empty_like(matrix)
    for i, j in np.ndindex(3, 3):
        (a, b), (c, d) = ((i + 1) % 3, (i + 2) % 3), ((j + 1) % 3, (j + 2) % 3)
        out[j, i] = matrix[a, c] * matrix[b, d] - matrix[a, d] * matrix[b, c]
    determinant = np.einsum("jk,jk->k", matrix[0], out[:, 0])
    out /= determinant
    return out, determinant


def row_cavities(
    precision: Floats, shift: Floats, mean: Floats, covariance: Floats
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Mean and covariance of predictors without a site each, and whether they are proper."""
    left, determinant = inverse_of_threes(_less(_product(precision, covariance)))
    without = _product(covariance, left)
    without = 0.5 * (without + without.swapaxes(0, 1))
    mean = mean - np.einsum("ijk,jk->ik", covariance, shift)
    proper = (determinant > 0.0) & (without[[0, 1, 2], [0, 1, 2]] >= 0.0).all(axis=0)
    return np.einsum("jik,jk->ik", left, mean), without, proper


def matched(
    found: Moments, mean: Floats, covariance: Floats
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Sites (3, 3, k) and (3, k) by the moments at a cavity, and whether they are usable."""
    gain, determinant = stretch(found, covariance)
    precision = -_product(found.hessian, gain)
    precision = 0.5 * (precision + precision.swapaxes(0, 1))
    shift = np.einsum("jik,jk->ik", gain, found.gradient)
    shift += np.einsum("ijk,jk->ik", precision, mean)
    usable = (determinant > 0.0) & (found.z > _LEAST)
    return precision, shift, usable


def stretch(found: Moments, covariance: Floats) -> tuple[Floats, Floats]:
    """The matrices ``(1 + V H)^-1`` of cavities, shape (3, 3, k), and the determinants inside."""
    return inverse_of_threes(_less(-_product(covariance, found.hessian)))


def _less(matrix: Floats) -> Floats:
    """One less k matrices; the argument is overwritten."""
    np.negative(matrix, out=matrix)
    for i in range(3):
        matrix[i, i] += 1.0
    return matrix
