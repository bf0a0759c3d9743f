"""A fitted ranker in a file: its options, its names and its posterior, without pickled code."""

from __future__ import annotations

import json
from dataclasses import fields
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import jax
import numpy as np
from scipy import sparse

from bayesrank._states import no_state, read_arrays, write_arrays
from bayesrank._version import __version__
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

__all__ = ["decoded", "plain", "read_ranker", "result_from", "result_tree", "write_ranker"]

_FORMAT = 1
_HEADER = "header"
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
_SCALES = ("feature_mean_", "feature_scale_", "laplacian_")


def write_ranker(path: str | Path, ranker: NamedSkillEstimator) -> None:
    """Write a fitted ranker; see `NamedSkillEstimator.save`."""
    result = ranker.result
    seed = ranker.random_state
    options = {k: v for k, v in ranker.get_params().items() if k not in _NO_OPTIONS}
    clock = getattr(ranker, "clock_", None) if options.get("time") else None
    arrays: dict[str, Any] = {}
    tree = plain(
        {
            "options": options,
            "random_state": int(seed) if isinstance(seed, Integral) else None,
            "names": tuple(ranker.names_),
            "clock": None if clock is None else dict(clock._asdict()),
            "scales": {name: getattr(ranker, name, None) for name in _SCALES},
            "kind": type(result).__name__,
            "result": result_tree(result),
            "params": ranker.params_,
        },
        arrays,
    )
    kind = type(ranker).__name__
    header = {"format": _FORMAT, "version": __version__, "class": kind, "ranker": tree}
    arrays[_HEADER] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    write_arrays(path, arrays)


def read_ranker(path: str | Path, kind: type[Ranker]) -> Ranker:
    """Read a file of `write_ranker`; see `NamedSkillEstimator.load`."""
    owner = f"a {kind.__name__}"
    arrays = read_arrays(path, owner)
    try:
        header = json.loads(arrays[_HEADER].tobytes().decode())
        if header["format"] != _FORMAT:
            raise ValueError(f"its format is {header['format']}, and {_FORMAT} is read")
        if header.get("class", kind.__name__) != kind.__name__:
            raise ValueError(f"it is of the class {header['class']}")
        ranker = _restored(decoded(header["ranker"], arrays), kind)
        # What does not fit together does not answer.
        ranker.predict_proba([ranker.names_[:2]])
        if isinstance(ranker.result_, LargeEPResult):
            ranker.result_.posterior.sample(0, 1)  # as a ranking has it, of many items
        else:
            ranker.rank()
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise no_state(path, owner, " ".join(str(error).split())) from None
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
    if "posterior" in found:
        found["posterior"] = posterior_from(found["posterior"])
    if "rng_key" in found:
        found["rng_key"] = jax.random.wrap_key_data(found["rng_key"])
    return kind(**found)


def _restored(tree: dict[str, Any], kind: type[Ranker]) -> Ranker:
    found, scales, names = tree["result"], tree["scales"], list(tree["names"])
    known = found["model_args"][0]
    features = None
    if scales["feature_mean_"] is not None:
        features = known * scales["feature_scale_"] + scales["feature_mean_"]
    options = {**tree["options"], "random_state": tree["random_state"]}
    if scales["laplacian_"] is not None:
        options["laplacian"] = scales["laplacian_"]
    ranker = kind().set_params(item_features=features, items=names, **options)
    ranker.names_, ranker.result_ = names, result_from(_RESULTS[tree["kind"]], found)
    ranker.params_, ranker.log_evidence_ = tree["params"], ranker.result_.log_evidence
    learned = {} if features is None else scales
    if tree["clock"] is not None:
        learned = {"clock_": Clock(**tree["clock"])}
    for name, value in learned.items():
        setattr(ranker, name, value)
    for part in components(ranker.result_):
        if not part.covariance.shape == part.mean.shape * 2 == (len(names),) * 2:
            raise ValueError("names and skills are not as many")
    return ranker


def plain(value: Any, arrays: dict[str, Any]) -> Any:
    """Return a tree that JSON can hold, with its arrays put aside."""
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if sparse.issparse(value):
        return {"sparse": plain(value.toarray(), arrays)}
    if isinstance(value, np.ndarray | jax.Array):
        name = str(len(arrays))
        arrays[name] = np.asarray(value)
        return {"array": name}
    if isinstance(value, tuple | list):
        return {"tuple": [plain(each, arrays) for each in value]}
    if isinstance(value, dict) and all(isinstance(name, str) for name in value):
        return {"dict": {name: plain(each, arrays) for name, each in value.items()}}
    raise ValueError(
        f"a {type(value).__name__} cannot be written: {value!r}; names and options have to be "
        "text, numbers or arrays"
    )


def decoded(tree: Any, arrays: dict[str, Any]) -> Any:
    """Undo `plain`."""
    if not isinstance(tree, dict):
        return tree
    [(kind, value)] = tree.items()
    if kind == "array":
        return arrays[value]
    if kind == "sparse":
        return sparse.csr_array(decoded(value, arrays))
    if kind == "tuple":
        return tuple(decoded(each, arrays) for each in value)
    if kind == "dict":
        return {name: decoded(each, arrays) for name, each in value.items()}
    raise ValueError(f"its header has a {kind!r}")
