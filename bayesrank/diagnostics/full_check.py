"""A posterior against NUTS on all of the program: free hyperparameters, and further latents."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray
from numpyro import validation_enabled

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
from bayesrank.infer.spi import MixtureResult, run_nuts, split, without_stale_traces

Array = NDArray[np.float64]

_COMPLAINT = "has not converged: its warning says what to do."


class Claim(NamedTuple):
    """What EP says of a program's sites: a Gaussian, and draws by which NUTS's scale is set."""

    called: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], dict[str, Any]]
    mean: Array  # of these sites, end to end, shape (n,)
    covariance: Array  # shape (n, n)
    shapes: dict[str, tuple[int, ...]]
    draws: dict[str, Array]  # of the sites and of free hyperparameters, (N, ...)
    hidden: tuple[str, ...]  # other sites, which NUTS draws as well


class Chains(NamedTuple):
    """How NUTS is run."""

    rng_key: jax.Array
    lengths: tuple[int, int, int]  # warm-up steps, draws, chains
    progress: Callable[[float], None]


def claim_of(result: MixtureResult) -> Claim:
    """What a mixture says of latents and hyperparameters."""
    drawn = {**result.draws, **result.hyperparameters}
    flat = {name: value.reshape(-1, *value.shape[2:]) for name, value in drawn.items()}
    called = result.model, result.model_args, result.model_kwargs, result.params
    gaussian = result.joint_mean, result.joint_covariance, result.shapes
    return Claim(called, *gaussian, flat, result.marginalized_sites)


def against_nuts(
    claim: Claim, chains: Chains, pairs: bool, tolerance: float, result: MixtureResult | None = None
) -> CrossCheck:
    """Compare a claim with draws of all of the program; with a result, hyperparameters as well."""
    start = time.perf_counter()
    chains.progress(0.0)
    with jax.enable_x64(True), validation_enabled(False):
        program = without_stale_traces(
            lambda: full_program(*claim.called, claim.draws, claim.hidden)
        )
        vectors, divergent = run_nuts(program, chains.rng_key, *chains.lengths, chains.progress)
        draws = {k: np.asarray(v) for k, v in split(vectors, program.sites).items()}
        gaussian = claim.mean, claim.covariance, claim.shapes
        references = references_of(draws, claim.shapes, pairs)
        comparisons = [compared(reference, "ep", *gaussian) for reference in references]
        comparisons += [] if result is None else _hyperparameters(result, draws, program)
    runs, warning = {"nuts": EngineRun("nuts", time.perf_counter() - start)}, None
    if result is not None:
        warning = None if result.converged else _COMPLAINT
        runs = {"ep": EngineRun("ep", np.nan, result.log_evidence, None, warning), **runs}
    return CrossCheck(
        runs=runs,
        references=tuple(comparison.reference for comparison in comparisons),
        comparisons=tuple(comparisons),
        verdicts={"ep": judge(comparisons, Sizes(*chains.lengths, divergent), tolerance, warning)},
        params=dict(claim.called[3]),
        tolerance=float(tolerance),
        ep=result,
        nuts=NUTSResult(*claim.called, divergent, draws),
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
