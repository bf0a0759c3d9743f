"""Score tables: what is read, and what `Ranker` answers of them to both questions."""

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from bayesrank.datasets import ColumnNames, DataError, ReadingNote, read_comparisons, read_scores
from bayesrank.estimators import Ranker
from bayesrank.estimators.score_answers import _bootstrapped, cell_scores, score_draws
from bayesrank.solvers.scores import Board, fit_scores


def _eta(n: int, num_tasks: int, seed: int = 0) -> tuple[np.random.Generator, np.ndarray]:
    random = np.random.default_rng(seed)
    ability = np.linspace(-0.8, 0.8, n)[:, None]
    return random, ability - random.normal(0.0, 1.3, num_tasks)


def _long(scores: np.ndarray, **columns) -> pd.DataFrame:
    """A row for each cell that is not NaN."""
    system, task = np.nonzero(~np.isnan(scores))
    named = {"system": [f"s{i}" for i in system], "task": [f"t{t}" for t in task]}
    others = {name: np.asarray(values)[task] for name, values in columns.items()}
    return pd.DataFrame({**named, "score": scores[system, task], **others})


def _fit(table: pd.DataFrame) -> Ranker:
    return Ranker().fit(read_scores(table))


@pytest.fixture(scope="module")
def board():
    """Six systems, forty tasks, a tenth of the cells missing."""
    random, eta = _eta(6, 40)
    solved = random.binomial(1, expit(eta)) * 1.0
    solved[random.random(eta.shape) < 0.1] = np.nan
    return solved


@pytest.fixture(scope="module")
def ranker(board):
    return _fit(_long(board, cost=np.linspace(1.0, 9.0, 40)))


# --- Reading ------------------------------------------------------------------------------------


def test_long_wide_and_harness_tables_are_the_same_board(board, tmp_path):
    whole = np.nan_to_num(board)
    names, tasks = [f"s{i}" for i in range(6)], [f"t{t}" for t in range(40)]
    by_system = pd.DataFrame(whole.astype(int), columns=tasks)
    by_system.insert(0, "model", names)
    by_task = pd.DataFrame(whole.T.astype(bool), columns=names)
    by_task.insert(0, "instance_id", tasks)
    resolved = [[t for t, s in zip(tasks, row, strict=True) if s] for row in whole]
    harness = {n: {"resolved": r, "submitted": tasks} for n, r in zip(names, resolved, strict=True)}
    systems = [{"name": n, "resolved": r} for n, r in zip(names, resolved, strict=True)]
    path = tmp_path / "board.csv"
    by_system.to_csv(path, index=False)
    unnamed = by_system.rename(columns={"model": "x"})
    tables = [
        read_scores(_long(whole)),
        read_scores(path),
        read_scores(by_task),
        read_scores(harness),
        read_scores({"tasks": tasks, "systems": systems}),
        read_scores(unnamed, rows="systems"),
    ]
    for table in tables:
        assert (table.names, table.kind) == (tuple(names), "solved")
        order = [table.task_names.index(task) for task in tasks]
        np.testing.assert_array_equal(table.scores[:, order], whole)
        np.testing.assert_array_equal(table.runs, 1.0)


def test_repeats_shares_and_counts_are_the_same_runs():
    counts = np.array([[2.0, 0.0, 3.0], [1.0, 1.0, 3.0]])
    as_parts = [f"{int(k)}/3" for k in counts.ravel()]
    long = _long(counts)
    rows = pd.concat([long.assign(epoch=e, score=(long.score > e).astype(int)) for e in range(3)])
    tables = [
        read_scores(rows),
        read_scores(long.assign(runs=3)),
        read_scores(long.assign(score=as_parts)),
        read_scores(long.assign(score=long.score / 3, runs=3)),
    ]
    for table in tables:
        np.testing.assert_array_equal(table.scores, counts)
        np.testing.assert_array_equal(table.runs, 3.0)
        assert table.ignored_columns == ()
    assert tables[0].notes == ("Cells with several rows, which are repeated runs: 6.",)


