"""The command line finds the code again that an earlier run compiled."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from bayesrank.cli import compiled

CACHE = "JAX_COMPILATION_CACHE_DIR"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(os, "environ", dict(os.environ))
    os.environ.pop(CACHE, None)
    return compiled._folder()


def test_code_of_this_version_stays_and_that_of_others_goes(folder, monkeypatch):
    folder.mkdir(parents=True)
    (folder / "code").write_bytes(b"1")
    (folder.parent / "0.0").mkdir()
    compiled.reuse_compiled_code()
    assert os.environ[CACHE] == str(folder)
    assert [each.name for each in folder.parent.iterdir()] == [folder.name]
    assert (folder / "code").exists()
    del os.environ[CACHE]
    monkeypatch.setattr(compiled, "_LARGEST", 0)
    compiled.reuse_compiled_code()
    assert os.environ[CACHE] == str(folder)
    assert not list(folder.iterdir())


def test_a_folder_that_the_user_names_is_left_alone(folder):
    os.environ[CACHE] = "elsewhere"
    compiled.reuse_compiled_code()
    assert os.environ[CACHE] == "elsewhere"
    assert not folder.exists()
    assert not compiled.forgets_damaged_code("Error reading persistent compilation cache entry")


def test_without_a_folder_each_run_compiles(folder, tmp_path):
    (tmp_path / "bayesrank").write_text("a file where the folder would be")
    compiled.reuse_compiled_code()
    assert CACHE not in os.environ


@pytest.mark.slow
def test_runs_find_code_again_and_damaged_code_is_replaced(folder, tmp_path):
    (tmp_path / "three.csv").write_text("winner,loser\na,b\nb,c\nc,a\n")
    command = [sys.executable, "-m", "bayesrank", "rank", "three.csv", "--crosscheck", "none"]

    def run():
        done = subprocess.run(
            [*command, "--quiet"], cwd=tmp_path, env=os.environ, capture_output=True, text=True
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    first = run()
    programs = {file.name for file in folder.iterdir()}
    assert len(programs) <= 40  # a count of compilations: each costs its start-up time
    assert run() == first
    assert {file.name for file in folder.iterdir()} == programs
    for file in folder.iterdir():
        file.write_bytes(file.read_bytes()[:-20])
    with ThreadPoolExecutor(2) as both:  # either may remove what the other is writing
        assert [*both.map(lambda _: run(), range(2))] == [first] * 2
    run()
    assert {file.name for file in folder.iterdir()} == programs


def test_alarms_of_the_compiler_are_kept_off_the_terminal(monkeypatch):
    """XLA prints them from level 2 on down, and those of folded constants after a second."""
    monkeypatch.setattr(os, "environ", {})
    compiled.silence_compiler()
    assert os.environ == {"TF_CPP_MIN_LOG_LEVEL": "3"}
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "0"
    compiled.silence_compiler()
    assert os.environ == {"TF_CPP_MIN_LOG_LEVEL": "0"}
