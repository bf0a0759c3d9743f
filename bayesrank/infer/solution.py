"""What compiled code returns of a run of EP, and what a result takes from it."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array

from bayesrank.infer.gaussian.protocol import Large
from bayesrank.infer.missed import Faults
from bayesrank.infer.reader.program import Program
from bayesrank.infer.reader.refusals import Refusal
from bayesrank.infer.sites import EPState
from bayesrank.infer.structures import ended

__all__ = ["MOST_MISSED", "ProgramLayout", "Solution", "found_of", "packed"]


# Of a factor's mass; what quadrature leaves out is less by far, or a part that it has not found.
MOST_MISSED = 0.01


class Solution(NamedTuple):
    """What compiled code returns.

    Attributes
    ----------
    tau, nu, delta, sweep, skipped, skipped_total
        Of the last state of EP; its posterior, as large as the covariance, is left out.
    mean, covariance
        Of all latents, leaves included, laid end to end; behind them the means of tables.
    log_evidence
        EP's log evidence.
    faults
        For each block the largest faults of a factor's quadrature.
    hyperparameters
        The values used.
    checks, ends
        See the attributes of `Program` of the same names.
    large
        What a posterior without joint covariance is made of; else None, and `covariance` is not.
    """

    tau: tuple[Array, ...]
    nu: tuple[Array, ...]
    delta: Array
    sweep: Array
    skipped: Array
    skipped_total: Array
    mean: Array
    covariance: Array | None
    log_evidence: Array
    faults: tuple[Faults, ...]
    hyperparameters: dict[str, Array]
    checks: tuple[Array, ...]
    ends: tuple[Array, Array] | None
    large: Large | None


class ProgramLayout(NamedTuple):
    """What is static in a program: see the attributes of `Program` of the same names."""

    shapes: dict[str, tuple[int, ...]]
    sampled: tuple[str, ...]
    dropped: tuple[str, ...]
    eliminated: tuple[str, ...]
    block_sites: tuple[str, ...]
    refusals: tuple[Refusal, ...]
    given_factors: tuple[str, ...]

    @property
    def size(self) -> int:
        """Number of latents; what follows from them in tables stands behind them."""
        return sum(math.prod(shape) for shape in self.shapes.values())


def packed(program: Program, state: EPState) -> tuple[Solution, ProgramLayout]:
    """What compiled code returns at the end of its sweeps, and what is static in the program."""
    solution = Solution(
        state.tau,
        state.nu,
        state.delta,
        state.sweep,
        state.skipped,
        state.skipped_total,
        hyperparameters=program.hyperparameters,
        checks=tuple(passed for _, passed in program.checks),
        ends=program.ends,
        **ended(program, state)._asdict(),
    )
    layout = ProgramLayout(
        program.shapes,
        program.sampled,
        program.dropped,
        program.eliminated,
        program.block_sites,
        tuple(refusal for refusal, _ in program.checks),
        program.given_factors,
    )
    return solution, layout


def found_of(solved: Solution, layout: ProgramLayout, tol: float) -> dict[str, Any]:
    """Fields of a result that say what was found; `tol` is what EP was to converge to."""
    solution: Any = jax.tree.map(np.asarray, solved._replace(covariance=None, large=None))
    return dict(
        params=dict(solution.hyperparameters),
        free_params=layout.sampled,
        shapes=layout.shapes,
        joint_mean=np.asarray(solution.mean, float)[: layout.size],
        sites={
            name: (tau, nu)
            for name, tau, nu in zip(layout.block_sites, solution.tau, solution.nu, strict=True)
        },
        log_evidence=float(solution.log_evidence),
        missed_mass={
            name: float(each.missed)
            for name, each in zip(layout.block_sites, solution.faults, strict=True)
            if each.missed > MOST_MISSED
        },
        moment_errors={
            name: float(each.error)
            for name, each in zip(layout.block_sites, solution.faults, strict=True)
            if each.error > 0
        },
        converged=bool(
            solution.delta <= tol and solution.skipped == 0 and np.isfinite(solution.log_evidence)
        ),
        num_sweeps=int(solution.sweep),
        skipped_sites=int(solution.skipped_total),
        delta=float(solution.delta),
        dropped_sites=layout.dropped,
        eliminated_sites=layout.eliminated,
        given_factors=layout.given_factors,
        ends=solution.ends,
    )
