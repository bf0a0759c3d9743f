r"""A Gaussian prior of latents each of which is drawn given few others: walks, chains, hierarchies.

Latent k is ``N(c_k + sum_j J_kj z_j, q_k)``. The joint precision
:math:`(I - J)' \operatorname{diag}(1 / q) (I - J)` is sparse, and has the form of what sites add to
one: row k of :math:`I - J` is a margin, and :math:`1 / q_k` the precision of a Gaussian site of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from scipy import sparse

from bayesrank.infer.gaussian.factorised import FactorisedGaussian, FactorisedPrior
from bayesrank.infer.gaussian.protocol import (
    SLOPE_ROUNDS,
    TOGETHER,
    Large,
    SiteTerm,
    Slopes,
    products_of,
)
from bayesrank.infer.gaussian.rows import Rows
from bayesrank.infer.gaussian.sparse import Linkage, Numbers, SparseGaussian, SparsePattern

_SEED = 1


class LinkedPrior(NamedTuple):
    """``N(0, K)`` by its sparse precision; `LinkedGaussian` multiplies it."""

    links: Rows  # the rows of ``I - J``, sparse
    spread: Array  # ``q``, shape (n,)
    # Of the latents, shape (n,); of one that depends on several, as if these were independent.
    variances: Array

    on_host, keeps_covariances = True, False
    serves = ("probes",)

    @property
    def arrays(self) -> tuple[Array, Array]:
        """The entries of the links, shape (n, r), and `spread`."""
        return self.links.values, self.spread

    def alone(self, terms: Sequence[SiteTerm] = ()) -> FactorisedGaussian:
        """The margins of the prior."""
        return FactorisedPrior(self.variances).alone(())

    def packed(self, mean: Array, variances: Array, rows: tuple[tuple[Array, Array], ...]) -> Large:
        """What compiled code returns, see `bayesrank.infer.gaussian.protocol.Large`."""
        links: Any = self.links.values, self.links.columns
        return Large(mean, self.spread, variances, rows, links=links)


class LinkedGaussian(SparseGaussian):
    """The posterior that latents drawn given few others and sites of short rows, (G,), make."""

    has_slopes = True

    def __init__(self, pattern: SparsePattern, links: Linkage, tau: Numbers, nu: Numbers) -> None:
        size = links.spread.size
        every = np.concatenate([1 / links.spread, tau]), np.concatenate([np.zeros(size), nu])
        super().__init__(pattern, np.full(size, np.inf), *every, links)

    def slopes(self, mean: Numbers) -> Slopes:
        r"""Derivatives of the log integral; `mean` (n,) is measured from the prior's.

        A posterior draw ``x`` and a prior draw ``y`` of the same numbers give
        :math:`h = D^{-1} (I - J) (x - y)`, with covariance :math:`(I - J)^{-\top} W (I - J)^{-1}`.
        The slope by ``q`` is half of the mean's own :math:`h^2` less that of the draws.
        """
        size, columns = self.variances.size, self.pattern.rows.columns
        pull = self.tau * (self.pattern.matrix @ mean)
        spread, entries = pull[:size] ** 2, (self.nu - pull)[:, None] * mean[columns]
        rng = np.random.default_rng(_SEED)
        root = np.sqrt(self.tau)[:, None]
        given = sparse.eye_array(size, format="csr") - self.pattern.matrix[:size]
        for _ in range(SLOPE_ROUNDS):
            signs = rng.choice([-1.0, 1.0], (self.tau.size, TOGETHER))
            draws = self.solve(self.pattern.transposed @ (root * signs))
            scaled = self.tau[:, None] * (self.pattern.matrix @ draws)
            scaled[:size] -= root[:size] * signs[:size]
            spread -= np.mean(scaled[:size] ** 2, axis=1) / SLOPE_ROUNDS
            apart = draws - _followed(given, signs[:size] / root[:size])
            entries[:size] += products_of(scaled[:size], apart, columns[:size]) / SLOPE_ROUNDS
            entries[size:] -= products_of(scaled[size:], draws, columns[size:]) / SLOPE_ROUNDS
        return Slopes((entries[:size], 0.5 * spread), entries[size:])


def _followed(given: Any, innovations: Numbers) -> Numbers:
    """Latents (n, S) of given innovations: ``(I - J)^-1`` times these."""
    latents, before = innovations, np.zeros(0)
    while not np.array_equal(latents, before, equal_nan=True):
        latents, before = innovations + given @ latents, latents
    return latents


def linked(given: Rows, loc: Array, spread: Array) -> tuple[Array, LinkedPrior]:
    """Mean (n,) and Gaussian of latents drawn given one another: ``J``, ``c`` (n,), ``q`` (n,)."""
    squares = given._replace(values=given.values**2)

    def unfinished(state: tuple[Array, ...]) -> Array:
        mean, variances, old_mean, old_variances = state
        return jnp.any(_differ(mean, old_mean) | _differ(variances, old_variances))

    def follow(state: tuple[Array, ...]) -> tuple[Array, ...]:
        mean, variances, *_ = state
        return loc + given.apply(mean), spread + squares.apply(variances), mean, variances

    none = jnp.full_like(loc, jnp.nan)
    mean, variances, *_ = lax.while_loop(unfinished, follow, (loc, spread, none, none))
    own = jnp.arange(given.size, dtype=jnp.int32)[:, None]
    if given.columns is None:
        raise ValueError("the rows of J are not sparse")
    links = given._replace(
        values=jnp.concatenate([jnp.ones_like(loc)[:, None], -given.values], axis=1),
        columns=jnp.concatenate([own, given.columns], axis=1),
    )
    return mean, LinkedPrior(links, spread, variances)


def _differ(new: Array, old: Array) -> Array:
    """Whether numbers differ, element by element; NaN equals NaN."""
    return (new != old) & ~(jnp.isnan(new) & jnp.isnan(old))
