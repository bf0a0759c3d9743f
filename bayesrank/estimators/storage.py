"""A fitted ranker in a file: its options, its names and its posterior, without pickled code."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import jax
import numpy as np
from scipy import sparse

from bayesrank._states import no_state, read_arrays, write_arrays
from bayesrank._version import __version__
from bayesrank.estimators.skills import components
from bayesrank.estimators.times import Clock
from bayesrank.infer import EPResult, IntegratedEPResult
from bayesrank.models import dynamic_thurstone, preference_gp, thurstone

if TYPE_CHECKING:
    from bayesrank.estimators.pairwise import PairwiseRanker

    Ranker = TypeVar("Ranker", bound=PairwiseRanker)

__all__ = ["read_ranker", "write_ranker"]

_OWNER = "a PairwiseRanker"
_FORMAT = 1
_HEADER = "header"
_PROGRAMS = {each.__name__: each for each in (dynamic_thurstone, preference_gp, thurstone)}
_RESULTS = {"EPResult": EPResult, "IntegratedEPResult": IntegratedEPResult}
_OPTIONS = (
    *("ard", "standardize", "time", "likelihood", "hyperparameters"),
    *("num_restarts", "num_samples"),
)
_SCALES = ("feature_mean_", "feature_scale_", "laplacian_")


def write_ranker(path: str | Path, ranker: PairwiseRanker) -> None:
    """Write a fitted ranker; see `PairwiseRanker.save`."""
    result = ranker.result
    found = {each.name: getattr(result, each.name) for each in fields(result)}
    found["model"] = result.model.__name__
    if "rng_key" in found:
        found["rng_key"] = np.asarray(jax.random.key_data(found["rng_key"]))
    seed = ranker.random_state
    arrays: dict[str, Any] = {}
    tree = _plain(
        {
            "options": {name: getattr(ranker, name) for name in _OPTIONS},
            "random_state": seed if isinstance(seed, int) else None,
            "names": tuple(ranker.names_),
            "clock": dict(ranker.clock_._asdict()) if ranker.time else None,
            "scales": {name: getattr(ranker, name, None) for name in _SCALES},
            "kind": type(result).__name__,
            "result": found,
            "params": ranker.params_,
        },
        arrays,
    )
    header = {"format": _FORMAT, "version": __version__, "ranker": tree}
    arrays[_HEADER] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    write_arrays(path, arrays)


def read_ranker(path: str | Path, kind: type[Ranker]) -> Ranker:
    """Read a file of `write_ranker`; see `PairwiseRanker.load`."""
    arrays = read_arrays(path, _OWNER)
    try:
        header = json.loads(arrays[_HEADER].tobytes().decode())
        if header["format"] != _FORMAT:
            raise ValueError(f"its format is {header['format']}, and {_FORMAT} is read")
        ranker = _restored(_decoded(header["ranker"], arrays), kind)
        # What does not fit together does not answer.
        ranker.predict_proba([ranker.names_[:2]])
        ranker.rank()
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise no_state(path, _OWNER, " ".join(str(error).split())) from None
    return ranker


def _restored(tree: dict[str, Any], kind: type[Ranker]) -> Ranker:
    found, scales, names = tree["result"], tree["scales"], list(tree["names"])
    found["model"] = _PROGRAMS[found["model"]]
    if "rng_key" in found:
        found["rng_key"] = jax.random.wrap_key_data(found["rng_key"])
    known = found["model_args"][0]
    features = None
    if scales["feature_mean_"] is not None:
        features = known * scales["feature_scale_"] + scales["feature_mean_"]
    ranker = kind(
        item_features=features,
        items=names,
        laplacian=scales["laplacian_"],
        random_state=tree["random_state"],
        **tree["options"],
    )
    ranker.names_, ranker.result_ = names, _RESULTS[tree["kind"]](**found)
    ranker.params_, ranker.log_evidence_ = tree["params"], ranker.result_.log_evidence
    if ranker.time is not None:
        ranker.clock_ = Clock(**tree["clock"])
    if features is not None:
        for name, value in scales.items():
            setattr(ranker, name, value)
    for part in components(ranker.result_):
        if not part.covariance.shape == part.mean.shape * 2 == (len(names),) * 2:
            raise ValueError("names and skills are not as many")
    return ranker


def _plain(value: Any, arrays: dict[str, Any]) -> Any:
    """Return a tree that JSON can hold, with its arrays put aside."""
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if sparse.issparse(value):
        return {"sparse": _plain(value.toarray(), arrays)}
    if isinstance(value, np.ndarray | jax.Array):
        name = str(len(arrays))
        arrays[name] = np.asarray(value)
        return {"array": name}
    if isinstance(value, tuple | list):
        return {"tuple": [_plain(each, arrays) for each in value]}
    if isinstance(value, dict) and all(isinstance(name, str) for name in value):
        return {"dict": {name: _plain(each, arrays) for name, each in value.items()}}
    raise ValueError(
        f"a {type(value).__name__} cannot be written: {value!r}; names and options have to be "
        "text, numbers or arrays"
    )


def _decoded(tree: Any, arrays: dict[str, Any]) -> Any:
    """Undo `_plain`."""
    if not isinstance(tree, dict):
        return tree
    [(kind, value)] = tree.items()
    if kind == "array":
        return arrays[value]
    if kind == "sparse":
        return sparse.csr_array(_decoded(value, arrays))
    if kind == "tuple":
        return tuple(_decoded(each, arrays) for each in value)
    if kind == "dict":
        return {name: _decoded(each, arrays) for name, each in value.items()}
    raise ValueError(f"its header has a {kind!r}")
