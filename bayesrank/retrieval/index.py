"""Weights of terms in documents, searched by products of sparse arrays."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bayesrank._validate import check_count

Array = NDArray[np.float64]


class Hits(NamedTuple):
    """The best documents of each query.

    Attributes
    ----------
    documents
        Numbers of documents, best first, shape (queries, k).
    scores
        Their scores, shape (queries, k). Equal scores stand in the order of the documents.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> counts = sp.csr_array([[1, 1, 0], [1, 0, 0], [0, 1, 2]])  # documents by terms
    >>> from bayesrank.retrieval import BM25
    >>> hits = BM25().index(counts).search(sp.csr_array([[0, 0, 1]]), k=1)
    >>> hits.documents.tolist()
    [[2]]
    """

    documents: NDArray[np.int64]
    scores: Array


class Index:
    """Documents by their terms' weights.

    The score of a document for a query is the sum, over the terms of both, of the query's weight
    times the document's.

    Parameters
    ----------
    weights : sparse array of shape (documents, terms)
        Weight of each term in each document.

    Attributes
    ----------
    postings : sparse array of shape (terms, documents)
        The same weights by terms.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from bayesrank.retrieval import Index
    >>> index = Index(sp.csr_array([[1.0, 0.0], [0.5, 2.0]]))
    >>> index.search(sp.csr_array([[0.0, 1.0]]), k=1).documents.tolist()
    [[1]]
    """

    def __init__(self, weights: Any) -> None:
        self.postings: Any = sparse.csr_array(sparse.csr_array(weights).T)

    @property
    def num_documents(self) -> int:
        """Number of documents."""
        return self.postings.shape[1]

    @property
    def num_terms(self) -> int:
        """Number of terms."""
        return self.postings.shape[0]

    def scores(self, queries: Any) -> Any:
        """Scores of all documents that share a term with a query.

        Parameters
        ----------
        queries : sparse array of shape (queries, terms)
            Weights of the queries' terms.

        Returns
        -------
        sparse array of shape (queries, documents)
            Scores; those that are not stored are zero.
        """
        return sparse.csr_array(queries) @ self.postings

    def search(self, queries: Any, k: int = 10) -> Hits:
        """Find the best documents of each query.

        Parameters
        ----------
        queries : sparse array of shape (queries, terms)
            Weights of the queries' terms.
        k : int, default 10
            How many documents; all, if there are fewer.

        Returns
        -------
        Hits
            Documents without a term of the query have score 0.

        Raises
        ------
        ValueError
            If `k` is not a positive whole number.
        """
        k = min(check_count(k, "k"), self.num_documents)
        rows: Any = sparse.csr_array(queries)
        hits = Hits(np.zeros((rows.shape[0], k), np.int64), np.zeros((rows.shape[0], k)))
        scores = np.zeros(self.num_documents)
        for number, (start, stop) in enumerate(zip(rows.indptr[:-1], rows.indptr[1:], strict=True)):
            found = self._add(scores, rows.indices[start:stop], rows.data[start:stop])
            best = _best(scores, found, k)
            hits.documents[number], hits.scores[number] = best, scores[best]
            scores[found] = 0.0
        return hits

    def _add(self, scores: Array, terms: NDArray[Any], weights: Array) -> NDArray[np.int64] | slice:
        """Add the scores of a query's terms; return the documents that have one of them."""
        starts, all_documents, values = (
            self.postings.indptr,
            self.postings.indices,
            self.postings.data,
        )
        parts = [slice(starts[term], starts[term + 1]) for term in terms]
        for part, weight in zip(parts, weights, strict=True):
            # A document is once among those of a term.
            scores[all_documents[part]] += weight * values[part]
        if 4 * sum(part.stop - part.start for part in parts) > self.num_documents:
            return slice(None)
        return np.unique(np.concatenate([np.zeros(0, int), *(all_documents[p] for p in parts)]))


def _best(scores: Array, found: NDArray[np.int64] | slice, k: int) -> NDArray[np.int64]:
    """Return the documents of the k highest scores, in order; all but those found score 0."""
    values = scores[found]
    if len(values) < k or np.partition(values, len(values) - k)[len(values) - k] <= 0:
        found, values = slice(None), scores
    near = np.flatnonzero(values >= np.partition(values, len(values) - k)[len(values) - k])
    documents = near if isinstance(found, slice) else found[near]
    return documents[np.lexsort((documents, -values[near]))[:k]]
