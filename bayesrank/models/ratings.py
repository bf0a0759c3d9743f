"""A function of items from one person's ratings.

The function is a Gaussian process of the items' features, and the person rates some items: with a
number, the function plus normal noise, or with a level, which of the intervals between thresholds
the function plus noise falls into. The noise of levels is one, and so the unit of everything, and
thresholds have mean zero. Of many people see `bayesrank.models.collaborative`, whose programs can
be had from here, too.

References
----------
.. [1] Chu, W. and Ghahramani, Z. (2005). Gaussian processes for ordinal regression. Journal of
   Machine Learning Research, 6, 1019-1041.
"""

import math
from typing import Literal

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax import Array
from jax.typing import ArrayLike

from bayesrank import gp
from bayesrank._validate import check_features
from bayesrank.distributions.ordinal import LIKELIHOODS, centred_thresholds
from bayesrank.models._rating_checks import check_levels, check_likelihood, check_numbers
from bayesrank.models._single import kernel_scales, threshold_gaps
from bayesrank.models.collaborative import collaborative_ordinal_gp as collaborative_ordinal_gp
from bayesrank.models.collaborative import (
    collaborative_preference_gp as collaborative_preference_gp,
)
from bayesrank.models.collaborative import collaborative_rating_gp as collaborative_rating_gp

__all__ = [
    "collaborative_ordinal_gp",
    "collaborative_preference_gp",
    "collaborative_rating_gp",
    "ordinal_gp",
    "rating_gp",
]


def rating_gp(X: ArrayLike, ratings: ArrayLike, *, ard: bool = False) -> None:
    """Gaussian-process regression of one person's ratings on the items' features (GPR).

    ================ ============================== ============================================
    site             prior                          meaning
    ================ ============================== ============================================
    ``amplitude``    LogNormal(0, 1)                prior sd of the function
    ``lengthscale``  LogNormal(log sqrt d + ½, 1)   distance over which it varies
    ``stretch``      LogNormal(¼, ½), shape (d,)    a feature's own, relative to it (``ard``)
    ``noise``        LogNormal(log 0.5, 1)          sd of a rating about the function
    ``level``        Normal(0, 2)                   what the function varies about
    ``f``            Gaussian process, shape (n,)   the function, less the level
    ``rating``       observed, shape (n,)           ratings
    ================ ============================== ============================================

    The priors suppose standardised features and ratings.

    Parameters
    ----------
    X : ArrayLike
        Features of the items rated, shape (n, d).
    ratings : ArrayLike
        Numbers, shape (n,).
    ard : bool, default False
        Whether each feature has a lengthscale of its own.

    Raises
    ------
    ValueError
        If an argument cannot be used; the message names it and what to do.
    """
    X = check_features(X, "X")
    observed = check_numbers(ratings, "ratings", X.shape[0])
    f = _function(X, ard)
    noise = numpyro.sample("noise", dist.LogNormal(math.log(0.5), 1.0))
    level = numpyro.sample("level", dist.Normal(0.0, 2.0))
    with numpyro.plate("items", X.shape[0]):
        numpyro.sample("rating", dist.Normal(level + f, noise), obs=observed)


def ordinal_gp(
    X: ArrayLike,
    levels: ArrayLike,
    *,
    num_levels: int | None = None,
    likelihood: Literal["probit", "logit"] = "probit",
    ard: bool = False,
) -> None:
    """Gaussian-process ordinal regression of one person's levels on features (GPOR).

    ================ ============================== ============================================
    site             prior                          meaning
    ================ ============================== ============================================
    ``amplitude``    LogNormal(0, 1)                prior sd of the function
    ``lengthscale``  LogNormal(log sqrt d + ½, 1)   distance over which it varies
    ``stretch``      LogNormal(¼, ½), shape (d,)    a feature's own, relative to it (``ard``)
    ``gaps``         LogNormal(0, 1), (r - 2,)      distances of neighbouring thresholds
    ``level``        Normal(0, 2)                   the function's, above the mean threshold
    ``f``            Gaussian process, shape (n,)   the function, less the level
    ``rating``       observed, shape (n,)           levels
    ================ ============================== ============================================

    The noise is one, and so the unit of everything. The priors suppose standardised features.

    Parameters
    ----------
    X : ArrayLike
        Features of the items rated, shape (n, d).
    levels : ArrayLike
        Whole numbers from 0 to ``num_levels - 1``, shape (n,).
    num_levels : int, optional
        Number of levels; one more than the largest if not given.
    likelihood : {"probit", "logit"}
        Normal or logistic noise.
    ard : bool, default False
        Whether each feature has a lengthscale of its own.

    Raises
    ------
    ValueError
        If an argument cannot be used; the message names it and what to do.
    """
    X = check_features(X, "X")
    law = LIKELIHOODS[check_likelihood(likelihood)]
    observed, num_levels = check_levels(levels, X.shape[0], num_levels)
    f = _function(X, ard)
    level = numpyro.sample("level", dist.Normal(0.0, 2.0))
    gaps = threshold_gaps(num_levels)
    with numpyro.plate("items", X.shape[0]):
        numpyro.sample("rating", law(level + f, centred_thresholds(gaps)), obs=observed)


def _function(X: Array, ard: bool) -> Array:
    """Sample a Gaussian process with a squared-exponential kernel at the items."""
    amplitude, lengthscale, *stretch = kernel_scales(X.shape[1], ard)
    kernel = gp.rbf(amplitude, math.prod(stretch, start=lengthscale))
    covariance = gp.gram(kernel, X)
    return jnp.asarray(numpyro.sample("f", dist.MultivariateNormal(covariance_matrix=covariance)))
