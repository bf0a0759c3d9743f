r"""EP with a posterior that is factorised over latents: messages between sites and latents.

Each sweep gives all sites their cavities, in which the latents of a site are independent, matches
the moments of the margin, and passes on to each latent what the site tells it (for players and
games, this is TrueSkill's message passing, in parallel and to convergence). A sweep costs as much
as there are entries in the rows. The evidence is Bethe's: at the fixed point it is stationary in
the messages, so that its derivative holds them fixed.

References
----------
Minka, T. (2001). A family of algorithms for approximate Bayesian inference. PhD thesis, MIT.
Herbrich, R., Minka, T. and Graepel, T. (2007). TrueSkill: a Bayesian skill rating system. NIPS 19.
Yedidia, J., Freeman, W. and Weiss, Y. (2005). Constructing free-energy approximations and
generalized belief propagation algorithms. IEEE Transactions on Information Theory, 51, 2282-2312.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from bayesrank.infer.gaussian.factorised import FactorisedGaussian, Messages
from bayesrank.infer.progress import SweepCallback
from bayesrank.infer.sites import Block, EPState, Problem, match

__all__ = ["log_evidence", "solve"]

_SMALLEST_DAMPING = 0.05


class _LatentNaturals(NamedTuple):
    """Precisions and precision-means of the latents, shapes (n,)."""

    precision: Array
    shift: Array


class _MessageState(NamedTuple):
    messages: tuple[Messages, ...]
    tau: tuple[Array, ...]
    nu: tuple[Array, ...]
    sums: _LatentNaturals
    damping: Array
    delta: Array
    sweep: Array
    skipped: Array
    skipped_total: Array


class _Cavities(NamedTuple):
    """Moments of each entry's share in a margin, without the site; shapes (G, r)."""

    mean: Array
    variance: Array
    proper: Array


def solve(
    problem: Problem,
    damping: float,
    tol: float,
    max_sweeps: int,
    callback: SweepCallback | None = None,
) -> EPState:
    """Sweep until no latent moves by more than `tol` posterior standard deviations.

    Parameters
    ----------
    problem
        Its prior is a `FactorisedPrior`; rows are sparse, and name a column once (`merged`).
    damping, tol, max_sweeps
        As those of `EP`.
    callback
        What to call after each sweep.

    Returns
    -------
    EPState
        Its posterior is a `FactorisedGaussian`; the sites are those of margins.
    """
    dtype = problem.prior.dtype
    zeros = tuple(jnp.zeros_like(block.rows.values) for block in problem.blocks)
    flat = tuple(jnp.zeros_like(block.offset) for block in problem.blocks)
    messages = tuple(Messages(x, x) for x in zeros)
    none = jnp.zeros((), jnp.int32)
    start = _MessageState(
        messages,
        flat,
        flat,
        _sums(problem, messages),
        jnp.asarray(damping, dtype),
        jnp.full((), jnp.inf, dtype),
        none,
        none,
        none,
    )

    def unfinished(state: _MessageState) -> Array:
        moving = (state.delta > tol) | (state.skipped > 0)
        return moving & (state.sweep < max_sweeps)

    def sweep(state: _MessageState) -> _MessageState:
        state = _sweep(problem, state, damping)
        if callback is not None:
            callback.after(state.sweep, state.delta)
        return state

    end = lax.while_loop(unfinished, sweep, start)
    posterior = FactorisedGaussian(
        end.sums.shift / end.sums.precision, 1 / end.sums.precision, end.messages
    )
    return EPState(
        end.tau,
        end.nu,
        posterior,
        end.damping,
        end.delta,
        end.sweep,
        end.skipped,
        end.skipped_total,
    )


def log_evidence(problem: Problem, messages: tuple[Messages, ...]) -> Array:
    """Bethe's approximation of the log evidence, differentiable with the messages held fixed."""
    messages = lax.stop_gradient(messages)
    sums, total = _sums(problem, messages), jnp.asarray(problem.log_constant)
    variances = _variances(problem)
    prior = _LatentNaturals(1 / variances, jnp.zeros_like(variances))
    total += jnp.sum(_log_integral(sums) - _log_integral(prior))
    for block, message in zip(problem.blocks, messages, strict=True):
        cavities = _cavities(block, message, sums)
        mean, variance = block.offset + jnp.sum(cavities.mean, 1), jnp.sum(cavities.variance, 1)
        whole = _LatentNaturals(block.rows.take(sums.precision), block.rows.take(sums.shift))
        without = _LatentNaturals(whole.precision - message.pi, whole.shift - message.rho)
        total += jnp.sum(block.moments(mean, variance).log_z)
        total -= jnp.sum(_log_integral(whole) - _log_integral(without))
    return total