def test_a_pivoted_frame_has_its_systems_or_tasks_in_the_index(board):
    long = _long(np.nan_to_num(board))
    for index, columns in (("system", "task"), ("task", "system")):
        frame = long.pivot(index=index, columns=columns, values="score")
        for read in (read_scores(frame), read_comparisons(frame).scores):
            assert read is not None and {*read.names} == {f"s{i}" for i in range(6)}
            assert read.scores.sum() == np.nansum(board)


def test_lazy_frames_of_scores_are_refused(board):
    lazy = pytest.importorskip("polars").from_pandas(_long(board)).lazy()
    with pytest.raises(DataError, match="not counted where they lie; collect it into a data frame"):
        read_comparisons(lazy)


def test_grades_and_numbers_are_told_apart_and_said():
    random = np.random.default_rng(0)
    grades = read_scores(_long(random.integers(1, 5, (4, 20)) * 1.0))
    assert (grades.kind, grades.notes[0][:33]) == ("grade", "Scores are read as grades: 1, 2, ")
    numbers = read_scores(_long(random.random((4, 20))))
    assert numbers.kind == "number"
    assert numbers.notes[0].startswith("Scores are read as numbers from 0.")
    assert read_scores(_long(random.integers(0, 2, (4, 20)) * 1.0), kind="number").kind == "number"


def test_missing_cells_tasks_that_nobody_ran_and_clusters():
    scores = np.array([[1.0, np.nan, 0.0, 1.0], [1.0, np.nan, np.nan, 0.0]])
    wide = pd.DataFrame(scores, columns=["a", "b", "c", "d"]).assign(date="2024-05-31")
    wide.insert(0, "system", ["x", "y"])
    table = read_scores(wide)
    assert table.task_names == ("a", "c", "d")
    assert "Tasks that nobody ran, left out: 1." in table.notes
    assert table.ignored_columns == ("date",)
    np.testing.assert_array_equal(table.runs, [[1, 1, 1], [1, 0, 1]])
    by_task = read_scores(_long(scores, repo=["p", "q", "r", "p"]))
    assert by_task.cluster_names == ("p", "r")
    np.testing.assert_array_equal(by_task.clusters, [0, 1, 0])


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"score": [1, "oops", 0, 1]}, r"row 2, column 'score': 'oops' is not a score"),
        ({"score": ["1/2", "4/3", "0/1", "1/1"]}, r"row 2, column 'score': 4 of 3 runs"),
        ({"score": [1, 0, 2, 1], "runs": [1, 1, 1, 1]}, r"row 3, column 'score': 2 of 1 runs"),
        ({"system": ["x"] * 4}, "there is one system"),
        ({"task": [1] * 4}, "there is one task"),
        ({"score": [1, 0, "", ""]}, "row 3, column 'system': 'y' was run on no task"),
        ({"repo": ["p", "q", "q", "q"]}, "row 3, column 'repo': task '1' is in 'p' and in 'q'"),
        ({"score": [0.5] * 4}, "every score is the same"),
        ({"score": [0.3, 0.1 + 0.2, 0.3, 0.3]}, "every score is the same"),
        ({"system": ["x", "", "y", "y"]}, "row 2, column 'system': the cell is empty"),
        ({"score": [0.5, 1, 0, 0], "runs": [3, 3, 3, 3]}, "row 1, .* 0.5 is not a share of 3 runs"),
        ({"score": [1, 0, 0, 0], "runs": [5] * 4}, "row 1, .*: 1 may be one run of 5 or all of"),
        ({"score": ["85%", "120%", "0", "1%"]}, "row 2, column 'score': '120%' is not a score"),
        ({"score": ["85%", "20", "0", "1%"]}, "row 2, column 'score': '20' has no percent sign"),
        ({"score": ["1e300", 1, 0, 0]}, "row 1, column 'score': '1e300' is not a score"),
        (
            {"task": [1, 1, 1, 2], "epoch": [0, 0, 0, 0]},
            "row 2: system 'x', task '1', epoch '0'",
        ),
        ({"family": ["p", "q", "q", "q"]}, "row 2, column 'family': system 'x' is in 'p' and in"),
        ({"cost": [1, 1, -2, 1]}, "row 3, column 'cost': the cost is negative"),
    ],
)
def test_bad_tables_are_refused_with_the_cell(table, words):
    usual = {"system": ["x", "x", "y", "y"], "task": [1, 2, 1, 2], "score": [1, 0, 1, 1]}
    with pytest.raises(DataError, match=words) as refused:
        read_scores(usual | table)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("report", "words"),
    [
        ({"resolved": ["a"], "unresolved": ["b"]}, "this is the report of one system"),
        (
            {"x": {"resolved": ["a"], "unresolved": ["a"]}, "y": {"resolved": []}},
            "'x' has 'a' both resolved and unresolved",
        ),
        ({"systems": [{"name": "x", "resolved": ["a"]}] * 2}, "'x' has two reports"),
        ({"systems": [{"resolved": ["a"]}, {"name": "x", "resolved": []}]}, "report 1 has no name"),
    ],
)
def test_reports_that_contradict_themselves_are_refused(report, words, tmp_path):
    path = tmp_path / "board.json"
    path.write_text(json.dumps(report))
    for source in (report, path):
        with pytest.raises(DataError, match=words):
            read_scores(source)


