"""Files as people have them, and every example of the pages on files: read, or refused."""

import gzip
import re
import shlex
import tomllib
import warnings
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from layout_answers import said

from bayesrank.datasets import ColumnNames, DataError, ReadingNote, read_comparisons

FOLDER = Path(__file__).parent / "data" / "layouts"
FILES = tomllib.loads((FOLDER / "answers.toml").read_text("utf-8"))
DOCS = Path(__file__).parent.parent / "docs"
NAMES = ("files.md", "files-pairs.md", "files-orders.md")
PAGE = "\n".join((DOCS / name).read_text("utf-8") for name in NAMES)
EXAMPLE = re.compile(
    r"`(?P<name>\w+\.\w+)`(?: with `(?P<options>[^`]*)`)?[^`\n]*(?:`[^`\n]*`[^`\n]*)*\n\n"
    r"```text\n(?P<text>.*?)```\n\n(?:Reads|Refused:) `(?P<answer>[^`]*)`",
    re.DOTALL,
)
EXAMPLES = {match["name"]: match.groupdict() for match in EXAMPLE.finditer(PAGE)}
pytestmark = pytest.mark.filterwarnings("ignore::bayesrank.datasets.ReadingNote")


def column_names(options):
    """The options of a command as arguments."""
    words = shlex.split(options or "")
    chosen: dict[str, Any] = {"fold_names": True} if "--fold-names" in words else {}
    pairs = zip(words[::2], words[1::2], strict=False)
    chosen |= {name[2:].replace("-", "_"): value for name, value in pairs}
    if "ignore" in chosen:
        chosen["ignore"] = (chosen["ignore"],)
    if "covariates" in chosen:
        chosen["covariates"] = tuple(chosen["covariates"].split(","))
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


