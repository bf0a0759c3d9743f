"""The how-to pages are true: their programs run, and their commands and options exist."""

import importlib
import os
import re
import runpy
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_run import run

import bayesrank
from bayesrank.datasets import ReadingNote

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = [
    *(DOCS / f"{name}.md" for name in ("getting-started", "coming-from", "index", "engine")),
    DOCS / "hyperparameters.md",
    *sorted((DOCS / "howto").glob("*.md")),
]


def _blocks(page: Path, language: str) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def _write_files(page: Path) -> None:
    """Write the files that a page shows below their names."""
    text = page.read_text(encoding="utf-8")
    for name, content in re.findall(r"^`(\S+)`:\n\n```text\n(.*?)^```$", text, re.M | re.S):
        Path(name).write_text(content, encoding="utf-8")


def _run(page: Path, number: int) -> dict[str, Any]:
    """Variables of one program of a page."""
    scope: dict[str, Any] = {"__name__": page.stem}
    exec(
        compile(_blocks(page, "python")[number], f"{page.name}, program {number + 1}", "exec"),
        scope,
    )
    return scope


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_programs_of_a_page_run_one_after_the_other(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _write_files(page)
    scope: dict[str, Any] = {"__name__": page.stem}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReadingNote)
        for number, block in enumerate(_blocks(page, "python"), 1):
            exec(compile(block, f"{page.name}, program {number}", "exec"), scope)
    assert scope.keys() - {"__name__", "__builtins__"}


@pytest.mark.slow
def test_the_loop_ranks_after_few_questions():
    variables = _run(DOCS / "howto" / "next.md", 0)
    order = [str(name) for name in variables["ranking"].names]
    assert order == sorted(order, key=variables["skill"].get, reverse=True)
    assert len(variables["loop"].answers) == 6


@pytest.mark.slow
def test_the_program_gives_what_laplace_gives_nearly():
    """Against the mode and curvature of the log posterior, found by Newton's method."""
    variables = _run(DOCS / "engine.md", 0)
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
    spread = np.append(result.sd["skill"], result.sd["advantage"])
    assert np.abs((mean - mode) / sd).max() < 0.3
    np.testing.assert_allclose(spread, sd, rtol=0.1)


def test_every_command_and_option_exists(capsys):
    lines = {
        line.split("#")[0]
        for page in (DOCS.parent / "README.md", *PAGES)
        for b in _blocks(page, "bash")
        for line in b.splitlines()
    }
    used: dict[str, set[str]] = {}
    for line in lines:
        words = line.split()
        if words[:1] == ["bayesrank"]:
            options = {word for word in words if word.startswith("--")}
            used.setdefault(words[1], set()).update(options)
    assert {"rank", "ask", "predict", "rate"} <= set(used)
    for command, options in used.items():
        assert run(command, "--help") == 0
        explained = capsys.readouterr().out
        assert all(option in explained for option in options), command


def test_every_page_links_to_pages_that_exist():
    pages = [page for page in DOCS.rglob("*.md") if "_build" not in page.parts]
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#:\s]+\.(?:md|ipynb|png))[^)]*\)", text):
            assert os.path.exists(page.parent / target), f"{page.name}: {target}"


def _anchors(page: Path) -> set[str]:
    """Headings of a page as they stand in its address."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_links_to_headings_lead_to_headings():
    pages = [page for page in DOCS.rglob("*.md") if "_build" not in page.parts]
    found = 0
    for page in pages:
        for target, anchor in re.findall(r"\]\(([^)#:\s]*)#([^)]+)\)", page.read_text("utf-8")):
            other = page.parent / target if target else page
            assert anchor in _anchors(other), f"{page.name}: {target}#{anchor}"
            found += 1
    assert found > 10


def test_every_question_links_to_its_answer():
    text = (DOCS / "questions.md").read_text(encoding="utf-8")
    answers = re.split(r"^## .*\?$", text, flags=re.MULTILINE)[1:]
    assert len(answers) >= 12
    assert all(re.search(r"\]\(\S+\.md|\{doc\}`", answer) for answer in answers)


def test_every_class_of_the_reference_has_an_example():
    page = (DOCS / "api" / "index.md").read_text(encoding="utf-8")
    modules = [
        importlib.import_module(name) for name in re.findall(r"^   (bayesrank\S+)", page, re.M)
    ]
    assert len(modules) >= 15
    classes = [
        getattr(module, name)
        for module in [bayesrank, *modules]
        for name in module.__all__
        if isinstance(getattr(module, name), type)
    ]
    assert [each.__name__ for each in classes if ">>> " not in (each.__doc__ or "")] == []


def test_every_task_has_a_picture_and_a_call_before_its_first_heading():
    pictures = runpy.run_path(str(DOCS / "pictures.py"))["PICTURES"]
    pages = {page.stem: page.read_text(encoding="utf-8") for page in (DOCS / "howto").glob("*.md")}
    assert set(pictures) == set(pages)
    for name, text in pages.items():
        top = text.split("\n## ")[0]
        assert re.search("^```(bash|python)$", top, re.M) and f"](images/{name}.png)" in top, name
