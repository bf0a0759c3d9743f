"""`OrderRanker`: skills of named items, from orders, top-k lists and choices."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Literal, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesrank._tables import column_names, unmasked
from bayesrank.datasets import ComparisonData
from bayesrank.estimators.base import ScaleChoice
from bayesrank.estimators.collaborative_data import id_list
from bayesrank.estimators.columns import in_order, linked_items, numbers_of, read_pairs, recognised
from bayesrank.estimators.ranker import NamedRanker, refuse_one
from bayesrank.estimators.skills import fit_skills
from bayesrank.models.orders import events
from bayesrank.solvers.comparisons import Asked
from bayesrank.solvers.comparisons.terms import read_weights

Array = NDArray[np.float64]

_FIX = "rank it in an order, or give it among items or item_features"


class OrderRanker(NamedRanker):
    """Rank named items from orders of several at a time, each of which is one event.

    In an event every item performs once, at its skill plus noise, and performances come in the
    order seen. An order of ten items is not 45 independent comparisons, which would make intervals
    far too narrow. For pairs compared one by one see `bayesrank.PairwiseRanker`. If camps of people
    disagree, intervals are too narrow (``python -m benchmarks order-subsets``).

    With features, skill is a Gaussian process of them
    (`bayesrank.models.orders.preference_orders`); else skills are independent
    (`bayesrank.models.orders.thurstone_orders`). Skill is in units of the noise of a performance;
    only differences matter.

    Parameters
    ----------
    item_features, items : optional
        All items, ordered or not, as for `bayesrank.PairwiseRanker`.
    ard, standardize
        For items with features, see `bayesrank.PreferenceGP`.
    hyperparameters : {"integrate", "map", "prior"} or mapping, default "integrate"
        As for `bayesrank.PairwiseRanker`: with features ``amplitude`` and ``lengthscale``, else
        ``scale``.
    num_restarts, num_samples, random_state
        As for `bayesrank.PairwiseRanker`.

    Attributes
    ----------
    names_ : list
        Names of the items, in the order of the result's entries.
    result_, params_, hyperparameters_, log_evidence_
        As for `bayesrank.PairwiseRanker`.

    Examples
    --------
    >>> from bayesrank import OrderRanker
    >>> orders = [["tea", "coffee", "milk"], ["coffee", ["tea", "milk"]], ["tea", "milk"]]
    >>> ranker = OrderRanker(hyperparameters="prior").fit(orders)
    >>> ranker.rank().names[2]
    'milk'
    """

    def __init__(
        self,
        *,
        item_features: Any = None,
        items: Sequence[Hashable] | None = None,
        ard: bool = False,
        standardize: bool = True,
        hyperparameters: ScaleChoice = "integrate",
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
        orders: Iterable[Sequence[Any]] | ComparisonData,
        y: None = None,
        *,
        sample_weight: ArrayLike | None = None,
        callback: Callable[[int, float], None] | None = None,
    ) -> Self:
        """Learn the hyperparameters, then the skills.

        It raises and warns as `bayesrank.PairwiseRanker.fit` does.

        Parameters
        ----------
        orders : iterable of sequences, table, or ComparisonData with orders
            Each order's names, text or numbers, best first. A list, tuple or set in place of a name
            is a group in no order. ``["a", "b", ["c", "d"]]`` is the best two of four, and ``["a",
            ["b", "c"]]`` a choice. A table may have any layout of orders, see `read_comparisons`.
        y, callback
            As for `bayesrank.PairwiseRanker.fit`.
        sample_weight : array-like of shape (N,), optional
            How many people gave each order, a positive whole number: so many events.
        """
        if column_names(orders) is not None:
            orders = recognised(orders, ())
        names, numbers, features, feature_names = self._numbered(orders)
        if isinstance(orders, ComparisonData) and orders.orders is not None:
            if sample_weight is not None:
                raise ValueError("orders has its counts; leave sample_weight out")
            sample_weight = orders.orders.counts
        elif sample_weight is not None:
            sample_weight = _counts(sample_weight, len(numbers))
        data = events(numbers, len(names), sample_weight)
        skills, kept = self._known_of(len(names), features, feature_names)
        self._keep(fit_skills(data, skills, self._settings(), callback), kept)
        self.components_ = linked_items(len(names), *data[:3]) if features is None else None
        self.names_ = names
        return self

    def _numbered(self, orders: Any) -> tuple[list[Hashable], Any, Array | None, tuple[str, ...]]:
        """Names of items, their numbers in each group of each order, features and their names."""
        if isinstance(orders, ComparisonData):
            if orders.orders is None:
                raise ValueError("orders has comparisons by pairs alone; use PairwiseRanker")
            self._refuse_others(orders)
            known = orders.features, orders.feature_names
            return list(orders.names), orders.orders.groups, *known
        said = _read_orders(orders)
        named = dict.fromkeys(name for order in said for group in order for name in group)
        names, features = self._read_items()
        names = in_order(list(named)) if names is None else names
        refuse_one(names)
        number = {name: place for place, name in enumerate(names)}
        unknown = next((name for name in named if name not in number), None)
        if unknown is not None:
            where = "items" if self.item_features is None else "item_features"
            raise ValueError(
                f"orders names {unknown!r}, which is not among the items; add it to {where}"
            )
        numbers = [[[number[name] for name in group] for group in order] for order in said]
        return names, numbers, features, ()

    @overload
    def predict(
        self, items: Sequence[Hashable] | None = ..., *, return_std: Literal[True] = ...
    ) -> tuple[Array, Array]: ...

    @overload
    def predict(
        self, items: Sequence[Hashable] | None = ..., *, return_std: Literal[False]
    ) -> Array: ...

    def predict(
        self, items: Sequence[Hashable] | None = None, *, return_std: bool = True
    ) -> Array | tuple[Array, Array]:
        """Skills and how well they are known: posterior means and standard deviations.

        Parameters
        ----------
        items, return_std
            As for `bayesrank.PairwiseRanker.predict`, which raises the same errors.
        """
        mean, sd = self._posterior().skills()
        at = self._numbers(items, _FIX)
        return (mean[at], sd[at]) if return_std else mean[at]

    def predict_proba(self, pairs: Any) -> Array:
        """Probability that the first item of each pair comes before the second in a new order.

        Parameters
        ----------
        pairs
            As for `bayesrank.PairwiseRanker.predict_proba`, which raises the same errors.

        Returns
        -------
        ndarray of shape (P,)
        """
        posterior = self._posterior()
        numbers = numbers_of(read_pairs(pairs, "pairs"), self.names_, _FIX, "pairs")
        return posterior.chances(Asked(*numbers.T))[:, 2]


def _read_orders(orders: Any) -> list[list[list[Hashable]]]:
    """Names of each group of each order; refuse tables, texts, and anything but names."""
    if isinstance(orders, str | bytes) or column_names(orders) is not None:
        raise ValueError(
            f"orders is a {type(orders).__name__}; pass a list of orders, each a list of names, "
            "best first"
        )
    said = []
    for row, order in enumerate(orders):
        if isinstance(order, str | bytes) or not np.iterable(order):
            raise ValueError(f"orders has {order!r} in row {row}; pass a list of names, best first")
        where = f"the order in row {row}"
        groups = [id_list(_group(group), where) for group in unmasked(order)]
        names = [name for group in groups for name in group]
        if not names:
            raise ValueError(f"{where} has no names; pass a list of names, best first")
        if len({*names}) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"{where} names {twice!r} twice; keep one of them")
        said.append(groups)
    if not said:
        raise ValueError("orders has no rows; pass one order or more")
    return said


def _counts(weights: Any, count: int) -> Array:
    """How many people gave each order, shape (N,)."""
    counts = read_weights(weights, count)
    odd = (counts < 1) | (counts % 1 != 0)
    if odd.any():
        row = int(np.argmax(odd))
        raise ValueError(
            f"sample_weight is {counts[row]:g} in row {row}; pass how many people gave the order, "
            "a whole number from 1 on"
        )
    return counts


def _group(group: Any) -> list[Any]:
    """Names of a group, of which a name by itself is one."""
    many = isinstance(group, list | tuple | set | frozenset | np.ndarray)
    return list(group) if many else [group]
