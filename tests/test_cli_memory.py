"""Data that will not fit into memory are refused once they are read, with numbers and fix."""

import re
import resource
from pathlib import Path

import pytest
from cli_run import run

from bayesrank import _memory
from bayesrank.cli import pipeline, rate
from bayesrank.datasets import table
from bayesrank.infer import compiled


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = [f"i{k}" for k in range(300)]
    Path("c.csv").write_text("winner,loser\n" + "".join(f"{n},i0\n" for n in names[1:]))
    Path("i.csv").write_text("item,x\n" + "".join(f"{n},{k}\n" for k, n in enumerate(names)))
    rows = [f"u{k},{n},{1 + k % 2}\n" for k, n in enumerate(names)]
    Path("r.csv").write_text("user,item,rating\n" + "".join(rows))


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ("rank c.csv", "300 items and 299 comparisons take 13.8 MiB of memory, and 977 "
         "KiB are free; rank fewer items"),
        ("rate r.csv", "300 users and 300 items take 9.01 MiB of memory, .*; leave out"),
    ],
)  # fmt: skip
def test_numbers_and_fix(args, said, monkeypatch, capsys):
    monkeypatch.setattr(_memory, "available", lambda: 10**6)
    assert run(*args.split()) == 2
    *_, error = capsys.readouterr().err.splitlines()
    assert re.search(said, error), error
    assert not Path("bayesrank-out").exists()


@pytest.mark.parametrize(
    ("args", "need"),
    [
        ("rank c.csv", "3.5 GiB"),
        ("predict . c.csv", "2 GiB"),
        ("ask c.csv", "2 GiB"),
    ],
)
def test_there_is_no_room_to_start(args, need, monkeypatch, capsys):
    monkeypatch.setattr(_memory.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(_memory, "_most", lambda: 5 * 10**8)
    assert run(*args.split()) == 2
    said = f"may use 477 MiB of address space, and the command takes {need} at the least"
    assert said in capsys.readouterr().err


def test_a_file_whose_text_will_not_fit(monkeypatch, capsys):
    monkeypatch.setattr(_memory, "available", lambda: 977)
    assert run("rank", "c.csv") == 2
    said = r"c.csv: its text and its cells take .* KiB of memory, and 977 B are free; divide it"
    assert re.search(said, capsys.readouterr().err)


def test_where_the_system_does_not_say_nothing_is_refused(monkeypatch):
    monkeypatch.setattr(_memory, "available", lambda: None)
    _memory.check_memory(10**18, "all", "less")
    assert table.read_table("i.csv").header == ("item", "x")


def test_the_least_of_all_limits_counts(monkeypatch):
    real = _memory.available()
    assert real is not None and real > 2**20
    files = {
        "/proc/meminfo": ["MemTotal: 9 kB", "MemAvailable:    5000 kB"],
        "/sys/fs/cgroup/memory.max": ["4000000"],
        "/sys/fs/cgroup/memory.current": ["1000000"],
        "/proc/self/statm": ["100 1 1"],
    }
    monkeypatch.setattr(_memory, "_lines", lambda path: files.get(path, []))
    assert _memory.available() == 3_000_000
    files["/sys/fs/cgroup/memory.max"] = ["max"]
    assert _memory.available() == 5_120_000
    monkeypatch.setattr(resource, "getrlimit", lambda which: (2_000_000, -1))
    page = _memory.os.sysconf("SC_PAGE_SIZE")
    assert _memory.available() == 2_000_000 - 100 * page
    files.clear()
    monkeypatch.setattr(_memory.os, "sysconf", lambda name: 1000)
    assert _memory.available() == 1_000_000
    monkeypatch.setattr(_memory.os, "sysconf", lambda name: (_ for _ in ()).throw(ValueError))
    assert _memory.available() is None


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), ""),
        (MemoryError("of 9 GiB"), " (of 9 GiB)"),
        (ImportError("x.so: failed to map segment"), " (x.so: failed to map segment)"),
    ],
)
def test_memory_that_runs_out_all_the_same_is_said(monkeypatch, capsys, error, said):
    def fail(*args, **options):
        raise error

    monkeypatch.setattr(rate, "read_ratings", fail)
    assert run("rate", "r.csv") == 2
    wanted = f"Error: Memory ran out{said}; nothing was written. Give less data.\n"
    assert capsys.readouterr().err == wanted


def test_what_the_fit_asks_for_is_refused_in_one_line(monkeypatch, capsys):
    monkeypatch.setattr(compiled, "available", lambda: 10**6)
    assert run("rank", "c.csv") == 2
    error = capsys.readouterr().err
    assert error.count("Error: ") == 1 and error.splitlines()[-1].startswith("Error: ")
    assert "300 x 300 numbers), and 977 KiB are free; give it fewer latents" in error
    assert not Path("bayesrank-out").exists()


def test_a_ranking_of_very_many_items_takes_fewer_draws():
    found = [pipeline.num_draws(n) for n in (2, 10_000, 20_000, 10**6)]
    assert found == [2000, 2000, 1000, 200]
