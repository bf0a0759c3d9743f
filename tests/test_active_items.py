"""Items that come and go in the middle of a study, and what their journal keeps."""

from typing import Any

import numpy as np
import pytest
from refusals import refused

from bayesrank.active import JournalError, QueryLoop, read_journal

N = 6
X = np.random.default_rng(2).normal(size=(9, 2))
NAMES = [f"item {i}" for i in range(9)]


def study(path=None, count=N):
    loop = QueryLoop(NAMES[:count], X[:count], journal=path, hyperparameters="prior")
    for winner, loser in ((0, 1), (2, 3), (4, 5)):
        loop.tell(NAMES[winner], NAMES[loser])
    return loop


@pytest.mark.slow
def test_items_are_added_and_no_answer_is_lost(tmp_path):
    path, fresh = tmp_path / "a.jsonl", study(count=9)
    with study(path) as loop:
        loop.ask()
        loop.add_items(NAMES[6:8], X[6:8])
        loop.add_items(NAMES[8:], X[8:])
        assert loop.items == tuple(NAMES) and len(loop.answers) == 3
        np.testing.assert_allclose(loop.result.mean["f"], fresh.result.mean["f"], atol=1e-6)
        for each in (loop, fresh):
            each.tell("item 7", "item 0")
        asked = loop.ask()[0]
    with QueryLoop(NAMES, X, journal=path, hyperparameters="prior") as again:
        assert again.answers == fresh.answers and again.ask()[0][:2] == asked[:2]
        np.testing.assert_allclose(again.result.mean["f"], fresh.result.mean["f"], atol=1e-6)
        assert sorted(again.ranking().names) == NAMES


@pytest.mark.slow
def test_items_at_the_end_of_the_list_are_added_when_a_journal_is_opened(tmp_path):
    path = tmp_path / "a.jsonl"
    study(path).close()
    with QueryLoop(NAMES[:8], X[:8], journal=path, hyperparameters="prior") as loop:
        loop.tell("item 7", "item 0")
    (added,) = [r for r in read_journal(path).records if r["event"] == "items"]
    assert added["items"] == 8 and added["labels"] == ["item 6", "item 7"]
    before = path.read_bytes()
    for names, features, message in (
        (NAMES[:6], X[:6], "has 8 items, and 6 are given; add 'item 6', 'item 7' at their end"),
        ([*NAMES[:6], "new", "item 7"], X[:8], "not the same names"),
        (NAMES[:8], np.vstack([X[:7], X[8:]]), "not the same features"),
        ([*NAMES[1:6], *NAMES], np.vstack([X[1:6], X]), "twice"),
        (NAMES[::-1], X[::-1], "begun with other items"),
    ):
        with pytest.raises((JournalError, ValueError), match=message):
            QueryLoop(names, features, journal=path, hyperparameters="prior")
    assert path.read_bytes() == before


@pytest.mark.slow
def test_retired_items_are_asked_about_no_more(tmp_path):
    path = tmp_path / "a.jsonl"
    loop = QueryLoop(4, journal=path, hyperparameters="prior", stop_top=2)
    with loop:
        loop.tell(3, 0)
        loop.retire(3)
        loop.retire(3)  # is said once
        assert loop.retired == (3,) and len(loop.log) == 2
        assert loop.result.mean["f"][3] > 0 and 3 not in loop.ranking().names
        assert 0 < (loop.progress().settled or 0) < 1
        loop.retire(2)
        assert loop.progress().settled == 1.0  # two are left
        refused("fewer than two items to ask about", loop.retire, 1)
        refused("there is no item 9", loop.retire, 9)
        assert {frozenset(q[:2]) for q in loop.ask(3)} == {frozenset({0, 1})}
        loop.restore(2)
    with QueryLoop(4, journal=path, hyperparameters="prior", candidates=2) as again:
        assert again.retired == (3,)
        seen = set()
        while questions := again.ask():
            seen.add(frozenset(questions[0][:2]))
            again.skip(*questions[0][:2])
        assert seen == {frozenset({0, 1}), frozenset({0, 2}), frozenset({1, 2})}


@pytest.mark.slow
def test_items_that_cannot_be_added():
    loop, plain = study(), QueryLoop(3, hyperparameters="prior")
    cases: list[tuple[QueryLoop, tuple[Any, ...], str]] = [
        (loop, (["item 0"], X[:1]), "'item 0' twice"),
        (loop, (["new"],), "the items that are there need features, too"),
        (plain, (["new"], X[:1]), "the items that are there have none"),
        (loop, (["new"], X[:1, :1]), "has 1 columns; pass 2"),
        (loop, (["new"], X[:2]), r"shape \(2, 2\); pass \(1, d\)"),
        (loop, ("new", X[:1]), "items is 'new'; pass names in an order"),
    ]
    for each, arguments, message in cases:
        refused(message, each.add_items, *arguments)
    line = np.array([[1.0, -1.0, 0.0], [-1.0, 2.0, -1.0], [0.0, -1.0, 1.0]])
    joined = QueryLoop(3, X[:3], laplacian=line, hyperparameters="prior")
    refused("cannot be added to a loop with a laplacian", joined.add_items, ["new"], X[3:4])
    assert len(loop.items) == N and len(plain.items) == len(joined.items) == 3
