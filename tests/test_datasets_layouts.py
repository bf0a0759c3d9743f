"""Files of comparisons in every layout: the same comparisons read the same."""

import gzip
import json
from datetime import datetime

import numpy as np
import pandas as pd
import pytest

from bayesrank.datasets import ColumnNames, DataError, read_comparisons
from bayesrank.datasets.outcomes import LOSS, TIE, WIN, numbers_mean, words_mean
from bayesrank.datasets.table import read_table

# One small table of battles: (first, second, outcome), in the words of each layout.
BATTLES = [("Ada", "Bob", WIN), ("Cy", "Ada", LOSS), ("Bob", "Cy", TIE), ("Bob", "Ada", WIN)]


def lines(header, words, sides=BATTLES):
    rows = [f"{first},{second},{words[outcome]}" for first, second, outcome in sides]
    return "\n".join([header, *rows]) + "\n"


SIDES = {
    "arena": lines("model_a,model_b,winner", {WIN: "model_a", LOSS: "model_b", TIE: "tie"}),
    "both bad": lines(
        "model_a,model_b,winner", {WIN: "model_a", LOSS: "model_b", TIE: "tie (bothbad)"}
    ),
    "both_bad": lines("model_a,model_b,winner", {WIN: "A", LOSS: "B", TIE: "both_bad"}),
    "scores": lines("home,away,home_score,away_score", {WIN: "2,1", LOSS: "0,3", TIE: "1,1"}),
    "football": lines("Date,HomeTeam,AwayTeam,FTHG,FTAG,FTR", {}, [])
    + "d,Ada,Bob,2,1,H\nd,Cy,Ada,0,3,A\nd,Bob,Cy,1,1,D\nd,Bob,Ada,1,0,H\n",
    "letters": lines("home_team,away_team,result", {WIN: "H", LOSS: "A", TIE: "D"}),
    "chess": lines("white,black,result", {WIN: "1-0", LOSS: "0-1", TIE: "1/2-1/2"}),
    "points": lines("white,black,result", {WIN: "1", LOSS: "0", TIE: "0.5"}),
    "likert": lines(
        "item_a,item_b,preference",
        {WIN: "A is much better", LOSS: "B is slightly better", TIE: "About the same"},
    ),
    "signs": lines("item_a,item_b,preference", {WIN: "A>>B", LOSS: "B>A", TIE: "A=B"}),
    "numbers": lines("item_a,item_b,preference", {WIN: "2", LOSS: "-1", TIE: "0"}),
    "names": "left,right,winner\nAda,Bob,Ada\nCy,Ada,Ada\nBob,Cy,tie\nBob,Ada,Bob\n",
}


def in_battles(data):
    """The rows as (first, second, outcome), whoever won."""
    found = []
    for k, (winner, loser) in enumerate(data.comparisons):
        names = [data.names[winner], data.names[loser]]
        outcome = TIE if data.tied[k] else WIN
        if data.position is not None and data.position[k] < 0:
            names, outcome = names[::-1], LOSS
        found.append((*names, outcome))
    return found


@pytest.mark.parametrize("name", SIDES)
def test_every_layout_of_two_sides_reads_the_same(tmp_path, name):
    path = tmp_path / "c.csv"
    path.write_text(SIDES[name])
    data = read_comparisons(path)
    assert in_battles(data) == BATTLES
    assert data.names == ("Ada", "Bob", "Cy")
    assert data.position_label == {
        "scores": "playing at home", "football": "playing at home", "letters": "playing at home",
        "chess": "playing white", "points": "playing white",
    }.get(name, "being shown first")  # fmt: skip
    # Of these, less is used than said, or a number is a side.
    much = ("numbers", "points", "scores", "football", "likert", "signs")
    assert [bool(note) for note in data.notes] == ([True] if name in much else [])


@pytest.mark.parametrize(("result", "hinted"), [("A", False), ("see page 2", True)])
def test_a_column_of_outcomes_that_agrees_with_the_scores_needs_no_word(tmp_path, result, hinted):
    path = tmp_path / "c.csv"
    path.write_text(f"home,visitor,hgoal,vgoal,result\nAda,Bob,1,1,D\nAda,Cy,0,2,{result}\n")
    data = read_comparisons(path)
    assert data.ignored_columns == ("result",)
    assert bool(data.unused_column_hints) == hinted


def records(text):
    header, *rows = (line.split(",") for line in text.splitlines())
    return [dict(zip(header, row, strict=True)) for row in rows]


