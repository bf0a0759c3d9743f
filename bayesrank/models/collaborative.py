r"""Functions of items from the ratings of many users, who share mean and kernel.

Each user :math:`j` has a function :math:`f_j` of the items, and rates some of them. A rating is a
number, :math:`f_j(i)` plus normal noise; or a level, the interval between thresholds that
:math:`f_j(i)` plus noise falls into. A comparison of two items has RankNet's pairwise logistic
[2]_. The functions are draws from one process. Its mean :math:`h` and kernel :math:`\Sigma` at the
items are learned, so one user's ratings say something about what another would like [1]_.

**Scale.** Multiplying :math:`h`, :math:`\Sigma^{1/2}`, thresholds and noise by one number changes
no probability. Neither does adding one to :math:`h` and to the thresholds. So the noise of levels
is one, or one in the median over users, and thresholds have mean zero.

**Prior.** With ``strength`` and ``mean_strength`` a ``numpyro.factor`` is the prior of kernel and
mean. It is worth that many users drawn from a base process :math:`N(l 1, \Psi)`,
:math:`\Psi = \sum_c s_c K_c`. That of the kernel is an inverse Wishart density, or any other
`bayesrank.gp.KernelPrior`. That of the mean has the log density
:math:`-\frac{\kappa}{2} (h - l 1)' \Sigma^{-1} (h - l 1)`. ``bayesrank.solvers.collaborative.EM``
maximises both together with the evidence, which is the MAP estimate. Its ``result.params`` are the
values of a program's sites, and ``result.kernel_prior`` is the ``strength`` that states its prior.

References
----------
.. [1] Yu, S., Yu, K. and Tresp, V. (2005). Collaborative ordinal regression. NIPS Workshop on
   Learning to Rank.
.. [2] Burges, C. et al. (2005). Learning to rank using gradient descent. ICML.
"""

from typing import Literal

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax import Array
from jax.typing import ArrayLike
from numpyro.distributions import constraints

from bayesrank._validate import (
    check_base_kernels,
    check_choice,
    check_count,
    check_different,
    check_levels,
    check_not_negative,
    check_numbers,
    check_pairs_of_items,
)
from bayesrank.distributions import BradleyTerry
from bayesrank.distributions.ordinal import LIKELIHOODS, centred_thresholds
from bayesrank.gp import KernelPrior


def collaborative_rating_gp(
    users: ArrayLike,
    items: ArrayLike,
    ratings: ArrayLike,
    num_users: int,
    num_items: int,
    *,
    kernel: ArrayLike | None = None,
    strength: float | KernelPrior = 0.0,
    mean_strength: float = 0.0,
    user_scales: float = 0.0,
) -> None:
    """Ratings by users whose functions share mean and kernel (CGPR).

    ================ ============================== ============================================
    site             prior                          meaning
    ================ ============================== ============================================
    ``h``            param, shape (m,)              shared mean
    ``Sigma``        param, shape (m, m)            shared kernel
    ``level``        param (with a strength)        level of the base process
    ``scales``       param (with a strength), (C,)  scales of the base kernels
    ``noise``        param                          sd of a rating about its user's function
    ``noise_factor`` LogNormal(0, s), (n,)          a user's noise, relative to that
    ``scale_factor`` LogNormal(0, s), (n,)          a user's scale
    ``prior``        factor (with a strength)       Normal-Inverse-Wishart prior
    ``f``            MVN(h, Sigma), shape (n, m)    users' functions of the items
    ``rating``       observed, shape (K,)           ratings
    ================ ============================== ============================================

    Parameters
    ----------
    users, items, ratings : ArrayLike
        Who rated what, in whole numbers from 0; and the ratings, any numbers; each of shape (K,).
    num_users, num_items : int
        Numbers n of users and m of items.
    kernel : ArrayLike, optional
        Base kernel of the items, shape (m, m), or several to be mixed, (C, m, m). Their sum is the
        first value of ``Sigma``. By default it is half a constant and half independent: items are
        exchangeable.
    strength : float or KernelPrior, default 0.0
        How many users the prior of ``Sigma`` is worth; 0 for none. With tiers ``Sigma`` may be of
        the core alone, and other items follow it by the base kernels.
    mean_strength : float, default 0.0
        How many users the prior of ``h`` is worth; 0 for none.
    user_scales : float, default 0.0
        Spread ``s`` of users' scales and noise; 0 gives all users the same. A user's scale
        stretches the function about the mean of all ratings.

    Raises
    ------
    ValueError
        If an argument cannot be used; the message names it and what to do.
    """
    who, what = check_pairs_of_items(users, items, num_users, num_items)
    observed = check_numbers(ratings, "ratings", who.shape[0])
    f = _functions(num_users, num_items, kernel, strength, mean_strength)
    noise = jnp.asarray(numpyro.param("noise", jnp.ones(()), constraint=constraints.positive))
    predictor = f[who, what]
    if check_not_negative(user_scales, "user_scales"):
        spread = dist.LogNormal(0.0, user_scales)
        with numpyro.plate("users", num_users):
            noise = noise * jnp.asarray(numpyro.sample("noise_factor", spread))[who]
            scale = jnp.asarray(numpyro.sample("scale_factor", spread))[who]
        predictor = observed.mean() + scale * (predictor - observed.mean())
    with numpyro.plate("ratings", who.shape[0]):
        numpyro.sample("rating", dist.Normal(predictor, noise), obs=observed)


