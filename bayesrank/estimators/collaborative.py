"""`CollaborativeOrdinalGP` and `CollaborativeGP`: ratings of many users, who share a prior."""

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm

from bayesrank._validate import check_choice, check_level, refuse_rows
from bayesrank.estimators.collaborative_base import Collaborative, Unknown
from bayesrank.estimators.collaborative_data import check_triples, level_numbers
from bayesrank.estimators.collaborative_features import chosen_share
from bayesrank.solvers.collaborative import EM

Array = NDArray[np.float64]


class CollaborativeOrdinalGP(Collaborative):
    """Ordinal ratings of many users: everybody's function of the items has one shared prior.

    Mean and kernel of the prior are learned (CGPOR of Yu, Yu and Tresp, 2005), by EM over
    expectation propagation; see `bayesrank.solvers.collaborative.EM`.

    Parameters
    ----------
    likelihood : {"probit", "logit"}, default "probit"
        Normal or logistic noise.
    collaborative : bool, default True
        Whether users share anything. If not, each has a model of their own.
    strength : float, optional
        How many users the prior of the shared kernel is worth. By default 30 more than the number
        of items. Beyond 500 items, 530 for those rated most often and 5,000 for how the others
        follow these. Beyond 3,000 items, the others have a mean of their own and follow these by
        the base kernels.
    implicit : bool, default True
        Whether who rated what tells which items are alike, too: items rated by the same users have
        a base kernel of their own, as far as the ratings bear it out. Individual models have none.
    user_thresholds : float, default 0.3
        Prior standard deviation, over users, of the logarithms of gaps between thresholds and of
        noise. 0 gives all users the same.
    max_iterations : int, default 200
        Iterations of EM after which to give up.
    tol : float, default 1e-4
        Change of the objective per rating, in nats, at which EM has converged.
    progress_bar : bool, default False
        Whether to show progress.

    Attributes
    ----------
    result_ : EMResult
        What the engine returned; also as `result`.
    users_, items_
        Ids, in the order of the result's rows and columns.
    levels_ : ndarray
        The levels, lowest first.

    Notes
    -----
    Probabilities integrate over the shared mean and kernel, but take thresholds as known. In
    simulations of 30 users and 12 items, or 60 and 30, their powers 0.94 and 1.01 fit best.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> users, items = np.divmod(rng.permutation(120)[:80], 6)
    >>> levels = np.clip(np.round(items / 2 + rng.normal(size=80)), 0, 2).astype(int) + 1
    >>> model = CollaborativeOrdinalGP(max_iterations=20, tol=1e-2).fit(users, items, levels)
    >>> model.predict([0, 0], [0, 5])
    array([1, 3])
    >>> model.predict_proba([0], [5]).shape
    (1, 3)
    """

    levels_: NDArray

    def __init__(
        self,
        *,
        likelihood: Literal["probit", "logit"] = "probit",
        collaborative: bool = True,
        strength: float | None = None,
        implicit: bool = True,
        user_thresholds: float = 0.3,
        max_iterations: int = 200,
        tol: float = 1e-4,
        progress_bar: bool = False,
    ) -> None:
        super().__init__(collaborative, strength, implicit, max_iterations, tol, progress_bar)
        self.likelihood = likelihood
        self.user_thresholds = user_thresholds

    def _engine(self, users: NDArray, items: NDArray, numbers: Array) -> EM:
        return EM(
            check_choice(self.likelihood, "likelihood", "probit", "logit"),
            collaborative=self.collaborative,
            strength=self.strength,
            user_thresholds=self.user_thresholds,
            max_iterations=self.max_iterations,
            tol=self.tol,
        )

    def _read_levels(self, levels: NDArray) -> Array:
        self.levels_, numbers = level_numbers(levels)
        return numbers.astype(float)

    def _to_numbers(self, levels: NDArray) -> Array:
        unknown = ~np.isin(levels, self.levels_)
        if unknown.any():
            raise ValueError(
                f"level {levels[unknown][0]} is not one of {self.levels_.tolist()}, which were "
                "learned; correct it"
            )
        return np.searchsorted(self.levels_, levels).astype(float)

    def _from_numbers(self, numbers: Array) -> NDArray:
        return self.levels_[numbers.astype(int)]

    def predict_proba(self, users: Any, items: Any, *, unknown: Unknown = "error") -> Array:
        """Probability of each level.

        Parameters
        ----------
        users, items : array-like of shape (K,)
            Ids, a pair a row.
        unknown : {"error", "population"}, default "error"
            Whether users and items that were not in `fit` are refused, or predicted as the
            population. `with_items` adds items by their features.

        Returns
        -------
        ndarray of shape (K, r)
            Columns are ``levels_``.

        Raises
        ------
        ValueError
            If an id is not known.
        """
        result, who, what = self._rows(users, items, unknown)
        return result.predict_proba(who, what)

    def score(
        self, users: Any, items: ArrayLike | None = None, levels: ArrayLike | None = None
    ) -> float:
        """Mean log probability of levels, in nats; higher is better.

        Users and items that were not in `fit` are predicted as the population is.

        Parameters
        ----------
        users, items, levels
            As in `fit`.

        Returns
        -------
        float
            At most zero.
        """
        who, what, ratings = check_triples(users, items, levels)
        probability = self.predict_proba(who, what, unknown="population")
        numbers = self._to_numbers(ratings).astype(int)
        return float(np.log(probability[np.arange(len(who)), numbers]).mean())

    def predict(
        self,
        users: Any,
        items: Any,
        *,
        kind: Literal["median", "mode"] = "median",
        unknown: Unknown = "error",
    ) -> NDArray:
        """Predicted level.

        Parameters
        ----------
        users, items, unknown
            As for `predict_proba`, which raises the same errors.
        kind : {"median", "mode"}, default "median"
            The median makes the mean absolute error smallest, the mode the zero-one error.

        Returns
        -------
        ndarray of shape (K,)

        Raises
        ------
        ValueError
            If `kind` is neither "median" nor "mode", or an id is not known.
        """
        check_choice(kind, "kind", "median", "mode")
        probability = self.predict_proba(users, items, unknown=unknown)
        if kind == "mode":
            return self.levels_[probability.argmax(axis=1)]
        return self.levels_[(probability.cumsum(axis=1) < 0.5).sum(axis=1)]