@pytest.mark.parametrize("kind", ["csv.gz", "jsonl", "jsonl.gz", "parquet"])
def test_every_kind_of_file_reads_the_same(tmp_path, kind):
    text, path = SIDES["arena"], tmp_path / f"c.{kind}"
    if "json" in kind:
        text = "\n".join(json.dumps({**row, "meta": {"turn": 1}}) for row in records(text))
    path.write_bytes(gzip.compress(text.encode()) if kind.endswith("gz") else text.encode())
    if kind == "parquet":
        pd.DataFrame(records(text)).to_parquet(path)
    assert in_battles(read_comparisons(path)) == BATTLES


def test_the_fast_reader_and_the_strict_one_agree(tmp_path):
    rng = np.random.default_rng(1)
    cells = np.array(["a", " b", "é", "1.0", "NA", "", "c\t"])[rng.integers(0, 7, (200, 3))]
    plain = "x,y,z\n" + "".join(",".join(["k", *row[1:]]) + "\n" for row in cells)
    tables = []
    for name, text in (("fast", plain), ("strict", plain.replace("k", '"k"'))):
        path = tmp_path / f"{name}.csv"
        path.write_text(text)
        tables.append(read_table(path))
    assert [c.values for c in tables[0].columns] == [c.values for c in tables[1].columns]
    np.testing.assert_array_equal(tables[0].rows, tables[1].rows)
    for one, other in zip(*(table.columns for table in tables), strict=True):
        np.testing.assert_array_equal(one.codes, other.codes)


def test_nested_columns_of_parquet_are_kept_as_text(tmp_path, monkeypatch):
    turn = {"role": "user", "parts": np.array([{"at": pd.Timestamp("2020-01-01")}], object)}
    chats = [np.array([turn], object), np.array([], object)]
    frame = pd.DataFrame(
        {"winner": ["a", "b"], "loser": ["b", "c"], "chat": chats, "tags": [turn, None]}
    )
    monkeypatch.setattr(pd, "read_parquet", lambda path: frame)
    data = read_comparisons(tmp_path / "log.parquet")
    assert data.names == ("a", "b", "c")
    assert data.ignored_columns == ("chat", "tags")


def test_covariates_are_recognised_or_named(tmp_path):
    path = tmp_path / "c.csv"
    path.write_text(
        "model_a,model_b,winner,judge,category,weight\n"
        "x,y,a,Eve,maths,1\nx,y,b,Dan,code,0\ny,x,tie,Eve,code,2.5\n"
    )
    data = read_comparisons(path)
    assert data.judge_names == ("Eve", "Dan") and data.category_names == ("maths", "code")
    np.testing.assert_array_equal(data.judges, [0, 0])
    np.testing.assert_array_equal(data.categories, [0, 1])
    np.testing.assert_array_equal(data.weights, [1.0, 2.5])  # a row of weight 0 is left out
    assert data.ignored_columns == () and data.unused_column_hints == ()
    names = ColumnNames(first="model_b", second="model_a", judge="category", ignore=("judge",))
    turned = read_comparisons(path, columns=names)
    assert turned.judge_names == ("maths", "code") and turned.categories is None
    assert in_battles(turned) == [("y", "x", LOSS), ("x", "y", TIE)]


def test_home_is_nobody_s_on_neutral_ground(tmp_path):
    path = tmp_path / "c.csv"
    path.write_text(
        "home_team,away_team,home_score,away_score,neutral\nx,y,1,0,FALSE\nx,y,0,1,TRUE\n"
    )
    np.testing.assert_array_equal(read_comparisons(path).position, [1.0, 0.0])


def test_an_item_against_itself_is_left_out_of_a_log_and_counted(tmp_path):
    path = tmp_path / "c.csv"
    path.write_text(SIDES["arena"] + "Ada,Ada,tie\n")
    data = read_comparisons(path)
    assert in_battles(data) == BATTLES
    assert data.notes == ("Comparisons of an item with itself, left out: 1.",)


def test_what_looks_useful_and_is_not_used_is_told(tmp_path):
    path = tmp_path / "c.csv"
    path.write_text("winner,loser,annotator,votes,colour,preference\na,b,x,1,red,1\n")
    data = read_comparisons(path)
    assert data.ignored_columns == ("annotator", "votes", "colour", "preference")
    assert [sentence.split()[1] for sentence in data.unused_column_hints] == [
        "'annotator'", "'votes'", "'preference'",
    ]  # fmt: skip
    quiet = ColumnNames(ignore=("annotator", "preference"), weight="votes")
    assert read_comparisons(path, columns=quiet).unused_column_hints == ()


@pytest.mark.parametrize(
    ("cell", "meaning"),
    [
        ("model_a", WIN), ("Model B", LOSS), ("A", WIN), ("tie(bothbad)", TIE), ("neither", TIE),
        ("A is a lot better", WIN), ("Response B is clearly better", LOSS), ("B is worse", WIN),
        ("I strongly prefer A", WIN), ("A is better than B", WIN), ("[[B]]", LOSS), ("A<<B", LOSS),
        ("[[A>B]]", WIN), ("A and B", None), ("not A", None), ("", None), ("A>A", None),
        ("better", None), ("a bit", None), ("both good", TIE),
    ],
)  # fmt: skip
def test_words(cell, meaning):
    assert words_mean(cell, "model_a", "model_b") == meaning


