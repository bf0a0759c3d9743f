"""What a result says of itself, as text that fits a screen and as HTML."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from html import escape
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpyro.diagnostics import summary

if TYPE_CHECKING:
    from bayesrank.infer.result import EPResult


_MOST_ROWS = 20


class SiteRow(NamedTuple):
    """A site of the program, and what became of it."""

    site: str  # its name
    what: str  # "inferred", "fixed", "integrated out" or "dropped"
    detail: str  # its shape, or its value and where that came from, or why


def site_rows(result: EPResult) -> list[SiteRow]:
    """List the unobserved sites and the hyperparameters of a program, and what became of each."""
    rows = [
        SiteRow(name, "inferred", shape_in_words(shape)) for name, shape in result.shapes.items()
    ]
    means, sds = result.mean, result.sd
    rows += [
        SiteRow(k, "integrated over", f"mean {rounded(means[k])}, sd {rounded(sds[k])}")
        for k in result.weighted_points[0]
    ]
    for name, value in result.params.items():
        default = "median of its prior" if name in result.defaulted_params else "its initial value"
        source = result.sources.get(name, default)
        rows.append(SiteRow(name, "fixed", f"at {rounded(value)}, {source}"))
    rows += [
        SiteRow(name, "integrated out", "too many for a joint covariance; no posterior is kept")
        for name in result.marginalized_sites
    ]
    rows += [SiteRow(name, "dropped", "no data depend on it") for name in result.dropped_sites]
    return rows


def as_text(result: EPResult, trust: str = "", most: int | None = _MOST_ROWS) -> str:
    """Lay out the sites, `most` of them, and what is known of the accuracy."""
    title = f"{type(result).__name__}: {_outcome(result)}"
    rows = rows_as_text(site_rows(result), most)
    return "\n".join([title, *rows, *_notes(result, trust)])


def rows_as_text(rows: list[SiteRow], most: int | None = _MOST_ROWS) -> list[str]:
    """Lines that say what became of the sites, `most` of them at most."""
    some = rows[:most]
    width = max((len(row.site) for row in some), default=0)
    lines = [f"  {row.site:<{width}}  {row.what}: {row.detail}" for row in some]
    if len(some) < len(rows):
        lines.append(f"  and {len(rows) - len(some)} more sites")
    return lines


def as_html(result: EPResult, trust: str = "") -> str:
    """Lay out the sites as a table of HTML; parameters as for `as_text`."""
    body = "".join(_html_row("td", row) for row in site_rows(result))
    notes = "".join(f"<p>{escape(line)}</p>" for line in _notes(result, trust))
    head = _html_row("th", ("site", "what became of it", "detail"))
    title = f"<b>{type(result).__name__}</b>: {escape(_outcome(result))}"
    return f"<p>{title}</p><table>{head}{body}</table>{notes}"


def _html_row(tag: str, cells: Iterable[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"


def _notes(result: EPResult, trust: str) -> list[str]:
    """Which modes compete, and how far to trust the result."""
    notes = [f"How far to trust it: {trust}"] if trust else []
    for share, values in zip(result.mode_shares, result.other_modes, strict=False):
        at = ", ".join(f"{name} {rounded(value)}" for name, value in values.items())
        notes.append(f"another mode has {share:.0%} of the weight: {at}")
    return notes


def _outcome(result: EPResult) -> str:
    ended = "converged" if result.converged else "not converged"
    power = "" if result.power == 1 else f" with power {result.power:g}"
    sweeps = f" after {result.num_sweeps} sweeps{power}" if result.mixture is None else ""
    missed = "".join(
        f", at least {share:.0%} of a factor of {name} missed"
        for name, share in result.missed_mass.items()
    )
    wrong = "".join(
        f", mean or sd of a factor of {name} wrong by about {error:.0%} of the sd"
        for name, error in result.moment_errors.items()
    )
    return f"{ended}{sweeps}{missed}{wrong}, log evidence {result.log_evidence:.4g}"


def draws_as_text(draws: Mapping[str, np.ndarray], level: float, *, chains: bool) -> str:
    """A table of draws (chains, draws, ...), a line a number; `chains` adds n_eff and R-hat."""
    found = summary(dict(draws), prob=level)
    rows = [["", *(title.replace("std", "sd") for title in next(iter(found.values()), ()))]]
    for name, columns in found.items():
        for place in np.ndindex(np.shape(columns["mean"])):
            label = name + (f"[{','.join(map(str, place))}]" if place else "")
            rows.append([label, *(f"{np.asarray(each)[place]:.4g}" for each in columns.values())])
    kept = [row if chains else row[:-2] for row in rows]
    widths = [max(map(len, column)) for column in zip(*kept, strict=True)]
    return "".join(
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) + "\n"
        for row in kept
    )


def shape_in_words(shape: tuple[int, ...]) -> str:
    """How many numbers a site is."""
    if not shape:
        return "a number"
    return f"{math.prod(shape)} numbers, shape {shape}"


def rounded(value: np.ndarray) -> str:
    """A number, or some, in a few characters."""
    array = np.asarray(value)
    if array.ndim == 0:
        return f"{array.item():.4g}"
    if array.size <= 4:
        return np.array2string(array, precision=4, separator=", ").replace("\n", "")
    return f"{array.size} values from {array.min():.4g} to {array.max():.4g}"
