"""Ask, tell, reopen: the loop against EP on the same program, and against itself."""

import itertools
from functools import partial

import jax
import numpy as np
import pytest
from compilations import compilations
from refusals import refused

from bayesrank._sizes import next_size
from bayesrank.active import QueryLoop
from bayesrank.active.acquisition import bald, pool_variance, top_gain
from bayesrank.active.acquisition.beliefs import Beliefs
from bayesrank.active.program import answered as answered_program
from bayesrank.active.settle import Answers, SkillPrior, settle
from bayesrank.active.stopping import top_settled
from bayesrank.active.store import JournalError, read_journal
from bayesrank.infer import EP, ConvergenceWarning
from bayesrank.models import preference_gp, thurstone
from benchmarks.active_tasks import series_until_settled

N = 9
X = np.random.default_rng(0).normal(size=(N, 2)) * [1.0, 50.0] + 3.0
SKILL = X[:, 0] + np.sin(X[:, 1] / 50.0)
NAMES = [f"item {i}" for i in range(N)]


def answered(loop, count):
    for _ in range(count):
        (question,) = loop.ask()
        numbers = [NAMES.index(str(name)) for name in question[:2]]
        winner, loser = sorted(numbers, key=lambda i: -SKILL[i])
        loop.tell(loop.items[winner], loop.items[loser])
    return loop


def prior_loop(**options):
    return QueryLoop(NAMES, X, hyperparameters="prior", **options)


@pytest.fixture(scope="module", autouse=True)
def shared():
    """All loops of as many items share what these compile."""
    for options in ({}, {"judge_noise": {"Bo": 3.0}}):
        _ = answered(prior_loop(**options), 1).result.mean


@pytest.mark.slow
def test_a_goal_chooses_by_its_acquisition_and_forgets_retired_items():
    for options, acquisition in (
        ({}, bald),
        ({"goal": "order"}, pool_variance),
        ({"goal": "top", "k": 2}, top_gain(2)),
        ({"stop_top": 2}, top_gain(2)),
        ({"stop_top": 1, "goal": "pair"}, bald),
        ({"stop_top": 1, "stop_gain": 0.1}, bald),  # a gain in nats is of a pair
        ({"stop_top": 1, "acquisition": "bald"}, bald),
    ):
        loop = answered(prior_loop(**options), 4)
        pairs, scores = loop.candidates()
        beliefs = jax.tree.map(np.asarray, loop.beliefs)
        np.testing.assert_allclose(scores, acquisition(beliefs, pairs), atol=1e-6)
    loop = answered(prior_loop(stop_top=2), 4)
    best = loop.items[int(np.argmax(loop.beliefs.mean))]
    loop.retire(best)
    mean = np.array(loop.beliefs.mean)
    mean[loop.items.index(best)] = -1e6
    pairs, scores = loop.candidates()
    np.testing.assert_allclose(scores, top_gain(2)(loop.beliefs._replace(mean=mean), pairs))


@pytest.mark.parametrize(
    ("count", "noise", "tie"),
    [
        (14, {}, False),
        (5, {"Bo": 3.0}, False),
        pytest.param(4, {}, True, marks=pytest.mark.slow),
        pytest.param(4, {"Bo": 2.0}, True, marks=pytest.mark.slow),
    ],
)
def test_result_is_that_of_ep_on_the_same_program(count, noise, tie):
    loop = answered(prior_loop(judge_noise=noise), count - 1)
    loop.tell("item 0", "item 8", judge="Bo", tie=tie)
    ours = loop.result
    assert ours.model is (answered_program if noise else preference_gp)
    assert not tie or ours.model_kwargs["outcomes"].tolist() == [2, 2, 2, 1]
    theirs = EP(ours.model, tol=1e-10).run(
        jax.random.key(0), *ours.model_args, params=ours.params, **ours.model_kwargs
    )
    np.testing.assert_allclose(ours.mean["f"], theirs.mean["f"], atol=1e-6)
    np.testing.assert_allclose(ours.covariance["f"], theirs.covariance["f"], atol=1e-6)
    np.testing.assert_allclose(ours.sites["comparison"], theirs.sites["comparison"], atol=1e-6)
    assert ours.log_evidence == pytest.approx(theirs.log_evidence, abs=1e-6)
    assert ours.converged and ours.latent_sites == theirs.latent_sites
    assert ours.get_samples()["f"].shape == (ours.num_samples, N)


