r"""Many independent latents that sites see few at a time: a Gaussian for each latent alone.

A site of the margin :math:`s = \sum_e a_e x_e` sends each of its latents a message
:math:`\exp(\rho_e x_e - \pi_e x_e^2 / 2)`. This supposes that the other latents would be
independent of it without this site. A latent is its prior times its messages. On a tree this is the
posterior. Short loops, as among players who all meet each other, lose what skills have in common.
Standard deviations of differences between players who met are then nearly right, but those between
players who never met can be far too small.

For players and games this is TrueSkill's message passing, in parallel and to convergence. A product
with sites costs as much as there are entries in the rows. The log integral is Bethe's. At the fixed
point it is stationary in the messages, so its derivative holds them fixed.

References
----------
Minka, T. (2001). A family of algorithms for approximate Bayesian inference. PhD thesis, MIT.
Herbrich, R., Minka, T. and Graepel, T. (2007). TrueSkill: a Bayesian skill rating system. NIPS 19.
Yedidia, J., Freeman, W. and Weiss, Y. (2005). Constructing free-energy approximations and
generalized belief propagation algorithms. IEEE Transactions on Information Theory, 51, 2282-2312.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from bayesrank.infer.gaussian.protocol import Large, Margins, SiteTerm, log_sites
from bayesrank.infer.gaussian.rows import Rows


class _EntryCavities(NamedTuple):
    """Shares of latents in margins, without what the site itself says; shapes (G, r), (G,)."""

    mean: Array
    variance: Array
    proper: Array


class _Messages(NamedTuple):
    """Sites of a block, shapes (G,), and the messages to their latents, shapes (G, r)."""

    tau: Array
    nu: Array
    pi: Array
    rho: Array


class FactorisedGaussian(NamedTuple):
    """The posterior, latent by latent."""

    precision: Array  # of latents, (n,)
    shift: Array  # precision-means, (n,)
    messages: tuple[_Messages, ...]  # sites and messages of each block
    cavities: tuple[_EntryCavities, ...] | None = None  # of entries, where computed

    @property
    def mean(self) -> Array:
        """Shape (n,)."""
        return self.shift / self.precision

    @property
    def variances(self) -> Array:
        """Shape (n,)."""
        return 1 / self.precision

    @property
    def valid(self) -> Array:
        """Whether every latent has a proper posterior."""
        return jnp.all(self.precision > 0)

    def entries(self, rows: Rows, block: int) -> _EntryCavities:
        """Latents at the entries of rows, without the site's own messages."""
        if self.cavities is not None:
            return self.cavities[block]
        messages = self.messages[block]
        precision = rows.take(self.precision) - messages.pi
        proper = precision > 0
        variance = 1 / jnp.where(proper, precision, 1.0)
        mean = (rows.take(self.shift) - messages.rho) * variance
        return _EntryCavities(
            rows.values * mean, rows.values**2 * variance, jnp.all(proper, axis=1)
        )

    def margins(self, rows: Rows, block: int = 0) -> tuple[Array, Array]:
        """Means and variances of predictors, shapes (G,); infinite where a cavity is not proper."""
        entries, messages = self.entries(rows, block), self.messages[block]
        mean, variance = jnp.sum(entries.mean, axis=1), jnp.sum(entries.variance, axis=1)
        widening = 1 + messages.tau * variance
        proper = entries.proper & (widening > 0)
        widening = jnp.where(proper, widening, 1.0)
        own = jnp.where(proper, variance / widening, jnp.inf)
        return (mean + messages.nu * variance) / widening, own

    def ready(self, rows: Sequence[Rows]) -> FactorisedGaussian:
        """With cavities, which a sweep needs twice."""
        cavities = tuple(self.entries(each, block) for block, each in enumerate(rows))
        return self._replace(cavities=cavities)

    def watched(self, rows: Sequence[Rows]) -> Margins:
        """The latents: what they have in common may move after all margins are at rest."""
        del rows
        return ((self.mean, self.variances),)