SUBTLE: dict[str, tuple[str | bytes, dict[str, Any], str]] = {
    "place_of_winner.csv": (
        "winner,loser,position,note\na,b,1,x\nb,c,-1,y\nc,a,0,x\n", {}, "a > b; b > c; c > a",
    ),
    # Each was once read as something else, or is one letter from what would be.
    "columns.json": ('{"winner": ["a", "b"], "loser": ["b", "c"]}', {}, "a > b; b > c"),
    "index.json": ('{"winner": {"0": "a"}, "loser": {"0": "b"}}', {}, "a > b"),
    "inside.json": ('{"data": [{"winner": "a", "loser": "b"}]}', {}, "a > b"),
    "teams.jsonl": ('{"winner": ["a", "b"], "loser": ["c"]}', {}, "is a list; teams are not mod"),
    "zero_or_one.csv": (
        "item_1,item_2,preference\na,b,1\nb,c,0\n", {}, "holds the numbers 0, 1, which may mean",
    ),
    "season.csv": (
        "home_team,away_team,home_wins,away_wins,home_score,away_score\nA,B,30,12,99,101\n", {},
        "'home_wins' counts wins beside home,away,home_score,away_score, which may say another",
    ),
    "votes.csv": (
        "rank_1,rank_2,rank_3\nA,B,undervote\nB,undervote,\nB,overvote,A\n", {}, "A > B; B > A",
    ),
    "ties.csv": ('order\n"A,B > C"\nC > A > B\n', {}, "'A,B' may be one item or 2; write a = b"),
    "names.csv": ('order\n"Li, A > Wu, B"\n"Wu, B > Xi, C"\n', {}, "Li, A > Wu, B; Wu, B > Xi, C"),
    "forms.csv": (
        "ID,Drinks,Foods\n1,Tea;Milk;,Pie;Egg;\n2,Milk;Tea;,Egg;Pie;\n", {},
        "several columns hold orders; name one, as in --order Drinks",
    ),
    "quoted.pgn": ('[White "a \\"x\\""]\n[Black "b"]\n[Result "1-0"]\n', {}, 'a "x" > b'),
    "shared.csv": ("race,car,place\n1,a,1st\n1,b,T2\n1,c,=2\n", {}, "a > b = c"),
    "points.csv": ("team,opponent,team_score,opp_score\na,b,2,1\nb,c,0,3\n", {}, "a > b; c > b"),
    "both.csv": ("model_a,model_b,vote\na,b,Both are good\nb,c,A is better\n", {}, "a = b; b > c"),
    "months.csv": (
        "winner,loser,t\na,b,202312\nb,a,202401\n", {"time": "t"},
        "a > b at 2023-12-01; b > a at 2024-01-01",
    ),
    "minutes.csv": (
        "winner,loser,t\na,b,20231231T2359\nb,a,20240101T0000\n", {"time": "t"},
        "a > b at 2023-12-31T23:59:00.000000; b > a at 2024-01-01",
    ),
    "folded.soi": (
        "# ALTERNATIVE NAME 1: Tea\n# ALTERNATIVE NAME 2: tea\n# ALTERNATIVE NAME 3: Milk\n"
        "2: 1,3\n1: 3,2\n", {"fold_names": True}, "2 x Tea > Milk; Milk > Tea",
    ),
    "folded_twice.soi": (
        "# ALTERNATIVE NAME 1: Tea\n# ALTERNATIVE NAME 2: tea\n1: 1,2\n", {"fold_names": True},
        "row 3: item 'Tea' is in the order twice",
    ),
    "option.soi": (
        "# ALTERNATIVE NAME 1: a\n# ALTERNATIVE NAME 2: b\n1: 1,2\n", {"winner": "w"},
        "files of orders have no columns; leave out --winner",
    ),
    "codes.csv": (
        "winner,loser\na,b\n", {"outcome_codes": ("1", "2")}, "--outcome-codes tells how to",
    ),
    "format.csv": ("winner,loser\na,b\n", {"date_format": "%d"}, "name it with --time COLUMN"),
    "na.csv": ("winner,loser\na,b\nb,N/A\n", {}, "row 3, column 'loser': 'N/A' stands for a"),
    "dash.csv": ("race,car,place\n1,a,1\n1,-,2\n", {}, "'-' stands for a missing name"),
    "best.csv": (
        "item1,item2,item3,best\n3,1,2,1\n2,5,1,2\n", {}, "'1' may be an item of the row or a",
    ),
    "best_by_place.csv": (
        "item1,item2,item3,best\n3,1,2,1\n3,5,4,2\n", {}, "3 > 1 = 2; 5 > 3 = 4",
    ),
    "beside.csv": (
        "response_a,response_b,model_a,model_b,winner\nq,r,m,n,a\nq,r,n,o,b\n", {}, "m > n; o > n",
    ),
    "ids.csv": (
        "p1,p2,p1_name,p2_name,winner\n11,12,Ann,Ben,12\n11,13,Ann,Cai,11\n", {},
        "12 > 11; 11 > 13",
    ),
    "ids_or_sides.csv": (
        "player1_id,player1,player2_id,player2,winner\n1,Ann,2,Ben,2\n2,Ben,1,Ann,1\n", {},
        "row 3, column 'winner': '1' is the name of an item and also a word for another outcome",
    ),
    "to_come.csv": (
        "home,away,home_score,away_score\na,b,2,1\nb,c,,\nc,a,NA,NA\n", {}, "a > b",
    ),
    "half_told.csv": (
        "home,away,home_score,away_score\na,b,2,1\nb,c,1,\n", {}, "row 3, column 'away_score': the",
    ),
    "no_winner.csv": (
        "team1,team2,winner\na,b,a\nb,c,NA\n", {}, "the outcome is missing; write team1, team",
    ),
    "nearly_twice.csv": (
        "team,opp,result\n" + "a,b,W 3-1\nb,a,L 1-3\n" * 9 + "b,a,W 2-1\n", {},
        "every game, or nearly so, is there twice",
    ),
    "tables.csv": (
        "table_id,game,player_name,rank\n1,Catan,a,1\n1,Catan,b,2\n2,Catan,b,1\n2,Catan,a,2\n", {},
        "a > b; b > a",
    ),
    "tasks.csv": (
        "resp,task,item,best,worst\n1,1,a,1,0\n1,1,b,0,1\n2,1,c,1,0\n2,1,d,0,1\n", {},
        "a > b; c > d",
    ),
    "years.csv": (
        "event,year,player,rank\nOpen,22,a,1\nOpen,22,b,2\nOpen,23,b,1\nOpen,23,a,2\n", {},
        "a > b; b > a",
    ),
    "retired.csv": (
        "raceId,driverId,position,positionOrder\n1,a,1,1\n1,b,R,3\n1,c,2,2\n", {}, "a > c > b",
    ),
    "words.csv": ("user,first,second,third\n1,a,b,c\n2,b,a,c\n", {}, "a > b > c; b > a > c"),
    "corners.csv": (
        "R_fighter,B_fighter,Winner\na,b,Red\nc,d,Blue\nc,a,Draw\n", {}, "a > b; d > c; c = a",
    ),
    "mturk.csv": (
        "HITId,Input.item_a,Input.item_b,Answer.choice\nh,a,b,A\nh,b,c,B\n", {}, "a > b; c > b",
    ),
    "poll.csv": ("candidate_a,candidate_b,votes_a,votes_b\na,b,3,1\n", {}, "3 x a > b; b > a"),
    "races.csv": ("Race,a,b,c\n1,1,2,3\n2,2,1,3\n", {}, "a > b > c; b > a > c"),
    "monkey.csv": (
        "ID,Date,Rank them,,,Why?\n,,Tea,Milk,Water,Words\n1,,1,2,3,\n2,,2,1,3,x\n",
        {}, "Tea > Milk > Water; Milk > Tea > Water",
    ),
    "titled.csv": ("Results,,\nhome,away,result\na,b,1-0\n", {}, "number 2 has no name; remove"),
    "comment.csv": ("# new\nwinner,loser\na,b\n", {}, "2 cells where the header has 1; remove"),
    "blanks.txt": ("winner loser\na b\n", {}, "there is one column, 'winner loser'; separate colu"),
    "votes.txt": ("a > b\nb > a\n", {}, "there is one column, 'a > b'; write order above it"),
    "arrows.csv": ("ranking\na → b\nb → a\n", {}, "'a → b' is not an item of an order; write it"),
    "within.json": ('{"of": 2, "games": [{"winner": "a", "loser": "b"}]}', {}, "a > b"),
    "models.jsonl": (
        '{"models": {"a": "x", "b": "y"}, "won": "y"}\n',
        {"first": "models.a", "second": "models.b", "outcome": "won"}, "y > x",
    ),
    "pairs.json": ('[["a", "b"]]', {}, 'write objects, as in {"winner": "Ada", "loser": "Bob"}'),
    "is_tie.csv": ("winner,loser,is_tie\na,b,N\nb,c,Y\n", {}, "a > b; b = c"),
    "drawn.csv": (
        "winner,loser,result\na,b,win\nb,c,draw\n", {},
        "row 3, column 'result': 'draw' may say that the two were equal; mark ties by 1",
    ),
    "broken.csv": ("winner,loser\na,#REF!\n", {}, "'#REF!' stands for a missing name"),
    "point_or_thousand.csv": (
        "winner;loser;weight\na;b;1.200\nb;a;800\n", {},
        "row 2, column 'weight': '1.200' may be 1.2 or 1200; write all rows in one of these ways",
    ),
    "comma_or_thousand.csv": (
        'winner,loser,weight\na,b,"1,200"\nb,a,800\n', {}, "'1,200' may be 1.2 or 1200; write all",
    ),
    "thousands.csv": (
        "winner;loser;weight\na;b;1.200\nb;a;0,5\n", {}, "1200 x a > b; 0.5 x b > a",
    ),
    "english.csv": (
        'winner,loser,weight\na,b,"1,200.5"\nb,a,2\n', {}, "1200.5 x a > b; 2 x b > a",
    ),
    "points.csv ": ("winner;loser;weight\na;b;1.25\nb;a;1.200\n", {}, "1.25 x a > b; 1.2 x b > a"),
    "orders.csv": ("n;order\n1;3,1\n2;1,3\n", {}, "3 > 1; 1 > 3"),
    "versions.csv": ("winner;loser\n1.200;2.100\n", {}, "1.200 > 2.100"),
    "numbers.csv": (
        "winner,loser\n1,2\n1.0,2\n", {"fold_names": True}, "1 > 2; 1 > 2",
    ),
    "total.csv": (
        "team,Ada,Bob,Cy,Total\nAda,,3,1,4\nBob,1,,2,3\nCy,0,2,,2\nTotal,1,5,3,9\n", {},
        "3 x Ada > Bob; Ada > Cy; Bob > Ada; 2 x Bob > Cy; 2 x Cy > Bob",
    ),
    "from_zero.csv": (
        "Tea,Coffee,Milk\n0,1,2\n1,0,2\n", {},
        "the ranks of 'Tea' and the others count from 0; write 1 for the best, 2 for the next",
    ),
    "no_place.csv": (
        "race,car,place\n1,a,1\n1,b,2\n1,c,0\n", {},
        "row 4, column 'place': '0' may be the first place, or none; write 1 for the first",
    ),
    "seasons.csv": (
        "winner,loser,t\na,b,2009/10\nb,a,2010/11\n", {"time": "t"},
        "row 2, column 't': '2009/10' may be a season or a month; write the year of a season",
    ),
    "one_month.csv": ("winner,loser,t\na,b,2009/10\n", {"time": "t"}, "a > b at 2009-10-01"),
    "halves.csv": ("white,black,result\na,b,1\nb,c,0.5\n", {}, "a > b; b = c"),
    "not_there.csv": ("winner,loser\na,b\nn.a.,b\n", {}, "'n.a.' stands for a missing name"),
    "teams.csv": ("winner,loser\n\"['a', 'b']\",c\n", {}, "is a list; teams are not modelled"),
    "tie_name.csv": (
        "winner,loser\na,b\ntie,b\n", {}, "row 3, column 'winner': 'tie' may say that the two",
    ),
    "postponed.csv": (
        "home,away,home_score,away_score,status\na,b,0,0,Postponed\n", {},
        "'Postponed' says that there is no result; remove such rows, or use them with --ignore st",
    ),
    "postponed_empty.csv": (
        "home,away,home_score,away_score,status\na,b,,,Postponed\na,b,1,0,FT\n", {}, "a > b",
    ),
    "entities.csv": ("order\na &gt; b\nb &gt; a\n", {}, "'a &gt' is not an item of an order"),
    "dashes.csv": ("order\na -> b\n", {}, "'a -' is not an item of an order; write it as"),
    "plays.csv": (
        "playId,game,player,score\n1,Catan,a,8\n1,Catan,b,9\n2,Catan,a,8\n2,Catan,b,7\n", {},
        "b > a; a > b",
    ),
    "choices.csv": (
        "Timestamp,First choice,Second choice,Third choice\n1,a,b,c\n2,c,a,b\n", {},
        "a > b > c; c > a > b",
    ),
    "side.csv": (
        "model_a,model_b,winner,loser\na,b,a,b\nb,c,model_b,b\n", {},
        "row 3, column 'winner': 'model_b' is the name of a column; write the item in its place",
    ),
    "keys.csv": ("left,right,choice\nx,y,L\ny,z,R\n", {}, "x > y; z > y"),
    "nobody.csv": ("winner,loser,judge\na,b,NA\n", {}, "'NA' stands for a missing name"),
    "who.csv": (
        "i,j,winner\n1,2,1\n", {}, "as the loser; say which is, by --loser, or, if it names the",
    ),
    "versions_.csv": (
        "winner,loser\n1.10,2\n1.1,0.5\n2,1.10\n007,7\n1e3,1000\n", {},
        "1.10 > 2; 1.1 > 0.5; 2 > 1.10; 007 > 7; 1e3 > 1000",
    ),
    "temperatures.csv": (
        "model_a,model_b,winner\n0,0.5,0.5\n0.5,1,0.5\n", {},
        "name of an item and also a number for another outcome; write model_a",
    ),
    "degrees.csv": (
        "model_a,model_b,winner\n-1,1,-1\n1,-1,-1\n2,-1,2\n", {},
        "name of an item and also a number for another outcome; write model_a",
    ),
    "left_out.csv": (
        "model_a,model_b,winner,day,weight\np,p,tie,,\np,q,p,3,2\nq,p,p,4.5,1\n", {"time": "day"},
        "2 x p > q at 3.0; p > q at 4.5",
    ),
    "penalties.csv": (
        "home,away,home_score,away_score,result\np,q,1,1,H\nq,p,2,1,H\n", {},
        "row 2, column 'result': the scores say that the outcome is another; say which counts: --o",
    ),
    "by_outcome.csv": (
        "home,away,home_score,away_score,result\np,q,1,1,H\nq,p,2,1,H\n", {"outcome": "result"},
        "p > q; q > p",
    ),
    "by_scores.csv": (
        "home,away,home_score,away_score,result\np,q,1,1,H\nq,p,2,1,H\n",
        {"first_score": "home_score", "second_score": "away_score"}, "p = q; q > p",
    ),
    "beside_scores.csv": (
        "home,away,home_score,away_score,result\np,q,1,1,1-1\nq,p,2,1,2-1\n", {}, "p = q; q > p",
    ),
    "counted.csv": (
        "order,count\na > b = c,2\nc > a,1\na > b = c,1\n", {}, "3 x a > b = c; c > a",
    ),
    "counted.jsonl": (
        '{"order": ["a", ["b", "c"]], "count": 2}\n{"order": ["c", "a"], "count": 1}\n', {},
        "2 x a > b = c; c > a",
    ),
    "repeated.csv": ("winner,loser\na,b\na,b\nb,a\n", {}, "a > b; a > b; b > a"),
    "letters.csv": ('winner,loser\n"a, ""b""","Ωμέγα"\n', {}, 'a, "b" > Ωμέγα'),
    "truths.csv": (
        "winner,loser,tie\na,b,0\na,b,1\na,b,\na,b,TRUE\na,b,no\na,b,yes\na,b,False\na,b,1.0\n", {},
        "a > b; a = b; a > b; a = b; a > b; a = b; a > b; a = b",
    ),
    "no_loser.csv": (
        "W,L\nx,y\n", {"winner": "W"}, "row 1: none of the columns 'W', 'L' is recognised as the l"
    ),
    "no_second.csv": (
        "W,L\nx,y\n", {"first": "W"}, "row 1: none of the columns 'W', 'L' is recognised as the s"
    ),
    "no_outcome.csv": (
        "model_a,model_b\nx,y\n", {}, "row 1: none of the columns 'model_a', 'model_b' is "
        "recognised as the outcome; say which is, by --outcome, or by --first-score and --sec",
    ),
    "bad_word.csv": (
        "model_a,model_b,winner\nx,y,a\nx,y,perhaps\n", {},
        "row 3, column 'winner': 'perhaps' is not a recognised outcome; write model_a, model_b or",
    ),
    "score.csv": (
        "home,away,home_score,away_score\nx,y,1,two\n", {},
        "row 2, column 'away_score': 'two' is not a finite number; ",
    ),
    "only_itself.csv": ("model_a,model_b,winner\nx,x,a\n", {}, "every row compares an item with "),
    "no_judge.csv": ("winner,loser,judge\nx,y,\n", {}, "row 2, column 'judge': the judge has no n"),
    "weight.csv": ("winner,loser,weight\nx,y,-1\n", {}, "row 2, column 'weight': the weight is ne"),
    "all_weights_zero.csv": ("winner,loser,weight\nx,y,0\n", {}, "column 'weight': all weights ar"),
    "column_not_there.csv": (
        "winner,loser\nx,y\n", {"judge": "who"}, "there is no column 'who' among 'winner', 'loser'",
    ),
    "tie_with_sides.csv": (
        "home,away,home_score,away_score,t\nx,y,1,0,0\n", {"tie": "t"},
        "--tie does not go with the columns ",
    ),
    "ignored_column_not_there.csv": ("winner,loser\nx,y\n", {"ignore": ("z",)}, "there is no colu"),
    "order.csv": ("order\na > > b\n", {}, "row 2, column 'order': 'a > > b' is not an order; "),
    "item_twice.csv": ("order\na > b > a\n", {}, "row 2: item 'a' is in the order twice"),
    "no_better.csv": ("order\na = b\n", {}, "no order puts one item above another"),
    "judged_orders.csv": (
        "order,j\na > b,x\n", {"judge": "j"}, "orders have no judges yet; leave out --judge",
    ),
    "e.jsonl": (b'{"winner": "a", "loser": "b", "winner": "b"}\n', {}, "row 1: this line is not a"),
    "f.jsonl": (b'{"winner": "a", "loser": "\\ud800"}\n', {}, "half of a character"),
    "g.jsonl": (b"{}\n{}\n", {}, "no cell holds anything"),
    "c.jsonl": (b'{"winner": "a"}\nnot json\n', {}, "row 2: this line is not a JSON object"),
    "d.jsonl": (b"[1]\n", {}, "row 1: this line is not a JSON object"),
    "c.csv.gz": (b"winner,loser\na,b\n", {}, "this is not a complete gzip file"),
    "d.csv.gz": (gzip.compress(b"winner,loser\na,b\n")[:-9], {}, "this is not a complete gzip fil"),
    "empty.csv": ("", {}, "the file is empty; "),
    "blank.csv": ("\n \n", {}, "the file is empty; "),
    "header_only.csv": ("winner,loser\n", {}, "there is a header but no row below it; "),
    "column_twice.csv": (
        "winner,loser,Winner\nAda,Bob,Cy\n", {}, "row 1, column 'Winner': this column is there twi",
    ),
    "short_row.csv": (
        "winner,loser\nAda,Bob\nAda\n", {}, "row 3: 1 cells where the header has 2; ",
    ),
    "itself.csv": (
        "winner,loser\n\nAda,Bob\nBob, Bob\n", {}, "row 4, column 'loser': item 'Bob' is compared ",
    ),
    "line_break.csv": (
        'winner,loser\n"a\nb","a\nb"\n', {}, "row 4, column 'loser': item 'a\\nb' is compared",
    ),
    "other_words.csv": (
        "winner_name,loser_name,ties\nAda,Bob,0\nBob,Cy,1\n", {}, "Ada > Bob; Bob = Cy",
    ),
    "tie.csv": (
        "winner,loser,Tie\nAda,Bob,maybe\n", {}, "row 2, column 'Tie': 'maybe' is neither 0 nor 1;",
    ),
    "open_quote.csv": ('winner,loser\n"Ada,Bob\n', {}, "row 2: this is not comma-separated text ("),
    "no_encoding.csv": (
        b"winner,loser\nAda,Bob\nJos\x81,Bob\n", {}, "row 3: this is neither UTF-8 nor Windows-125",
    ),
    "half_of_UTF_16.csv": ("winner,loser\na,b\nb,c\n".encode("utf-16")[:-1], {}, "row 3: this is "),
    "zero_byte.csv": ("winner,loser\nAda,B\0b\n", {}, "row 2: there is a zero byte; "),
    "zip.csv": (
        b"PK\3\4\x14\0\xe9", {}, "this is a zip archive; unpack it; the name of a spreadsheet ends",
    ),
    "gzip.csv": (gzip.compress(b"winner,loser\na,b\n"), {}, "packed by gzip; unpack it, or let"),
    "three.csv": ("p1,p2,p3,winner\na,b,c,a\n", {}, "none of the columns 'p1', 'p2', 'p3', 'w"),
    "header.csv": ("winner,loser", {}, "there is a header but no row below it; add the data"),
    "codes_again.csv": (
        "left,right,choice\na,b,1\nb,c,0\n", {"outcome_codes": ("1", "0", "1")},
        "column 'choice': --outcome-codes gives two meanings to '1'; give it one",
    ),
    "codes_of_three.csv": (
        "left,right,choice\na,b,0\nb,c,1\n", {}, "left, right and ties: --outcome-codes FIRST,",
    ),
    "format_of_dates.csv": (
        "winner,loser,day\na,b,06/08/24\n", {"time": "day", "date_format": "dd/mm/yy"},
        "'06/08/24' is not a date written as 'dd/mm/yy'; correct it, or --date-format, as in %d",
    ),
    "no_time.csv": (
        "winner,loser,day\na,b,2024-5-1\na,b,\n", {"time": "day"}, "row 3, column 'day': the time",
    ),
    "is_tie_.csv": ("Winner,Loser,Is Tie\na,b,1\nb,c,0\n", {}, "a = b; b > c"),
    "winner_names.csv": ("Winner Name,Loser Name\na,b\n", {}, "a > b"),
    "winning.csv": ("WinningTeam,LosingTeam\na,b\n", {}, "a > b"),
    "points_.jsonl": ('{"winner.name": "a", "loser.name": "b"}\n', {}, "a > b"),
    "chosen_of_two.csv": ("preferred item,other item\na,b\nc,b\n", {}, "a > b; c > b"),
    "chosen.csv": ("Chosen_Response,Rejected_Response,tie\na,b,0\nb,c,1\n", {}, "a > b; b = c"),
    "winning_items.csv": ("WinningPlayer,LosingPlayer\na,b\n", {}, "a > b"),
    "unselected.csv": ("selected,not selected,day\na,b,1\n", {"time": "day"}, "a > b at 1.0"),
    "outcome_beside.csv": (
        "model_a,model_b,preferred,other\na,b,b,slow\n", {}, "b > a",
    ),
    "lone_other.csv": ("preferred,other\na,b\nb,\n", {}, "row 3, column 'other': "),
    "preferred.csv": ("item_a,item_b,preferred item\na,b,a\nb,c,c\n", {}, "a > b; c > b"),
    "spelled.csv": ("Wi-nner,LOSER,Day Of\na,b,1\n", {"time": "day_of"}, "a > b at 1.0"),
    "ignored.csv": ("winner,loser,Is Tie\na,b,1\n", {"ignore": ("is_tie",)}, "a > b"),
    "vote_names.csv": (
        "model_a_name,model_b_name,chosen_model_name,both_equal\na,b,a,False\nb,c,,True\n", {},
        "a > b; b = c",
    ),
    "equal_or_not.csv": (
        "model_a,model_b,winner,tie\na,b,a,1\n", {},
        "row 2, column 'tie': it says that the two were equal, and 'winner' says 'a'",
    ),
    "nobody_won.csv": (
        "model_a,model_b,winner,tie\na,b,a,0\na,b,,0\n", {}, "row 3, column 'winner': the outcome",
    ),
    "team_rows.csv": (
        "game,team,player,place\n0,red,p1,1\n0,red,p2,1\n0,blue,p3,2\n0,blue,p4,2\n", {},
        "row 2, column 'team': rows of one game are of one team; teams are not modelled yet",
    ),
    "team_scores.csv": (
        "match,side,player,score\n0,x,p1,3\n0,x,p2,3\n0,y,p3,1\n", {}, "teams are not modelled yet",
    ),
    "drivers.csv": (
        "race,driver,team,place\n1,a,x,1\n1,b,x,3\n1,c,y,2\n", {}, "a > c > b",
    ),
    "team_cells.csv": (
        "winner,loser\np5|p0,p2|p6\np2|p7,p0|p4\n", {},
        "row 2, column 'winner': 'p5|p0' is more than one item; teams are not modelled yet",
    ),
    "team_again.csv": (
        "winner,loser\nann|bob,cy\nbob|ann,dan\n", {}, "'ann|bob' is more than one item; teams are",
    ),
    "team_pairs.csv": (
        "home,away,result\nann & bob,cy & dan,1-0\ncy & ann,bob & dan,0-1\n", {},
        "teams are not modelled yet",
    ),
    "team_columns.csv": (
        "winner1,winner2,loser1,loser2\na,b,c,d\n", {}, "teams are not modelled yet",
    ),
    "team_of_two.csv": (
        "team1_player1,team1_player2,team2_player1,team2_player2,winner\na,b,c,d,1\n", {},
        "teams are not modelled yet",
    ),
    "team_events.csv": (
        "game,player,place\n1,a|b,1\n1,c|d,2\n2,b|c,1\n2,a|d,2\n", {}, "teams are not modelled yet",
    ),
    "vendors.csv": (
        "winner,loser\nopenai/gpt,meta/llama\nmeta/llama,openai/o1\n", {},
        "openai/gpt > meta/llama; meta/llama > openai/o1",
    ),
    "combined.csv": ("winner,loser\na+b,a\na,b\n", {}, "a+b > a; a > b"),
    "criteria.csv": (
        "user,video_a,video_b,criteria,score\nu,v,w,fun,-3\nu,v,w,style,2\nu,w,x,fun,1\nu,w,x,style,1\n",
        {}, "column 'criteria': a comparison has a row for each criterion; keep those of one, or",
    ),
    "criteria_.csv": (
        "video_a,video_b,criteria,score\nv,w,fun,-3\nv,w,style,2\n", {"category": "criteria"},
        "w > v; v > w",
    ),
    "one_criterion.csv": (
        "item_a,item_b,criterion,winner\np,q,fun,p\nq,r,style,q\n", {}, "p > q; q > r",
    ),
    "zeros.csv": (
        "a,b,c,d,freq\n1,2,3,4,2\n2,1,4,3,1\n1,2,0,0,3\n0,0,4,1,1\n", {"weight": "freq"},
        "2 x a > b > c > d; b > a > d > c; 3 x a > b; d > c",
    ),
    "zeros_or_first.csv": (
        "a,b,c\n0,1,2\n2,1,0\n1,0,0\n", {},
        "row 2, column 'a': '0' may be the first place, or none; write 1 for the first, and",
    ),
    "overvotes.csv": (
        "rank1,rank2,rank3\nKiss,Wright,Montroll\nKiss|Wright,Montroll,\nMontroll,,Kiss\n"
        "Wright,Wright,Kiss\n", {},
        "Kiss > Wright > Montroll; Montroll > Kiss; Wright > Kiss",
    ),
    "ballot.csv": (
        "ballot,first,second,third\n1,a,b,c\n2,b,a,c\n", {}, "a > b > c; b > a > c",
    ),
    "ballot_rows.csv": (
        "ballot,candidate,rank\n1,a,1\n1,b,2\n2,b,1\n2,a,2\n", {}, "a > b; b > a",
    ),
    "ballot_ids.csv": (
        "ballot,Tea,Beer,Milk\n1,1,2,3\n2,2,1,3\n", {}, "Tea > Beer > Milk; Beer > Tea > Milk",
    ),
    "finish.csv": (
        "race,car,place\n1,a,1\n1,b,2\n1,c,DNF\n", {},
        "row 4, column 'place': 'DNF' is not a place; write the last place for who did not",
    ),
    "contradiction.csv": (
        "winner,loser,winner_score,loser_score\na,b,3,1\nb,c,1,2\n", {},
        "row 3, column 'winner_score': the scores say that the loser won; correct the row",
    ),
    "contradiction_.csv": (
        "WTeam,LTeam,WScore,LScore\na,b,3,1\nb,c,1,2\n", {}, "the scores say that the loser won",
    ),
    "no_contradiction.csv": (
        "winner,loser,winner_score,loser_score\na,b,3,1\nb,c,2,2\n", {}, "a > b; b > c",
    ),
    "marks.csv": (
        "model,task,score\na,t,1\na,u,8\nb,t,2\nb,u,1\n", {},
        "this may be a score table, systems by tasks, or an order of items a row or task; say wh",
    ),
    "no_marks.csv": (
        "model,task,score\na,t,1\na,u,8\nb,t,2\nb,u,1\n", {"scores": "none"}, "b > a; a > b",
    ),
    "wide_marks.csv": (
        "task,a,b,c\nt,1,2,3\nu,3,1,2\n", {}, "say which: --scores number, or --scores none",
    ),
    "square_of_models.csv": (
        "model,a,b,c\na,,1,0\nb,1,,1\nc,0,0,\n", {}, "a > b; b > a; b > c",
    ),
    "games.csv": (
        "race,model,score\nt,a,1\nt,b,3\nu,a,2\nu,b,0\n", {}, "b > a; a > b",
    ),
    "points_twice.csv": (
        "game,player,score\nt,a,0\nt,a,1\nt,b,3\n", {},
        "row 3: game 't', player 'a' is already in row 2; repeats are not modelled yet",
    ),
    "journal.jsonl": (
        '{"bayesrank":"journal","version":2,"items":2}\n["answer"]\n', {},
        "row 1: this is a journal of ask; export its answers: bayesrank ask ITEMS --journal",
    ),
    "judged.csv": (
        "order,judge\na > b,x\nb > a,x\n", {"judge": "judge"},
        "orders have no judges yet; leave out --judge",
    ),
    "respondents.csv": (
        "respondent,task,item,best,worst\n1,1,a,1,0\n1,1,b,0,1\n1,2,a,0,1\n1,2,b,1,0\n",
        {"judge": "respondent"}, "orders have no judges yet; leave out --judge",
    ),
    "points_in_a_cell.csv": (
        "home,away,score,winner\nAjax,PSV,1-3,home\nPSV,Ajax,2-1,home\n", {},
        "row 2, column 'score': it contradicts 'winner'; say which counts: --outcome winner, or -",
    ),
    "points_agree.csv": (
        "home,away,score,winner\nAjax,PSV,3-1,home\nPSV,Ajax,2-2,tie\n", {},
        "Ajax > PSV; PSV = Ajax",
    ),
    "points_turned.csv": (
        "away,home,score,winner\nAjax,PSV,3-1,home\nPSV,Ajax,2-1,home\n", {},
        "PSV > Ajax; Ajax > PSV",
    ),
    "teams_in_orders.csv": (
        "order\nann+bob > cid+dee\nbob+ann > dee+cid\n", {},
        "'ann+bob' is more than one item; teams are not modelled",
    ),
    "teams_in_places.csv": (
        "rank1,rank2,rank3\nann & bob,cid & dee,fay\ncid & dee,bob & ann,fay\nfay,cid & dee,\n", {},
        "'ann & bob' is more than one item; teams are not modelled",
    ),
    "teams_of_winners.csv": (
        "winners,losers\np|q,r|s\nq|p,s|r\n", {}, "'p|q' is more than one item; teams",
    ),
}  # fmt: skip


