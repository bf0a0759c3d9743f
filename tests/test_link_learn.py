"""LinkLearn: its similarity by hand, its training, its program by two engines, its files."""

import jax
import numpy as np
import pytest
from scipy import sparse

from bayesrank import LinkLearn
from bayesrank.infer import EP
from bayesrank.models import link_bm25
from bayesrank.retrieval import BM25, check_counts, collection, links_of, with_linked
from bayesrank.solvers.link_learn import (
    TermWeight,
    basis_scores,
    margin_features,
    overlaps,
    weigh_terms,
)

KEY = jax.random.key(0)


def topics(seed=0, num_documents=120, num_topics=12, num_terms=80):
    """Documents of topics, with words of the topic among common ones; links within topics."""
    rng = np.random.default_rng(seed)
    topic = rng.integers(0, num_topics, num_documents)
    common = rng.poisson(1.0, (num_documents, num_terms)) * (rng.random(num_terms) < 0.3)
    special = np.zeros((num_documents, 6 * num_topics), int)
    for row, mine in enumerate(topic):
        special[row, 6 * mine : 6 * mine + 6] = rng.poisson(0.7, 6)
    counts = np.concatenate([common, special], axis=1)
    links = [
        (i, j)
        for i in range(num_documents)
        for j in range(i)
        if topic[i] == topic[j] and rng.random() < 0.4
    ]
    return sparse.csr_array(counts), np.array(links)


@pytest.fixture(scope="module")
def world():
    return topics()


def test_shared_terms_are_those_of_the_dense_tables():
    rng = np.random.default_rng(0)
    first, second = rng.poisson(0.5, (2, 9, 20))
    got = overlaps(*(check_counts(rows) for rows in (first, second)))
    pair, term = np.nonzero((first > 0) & (second > 0))
    assert got.pair.tolist() == pair.tolist()
    assert got.term.tolist() == term.tolist()
    assert got.first.tolist() == first[pair, term].tolist()
    assert got.second.tolist() == second[pair, term].tolist()


@pytest.mark.slow
def test_the_okapi_form_and_the_basis_begin_as_bm25(world):
    rows = check_counts(world[0])
    known = collection(rows)
    wanted = BM25(idf="log").fit(rows).index_.postings.T.toarray()
    for kind in ("okapi", "basis"):
        form = TermWeight(kind)
        start = {**form.init(np.random.default_rng(0)), "log_gain": np.array(0.0)}
        got = weigh_terms(form, start, rows, known).toarray()
        np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("kind", ["mlp", "printed"])
def test_the_networks_form_is_the_product_of_three(world, kind):
    rows = check_counts(world[0])
    known = collection(rows)
    form = TermWeight(kind, hidden=3)
    params = form.init(np.random.default_rng(1))
    got = weigh_terms(form, params, rows, known)

    def network(p, x):
        layer = np.tanh(x * p["inner"] + p["shift"]) @ p["outer"] + p["level"]
        return layer if kind == "printed" else np.log1p(np.exp(layer))

    row, column = 5, rows.indices[rows.indptr[5]]
    tf, ratio = rows[row, column], rows[[row]].sum() / known.mean_length
    seen = (tf, ratio) if kind == "printed" else (np.log1p(tf), np.log(ratio))
    idf = np.log(known.num_documents / known.document_frequency[column])
    wanted = network(params["tf"], seen[0]) * network(params["idf"], idf)
    wanted *= network(params["length"], seen[1])
    assert got[row, column] == pytest.approx(wanted, rel=1e-6)
    assert (got.data.min() > 0) == (kind == "mlp")


@pytest.mark.slow
def test_units_and_rate_are_those_of_the_best_cross_validation(world, tmp_path):
    options = {"query_side": "document", "num_unlinked": 2, "num_epochs": 2, "form": "printed"}
    model = LinkLearn(**options, hidden=[2, 4], learning_rate=[1e-9, 0.05]).fit(*world)
    assert model.learning_rate_ == 0.05 and model.hidden_ in (2, 4)
    same = LinkLearn(**options, hidden=model.hidden_, learning_rate=0.05).fit(*world)
    assert same.validation_ == model.validation_
    model.save(tmp_path / "links.npz")
    again = LinkLearn.load(tmp_path / "links.npz")
    few = world[0][:5]
    np.testing.assert_array_equal(again.scores(few).toarray(), model.scores(few).toarray())


