r"""Skills of items from comparisons of two items at a time.

Each item has a skill :math:`f`. In a comparison each item performs at its skill plus noise, and
the better performance wins, so that item :math:`v` beats :math:`u` with probability
:math:`\Phi((f_v - f_u) / (\sqrt 2 \sigma))`. The skills are a Gaussian process of the items'
features, or independent where there are none.

Comparisons only ever show skills relative to the noise: multiplying ``amplitude``, ``noise`` and
all skills by one number changes no probability. So one of them has to set the unit, and it is the
noise: its prior is tight around one, and its median is one, which makes a skill difference of
:math:`\sqrt 2` a win by :math:`\Phi(1)`, 84 times in 100. Adding a number to all skills changes no
probability either; the zero-mean prior decides the level.

References
----------
.. [1] Chu, W. and Ghahramani, Z. (2005). Extensions of Gaussian processes for ranking:
   semi-supervised and active learning. NIPS Workshop on Learning to Rank.
.. [2] Thurstone, L. L. (1927). A law of comparative judgement. Psychological Review, 34, 273-286.
"""

import math
from contextlib import nullcontext
from typing import Any, Literal

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax import Array
from jax.typing import ArrayLike
from numpyro import handlers

from bayesrank import gp
from bayesrank._validate import (
    check_comparisons,
    check_count,
    check_features,
    check_laplacian,
    check_outcomes,
    check_weights,
)
from bayesrank.distributions import BradleyTerry, BradleyTerryTies, Thurstone, ThurstoneTies

__all__ = ["observe_comparisons", "preference_gp", "preference_inducing", "thurstone"]

LIKELIHOODS = {"probit": (Thurstone, ThurstoneTies), "logit": (BradleyTerry, BradleyTerryTies)}


def preference_gp(
    X: ArrayLike,
    comparisons: ArrayLike | None = None,
    *,
    X_new: ArrayLike | None = None,
    outcomes: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    likelihood: Literal["probit", "logit"] = "probit",
    ard: bool = False,
    laplacian: Any = None,
    rank: int | None = None,
) -> None:
    r"""Gaussian-process skills of items with features, compared two at a time.

    ================ ============================== ============================================
    site             prior                          meaning
    ================ ============================== ============================================
    ``amplitude``    LogNormal(0, 1)                prior sd of a skill
    ``lengthscale``  LogNormal(log sqrt d, 1)       distance over which skill varies
    ``noise``        LogNormal(0, 0.1)              sd of a performance; sets the unit of skill
    ``graph_weight`` LogNormal(0, 2)                pull between neighbours (with ``laplacian``)
    ``tie_width``    LogNormal(log 0.5, 1)          least decisive difference (with ``outcomes``)
    ``f``            Gaussian process, shape (n,)   skills
    ``f_new``        given ``f``, shape (m,)        skills of the new items (with ``X_new``)
    ``comparison``   observed, shape (K,)           1 for each comparison, or ``outcomes``
    ================ ============================== ============================================

    The priors suppose standardised features, of mean zero and standard deviation one: two items are
    then at a distance of about :math:`\sqrt{2 d}`. In the paper's symbols,
    :math:`\kappa_o = \mathtt{amplitude}^2`, :math:`\kappa = 1 / \mathtt{lengthscale}^2` and
    :math:`\sigma = \mathtt{noise}`; its graph has the weight one.

    Parameters
    ----------
    X : ArrayLike
        Features of the items, shape (n, d).
    comparisons : ArrayLike, optional
        Integers of shape (K, 2), a row (winner, loser) for each comparison; repeats count. Without
        it the program is the prior. To draw outcomes of given pairs, run the program under
        ``numpyro.handlers.uncondition``.
    X_new : ArrayLike, optional
        Features of items that are in no comparison, shape (m, d).
    outcomes : ArrayLike, optional
        Integers of shape (K,) that make ties possible: 2 if the first item of the row wins, 1 if
        there is no difference, 0 if the second wins. Without it the first item wins.
    weights : ArrayLike, optional
        How often each comparison counts, positive numbers of shape (K,). Without it, once.
    likelihood : {"probit", "logit"}
        Normal noise (Thurstone), or logistic noise of scale ``noise`` on the difference
        (Bradley-Terry).
    ard : bool, default False
        Whether each feature has a lengthscale of its own; then ``lengthscale`` has shape (d,).
    laplacian : ArrayLike or scipy.sparse array, optional
        Laplacian :math:`L` of a graph of the items, shape (n, n), as `bayesrank.gp.laplacian` makes
        it. The prior density of ``f`` is then multiplied by :math:`\exp(-w f' L f / 2)`, with
        :math:`w = \mathtt{graph\_weight}`, and normalised: items that the graph joins have similar
        skills, also those in no comparison [1]_. New items are related to them by the kernel; the
        process as a whole has the kernel `bayesrank.gp.warp`.
    rank : int, optional
        Number of inducing points, of which the prior of ``f`` is then `bayesrank.gp.features`: of
        low rank but for the items' own variances, for items too many for a covariance matrix.

    Raises
    ------
    ValueError
        If an argument cannot be used; the message names it and what to do.

    Examples
    --------
    >>> import jax, numpy as np
    >>> from numpyro.infer import Predictive
    >>> X = np.array([[-1.0], [0.0], [1.0]])
    >>> prior = Predictive(preference_gp, num_samples=100)(jax.random.key(0), X)
    >>> prior["f"].shape
    (100, 3)
    """
    X = check_features(X, "X")
    num_features = X.shape[1]
    kernel, noise = _kernel_and_noise(num_features, ard)
    if rank is not None:
        if laplacian is not None or X_new is not None:
            raise ValueError("`rank` goes with neither `laplacian` nor `X_new`; leave it out.")
        f = jnp.asarray(numpyro.sample("f", gp.features(kernel, X, check_count(rank, "rank"))))
        observe_comparisons(f, comparisons, outcomes, weights, likelihood, noise)
        return
    process = dist.MultivariateNormal(covariance_matrix=gp.gram(kernel, X))
    prior = process
    if laplacian is not None:
        weight = jnp.asarray(numpyro.sample("graph_weight", dist.LogNormal(0.0, 2.0)))
        graph = check_laplacian(laplacian, X.shape[0])
        prior = gp.warped_prior(process.scale_tril, graph, weight=weight)
    f = jnp.asarray(numpyro.sample("f", prior))
    if X_new is not None:
        X_new = check_features(X_new, "X_new", columns=num_features)
        # Of other items the graph says nothing once f is known: no Laplacian here.
        numpyro.sample("f_new", gp.conditional(kernel, X, process.scale_tril, f, X_new))
    observe_comparisons(f, comparisons, outcomes, weights, likelihood, noise)


