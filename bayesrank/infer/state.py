"""A posterior as arrays by name, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bayesrank._states import check_axes, check_covariances
from bayesrank.infer.gaussian.low_rank import LowRankGaussian
from bayesrank.infer.gaussian.sparse import Probes, ShortRows, SparseGaussian, SparsePattern
from bayesrank.infer.posterior import (
    DensePosterior,
    FactorisedPosterior,
    KeptPosterior,
    ProbedPosterior,
)

KeptArrays = dict[str, Any]

_AXES = {
    "values": "gr",
    "columns": "gr",
    "variances": "n",
    "tau": "g",
    "nu": "g",
    "own": "n",
    "right": "ns",
    "draws": "ns",
    "factor": "nm",
    "explained": "nm",
}


def posterior_state(posterior: KeptPosterior) -> KeptArrays:
    """What `posterior_from` makes the same posterior of: its structure, and arrays."""
    return {"structure": posterior.structure, **posterior.arrays()}


def posterior_from(state: Mapping[str, Any]) -> KeptPosterior:
    """Undo `posterior_state`; a ValueError or LookupError where it does not fit together."""
    if state["structure"] == "dense":
        check_axes(state, {"covariance": "nn"})
        check_covariances(state, "covariance")
        return DensePosterior(state["covariance"])
    if state["structure"] not in _MAKERS:
        raise ValueError(f"its structure is {state['structure']!r}")
    arrays = {name: state[name] for name in _AXES if name in state}
    sizes = check_axes({"columns": arrays["columns"]}, {"columns": "gr"}, kinds="iu")
    check_axes(arrays, {name: axes for name, axes in _AXES.items() if name != "columns"}, sizes)
    for name in ("variances", "own"):
        if name in arrays and not (arrays[name] > 0.0).all():
            raise ValueError(f"its array {name!r} has a variance that is not positive")
    columns = arrays["columns"]
    if columns.size and not 0 <= columns.min() <= columns.max() < sizes["n"]:
        raise ValueError("its rows name latents that it does not have")
    rows = ShortRows(arrays["values"], columns, sizes["n"])
    return _MAKERS[state["structure"]](rows, arrays)


def _factorised(rows: ShortRows, arrays: KeptArrays) -> KeptPosterior:
    names = "variances", "tau", "nu"
    return FactorisedPosterior(arrays["own"], rows, *(arrays[name] for name in names))


def _probed(rows: ShortRows, arrays: KeptArrays) -> KeptPosterior:
    gaussian = SparseGaussian(SparsePattern(rows), arrays["variances"], arrays["tau"], arrays["nu"])
    return ProbedPosterior(gaussian, Probes(arrays["right"], arrays["draws"]))


def _low_rank(rows: ShortRows, arrays: KeptArrays) -> KeptPosterior:
    names = "factor", "variances", "tau", "nu", "explained"
    gaussian = LowRankGaussian(SparsePattern(rows), *(arrays[name] for name in names))
    return ProbedPosterior(gaussian, Probes(arrays["right"], arrays["draws"]))


_MAKERS: dict[str, Callable[[ShortRows, KeptArrays], KeptPosterior]] = {
    "factorised": _factorised,
    "probes": _probed,
    "low_rank": _low_rank,
}
