"""What the README says is true: its programs run, its commands exist, its files can be read."""

import re
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bayesrank
from bayesrank.cli import main
from bayesrank.datasets import read_comparisons

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
    model = _run(0)["model"]
    assert [str(name) for name in model.rank().names] == ["Ann", "Bob", "Cid", "Dee"]
    assert "Ann" in capsys.readouterr().out
    assert model.predict_proba([("Ann", "Dee")])[0] > 0.6


@pytest.mark.slow
def test_the_loop_ranks_after_few_questions():
    variables = _run(1)
    order = list(variables["ranking"].to_dataframe()["item"])
    assert order == sorted(order, key=variables["skill"].get, reverse=True)
    assert len(variables["loop"].answers) == 6


@pytest.mark.slow
def test_the_program_gives_what_laplace_gives_nearly():
    """Against the mode and curvature of the log posterior, found by Newton's method."""
    variables = _run(2)
    assert len(_blocks("python")) == 3
    result = variables["result"]
    assert result.converged
    winner, loser, home = (variables[name] for name in ("winner", "loser", "home"))
    rows = np.zeros((100, 21))
    rows[np.arange(100), winner] += 1.0
    rows[np.arange(100), loser] -= 1.0
    rows[:, 20] = home
    precision = np.diag(np.append(np.ones(20), 4.0))
    mode, inverse = np.zeros(21), np.zeros((21, 21))
    for _ in range(30):
        chance = 1.0 / (1.0 + np.exp(-rows @ mode))
        inverse = np.linalg.inv(precision + rows.T * (chance * (1.0 - chance)) @ rows)
        mode = mode + inverse @ (rows.T @ (1.0 - chance) - precision @ mode)
    sd = np.sqrt(np.diagonal(inverse))
    mean = np.append(result.mean["skill"], result.mean["advantage"])
    spread = np.append(result.stddev["skill"], result.stddev["advantage"])
    assert np.abs((mean - mode) / sd).max() < 0.3
    np.testing.assert_allclose(spread, sd, rtol=0.1)


def test_the_two_commands_are_where_continuous_integration_looks():
    assert _block_after("ci: main") == "pip install . && bayesrank demo"
    assert _block_after("ci: tests") == 'pip install -e ".[test]" && python -m pytest'


def test_the_example_files_can_be_read(tmp_path):
    for name in ("comparisons.csv", "items.csv"):
        (tmp_path / name).write_text(_block_after(name))
    data = read_comparisons(tmp_path / "comparisons.csv", tmp_path / "items.csv")
    assert data.names == ("Espresso", "Filter", "Instant")
    assert data.feature_names == ("price", "strength")
    assert data.tied.tolist() == [False, False, True]


def _help_of(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit, match="^0$"):
        main([command, "--help"])
    return capsys.readouterr().out


def test_every_command_and_option_exists(capsys):
    lines = [line for block in _blocks("bash") for line in block.splitlines()]
    commands = [line.split()[3:] for line in lines if line.startswith("python -m bayesrank ")]
    assert {command[0] for command in commands} == {
        "rank",
        "evaluate",
        "ask",
        "predict",
        "labels",
        "rate",
        "search",
        "stream",
    }
    for command in commands:
        told = _help_of(command[0], capsys)
        for word in command:
            assert not word.startswith("--") or word in told
    for option in set(re.findall(r"`(--[a-z-]+)`", README)) - {"--help"}:
        assert option in _help_of("rank", capsys)


def test_every_link_into_the_project_leads_somewhere():
    targets = re.findall(r"\]\(([^)]+)\)", README)
    local = [target for target in targets if "://" not in target]
    assert "docs/images/ranking.png" in local
    notebooks = re.findall(r"`(notebooks/[^`]+\.ipynb)`", README)
    for target in [*local, *notebooks]:
        assert (ROOT / target).exists(), target


@pytest.mark.parametrize(
    "name", ["metrics", "bounds", "ranking", "models", "distributions", "active", "online", "gp"]
)
def test_the_modules_of_the_table_exist(name):
    assert f"`bayesrank.{name}`" in README
    assert import_module(f"bayesrank.{name}").__all__


@pytest.mark.parametrize(
    ("room", "name"), [("infer", "maximize_evidence"), ("diagnostics", "crosscheck")]
)
def test_the_functions_of_the_table_exist(room, name):
    assert f"`{name}(model, ...)`" in README
    function = getattr(import_module(f"bayesrank.{room}"), name)
    assert next(iter(signature(function).parameters)) == "model"


def test_the_estimators_of_the_table_exist():
    rows = re.findall(r"^\| (`[A-Z].*?) \|", README, re.MULTILINE)
    named = set(re.findall(r"`([A-Z]\w+)`", " ".join(rows)))
    assert named >= {"PairwiseRanker", "OrdinalGP", "RankRLS"}
    assert named <= set(bayesrank.__all__)
