"""Commands on the results of `rank`: `compare` two items, `suggest` pairs."""

from pathlib import Path
from typing import Any

import click
import numpy as np

from bayesrank._names import meant, shown
from bayesrank.cli.outputs import OutputError, give_tables, refuse_to_replace
from bayesrank.cli.pipeline import FILES, RANKER
from bayesrank.ranking.columns import exact_percent


def load_results(results: Path) -> Any:
    """The ranker in a folder of results."""
    from bayesrank.estimators import load_ranker

    path = results / RANKER
    if not path.is_file():
        raise OutputError(
            f"{results}: there is no {RANKER} in it; give the folder that `rank` wrote "
            "(beyond 200 MB it writes none)"
        )
    try:
        return load_ranker(path)
    except ValueError as error:
        raise OutputError(str(error)) from None


def compare(results: Path, first: str, second: str, level: float) -> None:
    """Print how two items compare."""
    from bayesrank.estimators.newcomers import outcome_chances

    ranker = load_results(results)
    names = [str(name) for name in ranker.names_]
    pair = [_number(name, names) for name in (first, second)]
    if pair[0] == pair[1]:
        raise OutputError(f"{first!r} is given twice; name two items")
    parts = ranker.components_
    if parts is not None and parts[pair[0]] != parts[pair[1]]:
        raise OutputError(f"no comparison links {first!r} and {second!r}; compare them first")
    skills = ranker.samples()
    gap = skills[:, pair[0]] - skills[:, pair[1]]
    low, high = np.quantile(gap, [(1 - level) / 2, (1 + level) / 2])
    better = float(ranker.prob_better([[ranker.names_[i] for i in pair]])[0])
    chances = outcome_chances(ranker, np.array([pair]))
    words = {"win": "wins", "tie": "ties", "loss": "loses"}
    said = ", ".join(f"{words[each]} {exact_percent(float(p[0]))}" for each, p in chances.items())
    ends = f"{100 * level:g}% interval {low:+.2f} to {high:+.2f}"
    for line in (
        f"{first} is better than {second} with probability {exact_percent(better)}.",
        f"In a comparison with {second}, {first} {said}.",
        f"Difference in skill: {gap.mean():+.2f} ({ends}).",
    ):
        click.echo(shown(line))


def suggest(results: Path, number: int, out: Path) -> None:
    """Write the next pairs to collect."""
    refuse_to_replace({"--out": out}, (results / name for name in FILES))
    rows = load_results(results).suggest(number)
    give_tables([(out, [["first", "second"], *rows])], "give another --out")


def _number(name: str, names: list[str]) -> int:
    """Number of a named item."""
    if name in names:
        return names.index(name)
    fix = meant(name, names, "give the name of an item that was ranked")
    raise OutputError(f"unknown item {name!r}; {fix}")
