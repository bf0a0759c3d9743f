"""No answer is lost: real processes killed, files cut at every byte, disks that are full."""

import json
import os
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from refusals import refused

from bayesrank.active import QueryLoop, store
from bayesrank.active.store import Journal, JournalError, read_journal, sealed

HEADER = {"items": 3, "names": "a", "features": None}


def answer(k):
    return {
        "event": "answer",
        "winner": k % 3,
        "loser": (k + 1) % 3,
        "labels": ["é", "\u2028\n\udc80"],
    }


def write(path, count):
    with Journal(path, HEADER) as journal:
        for k in range(count):
            journal.append(answer(k))


def winners(records):
    return [record["winner"] for record in records]


def python(code, *args, **options):
    """A process that has the journal and nothing heavy: not what its package imports besides."""
    start = f"""
        import sys, types
        package = types.ModuleType("bayesrank.active")
        package.__path__ = [{str(Path(store.__file__).parent)!r}]
        sys.modules["bayesrank.active"] = package
        from bayesrank.active import store as journal
        HEADER = {HEADER!r}
    """
    program = textwrap.dedent(start) + textwrap.dedent(code)
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, args)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def test_what_is_written_is_read_and_goes_on(tmp_path):
    path = tmp_path / "a.jsonl"
    write(path, 3)
    with Journal(path, HEADER) as journal:
        assert winners(journal.records) == [0, 1, 2] and journal.torn == b""
        journal.append(answer(3))
    contents = read_journal(path)
    assert [record["n"] for record in contents.records] == [1, 2, 3, 4]
    assert contents.header["items"] == 3
    assert contents.records[0]["labels"] == answer(0)["labels"]
    assert all(json.loads(line)["crc"] for line in path.read_text("utf-8").split("\n")[:-1])


def test_cut_at_every_byte_of_the_last_record(tmp_path):
    path = tmp_path / "a.jsonl"
    write(path, 2)
    before = path.stat().st_size
    write(path, 0)
    with Journal(path, HEADER) as journal:
        journal.append(answer(2))
    whole = path.read_bytes()
    for cut in range(before, len(whole) - 1):
        path.write_bytes(whole[:cut])
        assert winners(read_journal(path).records) == [0, 1]
        assert path.stat().st_size == cut  # reading changes nothing
        with Journal(path, HEADER) as journal:
            assert winners(journal.records) == [0, 1]
            assert journal.torn == whole[before:cut]
            journal.append(answer(2))
        assert path.read_bytes() == whole
    with Journal(path, HEADER) as journal:
        assert winners(journal.records) == [0, 1, 2]


def test_a_last_record_that_lost_only_its_end_is_whole(tmp_path):
    path = tmp_path / "a.jsonl"
    write(path, 3)
    whole = path.read_bytes()
    for raw in (whole[:-1], whole[: whole.index(b"\n")]):
        path.write_bytes(raw)
        known = read_journal(path)
        assert known.torn == b"" and path.read_bytes() == raw
        with Journal(path, HEADER) as journal:
            assert journal.records == known.records and journal.torn == b""
            assert path.read_bytes() == raw + b"\n"
            for k in range(len(journal), 4):
                journal.append(answer(k))
        assert winners(read_journal(path).records) == [0, 1, 2, 0]
        assert path.read_bytes().startswith(whole)


def test_a_missing_end_that_cannot_be_mended_is_said(tmp_path):
    path = tmp_path / "a.jsonl"
    write(path, 1)
    path.write_bytes(path.read_bytes()[:-1])
    code = """
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))
        try:
            journal.Journal(sys.argv[1], HEADER)
        except journal.JournalError as error:
            print(error)
    """
    out, err = python(code, path).communicate()
    assert "the journal cannot be repaired (File too large)" in out and err == ""
    assert winners(read_journal(path).records) == [0]


def test_cut_at_every_byte_of_the_first_line(tmp_path):
    path = tmp_path / "a.jsonl"
    write(path, 0)
    whole = path.read_bytes()
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        write(path, 0)
        assert path.read_bytes() == whole