@pytest.mark.parametrize(
    ("form", "loss", "num_unlinked"),
    [
        pytest.param("mlp", "hinge", 3, marks=pytest.mark.slow),
        ("okapi", "softmax", 10),
        pytest.param("basis", "probit", 5, marks=pytest.mark.slow),
    ],
)
def test_learning_raises_precision_on_links_held_out(world, form, loss, num_unlinked):
    counts, links = world
    model = LinkLearn(
        form=form, loss=loss, query_side="document", num_unlinked=num_unlinked, num_epochs=6
    ).fit(counts, links)
    assert max(model.validation_) > model.validation_[0]
    again = LinkLearn(**model.get_params()).fit(counts, links)
    np.testing.assert_array_equal(
        again.scores(counts[:5]).toarray(), model.scores(counts[:5]).toarray()
    )


def test_the_hinge_is_the_papers():
    """Equation (7), by a loop over triples."""
    from bayesrank.solvers.link_learn import train

    sims = np.random.default_rng(0).normal(size=(4, 6))
    wanted = np.mean([max(0.0, 1 - row[0] + other) for row in sims for other in row[1:]])
    assert float(train._loss("hinge", jax.numpy.asarray(sims))) == pytest.approx(wanted, rel=1e-5)


def test_it_moves_to_another_collection_and_a_file(world, tmp_path):
    model = LinkLearn(query_side="document", num_unlinked=5, num_epochs=2).fit(*world)
    other = topics(seed=1, num_terms=50)[0]
    before = model.params_
    model.index(other)
    assert model.params_ is before
    hits = model.search(other[:3], k=4)
    assert hits.documents[:, 0].tolist() == [0, 1, 2]
    path = tmp_path / "engine.npz"
    model.save(path)
    loaded = LinkLearn.load(path).search(other[:3], k=4)
    np.testing.assert_array_equal(loaded.documents, hits.documents)
    np.testing.assert_allclose(loaded.scores, hits.scores, rtol=1e-12)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(ValueError, match="is not a state that was saved by a LinkLearn"):
        LinkLearn.load(path)


def test_links_at_search_time(world):
    counts, links = world
    model = LinkLearn(query_side="document", num_unlinked=5, num_epochs=1).fit(counts, links)
    plain = model.scores(counts[:2]).toarray()
    adjacency = links_of(links, counts.shape[0]).adjacency.toarray()
    degree = np.maximum(adjacency.sum(1), 1)
    wanted = plain + 0.4 * plain @ (adjacency / degree[:, None]).T
    scores = model.scores(counts[:2])
    got = with_linked(scores, links_of(links, counts.shape[0]), 0.4).toarray()
    np.testing.assert_allclose(got, wanted, rtol=1e-10)


@pytest.mark.slow
def test_margins_are_linear_in_the_basis(world):
    """Scores of the basis, document by document, against margins of triples."""
    rows = check_counts(world[0])
    known = collection(rows)
    links = links_of(world[1], rows.shape[0])
    linked = links.pairs[::7]
    other = links.unlinked(linked[:, 0], 3, np.random.default_rng(0))
    margins, features = margin_features(rows, rows, known, linked, other)
    tables = [scores.toarray() for scores in basis_scores(rows, rows, known)]
    wanted = [t[linked[:, :1], linked[:, 1:]] - t[linked[:, :1], other] for t in tables]
    np.testing.assert_allclose(margins, wanted[0], atol=1e-9)
    np.testing.assert_allclose(np.moveaxis(features, -1, 0), wanted[1:], atol=1e-9)
    # The hat functions of count, of idf and of length add up to one each.
    np.testing.assert_allclose(features[..., :5].sum(-1), margins, atol=1e-6)


def test_a_linked_pair_is_one_event():
    """Evidence against the share of simulations in which the linked document is the best."""
    rng = np.random.default_rng(3)
    margins, features = rng.normal(size=(1, 3)), rng.normal(size=(1, 3, 2))
    draws = 400_000
    gain, theta = rng.normal(1.0, 1.0, draws), rng.normal(0.0, 0.5, (draws, 2))
    noise = rng.normal(0.0, 0.5**0.5, (draws, 4))
    lead = gain[:, None] * margins + theta @ features[0].T + noise[:, :1] - noise[:, 1:]
    share = (lead > 0).all(axis=1)
    result = EP(link_bm25).run(KEY, margins, features)
    error = share.std() / draws**0.5
    assert np.exp(result.log_evidence) == pytest.approx(share.mean(), abs=4 * error)
    apart = EP(link_bm25).run(KEY, margins, features, independent=True)
    assert np.exp(apart.log_evidence) < share.mean() - 20 * error


