"""Checks of what a person hands to an estimator, with one clear message for each."""

import warnings
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils.sparsefuncs import mean_variance_axis

from bayesrank import gp
from bayesrank._stack import outside
from bayesrank._tables import column_names, missing, plain_array
from bayesrank._validate import (
    are_equal,
    check_comparisons,
    check_laplacian,
    check_pairs,
    check_positive_values,
)

Array = NDArray[np.float64]


def comparison_numbers(comparisons: Any, num_items: int) -> NDArray[np.int64]:
    """Comparisons of row numbers as integers (K, 2); a table's columns go by their names."""
    pairs = plain_array(comparisons)
    named = [str(name).strip().lower() for name in column_names(comparisons) or ()]
    if sorted(named) == ["loser", "winner"] and pairs.ndim == 2:
        pairs = pairs[:, [named.index("winner"), named.index("loser")]]
    if pairs.shape[:1] == (0,):
        raise ValueError("comparisons has no rows; pass one (winner, loser) or more")
    if pairs.ndim == 2 and pairs.dtype.kind in "OUSf":
        _refuse_other_than_numbers(pairs)
    with jax.enable_x64(True):
        return np.asarray(check_comparisons(pairs, num_items))


def _refuse_other_than_numbers(pairs: NDArray[Any]) -> None:
    """Name the first cell that is not a row number, unless all are numbers with a point."""
    for row, column in np.ndindex(*pairs.shape):
        cell = pairs[row, column]
        if missing(cell):
            raise ValueError(f"comparisons has no item in row {row}; remove the row")
        if not isinstance(cell, Real):
            raise ValueError(
                f"comparisons has {str(cell)!r} in row {row}; pass the row numbers of items in X, "
                "which pandas.Index(names).get_indexer makes of names"
            )


def check_hyperparameters(
    hyperparameters: Any,
    shapes: Mapping[str, tuple[int, ...]],
    choices: Sequence[str] = ("map", "prior"),
) -> tuple[dict[str, Array], str]:
    """Hyperparameters that are fixed, and what is done about others: "map", or "prior" if none."""
    if not isinstance(hyperparameters, Mapping):
        if hyperparameters not in choices:
            raise ValueError(
                f"hyperparameters is {hyperparameters!r}; choose {', '.join(map(repr, choices))} "
                "or a mapping from names to values"
            )
        return {}, hyperparameters
    values = check_positive_values(hyperparameters, shapes, "hyperparameters")
    return values, "map" if len(values) < len(shapes) else "prior"


def standardization(features: Any, name: str = "X") -> tuple[Array, Array, NDArray[np.bool_]]:
    """Mean and standard deviation of features, (d,) each, and which are constant; their scale is 1.

    A feature is constant if its values are equal up to rounding. `features` (n, d) may be sparse.
    """
    low, high = (np.asarray(_ends(features, end)) for end in ("min", "max"))
    with np.errstate(over="ignore", invalid="ignore"):
        if sparse.issparse(features):
            moments: Any = mean_variance_axis(sparse.csr_matrix(features), axis=0)
            mean, spread = moments[0], np.sqrt(moments[1])
        else:
            mean, spread = features.mean(axis=0), features.std(axis=0)
        constant = are_equal(low, high)
    vast = ~(np.isfinite(mean) & np.isfinite(spread))
    if vast.any():
        raise ValueError(
            f"{name} is so large in column {np.argmax(vast)} that its standard deviation "
            "overflows; give that feature in a larger unit"
        )
    lost = (spread == 0.0) & ~constant
    if lost.any():
        raise ValueError(
            f"{name} differs so little in column {np.argmax(lost)} that its standard deviation "
            "underflows; give that feature in a smaller unit"
        )
    return mean, np.where(constant, 1.0, spread), constant


def _ends(features: Any, end: str) -> Any:
    found = getattr(features, end)(axis=0)
    return found.toarray().ravel() if sparse.issparse(found) else found


def location_and_scale(features: Array, standardize: bool) -> tuple[Array, Array]:
    """Mean and standard deviation of features, (d,) each; 1 and a warning for a constant."""
    if not standardize:
        return np.zeros(features.shape[1]), np.ones(features.shape[1])
    mean, scale, constant = standardization(features)
    if constant.any():
        warnings.warn(
            f"X has the same value for every item in column {np.argmax(constant)}, which is scaled "
            "by one: nothing is learned of how items depend on it",
            UserWarning,
            stacklevel=outside(),
        )
    return mean, scale


def graph_laplacian(laplacian: Any, features: Array) -> sparse.csr_array | None:
    """The Laplacian asked for, if any, by features (n, d) on the model's scale."""
    if laplacian is None:
        return None
    if isinstance(laplacian, Integral) and not isinstance(laplacian, bool):
        count = int(laplacian)
        if not 1 <= count < len(features):
            raise ValueError(
                f"laplacian is {count}; as a number of nearest neighbours of each of the "
                f"{len(features)} items it is to be from 1 to {len(features) - 1}"
            )
        return gp.laplacian(gp.knn_graph(features, count))
    matrix = laplacian(features) if callable(laplacian) else laplacian
    if not sparse.issparse(matrix) and np.asarray(matrix).ndim != 2:
        raise ValueError(
            f"laplacian is {laplacian!r}; pass a number of nearest neighbours, the Laplacian of a "
            "graph of the items as bayesrank.gp.laplacian makes it, or a function from features "
            "to one"
        )
    with jax.enable_x64(True):
        return sparse.csr_array(np.asarray(check_laplacian(matrix, len(features))))


def pair_numbers(pairs: ArrayLike, num_items: int, name: str = "pairs") -> NDArray[np.intp]:
    """Pairs of items' row numbers as integers, shape (P, 2); an empty list is none."""
    return check_pairs(plain_array(pairs), num_items, name).astype(np.intp)
