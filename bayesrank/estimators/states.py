"""A fitted ranker in a file: its options, its names and its posterior, without pickled code."""

import math
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Self

import jax
import numpy as np

from bayesrank import models
from bayesrank._memory import check_memory
from bayesrank._states import check_axes, check_covariances
from bayesrank._validate import check_count
from bayesrank.datasets import ComparisonData
from bayesrank.estimators.checks import graph_laplacian
from bayesrank.estimators.columns import linked
from bayesrank.estimators.saved import Saved, kept_seed
from bayesrank.estimators.skills import posterior_of
from bayesrank.estimators.times import TimeRange
from bayesrank.infer import EPResult, IntegratedEPResult
from bayesrank.infer.spi import posterior_from, posterior_state
from bayesrank.ranking import ItemRecords
from bayesrank.solvers.comparisons import ArenaFit

_PROGRAMS = {name: getattr(models, name) for name in models.__all__}
_RESULTS = {each.__name__: each for each in (EPResult, IntegratedEPResult)}
# What the posterior says of itself, or what is written in another form.
_NO_OPTIONS = {"item_features", "items", "laplacian", "random_state"}
_FEATURES = {"features": "nd", "feature_mean_": "d", "feature_scale_": "d"}
_AXES = {
    "joint_mean": "n",
    "weights": "k",
    "component_means": "kn",
    "component_covariances": "knn",
    "heights": "k",
}
_DRAWN = {"draws", "hyperparameters", "log_proposals"}
_SCALES = ("feature_mean_", "feature_scale_", "laplacian_")
_NAMES = ("names_", "judge_names_", "category_names_")
_LEARNED = (
    *("position_label_", "components_", "num_judged_", "hyperparameters_"),
    "category_shares_",
)
_VARIANCES = ("bias_variance", "log_reliability_variance")
_FIT_AXES = {
    "mean": "m",
    "covariance": "mm",
    "log_reliability": "j",
    "log_reliability_variance": "j",
}


class StoredRanker(Saved):
    """A ranker of named items in a file."""

    def _state(self) -> dict[str, Any]:
        ranker: Any = self
        result = ranker.result
        options = {k: v for k, v in ranker.get_params().items() if k not in _NO_OPTIONS}
        names = ranker.feature_names_in_
        return {
            "feature_names": () if names is None else tuple(map(str, names)),
            "options": options,
            "random_state": kept_seed(ranker.random_state),
            "names": tuple(ranker.names_),
            "time_range": getattr(ranker, "time_range_", None) if options.get("time") else None,
            "scales": {name: getattr(ranker, name, None) for name in _SCALES},
            "kind": type(result).__name__,
            "result": _result_tree(result),
            "params": ranker.params_,
            "choice": ranker.hyperparameters_,
        }

    @classmethod
    @np.errstate(all="ignore")  # what overflows is refused
    def _restored(cls, state: dict[str, Any]) -> Self:
        scales, names = state["scales"], list(state["names"])
        _check_names(names, kinds=(str, int, float))
        result = _result_from(_RESULTS[state["kind"]], state["result"])
        features = None
        if scales["feature_mean_"] is not None:
            known = result.model_args[0]
            check_axes({"features": known, **scales}, _FEATURES)
            features = known * scales["feature_scale_"] + scales["feature_mean_"]
        options = {**state["options"], "random_state": state["random_state"]}
        if scales["laplacian_"] is not None:
            options["laplacian"] = graph_laplacian(scales["laplacian_"], np.asarray(features))
            graph_laplacian(result.model_kwargs["laplacian"], np.asarray(features))
        ranker: Any = cls()
        ranker.set_params(item_features=features, items=names, **options)
        ranker.names_, ranker.result_ = names, result
        ranker.params_, ranker.log_evidence_ = state["params"], result.log_evidence
        learned = {} if features is None else scales
        if state["feature_names"]:
            ranker.feature_names_in_ = np.array(state["feature_names"], object)
        if state["time_range"] is not None:
            learned = {"time_range_": TimeRange(**state["time_range"])}
        for name, value in learned.items():
            setattr(ranker, name, value)
        _check_whole(ranker, options.get("time"))
        ranker.posterior_ = posterior_of(result, ranker.likelihood)
        ranker.hyperparameters_ = state["choice"]
        _, *evidence = result.model_args
        if len(evidence) > 1 and features is None:
            ranker.components_ = linked(len(names), *evidence)
        elif len(evidence) == 1:
            tied = np.asarray(result.model_kwargs.get("outcomes", np.zeros(len(evidence[0])))) == 1
            weights = result.model_kwargs.get("weights")
            data = ComparisonData(tuple(names), evidence[0], tied, features, weights=weights)
            ranker._count(data)
        _refuse_what_overflows(ranker)
        return ranker


def _check_whole(ranker: Any, time: str | None) -> None:
    """Refuse names, hyperparameters and options that do not fit the posterior."""
    result = ranker.result_
    if result.shapes["f"] != (len(ranker.names_),):
        raise ValueError("names and skills are not as many")
    for name, value in ranker.params_.items():
        _check_param(name, value)
    if ranker.likelihood != result.model_kwargs.get("likelihood", ranker.likelihood):
        raise ValueError("it was fitted by another likelihood")
    if (time is None) is ("process" in result.model_kwargs):
        raise ValueError("its time fits no skills that move")