class CollaborativeGP(Collaborative):
    """Numerical ratings of many users: everybody's function of the items has one shared prior.

    Mean and kernel of the prior are learned (CGPR of Yu, Yu and Tresp, 2005), by EM, exactly.

    Parameters
    ----------
    collaborative, strength, implicit, max_iterations, tol, progress_bar
        As for `CollaborativeOrdinalGP`.
    user_scales : float, default 0.3
        Prior standard deviation, over users, of the logarithms of scale and noise of ratings. 0
        gives all users the same.
    noise_share : float or {"choose", "learned"}, default "choose"
        The users' shared noise as a share of the variance of all ratings. Nobody rates an item
        twice, so ratings hardly tell noise from what is special of a user's function at an item.
        By default a quarter of the ratings is held out, and chooses from 0.02, 0.1, 0.3, 0.5 and
        "learned"; then all are fitted. Individual models learn it.

    Attributes
    ----------
    result_, users_, items_
        As for `CollaborativeOrdinalGP`; ``result_.likelihood.share`` is the share, or None.

    Notes
    -----
    Intervals integrate over mean and kernel, and take noise and users' scales as known. In
    simulations, 90% intervals of ratings cover 89% (30 users and 12 items) and 91% (60 and 30).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> users, items = np.divmod(rng.permutation(120)[:80], 6)
    >>> ratings = items / 2 + rng.normal(size=80)
    >>> model = CollaborativeGP(tol=1e-2).fit(users, items, ratings)
    >>> bool(model.predict([0], [5]) > model.predict([0], [0]))
    True
    """

    def __init__(
        self,
        *,
        collaborative: bool = True,
        strength: float | None = None,
        implicit: bool = True,
        user_scales: float = 0.3,
        noise_share: float | Literal["choose", "learned"] = "choose",
        max_iterations: int = 200,
        tol: float = 1e-4,
        progress_bar: bool = False,
    ) -> None:
        super().__init__(collaborative, strength, implicit, max_iterations, tol, progress_bar)
        self.user_scales = user_scales
        self.noise_share = noise_share

    def _engine(self, users: NDArray, items: NDArray, numbers: Array) -> EM:
        share = self.noise_share
        if isinstance(share, str):
            check_choice(share, "noise_share", "choose", "learned")
        if share == "learned" or not self.collaborative:
            share = None
        elif isinstance(share, str):
            num_items = len(self.items_)
            share = chosen_share(self._held_at, users, items, numbers, self._kernels, num_items)
        return self._held_at(share)

    def _held_at(self, share: float | None) -> EM:
        return EM(
            "gaussian",
            collaborative=self.collaborative,
            strength=self.strength,
            user_scales=self.user_scales,
            noise_share=share,
            max_iterations=self.max_iterations,
            tol=self.tol,
        )

    def _to_numbers(self, levels: NDArray) -> Array:
        if levels.dtype.kind not in "biuf":
            raise ValueError(f"levels has dtype {levels.dtype}; pass numbers")
        refuse_rows(levels, lambda v: ~np.isfinite(v), "levels", "remove the row")
        return levels.astype(float)

    def score(
        self, users: Any, items: ArrayLike | None = None, levels: ArrayLike | None = None
    ) -> float:
        """Mean log density of ratings, in nats; higher is better.

        Parameters
        ----------
        users, items, levels
            As for `CollaborativeOrdinalGP.score`.
        """
        who, what, ratings = check_triples(users, items, levels)
        result, rows, columns = self._rows(who, what, "population")
        mean, variance = result.predict_number(rows, columns)
        return float(norm.logpdf(self._to_numbers(ratings), mean, np.sqrt(variance)).mean())

    def predict(self, users: Any, items: Any, *, unknown: Unknown = "error") -> Array:
        """Expected rating.

        Parameters
        ----------
        users, items, unknown
            As for `CollaborativeOrdinalGP.predict_proba`, which raises the same errors.

        Returns
        -------
        ndarray of shape (K,)
        """
        result, who, what = self._rows(users, items, unknown)
        return result.predict_number(who, what)[0]

    def predict_interval(
        self, users: ArrayLike, items: ArrayLike, level: float = 0.9
    ) -> tuple[Array, Array]:
        """Ends of the interval that a rating is in with this probability, noise included.

        Parameters
        ----------
        users, items : array-like of shape (K,)
            Ids, a pair a row.
        level : float, default 0.9
            The probability.

        Returns
        -------
        tuple
            Two arrays of shape (K,).

        Raises
        ------
        ValueError
            If an id is not known, or `level` is not a probability between 0 and 1.
        """
        check_level(level)
        result, who, what = self._rows(users, items)
        mean, variance = result.predict_number(who, what)
        half = norm.ppf(0.5 + level / 2) * np.sqrt(variance)
        return mean - half, mean + half
