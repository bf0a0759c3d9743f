r"""Okapi BM25 and tf-idf.

With :math:`tf` occurrences of a term in a document of :math:`l` terms, :math:`L` the mean length,
:math:`df` of :math:`N` documents with the term, BM25's weight [1]_ is

.. math:: idf \cdot \frac{(k_1 + 1)\, tf}{k_1 (1 - b + b\, l / L) + tf} .

A query's weight is its count of the term.

References
----------
.. [1] Robertson, S. E., Walker, S., Jones, S., Hancock-Beaulieu, M. M. and Gatford, M. (1994).
   Okapi at TREC-3. TREC.
"""

from __future__ import annotations

import warnings
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bayesrank._stack import outside
from bayesrank.retrieval.counts import Collection, check_counts, collection
from bayesrank.retrieval.index import Hits, Index

__all__ = ["BM25", "TfIdf"]

Array = NDArray[np.float64]


class _Engine:
    """A search engine whose term weights are a formula."""

    def fit(self, counts: Any) -> Self:
        """Index documents.

        Parameters
        ----------
        counts : sparse array of shape (documents, terms)
            Counts of terms, see `term_counter`. Empty documents score 0.

        Returns
        -------
        Self
            This engine.

        Raises
        ------
        ValueError
            If `counts` or an option cannot be used; the message names it.
        """
        rows = check_counts(counts)
        self.collection_: Collection = collection(rows)
        self.index_ = Index(self._weigh(rows))
        return self

    def scores(self, queries: Any) -> Any:
        """Scores of all documents, sparse, shape (queries, documents).

        Parameters
        ----------
        queries : sparse array of shape (queries, terms)
            Counts of terms.
        """
        return self.index_.scores(self._query_weights(queries))

    def search(self, queries: Any, k: int = 10) -> Hits:
        """Find the k best documents of each query.

        Parameters
        ----------
        queries : sparse array of shape (queries, terms)
            Counts of terms.
        k : int, default 10
            How many documents.

        Returns
        -------
        Hits

        Raises
        ------
        ValueError
            If `queries` are no counts of the same terms, or `k` is not a positive whole number.

        Warns
        -----
        UserWarning
            If a query has no term that a document has; all documents score 0 for it.
        """
        return self.index_.search(self._query_weights(queries), k)

    def _query_weights(self, queries: Any) -> Any:
        rows = check_counts(queries, "queries", num_terms=self.index_.num_terms)
        warn_of_unknown_terms(rows, self.collection_)
        return rows

    def _weigh(self, rows: Any) -> Any:
        raise NotImplementedError


class BM25(_Engine):
    """Okapi BM25.

    Parameters
    ----------
    k1 : float, default 1.2
        How slowly repeats of a term saturate, from 0 (they do not count) on.
    b : float, default 0.75
        How much long documents are held back, from 0 (not at all) to 1.
    idf : {"smooth", "log", "odds"}, default "smooth"
        Weight of a term: ``log(1 + (N - df + .5) / (df + .5))``; ``log(N / df)``, as Grangier and
        Bengio print it; or ``log((N - df + .5) / (df + .5))``, as Robertson does, which is negative
        for terms in more than half of the documents.

    Attributes
    ----------
    collection_ : Collection
        What the documents say of their terms.
    index_ : Index
        The weights.

    Examples
    --------
    >>> from bayesrank.retrieval import BM25, term_counter
    >>> counter = term_counter()
    >>> documents = counter.fit_transform(["red fish", "blue fish", "one bird"])
    >>> BM25().fit(documents).search(counter.transform(["a blue fish"]), k=2).documents
    array([[1, 0]])
    """

    def __init__(
        self, *, k1: float = 1.2, b: float = 0.75, idf: Literal["smooth", "log", "odds"] = "smooth"
    ) -> None:
        if not 0 <= k1 < np.inf:
            raise ValueError(f"k1 is {k1!r}; pass a number from 0 on")
        if not 0 <= b <= 1:
            raise ValueError(f"b is {b!r}; pass a number from 0 to 1")
        if idf not in ("smooth", "log", "odds"):
            raise ValueError(f"idf is {idf!r}; choose 'smooth', 'log' or 'odds'")
        self.k1, self.b, self.idf = k1, b, idf

    def _weigh(self, rows: Any) -> Any:
        lengths = rows.sum(axis=1) / self.collection_.mean_length
        held = self.k1 * (1.0 - self.b + self.b * lengths)
        held = np.repeat(held, np.diff(rows.indptr))
        weights = _idf(self.collection_, self.idf)[rows.indices]
        weights *= (self.k1 + 1.0) * rows.data / (held + rows.data)
        return sparse.csr_array((weights, rows.indices, rows.indptr), shape=rows.shape)


class TfIdf(_Engine):
    """Cosine of tf-idf vectors: ``(1 + log tf) log(N / df)``, scaled to length one.

    Attributes
    ----------
    collection_, index_
        As for `BM25`.
    """

    def _weigh(self, rows: Any) -> Any:
        idf = _idf(self.collection_, "log")
        weights = (1.0 + np.log(rows.data)) * idf[rows.indices]
        owner = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
        norms = np.sqrt(np.bincount(owner, weights**2, minlength=rows.shape[0]))
        weights /= np.where(norms > 0, norms, 1.0)[owner]
        return sparse.csr_array((weights, rows.indices, rows.indptr), shape=rows.shape)

    def _query_weights(self, queries: Any) -> Any:
        return self._weigh(super()._query_weights(queries))


def _idf(documents: Collection, kind: str) -> Array:
    """Weight of each term; of those in no document, zero."""
    df, number = documents.document_frequency, documents.num_documents
    with np.errstate(divide="ignore"):
        if kind == "log":
            idf = np.log(number / df)
        else:
            odds = (number - df + 0.5) / (df + 0.5)
            idf = np.log1p(odds) if kind == "smooth" else np.log(odds)
    return np.where(df > 0, idf, 0.0)


def warn_of_unknown_terms(queries: Any, documents: Collection) -> None:
    """Warn of queries without a term that any document has."""
    known = queries @ (documents.document_frequency > 0).astype(float)
    if not known.all():
        lost = np.flatnonzero(known == 0)
        more = f" and {len(lost) - 1} more have" if len(lost) > 1 else " has"
        warnings.warn(
            f"query {lost[0]}{more} no term that a document has; all documents score 0 there",
            UserWarning,
            stacklevel=outside(),
        )