def test_what_a_whole_report_does_not_list_is_missing():
    whole = {"resolved": ["a"], "unresolved": ["b"], "tags": ["open"]}
    table = read_scores({"x": whole, "y": {"resolved": ["c"]}})
    assert table.task_names == ("a", "b", "c")
    np.testing.assert_array_equal(table.runs, [[1, 1, 0], [1, 1, 1]])
    np.testing.assert_array_equal(table.scores, [[1, 0, 0], [0, 0, 1]])


def test_reports_that_list_what_was_resolved_alone_do_not_know_all_tasks(tmp_path):
    path = tmp_path / "board.json"
    path.write_text(json.dumps({"x": {"resolved": ["a", "b"]}, "y": {"resolved": ["a"]}}))
    readers: Any = (read_scores, lambda path: read_comparisons(path).scores)
    for read in readers:
        with pytest.warns(ReadingNote, match="those that no system resolved are left out"):
            assert read(path).task_names == ("a", "b")


def test_repeated_grades_have_no_mean():
    table = {"system": ["x", "x", "x", "y", "y"], "task": [1, 1, 2, 1, 2], "score": [1, 3, 2, 2, 1]}
    assert read_scores(table).kind == "number"
    with pytest.raises(DataError, match="repeated runs have grades, which have no mean"):
        read_scores(table, kind="grade")


def test_a_missing_cell_has_neither_runs_nor_costs():
    table = {"system": ["x", "x", "y", "y"], "task": [1, 2, 1, 2], "score": ["", 1, 0, 1]}
    read = read_scores(table | {"runs": ["", 1, 1, 1], "cost": ["", 2, 4, 6]})
    np.testing.assert_array_equal(read.runs, [[1, 0], [1, 1]])
    np.testing.assert_array_equal(read.costs, [4, 4])
    assert read.task_names == ("2", "1")


def test_a_column_that_is_no_task_is_refused_by_its_cell():
    wide = {"system": ["x", "y"], "a": [1, 0], "b": [1, 1], "c": [0, 1], "context": [8000, 4000]}
    with pytest.raises(DataError, match="row 1, column 'context': '8000' is not a score as"):
        read_scores(wide)


def test_a_misspelled_cell_of_a_wide_table_is_no_column_to_leave_out():
    wide = {"system": ["x", "y", "z"], "a": [1, 0, 1], "b": [1, "l", 0]}
    with pytest.raises(DataError, match="row 2, column 'b': 'l' is not a score"):
        read_scores(wide)


