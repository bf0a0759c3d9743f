r"""Expectation propagation in natural parameters, as pure functions of arrays.

The model is a Gaussian ``x ~ N(0, K)`` and factors ``t_k``, each of which sees ``x`` through one
scalar margin ``a_k' x``. EP replaces each factor by a site ``exp(nu_k s - tau_k s^2 / 2)`` of its
margin ``s``. With every other site in place, factor and site give the margin the same mean and
variance (Minka, 2001). With ``S = A' diag(tau) A`` and ``psi = A' nu`` the posterior is

    covariance ``C = K (I + S K)^-1``,  mean ``C psi``.

EP neither inverts ``K`` nor builds anything of size (factors x factors): the work is in the space
of the latents. Chu and Ghahramani (2005, appendix A) keep a 2 x 2 site for each comparison. A
comparison sees its two items only through their difference, so their site has rank one and is the
scalar site used here.

Power EP (Minka, 2004) removes only a fraction ``power`` of a site and matches the moments of the
factor raised to that power. A factor that counts c times, c at least 1, is c equal factors, each
with its share of one site, as repeated rows have: that is power ``1 / c`` of the whole. A factor
that counts in part is another likelihood, whose moments quadrature gives.

References
----------
Minka, T. (2001). A family of algorithms for approximate Bayesian inference. PhD thesis, MIT. Minka,
T. (2004). Power EP. Microsoft Research technical report MSR-TR-2004-149. Chu, W. and Ghahramani, Z.
(2005). Extensions of Gaussian processes for ranking. NIPS workshop on learning to rank.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from bayesrank.distributions import TiltedMoments
from bayesrank.infer.gaussian.protocol import Gaussian, Prior, SiteTerm, log_sites
from bayesrank.infer.gaussian.rows import Rows
from bayesrank.infer.quadrature_check import Faults, QuadratureMoments, faults_of
from bayesrank.infer.trapezoid import with_jvp_of

SMALLEST_DAMPING = 0.05
# Margins that move by more posterior standard deviations than this are far from the fixed point.
_FAR = 1.0
# How far margins are taken to move in the first sweep from given sites.
_NEAR = 0.02


class Factors(Protocol):
    """Factors of one kind and the sites that stand for them: all that a sweep knows of them."""

    @property
    def rows(self) -> Rows:
        """Rows of the sites' margins."""
        ...

    @property
    def gaussian(self) -> bool:
        """Whether sites are the same at any cavity."""
        ...

    def at_rest(self) -> Array:
        """Natural parameters of sites at one, as many as rows."""
        ...

    def unseen(self) -> Any:
        """What stands for integrals before the first sweep."""
        ...

    def matched(
        self, tau: Array, nu: Array, margin: tuple[Array, Array], power: float
    ) -> tuple[Array, Array, Array, Any]:
        """New sites, which factors keep their old ones, and what was integrated."""
        ...

    def terms(
        self,
        tau: Array,
        nu: Array,
        margin: tuple[Array, Array],
        tilted: Any,
        power: float,
        differentiable: bool,
    ) -> Array:
        """What factors have over their sites, as the evidence counts them, ()."""
        ...

    def faults(self, tilted: Any) -> Faults:
        """Largest faults of the quadrature, about the cavities of the last sweep."""
        ...


