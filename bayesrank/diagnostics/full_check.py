"""A posterior against NUTS on all of the program: free hyperparameters, and further latents."""

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from numpyro import handlers, validation_enabled
from numpyro.infer.util import constrain_fn, initialize_model, potential_energy, unconstrain_fn

from bayesrank.diagnostics.crosscheck_result import CrossCheck, EngineRun, NUTSResult
from bayesrank.diagnostics.verdict import (
    Comparison,
    Sizes,
    compared,
    contrast_of,
    judge,
    reference_of,
    references_of,
)
from bayesrank.infer import EPResult, whiten
from bayesrank.infer.spi import (
    as_working_dtype,
    jit,
    readable_arguments,
    run_nuts,
    run_with,
    split,
    without_stale_traces,
)

Draws = Mapping[str, NDArray[np.float64]]


class FullProgram(NamedTuple):
    """A program's white latents and unconstrained hyperparameters, scaled by draws, for NUTS."""

    log_joint: Callable[[jax.Array], jax.Array]  # log density of such a vector, shape (size,)
    size: int
    # From vectors (N, size) to `sites` laid end to end, on their own scales.
    constrained: Callable[[Any], Any]
    sites: dict[str, tuple[int, ...]]  # shapes of the latents and hyperparameters
    # From draws of hyperparameters by name, shapes (N,) + their own, to their unconstrained scale.
    unconstrained: Callable[[Draws], dict[str, NDArray[np.float64]]]

    def colour(self, white: Any) -> Any:
        """Sites laid end to end, on their own scales, from vectors (..., size)."""
        sites = np.asarray(self.constrained(np.reshape(white, (-1, self.size))))
        return sites.reshape(*np.shape(white)[:-1], -1)


def full_program(
    model: Callable[..., Any],
    args: tuple,
    kwargs: Mapping[str, Any],
    params: Mapping[str, Any],
    draws: Draws,
    eliminated: tuple[str, ...] = (),
) -> FullProgram:
    """One density of latents and free hyperparameters, whose `draws` (N, ...) set the scale."""
    given: dict[str, Any]
    args, kwargs = readable_arguments(model, args, kwargs, params)
    given, draws = as_working_dtype((dict(params), dict(draws)))
    shapes = {name: value.shape[1:] for name, value in draws.items()}
    conditioned = handlers.substitute(handlers.condition(model, data=given), data=given)
    left_over = jit(lambda: _left_over(conditioned, args, kwargs, draws, eliminated))()
    hidden = handlers.block(
        handlers.substitute(handlers.seed(conditioned, jax.random.key(0)), data=left_over),
        hide=list(left_over),
    )
    white = whiten(hidden)
    called = white, args, kwargs
    free = _unconstrained_shapes(*called)
    known = {name: value for name, value in draws.items() if name in free}

    def unconstrained(values: Draws) -> dict[str, NDArray[np.float64]]:
        mapped = jit(jax.vmap(lambda one: unconstrain_fn(*called, one)))
        found = mapped({name: jnp.asarray(value) for name, value in values.items()})
        return {name: np.asarray(value) for name, value in found.items()}

    there = unconstrained(known) if known else {}
    centre = [there[k].mean(0) if k in there else np.zeros(v) for k, v in free.items()]
    width = [there[k].std(0) if k in there else np.ones(v) for k, v in free.items()]
    loc, scale = (np.concatenate([np.ravel(x) for x in each]) for each in (centre, width))

    def constrained(z: jax.Array) -> jax.Array:
        values = constrain_fn(*called, split(loc + scale * z, free), return_deterministic=True)
        return jnp.concatenate([jnp.reshape(values[name], -1) for name in shapes])

    return FullProgram(
        lambda z: jnp.negative(potential_energy(*called, split(loc + scale * z, free))),
        loc.size,
        jit(jax.vmap(constrained)),
        shapes,
        unconstrained,
    )


def _left_over(
    model: Callable[..., Any], args: tuple, kwargs: Any, draws: Draws, eliminated: tuple[str, ...]
) -> dict[str, jax.Array]:
    """Values of latents that are neither drawn nor eliminated."""
    first = {name: value[0] for name, value in draws.items()}
    return {
        name: site["value"]
        for name, site in run_with(model, args, kwargs, first).items()
        if site["type"] == "sample" and not site["is_observed"]
        if name not in draws and name not in eliminated
    }


def _unconstrained_shapes(*called: Any) -> dict[str, tuple[int, ...]]:
    """Shapes of free sites; nothing is run, which would compile each operation of the program."""
    model, args, kwargs = called

    def start() -> Any:
        key, given = jax.random.key(0), {"model_args": args, "model_kwargs": kwargs}
        return initialize_model(key, model, **given, validate_grad=False).param_info

    return {name: value.shape for name, value in jax.eval_shape(start).z.items()}


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


def claim_of(result: EPResult) -> Claim:
    """What a mixture says of latents and hyperparameters."""
    drawn = {**result.draws, **result.hyperparameters}
    flat = {name: value.reshape(-1, *value.shape[2:]) for name, value in drawn.items()}
    called = result.model, result.model_args, result.model_kwargs, result.params
    gaussian = result.joint_mean, result.joint_covariance, result.shapes
    return Claim(called, *gaussian, flat, result.marginalized_sites)


def against_nuts(
    claim: Claim, chains: Chains, pairs: bool, tolerance: float, result: EPResult | None = None
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
    result: EPResult, draws: dict[str, NDArray[np.float64]], program: FullProgram
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
