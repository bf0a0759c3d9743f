"""The command line: what it prints, what it writes, and how it ends."""

import csv
import io
import json
import warnings
from pathlib import Path

import click
import numpy as np
import pytest
from cli_run import run
from matplotlib.figure import Figure

import bayesrank
from bayesrank.cli import main, pipeline
from bayesrank.cli.app import cli
from bayesrank.cli.outputs import OutputError, drawn, output_folder
from bayesrank.cli.trust import Check
from bayesrank.cli.words import Headline
from bayesrank.datasets import ComparisonData
from bayesrank.ranking import summarize

RESULTS = {"card.png", "ranker.npz", "ranking.csv", "ranking.json", "report.html"}
ALL = RESULTS | {"posterior.nc", "ranking.png"}


class _Ranker:
    """Stands in for the fitted estimator."""

    result = None

    def save(self, path):
        path.write_text("saved")

    def prob_better(self, pairs):
        return np.array([0.5 + 0.4 * np.sign((a > b) - (a < b)) for b, a in pairs])


HEADLINE = Headline("Ada", "ahead", "A conclusion.")


@pytest.fixture
def seen(monkeypatch):
    """Replace the inference by draws around known skills; keep what it was called with."""
    calls = []

    def rank_items(data, settings, steps):
        calls.append((data, settings))
        with steps.step("Fitting"):
            rng = np.random.default_rng(settings.seed)
            skills = -np.arange(data.num_items) + 0.1 * rng.standard_normal((400, data.num_items))
        summary = summarize(skills, names=data.names)
        return pipeline.Ranking(_Ranker(), skills, (pipeline.Ranked("", summary, HEADLINE),))

    def analyse(data, settings, ranking, steps):
        with steps.step("Drawing"):
            checks = (Check("Right", "ok", "by all means"),)
        return pipeline.Analysis(
            checks, ("A note.",), ("Of the method.",), b"HDF", {"ranking.png": drawn(Figure)}
        )

    monkeypatch.setattr(pipeline, "rank_items", rank_items)
    monkeypatch.setattr(pipeline, "analyse", analyse)
    monkeypatch.setattr(pipeline, "state_bytes", lambda ranker: 0)
    return calls


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Run in an empty folder that holds a good pair of files."""
    monkeypatch.chdir(tmp_path)
    Path("c.csv").write_text("winner,loser,day\n[red]A[/red],B,1\nB,C,2\n")
    Path("i.csv").write_text("item,x\n[red]A[/red],1\nB,2\nC,3\n")
    return tmp_path


def names_in(folder):
    return {path.name for path in Path(folder).iterdir()}


def test_the_demo_has_a_folder_of_its_own(folder, seen, capsys):
    assert run("demo") == 0
    data, settings = seen[0]
    assert data.num_items == 32 and settings.crosscheck == "quick"
    assert names_in("bayesrank-demo") == RESULTS
    printed = capsys.readouterr()
    assert printed.out.startswith("A conclusion.\n\nRank  90% ranks  Item")
    for said in ("ok  Right  by all means", "90% ranks", "(15 of 32 rows; ", "A note."):
        assert said in printed.out
    assert "Drawing: " in printed.err and "Drawing: " not in printed.out
    assert names_in(folder) == {"c.csv", "i.csv", "bayesrank-demo"}


def test_no_command_prints_help_in_groups(folder, seen, capsys):
    assert run() == 0
    printed = capsys.readouterr()
    assert printed.err == "" and not seen and names_in(folder) == {"c.csv", "i.csv"}
    lines = printed.out.splitlines()
    assert max(map(len, lines)) <= 80 and "\n          " not in printed.out
    groups = ["Options:", "Rank:", "Collect:", "Predict:"]
    assert [line for line in lines[1:] if line.endswith(":") and line[0] != " "] == groups
    assert run("-h") == 0 and capsys.readouterr().out == printed.out


@pytest.mark.parametrize(
    "head, answer",
    [
        ("model_a,model_b,winner", "rank"),
        ("user;item;rating", "rate"),
        ("movieId,userId,Rating,timestamp", "rate"),
        ("\ufeffUser_ID,Item-ID,stars", "rate"),
        ("item,price", "ask"),
        ("model,task,score", "rank"),
    ],
)
def test_a_file_without_a_command_is_answered_with_the_command(folder, capsys, head, answer):
    Path("my file.csv").write_text(f"{head}\n")
    assert run("my file.csv") == 2
    call = f"Run: bayesrank {answer} 'my file.csv'"
    assert capsys.readouterr().err == f"Error: my file.csv is a file, not a command. {call}\n"


def test_options_of_the_demo(folder, seen, capsys):
    options = "--out deep/er --seed 7 --crosscheck none --quiet --rows 0"
    assert run("demo", *options.split()) == 0
    _, settings = seen[0]
    assert settings._asdict() == {
        **{"out": Path("deep/er"), "rows": 0, "seed": 7, "crosscheck": "none", "quiet": True},
        **{"elo": False, "hyperparameters": "integrate", "by_category": False},
        **{"notes": settings.notes, "inputs": (), "save": "report", "force": False},
        "title": "NFL season 2018",
        **{"command": f"bayesrank demo {options}", "verbose": False},
        **{"level": 0.9, "anchor": None, "overall": "average", "format": "table", "at": None},
    }
    printed = capsys.readouterr()
    assert printed.err == "" and "of 32 rows" not in printed.out
    assert len(printed.out.splitlines()) >= 33
    assert (folder / "deep" / "er" / "ranking.csv").is_file()


def test_rank_reads_both_files(folder, seen, capsys):
    assert run("rank", "c.csv", "--items", "i.csv", "--out", "o") == 0
    data, settings = seen[0]
    assert data.features is not None and settings.inputs == (Path("c.csv"), Path("i.csv"))
    printed = capsys.readouterr()
    lines = printed.out.splitlines()[2:]
    assert lines[0].split() == "Rank 90% ranks Item Skill ± SD P(best) P(beats next) Tier".split()
    cells = lines[1].split()
    assert cells[:3] == ["1", "1", "[red]A[/red]"]
    assert cells[4:] == ["±", "0.10", ">99%", ">99%", "1"]
    assert lines[3].split()[-4:] == ["0.10", "<1%", "-", "3"]
    assert "Columns not used: day" in printed.err
    table = Path("o/ranking.csv").read_text().splitlines()
    assert table[0].startswith("rank,item,skill_mean,skill_sd") and len(table) == 4


def test_rank_reads_standard_input(folder, seen, monkeypatch, capsys):
    text = io.TextIOWrapper(io.BytesIO(Path("c.csv").read_bytes()))
    monkeypatch.setattr("sys.stdin", text)
    assert run("rank", "-", "--quiet") == 0
    piped = capsys.readouterr().out
    assert run("rank", "c.csv", "--quiet", "--out", "o") == 0
    assert capsys.readouterr().out.replace("to o:", "").split("\n")[:6] == piped.split("\n")[:6]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert run("rank", "-", "--quiet") == 2
    assert capsys.readouterr().err.startswith("Error: -: the file is empty;")


def test_results_of_another_standard_input_are_replaced_by_force_alone(
    folder, seen, monkeypatch, capsys
):
    def piped(text, *options):
        stream = io.TextIOWrapper(io.BytesIO(text))
        monkeypatch.setattr("sys.stdin", stream)
        return run("rank", "-", "--quiet", "--out", "o", *options)

    assert piped(b"winner,loser\nA,B\n") == 0
    assert piped(b"winner,loser\nA,B\n") == 0
    assert piped(b"winner,loser\nA,B\nA,B\n") == 2
    assert piped(b"winner,loser\nX,Y\n") == 2
    assert "o: it holds results of another input" in capsys.readouterr().err
    assert piped(b"winner,loser\nX,Y\n", "--force") == 0


def test_what_is_printed_is_what_is_written(folder, seen, capsys):
    for form, name in (("csv", "ranking.csv"), ("json", "ranking.json")):
        assert run("rank", "c.csv", "--format", form, "-q") == 0
        assert capsys.readouterr().out == Path("bayesrank-out", name).read_text(encoding="utf-8")


def test_a_dry_run_does_nothing(folder, seen):
    assert run("rank", "c.csv", "--items", "i.csv", "--dry-run") == 0
    assert not seen and names_in(folder) == {"c.csv", "i.csv"}


def test_ties_of_weighted_rows_are_counted_alike(folder, seen, capsys):
    Path("w.csv").write_text("winner,loser,tie,weight\na,b,0,3\nb,c,1,2\na,c,1,2\n")
    assert run("rank", "w.csv", "--out", "o") == 0
    found = json.loads(Path("o/ranking.json").read_text(encoding="utf-8"))
    assert found["counts"] == "3 items, 7 comparisons (4 ties)"
    assert (found["num_comparisons"], found["num_ties"]) == (7, 4)


@pytest.mark.parametrize("error", [RuntimeError("no convergence"), KeyboardInterrupt()])
def test_nothing_is_left_behind_when_the_work_fails(folder, monkeypatch, capsys, error):
    def fail(data, settings, steps):
        raise error

    monkeypatch.setattr(pipeline, "rank_items", fail)
    before = sorted(folder.rglob("*"))
    if isinstance(error, RuntimeError):
        with pytest.raises(RuntimeError, match="no convergence"):
            main(["rank", "c.csv"])
    else:
        assert run("rank", "c.csv") == 130
        assert capsys.readouterr().err.endswith("\nError: Interrupted; nothing was written.\n")
    assert sorted(folder.rglob("*")) == before


def test_the_picture_of_pairs_has_the_probabilities_of_the_ranker(monkeypatch):
    """Draws of skill in another order would give others."""
    seen, names = [], ["c", "a", "b"]

    def plot(summary, better):
        seen.append((summary.names, better))
        return Figure().subplots()

    monkeypatch.setattr("bayesrank.plots.plot_pairwise", plot)
    skills = np.random.default_rng(0).normal([0.0, 2.0, 1.0], 0.1, (50, 3))
    ranked = pipeline.Ranked("", summarize(skills, names), HEADLINE)
    ranking = pipeline.Ranking(_Ranker(), skills, (ranked,))
    data = ComparisonData(tuple(names), np.array([[1, 2], [2, 0]]), np.zeros(2, bool))
    assert set(pipeline._draw(data, ranking, None)) == {"ranking.png", "pairs.png"}
    np.testing.assert_allclose(seen[0][1], ranking.better(["a", "b", "c"]))
    assert seen[0][0] == ["a", "b", "c"] and seen[0][1][0].tolist() == [0.5, 0.9, 0.9]


def test_a_failure_while_writing_leaves_earlier_results_alone(folder, seen, monkeypatch, capsys):
    assert run("rank", "c.csv", "--out", "o", "--save", "all") == 0
    assert names_in("o") == ALL
    before = {path: path.read_bytes() for path in Path("o").iterdir()}

    def full(self, path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_Ranker, "save", full)
    assert run(*"rank c.csv --out o --save all --seed 5 --quiet".split()) == 2
    assert "cannot be written (No space left on device)" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in Path("o").iterdir()} == before


def test_results_of_earlier_runs_are_replaced_and_other_files_stay(folder, seen):
    assert run("rank", "c.csv", "--out", "o", "--save", "all") == 0
    Path("o/mine.png").write_text("mine")
    Path("c.csv").write_text("winner,loser\nA,B\n")  # the log has changed, and is the same log
    assert run("rank", "c.csv", "--out", "o", "--crosscheck", "none") == 0
    assert names_in("o") == {"mine.png"} | RESULTS
    assert Path("o/mine.png").read_text() == "mine"
    assert len(Path("o/ranking.csv").read_text().splitlines()) == 3
    assert names_in(".") == {"c.csv", "i.csv", "o"}


@pytest.mark.parametrize("other", ["another input", "no document", "damaged"])
def test_results_of_another_input_are_replaced_by_force_alone(folder, seen, capsys, other):
    Path("d.csv").write_text("winner,loser\nX,Y\n")
    assert run("rank", "c.csv", "--out", "o") == 0
    if other == "no document":
        Path("o/ranking.json").unlink()
    elif other == "damaged":
        Path("o/ranking.json").write_text("[1, 2")
    before = {path: path.read_bytes() for path in Path("o").iterdir()}
    called = len(seen)
    assert run("rank", "d.csv" if other == "another input" else "c.csv", "--out", "o") == 2
    assert "o: it holds results of another input; give another --out, or" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in Path("o").iterdir()} == before
    assert len(seen) == called
    assert run("rank", "d.csv", "--out", "o", "--force") == 0
    assert "Y" in Path("o/ranking.csv").read_text()


def test_the_document_says_what_the_table_says(folder, seen, capsys):
    assert run("rank", "c.csv") == 0
    found = json.loads(Path("bayesrank-out/ranking.json").read_text(encoding="utf-8"))
    with open("bayesrank-out/ranking.csv", newline="", encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    [ranking] = found["rankings"]
    for row, item in zip(table, ranking["items"], strict=True):
        assert row == {name: "" if value is None else str(value) for name, value in item.items()}
    assert ranking["verdict"] == "A conclusion." and found["notes"] == ["A note.", "Of the method."]
    assert found["checks"] == [{"name": "Right", "status": "ok", "sentence": "by all means"}]
    assert (found["title"], found["command"]) == ("c", "bayesrank rank c.csv")
    assert [found[f"num_{what}"] for what in ("items", "comparisons", "ties")] == [3, 2, 0]
    assert ranking["leader"] == "Ada" and ranking["standing"] == "ahead"
    names = [item["item"] for item in ranking["items"]]
    pairs = _Ranker().prob_better([(one, other) for one in names for other in names])
    assert np.ravel(found["pairs"]).tolist() == pairs.tolist()


def test_new_folders_are_open_and_a_folder_in_the_way_of_a_result_is_refused(tmp_path):
    (tmp_path / "a").mkdir()
    with output_folder(tmp_path / "new", ["a"]) as draft:
        (draft / "a").write_text("1")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "a").stat().st_mode
    message = "a folder is in the way of a result; use --out"
    with pytest.raises(OutputError, match=message), output_folder(tmp_path, ["a"]):
        pass


def test_warnings_are_one_line_on_standard_error(folder, seen, monkeypatch, capsys):
    analyse = pipeline.analyse

    def warn(data, settings, ranking, steps):
        warnings.simplefilter("always")
        warnings.warn("this did\nnot converge", UserWarning, stacklevel=1)
        return analyse(data, settings, ranking, steps)

    monkeypatch.setattr(pipeline, "analyse", warn)
    assert run("rank", "c.csv", "--quiet") == 0
    assert capsys.readouterr().err == "Warning: this did not converge\n"


FILES_IN_HELP = ("winner,loser\n    Espresso,Filter\n", "\n    Instant,0.4,4\n")
HELP = {
    "--help": ("demo", "rank", "bayesrank rank battles.csv"),
    "demo --help": ("--out", "--seed", "--crosscheck", "--quiet", "[default: "),
    "rank -h": (*FILES_IN_HELP, "--items", "PrefLib", "tie"),
    "--version": (f"bayesrank, version {bayesrank.__version__}",),
}


@pytest.mark.parametrize("call", HELP)
def test_help(call, capsys):
    assert run(*call.split()) == 0
    printed = capsys.readouterr()
    assert printed.err == "" and all(word in printed.out for word in HELP[call])


@pytest.mark.parametrize("name", [None, *cli.list_commands(click.Context(cli))])
def test_help_fits_a_terminal_of_80_columns(name):
    """Examples of layouts stand as they are written, and are not folded."""
    command = cli if name is None else cli.get_command(click.Context(cli), name)
    assert command is not None
    context = click.Context(command, info_name=f"bayesrank {name}", terminal_width=80)
    context.show_default = True
    lines = command.get_help(context).splitlines()
    assert len(lines) > 5 and [line for line in lines if len(line) > 80] == []


def test_names_do_not_command_the_terminal_in_what_is_printed(folder, seen, capsys):
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
