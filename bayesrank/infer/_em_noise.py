r"""The M-step for the noise of numbers, of all users or of each.

One noise has a closed form: the mean square residual over all that was observed. Where users'
noises differ, :math:`\log \sigma_j = \log \sigma + e_j` with :math:`e_j \sim N(0, s^2)`, the
expected log joint density is, with :math:`m_j` observations and :math:`R_j` the sum of the expected
squares of the residuals,

.. math::
    \sum_j \left(- m_j \log \sigma_j - \frac{R_j}{2 \sigma_j^2} - \frac{e_j^2}{2 s^2}\right),

concave in all logarithms together. A few of Newton's steps in each user's, and then the mean of
these, come near its maximum.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array, lax

from bayesrank.infer._em_estep import UserState, UserSums
from bayesrank.infer._em_theta import Theta

__all__ = ["update_noise"]

_STEPS = 5
# Where the noise is far too large, Newton's step overshoots; from below it does not.
_LONGEST_STEP = 0.5


def update_noise(
    theta: Theta,
    users: tuple[UserState, ...],
    sums: tuple[UserSums, ...],
    known: tuple[Array, ...],
) -> tuple[Theta, tuple[UserState, ...]]:
    """Make the step.

    Parameters
    ----------
    theta
        Shared log noise, and the spread of users' about it; zero for one noise.
    users, sums, known
        Of each block: states, what the E-step found, and which users are there.
    """
    zero = jnp.zeros((), theta.shared.dtype)
    residual = sum((jnp.sum(own.residual) for own in sums), zero)
    observed = sum((jnp.sum(own.observed) for own in sums), zero)
    common = 0.5 * jnp.log(residual / observed)
    differ = theta.spread[-1] > 0
    pull = jnp.where(differ, 1.0 / jnp.where(differ, theta.spread[-1], 1.0) ** 2, 0.0)

    def own_noise(user: UserState, own: UserSums) -> Array:
        def newton(_: int, log_noise: Array) -> Array:
            misfit = own.residual * jnp.exp(-2.0 * log_noise)
            gradient = misfit - own.observed - pull * (log_noise - theta.shared[-1])
            step = gradient / (2.0 * misfit + pull)
            return log_noise + jnp.clip(step, -_LONGEST_STEP, _LONGEST_STEP)

        return lax.fori_loop(0, _STEPS, newton, user.theta[..., -1])

    logs = [
        jnp.where(there & differ, own_noise(user, own), common)
        for user, own, there in zip(users, sums, known, strict=True)
    ]
    number = sum((jnp.sum(there) for there in known), zero)
    mean = sum((jnp.sum(jnp.where(t, x, 0.0)) for x, t in zip(logs, known, strict=True)), zero)
    shared = jnp.where(differ, mean / number, common)
    after = tuple(u._replace(theta=x[..., None]) for u, x in zip(users, logs, strict=True))
    return theta._replace(shared=shared[None]), after
