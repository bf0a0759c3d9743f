r"""The scales of the base kernels, learned with the shared kernel that is drawn towards them.

With the E-step's moments :math:`T = n \hat T` and :math:`\Psi(s) = \sum_c s_c K_c`, the shared
kernel that the M-step would choose is :math:`\hat\Sigma(s) = (T + \tau \Psi(s)) / (n + \tau)`. Put
in, the expected log joint density is, up to a constant,

.. math:: Q(s) = \frac{\tau}{2} \log |\Psi(s)| - \frac{n + \tau}{2} \log |\hat\Sigma(s)|.

Fisher's step in :math:`\log s`, with the information :math:`\frac{n \tau}{2 (n + \tau)} s_c s_d \,
\mathrm{tr}(\Psi^{-1} K_c \Psi^{-1} K_d)` that :math:`Q` has where :math:`\hat T = \Psi`, is long
enough for any strength. Where it lowers :math:`Q`, a step that cannot is taken instead [1]_:

.. math:: s_c \leftarrow s_c \frac{\mathrm{tr}(\Psi^{-1} K_c)}{\mathrm{tr}(\hat\Sigma^{-1} K_c)}

maximises a bound from below that touches :math:`Q` at the present scales.

Where the noise is the unit, as it is for levels, only ratios are learned, and the variance
:math:`\mathrm{tr}\, \Psi / m` stays as it is. What a user thinks of one item alone does the same as
noise where items are rated once: with all else in proportion, the less of the whole is called
noise, the larger would :math:`s` become, without end.

References
----------
.. [1] Zhou, H., Hu, L., Zhou, J. and Lange, K. (2019). MM algorithms for variance components
   models. Journal of Computational and Graphical Statistics, 28(2), 350-361.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.linalg import cho_solve

__all__ = ["mix", "update_scales"]

_LONGEST_STEP = 1.0  # in log scale
# No kernel's variance is below this part of the largest one's: what keeps the mixture positive
# definite may be a kernel that the data have no use for.
_SMALLEST = 1e-6


def mix(scales: Array, kernels: Array) -> Array:
    """Mix base kernels, shape (C, m, m), by their scales."""
    return jnp.einsum("c,cij->ij", scales, kernels)


def update_scales(
    scales: Array,
    kernels: Array,
    moments: Array,
    num_users: Array,
    strength: float,
    *,
    hold_size: bool,
) -> Array:
    """Make a step from the present scales that does not lower :math:`Q`.

    Parameters
    ----------
    scales
        ``s``, shape (C,).
    kernels
        Base kernels, shape (C, m, m).
    moments
        ``T``, shape (m, m).
    num_users
        ``n``.
    strength
        ``tau``, above zero.
    hold_size
        Whether only the scales' ratios are learned.
    """
    total = num_users + strength
    size = jnp.mean(jax.vmap(jnp.diagonal)(kernels), axis=1)

    def factors(scales: Array) -> tuple[Array, Array]:
        base = mix(scales, kernels)
        return jnp.linalg.cholesky(base), jnp.linalg.cholesky((moments + strength * base) / total)

    def value(base: Array, shared: Array) -> Array:
        half, other = (jnp.sum(jnp.log(jnp.diagonal(x))) for x in (base, shared))
        return strength * half - total * other

    def allowed(new: Array) -> Array:
        new = jnp.maximum(new, _SMALLEST * jnp.max(new * size) / size)
        return new * (scales @ size) / (new @ size) if hold_size else new

    base, shared = factors(scales)
    identity = jnp.eye(base.shape[0], dtype=base.dtype)
    inverse, other = (cho_solve((x, True), identity) for x in (base, shared))
    expected, found = (jnp.einsum("ij,cij->c", x, kernels) for x in (inverse, other))
    gradient = 0.5 * strength * scales * (expected - found)
    across = jnp.einsum("ij,cjk->cik", inverse, kernels) * scales[:, None, None]
    information = 0.5 * (num_users * strength / total) * jnp.einsum("cij,dji->cd", across, across)
    step = jnp.linalg.solve(information, gradient)
    if hold_size:
        # Newton's step among those that, to first order, change no size.
        shares = scales * size
        back = jnp.linalg.solve(information, shares)
        step = step - back * (shares @ step) / (shares @ back)
    step = step * jnp.minimum(1.0, _LONGEST_STEP / jnp.maximum(jnp.max(jnp.abs(step)), 1e-300))
    further = allowed(scales * jnp.exp(step))
    better = value(*factors(further)) >= value(base, shared)
    safe = scales if hold_size else allowed(scales * expected / found)
    return jnp.where(better, further, safe)
