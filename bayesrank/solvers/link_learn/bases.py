r"""The basis form to first order: similarities that are linear in the unknowns.

The weight is BM25's times :math:`\exp(\sum_b \theta_b \phi_b)`, with hat functions :math:`\phi_b`.
To first order in :math:`\theta` a similarity is :math:`g (s_0 + \sum_b \theta_b s_b)`. Here
:math:`s_0` is BM25's, and :math:`s_b` is the same sum with each term's weight times :math:`\phi_b`.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bayesrank.retrieval import Collection, Index
from bayesrank.solvers.link_learn.forms import KNOTS, TermWeight, form_inputs, hats
from bayesrank.solvers.link_learn.overlaps import overlaps

Values = NDArray[np.float64]


def basis_scores(queries: Any, counts: Any, documents: Collection) -> list[Any]:
    """BM25's scores, and those of each function of the basis: 17 arrays (queries, documents).

    A draw of ``gain`` and ``theta`` of `bayesrank.models.link_bm25` has the scores
    ``gain * first + sum(theta * others)``.

    Parameters
    ----------
    queries, counts
        Counts of terms, shapes (queries, terms) and (documents, terms).
    documents
        Statistics of the terms in the collection.
    """
    weights, functions = _weights(counts, documents)

    def scores(values: Values) -> Any:
        table = sparse.csr_array((values, counts.indices, counts.indptr), shape=counts.shape)
        return Index(table).scores(queries)

    return [scores(weights), *(scores(weights * column) for column in functions.T)]


def margin_features(
    queries: Any,
    counts: Any,
    documents: Collection,
    pairs: NDArray[np.int64],
    unlinked: NDArray[np.int64],
) -> tuple[Values, Values]:
    """Margins of linked pairs by BM25, (L, U), and how each function changes them, (L, U, 16).

    They are the arguments of `bayesrank.models.link_bm25`.

    Parameters
    ----------
    queries, counts, documents
        Counts of terms of each document as a query and as a document, (documents, terms); and
        statistics of the terms.
    pairs, unlinked
        Query and linked document, shape (L, 2), and unlinked documents of each, shape (L, U).
    """
    linked = _similarities(queries, counts, documents, pairs[:, 0], pairs[:, 1])
    others = _similarities(
        queries, counts, documents, np.repeat(pairs[:, 0], unlinked.shape[1]), unlinked.ravel()
    )
    apart = linked[:, None] - others.reshape(*unlinked.shape, -1)
    return apart[..., 0], apart[..., 1:]


def _similarities(
    queries: Any,
    counts: Any,
    documents: Collection,
    query: NDArray[np.int64],
    document: NDArray[np.int64],
) -> Values:
    """BM25's similarity and those of each function of the basis, shape (pairs, 17)."""
    shared = overlaps(queries[query], counts[document])
    length = counts.sum(axis=1)[document[shared.pair]]
    weights, functions = _elements(shared.second, shared.term, length, documents)
    parts = np.column_stack([weights, weights[:, None] * functions]) * shared.first[:, None]
    sums = [np.bincount(shared.pair, part, len(query)) for part in parts.T]
    return np.stack(sums, axis=1).astype(np.float64)


def _weights(counts: Any, documents: Collection) -> tuple[Values, Values]:
    lengths = np.repeat(counts.sum(axis=1), np.diff(counts.indptr))
    return _elements(counts.data, counts.indices, lengths, documents)


def _elements(
    tf: Values, term: NDArray[Any], length: Values, documents: Collection
) -> tuple[Values, Values]:
    """BM25's weights of elements, shape (E,), and the basis at them, shape (E, 16)."""
    scales, codes = form_inputs(tf, term, length, documents)
    functions = np.concatenate(
        [np.asarray(hats(getattr(scales, n), KNOTS[n]))[getattr(codes, n)] for n in KNOTS], axis=1
    )
    form = TermWeight("basis")
    plain = {**form.init(np.random.default_rng(0)), "log_gain": np.array(0.0)}
    return np.asarray(form.weight(plain, scales, codes), np.float64), functions
