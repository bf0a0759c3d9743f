"""`RankRLS`: scores from grades that compare within a query, by regularised least squares."""

from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted
from tinygp.kernels import Kernel

from bayesrank._validate import check_pairs
from bayesrank.datasets import QueryLists, group_queries
from bayesrank.estimators.base import check_options, seed_of
from bayesrank.estimators.lists import ListEstimator
from bayesrank.solvers.rank_rls import (
    Contrasts,
    Folds,
    RankRLSFit,
    contrasts_of,
    cross_gram,
    fit_rank_rls,
    gram_of,
    leave_pair_out,
    leave_query_out,
    transduce,
)

Array = NDArray[np.float64]


class RankRLS(ListEstimator):
    """Learn to rank by least squares on the score differences within each list.

    Scores are the posterior mean of a Gaussian process that is observed through contrasts within
    lists, `bayesrank.models.rank_rls_gp` [1]_. One decomposition gives the scores, their standard
    deviations, the evidence that chooses the regularisation, and exact hold-out of lists and pairs.

    Parameters
    ----------
    kernel : {"linear", "rbf"} or tinygp kernel, default "linear"
        Kernel of the scores; "rbf" is Gaussian, its length scale that of the largest evidence on
        whole lists of up to 1,000 items. With another than "linear" the features are to be dense,
        and for "rbf" on one scale.
    weights : {"query", "center", "pairs"}, default "query"
        Weight of the squares of a list of n items: ``2 / (n - 1)``, with which each list counts
        alike (the paper's); 1, with which each item does; n, each pair.
    regularization : {"evidence", "leave-query-out"} or float, default "evidence"
        The constant lambda, squared noise over squared prior scale. It has the largest evidence,
        the least error on queries held out, or is a positive number.
    solver : {"auto", "dense", "lsmr", "nystrom"}, default "auto"
        "dense" decomposes a matrix of the smaller of rows and features (linear kernel) or of the
        rows. "lsmr" needs products with the features only, but gives no standard deviations or
        hold-out, and estimates the evidence. "nystrom" takes the kernel's features of some rows.
        "auto" is dense up to a side of 5,000, then lsmr (linear) or nystrom.
    num_landmarks : int, default 1000
        Rows that "nystrom" draws.
    random_state : int, RandomState instance or None, default 0
        Seed of "nystrom" and of the estimated evidence of "lsmr".

    Attributes
    ----------
    coef_ : ndarray of shape (d,)
        Weights of the features, for the linear kernel.
    kernel_ : {"linear"} or tinygp kernel
        The kernel that was used.
    regularization_, scale_, noise_ : float
        The constant, and the prior scale and noise that are most probable with it.
    log_evidence_ : float
        Log density of the contrasts of the grades, in nats; comparable among kernels and weights
        on the same grades.
    n_queries_, n_features_in_, feature_names_in_ : int, int, ndarray
        Number of lists; the others as everywhere in scikit-learn.

    Notes
    -----
    Scores, `coef_` and hold-out are posterior means at one constant. With
    ``regularization="evidence"`` standard deviations include the uncertainty of the constant: 90%
    intervals cover 90%. With a given constant, or one chosen by hold-out, they may be too small.
    The length scale of "rbf" is taken as known.

    With one short list, the evidence may explain the grades as noise, so that scores round to 0; a
    warning says so.

    References
    ----------
    .. [1] Pahikkala, T., Suominen, H., Boberg, J. and Salakoski, T. Transductive ranking via
       pairwise regularized least-squares.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesrank import RankRLS
    >>> X = np.array([[0.0], [1.0], [2.0], [0.5], [3.0]])
    >>> model = RankRLS().fit(X, y=[0, 1, 2, 0, 2], query=["a", "a", "a", "b", "b"])
    >>> bool(model.predict([[4.0]])[0] > model.predict([[1.0]])[0])
    True
    """

    def __init__(
        self,
        *,
        kernel: Kernel | Literal["linear", "rbf"] = "linear",
        weights: Literal["query", "center", "pairs"] = "query",
        regularization: float | Literal["evidence", "leave-query-out"] = "evidence",
        solver: Literal["auto", "dense", "lsmr", "nystrom"] = "auto",
        num_landmarks: int = 1000,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.kernel = kernel
        self.weights = weights
        self.regularization = regularization
        self.solver = solver
        self.num_landmarks = num_landmarks
        self.random_state = random_state

    def _learn(self, rows: Any, grades: Array, lists: QueryLists) -> None:
        check_options(self)
        seed = seed_of(self.random_state)
        self._fit: RankRLSFit = fit_rank_rls(
            self._dense(rows),
            grades,
            contrasts_of(lists, self.weights),
            kernel=self.kernel,
            regularization=self.regularization,
            solver=self.solver,
            num_landmarks=self.num_landmarks,
            rng=np.random.default_rng(seed),
        )
        self._rows, self._grades, self._lists = rows, grades, lists
        self.kernel_, self.regularization_ = self._fit.kernel, self._fit.lam
        self.scale_ = self._fit.scale
        self.noise_ = self._fit.scale * float(np.sqrt(self._fit.lam))
        self.log_evidence_ = self._fit.log_evidence
        if self._is_linear and self._fit.root is None:
            self.coef_ = self._fit.weights

    @overload
    def predict(self, X: Any, return_std: Literal[False] = False) -> Array: ...
    @overload
    def predict(self, X: Any, return_std: Literal[True]) -> tuple[Array, Array]: ...
    def predict(self, X: Any, return_std: bool = False) -> Array | tuple[Array, Array]:
        """Scores of items: their posterior mean.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Features of the items.
        return_std : bool, default False
            Whether to give standard deviations as well.

        Returns
        -------
        ndarray of shape (n,), or a tuple of two
            Scores, higher is better, in units of the grades, at ``regularization_``; and their
            standard deviations, averaged over constants where it was chosen by evidence.

        Raises
        ------
        ValueError
            If standard deviations are asked for after solver "lsmr".
        """
        check_is_fitted(self)
        rows = self._dense(self._check_features(X))
        scores = self._fit.predict(rows)
        return (scores, self._fit.std(rows)) if return_std else scores

    def leave_query_out(self, groups: Any = None) -> Array:
        """Scores of the items of `fit`, each list's learned from the other lists.

        Parameters
        ----------
        groups : array-like of shape (m,), optional
            Names of groups; lists of one group are held out together, as folds of
            cross-validation are. By default each list is held out alone.

        Returns
        -------
        ndarray of shape (m,)
            What training without the item's query, or group, would predict, to rounding, at the
            same constant and kernel; for `bayesrank.metrics`.

        Raises
        ------
        ValueError
            If `groups` divides a list or leaves none to train on, or after solver "lsmr".
        """
        system = self._system()
        folds = _folds(groups, self._lists.order, system.contrasts)
        held = leave_query_out(system, self.regularization_, folds)
        return self._lists.unsort(held)

    def leave_pair_out(self, pairs: ArrayLike | None = None) -> tuple[NDArray[np.intp], Array]:
        """Differences of score of pairs of the items of `fit`, by training on neither of the two.

        Parameters
        ----------
        pairs : array-like of shape (P, 2), optional
            Rows of `X` of the same query; by default all pairs with different grades, the better
            item first.

        Returns
        -------
        tuple of ndarray
            The pairs, shape (P, 2), and the score of the first minus that of the second.

        Raises
        ------
        ValueError
            If a pair is not of two items of one query, or after solver "lsmr".
        """
        system, lists = self._system(), self._lists
        place = np.argsort(lists.order)
        if pairs is None:
            inside = _graded_pairs(self._grades, lists)
            chosen = lists.order[inside]
        else:
            chosen = _check_pairs(pairs, lists)
            inside = place[chosen]
        held = leave_pair_out(system, self._grades, self.regularization_, inside, self.weights)
        return chosen, held

    def transduce(
        self, X_new: Any, query_new: Any = None, gamma: float = 1.0, groups: Any = None
    ) -> Array:
        """Scores of new lists, chosen so that cross-validation over all lists fits best.

        Theorem 2 of the paper. In measurements it did not rank better than `predict`; see the
        documentation.

        Parameters
        ----------
        X_new : array-like or sparse matrix of shape (n, d)
            Features of the items of new lists.
        query_new : array-like of shape (n,), optional
            Names of their queries; they are other lists than those of `fit`, whatever their names.
        gamma : float, default 1.0
            Pull towards what `predict` gives, positive.
        groups : array-like of shape (m + n,), optional
            Names of the folds of cross-validation, of the items of `fit` and then of the new ones;
            by default each list is one.

        Returns
        -------
        ndarray of shape (n,)
            Scores, in units of the grades.

        Raises
        ------
        ValueError
            If an argument cannot be used.
        """
        check_is_fitted(self)
        rows = self._check_features(X_new)
        lists = group_queries(query_new, rows.shape[0])
        everything = _stack(self._rows, rows[lists.order])
        codes = np.concatenate([self._lists.codes, len(self._lists.sizes) + lists.codes])
        contrasts = contrasts_of(group_queries(codes, len(codes)), self.weights)
        dense = self._dense(everything)
        gram = (
            cross_gram(self.kernel_, dense, dense)
            if self._is_linear
            else gram_of(self.kernel_, dense)
        )
        new = np.arange(len(codes)) >= len(self._grades)
        y = np.concatenate([self._grades, np.zeros(new.sum())])
        order = np.concatenate([self._lists.order, len(self._grades) + lists.order])
        folds = _folds(groups, order, contrasts)
        held = transduce(gram, contrasts, y, new, self.regularization_, gamma, folds)
        return lists.unsort(held)

    @property
    def _is_linear(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "linear"

    def _dense(self, rows: Any) -> Any:
        """Dense rows for kernels that are not products."""
        if sparse.issparse(rows) and not self._is_linear:
            raise ValueError("X is sparse, which kernel='linear' takes only; pass X.toarray()")
        return rows

    def _system(self) -> Any:
        check_is_fitted(self)
        if not hasattr(self._fit.system, "solve_blocks"):
            raise ValueError(
                "solver='lsmr' holds nothing out; fit with solver='dense' or 'nystrom'"
            )
        return self._fit.system


def _folds(groups: Any, order: NDArray[np.intp], contrasts: Contrasts) -> Folds:
    """Lists that are held out together; `order` puts rows that are named list after list."""
    names = np.arange(len(contrasts.sizes))
    if groups is not None:
        grouped = group_queries(groups, len(order), what="groups")
        codes = grouped.unsort(grouped.codes)[order]
        names = codes[contrasts.starts]
        if (codes != contrasts.spread(names)).any():
            raise ValueError("groups divides a query; give all items of a query one group")
    if len(np.unique(names)) < 2:
        raise ValueError("all lists would be held out together; there is none left to train on")
    return contrasts.folds(names)


def _stack(first: Any, second: Any) -> Any:
    if sparse.issparse(first) or sparse.issparse(second):
        return sparse.vstack([first, second], format="csr")
    return np.concatenate([first, second])


def _graded_pairs(grades: Array, lists: QueryLists) -> NDArray[np.intp]:
    """All pairs of a list with different grades, in the sorted order, the better item first."""
    found = [np.zeros((0, 2), np.intp)]
    for start, size in zip(lists.starts, lists.sizes, strict=True):
        mine = grades[start : start + size]
        found.append(np.argwhere(mine[:, None] > mine) + start)
    return np.concatenate(found)


def _check_pairs(pairs: ArrayLike, lists: QueryLists) -> NDArray[np.intp]:
    array = check_pairs(np.asarray(pairs), len(lists.order), what="row")
    codes = lists.unsort(lists.codes)[array]
    odd = (codes[:, 0] != codes[:, 1]) | (array[:, 0] == array[:, 1])
    if odd.any():
        row = int(np.argmax(odd))
        raise ValueError(f"pairs[{row}] is not of two items of one query; remove it")
    return array.astype(np.intp)
