r"""Latents of groups, eliminated group by group: a Gaussian whose precision looks like an arrow.

Every site may see some latents, the core. The others belong to groups, and are independent of each
other and of the core under the prior. Each site sees those of one group at most: effects of a
rater, performances on one occasion. Sites then make a precision

.. math:: \begin{pmatrix} K^{-1} + S_{uu} & S_{ul} \\ S_{lu} & D^{-1} + S_{ll} \end{pmatrix}

with one block in :math:`S_{ll}` for each group. With :math:`P = (D^{-1} + S_{ll})^{-1}`, block by
block, the core sees sites of precision :math:`S_{uu} - S_{ul} P S_{lu}`. Given the core the groups
are independent, with covariance :math:`P` and a mean that moves by :math:`-P S_{lu}` with it. So
the work is in proportion to the number of groups.

A group may stand for several equal ones: copies with latents and sites of their own, at the same
numbers. A site's parameters are then those of all copies together, margins are those of one copy,
and the core sees what all of them say.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from bayesrank.infer.gaussian.dense import DenseGaussian, DensePrior
from bayesrank.infer.gaussian.protocol import Margins, SiteTerm
from bayesrank.infer.gaussian.rows import Rows


class Groups(NamedTuple):
    """Which latents belong to which group; they stand behind the core, which belongs to none."""

    # Number of each such latent's group, and its place among those of the group, shape (N k,).
    group: Any
    place: Any
    # The other way round: the latent at each place of each group, counted from the first that
    # belongs to one, shape (N, k).
    latent: Any

    @classmethod
    def of(cls, group: np.ndarray) -> Groups:
        """Groups of one size, from the number of each latent's group."""
        count = int(group.max()) + 1
        latent = np.argsort(group, kind="stable").reshape(count, -1)
        place = np.zeros(group.size, np.int32)
        place[latent] = np.arange(latent.shape[1])
        return cls(group.astype(np.int32), place, latent.astype(np.int32))

    def parts(self, rows: Rows) -> tuple[Array, Array, Array, Array]:
        """Owned, column, group and place of each entry (G, r), past the last where none applies."""
        count, size = self.latent.shape
        core = rows.size - count * size
        columns = _columns(rows)
        owned = columns >= core
        index = jnp.maximum(columns - core, 0)
        group = jnp.where(owned, jnp.asarray(self.group)[index], count)
        place = jnp.where(owned, jnp.asarray(self.place)[index], size)
        return owned, jnp.where(owned, core, columns), group, place


class ArrowGaussian(NamedTuple):
    """The posterior, see `bayesrank.infer.gaussian.protocol.Gaussian`."""

    core: DenseGaussian  # the posterior of the core
    mean: Array  # of all latents, shape (n,)
    spread: Array  # covariances of each group given the core, shape (N, k, k)
    loading: Array  # how the mean of each group moves with the core, shape (N, k, g)
    groups: Groups  # the groups
    log_normaliser: Array  # log of the integral of the prior times the sites that made it
    valid: Array  # whether it is proper

    def margins(self, rows: Rows, block: int = 0) -> tuple[Array, Array]:
        """Means and variances of predictors, shapes (G,)."""
        owned, _, group, place = self.groups.parts(rows)
        weights = jnp.einsum("gr,grc->gc", rows.values, self._loadings()[_columns(rows)])
        variance = jnp.sum((weights @ self.core.covariance) * weights, axis=1)
        same = owned[:, :, None] & owned[:, None, :] & (group[:, :, None] == group[:, None, :])
        spread = self.spread[group[:, :, None], place[:, :, None], place[:, None, :]]
        spread = jnp.where(same, spread, 0.0)
        own = jnp.einsum("gi,gij,gj->g", rows.values, spread, rows.values)
        return rows.apply(self.mean), variance + own

    def _loadings(self) -> Array:
        """How each latent moves with the core, shape (n, g)."""
        behind = self.loading[self.groups.group, self.groups.place]
        return jnp.concatenate([jnp.eye(self.core.mean.size, dtype=behind.dtype), behind])

    @property
    def covariance(self) -> Array:
        """Covariances of all latents, shape (n, n)."""
        loadings, group = self._loadings(), self.groups.group
        own = self.spread[group[:, None], self.groups.place[:, None], self.groups.place[None, :]]
        own = jnp.where(group[:, None] == group[None, :], own, 0.0)
        start = self.core.mean.size
        return (loadings @ self.core.covariance @ loadings.T).at[start:, start:].add(own)

    def ready(self, rows: Sequence[Rows]) -> ArrowGaussian:
        """Itself."""
        return self

    def watched(self, rows: Sequence[Rows]) -> Margins:
        """The margins of all sites."""
        return tuple(self.margins(block) for block in rows)


