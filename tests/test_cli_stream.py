"""The command `stream`: what it learns, how it survives, and what it says of bad lines."""

import errno
import io
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from cli_run import run

from bayesrank._files import locked
from bayesrank.datasets import DataError
from bayesrank.datasets.stream import StreamLayout, parse_line, survey
from bayesrank.datasets.svmlight import BadLine
from bayesrank.online import OnlineBayesPoint, rank_loss, synthetic_stream

ROOT = Path(__file__).resolve().parents[1]
DATA = synthetic_stream(1500, seed=4)
LINES = [f"{y} 1:{a:.6f} 2:{b:.6f}" for (a, b), y in zip(DATA.X, DATA.y, strict=True)]
CSV = [f"{y},{a:.6f},{b:.6f}" for (a, b), y in zip(DATA.X, DATA.y, strict=True)]
SVM, TABLE = StreamLayout("svmlight", 5, 2), StreamLayout("csv", 5, 2)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _run(*args):
    return run("stream", *args)


def _checkpoint(path="bayesrank-stream.npz"):
    with open(path, "rb") as file, np.load(file) as stored:
        arrays = {name: stored[name].tobytes() for name in stored.files}
    state = json.loads(arrays["header"])["state"]["dict"]
    return arrays, json.loads(state["notes"])["tally"]


def _same_but_names(one="bayesrank-stream.npz", two="whole.npz"):
    """Whether two checkpoints hold the same, but for the name of the stream in their headers."""
    first, second = _checkpoint(one)[0], _checkpoint(two)[0]
    assert first.pop("header") != second.pop("header")
    return first == second


def _write(name, lines):
    Path(name).write_text("\n".join(lines) + "\n")


# --- A whole run ------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_run_is_prequential_learning(capsys):
    _write("data.svm", LINES[:400])
    assert _run("data.svm", "--every", "150") == 0
    printed = capsys.readouterr().out
    model, X = OnlineBayesPoint(5), np.round(DATA.X[:400], 6)
    probs = model.prequential_proba(X, DATA.y[:400])
    loss = rank_loss(DATA.y[:400], 1 + (probs.cumsum(1)[:, :-1] < 0.5).sum(1))
    log_loss = -np.log(probs[np.arange(400), DATA.y[:400] - 1]).mean()
    assert "svmlight lines, 5 levels, 2 features." in printed
    assert [line.split()[0] for line in printed.splitlines()[2:-1]] == ["150", "300", "400"]
    assert f"400 examples  rank loss {loss:.4f}  log loss {log_loss:.4f}\n" in printed
    kept = OnlineBayesPoint(5).load("bayesrank-stream.npz")
    np.testing.assert_array_equal(kept.coef_, model.coef_)
    assert kept.n_seen_ == 400


def test_csv_and_svmlight_are_the_same_stream():
    _write("data.svm", LINES[:200])
    _write("data.csv", ["level,a,b", *CSV[:200]])
    options = ("--learner", "prank", "--degree", "2")
    assert _run("data.svm", *options, "--checkpoint", "svm.npz") == 0
    assert _run("data.csv", *options, "--checkpoint", "csv.npz") == 0
    assert _same_but_names("svm.npz", "csv.npz")


@pytest.mark.parametrize("learner", ["prank", "voted-prank", "widrow-hoff", "oap-bagging"])
def test_every_learner_can_be_chosen(learner, capsys):
    _write("data.csv", CSV[:30])
    assert _run("data.csv", "--learner", learner, "--members", "5", "--levels", "5") == 0
    assert "30 examples  rank loss" in capsys.readouterr().out


def test_two_runs_on_one_checkpoint_are_refused(capsys):
    _write("data.csv", CSV[:50])
    options = ("data.csv", "--levels", "5", "--learner", "prank")
    with locked("bayesrank-stream.npz"):
        assert _run(*options) == 2
        assert "bayesrank-stream.npz: another run keeps there what" in capsys.readouterr().err
        assert not Path("bayesrank-stream.npz").exists()
        assert _run(*options, "--checkpoint", "other.npz") == 0
    assert _run(*options) == 0


# --- Killed and resumed -----------------------------------------------------------------------


