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
FILES = {
    "three.csv": ["winner,loser", "a,b", "b,c", "c,a"],
    "log.csv": ["model_a,model_b,winner,judge", *LOG],
    "orders.csv": ["order", "a > b > c", "b > c > a", "a > c > b"],
    "items.csv": ["item,price", "a,1", "b,2", "c,3"],
    "ratings.csv": ["user,item,rating", *LEVELS],
    "sizes.csv": ["item,size", *(f"i{k},{k}" for k in range(5))],
    "pairs.csv": ["first,second", "a,b"],
}
# What ran before, without being counted; the command; the most programs.
COMMANDS = {
    "rank": ("", "rank three.csv", 28),
    "rank of a log": ("", "rank log.csv", 15),
    "rank of orders": ("", "rank orders.csv", 25),
    "rank by features": ("", "rank three.csv --items items.csv", 30),
    "demo": ("", "demo", 32),
    "compare": ("rank three.csv --out r", "compare r a b", 2),
    "suggest": ("rank three.csv --out r", "suggest r", 8),
    "predict": ("rank three.csv --out r", "predict r pairs.csv", 2),
    "ask": ("", "ask items.csv", 20),
    "rate": ("", "rate ratings.csv --items sizes.csv --iterations 3", 15),
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
