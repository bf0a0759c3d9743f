"""A fitted ranker in a file: its options, its names and its posterior, without pickled code."""

from __future__ import annotations

import math
from dataclasses import fields
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import jax
import numpy as np

from bayesrank._states import check_axes, check_covariances, write_state
from bayesrank.estimators.checks import graph_laplacian
from bayesrank.estimators.skills import components
from bayesrank.estimators.times import Clock
from bayesrank.infer import EPResult, IntegratedEPResult, LargeEPResult
from bayesrank.infer.spi import posterior_from, posterior_state
from bayesrank.models import (
    dynamic_thurstone,
    judged_comparisons,
    preference_gp,
    thurstone,
)
from bayesrank.models.orders import preference_orders, thurstone_orders

if TYPE_CHECKING:
    from bayesrank.estimators.named import NamedSkillEstimator

    Ranker = TypeVar("Ranker", bound=NamedSkillEstimator)

__all__ = ["restored", "result_from", "result_tree", "write_ranker"]

_PROGRAMS = {
    each.__name__: each
    for each in (
        dynamic_thurstone,
        judged_comparisons,
        preference_gp,
        preference_orders,
        thurstone,
        thurstone_orders,
    )
}
_RESULTS = {each.__name__: each for each in (EPResult, IntegratedEPResult, LargeEPResult)}
# What the posterior says of itself, or what is written in another form.
_NO_OPTIONS = {"item_features", "items", "laplacian", "random_state"}
_FEATURES = {"features": "nd", "feature_mean_": "d", "feature_scale_": "d"}
_AXES = {
    "joint_mean": "n",
    "joint_covariance": "nn",
    "weights": "k",
    "component_means": "kn",
    "component_covariances": "knn",
}
_SCALES = ("feature_mean_", "feature_scale_", "laplacian_")


def write_ranker(path: str | Path, ranker: NamedSkillEstimator) -> None:
    """Write a fitted ranker; see `NamedSkillEstimator.save`."""
    result = ranker.result
    seed = ranker.random_state
    options = {k: v for k, v in ranker.get_params().items() if k not in _NO_OPTIONS}
    state = {
        "options": options,
        "random_state": int(seed) if isinstance(seed, Integral) else None,
        "names": tuple(ranker.names_),
        "clock": getattr(ranker, "clock_", None) if options.get("time") else None,
        "scales": {name: getattr(ranker, name, None) for name in _SCALES},
        "kind": type(result).__name__,
        "result": result_tree(result),
        "params": ranker.params_,
    }
    write_state(path, type(ranker).__name__, state)


def restored(kind: type[Ranker], state: dict[str, Any]) -> Ranker:
    """Make a fitted ranker of what `write_ranker` wrote of one; refuse what does not fit."""
    scales, names = state["scales"], list(state["names"])
    result = result_from(_RESULTS[state["kind"]], state["result"])
    features = None
    if scales["feature_mean_"] is not None:
        known = result.model_args[0]
        check_axes({"features": known, **scales}, _FEATURES)
        features = known * scales["feature_scale_"] + scales["feature_mean_"]
    options = {**state["options"], "random_state": state["random_state"]}
    if scales["laplacian_"] is not None:
        options["laplacian"] = graph_laplacian(scales["laplacian_"], np.asarray(features))
        graph_laplacian(result.model_kwargs["laplacian"], np.asarray(features))
    ranker = kind().set_params(item_features=features, items=names, **options)
    ranker.names_, ranker.result_ = names, result
    ranker.params_, ranker.log_evidence_ = state["params"], result.log_evidence
    learned = {} if features is None else scales
    if state["clock"] is not None:
        learned = {"clock_": Clock(**state["clock"])}
    for name, value in learned.items():
        setattr(ranker, name, value)
    for part in components(result):
        if not part.covariance.shape == part.mean.shape * 2 == (len(names),) * 2:
            raise ValueError("names and skills are not as many")
    return ranker


def result_tree(result: EPResult | IntegratedEPResult) -> dict[str, Any]:
    """Fields of a result by name, with its program as a name and its key as numbers."""
    large = isinstance(result, LargeEPResult)
    left_out = "joint_covariance" if large else ""
    found = {x.name: getattr(result, x.name) for x in fields(result) if x.name != left_out}
    if large:
        found["posterior"] = posterior_state(result.posterior)
        found["log_evidence_error"] = result.log_evidence_error
    found["model"] = result.model.__name__
    if "rng_key" in found:
        found["rng_key"] = np.asarray(jax.random.key_data(found["rng_key"]))
    return found


def result_from(kind: Any, found: dict[str, Any]) -> Any:
    """Undo `result_tree`; `kind` is the class."""
    found["model"] = _PROGRAMS[found["model"]]
    check_axes(found, _AXES, {"n": sum(math.prod(each) for each in found["shapes"].values())})
    check_covariances(found, "joint_covariance", "component_covariances")
    if "posterior" in found:
        found["posterior"] = posterior_from(found["posterior"])
    if "rng_key" in found:
        found["rng_key"] = jax.random.wrap_key_data(found["rng_key"])
    return kind(**found)
