"""The squared-exponential kernel with relevance per feature, and Gram matrices fit to factorise.

A Gram matrix of smooth functions is singular to working precision. The jitter, a fraction of the
prior variance, is therefore added to its diagonal, which makes the function slightly rough. By
default each value departs from the smooth one by a thousandth of the prior standard deviation. In
single precision it is a hundredth.
"""

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike
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
