r"""Skills of items that move as time goes by, from comparisons of two items at a time.

Each item has a skill :math:`f(t)` of its own, a Gaussian process in time. A comparison at time
:math:`t` follows Thurstone's model of the skills at that time: item :math:`v` beats :math:`u` with
probability :math:`\Phi((f_v(t) - f_u(t)) / \sqrt 2)`. Old comparisons say less about today's skills
than recent ones; the process says how much less, and the data decide. With :math:`t_0` the first
time, ``scale`` :math:`s`, ``drift`` :math:`d`, ``lengthscale`` :math:`\ell` and
:math:`r = |t - t'|`, the covariance of an item's skill at two times is

=============== ======================================= ===========================================
``"walk"``      :math:`s^2 + d^2 (\min(t, t') - t_0)`   Brownian motion: skills may move ever
                                                        further from where they started
``"matern12"``  :math:`s^2 e^{-r/\ell}`                 Ornstein-Uhlenbeck: moves that are as
                                                        rough, and are drawn back to the average
``"matern32"``  :math:`s^2 (1 + x) e^{-x}`,             smooth moves with a rate of change, drawn
                :math:`x = \sqrt 3 r / \ell`            back to the average
=============== ======================================= ===========================================

All three are Markov (with the rate of change beside the skill for ``"matern32"``), which
`bayesrank.solvers.comparisons.DynamicEP` uses. The program draws the skills at the last time first,
for a ranking is of these, and then the earlier ones given them.

References
----------
.. [1] Glickman, M. E. (1993). Paired comparison models with time-varying parameters. PhD thesis,
   Harvard University.
.. [2] Maystre, L., Kristof, V. and Grossglauser, M. (2019). Pairwise comparisons with flexible
   time-dynamics. KDD 2019, 1236-1246.
"""

import math
from typing import Any, Literal, Unpack

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import Array
from jax.typing import ArrayLike

from bayesrank import gp
from bayesrank._validate import check_choice, check_count, known
from bayesrank.models.comparisons import ComparisonColumns, draw_scale, observe_comparisons

Process = Literal["walk", "matern12", "matern32"]

PROCESSES = ("walk", "matern12", "matern32")
"""How skills may move."""


def dynamic_thurstone(
    num_items: int,
    comparisons: ArrayLike | None = None,
    *,
    times: ArrayLike,
    period: ArrayLike | None = None,
    process: Process = "walk",
    **columns: Unpack[ComparisonColumns],
) -> None:
    r"""Independent skills of items that move in time, compared two at a time.

    ================ ============================== ============================================
    site             prior                          meaning
    ================ ============================== ============================================
    ``scale``        LogNormal(0, 1)                prior sd of a skill; of a walk at the first time
    ``drift``        LogNormal(0, 1)                sd of a walk's move in one unit of time
    ``lengthscale``  LogNormal(0, 1)                time in which a Matern process moves
    ``f``            Gaussian, shape (n,)           skills at the last time, in units of the noise
    ``rate``         Normal(0, scale), shape (n,)   with "matern32": rates of change then, times
                                                    :math:`\ell / \sqrt 3`
    ``past``         given these, shape (n, T - 1)  skills at the times before it, in their order
    ================ ============================== ============================================

    The other sites are those of `bayesrank.models.comparisons.observe_comparisons`. The priors
    suppose that time is in units of about the span that the data cover.

    Parameters
    ----------
    num_items, comparisons, **columns
        As for `bayesrank.models.thurstone`.
    times : ArrayLike
        The times at which skills are asked for, increasing numbers of shape (T,).
    period : ArrayLike, optional
        Which of the times each comparison was at, integers of shape (K,), in any order. By default
        the only one.
    process : {"walk", "matern12", "matern32"}
        How skills move.

    Raises
    ------
    ValueError
        If an argument cannot be used; the message names it and what to do.

    Examples
    --------
    >>> import jax
    >>> from numpyro.infer import Predictive
    >>> prior = Predictive(dynamic_thurstone, num_samples=100)
    >>> prior(jax.random.key(0), 3, times=[0.0, 0.5, 1.0])["past"].shape
    (100, 3, 2)
    """
    skills = _moving_skills(check_count(num_items, "num_items"), _check_times(times), process)
    observe_comparisons(skills, comparisons, period=period, **columns)


def _moving_skills(num_items: int, times: Array, process: str) -> Array:
    """Draw skills at all times, shape (n, T), those at the last time first."""
    check_choice(process, "process", *PROCESSES)
    scale = draw_scale("scale")
    pace = "drift" if process == "walk" else "lengthscale"
    pace = jnp.asarray(numpyro.sample(pace, dist.LogNormal(0.0, 1.0)))
    covariance, cross = skill_covariances(process, scale, pace, times)
    with numpyro.plate("items", num_items):
        last = [numpyro.sample("f", dist.Normal(0.0, jnp.sqrt(covariance[-1, -1])))]
        if process == "matern32":
            last.append(numpyro.sample("rate", dist.Normal(0.0, scale)))
        skills = jnp.asarray(last[0])[:, None]
        if times.size == 1:
            return skills
        gains = cross / jnp.diag(covariance)[-1]
        rest = covariance[:-1, :-1] - gains @ cross.T
        # Between times near to each other a skill hardly moves.
        jitter = gp.JITTER[rest.dtype] * jnp.diag(jnp.diag(covariance)[:-1])
        rest = 0.5 * (rest + rest.T) + jitter
        loc = jnp.stack(last, axis=-1) @ gains.T
        past = dist.MultivariateNormal(loc, covariance_matrix=rest)
        return jnp.concatenate([jnp.asarray(numpyro.sample("past", past)), skills], axis=1)


def skill_covariances(process: str, scale: Array, pace: Array, times: Array) -> tuple[Array, Array]:
    """Prior covariances of a skill at all times, (T, T), and with the last, (T - 1, r)."""
    if process == "walk":
        since = times - times[0]
        covariance = scale**2 + pace**2 * jnp.minimum(since[:, None], since)
        return covariance, covariance[:-1, -1:]
    lag = jnp.abs(times[:, None] - times) / pace
    if process == "matern12":
        covariance = scale**2 * jnp.exp(-lag)
        return covariance, covariance[:-1, -1:]
    lag = math.sqrt(3.0) * lag
    covariance = scale**2 * (1.0 + lag) * jnp.exp(-lag)
    with_rate = -(scale**2) * lag * jnp.exp(-lag)
    return covariance, jnp.stack([covariance[:-1, -1], with_rate[:-1, -1]], axis=-1)


def _check_times(times: ArrayLike) -> Array:
    """Increasing finite numbers of shape (T,)."""
    values: Any = known(times)
    if values.ndim != 1 or values.size == 0 or values.dtype.kind not in "iuf":
        raise ValueError(
            f"times has shape {values.shape} and dtype {values.dtype}; pass (T,), one or more "
            "increasing numbers"
        )
    if isinstance(values, np.ndarray):
        if not np.isfinite(values).all():
            raise ValueError("times has an entry that is not a finite number; remove it")
        if (np.diff(values) <= 0).any():
            raise ValueError(
                "times do not increase; pass each of the times once, the earliest first"
            )
    return jnp.asarray(times, float)