def collaborative_ordinal_gp(
    users: ArrayLike,
    items: ArrayLike,
    levels: ArrayLike,
    num_users: int,
    num_items: int,
    *,
    num_levels: int | None = None,
    likelihood: Literal["probit", "logit"] = "probit",
    kernel: ArrayLike | None = None,
    strength: float | KernelPrior = 0.0,
    mean_strength: float = 0.0,
    user_thresholds: float = 0.0,
) -> None:
    """Levels given by users whose functions share mean and kernel (CGPOR).

    ================= ============================= ============================================
    site              prior                         meaning
    ================= ============================= ============================================
    ``gaps``          param, shape (r - 2,)         distances of neighbouring thresholds
    ``gap_factor``    LogNormal(0, s), (n, r - 2)   a user's gaps, relative to these
    ``noise_factor``  LogNormal(0, s), (n,)         a user's noise, relative to one
    ``rating``        observed, shape (K,)          levels
    ================= ============================= ============================================

    ``h``, ``Sigma``, ``level``, ``scales``, ``prior`` and ``f`` are as in
    `collaborative_rating_gp`.

    Parameters
    ----------
    users, items, num_users, num_items, kernel, strength, mean_strength
        As for `collaborative_rating_gp`.
    levels : ArrayLike
        Whole numbers from 0 to ``num_levels - 1``, shape (K,).
    num_levels : int, optional
        Number r of levels; one more than the largest if not given.
    likelihood : {"probit", "logit"}
        Normal or logistic noise.
    user_thresholds : float, default 0.0
        Spread ``s`` of users' gaps and noise; 0 gives all users the same.

    Raises
    ------
    ValueError
        If an argument cannot be used; the message names it and what to do.
    """
    who, what = check_pairs_of_items(users, items, num_users, num_items)
    ordered = LIKELIHOODS[check_choice(likelihood, "likelihood", *LIKELIHOODS)]
    observed, num_levels = check_levels(levels, who.shape[0], num_levels)
    f = _functions(num_users, num_items, kernel, strength, mean_strength)
    gaps = jnp.zeros(0)
    if num_levels > 2:
        first = jnp.full(num_levels - 2, 1.0)
        gaps = jnp.asarray(numpyro.param("gaps", first, constraint=constraints.positive))
    noise = jnp.ones(())
    if check_not_negative(user_thresholds, "user_thresholds"):
        with numpyro.plate("users", num_users):
            spread = dist.LogNormal(0.0, user_thresholds)
            noise = jnp.asarray(numpyro.sample("noise_factor", spread))[who]
            if num_levels > 2:
                spread = spread.expand([num_levels - 2]).to_event(1)
                gaps = gaps * jnp.asarray(numpyro.sample("gap_factor", spread))[who]
    with numpyro.plate("ratings", who.shape[0]):
        rating = ordered(f[who, what], centred_thresholds(gaps), noise)
        numpyro.sample("rating", rating, obs=observed)


