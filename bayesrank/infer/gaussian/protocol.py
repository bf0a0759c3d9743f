"""What EP asks of the Gaussian part of a model, whatever its form.

A `Prior` is ``N(0, K)`` over the latents. Times sites ``exp(nu s - tau s^2 / 2)`` of margins
``s = a' x`` it makes a `Gaussian`, the posterior. EP needs margins of that and its normaliser; its
form concerns this package alone. Both are pytrees, so they pass through `jit`, `vmap` and
`lax.while_loop`. A further form is a prior and a posterior class with these methods, and a line in
`bayesrank.infer.reader.prior`, which chooses the form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from bayesrank.infer.gaussian.rows import Rows

# Means and variances of the predictors of each block.
Margins = tuple[tuple[Array, Array], ...]


class SiteTerm(NamedTuple):
    """Sites of one block of factors."""

    rows: Rows  # rows of their margins, (G, n)
    tau: Array  # precisions and precision-means of the margins, shape (G,)
    nu: Array


def log_sites(tau: Array, nu: Array, mean: Array, variance: Array) -> Array:
    """Log of the integral of each site over its cavity, of the given mean and variance."""
    widening = 1 + tau * variance
    exponent = tau * mean**2 - 2 * nu * mean - nu**2 * variance
    return -0.5 * jnp.log(widening) - 0.5 * exponent / widening


class Gaussian(Protocol):
    """A Gaussian posterior of n latents, measured from their prior mean."""

    @property
    def mean(self) -> Array:
        """Shape (n,)."""
        ...

    @property
    def log_normaliser(self) -> Array:
        """Log of the integral of prior times sites, a scalar."""
        ...

    @property
    def valid(self) -> Array:
        """Whether prior times sites can be normalised, to the precision of the computation."""
        ...

    def margins(self, rows: Rows, block: int = 0) -> tuple[Array, Array]:
        """Means and variances (G,) of the predictors of `rows`, those of term number `block`."""
        ...

    def ready(self, rows: Sequence[Rows]) -> Any:
        """The same, with what a sweep over sites of all these rows needs more than once."""
        ...

    def watched(self, rows: Sequence[Rows]) -> Margins:
        """What must come to rest before EP has converged: as a rule the margins of all sites."""
        ...


class Prior(Protocol):
    """A Gaussian prior ``N(0, K)`` of n latents."""

    @property
    def on_host(self) -> bool:
        """Whether it is multiplied by sites outside of compiled code."""
        ...

    @property
    def keeps_covariances(self) -> bool:
        """Whether its posteriors know the covariances of all latents, so that they are exact."""
        ...

    def prepared(self) -> Prior:
        """The same, ready for many products with sites; by default itself."""
        ...

    def alone(self, terms: Sequence[SiteTerm] = ()) -> Gaussian:
        """The prior as a posterior, where all sites are one."""
        ...

    def times(self, terms: Sequence[SiteTerm], before: Any = None) -> Gaussian:
        """Multiply by sites; `before` is the posterior of the sweep before, from which to go on."""
        ...

    def log_normaliser(self, terms: Sequence[SiteTerm], posterior: Any) -> Array:
        """The normaliser, differentiable in prior and rows, at a fixed `posterior`."""
        ...


class Large(NamedTuple):
    """What compiled code returns of a posterior without joint covariance.

    Such a prior has a method `packed`, which takes `prior_mean`, `variances` and `rows`.
    """

    prior_mean: Array  # (n,)
    prior_variances: Array  # (n,), with `links` the conditional ones, with `factor` ``D``
    variances: Array  # (n,), of the factorised posterior
    rows: tuple[tuple[Array, Array], ...]  # values and columns of each block
    links: tuple[Array, Array] | None = None  # values and columns of ``I - J``
    factor: Array | None = None  # ``Phi`` (n, M) of ``Phi Phi' + D``


Numbers = NDArray[np.float64]

# Slopes are means over so many draws, made so many at a time. With R of them, the top of the
# evidence is off by one in the root of R of a posterior standard deviation, or less.
SLOPE_ROUNDS, TOGETHER = 8, 32


class Slopes(NamedTuple):
    r"""Derivatives of the log integral of prior times sites, at fixed sites.

    With a prior of covariance ``K``, a precision ``S`` of the sites and a posterior of mean
    :math:`\mu` and covariance ``C``, that is

    .. math:: \tfrac12 \operatorname{tr}\bigl((b b^\top - W)\, dK\bigr), \qquad
        b = \psi - S \mu, \quad W = S - S C S.

    Nothing of size ``n x n`` is made; compiled code carries slopes on to the hyperparameters.
    """

    prior: tuple[Numbers, ...]  # by the arrays of the prior: see its property `arrays`
    rows: Numbers  # by the entries of the rows of all sites, shape (G, r)


def products_of(left: Numbers, right: Numbers, columns: NDArray[Any]) -> Numbers:
    """Mean over draws of ``left`` (G, S) times the columns of ``right`` (n, S) that a row has."""
    total = np.zeros(columns.shape)
    for one, other in zip(left.T, right.T, strict=True):
        total += one[:, None] * other[columns]
    return total / left.shape[1]
