"""Writes the engine's datasheet: ``python tests/programs/program_datasheet.py``."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from program_models import PROGRAMS

from bayesrank.infer import EP, EPResult

PAGE = Path(__file__).parents[2] / "docs" / "trust" / "programs.md"
STORE = Path(__file__).parent / "references.json"
_START, _END = "<!-- table -->\n", "<!-- end of table -->\n"


class Accuracy(NamedTuple):
    """How far EP is off.

    Attributes
    ----------
    mean
        The mean that is worst, in posterior standard deviations.
    sd
        The standard deviation that is worst, as a share of itself.
    log_evidence
        In nats.
    """

    mean: float
    sd: float
    log_evidence: float


def accuracy(result: EPResult, reference: Mapping[str, Any]) -> Accuracy:
    """Compare EP's posterior with a reference."""
    mean, sd = np.array(reference["mean"]), np.array(reference["sd"])
    found = np.sqrt(np.diagonal(result.joint_covariance))
    return Accuracy(
        float(np.max(np.abs(result.joint_mean - mean) / sd)),
        float(np.max(np.abs(found / sd - 1))),
        abs(result.log_evidence - reference["log_evidence"]),
    )


def _row(name: str, found: Accuracy, reference: Mapping[str, Any]) -> str:
    first = (PROGRAMS[name].__doc__ or "").split("\n")[0]
    what = f"`{name}`: {first}" if first else f"`{name}`"
    how, effective = reference["how"], reference["effective"]
    how = how if effective is None else f"{effective:,} draws"
    if "nuts" in reference:
        how += f", NUTS ± {reference['nuts']['mean_error']:.3f}"
    return (
        f"| {what} | {how} | {found.mean:.3f} | {100 * found.sd:.1f}% | "
        f"{found.log_evidence:.3f} |\n"
    )


def with_table(page: str, rows: Mapping[str, str]) -> str:
    """The page with other rows in its table."""
    start, end = page.index(_START) + len(_START), page.index(_END)
    head = (
        "| program | reference | mean, sd | sd | log evidence, nats |\n|---|---|---:|---:|---:|\n"
    )
    return page[:start] + head + "".join(rows.values()) + page[end:]


def rows_of(page: str) -> dict[str, str]:
    """Rows that the page has, by program."""
    lines = page[page.index(_START) : page.index(_END)].splitlines(keepends=True)
    return {line.split("`")[1]: line for line in lines if line.startswith("| `")}


def main(names: list[str]) -> None:
    """Run EP on the programs named, or on those that the page has no row of, and write the rows."""
    for name, reference in json.loads(STORE.read_text()).items():
        if name not in (names or set(PROGRAMS) - set(rows_of(PAGE.read_text()))):
            continue
        result = EP(PROGRAMS[name], hyperparameters="prior").run(jax.random.key(0))
        page = PAGE.read_text()
        rows = rows_of(page) | {name: _row(name, accuracy(result, reference), reference)}
        PAGE.write_text(with_table(page, {k: rows[k] for k in PROGRAMS if k in rows}))


if __name__ == "__main__":
    main(sys.argv[1:])
