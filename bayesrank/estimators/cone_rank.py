"""`ConeRank`: a cone of feature differences, and the score that it makes."""

import warnings
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bayesrank._stack import outside
from bayesrank._validate import check_choice, check_count, check_positive
from bayesrank.datasets import QueryLists, group_queries
from bayesrank.estimators.base import check_options, seed_of
from bayesrank.estimators.checks import standardization
from bayesrank.estimators.lists import ListEstimator
from bayesrank.metrics import pairwise_error
from bayesrank.models.cone_rank import usual_num_atoms
from bayesrank.solvers.cone_rank import (
    Cone,
    Pairs,
    direction,
    fit_exact,
    fit_gradient,
    from_origin,
    ordered_pairs,
    random_atoms,
)

Array = NDArray[np.float64]
_FOLDS = 3
_LEAST_DISTANCE = 1e-3  # from the origin, of a cone that is not the whole space
_RIDGES = np.concatenate([[0.0], 10.0 ** np.arange(-3.0, 4.0)])  # in units of the mean eigenvalue


class ConeRank(ListEstimator):
    """Learn to rank by a cone that contains the feature differences of ordered pairs.

    The method is ConeRank, learning by generalized inequalities [1]_.

    Parameters
    ----------
    num_atoms : int, optional
        Number K of vectors that span the cone; by default half of the number of features, at least
        one and at most ten. More atoms than features can surround the origin; they then tell
        nothing of the order, and `fit` warns.
    method : {"exact", "sg", "eg"}, default "exact"
        Alternating minimisation, or the paper's stochastic or exponentiated gradients.
    fold_in : {"projection", "printed", "linear"}, default "projection"
        How "sg" finds the weights: by projection onto the simplex, or by the printed step, which
        does not reach the minimum. "linear" is for "eg", its step without the exponential.
    sums : tuple of two floats, optional
        Least and largest sum of a difference's weights, for the original form (9): atoms then have
        the length `bound`. For "exact", and for "sg" by projection; by default the sum is 1.
    ridge : {"held-out"} or float, default "held-out"
        Ridge tau of the score's direction ``U (U'U + tau I)^-1 1``: that with the least pairwise
        error on queries held out, or a number; 0 is as printed. Which queries are held out
        together depends on the order in which they come.
    rho : float, optional
        Length that differences are scaled to; the root of the number of features by default.
    alpha : float, default 1.0
        Length of a difference below which it counts less.
    bound : float, optional
        Largest length of an atom; twice `rho` by default.
    learning_rate : float, optional
        Step size of "sg" and "eg", by default 0.001 and 0.005 as in the paper.
    num_iterations : int, optional
        Iterations of "exact", or passes over the queries of the others; by default 10, and 100 of
        "sg", whose steps are small. More iterations of "exact" fit better, and do not rank better.
    standardize : bool, default True
        Whether to divide each feature by its standard deviation over the items of `fit`.
    random_state : int, RandomState instance or None, default 0
        Seed of the first atoms, and of the order of queries.

    Attributes
    ----------
    atoms_ : ndarray of shape (K, d)
        The learned atoms, on standardised features.
    coef_ : ndarray of shape (d,)
        Weights of the features in the score, which has no unit.
    ridge_ : float
        The ridge that was used.
    objective_ : float
        Mean weighted squared distance of a difference from the simplex of the atoms.
    feature_scale_ : ndarray of shape (d,)
        What features are divided by.

    References
    ----------
    .. [1] Tran, T. and Pham, D.-S. ConeRANK: ranking as learning generalized inequalities.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesrank import ConeRank
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 3.0], [0.5, 1.0], [3.0, 2.0]])
    >>> model = ConeRank(num_atoms=2, ridge=1.0).fit(X, [0, 1, 2, 0, 2], ["a", "a", "a", "b", "b"])
    >>> model.predict(X).shape
    (5,)
    """

    def __init__(
        self,
        *,
        num_atoms: int | None = None,
        method: Literal["exact", "sg", "eg"] = "exact",
        fold_in: Literal["projection", "printed", "linear"] = "projection",
        ridge: float | Literal["held-out"] = "held-out",
        rho: float | None = None,
        alpha: float = 1.0,
        bound: float | None = None,
        learning_rate: float | None = None,
        num_iterations: int | None = None,
        standardize: bool = True,
        sums: tuple[float, float] | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.num_atoms = num_atoms
        self.method = method
        self.fold_in = fold_in
        self.ridge = ridge
        self.rho = rho
        self.alpha = alpha
        self.bound = bound
        self.learning_rate = learning_rate
        self.num_iterations = num_iterations
        self.standardize = standardize
        self.sums = sums
        self.random_state = random_state

    def _learn(self, rows: Any, grades: Array, lists: QueryLists) -> None:
        self._check_options()
        scale = np.ones(rows.shape[1])
        if self.standardize:
            scale = standardization(rows)[1]
            rows = (
                rows / scale if isinstance(rows, np.ndarray) else rows.multiply(1 / scale).tocsr()
            )
        rho = np.sqrt(rows.shape[1]) if self.rho is None else float(self.rho)
        pairs = ordered_pairs(rows, grades, lists, float(rho), float(self.alpha))
        self.feature_scale_ = scale
        if not pairs.z.any():
            self._learn_nothing(rows.shape[1])
            return
        seed = seed_of(self.random_state)
        cone = self._cone(pairs, rho, seed)
        if isinstance(self.ridge, str):
            share = self._held_out_share(rows, grades, lists, pairs, rho, seed)
            self.ridge_ = float(share * _mean_eigenvalue(cone.atoms))
        else:
            self.ridge_ = float(self.ridge)
        self.atoms_, self.objective_ = cone.atoms, cone.objective
        self.coef_ = direction(cone.atoms, self.ridge_) / scale
        if from_origin(cone.atoms) < _LEAST_DISTANCE:
            warnings.warn(
                f"the {len(cone.atoms)} atoms surround the origin, so that their cone is the whole "
                f"space and the scores mean little; pass num_atoms={usual_num_atoms(scale.size)}",
                UserWarning,
                stacklevel=outside(),
            )

    def _scores(self, rows: Any) -> Array:
        return np.asarray(rows @ self.coef_)

    def vote(self, X: Any, query: Any = None) -> NDArray[np.int64]:
        """Algorithm 2: how many items of its query each item beats.

        Parameters
        ----------
        X, query
            As for `fit`.

        Returns
        -------
        ndarray of shape (m,)
            Votes, which rank as `predict` does: the sum of a difference's coefficients is linear.
        """
        scores = self.predict(X)
        lists = group_queries(query, len(scores))
        ordered = scores[lists.order]
        votes = np.empty(len(scores), np.int64)
        for start, size in zip(lists.starts, lists.sizes, strict=True):
            mine = ordered[start : start + size]
            votes[start : start + size] = (mine[:, None] > mine).sum(axis=1)
        return lists.unsort(votes)

    def _learn_nothing(self, num_features: int) -> None:
        """Score items 0, since none differs from another of its query."""
        warnings.warn(
            "X is the same within every list, so that every score is 0; give features that differ",
            UserWarning,
            stacklevel=outside(),
        )
        self.atoms_ = np.zeros((self._num_atoms(num_features), num_features))
        self.coef_ = np.zeros(num_features)
        self.ridge_, self.objective_ = 0.0, 0.0

    def _num_atoms(self, num_features: int) -> int:
        return usual_num_atoms(num_features) if self.num_atoms is None else self.num_atoms

    def _cone(self, pairs: Pairs, rho: float, seed: int) -> Cone:
        rng = np.random.default_rng(seed)
        bound = 2.0 * rho if self.bound is None else float(self.bound)
        atoms = random_atoms(self._num_atoms(pairs.z.shape[1]), pairs.z.shape[1], bound, rng)
        passes = self.num_iterations or (100 if self.method == "sg" else 10)
        if self.method == "exact":
            return fit_exact(pairs, atoms, bound, num_iterations=passes, sums=self.sums)
        usual = 0.001 if self.method == "sg" else 0.005
        return fit_gradient(
            pairs,
            atoms,
            bound,
            rng,
            method=self.method,
            fold_in=self.fold_in,
            rate=usual if self.learning_rate is None else float(self.learning_rate),
            num_epochs=passes,
            sums=self.sums,
        )

    def _held_out_share(
        self, rows: Any, grades: Array, lists: QueryLists, pairs: Pairs, rho: float, seed: int
    ) -> float:
        """Ridge, in mean eigenvalues, with the least pairwise error on queries held out."""
        judged = np.unique(pairs.lists)
        if len(judged) < _FOLDS:
            return 1.0  # too few to hold any out
        folds = np.random.default_rng(seed).permutation(len(judged)) % _FOLDS
        codes, errors = lists.codes, np.zeros(len(_RIDGES))
        for fold in range(_FOLDS):
            atoms = self._cone(pairs.of_lists(judged[folds != fold]), rho, seed).atoms
            mine = np.isin(codes, judged[folds == fold])
            unit = _mean_eigenvalue(atoms)
            for k, share in enumerate(_RIDGES):
                scores = rows[mine] @ direction(atoms, max(share, 1e-9) * unit)
                error = pairwise_error(scores, grades[mine], query=codes[mine])
                errors[k] += np.nansum(error.values)
        return float(max(_RIDGES[int(np.argmin(errors))], 1e-9))

    def _check_options(self) -> None:
        """Refuse options that are out of range."""
        check_options(self)
        if self.num_atoms is not None:
            check_count(self.num_atoms, "num_atoms")
        if self.num_iterations is not None:
            check_count(self.num_iterations, "num_iterations")
        check_choice(self.method, "method", "exact", "sg", "eg")
        check_choice(self.fold_in, "fold_in", "projection", "printed", "linear")
        if (self.fold_in == "linear") and self.method != "eg":
            raise ValueError(f"fold_in is 'linear' and method {self.method!r}; pass method='eg'")
        if self.sums is not None:
            self._check_sums()
        check_positive(self.alpha, "alpha")
        for name in ("rho", "bound", "learning_rate"):
            if getattr(self, name) is not None:
                check_positive(getattr(self, name), name)
        if self.ridge != "held-out" and not (
            isinstance(self.ridge, Real) and 0.0 <= float(self.ridge) < np.inf
        ):
            raise ValueError(f"ridge is {self.ridge!r}; pass 'held-out' or a number from 0 on")

    def _check_sums(self) -> None:
        """Refuse bounds of sums that are none, and methods that keep sums of one."""
        try:
            low, high = (float(part) for part in self.sums or ())
        except (TypeError, ValueError):
            low, high = np.nan, np.nan
        if not (0.0 <= low <= high and high > 0.0):
            raise ValueError(f"sums is {self.sums!r}; pass two numbers, 0 <= least <= largest")
        if self.method == "eg" or (self.method == "sg" and self.fold_in == "printed"):
            raise ValueError("sums needs method='exact', or 'sg' with fold_in='projection'")


def _mean_eigenvalue(atoms: Array) -> float:
    return float((atoms**2).sum() / len(atoms))