def preference_inducing(
    X: ArrayLike,
    comparisons: ArrayLike,
    rank: int,
    *,
    outcomes: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    likelihood: Literal["probit", "logit"] = "probit",
    ard: bool = False,
) -> None:
    r"""`preference_gp` by what its inducing points tell, each comparison for itself.

    The skill of an item is :math:`\Phi_i w + e_i`, see `bayesrank.gp.features`. Here each
    comparison draws the residuals :math:`e` of its two items anew, as more noise of its own: that
    is the same where few items are compared twice, or residuals are small. Whatever the number of
    items, its latents are the values ``w`` at the inducing points alone, independent and standard
    normal; its other sites are those of `preference_gp`. It serves to learn hyperparameters.

    Parameters
    ----------
    X, comparisons, outcomes, weights, likelihood, ard
        As for `preference_gp`.
    rank : int
        Number M of inducing points.

    Raises
    ------
    ValueError
        If an argument cannot be used; the message names it and what to do.
    """
    X = check_features(X, "X")
    kernel, noise = _kernel_and_noise(X.shape[1], ard)
    prior = gp.features(kernel, X, check_count(rank, "rank"))
    factor, residuals = jnp.asarray(prior.cov_factor), jnp.asarray(prior.cov_diag)
    w = jnp.asarray(numpyro.sample("w", dist.Normal(0.0, 1.0).expand([factor.shape[1]])))
    pairs = check_comparisons(comparisons, X.shape[0])
    first, second = pairs[:, 0], pairs[:, 1]
    margin = (factor[first] - factor[second]) @ w
    own = residuals[first] + residuals[second]
    # The variance of a difference of performances is two noise^2, or that of logistic noise.
    share = 0.5 if likelihood == "probit" else 3.0 / math.pi**2
    noise = jnp.sqrt(noise**2 + share * own)
    _observe_margins(margin, outcomes, weights, likelihood, noise)


