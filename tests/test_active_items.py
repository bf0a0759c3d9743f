"""Items that come and go in the middle of a study, and journals that were written before."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bayesrank.active import JournalError, QueryLoop, read_journal

N = 6
X = np.random.default_rng(2).normal(size=(9, 2))
NAMES = [f"item {i}" for i in range(9)]
OLD = Path(__file__).parent / "data" / "journals"


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
        with pytest.raises(ValueError, match="fewer than two items to ask about"):
            loop.retire(1)
        with pytest.raises(ValueError, match="there is no item 9"):
            loop.retire(9)
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
        with pytest.raises(ValueError, match=message):
            each.add_items(*arguments)
    line = np.array([[1.0, -1.0, 0.0], [-1.0, 2.0, -1.0], [0.0, -1.0, 1.0]])
    joined = QueryLoop(3, X[:3], laplacian=line, hyperparameters="prior")
    with pytest.raises(ValueError, match="cannot be added to a loop with a laplacian"):
        joined.add_items(["new"], X[3:4])
    assert len(loop.items) == N and len(plain.items) == len(joined.items) == 3


# ---------------------------------------------------------------- journals of version 1


@pytest.fixture
def copied(tmp_path):
    def copy(name):
        path = tmp_path / name
        path.write_bytes((OLD / name).read_bytes())
        return path

    return copy


@pytest.mark.slow
def test_a_journal_with_features_from_before(copied):
    features = [[0.0, 0.3], [-0.27, -0.89], [-0.45, -0.99], [0.06, 1.34], [-0.49, -0.62],
                [0.49, 0.36], [0.11, -0.93], [-0.03, 0.7]]  # fmt: skip
    with QueryLoop(NAMES[:8], features, journal=copied("features.jsonl"), seed=3) as loop:
        # What the program that wrote it said.
        assert len(loop.answers) == 10 and loop.skipped == [("item 0", "item 1")]
        assert loop.params["amplitude"] == 1.0178924116180863
        mean = [0.047890682, -0.967883497, -1.284413211, -0.01539987, -1.195982333, 1.055390942,
                0.433570352, -0.11119945]  # fmt: skip
        np.testing.assert_allclose(loop.result.mean["f"], mean, atol=1e-6)
        asked = loop.ask()[0]
        assert asked[:2] == ("item 3", "item 0")
        assert asked.gain == pytest.approx(0.130121967, abs=1e-6)
        loop.tell("item 0", "item 5", tie=True)
        loop.add_items(["item 8"], [[0.4, 0.2]])
        assert len(loop.answers) == 11 and loop.params["amplitude"] == 1.0178924116180863


def test_a_journal_of_judges_from_before_with_a_torn_line(copied):
    names, path = ["tea", 7, ("red", 2), 1.5, "7", "größer"], copied("annotators.jsonl")
    opened = partial(QueryLoop, hyperparameters="prior", judge_noise={"Bo": 2.0})
    with opened(names, journal=path) as loop:
        assert [answer[:3] for answer in loop.answers] == [
            ("tea", 7, "Ann"), ("tea", ("red", 2), "Bo"), (7, "größer", "Bo"), ("tea", "7", None),
        ]  # fmt: skip
        mean = [0.877386375, -0.081928710, -0.210435105, 0.0, -0.310076167, -0.274946394]
        np.testing.assert_allclose(loop.result.mean["f"], mean, atol=1e-6)
        loop.tell("7", 1.5, tie=True)
    with opened([*names, "new"], journal=path) as loop:
        assert loop.answers[-1] == ("7", 1.5, None, True) and loop.items[-1] == "new"
