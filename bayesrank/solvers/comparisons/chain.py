r"""Skills that move: their processes as Markov chains, and EP's Gaussian along the chains.

The states of all items at one time are one vector ``x`` with a joint covariance: comparing items
correlates them from then on. Sites ``exp(nu s - tau s^2 / 2)`` see margins ``s = a' x`` in the
order of time. With ``p = C a``, ``m = a' mu`` and ``v = a' p``, a site changes mean and covariance
by rank one,

.. math:: \mu \leftarrow \mu + p \, (\nu - \tau m) / (1 + \tau v), \qquad
          C \leftarrow C - p p' \, \tau / (1 + \tau v),

and from time to time both move as the process says (Kalman, 1960, Journal of Basic Engineering 82,
35-45). On the way back, all later sites count by their log integral as a function of the state's
mean: by its slope ``l`` and curvature ``-L`` (Bierman, 1973, International Journal of Control 18,
65-75). Given all sites, a margin has the mean ``m + p' l`` and the variance ``v - p' L p``. This
inverts no matrix, takes any drift and gap, and stores one vector a site.

For given sites, the posterior is exact, correlations between items included; without drift it is
the static one. Filters of each item alone, as in kickscore, lose the correlations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from bayesrank.infer.spi import DenseGaussian, Rows, SiteTerm, log_sites
from bayesrank.solvers._engine import SeenGaussian


class Transitions(NamedTuple):
    """How each item's state of r entries (skill, and rate in "matern32") moves over K gaps."""

    start: Array  # prior covariance at the first time, (r, r)
    decay: Array  # what the state is multiplied by, (K, r, r)
    noise: Array  # covariance of what is added, (K, r, r)


def rate_name(process: str) -> str:
    """Name of the hyperparameter that says how fast skills move."""
    return "drift" if process == "walk" else "lengthscale"


def transitions_of(process: str, scale: Array, pace: Array, gaps: Array) -> Transitions:
    """How a state moves over gaps of time, shape (K,); the names are the program's."""
    if process == "matern32":
        return _smooth_steps(scale, gaps * (math.sqrt(3.0) / pace))
    one = jnp.ones_like(gaps)
    if process == "walk":
        decay, noise = one, pace**2 * gaps
    else:
        decay, noise = jnp.exp(-gaps / pace), -(scale**2) * jnp.expm1(-2.0 * gaps / pace)
    start = jnp.reshape(scale**2, (1, 1))
    return Transitions(start, decay[:, None, None], noise[:, None, None])


def _smooth_steps(scale: Array, x: Array) -> Transitions:
    """The transition ``exp(F x)`` of the Matern 3/2 process; both entries have one variance."""
    rows = [[1.0 + x, x], [-x, 1.0 - x]]
    decay = jnp.exp(-x) * jnp.array([[jnp.asarray(e) for e in row] for row in rows])
    decay = jnp.moveaxis(decay, -1, 0)
    identity = jnp.eye(2, dtype=x.dtype)
    noise = scale**2 * (identity - decay @ jnp.swapaxes(decay, 1, 2))
    return Transitions(scale**2 * identity, decay, noise)


def propagate(
    mean: Array, covariance: Array, decay: Array, noise: Array, num_items: int
) -> tuple[Array, Array]:
    """Let time go by: mean (N,), covariance (N, N), and the step of each item's state, (r, r).

    The first r n entries are the items' states, all skills first; the others stand still.
    """
    mean, covariance = _moved(mean, decay, num_items), _moved_both(covariance, decay, num_items)
    own = jnp.arange(num_items) + num_items * jnp.arange(decay.shape[0])[:, None]
    return mean, covariance.at[own[:, None], own[None, :]].add(noise[:, :, None])


def _moved(rows: Array, decay: Array, num_items: int) -> Array:
    """Multiply the states of all items, the first entries of `rows`, by a step."""
    own = decay.shape[0] * num_items
    states = rows[:own].reshape(decay.shape[0], num_items, *rows.shape[1:])
    moved = jnp.einsum("ab,b...->a...", decay, states).reshape(own, *rows.shape[1:])
    return jnp.concatenate([moved, rows[own:]])


def _moved_both(matrix: Array, decay: Array, num_items: int) -> Array:
    return _moved(_moved(matrix, decay, num_items).T, decay, num_items).T


class Visits(NamedTuple):
    """When K sites look at which items' skills, in the order of time."""

    order: Array  # number of the site, shape (K,)
    gaps: Array  # time since the one before, shape (K,)
    values: Array  # what of the skills it sees, shape (K, k)
    columns: Array  # of which items, shape (K, k)
    after: Array  # time after the last of them, shape (1,)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ChainGaussian(SeenGaussian):
    """Posterior of the margins that K sites see, and of the states at the end."""

    core: DenseGaussian  # states at the end, all skills first, shape (r n,)
    margin_mean: Array  # shape (K,)
    margin_variance: Array  # shape (K,)
    log_normaliser: Array  # log of the integral of prior times sites
    valid: Array  # whether that is finite and all variances are positive


