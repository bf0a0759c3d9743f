"""How `LabelRanker` learns: its hyperparameters, and its kernel by the evidence."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from bayesrank.estimators.checks import check_hyperparameters
from bayesrank.estimators.inference import inferred
from bayesrank.estimators.options import seed_of
from bayesrank.infer import EPResult, IntegratedEPResult
from bayesrank.models.label_ranking import LabelConditions, calibrated_label_ranking
from bayesrank.solvers.label_ranking import check_label_memory

if TYPE_CHECKING:
    from bayesrank.estimators.label_ranking import LabelRanker

__all__ = ["LabelFit", "fit_labels"]

Array = NDArray[np.float64]

_MOST_WEIGHTS = 500  # of a basis that is tried unasked: time goes with their cube
_POINTS = 32  # that an average over hyperparameters takes at the least


class LabelFit(NamedTuple):
    """The posterior of levels and weights, its hyperparameters or their means, and its basis."""

    result: EPResult | IntegratedEPResult
    params: dict[str, Any]
    basis: Array | None  # points of the basis, shape (m, d); None where utilities are linear


def fit_labels(
    asked: LabelRanker,
    features: Array,
    data: LabelConditions,
    num_labels: int,
    calibrated: bool,
    callback: Callable[[int, float], None] | None,
) -> LabelFit:
    """Fit with the kernel asked for; "auto" takes the one with the larger evidence."""
    args = features, *data, num_labels
    options: dict[str, Any] = {"calibrated": calibrated, "correlated": bool(asked.correlated)}
    search: dict[str, Any] = {"num_restarts": asked.num_restarts, "callback": callback}
    bases = _bases(asked, features, num_labels)
    with threadpool_limits(1, user_api="blas"):  # small matrices, many of them
        if len(bases) == 1:
            return _fit(asked, args, options, bases[0], search)
        if asked.hyperparameters != "integrate":
            return _better([_fit(asked, args, options, basis, search) for basis in bases])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the last fit has its own
            best = _better([_fit(asked, args, options, basis, search, "map") for basis in bases])
        search["init"] = {k: v for k, v in best.params.items() if k != "correlation"}
        fixed = {k: v for k, v in best.params.items() if k == "correlation"}
        return _fit(asked, args, options, best.basis, search, fixed=fixed)


def _better(fits: list[LabelFit]) -> LabelFit:
    """The converged fit with the largest evidence; any fit if none has converged."""
    return max(fits, key=lambda fit: (fit.result.converged, fit.result.log_evidence))


def _bases(asked: LabelRanker, features: Array, num_labels: int) -> list[Array | None]:
    """Points of the bases to try; None stands for linear utilities."""
    if asked.kernel == "linear":
        return [None]
    basis, given = _basis(asked, features), asked.hyperparameters
    if asked.kernel == "rbf" or (isinstance(given, Mapping) and "lengthscale" in given):
        return [basis]
    return [None, basis] if num_labels * (len(basis) + 1) <= _MOST_WEIGHTS else [None]


def _fit(
    asked: LabelRanker,
    args: tuple[Any, ...],
    options: dict[str, Any],
    basis: Array | None,
    search: dict[str, Any],
    instead: str | None = None,
    fixed: Mapping[str, Any] | None = None,
) -> LabelFit:
    """Fit with one basis, by the choice asked for or by `instead`."""
    shapes: dict[str, tuple[int, ...]] = {"scale": ()}
    if basis is not None:
        shapes, options = shapes | {"lengthscale": ()}, options | {"basis": basis}
    shapes |= {"zero_noise": ()} if options["calibrated"] else {}
    given, choice = _choice(asked, shapes, args[-1])
    given, choice = given | dict(fixed or {}), instead or choice
    width = args[0].shape[1] if basis is None else len(basis)
    check_label_memory(len(args[0]), args[-1], width, _POINTS if choice == "integrate" else 1)
    key = jax.random.key(seed_of(asked.random_state))
    program = calibrated_label_ranking, args, options
    if choice == "integrate":
        if options["correlated"] and not given:
            best = inferred(*program, tuple(shapes), given, "map", key, search)[1]
            given = {"correlation": best["correlation"]}
    return LabelFit(*inferred(*program, tuple(shapes), given, choice, key, search), basis)


def _choice(
    ranker: LabelRanker, shapes: dict[str, tuple[int, ...]], num_labels: int
) -> tuple[dict[str, Array], str]:
    """Hyperparameters that are fixed, and what is done about the others."""
    asked, correlation = ranker.hyperparameters, None
    if isinstance(asked, Mapping) and "correlation" in asked:
        asked = dict(asked)
        correlation = _check_correlation(asked.pop("correlation"), num_labels)
    params, choice = check_hyperparameters(asked, shapes, ("integrate", "map", "prior"))
    if correlation is not None and not ranker.correlated:
        raise ValueError("hyperparameters names 'correlation', which needs correlated=True")
    if correlation is not None:
        params["correlation"] = correlation
    elif ranker.correlated and choice == "prior":
        if isinstance(asked, Mapping):
            return params, "map"
        params["correlation"] = np.eye(num_labels)
    return params, choice


def _basis(ranker: LabelRanker, features: Array) -> Array:
    """Centres of the examples, or the examples themselves where they are few."""
    points = np.unique(features, axis=0)
    if len(points) <= ranker.n_basis:
        return points
    seed = seed_of(ranker.random_state)
    return KMeans(ranker.n_basis, n_init="auto", random_state=seed).fit(points).cluster_centers_


def _check_correlation(correlation: Any, num_labels: int) -> Array:
    matrix = np.asarray(correlation, float)
    known = matrix.shape == (num_labels, num_labels) and np.isfinite(matrix).all()
    known = known and np.allclose(matrix, matrix.T) and np.allclose(np.diagonal(matrix), 1.0)
    if not known or np.linalg.eigvalsh(matrix)[0] <= 0:
        raise ValueError(
            f"hyperparameters['correlation'] is not a correlation of {num_labels} labels; pass a "
            "symmetric, positive definite matrix with ones on its diagonal"
        )
    return matrix
