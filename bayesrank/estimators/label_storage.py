"""A fitted `LabelRanker` in a file: what forecasts need, without pickled code."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bayesrank._states import check_axes, check_covariances
from bayesrank.estimators.label_posterior import LabelPosterior
from bayesrank.estimators.saved import Saved, kept_seed

_AXES = {
    "mean": "klw",
    "basis": "md",
    "weights": "k",
    "covariance": "knn",
    "lengthscale": "k",
    "zero_noise": "k",
    "features": "d",
    "scale": "d",
}


class StoredLabelRanker(Saved):
    """A ranker of labels in a file."""

    def _state(self) -> dict[str, Any]:
        ranker: Any = self
        labels = ranker.labels_.tolist()
        if not all(isinstance(name, str | int | float) for name in labels):
            raise ValueError("labels are neither text nor numbers, which files cannot keep")
        options = ranker.get_params() | {"random_state": kept_seed(ranker.random_state)}
        del options["labels"]  # those of the fit are beside them
        names = getattr(ranker, "feature_names_in_", None)
        return {
            "options": options,
            "labels": labels,
            "calibrated": ranker.calibrated_,
            "feature_names": None if names is None else names.tolist(),
            "params": ranker.params_,
            "log_evidence": ranker.log_evidence_,
            "posterior": ranker.posterior_,
            "mean": ranker.feature_mean_,
            "scale": ranker.feature_scale_,
        }

    @classmethod
    def _restored(cls, state: dict[str, Any]) -> Self:
        ranker: Any = cls(**state["options"])
        posterior = LabelPosterior(**state["posterior"])
        fits, labels, width = posterior.mean.shape
        mean, scale = state["mean"], state["scale"]
        features = (len(posterior.basis) or mean.size) + 1
        sizes = {"k": fits, "n": labels * width, "d": mean.size}
        if any(array is None for array in posterior):
            raise ValueError("it lacks a part")
        if not len(posterior.basis):
            posterior = posterior._replace(basis=np.zeros((0, mean.size)))
        check_axes(posterior._asdict() | {"features": mean, "scale": scale}, _AXES, sizes)
        check_covariances(state["posterior"], "covariance")
        scales = [] if posterior.basis.size == 0 else [posterior.lengthscale]
        if (
            not all((each > 0.0).all() for each in (scale, *scales))
            or (posterior.zero_noise < 0).any()
        ):
            raise ValueError("a scale is not positive")
        names = state["feature_names"] or []
        if not all(isinstance(name, str) for name in names) or len(names) not in (0, mean.size):
            raise ValueError("its features have other names")
        if len(state["labels"]) != labels or width != features:
            raise ValueError("its parts do not fit together")
        ranker.posterior_, ranker.labels_ = posterior, named_array(state["labels"])
        ranker.calibrated_ = bool(state["calibrated"])
        ranker.params_ = {name: np.asarray(value) for name, value in state["params"].items()}
        ranker.log_evidence_ = float(state["log_evidence"])
        ranker.feature_mean_, ranker.feature_scale_ = mean, scale
        ranker.n_features_in_ = mean.size
        if names:
            ranker.feature_names_in_ = np.array(names, object)
        return ranker


def named_array(labels: list[Any]) -> NDArray[Any]:
    """Names as an array, of objects unless all are of one type."""
    kinds = {type(name) for name in labels}
    if len(kinds) == 1 and kinds <= {str, int, float, bool}:
        return np.array(labels)
    array = np.empty(len(labels), object)
    array[:] = labels
    return array
