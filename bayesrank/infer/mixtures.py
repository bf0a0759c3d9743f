r"""Moments of tilted distributions for likelihoods that are mixtures, part by part.

A mixture :math:`\sum_k w_k l_k(x)` may have a peak for each part, anywhere and of any width, that
no search finds.  But its parts are known, and most have one peak each: the integral of the mixture
is the sum of theirs, and its tilted distribution a mixture of theirs.  With responsibilities
:math:`r_k = Z_k / Z`,

    d log Z / dm   = sum_k r_k d_k,
    d2 log Z / dm2 = sum_k r_k (d2_k + (d_k - d)^2).

A mixture to a power p is cut into parts of the same shape,
:math:`(\sum_k a_k)^p = \sum_k a_k^p g` with :math:`g = (\sum_k a_k)^p / \sum_k a_k^p`: for K parts
the logarithm of g is between 0 and :math:`(p - 1) \log K`.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array

from bayesrank.distributions import TiltedMoments
from bayesrank.infer.quadrature import tilted_moments

__all__ = ["mixture_moments"]

# In place of a log density of minus infinity.
_NOTHING = -1e30


def mixture_moments(
    log_parts: Callable[[Array], Array],
    power: Array | None,
    mean: Array,
    variance: Array,
) -> TiltedMoments:
    """Integrate mixtures against Gaussian cavities.

    Parameters
    ----------
    log_parts
        Maps predictors (G,) to the logs of the weighted parts, shape (G, K); element k sees its own
        predictor only.
    power
        To which the mixture is raised, a scalar or shape (G,); None for 1.
    mean, variance
        Of the cavities, shape (G,).

    Returns
    -------
    TiltedMoments
        Differentiable as those of `tilted_moments`.
    """
    num_parts = jax.eval_shape(log_parts, mean).shape[-1]

    def one(points: Array, number: Array) -> Array:
        parts = jnp.maximum(log_parts(points), _NOTHING)
        part = parts[..., number]
        if power is None:
            return part
        exponent = power[..., None]
        whole = jax.nn.logsumexp(parts, axis=-1)
        raised = jax.nn.logsumexp(exponent * parts, axis=-1)
        return power * (part + whole) - raised

    def each(points: Array) -> Array:
        return jax.vmap(one)(points, jnp.arange(num_parts))

    shape = (num_parts, *mean.shape)
    found = tilted_moments(each, jnp.broadcast_to(mean, shape), jnp.broadcast_to(variance, shape))
    log_z = jax.nn.logsumexp(found.log_z, axis=0)
    share = jnp.exp(found.log_z - log_z)
    d1 = jnp.sum(share * found.d1, axis=0)
    d2 = jnp.sum(share * (found.d2 + (found.d1 - d1) ** 2), axis=0)
    return TiltedMoments(log_z, d1, d2)
