"""Counts, BM25, tf-idf, search and links against the textbook, one document at a time."""

import math

import numpy as np
import pytest
from refusals import refused
from scipy import sparse

from bayesrank.metrics import average_precision
from bayesrank.retrieval import (
    BM25,
    Index,
    check_counts,
    collection,
    learn_link_weight,
    links_of,
    term_counter,
    with_linked,
)

TEXTS = [
    "The cat sat on the mat",
    "Cats and dogs are linked by mats",
    "",
    "A dog; a dog! And a dog?",
    "Linking documents: documents that link",
]


@pytest.fixture(scope="module")
def counter():
    return term_counter().fit(TEXTS)


@pytest.fixture(scope="module")
def counts(counter):
    return counter.transform(TEXTS)


def random_counts(seed=0, shape=(40, 30)):
    rng = np.random.default_rng(seed)
    return rng.poisson(0.4, shape) * rng.integers(1, 4, shape)


def test_counts_stems_and_leaves_out_single_letters(counter, counts):
    words = dict(zip(counter.get_feature_names_out(), counts.toarray().T, strict=True))
    assert words["dog"].tolist() == [0, 1, 0, 3, 0]
    assert words["link"].tolist() == [0, 1, 0, 0, 2]
    assert "a" not in words
    assert term_counter(None).fit(["Cats cat"]).get_feature_names_out().tolist() == ["cat", "cats"]
    refused("language is 'klingon'; choose one of", term_counter, "klingon")


def textbook_bm25(table, query, k1, b, idf):
    """The formula, term by term."""
    number, mean_length = len(table), table.sum() / len(table)
    scores = []
    for row in table:
        score = 0.0
        for term, times in enumerate(query):
            df = int((table[:, term] > 0).sum())
            if not times or not row[term] or not df:
                continue
            weight = {
                "log": math.log(number / df),
                "odds": math.log((number - df + 0.5) / (df + 0.5)),
                "smooth": math.log(1 + (number - df + 0.5) / (df + 0.5)),
            }[idf]
            held = k1 * (1 - b + b * row.sum() / mean_length)
            score += times * weight * (k1 + 1) * row[term] / (held + row[term])
        scores.append(score)
    return scores


@pytest.mark.parametrize("idf", ["smooth", "log", "odds"])
@pytest.mark.parametrize(("k1", "b"), [(1.2, 0.75), (0.0, 0.0), (2.0, 1.0)])
def test_bm25_is_the_textbook_formula_on_every_query(idf, k1, b):
    table, queries = random_counts(), random_counts(1, (6, 30))
    engine = BM25(k1=k1, b=b, idf=idf).fit(sparse.csr_array(table))
    wanted = [textbook_bm25(table, query, k1, b, idf) for query in queries]
    np.testing.assert_allclose(engine.scores(queries).toarray(), wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", [(40, 30), (400, 300)])
@pytest.mark.parametrize("k", [1, 3, 30, 400])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_search_is_the_order_of_all_scores(shape, k, sign):
    rng = np.random.default_rng(3)
    # Few different weights, so that many scores are equal.
    weights = rng.integers(0, 3, shape) * (rng.random(shape) < 0.1) * sign
    queries = (rng.random((5, shape[1])) < 0.03).astype(float)
    queries[0] = 0.0
    hits = Index(sparse.csr_array(weights)).search(sparse.csr_array(queries), k)
    for query, documents, scores in zip(queries, *hits, strict=True):
        full = weights @ query
        order = np.lexsort((np.arange(len(full)), -full))[:k]
        assert documents.tolist() == order.tolist()
        np.testing.assert_allclose(scores, full[order])


def test_empty_documents_score_zero_and_unknown_terms_warn(counter, counts):
    engine = BM25().fit(counts)
    assert engine.scores(counter.transform(["cat dog"])).toarray()[0, 2] == 0.0
    with pytest.warns(UserWarning, match="query 1 has no term that a document has"):
        hits = engine.search(counter.transform(["cat", "zebra"]), k=2)
    assert hits.scores[1].tolist() == [0.0, 0.0]
    with pytest.warns(UserWarning, match="query 0 and 1 more have no term"):
        engine.search(counter.transform(["emu", "zebra"]), k=2)


def test_counts_are_copied_and_zeros_dropped():
    given = sparse.csr_array(([1.0, 0.0], [0, 1], [0, 2]), shape=(1, 2))
    assert check_counts(given).nnz == 1
    assert given.nnz == 2
    assert collection([[2, 0], [0, 0]]).document_frequency.tolist() == [1.0, 0.0]


def test_links_have_no_direction_and_count_once():
    links = links_of([(3, 1), (1, 3), (1, 3), (2, 2), (0, 3)], 5)
    assert links.adjacency.toarray().tolist() == [
        [0, 0, 0, 1, 0],
        [0, 0, 0, 1, 0],
        [0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [0, 0, 0, 0, 0],
    ]
    first, second = np.divmod(np.arange(25), 5)
    assert (
        links.are_linked(first, second).reshape(5, 5).tolist()
        == (links.adjacency.toarray() > 0).tolist()
    )


def test_unlinked_documents_are_others_and_all_of_them():
    links = links_of([(0, 1), (1, 2)], 5)
    drawn = links.unlinked(np.array([0, 1, 4]), 200, np.random.default_rng(0))
    assert [set(row.tolist()) for row in drawn] == [{2, 3, 4}, {3, 4}, {0, 1, 2, 3}]
    with pytest.raises(ValueError, match="document 0 is linked with all others"):
        links_of([(0, 1)], 2).unlinked(np.array([0]), 1, np.random.default_rng(0))


def test_linked_documents_lend_the_mean_of_their_scores():
    links = links_of([(0, 1), (1, 2)], 4)
    scores = np.array([[4.0, 0.0, 2.0, 1.0]])
    got = with_linked(scores, links, 0.5).toarray()
    np.testing.assert_allclose(got, [[4.0, 0.5 * 3.0, 2.0, 1.0]])
    refused("scores has 3 documents, and links 4", with_linked, np.zeros((1, 3)), links, 0.5)
    refused("weight is -1", with_linked, scores, links, -1)


def test_the_weight_of_links_is_that_of_the_other_queries():
    """Against a loop over queries and weights."""
    rng = np.random.default_rng(5)
    scores = sparse.csr_array(rng.random((6, 15)) * (rng.random((6, 15)) < 0.6))
    relevant = (rng.random((6, 15)) < 0.2).astype(int)
    relevant[4] = 0
    links = links_of(rng.integers(0, 15, (20, 2)), 15)
    weights = (0.0, 0.4, 1.5)
    learned = learn_link_weight(scores, links, relevant, weights)

    def precision(query, weight):
        given = with_linked(scores, links, weight).toarray()[query]
        return average_precision(given, relevant[query]).mean

    judged = [0, 1, 2, 3, 5]
    table = np.array([[precision(query, weight) for query in judged] for weight in weights])
    assert learned.weight == weights[table.sum(axis=1).argmax()]
    np.testing.assert_allclose(learned.precision[:, judged], table)
    for column, query in enumerate(judged):
        best = weights[np.delete(table, column, axis=1).sum(axis=1).argmax()]
        assert learned.by_query[query] == best
        wanted = with_linked(scores, links, best).toarray()[query]
        np.testing.assert_allclose(learned.scores.toarray()[query], wanted)
    assert len(set(learned.by_query)) > 1
