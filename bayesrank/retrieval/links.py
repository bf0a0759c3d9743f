"""Links between documents: pairs for learning, and the weight learned."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from bayesrank._tables import plain_array
from bayesrank._validate import check_not_negative, check_pairs
from bayesrank.metrics import average_precision

Integers = NDArray[np.int64]


class Links(NamedTuple):
    """Which documents are linked, whichever refers to the other.

    Attributes
    ----------
    pairs
        Each linked pair twice, once from either side, ordered by the first, shape (2 L, 2).
    starts
        Start of each document's pairs, shape (documents + 1,).

    Examples
    --------
    >>> from bayesrank.retrieval import links_of
    >>> links_of([[0, 2]], 3).pairs.tolist()
    [[0, 2], [2, 0]]
    """

    pairs: Integers
    starts: Integers

    @property
    def num_documents(self) -> int:
        """Number of documents."""
        return len(self.starts) - 1

    @property
    def adjacency(self) -> Any:
        """One for each linked pair, sparse, shape (documents, documents)."""
        n = self.num_documents
        ones = np.ones(len(self.pairs))
        return sparse.csr_array((ones, self.pairs[:, 1], self.starts), shape=(n, n))

    def are_linked(self, first: Integers, second: Integers) -> NDArray[np.bool_]:
        """Whether each first document is linked with the second."""
        keys = self.pairs[:, 0] * self.num_documents + self.pairs[:, 1]
        wanted = first * self.num_documents + second
        place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return keys[place] == wanted

    def unlinked(self, documents: Integers, count: int, rng: np.random.Generator) -> Integers:
        """Draw other documents not linked with each, (len, count); a `ValueError` without any."""
        full = np.diff(self.starts)[documents] >= self.num_documents - 1
        if full.any():
            raise ValueError(
                f"document {documents[np.argmax(full)]} is linked with all others; leave its "
                "links out, or give more documents"
            )
        first = np.repeat(documents, count)
        drawn = rng.integers(0, self.num_documents, len(first))
        again = np.flatnonzero((first == drawn) | self.are_linked(first, drawn))
        while len(again):
            drawn[again] = rng.integers(0, self.num_documents, len(again))
            mine, other = first[again], drawn[again]
            again = again[(mine == other) | self.are_linked(mine, other)]
        return drawn.reshape(len(documents), count)


def links_of(links: ArrayLike, num_documents: int) -> Links:
    """Check links, and take them without direction, each once, and none of a document to itself.

    Parameters
    ----------
    links : array-like of shape (L, 2)
        Integers of the two documents of each link.
    num_documents : int
        Number of documents.

    Raises
    ------
    ValueError
        If they are no pairs of numbers of documents, or none joins two different documents.

    Examples
    --------
    >>> links_of([(0, 1), (1, 0), (1, 2), (2, 2)], 3).pairs
    array([[0, 1],
           [1, 0],
           [1, 2],
           [2, 1]])
    """
    pairs = plain_array(links)
    pairs = np.zeros((0, 2), int) if pairs.size == 0 else pairs
    pairs = check_pairs(pairs, num_documents, "links", what="document")
    pairs = pairs[pairs[:, 0] != pairs[:, 1]].astype(np.int64)
    if not len(pairs):
        raise ValueError("links joins no two different documents; pass at least one link that does")
    keys = np.concatenate([pairs @ [num_documents, 1], pairs @ [1, num_documents]])
    both = np.stack(np.divmod(np.unique(keys), num_documents), axis=1)
    starts = np.searchsorted(both[:, 0], np.arange(num_documents + 1))
    return Links(both, starts)


def with_linked(scores: Any, links: Links, weight: float) -> Any:
    """Add to each document's score the mean score of the documents that it is linked with.

    Parameters
    ----------
    scores : sparse array of shape (queries, documents)
        Scores.
    links : Links
        Links between the documents.
    weight : float
        Factor of the mean score of linked documents, from 0 on.

    Returns
    -------
    sparse array of shape (queries, documents)
        ``score + weight * mean score of linked documents``.

    Raises
    ------
    ValueError
        If there are not as many documents in both, or `weight` is negative or not finite.
    """
    rows: Any = sparse.csr_array(scores)
    if rows.shape[1] != links.num_documents:
        raise ValueError(
            f"scores has {rows.shape[1]} documents, and links {links.num_documents}; pass both of "
            "the same collection"
        )
    check_not_negative(weight, "weight")
    degree = np.diff(links.starts)
    share = links.adjacency.multiply(1.0 / np.maximum(degree, 1)[:, None])
    return sparse.csr_array(rows + weight * (rows @ sparse.csr_array(share).T))


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
