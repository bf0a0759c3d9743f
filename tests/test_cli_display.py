"""What a person sees: the table, and the progress on a terminal, in a log, and when quiet."""

import io
import re
import time
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from rich.cells import cell_len
from rich.console import Console

from bayesrank import Ranker
from bayesrank.cli.ask_screen import leaders_table
from bayesrank.cli.progress import Steps
from bayesrank.cli.tables import legend, ranking_table
from bayesrank.cli.trust import trust_checks
from bayesrank.cli.words import (
    counts,
    headline,
    moment,
    needed_comparisons,
    win_chance,
)
from bayesrank.datasets import ComparisonData, read_comparisons
from bayesrank.ranking import count_records, summarize
from bayesrank.ranking.columns import EloScale, columns_of, count_text, elo_per_skill, percent


def _printed(table) -> str:
    file = io.StringIO()
    Console(file=file, width=120).print(table)
    return file.getvalue()


def _render(n: int, rows: int) -> list[str]:
    draws = -np.arange(n) + 0.3 * np.random.default_rng(0).standard_normal((2000, n))
    summary = summarize(draws, names=[f"item {i}" for i in range(n)])
    return _printed(ranking_table(summary, rows)).splitlines()


@pytest.mark.parametrize(
    ("n", "rows", "shown"),
    [
        (5, 15, ["1", "2", "3", "4", "5"]),
        (5, 0, ["1", "2", "3", "4", "5"]),
        (20, 6, ["1", "2", "3", "4", "...", "19", "20"]),
        (20, 1, ["1"]),
        (6, 6, ["1", "2", "3", "4", "5", "6"]),
    ],
)
def test_top_and_bottom_are_shown(n, rows, shown):
    lines = _render(n, rows)
    if n > rows > 0:
        assert lines.pop().strip() == f"({rows} of {n} rows; --rows 0 shows all)"
    assert [line.split()[0] for line in lines[1:]] == shown


def test_numbers_of_the_table():
    lines = _render(8, 0)
    assert "90% ranks" in lines[0]
    cells = lines[1].split()
    assert cells[:4] == ["1", "1", "item", "0"]
    assert float(cells[4]) == pytest.approx(0, abs=0.03)
    assert float(cells[6]) == pytest.approx(0.3, abs=0.02)
    for cell in cells[7:9]:  # the next is the only rival
        assert 97 < float(cell.rstrip("%")) < 100  # P(N(-1, 0.18) < 0) = 0.991
    assert cells[9:] == ["1"]
    assert lines[8].split()[7:9] == ["<1%", "-"]


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_a_table_fits_its_width_and_names_lose_their_ends(width):
    draws = np.random.default_rng(0).standard_normal((200, 3)) - np.arange(3)
    records = count_records([(0, 1), (1, 2)], 3)
    names = ["short", "mistral-large-instruct-2407-with-a-long-tail", "\u65e5" * 40]
    table = ranking_table(summarize(draws, names, records=records), 0, None, width)
    lines = _printed(table).splitlines()
    assert len(lines) == 4 and all(cell_len(line) <= width for line in lines)
    titles = [column.header for column in table.columns]
    assert titles[:3] == ["Rank", "90% ranks", "Item"]
    assert ("Won-lost" in titles) == (width >= 120) and ("P(best)" in titles) == (width >= 60)
    assert "short" in lines[1] and ("\u2026" in lines[2]) == (width < 120)


def _cells(summary, **options):
    columns = columns_of(summary, **options)
    return [{each.title: each.cell(i) for each in columns} for i in range(len(summary))]


def test_records_and_provisional_items_in_the_table():
    """Three are well known; of the fourth, which drew its only game, nothing is."""
    draws = np.random.default_rng(0).standard_normal((2000, 4)) * [0.1, 0.1, 0.1, 9.0]
    draws += [3.0, 2.0, 1.0, 0.0]
    records = count_records([(0, 1), (1, 2), (2, 3)], 4, tied=[False, False, True])
    summary = summarize(draws, list("abcd"), records=records, prior_sd=9.0)
    rows = {row["Item"]: row for row in _cells(summary)}
    won = [rows[name]["Won-lost-tied"] for name in "abcd"]
    assert won == ["1-0-0", "1-1-0", "0-1-1", "0-0-1"]
    assert rows["d"]["90% ranks"] == "1–4"  # noqa: RUF001
    assert [rows[name]["Tier"] for name in "abcd"] == ["1", "2", "3", "*"]
    said = legend([summary], {"Tier", "Rank", "Skill ± SD"})
    assert list(said) == ["Skill ± SD", "Tier", "*"] and said["*"].startswith("provisional")
    assert list(legend([summarize(draws[:, :3], list("abc"))], {"Tier"})) == ["Tier"]