class Block(NamedTuple):
    """Factors of one direction each."""

    rows: Rows  # ``a_k``
    offset: Array  # added to margins ``a_k' x`` to make predictors, shape (G,)
    moments: Callable[[Array, Array], TiltedMoments]  # at cavities (G,), of factors to `power`
    gaussian: bool = False  # their sites are the same at any cavity, which may be lost to rounding
    repeats: Array | None = None  # how often each factor of `moments` counts, (G,), from 1 on

    def share(self, power: float) -> Any:
        """Share of its site that a factor's cavity is without."""
        return power if self.repeats is None else power / self.repeats

    def at_rest(self) -> Array:
        """Natural parameters of sites at one, (G,)."""
        return jnp.zeros_like(self.offset)

    def unseen(self) -> Tilted:
        """What stands for integrals before the first sweep."""
        return Tilted(*[jnp.zeros_like(self.offset)] * 5)

    def matched(
        self, tau: Array, nu: Array, margin: tuple[Array, Array], power: float
    ) -> tuple[Array, Array, Array, Tilted]:
        """New sites, which factors keep their old ones, and what was integrated."""
        share = self.share(power)
        m, v, proper = cavity(tau, nu, *margin, share)
        # The site of a Gaussian factor is the same at any cavity; nothing cancels at a point.
        at = jnp.zeros_like(v) if self.gaussian else v
        moments = self.moments(self.offset + m, at)
        new_tau, new_nu, matched = match(moments, m, at, share)
        matched &= ~proper | (1 + share * new_tau * v > 0)
        usable = matched if self.gaussian else proper & matched
        # A margin that touches no latent has nothing to learn: it is left alone, and not counted
        # as skipped.
        kept = ~usable & (margin[1] > 0)
        new_tau, new_nu = jnp.where(usable, new_tau, tau), jnp.where(usable, new_nu, nu)
        return new_tau, new_nu, kept, Tilted(m, v, *moments)

    def terms(
        self,
        tau: Array,
        nu: Array,
        margin: tuple[Array, Array],
        tilted: Tilted,
        power: float,
        differentiable: bool,
    ) -> Array:
        """What factors have over their sites, as the evidence counts them, ()."""
        share = self.share(power)
        if self.gaussian:
            # Its integral costs nothing, and far from the mean it is a difference of large numbers.
            m, v, _ = lax.stop_gradient(cavity(tau, nu, *margin, share))
            tilted = Tilted(m, v, *self.moments(self.offset + m, v))
        elif differentiable:
            log_z = self.moments(self.offset + tilted.mean, tilted.variance).log_z
            tilted = tilted._replace(log_z=with_jvp_of(tilted.log_z, log_z))
        own = log_sites(share * tau, share * nu, tilted.mean, tilted.variance)
        return jnp.sum((tilted.log_z - own) / share)

    def faults(self, tilted: Tilted) -> Faults:
        """Largest faults of the quadrature, about the cavities of the last sweep."""
        if not isinstance(self.moments, QuadratureMoments):
            return Faults(jnp.zeros(()), jnp.zeros(()))
        where = self.offset + tilted.mean, tilted.variance
        each = faults_of(self.moments.log_likelihood, *where, TiltedMoments(*tilted[2:]))
        return Faults(*(jnp.max(x, where=tilted.variance > 0, initial=0.0) for x in each))


class Problem(NamedTuple):
    """A Gaussian and the factors that multiply it."""

    prior: Prior  # ``N(0, K)``
    blocks: tuple[Factors, ...]
    log_constant: Array | float = 0.0  # of all that is in neither
    power: float = 1.0  # of EP; 1 is EP


# Site precisions and precision-means, one array for each block.
Sites = tuple[tuple[Array, ...], tuple[Array, ...]]


class Tilted(NamedTuple):
    """Cavities that factors were multiplied by, and the integrals."""

    mean: Array  # of the cavities of margins, shape (G,)
    variance: Array
    log_z: Array  # of the factors over them, see `TiltedMoments`, shape (G,)
    d1: Array
    d2: Array


class Proposed(NamedTuple):
    """Sites that a sweep steps to, what it integrated, and how many sites it left as they are."""

    tau: tuple[Array, ...]
    nu: tuple[Array, ...]
    tilted: tuple[Any, ...]
    skipped: Array


class EPState(NamedTuple):
    """What one sweep hands to the next."""

    tau: tuple[Array, ...]  # site precisions of margins, (G,) for each block
    nu: tuple[Array, ...]  # site precision-means
    posterior: Any  # of the prior and these sites
    damping: Array  # share of the proposed change that the next sweep takes
    max_change: Array  # largest change of a margin, undamped: of means in sds, of log variances
    sweep: Array  # number of sweeps made
    skipped: Array  # sites without proper cavity or matched variance in the last sweep
    skipped_total: Array  # the same, summed over sweeps
    tilted: tuple[Any, ...]  # what the last sweep integrated, for each block


