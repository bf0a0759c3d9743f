"""Newton's method for a few numbers, safe where the objective is not concave."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

_LONGEST_STEP = 1.0
_LENGTHS = (0.0, 0.125, 0.25, 0.5, 1.0)
_RIDGE = 1e-12


@jax.jit
def ascent_step(gradient: ArrayLike, hessian: ArrayLike, free: ArrayLike) -> Array:
    """Newton's step (p,) of what is free (p,), upwards in every direction, no entry above one."""
    gradient, hessian, free = (jnp.asarray(x) for x in (gradient, hessian, free))
    inside = jnp.where(free[:, None] & free, hessian, jnp.diag(jnp.where(free, 0.0, -1.0)))
    values, axes = jnp.linalg.eigh(0.5 * (inside + inside.T))
    curvature = jnp.abs(values)
    curvature = jnp.maximum(curvature, _RIDGE * jnp.max(curvature))
    along = jnp.where(free, gradient, 0.0) @ axes
    step = axes @ (along / jnp.where(curvature > 0, curvature, 1.0))
    return step * jnp.minimum(1.0, _LONGEST_STEP / jnp.maximum(jnp.max(jnp.abs(step)), 1e-300))


def newton(
    objective: Callable[[Array], Array], start: Array, free: Array, num_steps: int
) -> tuple[Array, Array]:
    """Maximise by so many steps of the best length: the end (p,), and the last step's largest."""

    def improve(_: int, state: tuple[Array, Array]) -> tuple[Array, Array]:
        x = state[0]
        step = ascent_step(jax.grad(objective)(x), jax.hessian(objective)(x), free)
        tried = x + jnp.asarray(_LENGTHS)[:, None] * step
        best = tried[jnp.argmax(jax.vmap(objective)(tried))]
        return best, jnp.max(jnp.abs(step))

    return lax.fori_loop(0, num_steps, improve, (start, jnp.zeros((), start.dtype)))
