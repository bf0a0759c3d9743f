"""How EP sweeps a program, and what compiled code returns of it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from bayesrank.infer import sites
from bayesrank.infer.gaussian.protocol import Large
from bayesrank.infer.quadrature_check import Faults
from bayesrank.infer.reader.program import Program, ProgramLayout
from bayesrank.infer.reader.refusals import Refusal
from bayesrank.infer.running import SweepCallback
from bayesrank.infer.sites import EPState, Problem, Sites

# What compiled code knows beside its arrays: the layout, and what each check refuses.
Static = tuple[ProgramLayout, list[Any]]
CheckedRefusal = tuple[Any, Array]  # what is refused, and whether it passes

# Of a factor's mass; what quadrature leaves out is less by far, or a part that it has not found.
MOST_MISSED = 0.01


class Solution(NamedTuple):
    """What compiled code returns."""

    state: EPState  # the last one of EP, without posterior and integrals
    mean: Array  # of all latents, leaves included, and of tables behind them
    covariance: Array | None  # None where `large` is there
    log_evidence: Array
    faults: tuple[Faults, ...]  # the largest of each block's quadrature
    hyperparameters: dict[str, Array]  # the values used
    checks: tuple[Array, ...]  # of the program, as `support`
    support: tuple[Array, Array] | None
    large: Large | None  # what a posterior without joint covariance is made of
    log_evidence_error: float = 0.0  # if the evidence is an estimate


def packed(
    program: Program,
    state: EPState,
    domains: Sequence[CheckedRefusal],
    log_evidence: Array,
    looks: Array | None = None,
) -> tuple[Solution, Static]:
    """What compiled code returns after its sweeps, its layout, and what it may refuse.

    Faults of the quadrature are looked for where `looks` says so, or is None.
    """
    problem, posterior = program.problem, state.posterior
    covariance = large = None
    faults = tuple(Faults(jnp.zeros(()), jnp.zeros(())) for _ in problem.blocks)
    if problem.prior.keeps_covariances:
        mean, covariance = program.all_latents(posterior)
        none, find = faults, partial(sites.faults, problem, state)
        faults = find() if looks is None else lax.cond(looks, find, lambda: none)
    else:
        prior: Any = problem.prior  # one with a method `packed`
        rows: Any = tuple((block.rows.values, block.rows.columns) for block in problem.blocks)
        mean = program.mean + posterior.mean
        large = prior.packed(program.mean, posterior.variances, rows)
    checks = *program.checks, *domains
    solution = Solution(
        state._replace(posterior=None, tilted=()),
        mean,
        covariance,
        log_evidence,
        faults,
        program.hyperparameters,
        tuple(passed for _, passed in checks),
        program.support,
        large,
    )
    return solution, (program.layout, [refusal for refusal, _ in checks])


def found_of(solved: Solution, layout: ProgramLayout, tol: float) -> dict[str, Any]:
    """Fields of a result that say what was found; `tol` is what EP was to converge to."""
    solution: Any = jax.tree.map(np.asarray, solved._replace(covariance=None, large=None))
    state, names = solution.state, layout.block_sites
    return dict(
        params=dict(solution.hyperparameters),
        defaulted_params=layout.sampled,
        shapes=layout.shapes,
        joint_mean=np.asarray(solution.mean, float)[: layout.size],
        sites=dict(zip(names, zip(state.tau, state.nu, strict=True), strict=True)),
        log_evidence=float(solution.log_evidence),
        log_evidence_error=float(solution.log_evidence_error),
        missed_mass={
            name: float(each.missed)
            for name, each in zip(names, solution.faults, strict=True)
            if each.missed > MOST_MISSED
        },
        moment_errors={
            name: float(each.error)
            for name, each in zip(names, solution.faults, strict=True)
            if each.error > 0
        },
        converged=bool(
            state.max_change <= tol and state.skipped == 0 and np.isfinite(solution.log_evidence)
        ),
        num_sweeps=int(state.sweep),
        skipped_sites=int(state.skipped_total),
        max_change=float(state.max_change),
        dropped_sites=layout.dropped,
        marginalized_sites=layout.eliminated,
        conditioned_sites=layout.conditioned_sites,
        support=solution.support,
    )


class Limits(NamedTuple):
    """Criteria for stopping the sweeps, see `EP`."""

    tol: Any
    max_sweeps: Any


class SweepSettings(NamedTuple):
    """How to sweep."""

    damping: float  # as of `EP`
    limits: Limits
    callback: SweepCallback | None = None  # what to call after each sweep

    def unfinished(self, state: EPState) -> Array:
        """Whether another sweep is to be made."""
        moving = (state.max_change > self.limits.tol) | (state.skipped > 0)
        return moving & (state.sweep < self.limits.max_sweeps)

    def reported(self, state: EPState) -> EPState:
        """The state, once the callback has seen it."""
        if self.callback is not None:
            self.callback.after(state.sweep, state.max_change)
        return state


def check_pure(program: Program) -> None:
    """Refuse where compiled code alone does not come to EP's fixed point: `EP.run` goes on."""
    if program.problem.prior.on_host:
        raise Refusal("only_run", ", ".join(program.layout.shapes)).error()


def sweep_on(problem: Problem, settings: SweepSettings, init_sites: Sites | None = None) -> EPState:
    """Sweep until convergence, of Gaussian factors once; a prior on the host is only started."""
    state, prior = sites.init(problem), problem.prior
    if prior.on_host:
        return state
    if not problem.blocks:
        return state._replace(max_change=jnp.zeros_like(state.max_change))
    gaussian = all(block.gaussian for block in problem.blocks)
    exact = gaussian and prior.keeps_covariances and problem.power == settings.damping == 1
    if not exact:
        problem = problem._replace(prior=prior.prepared())
    if init_sites is not None:
        state = sites.restart(problem, state, init_sites)
    if exact:
        # The tilted distributions are Gaussian themselves: one sweep is exact.
        unknown = state._replace(max_change=jnp.full_like(state.max_change, jnp.inf))
        state = sites.step(problem, unknown, settings.damping)
        # A step that is not proper is not taken, and leaves it as it was.
        state = state._replace(max_change=jnp.where(jnp.isfinite(state.max_change), 0.0, jnp.inf))
        return settings.reported(state)

    def sweep(state: EPState) -> EPState:
        return settings.reported(sites.step(problem, state, settings.damping))

    return lax.while_loop(settings.unfinished, sweep, state)