def test_files_of_comparisons_and_score_tables_are_told_apart(board):
    frame = _long(np.nan_to_num(board))
    data = read_comparisons(frame)
    assert data.layout == "a score table, systems by tasks: solved or not"
    assert data.scores is not None
    np.testing.assert_array_equal(data.scores.scores, np.nan_to_num(board))
    numbers = read_comparisons(frame, columns=ColumnNames(scores="number")).layout
    assert numbers == "a score table, systems by tasks: numbers"
    named = ColumnNames(scores="solved", judge="task")
    with pytest.raises(DataError, match="--judge does not go with score tables; leave it out"):
        read_comparisons(frame, columns=named)
    with pytest.raises(DataError, match="are no score table; name the columns as in system,task"):
        read_comparisons({"a": ["x"], "b": ["y"]}, columns=ColumnNames(scores="solved"))
    unnamed = {"rownames": [1, 2], "Q1": [1, 0], "Q2": ["", True]}
    with pytest.raises(DataError, match="looks like a score table.*first column system or task"):
        read_comparisons(unnamed)
    with pytest.raises(ValueError, match="score table, which stays whole"):
        data.where(np.zeros(0, bool))


# --- Scores -------------------------------------------------------------------------------------


def test_scores_of_these_tasks_are_those_of_draws_of_all_cells(board):
    """Draws of abilities and difficulties by importance sampling, cell by cell."""
    there = ~np.isnan(board[:3, :15])
    table = Board(np.nan_to_num(board[:3, :15]), there * 1.0)
    scales = {"ability": 0.8, "difficulty": 1.2}
    result = fit_scores(table, scales)
    random = np.random.default_rng(1)
    mean, sd = result.moments()
    prior = np.linalg.inv(0.64 * np.eye(3) + 4.0)
    ability = mean + 1.3 * sd * random.normal(size=(10_000, 3))
    grid = np.linspace(-6.0, 6.0, 81)
    chance = expit(ability[:, :, None] - grid)
    log_weight = -0.5 * np.einsum("si,ij,sj->s", ability, prior, ability)
    log_weight += 0.5 * (((ability - mean) / (1.3 * sd)) ** 2).sum(1)
    score, square = np.zeros((10_000, 3)), 0.0
    for t in range(15):
        density = np.exp(-0.5 * (grid / 1.2) ** 2) * np.ones((10_000, 1))
        for i in np.flatnonzero(there[:, t]):
            density = density * (chance[:, i] if table.scores[i, t] else 1.0 - chance[:, i])
        total = density.sum(1)
        log_weight += np.log(total)
        each = (chance * density[:, None]).sum(2) / total[:, None]
        score += each / 15
        square = square + ((chance**2 * density[:, None]).sum(2) / total[:, None] - each**2) / 225
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    exact = weight @ score
    spread = np.sqrt(weight @ (square + (score - exact) ** 2))
    draws = score_draws(result, "these tasks", 20_000, random)
    np.testing.assert_allclose(draws.mean(0), exact, atol=0.01)
    np.testing.assert_allclose(draws.std(0), spread, rtol=0.08)


def test_chances_of_repeated_cells_lie_between_the_model_and_the_share():
    random, eta = _eta(5, 30, 2)
    eta = eta + random.normal(0.0, 1.0, eta.shape)
    solved = random.binomial(6, expit(eta))
    result = fit_scores(Board(solved, np.full(eta.shape, 6.0)))
    own = cell_scores(result, result.tasks(), "these tasks").mean
    model = cell_scores(result, result.tasks(), "tasks like these").mean
    apart = solved / 6 - model
    assert (np.sign(own - model) == np.sign(apart))[np.abs(apart) > 0.2].all()
    assert (np.abs(own - model) < np.abs(apart))[np.abs(apart) > 0.2].all()


def test_weights_of_few_clusters_do_not_underflow():
    found = _bootstrapped(np.arange(8) % 4, np.full((9, 1), 1e-4), np.random.default_rng(0))
    np.testing.assert_allclose(found.sum(1), 1.0)
    np.testing.assert_allclose(found[:, :4], found[:, 4:])