@pytest.mark.slow
def test_a_killed_run_goes_on_exactly(capsys):
    """A real process, killed with SIGKILL while it learns; a bad line on each side of the kill."""
    lines = LINES.copy()
    lines[20], lines[1200] = "9 1:0.5 2:0.5", "2 1:nan"
    _write("data.svm", lines)
    options = ("data.svm", "--levels", "5", "--features", "2", "--on-error", "skip")
    assert _run(*options, "--checkpoint", "whole.npz") == 0
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "bayesrank", "stream", *options, "--every", "7"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        # Compiled as in this process, or the last bits differ.
        env={**os.environ, "PYTHONPATH": path, "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"},
    )
    assert process.stdout is not None
    for line in process.stdout:
        if "examples" in line and int(line.split()[0]) >= 70:
            break
    process.send_signal(signal.SIGKILL)
    process.stdout.close()
    assert process.wait() == -signal.SIGKILL
    _, tally = _checkpoint()
    assert 70 <= tally["examples"] < 1498
    assert tally["examples"] % 7 == 0
    capsys.readouterr()
    assert _run(*options) == 0
    assert f"Going on from bayesrank-stream.npz, after line {tally['lines']:,}." in (
        capsys.readouterr().out
    )
    assert _checkpoint() == _checkpoint("whole.npz")
    before = _checkpoint()
    assert _run(*options) == 0  # nothing is left to learn
    assert _checkpoint() == before


def test_standard_input_is_read_again_up_to_where_it_was(monkeypatch, capsys):
    class Pipe(io.BytesIO):
        def seekable(self):
            return False

    def feed(lines):
        text = "\n".join(lines).encode() + b"\n"
        monkeypatch.setattr(sys, "stdin", type("Stdin", (), {"buffer": Pipe(text)}))

    options = ("-", "--levels", "5", "--features", "2", "--format", "csv", "--learner", "prank")
    feed(CSV[:60])
    assert _run(*options) == 0
    feed(CSV[:100])
    assert _run(*options) == 0
    feed(CSV[:100])
    assert _run(*options, "--checkpoint", "whole.npz") == 0
    assert _checkpoint() == _checkpoint("whole.npz")
    assert "100 examples" in capsys.readouterr().out
    assert _run("-") == 2
    assert "give --levels, --features and --format" in capsys.readouterr().err
    feed([])
    assert _run(*options, "--checkpoint", "none.npz") == 2
    assert "standard input: there is no line to learn from" in capsys.readouterr().err
    assert not Path("none.npz").exists()


def test_a_pipe_with_a_name_is_read_once(capsys):
    os.mkfifo("pipe")
    assert _run("pipe") == 2
    assert "pipe is not a file on disk, and cannot be read twice" in capsys.readouterr().err
    _write("data.csv", CSV[:30])
    options = ("--levels", "5", "--features", "2", "--format", "csv", "--learner", "prank")
    writer = threading.Thread(target=_write, args=("pipe", CSV[:30]))
    writer.start()
    assert _run("pipe", *options) == 0
    writer.join()
    assert _run("data.csv", *options, "--checkpoint", "file.npz") == 0
    assert _same_but_names(two="file.npz")


def test_a_stream_that_cannot_be_read_is_named(monkeypatch, capsys):
    class Torn(io.BytesIO):
        def readline(self, *size):
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(sys, "stdin", type("Stdin", (), {"buffer": Torn()}))
    assert _run("-", "--levels", "5", "--features", "2", "--format", "csv") == 2
    error = capsys.readouterr().err
    assert "standard input: it cannot be read (Input/output error)" in error


@pytest.mark.parametrize(
    ("number", "code", "said"), [(errno.EPIPE, 1, ""), (errno.ENOSPC, 2, "cannot be written")]
)
def test_what_is_kept_does_not_depend_on_who_reads(monkeypatch, capsys, number, code, said):
    _write("data.csv", CSV[:50])
    options = ("data.csv", "--levels", "5", "--learner", "prank", "--every", "20")

    def report(tally):
        if tally.examples == 40:
            raise OSError(number, os.strerror(number))

    monkeypatch.setattr(sys, "stdout", sys.stdout)  # put back at the end
    with monkeypatch.context() as patch:
        patch.setattr("bayesrank.cli.stream._report", report)
        assert _run(*options) == code
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == bool(said) and "checkpoint" not in error
    assert _checkpoint()[1]["examples"] == 40
    assert _run(*options) == 0
    assert _checkpoint()[1]["examples"] == 50


def test_an_interrupt_leaves_the_last_checkpoint(monkeypatch, capsys):
    _write("data.csv", CSV[:50])
    options = ("data.csv", "--levels", "5", "--learner", "prank", "--every", "20")

    def interrupt(raw, number, layout):
        if number == 45:
            raise KeyboardInterrupt
        return parse_line(raw, number, layout)

    with monkeypatch.context() as patch:
        patch.setattr("bayesrank.cli.stream_run.parse_line", interrupt)
        assert _run(*options) == 130
    assert "holds what was last reported" in capsys.readouterr().err
    assert _checkpoint()[1]["examples"] == 40
    assert _run(*options) == 0
    assert _checkpoint()[1]["examples"] == 50
    with monkeypatch.context() as patch:
        patch.setattr("bayesrank.cli.stream_run.parse_line", lambda *_: interrupt(b"", 45, None))
        assert _run(*options, "--checkpoint", "none.npz") == 130
    assert capsys.readouterr().err == "Interrupted; nothing was written.\n"


