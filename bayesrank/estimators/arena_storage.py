"""A fitted `ArenaRanker` in a file, without pickled code."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from bayesrank._states import check_axes, check_covariances, write_state
from bayesrank._validate import check_count
from bayesrank.estimators.arena_posterior import Averaged, Learned
from bayesrank.estimators.storage import result_from, result_tree
from bayesrank.infer import IntegratedEPResult
from bayesrank.solvers.comparisons import ArenaFit

if TYPE_CHECKING:
    from bayesrank.estimators.arena import ArenaRanker

    Ranker = TypeVar("Ranker", bound=ArenaRanker)

__all__ = ["restored", "write_arena"]

_NAMES = ("names_", "judge_names_", "group_names_")
_LEARNED = ("position_label_", "components_", "num_judged_", "hyperparameters_")
_VARIANCES = ("bias_variance", "log_reliability_variance")
_AXES = {
    "mean": "m",
    "covariance": "mm",
    "group_skills": "cn",
    "group_covariance": "cmm",
    "log_reliability": "j",
    "log_reliability_variance": "j",
}


def write_arena(path: str | Path, ranker: ArenaRanker) -> None:
    """Write a fitted ranker; see `ArenaRanker.save`."""
    names = {name: getattr(ranker, name) for name in _NAMES}
    if not all(isinstance(each, str | int) for some in names.values() for each in some):
        raise ValueError("a name is neither text nor a whole number; rename it to save")
    averaged = isinstance(ranker.result, IntegratedEPResult)
    options = {
        "hyperparameters": ranker.hyperparameters,
        "num_samples": ranker.num_samples,
        "random_state": ranker.random_state if isinstance(ranker.random_state, int) else None,
    }
    state = {
        **names,
        "options": options,
        "learned": {name: getattr(ranker, name) for name in _LEARNED},
        "averaged": averaged,
        "result": result_tree(ranker.result) if averaged else ranker.result,
    }
    write_state(path, type(ranker).__name__, state)


def restored(kind: type[Ranker], state: dict[str, Any]) -> Ranker:
    """Make a fitted ranker of what `write_arena` wrote of one; refuse what does not fit."""
    names = {name: state[name] for name in _NAMES}
    ranker = kind(items=names["names_"], **state["options"])
    check_count(ranker.num_samples, "num_samples")
    for name, value in {**names, **state["learned"]}.items():
        setattr(ranker, name, value)
    if state["averaged"]:
        ranker.posterior_ = Averaged(result_from(IntegratedEPResult, state["result"]))
        [num_skills] = ranker.posterior_.result.shapes["f"]
    else:
        fit = ArenaFit(**state["result"])
        _check_fit(fit, len(ranker.group_names_))
        ranker.posterior_, num_skills = Learned(fit, ranker.num_samples), fit.num_items
    if not num_skills == len(ranker.names_) == len(ranker.components_):
        raise ValueError("names and skills are not as many")
    ranker.result_, ranker.params_ = ranker.posterior_.result, ranker.posterior_.scales
    ranker.judges()  # what does not fit together does not answer
    return ranker


def _check_fit(fit: ArenaFit, num_groups: int) -> None:
    arrays = fit._asdict()
    sizes = {"m": fit.num_items + fit.with_position + fit.with_ties, "n": fit.num_items}
    check_axes(arrays, _AXES, sizes | {"c": num_groups})
    check_covariances(arrays, "covariance", "group_covariance")
    if not all((arrays[name] >= 0.0).all() for name in _VARIANCES):
        raise ValueError("a judge has a negative variance")