@pytest.mark.slow
@pytest.mark.parametrize(("runs", "clusters"), [(4, 0), (1, 8)])
def test_intervals_hold_on_boards_of_the_model(runs, clusters):
    """Differences of scores on all tasks; the standard error of each coverage is 0.013."""
    held = []
    for seed in range(60):
        random = np.random.default_rng(seed)
        ability = random.normal(0.0, 0.7, (10, 1))

        def chances(count: int, random=random, ability=ability) -> np.ndarray:
            eta = ability - random.normal(0.0, 1.5, count)
            if clusters:
                group = np.arange(count) // 8
                return expit(eta + random.normal(0.0, 0.7, (10, group[-1] + 1))[:, group])
            return expit(eta + random.normal(0.0, 1.0, eta.shape))

        truth = chances(20_000).mean(1)
        solved = random.binomial(runs, chances(64)) * 1.0
        groups = np.arange(64) // 8 if clusters else None
        result = fit_scores(Board(solved, np.full(solved.shape, float(runs)), clusters=groups))
        draws = score_draws(result, "tasks like these", 2000, random)
        i, j = np.triu_indices(10, 1)
        low, high = np.quantile(draws[:, i] - draws[:, j], (0.05, 0.95), axis=0)
        held.append(((low <= truth[i] - truth[j]) & (truth[i] - truth[j] <= high)).mean())
    assert 0.875 < np.mean(held) < 0.935


def test_tasks_that_are_a_sample_leave_more_open():
    random, eta = _eta(6, 40)
    solved = random.binomial(1, expit(3.0 * eta)) * 1.0
    ranker = _fit(_long(solved))
    (mean, sd) = ranker.predict()
    (here, less) = ranker.set_params(question="these tasks").predict()
    np.testing.assert_allclose(mean, here, atol=0.02)
    assert (sd > 1.2 * less).all()
    assert (less > 0.0).all()


@pytest.mark.parametrize("kind", ["grade", "number"])
def test_grades_and_numbers_keep_their_unit(kind):
    random, eta = _eta(6, 60, 5)
    truth = eta.mean(1)
    scores = 50.0 + 10.0 * (eta + random.normal(0.0, 0.5, eta.shape))
    if kind == "grade":
        scores = 1.0 + np.digitize(scores, [40.0, 50.0, 60.0])
    ranker = Ranker().fit(read_scores(_long(scores)))
    assert ranker.scores.table.kind == kind
    mean, sd = ranker.set_params(question="these tasks").predict()
    np.testing.assert_allclose(mean, ranker.scores.observed(), atol=4 * sd.max())
    assert np.corrcoef(mean, truth)[0, 1] > 0.95
    draws = ranker.samples()
    assert draws.min() > (1.0 if kind == "grade" else 30.0)
    assert draws.max() < (4.0 if kind == "grade" else 70.0)


def test_intervals_of_numbers_that_pass_their_bounds_are_said():
    random = np.random.default_rng(0)
    shares = random.beta(2.0, 1.0, (5, 12)) * np.linspace(0.3, 0.8, 5)[:, None]
    said = "Scores lie from 0 to 1"
    assert not any(said in note for note in _fit(_long(shares)).notes())
    shares[4] = 1.0
    ranker = _fit(_long(shares))
    assert ranker.rank().skill_upper.max() > 1.0
    assert any(said in note for note in ranker.notes())


