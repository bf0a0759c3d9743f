"""Files as people have them, and every example of the page on files: read, or refused."""

import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from layout_answers import said

from bayesrank.datasets import ColumnNames, DataError, ReadingNote, read_comparisons

FOLDER = Path(__file__).parent / "data" / "layouts"
FILES = tomllib.loads((FOLDER / "answers.toml").read_text("utf-8"))
PAGE = (Path(__file__).parent.parent / "docs" / "files.md").read_text("utf-8")
EXAMPLE = re.compile(
    r"`(?P<name>\w+\.\w+)`(?: with `(?P<options>[^`]*)`)?[^`\n]*(?:`[^`\n]*`[^`\n]*)*\n\n"
    r"```text\n(?P<text>.*?)```\n\n(?:Reads|Refused:) `(?P<answer>[^`]*)`",
    re.DOTALL,
)
EXAMPLES = {match["name"]: match.groupdict() for match in EXAMPLE.finditer(PAGE)}
pytestmark = pytest.mark.filterwarnings("ignore::bayesrank.datasets.ReadingNote")


def column_names(options):
    """The options of a command as arguments."""
    words = (options or "").split()
    chosen: dict[str, Any] = {"fold_names": True} if "--fold-names" in words else {}
    pairs = zip(words[::2], words[1::2], strict=False)
    chosen |= {name[2:].replace("-", "_"): value for name, value in pairs}
    if "outcome_codes" in chosen:
        chosen["outcome_codes"] = tuple(chosen["outcome_codes"].split(","))
    return ColumnNames(**chosen)


@pytest.mark.parametrize("name", FILES)
def test_files_as_people_have_them(name):
    answer = FILES[name]
    columns = ColumnNames(time=answer.get("time"))
    if "refused" in answer:
        with pytest.raises(DataError) as caught:
            read_comparisons(FOLDER / name, columns=columns)
        assert answer["refused"] in str(caught.value)
    else:
        assert said(read_comparisons(FOLDER / name, columns=columns)) == answer["says"]


def test_every_file_of_the_folder_has_an_answer():
    assert {path.name for path in FOLDER.iterdir()} == {*FILES, "answers.toml"}
    assert len(FILES) >= 40 and len(EXAMPLES) == PAGE.count("```text") >= 40


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_page_says_what_is_read(tmp_path, name):
    example = EXAMPLES[name]
    path = tmp_path / name
    path.write_text(example["text"], "utf-8")
    try:
        assert (
            said(read_comparisons(path, columns=column_names(example["options"])))
            == (example["answer"])
        )
    except DataError as error:
        assert example["answer"] in str(error)


def test_a_spreadsheet_is_read_by_pandas(tmp_path, monkeypatch):
    sheet = pd.DataFrame(
        [["winner", "loser", "n"], ["Ada", "Bob", 1], ["", "", ""], ["Bob", "Cy", 2]]
    )
    monkeypatch.setattr(pd, "read_excel", lambda path, **options: {"one": sheet, "two": sheet})
    with pytest.warns(ReadingNote, match=r"Of the 2 sheets of c.xlsx, the first is read: one"):
        assert said(read_comparisons(tmp_path / "c.xlsx")) == "Ada > Bob; Bob > Cy"
    monkeypatch.undo()
    with pytest.raises(DataError, match="no such file|pip install openpyxl"):
        read_comparisons(tmp_path / "d.xlsx")


def test_what_is_guessed_is_said(tmp_path):
    path = tmp_path / "c.csv"
    path.write_bytes("winner,loser\nJosé,Bob\n".encode("cp1252"))
    with pytest.warns(ReadingNote, match="c.csv is not UTF-8 text and is read as Windows-1252"):
        assert read_comparisons(path).names == ("José", "Bob")
    path.write_text("winner;loser\nAda;Bob\n")
    with pytest.warns(ReadingNote, match="columns of c.csv are separated by semicolons"):
        read_comparisons(path)


def test_large_files_are_read_as_small_ones(tmp_path, monkeypatch):
    path = tmp_path / "c.csv"
    rows = ["a,1.10,0", "b,1.1,01", "é,a ,1"] * 9 + ["True,x,", "c,1e3,+1"] * 9
    path.write_text("\n".join(["winner,loser,n", *rows, ""]))
    monkeypatch.setattr("bayesrank.datasets.table._BLOCK", 20)
    large = read_comparisons(path)
    monkeypatch.undo()
    small = read_comparisons(path)
    assert large.names == small.names == ("a", "1.10", "b", "1.1", "é", "True", "x", "c", "1e3")
    assert large.comparisons.tolist() == small.comparisons.tolist()
    path.write_text(path.read_text().replace("c,1e3,+1", "c,1e3", 1))
    with pytest.raises(DataError, match="row 30: 2 cells where the header has 3"):
        read_comparisons(path)


@pytest.mark.parametrize(
    ("cells", "found"),
    [
        (["16.08.2024", "1.2.2024"], ["2024-08-16", "2024-02-01"]),
        (["08/16/2024", "01/02/2024"], ["2024-08-16", "2024-01-02"]),
        (["2022.12.30", "2022/1/5"], ["2022-12-30", "2022-01-05"]),
        (["Jan 5, 2023", "5 January 2023", "May 2023"], ["2023-01-05", "2023-01-05", "2023-05-01"]),
        (["2023-05", "2023-06"], ["2023-05-01", "2023-06-01"]),
        (
            ["2024-05-31T18:00:00Z", "2024-05-31 18:00+02:00"],
            ["2024-05-31T18:00", "2024-05-31T16:00"],
        ),
        (["20230102", "20221231"], ["2023-01-02", "2022-12-31"]),
        (["2022.12", "2023.5"], None),
        (["2024-05-31", "2024-06-31"], "'2024-06-31' is no date"),
        (["2024-05-31T18:00Z", "2024-05-31T18:00"], "some times have a zone"),
        (["16/08/2024", "08/16/2024"], "may have the day first or the month"),
    ],
)
def test_times(cells, found):
    table = pd.DataFrame({"winner": "a", "loser": "b", "t": cells})
    if isinstance(found, str):
        with pytest.raises(DataError, match=found):
            read_comparisons(table, time="t")
        return
    times = read_comparisons(table, time="t").times
    assert times is not None
    expected = (
        [float(cell) for cell in cells] if found is None else np.array(found, "datetime64[us]")
    )
    np.testing.assert_array_equal(times, expected)
