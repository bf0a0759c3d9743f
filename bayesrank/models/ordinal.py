r"""A function of features behind levels of one kind of thing: ordinal regression.

Each item has a value :math:`f`, a Gaussian process of its features, and a level: which of the
intervals between thresholds :math:`f` plus noise falls into. The noise is one, and so the unit
of everything; the thresholds have mean zero, and :math:`f` the mean level.

References
----------
.. [1] Chu, W. and Ghahramani, Z. (2005). Gaussian processes for ordinal regression. Journal of
   Machine Learning Research, 6, 1019-1041.
"""

from typing import Literal

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax.typing import ArrayLike
from tinygp.kernels import Constant, Kernel

from bayesrank import gp
from bayesrank._validate import check_features
from bayesrank.distributions.ordinal import LIKELIHOODS, centred_thresholds
from bayesrank.models._rating_checks import check_levels, check_likelihood
from bayesrank.models._single import kernel_scales, threshold_gaps

__all__ = ["ordinal_kernel", "ordinal_regression_gp"]

LEVEL_VARIANCE = 4.0
"""Prior variance of the level about which the function varies."""


def ordinal_kernel(
    amplitude: ArrayLike, lengthscale: ArrayLike, stretch: ArrayLike = 1.0
) -> Kernel:
    """Covariance of the function, its mean level included.

    Parameters
    ----------
    amplitude : ArrayLike
        Prior standard deviation about the mean level.
    lengthscale : ArrayLike
        Distance over which the function varies.
    stretch : ArrayLike, default 1.0
        A feature's own lengthscale relative to it, shape (d,).

    Returns
    -------
    Kernel
        A kernel of tinygp.
    """
    own = jnp.asarray(lengthscale) * jnp.asarray(stretch)
    return gp.rbf(amplitude, own) + Constant(jnp.asarray(LEVEL_VARIANCE, own.dtype))


def ordinal_regression_gp(
    X: ArrayLike,
    levels: ArrayLike | None = None,
    *,
    num_levels: int | None = None,
    X_new: ArrayLike | None = None,
    likelihood: Literal["probit", "logit"] = "probit",
    ard: bool = True,
) -> None:
    """Levels of items as a Gaussian process of their features, in intervals between thresholds.

    ================ ============================== ============================================
    site             prior                          meaning
    ================ ============================== ============================================
    ``amplitude``    LogNormal(0, 1)                prior sd of the function about its level
    ``lengthscale``  LogNormal(log sqrt d + ½, 1)   distance over which it varies
    ``stretch``      LogNormal(¼, ½), shape (d,)    a feature's own, relative to it (``ard``)
    ``gaps``         LogNormal(0, 1), (r - 2,)      distances of neighbouring thresholds
    ``f``            Gaussian process, shape (n,)   the function; its level is Normal(0, 2)
    ``f_new``        given ``f``, shape (m,)        the function at new items (with ``X_new``)
    ``rating``       observed, shape (n,)           levels
    ================ ============================== ============================================

    The priors suppose standardised features. The mode of ``stretch``, which a search for the most
    probable hyperparameters goes by, is one.

    Parameters
    ----------
    X : ArrayLike
        Features of the items, shape (n, d).
    levels : ArrayLike, optional
        Whole numbers from 0 to ``num_levels - 1``, shape (n,). Without it the program is the prior.
    num_levels : int, optional
        Number of levels; one more than the largest if not given.
    X_new : ArrayLike, optional
        Features of items without a level, shape (m, d).
    likelihood : {"probit", "logit"}
        Normal or logistic noise.
    ard : bool, default True
        Whether each feature has a lengthscale of its own.

    Raises
    ------
    ValueError
        If an argument cannot be used; the message names it and what to do.

    Examples
    --------
    >>> import jax, numpy as np
    >>> from numpyro.infer import Predictive
    >>> X = np.array([[-1.0], [0.0], [1.0]])
    >>> prior = Predictive(ordinal_regression_gp, num_samples=100)(jax.random.key(0), X)
    >>> prior["f"].shape
    (100, 3)
    """
    X = check_features(X, "X")
    n, d = X.shape
    law = LIKELIHOODS[check_likelihood(likelihood)]
    kernel = ordinal_kernel(*kernel_scales(d, ard))
    process = dist.MultivariateNormal(covariance_matrix=gp.gram(kernel, X))
    f = jnp.asarray(numpyro.sample("f", process))
    if X_new is not None:
        X_new = check_features(X_new, "X_new", columns=d)
        numpyro.sample("f_new", gp.conditional(kernel, X, process.scale_tril, f, X_new))
    if levels is None:
        return
    observed, num_levels = check_levels(levels, n, num_levels)
    gaps = threshold_gaps(num_levels)
    with numpyro.plate("items", n):
        numpyro.sample("rating", law(f, centred_thresholds(gaps)), obs=observed)
