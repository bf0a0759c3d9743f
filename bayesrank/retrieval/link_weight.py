"""How much links count at search time, learned from judged queries."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from bayesrank.metrics import average_precision
from bayesrank.retrieval.links import Links, with_linked

Array = NDArray[np.float64]

LINK_WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.5, 0.8)


@dataclass(frozen=True)
class LinkWeight:
    """The weight of links that ranks best for judged queries.

    Attributes
    ----------
    weight
        That with the greatest mean average precision over all judged queries.
    by_query
        For each query, the best weight for all the others, shape (queries,).
    scores
        Scores with links, sparse, shape (queries, documents). Each query has its weight in
        `by_query`, so its own judgements did not choose the weight.
    precision
        Average precision of each query under each weight that was tried, shape (weights, queries).

    Examples
    --------
    >>> import numpy as np
    >>> from bayesrank.retrieval import learn_link_weight, links_of
    >>> scores = np.array([[2.0, 0.0, 1.0], [0.0, 1.0, 2.0]])
    >>> relevant = np.array([[1, 1, 0], [0, 1, 1]])
    >>> learn_link_weight(scores, links_of([[0, 1]], 3), relevant).precision.shape
    (6, 2)
    """

    weight: float
    by_query: Array
    scores: Any
    precision: Array


def learn_link_weight(
    scores: Any, links: Links, relevant: ArrayLike, weights: ArrayLike = LINK_WEIGHTS
) -> LinkWeight:
    """Choose the weight of `with_linked` by judged queries.

    Parameters
    ----------
    scores : sparse array of shape (queries, documents)
        Scores without links.
    links : Links
        Links between the documents.
    relevant : array-like of shape (queries, documents)
        Labels, relevant from 1 on. Queries with no relevant document do not count.
    weights : array-like of shape (weights,), optional
        What to choose from, numbers from 0 on; of equally good ones the first is taken.

    Raises
    ------
    ValueError
        If an argument does not fit, or fewer than two queries have a relevant document.
    """
    tried, labels = np.asarray(weights, float), np.asarray(relevant)
    if tried.ndim != 1 or not tried.size:
        raise ValueError(f"weights has shape {tried.shape}; pass one number or more")
    if labels.shape != scores.shape:
        raise ValueError(
            f"relevant has shape {labels.shape}, and scores {scores.shape}; pass a label for each"
        )
    judged = (labels >= 1).any(axis=1)
    if judged.sum() < 2:
        raise ValueError("relevant has fewer than two queries with a relevant document; judge more")
    given = [with_linked(scores, links, weight) for weight in tried]
    precision = np.array([_precision(each, labels) for each in given])
    counted = np.where(judged, precision, 0.0)
    others = counted.sum(axis=1, keepdims=True) - counted
    best = np.argmax(others, axis=0)
    rows: Any = [given[choice][[row]] for row, choice in enumerate(best)]
    weight = float(tried[np.argmax(counted.sum(axis=1))])
    return LinkWeight(weight, tried[best], sparse.csr_array(sparse.vstack(rows)), precision)


def _precision(scores: Any, labels: NDArray[Any]) -> Array:
    """Average precision of each query, shape (queries,); not a number where none is relevant."""
    query = np.repeat(np.arange(len(labels)), labels.shape[1])
    return average_precision(scores.toarray().ravel(), labels.ravel(), query=query).values
