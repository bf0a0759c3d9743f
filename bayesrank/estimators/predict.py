r"""From the posterior of compared items to new items, and to comparisons yet to be made.

The posterior :math:`f \sim N(m, S)` of the items compared is carried to new ones by the Gaussian
process,

.. math::
    f_* \sim N(W' m, \; K_{**} - W' K_* + W' S W), \qquad W = K^{-1} K_*,

and to outcomes by averaging the likelihood over the difference of two skills: for the probit
likelihood, :math:`\Phi((m_i - m_j) / \sqrt{2 \sigma^2 + \mathrm{Var}(f_i - f_j)})`.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from tinygp.kernels import Kernel

from bayesrank import gp
from bayesrank.infer.spi import tilted_moments
from bayesrank.models.comparisons import PAIR_LIKELIHOODS

__all__ = ["NewItems", "new_items", "outcome_probability", "prior_covariances"]

Array = NDArray[np.float64]


class NewItems(NamedTuple):
    """Skills of items that were not compared, given those of items that were.

    Attributes
    ----------
    mean
        Posterior means, shape (m,).
    prior
        Prior covariance, shape (m, m), or only the prior variances, shape (m,).
    weights, change
        Matrices (n, m): the posterior covariance is the prior one plus ``weights.T @ change``.
    """

    mean: Array
    prior: Array
    weights: Array
    change: Array

    @property
    def variance(self) -> Array:
        """Posterior variances, shape (m,)."""
        prior = self.prior if self.prior.ndim == 1 else np.diagonal(self.prior)
        return prior + np.einsum("nm,nm->m", self.weights, self.change)

    @property
    def covariance(self) -> Array:
        """Posterior covariance, shape (m, m)."""
        return self.prior + self.weights.T @ self.change


def new_items(
    params: Mapping[str, Any],
    mean: Array,
    covariance: Array,
    known: Array,
    features: Array,
    *,
    joint: bool,
) -> NewItems:
    """Carry the posterior of `bayesrank.models.preference_gp` to new items.

    Parameters
    ----------
    params
        Hyperparameters.
    mean, covariance
        Of the skills given these, shapes (n,) and (n, n).
    known
        Features that the program was given, shape (n, d).
    features
        Features of the new items on the scale of those, shape (m, d).
    joint
        Whether the covariance of the new items will be wanted, and not the variances alone.
    """
    with jax.enable_x64(True):
        scales = [params[k] for k in ("amplitude", "lengthscale")]
        arrays = prior_covariances(gp.rbf, scales, known, features, joint)
        gram, across, prior = map(np.asarray, arrays)
    weights = cho_solve(cho_factor(gram, lower=True), across)
    change = covariance @ weights - across
    return NewItems(weights.T @ mean, prior, weights, change)


@partial(jax.jit, static_argnums=(0, 4))
def prior_covariances(
    make: Callable[..., Kernel],
    scales: list[jax.Array],
    known: jax.Array,
    new: jax.Array,
    joint: bool = False,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Prior covariances of a Gaussian process at known items and new ones.

    Parameters
    ----------
    make
        Makes the kernel from its scales.
    scales
        Hyperparameters of the kernel.
    known, new
        Features of items, shapes (n, d) and (m, d).
    joint
        Whether all covariances of the new items are wanted, and not the variances alone.

    Returns
    -------
    tuple
        Covariances of the known items, shape (n, n); with the new ones, (n, m); of the new ones,
        (m, m) or (m,). The first and the last have jitter.
    """
    kernel = make(*scales)
    own = gp.gram(kernel, new) if joint else (1.0 + gp.JITTER[new.dtype]) * kernel(new)
    return gp.gram(kernel, known), kernel(known, new), own


def outcome_probability(
    likelihood: str, params: dict[str, NDArray], value: int, mean: Array, variance: Array
) -> Array:
    """Probability of an outcome of comparisons whose margins are normal.

    Parameters
    ----------
    likelihood
        A key of ``bayesrank.models.comparisons.PAIR_LIKELIHOODS``.
    params
        Hyperparameters; with ``tie_width`` among them, ties are possible.
    value
        The outcome, as the likelihood's distribution counts.
    mean, variance
        Of the margins, shape (P,).
    """
    with jax.enable_x64(True):
        family = PAIR_LIKELIHOODS[likelihood]["tie_width" in params]
        scales = [params[k] for k in ("tie_width", "noise") if k in params]
        return np.exp(np.asarray(_log_probability(family, scales, value, mean, variance)))


@partial(jax.jit, static_argnums=0)
def _log_probability(
    family: Callable[..., Any],
    scales: list[jax.Array],
    value: jax.Array,
    mean: jax.Array,
    variance: jax.Array,
) -> jax.Array:
    """Log probability of an outcome, averaged over normal margins, shape (P,)."""
    distribution = family(jnp.zeros(()), *scales)
    if hasattr(distribution, "tilted_moments"):
        return distribution.tilted_moments(value, mean, variance).log_z
    return tilted_moments(lambda m: family(m, *scales).log_prob(value), mean, variance).log_z
