"""Results are complete or untouched, whatever fails, and whenever the process is killed."""

import csv
import errno
import fcntl
import io
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from bayesrank import _files
from bayesrank.cli import app, outputs
from bayesrank.cli.outputs import OutputError, PrintError, give_tables, job, output_folder

ROOT = Path(__file__).parents[1]
FILES = ("ranking.csv", "posterior.nc", "pairs.png")


def publish(out, content, files=FILES):
    with output_folder(out, FILES) as folder:
        for name in files:
            (folder / name).write_text(content)


def contents(out):
    return {path.name: path.read_text() for path in out.iterdir() if path.is_file()}


def all_of(content, files=FILES):
    return dict.fromkeys(files, content)


@pytest.fixture(params=["exchanged", "beside a folder", "one at a time"])
def out(request, tmp_path, monkeypatch):
    """A folder of results, and each way of replacing them."""
    out = tmp_path / "out"
    publish(out, "old")
    if request.param == "beside a folder":
        (out / "mine").mkdir()
    if request.param == "one at a time":
        monkeypatch.chdir(out)  # whoever stands in the folder goes on standing in it
    return out


def test_results_are_replaced_and_others_stay(out, tmp_path):
    (out / "notes.txt").write_text("mine")
    (out / "link").symlink_to("notes.txt")
    out.chmod(0o750)
    publish(out, "new", FILES[:2])
    assert contents(out) == {**all_of("new", FILES[:2]), "notes.txt": "mine", "link": "mine"}
    assert out.stat().st_mode & 0o777 == 0o750
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    publish(out, "newer")
    assert {**all_of("newer"), "notes.txt": "mine"}.items() <= contents(out).items()


CALLS = ("fsync", "rename", "replace", "unlink", "link", "chmod", "mkdir")
SPANS = {"one call": 1, "two calls": 2, "all calls from one on": 10**6}


def fail_at(patch, first, span):
    """Let calls of the system number `first` and on fail; return the list that counts them."""
    calls = []

    def failing(real):
        def call(*args, **options):
            calls.append(real.__name__)
            if first <= len(calls) < first + span:
                raise OSError(errno.EIO, "Input/output error")
            return real(*args, **options)

        return call

    real_exchange = outputs.exchange

    def exchange(first, second):
        try:
            return failing(real_exchange)(first, second)
        except OSError:  # as the system's call says it
            return False

    for name in CALLS:
        patch.setattr(os, name, failing(getattr(os, name)))
    patch.setattr(outputs, "exchange", exchange)
    return calls


def whole_or_told(root, places, before, run, span):
    """Each place at which a run can fail: all old, all new, or the message says which is where."""
    ends = set()
    for first in range(1, 200):
        before()
        old = {path: path.exists() and path.read_text().strip() for path in places}
        with pytest.MonkeyPatch.context() as patch:
            calls = fail_at(patch, first, span)
            try:
                run()
                said = ""
            except OutputError as error:
                said = str(error)
        now = {path: path.exists() and path.read_text().strip() for path in places}
        new = dict.fromkeys(places, "new")
        if not said or "the new files are in place" in said:
            assert now == new, (first, calls[first - 2 :], said)
            ends.add("new")
        elif "cannot be written (Input/output error)" in said:
            assert now == old, (first, calls[first - 2 :], said)
            ends.add("old")
        else:  # nothing is away, and what is not in its place is named
            ends.add("told")
            for path in places:
                if now[path] != old[path]:
                    assert f"{path.name}" in said, said
                kept = [
                    p for p in root.rglob("*") if p.is_file() and p.read_text().strip() == "old"
                ]
                assert len(kept) == sum(map(bool, old.values())), said
        if len(calls) < first:
            assert not said
            return first, ends
    raise AssertionError


@pytest.mark.parametrize("span", SPANS.values(), ids=SPANS)
def test_results_are_old_or_new_wherever_the_system_fails(out, span):
    def before():
        for path in out.parent.rglob("*"):
            if path.is_file():
                path.unlink()
        for name in FILES[1:]:  # and one that was not there before
            (out / name).write_text("old")

    places = [out / name for name in FILES]
    points, ends = whole_or_told(out.parent, places, before, lambda: publish(out, "new"), span)
    assert points > 8 and {"old", "new"} <= ends
    one_at_a_time = (out / "mine").exists() or Path.cwd() == out
    assert ("told" in ends) == (one_at_a_time and span > 1)


@pytest.mark.parametrize("span", SPANS.values(), ids=SPANS)
def test_tables_are_old_or_new_wherever_the_system_fails(tmp_path, span):
    places = [tmp_path / name for name in ("a", "b", "c")]

    def before():
        for path in tmp_path.iterdir():
            path.unlink()
        for path in places[:2]:
            path.write_text("old")

    def run():
        give_tables([(path, [["new"]]) for path in places], "give another --out")

    points, ends = whole_or_told(tmp_path, places, before, run, span)
    assert points > 12 and ends == {"old", "new"} | ({"told"} if span > 1 else set())