def test_a_system_that_solves_everything_leads_with_an_open_end():
    solved = np.array([[1.0] * 30, [1.0, 0.0] * 15, [0.0] * 30])
    ranker = _fit(_long(solved))
    winner = ranker.scores.winner()
    assert (winner.name, winner.observed) == ("s0", 1.0)
    assert 0.8 < winner.lower < winner.score < winner.upper < 1.0
    summary = ranker.rank()
    assert summary.names[2] == "s2"
    assert summary.skill_upper[2] > 0.01


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("most", [1.0, 3.0])
def test_a_board_of_tasks_that_all_or_none_solve_has_finite_scores(most):
    solved = np.tile(np.repeat([most, 0.0], 20), (8, 1))
    solved[:4, 3] = solved[2:, 30] = most / 2 if most > 1.0 else 0.0
    kinds: Any = {"number" if most > 1.0 else "solved", "grade"}
    for read in kinds:
        ranker = Ranker().fit(read_scores(_long(solved), kind=read))
        for question in ("tasks like these", "these tasks"):
            assert np.isfinite(ranker.scores.asked(question).samples()).all()


def test_clusters_widen_the_intervals():
    random, eta = _eta(6, 60, 7)
    group = np.arange(60) // 6
    eta = eta + random.normal(0.0, 1.5, (6, 10))[:, group]
    solved = random.binomial(1, expit(eta)) * 1.0
    alone = _fit(_long(solved)).predict()[1]
    assert _fit(_long(solved, cluster=group)).predict()[1].mean() > 1.2 * alone.mean()


# --- Answers ------------------------------------------------------------------------------------


def test_answers_hang_together(ranker, tmp_path):
    summary, winner = ranker.rank(), ranker.scores.winner()
    assert summary.names[0] == winner.name
    assert winner.score < winner.observed
    assert winner.name in winner.tied
    first, last = summary.names[0], summary.names[-1]
    chances = ranker.prob_better([(first, last), (last, first)])
    assert chances[0] > 0.9
    np.testing.assert_allclose(chances.sum(), 1.0)
    reach = ranker.scores.smallest_difference()
    assert (
        ranker.scores.smallest_difference(0.95)
        > reach
        > ranker.scores.smallest_difference(power=0.5)
    )
    assert ranker.scores.more_tasks("s4", "s5", difference=2 * reach) == 0
    half, quarter = (ranker.scores.more_tasks("s4", "s5", difference=reach / k) for k in (2, 4))
    assert quarter + 40 == pytest.approx(4 * (half + 40), abs=4)
    assert 40 < half < 160
    path = tmp_path / "scores.npz"
    ranker.save(path)
    again = Ranker.load(path)
    np.testing.assert_array_equal(again.samples(), ranker.samples())


def test_the_task_to_run_next_says_most_for_its_cost(ranker, board):
    frame = ranker.scores.next_tasks(num_tasks=40)
    assert len(frame) == 40
    worth = frame.information / frame.cost
    assert (np.diff(worth) <= 0).all()
    open_ = ranker.scores.next_tasks("s0", num_tasks=40)
    assert {*open_.task} == {f"t{t}" for t in np.flatnonzero(np.isnan(board[0]))}
    # A task that half of the systems solve says more of a typical one than one that all solve.
    shares, said = np.nanmean(board, axis=0), frame.set_index("task").information
    assert said[f"t{np.argmin(np.abs(shares - 0.5))}"] > said[f"t{np.argmax(shares)}"]


def test_chances_of_cells(ranker, board):
    cells = [("s5", "t0"), ("s0", "t0")]
    chances = ranker.scores.chances(cells)
    assert 0.0 < chances[1] < chances[0] < 1.0
    everywhere = [(f"s{i}", f"t{t}") for i, t in np.argwhere(~np.isnan(board))]
    expected = ranker.scores.chances(everywhere).mean()
    np.testing.assert_allclose(expected, np.nanmean(board), atol=0.02)


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda r: r.scores.more_tasks("S5", "s1"), "'S5' is no system of fit; did you mean 's5'"),
        (lambda r: r.scores.chances([("s1", "u")]), "'u' is no task of fit"),
        (lambda r: r.scores.asked("all tasks"), "question"),
        (lambda r: r.scores.more_tasks("s0", "s1", difference=0.0), "difference is 0"),
        (lambda r: r.scores.smallest_difference(power=2.0), "power is 2.0"),
    ],
)
def test_questions_that_are_none_are_refused(ranker, ask, words):
    with pytest.raises(ValueError, match=words):
        ask(ranker)