@pytest.mark.parametrize("who", ["respondent", "Participant ID", "sys_RespNum", "voter", "labeler"])
@pytest.mark.parametrize("layout", ["sets", "order"])
def test_people_who_give_several_orders_are_warned_of(who, layout):
    marks = ("a", 1, 0), ("b", 0, 1)
    rows = [(person, task, *mark) for person in "uv" for task in "12" for mark in marks]
    frame = pd.DataFrame(rows, columns=[who, "task", "item", "best", "worst"])
    if layout == "order":
        frame = frame.assign(order="a > b")[[who, "order"]]
    first = read_comparisons(frame).unused_column_hints[0]
    assert first.startswith(f"Orders have no judges yet: several of one {who} count as independent")
    assert not read_comparisons(frame[frame[who] == "u"]).unused_column_hints
    # two people are too few for the check, of which a sentence speaks with more of them
    assert "Independent rows" not in first
    many = pd.concat([frame[frame[who] == "u"].assign(**{who: k}) for k in range(5)])
    assert "'Independent rows' says by how" in read_comparisons(many).unused_column_hints[0]


@pytest.mark.parametrize("name", SUBTLE)
def test_what_is_close_to_another_layout(tmp_path, name):
    text, options, answer = SUBTLE[name]
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    try:
        assert said(read_comparisons(path, columns=ColumnNames(**options))) == answer
    except DataError as error:
        assert answer in str(error) and error.path == path
        assert "\n" not in str(error) and error.fix in str(error)


