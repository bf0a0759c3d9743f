r"""A Gaussian process on few features: a prior of low rank plus diagonal.

With `M` inducing points :math:`Z`, :math:`\Phi = K_{XZ} R^{-\top}` and :math:`R R^\top = K_{ZZ}`,
the points explain a kernel except for residual variances
:math:`d_i = k(x_i, x_i) - \Phi_i \Phi_i^\top`. The prior :math:`N(0, \Phi \Phi^\top +
\operatorname{diag}(d))` has the kernel's variances, and those covariances that the inducing points
explain. With all items as points it is the process itself. Nothing is larger than ``n x M``.

References
----------
Snelson, E. and Ghahramani, Z. (2006). Sparse Gaussian processes using pseudo-inputs. NIPS 18.
Quinonero-Candela, J. and Rasmussen, C. E. (2005). A unifying view of sparse approximate Gaussian
process regression. Journal of Machine Learning Research, 6, 1939-1959.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.core import Tracer
from jax.scipy.linalg import solve_triangular
from jax.typing import ArrayLike
from numpyro.distributions import LowRankMultivariateNormal
from tinygp.kernels import Kernel

from bayesrank.gp.kernels import JITTER, gram

_MOST_CLUSTERED = 20_000
_STEPS = 15
_RANKS = (50, 100, 200, 400, 600, 800)
_LOOKED_AT = 5000


def inducing_point_prior(
    kernel: Kernel,
    X: Array,
    rank: int,
    *,
    inducing: Array | None = None,
    jitter: float | None = None,
) -> LowRankMultivariateNormal:
    """Prior of a Gaussian process at n items, from few inducing points (FITC).

    EP keeps its posterior without a joint covariance, so n may be large. NUTS and SVI take it too.

    Parameters
    ----------
    kernel : tinygp.kernels.Kernel
    X : Array
        Features of the items, shape (n, d).
    rank : int
        Number M of inducing points (`choose_num_inducing`); from n on they make the process itself.
    inducing : Array, optional
        The inducing points, shape (M, d); by default `inducing_points`, whose number is at most n.
    jitter : float, optional
        What is added to each prior variance, as in `gram`.

    Raises
    ------
    ValueError
        If `rank` is a string, less than one, or not the number of `inducing` points.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from bayesrank import gp
    >>> X = jnp.linspace(0.0, 1.0, 50)[:, None]
    >>> prior = gp.inducing_point_prior(gp.rbf(2.0, 0.5), X, 8)
    >>> prior.cov_factor.shape
    (50, 8)
    >>> bool(jnp.allclose(prior.variance, 4.0, atol=1e-3))
    True
    """
    if isinstance(rank, str):
        raise ValueError(
            f"rank is {rank!r}, but JAX traces programs at fixed shapes; pass a number, such as "
            "gp.choose_num_inducing(kernel, X, precision) finds beforehand"
        )
    X = jnp.asarray(X)
    points = inducing_points(X, rank) if inducing is None else jnp.asarray(inducing)
    count = points.shape[0]
    if count not in (rank, min(rank, X.shape[0])):
        raise ValueError(f"rank is {rank}, and inducing has {count} points; pass rank={count}")
    lower = jnp.linalg.cholesky(gram(kernel, points, jitter=jitter))
    factor = solve_triangular(lower, kernel(points, X), lower=True).T
    variances = kernel(X)
    fraction = JITTER[variances.dtype] if jitter is None else jitter
    # Rounding can leave a little more explained than there is.
    residuals = jnp.maximum(variances - jnp.sum(factor**2, axis=1), 0.0) + fraction * variances
    return LowRankMultivariateNormal(jnp.zeros_like(variances), factor, residuals)


def choose_num_inducing(
    kernel: Kernel, X: ArrayLike, precision: ArrayLike, *, share: float = 0.01
) -> int:
    """Smallest number of inducing points that leave little open that the data could see.

    It is 50, 100, 200, 400, 600 or at most 800. Find it at given hyperparameters before the program
    runs, and pass it on as `rank`. On 1,000 and 2,000 items with five comparisons each, a share of
    0.01 comes with errors of 0.02 posterior standard deviations.

    Parameters
    ----------
    kernel : tinygp.kernels.Kernel
    X : ArrayLike
        Features of the items, shape (n, d).
    precision : ArrayLike
        What the data add at most to the precision of each item's value, shape (n,), or one number.
        A comparison adds ``1 / (pi * noise**2)`` to each of its two items under `Thurstone`, and
        ``1 / (4 * scale**2)`` under `BradleyTerry`.
    share : float
        Share of the residual variance that data may see, in the mean over items.

    Raises
    ------
    ValueError, TypeError
        If `precision` is negative, not finite or of another shape; if an argument is being traced,
        as inside of a program.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesrank import gp
    >>> X = np.random.default_rng(0).uniform(size=(1000, 2))
    >>> gp.choose_num_inducing(gp.rbf(1.0, 0.15), X, 5 / np.pi)
    100
    """
    points = jnp.asarray(X)
    if any(isinstance(x, Tracer) for x in jax.tree.leaves((kernel, points, precision))):
        raise TypeError(
            "choose_num_inducing needs numbers; call it before the program, and pass the rank"
        )
    added = np.asarray(precision, float)
    if added.shape not in ((), points.shape[:1]):
        raise ValueError(f"precision has shape {added.shape}; pass a number, or one for each item")
    if not np.all(np.isfinite(added) & (added >= 0)):
        raise ValueError("precision has entries that are negative or not finite; pass none")
    added = np.broadcast_to(added, points.shape[:1])
    some = np.random.default_rng(0).permutation(len(added))[:_LOOKED_AT]
    for rank in _RANKS:
        prior = inducing_point_prior(
            kernel, points[some], rank, inducing=inducing_points(points, rank)
        )
        seen = np.asarray(prior.cov_diag) * added[some]
        if np.mean(seen / (1 + seen)) < share or rank >= len(added):
            return rank
    return _RANKS[-1]


def inducing_points(X: Array, rank: int) -> Array:
    """Centres of M clusters of items (k-means), shape (M, d); the same for the same items.

    The items themselves are returned if there are at most M. If there are more than 20,000, the
    clusters are those of as many drawn by chance.

    Parameters
    ----------
    X : Array
        Features of the items, shape (n, d), on comparable scales.
    rank : int
        Number of centres M.

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
