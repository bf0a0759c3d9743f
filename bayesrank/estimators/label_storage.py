"""A fitted `LabelRanker` in a file: what forecasts need, without pickled code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bayesrank._states import no_state, read_arrays, write_arrays
from bayesrank.estimators.label_posterior import LabelPosterior

if TYPE_CHECKING:
    from bayesrank.estimators.label_ranking import LabelRanker

    Ranker = TypeVar("Ranker", bound=LabelRanker)

__all__ = ["named_array", "read_labels", "write_labels"]

_OWNER = "a LabelRanker"
_FORMAT = 1
_OPTIONS = (
    "kernel", "n_basis", "calibrated", "correlated", "hyperparameters", "standardize",
    "num_restarts",
)  # fmt: skip


def write_labels(path: str | Path, ranker: LabelRanker) -> None:
    """Write a fitted ranker; see `LabelRanker.save`."""
    labels = ranker.labels_.tolist()
    if not all(isinstance(name, str | int | float) for name in labels):
        raise ValueError("labels are neither text nor numbers, which files cannot keep")
    options = {name: getattr(ranker, name) for name in _OPTIONS}
    if isinstance(ranker.hyperparameters, Mapping):
        given = {k: np.asarray(v, float).tolist() for k, v in ranker.hyperparameters.items()}
        options["hyperparameters"] = given
    names = getattr(ranker, "feature_names_in_", None)
    header = {
        "format": _FORMAT,
        "options": options,
        "labels": labels,
        "calibrated": ranker.calibrated_,
        "feature_names": None if names is None else names.tolist(),
        "params": {k: np.asarray(v, float).tolist() for k, v in ranker.params_.items()},
        "log_evidence": ranker.log_evidence_,
    }
    arrays = {f"posterior.{k}": v for k, v in ranker.posterior_._asdict().items()}
    write_arrays(
        path,
        {
            **arrays,
            "mean": ranker.feature_mean_,
            "scale": ranker.feature_scale_,
            "header": np.frombuffer(json.dumps(header).encode(), np.uint8),
        },
    )


def read_labels(path: str | Path, kind: type[Ranker]) -> Ranker:
    """Read a ranker that `write_labels` wrote; see `LabelRanker.load`."""
    arrays = read_arrays(path, _OWNER)
    try:
        header = json.loads(arrays["header"].tobytes().decode())
        if header["format"] != _FORMAT:
            raise ValueError(f"its format is {header['format']}, and {_FORMAT} is read")
        ranker = kind(**header["options"])
        _take(ranker, header, arrays)
    except (LookupError, TypeError, ValueError) as error:
        raise no_state(path, _OWNER, " ".join(str(error).split())) from None
    return ranker


def _take(ranker: LabelRanker, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    parts = [arrays[f"posterior.{name}"] for name in LabelPosterior._fields]
    posterior = LabelPosterior(*parts)
    fits, labels, width = posterior.mean.shape
    mean, scale = arrays["mean"], arrays["scale"]
    wanted = {
        "weights": (fits,),
        "covariance": (fits, labels * width, labels * width),
        "lengthscale": (fits,),
        "zero_noise": (fits,),
    }
    features = (len(posterior.basis) or mean.size) + 1
    whole = all(getattr(posterior, name).shape == shape for name, shape in wanted.items())
    if not whole or len(header["labels"]) != labels or width != features:
        raise ValueError("its parts do not fit together")
    if mean.ndim != 1 or scale.shape != mean.shape:
        raise ValueError("its parts do not fit together")
    ranker.posterior_, ranker.labels_ = posterior, named_array(header["labels"])
    ranker.calibrated_ = bool(header["calibrated"])
    ranker.params_ = {name: np.asarray(value) for name, value in header["params"].items()}
    ranker.log_evidence_ = float(header["log_evidence"])
    ranker.feature_mean_, ranker.feature_scale_ = mean, scale
    features_of: Any = ranker
    features_of.n_features_in_ = mean.size
    if header["feature_names"] is not None:
        features_of.feature_names_in_ = np.array(header["feature_names"], object)


def named_array(labels: list[Any]) -> NDArray[Any]:
    """Names as an array, of which one kind stays what it is."""
    kinds = {type(name) for name in labels}
    if len(kinds) == 1 and kinds <= {str, int, float, bool}:
        return np.array(labels)
    array = np.empty(len(labels), object)
    array[:] = labels
    return array
