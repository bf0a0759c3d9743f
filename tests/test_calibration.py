"""What the study of calibration says of posteriors that are right, too sure, and too modest."""

import re
from typing import Any

import numpy as np
import pytest
from scipy.special import log_ndtr

from bayesrank import estimators, online
from benchmarks.calibration import (
    Case,
    Trial,
    exact_weights,
    figures,
    of_draws,
    of_levels,
    plot,
    read_table,
    run,
    table,
)
from benchmarks.calibration_cases import CASES, POINTS
from benchmarks.order_subsets import people, spread


def conjugate(seed: int, factor: float = 1.0) -> Trial:
    """Normal means seen with unit noise, whose posterior is known; its spread times a factor."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=12)
    mean = 0.5 * (truth + rng.normal(size=12))
    return of_draws(mean + factor * np.sqrt(0.5) * rng.normal(size=(400, 12)), truth)


@pytest.mark.parametrize(("factor", "held"), [(1.0, 0.9), (0.5, 0.589), (2.0, 0.999)])
def test_coverage_is_that_of_normal_intervals(factor, held):
    found = figures([conjugate(seed, factor) for seed in range(150)])
    value, error = found["90%"]
    assert 0.0 < error < 0.03
    assert abs(value - held) < 4 * error + 0.01
    assert abs(found["slope"][0] - 1.0) < 4 * found["slope"][1]
    if factor == 1.0:
        assert abs(found["PIT spread"][0] - 1.0) < 0.05
        value, error = found["ranks 90%, randomised"]
        assert abs(value - 0.9) < 4 * error < 0.05
        assert found["ranks 90%"][0] > value + 4 * error
    else:
        assert (found["PIT spread"][0] > 1.0) == (factor < 1.0)


@pytest.mark.parametrize("power", [1.0, 2.0])
def test_the_slope_of_levels_is_the_power_that_fits(power):
    rng = np.random.default_rng(0)
    trials = []
    for seed in range(30):
        truth = rng.dirichlet(np.ones(4), 100)
        level = np.array([rng.choice(4, p=p) for p in truth])
        told = truth**power / (truth**power).sum(1, keepdims=True)
        trials.append(of_levels(told, level, seed))
    found = figures(trials)
    assert abs(found["slope"][0] - 1.0 / power) < 4 * found["slope"][1]
    assert (abs(found["90%"][0] - 0.9) < 4 * found["90%"][1]) == (power == 1.0)
    assert "ranks 90%" not in found and "| - |" in table({"levels": trials})


def test_every_estimator_and_learner_is_in_the_table():
    rows = {re.split(r"[^\w]", case.name)[0] for case in CASES}
    public = {name: getattr(room, name) for room in (estimators, online) for name in room.__all__}
    learners = {name for name, thing in public.items() if hasattr(thing, "fit")}
    assert not rows & set(POINTS)
    assert learners - rows == set(POINTS)
    assert "No intervals, a score, the minimum of its objective: ConeRank." in table({}, POINTS)


def assert_written(read: dict[str, Any], rows: dict[str, Any]) -> None:
    """A table that is read back has the figures to the digits that it prints."""
    assert read.keys() == rows.keys()
    for name, row in rows.items():
        assert read[name].keys() == row.keys()
        for key, figure in row.items():
            np.testing.assert_allclose(read[name][key], figure, atol=0.0051)


def test_a_study_goes_on_where_it_stopped(tmp_path):
    seen: list[Any] = []

    def trial(seed: int) -> Trial:
        seen.append(seed)
        return conjugate(seed)

    cases, results = [Case("normal means", trial, 6)], tmp_path / "r.json"
    run(cases, 0.5, results, lambda row: None)
    found = run(cases, 1.0, results, lambda row: None)
    assert seen == list(range(6)) and len(found["normal means"]) == 6
    assert figures(found["normal means"]) == figures([conjugate(seed) for seed in range(6)])
    rows = {name: figures(trials) for name, trials in found.items()}
    assert_written(read_table(table(found, {"a score": "a number"})), rows)
    plot(rows, tmp_path / "c.png")
    assert (tmp_path / "c.png").stat().st_size > 5_000


def test_monte_carlo_of_a_version_space_is_that_of_a_grid():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(15, 1))
    y = 1 + (X[:, 0] + 0.1 * rng.normal(size=15) > 0.3).astype(int)
    draws = exact_weights(X, y, num_levels=2, threshold_scale=2.0, seed=0)[:, 0]
    axes = np.arange(-12.0, 7.0, 0.25), np.arange(-4.5, 4.5, 0.05), np.arange(-3.5, 3.5, 0.07)
    log_noise, weight, edge = np.meshgrid(*axes, indexing="ij")
    noise = np.exp(log_noise)
    logs = log_noise - np.log1p(noise**2) - 0.5 * (weight**2 + edge**2)
    for x, level in zip(X[:, 0], y, strict=True):
        logs += log_ndtr((1 if level == 2 else -1) * (weight * x - 2.0 * edge) / noise)
    share = np.exp(logs - logs.max())
    share /= share.sum()
    mean = float((share * weight).sum())
    sd = float(np.sqrt((share * (weight - mean) ** 2).sum()))
    assert abs(draws.mean() - mean) < 0.15 * sd
    assert abs(draws.std() / sd - 1.0) < 0.1


@pytest.mark.slow
def test_estimates_of_disjoint_groups_spread_as_is_said():
    assert (np.sort(people("two camps", 30, 0), axis=1) == np.arange(10)).all()
    found = spread("same taste", 600, 30, 1.0, seeds=1)
    assert found.skills.shape == (1, 10) and found.pairs.shape == (1, 45)
    ratio = np.sqrt(np.mean(found.skills**2))
    assert abs(ratio - 0.97) < 4 * found.error < 0.25