def test_a_ranker_says_that_it_reads_a_score_table(board):
    with pytest.warns(ReadingNote, match="is read as a score table, systems by tasks: solved or n"):
        ranker = Ranker().fit(_long(board))
    assert ranker.holds_scores
    assert ranker.rank().measure == "share"


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda r: r.predict_proba([("s0", "s1")]), "predict_proba is of comparisons.*scores.chan"),
        (lambda r: r.score([("s0", "s1")]), "score is of comparisons"),
        (lambda r: r.suggest(), "suggest is of comparisons.*see scores.next_tasks"),
        (lambda r: r.judges(), "judges is of comparisons"),
        (lambda r: r.effects(), "effects is of comparisons"),
        (lambda r: r.rank(anchor="s0"), "anchor is of comparisons"),
        (lambda r: r.samples(category="x"), "category is of comparisons"),
        (lambda r: r.predict(time=3.0), "time is of comparisons"),
    ],
)
def test_questions_about_comparisons_are_refused_by_name(ranker, ask, words):
    with pytest.raises(ValueError, match=words):
        ask(ranker)


@pytest.mark.parametrize(
    "option",
    [{"laplacian": 2}, {"time": "walk"}, {"likelihood": "logit"}, {"design": "matched"}],
)
def test_options_of_comparisons_are_refused_by_name(option, board):
    with pytest.raises(ValueError, match=f"{[*option][0]} is of comparisons, and there is a score"):
        Ranker(**option).fit(read_scores(_long(board)))


def test_comparisons_have_no_scores():
    ranker = Ranker(hyperparameters="prior").fit([("a", "b"), ("b", "c")])
    with pytest.raises(ValueError, match="scores are of score tables"):
        ranker.scores  # noqa: B018


def test_scales_may_be_fixed(board):
    table = read_scores(_long(board))
    fixed = Ranker(hyperparameters={"ability_spread": 0.4}).fit(table)
    assert fixed.params_["ability_spread"] == 0.4
    prior = Ranker(hyperparameters="prior").fit(table).params_
    assert (prior["ability_spread"], prior["difficulty_spread"]) == (0.7, 1.0)
    with pytest.raises(ValueError, match="hyperparameters"):
        Ranker(hyperparameters={"scale": 1.0}).fit(table)


def test_draws_for_arviz_have_names(ranker):
    data = ranker.to_arviz()
    posterior = data["posterior"]
    assert [*posterior.coords["item"].values] == [f"s{i}" for i in range(6)]
    np.testing.assert_array_equal(posterior["score"].values[0], ranker.samples())
    assert posterior["ability"].shape == (1, 2000, 6)
    mean, sd = ranker.result_.moments()
    drawn = posterior["ability"].values[0]
    np.testing.assert_allclose(drawn.mean(0), mean, atol=4 * sd.max() / np.sqrt(2000))
    assert data["constant_data"]["difficulty"].dims == ("task",)
    np.testing.assert_allclose(
        data["constant_data"]["ability_spread"], ranker.params_["ability_spread"]
    )


def test_families_that_err_together_are_noticed():
    random, eta = _eta(8, 200, 3)
    family = np.arange(8) // 2
    shared = 1.5 * random.normal(size=(4, 200))
    for noise, apart in ((shared[family], True), (0.0, False)):
        frame = _long(random.binomial(1, expit(eta + noise)) * 1.0)
        frame["family"] = [f"f{int(name[1:]) // 2}" for name in frame.system]
        inside, outside = _fit(frame).scores.family_agreement()
        assert (inside - outside > 0.1) == apart


def test_two_tasks_say_nothing_of_others():
    ranker = _fit(_long(np.array([[1.0, 0.0], [0.0, 0.0]])))
    with pytest.raises(ValueError, match="2 tasks say nothing of others"):
        ranker.rank()
    assert ranker.set_params(question="these tasks").rank().names[0] == "s0"
