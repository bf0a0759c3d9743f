"""What cannot be used: one line that names the file, the place and the fix; nothing is written."""

import shlex
from pathlib import Path

import pytest
from cli_run import run

LOG = "winner,loser,category,Task,t\na,b,x,code,1\nb,a,y,code,2\n"
RATED = "user,item,rating\n"
FILES = {
    "c.csv": "winner,loser\nA,B\nB,C\n",
    "ranking.csv": "winner,loser\nA,B\n",
    "i.csv": "item,x\nA,1\nB,2\nC,3\n",
    "r.csv": f"{RATED}a,x,1\nb,x,2\n",
}
SCENES = {
    "rank": "rank c.csv --quiet",
    "by": "rank log.csv --by-category --quiet",
    "rate": "rate r.csv --quiet",
}
# What is called, with options; a file that is other than above, and its text; what is said.
REFUSED = [
    ("rank --items i.csv", "c.csv", "winner,loser\nZ,B\n",
     "c.csv, row 2, column 'winner': unknown item 'Z'; "),
    ("!rank no.csv", "", "", "no.csv: there is no such file; check the path"),
    ("rank --items no.csv", "", "", "no.csv: there is no such file; "),
    ("!rank .", "", "", ".: this is a directory; "),
    ("!rank", "", "", "Missing argument 'COMPARISONS'. See `"),
    ("!rnak", "", "", "No such command 'rnak'."),
    ("!demo --sed 1", "", "", "No such option '--sed'"),
    ("!demo --seed -1", "", "", "Invalid value for '--seed': "),
    ("rank --anchor A=1000 --anchor A=900", "", "", "'A' is given twice; leave one of them"),
    ("rank --anchor A=1000+-x", "", "", "write NAME=1000, or NAME=1250+-10 for an error of 10"),
    ("by --category Task --category category", "log.csv", LOG, "--category is given twice; give"),
    ("rank --seed 1 --seed 1", "", "", "--seed is given twice"),
    ("rate --top 3 --top 4", "", "", "--top is given twice"),
    ("rank --items i.csv", "i.csv", "item,x,colour\nA,1,red\nB,2,red\nC,3,blue\n",
     "column 'colour': 'red' is not a finite number; write a number, or leave out the column"),
    ("!rank r.npz", "r.npz", "PK", "r.npz: this is a saved model; give the comparisons themselves"),
    ("rank --anchor a", "", "", "'a' is not a name and a number; write NAME=1000"),
    ("rank --anchor a=nan", "", "", "'a=nan' is not a name and a number"),
    ("rank --level 1", "", "", "Invalid value for '--level'"),
    ("rank --rows x", "", "", "Invalid value for '--rows': 'x' is not a valid integer."),
    ("rank --level x", "", "", "Invalid value for '--level': 'x' is not a valid number."),
    ("rank --anchor b=1", "", "", "unknown item 'b'; did you mean 'B'? See `"),
    ("rank --out c.csv", "", "", "c.csv: this is a file; give a folder"),
    ("rank --out c.csv/o", "", "", "the results cannot be written (Not a dir"),
    ("!rank ranking.csv --out .", "", "", "the results would replace this input; use --out"),
    ("rank --hyperparameters mean", "", "",
     "'mean' is not a value; give integrate, map, prior, or values as in scale=1.5"),
    ("rank --hyperparameters scale=", "", "", "'scale=' is not a value"),
    ("rank --hyperparameters width=2", "", "",
     "--hyperparameters: hyperparameters names 'width'; there are ('scale',)"),
    ("rank --hyperparameters 'scale=1 2'", "", "", "pass a positive number"),
    ("!rank log.csv --hyperparameters amplitude=1 --quiet", "log.csv",
     "winner,loser,judge\na,b,x\nb,a,y\n", "names 'amplitude'; there are ('scale', "),
    ("rank --judge who", "", "", "there is no column 'who'"),
    ("rank --home", "", "", "--home needs a file"),
    ("rank --items i.csv --time t", "", "", "leave out --items or --time"),
    ("!rank log.csv --judge Task --time t", "log.csv", LOG, "--judge does not go with --time"),
    ("by --ignore category --ignore Task", "log.csv", LOG, "no column of the file is read as"),
    ("by --category Task --ignore category", "log.csv", LOG, "of one category (code), and its"),
    ("by", "log.csv", "order\na > b\n", "orders have no categories; leave it out"),
    ("rate", "r.csv", f"{RATED}a,x,1\na,x,2\n", "row 3: user 'a', item 'x' is already in row 2"),
    ("rate", "r.csv", f"{RATED}a,x,1\nb,x,2.5\n", "row 3, column 'rating': '2.5' is not a whole"),
    ("rate --levels 5", "r.csv", f"{RATED}a,x,1\nb,x,9\n", "9 is not one of 1 to 5"),
    ("rate", "r.csv", f"{RATED}a,x,1\nb,x,3\n", "nobody used level 2 of 1 to 3"),
    ("rate", "r.csv", f"{RATED}a,x,1\nb,x,1e8\n", "nobody used level 2 of 1 to 100000000"),
    ("rate", "r.csv", f"{RATED}a,x,1\nb,x,1\n", "every rating is 1; there is nothing to learn"),
    ("rate", "r.csv", f"{RATED}a,,1\nb,x,2\n", "row 2, column 'item': the cell is empty"),
    ("rate", "r.csv", "user,thing,rating\na,x,1\n", "there is no column 'item'"),
    ("rate", "r.csv", f"{RATED}a,x,1e300\n", "row 2, column 'rating': 1e+300 is not one of"),
    ("rate --levels 3", "", "", "gaps, or leave --levels out"),
    ("rate --strength nan", "", "", "nan is not a finite number"),
    ("rate --items i.csv", "", "", "r.csv: unknown item 'x'; add it to i.csv"),
    ("rate --items i.csv", "i.csv", "item\nx\nz\n", "names of items but no features; add columns"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "name", "text", "message"), REFUSED)
def test_one_line_exit_code_2_and_nothing_written(
    tmp_path, monkeypatch, capsys, call, name, text, message
):
    monkeypatch.chdir(tmp_path)
    for file, content in {**FILES, **({name: text} if name else {})}.items():
        Path(file).write_text(content)
    before = sorted(tmp_path.rglob("*"))
    scene, *options = shlex.split(call)
    args = [scene[1:]] if scene.startswith("!") else shlex.split(SCENES[scene])
    assert run(*args, *options) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and message in printed.err
    assert printed.err.startswith("Error: ") and printed.err.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before
