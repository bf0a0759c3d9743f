"""A posterior with its hyperparameters integrated over, against NUTS on all of the program."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import Array
from numpy.typing import NDArray

from bayesrank.diagnostics.comparison import Comparison, Reference, contrast_of, reference_of
from bayesrank.diagnostics.crosscheck_result import CrossCheck, EngineRun, NUTSResult
from bayesrank.diagnostics.verdict import Sizes, judge
from bayesrank.infer import IntegratedEPResult
from bayesrank.infer.spi import (
    FullProgram,
    MixtureResult,
    full_program,
    run_nuts,
    split,
    without_stale_traces,
)

__all__ = ["crosscheck_mixture"]

_COMPLAINT = "has not converged: its warning says what to do."


def crosscheck_mixture(
    result: MixtureResult,
    rng_key: Array,
    lengths: tuple[int, int, int],
    pairs: bool,
    tolerance: float,
    report: Callable[[str, float], None],
) -> CrossCheck:
    """Compare a mixture with draws of latents and hyperparameters together.

    Parameters
    ----------
    result
        Of `IntegratedEP` or `NestedEP`.
    rng_key
        Of NUTS.
    lengths
        NUTS's warm-up and draws kept of each chain, and the number of chains.
    pairs
        Whether to compare differences of latents within each site.
    tolerance
        Largest error that does not matter.
    report
        Called with the name of the engine and the share of its work that is done.
    """
    start = time.perf_counter()
    report("nuts", 0.0)
    drawn = {**result.draws, **result.hyperparameters}
    flat = {name: value.reshape(-1, *value.shape[2:]) for name, value in drawn.items()}
    called = result.model, result.model_args, result.model_kwargs, result.params
    with jax.enable_x64(True):
        program = without_stale_traces(lambda: full_program(*called, flat, result.eliminated_sites))
        vectors, divergent = run_nuts(
            program, rng_key, *lengths, lambda share: report("nuts", share)
        )
        draws = {k: np.asarray(v) for k, v in split(vectors, program.sites).items()}
        comparisons = _latents(result, draws, pairs) + _hyperparameters(result, draws, program)
    runs = {
        "ep": EngineRun(
            "ep", np.nan, result.log_evidence, None, None if result.converged else _COMPLAINT
        ),
        "nuts": EngineRun("nuts", time.perf_counter() - start),
    }
    sizes = Sizes(*lengths, divergent)
    return CrossCheck(
        runs=runs,
        references=tuple(comparison.reference for comparison in comparisons),
        comparisons=tuple(comparisons),
        verdicts={"ep": judge(comparisons, sizes, tolerance, runs["ep"].complaint)},
        params=result.params,
        tolerance=float(tolerance),
        ep=result,
        nuts=NUTSResult(*called, divergent, draws),
    )


def _latents(
    result: MixtureResult, draws: dict[str, NDArray[np.float64]], pairs: bool
) -> list[Comparison]:
    comparisons, start = [], 0
    for name, shape in result.shapes.items():
        own = slice(start, start + int(np.prod(shape, dtype=int)))
        start = own.stop
        contrast = contrast_of(name, shape, pairs)
        reference = reference_of(contrast, _as_rows(draws[name]))
        variance = contrast.variance(result.joint_covariance[own, own])
        mean = contrast.apply(result.joint_mean[own])
        comparisons.append(Comparison("ep", reference, mean, np.sqrt(variance)))
    return comparisons


def _hyperparameters(
    result: MixtureResult, draws: dict[str, NDArray[np.float64]], program: FullProgram
) -> list[Comparison]:
    """Hyperparameters on their unconstrained scale, where their tails are short."""
    names = list(result.hyperparameters)
    chains, count = draws[names[0]].shape[:2]
    theirs = program.unconstrained(
        {name: draws[name].reshape(-1, *draws[name].shape[2:]) for name in names}
    )
    if isinstance(result, IntegratedEPResult):
        own, weights = program.unconstrained(result.points), result.weights
    else:
        values = result.hyperparameters
        own = program.unconstrained({k: v.reshape(-1, *v.shape[2:]) for k, v in values.items()})
        weights = np.full(result.num_samples, 1.0 / result.num_samples)
    comparisons = []
    for name in names:
        contrast = contrast_of(name, theirs[name].shape[1:], False)
        reference = reference_of(contrast, theirs[name].reshape(chains, count, -1))
        comparisons.append(_weighted(reference, weights, own[name].reshape(weights.size, -1)))
    return comparisons


def _weighted(
    reference: Reference, weights: NDArray[np.float64], points: NDArray[np.float64]
) -> Comparison:
    mean = weights @ points
    return Comparison("ep", reference, mean, np.sqrt(weights @ (points - mean) ** 2))


def _as_rows(draws: NDArray[Any]) -> NDArray[Any]:
    return draws.reshape(*draws.shape[:2], -1)
