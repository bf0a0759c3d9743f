r"""A kernel of items cut along its spectrum, so that its parts may be weighed apart.

A covariance matrix is a sum over its eigenvectors, :math:`K = \sum_k \lambda_k v_k v_k'`. The first
eigenvectors are what many features agree on, the last ones mostly noise. Cuts make pieces

.. math:: K = \sum_c K_c, \qquad K_c = \sum_{k = k_{c-1} + 1}^{k_c} \lambda_k v_k v_k'.

A prior with covariance :math:`\sum_c s_c K_c` and learned scales :math:`s_c` says how far the
order of the eigenvalues is believed [1]_. Its eigenvectors are the same, whatever the scales.

References
----------
.. [1] Zhu, X., Kandola, J., Ghahramani, Z. and Lafferty, J. (2005). Nonparametric transforms of
   graph kernels for semi-supervised learning. Advances in Neural Information Processing Systems 17.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

_ROUNDING = 1e-8


def spectral_components(kernel: ArrayLike, cuts: Sequence[int]) -> NDArray[Any]:
    """Cut a covariance matrix into pieces (C, m, m) that add up to it, large eigenvalues first.

    Parameters
    ----------
    kernel : ArrayLike
        Covariance of the items, shape (m, m).
    cuts : sequence of int
        After how many of the largest eigenvalues to cut, each from 1 to m - 1, rising; there are
        C - 1.

    Raises
    ------
    ValueError
        If `kernel` is not a covariance matrix, or `cuts` are not rising whole numbers in range.

    Examples
    --------
    >>> pieces = spectral_components([[2.0, 1.0], [1.0, 2.0]], [1])
    >>> pieces.round(12).tolist()
    [[[1.5, 1.5], [1.5, 1.5]], [[0.5, -0.5], [-0.5, 0.5]]]
    """
    values, vectors = _spectrum(np.asarray(kernel, float))
    edges = [0, *cuts, len(values)]
    if any(not isinstance(cut, int | np.integer) for cut in cuts) or np.any(np.diff(edges) < 1):
        raise ValueError(
            f"cuts must be whole numbers from 1 to {len(values) - 1}, rising, got {list(cuts)}"
        )
    roots = vectors * np.sqrt(values)
    return np.stack(
        [roots[:, a:b] @ roots[:, a:b].T for a, b in zip(edges[:-1], edges[1:], strict=True)]
    )


def _spectrum(kernel: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Eigenvalues, the largest first and none below zero, and eigenvectors."""
    if kernel.ndim != 2 or kernel.shape[0] != kernel.shape[1] or not len(kernel):
        raise ValueError(f"kernel must have the shape (m, m), got {kernel.shape}")
    if not np.isfinite(kernel).all():
        raise ValueError("kernel has entries that are not finite; fill in missing features first")
    size = np.abs(kernel).max()
    if not np.allclose(kernel, kernel.T, rtol=0.0, atol=_ROUNDING * size):
        raise ValueError("kernel is not symmetric; a covariance matrix is")
    values, vectors = np.linalg.eigh(kernel)
    if values[0] < -_ROUNDING * len(kernel) * size:
        raise ValueError(
            f"kernel is not a covariance matrix: its smallest eigenvalue is {values[0]:.3g}"
        )
    return np.maximum(values[::-1], 0.0), vectors[:, ::-1]
