"""The package as installed: version, lazy names, what is imported when, the `models` link."""

import importlib
import subprocess
import sys
import textwrap
from importlib import metadata
from pathlib import Path

import pytest

import bayesrank
from bayesrank import estimators

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "bayesrank"


def test_version_is_that_of_the_metadata():
    try:
        expected = metadata.version("bayesrank")
    except metadata.PackageNotFoundError:
        expected = "0+unknown"
    assert bayesrank.__version__ == expected


@pytest.mark.parametrize("room", [bayesrank, estimators])
def test_every_exported_name_resolves(room):
    for name in room.__all__:
        assert name == "__version__" or getattr(room, name).__name__ == name
        assert name in dir(room)


@pytest.mark.parametrize("room", [bayesrank, estimators])
def test_unknown_attribute_is_an_attribute_error(room):
    with pytest.raises(AttributeError, match="no attribute 'nothing_of_the_kind'"):
        _ = room.nothing_of_the_kind


@pytest.mark.slow
def test_a_ranking_does_not_wait_for_other_estimators():
    code = """
        import sys
        from bayesrank import Ranker
        print(*(m for m in sys.modules if m.startswith("bayesrank.solvers.")))
    """
    found = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    ).stdout.split()
    rooms = {name.split(".")[2] for name in found}
    assert "comparisons" in rooms
    assert rooms.isdisjoint({"collaborative", "cone_rank", "lambda_rank", "link_learn", "rank_rls"})


def test_help_of_every_command_loads_click_alone():
    """`--help` has to answer at once, and no global state may change at import."""
    code = """
        import contextlib, io, sys
        import bayesrank
        from bayesrank.cli import main
        from bayesrank.cli.app import cli
        with contextlib.redirect_stdout(io.StringIO()) as out:
            for name in ("", *cli.list_commands(None)):
                with contextlib.suppress(SystemExit):
                    main([name, "--help"] if name else ["--help"])
        print(out.getvalue().count("Usage: "), [m for m in HEAVY if m in sys.modules])
    """
    heavy = "('numpy', 'pandas', 'scipy', 'jax', 'numpyro', 'matplotlib', 'arviz', 'rich')"
    code = textwrap.dedent(code).replace("HEAVY", heavy)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "8 []"


def test_models_link_leads_into_the_package():
    link = ROOT / "models"
    if link.is_symlink():
        assert link.resolve() == PACKAGE / "models"
    else:  # a checkout without links keeps the target as text
        assert link.read_text(encoding="utf-8").strip() == "bayesrank/models"


def test_programs_are_not_named_like_their_file():
    for path in (PACKAGE / "models").glob("[!_]*.py"):
        module = importlib.import_module(f"bayesrank.models.{path.stem}")
        assert not hasattr(module, path.stem), f"{path.stem} names both a program and its file"
