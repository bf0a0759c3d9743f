"""The command `ask`: by lines, by keys on a real terminal, resumed, refused, exported."""

import csv
import errno
import fcntl
import io
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import numpy as np
import pytest
from cli_run import run
from rich.cells import cell_len
from rich.console import Console

from bayesrank.active import Journal, Progress, read_journal
from bayesrank.active.history import replay
from bayesrank.cli.ask_screen import View, draw_screen, shortened
from bayesrank.datasets import read_comparisons
from bayesrank.datasets.items import Items
from bayesrank.ranking import summarize

ITEMS = "item,price,milk\nEspresso,2.5,0\nLatte,3.4,9\n[b]Mokka,2.9,1\nFilter,1.8,0\n"


@pytest.fixture
def items(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "items.csv"
    path.write_text(ITEMS)
    return path


@pytest.fixture
def ask(capsys, monkeypatch):
    """Run the command on lines of answers: its exit code, output and errors."""

    def call(lines, *args):
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        return run("ask", *args), *capsys.readouterr()

    return call


def events(path="answers.jsonl"):
    return replay(read_journal(path).records).events


@pytest.mark.slow
def test_ties_and_items_that_come_and_go(items, ask):
    code, out, _ = ask(["=", "1", "q"], items)
    assert code == 0 and [event.kind for event in events()] == ["tie", "answer"]
    assert " are about equal." in out and "2 answers saved" in out
    code, out, _ = ask([], items, "--export", "out.csv")
    with open("out.csv", newline="") as file:
        rows = list(csv.reader(file))
    assert [row[2] for row in rows] == ["preference", "tie", "first"]
    assert read_comparisons("out.csv", items).tied.tolist() == [True, False]

    items.write_text(ITEMS + "Ristretto,2.2,0\n")
    lines = ["s"] * 10 + ["q"]
    code, out, _ = ask(lines, items, "--retire", "Latte")
    assert code == 0 and "Ristretto" in out and "[1] Latte" not in out and "[2] Latte" not in out
    assert "Every question has been asked." in out
    code, out, _ = ask([], items, "--export", "out.csv")
    assert code == 0 and out.startswith("2 answers are in")
    code, out, _ = ask(["1", "q"], items, "--restore", "Latte")
    assert code == 0 and ("[1] Latte" in out or "[2] Latte" in out)
    code, out, err = ask([], items, "--retire", "Late")
    assert code == 2 and err == (
        "Error: there is no item 'Late' among the 5 items; did you mean 'Latte'?\n"
    )
    items.write_text(ITEMS)
    code, _, err = ask([], items)
    assert code == 2 and "5 items, and 4 are given; add 'Ristretto' at their end again" in err


@pytest.mark.slow
def test_an_item_can_be_named_and_the_rule_stops(items, ask):
    rule = ("--top", "1", "--level", "0.3")
    code, out, _ = ask(["1", "c", "Nobody", "q"], items, *rule)
    assert code == 0 and out.count("Enough: the best item is settled with probability 0.") == 1
    assert out.index("Saved: ") < out.index("Enough") < out.index("Press 1 or 2")
    count = len(events())
    code, out, _ = ask(["u", "q"], items, *rule)
    assert code == 0 and len(events()) == count - 1 and "Taken back" in out
    code, out, _ = ask(["Latte", "Espresso", "Filter", "[b]Mokka"], items)
    assert code == 0 and len(events()) > count - 1
    code, out, _ = ask(["q"], items, "--min-gain", "5")
    assert out.count("Enough: no question is expected to gain more than 5.") == 1 and code == 0


def test_items_that_are_called_like_keys(items, ask):
    items.write_text("item\n2\n1\nq\ns\n")
    _, out, _ = ask(["1", "2", "s", "q", "1"], items)
    assert "2 answers saved" in out and "Skipped" in out
    asked = [line.split() for line in out.split("\n") if "[1] " in line][:2]
    names = ["2", "1", "q", "s"]
    first, second = events()[:2]
    assert [names[first.first], names[first.second]] == [asked[0][1], asked[0][3]]
    assert [names[second.second], names[second.first]] == [asked[1][1], asked[1][3]]


@pytest.mark.slow
def test_names_do_not_command_the_terminal(items, ask):
    items.write_text('item,x\x1b[5m\n"A\x1b[2J",1\n"two\nlines",2\n\x9bK,3\n')
    code, out, err = ask(["1", "1", "u", "s"], items, "--question", "\x1b[8mW?")
    assert code == 0 and not {"\x1b", "\x9b"} & set(out + err)
    assert "two lines" in out and "A [2J" in out


@pytest.mark.slow
def test_every_question_asked(items, ask):
    items.write_text("item\nA\nB\n")
    code, out, _ = ask(["A", "s"], items, "--top", "9", "--level", "0.999")
    assert code == 0 and "Every question has been asked." in out
    assert [event.kind for event in events()] == ["answer", "skip"]
    code, out, _ = ask([], items)
    assert "1 answer saved to answers.jsonl. Run the same" in out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["missing.csv"], "missing.csv: there is no such file"),
        (["items.csv", "--journal", "items.csv"], "this file is used already; give another --jo"),
        (["items.csv", "--journal", "no/a.jsonl"], "no/a.jsonl: the journal cannot be opened"),
        (["items.csv", "--journal", "note.txt"], "note.txt: this is not a journal of answers"),
        (["items.csv", "--journal", "other.jsonl"], "begun with other items"),
        (["items.csv", "--journal", "other.jsonl", "--export", "o.csv"], "begun with other items"),
        (["items.csv", "--export", "o.csv"], "answers.jsonl: the journal cannot be read"),
        (["items.csv", "--export", "items.csv"], "this file is used already; give another --ex"),
        (["items.csv", "--top", "0"], "Invalid value for '--top'"),
        (["items.csv", "--level", "1"], "Invalid value for '--level'"),
    ],
)
def test_what_is_wrong_is_one_line(items, ask, args, message):
    Path("note.txt").write_text("my notes\n")
    with Journal("other.jsonl", {"items": 2, "names": "x", "features": None}):
        pass
    code, out, err = ask([], *args)
    assert code == 2 and out == ""
    assert message in err and err.startswith("Error: ") and err.count("\n") == 1


