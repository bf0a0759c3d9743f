"""Levels and features read line by line: a line that cannot be understood says why."""

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesrank._files import reason_of
from bayesrank.datasets.cells import finite
from bayesrank.datasets.errors import DataError
from bayesrank.datasets.layouts import RATINGS
from bayesrank.datasets.svmlight import BadLine, feature, index_values, level

_MOST_LEVELS = 100  # that are taken from a file alone: a year or an id is no level


class Example(NamedTuple):
    """A line's level, and its features (d,)."""

    level: int
    features: NDArray[np.float64]


class StreamLayout(NamedTuple):
    """How the lines of a stream are written.

    Attributes
    ----------
    form
        "csv": the level, then the features, between commas. "svmlight": the level, then
        ``index:value`` between blanks, indices from 1, features that are left out being zero.
    num_levels
        Levels are whole numbers from 1 to this.
    num_features
        Number of features.
    """

    form: str
    num_levels: int
    num_features: int


def sniff(line: str) -> str:
    """Return "csv" or "svmlight", judged by a line."""
    return "csv" if "," in line.split("#")[0] else "svmlight"


def parse_line(raw: bytes, number: int, layout: StreamLayout) -> Example | None:
    """Read one line."""
    text = _decode(raw)
    cells = _cells(text, layout.form)
    if not cells:
        return None
    if number == 1 and layout.form == "csv" and _is_header(cells):
        levels = RATINGS.roles["rating"].usual
        place = next((i for i, cell in enumerate(cells) if cell.lower() in levels), 0)
        if place:
            raise BadLine(f"column {place + 1} is {cells[place]!r}, but the level goes first")
        return None
    said = level(cells[0], most=layout.num_levels)
    if layout.form == "csv":
        if len(cells) - 1 != layout.num_features:
            raise BadLine(f"there are {len(cells) - 1} features, not {layout.num_features}")
        return Example(said, np.array([feature(cell, i) for i, cell in enumerate(cells[1:], 1)]))
    features = np.zeros(layout.num_features)
    for index, value in index_values(cells[1:]).items():
        if index > len(features):
            raise BadLine(f"there is a feature {index}, but there are {len(features)} features")
        features[index - 1] = value
    return Example(said, features)


def survey(
    path: Path, num_levels: int | None, num_features: int | None, form: str | None
) -> StreamLayout:
    """Find what is not known of a file's layout, without keeping it in memory."""
    highest, widest, problem = 0, 0, ""
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                text = raw.decode("utf-8-sig", "replace")
                if not _cells(text, "csv"):
                    continue
                form = form or sniff(text)
                cells = _cells(text, form)
                try:
                    found, width = _extent(cells, form, widest)
                except BadLine as error:
                    if number > 1 or form != "csv" or not _is_header(cells):
                        problem = problem or f" (row {number}: {error})"
                    continue
                highest, widest = max(highest, found), max(widest, width)
                if (
                    highest
                    and num_levels is not None
                    and (num_features is not None or form == "csv")
                ):
                    break
    except OSError as error:
        problem = f"it cannot be read ({reason_of(error)})"
        raise DataError(path, problem, "check the path") from None
    if form is None or not highest:
        fix = "write a level, then the features, on each line"
        raise DataError(path, f"there is no line to learn from{problem}", fix)
    if num_levels is None and highest > _MOST_LEVELS:
        problem = f"its levels go up to {highest}, which is not a scale of ratings"
        raise DataError(path, problem, f"fix the level, or give --levels {highest}")
    layout = StreamLayout(form, num_levels or max(highest, 2), num_features or widest)
    if layout.num_features < 1:
        raise DataError(path, "no line has a feature", "write features behind the level")
    return layout


def _extent(cells: list[str], form: str, width: int) -> tuple[int, int]:
    """Level of a line, and how many features it speaks of."""
    said = level(cells[0])
    if form == "csv":
        return said, width or len(cells) - 1
    return said, max(index_values(cells[1:]), default=0)


def _decode(raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadLine("it is not UTF-8 text") from None


def _cells(text: str, form: str) -> list[str]:
    """Texts between commas or blanks, without comment."""
    content = text.split("#")[0].strip()
    if not content:
        return []
    return [cell.strip() for cell in content.split(",")] if form == "csv" else content.split()


def _is_header(cells: list[str]) -> bool:
    """Whether no cell is a number."""
    return not any(math.isfinite(finite(cell)) for cell in cells)