def test_a_is_away_where_there_is_a_home():
    assert words_mean("A", "home", "away") == LOSS
    assert words_mean("H", "HomeTeam", "AwayTeam") == WIN
    assert words_mean("H", "AwayTeam", "HomeTeam") == LOSS
    assert words_mean("1-0", "black", "white") == LOSS


def test_numbers():
    assert numbers_mean(np.array([2, -1, 0]), "first") == [WIN, LOSS, TIE]
    assert numbers_mean(np.array([2, -1, 0]), "second") == [LOSS, WIN, TIE]
    assert numbers_mean(np.array([1, 0.5]), "first") == [WIN, TIE]
    assert numbers_mean(np.array([1, np.nan]), "first") is None
    assert isinstance(numbers_mean(np.array([1, 5]), "first"), str)  # from 1 to 5: which is good?


def test_a_frame_reads_as_its_file_does(tmp_path):
    path = tmp_path / "c.csv"
    path.write_text(SIDES["football"])
    frame = pd.read_csv(path)
    assert in_battles(read_comparisons(frame)) == BATTLES
    assert in_battles(read_comparisons(frame.to_dict("list"))) == BATTLES
    with pytest.raises(DataError, match="the comparisons, row 3, column 'FTHG': the number is"):
        read_comparisons(frame.drop(columns="FTR").assign(FTHG=[1, 2, None, 0]))
    with pytest.raises(DataError, match=r"by --winner.* \(options are arguments of ColumnNames: "):
        read_comparisons(pd.DataFrame([["a", "b", 1]]))
    with pytest.raises(DataError, match="the comparisons: int is neither the path of a file nor"):
        read_comparisons(3)


@pytest.mark.parametrize("library", ["pandas", "pyarrow", "polars"])
def test_frames_of_every_library_read_the_same(library):
    module = pytest.importorskip(library)
    make = module.table if library == "pyarrow" else module.DataFrame
    log = make(
        {
            "model_a": ["Ada", "Cy", "Bob", "Bob"],
            "model_b": ["Bob", "Ada", "Cy", "Ada"],
            "winner": ["model_a", "model_b", "tie", "model_a"],
            "day": [datetime(2024, 1, day, 10, 30) for day in (1, 2, 3, 4)],
        }
    )
    data = read_comparisons(log, time="day")
    assert in_battles(data) == BATTLES and data.times is not None
    assert data.times[1] == np.datetime64("2024-01-02T10:30")
    ranks = read_comparisons(make({"Tea": [1, 2], "Milk": [2, 3], "Water": [3, 1]}))
    assert ranks.orders is not None and ranks.orders.groups[1] == ((2,), (0,), (1,))
    lists = read_comparisons(make({"ranking": [["a", "b"], ["b", "a"]]}))
    assert lists.orders is not None and lists.orders.groups == (((0,), (1,)), ((1,), (0,)))


def test_a_square_frame_may_name_its_rows_by_the_index():
    wins = pd.DataFrame([[0, 3], [1, 0]], index=["Ada", "Bob"], columns=["Ada", "Bob"])
    with pytest.raises(DataError, match="the first line holds items"):
        read_comparisons(wins.set_axis([0, 1], axis=0).set_axis([0, 1], axis=1))
    data = read_comparisons(wins)
    assert data.comparisons.tolist() == [[0, 1], [1, 0]] and data.weights is not None
    assert data.weights.tolist() == [3, 1]


def test_names_that_look_alike_are_told(tmp_path):
    path = tmp_path / "c.csv"
    path.write_text(
        "winner,loser\nTea,tea\nMilk,Mi\u200blk\ne\u0301,\u00e9\na  b,a\u00a0b\n1,1.0\n"
    )
    data = read_comparisons(path)
    assert data.num_items == 10
    assert data.unused_column_hints == (
        "Names that may be one are taken apart: "
        "'Tea' and 'tea'; 'Milk' and 'Mi\\u200blk'; 'e\\u0301' and '\\xe9'; and 2 more. "
        "If they are: --fold-names.",
    )


def test_without_pyarrow_one_line_says_what_to_do(tmp_path, monkeypatch):
    def missing(path):
        raise ImportError("Unable to find a usable engine")

    monkeypatch.setattr(pd, "read_parquet", missing)
    with pytest.raises(DataError, match="needs the package pyarrow; install it"):
        read_comparisons(tmp_path / "c.parquet")