def test_a_file_may_grow_but_not_change(capsys):
    text = "\n".join(CSV[:30])
    options = ("data.csv", "--levels", "5", "--learner", "prank")
    Path("data.csv").write_text(text)  # the last line has no end yet
    assert _run(*options) == 0
    before = _checkpoint()
    for changed in ("\n".join(CSV[:20]), f"{text}7\n{CSV[30]}\n"):
        Path("data.csv").write_text(changed)
        assert _run(*options) == 2
        error = capsys.readouterr().err
        assert "data.csv, row 30: it is no longer what it was up to here; use another" in error
        assert _checkpoint() == before
    for grown, seen in ((f"{text}\n", 30), ("\n".join(CSV[:40]) + "\n", 40)):
        Path("data.csv").write_text(grown)
        assert _run(*options) == 0
        assert _checkpoint()[1]["examples"] == seen
    assert _run(*options, "--checkpoint", "whole.npz") == 0
    one, two = (_checkpoint(*name)[0] for name in ((), ("whole.npz",)))
    assert one.keys() == two.keys()
    assert all(one[name] == two[name] for name in one.keys() - {"header"})  # it counts lines


# --- Bad lines --------------------------------------------------------------------------------

BAD = [
    ("x 1:1", SVM, "the level is 'x', not a finite number"),
    ("6 1:1", SVM, "the level is 6, not a whole number from 1 to 5"),
    ("0,1,2", TABLE, "the level is 0, not a whole"),
    ("2.5,1,2", TABLE, "the level is 2.5, not a whole"),
    ("nan,1,2", TABLE, "the level is 'nan', not a finite number"),
    ("2 1:nan", SVM, "feature 1 is 'nan', not a finite number"),
    ("2,1,-inf", TABLE, "feature 2 is '-inf', not a finite number"),
    ("2,1,1e31", TABLE, "feature 2 is 1e31, larger than 1e+30"),
    ("2,1,", TABLE, "feature 2 is '', not a finite number"),
    ("2,1", TABLE, "there are 1 features, not 2"),
    ("2,1,2,3", TABLE, "there are 3 features, not 2"),
    ("2 3:1", SVM, "there is a feature 3, but there are 2 features"),
    ("2 1:1 1:2", SVM, "feature 1 is given twice"),
    ("2 0:1", SVM, "'0:1' is not an index from 1 on"),
    ("2 one", SVM, "'one' is not an index"),
    ("2 1:", SVM, "feature 1 is '', not a finite number"),
    ("2 1:1_0", SVM, "feature 1 is '1_0', not a finite number"),
]


@pytest.mark.parametrize(("line", "layout", "problem"), BAD)
def test_bad_lines_say_what_is_wrong(line, layout, problem):
    with pytest.raises(BadLine) as refused:
        parse_line(line.encode(), 7, layout)
    assert problem in str(refused.value)


def test_good_lines_and_lines_with_nothing_on_them():
    example = parse_line(b"\xef\xbb\xbf4 qid:7 2:0.5 # why\r\n", 1, SVM)
    assert example is not None and example.level == 4
    np.testing.assert_array_equal(example.features, [0.0, 0.5])
    example = parse_line(b" 3.0 , 1, -2e3\n", 1, TABLE)
    assert example is not None and example.level == 3
    np.testing.assert_array_equal(example.features, [1.0, -2000.0])
    for empty in (b"\n", b"  # a comment, 1:2\n"):
        assert parse_line(empty, 3, TABLE) is None and parse_line(empty, 3, SVM) is None
    assert parse_line(b"level,a,b\n", 1, TABLE) is None
    with pytest.raises(BadLine, match="column 3 is 'Level', but the level goes first"):
        parse_line(b"a,b,Level\n", 1, TABLE)
    with pytest.raises(BadLine, match="the level is 'level'"):
        parse_line(b"level,a,b\n", 2, TABLE)
    with pytest.raises(BadLine, match="not UTF-8"):
        parse_line(b"\xff\xfe", 2, TABLE)


def test_skipped_lines_are_named_counted_and_poison_nothing(capsys):
    bad = [line for line, layout, _ in BAD if layout is TABLE]
    mixed = [line for pair in zip(CSV, bad, strict=False) for line in pair] + CSV[len(bad) :]
    _write("mixed.csv", mixed[:120])
    good = [line for line in mixed[:120] if line not in bad]
    _write("good.csv", good)
    options = ("--levels", "5", "--features", "2", "--on-error", "skip", "--learner", "prank")
    assert _run("mixed.csv", *options) == 0
    captured = capsys.readouterr()
    assert captured.err.count("; skipped") == len(bad)
    assert (
        "mixed.csv: line 2: the level is 0, not a whole number from 1 to 5; skipped" in captured.err
    )
    assert f"bad lines {len(bad)}" in captured.out
    assert _run("good.csv", *options, "--checkpoint", "good.npz") == 0
    assert _same_but_names(two="good.npz")


