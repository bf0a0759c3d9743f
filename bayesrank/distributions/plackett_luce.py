r"""Orders that come of choosing the best item, then the best of the rest, and so on.

References
----------
.. [1] Plackett, R. L. (1975). The analysis of permutations. Applied Statistics, 24, 193-202.
.. [2] Luce, R. D. (1959). Individual choice behavior. Wiley.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax import Array, lax
from jax.typing import ArrayLike
from numpyro.distributions import constraints
from numpyro.distributions.util import validate_sample


class PlackettLuce(dist.Distribution):
    r"""Orders of items, best first, or the best of them.

    Each item performs at its utility plus Gumbel noise, and the performances are put in order:

    .. math:: p(y) = \prod_{j=1}^{k} \frac{\exp u_{y_j}}
        {\sum_{i \notin \{y_1 \dots y_{j-1}\}} \exp u_i}.

    Parameters
    ----------
    utilities : ArrayLike
        Utilities of the items, shape (..., n).
    length : int, optional
        How many of the best items an order names; all n if not given. One is a choice.
    validate_args : bool, optional
        Whether to check the values.

    Raises
    ------
    ValueError
        If `length` is not from 1 to n.

    Examples
    --------
    >>> import numpy as np
    >>> order = PlackettLuce(np.log([0.5, 0.25, 0.25]))
    >>> round(float(order.log_prob(np.array([0, 2, 1]))), 3)  # log(1/2 * 1/2)
    -1.386
    """

    arg_constraints = {"utilities": constraints.real_vector}
    pytree_aux_fields = ("length",)

    def __init__(
        self, utilities: ArrayLike, length: int | None = None, *, validate_args: bool | None = None
    ) -> None:
        self.utilities = jnp.asarray(utilities)
        count = self.utilities.shape[-1]
        self.length = count if length is None else int(length)
        if not 1 <= self.length <= count:
            raise ValueError(
                f"length is {length!r}; pass how many of the {count} items an order names"
            )
        super().__init__(self.utilities.shape[:-1], (self.length,), validate_args=validate_args)

    @property
    def support(self) -> constraints.Constraint:
        """Numbers of items, best first."""
        return constraints.independent(
            constraints.integer_interval(0, self.utilities.shape[-1] - 1), 1
        )

    def sample(self, key: Array | None, sample_shape: tuple[int, ...] = ()) -> Array:
        """Draw orders, shape ``sample_shape + batch_shape + (length,)``."""
        if key is None:
            raise ValueError("key is None; pass a random key")
        noise = jax.random.gumbel(key, sample_shape + self.utilities.shape, self.utilities.dtype)
        return jnp.argsort(-(self.utilities + noise), axis=-1)[..., : self.length]

    @validate_sample
    def log_prob(self, value: ArrayLike, intermediates: list[Any] | None = None) -> Array:
        """Log of the probability of orders; minus infinity where an item comes twice or is none."""
        del intermediates
        order = jnp.asarray(value)
        shape = lax.broadcast_shapes(order.shape[:-1], self.batch_shape)
        count = self.utilities.shape[-1]
        utilities = jnp.broadcast_to(self.utilities, (*shape, count))
        order = jnp.broadcast_to(order, (*shape, self.length))
        named = jax.nn.one_hot(order, count, dtype=utilities.dtype)
        before = jnp.cumsum(named, axis=-2) - named
        left = jnp.where(before > 0, -jnp.inf, utilities[..., None, :])
        own = jnp.sum(jnp.where(named > 0, utilities[..., None, :], 0.0), axis=-1)
        terms = own - jax.nn.logsumexp(left, axis=-1)
        twice = jnp.any(jnp.sum(named, axis=-2) > 1, axis=-1)
        wrong = twice | jnp.any(jnp.sum(named, axis=-1) < 1, axis=-1)
        return jnp.where(wrong, -jnp.inf, jnp.sum(jnp.where(wrong[..., None], 0.0, terms), axis=-1))