def test_components_stand_below_each_other_and_are_not_compared():
    draws = np.random.default_rng(0).standard_normal((500, 5)) + [4.0, 2.0, 0.0, 9.0, 5.0]
    component = np.array([0, 0, 0, 1, 2])
    rows = _cells(summarize(draws, list("abcde"), components=component))
    got = ["".join(row[title] for title in ("Group", "Rank", "Item")) for row in rows]
    assert got == ["11a", "12b", "13c", "21d", "31e"]
    for row in rows[3:]:
        assert [row["P(best)"], row["P(beats next)"], row["90% ranks"]] == ["-", "-", "-"]
        assert row["Tier"] == "*"
    assert rows[2]["P(beats next)"] == "-"


def test_elo_by_its_definition():
    """400 points are odds of ten to one, and items win about as often."""
    draws = 0.2 * np.random.default_rng(0).standard_normal((4000, 2)) + [1.0, -1.0]
    draws -= draws.mean(axis=1, keepdims=True)
    unit = elo_per_skill({})
    for noise in (0.5, 1.0):
        params = {"noise": np.array(noise)}
        difference = np.linspace(-6.0, 6.0, 401)
        elo = elo_per_skill(params) * difference
        chance = 1.0 / (1.0 + 10.0 ** (-elo / 400.0))
        np.testing.assert_allclose(chance, win_chance(difference, params), atol=0.0096)
    summary = summarize(draws)
    low, high = 1500 + unit * summary.skill_lower[0], 1500 + unit * summary.skill_upper[0]
    cell = _cells(summary, elo=EloScale(unit))[0]["Elo"]
    assert cell == f"{1500 + unit * summary.mean[0]:.0f} ({low:.0f}–{high:.0f})"  # noqa: RUF001
    assert "1500" in legend([summary], {"Elo"}, EloScale(unit))["Elo"]


@pytest.mark.parametrize(
    ("spread", "gap", "said"),
    [
        (0.1, 1.0, r"a is the best \(probability >99%\)\.$"),
        (0.8, 1.0, r"No clear winner\. a leads, statistically tied with 1 other item \("),
        (5.0, 0.2, r"No clear winner: a leads, but any of the 8 items may be best\."),
    ],
)
def test_conclusion(spread, gap, said):
    draws = spread * np.random.default_rng(0).standard_normal((4000, 8)) - gap * np.arange(8)
    draws[:, 2:] -= 3.0 * gap
    summary = summarize(draws, list("abcdefgh"), prior_sd=5.0)
    assert re.match(said, _verdict(summary, draws))


def test_conclusion_of_items_too_close_and_of_components():
    draws = np.random.default_rng(0).standard_normal((4000, 4))
    draws -= draws.mean(0) + 1e-3 * np.arange(4)
    summary = summarize(draws, list("abcd"), components=[0, 0, 0, 1])
    text = _verdict(summary, draws)
    assert text.startswith("The items form 2 groups with no comparisons between them")
    assert "statistically tied with 2 other items" in text and "too close" in text


def _verdict(summary, draws):
    found = headline(summary, partial(needed_comparisons, draws, {}, 0.9))
    assert found.leader == summary.names[0]
    return found.verdict


def test_who_is_provisional_is_said_and_does_not_lose_the_lead():
    """The newcomer of one game has the highest mean, and nearly all of its prior variance."""
    draws = np.random.default_rng(0).standard_normal((4000, 4)) * [1.9, 0.3, 0.3, 0.3]
    draws += [1.6, 1.5, 1.4, 0.0]
    summary = summarize(draws, list("abcd"), prior_sd=2.0)
    text = _verdict(summary, draws)
    led = "No clear winner. a leads, provisional, statistically tied with 3 other items (90% level)"
    assert text.startswith(led) and "\n1 item is provisional: too few comparisons.\n" in text
    behind = draws - [1.0, 0.0, 2.0, 2.0]
    summary = summarize(behind, list("abcd"), prior_sd=2.0)
    assert summary.provisional.tolist() == [False, True, False, False]
    led = "No clear winner. b leads, better than each item that is not provisional (90% level)."
    assert _verdict(summary, behind).startswith(f"{led}\n")


def test_no_probability_is_said_to_be_0_or_1():
    shares = (0.0, 0.005, 0.0051, 0.5, 0.9949, 0.995, 1.0)
    assert [*map(percent, shares)] == ["<1%", "<1%", "1%", "50%", "99%", ">99%", ">99%"]


@pytest.mark.parametrize("times", [1, 6])
def test_an_undefeated_item_leads(times):
    """A beats all, B all but A, and C beats D: as often as is said."""
    rows = [("A", "B"), ("A", "C"), ("A", "D"), ("B", "C"), ("B", "D"), ("C", "D")] * times
    frame = pd.DataFrame(rows, columns=["winner", "loser"])
    ranker = Ranker().fit(frame)
    summary = ranker.rank()
    assert summary.names == list("ABCD") and summary.tier[0] == 1
    found = headline(summary, partial(needed_comparisons, ranker.samples(), ranker.params_, 0.9))
    assert found.leader == "A"
    if times == 6:
        assert found.verdict == "A is the best (probability 98%)."
        assert found.standing == "ahead of all others" and not summary.provisional[0]


