"""`ranking.json`: everything that a ranking says; the page comes from it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesrank._version import __version__
from bayesrank.cli.outputs import OutputError
from bayesrank.cli.words import counts, observations, part_of, times
from bayesrank.ranking.columns import EloScale, file_columns

if TYPE_CHECKING:
    from bayesrank.cli.pipeline import Analysis, Ranking, Settings
    from bayesrank.datasets import ComparisonData

DOCUMENT = "ranking.json"
MOST_PAIRS = 20  # items whose pairs are told


def document(
    data: ComparisonData, settings: Settings, ranking: Ranking, analysis: Analysis
) -> dict[str, Any]:
    """Everything that a ranking says, in values that JSON has."""
    summary = ranking.summary
    top = [data.names[i] for i in summary.indices[summary.component == 0][:MOST_PAIRS]]
    return {
        "bayesrank": __version__,
        "title": settings.title or _title(settings.inputs),
        "date": date.today().isoformat(),
        "command": settings.command,
        "input": _input_id(settings.inputs, data),
        "counts": counts(data),
        "num_items": data.num_items,
        "num_comparisons": observations(data)[0],
        "num_ties": times(data, data.tied),
        "level": summary.level,
        "measure": summary.measure,
        "rankings": [
            {part_of(summary): category, **said._asdict(), "items": _rows(each, ranking.elo)}
            for category, each, said in ranking.rankings
        ],
        "pairs": ranking.better(top).tolist(),
        "checks": [check._asdict() for check in analysis.checks],
        "notes": [*analysis.notes, *settings.notes, *analysis.method],
    }


def dumped(found: Mapping[str, Any]) -> str:
    """The text of a document; a number that is missing is null."""
    return json.dumps(found, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def read_document(results: Path) -> dict[str, Any]:
    """The document in a folder of results."""
    path = results / DOCUMENT
    missing = f"{results}: there is no {DOCUMENT} of `rank` in it; give a folder that has one"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise OutputError(missing) from error
    if not isinstance(found, dict) or "rankings" not in found:
        raise OutputError(missing)
    return found


def refuse_another_input(
    out: Path, files: Sequence[str], inputs: Sequence[Path], data: ComparisonData
) -> None:
    """Refuse to write where results of another input, or of nobody knows what, are."""
    if not any(os.path.lexists(out / name) for name in files):
        return
    try:
        known = read_document(out).get("input")
    except OutputError:  # of an earlier version, or damaged: nobody knows of what
        known = None
    if known != _input_id(inputs, data):
        raise OutputError(
            f"{out}: it holds results of another input; give another --out, or --force to "
            "replace them"
        )


def _title(inputs: Sequence[Path]) -> str:
    names = [inputs[0].name, inputs[0].parent.name] if inputs and str(inputs[0]) != "-" else []
    return next((n for n in (name.split(".")[0].strip("*?") for name in names) if n), "Ranking")


def _input_id(inputs: Sequence[Path], data: ComparisonData) -> str:
    """A hash of the inputs' paths, or of what came by standard input, which has no path."""
    paths = "\n".join(os.path.realpath(path) for path in inputs)
    found = hashlib.blake2b(os.fsencode(paths), digest_size=8)
    if Path("-") in inputs:
        found.update(repr(data.names).encode())
        said = [data.comparisons, data.tied, data.weights, data.position]
        said += [] if data.scores is None else [data.scores.scores, data.scores.runs]
        for each in said:
            found.update(b"" if each is None else each.tobytes())
    return found.hexdigest()


def _rows(summary: Any, elo: EloScale | None) -> list[dict[str, Any]]:
    """Rows of a ranking, by the names of the columns of files."""
    columns = {name: np.asarray(v).tolist() for name, v in file_columns(summary, elo).items()}
    rows = zip(*columns.values(), strict=True)
    return [{k: None if v != v else v for k, v in zip(columns, row, strict=True)} for row in rows]