def test_judges_who_are_noisier_count_for_less():
    loop = QueryLoop(6, judge_noise={"Bo": 3.0}, hyperparameters={"scale": 1.5})
    for judge, winner, loser in (("Ann", 0, 1), ("Bo", 2, 3), ("Bo", 1, 3)):
        loop.tell(winner, loser, judge=judge)
    assert loop.result.mean["f"][0] > loop.result.mean["f"][2] > 0
    assert loop.judges == {"Ann": 1, "Bo": 2}
    # What Bo has answered waits; what he skipped does not come again; Ann's answers do not bar him.
    asked = []
    while questions := loop.ask(judge="Bo"):
        asked.append(set(questions[0][:2]))
        loop.skip(*questions[0][:2], judge="Bo")
    assert len(asked) == len(set(map(frozenset, asked))) == 15 and {0, 1} in asked


@pytest.mark.slow
def test_ranking_and_a_graph():
    laplacian = np.diag(np.full(N, 2.0)) - np.roll(np.eye(N), 1, 0) - np.roll(np.eye(N), -1, 0)
    loop = answered(prior_loop(laplacian=laplacian), 12)
    free = answered(prior_loop(), 12)
    assert loop.result.model_kwargs["laplacian"] is laplacian
    best = loop.ranking(k=2)
    assert sorted(best.names) == NAMES and best.k == 2
    assert set(best.names[:3]) & {NAMES[i] for i in np.argsort(-SKILL)[:2]}
    assert np.diff(loop.result.mean["f"]).std() < np.diff(free.result.mean["f"]).std()


def test_the_question_is_the_best_of_all_pairs():
    loop = answered(prior_loop(), 6)
    pairs, scores = loop.candidates()
    assert len(pairs) == N * (N - 1) // 2 - 5  # not the last five
    (question,) = loop.ask()
    assert {question.first, question.second} == {NAMES[i] for i in pairs[scores.argmax()]}
    assert question.gain == pytest.approx(scores.max())
    beliefs = Beliefs(loop.result.mean["f"], loop.result.covariance["f"], loop.params["noise"])
    np.testing.assert_allclose(scores, bald(beliefs, pairs))
    draws = np.random.default_rng(0).multivariate_normal(
        beliefs.mean, beliefs.covariance, size=200_000
    )
    i, j = (NAMES.index(str(name)) for name in question[:2])
    performed = draws[:, i] - draws[:, j]
    performed = performed + np.sqrt(2) * np.random.default_rng(1).normal(size=200_000)
    assert question.win_probability == pytest.approx((performed > 0).mean(), abs=0.005)
    assert loop.ask() == [question]  # until something is told


def test_a_pair_comes_again_after_others_and_never_once_skipped():
    loop = QueryLoop(["a", "b", "c", "d"], hyperparameters="prior")
    loop.skip("a", "b")
    asked = []
    for _ in range(20):
        (question,) = loop.ask()
        asked.append(frozenset(question[:2]))
        loop.tell(*question[:2])
    assert len(set(asked)) == 5 and {"a", "b"} not in asked
    # Half of the five pairs come in between.
    assert all(len(set(asked[i : i + 3])) == 3 for i in range(18))
    assert len(loop.ask(9)) == 3 and loop.ask(judge="Ann")
    for pair in set(asked) - {asked[-1]}:
        loop.skip(*pair)
    assert set(loop.ask()[0][:2]) == asked[-1]  # the only one left does not wait
    loop.retire("a")
    loop.retire("b")
    loop.skip("c", "d")
    assert loop.ask() == []


@pytest.mark.parametrize("candidates", [10, 10_000])
def test_few_drawn_candidates_come_again_too(candidates):
    loop = answered(prior_loop(candidates=candidates), 3)
    for pair in itertools.combinations(NAMES, 2):
        if pair[0] != NAMES[0]:
            loop.skip(*pair)
    told = [frozenset(answer[:2]) for answer in answered(loop, 30).answers[3:]]
    assert len(set(told)) < len(told) and all(NAMES[0] in pair for pair in told)
    assert all(len(set(told[i : i + 5])) == 5 for i in range(26))


def test_without_again_no_pair_is_asked_twice_and_the_questions_end():
    loop = QueryLoop(["a", "b", "c"], hyperparameters="prior", again=False)
    seen = []
    while loop.ask():
        (question,) = loop.ask()
        seen.append(frozenset(question[:2]))
        loop.skip(*question[:2]) if len(seen) == 2 else loop.tell(*question[:2])
    assert len(seen) == len(set(seen)) == 3
    assert len(loop.answers) == 2 and len(loop.skipped) == 1
    assert loop.progress().done and loop.progress().reason == "every question has been asked"


