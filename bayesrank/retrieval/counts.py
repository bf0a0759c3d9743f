"""Counts of terms in documents, checked; and what a collection says of its terms."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse


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
