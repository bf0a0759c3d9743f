"""How EP sweeps in front of a prior, and what it leaves of the posterior."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax
from jax.sharding import Mesh

from bayesrank.infer import sites
from bayesrank.infer.gaussian.protocol import Large
from bayesrank.infer.gaussian.sharded import ShardedRows
from bayesrank.infer.missed import Faults
from bayesrank.infer.progress import SweepCallback
from bayesrank.infer.reader.program import Program
from bayesrank.infer.reader.refusals import Refusal
from bayesrank.infer.sites import EPState, Problem, Sites

__all__ = ["Ended", "SweepSettings", "check_pure", "ended", "evidence", "shared_among", "sweep_on"]

_NOT_SHARDED = (
    "structure={!r} is not shared among devices; use EP(structure={!r}, mesh=...), or leave mesh "
    "out"
)


class SweepSettings(NamedTuple):
    """How to sweep.

    Attributes
    ----------
    damping, tol, max_sweeps
        As of `EP`.
    callback
        What to call after each sweep.
    """

    damping: float
    tol: float
    max_sweeps: int
    callback: SweepCallback | None = None

    def unfinished(self, state: EPState) -> Array:
        """Whether another sweep is to be made."""
        moving = (state.delta > self.tol) | (state.skipped > 0)
        return moving & (state.sweep < self.max_sweeps)

    def reported(self, state: EPState) -> EPState:
        """The state, once the callback has been told of it."""
        if self.callback is not None:
            self.callback.after(state.sweep, state.delta)
        return state


class Ended(NamedTuple):
    """What a posterior leaves: see the attributes of `Solution` of the same names."""

    mean: Array
    covariance: Array | None
    log_evidence: Array
    faults: tuple[Faults, ...]
    large: Large | None = None


def check_pure(program: Program) -> None:
    """Refuse where compiled code alone does not come to EP's fixed point: `EP.run` goes on."""
    if program.problem.prior.on_host:
        raise Refusal("only_run", ", ".join(program.shapes)).error()


def sweep_on(problem: Problem, settings: SweepSettings, init_sites: Sites | None = None) -> EPState:
    """Sweep until convergence, of Gaussian factors once; a prior on the host is only started."""
    state, prior = sites.init(problem), problem.prior
    if prior.on_host:
        return state
    if not problem.blocks:
        return state._replace(delta=jnp.zeros_like(state.delta))
    gaussian = all(block.gaussian for block in problem.blocks)
    exact = gaussian and prior.keeps_covariances and problem.power == settings.damping == 1
    if not exact:
        problem = problem._replace(prior=prior.prepared())
    if init_sites is not None:
        state = sites.restart(problem, state, init_sites)
    if exact:
        # The tilted distributions are Gaussian themselves: one sweep is exact.
        unknown = state._replace(delta=jnp.full_like(state.delta, jnp.inf))
        state = sites.step(problem, unknown, settings.damping)
        # A step that is not proper is not taken, and leaves it as it was.
        state = state._replace(delta=jnp.where(jnp.isfinite(state.delta), 0.0, jnp.inf))
        return settings.reported(state)

    def sweep(state: EPState) -> EPState:
        return settings.reported(sites.step(problem, state, settings.damping))

    return lax.while_loop(settings.unfinished, sweep, state)


def evidence(problem: Problem, state: EPState, *, differentiable: bool = False) -> Array:
    """EP's log evidence at the end of the sweeps; of a prior on the host it comes with these."""
    if problem.prior.on_host:
        return jnp.zeros(())
    return sites.evidence_at(problem, state, differentiable=differentiable)


def ended(program: Program, state: EPState) -> Ended:
    """Moments of core and leaves; or of each latent, and what makes prior times sites."""
    problem, posterior = program.problem, state.posterior
    found = evidence(problem, state)
    if problem.prior.keeps_covariances:
        mean, covariance = program.all_latents(posterior)
        return Ended(mean, covariance, found, sites.faults(problem, state))
    prior: Any = problem.prior  # a `LargePrior`
    rows: Any = tuple((block.rows.values, block.rows.columns) for block in problem.blocks)
    nothing = tuple(Faults(jnp.zeros(()), jnp.zeros(())) for _ in problem.blocks)
    large = prior.packed(program.mean, posterior.variances, rows)
    return Ended(program.mean + posterior.mean, None, found, nothing, large)


def shared_among(mesh: Mesh, program: Program, asked: str) -> Program:
    """Share the sites of a program among devices; `asked` is EP's structure."""
    problem = program.problem
    if problem.prior.on_host:
        low_rank = asked == "low_rank"
        raise ValueError(_NOT_SHARDED.format("low_rank" if low_rank else "probes", "dense"))
    if not problem.prior.keeps_covariances and asked != "factorised":
        raise ValueError(_NOT_SHARDED.format("probes", "factorised"))
    blocks = tuple(
        block._replace(rows=ShardedRows.over(mesh, block.rows)) for block in problem.blocks
    )
    return program._replace(problem=problem._replace(blocks=blocks))