def test_a_skill_of_nearly_nothing_has_no_minus():
    draws = np.array([[1.0, 1e-17, -1.0], [1.5, -1e-15, -1.5]])
    rows = _cells(summarize(draws, list("abc")))
    assert [row["Skill ± SD"][:5] for row in rows] == ["+1.25", "+0.00", "-1.25"]
    printed = _printed(leaders_table(summarize(draws, list("abc")), 3, 120))
    assert re.findall(r"[+-]\d\.\d\d", printed) == ["+1.25", "+0.00", "-1.25"]


def test_a_choice_is_one_piece_of_evidence():
    rows = {"order": ["a > b = c", "b > a = c"]}
    assert counts(read_comparisons(pd.DataFrame(rows))) == "3 items, 2 choices"
    rows["order"][1] = "b > a > c"
    assert counts(read_comparisons(pd.DataFrame(rows))) == "3 items, 2 orders"


@pytest.mark.parametrize(
    ("tied", "said"), [(4, "9 comparisons (4 ties)"), (0.5, "2 comparisons (1 tie)")]
)
def test_whole_weights_say_how_often_a_comparison_came(tied, said):
    rows = {"winner": "ab", "loser": "ba", "tie": [False, True], "weight": [5, tied]}
    rows = {name: list(values) for name, values in rows.items()}
    assert counts(read_comparisons(pd.DataFrame(rows))) == f"2 items, {said}"


def test_one_of_a_thing_is_said_in_the_singular():
    draws = np.random.default_rng(0).standard_normal((4000, 2)) + [0.85, -0.85]
    summary = summarize(draws, list("ab"))
    text = _verdict(summary, draws)
    assert text.splitlines()[-1].startswith("1 more comparison with the leader would separate")
    draws = np.random.default_rng(0).standard_normal((2000, 4)) * [0.1, 0.1, 0.1, 9.0]
    games = ComparisonData(tuple("abcd"), np.array([[0, 1]]), np.zeros(1, bool))
    summary = summarize(draws + [3.0, 2.0, 1.0, 0.0], prior_sd=9.0)
    enough, *_ = trust_checks(games, summary, draws, {}, "skipped")
    assert enough.sentence.startswith(
        "1 of 4 items is provisional (*): its rank interval holds over half of the ranks"
    )


def _show(*, terminal: bool, quiet: bool) -> str:
    file = io.StringIO()
    steps = Steps(Console(file=file, force_terminal=terminal, width=100), quiet=quiet)
    with steps.running():
        warnings.simplefilter("always")
        with steps.step("Learning [x]") as advance:
            advance(None, "step 3")
            advance(0.5)
            time.sleep(0.01)
            warnings.warn("mind\n  this", UserWarning, stacklevel=1)
        with steps.step("Drawing"):
            pass
    return file.getvalue()


def test_warnings_name_no_arguments_that_commands_do_not_have():
    file = io.StringIO()
    with Steps(Console(file=file, width=100), quiet=True).running():
        warnings.simplefilter("always")
        warnings.warn("EP did not converge at 1 of 2. Try power=0.5 or more", stacklevel=1)
    assert file.getvalue() == "Warning: EP did not converge at 1 of 2\n"


@pytest.mark.parametrize(
    ("number", "said"),
    [(3.0, "3"), (0.0, "0"), (1234567.0, "1234567"), (2.25, "2.25"), (0.1, "0.1")],
)
def test_counts_of_wins_have_their_digits(number, said):
    assert count_text(number) == said


@pytest.mark.parametrize(
    ("time", "said"),
    [
        (1704253600.5, "1704253600.5"),
        (2021.0, "2021"),
        (np.datetime64("2024-05-31", "us"), "2024-05-31"),
        (np.datetime64("2024-05-31T18:30", "us"), "2024-05-31T18:30"),
    ],
)
def test_times_are_said_in_full_and_no_further(time, said):
    assert moment(time) == said


def test_progress_in_a_log_on_a_terminal_and_when_quiet():
    before = warnings.showwarning
    lines = _show(terminal=False, quiet=False).splitlines()
    assert lines == ["Warning: mind this", "Learning [x]: 0.0 s", "Drawing: 0.0 s"]
    assert _show(terminal=False, quiet=True) == "Warning: mind this\n"
    text = _show(terminal=True, quiet=False)
    assert "Learning [x]" in text and "Warning: mind this" in text
    assert text.count("done") >= 2 and "\x1b[" in text
    assert warnings.showwarning is before


def test_a_second_block_shows_its_own_steps_only():
    """The table is printed between two blocks, and what was done before is not shown again."""
    file = io.StringIO()
    steps = Steps(Console(file=file, force_terminal=True, width=100))
    with steps.running(), steps.step("Learning"):
        pass
    before = len(file.getvalue())
    with steps.running(), steps.step("Drawing"):
        pass
    assert "Drawing" in file.getvalue()[before:] and "Learning" not in file.getvalue()[before:]


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
