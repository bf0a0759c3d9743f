"""Texts to terms, their counts, and the index of a collection."""

import re
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import snowballstemmer
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer

from bayesrank._validate import check_count

_WORD = re.compile(r"\w\w+")


class Stems:
    """Words of two letters or more, in lower case, without their endings."""

    def __init__(self, language: str) -> None:
        self.language = language

    def __call__(self, text: str) -> list[str]:
        """Stems of a text, in order."""
        if not isinstance(text, str):
            raise ValueError(f"a text is {text!r}; pass strings, '' for one that is empty")
        stem = _stemmer(self.language)
        return [stem(word) for word in _WORD.findall(text.lower())]


@lru_cache
def _stemmer(language: str) -> Any:
    return lru_cache(maxsize=1_000_000)(snowballstemmer.stemmer(language).stemWord)


def term_counter(language: str | None = "english", **options: Any) -> CountVectorizer:
    """Return a vectoriser that counts terms.

    Parameters
    ----------
    language
        Language of the Snowball stemmer; with None words are counted as they are, in lower case.
    **options
        Options of scikit-learn's ``CountVectorizer``, such as ``min_df`` and ``vocabulary``.

    Returns
    -------
    CountVectorizer
        ``fit_transform(texts)`` learns the terms and counts them; ``transform(texts)`` leaves out
        terms that it does not know.

    Raises
    ------
    ValueError
        If there is no stemmer of the language.

    Examples
    --------
    >>> counter = term_counter()
    >>> counter.fit_transform(["Linked documents", "a linked document, linking"]).toarray()
    array([[1, 1],
           [1, 2]])
    """
    if language is None:
        return CountVectorizer(token_pattern=_WORD.pattern, **options)
    if language not in snowballstemmer.algorithms():
        known = ", ".join(snowballstemmer.algorithms())
        raise ValueError(f"language is {language!r}; choose one of {known}, or None")
    analyzer: Any = Stems(language)
    return CountVectorizer(analyzer=analyzer, **options)


def check_counts(counts: Any, name: str = "counts", *, num_terms: int | None = None) -> Any:
    """Return counts as a sparse array by rows, without stored zeros.

    Parameters
    ----------
    counts
        Sparse or dense, shape (documents, terms).
    name
        The argument's name, for messages.
    num_terms
        Number of columns that there have to be.

    Raises
    ------
    ValueError
        If they are no counts: another shape, negative, not whole, or not numbers.
    """
    try:
        rows: Any = sparse.csr_array(counts)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} is not a table of numbers; pass counts (documents, terms)"
        ) from None
    if rows.ndim != 2 or rows.dtype.kind not in "biuf":
        raise ValueError(
            f"{name} has shape {rows.shape} and dtype {rows.dtype}; pass counts (documents, terms)"
        )
    if num_terms is not None and rows.shape[1] != num_terms:
        raise ValueError(
            f"{name} has {rows.shape[1]} columns, and the documents have {num_terms} terms; count "
            "with the same vocabulary"
        )
    wrong = ~((rows.data >= 0) & (rows.data == np.floor(rows.data)) & (rows.data < 2**31))
    if wrong.any():
        place = int(np.argmax(wrong))
        row = int(np.searchsorted(rows.indptr, place, side="right")) - 1
        raise ValueError(
            f"{name} is {rows.data[place]} in row {row}, column {rows.indices[place]}; pass whole "
            "numbers from 0 on"
        )
    rows = sparse.csr_array(
        (rows.data.astype(np.float64), rows.indices, rows.indptr), shape=rows.shape, copy=True
    )
    rows.sum_duplicates()
    rows.eliminate_zeros()
    return rows


class Collection(NamedTuple):
    """Statistics of the terms of a collection of documents.

    Attributes
    ----------
    num_documents
        Number of documents.
    mean_length
        Mean number of terms of a document, repeats included.
    document_frequency
        Number of documents that contain each term, shape (terms,).

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> counts = sp.csr_array([[1, 1, 0], [1, 0, 0], [0, 1, 2]])  # documents by terms
    >>> from bayesrank.retrieval import collection
    >>> collection(counts).document_frequency.tolist()
    [2.0, 2.0, 1.0]
    """

    num_documents: int
    mean_length: float
    document_frequency: NDArray[np.float64]


def collection(counts: Any) -> Collection:
    """Return the statistics of documents' terms; a `ValueError` if `counts` are unfit or all 0."""
    rows = check_counts(counts)
    if not rows.nnz:
        raise ValueError("counts has no term in any document; pass documents with text")
    frequency = np.bincount(rows.indices, minlength=rows.shape[1]).astype(np.float64)
    return Collection(rows.shape[0], float(rows.sum() / rows.shape[0]), frequency)


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
