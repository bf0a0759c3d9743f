"""Pictures of ratings: what they show, and what they refuse."""

from typing import Any

import matplotlib
import numpy as np
import pytest
from scipy.stats import beta

matplotlib.use("Agg")
from matplotlib import pyplot as plt

from bayesrank.plots import plot_reliability, plot_similarity, plot_tastes


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def test_names_with_dollars_are_no_formulas():
    names = ["$5 {a_ $", "cheap", "dear $$", "free"]
    ax = plot_tastes([0.0, 1.0, 2.0, 3.0], [1.0, 3.0, 2.0, 1.0], names, labels=1)
    ax.figure.canvas.draw()
    assert sorted(text.get_text() for text in ax.texts) == ["$5 {a_ $", "cheap", "free"]
    assert ax.get_legend_handles_labels()[1] == ["most controversial", "liked best", "liked least"]


@pytest.mark.parametrize("items", [1, 3])
def test_few_items_can_be_drawn(items):
    ax = plot_tastes(np.zeros(items), np.ones(items), range(items))
    ax.figure.canvas.draw()
    assert len(ax.texts) == items


def test_labels_hide_neither_labels_nor_named_points():
    rng = np.random.default_rng(0)
    x, y = np.r_[rng.normal(size=40), 5.0, 5.1, 5.3], np.r_[np.full(40, 1.0), 3.0, 3.02, 3.0]
    ax = plot_tastes(x, y, [f"a name of {i:02d}" for i in range(43)], labels=3)
    ax.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in ax.texts]
    assert not any(a.overlaps(b) for k, a in enumerate(boxes) for b in boxes[:k])
    assert all(text.get_zorder() < ax.lines[0].get_zorder() for text in ax.texts)
    controversial = ax.transData.transform(np.c_[x, y][-3:])
    assert not any(box.contains(*point) for box in boxes for point in controversial)


def test_items_need_one_of_each():
    with pytest.raises(ValueError, match="have 1, 2 and 1 entries; pass one of each"):
        plot_tastes([0.0], [1.0, 2.0], ["a"])
    with pytest.raises(ValueError, match="have 0, 0 and 0 entries"):
        plot_tastes([], [], [])


def _bars(ax: Any) -> np.ndarray:
    return np.array([path.vertices[:, 1] for path in ax.collections[0].get_paths()])


def test_bars_say_how_sure_a_frequency_is():
    rng = np.random.default_rng(0)
    p = np.sort(rng.uniform(size=(200, 5)), axis=None)
    ax = plot_reliability(p, rng.uniform(size=p.size) < p, bins=4)
    centre, share = (np.asarray(x) for x in ax.lines[1].get_data())
    np.testing.assert_allclose(centre, p.reshape(4, 250).mean(axis=1))
    ends = _bars(ax)
    exact = beta.ppf([[0.05], [0.95]], 250 * share, 250 * (1 - share)).T
    np.testing.assert_allclose(ends, exact, atol=0.01)
    assert ((ends[:, 0] <= centre) & (centre <= ends[:, 1])).all()


def test_what_never_happened_is_not_impossible():
    ax = plot_reliability([0.1, 0.2, 0.3], [0, 0, 0], bins=10)
    ends = _bars(ax)
    assert ends.shape == (3, 2) and (ends[:, 1] > 0.5).all()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (([0.5], [1, 0]), "probability has 1 entries, happened 2"),
        (([], []), "probability has 0 entries"),
        (([1.5], [1]), "an entry that is not from 0 to 1"),
        (([np.nan], [1]), "an entry that is not from 0 to 1"),
        (([0.5], [1], 0), "bins is 0; pass at least 1"),
    ],
)
def test_what_is_no_probability_is_refused(args, message):
    p, happened, *bins = args
    with pytest.raises(ValueError, match=message):
        plot_reliability(p, happened, **({"bins": bins[0]} if bins else {}))


def test_items_that_are_alike_stand_together():
    rng = np.random.default_rng(1)
    loading = np.repeat(np.eye(3), 4, axis=0) + 0.1 * rng.normal(size=(12, 3))
    scale = np.diag(rng.uniform(0.5, 2.0, 12))
    kernel, mixed = scale @ (loading @ loading.T + 0.2 * np.eye(12)) @ scale, rng.permutation(12)
    ax = plot_similarity(kernel[np.ix_(mixed, mixed)], [f"{i}$" for i in mixed])
    ax.figure.canvas.draw()
    order = [int(label.get_text()[:-1]) for label in ax.get_yticklabels()]
    assert [kind for k, kind in enumerate(i // 4 for i in order) if k % 4 == 0] == [
        kind for k, kind in enumerate(i // 4 for i in order) if k % 4 == 3
    ]
    shown = np.asarray(ax.images[0].get_array())
    sd = np.sqrt(np.diag(kernel))
    np.testing.assert_allclose(shown, (kernel / np.outer(sd, sd))[np.ix_(order, order)])


@pytest.mark.parametrize(
    ("kernel", "names", "message"),
    [
        (np.eye(2), ["a"], r"shape \(2, 2\) and there are 1 names"),
        (np.eye(1), ["a"], "of two items or more"),
        (np.diag([1.0, 0.0]), ["a", "b"], "kernel is no covariance"),
    ],
)
def test_what_is_no_covariance_is_refused(kernel, names, message):
    with pytest.raises(ValueError, match=message):
        plot_similarity(kernel, names)