@pytest.mark.slow
def test_intervals_hold_where_the_linked_document_is_the_best_of_several():
    rng = np.random.default_rng(0)
    inside: dict[bool, list] = {False: [], True: []}
    engine = EP(link_bm25)
    for _ in range(100):
        gain, theta = rng.normal(1.0, 1.0), rng.normal(0.0, 0.5, 2)
        start, rows = rng.normal(size=(80, 12)), rng.normal(0.0, 0.7, (80, 12, 2))
        score = gain * start + rows @ theta + rng.normal(0.0, 0.5**0.5, (80, 12))
        order = np.argsort(-score, axis=1)
        start = np.take_along_axis(start, order, axis=1)
        rows = np.take_along_axis(rows, order[..., None], axis=1)
        margins, features = start[:, :1] - start[:, 1:], rows[:, :1] - rows[:, 1:]
        for independent, held in inside.items():
            result = engine.run(KEY, margins, features, independent=independent)
            apart = np.append(result.mean["gain"] - gain, result.mean["theta"] - theta)
            sd = np.append(result.sd["gain"], result.sd["theta"])
            held.append(np.abs(apart) < 1.645 * sd)
    assert 0.85 < np.mean(inside[False]) < 0.95
    assert np.mean(inside[True]) < 0.7


def test_blocks_of_pairs_without_a_shared_term_teach_nothing(monkeypatch):
    """Two documents share a term, and each of the linked pairs is a block by itself."""
    from bayesrank.solvers.link_learn import train

    monkeypatch.setattr(train, "_ENTRIES", 1)
    counts = sparse.lil_array(sparse.eye_array(40, dtype=int))
    counts[1, 0] = 2
    links = [(i, i + 1) for i in range(0, 38, 2)]
    model = LinkLearn(query_side="document", num_unlinked=1, num_epochs=1, batch_size=1)
    model.fit(counts, links)
    assert all(np.isfinite(part) for part in model.params_.values())


@pytest.mark.parametrize(
    ("options", "arguments", "message"),
    [
        ({"form": "x"}, {}, "form is 'x'; choose 'mlp', 'printed', 'okapi' or 'basis'"),
        ({"loss": "x"}, {}, "loss is 'x'"),
        ({"query_side": "x"}, {}, "query_side is 'x'"),
        ({"num_unlinked": 0}, {}, "num_unlinked is 0"),
        ({"learning_rate": [0.1, 0.0]}, {}, "learning_rate is 0.0"),
        ({"hidden": []}, {}, "hidden or learning_rate is empty"),
        ({"query_side": "title"}, {}, "titles is missing; pass their counts"),
        ({"query_side": "title"}, {"titles": [[1] * 152]}, "titles has 1 rows and counts 120"),
        ({}, {"links": [(0, 0)]}, "joins no two different documents"),
        ({"learning_rate": 1e6, "num_epochs": 1}, {}, "learning_rate is 1000000.0, by which"),
        ({}, {"counts": sparse.eye_array(120, dtype=int)}, "documents that share no term"),
        ({}, {"links": [(0, 500)]}, "documents are numbered 0 to 119"),
    ],
)
def test_refuses(world, options, arguments, message):
    counts, links = world
    with pytest.raises(ValueError, match=message):
        LinkLearn(**{"query_side": "document", **options}).fit(
            **{"counts": counts, "links": links, **arguments}
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"margins": np.ones(3)}, "margins has shape"),
        ({"features": np.ones((3, 1, 2))}, "pass \\(L, U\\) and"),
        ({"features": np.ones((3, 2, 0))}, "pass \\(L, U\\) and"),
    ],
)
def test_the_program_refuses(arguments, message):
    given = {"margins": np.ones((3, 2)), "features": np.ones((3, 2, 1)), **arguments}
    with pytest.raises(ValueError, match=message):
        EP(link_bm25).run(KEY, **given)
