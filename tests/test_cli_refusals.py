"""What cannot be used: one line that names the file, the place and the fix; nothing is written."""

import shlex
from pathlib import Path

import pytest
from cli_run import run

LOG = "winner,loser,category,Task,t\na,b,x,code,1\nb,a,y,code,2\n"
RATED = "user,item,rating\n"
RUN, QRELS = "query,item,score\nq1,a,3\nq1,b,2\n", "query,item,label\nq1,a,0\nq1,b,2\n"
RANKS, BOTH = "x,rank:a,rank:b\n", "x,rank:a,rank:b,relevant:a,relevant:b\n"
FILES = {
    "c.csv": "winner,loser\nA,B\nB,C\n",
    "ranking.csv": "winner,loser\nA,B\n",
    "i.csv": "item,x\nA,1\nB,2\nC,3\n",
    "r.csv": f"{RATED}a,x,1\nb,x,2\n",
    "run.csv": RUN,
    "qrels.csv": QRELS,
    "new.csv": "x\n1\n",
    "docs.jsonl": '{"id": "d1", "text": "sort"}\n{"id": "d2", "text": "trees"}\n',
    "queries.csv": "id,text\nq1,sort\n",
    "links.csv": "from,to\nd1,d2\n",
    "judged.csv": "query,item,label\nq1,d1,1\n",
    "bare.jsonl": '{"id": 1, "text": "."}\n',
    "svm": "1 qid:a 1:2\n0 qid:a 1:1\n",
}
SCENES = {
    "rank": "rank c.csv --quiet",
    "by": "rank log.csv --by-category --quiet",
    "labels": "labels t.csv --predict new.csv --quiet",
    "rate": "rate r.csv --quiet",
    "learn": "learn f --quiet",
    "evaluate": "evaluate run.csv qrels.csv",
    "search": "search docs.jsonl --queries queries.csv --links links.csv --out o --quiet",
    "bm25": "search docs.jsonl --queries queries.csv --quiet",
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
    ("by --time t --ignore category --ignore Task", "log.csv", LOG,
     "--by-category does not go with --time"),
    ("by", "log.csv", "order\na > b\n", "orders have no categories; leave it out"),
    ("labels", "t.csv", "x,rank:a\n1,1\n", "row 1: there are columns of 1 labels; name two or"),
    ("labels", "t.csv", "rank:a,rank:b\n1,2\n", "row 1: there is no column of features"),
    ("labels", "t.csv", f"{RANKS}one,1,2\n", "row 2, column 'x': 'one' is not a finite number"),
    ("labels", "t.csv", f"{RANKS}1,1,2\n1,0,1\n", "row 3, column 'rank:a': 0 is not a rank"),
    ("labels", "t.csv", f"{RANKS}1,80,95\n", "row 2, column 'rank:a': 80 is not a rank among 2"),
    ("labels", "t.csv", "x,rank:a,rank:\n1,1,2\n", "row 1: a column names no label"),
    ("labels", "t.csv", "x,relevant:a,relevant:b\n1,1,2\n",
     "column 'relevant:b': 2 is neither 0 nor 1"),
    ("labels", "t.csv", f"{RANKS}1,,\n", "rankings and relevant are missing"),
    ("labels", "t.csv", f"{BOTH}1,1,2,0,1\n", "example 0 contradicts itself"),
    ("labels", "t.csv", "y,rank:a,rank:b\n1,1,2\n",
     "new.csv, row 1: there is no column 'y'; add that feature"),
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
    ("learn", "f", "x qid:1 1:2\n", "row 1: the grade is 'x', not a finite number"),
    ("learn", "f", "-1 qid:1 1:2\n", "the grade is -1, not a whole number from 0 to"),
    ("learn", "f", "1 qid:1 1:2\n1 qid:1 a:2\n", "row 2: 'a:2' is not an index from 0 on"),
    ("learn", "f", "1 qid: 1:1\n", "the query is empty"),
    ("learn", "f", "1 qid:1 1\x1c:1\n", r"'1\x1c:1' is not an index"),
    ("learn", "f", f"1 qid:1 {'9' * 5000}:2\n", f"'{'9' * 40}...' is not an index"),
    ("learn", "f", f"1 qid:1 {'x' * 5000}\n", f"'{'x' * 40}...' is not an index"),
    ("learn", "f", "1 qid:1 2147483648:2\n", "'2147483648:2' is not an index from 0 on"),
    ("learn", "f", "1 qid:1\n", "no item has a feature"),
    ("learn", "f", "1 1:2\n", "1 of its 1 lines have no qid"),
    ("learn", "f", "query,label\nq,1\n", "there is no column of features"),
    ("learn", "f", "query,label,item,a\nq,1,x,1\nq,0,x,2\n",
     "row 3: query 'q', item 'x' is already in row 2"),
    ("learn", "f", "query,label,item,a\nq,1,,1\n", "row 2, column 'item': an item has no name"),
    ("learn", "f", "query,label,a\nq,1,x\n", "row 2, column 'a': 'x' is not a finite number"),
    ("learn", "f", "query,label,a\nq,0.5,1\n", "'0.5' is not a whole number"),
    ("learn", "f", "query,label,a\n,1,1\n", "the query is empty"),
    ("learn", "f", "1 qid:a 1:2\n0 qid:a 1:1\n", "there is one query only"),
    ("learn --test f", "f", "1 qid:a 1:2\n1 qid:a 1:1\n", "y is the same within every list"),
    ("evaluate", "run.csv", "", "run.csv: the file is empty"),
    ("evaluate", "run.csv", "query,item,score\n", "run.csv: there is a header but no row"),
    ("evaluate", "run.csv", "query,item,score\nq1,a,nan\n", "row 2, column 'score': 'nan' is not"),
    ("evaluate", "run.csv", "query,item,score\n,a,1\n", "row 2, column 'query': the cell is empty"),
    ("evaluate", "run.csv", "query,docno,score\nq1,,1\n", "column 'docno': the cell is empty"),
    ("evaluate", "run.csv", "query,item,score\nq1,a,1\nq1,a,2\n",
     "row 3: query 'q1', item 'a' is already in row 2"),
    ("evaluate", "run.csv", "query,item\nq1,a\n", "run.csv, row 1: there is no column 'score'"),
    ("evaluate", "run.csv", "q1 Q0 a 1 2.5 t\nq1 Q0 b 2\n", "row 2: 4 fields where a TREC line"),
    ("evaluate", "run.csv", "q1 Q0 a 1 2.5\n", "row 1: 5 fields where a TREC line has 6; write"),
    ("evaluate", "run.csv", "q1 0 a 1\n", "row 1: 4 fields where a TREC line has 6; write"),
    ("evaluate", "run.csv", "query,item,score\nq7,a,1\n", "none of its 1 queries is judged in"),
    ("evaluate", "run.csv", "q1 Q0 a 1 x t\n", "run.csv, row 1, column 'score': 'x'"),
    ("evaluate", "qrels.csv", "query,item,label\nq1,a,2000\n", "labels go up to 2000, and 2**"),
    ("evaluate", "qrels.csv", "query,item,label\nq1,a,1e300\n", "1e+300 is not one of"),
    ("evaluate", "qrels.csv", "query,item,label\nq1,a,-1\n",
     "qrels.csv, row 2, column 'label': the label -1 is"),
    ("evaluate", "qrels.csv", "query,item,label\nq1,a,0.5\n", "'0.5' is not a whole number"),
    ("evaluate", "qrels.csv", "query,item,rel\nq1,a,\n", "column 'rel': the number is missing"),
    ("evaluate", "qrels.csv", "q1 0 a 1\nq1 0 a 0\n",
     "qrels.csv, row 2: query 'q1', item 'a' is already in row 1"),
    ("evaluate --undefined often", "", "", "'often' is neither 'skip' nor a number"),
    ("evaluate --undefined nan", "", "", "'nan' is neither 'skip' nor a number"),
    ("search", "docs.jsonl", '{"id": "a"}', "row 1: there is no column 'text'"),
    ("search", "docs.jsonl", '{"text": "a"}', "row 1: there is no column 'id'"),
    ("search", "docs.jsonl", '{"id": "a", "text": "b"}\n[1]', "row 2: this line is not a JSON"),
    ("search", "docs.jsonl", '{"id": "a", "text"', "row 1: this line is not a JSON"),
    ("search", "docs.jsonl", '{"id": "", "text": "b"}', "row 1, column 'id': the id is empty"),
    ("search", "docs.jsonl", '{"id": 1, "text": ""}\n{"id": 1, "text": ""}',
     "id '1' is already in row 1"),
    ("search", "links.csv", "from,to\nd1,d9\n", "row 2, column 'to': there is no document 'd9'"),
    ("search", "links.csv", "from,to\nd1,d1\n", "joins no two different documents"),
    ("search", "queries.csv", "a,b\n1,2\n", "there is no column 'id'"),
    ("search --judged judged.csv", "", "", "fewer than two of the queries have a relevant"),
    ("search --judged judged.csv --link-weight 0.2", "", "", "takes the place of --link-weight"),
    ("bm25 --method link-learn", "", "", "needs --links"),
    ("bm25 --link-weight 0.2", "", "", "--link-weight needs --links"),
    ("bm25 --out queries.csv", "", "", "this file is used already; give another --out"),
    ("bm25 --language klingon", "", "", "choose one of"),
    ("bm25 --out no/run.csv", "", "", "cannot be written"),
    ("!search bare.jsonl --queries queries.csv --quiet", "", "", "no text has a word"),
    ("!search absent.jsonl --queries queries.csv", "", "", "there is no such file"),
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
