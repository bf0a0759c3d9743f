"""A fitted `ArenaRanker` in a file, without pickled code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from bayesrank._states import no_state, read_arrays, write_arrays
from bayesrank._version import __version__
from bayesrank.estimators.arena_posterior import Averaged, Learned
from bayesrank.estimators.storage import decoded, plain, result_from, result_tree
from bayesrank.infer import IntegratedEPResult
from bayesrank.solvers.comparisons import ArenaFit

if TYPE_CHECKING:
    from bayesrank.estimators.arena import ArenaRanker

    Ranker = TypeVar("Ranker", bound=ArenaRanker)

__all__ = ["read_arena", "write_arena"]

_OWNER = "an ArenaRanker"
_FORMAT = 2
_HEADER = "header"
_NAMES = ("names_", "judge_names_", "group_names_")
_LEARNED = ("position_label_", "components_", "num_judged_", "hyperparameters_")


def write_arena(path: str | Path, ranker: ArenaRanker) -> None:
    """Write a fitted ranker; see `ArenaRanker.save`."""
    names = {name: getattr(ranker, name) for name in _NAMES}
    if not all(isinstance(each, str | int) for some in names.values() for each in some):
        raise ValueError("a name is neither text nor a whole number; rename it to save")
    result, chosen = ranker.result, ranker.hyperparameters
    averaged = isinstance(result, IntegratedEPResult)
    seed = ranker.random_state if isinstance(ranker.random_state, int) else None
    arrays: dict[str, Any] = {}
    tree = plain(
        {
            "options": {
                "hyperparameters": dict(chosen) if isinstance(chosen, Mapping) else chosen,
                "num_samples": ranker.num_samples,
                "random_state": seed,
            },
            "learned": {name: getattr(ranker, name) for name in _LEARNED},
            "averaged": averaged,
            "result": result_tree(result) if averaged else result._asdict(),
        },
        arrays,
    )
    header = {"format": _FORMAT, "version": __version__, "names": names, "ranker": tree}
    arrays[_HEADER] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    write_arrays(path, arrays)


def read_arena(path: str | Path, kind: type[Ranker]) -> Ranker:
    """Read a file of `write_arena`; see `ArenaRanker.load`."""
    arrays = read_arrays(path, _OWNER)
    try:
        header = json.loads(arrays.pop(_HEADER).tobytes().decode())
        if header["format"] != _FORMAT:
            raise ValueError(f"its format is {header['format']}, and {_FORMAT} is read")
        tree = decoded(header["ranker"], arrays)
        ranker = kind(items=header["names"]["names_"], **tree["options"])
        for name, value in {**header["names"], **tree["learned"]}.items():
            setattr(ranker, name, value)
        if tree["averaged"]:
            ranker.posterior_ = Averaged(result_from(IntegratedEPResult, tree["result"]))
        else:
            ranker.posterior_ = Learned(ArenaFit(**tree["result"]), ranker.num_samples)
        ranker.result_, ranker.params_ = ranker.posterior_.result, ranker.posterior_.scales
        ranker.rank()  # what does not fit together does not answer
        ranker.judges()
        ranker.predict_proba([ranker.names_[:2]])
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise no_state(path, _OWNER, " ".join(str(error).split())) from None
    return ranker
