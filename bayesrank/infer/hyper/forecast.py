"""EP's sites as a function of the hyperparameters, roughly: where to start from at new ones.

The sites at EP's fixed point are smooth in the hyperparameters. So a polynomial of second degree
through the sites at some points is near those at others, and from there EP has half as many sweeps
to make. What it converges to does not depend on where it starts.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from bayesrank.infer.sites import Sites

__all__ = ["APART", "forecast"]

# Distance of the points from the centre, and how far the polynomial is trusted, in standard
# deviations.
APART = 1.3
_REACH = 2.5
_MOST = 12


def forecast(
    sites_at: Callable[[np.ndarray], Sites], size: int, most: int = _MOST
) -> Callable[[Array], Sites]:
    """Interpolate EP's sites around zero.

    Parameters
    ----------
    sites_at
        Gives the sites at a vector of hyperparameters on a white scale, shape (d,).
    size
        The length d.
    most
        With more hyperparameters than this, products of two of them are left out.

    Returns
    -------
    callable
        Gives sites at such a vector: those of `sites_at` at zero, 1.3 either way along each axis
        and, for d up to `most`, 1.3 along each pair of axes. Pure.
    """
    first, second = np.triu_indices(size) if size <= most else (np.arange(size),) * 2
    axes = APART * np.eye(size)
    corners = (axes[first] + axes[second])[first != second]
    points = np.concatenate([np.zeros((1, size)), axes, -axes, corners])

    def terms(white: Array) -> Array:
        return jnp.concatenate([jnp.ones(1), white, white[first] * white[second]])

    values, unravel = zip(*(ravel_pytree(sites_at(point)) for point in points), strict=True)
    coefficients = np.linalg.solve(jax.vmap(terms)(jnp.asarray(points)), np.stack(values))

    def interpolated(white: Array) -> Sites:
        near = jnp.clip(jnp.asarray(white), -_REACH, _REACH)
        return unravel[0](terms(near) @ jnp.asarray(coefficients))

    return interpolated