HINTED = {
    # What is read or refused with options to add, each of which is then tried.
    "who.csv": "winner,loser,public.username\na,b,x\nb,a,y\n",
    "users.csv": "winner,loser,user id\na,b,x\nb,a,y\n",
    "seasons.csv": "winner,loser,date,n\na,b,2024-05-31,1\nb,a,2024-06-01,2\n",
    "sides.csv": "model_a,model_b,winner,task,Num Votes\na,b,model_a,x,1\na,b,model_b,y,1\n",
    "points.csv": "home,away,home_score,away_score,result\np,q,1,0,see page 2\nq,p,2,1,H\n",
    "turned.csv": "home,away,home_score,away_score,result\np,q,1,1,H\nq,p,2,1,H\n",
    "results.csv": "winner,loser,preference\na,b,1\nb,a,1\n",
    "orders.csv": "order,judge,time,category\na > b,x,1,y\nb > a,x,2,y\n",
    "sets.csv": "respondent,task,item,best,worst\nu,1,a,1,0\nu,1,b,0,1\nu,2,a,0,1\nu,2,b,1,0\n"
    "v,1,a,1,0\nv,1,b,0,1\n",
    "criteria.csv": "video_a,video_b,criteria,score\nv,w,fun,-3\nv,w,style,2\n",
    "forms.csv": "ID,Best drinks,Foods\n1,Tea;Milk;,Pie;Egg;\n2,Milk;Tea;,Egg;Pie;\n",
    "cells.csv": "home,away,score,winner\na,b,1-3,home\nb,c,2-1,home\n",
    "drawn.csv": "winner,loser,result\na,b,win\nb,c,draw\n",
    "to_play.csv": "home,away,home_score,away_score,match status\na,b,0,0,Postponed\nb,a,1,0,x\n",
    "scores.csv": "winner,loser,Winner Score,loser_score\na,b,3,1\nb,c,1,2\n",
    "wins.csv": "player1,player2,wins1,wins2,weight\na,b,3,1,2\n",
    "alike.csv": "winner,loser\nA,b\na,c\n",
    "signs.csv": "item_a,item_b,preference\na,b,-1\nb,c,2\n",
    "turned_points.csv": "away,home,result\na,b,3-1\nb,a,0-1\n",
    "nameless.csv": "winner,loser,judge\na,b,x\nb,a,\n",
}
OPTION = re.compile(r"--[a-z-]+(?: (?:'[^']*'|[\w./-]+)(?= --|[ ,.;)]|$))?")


