"""What the collaborative estimators share: ids, recommendations, new users and items, ArviZ."""

from collections.abc import Callable, Hashable, Sequence
from copy import copy
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from bayesrank._fitted import Fitted
from bayesrank._process import enter_jax
from bayesrank._validate import check_choice, check_count
from bayesrank.estimators.base import check_options
from bayesrank.estimators.collaborative_data import check_triples
from bayesrank.estimators.collaborative_features import BaseKernels
from bayesrank.estimators.item_tables import Labels, id_list, new_rows, read_item_table
from bayesrank.inferencedata.draws import draws_to_arviz
from bayesrank.solvers.collaborative import EM, EMResult, EMState

Array = NDArray[np.float64]
Unknown = Literal["error", "population"]


class Recommendation(NamedTuple):
    """An item for a user: posterior mean and standard deviation of the user's function there."""

    item: Hashable
    mean: float
    sd: float


class SimilarItem(NamedTuple):
    """An item and its correlation, over users, with the one asked about."""

    item: Hashable
    correlation: float


class Collaborative(Fitted):
    """What the two estimators share."""

    item_features_: Array | None
    item_feature_names_: tuple[Any, ...] | None

    def __init__(
        self,
        collaborative: bool,
        strength: float | None,
        implicit: bool,
        max_iterations: int,
        tol: float,
        progress_bar: bool,
    ) -> None:
        self.collaborative = collaborative
        self.strength = strength
        self.implicit = implicit
        self.max_iterations = max_iterations
        self.tol = tol
        self.progress_bar = progress_bar

    def fit(
        self,
        users: Any,
        items: ArrayLike | None = None,
        levels: ArrayLike | None = None,
        item_features: Any = None,
        *,
        checkpoint: str | Path | None = None,
        init_state: EMState | str | Path | None = None,
        callback: Callable[[int, float], None] | None = None,
    ) -> Self:
        """Learn what users share, and every user's function.

        Parameters
        ----------
        users : array-like of shape (K,), or DataFrame
            Ids of any kind; or a table with the columns ``user``, ``item`` and ``level`` (or
            ``rating``; MovieLens's ``userId`` and ``movieId`` will do, too), and then `items` and
            `levels` are left out.
        items : array-like of shape (K,)
            Ids of any kind. Nobody rates an item twice.
        levels : array-like of shape (K,)
            Ratings, higher is better: whole numbers, of which every one from the lowest to the
            highest is used, or finite numbers for `CollaborativeGP`.
        item_features : DataFrame, mapping or array, optional
            Features by item id (a DataFrame's index or a mapping's keys), or an array with a row
            for each of the items ``0 .. m - 1``. Further items may be among them.
        checkpoint : str or Path, optional
            A file that the state is saved to as EM goes on, and at the end.
        init_state : str, Path or EMState, optional
            A checkpoint, or the state of an earlier result, of the same data, to continue from.
        callback : callable, optional
            Called after each iteration with its number and the objective per rating.

        Raises
        ------
        ValueError
            If an argument cannot be used; the message says which row, and the fix.

        Warns
        -----
        ConvergenceWarning
            If EM has not converged.
        """
        check_options(self)
        people, things, ratings = check_triples(users, items, levels)
        numbers = self._read_levels(ratings)
        (self.users_, who), (self.items_, what) = Labels.of(people), Labels.of(things)
        self.item_features_ = self.item_feature_names_ = None
        if item_features is not None:
            read = read_item_table(item_features)
            further = (x for x in read.items if x not in self.items_)
            self.items_, self.item_feature_names_ = Labels([*self.items_, *further]), read.names
            self.item_features_ = read.rows(self.items_)
        self._kernels = BaseKernels(
            self.item_features_, corated=self.implicit and self.collaborative
        )
        engine = self._engine(who, what, numbers)
        self.result_ = engine.run(
            who,
            what,
            numbers,
            num_users=len(self.users_),
            num_items=len(self.items_),
            kernel=self._kernels.known(who, what, len(self.items_)),
            progress_bar=self.progress_bar,
            checkpoint=checkpoint,
            init_state=init_state,
            callback=callback,
        )
        return self

    def _engine(self, users: NDArray, items: NDArray, numbers: Array) -> EM:
        """EM by the options, for numbers from 0."""
        raise NotImplementedError

    def _read_levels(self, levels: NDArray) -> Array:
        """The ratings to learn from as numbers for `EM`."""
        return self._to_numbers(levels)

    @property
    def result(self) -> EMResult:
        """The engine's result; a `NotFittedError` before `fit`."""
        enter_jax()
        check_is_fitted(self)
        return self.result_

    @property
    def shared_mean_(self) -> Array:
        """Shared mean of the users' functions at ``items_``, shape (m,)."""
        return self.result.mean

    @property
    def shared_kernel_(self) -> Array:
        """Shared covariance of the users' functions at ``items_``, shape (m, m)."""
        return self.result.kernel

    def predict_latent(self, users: ArrayLike, items: ArrayLike) -> tuple[Array, Array]:
        """Posterior mean and standard deviation of the users' functions.

        Parameters
        ----------
        users, items : array-like of shape (K,)
            Ids, a pair a row.

        Returns
        -------
        tuple
            Two arrays of shape (K,).

        Raises
        ------
        ValueError
            If an id is not known; see `with_items` and `with_users` for new ones.
        """
        result, who, what = self._rows(users, items)
        mean, variance = result.predict_latent(who, what)
        return mean, np.sqrt(np.maximum(variance, 0.0))

    def recommend(
        self, user: Hashable, n: int = 10, *, exclude_rated: bool = True
    ) -> list[Recommendation]:
        """Items that a user would like best.

        Parameters
        ----------
        user
            Id.
        n : int, default 10
            How many.
        exclude_rated : bool, default True
            Whether to leave out what the user has rated.

        Returns
        -------
        list of Recommendation
            Best first.

        Raises
        ------
        ValueError
            If the user is not known, or `n` is not a number of items.
        """
        result, most = self.result, check_count(n, "n", 0)
        number = self.users_.numbers([user], "user")
        mean, variance = (x[0] for x in result.functions(number))
        order = np.argsort(-mean, kind="stable")
        if exclude_rated:
            rated = result.observations.items[result.observations.users == number[0]]
            order = order[~np.isin(order, rated)]
        return [
            Recommendation(self.items_[i], float(mean[i]), float(np.sqrt(max(variance[i], 0.0))))
            for i in order[:most]
        ]

    def similar(self, item: Hashable, n: int = 10) -> list[SimilarItem]:
        """Items that the same users like, by the shared kernel.

        Parameters
        ----------
        item
            Id.
        n : int, default 10
            How many.

        Returns
        -------
        list of SimilarItem
            Most alike first.

        Raises
        ------
        ValueError
            If the item is not known, or `n` is not a number of items.
        """
        kernel, most = self.result.kernel, check_count(n, "n", 0)
        own = self.items_.numbers([item], "item")[0]
        sd = np.sqrt(np.diagonal(kernel))
        correlation = kernel[own] / (sd[own] * sd)
        order = [i for i in np.argsort(-correlation, kind="stable") if i != own]
        return [SimilarItem(self.items_[i], float(correlation[i])) for i in order[:most]]

    def with_items(self, items: Sequence[Hashable], item_features: Any) -> Self:
        """Return a copy that knows further items by their features; nothing is learned anew.

        Parameters
        ----------
        items
            Ids of the new items.
        item_features : DataFrame, mapping, or array-like of shape (k, d)
            Their features: by id as in `fit`, or an array with a row for each of `items`.

        Raises
        ------
        ValueError
            If an id is known already, `fit` had no features, or these do not fit those.
        """
        result = self.result
        known = self.item_features_
        if known is None:
            raise ValueError("fit was given no item_features; fit with them to add items")
        ids = id_list(items, "items")
        for row, item in enumerate(ids):
            if item in self.items_ or item in ids[:row]:
                raise ValueError(f"item {item!r} is known already; leave it out")
        table = new_rows(ids, item_features, known.shape[1], self.item_feature_names_)
        kernels = self._kernels.extended(result.base_kernels, table, len(ids))
        both = np.vstack([known, table])
        return self._copy(
            result_=result.extend_items(*kernels),
            items_=Labels([*self.items_.ids, *ids]),
            item_features_=both,
            _kernels=self._kernels.of(both),
        )

    def with_users(
        self, users: Any, items: ArrayLike | None = None, levels: ArrayLike | None = None
    ) -> Self:
        """Return an estimator of new users, from what they say and the shared prior as it is.

        It knows these users only. Like those of `fit` they have their own thresholds, or scale and
        noise, near the shared ones where they say little.

        Parameters
        ----------
        users, items, levels : array-like of shape (K,)
            As in `fit`, also in one table; the items must be known.

        Raises
        ------
        ValueError
            If an item or a level is not known.
        """
        result = self.result
        who, what, ratings = check_triples(users, items, levels)
        labels, numbers = Labels.of(who)
        conditioned = result.condition(
            numbers, self.items_.numbers(what, "item"), self._to_numbers(ratings)
        )
        return self._copy(result_=conditioned, users_=labels)

    def to_arviz(
        self, users: Sequence[Hashable] | None = None, *, num_samples: int = 200, seed: int = 0
    ) -> Any:
        """Posterior draws of users' functions, and what was learned, for ArviZ.

        Parameters
        ----------
        users
            Ids; the first ten if not given.
        num_samples, seed
            Number of draws of each, and their seed.

        Returns
        -------
        arviz.InferenceData or xarray.DataTree
            ``posterior`` holds ``f``, with coordinates ``user`` and ``item``; ``constant_data`` the
            shared mean ``h`` and kernel ``Sigma``, ``level`` and ``scales`` of the base that they
            are drawn towards, and the users' noise; ``observed_data`` these users' ratings.
        """
        result = self.result
        chosen = self.users_.ids[:10] if users is None else id_list(users, "users")
        who = self.users_.numbers(chosen, "user")
        if not len(who) or len(set(who)) < len(who):
            raise ValueError(f"users is {chosen!r}; name at least one, and each once")
        check_count(num_samples, "num_samples", 1)
        seen = result.observations
        mine = np.isin(seen.users, who)
        rated = [str(self.items_[i]) for i in seen.items[mine, 0]]
        raters = [str(self.users_[j]) for j in seen.users[mine]]
        items = self.items_.ids
        return draws_to_arviz(
            draws={"f": (("user", "item"), result.draw(who, num_samples, seed))},
            coords={"user": chosen, "item": items, "item_other": items},
            constant={
                "h": (("item",), result.mean),
                "Sigma": (("item", "item_other"), result.kernel),
                "noise": (("user",), result.noise[who]),
                "level": ((), result.state.level),
                "scales": (("base_kernel",), result.state.scales),
            },
            observed={
                "rating": ("rating_number", self._from_numbers(seen.levels[mine])),
                "rating_user": ("rating_number", np.asarray(raters)),
                "rating_item": ("rating_number", np.asarray(rated)),
            },
            attrs={
                "inference_library": "bayesrank",
                "inference_method": f"EM, {result.likelihood.name}",
                "log_evidence": result.log_evidence,
                "converged": int(result.converged),
            },
        )

    def _to_numbers(self, levels: NDArray) -> Array:
        raise NotImplementedError

    def _from_numbers(self, numbers: Array) -> NDArray:
        """Undo `_to_numbers`."""
        return numbers

    def _copy(self, **changes: Any) -> Self:
        other = copy(self)
        vars(other).update(changes)
        return other

    def _rows(
        self, users: Any, items: Any, unknown: Unknown = "error"
    ) -> tuple[EMResult, NDArray, NDArray]:
        """Numbers of users and items, and the result that has them."""
        result = self.result
        check_choice(unknown, "unknown", "error", "population")
        everybody, everything = self.users_, self.items_
        if unknown == "population":
            new_users, new_items = everybody.unknown(users), everything.unknown(items)
            if new_items and self.item_features_ is not None:
                raise ValueError(
                    f"item {new_items[0]!r} is not known; add it by with_items, with its features"
                )
            if new_users:
                result = result.with_new_users(len(new_users))
                everybody = Labels([*everybody, *new_users])
            if new_items:
                kernels = self._kernels.extended(result.base_kernels, None, len(new_items))
                result = result.extend_items(*kernels)
                everything = Labels([*everything, *new_items])
        who, what = everybody.numbers(users, "user"), everything.numbers(items, "item")
        if who.shape != what.shape:
            raise ValueError(f"there are {len(who)} users but {len(what)} items; pass pairs")
        return result, who, what