def cavity(
    tau: Array, nu: Array, mean: Array, variance: Array, power: Any = 1.0
) -> tuple[Array, Array, Array]:
    """Mean and variance (G,) without a share `power` of the own site; whether these are proper."""
    left = 1 - power * tau * variance
    proper = (left > 0) & (variance > 0) & jnp.isfinite(variance)
    safe = jnp.where(proper, left, 1.0)
    cavity_mean = jnp.where(proper, (mean - power * nu * variance) / safe, mean)
    # A margin that no latent moves is a point; a variance at rounding level stands for that. One
    # that is not proper may have any.
    known = jnp.where(jnp.isfinite(variance), variance, 1.0)
    floor = jnp.finfo(variance.dtype).eps
    cavity_variance = jnp.where(proper, variance / safe, jnp.maximum(known, floor))
    return cavity_mean, cavity_variance, proper


def match(
    moments: TiltedMoments, mean: Array, variance: Array, power: Any = 1.0
) -> tuple[Array, Array, Array]:
    """Sites that give cavities the tilted moments, and whether these are proper.

    ``tau = -d2 / (1 + d2 v)`` and ``nu = (d1 - m d2) / (1 + d2 v)``, divided by `power`.
    """
    ratio = 1 + moments.d2 * variance
    proper = (
        (ratio > jnp.finfo(variance.dtype).eps ** 0.75)
        & jnp.isfinite(moments.d1)
        & jnp.isfinite(moments.d2)
    )
    scale = power * jnp.where(proper, ratio, 1.0)
    return -moments.d2 / scale, (moments.d1 - mean * moments.d2) / scale, proper


def init(problem: Problem) -> EPState:
    """Sites at one, the posterior at the prior."""
    tau = tuple(block.at_rest() for block in problem.blocks)
    prior = problem.prior.alone(_terms(problem, tau, tau))
    none = jnp.zeros((), jnp.int32)
    return EPState(
        tau,
        tau,
        prior,
        jnp.ones((), prior.mean.dtype),
        jnp.full((), jnp.inf, prior.mean.dtype),
        none,
        none,
        none,
        tuple(block.unseen() for block in problem.blocks),
    )


def restart(problem: Problem, fresh: EPState, site_values: Sites) -> EPState:
    """Put sites near the fixed point into a fresh state, if they make a proper posterior."""
    posterior = posterior_of(problem, *site_values, fresh.posterior)
    old = fresh.tau, fresh.nu, fresh.posterior
    tau, nu, posterior = _where(posterior.valid, (*site_values, posterior), old)
    near = jnp.full_like(fresh.max_change, _NEAR)
    return fresh._replace(tau=tau, nu=nu, posterior=posterior, max_change=near)


def step(problem: Problem, state: EPState, max_damping: float = 1.0) -> EPState:
    """Sweep once in parallel: match sites to tilted moments, step, rebuild the posterior."""
    damping, rows = jnp.minimum(state.damping, max_damping), [b.rows for b in problem.blocks]
    known = state.posterior.ready(rows)
    margins = [known.margins(each, block) for block, each in enumerate(rows)]
    tau, nu, tilted, skipped = propose(problem, state.tau, state.nu, margins, damping)
    posterior = posterior_of(problem, tau, nu, known)
    before, after = state.posterior.watched(rows), posterior.watched(rows)
    valid = posterior.valid & jnp.array([jnp.all(v >= 0) for _, v in after]).all()
    delta = largest_change(before, after) / damping
    pace = next_damping(damping, delta, state.max_change, state.sweep, valid, max_damping)
    old = state.tau, state.nu, state.posterior, state.max_change
    tau, nu, posterior, delta = _where(valid, (tau, nu, posterior, delta), old)
    return EPState(
        tau,
        nu,
        posterior,
        pace,
        delta,
        state.sweep + 1,
        skipped,
        state.skipped_total + skipped,
        tilted,
    )


def _where(valid: Array, new: Any, old: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(valid, a, b), new, old)


def propose(
    problem: Problem,
    tau: tuple[Array, ...],
    nu: tuple[Array, ...],
    margins: Sequence[tuple[Array, Array]],
    damping: ArrayLike,
) -> Proposed:
    """Match all sites to the moments of their factors over the cavities, and step towards them."""
    new_tau, new_nu, tilted, skipped = [], [], [], jnp.zeros((), jnp.int32)
    for block, t, n, margin in zip(problem.blocks, tau, nu, margins, strict=True):
        to_tau, to_nu, kept, seen = block.matched(t, n, margin, problem.power)
        skipped += jnp.sum(kept, dtype=jnp.int32)
        tilted.append(seen)
        new_tau.append(t + damping * (to_tau - t))
        new_nu.append(n + damping * (to_nu - n))
    return Proposed(tuple(new_tau), tuple(new_nu), tuple(tilted), skipped)


