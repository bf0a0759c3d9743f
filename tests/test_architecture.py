"""What the import contracts of ``pyproject.toml`` cannot say of the house, read off its syntax."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HOUSE = ROOT / "bayesrank"
TREES = {path.relative_to(HOUSE): ast.parse(path.read_text()) for path in HOUSE.rglob("*.py")}
NODES = {path: list(ast.walk(tree)) for path, tree in sorted(TREES.items())}


def test_no_package_takes_private_names_of_another():
    wrong = []
    for path, nodes in NODES.items():
        for node in nodes:
            if isinstance(node, ast.ImportFrom) and not node.level and node.module:
                top, *rest = node.module.split(".")
                for names in ([*rest, alias.name] for alias in node.names):
                    private = any(re.match(r"_[^_]", name) for name in names[1:])
                    if top == "bayesrank" and private and names[0] != path.parts[0]:
                        wrong.append(f"{path}:{node.lineno} {'.'.join(names)}")
    assert wrong == []


def test_priors_and_results_are_asked_and_not_told_apart_by_class():
    kinds = {
        node.name
        for path, tree in TREES.items()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and path.parts[0] == "infer"
        if node.name.endswith(("Prior", "Posterior", "Result"))
    }
    asked = (
        (path, node.lineno, ast.unparse(node.args[1]))
        for path, nodes in NODES.items()
        for node in nodes
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass")
    )
    assert kinds
    assert [each for each in asked if kinds & set(re.findall(r"\w+", each[-1]))] == []


STEMS = sorted(p.stem for p in (HOUSE / "solvers").iterdir() if not p.stem.startswith("_"))


@pytest.mark.parametrize("stem", STEMS)
def test_a_solver_has_its_program_and_a_test_of_that_program_by_an_engine(stem):
    programs = [
        n.name for n in TREES[Path(f"models/{stem}.py")].body if isinstance(n, ast.FunctionDef)
    ]
    tests = "".join(p.read_text() for p in (ROOT / "tests").glob(f"test_*{stem}*.py"))
    assert any(f"{engine}({name}" in tests for engine in ("EP", "NUTS") for name in programs)


def test_one_name_is_one_class():
    meanings = {}
    for path, nodes in NODES.items():
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                meanings.setdefault(node.name.strip("_"), set()).add(f"{path}:{node.lineno}")
        for node in TREES[path].body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id.strip("_")
                # `Array` is whichever array a module computes with.
                if name[:1].isupper() and not name.isupper() and name != "Array":
                    meanings.setdefault(name, set()).add(ast.unparse(node.value))
    assert {name: where for name, where in meanings.items() if len(where) > 1} == {}


def test_one_name_is_one_function():
    meanings = {}
    for path, tree in TREES.items():
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                meanings.setdefault(node.name, []).append(str(path))
    twice = {name for name, where in meanings.items() if len(where) > 1}
    assert twice == {"compare"}  # two items by the command, two programs by diagnostics
