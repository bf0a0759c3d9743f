"""The command line: what it prints, what it writes, and how it refuses."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cli_run import run
from matplotlib.figure import Figure

import bayesrank
from bayesrank.cli import main, pipeline
from bayesrank.cli.outputs import OutputError, drawn, output_folder
from bayesrank.cli.trust import Check
from bayesrank.datasets import ComparisonData
from bayesrank.ranking import summarize

ROOT = Path(__file__).resolve().parents[1]


class _Posterior:
    """Stands in for ArviZ's object: only what the command line uses of it."""

    def to_netcdf(self, filename, engine):
        Path(filename).write_text(engine)


class _Ranker:
    """Stands in for the fitted estimator."""

    result = None

    def save(self, path):
        path.write_text("saved")


@pytest.fixture
def seen(monkeypatch):
    """Replace the inference by draws around known skills; keep what it was called with."""
    calls = []

    def rank_items(data: ComparisonData, settings, steps):
        calls.append((data, settings))
        with steps.step("Fitting"):
            rng = np.random.default_rng(settings.seed)
            skills = -np.arange(data.num_items) + 0.1 * rng.standard_normal((400, data.num_items))
        summary = summarize(skills, names=data.names)
        return pipeline.Ranking(_Ranker(), skills, summary, "A conclusion.")

    def analyse(data, settings, ranking, steps):
        with steps.step("Drawing"):
            checks = (Check("Right?", "yes", "By all means."),)
        return pipeline.Analysis(checks, ("A note.",), _Posterior(), {"ranking.png": drawn(Figure)})

    monkeypatch.setattr(pipeline, "rank_items", rank_items)
    monkeypatch.setattr(pipeline, "analyse", analyse)
    return calls


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Run in an empty folder that holds a good pair of files."""
    monkeypatch.chdir(tmp_path)
    Path("c.csv").write_text(
        "winner,loser,day\n[red]A[/red],B\n".replace("B\n", "B,1\n") + "B,C,2\n"
    )
    Path("i.csv").write_text("item,x\n[red]A[/red],1\nB,2\nC,3\n")
    return tmp_path


def _drafts(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.name.startswith(".bayesrank-")]


def test_no_command_runs_the_demo(folder, seen, capsys):
    assert run() == 0
    data, settings = seen[0]
    assert data.num_items == 139
    assert settings.out == Path("bayesrank-out")
    assert settings.crosscheck == "quick"
    files = {path.name for path in Path("bayesrank-out").iterdir()}
    assert files == {"ranking.csv", "report.html", "posterior.nc", "ranker.npz", "ranking.png"}
    printed = capsys.readouterr()
    assert printed.out.startswith("A conclusion.\n\nRank  Item")
    assert "Right? yes. By all means." in printed.out
    assert "90% ranks" in printed.out
    assert "... 124 more ..." in printed.out
    assert "A note." in printed.out
    assert "Drawing: " in printed.err
    assert "Drawing: " not in printed.out
    assert not _drafts(folder)


def test_options_without_a_command_are_those_of_the_demo(folder, seen, capsys):
    assert run("--out", "deep/er", "--seed", "7", "--no-crosscheck", "--quiet", "--rows", "0") == 0
    _, settings = seen[0]
    assert settings._asdict() == {
        "out": Path("deep/er"),
        "rows": 0,
        "seed": 7,
        "crosscheck": "none",
        "quiet": True,
        "elo": False,
        "hyperparameters": "integrate",
        "by_category": False,
        "notes": settings.notes,
        "inputs": (),
    }
    printed = capsys.readouterr()
    assert printed.err == ""
    assert "more ..." not in printed.out
    assert len(printed.out.splitlines()) >= 140
    assert (folder / "deep" / "er" / "ranking.csv").is_file()


def test_rank_reads_both_files(folder, seen, capsys):
    assert run("rank", "c.csv", "--items", "i.csv", "--out", "o") == 0
    data, settings = seen[0]
    assert data.features is not None
    assert settings.inputs == (Path("c.csv"), Path("i.csv"))
    printed = capsys.readouterr()
    lines = printed.out.splitlines()[2:]
    assert lines[0].split() == "Rank Item Tier Skill ± sd P(best) P(> next) 90% ranks".split()
    cells = lines[1].split()
    assert cells[:3] == ["1", "[red]A[/red]", "1"]
    assert cells[4:] == ["±", "0.10", ">99.9%", ">99.9%", "1", "to", "1"]
    assert lines[3].split()[-6:] == ["0.10", "<0.1%", "-", "3", "to", "3"]
    assert "Columns not used: day" in printed.err
    table = (folder / "o" / "ranking.csv").read_text().splitlines()
    assert table[0].startswith("rank,item,skill_mean,skill_sd")
    assert len(table) == 4


def test_rank_without_items(folder, seen):
    assert run("rank", "c.csv") == 0
    assert seen[0][0].features is None


def test_same_seed_same_table(folder, seen, capsys):
    def table(seed):
        assert run("rank", "c.csv", "--quiet", "--seed", seed) == 0
        return capsys.readouterr().out

    assert table("1") == table("1") != table("2")


def test_nothing_is_left_behind_when_the_work_fails(folder, monkeypatch):
    def fail(data, settings, steps):
        raise RuntimeError("no convergence at all")

    monkeypatch.setattr(pipeline, "rank_items", fail)
    before = sorted(folder.rglob("*"))
    with pytest.raises(RuntimeError, match="no convergence at all"):
        main(["rank", "c.csv"])
    assert sorted(folder.rglob("*")) == before


def test_interrupt_is_one_line_and_nothing_written(folder, monkeypatch, capsys):
    def interrupt(data, settings, steps):
        raise KeyboardInterrupt

    monkeypatch.setattr(pipeline, "rank_items", interrupt)
    before = sorted(folder.rglob("*"))
    assert run("rank", "c.csv") == 130
    assert capsys.readouterr().err.endswith("\nError: Interrupted; nothing was written.\n")
    assert sorted(folder.rglob("*")) == before


def test_a_failure_while_writing_leaves_earlier_results_alone(folder, seen, monkeypatch, capsys):
    assert run("rank", "c.csv", "--out", "o") == 0
    before = {path: path.read_bytes() for path in Path("o").iterdir()}
    capsys.readouterr()

    def full(self, filename, engine):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_Posterior, "to_netcdf", full)
    assert run("rank", "c.csv", "--out", "o", "--seed", "5", "--quiet") == 2
    assert "cannot be written (No space left on device)" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in Path("o").iterdir()} == before


def test_an_existing_folder_keeps_other_files_and_gets_new_results(folder, seen):
    Path("o").mkdir()
    Path("o/mine.txt").write_text("keep")
    Path("o/ranking.csv").write_text("old")
    assert run("rank", "c.csv", "--out", "o") == 0
    assert Path("o/mine.txt").read_text() == "keep"
    assert Path("o/ranking.csv").read_text().startswith("rank,item")
    assert not _drafts(folder)


def test_no_result_of_an_earlier_run_stays_behind(folder, seen):
    Path("o").mkdir()
    Path("o/crosscheck.png").write_text("of other data")
    Path("o/mine.png").write_text("keep")
    assert run("rank", "c.csv", "--out", "o", "--no-crosscheck") == 0
    files = {path.name for path in Path("o").iterdir()}
    results = {"posterior.nc", "ranker.npz", "ranking.csv", "ranking.png", "report.html"}
    assert files == {"mine.png"} | results


def test_new_folder_has_ordinary_permissions(tmp_path):
    (tmp_path / "plain").mkdir()
    with output_folder(tmp_path / "new", ["a"]) as draft:
        (draft / "a").write_text("1")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_folder_in_the_way_of_a_result_is_refused(tmp_path):
    (tmp_path / "a").mkdir()
    with (
        pytest.raises(OutputError, match="a folder is in the way of a result; use --out"),
        output_folder(tmp_path, ["a"]),
    ):
        pass


def test_warnings_are_one_line_on_standard_error(folder, seen, monkeypatch, capsys):
    analyse = pipeline.analyse

    def warn(data, settings, ranking, steps):
        import warnings

        warnings.simplefilter("always")
        warnings.warn("this did\nnot converge", UserWarning, stacklevel=1)
        return analyse(data, settings, ranking, steps)

    monkeypatch.setattr(pipeline, "analyse", warn)
    assert run("rank", "c.csv", "--quiet") == 0
    assert capsys.readouterr().err == "Warning: this did not converge\n"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--help"], ["demo", "rank", "posterior.nc"]),
        (["demo", "--help"], ["--out", "--seed", "--no-crosscheck", "--quiet", "[default: "]),
        (
            ["rank", "-h"],
            [
                "winner,loser\n    Espresso,Filter\n",
                "\n    Instant,0.4,4\n",
                "--items",
                "PrefLib",
                "tie",
            ],
        ),
        (["--version"], [f"bayesrank, version {bayesrank.__version__}"]),
    ],
)
def test_help(args, words, capsys):
    assert run(*args) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    for word in words:
        assert word in printed.out


def test_module_runs_from_another_folder(tmp_path):
    """As a process: exit code, one line on standard error, no traceback."""
    done = subprocess.run(
        [sys.executable, "-m", "bayesrank", "rank", "no.csv"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == "Error: no.csv: there is no such file; check the path\n"
    assert list(tmp_path.iterdir()) == []


def test_names_do_not_command_the_terminal_in_what_is_printed(folder, seen, monkeypatch, capsys):
    """Escapes, C1 controls and overrides of direction; files keep them."""
    bad = "\x1b[2Jx\x9by\u202ez\u2067\rw"
    Path("c.csv").write_text(f'winner,loser,"{bad}"\n"{bad}",B,1\nB,C,2\n', newline="")
    assert run("rank", "c.csv") == 0
    printed = capsys.readouterr()
    Path("c.csv").write_text(f'winner,"{bad}"\nB,C\n', newline="")
    assert run("rank", "c.csv", "--items", f"{bad}.csv") == 2
    printed = printed.out + printed.err + "".join(capsys.readouterr())
    printed += str(summarize(np.eye(2), names=[bad, "B"]))
    assert " [2Jx yz" in printed
    assert not any(letter in printed for letter in "\x1b\x9b\u202e\u2067\r")
    with open("bayesrank-out/ranking.csv", newline="", encoding="utf-8") as file:
        assert [row[1] for row in csv.reader(file)] == ["item", bad, "B", "C"]
