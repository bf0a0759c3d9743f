"""Runs and judgements in files, the table of metrics, and how bad files are refused."""

import io
import os
import threading

import numpy as np
import pytest
from cli_run import run
from rich.console import Console

from bayesrank import metrics
from bayesrank.bounds.evaluation import evaluate
from bayesrank.cli.evaluate import evaluation_table
from bayesrank.datasets import DataError
from bayesrank.datasets.runs import read_qrels, read_run

RUN = "query,item,score\nq1,a,3\nq1,b,2\nq1,c,1\nq2,a,1\nq2,b,2\n"
QRELS = "query,item,label\nq1,a,0\nq1,b,2\nq1,c,1\nq2,a,1\nq2,b,0\n"


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(run=RUN, qrels=QRELS):
        (tmp_path / "run.csv").write_text(run)
        (tmp_path / "qrels.csv").write_text(qrels)
        return tmp_path / "run.csv", tmp_path / "qrels.csv"

    return write


def both(paths, **options):
    return evaluate(read_run(paths[0]), read_qrels(paths[1]), **options)


def value(evaluation, name):
    return next(row.mean for row in evaluation.rows if row.name == name)


def test_metrics_are_those_of_the_arrays(files):
    evaluation = both(files(), k=2, gain="linear")
    scores, labels, query = [3, 2, 1, 1, 2], [0, 2, 1, 1, 0], [1, 1, 1, 2, 2]
    ndcg = metrics.ndcg(scores, labels, query=query, gain="linear", k=2)
    assert value(evaluation, "NDCG@2") == ndcg.mean
    error = metrics.k_partite_error(scores, labels, 1.0, query=query)
    assert value(evaluation, "k-partite error, alpha = 1") == error.mean
    assert evaluation.queries == 2 and evaluation.draws == 0 and evaluation.notes == ()


def test_trec_files_give_the_same(files, tmp_path):
    table = both(files())
    lines = [line.split(",") for line in RUN.splitlines()[1:]]
    run = "".join(f"{q}\tQ0 {d} 1 {s} tag\n" for q, d, s in lines)
    labels = [line.split(",") for line in QRELS.splitlines()[1:]]
    qrels = "\n".join(f"{q} 0 {d} {y}" for q, d, y in labels) + "\n\n"
    trec = both(files(run, qrels))
    assert [row[:6] for row in trec.rows] == [row[:6] for row in table.rows]


def test_other_column_names_and_columns(files):
    run = "tag,Score,docno,qid\nx,3,a,q1\n"
    assert read_run(files(run)[0]).scores == {("", "q1", "a"): 3.0}
    qrels = "TOPIC,document,grade\nq1,a,2.0\n"
    assert read_qrels(files(RUN, qrels)[1]).labels == {("q1", "a"): 2}


def test_what_is_missing_is_filled_in_and_noted(files):
    run = "query,item,score\nq1,a,3\nq1,x,2\nq9,a,1\n"
    evaluation = both(files(run))
    assert evaluation.notes == (
        "1 query of the run is not judged, and left out.",
        "1 judged query is not in the run, and counts as found nothing.",
        "1 item of the run is not judged, and counts as label 0.",
        "4 judged items are not in the run, and count as not retrieved.",
    )
    assert evaluation.queries == 2
    assert value(evaluation, "Average precision (MAP)") == 0.0
    # q1: b and c after a and x, and tied with each other; q2: a and b tied.
    assert value(evaluation, "Pairwise error") == pytest.approx(np.mean([4.5 / 5, 0.5]))
    left_out = both(files(run), unjudged="skip")
    assert value(left_out, "Pairwise error") == pytest.approx(np.mean([2.5 / 3, 0.5]))


def test_queries_of_one_class_are_left_out_or_counted(files):
    qrels = QRELS + "q3,a,0\n"
    run = RUN + "q3,a,1\n"
    row = both(files(run, qrels)).rows[0]
    assert row.queries == 2
    counted = both(files(run, qrels), undefined=0.0).rows[0]
    assert counted.queries == 3 and counted.mean == pytest.approx(row.mean * 2 / 3)


def test_bootstrap_interval_is_that_of_the_queries(files):
    rng = np.random.default_rng(0)
    run, qrels = ["query,item,score"], ["query,item,label"]
    for q in range(50):
        for d, (s, y) in enumerate(zip(rng.normal(size=8), rng.integers(0, 3, 8), strict=True)):
            run.append(f"q{q},d{d},{s}")
            qrels.append(f"q{q},d{d},{y}")
    evaluation = both(files("\n".join(run), "\n".join(qrels)), level=0.8)
    for row in evaluation.rows:
        known = row.result.values[~np.isnan(row.result.values)]
        half = 1.2816 * known.std() / np.sqrt(len(known))
        assert (row.high - row.low) / 2 == pytest.approx(half, rel=0.15)
        assert row.low < row.mean < row.high


