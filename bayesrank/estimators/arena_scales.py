"""What is done about the scales of a log's priors: averaged over, learned, or held fixed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from bayesrank.estimators.arena_posterior import ArenaPosterior, Averaged, Learned
from bayesrank.estimators.base import integrator_of
from bayesrank.estimators.checks import check_hyperparameters
from bayesrank.models import judged_comparisons
from bayesrank.models.comparisons import SCALES
from bayesrank.solvers.comparisons import ArenaData, fit_arena, scale_names

__all__ = ["fit_posterior"]

_CHOICES = ("integrate", "maximum", "prior")
# Beyond these, a few dozen runs of EP take minutes, and scales are known well.
_MOST_LATENTS, _MOST_ROWS = 600, 20_000


def fit_posterior(
    data: ArenaData,
    hyperparameters: str | Mapping[str, Any],
    *,
    num_samples: int,
    seed: int,
    callback: Callable[[int, float], None] | None,
) -> tuple[ArenaPosterior, str]:
    """Learn the posterior; return it with what was done about the scales.

    Parameters
    ----------
    data
        The log.
    hyperparameters
        As of `ArenaRanker`.
    num_samples
        Number of draws.
    seed
        Of the draws, and of the values that scales are averaged over.
    callback
        As of `ArenaRanker.fit`.

    Raises
    ------
    ValueError
        If `hyperparameters` is no choice, or not one to one with scales.
    """
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(scale_names(data), ())
    fixed, choice = check_hyperparameters(hyperparameters, shapes, _CHOICES)
    if choice == "integrate" and not _can_be_averaged(data):
        choice = "maximum"
    if choice == "integrate":
        args, options = _arguments(data)
        result = integrator_of(judged_comparisons).run(
            jax.random.key(seed), *args, num_samples=num_samples, callback=callback, **options
        )
        return Averaged(result), choice
    scales = {name: float(value) for name, value in fixed.items()}
    if choice == "prior":
        scales = {name: SCALES[name].median for name in shapes} | scales
    return Learned(fit_arena(data, scales=scales, callback=callback), num_samples), choice


def _can_be_averaged(data: ArenaData) -> bool:
    """Whether all latents but scales and tie width are Gaussian, and they are not too many."""
    latents = data.num_items * (1 + data.num_groups)
    return not data.num_judges and latents <= _MOST_LATENTS and len(data.first) <= _MOST_ROWS


def _arguments(data: ArenaData) -> tuple[tuple[int, NDArray[Any]], dict[str, Any]]:
    """Arguments of the program, with equal rows once where they are many."""
    counts = data.counts
    rows = np.arange(len(counts))
    if (counts % 1.0 == 0.0).all() and counts.sum() < 2.0 * len(counts):
        # Logs of one size share compiled code.
        rows, counts = np.repeat(rows, counts.astype(int)), np.ones(int(counts.sum()))
    pairs = np.stack([data.first, data.second], 1)[rows]
    position, outcome = data.position[rows], data.outcome[rows]
    options: dict[str, Any] = {}
    if data.with_ties:
        options["outcomes"] = outcome
    else:
        lost = outcome == 0
        pairs = np.where(lost[:, None], pairs[:, ::-1], pairs)
        position = np.where(lost, -position, position)
    if data.with_position:
        options["position"] = position
    if data.num_groups:
        options |= {"groups": data.group[rows], "num_groups": data.num_groups}
    if (counts != 1.0).any():
        options["weights"] = counts
    return (data.num_items, pairs), options
