"""`python -m bayesrank search`: what it reads, what it writes, what it refuses."""

import json
from pathlib import Path

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


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("docs.jsonl", *map(json.dumps, DOCUMENTS))
    pd.DataFrame(DOCUMENTS).to_csv("docs.csv", index=False)
    write("queries.csv", "query,text", "q1,quick sort", '"q,2",tree')
    write("links.csv", "from,to", "d1,3", "3,d2")


def write(name, *lines):
    Path(name).write_text("\n".join(lines) + "\n")


def search(options="", documents="docs.jsonl"):
    """Search, quietly, with scores in `run.csv`."""
    files = ("search", documents, "--queries", "queries.csv", "--out", "run.csv")
    return run(*files, "--quiet", *options.split())


def scores_of_the_library():
    counter = term_counter()
    engine = BM25().fit(counter.fit_transform(read_texts("docs.jsonl").whole))
    return engine.scores(counter.transform(["quick sort", "tree"]))


def test_both_formats_hold_the_same():
    assert read_texts("docs.jsonl") == read_texts("docs.csv")
    names = read_texts("docs.csv").names
    assert names == ("d1", "d2", "3", "d4")
    assert read_links("links.csv", names).tolist() == [[0, 2], [2, 1]]


def test_scores_are_those_of_the_library(capsys):
    assert search("--links links.csv") == 0
    assert "2 queries, 4 documents. Scores are in" in capsys.readouterr().out
    names = read_texts("docs.jsonl").names
    wanted = with_linked(scores_of_the_library(), links_of([(0, 2), (2, 1)], 4), 0.3).toarray()
    found = pd.read_csv("run.csv")
    assert set(found["query"]) == {"q1", "q,2"}
    for name, item, score in found.to_numpy():
        query = ["q1", "q,2"].index(name)
        assert score == pytest.approx(wanted[query, names.index(item)])
    assert len(found) == np.count_nonzero(wanted)
    for _, scores in found.groupby("query")["score"]:
        assert scores.is_monotonic_decreasing


def test_judged_queries_choose_the_weight_of_links(capsys):
    write("judged.csv", "query,item,label", "q1,d1,1", '"q,2",d2,1', "other,d1,1")
    assert search("--links links.csv --judged judged.csv") == 0
    printed = capsys.readouterr().out
    relevant = np.array([[1, 0, 0, 0], [0, 1, 0, 0]])
    links = links_of([(0, 2), (2, 1)], 4)
    learned = learn_link_weight(scores_of_the_library(), links, relevant)
    assert f"Links count {learned.weight:g}, as the judged queries have it." in printed
    assert len(pd.read_csv("run.csv")) == learned.scores.count_nonzero()


@pytest.mark.slow
def test_learns_from_links():
    words = ["apple", "pear", "stone", "brick"]
    documents = [
        {"id": str(i), "text": f"{words[i % 4]} {words[i % 2]} filler{i}"} for i in range(24)
    ]
    write("many.jsonl", *map(json.dumps, documents))
    write("links.csv", "from,to", *(f"{i},{i + 4}" for i in range(20)))
    write("queries.csv", "id,text", "q,apple")
    assert search("--links links.csv --method link-learn", "many.jsonl") == 0
    assert {"0", "4"} <= set(pd.read_csv("run.csv", dtype=str)["item"])


def test_evaluate_reads_the_scores(capsys):
    write("judged.csv", "query,item,label", "q1,d1,1", "q2,d2,1")
    assert search() == 0
    capsys.readouterr()
    assert run("evaluate", "run.csv", "judged.csv") == 0
    assert "average precision" in capsys.readouterr().out.lower()


@pytest.mark.filterwarnings("always:query")
def test_queries_of_unknown_terms_are_named(capsys):
    write("queries.csv", "id,text", "q1,tree", "", "q2,", "q3,zebra")
    assert search() == 0
    error = capsys.readouterr().err
    assert "query 'q2' and 1 more have no term that a document has" in error
    assert error.count("\n") == 1
    write("links.csv", "from,to", "d1,d1")
    assert search("--links links.csv") == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_scores_on_standard_output(capsys):
    assert search("--out -") == 0
    out, err = capsys.readouterr()
    assert out.startswith("query,item,score\n") and err == "2 queries, 4 documents.\n"