class ChainPrior(NamedTuple):
    """Chains of n items and k latents that stand still, and when each site looks at them."""

    process: str  # of `bayesrank.models.dynamic.PROCESSES`
    num_items: int
    scales: Array  # ``scale``, that of the pace, then those of what stands still
    visits: Visits
    still: Array  # which of the scales each still latent has as its prior sd, shape (k,)

    on_host, keeps_covariances = False, True

    @property
    def size(self) -> int:
        """Number of latents at one time."""
        return self.num_items * (2 if self.process == "matern32" else 1) + self.still.size

    @property
    def dtype(self) -> Any:
        """Type of its numbers."""
        return self.scales.dtype

    def prepared(self) -> ChainPrior:
        """Return itself: nothing is left to prepare."""
        return self

    def alone(self, terms: Sequence[SiteTerm] = ()) -> ChainGaussian:
        """The prior as a posterior."""
        none = jnp.zeros(self.visits.gaps.size, self.dtype)
        columns, values = self.visits.columns, self.visits.values
        return self.times((SiteTerm(Rows(values, columns, self.size), none, none),))

    def times(self, terms: Sequence[SiteTerm], before: Any = None) -> ChainGaussian:
        """Multiply by sites, forwards and backwards in time."""
        [(_, tau, nu)] = terms
        order = self.visits.order
        tau, nu = (jnp.asarray(each)[order] for each in (tau, nu))  # a walk starts from NumPy's
        filtered = self._filter(tau, nu)
        shift, shrink = self._smooth(tau, nu, filtered)
        seen = filtered.seen
        mean, variance = seen.mean + shift, seen.variance - shrink
        log_normaliser = jnp.sum(log_sites(tau, nu, seen.mean, seen.variance))
        proper = jnp.all(1.0 + tau * seen.variance > 0.0) & jnp.all(variance >= 0.0)
        valid = proper & jnp.isfinite(log_normaliser)
        core = DenseGaussian(filtered.mean, filtered.covariance, log_normaliser, valid)
        empty = jnp.zeros_like(mean)
        means, variances = empty.at[order].set(mean), empty.at[order].set(variance)
        return ChainGaussian(core, means, variances, log_normaliser, valid)

    def log_normaliser(self, terms: Sequence[SiteTerm], posterior: ChainGaussian) -> Array:
        """The normaliser of prior times sites, differentiable in `scales`, forwards."""
        [(_, tau, nu)] = terms
        data = lax.stop_gradient((self.visits, self.still, tau, nu, posterior.log_normaliser))
        return _normaliser((self.process, self.num_items), self.scales, data)

    def states_at(self, tau: Array, nu: Array, when: Array) -> tuple[Array, Array]:
        """Means (T, N) and covariances (T, N, N) of all latents at T times, given all sites.

        Times count from the first, and lie before the end.
        """
        visits, asked = self.visits, when.size
        events = jnp.concatenate([jnp.cumsum(visits.gaps), when])
        order = jnp.argsort(events)
        # A site of precision zero sees the state of a time, and changes nothing.
        gaps = jnp.diff(events[order], prepend=0.0)
        rows = [jnp.pad(each, ((0, asked), (0, 0)))[order] for each in visits[2:4]]
        messages = [jnp.pad(each[visits.order], (0, asked))[order] for each in (tau, nu)]
        place = jnp.where(order < visits.gaps.size, asked, order - visits.gaps.size)
        steps, start = self._steps(gaps), self._start()
        kept = tuple(jnp.zeros((asked + 1, *each.shape), self.dtype) for each in start)

        def forwards(carry: Any, event: Any) -> tuple[Any, _Seen]:
            (state, kept), (place, site) = carry, event
            state, seen = _take_in(self.num_items, state, site)
            return (state, _put(kept, place, state)), seen

        def backwards(carry: Any, event: Any) -> tuple[Any, None]:
            (later, kept), (place, site) = carry, event
            before, _ = _look_back(self.num_items, later, site)
            return (before, _put(kept, place, later)), None

        inputs = (steps.decay, steps.noise, *rows, *messages)
        (_, filtered), seen = lax.scan(forwards, (start, kept), (place, inputs))
        nothing = jax.tree.map(jnp.zeros_like, start)
        inputs = (steps.decay, *rows, *messages, seen)
        (_, later), _ = lax.scan(backwards, (nothing, kept), (place, inputs), reverse=True)
        (mean, covariance), (slope, curvature) = ([x[:-1] for x in s] for s in (filtered, later))
        shift = jnp.einsum("tij,tj->ti", covariance, slope)
        return mean + shift, covariance - covariance @ curvature @ covariance

    def _steps(self, gaps: Array) -> Transitions:
        return transitions_of(self.process, self.scales[0], self.scales[1], gaps)

    def _start(self) -> tuple[Array, Array]:
        """Mean and covariance of all latents at the first time."""
        start = self._steps(self.visits.gaps[:1]).start
        states = jnp.kron(start, jnp.eye(self.num_items, dtype=self.dtype))
        own = len(states)
        covariance = jnp.diag(jnp.concatenate([jnp.zeros(own), self.scales[self.still] ** 2]))
        return jnp.zeros(self.size, self.dtype), covariance.at[:own, :own].set(states)

    def _filter(self, tau: Array, nu: Array) -> _Filtered:
        """Go forwards; the sites are in the order of time."""
        steps, end = self._steps(self.visits.gaps), self._steps(self.visits.after)
        inputs = steps.decay, steps.noise, *self.visits[2:4], tau, nu
        state, seen = lax.scan(partial(_take_in, self.num_items), self._start(), inputs)
        return _Filtered(*propagate(*state, end.decay[0], end.noise[0], self.num_items), seen)

    def _smooth(self, tau: Array, nu: Array, filtered: _Filtered) -> tuple[Array, Array]:
        """Go backwards: what all sites add to the margins' means and take from their variances."""
        steps = self._steps(self.visits.gaps)
        nothing = jnp.zeros_like(filtered.mean), jnp.zeros_like(filtered.covariance)
        inputs = steps.decay, *self.visits[2:4], tau, nu, filtered.seen
        return lax.scan(partial(_look_back, self.num_items), nothing, inputs, reverse=True)[1]