def test_answers_are_exported_while_another_process_asks(items, ask, tmp_path):
    ask(["1", "q"], items, "--judge", "Ann")
    ask(["2", "q"], items)
    contents = read_journal("answers.jsonl")
    with Journal("answers.jsonl", {k: contents.header[k] for k in ("items", "names", "features")}):
        code, *_ = ask([], items, "--export", "out.csv")
    data = read_comparisons("out.csv", items)
    assert code == 0 and data.comparisons.tolist() == [[e.first, e.second] for e in events()]
    assert data.judge_names == ("Ann", "unnamed")
    assert data.position is not None and data.position.tolist() == [1.0, -1.0]
    assert sorted(os.listdir(tmp_path)) == ["answers.jsonl", "items.csv", "out.csv"]


def test_exports_that_cannot_be(items, ask):
    ask(["q"], items)
    code, _, err = ask([], items, "--export", "o.csv")
    assert code == 2 and "there is no answer to export yet" in err
    ask(["1"], items)
    code, _, err = ask([], items, "--export", "no/o.csv")
    assert code == 2 and "no/o.csv: cannot be written (No such file or directory)" in err


def test_a_disk_that_fails_in_the_middle_and_a_torn_line(items, ask, monkeypatch):
    ask(["1"], items)
    with open("answers.jsonl", "ab") as file:
        file.write(b'{"n":2,"ev')
    written = Journal._write

    def full(self, record):
        if record.get("event") == "skip":
            raise_from = OSError(errno.ENOSPC, "No space left on device")
            monkeypatch.setattr(os, "write", lambda *args: (_ for _ in ()).throw(raise_from))
        written(self, record)

    monkeypatch.setattr(Journal, "_write", full)
    code, out, err = ask(["1", "s"], items)
    assert code == 2 and "an unfinished last line was dropped" in err.replace("\n", " ")
    assert "cannot be written (No space left on device); this answer is not saved" in err
    assert len(events()) == 2