def test_random_questions_from_a_few_candidates():
    loop = answered(prior_loop(acquisition="random", candidates=10), 3)
    pairs, scores = loop.candidates()
    assert len(pairs) <= 10 and np.all((scores >= 0) & (scores < 1))
    other = answered(prior_loop(acquisition="random", candidates=10, seed=1), 3)
    assert loop.answers != other.answers


def test_only_given_candidates_are_asked():
    given = [("item 0", "item 5"), ("item 3", "item 4")]
    loop = answered(prior_loop(candidates=given, again=False), 2)
    assert {frozenset(a[:2]) for a in loop.answers} == {frozenset(pair) for pair in given}
    assert loop.ask() == []
    again = answered(prior_loop(candidates=given), 4)
    assert [a[:2] for a in again.answers[2:]] == [a[:2] for a in again.answers[:2]]


def test_undo_is_as_if_it_had_not_been_told():
    loop, other = answered(prior_loop(), 4), answered(prior_loop(), 4)
    loop.tell("item 1", "item 7", judge="Ann")
    loop.result  # noqa: B018 - the sites of the answer exist when it is undone
    loop.skip("item 2", "item 3")
    assert loop.undo() == ("item 2", "item 3")
    assert loop.undo(judge="Ann") == ("item 1", "item 7", "Ann", False, None)
    np.testing.assert_allclose(loop.result.mean["f"], other.result.mean["f"], atol=1e-7)
    assert loop.answers == other.answers and loop.skipped == []
    refused("no answer by 'Ann' to undo", loop.undo, judge="Ann")
    for _ in range(4):
        loop.undo()
    refused("no answer to undo", loop.undo)


def test_a_journal_reopened_is_the_same_loop(tmp_path):
    path = tmp_path / "a.jsonl"
    with prior_loop(journal=path) as loop:
        answered(loop, 5)
        loop.skip("item 0", "item 8", judge="Ann")
        loop.undo(judge="Ann")
        loop.tell("item 0", "item 8", judge="Ann")
        asked, mean = loop.ask(), loop.result.mean["f"]
        loop.tell("item 4", "item 5")
        loop.undo()
        assert loop.ask()[0][:2] == asked[0][:2]  # on the same sides
        refused("open in another process", prior_loop, journal=path, kind=JournalError)
    with prior_loop(journal=path) as again:
        assert again.answers == loop.answers and again.skipped == []
        assert again.ask()[0][:2] == asked[0][:2]
        np.testing.assert_allclose(again.result.mean["f"], mean, atol=1e-7)
    labels = [record["labels"] for record in read_journal(path).records if "labels" in record]
    assert labels[-2] == ["item 0", "item 8"]
    refused("not the same names", QueryLoop, NAMES[::-1], X, journal=path, kind=JournalError)
    refused("not the same features", QueryLoop, NAMES, X + 1e-9, journal=path, kind=JournalError)
    with pytest.raises(JournalError, match="not the same number of items or names or features"):
        QueryLoop(4, journal=path)


def test_an_answer_that_is_not_written_is_not_believed(tmp_path):
    with answered(prior_loop(journal=tmp_path / "a.jsonl"), 2) as loop:
        before = loop.answers, loop.ask()
        (tmp_path / "a.jsonl").rename(tmp_path / "b.jsonl")
        refused("moved or deleted", loop.tell, "item 0", "item 1", kind=JournalError)
        assert (loop.answers, loop.ask()) == before


def test_names_of_any_kind(tmp_path):
    names = ["tea", 7, ("red", 2), 1.5, np.int64(9), "7"]
    with QueryLoop(names, journal=tmp_path / "a.jsonl", hyperparameters="prior") as loop:
        loop.tell(("red", 2), np.int64(7))
        loop.tell("7", 9)
        answers = loop.answers
    with QueryLoop(names, journal=tmp_path / "a.jsonl", hyperparameters="prior") as loop:
        told = [(("red", 2), 7, None, False, None), ("7", 9, None, False, None)]
        assert loop.answers == answers == told


