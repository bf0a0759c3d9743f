"""What README and pages say is true, where their programs, which run as tests, do not show it."""

import importlib
import io
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cli_run import run
from matplotlib.pyplot import imread

import bayesrank

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text(encoding="utf-8")


def _commands(text: str) -> list[list[str]]:
    """Words of each `bayesrank` command in the fenced blocks of a page."""
    blocks = re.findall(r"^```bash\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    lines = (line.split("#")[0].split() for block in blocks for line in block.splitlines())
    return [words[1:] for words in lines if words[:1] == ["bayesrank"]]


def _block_after(mark: str) -> str:
    found = re.search(rf"^<!-- {mark} -->\n```\w+\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert found, f"README.md has no fenced block directly below <!-- {mark} -->"
    return found.group(1).strip()


def test_every_command_and_option_exists(capsys):
    used: dict[str, set[str]] = {}
    for page in (ROOT / "README.md", *DOCS.glob("*.md"), *DOCS.glob("howto/*.md")):
        for command, *words in _commands(page.read_text(encoding="utf-8")):
            used.setdefault(command, set()).update(w for w in words if w.startswith("--"))
    assert {"rank", "ask", "predict", "rate"} <= set(used)
    for command, options in used.items():
        assert run(command, "--help") == 0
        explained = capsys.readouterr().out
        assert all(option in explained for option in options), command


LOG = {
    "battles.csv": "model_a,model_b,winner\nx,y,model_a\ny,z,tie\nx,z,model_a\n",
    "games.csv": "home,away,home_score,away_score\nx,y,2,1\ny,z,0,0\nx,z,1,0\n",
    "comparisons.csv": "winner,loser\nx,y\ny,z\nx,z\n",
    "items.csv": "item,price\nx,1\ny,2\nz,3\n",
    "pairs.csv": "first,second\nx,z\n",
}


@pytest.mark.slow
def test_the_commands_of_the_readme_run_on_files_with_these_columns(tmp_path, monkeypatch, capsys):
    """Each in a folder of its own, but for `predict`, which reads what `rank` wrote."""
    commands = _commands(README)
    assert len(commands) == 5
    ranked = tmp_path
    for number, command in enumerate(commands):
        folder = ranked if command[0] == "predict" else tmp_path / str(number)
        folder.mkdir(exist_ok=True)
        for name, text in LOG.items():
            (folder / name).write_text(text, encoding="utf-8")
        monkeypatch.chdir(folder)
        ranked = folder if command[0] == "rank" else ranked
        monkeypatch.setattr("sys.stdin", io.StringIO("1\nq\n"))
        assert run(*command) == 0
        assert capsys.readouterr().out


@pytest.mark.slow
def test_the_readme_shows_what_the_demo_prints(tmp_path):
    """Compiled as users compile: rounding decides on an item at the edge of a tier."""
    surroundings = os.environ | {"COLUMNS": "120", "JAX_DISABLE_MOST_OPTIMIZATIONS": "0"}
    command = [sys.executable, "-m", "bayesrank", "demo", "--crosscheck", "none", "--out"]
    printed = subprocess.run(
        [*command, tmp_path / "demo"], check=True, capture_output=True, env=surroundings
    ).stdout.decode()
    for line in _block_after("output of bayesrank demo").splitlines():
        assert line.strip() == "..." or line in printed


@pytest.mark.slow
def test_the_picture_is_what_the_demo_draws(tmp_path):
    scope = runpy.run_path(str(DOCS / "picture.py"))
    scope["draw"](tmp_path / "ranking.png")
    drawn, shown = imread(tmp_path / "ranking.png"), imread(scope["PICTURE"])
    assert drawn.shape == shown.shape == (630, 1200, 4)
    assert np.mean(np.abs(drawn - shown).max(axis=-1) > 0.1) < 0.05  # but for fonts


def test_what_the_readme_names_exists():
    assert _block_after("ci: tests") == 'pip install -e ".[test]" && python -m pytest'
    links = [to for to in re.findall(r"\]\(([^)]+)\)", README) if "://" not in to]
    for target in [*links, *re.findall(r"`(notebooks/[^`]+\.ipynb)`", README)]:
        assert (ROOT / target).exists(), target
    named = set(re.findall(r"`([A-Z]\w+)(?:\(.*?\))?`", README))
    assert named == set(bayesrank.__all__) - {"CollaborativeGP", "__version__", "to_arviz"}


def test_python_files_that_pages_name_exist():
    folders = ("bayesrank", "benchmarks", "docs", "tests")
    files = [path.as_posix() for folder in folders for path in (ROOT / folder).rglob("*.py")]
    pages = [*ROOT.glob("*.md"), *DOCS.rglob("*.md")]
    named = {
        name for page in pages for name in re.findall(r"`([\w/]+\.py)`", page.read_text("utf-8"))
    }
    assert [name for name in named if not any(file.endswith(f"/{name}") for file in files)] == []


def test_decisions_state_no_figure_that_no_benchmark_repeats():
    figure = re.compile(r"\d\.\d\d|\d%|\d ±|\d\.\d+ (s|nats|SD)\b|\.\d+[–)]|\d (MB|MiB) and")
    for page in DOCS.glob("decisions/*.md"):
        for line in page.read_text(encoding="utf-8").splitlines():
            assert not figure.search(line) or "`benchmarks " in line, f"{page.name}: {line}"


def test_every_class_of_the_reference_has_an_example():
    page = (DOCS / "api" / "index.md").read_text(encoding="utf-8")
    names = ["bayesrank", *re.findall(r"^   (bayesrank\S+)", page, re.M)]
    modules = map(importlib.import_module, names)
    classes = [getattr(module, name) for module in modules for name in module.__all__]
    classes = [each for each in classes if isinstance(each, type)]
    assert len(classes) >= 15
    assert [each.__name__ for each in classes if ">>> " not in (each.__doc__ or "")] == []
