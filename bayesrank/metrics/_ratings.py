"""Metrics of predicted ratings against true ones.

References
----------
.. [1] E. F. Harrington, "Online ranking/collaborative filtering using the perceptron algorithm",
       ICML 2003.
"""

from collections.abc import Callable
from typing import Unpack

from numpy.typing import ArrayLike

from bayesrank.metrics._result import PerQuery
from bayesrank.metrics.lists import Lists, ratio
from bayesrank.metrics.per_query import per_query
from bayesrank.metrics.problem import Array, Options


def mean_absolute_error(
    predicted: ArrayLike, labels: ArrayLike, **options: Unpack[Options]
) -> PerQuery:
    """Mean distance between predicted and true ratings; `rank_loss` is its name in [1]_.

    Parameters
    ----------
    predicted
        Ratings, or posterior means of ratings, in the place of scores; finite.
    labels, query, where, **options
        As in `bayesrank.metrics`; labels not below zero. Ties mean nothing here.

    Returns
    -------
    PerQuery
        In steps of the rating scale, 0 is right.

    Examples
    --------
    >>> mean_absolute_error([1, 2, 5], [1, 3, 3]).mean
    1.0
    """
    return _mean(lambda lists: abs(lists.score - lists.label), predicted, labels, options)


rank_loss = mean_absolute_error


def zero_one_error(predicted: ArrayLike, labels: ArrayLike, **options: Unpack[Options]) -> PerQuery:
    """Fraction of predicted ratings that are not the true one; for sets of labels, Hamming loss.

    Parameters
    ----------
    predicted, labels, query, where, **options
        As for `mean_absolute_error`.

    Returns
    -------
    PerQuery
        From 0 (right) to 1.
    """
    return _mean(lambda lists: lists.score != lists.label, predicted, labels, options)


def subset_error(predicted: ArrayLike, labels: ArrayLike, **options: Unpack[Options]) -> PerQuery:
    """Whether any rating of a query is not the true one: for sets of labels, the subset 0/1 loss.

    Parameters
    ----------
    predicted
        Ratings, or 1 for members of a set and 0 for others, in the place of scores; finite.
    labels, query, where, **options
        As in `bayesrank.metrics`; labels not below zero. Ties mean nothing here.

    Returns
    -------
    PerQuery
        0 (all right) or 1.

    Examples
    --------
    >>> subset_error([1, 0, 1, 1], [1, 0, 1, 0], query=[0, 0, 1, 1]).values
    array([0., 1.])
    """

    def kernel(lists: Lists) -> Array:
        return (lists.total(lists.score != lists.label) > 0) * 1.0

    return per_query(kernel, predicted, labels, kind="rating", **options)


def _mean(
    loss: Callable[[Lists], Array], predicted: ArrayLike, labels: ArrayLike, options: Options
) -> PerQuery:
    def kernel(lists: Lists) -> Array:
        return ratio(lists.total(loss(lists)), lists.size)

    return per_query(kernel, predicted, labels, kind="rating", **options)