def test_nothing_compiles_as_answers_grow():
    loop = answered(prior_loop(candidates=20), 2)
    loop.ask(judge="Ann")
    with compilations() as compiled:
        answered(loop, 20)  # past the number of items, where EP moves to another space
        for _ in range(60):
            loop.tell("item 1", "item 2", judge="Ann")
        loop.undo()
        loop.ask(judge="Ann")
        assert not compiled
        jax.jit(lambda x: x + 1)(np.ones(N + 1))
        assert compiled  # the listener hears


@pytest.mark.slow
def test_hyperparameters_are_learned_on_schedule_and_kept(tmp_path):
    path = tmp_path / "a.jsonl"
    with QueryLoop(6, journal=path, refit_after=3) as loop:
        default = loop.params["scale"]
        for winner, loser in ((0, 1), (1, 2)):
            loop.tell(winner, loser)
        loop.ask()
        assert loop.params["scale"] == default
        for winner, loser in ((2, 3), (0, 3), (0, 2), (1, 3), (4, 5)):
            loop.tell(winner, loser)
        loop.ask()
        learned = loop.params["scale"]
        # Against a grid: evidence times prior density, without the padding and the bucket.
        grid, answers = learned * np.exp(np.linspace(-0.2, 0.2, 5)), np.ones(7)
        priors = [SkillPrior(np.zeros(6), scale**2 * np.eye(6)) for scale in grid]
        heights = np.array(
            [settle(prior, Answers(loop.comparisons, answers)).log_evidence for prior in priors]
        )
        heights -= 0.5 * np.log(grid) ** 2 + np.log(grid)
        assert heights.argmax() == 2
        loop.tell(3, 5)
        loop.ask()
        assert loop.params["scale"] == learned  # not due again before there are 14
    with QueryLoop(6, journal=path, refit_after=3) as loop:
        assert loop.params["scale"] == learned
    with QueryLoop(6, journal=path, hyperparameters="prior") as loop:
        assert loop.params["scale"] == default
        refused("no free hyperparameter", loop.learn)


@pytest.mark.slow
def test_learning_in_the_background_is_used_once_it_is_done():
    loop = QueryLoop(6, refit_after=3, background=True)
    before = loop.params["scale"]
    for winner, loser in ((0, 1), (1, 2), (0, 2)):
        loop.tell(winner, loser)
    assert loop.ask() and loop.params["scale"] == before
    pending = loop._posterior._pending
    assert pending is not None
    pending.result(timeout=60)
    loop.ask()
    assert loop.params["scale"] != before and loop._posterior._pending is None


@pytest.mark.slow
def test_learning_compiles_once_a_bucket():
    assert [next_size(k, 64) for k in (0, 1, 64, 65, 128, 129)] == [64, 64, 64, 128, 128, 256]
    loop = QueryLoop(6, refit_after=3)
    for winner, loser in ((0, 1), (1, 2), (0, 2)):
        loop.tell(winner, loser)
    loop.learn()
    for winner, loser in ((3, 4), (4, 5), (0, 5), (0, 3)):
        loop.tell(winner, loser)
    with compilations() as compiled:
        loop.learn()
    assert not compiled


def test_stopping_rules():
    loop = prior_loop(stop_gain=1e-9, stop_top=2, stop_level=0.8)
    while not loop.progress().done:
        answered(loop, 1)
    progress = loop.progress()
    assert progress.reason.startswith("the best 2 items are settled with probability 0.")
    assert progress.settled is not None and progress.settled >= 0.8
    draws = loop.result.get_samples()["f"]
    top = set(np.argsort(-loop.result.mean["f"])[:2].tolist())
    same = [set(np.argsort(-draw)[:2].tolist()) == top for draw in draws]
    assert progress.settled == pytest.approx(np.mean(same))
    assert top_settled(loop.result.mean["f"], draws, 1) < 1
    stopped = prior_loop(stop_gain=5.0).progress()
    assert stopped.done and stopped.reason == "no question is expected to gain more than 5"


