"""`SearchEngine`: what engines share, whatever weighs their terms."""

import warnings
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bayesrank._fitted import Fitted
from bayesrank._stack import outside
from bayesrank.retrieval.counts import Collection, check_counts, collection
from bayesrank.retrieval.index import Hits, Index


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
