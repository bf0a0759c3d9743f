r"""Okapi BM25.

A term occurs :math:`tf` times in a document of :math:`l` terms, and in :math:`df` of the :math:`N`
documents, whose mean length is :math:`L`. BM25's weight [1]_ is

.. math:: idf \cdot \frac{(k_1 + 1)\, tf}{k_1 (1 - b + b\, l / L) + tf} .

A query's weight is its count of the term.

References
----------
.. [1] Robertson, S. E., Walker, S., Jones, S., Hancock-Beaulieu, M. M. and Gatford, M. (1994).
   Okapi at TREC-3. TREC.
"""

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bayesrank._validate import check_choice, check_not_negative, check_share
from bayesrank.retrieval.counts import Collection
from bayesrank.retrieval.engine import SearchEngine

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