def test_a_refused_line_ends_the_run_and_can_be_mended(capsys):
    lines = [*CSV[:33], "2,oops,1", *CSV[33:60]]
    _write("data.csv", lines)
    options = ("data.csv", "--levels", "5", "--learner", "prank")
    assert _run(*options) == 2
    error = capsys.readouterr().err
    assert "data.csv, row 34: feature 1 is 'oops', not a finite number" in error
    assert "--on-error skip" in error and error.count("\n") == 1
    assert _checkpoint()[1]["examples"] == 33
    _write("data.csv", CSV[:60])
    assert _run(*options) == 0
    assert _checkpoint()[1]["examples"] == 60
    assert _run(*options, "--checkpoint", "whole.npz") == 0
    assert _checkpoint() == _checkpoint("whole.npz")


def test_weights_that_overflow_end_the_run_and_are_not_kept(capsys):
    _write("data.csv", [*CSV[:20], *["1,1e20,1e20"] * 20])
    options = ("data.csv", "--levels", "5", "--learner", "widrow-hoff", "--every", "20")
    for mode in ("refuse", "skip"):
        assert _run(*options, "--on-error", mode) == 2
        assert "the examples before line 41 cannot be learned" in capsys.readouterr().err
        assert _checkpoint()[1]["examples"] == 20


def test_files_and_checkpoints_that_cannot_be_used(capsys):
    for name, lines in {"empty.csv": [], "words.csv": ["a,b"], "bare.svm": ["1", "2"]}.items():
        _write(name, lines)
        with pytest.raises(DataError):
            survey(Path(name), None, None, None)
        assert _run(name) == 2
    assert _run("none.csv") == 2
    _write("data.csv", CSV[:20])
    assert _run("data.csv", "--learner", "prank") == 0
    capsys.readouterr()
    for options in (("--learner", "voted-prank"), ("--learner", "prank", "--degree", "2")):
        assert _run("data.csv", *options) == 2
        assert "this checkpoint is not one of this run" in capsys.readouterr().err
    _write("other.csv", CSV[:20])
    assert _run("other.csv", "--learner", "prank") == 2
    assert "it was saved for data.csv" in capsys.readouterr().err
    assert _run("data.csv", "--checkpoint", "no/such/place.npz") == 2
    assert "place.npz: the checkpoint cannot be written (No such" in capsys.readouterr().err
    _write("wide.csv", ["1," + ",".join(["1"] * 300)])
    assert _run("wide.csv", "--degree", "3") == 2
    assert "lower --degree" in capsys.readouterr().err
    for name, line, what, options in (
        ("hashed.svm", "2 4000000000:1", "4,000,000,000 features and 2 levels", ()),
        ("ids.csv", "1000000,1", "1 feature and 1,000,000 levels", ("--levels", "1000000")),
    ):
        _write(name, [line])
        assert _run(name, *options) == 2
        error = capsys.readouterr().err
        assert f"{what} take" in error and "--learner" in error and error.count("\n") == 1


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["2;0.5;1", "1;1;1"], " (row 1: the level is '2;0.5;1', not a finite number)"),
        (["2\t0.5", "1\t1"], " (row 1: '0.5' is not an index from 1 on, a colon and a value)"),
        (["0 1:1", "-1 1:1"], " (row 1: the level is 0, not a whole number from 1 on)"),
        (["level,a,b"], ""),
    ],
)
def test_a_file_without_a_good_line_says_what_the_first_is_wrong_in(lines, reason):
    _write("data", lines)
    with pytest.raises(DataError) as refused:
        survey(Path("data"), None, None, None)
    assert str(refused.value).startswith(f"data: there is no line to learn from{reason}; write")


def test_the_layout_is_found_in_the_file():
    _write("data.svm", ["# a comment", "2 5:1", "bad", "3 2:1 7:1", "1 99"])
    assert survey(Path("data.svm"), None, None, None) == StreamLayout("svmlight", 3, 7)
    assert survey(Path("data.svm"), 9, 8, None) == StreamLayout("svmlight", 9, 8)
    _write("data.csv", ["level,a,b,c", "2,1,1,1", "4,1"])
    assert survey(Path("data.csv"), None, None, None) == StreamLayout("csv", 4, 3)
    assert survey(Path("data.csv"), 5, None, None) == StreamLayout("csv", 5, 3)
    _write("data.csv", ["1,2", "2019,3"])  # a year is no level
    with pytest.raises(DataError, match="levels go up to 2019.* or give --levels 2019"):
        survey(Path("data.csv"), None, None, None)
    assert survey(Path("data.csv"), 2019, None, None) == StreamLayout("csv", 2019, 1)