# What is refused with words in place of names or codes: the message, and options as it says.
FOLLOWED = {
    "unknown.csv": (
        "x,y\nann,bob\nbob,cid\n",
        "by --winner and --loser", "--winner x --loser y",
    ),
    "one_named.csv": (
        "winner,p,q\nann,ann,bob\ncid,bob,cid\n",
        "if it names the winner of two, by --first and --sec", "--first p --second q",
    ),
    "no_set.csv": (
        "best,worst\nann,bob\nbob,cid\n",
        "name --winner and --loser", "--winner best --loser worst",
    ),
    "itself.csv": (
        "model_a,model_b,winner,loser\nx,y,model_a,model_b\ny,z,model_a,model_b\n",
        "add --ignore loser", "--ignore loser",
    ),
    "numbers.csv": (
        "item_a,item_b,preference\nx,y,1\ny,z,3\nx,z,2\n",
        "--outcome-codes FIRST,SECOND,TIE", "--outcome-codes 1,3,2",
    ),
    "letters.csv": (
        "item_a,item_b,choice\nx,y,L\ny,z,R\n",
        "--outcome-codes FIRST,SECOND,TIE", "--outcome-codes L,R",
    ),
    "either.csv": (
        "winner,loser,day\nx,y,01/02/2024\ny,z,03/04/2024\n",
        "--date-format %d/%m/%Y or --date-fo", "--date-format %m/%d/%Y",
    ),
    "short.csv": (
        "winner,loser,day\nx,y,201201\ny,z,201106\n",
        "--date-format %Y%m or --date-format %y%m%d", "--date-format %Y%m",
    ),
    "another.csv": (
        "winner,loser,judge\nx,y,u\ny,x,v\n",
        "name one of these with --judge", "--judge judge",
    ),
    "length.csv": (
        "winner,loser,winner_length,loser_length\nx,y,1,2\ny,x,3,1\n",
        "name one of both sides (length)", "--covariates length",
    ),
}  # fmt: skip
ASKED = {"another.csv": "--judge who", "length.csv": "--covariates size"}


