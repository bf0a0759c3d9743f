"""`python -m bayesrank search`: what it reads, what it writes, what it refuses."""

import json

import numpy as np
import pandas as pd
import pytest
from cli_run import run

from bayesrank.datasets import read_links, read_texts
from bayesrank.retrieval import BM25, learn_link_weight, links_of, term_counter, with_linked

DOCUMENTS = [
    {"id": "d1", "title": "Sorting", "text": "Quick sort and merge sort of arrays"},
    {"id": "d2", "title": "Trees", "text": "Balanced trees keep keys in order"},
    {"id": 3, "title": "Heaps", "text": "A heap is a tree that sorts by priority"},
    {"id": "d4", "title": "Verse", "text": "Roses are red"},
]


@pytest.fixture
def folder(tmp_path):
    lines = [json.dumps(document) for document in DOCUMENTS]
    (tmp_path / "docs.jsonl").write_text("\n".join(lines) + "\n")
    pd.DataFrame(DOCUMENTS).to_csv(tmp_path / "docs.csv", index=False)
    (tmp_path / "queries.csv").write_text('query,text\nq1,quick sort\n"q,2",tree\n')
    (tmp_path / "links.csv").write_text("from,to\nd1,3\n3,d2\n")
    return tmp_path


def test_both_formats_hold_the_same(folder):
    assert read_texts(folder / "docs.jsonl") == read_texts(folder / "docs.csv")
    names = read_texts(folder / "docs.csv").names
    assert names == ("d1", "d2", "3", "d4")
    assert read_links(folder / "links.csv", names).tolist() == [[0, 2], [2, 1]]


def test_scores_are_those_of_the_library(folder, capsys):
    out = folder / "run.csv"
    arguments = ("--queries", folder / "queries.csv", "--out", out, "--quiet")
    assert run("search", folder / "docs.jsonl", *arguments, "--links", folder / "links.csv") == 0
    assert "2 queries, 4 documents. Scores are in" in capsys.readouterr().out
    data = read_texts(folder / "docs.jsonl")
    counter = term_counter()
    engine = BM25().fit(counter.fit_transform(data.whole))
    scores = engine.scores(counter.transform(["quick sort", "tree"]))
    wanted = with_linked(scores, links_of([(0, 2), (2, 1)], 4), 0.3).toarray()
    found = pd.read_csv(out)
    assert set(found["query"]) == {"q1", "q,2"}
    for name, item, score in found.to_numpy():
        query = ["q1", "q,2"].index(name)
        assert score == pytest.approx(wanted[query, data.names.index(item)])
    assert len(found) == np.count_nonzero(wanted)
    for _, scores in found.groupby("query")["score"]:
        assert scores.is_monotonic_decreasing


def test_judged_queries_choose_the_weight_of_links(folder, capsys):
    (folder / "judged.csv").write_text('query,item,label\nq1,d1,1\n"q,2",d2,1\nother,d1,1\n')
    out = folder / "run.csv"
    files = ("--queries", folder / "queries.csv", "--links", folder / "links.csv", "--out", out)
    judged = ("--judged", folder / "judged.csv", "--quiet")
    assert run("search", folder / "docs.jsonl", *files, *judged) == 0
    printed = capsys.readouterr().out
    data = read_texts(folder / "docs.jsonl")
    counter = term_counter()
    engine = BM25().fit(counter.fit_transform(data.whole))
    scores = engine.scores(counter.transform(["quick sort", "tree"]))
    relevant = np.array([[1, 0, 0, 0], [0, 1, 0, 0]])
    learned = learn_link_weight(scores, links_of([(0, 2), (2, 1)], 4), relevant)
    assert f"Links count {learned.weight:g}, as the judged queries have it." in printed
    assert len(pd.read_csv(out)) == learned.scores.count_nonzero()


@pytest.mark.slow
def test_learns_from_links(folder):
    words = ["apple", "pear", "stone", "brick"]
    documents = [
        {"id": str(i), "text": f"{words[i % 4]} {words[i % 2]} filler{i}"} for i in range(24)
    ]
    (folder / "many.jsonl").write_text("\n".join(map(json.dumps, documents)))
    links = [f"{i},{i + 4}" for i in range(20)]
    (folder / "links.csv").write_text("\n".join(["from,to", *links]))
    (folder / "queries.csv").write_text("id,text\nq,apple\n")
    arguments = ("--queries", folder / "queries.csv", "--out", folder / "run.csv")
    code = run(
        "search", folder / "many.jsonl", *arguments,
        "--links", folder / "links.csv", "--method", "link-learn",
    )  # fmt: skip
    assert code == 0
    assert {"0", "4"} <= set(pd.read_csv(folder / "run.csv", dtype=str)["item"])


def test_evaluate_reads_the_scores(folder, capsys):
    (folder / "judged.csv").write_text("query,item,label\nq1,d1,1\nq2,d2,1\n")
    out = folder / "run.csv"
    queries = ("--queries", folder / "queries.csv", "--out", out, "--quiet")
    assert run("search", folder / "docs.jsonl", *queries) == 0
    capsys.readouterr()
    assert run("evaluate", out, folder / "judged.csv") == 0
    assert "average precision" in capsys.readouterr().out.lower()


@pytest.mark.filterwarnings("always:query")
def test_queries_of_unknown_terms_are_named(folder, capsys):
    (folder / "queries.csv").write_text("id,text\nq1,tree\n\nq2,\nq3,zebra\n")
    arguments = ("--queries", folder / "queries.csv", "--out", folder / "run.csv", "--quiet")
    assert run("search", folder / "docs.jsonl", *arguments) == 0
    error = capsys.readouterr().err
    assert "query 'q2' and 1 more have no term that a document has" in error
    assert error.count("\n") == 1
    (folder / "links.csv").write_text("from,to\nd1,d1\n")
    links = ("--links", folder / "links.csv")
    assert run("search", folder / "docs.jsonl", *arguments, *links) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_scores_on_standard_output(folder, capsys):
    queries = ("--queries", folder / "queries.csv", "--quiet", "--out", "-")
    assert run("search", folder / "docs.jsonl", *queries) == 0
    out, err = capsys.readouterr()
    assert out.startswith("query,item,score\n") and "Scores are in -" in err
