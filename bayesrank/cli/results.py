"""Commands on the results of `rank`: `compare` two items, `suggest` pairs, `predict`."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from bayesrank._names import count_of, meant, shown
from bayesrank.cli.app import say
from bayesrank.cli.outputs import OutputError, give_tables, refuse_to_replace
from bayesrank.cli.pipeline import FILES, RANKER
from bayesrank.cli.scores import tasks_needed
from bayesrank.datasets import DataError
from bayesrank.datasets.items import Items, read_items
from bayesrank.datasets.layouts import sides_of
from bayesrank.datasets.table import read_table
from bayesrank.ranking.columns import exact_percent, score_text


def load_results(results: Path) -> Any:
    """The ranker in a folder of results."""
    from bayesrank.estimators import Ranker

    path = results / RANKER
    if not path.is_file():
        raise OutputError(
            f"{results}: there is no {RANKER} in it; give the folder that `rank` wrote "
            "(beyond 200 MB it writes none)"
        )
    try:
        return Ranker.load(path)
    except ValueError as error:
        raise OutputError(str(error)) from None


def compare(results: Path, first: str, second: str, level: float) -> None:
    """Print how two items compare."""
    from bayesrank.estimators.skills import outcome_chances

    ranker = load_results(results)
    names = [str(name) for name in ranker.names_]
    pair = [_number(name, names) for name in (first, second)]
    if pair[0] == pair[1]:
        raise OutputError(f"{first!r} is given twice; name two items")
    parts = ranker.components_
    if parts is not None and parts[pair[0]] != parts[pair[1]]:
        raise OutputError(f"no comparison links {first!r} and {second!r}; compare them first")
    skills, scored = ranker.samples(), ranker.holds_scores
    gap = skills[:, pair[0]] - skills[:, pair[1]]
    low, high = np.quantile(gap, [(1 - level) / 2, (1 + level) / 2])
    better = float(ranker.prob_better([[ranker.names_[i] for i in pair]])[0])
    chances = {} if scored else outcome_chances(ranker, np.array([pair]))
    words = {"win": "wins", "tie": "ties", "loss": "loses"}
    said = ", ".join(f"{words[each]} {exact_percent(float(p[0]))}" for each, p in chances.items())
    ends = f"{100 * level:g}% interval {low:+.2f} to {high:+.2f}"
    lines = [f"{first} is better than {second} with probability {exact_percent(better)}."]
    if scored:
        measure, sd = ranker.scores.measure, gap.std()
        texts = (score_text(each, measure, sd) for each in (gap.mean(), low, high))
        mean, low, high = (text.rstrip("%") for text in texts)
        points = " points" if measure == "share" else ""
        ends = f"{100 * level:g}% interval {low} to {high}"
        lines.append(f"Difference in score on {ranker.question}: {mean}{points} ({ends}).")
        order = np.array(pair if gap.mean() > 0 else pair[::-1])
        lines += filter(None, [tasks_needed(ranker.scores, order, level, "the two")])
    else:
        lines.append(f"In a comparison with {second}, {first} {said}.")
        lines.append(f"Difference in skill: {gap.mean():+.2f} ({ends}).")
    for line in lines:
        click.echo(shown(line))


def suggest(results: Path, number: int, out: Path) -> None:
    """Write the next pairs to collect."""
    refuse_to_replace({"--out": out}, (results / name for name in FILES))
    ranker = load_results(results)
    if ranker.holds_scores:
        frame = ranker.scores.next_tasks(num_tasks=number)
        rows = _table(list(frame), frame.itertuples(index=False))
    else:
        rows = [["first", "second"], *ranker.suggest(number)]
    give_tables([(out, rows)], "give another --out")


def _number(name: str, names: list[str]) -> int:
    """Number of a named item."""
    if name in names:
        return names.index(name)
    fix = meant(name, names, "give the name of an item that was ranked")
    raise OutputError(f"unknown item {name!r}; {fix}")


_PRINTED = Path("-")


def predict(
    results: Path, pairs: Path | None, items: Path | None, out: Path, skills: Path | None
) -> None:
    """Read all files, predict, then write."""
    if pairs is None and items is None:
        raise click.UsageError("Give a file of pairs, or --items, or both.")
    if skills is not None and items is None:
        raise click.UsageError("--skills needs --items.")

    from bayesrank.estimators.skills import newcomers, outcome_chances

    inputs = (pairs, items, *(results / name for name in FILES))
    refuse_to_replace({"--out": out, "--skills": skills}, inputs)
    ranker = load_results(results)
    if ranker.holds_scores:
        raise OutputError(f"{results}: predict is of comparisons, and it holds a score table")
    names = [str(name) for name in ranker.names_]
    new, given = None, []
    if items is not None:
        read = _read_new_items(items, ranker, names)
        new = newcomers(ranker, np.asarray(read.features))
        rows = zip(read.names, *new.skills(), strict=True)
        header = ["item", "skill_mean", "skill_sd"]
        given.append((skills or _PRINTED, _table(header, rows)))
        names += read.names
    if pairs is not None:
        numbers = _read_pairs(pairs, names)
        chances = outcome_chances(ranker, numbers, new)
        rows = zip(*np.array(names, object)[numbers].T, *chances.values(), strict=True)
        given.append((out, _table(["first", "second", *chances], rows)))
        label = getattr(ranker, "position_label_", None)
        if label is not None and ranker.posterior_.effects().position_effect is not None:
            say(f"Note: the probabilities leave out the advantage of {label}.")
        _tell_unlinked(ranker, numbers)
    give_tables(given, "give another --out or --skills")


def _tell_unlinked(ranker: Any, numbers: np.ndarray) -> None:
    """Say of how many pairs the data say nothing, because no comparison links their items."""
    parts, ranked = ranker.components_, (numbers < len(ranker.names_)).all(axis=1)
    if parts is None:
        return
    apart = int((np.ptp(np.asarray(parts)[numbers[ranked]], axis=1) > 0).sum())
    if apart:
        said = "their probabilities take the groups for equally good"
        say(f"Note: no comparison links the items of {count_of(apart, 'pair')}: {said}.")


def _read_pairs(path: Path, names: list[str]) -> np.ndarray:
    """Numbers of the items of each pair, shape (P, 2); two items for a header are refused."""
    table, known = read_table(path), {name: number for number, name in enumerate(names)}
    if len(table.columns) < 2:
        fix = "name two items in each row, as in first,second"
        raise DataError(path, "there is one column", fix, row=1)
    if known.keys() >= {*table.header[:2]}:
        problem = f"{table.quoted} are items, where the names of the columns belong"
        raise DataError(path, problem, "write first,second above them", row=1)
    sides = []
    for column in sides_of(table) or table.columns[:2]:
        for name in column.values:
            if name not in known:
                fix = meant(name, names, "it was not ranked; remove it")
                raise table.error(f"unknown item {name!r}", fix, None, column.holds(name))
        sides.append(np.array([known[name] for name in column.values])[column.codes])
    same = sides[0] == sides[1]
    if same.any():
        problem = f"item {names[sides[0][int(np.argmax(same))]]!r} is paired with itself"
        raise table.error(problem, "remove it", None, same)
    return np.stack(sides, axis=1)


def _read_new_items(path: Path, ranker: Any, names: list[str]) -> Items:
    """Features of items that were not ranked, in the columns that `rank` was given."""
    columns = getattr(ranker, "feature_names_in_", None)
    if columns is None:
        raise click.UsageError("--items: these results are of items without features.")
    new = read_items(path, few=True)
    if new.features is None or new.feature_names != tuple(columns):
        problem = f"its features are {', '.join(new.feature_names) or 'none'}"
        fix = f"give those that the items were ranked by, in this order: {', '.join(columns)}"
        raise DataError(path, problem, fix, row=1)
    for name in new.names:
        if name in names:
            raise DataError(path, f"item {name!r} was ranked already", "remove it here")
    return new


def _table(header: list[str], rows: Iterable[Sequence[Any]]) -> list[list[str]]:
    return [header, *([_cell(value) for value in row] for row in rows)]


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"
