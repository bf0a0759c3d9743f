"""What estimators of lists of items with features, grouped by query, share."""

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted, validate_data

from bayesrank._fitted import Fitted
from bayesrank._tables import numbers_alone, plain_array
from bayesrank._validate import refuse_rows
from bayesrank.datasets import QueryLists, group_queries
from bayesrank.metrics import pairwise_error

Array = NDArray[np.float64]
_LARGEST = 1e100


class ListEstimator(Fitted):
    """An estimator with ``fit(X, y, query)`` and ``predict(X)``."""

    # Where scikit-learn routes metadata, `query` reaches `fit` and `score` without being asked for.
    __metadata_request__fit = {"query": True}  # noqa: RUF012
    __metadata_request__score = {"query": True}  # noqa: RUF012

    def fit(self, X: Any, y: ArrayLike, query: Any = None) -> Self:
        """Learn to score items by their features.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, d)
            Features of the items.
        y : array-like of shape (m,)
            Grades, finite numbers; they compare within a query only.
        query : array-like of shape (m,), optional
            Names of the items' queries, in any order; without it all items are one list.

        Raises
        ------
        ValueError
            If an argument or an option cannot be used; the message names it.

        Warns
        -----
        UserWarning
            If `query` is not given: scikit-learn's cross-validation passes it on only where
            metadata routing is enabled.
        """
        self._learn(*self._check_lists(X, y, query))
        return self

    def _learn(self, rows: Any, grades: Array, lists: QueryLists) -> None:
        """Learn from features (m, d) and grades (m,), list after list."""
        raise NotImplementedError

    def predict(self, X: Any) -> Array:
        """Scores of items.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Features of the items.

        Returns
        -------
        ndarray of shape (n,)
            Higher is better. The unit is that of the estimator's scale, if it has one.

        Raises
        ------
        NotFittedError, ValueError
            If `fit` has not been called; if `X` has other columns than in `fit`.
        """
        check_is_fitted(self)
        return self._scores(self._check_features(X))

    def _scores(self, rows: Any) -> Array:
        """Scores (n,) of features (n, d)."""
        raise NotImplementedError

    def score(self, X: Any, y: ArrayLike, query: Any = None) -> float:
        """Share of pairs of a query's items that the scores put in the order of their grades.

        Parameters
        ----------
        X, y, query
            As for `fit`.

        Returns
        -------
        float
            Mean over queries with two grades; one half is chance.
        """
        scores = self.predict(X)
        _warn_of_one_list(query, len(scores))
        return 1.0 - pairwise_error(scores, y, query=query).mean

    def _check_lists(self, X: Any, y: Any, query: Any) -> tuple[Any, Array, QueryLists]:
        """Features and grades list after list, and the lists."""
        checked: Any = validate_data(
            self, numbers_alone(X, "X"), accept_sparse="csr", dtype=np.float64, ensure_min_samples=2
        )
        grades = check_grades(y, checked.shape[0])
        for name, values in (
            ("X", checked.data if sparse.issparse(checked) else checked),
            ("y", grades),
        ):
            if np.abs(values).max(initial=0.0) > _LARGEST:
                raise ValueError(
                    f"{name} has a value beyond {_LARGEST:g}, whose squares overflow; divide it"
                )
        _warn_of_one_list(query, checked.shape[0])
        lists = group_queries(query, checked.shape[0])
        self.n_queries_ = len(lists.names)
        return checked[lists.order], grades[lists.order], lists

    def _check_features(self, X: Any) -> Any:
        X = numbers_alone(X, "X")
        return validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


def _warn_of_one_list(query: Any, num_rows: int) -> None:
    """Warn of what cross-validation by ``groups=`` alone would do in silence."""
    if query is None:
        warnings.warn(
            f"query is not given, so all {num_rows} rows are one list; pass the query of each row, "
            "or one name for all. In cross-validation, enable scikit-learn's metadata routing",
            stacklevel=4,
        )


def check_grades(y: Any, num_rows: int) -> Array:
    """Return grades as finite numbers of shape (m,)."""
    if y is None:
        raise ValueError(
            "fit requires y to be passed, but the target y is None; pass a grade for each row of X"
        )
    grades = plain_array(numbers_alone(y, "y"))
    if grades.ndim == 2 and grades.shape[1] == 1:
        grades = grades[:, 0]
    if grades.shape != (num_rows,):
        raise ValueError(
            f"y has shape {grades.shape} and X has {num_rows} rows; pass one grade for each row"
        )
    try:
        numbers = grades.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"y has dtype {grades.dtype}; pass grades as numbers") from None
    refuse_rows(numbers, lambda v: ~np.isfinite(v), "y", "pass finite grades, not NaN or inf")
    return numbers
