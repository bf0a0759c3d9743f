"""Loops that are shared, moved, copied, opened by another program, or nearly out of questions."""

import copy
import gc
import os
import pickle
import threading

import jax.numpy as jnp
import numpy as np
import pytest
from refusals import refused

from bayesrank.active import QueryLoop, read_journal
from bayesrank.active.history import replay

X = np.random.default_rng(0).normal(size=(9, 2))


def test_records_added_up_piece_by_piece(tmp_path):
    with QueryLoop(4, journal=tmp_path / "a.jsonl", hyperparameters="prior") as loop:
        loop.tell(0, 1)
        loop.skip(2, 3, judge="Ann")
        assert len(loop.answers) == 1
        loop.undo(judge="Ann")
        loop.tell(1, 2, judge="Ann")
        loop.log.append({"event": "learned", "answers": 2, "params": {"scale": 2.0}})
        assert loop.skipped == [] and loop.comparisons.tolist() == [[0, 1], [1, 2]]
        whole = replay(loop.log.records)
        assert loop._history == whole and whole.learned_at == 2 and len(loop.log) == 5


def test_threads_take_turns(tmp_path):
    """As in a server that answers requests in threads: all tell, ask and undo at once."""
    path = tmp_path / "a.jsonl"
    with QueryLoop(40, journal=path, hyperparameters="prior", candidates=20) as loop:
        loop.ask()
        failed = []

        def answer(number):
            try:
                for k in range(8):
                    loop.tell(number, 10 + k, judge=str(number))
                    loop.ask(judge=str(number))
                loop.undo(judge=str(number))
            except Exception as error:
                failed.append(error)

        threads = [threading.Thread(target=answer, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == [] and loop.judges == {str(number): 7 for number in range(4)}
        assert loop._history == replay(loop.log.records)
    assert len(read_journal(path).records) == 4 * 9


def test_the_process_may_go_to_another_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    with QueryLoop(3, journal="a.jsonl", hyperparameters="prior") as loop:
        os.chdir("elsewhere")
        loop.tell(0, 1)
    assert len(read_journal(tmp_path / "a.jsonl").records) == 1


@pytest.mark.parametrize("candidates", [1, 5])
def test_few_candidates_end_when_all_has_been_asked(candidates):
    loop = QueryLoop(7, candidates=candidates, hyperparameters="prior")
    seen = set()
    while questions := loop.ask():
        seen.add(frozenset(questions[0][:2]))
        loop.skip(*questions[0][:2])
    assert len(seen) == len(loop.skipped) == 7 * 6 // 2


def test_a_batch_is_whole_although_few_candidates_are_drawn():
    loop = QueryLoop(7, candidates=2, hyperparameters="prior")
    for winner, loser in [(0, 1), (2, 3), (4, 5)] * 5:
        loop.tell(winner, loser)
    batch = {frozenset(question[:2]) for question in loop.ask(4)}
    assert len(batch) == 4 and not batch & {frozenset(answer[:2]) for answer in loop.answers}


def test_a_loop_that_nobody_holds_does_not_keep_its_journal_locked(tmp_path):
    loop = QueryLoop(3, journal=tmp_path / "a.jsonl", hyperparameters="prior")
    loop.tell(0, 1)
    del loop
    gc.collect()
    with QueryLoop(3, journal=tmp_path / "a.jsonl", hyperparameters="prior") as again:
        assert len(again.answers) == 1


def test_copies_are_refused():
    loop = QueryLoop(3, hyperparameters="prior")
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        refused("cannot be copied or pickled", copied, loop, kind=TypeError)


def test_what_was_learned_of_another_program_is_not_mixed_in(tmp_path):
    path = tmp_path / "a.jsonl"
    learned = {"amplitude": 0.3, "lengthscale": [0.5, 0.6], "noise": 0.9}
    with QueryLoop(9, X, journal=path, ard=True) as loop:
        loop.tell(0, 1)
        loop.log.append({"event": "learned", "answers": 1, "params": learned})
        assert loop.params["amplitude"] == 0.3
    with QueryLoop(9, X, journal=path) as loop:
        assert loop.params == QueryLoop(9, X, hyperparameters="prior").params
        assert loop._posterior._due(loop._history) is False
        loop._posterior._refit_after = 1
        assert loop._posterior._due(loop._history) is True  # and not when the answers have doubled


def test_learning_that_fails_is_said_once_and_questions_go_on(monkeypatch):
    loop = QueryLoop(6, refit_after=2, background=True)
    for winner, loser in ((0, 1), (1, 2)):
        loop.tell(winner, loser)

    def fail(*args):
        raise ValueError("the evidence is not a number")

    monkeypatch.setattr(loop._posterior._program, "learn", fail)
    loop.ask()
    assert loop._posterior._pending is not None
    loop._posterior._pending.exception(timeout=60)
    refused("the evidence is not a number", loop.ask)
    assert loop.ask()


def test_what_was_learned_meanwhile_from_more_answers_stays(monkeypatch):
    loop = QueryLoop(6, refit_after=1, background=True)
    loop.tell(0, 1)
    started, go_on = threading.Event(), threading.Event()

    def learn(told, *args):
        count = len(told.comparisons)
        if count == 1:
            started.set()
            go_on.wait(60)
        return {"scale": np.array(1.0 + count)}

    monkeypatch.setattr(loop._posterior._program, "learn", learn)
    loop.ask()
    assert started.wait(60)
    loop.tell(1, 2)
    newer = loop.learn()["scale"]
    assert loop._posterior._pending is not None
    go_on.set()
    loop._posterior._pending.result(timeout=60)
    loop.ask()
    assert loop.params["scale"] == newer == 3.0


@pytest.mark.parametrize("shape", [(), (2,)])
def test_an_acquisition_with_other_scores_than_one_a_pair_is_refused(shape):
    loop = QueryLoop(4, acquisition=lambda beliefs, pairs: jnp.ones(shape), hyperparameters="prior")
    refused(r"scores of shape \(2?,?\) to pairs of shape \(6, 2\)", loop.ask)