@pytest.mark.parametrize("tail", [b"\0" * 40, b'{"n":3,"event":"answer"}\n', b"\xff\n"])
def test_a_last_line_of_rubbish_is_dropped(tmp_path, tail):
    path = tmp_path / "a.jsonl"
    write(path, 2)
    with path.open("ab") as file:
        file.write(tail)
    with Journal(path, HEADER) as journal:
        assert winners(journal.records) == [0, 1] and journal.torn == tail


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda x: [*x, x[3]], "line 5 repeats the line above it.*remove line 5, and nothing is"),
        (lambda x: [*x[:3], x[2], x[3]], "line 4 repeats the line above it"),
        (lambda x: [*x[:2], x[3]], "line 3, the last, is whole but does not follow the line above"),
        (lambda x: [x[0], x[1].replace(b'"winner":0', b'"winner":2'), *x[2:]], "line 2 is damaged"),
        (lambda x: [x[0], *x[2:]], "line 2 is damaged"),
        (lambda x: [x[0], x[2], x[1], x[3]], "line 2 is damaged"),
        (lambda x: [line.replace(b"\n", b"\r\n") for line in x], "the first line of this journal"),
        (lambda x: [b"\xef\xbb\xbf", *x], "the first line of this journal is damaged, or"),
        (lambda x: [x[0].replace(b'"items":3', b'"items":4'), *x[1:]], "the first line of this"),
        (lambda _: [b"item,price\nTea,2\n"], "not a journal"),
        (lambda _: [b"[1"], "not a journal"),
        (lambda _: [b'{"bayesrank":"journal"}\n'], "not a journal"),
        (lambda _: [b"\n\n"], "not a journal"),
    ],
)
def test_what_is_damaged_or_no_journal_is_named_and_left_alone(tmp_path, damage, message):
    path = tmp_path / "a.jsonl"
    write(path, 3)
    raw = b"".join(damage(path.read_bytes().splitlines(keepends=True)))
    path.write_bytes(raw)
    refused(message, Journal, path, HEADER, kind=JournalError)
    assert path.read_bytes() == raw


def test_other_items_are_refused(tmp_path):
    path = tmp_path / "a.jsonl"
    write(path, 1)
    with pytest.raises(JournalError, match=r"other items \(not the same names\)"):
        Journal(path, {**HEADER, "names": "b"})
    raw = path.read_bytes().replace(b'"version":2', b'"version":9')
    header = json.loads(raw.split(b"\n")[0])
    del header["crc"]
    path.write_bytes(sealed(header))
    refused("version 9, and this program reads version 2", Journal, path, HEADER, kind=JournalError)


def test_a_second_process_is_refused_until_the_first_is_gone(tmp_path):
    path = tmp_path / "a.jsonl"
    child = python("log = journal.Journal(sys.argv[1], HEADER); print('open', flush=True); input()",
                   path, stdin=subprocess.PIPE)  # fmt: skip
    assert child.stdout is not None and child.stdout.readline() == "open\n"
    with pytest.raises(JournalError, match=r"a\.jsonl: this journal is open in another process"):
        Journal(path, HEADER)
    child.kill()
    child.communicate()
    with Journal(path, HEADER) as journal:
        refused("twice in this one", Journal, path, HEADER, kind=JournalError)
        journal.append(answer(0))
    assert len(read_journal(path).records) == 1


def test_many_processes_never_interleave(tmp_path):
    code = """
        while True:
            try:
                with journal.Journal(sys.argv[1], HEADER) as log:
                    for _ in range(5):
                        log.append({"event": "answer", "winner": int(sys.argv[2]), "loser": 1})
                break
            except journal.JournalError as error:
                assert "another process" in str(error), error
    """
    path = tmp_path / "a.jsonl"
    children = [python(code, path, number) for number in range(4)]
    for child in children:
        assert child.communicate()[1] == ""
    who = winners(read_journal(path).records)
    assert len(who) == 20 and all(len(set(who[k : k + 5])) == 1 for k in range(0, 20, 5))


def test_a_full_disk_loses_nothing_and_says_so(tmp_path):
    """A limit on the size of files cuts a write in two, as a full disk does."""
    code = """
        import resource
        log = journal.Journal(sys.argv[1], HEADER)
        log.append({"event": "answer", "winner": 0, "loser": 1})
        size = log._size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, resource.RLIM_INFINITY))
        for _ in range(2):
            try:
                log.append({"event": "answer", "winner": 1, "loser": 1})
            except journal.JournalError as error:
                print(error)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        log.append({"event": "answer", "winner": 2, "loser": 1})
    """
    path = tmp_path / "a.jsonl"
    out, err = python(code, path).communicate()
    assert err == ""
    assert out.count("the journal cannot be written (File too large); this answer is not") == 2
    assert winners(read_journal(path).records) == [0, 2]


def test_a_sync_that_fails_takes_the_answer_back(tmp_path, monkeypatch):
    path = tmp_path / "a.jsonl"
    with Journal(path, HEADER) as journal:
        journal.append(answer(0))

        def fail(file):
            raise OSError(5, "Input/output error")

        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", fail)
            refused("Input/output error", journal.append, answer(1), kind=JournalError)
        assert winners(journal.records) == winners(read_journal(path).records) == [0]
        # Not even taking back could be synced: nothing is written until it is opened again.
        refused("open the journal again", journal.append, answer(1), kind=JournalError)
    write(path, 1)
    assert winners(read_journal(path).records) == [0, 0]


