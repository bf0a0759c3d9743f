"""Generated files: every reader reads them, or says in one line why not, and that is all."""

import pytest
from stress.fuzz import PREFLIB, READERS, Reader, check

from bayesrank import _memory
from bayesrank.datasets import DataError, read_comparisons

pytestmark = pytest.mark.filterwarnings("ignore::bayesrank.datasets.ReadingNote")


@pytest.mark.parametrize("name", READERS)
def test_every_reader_reads_or_refuses_in_one_line(name):
    """`python -m stress fuzz` does it with 10,000 files for each."""
    count = 40 if READERS[name].packed is None else 10
    found = check(name, count, seed=1)
    assert found["read"] + found["refused"] == count and found["refused"]


@pytest.mark.parametrize("wrong", [ValueError("x"), DataError("other.csv", "a", "b")])
def test_another_error_is_found(monkeypatch, wrong):
    def read(path):
        raise wrong

    monkeypatch.setitem(READERS, "bad", Reader("csv", read))
    monkeypatch.setattr("stress.fuzz._taken", lambda *kinds: [])
    with pytest.raises(AssertionError, match="bad, file 0") as caught:
        check("bad", 1)
    assert caught.value.__cause__ is wrong


@pytest.mark.parametrize("text", [",", '""', ",\n,\n", '"",""\n'])
@pytest.mark.parametrize("name", ["comparisons", "items", "ratings"])
def test_files_of_empty_cells(tmp_path, name, text):
    path = tmp_path / "file.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=r"file\.csv: no cell holds anything"):
        READERS[name].read(path)


@pytest.mark.parametrize("name", ["comparisons", "items", "ratings"])
def test_what_is_long_is_quoted_by_its_beginning(name, tmp_path):
    path = tmp_path / "file.csv"
    path.write_text(f"{'x' * 5000},{'y' * 5000},{'y' * 5000}\n1,2,3\n")
    with pytest.raises(DataError, match=r"xxx\.\.\.|yyy\.\.\.") as caught:
        READERS[name].read(path)
    assert len(str(caught.value)) < 1500


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (PREFLIB.replace("VOTERS: 3", "VOTERS: 99"), "row 2: .* promises 99 voters, .* holds 3;"),
        (PREFLIB.replace("TIVES: 3", "TIVES: 4"), "row 1: .* promises 4 alternatives, .* holds 3"),
        ("# NUMBER UNIQUE ORDERS: 5\n" + PREFLIB, "row 1: .* promises 5 unique orders, .* holds 2"),
        (PREFLIB.replace("Milk", " "), "row 4: the name of alternative 2 is empty"),
        (PREFLIB.replace(" Milk", ""), "row 4: the name of alternative 2 is empty"),
        (PREFLIB.replace("2: 1", "9" * 5000 + ": 1"), "row 6: '9999.*' is not a count or number"),
        (PREFLIB.replace("2,3", "9" * 5000), "row 6: '9999.*' is not a count or number"),
        (PREFLIB.replace("NAME 2", f"NAME {'9' * 5000}"), "row 4: '9999.*' is not a count"),
        (PREFLIB.replace("VOTERS: 3", "VOTERS: many"), "row 2: 'many' is not a count or number"),
    ],
)  # fmt: skip
def test_orders_that_are_doubtful_or_too_many(tmp_path, text, problem):
    (tmp_path / "x.toi").write_text(text)
    with pytest.raises((DataError, _memory.TooLargeError), match=problem):
        read_comparisons(tmp_path / "x.toi")


@pytest.mark.parametrize(("name", "k"), [("parquet", 106)])
def test_packed_files_whose_damage_shows_late(name, k):
    """A long reason of an archive; a name of a column that is no text."""
    assert check(name, 1, first=k)["refused"] == 1
