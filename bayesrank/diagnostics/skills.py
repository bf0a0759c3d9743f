"""Skills against NUTS where a program has further latents: judges, orders, times.

NUTS draws all latents at the hyperparameters of the fit; only the skills are compared.
"""

from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from bayesrank.datasets import ComparisonData
from bayesrank.diagnostics.full_check import Claim
from bayesrank.infer.spi import run_with
from bayesrank.models import judged_comparisons
from bayesrank.solvers.comparisons import ArenaFit
from bayesrank.solvers.comparisons.terms import arguments_of

Array = NDArray[np.float64]

_OF_LOGS = ("category_skill", "reliability", "position_effect", "bias", "tie_width")
_DRAWS = 100  # by which NUTS's scale is set


def skills_of_log(data: ComparisonData, fit: ArenaFit) -> Claim:
    """The claim of the solver for logs; equal comparisons are one with a weight."""
    n, rows = fit.num_items, data.distinct()
    params = {name: np.asarray(value) for name, value in fit.scales.items()}
    width = fit.log_tie_width
    if width is not None and width[1] > 0.0:  # it was learned, and is uncertain
        del params["tie_width"]
    hidden = tuple(name for name in _OF_LOGS if name not in params)
    called = judged_comparisons, (n, rows.comparisons), arguments_of(rows), params
    return _claim(called, fit.mean[:n], fit.covariance[:n, :n], hidden)


def skills_of_result(result: Any) -> Claim:
    """The claim of a result of EP, at the hyperparameters that count most."""
    component = max(result.components(), key=lambda each: each.weight)
    moments, n = component.moments, int(np.prod(result.shapes["f"]))
    start = list(moments.shapes).index("f")
    first = sum(int(np.prod(shape)) for shape in list(moments.shapes.values())[:start])
    own = slice(first, first + n)
    params = {**result.params, **component.params}
    called = result.model, result.model_args, result.model_kwargs, params
    hidden = (*result.marginalized_sites, *(name for name in result.shapes if name != "f"))
    return _claim(called, moments.joint_mean[own], moments.joint_covariance[own, own], hidden)


def _claim(called: Any, mean: Array, covariance: Array, hidden: tuple[str, ...]) -> Claim:
    random = np.random.default_rng(0).standard_normal((_DRAWS, len(mean)))
    draws = {"f": mean + random * np.sqrt(np.diagonal(covariance))}
    return Claim(called, mean, covariance, {"f": mean.shape}, draws, hidden)


def claim_size(claim: Claim) -> tuple[int, int]:
    """How many rows the program is called with, and how many latents it has."""
    columns = jax.tree.leaves(claim.called[1])
    rows = max(np.shape(column)[0] for column in columns if np.ndim(column))
    with jax.enable_x64(True):
        return rows, _num_latents(claim)


def _num_latents(claim: Claim) -> int:
    """Number of skills and of the latents beside them, by the program's shapes alone."""
    model, args, kwargs, params = claim.called

    def hidden() -> list[Any]:
        sites = run_with(model, args, kwargs, {**params, "f": claim.mean})
        return [sites[name]["value"] for name in claim.hidden if name in sites]

    return claim.mean.size + sum(each.size for each in jax.eval_shape(hidden))
