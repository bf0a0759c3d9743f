"""What the collaborative estimators share: ids, recommendations, new users and items, ArviZ."""

from collections.abc import Hashable, Sequence
from copy import copy
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from bayesrank._fitted import Fitted
from bayesrank._process import enter_jax
from bayesrank._validate import check_choice, check_count
from bayesrank.estimators.base import check_options
from bayesrank.estimators.collaborative_data import (
    Labels,
    check_triples,
    id_list,
)
from bayesrank.estimators.collaborative_features import (
    BaseKernels,
    new_rows,
    read_item_table,
)
from bayesrank.inferencedata.draws import draws_to_arviz
from bayesrank.solvers.collaborative import EMResult

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

    collaborative: bool
    implicit: bool
    progress_bar: bool
    _kernels: BaseKernels

    def _fit(
        self,
        users: list[Hashable],
        items: list[Hashable],
        ratings: Array,
        features: Any,
        run: dict[str, Any],
        **learned: Any,
    ) -> Self:
        """Run EM; nothing of an earlier fit is lost if that fails."""
        check_options(self)
        user_labels, who = Labels.of(users)
        item_labels, what = Labels.of(items)
        names, table = None, None
        if features is not None:
            read = read_item_table(features)
            further = (x for x in read.items if x not in item_labels)
            item_labels, names = Labels([*item_labels, *further]), read.names
            table = read.rows(item_labels)
        kernels = BaseKernels(table, corated=self.implicit and self.collaborative)
        result = self._run(
            who,
            what,
            ratings,
            kernels,
            num_users=len(user_labels),
            num_items=len(item_labels),
            progress_bar=self.progress_bar,
            **run,
        )
        self.users_, self.items_ = user_labels, item_labels
        self.item_features_, self.item_feature_names_ = table, names
        self._kernels = kernels
        vars(self).update(learned)
        self.result_ = result
        return self

    def _run(
        self, users: NDArray, items: NDArray, ratings: Array, kernels: BaseKernels, **run: Any
    ) -> EMResult:
        """Run EM on numbers from 0, by the options."""
        raise NotImplementedError

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
                "rating_user": (
                    "rating_number",
                    np.asarray([str(self.users_[j]) for j in seen.users[mine]]),
                ),
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
