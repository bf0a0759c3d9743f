"""`OrderRanker`: skills of named items, from orders, top-k lists and choices."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesrank.estimators.checks import location_and_scale
from bayesrank.estimators.collaborative_data import id_list
from bayesrank.estimators.collaborative_features import read_item_table
from bayesrank.estimators.comparisons import numbers_of, read_pairs
from bayesrank.estimators.skills import SkillEstimator, components
from bayesrank.models.orders import events, preference_orders, thurstone_orders

__all__ = ["OrderRanker"]

Array = NDArray[np.float64]

_CURE = "rank it in an order, or give it among items or item_features"


class OrderRanker(SkillEstimator):
    """Rank named items from orders of several at a time, each of which is one event.

    In an event every item performs once, at its skill plus noise, and the performances come in the
    order seen. An order of ten items is then not 45 independent comparisons, which would make
    intervals far too narrow; for pairs that were compared one by one see
    `bayesrank.PairwiseRanker`.

    Where something is known of the items, their skill is a Gaussian process of their features
    (`bayesrank.models.orders.preference_orders`); else skills are independent
    (`bayesrank.models.orders.thurstone_orders`). Skill is in units of the noise of a performance;
    only differences matter.

    Parameters
    ----------
    item_features, items : optional
        Of all items, those in no order included, as for `bayesrank.PairwiseRanker`.
    ard, standardize
        Of items with features, see `bayesrank.PreferenceGP`.
    hyperparameters : {"integrate", "maximum", "prior"} or mapping, default "integrate"
        As for `bayesrank.PairwiseRanker`: with features ``amplitude`` and ``lengthscale``, else
        ``scale``.
    num_restarts, num_samples, random_state
        As for `bayesrank.PairwiseRanker`.

    Attributes
    ----------
    names_ : list
        Names of the items, in the order of the result's entries.
    result_ : EPResult or IntegratedEPResult
        The posterior of the skills, site ``f``; also as `result`.
    params_ : dict
        Values of the hyperparameters that were used; their means if they were integrated over.
    log_evidence_ : float
        EP's log evidence at them, in nats; of the program as a whole if they were integrated over.

    Examples
    --------
    >>> from bayesrank import OrderRanker
    >>> orders = [["tea", "coffee", "milk"], ["coffee", ["tea", "milk"]], ["tea", "milk"]]
    >>> ranker = OrderRanker(hyperparameters="prior").fit(orders)
    >>> ranker.rank().name[2]
    'milk'
    """

    likelihood = "probit"
    laplacian = None

    def __init__(
        self,
        *,
        item_features: Any = None,
        items: Sequence[Hashable] | None = None,
        ard: bool = False,
        standardize: bool = True,
        hyperparameters: str | Mapping[str, Any] = "integrate",
        num_restarts: int = 0,
        num_samples: int = 2000,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.item_features = item_features
        self.items = items
        self.ard = ard
        self.standardize = standardize
        self.hyperparameters = hyperparameters
        self.num_restarts = num_restarts
        self.num_samples = num_samples
        self.random_state = random_state

    def fit(
        self,
        orders: Iterable[Sequence[Any]],
        y: None = None,
        *,
        sample_weight: ArrayLike | None = None,
        callback: Callable[[int, float], None] | None = None,
    ) -> Self:
        """Learn the hyperparameters, then the skills.

        Parameters
        ----------
        orders : iterable of sequences
            Each order's names, best first; a list, tuple or set in the place of a name is a group
            of which nothing is said but that all in it are worse than what comes before and better
            than what comes after. ``["a", "b", ["c", "d"]]`` is the best two of four, and
            ``["a", ["b", "c"]]`` a choice. Names are text or numbers.
        y : None
            Not used; scikit-learn passes it.
        sample_weight : array-like of shape (N,), optional
            How many people gave each order, a positive whole number: so many events.
        callback : callable, optional
            As for `bayesrank.PairwiseRanker`.

        Returns
        -------
        OrderRanker
            This estimator.

        Raises
        ------
        ValueError
            If an argument or an option cannot be used; the message names it.

        Warns
        -----
        ConvergenceWarning
            If EP or the search for hyperparameters has not converged.
        """
        said = [[_group(group) for group in order] for order in orders]
        named = [name for order in said for group in order for name in group]
        names, features = self._read_items(named)
        known = {name: number for number, name in enumerate(names)}
        unknown = next((name for name in named if name not in known), None)
        if unknown is not None:
            raise ValueError(f"orders names {unknown!r}, which is not among the items; add it")
        numbers = [[[known[name] for name in group] for group in order] for order in said]
        data = events(numbers, len(names), sample_weight)
        if features is None:
            self._infer(thurstone_orders, (len(names), *data), {"scale": ()}, {}, callback)
        else:
            self._fit_features_of(features, data, callback)
        self.names_ = names
        return self

    def predict(self, items: Sequence[Hashable] | None = None) -> tuple[Array, Array]:
        """Skills and how well they are known.

        Parameters
        ----------
        items : sequence of shape (m,), optional
            Names of items; without it, all in the order of ``names_``.

        Returns
        -------
        tuple of ndarray
            Posterior means and standard deviations, both of shape (m,).

        Raises
        ------
        NotFittedError
            If `fit` has not been called.
        ValueError
            If an item is not known.
        """
        result = self.result
        ids = self.names_ if items is None else id_list(items, "items")
        at = numbers_of((ids, ids), self._known(), _CURE)[:, 0]
        return result.mean["f"][at], result.stddev["f"][at]

    def predict_proba(self, pairs: Any) -> Array:
        """Probability that the first item of each pair comes before the second in a new order.

        Parameters
        ----------
        pairs : table, or array-like of shape (P, 2)
            Names of items.

        Returns
        -------
        ndarray of shape (P,)
            Probabilities.

        Raises
        ------
        NotFittedError
            If `fit` has not been called.
        ValueError
            If an item is not known.
        """
        parts = components(self.result)
        numbers = numbers_of(read_pairs(pairs, "pairs"), self._known(), _CURE)
        return self._probability(parts, numbers, "win")

    def _names(self) -> list[Hashable]:
        return self.names_

    def _known(self) -> dict[Hashable, int]:
        return {name: number for number, name in enumerate(self.names_)}

    def _read_items(self, named: list[Hashable]) -> tuple[list[Hashable], Array | None]:
        """Names of all items, and their features if there are any."""
        given = None if self.items is None else id_list(self.items, "items")
        if self.item_features is None:
            return given if given is not None else sorted(set(named), key=str), None
        table = read_item_table(self.item_features)
        names = list(table.items)
        if given is None:
            return names, table.values
        if len(given) != len(names):
            raise ValueError(f"items names {len(given)}, but item_features has {len(names)} rows")
        return given, table.values if names == list(range(len(names))) else table.rows(given)

    def _fit_features_of(
        self, features: Array, data: Any, callback: Callable[[int, float], None] | None
    ) -> None:
        d = features.shape[1]
        mean, scale = np.zeros(d), np.ones(d)
        if self.standardize:
            mean, scale = location_and_scale(features)
        shapes = {"amplitude": (), "lengthscale": (d,) if self.ard else ()}
        options = {"ard": bool(self.ard)}
        args = (features - mean) / scale, *data
        self._infer(preference_orders, args, shapes, options, callback)
        self.feature_mean_, self.feature_scale_ = mean, scale


def _group(group: Any) -> list[Hashable]:
    """Names of a group, of which a name by itself is one."""
    return list(group) if isinstance(group, list | tuple | set | frozenset) else [group]