def test_an_interrupt_in_the_middle_takes_the_answer_back(tmp_path, monkeypatch):
    path = tmp_path / "a.jsonl"
    real = os.write

    def interrupted(file, line):
        real(file, line[:30])
        raise KeyboardInterrupt

    with Journal(path, HEADER) as journal:
        with monkeypatch.context() as patched:
            patched.setattr(os, "write", interrupted)
            with pytest.raises(KeyboardInterrupt):
                journal.append(answer(0))
        assert journal.records == [] and read_journal(path).torn == b""
        journal.append(answer(1))
    assert winners(read_journal(path).records) == [1]


def test_a_file_changed_by_another_hand_is_not_written_to(tmp_path):
    path = tmp_path / "a.jsonl"
    with Journal(path, HEADER) as journal:
        with path.open("ab") as file:
            file.write(b"note\n")
        refused("something else wrote", journal.append, answer(0), kind=JournalError)
    write(path, 1)
    with Journal(path, HEADER) as journal:
        path.rename(tmp_path / "b.jsonl")
        refused("moved or deleted", journal.append, answer(0), kind=JournalError)
    with Journal(path, HEADER) as journal:
        (tmp_path / "c").write_bytes(path.read_bytes())
        (tmp_path / "c").rename(path)
        refused("replaced", journal.append, answer(0), kind=JournalError)


def test_what_cannot_be_a_journal(tmp_path, monkeypatch):
    with pytest.raises(JournalError, match="cannot be opened"):
        Journal(tmp_path / "missing" / "a.jsonl", HEADER)
    refused("cannot be opened", Journal, tmp_path, HEADER, kind=JournalError)
    refused("not a file", Journal, "/dev/null", HEADER, kind=JournalError)
    refused("cannot be read", read_journal, tmp_path / "missing", kind=JournalError)

    def read_only(*args):
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", read_only)
        with pytest.raises(JournalError, match=r"cannot be opened \(Permission denied\)"):
            Journal(tmp_path / "a.jsonl", HEADER)
    monkeypatch.setattr(store, "fcntl", None)
    refused("WSL", Journal, tmp_path / "a.jsonl", HEADER, kind=JournalError)


def test_closed_or_forked_is_refused(tmp_path, monkeypatch):
    journal = Journal(tmp_path / "a.jsonl", HEADER)
    with monkeypatch.context() as patched:
        patched.setattr(os, "getpid", lambda: -1)
        refused("forked", journal.append, answer(0), kind=JournalError)
    journal.close()
    journal.close()
    refused("is closed", journal.append, answer(0), kind=JournalError)


def test_a_new_journal_and_each_record_are_synced(tmp_path, monkeypatch):
    synced, real = [], os.fsync

    def fsync(file):
        synced.append("folder" if stat.S_ISDIR(os.fstat(file).st_mode) else "file")
        real(file)

    monkeypatch.setattr(os, "fsync", fsync)
    with Journal(tmp_path / "a.jsonl", HEADER) as journal:
        assert synced == ["file", "folder"]  # the first line, and the name of the file
        journal.append(answer(0))
        assert synced == ["file", "folder", "file"]


def test_a_journal_keeps_who_was_shown_first_and_journals_without_it_load(tmp_path):
    path, items = tmp_path / "j.jsonl", ["tea", "milk", "water"]
    with QueryLoop(items, journal=path) as loop:
        loop.tell("milk", "tea", judge="Ann", shown_first="tea")
        loop.tell("tea", "water", tie=True, shown_first="water")
        loop.tell("tea", "water")
        with pytest.raises(ValueError, match="shown_first is 'water'; pass the winner or the lo"):
            loop.tell("tea", "milk", shown_first="water")
    assert [record.get("shown") for record in read_journal(path).records] == [0, 2, None]
    with QueryLoop(items, journal=path) as loop:
        assert [answer.shown_first for answer in loop.answers] == ["tea", "water", None]


@pytest.mark.skipif(os.name != "posix", reason="limits of files are POSIX")
def test_a_disk_that_is_full_loses_no_acknowledged_record(tmp_path):
    """The clock may be set back meanwhile: records go by their numbers, not by their times."""
    import resource

    path, limits, kept = tmp_path / "a.jsonl", resource.getrlimit(resource.RLIMIT_FSIZE), 0
    with Journal(path, HEADER) as journal:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
        try:
            with pytest.raises(JournalError, match="File too large.; this answer is not saved"):
                for kept in range(100):
                    journal.append(answer(kept) | {"time": f"{2026 - kept}-01-01"})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        journal.append(answer(kept))
    records = read_journal(path).records
    assert 0 < kept < 99 and [record["n"] for record in records] == list(range(1, kept + 2))
    assert [record["winner"] for record in records] == [k % 3 for k in range(kept + 1)]