def test_judges_are_not_offered_beside_times_or_features(tmp_path):
    """A command refuses them there."""
    path, items = tmp_path / "log.csv", tmp_path / "items.csv"
    path.write_text("winner,loser,day,annotator\na,b,1,x\nb,a,2,y\n")
    items.write_text("item,price\na,1\nb,2\n")
    [alone] = [h for h in read_comparisons(path).unused_column_hints if "annotator" in h]
    assert alone.endswith("add --judge annotator or --ignore annotator.")
    for data in (read_comparisons(path, time="day"), read_comparisons(path, items)):
        [hint] = data.unused_column_hints
        assert hint.endswith("is not used: add --ignore annotator.")


@pytest.mark.parametrize("name", FOLLOWED)
def test_options_with_words_to_be_filled_in_lead_to_an_answer(tmp_path, name):
    text, hint, options = FOLLOWED[name]
    path = tmp_path / name
    path.write_text(text)
    dated = " --time day" if ",day" in text else ""
    with pytest.raises(DataError, match=re.escape(hint)):
        read_comparisons(path, columns=column_names(ASKED.get(name, "") + dated))
    assert read_comparisons(path, columns=column_names(options + dated)).num_comparisons >= 2


def test_weeks_are_not_sent_to_a_format_of_months(tmp_path):
    path = tmp_path / "weeks.csv"
    path.write_text("winner,loser,day\nx,y,202453\ny,z,202401\n")
    with pytest.raises(DataError, match=r"a week of a year; write dates such as 2024-05-31$"):
        read_comparisons(path, time="day")


