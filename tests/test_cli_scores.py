"""`rank` on score tables: screen, page, card, files, and the commands on them."""

import json

import numpy as np
import pandas as pd
import pytest
from cli_run import run
from cli_run import said as printed

from bayesrank.ranking.columns import score_text

FILES = {"report.html", "card.png", "ranking.csv", "ranking.json", "ranker.npz"}


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    """Five systems on thirty tasks, a tenth of the cells missing, with families and costs."""
    random = np.random.default_rng(0)
    chance = np.linspace(0.3, 0.9, 5)[:, None] + random.normal(0.0, 0.15, 30)
    scores = (random.random((5, 30)) < chance).astype(int)
    rows = [
        (f"m{i}", f"t{t}", scores[i, t], f"f{i % 2}", 1 + t % 3)
        for i, t in np.argwhere(random.random((5, 30)) < 0.9)
    ]
    path = tmp_path_factory.mktemp("board") / "scores.csv"
    columns = ["model", "task", "score", "family", "cost"]
    pd.DataFrame(rows, columns=columns).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def results(board):
    out = board.parent / "out"
    return out, "".join(printed("rank", board, "--out", out))


def test_both_questions_are_answered_on_screen_and_page(results):
    out, said = results
    assert {path.name for path in out.iterdir()} == FILES
    page = (out / "report.html").read_text()
    for question in ("On tasks like these", "On these tasks"):
        assert f"{question}: " in said
        assert f"<h2>{question}</h2>" in page
    assert "read as a score" in said and "Score ± SD" in said and "skill" not in said
    assert "Score, 90% interval" in page and "Laplace" in page and "Thurstone" not in page
    assert "corrected for having been picked" in said and "within families, and by" in page


def test_document_and_table_hold_scores(results):
    out, _ = results
    found = json.loads((out / "ranking.json").read_text())
    assert (found["measure"], found["num_items"]) == ("share", 5)
    assert [each["question"] for each in found["rankings"]] == ["tasks like these", "these tasks"]
    table = pd.read_csv(out / "ranking.csv")
    assert list(table.question.unique()) == ["tasks like these", "these tasks"]
    assert ((table.score_lower < table.score_mean) & (table.score_mean < table.score_upper)).all()
    assert table.score_mean.between(0, 1).all()


def test_commands_on_the_results(results, tmp_path, capsys):
    out, _ = results
    said = printed("compare", out, "m4", "m0")[0]
    assert said.startswith("m4 is better than m0 with probability")
    assert "Difference in score on tasks like these: " in said and "wins" not in said
    assert " points (90% interval " in said and "separate" not in said
    assert "tasks like these would separate the two with" in printed("compare", out, "m4", "m3")[0]
    run("suggest", out, "-n", 3, "--out", tmp_path / "next.csv")
    lines = (tmp_path / "next.csv").read_text().splitlines()
    assert lines[0] == "task,information,cost" and len(lines) == 4
    assert run("predict", out, out / "ranking.csv") == 2
    assert "predict is of comparisons" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options",
    [["--elo"], ["--anchor", "m0=1000"], ["--by-category"], ["--crosscheck", "full"], ["--home"]],
)
def test_options_of_comparisons_are_refused(board, options, capsys):
    assert run("rank", board, "--out", board.parent / "none", *options) == 2
    assert f"{options[0]} does not go with score tables" in capsys.readouterr().err


def test_scores_have_the_digits_that_draws_support():
    """Of 2,000 draws, a mean has an error of a 45th of the standard deviation."""
    assert score_text(0.7294, "share", 0.079) == "73%"
    assert score_text(0.7294, "share", 0.012) == "72.9%"
    assert (
        score_text(12.34, "number", 0.5) == "12.34" and score_text(12.34, "number", 6.0) == "12.3"
    )


def test_a_kind_may_be_named(board):
    said = printed("rank", board, "--dry-run", "--scores", "number")[0]
    assert "systems by tasks: numbers" in said
    assert " orders\n" in printed("rank", board, "--dry-run", "--scores", "none")[0]


def test_two_tasks_are_ranked_on_themselves_alone(tmp_path):
    path = tmp_path / "two.csv"
    path.write_text("system,a,b\nx,1,0\ny,0,0\nz,1,1\n")
    said = printed("rank", path, "--out", tmp_path / "out")[0]
    found = json.loads((tmp_path / "out" / "ranking.json").read_text())
    assert [each["question"] for each in found["rankings"]] == ["these tasks"]
    assert "2 tasks say little of others like them" in said