@pytest.mark.slow
def test_progress_is_only_looked_at(tmp_path):
    path = tmp_path / "a.jsonl"
    with QueryLoop(6, journal=path, refit_after=2, stop_top=1) as loop:
        for winner, loser in ((0, 1), (1, 2)):
            loop.tell(winner, loser)
        before, default = path.read_bytes(), loop.params["scale"]
        assert loop.progress().answers == 2 and loop.params["scale"] == default
        assert path.read_bytes() == before
        loop.ask()
        assert loop.params["scale"] != default and len(path.read_bytes()) > len(before)
    assert loop.progress().answers == 2  # closed, there is nothing to be written


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda loop: loop.tell("Expresso", "Filter"), "no item 'Expresso' .* 3.*mean 'Espresso'"),
        (lambda loop: loop.tell("Filter", ["Tea"]), "use the names given to the loop"),
        (lambda loop: loop.skip("Filter", "Filter"), "compared with itself"),
        (lambda loop: loop.tell("Espresso", "Filter", judge=3), "judge is 3; pass a name as text"),
        (lambda loop: loop.ask(judge=3), "judge is 3; pass a name as text"),
        (lambda loop: loop.learn(), "no answer to learn from"),
        (lambda loop: loop.ask(0), "n is 0; pass a whole number from 1 on"),
    ],
)
def test_what_cannot_be_told_or_asked(use, message):
    loop = QueryLoop(["Espresso", "Filter", "Latte"])
    refused(message, use, loop)
    assert loop.answers == []


def test_a_posterior_that_does_not_converge_is_said_to(monkeypatch):
    monkeypatch.setattr("bayesrank.active.learning.settle", partial(settle, max_sweeps=1))
    loop = QueryLoop(3, hyperparameters="prior")
    for winner, loser in ((0, 1), (1, 2), (0, 2)):
        loop.tell(winner, loser)
    with pytest.warns(ConvergenceWarning, match="has not converged after 1 sweeps"):
        assert not loop.result.converged


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"event": "duel"}, "a 'duel', which this version does not know"),
        ({"event": "undo", "of": 7}, "record 1 of the journal takes back record 7, which is"),
    ],
)
def test_a_record_that_cannot_be_added_up_is_refused(tmp_path, record, message):
    path = tmp_path / "answers.jsonl"
    with QueryLoop(3, hyperparameters="prior", journal=path) as loop:
        loop.log.append(record)
    for _ in range(2):  # at once, and without keeping the journal locked
        refused(message, QueryLoop, 3, hyperparameters="prior", journal=path, kind=JournalError)


@pytest.mark.slow
def test_what_is_left_to_ask_differs_by_judge():
    fixed = {"hyperparameters": {"scale": 1.0}, "again": False}
    loop = QueryLoop(2, stop_gain=0.15, judge_noise={"Bo": 9}, **fixed)
    loop.tell(0, 1)
    assert loop.progress().reason == "every question has been asked"
    ann, bo = loop.ask(judge="Ann")[0].gain, loop.ask(judge="Bo")[0].gain
    assert loop.progress(judge="Ann").gain == ann > bo
    assert loop.progress(judge="Bo").gain == bo
    assert loop.progress(judge="Bo").reason == "no question is expected to gain more than 0.15"


@pytest.mark.slow
def test_the_last_ranking_averages_over_hyperparameters():
    """It is that of the integration of the same program; told to take them as known, it does."""
    rounds = [(0, 1), (0, 2), (1, 2), (0, 3), (2, 3), (1, 3), (3, 2), (0, 1)]
    loop = QueryLoop(5)
    known = QueryLoop(5, hyperparameters={"scale": 1.5})
    for winner, loser in rounds:
        loop.tell(winner, loser)
        known.tell(winner, loser)
    loop.retire(4)
    final = loop.final_ranking()
    result = EP(thurstone).run(
        jax.random.key(0), 5, np.array(rounds), num_samples=loop.result.num_samples
    )
    draws = result.get_samples()["f"][:, :4]
    draws = draws - draws.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(final.sd, draws.std(axis=0)[final.indices], rtol=0.1)
    np.testing.assert_allclose(final.mean, draws.mean(axis=0)[final.indices], atol=0.1)
    assert 4 not in final.names and (final.sd != loop.ranking().sd).all()
    np.testing.assert_array_equal(known.final_ranking().sd, known.ranking().sd)
    none = QueryLoop(3)
    np.testing.assert_array_equal(none.final_ranking().sd, none.ranking().sd)


@pytest.mark.slow
def test_a_loop_of_noisy_answers_settles_and_is_right():
    series = [series_until_settled(seed, items=5, k=1, limit=300) for seed in range(20)]
    settled = [right for _, done, right in series if done]
    assert len(settled) >= 15  # no series can settle by ten pairs
    # 95% are right: 3 of 15 wrong or more have a chance of less than 4%.
    assert np.mean(settled) > 0.8
    assert max(answers for answers, _, _ in series) > 10
