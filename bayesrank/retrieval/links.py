"""Links between documents: checked, without direction, and drawn as triples."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from bayesrank._tables import plain_array
from bayesrank._validate import check_not_negative, check_pairs

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
