"""How many programs each command compiles the first time: each costs its start-up time."""

import os
import subprocess
import sys

import numpy as np
import pytest

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(0)
PAIRS = [RNG.permutation(4)[:2] for _ in range(40)]
ENDS = ("model_a", "model_b", "tie")
LOG = [f"m{a},m{b},{ENDS[k % 3]},j{k % 2}" for k, (a, b) in enumerate(PAIRS)]
LEVELS = [f"u{k % 8},i{k % 5},{1 + (k + k // 8) % 3}" for k in range(40)]
NUMBERS = RNG.normal(size=(40, 2)).round(3)
FILES = {
    "three.csv": ["winner,loser", "a,b", "b,c", "c,a"],
    "log.csv": ["model_a,model_b,winner,judge", *LOG],
    "orders.csv": ["order", "a > b > c", "b > c > a", "a > c > b"],
    "items.csv": ["item,price", "a,1", "b,2", "c,3"],
    "ratings.csv": ["user,item,rating", *LEVELS],
    "sizes.csv": ["item,size", *(f"i{k},{k}" for k in range(5))],
    "labels.csv": [
        "x,z,rank:sea,rank:hills",
        *(f"{x},{z},{1 + (x > 0)},{2 - (x > 0)}" for x, z in NUMBERS),
    ],
    "new.csv": ["x,z", "1,0"],
    "docs.csv": ["id,text", "d1,quick sort", "d2,balanced tree", "d3,heap sort"],
    "queries.csv": ["query,text", "q,sort"],
    "links.csv": ["from,to", "d1,d3"],
    "lists.svm": [f"{k % 3} qid:{k // 5} 1:{x} 2:{z}" for k, (x, z) in enumerate(NUMBERS)],
    "run.csv": ["query,item,score", "q,d1,1", "q,d2,0"],
    "qrels.csv": ["query,item,label", "q,d1,1", "q,d2,0"],
    "stream.csv": ["level,a,b", *(f"{1 + k % 3},{x},{z}" for k, (x, z) in enumerate(NUMBERS))],
    "pairs.csv": ["first,second", "a,b"],
}
# What ran before, without being counted; the command; the most programs.
COMMANDS = {
    "rank": ("", "rank three.csv", 28),
    "rank of a log": ("", "rank log.csv", 15),
    "rank of orders": ("", "rank orders.csv", 25),
    "rank by features": ("", "rank three.csv --items items.csv", 30),
    "demo": ("", "demo", 30),
    "compare": ("rank three.csv --out r", "compare r a b", 2),
    "report": ("rank three.csv --out r", "report r", 2),
    "suggest": ("rank three.csv --out r", "suggest r", 8),
    "predict": ("rank three.csv --out r", "predict r pairs.csv", 2),
    "ask": ("", "ask items.csv", 20),
    "rate": ("", "rate ratings.csv --items sizes.csv --iterations 3", 15),
    "labels": ("", "labels labels.csv --predict new.csv", 35),
    "search": ("", "search docs.csv --queries queries.csv --links links.csv", 2),
    "learn": ("", "learn lists.svm --test lists.svm", 2),
    "stream": ("", "stream stream.csv --levels 3", 3),
    "evaluate": ("", "evaluate run.csv qrels.csv", 2),
}


def _run(command, folder, cache):
    """Programs that a command leaves in a cache of its own."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / cache)}
    environment.pop("JAX_COMPILATION_CACHE_DIR")
    words = [sys.executable, "-m", "bayesrank", *command.split()]
    done = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, input="1\n2\nq\n"
    )
    assert done.returncode == 0, done.stderr
    return {file.name for file in (folder / cache).glob("bayesrank/compiled/*/*-cache")}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_compiles_few_programs(name, tmp_path):
    before, command, most = COMMANDS[name]
    for file, lines in FILES.items():
        (tmp_path / file).write_text("\n".join(lines) + "\n")
    if before:
        _run(before, tmp_path, "before")
    found = _run(command, tmp_path, "counted")
    assert len(found) <= most, sorted(found)