def collaborative_preference_gp(
    users: ArrayLike,
    winners: ArrayLike,
    losers: ArrayLike,
    num_users: int,
    num_items: int,
    *,
    kernel: ArrayLike | None = None,
    strength: float | KernelPrior = 0.0,
    mean_strength: float = 0.0,
) -> None:
    """Comparisons by users whose functions share mean and kernel: collaborative RankNet.

    ================ ============================== ============================================
    site             prior                          meaning
    ================ ============================== ============================================
    ``comparison``   observed, shape (K,)           1: the winner wins, by ``BradleyTerry``
    ================ ============================== ============================================

    ``h``, ``Sigma``, ``level``, ``scales``, ``prior`` and ``f`` are as in
    `collaborative_rating_gp`. The margin is ``f[winner] - f[loser]``, on the logistic's scale.

    Parameters
    ----------
    users, winners, losers : ArrayLike
        Who prefers what to what: whole numbers from 0, shape (K,).
    num_users, num_items, kernel, strength, mean_strength
        As for `collaborative_rating_gp`.

    Raises
    ------
    ValueError
        If an argument cannot be used; the message names it and what to do.
    """
    counts = num_users, num_items
    who, first = check_pairs_of_items(users, winners, *counts, name="winners", unique=False)
    _, second = check_pairs_of_items(users, losers, *counts, name="losers", unique=False)
    check_different(winners, losers)
    f = _functions(num_users, num_items, kernel, strength, mean_strength)
    with numpyro.plate("comparisons", who.shape[0]):
        margin = f[who, first] - f[who, second]
        numpyro.sample("comparison", BradleyTerry(margin), obs=jnp.ones(who.shape[0], int))


def _functions(
    num_users: int,
    num_items: int,
    kernel: ArrayLike | None,
    strength: float | KernelPrior,
    mean_strength: float,
) -> Array:
    """Sample every user's function at the items, shape (n, m)."""
    n, m = check_count(num_users, "num_users"), check_count(num_items, "num_items")
    kernels, prior = check_base_kernels(kernel, m), _kernel_prior(strength, m)
    mean_strength = check_not_negative(mean_strength, "mean_strength")
    mean = jnp.asarray(numpyro.param("h", jnp.zeros(m)))
    first = prior.core(kernels.sum(0))
    covariance = jnp.asarray(
        numpyro.param("Sigma", first, constraint=constraints.positive_definite)
    )
    base = kernels.sum(0)
    if prior.informative or mean_strength:
        level = jnp.asarray(numpyro.param("level", jnp.zeros(())))
        scales = numpyro.param("scales", jnp.ones(len(kernels)), constraint=constraints.positive)
        base = jnp.einsum("c,cij->ij", jnp.asarray(scales), kernels)
        factors = (jnp.linalg.cholesky(x) for x in (covariance, prior.core(base)))
        density = prior.log_density(*factors)
        covariance = prior.all_items(covariance, base)
        gap = mean - level
        density -= 0.5 * mean_strength * gap @ jnp.linalg.solve(covariance, gap)
        numpyro.factor("prior", density)
    elif prior.num_core < m:
        covariance = prior.all_items(covariance, base)
    with numpyro.plate("users", n, dim=-1):
        process = dist.MultivariateNormal(mean, covariance_matrix=covariance)
        return jnp.asarray(numpyro.sample("f", process))


def _kernel_prior(strength: float | KernelPrior, num_items: int) -> KernelPrior:
    if not isinstance(strength, KernelPrior):
        strength = check_not_negative(strength, "strength")
        return KernelPrior.for_items(num_items, strength)
    if strength.items is not None and sorted(strength.items) != list(range(num_items)):
        raise ValueError(
            f"strength orders {len(strength.items)} items; give it each of the {num_items} once"
        )
    if strength.num_core > num_items:
        raise ValueError(
            f"strength has tiers of {strength.num_core} items, but there are {num_items}"
        )
    return strength