def next_damping(
    damping: Any,
    delta: Any,
    before: Any,
    sweep: Any,
    valid: Any,
    most: float,
    xp: Any = jnp,
) -> Array:
    """Share of the proposed change that the next sweep takes.

    It is halved after sites that make no proper posterior, and after a growing change; else it
    recovers by a fifth. While margins move by over an sd it falls to a quarter and doubles.
    """
    worse = xp.logical_not(valid) | ((delta > before) & (sweep > 0))
    far = delta > _FAR
    shorter, longer = xp.where(far, 0.25, 0.5), xp.where(far, 2.0, 1.2)
    return xp.clip(damping * xp.where(worse, shorter, longer), SMALLEST_DAMPING, most)


def posterior_of(
    problem: Problem, tau: tuple[Array, ...], nu: tuple[Array, ...], before: Any = None
) -> Gaussian:
    """Multiply the prior by the sites; `before` is the posterior at those of the sweep before."""
    return problem.prior.times(_terms(problem, tau, nu), before)


def _terms(problem: Problem, tau: tuple[Array, ...], nu: tuple[Array, ...]) -> tuple[SiteTerm, ...]:
    triples = zip(problem.blocks, tau, nu, strict=True)
    return tuple(SiteTerm(b.rows, t, n) for b, t, n in triples)


def evidence_at(problem: Problem, state: EPState, *, differentiable: bool = False) -> Array:
    r"""EP's log evidence where its sweeps ended, from what the last one integrated.

    To the log integral of prior times sites, each cavity of mean m and variance v and power p adds

    .. math:: \tfrac1p \left[\log Z + \tfrac12 \log(1 + p \tau v) + \tfrac12
        (p \tau m^2 - 2 p \nu m - p^2 \nu^2 v) / (1 + p \tau v)\right]

    (for p = 1 equation (11) of Chu and Ghahramani). It is stationary in sites and cavities, so its
    derivative is that at fixed ones.
    """
    total = jnp.asarray(problem.log_constant)
    if not problem.blocks or problem.prior.on_host:  # where it comes with the sweeps
        return total
    state = lax.stop_gradient(state)
    rows = enumerate(block.rows for block in problem.blocks)
    margins = [state.posterior.margins(each, block) for block, each in rows]
    total += factor_terms(problem, state.tau, state.nu, margins, state.tilted, differentiable)
    return total + problem.prior.log_normaliser(
        _terms(problem, state.tau, state.nu), state.posterior
    )


def factor_terms(
    problem: Problem,
    tau: tuple[Array, ...],
    nu: tuple[Array, ...],
    margins: Sequence[tuple[Array, Array]],
    tilted: Sequence[Any],
    differentiable: bool = False,
) -> Array:
    """What all factors have over their sites, as the evidence counts them; see `evidence_at`."""
    total = jnp.zeros(())
    for block, t, n, margin, seen in zip(problem.blocks, tau, nu, margins, tilted, strict=True):
        total += block.terms(t, n, margin, seen, problem.power, differentiable)
    return total


def faults(problem: Problem, state: EPState) -> tuple[Faults, ...]:
    """Largest faults of each block's quadrature, about the cavities of the last sweep."""
    pairs = zip(problem.blocks, state.tilted, strict=True)
    return tuple(block.faults(tilted) for block, tilted in pairs)


def largest_change(before: Any, after: Any, xp: Any = jnp) -> Array:
    """By how much `Margins` moved: means in sds, variances in logs; `xp` is their module."""
    changes = []
    for (mean, variance), (new_mean, new_variance) in zip(before, after, strict=True):
        known = (variance > 0) & (new_variance > 0) & xp.isfinite(variance + new_variance)
        old, new = (xp.where(known, v, 1.0) for v in (variance, new_variance))
        change = xp.maximum(xp.abs(new_mean - mean) / xp.sqrt(new), xp.abs(xp.log(new / old)))
        changes.append(xp.max(xp.where(known, change, 0.0), initial=0.0))
    return xp.max(xp.stack(changes))