def drawn(view, width, height):
    """A screen as text."""
    file = io.StringIO()
    console = Console(file=file, width=width, height=height, color_system=None)
    console.print(draw_screen(view, console))
    return file.getvalue()


@pytest.mark.parametrize("name", ["{}", "an item with a name that goes on and on, as {} does"])
@pytest.mark.parametrize(
    ("width", "height"), [(80, 24), (40, 24), (40, 14), (40, 10), (60, 16), (200, 50)]
)
def test_the_question_stays_on_the_screen(name, width, height):
    rng = np.random.default_rng(0)
    names = tuple(name.format(f"N{i}") for i in range(6))
    features = tuple(f"a_feature_with_a_long_name_{k}" for k in range(40))
    items = Items(Path("items.csv"), names, rng.normal(size=(6, 40)), features)
    ranking = summarize(rng.normal(size=(50, 6)), names)
    progress = Progress(3, 1, 0.1, 0.39, False, "")
    view = View(items, "Which?", (0, 1), progress, 0.9, 3, ranking, "Saved: it.")
    shown = drawn(view, width, height)
    lines = shown.split("\n")
    assert len(lines) <= height and max(map(len, lines)) <= width
    assert "N0" in shown and "N1" in shown and "s can't say" in shown and " more" in shown
    assert "Which?" in shown and "Saved: it." in shown
    assert "± …" not in shown and "P(…" not in shown  # figures are whole, or left out


@pytest.mark.parametrize("width", [20, 40, 80])
def test_names_of_any_length_are_cut_in_the_middle_and_told_apart(width):
    names = tuple(f"{'long ' * 300}{middle}{' name' * 300}" for middle in ("A", "B", "漢字" * 99))
    for pair in ((0, 1), (1, 2)):
        items = Items(Path("items.csv"), names, None, ())
        view = View(items, "Which?", pair, Progress(0, 0, 0.1, 0.0, False, ""), 0.9, 1, None, "")
        shown = drawn(view, width, 24)
        assert len(shown.split("\n")) <= 24 and "\u2026" in shown and "Which?" in shown
        assert "[1]" in shown and "[2]" in shown
        first, second = shortened((names[pair[0]], names[pair[1]]), 30)
        assert first != second and max(map(cell_len, (first, second))) <= 30
    assert shortened(("short", names[0]), 30)[0] == "short"
    assert shortened((names[0], names[1]), None) == names[:2]


