"""How EP sweeps over each structure of a Gaussian part, and what it leaves of the posterior.

Covariances of all latents (`JointSweeps`), a Gaussian for each latent alone (`MessagePassing`), or
a sparse precision that compiled code only starts from (`SweepsOutside`). A further structure is a
prior in `bayesrank.infer.gaussian`, and, where none of these serves it, a class of its own here.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import jax.numpy as jnp
from jax import Array, lax
from jax.sharding import Mesh

from bayesrank.infer import messages, sites
from bayesrank.infer.gaussian.factorised import FactorisedPrior
from bayesrank.infer.gaussian.inverted import for_many_sweeps
from bayesrank.infer.gaussian.links import LinkedPrior
from bayesrank.infer.gaussian.low_rank import LowRankPrior
from bayesrank.infer.gaussian.protocol import Large
from bayesrank.infer.gaussian.sharded import ShardedRows
from bayesrank.infer.missed import Faults
from bayesrank.infer.progress import SweepCallback
from bayesrank.infer.reader.program import Program
from bayesrank.infer.reader.refusals import Refusal
from bayesrank.infer.sites import EPState, Problem, Sites

__all__ = [
    "Ended",
    "Structure",
    "SweepSettings",
    "keeps_covariances",
    "shared_among",
    "structure_of",
]

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


class Structure(Protocol):
    """How a posterior is kept while EP sweeps over it."""

    def check_pure(self, program: Program) -> None:
        """Refuse where compiled code alone does not come to EP's fixed point."""
        ...

    def check_shared(self, asked: str) -> None:
        """Refuse to share sites among devices where that cannot be; `asked` is EP's structure."""
        ...

    def solve(self, program: Program, settings: SweepSettings, init_sites: Sites | None) -> EPState:
        """Sweep until convergence, as far as compiled code goes."""
        ...

    def log_evidence(self, problem: Problem, state: EPState, *, differentiable: bool) -> Array:
        """EP's log evidence at the end of the sweeps."""
        ...

    def ended(self, program: Program, state: EPState) -> Ended:
        """What the end of the sweeps leaves."""
        ...


class JointSweeps:
    """Covariances of all latents: sweeps of `bayesrank.infer.sites`."""

    def check_pure(self, program: Program) -> None:
        """Nothing to refuse."""

    def check_shared(self, asked: str) -> None:
        """Nothing to refuse."""

    def solve(self, program: Program, settings: SweepSettings, init_sites: Sites | None) -> EPState:
        """Sweep until convergence; of Gaussian factors once."""
        problem = program.problem
        state = sites.init(problem)
        if not problem.blocks:
            return state._replace(delta=jnp.zeros_like(state.delta))
        exact = program.gaussian and problem.power == settings.damping == 1
        if not exact:
            problem = problem._replace(prior=for_many_sweeps(problem.prior))
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

    def log_evidence(self, problem: Problem, state: EPState, *, differentiable: bool) -> Array:
        """See `sites.evidence_at`."""
        return sites.evidence_at(problem, state, differentiable=differentiable)

    def ended(self, program: Program, state: EPState) -> Ended:
        """Moments of core and leaves, and what quadrature has missed."""
        log_evidence = self.log_evidence(program.problem, state, differentiable=False)
        mean, covariance = program.all_latents(state.posterior)
        return Ended(mean, covariance, log_evidence, sites.faults(program.problem, state))


class MessagePassing:
    """A Gaussian for each latent alone: message passing."""

    def check_pure(self, program: Program) -> None:
        """Nothing to refuse."""

    def check_shared(self, asked: str) -> None:
        """Refuse where probes would go on from here."""
        if asked != "factorised":
            raise ValueError(_NOT_SHARDED.format("probes", "factorised"))

    def solve(self, program: Program, settings: SweepSettings, init_sites: Sites | None) -> EPState:
        """Pass messages until convergence; `init_sites` say too little to start from."""
        return messages.solve(program.problem, *settings)

    def log_evidence(self, problem: Problem, state: EPState, *, differentiable: bool) -> Array:
        """Bethe's, see `messages.log_evidence`."""
        return messages.log_evidence(problem, state.posterior.messages)

    def ended(self, program: Program, state: EPState) -> Ended:
        """Moments of each latent, and what makes the Gaussian of prior and sites."""
        log_evidence = self.log_evidence(program.problem, state, differentiable=False)
        return _without_covariance(program, state, log_evidence)


class SweepsOutside:
    """A sparse precision, or low rank beside one, which is swept over outside of compiled code."""

    def __init__(self, name: str) -> None:
        self.name = name

    def check_pure(self, program: Program) -> None:
        """Refuse: `EP.run` alone goes on outside."""
        raise Refusal("only_run", ", ".join(program.shapes)).error()

    def check_shared(self, asked: str) -> None:
        """Refuse."""
        raise ValueError(_NOT_SHARDED.format(self.name, "dense"))

    def solve(self, program: Program, settings: SweepSettings, init_sites: Sites | None) -> EPState:
        """Make the state to start from."""
        return sites.init(program.problem)

    def log_evidence(self, problem: Problem, state: EPState, *, differentiable: bool) -> Array:
        """Nothing yet: it comes with the sweeps."""
        return jnp.zeros(())

    def ended(self, program: Program, state: EPState) -> Ended:
        """What sweeps start from."""
        return _without_covariance(program, state, jnp.zeros(()))


_JOINT = JointSweeps()
_OTHERS: dict[type, Structure] = {
    FactorisedPrior: MessagePassing(),
    LinkedPrior: SweepsOutside("probes"),
    LowRankPrior: SweepsOutside("low_rank"),
}


def structure_of(program: Program) -> Structure:
    """How EP sweeps over the program."""
    return _OTHERS.get(type(program.problem.prior), _JOINT)


def keeps_covariances(prior: Any) -> bool:
    """Whether EP keeps covariances of all latents, by the type of their prior."""
    return type(prior) not in _OTHERS


def shared_among(mesh: Mesh, program: Program, asked: str) -> Program:
    """Share the sites of a program among devices; `asked` is EP's structure."""
    structure_of(program).check_shared(asked)
    problem = program.problem
    blocks = tuple(
        block._replace(rows=ShardedRows.over(mesh, block.rows)) for block in problem.blocks
    )
    return program._replace(problem=problem._replace(blocks=blocks))


def _without_covariance(program: Program, state: EPState, log_evidence: Array) -> Ended:
    problem, posterior = program.problem, state.posterior
    prior: Any = problem.prior  # a `LargePrior`
    rows: Any = tuple((block.rows.values, block.rows.columns) for block in problem.blocks)
    nothing = tuple(Faults(jnp.zeros(()), jnp.zeros(())) for _ in problem.blocks)
    large = prior.packed(program.mean, posterior.variances, rows)
    return Ended(program.mean + posterior.mean, None, log_evidence, nothing, large)
