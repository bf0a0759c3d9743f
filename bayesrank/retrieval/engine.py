r"""Search in a collection: the engine, and BM25 as its weight.

Okapi BM25.

A term occurs :math:`tf` times in a document of :math:`l` terms, and in :math:`df` of the :math:`N`
documents, whose mean length is :math:`L`. BM25's weight [1]_ is

.. math:: idf \cdot \frac{(k_1 + 1)\, tf}{k_1 (1 - b + b\, l / L) + tf} .

A query's weight is its count of the term.

References
----------
.. [1] Robertson, S. E., Walker, S., Jones, S., Hancock-Beaulieu, M. M. and Gatford, M. (1994).
       Okapi at TREC-3. TREC.
"""

import warnings
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from bayesrank._fitted import Fitted
from bayesrank._stack import outside
from bayesrank._validate import check_choice, check_not_negative, check_share
from bayesrank.retrieval.index import Collection, Hits, Index, check_counts, collection


class SearchEngine(Fitted):
    """An index of documents whose scores are sums of products of terms' weights.

    Derived classes say what a term weighs in a document, and in a query.

    Attributes
    ----------
    collection_ : Collection
        Statistics of the indexed documents' terms.
    index_ : Index
        The weights of the documents' terms.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> counts = sp.csr_array([[1, 1, 0], [1, 0, 0], [0, 1, 2]])  # documents by terms
    >>> from bayesrank.retrieval import BM25, SearchEngine
    >>> engine = BM25().index(counts)  # BM25 and LinkLearn are search engines
    >>> isinstance(engine, SearchEngine), engine.collection_.num_documents
    (True, 3)
    """

    _learns = (*Fitted._learns, "index")

    collection_: Collection
    index_: Index

    def index(self, counts: Any) -> Self:
        """Index documents, in the place of those before; nothing is learned from them.

        Parameters
        ----------
        counts : sparse array of shape (documents, terms)
            Counts of terms, see `term_counter`. Empty documents score 0.

        Raises
        ------
        ValueError
            If `counts` cannot be used; the message names it.
        """
        rows = check_counts(counts)
        known = collection(rows)
        weights = self._document_weights(rows, known)
        self.collection_, self.index_ = known, Index(weights)
        return self

    def scores(self, queries: Any) -> Any:
        """Scores of all documents; for what links add to them see `with_linked`.

        Parameters
        ----------
        queries : sparse array of shape (queries, terms)
            Counts of terms.

        Returns
        -------
        sparse array of shape (queries, documents)
            Scores; those that are not stored are zero.

        Raises
        ------
        NotFittedError, ValueError
            If no documents are indexed; if `queries` are no counts of the same terms.

        Warns
        -----
        UserWarning
            If a query has no term that a document has; all documents score 0 for it.
        """
        return self._index().scores(self._weights_of(queries))

    def search(self, queries: Any, k: int = 10) -> Hits:
        """Find the k best documents of each query, with the errors and warnings of `scores`.

        Parameters
        ----------
        queries
            As for `scores`.
        k : int, default 10
            How many documents.

        Raises
        ------
        ValueError
            If `k` is not a positive whole number.
        """
        return self._index().search(self._weights_of(queries), k)

    def _index(self) -> Index:
        check_is_fitted(self, "index_")
        return self.index_

    def _weights_of(self, queries: Any) -> Any:
        rows = check_counts(queries, "queries", num_terms=self._index().num_terms)
        _warn_of_unknown_terms(rows, self.collection_)
        return self._query_weights(rows, self.collection_)

    def _document_weights(self, rows: Any, known: Collection) -> Any:
        """Weights of the documents' terms, in the place of their counts."""
        raise NotImplementedError

    def _query_weights(self, rows: Any, known: Collection) -> Any:
        """Weights of the queries' terms; by default their counts."""
        del known
        return rows


def _warn_of_unknown_terms(queries: Any, documents: Collection) -> None:
    known = queries @ (documents.document_frequency > 0).astype(float)
    if not known.all():
        lost = np.flatnonzero(known == 0)
        more = f" and {len(lost) - 1} more have" if len(lost) > 1 else " has"
        warnings.warn(
            f"query {lost[0]}{more} no term that a document has; all documents score 0 there",
            UserWarning,
            stacklevel=outside(),
        )


Array = NDArray[np.float64]


class BM25(SearchEngine):
    """Okapi BM25.

    Parameters
    ----------
    k1 : float, default 1.2
        How slowly repeats of a term saturate, from 0 (they do not count) on.
    b : float, default 0.75
        How much long documents are held back, from 0 (not at all) to 1.
    idf : {"smooth", "log", "odds"}, default "smooth"
        Weight of a term: ``log(1 + (N - df + 0.5) / (df + 0.5))``; ``log(N / df)``, as Grangier and
        Bengio print it; or ``log((N - df + 0.5) / (df + 0.5))``, as Robertson does, which is
        negative for terms in more than half of the documents.

    Attributes
    ----------
    collection_, index_
        As for `SearchEngine`.

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
        self.k1 = check_not_negative(k1, "k1")
        self.b = check_share(b, "b", zero=True, one=True)
        self.idf = check_choice(idf, "idf", "smooth", "log", "odds")

    def fit(self, counts: Any) -> Self:
        """Index documents, see `index`."""
        return self.index(counts)

    def _document_weights(self, rows: Any, known: Collection) -> Any:
        lengths = rows.sum(axis=1) / known.mean_length
        held = self.k1 * (1.0 - self.b + self.b * lengths)
        held = np.repeat(held, np.diff(rows.indptr))
        weights = _idf(known, self.idf)[rows.indices]
        weights *= (self.k1 + 1.0) * rows.data / (held + rows.data)
        return sparse.csr_array((weights, rows.indices, rows.indptr), shape=rows.shape)


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
