"""Generated files: every reader reads them, or says in one line why not, and that is all."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bayesrank import _memory
from bayesrank._states import read_arrays
from bayesrank.active.store import JournalError, read_journal
from bayesrank.cli import main
from bayesrank.datasets import (
    DataError,
    ReadingNote,
    read_comparisons,
    read_label_examples,
    read_links,
    read_lists,
    read_ratings,
    read_texts,
)
from bayesrank.datasets.items import read_items
from bayesrank.datasets.runs import read_qrels, read_run
from bayesrank.datasets.stream import BadLine, parse_line, survey

pytestmark = pytest.mark.filterwarnings("ignore::bayesrank.datasets.ReadingNote")
# Long texts are what this is about.
QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
PREFLIB = """# NUMBER ALTERNATIVES: 3
# NUMBER VOTERS: 3
# ALTERNATIVE NAME 1: Tea
# ALTERNATIVE NAME 2: Milk
# ALTERNATIVE NAME 3: Water
2: 1,2,3
1: {1,3},2
"""
GOOD = [
    "winner,loser,tie\nTea,Milk,0\nMilk,Water,1\n",
    "item,price\nTea,1.5\nMilk,2\n",
    "user,item,rating\nAda,Tea,2\nBob,Tea,1\nBob,Milk,2\n",
    "query,item,score\nq1,a,0.9\nq1,b,0.4\n",
    "query,item,label\nq1,a,1\nq1,c,0\n",
    "q1 Q0 a 1 0.9 me\nq1 Q0 b 2 0.4 me\n",
    "q1 0 a 1\nq1 0 b 0\n",
    "2 1:0.5 3:1\n1 qid:1 2:1 # said\n",
    "2 qid:1 1:0.5 3:1\n1 qid:1 2:1 # said\n",
    "query,label,price\nq1,1,2.5\nq2,0,1\n",
    "2,0.5,1\n1,0,3\n",
    PREFLIB,
    "from,to\na,b\nb,c\n",
    "id,title,text\na,T,they swim\nb,,no\n",
    "x,rank:sea,rank:hill\n1,1,2\n2,2,1\n",
    "sep=;\nwinner;loser\na;b\n",
    "10 1\n0 3 5 0 9\n0 3 0 5 9\n",
    '{"bayesrank":"journal","version":1,"items":3,"names":"a","features":null,"crc":"1b9e0c5a"}\n',
]
LAYOUTS = Path(__file__).parent / "data" / "layouts"
GOOD += [path.read_text("utf-8", "replace") for path in sorted(LAYOUTS.glob("*.[cjpt]*[!zl]"))]
NASTY = [
    ",", '"', '""', "\n", "\r", "\r\n", "\0", "\x1c", "\x85", "\u2028", "\u202e", "\x1b[2J", " ",
    "\ufeff", ":", "{", "}", "#", "-", "=1+1", "nan", "inf", "-1", "0", "1e999", "1_0", "٣", "²",
    "9" * 5000, "99999999999", f"{'9' * 5000}:1", "1:" + "9" * 5000, "é", "\U0001f600", "'", ";",
    "# NUMBER VOTERS: 99\n", "# ALTERNATIVE NAME 4:\n", "99999999999: 1,2\n", "x" * 200_000,
]  # fmt: skip


@st.composite
def files(draw):
    """A good file with pieces put in, taken out or doubled; or pieces alone; or bytes."""
    text = draw(st.sampled_from([*GOOD, ""]))
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(text)))
        end = place + draw(st.integers(0, 12))
        how = draw(st.sampled_from(["put", "take", "double"]))
        piece = {"take": "", "double": 2 * text[place:end]}.get(how)
        text = text[:place] + (draw(st.sampled_from(NASTY)) if piece is None else piece) + (
            text[place:] if how == "put" else text[end:]
        )  # fmt: skip
    raw = text.encode("utf-8", "surrogatepass")
    return raw + draw(st.binary(max_size=3)) if draw(st.integers(0, 9)) == 0 else raw


def _stream(path):
    layout = survey(path, None, None, None)
    if layout.num_features > 10**5:  # refused by the command, by the memory it would take
        return
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                parse_line(line, number, layout)
            except BadLine as error:
                assert len(str(error)) < 500


READERS = {
    "comparisons": ("csv", read_comparisons, DataError),
    "orders": ("toi", read_comparisons, DataError),
    "numbered orders": ("order", read_comparisons, DataError),
    "games": ("pgn", read_comparisons, DataError),
    "arrays": ("json", read_comparisons, DataError),
    "texts": ("csv", read_texts, DataError),
    "links": ("csv", lambda path: read_links(path, ("a", "b", "c")), DataError),
    "labels": ("csv", read_label_examples, DataError),
    "items": ("csv", read_items, DataError),
    "ratings": ("csv", read_ratings, DataError),
    "run": ("csv", read_run, DataError),
    "judgements": ("csv", read_qrels, DataError),
    "lists": ("svm", read_lists, DataError),
    "stream": ("svm", _stream, DataError),
    "journal": ("jsonl", read_journal, JournalError),
    "state": ("npz", lambda path: read_arrays(path, "a test"), ValueError),
}


@pytest.mark.parametrize("name", READERS)
def test_every_reader_reads_or_refuses_in_one_line(name, tmp_path, monkeypatch):
    suffix, read, refusal = READERS[name]
    path = tmp_path / f"file.{suffix}"
    monkeypatch.setattr(_memory, "available", lambda: 10**7)

    @settings(max_examples=60, deadline=None, derandomize=True, database=None,
              suppress_health_check=QUIET)  # fmt: skip
    @given(files())
    def check(raw):
        path.write_bytes(raw)
        try:
            read(path)
        except (refusal, _memory.TooLargeError) as error:
            assert str(path) in str(error) and len(str(error).splitlines()) == 1
            assert len(str(error)) < 1500

    check()


def test_the_command_ends_with_0_or_2(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    codes = set()

    @settings(max_examples=30, deadline=None, derandomize=True, database=None,
              suppress_health_check=QUIET)  # fmt: skip
    @given(files(), files())
    def check(run, qrels):
        Path("run").write_bytes(run)
        Path("qrels").write_bytes(qrels)
        with pytest.raises(SystemExit) as stop, warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", ReadingNote)
            main(["evaluate", "run", "qrels"])
        codes.add(stop.value.code)

    check()
    for args in (["run.csv", "qrels.csv"], ["run.csv", "empty.csv"]):
        Path("run.csv").write_text(GOOD[3])
        Path("qrels.csv").write_text(GOOD[4])
        Path("empty.csv").write_text(",\n")
        with pytest.raises(SystemExit) as stop:
            main(["evaluate", *args])
        codes.add(stop.value.code)
    assert codes == {0, 2}
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("text", [",", '""', ",\n,\n", '"",""\n'])
@pytest.mark.parametrize("name", ["comparisons", "items", "ratings", "run", "judgements"])
def test_files_of_empty_cells(tmp_path, name, text):
    path = tmp_path / "file.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=r"file\.csv: no cell holds anything"):
        READERS[name][1](path)


@pytest.mark.parametrize("name", ["comparisons", "items", "ratings", "run", "judgements", "lists"])
def test_what_is_long_is_quoted_by_its_beginning(name, tmp_path):
    path = tmp_path / "file.csv"
    path.write_text(f"{'x' * 5000},{'y' * 5000},{'y' * 5000}\n1,2,3\n")
    with pytest.raises(DataError, match=r"xxx\.\.\.|yyy\.\.\.") as caught:
        READERS[name][1](path)
    assert len(str(caught.value)) < 1500


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (PREFLIB.replace("VOTERS: 3", "VOTERS: 99"), "row 2: .* promises 99 voters, .* holds 3;"),
        (PREFLIB.replace("TIVES: 3", "TIVES: 4"), "row 1: .* promises 4 alternatives, .* holds 3"),
        ("# NUMBER UNIQUE ORDERS: 5\n" + PREFLIB, "row 1: .* promises 5 unique orders, .* holds 2"),
        (PREFLIB.replace("Milk", " "), "row 4: the name of alternative 2 is empty"),
        (PREFLIB.replace(" Milk", ""), "row 4: the name of alternative 2 is empty"),
        (PREFLIB.replace("2: 1", "9" * 5000 + ": 1"), "row 6: '9999.*' is no count or number"),
        (PREFLIB.replace("2,3", "9" * 5000), "row 6: '9999.*' is no count or number"),
        (PREFLIB.replace("NAME 2", f"NAME {'9' * 5000}"), "row 4: '9999.*' is no count or number"),
        (PREFLIB.replace("VOTERS: 3", "VOTERS: many"), "row 2: 'many' is no count or number"),
        ("\n".join([*PREFLIB.splitlines()[2:5], "99999999999: 1,2,3"]),
         "make 299,999,999,997 comparisons, which take 8.73 TiB of memory, and .* are free"),
    ],
)  # fmt: skip
def test_orders_that_are_doubtful_or_too_many(tmp_path, text, problem):
    (tmp_path / "x.toi").write_text(text)
    with pytest.raises((DataError, _memory.TooLargeError), match=problem):
        read_comparisons(tmp_path / "x.toi")


def test_indices_of_thousands_of_digits(tmp_path):
    (tmp_path / "x.svm").write_text(f"2 {'9' * 5000}:1\n")
    with pytest.raises(DataError, match=r"row 1: '9{40}\.\.\.' is not an index"):
        survey(tmp_path / "x.svm", None, None, None)


def test_separators_that_only_python_knows_do_not_split_trec_lines(tmp_path):
    items = ["a\x1cb", "c\x85d", "e\u2028f", "g\xa0h"]
    (tmp_path / "qrels").write_text("".join(f"q1 0 {item} 1\r\n" for item in items), newline="")
    assert list(read_qrels(tmp_path / "qrels").labels) == [("q1", item) for item in items]
    (tmp_path / "run").write_text("".join(f"q1 Q0\t{item} 1 0.5 me\n" for item in items))
    assert [key[2] for key in read_run(tmp_path / "run").scores] == items
    assert np.isfinite(list(read_run(tmp_path / "run").scores.values())).all()
