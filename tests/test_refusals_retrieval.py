"""What retrieval refuses."""

import numpy as np
from refusals import each, rows
from scipy import sparse
from sklearn.exceptions import NotFittedError

from bayesrank.retrieval import BM25, learn_link_weight, links_of, term_counter, with_linked

REFUSED = [
    *rows(
        lambda counts: BM25().fit(np.array(counts)),
        ([[1, -1]], "counts is -1 in row 0, column 1; pass whole numbers from 0 on"),
        ([[0, 0], [0, 1.5]], "counts is 1.5 in row 1, column 1"),
        ([[np.nan]], "counts is nan in row 0"),
        ([["a"]], "pass counts"),
        ([[0, 0]], "counts has no term in any document"),
    ),
    *rows(
        lambda links: links_of(links, 5),
        ([(1, 1)], "joins no two different documents"),
        ([], "joins no two different documents"),
        ([(0, 5)], "names document 5 in row 0, but the 5 documents are numbered 0 to 4"),
        ([(0, -1)], "numbered 0 to 4"),
        ([(0.5, 1)], "pass pairs of document numbers"),
        ([1, 2], "pairs of document numbers, integers of shape"),
    ),
    *rows(
        lambda relevant, weights: learn_link_weight(
            sparse.eye_array(2, 3), links_of([(0, 1)], 3), relevant, weights
        ),
        (np.eye(2, 3), [], "weights has shape"),
        (np.ones((2, 2)), [0.1], "relevant has shape"),
        (np.array([[1, 0, 0], [0, 0, 0]]), [0.1], "fewer than two queries"),
        (np.array([[1, 0, 0], [0.5, 0, 0]]), [0.1], "fewer than two queries"),
        (np.eye(2, 3), [-0.1], "weight is"),
    ),
    *rows(
        lambda options: BM25(**options),
        ({"k1": -1}, "k1 is -1"),
        ({"k1": "large"}, "k1 is 'large'; pass a number from 0 on"),
        ({"b": 1.1}, "b is 1.1"),
        ({"idf": "x"}, "idf is 'x'"),
    ),
    *rows(
        lambda queries, k: BM25().fit([[1, 2], [0, 1]]).search(queries, k=k),
        ([[1, 1, 1]], 1, "queries has 3 columns, and the documents have 2 terms"),
        ([[1, 1]], 0, "k is 0"),
    ),
    *rows(
        lambda weight: with_linked(np.zeros((1, 3)), links_of([(0, 1)], 3), weight),
        ("0.3", "weight is '0.3'; pass a number"),
    ),
    *rows(term_counter().fit, (["a text", None], "a text is None; pass strings")),
    *rows(lambda: BM25().search(sparse.eye_array(1, 2)), ("not fitted",), kind=NotFittedError),
]


@each(REFUSED)
def test_refused(refusal):
    refusal.check()
