"""Kernels of tinygp as the programs use them, and processes at new items.

A Gram matrix of smooth functions is singular to working precision. The jitter, a fraction of the
prior variance, is therefore added to its diagonal, which makes the function slightly rough. By
default each value departs from the smooth one by a thousandth of the prior standard deviation. In
single precision it is a hundredth.
"""

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.linalg import cho_solve
from jax.typing import ArrayLike
from numpyro.distributions import MultivariateNormal
from tinygp import transforms
from tinygp.kernels import ExpSquared, Kernel

JITTER = {np.dtype(np.float64): 1e-6, np.dtype(np.float32): 1e-4}
"""Default jitter by precision, as a fraction of the prior variance."""


def rbf(amplitude: ArrayLike, lengthscale: ArrayLike) -> Kernel:
    r"""Squared-exponential kernel on features, a kernel of tinygp.

    .. math::
        k(x, x') = a^2 \exp\left(-\frac{1}{2} \sum_l (x_l - x'_l)^2 / \ell_l^2\right)

    Parameters
    ----------
    amplitude : ArrayLike
        Prior standard deviation :math:`a` of the function, a positive scalar.
    lengthscale : ArrayLike
        Distance :math:`\ell` over which the function varies, positive: a scalar, or one for each
        feature (automatic relevance determination).
    """
    scale = 1.0 / jnp.asarray(lengthscale)
    return jnp.square(amplitude) * transforms.Linear(scale, ExpSquared(1.0))


def gram(kernel: Kernel, X: Array, *, jitter: float | None = None) -> Array:
    """Prior covariance (n, n) of a function at the items, with jitter on the diagonal.

    Parameters
    ----------
    kernel : tinygp.kernels.Kernel
    X : Array
        Features of the items, shape (n, d).
    jitter : float, optional
        What to add to each diagonal entry, as a fraction of that entry. By default the entry of
        ``JITTER`` for the covariance's precision.
    """
    covariance = kernel(X, X)
    fraction = JITTER[covariance.dtype] if jitter is None else jitter
    return covariance + fraction * jnp.diag(kernel(X))


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
