"""Who may import whom: the floors of the house, read off the syntax trees. Nothing is exempt."""

import ast
import itertools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HOUSE = ROOT / "bayesrank"
FLOORS = (
    {
        *("_arviz", "_files", "_process", "_memory", "_names", "_rating_checks", "_stack"),
        *("_sizes", "_states", "_tables", "_validate", "_version"),
    },
    {"datasets", "distributions", "gp", "metrics", "ranking"},
    {"bounds", "infer", "models", "online", "retrieval"},
    {"inferencedata", "solvers"},
    {"active", "diagnostics"},
    {"estimators", "plots"},
    {"cli"},
    {"__init__", "__main__"},
)
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}


TREES = {path: ast.parse(path.read_text()) for path in sorted(HOUSE.rglob("*.py"))}


def tree_of(path):
    """The syntax tree of a file, which no single test pays for."""
    return TREES.get(path) or ast.parse(path.read_text())


def imports(path):
    """Full dotted names of all imports, those in functions and under TYPE_CHECKING included."""
    package = path.relative_to(ROOT).parts[:-1]
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = [*above, *(node.module.split(".") if node.module else ())]
            yield from ((node.lineno, [*base, alias.name]) for alias in node.names)


def wrong_imports(path):
    home = path.relative_to(HOUSE).with_suffix("").parts[0]
    for line, (top, *rest) in imports(path):
        if top != "bayesrank" or rest[:1] == [home]:
            continue
        where = f"{path.relative_to(ROOT)}:{line} imports {'.'.join([top, *rest])}"
        if not rest or rest[0] not in FLOOR:
            yield f"{where}, which is no room"
        elif FLOOR[rest[0]] >= max(FLOOR[home], 1):
            yield f"{where}, which is not below"
        elif any(part.startswith("_") and not part.endswith("__") for part in rest[1:]):
            yield f"{where}, which is private to its room"


def test_imports_go_down_to_public_names():
    files = sorted(HOUSE.rglob("*.py"))
    assert {file.relative_to(HOUSE).with_suffix("").parts[0] for file in files} <= FLOOR.keys()
    assert list(itertools.chain.from_iterable(map(wrong_imports, files))) == []


def test_other_rooms_take_the_engine_through_its_doors():
    doors = _offered_by("__init__"), _offered_by("spi")
    wrong = []
    for path in sorted(HOUSE.rglob("*.py")):
        if path.relative_to(HOUSE).parts[0] != "infer":
            for line, name in imports(path):
                names = [set(), *doors][len(name) - 2] if name[2:-1] in ([], ["spi"]) else set()
                if name[:2] == ["bayesrank", "infer"] and name[-1] not in names:
                    wrong.append(f"{path.relative_to(ROOT)}:{line} imports {'.'.join(name)}")
    assert wrong == []


def test_priors_and_results_are_asked_and_not_told_apart_by_class():
    kinds = {
        node.name
        for path in (HOUSE / "infer").rglob("*.py")
        for node in tree_of(path).body
        if isinstance(node, ast.ClassDef) and node.name.endswith(("Prior", "Posterior", "Result"))
    }
    asked = (
        (path.relative_to(ROOT), node.lineno, ast.unparse(node.args[1]))
        for path in sorted(HOUSE.rglob("*.py"))
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass")
    )
    assert [each for each in asked if kinds & set(re.findall(r"\w+", each[-1]))] == []


def _offered_by(module):
    """Names that a module takes from others to pass on, ``from a import b as b``."""
    tree = tree_of(HOUSE / "infer" / f"{module}.py")
    taken = (
        alias for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names
    )
    return {alias.name for alias in taken if alias.asname == alias.name}


def stems():
    return sorted(
        path.stem for path in (HOUSE / "solvers").iterdir() if not path.stem.startswith("_")
    )


@pytest.mark.parametrize("stem", stems())
def test_a_solver_has_its_program_and_a_test_of_that_program_by_an_engine(stem):
    assert (HOUSE / "models" / f"{stem}.py").is_file()
    programs = {
        node.name
        for node in tree_of(HOUSE / "models" / f"{stem}.py").body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    }
    tests = [path.read_text() for path in (ROOT / "tests").glob(f"test_*{stem}*.py")]
    assert any(
        f"{engine}({program}" in text
        for text in tests
        for engine in ("EP", "NUTS")
        for program in programs
    ), f"no tests/test_{stem}*.py runs EP or NUTS on a program of models/{stem}.py"


def names_of_types():
    """Where each class and each alias of a type is defined: its name, and what it stands for."""
    for path in sorted(HOUSE.rglob("*.py")):
        where = path.relative_to(ROOT)
        tree = tree_of(path)
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                yield node.name, f"{where}:{node.lineno}"
        for node in tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                # `Array` is whichever array a module computes with.
                if name.strip("_")[:1].isupper() and not name.isupper() and name != "Array":
                    yield name, ast.unparse(node.value)


def test_one_name_is_one_class():
    meanings = {}
    for name, meaning in names_of_types():
        meanings.setdefault(name.strip("_"), set()).add(meaning)
    assert {name: where for name, where in meanings.items() if len(where) > 1} == {}


def longest_bodies(path):
    """Functions of a file, and how many lines of code their bodies have, docstrings left out."""
    source = path.read_text().splitlines()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines = set(range(node.body[0].lineno, (node.end_lineno or 0) + 1))
            for inner in ast.walk(node):
                if isinstance(inner, ast.Expr) and isinstance(inner.value, ast.Constant):
                    lines -= set(range(inner.lineno, (inner.end_lineno or 0) + 1))
            code = [text for line in lines if (text := source[line - 1].strip())]
            yield node.name, sum(not text.startswith("#") for text in code)


def test_no_function_needs_a_second_screen():
    bodies = (
        (f"{path.relative_to(ROOT)}: {name}", length)
        for path in sorted(HOUSE.rglob("*.py"))
        for name, length in longest_bodies(path)
    )
    assert [each for each in bodies if each[1] > 40] == []