def _kernel_and_noise(num_features: int, ard: bool) -> tuple[Any, Any]:
    amplitude = numpyro.sample("amplitude", dist.LogNormal(0.0, 1.0))
    scale_prior = dist.LogNormal(0.5 * math.log(num_features), 1.0)
    scale_prior = scale_prior.expand([num_features]).to_event(1) if ard else scale_prior
    lengthscale = numpyro.sample("lengthscale", scale_prior)
    noise = numpyro.sample("noise", dist.LogNormal(0.0, 0.1))
    return gp.rbf(amplitude, lengthscale), noise


def thurstone(
    num_items: int,
    comparisons: ArrayLike | None = None,
    *,
    scale: ArrayLike | None = None,
    outcomes: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    likelihood: Literal["probit", "logit"] = "probit",
) -> None:
    """Independent skills of items without features, compared two at a time.

    ================ ============================== ============================================
    site             prior                          meaning
    ================ ============================== ============================================
    ``scale``        LogNormal(0, 1)                prior sd of a skill (unless given)
    ``tie_width``    LogNormal(log 0.5, 1)          least decisive difference (with ``outcomes``)
    ``f``            Normal(0, scale), shape (n,)   skills, in units of the noise
    ``comparison``   observed, shape (K,)           1 for each comparison, or ``outcomes``
    ================ ============================== ============================================

    Parameters
    ----------
    num_items : int
        Number of items.
    comparisons : ArrayLike, optional
        Integers of shape (K, 2), a row (winner, loser) for each comparison; repeats count. Without
        it the program is the prior.
    scale : ArrayLike, optional
        Prior standard deviation of a skill, positive. Without it ``scale`` is a site.
    outcomes : ArrayLike, optional
        Integers of shape (K,) that make ties possible, as for ``preference_gp``.
    weights : ArrayLike, optional
        How often each comparison counts, as for ``preference_gp``.
    likelihood : {"probit", "logit"}
        Normal noise of standard deviation 1 on each performance (Thurstone), or logistic noise of
        scale 1 on their difference (Bradley-Terry).

    Raises
    ------
    ValueError
        If an argument cannot be used; the message names it and what to do.
    """
    num_items = check_count(num_items, "num_items")
    if scale is None:
        scale = numpyro.sample("scale", dist.LogNormal(0.0, 1.0))
    with numpyro.plate("items", num_items):
        f = jnp.asarray(numpyro.sample("f", dist.Normal(0.0, scale)))
    observe_comparisons(f, comparisons, outcomes, weights, likelihood, 1.0)


def observe_comparisons(
    f: Array,
    comparisons: ArrayLike | None,
    outcomes: ArrayLike | None,
    weights: ArrayLike | None,
    likelihood: str,
    noise: ArrayLike,
) -> None:
    """Observe the outcomes of comparing items of given skills."""
    _check_likelihood(likelihood)
    if comparisons is None:
        if outcomes is not None:
            raise ValueError("`outcomes` is given without `comparisons`; pass the pairs compared.")
        if weights is not None:
            raise ValueError("`weights` is given without `comparisons`; pass the pairs compared.")
        return
    pairs = check_comparisons(comparisons, f.shape[-1])
    _observe_margins(f[pairs[:, 0]] - f[pairs[:, 1]], outcomes, weights, likelihood, noise)


def _check_likelihood(likelihood: str) -> None:
    if likelihood not in LIKELIHOODS:
        raise ValueError(f"`likelihood` is {likelihood!r}; choose 'probit' or 'logit'.")


def _observe_margins(
    margin: Array,
    outcomes: ArrayLike | None,
    weights: ArrayLike | None,
    likelihood: str,
    noise: ArrayLike,
) -> None:
    """Observe the outcomes of comparisons, given differences of skills, shape (K,)."""
    _check_likelihood(likelihood)
    without_ties, with_ties = LIKELIHOODS[likelihood]
    count = margin.shape[0]
    if outcomes is None:
        distribution, observed = without_ties(margin, noise), jnp.ones(count, int)
    else:
        observed = check_outcomes(outcomes, count)
        tie_width = numpyro.sample("tie_width", dist.LogNormal(math.log(0.5), 1.0))
        distribution = with_ties(margin, tie_width, noise)
    counted = nullcontext()
    if weights is not None:
        counted = handlers.scale(scale=check_weights(weights, count))
    with counted, numpyro.plate("comparisons", count):
        numpyro.sample("comparison", distribution, obs=observed)