def test_what_others_have_put_aside_stays(tmp_path):
    """Tables of another name that begins in the same way, one that a process holds, and others."""
    long = "a" * 60
    mine, other = (tmp_path / f"{long}{end}" for end in "xy")
    for path in (mine, other):
        path.write_text("old")
    aside = [path.with_name(f"{_files._aside(path)}0123abcd") for path in (mine, mine, other)]
    aside[1] = aside[1].with_name(aside[1].name[:-1] + "e")
    for path in (*aside, mine.with_name(f"{mine.name}.old-notes")):
        path.write_text("aside")
    with aside[1].open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        give_tables([(mine, [["new"]]), (tmp_path / "b", [["new"]])], "")
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {
        mine.name,
        other.name,
        "b",
        f"{mine.name}.old-notes",
        *(p.name for p in aside[1:]),
    }
    give_tables([(mine, [["new"]])], "")
    assert not aside[1].exists() and aside[2].exists()


def test_a_file_that_comes_in_the_last_moment_stays(tmp_path, monkeypatch):
    out, real = tmp_path / "out", os.link
    publish(out, "old")
    (out / "notes.txt").write_text("mine")

    def link(source, *args, **options):
        real(source, *args, **options)
        (out / "late.txt").write_text("late")

    monkeypatch.setattr(os, "link", link)
    publish(out, "new")
    assert contents(out) == {**all_of("new"), "notes.txt": "mine", "late.txt": "late"}


def test_a_link_to_a_folder_stays_a_link(tmp_path):
    publish(tmp_path / "real", "old")
    (tmp_path / "out").symlink_to("real")
    publish(tmp_path / "out", "new")
    assert (tmp_path / "out").is_symlink() and contents(tmp_path / "real") == all_of("new")


def test_links_that_go_round_and_names_that_are_too_long_are_refused(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OutputError, match="/a: this is a file; give a folder"):
        publish(tmp_path / "a", "new")
    with pytest.raises(OutputError, match="cannot be written .File name too long"):
        publish(tmp_path / ("x" * 300), "new")
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b"}


def test_cells_that_hold_ends_of_lines_are_quoted(tmp_path):
    rows = [
        ["item", "x"],
        ["a\rb", 1.5],
        ["c\nd", 2],
        ['e"f', 3],
        ["g,h", 4],
        ["=1+1", 5],
        ["é", 6],
    ]
    give_tables([(tmp_path / "t.csv", rows)], "")
    raw = (tmp_path / "t.csv").read_bytes()
    assert raw.startswith(b'item,x\n"a\rb",1.5\n"c\nd",2\n"e""f",3\n"g,h",4\n=1+1,5\n')
    with (tmp_path / "t.csv").open(newline="", encoding="utf-8") as file:
        assert list(csv.reader(file)) == [[str(cell) for cell in row] for row in rows]


def test_two_tables_are_never_of_two_runs_wherever_the_process_dies(tmp_path):
    """The process ends before each thing that it asks of the disk; the exit tells the last."""
    code = f"""
        import os, sys
        from pathlib import Path
        from bayesrank.cli.outputs import give_tables
        left = 0
        def hook(event, args):
            global left
            if event.startswith(("open", "os.", "shutil.")):
                left -= 1
                if left == 0:
                    os._exit(9)
        sys.addaudithook(hook)
        root, died, seen = Path({str(tmp_path)!r}), 9, set()
        for point in range(1, 1000):
            for name in "ab":
                (root / name).write_text("old")
            child = os.fork()
            if not child:
                left = point
                give_tables([(root / name, [["new"]]) for name in "ab"], "")
                os._exit(0)
            died = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            there = [(root / name).read_text().strip() for name in "ab" if (root / name).exists()]
            seen.add("+".join(there))
            if died == 0:
                break
            assert died == 9
        print(point, ",".join(sorted(seen)))
        print(*sorted(path.name for path in root.iterdir()))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60,
        check=True,
    )  # fmt: skip
    (points, seen), left = map(str.split, done.stdout.splitlines())
    assert int(points) > 10 and seen == ",new,new+new,old,old+old"
    # The last removed the drafts of those that died, and the tables that had stepped aside.
    assert left == ["a", "b"]


def test_a_closed_standard_output_is_said_and_closed_others_do_no_harm(tmp_path):
    """Else the first file that is opened would be taken for it."""

    def run(closed):
        call = f'"{sys.executable}" -m bayesrank --version {closed}'
        return subprocess.run(call, shell=True, capture_output=True, text=True)

    done = run(">&-")
    assert done.returncode == 2
    assert done.stderr == "Error: standard output is closed; send it to a file or to /dev/null.\n"
    done = run("<&- 2>&-")
    assert done.returncode == 0 and done.stdout.startswith("bayesrank")


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [
        (errno.ENOSPC, 2, "The output cannot be written (No space left on device)."),
        (errno.EPIPE, 1, "The output was not read to its end; nothing was written."),
    ],
)
def test_what_cannot_be_printed_is_not_laid_on_the_results(
    tmp_path, monkeypatch, capsys, number, code, said
):
    class Full(io.StringIO):
        def flush(self):
            if self.getvalue():
                raise OSError(number, os.strerror(number))

    monkeypatch.setattr(app, "kept", lambda: "nothing was written")
    monkeypatch.setattr(sys, "stdout", Full())
    with pytest.raises(PrintError) as lost, job(tmp_path / "out", FILES, (), quiet=True) as run:
        run.show("a table")
    with pytest.raises(SystemExit, match=str(code)):
        app._refuse(lost.value)
    sys.stdout.close()
    assert capsys.readouterr().err == f"Error: {said}\n"
    assert not list(tmp_path.iterdir())