def test_draws_give_credible_intervals(files):
    rng = np.random.default_rng(1)
    draws = rng.normal(size=(30, 3))
    lines = [f"{i},q1,{d},{s}" for i in range(30) for d, s in zip("abc", draws[i], strict=True)]
    run = "\n".join(["draw,query,item,score", *lines])
    qrels = "query,item,label\nq1,a,0\nq1,b,2\nq1,c,1\n"
    evaluation = both(files(run, qrels))
    expected = metrics.ndcg(draws, [0, 2, 1])
    assert evaluation.draws == 30
    row = evaluation.rows[0]
    assert (row.low, row.high) == expected.interval(0.9)
    assert row.mean == pytest.approx(expected.mean.mean())


def run_cli(capsys, *args):
    return run("evaluate", *args), *capsys.readouterr()


def test_command_prints_the_table(files, capsys):
    files()
    code, out, err = run_cli(capsys, "run.csv", "qrels.csv", "-k", "3", "--undefined", "0")
    assert code == 0 and err == ""
    lines = out.splitlines()
    assert lines[0].split() == ["Metric", "Mean", "90%", "interval", "Queries", "Best"]
    assert any(line.startswith("NDCG@3") for line in lines)
    assert "2 judged queries. Intervals are from resampled queries (bootstrap)." in lines


def test_command_prints_a_dash_where_there_is_no_value(files, capsys):
    files(qrels="query,item,label\nq1,a,0\nq1,b,0\n")
    code, out, _ = run_cli(capsys, "run.csv", "qrels.csv")
    row = next(line.split() for line in out.splitlines() if line.startswith("AUC"))
    assert code == 0 and row == ["AUC", "-", "-", "0", "1"]


def test_labels_below_zero_can_be_taken_as_zero(files):
    qrels = read_qrels(files(qrels="q1 0 a -2\nq1 0 b 1\n")[1], negative="zero")
    assert qrels.labels == {("q1", "a"): 0, ("q1", "b"): 1}


def test_refused_in_the_library_too(files):
    with pytest.raises(ValueError, match="level is .*; pass a number above 0 and"):
        both(files(), level=1.0)
    with pytest.raises(ValueError, match="unjudged is 'ignore'; choose 'zero' or 'skip'"):
        both(files(), unjudged="ignore")
    with pytest.raises(ValueError, match="negative is 'keep'; choose 'refuse' or 'zero'"):
        read_qrels(files()[1], negative="keep")  # pyright: ignore[reportArgumentType]
    with pytest.raises(DataError, match="there is no such file"):
        read_run("nowhere.csv")


def test_a_pipe_is_read_once(files, tmp_path):
    run, qrels = files()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(RUN,))
    writer.start()
    assert read_run(pipe).scores == read_run(run).scores
    writer.join()


def test_notes_are_printed_below_the_table(files, capsys):
    files("query,item,score\nq1,a,3\nq1,z,2\nq1,y,2\n", "query,item,label\nq1,a,1\nq1,b,1\n")
    _, out, _ = run_cli(capsys, "run.csv", "qrels.csv")
    assert out.splitlines()[-3:] == [
        "1 judged query, too few for intervals.",
        "2 items of the run are not judged, and count as label 0.",
        "1 judged item is not in the run, and counts as not retrieved.",
    ]


def test_a_narrow_terminal_shows_every_name_and_number(files):
    evaluation, file = both(files()), io.StringIO()
    Console(width=40, file=file).print(evaluation_table(evaluation))
    lines = file.getvalue().splitlines()
    names = "".join("".join(line[:8] for line in lines).split())
    assert names == "Metric" + "".join("".join(row.name.split()) for row in evaluation.rows)
    numbers = " ".join(" ".join(line[8:] for line in lines).split())
    assert all(f"{row.mean:.4f} {row.low:.4f}" in numbers for row in evaluation.rows)


# ir-measures parses by nodes that Python 3.13 announces to remove.
@pytest.mark.filterwarnings("ignore:.*removed in Python 3.14:DeprecationWarning")
def test_options_of_trec_eval(files):
    """With its conventions the table is trec_eval's."""
    ir_measures = pytest.importorskip("ir_measures")
    rng = np.random.default_rng(2)
    run, qrels = [], []
    for q in range(25):
        for d in range(20):
            if rng.random() < 0.8:
                run.append(f"q{q} Q0 d{d} 1 {rng.integers(0, 6)} t")
            if rng.random() < 0.8:
                qrels.append(f"q{q} 0 d{d} {rng.integers(-1, 3)}")
    paths = files("\n".join(run), "\n".join(qrels))
    ours = evaluate(
        read_run(paths[0]),
        read_qrels(paths[1], negative="zero"),
        ties="trec",
        gain="linear",
        undefined=0.0,
        k=5,
    )
    names = {
        "NDCG": "nDCG",
        "NDCG@5": "nDCG@5",
        "Average precision (MAP)": "AP",
        "Reciprocal rank (MRR)": "RR",
        "Precision@5": "P@5",
        "Break-even point": "Rprec",
    }
    measures = {name: ir_measures.parse_measure(text) for name, text in names.items()}
    theirs = ir_measures.calc_aggregate(
        measures.values(),
        list(ir_measures.read_trec_qrels(str(paths[1]))),
        list(ir_measures.read_trec_run(str(paths[0]))),
    )
    for name, measure in measures.items():
        assert value(ours, name) == pytest.approx(theirs[measure], abs=1e-6), name
