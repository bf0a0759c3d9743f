"""Skills against NUTS where a program has further latents: judges, orders, times.

The posterior of the skills alone is compared; NUTS draws everything that the program draws beside
them, at the hyperparameters of the fit.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from bayesrank.datasets import ComparisonData
from bayesrank.diagnostics.comparison import compared, references_of
from bayesrank.diagnostics.crosscheck_result import CrossCheck, EngineRun, NUTSResult
from bayesrank.diagnostics.full_program import full_program
from bayesrank.diagnostics.verdict import Sizes, judge
from bayesrank.infer.spi import run_nuts, run_with, split, without_stale_traces
from bayesrank.models import judged_comparisons
from bayesrank.solvers.comparisons import ArenaFit
from bayesrank.solvers.comparisons.terms import arguments_of

__all__ = ["SkillsFit", "check_skills", "skills_of_log", "skills_of_result"]

Array = NDArray[np.float64]

_OF_LOGS = ("category_skill", "reliability", "position_effect", "bias", "tie_width")
_DRAWS = 100  # by which NUTS's scale is set


class SkillsFit(NamedTuple):
    """A posterior of skills, site ``f``, and the program that it is of."""

    called: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], dict[str, Any]]
    mean: Array  # shape (n,)
    covariance: Array  # shape (n, n)
    hidden: tuple[str, ...]  # latents of the program beside the skills


def skills_of_log(data: ComparisonData, fit: ArenaFit) -> SkillsFit:
    """Of a log, by the solver for logs; equal comparisons are one with a weight."""
    n, rows = fit.num_items, data.distinct()
    params = {name: np.asarray(value) for name, value in fit.scales.items()}
    width = fit.log_tie_width
    if width is not None and width[1] > 0.0:  # it was learned, and is uncertain
        del params["tie_width"]
    hidden = tuple(name for name in _OF_LOGS if name not in params)
    called = judged_comparisons, (n, rows.comparisons), arguments_of(rows), params
    return SkillsFit(called, fit.mean[:n], fit.covariance[:n, :n], hidden)


def skills_of_result(result: Any) -> SkillsFit:
    """Of a result of EP, at the hyperparameters that count most."""
    component = max(result.components(), key=lambda each: each.weight)
    moments, n = component.moments, int(np.prod(result.shapes["f"]))
    start = list(moments.shapes).index("f")
    first = sum(int(np.prod(shape)) for shape in list(moments.shapes.values())[:start])
    own = slice(first, first + n)
    params = {**result.params, **component.params}
    called = result.model, result.model_args, result.model_kwargs, params
    hidden = (*result.marginalized_sites, *(name for name in result.shapes if name != "f"))
    return SkillsFit(called, moments.joint_mean[own], moments.joint_covariance[own, own], hidden)


def check_skills(
    fit: SkillsFit,
    most: tuple[float, float],
    lengths: tuple[int, int, int],
    tolerance: float,
    seed: int,
    progress: Callable[[float], None],
) -> CrossCheck | None:
    """Compare differences of skills with NUTS; None if there are more than `most` rows, latents.

    `lengths` are the warm-up steps, draws and chains.
    """
    start = time.perf_counter()
    random = np.random.default_rng(0).standard_normal((_DRAWS, len(fit.mean)))
    draws = {"f": fit.mean + random * np.sqrt(np.diagonal(fit.covariance))}
    shapes: dict[str, tuple[int, ...]] = {"f": fit.mean.shape}
    rows = max(np.shape(column)[0] for column in jax.tree.leaves(fit.called[1]) if np.ndim(column))
    with jax.enable_x64(True):
        if rows > most[0] or _num_latents(fit) > most[1]:
            return None
        program = without_stale_traces(lambda: full_program(*fit.called, draws, fit.hidden))
        vectors, divergent = run_nuts(program, jax.random.key(seed), *lengths, progress)
        found = {k: np.asarray(v) for k, v in split(vectors, program.sites).items()}
        references = references_of(found, shapes, True)
        gaussian = fit.mean, fit.covariance, shapes
        comparisons = tuple(compared(reference, "ep", *gaussian) for reference in references)
    verdict = judge(comparisons, Sizes(*lengths, divergent), tolerance, None)
    return CrossCheck(
        runs={"nuts": EngineRun("nuts", time.perf_counter() - start)},
        references=references,
        comparisons=comparisons,
        verdicts={"ep": verdict},
        params=dict(fit.called[3]),
        tolerance=tolerance,
        ep=None,
        nuts=NUTSResult(*fit.called, divergent, found),
    )


def _num_latents(fit: SkillsFit) -> int:
    """Number of skills and of the latents beside them, by the program's shapes alone."""
    model, args, kwargs, params = fit.called

    def hidden() -> list[Any]:
        sites = run_with(model, args, kwargs, {**params, "f": fit.mean})
        return [sites[name]["value"] for name in fit.hidden if name in sites]

    return fit.mean.size + sum(each.size for each in jax.eval_shape(hidden))
