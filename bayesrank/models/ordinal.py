r"""A function of features behind one person's ratings, or the levels of one kind of thing.

Each item has a value :math:`f`, a Gaussian process of its features. Its level is the interval
between thresholds that :math:`f` plus noise falls into [1]_. The noise is one, and so the unit of
everything; the thresholds have mean zero, and :math:`f` the mean level. A rating may also be a
number, :math:`f` plus normal noise. `bayesrank.models.collaborative` is for many people.

**Relevance.** Each feature may have a lengthscale of its own, the shared one times its ``stretch``.
If the data do not say which features matter, evidence is a poor guide to them. With ten free
lengthscales and some hundred items it finds relevance in noise. The prior of a stretch is therefore
near one, and a feature needs some evidence to depart from the others.

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
from tinygp.kernels import Constant, Kernel

from bayesrank import gp
from bayesrank._validate import check_choice, check_features, check_levels, check_numbers
from bayesrank.distributions.ordinal import LIKELIHOODS, centred_thresholds

LEVEL_VARIANCE = 4.0
"""Prior variance of the level about which the function varies."""


def ordinal_kernel(
    amplitude: ArrayLike, lengthscale: ArrayLike, stretch: ArrayLike = 1.0
) -> Kernel:
    """Kernel of the function, its level included; `stretch` is of lengthscales, (d,) or ()."""
    own = jnp.asarray(lengthscale) * jnp.asarray(stretch)
    return gp.rbf(amplitude, own) + Constant(jnp.asarray(LEVEL_VARIANCE, own.dtype))


def ordinal_gp(
    X: ArrayLike,
    levels: ArrayLike | None = None,
    *,
    num_levels: int | None = None,
    X_new: ArrayLike | None = None,
    likelihood: Literal["probit", "logit", "gaussian"] = "probit",
    ard: bool = True,
) -> None:
    """Levels of items as a Gaussian process of their features, in intervals between thresholds.

    With ``likelihood="gaussian"`` ratings are numbers about the function.

    ================ ============================== ============================================
    site             prior                          meaning
    ================ ============================== ============================================
    ``amplitude``    LogNormal(0, 1)                prior sd of the function about its level
    ``lengthscale``  LogNormal(log sqrt d + ½, 1)   distance over which it varies
    ``stretch``      LogNormal(¼, ½), shape (d,)    a feature's own, relative to it (``ard``)
    ``gaps``         LogNormal(0, 1), (r - 2,)      distances of thresholds, if levels
    ``noise``        LogNormal(log ½, 1)            sd of a rating about ``f``, if numbers
    ``f``            Gaussian process, shape (n,)   the function; its level is Normal(0, 2)
    ``f_new``        given ``f``, shape (m,)        the function at new items (with ``X_new``)
    ``rating``       observed, shape (n,)           levels, or numbers
    ================ ============================== ============================================

    The priors suppose standardised features, and ratings if they are numbers. The prior mode of
    ``stretch`` is one, for the sake of searches for the most probable hyperparameters.

    Parameters
    ----------
    X : ArrayLike
        Features of the items, shape (n, d).
    levels : ArrayLike, optional
        Whole numbers from 0 to ``num_levels - 1``, shape (n,), or any numbers if the likelihood is
        "gaussian". Without it the program is the prior.
    num_levels : int, optional
        Number of levels; one more than the largest if not given. Numbers have none.
    X_new : ArrayLike, optional
        Features of items without a level, shape (m, d).
    likelihood : {"probit", "logit", "gaussian"}
        Normal or logistic noise under the thresholds, or normal noise on a rating that is a number.
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
    >>> prior = Predictive(ordinal_gp, num_samples=100)(jax.random.key(0), X)
    >>> prior["f"].shape
    (100, 3)
    """
    X = check_features(X, "X")
    n, d = X.shape
    if likelihood != "gaussian":
        check_choice(likelihood, "likelihood", *LIKELIHOODS)
    elif num_levels is not None:
        raise ValueError("num_levels is given for ratings that are numbers; leave it out")
    kernel = ordinal_kernel(*_kernel_scales(d, ard))
    process = dist.MultivariateNormal(covariance_matrix=gp.gram(kernel, X))
    f = jnp.asarray(numpyro.sample("f", process))
    if X_new is not None:
        X_new = check_features(X_new, "X_new", columns=d)
        numpyro.sample("f_new", gp.conditional(kernel, X, process.scale_tril, f, X_new))
    if levels is None:
        return
    if likelihood == "gaussian":
        observed = check_numbers(levels, "levels", n)
        distribution = dist.Normal(f, numpyro.sample("noise", dist.LogNormal(math.log(0.5), 1.0)))
    else:
        observed, num_levels = check_levels(levels, n, num_levels)
        distribution = LIKELIHOODS[likelihood](f, centred_thresholds(_threshold_gaps(num_levels)))
    with numpyro.plate("items", n):
        numpyro.sample("rating", distribution, obs=observed)


def _kernel_scales(d: int, ard: bool) -> tuple[Array, ...]:
    """Sample amplitude and lengthscale; with ``ard`` also stretches, shape (d,)."""
    amplitude = numpyro.sample("amplitude", dist.LogNormal(0.0, 1.0))
    lengthscale = numpyro.sample("lengthscale", dist.LogNormal(0.5 * math.log(d) + 0.5, 1.0))
    if not ard:
        return jnp.asarray(amplitude), jnp.asarray(lengthscale)
    own = dist.LogNormal(0.25, 0.5).expand([d]).to_event(1)
    stretch = numpyro.sample("stretch", own)
    return jnp.asarray(amplitude), jnp.asarray(lengthscale), jnp.asarray(stretch)


def _threshold_gaps(num_levels: int) -> Array:
    """Sample the distances of neighbouring thresholds, shape (r - 2,); none for two levels."""
    if num_levels <= 2:
        return jnp.zeros(0)
    prior = dist.LogNormal(0.0, 1.0).expand([num_levels - 2]).to_event(1)
    return jnp.asarray(numpyro.sample("gaps", prior))
