"""What the study of calibration says of posteriors that are right, too sure, and too modest."""

from typing import Any

import numpy as np
import pytest

from benchmarks.calibration import Case, Trial, figures, of_draws, of_levels, plot, run, table


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
        assert 0.88 < found["ranks 90%"][0] < 0.97
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
    plot(found, tmp_path / "c.png")
    assert (tmp_path / "c.png").stat().st_size > 5_000
