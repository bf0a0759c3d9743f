"""How `LabelRanker` infers: hyperparameters given, those that are learned, and the posterior."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from bayesrank.estimators.base import engine_of, integrator_of, prior_medians
from bayesrank.estimators.checks import check_hyperparameters
from bayesrank.infer import EPResult, IntegratedEPResult, maximize_evidence
from bayesrank.models.label_ranking import calibrated_label_ranking

if TYPE_CHECKING:
    from bayesrank.estimators.label_ranking import LabelRanker

__all__ = ["inferred"]

Array = NDArray[np.float64]


def inferred(
    ranker: LabelRanker,
    args: tuple[Any, ...],
    options: dict[str, Any],
    callback: Callable[[int, float], None] | None,
) -> tuple[EPResult | IntegratedEPResult, dict[str, Any]]:
    """The posterior of utilities, and the hyperparameters that it has, or their means.

    Parameters
    ----------
    ranker
        Whose options say what to do.
    args, options
        Arguments of `bayesrank.models.calibrated_label_ranking`, of which the number of labels is
        the last.
    callback
        Called during the search for hyperparameters.
    """
    shapes: dict[str, tuple[int, ...]] = {"scale": ()}
    shapes |= {"lengthscale": ()} if "basis" in options else {}
    shapes |= {"zero_noise": ()} if options["calibrated"] else {}
    params, choice = _asked(ranker, shapes, args[-1])
    program = calibrated_label_ranking
    key = jax.random.key(check_random_state(ranker.random_state).randint(2**31 - 1))
    search: dict[str, Any] = {"num_restarts": ranker.num_restarts, "callback": callback}

    def maximum() -> dict[str, Any]:
        return maximize_evidence(
            engine_of(program), *args, params=params, rng_key=key, **search, **options
        ).params

    if choice == "integrate":
        if options["correlated"]:
            params = {"correlation": maximum()["correlation"]}
        mixture = integrator_of(program).run(key, *args, params=params, **search, **options)
        return mixture, {name: mixture.mean[name] for name in shapes} | params
    if choice == "maximum":
        params = maximum()
    else:
        params = prior_medians(engine_of(program), args, options, params)
    result = engine_of(program).run(key, *args, params=params, **options)
    return result, dict(result.params)


def _asked(
    ranker: LabelRanker, shapes: dict[str, tuple[int, ...]], num_labels: int
) -> tuple[dict[str, Array], str]:
    """Hyperparameters that are fixed, and what is done about the others."""
    asked, correlation = ranker.hyperparameters, None
    if isinstance(asked, Mapping) and "correlation" in asked:
        asked = dict(asked)
        correlation = _check_correlation(asked.pop("correlation"), num_labels)
    params, choice = check_hyperparameters(asked, shapes, ("maximum", "integrate", "prior"))
    if correlation is not None and not ranker.correlated:
        raise ValueError("hyperparameters names 'correlation', which needs correlated=True")
    if correlation is not None:
        params["correlation"] = correlation
    elif ranker.correlated and choice == "prior":
        if isinstance(asked, Mapping):
            return params, "maximum"
        params["correlation"] = np.eye(num_labels)
    return params, choice


def _check_correlation(correlation: Any, num_labels: int) -> Array:
    matrix = np.asarray(correlation, float)
    known = matrix.shape == (num_labels, num_labels) and np.isfinite(matrix).all()
    known = known and np.allclose(matrix, matrix.T) and np.allclose(np.diagonal(matrix), 1.0)
    if not known or np.linalg.eigvalsh(matrix)[0] <= 0:
        raise ValueError(
            f"hyperparameters['correlation'] is no correlation of {num_labels} labels; pass a "
            "symmetric, positive definite matrix with ones on its diagonal"
        )
    return matrix