class ArrowPrior(NamedTuple):
    """Independent latents of groups, behind a core; a `Prior`."""

    core: DensePrior  # the prior of the core
    own: Array  # variances of the latents behind it, shape (N k,)
    groups: Groups  # their groups
    copies: Array | None = None  # how many equal groups each stands for, (N,); one without it

    on_host, keeps_covariances = False, True
    serves = ()

    @property
    def variances(self) -> Array:
        """Prior variances of all latents, shape (n,)."""
        return jnp.concatenate([self.core.variances, self.own])

    def prepared(self) -> ArrowPrior:
        """Itself."""
        return self

    def alone(self, terms: Sequence[SiteTerm] = ()) -> ArrowGaussian:
        """The prior as a posterior."""
        core, own = self.core.alone(), self.own[self.groups.latent]
        spread = own[:, :, None] * jnp.eye(own.shape[1], dtype=own.dtype)
        loading = jnp.zeros((*own.shape, core.mean.size), own.dtype)
        mean = jnp.zeros(core.mean.size + self.own.size, own.dtype)
        valid = core.valid & jnp.all(jnp.isfinite(own))
        return ArrowGaussian(
            core, mean, spread, loading, self._groups(), core.log_normaliser, valid
        )

    def _groups(self) -> Groups:
        """The groups as arrays, which loops of compiled code hand on."""
        return Groups(*(jnp.asarray(x) for x in self.groups))

    def times(self, terms: Sequence[SiteTerm], before: Any = None) -> ArrowGaussian:
        """Multiply by sites: eliminate the groups, then the core."""
        inner, across, within = self._precisions(terms)
        shift = reduce(jnp.add, (term.rows.transpose_apply(term.nu) for term in terms))
        size = len(inner)  # of the core
        copies = jnp.ones_like(across[:, 0, 0]) if self.copies is None else self.copies
        across, within = (x / copies[:, None, None] for x in (across, within))
        own_shift = shift[size:][self.groups.latent] / copies[:, None]
        root = jnp.sqrt(self.own)[self.groups.latent]
        identity = jnp.eye(root.shape[1], dtype=root.dtype)
        factor = jnp.linalg.cholesky(identity + root[:, :, None] * within * root[:, None, :])
        half = jax.scipy.linalg.solve_triangular(
            factor, jnp.broadcast_to(identity, factor.shape) * root[:, None, :], lower=True
        )
        spread = jnp.einsum("nji,njk->nik", half, half)
        loading = -spread @ across
        centre = jnp.einsum("nij,nj->ni", spread, own_shift)
        core = self.core.multiply(
            inner + jnp.einsum("n,nia,nib->ab", copies, across, loading),
            shift[:size] + jnp.einsum("n,nia,ni->a", copies, loading, own_shift),
        )
        moved = centre + jnp.einsum("nia,a->ni", loading, core.mean)
        pivots = jnp.diagonal(factor, axis1=1, axis2=2)
        log_normaliser = core.log_normaliser + copies @ (
            0.5 * jnp.sum(own_shift * centre, axis=1) - jnp.sum(jnp.log(pivots), axis=1)
        )
        groups = self._groups()
        mean = jnp.concatenate([core.mean, moved[groups.group, groups.place]])
        valid = core.valid & jnp.all(jnp.isfinite(pivots)) & jnp.all(jnp.isfinite(mean))
        return ArrowGaussian(core, mean, spread, loading, groups, log_normaliser, valid)

    def _precisions(self, terms: Sequence[SiteTerm]) -> tuple[Array, Array, Array]:
        """Precisions of all sites: in the core, between groups and core, and within groups."""
        (count, size), inner = self.groups.latent.shape, jnp.zeros_like(self.core.covariance)
        across = jnp.zeros((count, size, len(inner)), inner.dtype)
        within = jnp.zeros((count, size, size), inner.dtype)
        for term in terms:
            values = term.rows.values
            product = term.tau[:, None, None] * values[:, :, None] * values[:, None, :]
            _, column, group, place = (x[:, :, None] for x in self.groups.parts(term.rows))
            columns, places = (jnp.swapaxes(x, 1, 2) for x in (column, place))
            inner = inner.at[column, columns].add(product, mode="drop")
            across = across.at[group, place, columns].add(product, mode="drop")
            within = within.at[group, place, places].add(product, mode="drop")
        return inner, across, within

    def log_normaliser(self, terms: Sequence[SiteTerm], posterior: ArrowGaussian) -> Array:
        """The normaliser, differentiable in the prior's arrays and the rows."""
        del posterior
        return self.times(terms).log_normaliser


def one_group_each(groups: Groups, rows: Rows) -> Array:
    """Whether each row sees latents of one group at most; entries of zero see nothing."""
    owned, _, group, _ = groups.parts(rows)
    seen = owned & (rows.values != 0)
    most = jnp.max(jnp.where(seen, group, -1), axis=1)
    least = jnp.min(jnp.where(seen, group, groups.latent.shape[0]), axis=1)
    return jnp.all((most < 0) | (most == least))


def _columns(rows: Rows) -> Array:
    if rows.columns is None:
        every = jnp.arange(rows.size)
        return jnp.broadcast_to(every, rows.values.shape)
    return rows.columns
