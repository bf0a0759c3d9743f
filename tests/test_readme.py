"""What the README says is true: its programs run, its commands exist, its files can be read."""

import io
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_run import run
from matplotlib.pyplot import imread

import bayesrank

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def _block_after(mark: str) -> str:
    found = re.search(rf"^<!-- {mark} -->\n```\w+\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert found, f"README.md has no fenced block directly below <!-- {mark} -->"
    return found.group(1).strip()


def _run(number: int) -> dict[str, Any]:
    """Variables of one of the README's programs, each of which runs by itself."""
    scope: dict[str, Any] = {"__name__": "readme"}
    exec(compile(_blocks("python")[number], f"README.md, program {number + 1}", "exec"), scope)
    return scope


@pytest.mark.slow
def test_the_estimator_ranks_names(capsys):
    ranker = _run(0)["ranker"]
    assert [str(name) for name in ranker.rank().names] == ["Ann", "Bob", "Cid", "Dee"]
    assert "Ann" in capsys.readouterr().out
    assert ranker.predict_proba([("Ann", "Dee")])[0] > 0.6


def test_the_two_commands_are_where_continuous_integration_looks():
    assert _block_after("ci: main") == "pip install . && bayesrank demo"
    assert _block_after("ci: tests") == 'pip install -e ".[test]" && python -m pytest'


@pytest.mark.slow
def test_the_output_is_what_the_demo_prints(tmp_path):
    """Compiled as users compile: rounding decides on an item at the edge of a tier."""
    surroundings = os.environ | {"COLUMNS": "120", "JAX_DISABLE_MOST_OPTIMIZATIONS": "0"}
    command = [sys.executable, "-m", "bayesrank", "demo", "--crosscheck", "none", "--out"]
    printed = subprocess.run(
        [*command, tmp_path / "demo"], check=True, capture_output=True, env=surroundings
    ).stdout.decode()
    for line in _block_after("output of bayesrank demo").splitlines():
        assert line.strip() == "..." or line in printed


LOG = {
    "battles.csv": "model_a,model_b,winner\nx,y,model_a\ny,z,tie\nx,z,model_a\n",
    "games.csv": "home,away,home_score,away_score\nx,y,2,1\ny,z,0,0\nx,z,1,0\n",
    "comparisons.csv": "winner,loser\nx,y\ny,z\nx,z\n",
    "items.csv": "item,price\nx,1\ny,2\nz,3\n",
    "pairs.csv": "first,second\nx,z\n",
}


@pytest.mark.slow
def test_the_commands_run_on_files_with_these_columns(tmp_path, monkeypatch, capsys):
    """Each in a folder of its own, but for `predict`, which reads what `rank` wrote."""
    lines = [line.split("#")[0] for block in _blocks("bash") for line in block.splitlines()]
    commands = [line.split()[1:] for line in lines if line.startswith("bayesrank ")]
    assert len(commands) == 5
    ranked = tmp_path
    for number, command in enumerate(commands):
        if command[0] != "predict":
            folder = tmp_path / str(number)
            folder.mkdir()
            for name, text in LOG.items():
                (folder / name).write_text(text, encoding="utf-8")
            monkeypatch.chdir(folder)
            ranked = folder if command[0] == "rank" else ranked
        else:
            monkeypatch.chdir(ranked)
        monkeypatch.setattr("sys.stdin", io.StringIO("1\nq\n"))
        assert run(*command) == 0
        assert capsys.readouterr().out


def test_every_link_into_the_project_leads_somewhere():
    targets = re.findall(r"\]\(([^)]+)\)", README)
    local = [target for target in targets if "://" not in target]
    assert "docs/images/ranking.png" in local
    notebooks = re.findall(r"`(notebooks/[^`]+\.ipynb)`", README)
    for target in [*local, *notebooks]:
        assert (ROOT / target).exists(), target


def test_the_estimators_of_the_table_exist():
    named = set(re.findall(r"`([A-Z]\w+)(?:\(.*?\))?`", README))
    assert named == set(bayesrank.__all__) - {"CollaborativeGP", "__version__", "to_arviz"}


@pytest.mark.slow
def test_the_picture_is_what_the_demo_draws(tmp_path):
    scope = runpy.run_path(str(ROOT / "docs" / "picture.py"))
    scope["draw"](tmp_path / "ranking.png")
    drawn, shown = imread(tmp_path / "ranking.png"), imread(scope["PICTURE"])
    assert drawn.shape == shown.shape == (630, 1200, 4)
    assert np.mean(np.abs(drawn - shown).max(axis=-1) > 0.1) < 0.05  # but for fonts