SIZE = {"TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}


class Terminal:
    """The command on a pseudo-terminal of 80 by 24, as a person has it."""

    def __init__(self, folder, *args, **environment):
        self.screen, self.side = b"", pty.openpty()
        self.before = termios.tcgetattr(self.side[1])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "bayesrank", "ask", *args],
            stdin=self.side[1],
            stdout=self.side[1],
            stderr=self.side[1],
            cwd=folder,
            env=os.environ | SIZE | {"PYTHONPATH": str(Path(__file__).parents[1])} | environment,
            start_new_session=True,
        )

    def wait_for(self, text, seconds=90):
        """Read until a text comes; forget what came before it."""
        end = time.monotonic() + seconds
        while text.encode() not in self.screen:
            assert time.monotonic() < end, self.screen.decode(errors="replace")
            ready, _, _ = select.select([self.side[0]], [], [], 1.0)
            if ready:
                self.screen += os.read(self.side[0], 65536)
        before, _, self.screen = self.screen.partition(text.encode())
        return before.decode(errors="replace")

    def resize(self, lines, columns):
        """Give the terminal another size, and tell the program as the system does."""
        fcntl.ioctl(self.side[1], termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.process.send_signal(signal.SIGWINCH)

    def wait_for_key(self):
        """Wait until the program waits for a key."""
        end = time.monotonic() + 30
        while termios.tcgetattr(self.side[1]) == self.before and time.monotonic() < end:
            time.sleep(0.01)

    def press(self, keys):
        os.write(self.side[0], keys)

    def leave(self):
        code = self.process.wait(timeout=60)
        for end in self.side:
            os.close(end)
        return code


@pytest.fixture
def terminal(items, tmp_path):
    terminal = Terminal(tmp_path, "items.csv")
    yield terminal
    terminal.process.kill()
    terminal.process.wait()


@pytest.mark.slow
def test_told_to_end_it_leaves_the_terminal_as_it_was(terminal, tmp_path):
    before = terminal.before
    terminal.wait_for("No answers yet.")
    terminal.press(b"2")
    terminal.wait_for("90% ranks")
    terminal.wait_for_key()
    terminal.process.terminate()
    terminal.wait_for("\x1b[?1049l")
    terminal.wait_for("1 answer saved to answers.jsonl")
    assert terminal.process.wait(timeout=60) == 143
    assert termios.tcgetattr(terminal.side[1]) == before
    assert len(events(tmp_path / "answers.jsonl")) == 1


@pytest.mark.slow
def test_a_terminal_that_is_resized_is_drawn_anew(items, tmp_path):
    terminal = Terminal(tmp_path, "items.csv", COLUMNS="", LINES="")
    try:
        terminal.resize(24, 80)
        terminal.wait_for("No answers yet.")
        terminal.wait_for_key()
        terminal.resize(12, 40)
        narrow = terminal.wait_for("can't say")  # drawn once more, without a key
        assert "Which is better?" in narrow or "Espresso" in narrow
        terminal.wait_for_key()
        terminal.press(b"=")
        terminal.wait_for("about equal.")
        terminal.wait_for_key()
        terminal.press(b"q")
        terminal.wait_for("1 answer saved to")
        assert terminal.leave() == 0
    finally:
        terminal.process.kill()
        terminal.process.wait()
    assert [event.kind for event in events(tmp_path / "answers.jsonl")] == ["tie"]


@pytest.mark.slow
def test_no_key_is_lost_while_the_ranking_is_learned(terminal, tmp_path):
    terminal.wait_for("No answers yet.")
    terminal.press(b"=")
    terminal.wait_for("Choosing the next question ...", seconds=5)  # and not without a word
    terminal.press(b"12\x1b[Cx\x1b[D=q")  # in the seconds that compiling for ties takes
    terminal.wait_for("answers saved to answers.jsonl (")
    assert terminal.leave() == 0
    kinds = [event.kind for event in events(tmp_path / "answers.jsonl")]
    assert kinds == ["tie", *["answer"] * 4, "tie"]


@pytest.mark.slow
def test_on_a_terminal_by_keys(terminal, tmp_path):
    question = terminal.wait_for("No answers yet.")
    assert "\x1b[?1049h" in question and "Which is better?" in question and "price" in question
    terminal.press(b"1")
    terminal.wait_for("Saved: ")
    assert len(events(tmp_path / "answers.jsonl")) == 1  # on disk before it is said
    terminal.wait_for("90% ranks")
    terminal.press(b"\x1b[C")
    terminal.wait_for("2 answered")
    terminal.wait_for("90% ranks")
    terminal.press(b"u")
    terminal.wait_for("Taken back: ")
    terminal.wait_for("90% ranks")
    terminal.wait_for_key()  # no signal comes of a terminal that no session has
    terminal.press(b"\x03")
    terminal.wait_for("\x1b[?1049l")  # the person's own screen again
    terminal.wait_for("1 answer saved to answers.jsonl (1 new).")
    assert terminal.leave() == 130
    assert len(events(tmp_path / "answers.jsonl")) == 1
