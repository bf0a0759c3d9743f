"""Weights of the atoms for given differences: a least-squares problem on the simplex each.

The rows of U are the atoms. Each method starts from weights (J, K), and sees the Gram matrix
``G = U U'`` (K, K) and the products ``B = z U'`` (J, K) alone.

The paper prints a step for SG that clips at zero and divides by the sum. That is not a projection:
it does not stop at the minimum. The projection onto the simplex, and the exponentiated gradient,
reach it.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

Array = NDArray[np.float64]
SumRange = tuple[float, float]


def project_cone(atoms: Array, z: Array) -> tuple[Array, Array]:
    """Equation (1): the nearest points of the cone of the atoms, (J, N), and their weights, (J, K).

    Parameters
    ----------
    atoms, z
        Shapes (K, N), and (J, N) for the differences. The weights are not negative.
    """
    weights = np.array([nnls(atoms.T, row)[0] for row in z]).reshape(len(z), len(atoms))
    return weights @ atoms, weights


def project_simplex(values: Array, total: float | Array = 1.0) -> Array:
    """Nearest point of the simplex of this sum to each row.

    Parameters
    ----------
    values
        Rows, shape (J, K).
    total
        Sum of the coordinates of a point, positive; one for all rows, or shape (J, 1).
    """
    ordered = -np.sort(-values, axis=1)
    excess = (np.cumsum(ordered, axis=1) - total) / np.arange(1, values.shape[1] + 1)
    count = (ordered > excess).sum(axis=1)
    return np.maximum(values - excess[np.arange(len(values)), count - 1][:, None], 0.0)


def project_sums(values: Array, sums: SumRange) -> Array:
    """Nearest weights that are not negative and whose sum is within these bounds."""
    out = np.maximum(values, 0.0)
    total = np.clip(out.sum(axis=1), *sums)
    outside = total != out.sum(axis=1)
    if outside.any():
        out[outside] = project_simplex(values[outside], total[outside, None])
    return out


def projection_fold_in(
    G: Array, B: Array, W: Array, num_steps: int, tol: float = 0.0, sums: SumRange = (1.0, 1.0)
) -> Array:
    """Accelerated projected gradient.

    Parameters
    ----------
    G, B, W
        Gram matrix (K, K), products (J, K), and weights to start from (J, K).
    num_steps
        Most steps.
    tol
        Largest move of a weight at which to stop.
    sums
        Least and largest sum of a difference's weights.
    """
    step = 1.0 / max(np.linalg.eigvalsh(G)[-1], 1e-300)
    ahead, momentum = W, 1.0
    for _ in range(num_steps):
        new = project_sums(ahead - step * (ahead @ G - B), sums)
        if tol and np.abs(new - ahead).max() <= tol:
            return new
        uphill = ((ahead - new) * (new - W)).sum() > 0.0
        following = 1.0 if uphill else (1.0 + np.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
        ahead = new if uphill else new + (momentum - 1.0) / following * (new - W)
        W, momentum = new, following
    return W


def printed_fold_in(G: Array, B: Array, W: Array, rate: Array, num_steps: int) -> Array:
    """Steps 1a to 1c of Algorithm 1: gradient, clip at zero, divide by the sum.

    Parameters
    ----------
    G, B, W, rate, num_steps
        As for `eg_fold_in`.
    """
    for _ in range(num_steps):
        moved = np.maximum(W - rate[:, None] * 2.0 * (W @ G - B), 0.0)
        total = moved.sum(axis=1, keepdims=True)
        W = np.where(total > 0.0, moved / np.where(total > 0.0, total, 1.0), W)
    return W


def eg_fold_in(G: Array, B: Array, W: Array, rate: Array, num_steps: int) -> Array:
    """Exponentiated gradient: multiply by ``exp(-rate * gradient)``, divide by the sum.

    Parameters
    ----------
    G, B, W, num_steps
        As for `projection_fold_in`.
    rate
        Step size of each row, shape (J,).
    """
    for _ in range(num_steps):
        exponent = np.log(np.maximum(W, 1e-300)) - rate[:, None] * 2.0 * (W @ G - B)
        W = np.exp(exponent - exponent.max(axis=1, keepdims=True))
        W /= W.sum(axis=1, keepdims=True)
    return W


def linear_eg_fold_in(G: Array, B: Array, W: Array, rate: Array, num_steps: int) -> Array:
    """EG without the exponential (section 4.2): the sum of the weights stays as it is.

    Parameters
    ----------
    G, B, W, rate, num_steps
        As for `eg_fold_in`.

    Raises
    ------
    ValueError
        If a step is so large that a weight would be negative.
    """
    for _ in range(num_steps):
        gradient = 2.0 * (W @ G - B)
        slope = gradient - (W * gradient).sum(axis=1, keepdims=True)
        W = W * (1.0 - rate[:, None] * slope)
        if (W < 0.0).any():
            raise ValueError(
                "learning_rate is too large for fold_in='linear', a weight turns negative; pass a "
                "smaller one"
            )
    return W
