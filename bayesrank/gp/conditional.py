"""The distribution of a Gaussian process at new items, given its values at others."""

from jax import Array
from jax.scipy.linalg import cho_solve
from numpyro.distributions import MultivariateNormal
from tinygp.kernels import Kernel

from bayesrank.gp.kernels import gram


def conditional(
    kernel: Kernel,
    X: Array,
    scale_tril: Array,
    f: Array,
    X_new: Array,
    *,
    jitter: float | None = None,
) -> MultivariateNormal:
    """Distribution of the values at m new items; its mean is linear in the values given.

    Parameters
    ----------
    kernel : tinygp.kernels.Kernel
    X : Array
        Features of the items with given values, shape (n, d).
    scale_tril : Array
        Cholesky factor of the prior covariance of the values given, jitter included, shape (n, n).
    f : Array
        Values given, shape (n,).
    X_new : Array
        Features of the new items, shape (m, d).
    jitter : float, optional
        Jitter of the new values' own prior covariance, as in `gram`.
    """
    across = kernel(X, X_new)
    weights = cho_solve((scale_tril, True), across)
    covariance = gram(kernel, X_new, jitter=jitter) - across.T @ weights
    return MultivariateNormal(weights.T @ f, covariance_matrix=covariance)
