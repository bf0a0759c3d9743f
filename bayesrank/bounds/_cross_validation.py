"""Bounds of a ranking function's risk by queries without labels.

Distance of two ranking functions that needs no labels.

Take a query with ``K`` candidates, ``p`` of them relevant and ``q`` not. Its loss is the share of
the ``p q`` pairs in the wrong order, ``Delta = (sum of the relevant items' ranks - its least value)
/ (p q)``. So two functions' losses differ by the sum over the relevant items of their differences
of rank, over ``p q``. Whatever the labels are, that is at most

    d(f, f') = max_{p + q = K} (sum of the p largest rank differences) / (p q),

and some labelling attains it. Tied items get their mean rank, just as ties cost one half. ``d`` is
symmetric, obeys the triangle inequality and lies between 0 and 1.

The function learned from all labelled queries has no test set left. Those of ``K``-fold
cross-validation have one each, and queries without labels show how far it is from them:

    risk(f) <= mean_k (test error of f_k + term) + mean distance of f and f_k + term     (2)

with probability at least ``1 - delta``; half of `delta` goes to each part, and the folds share the
first half. In print the size of a fold is ``floor(1 / K)``; it is ``floor(n / K)``.

A query whose candidates are all relevant, or all not, has loss 0 whatever the ranking. An undefined
loss could not be averaged with the unlabelled distances, whose queries may be of that kind too.

References
----------
.. [1] N. Usunier, V. Truong, M. R. Amini and P. Gallinari, "Ranking with unlabeled data: a first
       study", NIPS 2005 workshop on Learning to Rank.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesrank._validate import check_count
from bayesrank.bounds._skew import Array, check_delta
from bayesrank.metrics import PerQuery, auc
from bayesrank.metrics.per_query import number_queries


def ranking_distance(
    scores: ArrayLike, other: ArrayLike, *, query: ArrayLike | None = None
) -> PerQuery:
    """Largest amount by which the pairwise error of one ranking can exceed another's [1]_ (1).

    Parameters
    ----------
    scores, other
        Scores that two functions give to the same candidates, shape ``(n,)``, higher is better.
    query
        The query of each candidate, shape ``(n,)``; one query without it.

    Returns
    -------
    PerQuery
        ``d(f, f')`` of each query, in ``O(K log K)``; 0 for one candidate, which has no pairs. Its
        ``.mean`` estimates ``D(f, f')`` if the queries are a random sample.

    Raises
    ------
    ValueError
        If the shapes differ, a score is NaN, a candidate has no query, or there are no candidates.

    Examples
    --------
    >>> ranking_distance([3, 2, 1], [3, 1, 2]).mean  # labels 0, 0, 1 attain it
    0.5
    """
    first, second = _scores("scores", scores), _scores("other", other)
    if first.shape != second.shape:
        raise ValueError(
            f"other has shape {second.shape}, and scores {first.shape}; they must agree"
        )
    code, names = number_queries(query, len(first))
    return PerQuery(_distances(code, _ranks(code, first) - _ranks(code, second)), names)


def mcdiarmid_term(num_queries: int, delta: float) -> float:
    """One-sided bound on the deviation of a mean of independent values in ``[0, 1]``.

    The expectation is at most the mean plus ``sqrt(log(1 / delta) / (2 num_queries))``, with
    probability at least ``1 - delta``.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    num_queries = check_count(num_queries, "num_queries")
    return math.sqrt(math.log(1.0 / check_delta(delta)) / (2.0 * num_queries))


def _scores(name: str, values: ArrayLike) -> Array:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} must have shape (n,) with n >= 1, got {array.shape}")
    if np.isnan(array).any():
        place = int(np.flatnonzero(np.isnan(array))[0])
        raise ValueError(f"{name}[{place}] is NaN: a score must be a number; leave the item out")
    return array


def _ranks(code: NDArray[np.intp], scores: Array) -> Array:
    """Rank candidates in order of `code`, then best first; the tied ones get their mean rank."""
    order = np.lexsort((-scores, code))
    lists, ranked = code[order], scores[order]
    new = np.ones(len(order), bool)
    new[1:] = (lists[1:] != lists[:-1]) | (ranked[1:] != ranked[:-1])
    first = np.flatnonzero(new)
    size = np.diff(first, append=len(order))
    ranks = np.empty(len(order))
    ranks[order] = np.repeat(first + (size - 1) / 2.0, size)
    return ranks


def _distances(code: NDArray[np.intp], difference: Array) -> Array:
    """Distance in each query, from differences of rank, which sum to zero inside a query."""
    size = np.bincount(code)
    start = np.cumsum(size) - size
    order = np.lexsort((-difference, code))
    most = np.cumsum(difference[order])
    p = np.arange(1, len(order) + 1) - start[code[order]]
    q = size[code[order]] - p
    return np.maximum.reduceat(np.where(q > 0, most / np.maximum(p * q, 1), 0.0), start)


Fit = Callable[[NDArray[Any], NDArray[Any], NDArray[Any]], Any]
Score = Callable[[Any, NDArray[Any]], ArrayLike]


class Queries(NamedTuple):
    """Candidates of some queries.

    Parameters
    ----------
    features, query
        One row a candidate, shape ``(n, ...)``, and the query of each, shape ``(n,)``.
    labels
        Shape ``(n,)``, 1 for relevant and 0 for not; None if unlabelled.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesrank.bounds import Queries
    >>> labelled = Queries(np.zeros((4, 2)), np.array([0, 0, 1, 1]), np.array([1, 0, 0, 1]))
    >>> labelled.features.shape
    (4, 2)
    """

    features: NDArray[Any]
    query: NDArray[Any]
    labels: NDArray[Any] | None = None


@dataclass(frozen=True)
class CrossValidationBound:
    """A bound of the risk of a ranking function, and what it is made of.

    Parameters
    ----------
    bound
        Upper bound of the expected pairwise error of `model`; the sum of the four that follow.
    error, error_term
        Mean over the folds of the error of a fold's function on the fold, and what is added for the
        chance of the folds.
    distance, distance_term
        Mean over the unlabelled queries of the distance between `model` and the folds' functions,
        and what is added for the chance of these queries.
    fold_errors, fold_sizes
        Error and number of queries of each fold, shape ``(K,)``.
    model
        What `fit` returned for all labelled queries.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesrank.bounds import Queries, cross_validation_bound
    >>> X, query = np.tile([[1.0], [0.0]], (10, 1)), np.repeat(np.arange(10), 2)
    >>> labelled = Queries(X, query, np.tile([1, 0], 10))
    >>> def fit(features, query, labels):
    ...     return 1.0
    >>> def score(weight, features):
    ...     return weight * features[:, 0]
    >>> float(cross_validation_bound(fit, score, labelled, Queries(X, query)).error)
    0.0
    """

    bound: float
    error: float
    error_term: float
    distance: float
    distance_term: float
    fold_errors: NDArray[np.float64]
    fold_sizes: NDArray[np.intp]
    model: Any


def cross_validation_bound(
    fit: Fit,
    score: Score,
    labelled: Queries,
    unlabelled: Queries,
    *,
    num_folds: int = 5,
    delta: float = 0.05,
    average: bool = True,
    rng: int | np.random.Generator = 0,
) -> CrossValidationBound:
    """Bound the expected pairwise error of what `fit` learns from all labelled queries [1]_ (2).

    Parameters
    ----------
    fit, score
        ``fit(features, labels, query) -> model``, and ``score(model, features) -> scores``, higher
        is better.
    labelled, unlabelled
        Queries drawn independently from one distribution, with labels 0 and 1, and without.
    num_folds
        Number ``K`` of parts that the labelled queries are split into.
    delta
        Probability that the bound may fail.
    average
        Compare the model with every fold's function on every unlabelled query, and average; it is
        as valid and less noisy. If False, with one function drawn for each, as in [1]_.
    rng
        Seed or generator for the folds, and for that draw.

    Raises
    ------
    ValueError
        If there are fewer labelled queries than folds, no unlabelled ones, labels other than 0 and
        1, or shapes that do not fit.
    """
    check_delta(delta)
    labelled, unlabelled = _checked("labelled", labelled), _checked("unlabelled", unlabelled)
    generator = np.random.default_rng(rng)
    labels, fold = _labels(labelled), _folds(labelled.query, num_folds, generator)
    models, errors, sizes = [], [], []
    for k in range(num_folds):
        kept = fold != k
        models.append(fit(labelled.features[kept], labels[kept], labelled.query[kept]))
        query = labelled.query[~kept]
        scores = _scored(score, models[k], labelled.features[~kept])
        errors.append(1.0 - auc(scores, labels[~kept], query=query, undefined=1.0).mean)
        sizes.append(len(np.unique(query)))
    model = fit(labelled.features, labels, labelled.query)
    distances = _fold_distances(score, model, models, unlabelled)
    if not average:
        drawn = generator.integers(num_folds, size=distances.shape[1])
        distances = distances[drawn, np.arange(distances.shape[1])]
    terms = [mcdiarmid_term(size, delta / (2 * num_folds)) for size in sizes]
    parts = {
        "error": float(np.mean(errors)),
        "error_term": float(np.mean(terms)),
        "distance": float(np.mean(distances)),
        "distance_term": mcdiarmid_term(distances.shape[-1], delta / 2),
    }
    return CrossValidationBound(
        bound=sum(parts.values()),
        **parts,
        fold_errors=np.array(errors),
        fold_sizes=np.array(sizes),
        model=model,
    )


def _checked(name: str, queries: Queries) -> Queries:
    """Return queries whose parts fit each other; lists become arrays."""
    features: Any = queries.features
    features = np.asarray(features) if isinstance(features, list | tuple) else features
    query = np.asarray(queries.query)
    labels = None if queries.labels is None else np.asarray(queries.labels)
    for part, values in (("features", features), ("labels", labels)):
        if values is not None and values.shape[:1] != query.shape:
            raise ValueError(
                f"{name} has {part} of shape {values.shape} and query of shape {query.shape}; give "
                "one of each a candidate"
            )
    return Queries(features, query, labels)


def _folds(query: NDArray[Any], num_folds: int, generator: np.random.Generator) -> NDArray[np.intp]:
    """Fold of each candidate; folds differ by one query at most."""
    names, inverse = np.unique(query, return_inverse=True)
    whole = isinstance(num_folds, int | np.integer)
    if not whole or not 2 <= num_folds <= len(names):
        raise ValueError(
            "num_folds must be a whole number between 2 and the number of labelled queries "
            f"{len(names)}, got {num_folds}"
        )
    return generator.permutation(np.arange(len(names)) % num_folds)[inverse]


def _labels(labelled: Queries) -> NDArray[Any]:
    if labelled.labels is None:
        raise ValueError("labelled queries need labels, one of 0 and 1 for each candidate")
    labels = np.asarray(labelled.labels)
    if not np.isin(labels, (0, 1)).all():
        bad = labels[~np.isin(labels, (0, 1))][0]
        raise ValueError(f"labels must be 0 or 1, got {bad}; use labels >= a level")
    return labels


def _scored(score: Score, model: Any, features: NDArray[Any]) -> NDArray[np.float64]:
    scores = np.asarray(score(model, features), dtype=np.float64)
    if scores.shape != (len(features),):
        raise ValueError(
            f"score returned shape {scores.shape} for {len(features)} candidates; "
            "it must give one score each"
        )
    return scores


def _fold_distances(
    score: Score, model: Any, models: list[Any], unlabelled: Queries
) -> NDArray[np.float64]:
    """Distance of the model and each fold's function on each query, shape ``(K, queries)``."""
    if len(unlabelled.query) == 0:
        raise ValueError("there are no unlabelled queries; the distance needs some")
    scores = _scored(score, model, unlabelled.features)
    others = [_scored(score, other, unlabelled.features) for other in models]
    return np.stack(
        [ranking_distance(scores, other, query=unlabelled.query).values for other in others]
    )
