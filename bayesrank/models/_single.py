"""Priors that programs of one person's ratings share: scales of the kernel, and thresholds.

**Relevance.** Each feature may have a lengthscale of its own, the shared one times its ``stretch``.
Where the data do not say which features matter, evidence is a poor guide to them: with ten free
lengthscales and some hundred items it finds relevance in noise. Stretches are therefore believed
to be near one, and a feature needs some evidence to depart from the others.
"""

import math

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax import Array

__all__ = ["kernel_scales", "threshold_gaps"]


def kernel_scales(d: int, ard: bool) -> tuple[Array, ...]:
    """Sample the hyperparameters of a squared-exponential kernel.

    Parameters
    ----------
    d : int
        Number of features.
    ard : bool
        Whether each feature has a lengthscale of its own.

    Returns
    -------
    tuple of Array
        Amplitude and lengthscale; with ``ard`` also stretches, shape (d,).
    """
    amplitude = numpyro.sample("amplitude", dist.LogNormal(0.0, 1.0))
    lengthscale = numpyro.sample("lengthscale", dist.LogNormal(0.5 * math.log(d) + 0.5, 1.0))
    if not ard:
        return jnp.asarray(amplitude), jnp.asarray(lengthscale)
    own = dist.LogNormal(0.25, 0.5).expand([d]).to_event(1)
    stretch = numpyro.sample("stretch", own)
    return jnp.asarray(amplitude), jnp.asarray(lengthscale), jnp.asarray(stretch)


def threshold_gaps(num_levels: int) -> Array:
    """Sample the distances of neighbouring thresholds, shape (r - 2,); none for two levels."""
    if num_levels <= 2:
        return jnp.zeros(0)
    prior = dist.LogNormal(0.0, 1.0).expand([num_levels - 2]).to_event(1)
    return jnp.asarray(numpyro.sample("gaps", prior))