class _Seen(NamedTuple):
    """A site's margin given earlier sites: its mean, variance, and covariance with all states."""

    mean: Array
    variance: Array
    towards: Array


class _Filtered(NamedTuple):
    """Latents at the end, shapes (N,) and (N, N), and what each site saw."""

    mean: Array
    covariance: Array
    seen: _Seen


def _put(kept: tuple[Array, Array], place: Array, state: tuple[Array, Array]) -> Any:
    """Keep a state at its place; the last place is for those that nobody asks for."""
    return tuple(all_.at[place].set(one) for all_, one in zip(kept, state, strict=True))


def _take_in(
    num_items: int, state: tuple[Array, Array], site: Any
) -> tuple[tuple[Array, Array], _Seen]:
    decay, noise, values, columns, tau, nu = site
    mean, covariance = propagate(*state, decay, noise, num_items)
    towards = covariance[:, columns] @ values
    seen = _Seen(values @ mean[columns], values @ towards[columns], towards)
    widened = 1.0 + tau * seen.variance
    mean += towards * (nu - tau * seen.mean) / widened
    covariance -= jnp.outer(towards * (tau / widened), towards)
    return (mean, covariance), seen


def _look_back(
    num_items: int, state: tuple[Array, Array], site: Any
) -> tuple[Any, tuple[Array, Array]]:
    """Take in a site, then the move before it."""
    decay, values, columns, tau, nu, seen = site
    slope, curvature = state
    towards = seen.towards
    widened = 1.0 + tau * seen.variance
    pull, share = (nu - tau * seen.mean) / widened, tau / widened
    bent = curvature @ towards
    along, within = towards @ slope, towards @ bent
    slope = slope.at[columns].add(values * (pull - share * along))
    curvature = curvature.at[columns].add(-share * values[:, None] * bent)
    curvature = curvature.at[:, columns].add(-share * bent[:, None] * values)
    corner = (share + share**2 * within) * jnp.outer(values, values)
    curvature = curvature.at[columns[:, None], columns].add(corner)
    shift = along / widened + seen.variance * pull
    shrink = within / widened**2 + seen.variance**2 * share
    before = _moved(slope, decay.T, num_items), _moved_both(curvature, decay.T, num_items)
    return before, (shift, shrink)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _normaliser(form: tuple[str, int], scales: Array, data: Any) -> Array:
    del form, scales
    return data[-1]


@_normaliser.defjvp
def _normaliser_jvp(
    form: tuple[str, int], primals: tuple[Any, ...], tangents: tuple[Any, ...]
) -> tuple[Array, Array]:
    scales, (visits, still, tau, nu, value) = primals

    def forwards(scales: Array) -> Array:
        in_time = tau[visits.order], nu[visits.order]
        seen = ChainPrior(*form, scales, visits, still)._filter(*in_time).seen
        return jnp.sum(log_sites(*in_time, seen.mean, seen.variance))

    return value, jax.jacfwd(forwards)(scales) @ tangents[0]
