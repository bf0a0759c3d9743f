"""Files that are complete or untouched: links, kills, other hands, two at once."""

import os
import re
import signal
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from bayesrank import _files
from bayesrank._files import draft_folder, published, remove_stale

ROOT = Path(__file__).parents[1]


def python(code, *args):
    """A process that has the module and nothing heavy."""
    program = "import os, sys, time\nfrom bayesrank._files import *\n" + textwrap.dedent(code)
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, args)], stdout=subprocess.PIPE, text=True
    )


def started(process):
    assert process.stdout.readline() == "ready\n"
    return process


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


def kill(process):
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_a_file_is_published_whole_and_synced(tmp_path, monkeypatch):
    synced, real = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (synced.append(handle), real(handle)))
    path = tmp_path / "state"
    path.write_bytes(b"old")
    with published(path) as file:
        file.write(b"new")
        (draft,) = [name for name in names(tmp_path) if name != "state"]
        assert re.fullmatch(r"\.bayesrank-[0-9a-f]{16}", draft)
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new" and names(tmp_path) == ["state"]
    assert len(synced) == 2  # the file, and its name
    assert path.stat().st_mode & 0o777 == _files.ordinary_mode(0o666)


def test_what_fails_leaves_the_old_file(tmp_path):
    path = tmp_path / "state"
    path.write_bytes(b"old")
    for error in (RuntimeError, KeyboardInterrupt):
        with pytest.raises(error), published(path) as file:
            file.write(b"new")
            raise error
    with pytest.raises(FileNotFoundError, match="none/state"), published(tmp_path / "none/state"):
        pass
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError, match="folder"), published(tmp_path / "folder"):
        pass
    assert path.read_bytes() == b"old" and names(tmp_path) == ["folder", "state"]


def test_a_draft_is_never_opened_through_a_link_or_an_existing_file(tmp_path, monkeypatch):
    """Whoever foresees the name gains nothing: the file they point at is not written to."""
    target = tmp_path / "precious"
    target.write_bytes(b"precious")
    (tmp_path / f".bayesrank-{'0' * 16}").symlink_to(target)
    monkeypatch.setattr(_files.os, "urandom", lambda size: bytes(size))
    with pytest.raises(FileExistsError), published(tmp_path / "state") as file:
        file.write(b"new")
    assert target.read_bytes() == b"precious"
    with pytest.raises(FileExistsError), draft_folder(tmp_path):
        pass


def test_what_a_killed_process_left_is_removed_and_what_is_in_use_is_not(tmp_path):
    code = """
        with draft_folder(__import__("pathlib").Path(sys.argv[1])) as folder:
            (folder / "half").write_text("half")
            with published(sys.argv[1] + "/state") as file:
                print("ready", flush=True)
                time.sleep(60)
    """
    first, second = started(python(code, tmp_path)), started(python(code, tmp_path))
    assert len(names(tmp_path)) == 4
    kill(first)
    (tmp_path / ".bayesrank-notes").write_text("not a draft")
    remove_stale(tmp_path)
    assert len(names(tmp_path)) == 3 and ".bayesrank-notes" in names(tmp_path)
    kill(second)
    with published(tmp_path / "state") as file:
        file.write(b"whole")
    assert names(tmp_path) == [".bayesrank-notes", "state"]


def test_a_draft_that_is_taken_for_stale_is_begun_again(tmp_path, monkeypatch):
    """Between its making and its locking another process may have removed it."""
    real, taken = _files.fcntl.flock, []

    def flock(handle, operation):
        if not taken:
            taken.extend(tmp_path.iterdir())
            for draft in taken:
                draft.rmdir() if draft.is_dir() else draft.unlink()
        real(handle, operation)

    monkeypatch.setattr(_files.fcntl, "flock", flock)
    with published(tmp_path / "state") as file:
        file.write(b"whole")
    assert len(taken) == 1 and names(tmp_path) == ["state"]
    taken.clear()
    with draft_folder(tmp_path / ".") as folder:
        assert folder.is_dir()


def test_a_system_without_locks_writes_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(_files, "fcntl", None)
    (tmp_path / f".bayesrank-{'0' * 16}").write_text("stays")
    with published(tmp_path / "state") as file:
        file.write(b"whole")
    with draft_folder(tmp_path) as folder:
        assert folder.is_dir()
    assert names(tmp_path) == [f".bayesrank-{'0' * 16}", "state"]


def test_what_is_no_regular_file_is_written_to_and_never_replaced(tmp_path):
    def publish(path):
        with published(path) as file:
            file.write(b"new")

    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    publish(tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_text() == "new"
    (tmp_path / "null").symlink_to(os.devnull)
    publish(tmp_path / "null")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode) and (tmp_path / "null").is_symlink()
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    publish(tmp_path / "pipe")
    assert os.read(reader, 10) == b"new" and stat.S_ISFIFO(os.stat(tmp_path / "pipe").st_mode)
    os.close(reader)
    with pytest.raises(IsADirectoryError):
        publish(tmp_path)
    (tmp_path / "stdout").symlink_to("/dev/stdout")
    process = python(
        "with published(sys.argv[1]) as file: file.write(b'ready')", tmp_path / "stdout"
    )
    assert process.communicate()[0] == "ready" and (tmp_path / "stdout").is_symlink()
    assert names(tmp_path) == ["link", "null", "pipe", "real", "stdout"]


def test_links_that_go_round_are_no_place_for_a_file(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links.*/a'$"), published(tmp_path / "a") as file:
        file.write(b"new")
    assert (tmp_path / "a").is_symlink() and len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(
    ("flock", "said"),
    [
        ("raise OSError(errno.ENOLCK, 'No locks available')", ": No locks available"),
        ("raise BlockingIOError(errno.EAGAIN, 'Try again')", ""),
        ("os.rmdir(newest()) if os.path.isdir(newest()) else os.unlink(newest())", ""),
    ],
    ids=["refused", "taken for ever", "always removed"],
)
def test_without_working_locks_a_command_ends_with_one_line(tmp_path, flock, said):
    """The file system of a network drive may have no locks, or such as lie."""
    (tmp_path / "sitecustomize.py").write_text(
        "import errno, fcntl, glob, os\n"
        "newest = lambda: max(glob.glob('.bayesrank-*'), key=os.path.getctime)\n"
        f"def flock(handle, operation):\n    {flock}\n"
        "fcntl.flock = flock\n"
    )
    code = """
        from pathlib import Path
        from bayesrank.cli.app import _refuse
        from bayesrank.cli.outputs import give_tables, output_folder
        def run(table):
            if table:
                return give_tables([(Path("t.csv"), [["new"]])], "give another --out")
            with output_folder(Path("out"), ["a"]):
                raise AssertionError
        for table in range(2):
            try:
                run(table)
            except Exception as error:
                try:
                    _refuse(error)
                except SystemExit as end:
                    assert end.code == 2
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], cwd=tmp_path, timeout=60,
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"},
    )  # fmt: skip
    why = f"cannot be written (file locks do not work here{said});"
    assert done.stderr.splitlines() == [
        f"Error: out: the results {why} use another --out",
        f"Error: t.csv: {why} give another --out",
    ]
    assert names(tmp_path) == ["sitecustomize.py"]
