"""The picture of running losses."""

from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from bayesrank.plots import plot_running_loss


def test_running_losses_are_averages_so_far_of_the_mean_over_trials():
    losses = np.random.default_rng(0).poisson(0.5, (3, 1000))
    axes = Figure().subplots()
    plot_running_loss({"a": losses, "b": losses[0]}, floor=0.2, start=5, ax=axes)
    lines: list[Any] = axes.get_lines()
    first, second, floor = lines
    shown = first.get_xdata().astype(int)
    assert shown[0] == 5 and shown[-1] == 1000
    expected = [losses[:, :count].mean() for count in shown]
    np.testing.assert_allclose(first.get_ydata(), expected)
    assert second.get_ydata()[-1] == pytest.approx(losses[0].mean())
    np.testing.assert_allclose(floor.get_ydata(), 0.2)
    texts = [text.get_text() for text in axes.texts]
    assert texts == sorted(texts, key=lambda text: float(text.split()[-1]))
    assert axes.get_xscale() == "log" and axes.get_xlabel() == "examples"


def test_nothing_to_draw_is_refused():
    with pytest.raises(ValueError, match="losses is empty"):
        plot_running_loss({})
    with pytest.raises(ValueError, match=r"losses\['a'\] has 4 examples, fewer than start \(10\)"):
        plot_running_loss({"a": [1, 0, 0, 1]})
