"""A process that serves for long: fits of ever new shapes, whose compiled code must have an end."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np

Rng = np.random.Generator


def _pairwise(rng: Rng, n: int, count: int) -> Any:
    from bayesrank import PairwiseRanker

    first = rng.integers(n, size=count)
    pairs = np.stack([first, (first + rng.integers(1, n, size=count)) % n], axis=1)
    return PairwiseRanker(hyperparameters="prior").fit(pairs)


def _ordinal(rng: Rng, n: int, count: int) -> Any:
    from bayesrank.online import WidrowHoff

    return WidrowHoff(3).partial_fit(rng.normal(size=(count, n)), rng.integers(1, 4, size=count))


def _lists(rng: Rng, n: int, count: int) -> Any:
    from bayesrank import LambdaRank

    X, grades = rng.normal(size=(count, n)), np.arange(count) % 3
    return LambdaRank(num_steps=2).fit(X, grades, np.arange(count) // 3)


def _ratings(rng: Rng, n: int, count: int) -> Any:
    from bayesrank import CollaborativeGP

    rows = np.arange(count)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # EM is not to converge
        model = CollaborativeGP(max_iterations=2)
        return model.fit(rows % n, rows // n, rng.integers(1, 4, size=count))


_FITS: tuple[Callable[[Rng, int, int], Any], ...] = (_pairwise, _ordinal, _lists, _ratings)


def _held() -> tuple[int, int]:
    """Regions and bytes of memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return Path("/proc/self/maps").read_bytes().count(b"\n"), 4096 * pages


def fit_shapes(fits: int, report: Callable[[int, int, int, int], None], every: int = 100) -> int:
    """Fit data of new shapes in turn with four estimators; return the most regions seen.

    `report` is called with the fits so far, the most regions and bytes since it was last called,
    and how often code was forgotten. There are 1,220 shapes, and none is large.
    """
    rng, most, forgotten, peak = np.random.default_rng(0), 0, 0, (0, 0)
    for k in range(fits):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            _FITS[k % 4](rng, 3 + k // 4 % 20, 9 + k // 4 % 61)
        forgotten += sum("has compiled code" in str(each.message) for each in said)
        regions, size = _held()
        peak = max(peak[0], regions), max(peak[1], size)
        most = max(most, regions)
        if (k + 1) % every == 0 or k + 1 == fits:
            report(k + 1, *peak, forgotten)
            peak = 0, 0
    return most


@click.command()
@click.option("--fits", type=click.IntRange(min=4), default=400, help="Fits in all.")
@click.option("--every", type=click.IntRange(min=1), default=100, help="Fits between two lines.")
def shapes(fits: int, every: int) -> None:
    """Fit data of ever new shapes with four estimators in one process: memory stays bounded."""
    start = time.process_time()

    def report(done: int, regions: int, size: int, forgotten: int) -> None:
        click.echo(
            f"{done:6,} fits, at most {regions:7,} regions and {size / 2**30:5.2f} GiB since the "
            f"last line; forgotten {forgotten} times, {time.process_time() - start:,.0f} CPU s"
        )

    click.echo(f"at most {fit_shapes(fits, report, every):,} regions; Linux allows 65,530")


COMMANDS = (shapes,)
