"""Ascents by slopes alone, on functions whose tops are known."""

import numpy as np
from numpy.testing import assert_allclose

from bayesrank.infer.hyper.maximum import ascend

WIDE = np.full(2, -20.0), np.full(2, 20.0)


def bent(point):
    """Gradient of a bent ridge (Rosenbrock's, upside down), with its top at (1, 1)."""
    x, y = point
    return np.array([2 * (1 - x) + 40 * x * (y - x**2), -20 * (y - x**2)])


def test_the_top_of_a_bent_ridge_is_found():
    summit = ascend(bent, np.array([-1.0, 1.5]), WIDE, max_steps=100, gain=1e-9)
    assert summit.success
    assert_allclose(summit.x, 1.0, atol=1e-3)


def test_flat_tails_lead_to_the_top():
    """Of a log density with heavy tails, which is convex away from its mode."""

    def slope(point):
        return -2 * (point - 3.0) / (1 + (point - 3.0) ** 2)

    summit = ascend(slope, np.array([-9.0]), (WIDE[0][:1], WIDE[1][:1]), max_steps=50, gain=1e-8)
    assert summit.success
    assert_allclose(summit.x, 3.0, atol=1e-3)


def test_bounds_hold_and_the_rest_goes_on():
    def slope(point):
        return np.array([1.0, -200.0 * (point[1] - 0.5)])

    bounds = np.array([-1.0, -1.0]), np.array([2.0, 2.0])
    summit = ascend(slope, np.zeros(2), bounds, max_steps=50, gain=1e-8)
    assert summit.success and summit.x[0] == 2.0
    assert_allclose(summit.x[1], 0.5, atol=1e-4)


def test_tops_at_bounds_are_found_where_coordinates_pull_at_each_other():
    rng = np.random.default_rng(0)
    low, high = np.full(3, -1.0), np.full(3, 1.0)
    for _ in range(200):
        root = rng.normal(size=(3, 3))
        curvature, free = root @ root.T + 0.01 * np.eye(3), 3.0 * rng.normal(size=3)

        def slope(point, curvature=curvature, free=free):
            return -curvature @ (point - free)

        start = rng.uniform(low, high)
        summit = ascend(slope, start, (low, high), max_steps=500, gain=1e-9)
        here = slope(summit.x)
        at_bound = np.where(here > 0, summit.x >= high - 1e-9, summit.x <= low + 1e-9)
        assert summit.success
        assert np.all(at_bound | (np.abs(here) < 1e-3))


def test_points_without_a_slope_are_stepped_back_from():
    def slope(point):
        return -(point - 1.0) if np.all(point < 1.05) else None

    summit = ascend(slope, np.full(2, -3.0), WIDE, max_steps=50, gain=1e-8)
    assert summit.success
    assert_allclose(summit.x, 1.0, atol=1e-3)


def test_what_does_not_end_is_said():
    nowhere = ascend(lambda point: None, np.zeros(2), WIDE, max_steps=5, gain=1e-8)
    assert not nowhere.success and "can be evaluated" in nowhere.message
    alone = ascend(
        lambda point: np.ones(2) if np.all(point == 0) else None,
        np.zeros(2),
        WIDE,
        max_steps=5,
        gain=1e-8,
    )
    assert not alone.success and np.all(alone.x == 0)
    short = ascend(bent, np.array([-1.0, 1.5]), WIDE, max_steps=2, gain=1e-9)
    assert not short.success and "limit" in short.message