@pytest.mark.parametrize("name", HINTED)
def test_every_option_that_is_hinted_at_leads_to_an_answer(tmp_path, name):
    path = tmp_path / name
    path.write_text(HINTED[name])

    def hints(options):
        try:
            data = read_comparisons(path, columns=column_names(options))
        except DataError as error:
            return error.fix
        return " ".join([*data.unused_column_hints, *data.notes])

    said = hints("")
    options = [each.rstrip(".") for each in OPTION.findall(said) if " " in each]
    options += ["--fold-names"] * ("--fold-names" in said)
    if name.startswith("turned"):  # two of them go together
        options = [*options[:-2], " ".join(options[-2:])]
    if "orders have no judges" in said.lower():
        assert not options or name == "orders.csv"
    else:
        assert options, said
    for each in options:
        read_comparisons(path, columns=column_names(each))


def test_what_is_refused_is_not_said_to_be_read(tmp_path):
    path = tmp_path / "UTF_16_without_mark.csv"
    path.write_bytes("winner,loser\nZoë,Bob\n".encode("utf-16-le"))
    with warnings.catch_warnings(), pytest.raises(DataError, match="there is a zero byte"):
        warnings.simplefilter("error")
        read_comparisons(path)


@pytest.mark.parametrize("result", ["W", "L"])
def test_a_side_that_always_wins_is_no_position(tmp_path, result):
    """Files that name winners first would be explained by being first, and not by skill."""
    path = tmp_path / "games.csv"
    rows = [f"{name},z,{result}" for name in "abcdefghij"]
    path.write_text("\n".join(["team,opponent,result", *rows, "a,b,T\n"]))
    data = read_comparisons(path)
    assert data.position is None
    side = "team" if result == "W" else "opponent"
    assert data.notes[-1].startswith(f"Who stands in '{side}' won every time: ")
    path.write_text("\n".join(["team,opponent,result", *rows[1:], "a,b,T\n"]))
    assert read_comparisons(path).position is not None
    path.write_text("\n".join(["team,opponent,result", *rows, f"z,a,{'WL'[result == 'W']}\n"]))
    assert read_comparisons(path).position is not None


