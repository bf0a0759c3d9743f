r"""Gaussian processes warped by a graph: skills that vary little from neighbour to neighbour.

A graph with Laplacian :math:`L` over items with prior covariance :math:`\Sigma` multiplies the
prior by :math:`\exp(-w f' L f / 2)`, equation (4) of [1]_. The product, equation (5), is Gaussian
with covariance

.. math::
    (\Sigma^{-1} + w L)^{-1} = \Sigma - \Sigma (I + w L \Sigma)^{-1} w L \Sigma
    = R (I + w R' L R)^{-1} R', \qquad \Sigma = R R',

and :math:`\sqrt{|I + w L \Sigma|}` times the product is a normalised density. Nothing is inverted:
:math:`I + w R' L R` has no eigenvalue below one. Between the items the process has the kernel of
[2]_,

.. math::
    \tilde k(x, z) = k(x, z) - k_x' (I + w L \Sigma)^{-1} w L k_z,

with :math:`k_x` the covariances of :math:`x` with the items of the graph. Given the skills of the
graph's items, the graph says nothing more: skills elsewhere are distributed as without it.

References
----------
.. [1] Chu, W. and Ghahramani, Z. (2005). Extensions of Gaussian processes for ranking:
   semi-supervised and active learning. NIPS Workshop on Learning to Rank.
.. [2] Sindhwani, V., Niyogi, P. and Belkin, M. (2005). Beyond the point cloud: from transductive to
   semi-supervised learning. ICML.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.linalg import lu_factor, lu_solve, solve_triangular
from jax.typing import ArrayLike
from numpyro.distributions import MultivariateNormal
from tinygp.kernels import Kernel

from bayesrank._validate import check_laplacian, check_weight
from bayesrank.gp.kernels import gram


class GraphKernel(Kernel):
    r"""The kernel of a process warped by a graph; build it by `graph_kernel`.

    Attributes
    ----------
    kernel : Kernel
        Kernel of the process without the graph.
    X : Array
        Features of the graph's items, shape (n, d).
    gain : Array
        :math:`(I + w L \Sigma)^{-1} w L`, symmetric, shape (n, n).

    Examples
    --------
    >>> import numpy as np
    >>> from bayesrank.gp import graph_kernel, rbf
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> laplacian = np.array([[1.0, -1.0, 0.0], [-1.0, 2.0, -1.0], [0.0, -1.0, 1.0]])
    >>> graph_kernel(rbf(1.0, 1.0), X, laplacian).gain.shape
    (3, 3)
    """

    kernel: Kernel
    X: Array
    gain: Array

    def evaluate(self, X1: Array, X2: Array) -> Array:
        """Covariance of the values at two points, each of shape (d,)."""
        # Called with two sets of items, this is vectorised twice, and what depends on one point
        # alone is computed once for each: two products of matrices in all.
        across = jax.vmap(self.kernel.evaluate, in_axes=(0, None))
        change = (across(self.X, X1) @ self.gain) @ across(self.X, X2)
        return self.kernel.evaluate(X1, X2) - change

    def evaluate_diag(self, X: Array) -> Array:
        """Variance of the value at a point of shape (d,)."""
        across = jax.vmap(self.kernel.evaluate, in_axes=(0, None))(self.X, X)
        return self.kernel.evaluate_diag(X) - (across @ self.gain) @ across


def graph_kernel(
    kernel: Kernel,
    X: Array,
    laplacian: Any,
    *,
    weight: ArrayLike = 1.0,
    jitter: float | None = None,
) -> GraphKernel:
    """Kernel of a Gaussian process warped by a graph over some items, defined for all items.

    Like any other kernel of tinygp it can be added, multiplied, and warped again by another graph.

    Parameters
    ----------
    kernel : Kernel
        Kernel of the process without the graph, of tinygp.
    X : Array
        Features of the graph's items, shape (n, d).
    laplacian : ArrayLike or scipy.sparse array
        Laplacian of the graph, shape (n, n), symmetric and positive semi-definite.
    weight : ArrayLike
        Factor of the Laplacian: a scalar, not negative, in units of one over squared skill. At zero
        the graph has no effect.
    jitter : float, optional
        Jitter of the items' prior covariance, as in `gram`.

    Raises
    ------
    ValueError
        If the Laplacian is not one of these items, or the weight is negative.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from bayesrank.gp import knn_graph, laplacian, rbf, graph_kernel
    >>> X = jnp.array([[0.0], [1.0], [2.0]])
    >>> smooth = graph_kernel(rbf(1.0, 1.0), X, laplacian(knn_graph(X, 1)), weight=10.0)
    >>> bool(smooth(X, X)[0, 2] > rbf(1.0, 1.0)(X, X)[0, 2])
    True
    """
    X = jnp.asarray(X)
    sigma = gram(kernel, X, jitter=jitter)
    precision = check_weight(weight) * _dense(laplacian, sigma)
    identity = jnp.eye(sigma.shape[0], dtype=sigma.dtype)
    gain = lu_solve(lu_factor(identity + precision @ sigma), precision)
    return GraphKernel(kernel, X, 0.5 * (gain + gain.T))


def graph_prior(
    scale_tril: Array, laplacian: Any, *, weight: ArrayLike = 1.0
) -> MultivariateNormal:
    r"""Prior of the skills of a graph's items: :math:`N(0, (\Sigma^{-1} + w L)^{-1})`, shape (n,).

    Parameters
    ----------
    scale_tril : Array
        Cholesky factor of :math:`\Sigma`, the prior covariance without the graph, jitter included,
        shape (n, n).
    laplacian, weight
        :math:`L` and :math:`w`, as for `graph_kernel`.

    Raises
    ------
    ValueError
        If the Laplacian is not one of these items, or the weight is negative.
    """
    # With I + w R'LR = U U', U triangular on the other side than a Cholesky factor, R U'^-1 is
    # triangular as R is: the covariance's own Cholesky factor, without ever forming it.
    upper = _upper_factor(_whitened(scale_tril, laplacian, weight))
    factor = solve_triangular(upper, scale_tril.T, lower=False).T
    return MultivariateNormal(jnp.zeros_like(factor[0]), scale_tril=factor)


def _dense(laplacian: Any, like: Array) -> Array:
    """A Laplacian, sparse or dense, as a dense array of another's shape and precision."""
    return check_laplacian(laplacian, like.shape[0]).astype(like.dtype)


def _whitened(scale_tril: Array, laplacian: Any, weight: ArrayLike) -> Array:
    """``I + w R'LR``."""
    precision = _dense(laplacian, scale_tril)
    identity = jnp.eye(scale_tril.shape[0], dtype=scale_tril.dtype)
    return identity + check_weight(weight) * (scale_tril.T @ precision @ scale_tril)


def _upper_factor(matrix: Array) -> Array:
    """Upper triangular U with ``U U'`` the matrix: a Cholesky factor in the reverse order."""
    return jnp.linalg.cholesky(matrix[::-1, ::-1])[::-1, ::-1]