class StoredLogRanker(Saved):
    """A ranker of a log in a file."""

    def _state(self) -> dict[str, Any]:
        ranker: Any = self
        names = {name: getattr(ranker, name) for name in _NAMES}
        if not all(isinstance(each, str | int) for some in names.values() for each in some):
            raise ValueError("a name is neither text nor a whole number; rename it to save")
        averaged = ranker.hyperparameters_ == "integrate"
        options = ranker.get_params() | {"random_state": kept_seed(ranker.random_state)}
        del options["items"]  # those of the fit are beside them
        return {
            **names,
            "options": options,
            "learned": {name: getattr(ranker, name) for name in _LEARNED},
            "averaged": averaged,
            "records": ranker.records_,
            "result": _result_tree(ranker.result) if averaged else ranker.result,
        }

    @classmethod
    @np.errstate(all="ignore")  # what overflows is refused
    def _restored(cls, state: dict[str, Any]) -> Self:
        names = {name: state[name] for name in _NAMES}
        _check_names(*names.values())
        options: dict[str, Any] = {"items": names["names_"], **state["options"]}
        ranker: Any = cls(**options)
        check_count(ranker.num_samples, "num_samples")
        for name, value in {**names, **state["learned"]}.items():
            setattr(ranker, name, value)
        if not np.isfinite(np.asarray(ranker.num_judged_, float)).all():
            raise ValueError("a number of judgements is not finite")
        if state["averaged"]:
            result = _result_from(IntegratedEPResult, state["result"])
            params = {name: result.mean[name] for name in result.hyperparameters}
            [num_skills] = result.shapes["f"]
        else:
            result = ArenaFit(**state["result"])
            _check_fit(result, len(ranker.category_names_))
            params = {name: np.asarray(value) for name, value in result.scales.items()}
            num_skills = result.num_items
        if not num_skills == len(ranker.names_) == len(ranker.components_):
            raise ValueError("names and skills are not as many")
        ranker.result_, ranker.params_ = result, params
        if state.get("records") is not None:
            ranker.records_ = ItemRecords(**state["records"])
        ranker.posterior_ = posterior_of(result)
        ranker.notes()  # what does not fit together does not answer
        if not np.isfinite([each[2:] for each in ranker.effects()]).all():
            raise ValueError("an effect is not finite")
        if ranker.judge_names_ and not np.isfinite(ranker.judges().to_numpy(float)).all():
            raise ValueError("a judge's reliability is not finite")
        _refuse_what_overflows(ranker)
        return ranker


def _check_param(name: str, value: Any) -> None:
    """Refuse all but a positive number, or, of a kernel, one for each feature."""
    array = np.asarray(value)
    ranks = {0, 1} if name == "lengthscale" else {0}
    if (
        array.ndim not in ranks
        or array.dtype.kind not in "iuf"
        or not ((array > 1e-100) & (array < 1e100)).all()
    ):
        raise ValueError(f"its {name} is not a hyperparameter")


def _check_names(*names: Sequence[Any], kinds: tuple[type, ...] = (str, int)) -> None:
    if not all(isinstance(each, kinds) for some in names for each in some):
        raise ValueError("a name is neither text nor a number")
    if any(len(set(some)) < len(some) for some in names):
        raise ValueError("a name is there twice")


def _refuse_what_overflows(ranker: Any) -> None:
    if not all(np.isfinite(each).all() for each in ranker.predict()):
        raise ValueError("its skills are not finite")


def _check_fit(fit: ArenaFit, num_categories: int) -> None:
    arrays = fit._asdict()
    if fit.num_categories != num_categories:
        raise ValueError("names and skills of categories are not as many")
    size = fit.num_items * (1 + num_categories) + fit.with_position + fit.with_ties
    check_axes(arrays, _FIT_AXES, {"m": size})
    # The log tie width comes last, and may be given: then nothing of it is uncertain.
    given = fit.with_ties and not np.any(fit.covariance[-1]) and not np.any(fit.covariance[:, -1])
    free = slice(size - given)
    check_covariances({"covariance": fit.covariance[free, free]}, "covariance")
    for name, scale in fit.scales.items():
        _check_param(name, scale)
    if not all((arrays[name] >= 0.0).all() for name in _VARIANCES):
        raise ValueError("a judge has a negative variance")


def _result_tree(result: EPResult | IntegratedEPResult) -> dict[str, Any]:
    """Fields of a result by name, with its program as a name and its key as numbers."""
    found = {each.name: getattr(result, each.name) for each in fields(result)}
    found["posterior"] = posterior_state(result.posterior)
    found["model"] = result.model.__name__
    if "rng_key" in found:
        found["rng_key"] = np.asarray(jax.random.key_data(found["rng_key"]))
    if found.get("seed") is not None:  # the draws follow from it
        found = {name: each for name, each in found.items() if name not in _DRAWN}
        found["num_samples"] = result.num_samples
    return found


def _result_from(kind: Any, found: dict[str, Any]) -> Any:
    """Undo `_result_tree`; `kind` is the class."""
    found["model"] = _PROGRAMS[found["model"]]
    for name, value in found.get("params", {}).items():
        _check_param(name, value)
    size = sum(math.prod(each) for each in found["shapes"].values())
    check_axes(found, _AXES, {"n": size})
    check_covariances(found, "component_covariances")
    found["posterior"] = posterior_from(found["posterior"])
    if found["posterior"].variances.shape != (size,):
        raise ValueError("its mean and its covariances are of other numbers of latents")
    if "rng_key" in found:
        found["rng_key"] = jax.random.wrap_key_data(found["rng_key"])
    if found.get("seed") is not None:
        count = check_count(found.pop("num_samples"), "num_samples")
        check_memory(24 * count * size, f"{count:,} draws of {size:,} latents", "save fewer")
        return kind.with_draws(count, **found)
    return kind(**found)
