"""Comparisons and items files: what is read, and the one line that refuses the rest."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from bayesrank.datasets import DataError, read_comparisons
from bayesrank.datasets.table import read_table

COMPARISONS = "winner,loser\nAda,Bob\nAda,Cy\nBob,Cy\n"
ITEMS = "item,height,age\nAda,1.5,30\nBob,1.75,40\nCy,2,50\nDee,1.25,60\n"


@pytest.fixture
def write(tmp_path):
    def write(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def test_items_file_fixes_the_numbering_and_may_hold_items_never_compared(write):
    data = read_comparisons(write("c.csv", COMPARISONS), write("i.csv", ITEMS))
    assert data.names == ("Ada", "Bob", "Cy", "Dee")
    assert data.features is not None
    np.testing.assert_array_equal(data.features, [[1.5, 30], [1.75, 40], [2, 50], [1.25, 60]])
    assert data.feature_names == ("height", "age")


def test_items_file_of_names_only_has_no_features(write):
    data = read_comparisons(write("c.csv", COMPARISONS), write("i.csv", "name\nCy\nBob\nAda\n"))
    assert data.names == ("Cy", "Bob", "Ada")
    assert data.features is None
    np.testing.assert_array_equal(data.comparisons, [[2, 1], [2, 0], [1, 0]])


def test_the_result_cannot_be_changed_in_place(write):
    data = read_comparisons(write("c.csv", COMPARISONS), write("i.csv", ITEMS))
    assert data.features is not None
    for array in (data.comparisons, data.tied, data.features):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        data.names = ()  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf" + COMPARISONS.encode(),
        COMPARISONS.replace("\n", "\r\n").encode(),
        b"\xef\xbb\xbf" + COMPARISONS.replace("\n", "\r\n").encode(),
        COMPARISONS.rstrip("\n").encode(),
        COMPARISONS.replace("\n", "\n\n").encode() + b"\n , \n",
        COMPARISONS.replace(",", " ,\t ").encode(),
        COMPARISONS.replace("winner,loser", "Winner,LOSER").encode(),
        b'"winner","loser"\n"Ada","Bob"\n"Ada","Cy"\n"Bob","Cy"\n',
    ],
    ids=["BOM", "CRLF", "BOM+CRLF", "no last newline", "blank lines", "blanks", "case", "quotes"],
)
def test_harmless_variations_read_the_same(write, content):
    data = read_comparisons(write("c.csv", content))
    assert data.names == ("Ada", "Bob", "Cy")  # by first appearance
    np.testing.assert_array_equal(data.comparisons, [[0, 1], [0, 2], [1, 2]])
    assert data.features is None and data.feature_names == () and not data.tied.any()
    assert data.position is None and data.unused_column_hints == ()


def test_columns_in_any_order_and_others_listed_as_ignored(write):
    data = read_comparisons(write("c.csv", "date,loser,mood,winner\n1,Bob,x,Ada\n2,Cy,y,Bob\n"))
    assert data.names == ("Ada", "Bob", "Cy")
    np.testing.assert_array_equal(data.comparisons, [[0, 1], [1, 2]])
    assert data.ignored_columns == ("date", "mood")
    assert data.unused_column_hints == (
        "Column 'date' looks like times and is not used: add --time date or --ignore date.",
    )


BAD_ITEMS = {
    "no header": ("Ada,1\nBob,2\n", "row 1: the first column is called 'Ada', not 'item' or "),
    "one item": ("item,x\nAda,1\n", "i.csv: there is only one item; "),
    "missing number": ("item,x,y\nAda,1,2\nBob,,3\n", "row 3, column 'x': the number is missing; "),
    "NaN": ("item,x\nAda,NaN\nBob,1\n", "row 2, column 'x': 'NaN' is not a finite number;"),
    "inf": ("item,x\nAda,1\nBob,-inf\n", "row 3, column 'x': '-inf' is not a finite number; "),
    "overflow": ("item,x\nAda,1e999\nBob,1\n", "row 2, column 'x': '1e999' is not a finite "),
    "too large": (
        "item,x\nAda,1\nBob,-2e200\n", "row 3, column 'x': '-2e200' is larger than 1e+100; ",
    ),
    "words": ("item,x\nAda,1\nBob,tall\n", "row 3, column 'x': 'tall' is not a finite number; "),
    "underscore": ("item,x\nAda,1_0\nBob,1\n", "row 2, column 'x': '1_0' is not a finite "),
    "decimal comma": (
        'item,x\nAda,"1,500"\nBob,1\n', "row 2, column 'x': '1,500' may be 1.5 or 1500; write",
    ),
    "constant": (
        "item,x,y\nAda,1,3\nBob,2,3\n", "column 'y': every item has the same value, 3; remove",
    ),
    "item twice": (
        "item,x\nAda,1\nBob,2\nAda,3\n", "column 'item': item 'Ada' is already in row 2; ",
    ),
    "no name": ("item,x\nAda,1\n,2\n", "row 3, column 'item': the item has no name; "),
}  # fmt: skip


@pytest.mark.parametrize(("content", "message"), BAD_ITEMS.values(), ids=BAD_ITEMS)
def test_bad_items_are_refused_in_one_line(write, content, message):
    path = write("i.csv", content)
    with pytest.raises(DataError) as caught:
        read_comparisons(write("c.csv", COMPARISONS), path)
    said = str(caught.value)
    assert said.startswith(str(path)) and message in said and "\n" not in said


def test_unknown_item_names_the_place_and_the_likely_spelling(write):
    items = write("i.csv", ITEMS)
    path = write("c.csv", "winner,loser\nAda,Bob\nada,Cy\n")
    with pytest.raises(DataError) as caught:
        read_comparisons(path, items)
    assert str(caught.value) == (
        f"{path}, row 3, column 'winner': unknown item 'ada'; did you mean 'Ada'?"
    )
    assert (caught.value.row, caught.value.column) == (3, "winner")


def test_a_file_that_cannot_be_read(write, monkeypatch):
    def refuse(self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(DataError, match=r"the file cannot be read \(Permission denied\)"):
        read_comparisons(write("secret.csv", "winner,loser\n"))


def test_equal_comparisons_are_one_with_a_weight(write):
    text = "home,away,result,judge\nx,y,H,p\ny,x,D,p\nx,y,H,p\nx,y,D,p\nx,y,H,q\ny,x,A,p\n"
    data = read_comparisons(write("c.csv", text)).distinct()
    assert data.weights is not None and data.position is not None
    rows = zip(data.comparisons.tolist(), data.tied, data.position, data.weights, strict=True)
    assert sorted((*pair, *map(float, rest)) for pair, *rest in rows) == [
        (0, 1, tied, position, weight)
        for tied, position, weight in (
            (0, -1, 1), (0, 1, 1), (0, 1, 2), (1, -1, 1), (1, 1, 1)
        )
    ]  # fmt: skip


def test_the_first_usual_name_counts_whatever_the_order_of_columns(write):
    table = read_table(write("t.csv", "b,a\n1,2\n"))
    found = table.column("a", "b")
    assert found is not None and found.name == "a" and table.rows.tolist() == [2]
