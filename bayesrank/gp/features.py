r"""A Gaussian process on few features: a prior of low rank plus diagonal.

With `M` inducing points :math:`Z` a kernel is explained by
:math:`\Phi = K_{XZ} R^{-\top}`, :math:`R R^\top = K_{ZZ}`, but for the variances of the residuals
:math:`d_i = k(x_i, x_i) - \Phi_i \Phi_i^\top`. The prior :math:`N(0, \Phi \Phi^\top +
\operatorname{diag}(d))` has the kernel's variances, and its covariances to what the inducing points
tell; where they are all items, it is the process itself. Nothing is larger than ``n x M``.

References
----------
Snelson, E. and Ghahramani, Z. (2006). Sparse Gaussian processes using pseudo-inputs. NIPS 18.
Quinonero-Candela, J. and Rasmussen, C. E. (2005). A unifying view of sparse approximate Gaussian
process regression. Journal of Machine Learning Research, 6, 1939-1959.
"""

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.scipy.linalg import solve_triangular
from numpyro.distributions import LowRankMultivariateNormal
from tinygp.kernels import Kernel

from bayesrank.gp.kernels import JITTER, gram

__all__ = ["features", "inducing_points"]

_MOST_CLUSTERED = 20_000
_STEPS = 15


def features(
    kernel: Kernel,
    X: Array,
    rank: int,
    *,
    inducing: Array | None = None,
    jitter: float | None = None,
) -> LowRankMultivariateNormal:
    """Prior of a Gaussian process at many items, from few inducing points (FITC).

    EP keeps its posterior without a joint covariance, so that items may be many; NUTS and SVI take
    it too.

    Parameters
    ----------
    kernel : Kernel
        A kernel of tinygp.
    X : Array
        Features of the items, shape (n, d).
    rank : int
        Number M of inducing points; n of them or more make the process itself.
    inducing : Array, optional
        The inducing points, shape (M, d); by default `inducing_points`.
    jitter : float, optional
        What is added to each prior variance, as a fraction of it. By default the entry of
        ``JITTER`` for the kernel's precision, as in ``gram``.

    Returns
    -------
    LowRankMultivariateNormal
        Distribution of the values at the items, event shape (n,).

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from bayesrank import gp
    >>> X = jnp.linspace(0.0, 1.0, 50)[:, None]
    >>> prior = gp.features(gp.rbf(2.0, 0.5), X, 8)
    >>> prior.cov_factor.shape
    (50, 8)
    >>> bool(jnp.allclose(prior.variance, 4.0, atol=1e-3))
    True
    """
    X = jnp.asarray(X)
    points = inducing_points(X, rank) if inducing is None else jnp.asarray(inducing)
    lower = jnp.linalg.cholesky(gram(kernel, points, jitter=jitter))
    factor = solve_triangular(lower, kernel(points, X), lower=True).T
    variances = kernel(X)
    fraction = JITTER[variances.dtype] if jitter is None else jitter
    # Rounding can leave a little more explained than there is.
    residuals = jnp.maximum(variances - jnp.sum(factor**2, axis=1), 0.0) + fraction * variances
    return LowRankMultivariateNormal(jnp.zeros_like(variances), factor, residuals)


def inducing_points(X: Array, rank: int) -> Array:
    """Centres of clusters of items (k-means), the same for the same items.

    Parameters
    ----------
    X : Array
        Features of the items, shape (n, d), on comparable scales.
    rank : int
        Number of centres M.

    Returns
    -------
    Array
        The centres, shape (M, d); the items themselves where there are no more than M. Of more than
        20,000 items, as many by chance are looked at.

    Raises
    ------
    ValueError
        If `rank` is less than one.
    """
    if rank < 1:
        raise ValueError(f"rank is {rank}; pass the number of inducing points, at least 1")
    X = jnp.asarray(X)
    if rank >= X.shape[0]:
        return X
    count = max(min(X.shape[0], _MOST_CLUSTERED), rank)
    some = X[jax.random.permutation(jax.random.key(0), X.shape[0])[:count]]

    def moved(_: int, centres: Array) -> Array:
        across = jnp.sum(centres**2, axis=1) - 2 * some @ centres.T
        nearest = jnp.argmin(across, axis=1)
        total = jnp.zeros_like(centres).at[nearest].add(some)
        size = jnp.zeros(rank, centres.dtype).at[nearest].add(1.0)[:, None]
        return jnp.where(size > 0, total / jnp.maximum(size, 1.0), centres)

    return lax.stop_gradient(lax.fori_loop(0, _STEPS, moved, some[:rank]))
