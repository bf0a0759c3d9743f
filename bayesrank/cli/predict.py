"""``python -m bayesrank predict``: comparisons to come, and new items, from saved results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bayesrank.cli import command
from bayesrank.cli.outputs import OutputError, give_tables, refuse_to_replace

if TYPE_CHECKING:
    import numpy as np

    from bayesrank.datasets.items import Items

_PRINTED = Path("-")
_OUTCOMES = ("win", "tie", "loss")

_HELP = """\
Predict comparisons from the RESULTS folder of `rank`.

PAIRS is comma-separated UTF-8 text with a header. Its first two columns name the items of each
pair; others are not used. Printed, or written to --out, are the probabilities that the first
item wins, ties (where ties were learned) and loses.

\b
  first,second
  Espresso,Filter
  Filter,Instant

Where `rank` was given features, the file of --items has those of further items, in the same
columns. Their skills are printed, or written to --skills. Without PAIRS, only they are.
"""


@click.command(help=_HELP)
@click.argument("results", type=command.FILE)
@click.argument("pairs", type=command.FILE, required=False)
@click.option("--items", type=command.FILE, metavar="FILE", help="Features of new items.")
@click.option(
    "--out",
    type=command.FILE,
    default=_PRINTED,
    metavar="FILE",
    help="Where the probabilities go (CSV); by default they are printed.",
)
@click.option(
    "--skills",
    type=command.FILE,
    metavar="FILE",
    help="Where the skills of the new items go (CSV); by default they are printed.",
)
def predict(
    results: Path, pairs: Path | None, items: Path | None, out: Path, skills: Path | None
) -> None:
    """Read all files, predict, then write."""
    if pairs is None and items is None:
        raise click.UsageError("Give a file of pairs, or --items, or both.")
    if skills is not None and items is None:
        raise click.UsageError("--skills needs --items.")
    import numpy as np

    from bayesrank.cli.pipeline import FILES

    inputs = (pairs, items, *(results / name for name in FILES))
    refuse_to_replace({"--out": out, "--skills": skills}, inputs)
    ranker = _load(results)
    named = None if pairs is None else _read_pairs(pairs, set(map(str, ranker.names_)))
    names = [str(name) for name in ranker.names_]
    parts, given = None, []
    if items is not None:
        new = _read_new_items(results, items, ranker, names)
        parts = _with_features(ranker, new.features)
        mean, sd = _above_average(parts, len(names))
        rows = zip(new.names, mean, sd, strict=True)
        header = ["item", "skill_mean", "skill_sd"]
        given.append((skills or _PRINTED, _table(header, rows)))
        names += new.names
    if named is not None and pairs is not None:
        numbers = _numbers(named, names, pairs)
        chances = _chances(ranker, numbers, parts)
        rows = zip(*np.array(names, object)[numbers].T, *chances.values(), strict=True)
        given.append((out, _table(["first", "second", *chances], rows)))
    give_tables(given, "give another --out or --skills")


def _load(results: Path) -> Any:
    """The ranker in a folder of results."""
    from bayesrank.cli.pipeline import RANKER
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


def _read_pairs(path: Path, known: set[str]) -> list[tuple[int, str, str]]:
    """Line and names of each pair; two items in the place of the header are refused."""
    from bayesrank.datasets import DataError
    from bayesrank.datasets.table import read_table

    table = read_table(path)
    if len(table.columns) < 2:
        cure = "name two items in each row, as in first,second"
        raise DataError(path, "there is one column", cure, row=1)
    if known.issuperset(table.header[:2]):
        problem = f"{table.quoted} are items, where the names of the columns belong"
        raise DataError(path, problem, "write first,second above them", row=1)
    first, second = ([c.values[i] for i in c.codes] for c in table.columns[:2])
    return list(zip(table.rows.tolist(), first, second, strict=True))


def _read_new_items(results: Path, path: Path, ranker: Any, names: list[str]) -> Items:
    """Features of items that were not ranked, in the columns that `rank` was given."""
    from bayesrank.datasets import DataError
    from bayesrank.datasets.items import read_items

    if getattr(ranker, "item_features", None) is None:
        raise click.UsageError("--items: these results are of items without features.")
    new = read_items(path, few=True)
    columns = _feature_names(results)
    if new.features is None or new.feature_names != columns:
        raise DataError(
            path,
            f"its features are {', '.join(new.feature_names) or 'none'}",
            f"give those that the items were ranked by, in this order: {', '.join(columns)}",
            row=1,
        )
    for name in new.names:
        if name in names:
            raise DataError(path, f"item {name!r} was ranked already", "remove it here")
    return new


def _feature_names(results: Path) -> tuple[str, ...]:
    """What the columns of features were called; the file for ArviZ has their names."""
    import xarray as xr

    path = results / "posterior.nc"
    for group in ("posterior", "constant_data"):  # scales that were averaged over, or held fixed
        try:
            with xr.open_dataset(path, group=group, engine="h5netcdf") as data:
                if "feature" in data:
                    return tuple(map(str, data["feature"].values))
        except (OSError, ValueError):
            break
    raise OutputError(
        f"{path}: this file, which names the features, is missing or damaged; run `rank` again"
    )


def _with_features(ranker: Any, features: Any) -> list[Any]:
    """What the posterior of all skills, those of new items at the end, is made of."""
    from bayesrank.solvers.comparisons.skills import with_new_items

    return with_new_items(
        ranker.posterior_, (features - ranker.feature_mean_) / ranker.feature_scale_
    )


def _above_average(parts: list[Any], num_known: int) -> tuple[np.ndarray, np.ndarray]:
    """Skills of the items after the known ones, from the average of these, as `rank` reports."""
    import numpy as np

    from bayesrank.solvers.comparisons.posterior import moments_of
    from bayesrank.solvers.comparisons.skills import above_average
    from bayesrank.solvers.comparisons.terms import MarginRows

    new = [above_average(part, num_known) for part in parts]
    each = np.arange(len(new[0].mean))
    return moments_of(new, MarginRows.of(each.size, (1.0, each)))


def _numbers(named: list[tuple[int, str, str]], names: list[str], path: Path) -> np.ndarray:
    """Numbers of the items of each pair, shape (P, 2)."""
    from difflib import get_close_matches

    import numpy as np

    from bayesrank.datasets import DataError

    known = {name: number for number, name in enumerate(names)}
    for row, *pair in named:
        for name in pair:
            if name not in known:
                close = get_close_matches(name, names, n=1)
                cure = f"did you mean {close[0]!r}?" if close else "it was not ranked; remove it"
                raise DataError(path, f"unknown item {name!r}", cure, row=row)
        if pair[0] == pair[1]:
            raise DataError(path, f"item {pair[0]!r} is paired with itself", "remove it", row=row)
    return np.array([[known[first], known[second]] for _, first, second in named])


def _chances(ranker: Any, numbers: np.ndarray, parts: list[Any] | None) -> dict[str, np.ndarray]:
    """Probability of each possible outcome of each pair, for its first item."""
    import numpy as np

    from bayesrank.solvers.comparisons import Asked
    from bayesrank.solvers.comparisons.posterior import OUTCOMES, chances_by

    asked = Asked(*numbers.T)
    if parts is None:
        found = ranker.posterior_.chances(asked)
    else:
        found = chances_by(parts, {"f": np.arange(len(parts[0].mean))}, asked, ranker.likelihood)
    possible = _OUTCOMES if "tie_width" in ranker.params_ else ("win", "loss")
    return {outcome: found[:, OUTCOMES.index(outcome)] for outcome in possible}


def _table(header: list[str], rows: Iterable[Sequence[Any]]) -> list[list[str]]:
    return [header, *([_cell(value) for value in row] for row in rows)]


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"
