"""A posterior with its hyperparameters integrated over, against NUTS on all of the program."""

from __future__ import annotations

import time
from collections.abc import Callable

import jax
import numpy as np
from jax import Array
from numpy.typing import NDArray

from bayesrank.diagnostics.comparison import (
    Comparison,
    compared,
    contrast_of,
    reference_of,
    references_of,
)
from bayesrank.diagnostics.crosscheck_result import CrossCheck, EngineRun, NUTSResult
from bayesrank.diagnostics.full_program import FullProgram, full_program
from bayesrank.diagnostics.verdict import Sizes, judge
from bayesrank.infer.spi import (
    MixtureResult,
    run_nuts,
    split,
    without_stale_traces,
)

_COMPLAINT = "has not converged: its warning says what to do."


def crosscheck_mixture(
    result: MixtureResult,
    rng_key: Array,
    lengths: tuple[int, int, int],
    pairs: bool,
    tolerance: float,
    report: Callable[[str, float], None],
) -> CrossCheck:
    """Compare a mixture with draws of all; `lengths` are warm-up, draws and chains."""
    start = time.perf_counter()
    report("nuts", 0.0)
    drawn = {**result.draws, **result.hyperparameters}
    flat = {name: value.reshape(-1, *value.shape[2:]) for name, value in drawn.items()}
    called = result.model, result.model_args, result.model_kwargs, result.params
    with jax.enable_x64(True):
        program = without_stale_traces(
            lambda: full_program(*called, flat, result.marginalized_sites)
        )
        vectors, divergent = run_nuts(
            program, rng_key, *lengths, lambda share: report("nuts", share)
        )
        draws = {k: np.asarray(v) for k, v in split(vectors, program.sites).items()}
        gaussian = result.joint_mean, result.joint_covariance, result.shapes
        latents = references_of(draws, result.shapes, pairs)
        comparisons = [compared(reference, "ep", *gaussian) for reference in latents]
        comparisons += _hyperparameters(result, draws, program)
    warning = None if result.converged else _COMPLAINT
    runs = {
        "ep": EngineRun("ep", np.nan, result.log_evidence, None, warning),
        "nuts": EngineRun("nuts", time.perf_counter() - start),
    }
    sizes = Sizes(*lengths, divergent)
    return CrossCheck(
        runs=runs,
        references=tuple(comparison.reference for comparison in comparisons),
        comparisons=tuple(comparisons),
        verdicts={"ep": judge(comparisons, sizes, tolerance, runs["ep"].warning)},
        params=result.params,
        tolerance=float(tolerance),
        ep=result,
        nuts=NUTSResult(*called, divergent, draws),
    )


def _hyperparameters(
    result: MixtureResult, draws: dict[str, NDArray[np.float64]], program: FullProgram
) -> list[Comparison]:
    """Hyperparameters on their unconstrained scale, where their tails are short."""
    names = list(result.hyperparameters)
    chains, count = draws[names[0]].shape[:2]
    theirs = program.unconstrained(
        {name: draws[name].reshape(-1, *draws[name].shape[2:]) for name in names}
    )
    values, weights = result.weighted_points
    own = program.unconstrained(values)
    comparisons = []
    for name in names:
        contrast = contrast_of(name, theirs[name].shape[1:], False)
        reference = reference_of(contrast, theirs[name].reshape(chains, count, -1))
        points = own[name].reshape(weights.size, -1)
        mean = weights @ points
        sd = np.sqrt(weights @ (points - mean) ** 2)
        comparisons.append(Comparison("ep", reference, mean, sd))
    return comparisons