def _variances(problem: Problem) -> Array:
    prior: Any = problem.prior  # a `FactorisedPrior`
    return prior.variances


def _log_integral(natural: _LatentNaturals) -> Array:
    """Log of the integral of ``exp(shift x - precision x^2 / 2)``, but for a constant."""
    return 0.5 * (natural.shift**2 / natural.precision - jnp.log(natural.precision))


def _sums(problem: Problem, messages: tuple[Messages, ...]) -> _LatentNaturals:
    precision = 1 / _variances(problem)
    shift = jnp.zeros_like(precision)
    for block, message in zip(problem.blocks, messages, strict=True):
        told = block.rows.put(jnp.stack(message, axis=-1))
        precision, shift = precision + told[:, 0], shift + told[:, 1]
    return _LatentNaturals(precision, shift)


def _cavities(block: Block, message: Messages, sums: _LatentNaturals) -> _Cavities:
    values, take = block.rows.values, block.rows.take
    precision = take(sums.precision) - message.pi
    proper = precision > 0
    variance = 1 / jnp.where(proper, precision, 1.0)
    mean = (take(sums.shift) - message.rho) * variance
    return _Cavities(values * mean, values**2 * variance, jnp.all(proper, axis=1))


def _sweep(problem: Problem, state: _MessageState, max_damping: float) -> _MessageState:
    taus, nus, messages, skipped = [], [], [], jnp.zeros((), jnp.int32)
    for block, message, tau, nu in zip(
        problem.blocks, state.messages, state.tau, state.nu, strict=True
    ):
        cavities = _cavities(block, message, state.sums)
        mean, variance = jnp.sum(cavities.mean, axis=1), jnp.sum(cavities.variance, axis=1)
        moments = block.moments(block.offset + mean, variance)
        new_tau, new_nu, matched = match(moments, mean, variance)
        usable = matched & cavities.proper & (1 + new_tau * variance > 0)
        kept = ~usable & (variance > 0)
        skipped += jnp.sum(kept, dtype=jnp.int32)
        new_tau, new_nu = jnp.where(usable, new_tau, tau), jnp.where(usable, new_nu, nu)
        rest = variance[:, None] - cavities.variance
        shrunk = block.rows.values / (1 + new_tau[:, None] * rest)
        pi = block.rows.values * new_tau[:, None] * shrunk
        rho = (new_nu[:, None] - new_tau[:, None] * (mean[:, None] - cavities.mean)) * shrunk
        pi, rho = (
            jnp.where(usable[:, None], new, old)
            for new, old in ((pi, message.pi), (rho, message.rho))
        )
        messages.append(
            Messages(
                message.pi + state.damping * (pi - message.pi),
                message.rho + state.damping * (rho - message.rho),
            )
        )
        taus.append(new_tau)
        nus.append(new_nu)
    sums = _sums(problem, tuple(messages))
    valid = jnp.all(sums.precision > 0)
    old_mean, new_mean = (s.shift / s.precision for s in (state.sums, sums))
    ratio = jnp.where(valid, sums.precision / state.sums.precision, 1.0)
    moved = jnp.abs(new_mean - old_mean) * jnp.sqrt(jnp.abs(sums.precision))
    delta = jnp.maximum(jnp.max(moved), jnp.max(jnp.abs(jnp.log(ratio)))) / state.damping
    worse = ~valid | ((delta > state.delta) & (state.sweep > 0))
    damping = jnp.clip(state.damping * jnp.where(worse, 0.5, 1.2), _SMALLEST_DAMPING, max_damping)

    def taken(new: Array, old: Array) -> Array:
        return jnp.where(valid, new, old)

    return _MessageState(
        tuple(
            Messages(taken(a.pi, b.pi), taken(a.rho, b.rho))
            for a, b in zip(messages, state.messages, strict=True)
        ),
        tuple(taken(a, b) for a, b in zip(taus, state.tau, strict=True)),
        tuple(taken(a, b) for a, b in zip(nus, state.nu, strict=True)),
        _LatentNaturals(
            taken(sums.precision, state.sums.precision), taken(sums.shift, state.sums.shift)
        ),
        damping,
        taken(delta, state.delta),
        state.sweep + 1,
        skipped,
        state.skipped_total + skipped,
    )
