"""What a person sees: the table, and the progress on a terminal, in a log, and when quiet."""

import io
import time
import warnings

import numpy as np
import pytest
from matplotlib.figure import Figure
from rich.console import Console

from bayesrank.cli._steps import Steps
from bayesrank.cli._tables import ranking_table
from bayesrank.ranking import summarize


def _render(n: int, rows: int) -> list[str]:
    draws = -np.arange(n) + 0.3 * np.random.default_rng(0).standard_normal((2000, n))
    console = Console(file=io.StringIO(), width=120)
    console.print(ranking_table(summarize(draws, names=[f"item {i}" for i in range(n)]), rows))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize(
    ("n", "rows", "shown"),
    [
        (5, 15, ["1", "2", "3", "4", "5"]),
        (5, 0, ["1", "2", "3", "4", "5"]),
        (20, 6, ["1", "2", "3", "4", "...", "19", "20"]),
        (20, 1, ["1", "..."]),
        (6, 6, ["1", "2", "3", "4", "5", "6"]),
    ],
)
def test_top_and_bottom_are_shown(n, rows, shown):
    lines = _render(n, rows)
    assert [line.split()[0] for line in lines[1:]] == shown
    if n > rows > 0:
        assert f"... {n - rows} more ..." in "\n".join(lines)


def test_numbers_of_the_table():
    lines = _render(8, 0)
    assert "90% rank interval" in lines[0]
    cells = lines[1].split()
    assert cells[:3] == ["1", "item", "0"]
    assert float(cells[3]) == pytest.approx(0, abs=0.03)
    assert float(cells[5]) == pytest.approx(0.3, abs=0.02)
    assert 97 < float(cells[6].rstrip("%")) < 100  # P(N(-1, 0.18) < 0) = 0.991
    assert cells[7:] == ["1", "to", "1"]
    assert lines[8].split()[6] == "<0.1%"


def _show(*, terminal: bool, quiet: bool) -> str:
    file = io.StringIO()
    steps = Steps(Console(file=file, force_terminal=terminal, width=100), quiet=quiet)
    with steps.running():
        warnings.simplefilter("always")
        with steps.step("Learning [x]") as advance:
            advance(None, "3 values tried")
            advance(0.5)
            time.sleep(0.01)
            warnings.warn("mind\n  this", UserWarning, stacklevel=1)
        with steps.step("Drawing"):
            pass
    return file.getvalue()


def test_progress_in_a_log_is_one_line_a_step():
    lines = _show(terminal=False, quiet=False).splitlines()
    assert lines == ["Warning: mind this", "Learning [x]: 0.0 s", "Drawing: 0.0 s"]


def test_progress_on_a_terminal_has_bars_and_ends_done():
    text = _show(terminal=True, quiet=False)
    assert "Learning [x]" in text
    assert "Warning: mind this" in text
    assert text.count("done") >= 2
    assert "\x1b[" in text


def test_quiet_shows_warnings_only():
    assert _show(terminal=False, quiet=True) == "Warning: mind this\n"


def test_letters_that_a_picture_lacks_are_said_once():
    file = io.StringIO()
    with Steps(Console(file=file, width=80), quiet=True).running():
        warnings.simplefilter("always")
        for name in ("\u65e5\u672c", "\u8336"):
            figure = Figure()
            figure.text(0.5, 0.5, name)
            figure.savefig(io.BytesIO(), format="png")
    said = "pictures lack some letters of the names, for which the font has no glyphs"
    assert file.getvalue() == f"Warning: {said}\n"


def test_warning_display_is_put_back():
    before = warnings.showwarning
    _show(terminal=False, quiet=True)
    assert warnings.showwarning is before