def test_numbers_that_stand_for_sides_are_told(tmp_path):
    path = tmp_path / "c.csv"
    path.write_text("home,away,result\na,b,1\nb,c,2\n")
    assert read_comparisons(path).notes == ("In 'result', 1 is for home and 2 for away.",)
    path.write_text("game,team,score\n1,a,3\n1,b,1\n2,a,0\n2,c,0\n")
    assert "Equal rows are not compared." in read_comparisons(path).notes[0]
    path.write_text("winner,loser,n\na,b,3\n")
    assert read_comparisons(path).unused_column_hints[0].startswith("Column 'n' looks like weights")


@pytest.mark.parametrize(
    ("columns", "answer"),
    [
        ({"winner": [1, 2], "loser": [2.0, np.nan], "tie": [0, 0]}, "the item has no name"),
        ({"winner": [1, 2], "loser": [2.0, 3.0], "tie": [0, 0]}, "1 > 2; 2 > 3"),
        ({"order": [("a", "b"), ("b", "c")]}, "a > b; b > c"),
        ({"winner": [("a", "b")], "loser": ["c"]}, "is a list; teams are not modelled"),
        ({"winner": ["a", None], "loser": ["b", np.nan]}, "a > b"),
        ({"winner": [None], "loser": [np.nan]}, "the table has no rows"),
        ({"home": ["a", None], "away": ["b", None], "result": ["H", "A"]}, "the item has no name"),
        ({"winner": [b"a"], "loser": [b"b"]}, "a > b"),
        ({"winner": [b"\xff"], "loser": ["b"]}, "a cell holds bytes that are not UTF-8 text"),
        (
            {"": ["a", "b", "c", "All"], "a": [0, 1, 0, 1], "b": [2, 0, 1, 3], "c": [0, 0, 0, 0],
             "All": [2, 1, 1, 4]},
            "2 x a > b; b > a; c > b",
        ),
    ],
)  # fmt: skip
def test_cells_of_frames(columns, answer):
    try:
        assert said(read_comparisons(pd.DataFrame(columns))) == answer
    except DataError as error:
        assert answer in str(error)


def test_judges_that_look_alike_are_told():
    log = pd.DataFrame({"winner": ["a", "b"], "loser": ["b", "c"], "judge": ["Eve", "eve"]})
    assert "'Eve' and 'eve'" in read_comparisons(log).unused_column_hints[0]


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
    path = tmp_path / "c.xlsx"
    day = datetime(2024, 8, 16)
    rows = [["player1", "player2", "winner", "day"], ["Ada", "Bob", 1, day], [], ["Bob", 7, 2, day]]
    with pd.ExcelWriter(path) as book:
        for name in ("one", "two"):
            sheet = pd.DataFrame([row + [None] * (4 - len(row)) for row in rows])
            sheet.to_excel(book, sheet_name=name, header=False, index=False)
    with pytest.warns(ReadingNote, match=r"c.xlsx has 2 sheets; the first is read: one"):
        data = read_comparisons(path, time="day")
    assert said(data) == "Ada > Bob at 2024-08-16; 7 > Bob at 2024-08-16"
    with pytest.raises(DataError, match="there is no such file"):
        read_comparisons(tmp_path / "d.xlsx")

    def missing(path, **options):
        raise ImportError("no openpyxl")

    monkeypatch.setattr(pd, "read_excel", missing)
    with pytest.raises(DataError, match=r"needs the package openpyxl; .*pip install openpyxl"):
        read_comparisons(path)


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
    monkeypatch.setattr("bayesrank.datasets.text._BLOCK", 20)
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
        (["20240101", "20231332"], "'20231332' is not a date, as others of its column are"),
        (["20240101", "0"], "'0' is not a date, as others of its column are"),
        (["2024-05-31", "3"], "'3' is not a date"),
        (["1", "x"], "'x' is not a finite number"),
        (["1", "nan"], "'nan' is not a finite number"),
        (["", "1"], "the number is missing"),
        (["202401", "202413"], "'202413' may be a week of a year"),
        (["190102", "200304"], "'190102' may be a month or a day"),
        (["200812", "201401"], ["2008-12-01", "2014-01-01"]),
        (["150077", "160088", "170002"], None),
        (["2022.12", "2023.5"], None),
        (["2024-05-31", "2024-06-31"], "'2024-06-31' is not a date"),
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
