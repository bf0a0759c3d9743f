"""Words that readers stumbled over do not come back, in documentation, messages and docstrings."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/README.md"]
SOURCES = sorted((ROOT / "bayesrank").rglob("*.py"))
BANNED = re.compile(
    r"\b[Tt]old\b|\b[Mm]end(s|ed|ing)?\b|\b[Cc]ure[sd]?\b|\b[Cc]ircles\b|\bNO\b|[Hh]olds? the truth"
    r"|(?:^|[.:;] )Of (?:the|each|a|an|several|items|what)\b|\bWhat is to be\b"
    r"|(?<!there )(?<!There )\bis no\b(?! (longer|larger|smaller|further|more|less)\b)"
)


def _found(text: str) -> list[str]:
    return [match.group() for match in BANNED.finditer(" ".join(text.split()))]


def test_the_list_finds_what_it_bans():
    text = "told mended Cure circles NO 'x' is no item; intervals hold the truth. Of the two, one"
    assert len(_found(text)) == 8
    assert not _found("there is no item; this is no longer so; a circle; notes of NOAA; untold")


def test_pages_use_the_words_of_the_field():
    pages = [ROOT / name for name in PAGES]
    pages += [page for page in (ROOT / "docs").rglob("*.md") if "_build" not in page.parts]
    found = {page.name: words for page in pages if (words := _found(page.read_text("utf-8")))}
    assert found == {}


def _docstrings(tree: ast.Module) -> Iterator[str]:
    """Those of the module, its classes and its functions, inner ones too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef):
            yield ast.get_docstring(node) or ""


def _messages(tree: ast.Module) -> Iterator[str]:
    """Texts of several words, wherever they are, but for docstrings."""
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value if " " in node.value.strip() else ""


@pytest.fixture(scope="module")
def trees():
    return {path: ast.parse(path.read_text("utf-8")) for path in SOURCES}


@pytest.mark.parametrize("kind", ["messages", "docstrings"])
def test_what_users_read_in_the_package(trees, kind):
    found = {}
    for path, tree in trees.items():
        texts = _messages(tree) if kind == "messages" else _docstrings(tree)
        if words := [word for text in texts for word in _found(text)]:
            found[str(path.relative_to(ROOT))] = words
    assert found == {}