class FactorisedPrior(NamedTuple):
    """``N(0, D D)`` with a diagonal ``D``, with a posterior of each latent alone."""

    variances: Array  # the diagonal of ``D D``, shape (n,)

    on_host, keeps_covariances = False, False

    def prepared(self) -> FactorisedPrior:
        """Itself."""
        return self

    def alone(self, terms: Sequence[SiteTerm] = ()) -> FactorisedGaussian:
        """The prior as a posterior."""
        none = (jnp.zeros_like(term.rows.values) for term in terms)
        messages = tuple(_Messages(t.tau, t.nu, x, x) for t, x in zip(terms, none, strict=True))
        return self._with(terms, messages)

    def times(
        self, terms: Sequence[SiteTerm], before: FactorisedGaussian | None = None
    ) -> FactorisedGaussian:
        """Pass messages of sites to their latents, by the cavities of the posterior before."""
        known = self.alone(terms) if before is None else before
        messages = tuple(_messages(term, known, block) for block, term in enumerate(terms))
        return self._with(terms, messages)

    def _with(
        self, terms: Sequence[SiteTerm], messages: tuple[_Messages, ...]
    ) -> FactorisedGaussian:
        """The posterior that messages make."""
        precision, shift = 1 / self.variances, jnp.zeros_like(self.variances)
        for (rows, *_), each in zip(terms, messages, strict=True):
            added = rows.put(jnp.stack([each.pi, each.rho], axis=-1))
            precision, shift = precision + added[:, 0], shift + added[:, 1]
        return FactorisedGaussian(precision, shift, messages)

    def log_normaliser(self, terms: Sequence[SiteTerm], posterior: FactorisedGaussian) -> Array:
        """Bethe's approximation, differentiable at fixed messages."""
        messages = lax.stop_gradient(posterior.messages)
        fixed = self._with(terms, messages)
        prior = _log_integral(1 / self.variances, 0.0)
        total = jnp.sum(_log_integral(fixed.precision, fixed.shift) - prior)
        for block, (rows, tau, nu) in enumerate(terms):
            entries = fixed.entries(rows, block)
            mean, variance = jnp.sum(entries.mean, axis=1), jnp.sum(entries.variance, axis=1)
            whole = rows.take(fixed.precision), rows.take(fixed.shift)
            without = whole[0] - messages[block].pi, whole[1] - messages[block].rho
            total += jnp.sum(log_sites(tau, nu, mean, variance))
            total -= jnp.sum(_log_integral(*whole) - _log_integral(*without))
        return total

    def packed(self, mean: Array, variances: Array, rows: tuple[tuple[Array, Array], ...]) -> Large:
        """What compiled code returns, see `bayesrank.infer.gaussian.protocol.Large`."""
        return Large(mean, self.variances, variances, rows)


def _messages(term: SiteTerm, before: FactorisedGaussian, block: int) -> _Messages:
    """Messages of sites to their latents; the old ones where a cavity is not proper."""
    (rows, tau, nu), entries, old = term, before.entries(term.rows, block), before.messages[block]
    mean, variance = jnp.sum(entries.mean, axis=1), jnp.sum(entries.variance, axis=1)
    rest, others = variance[:, None] - entries.variance, mean[:, None] - entries.mean
    shrunk = rows.values / (1 + tau[:, None] * rest)
    pi = rows.values * tau[:, None] * shrunk
    rho = (nu[:, None] - tau[:, None] * others) * shrunk
    proper = entries.proper[:, None]
    return _Messages(tau, nu, jnp.where(proper, pi, old.pi), jnp.where(proper, rho, old.rho))


def _log_integral(precision: Array, shift: Array | float) -> Array:
    """Log of the integral of ``exp(shift x - precision x^2 / 2)``, but for a constant."""
    return 0.5 * (shift**2 / precision - jnp.log(precision))


def merged(rows: Rows) -> Rows:
    """Sparse rows in which a column stands once: its entries are added up, the rest are zeros."""
    if rows.columns is None:
        raise ValueError("dense rows have each column once")
    same = rows.columns[:, :, None] == rows.columns[:, None, :]
    earlier = jnp.tril(jnp.ones(same.shape[1:], bool), -1)
    first = ~jnp.any(same & earlier, axis=2)
    total = jnp.sum(jnp.where(same, rows.values[:, None, :], 0.0), axis=2)
    return rows._replace(values=jnp.where(first, total, 0.0))
