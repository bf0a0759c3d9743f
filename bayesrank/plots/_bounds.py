"""Pictures of what a measured ranking error is worth: intervals, bounds, and their cost."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from bayesrank.bounds import Coverage, CrossValidationBound, ErrorInterval
from bayesrank.plots._figure import axes_or_new

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_METHODS = {
    "bound": ("guaranteed (no assumption)", "C3"),
    "normal": ("normal approximation", "C0"),
    "bootstrap": ("bootstrap", "C2"),
    "posterior": ("posterior (model is right)", "C4"),
}
_PARTS = {
    "error": ("measured in cross-validation", "C0"),
    "error_term": ("chance of the labelled queries", "C9"),
    "distance": ("difference seen on unlabelled queries", "C1"),
    "distance_term": ("chance of the unlabelled queries", "#ffd8a8"),
}


def plot_error_intervals(
    groups: Mapping[str, Sequence[ErrorInterval]],
    *,
    truth: float | None = None,
    xlabel: str = "Expected share of pairs in the wrong order",
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw intervals of one expected error, from what they assume, in groups.

    Parameters
    ----------
    groups
        What `bayesrank.bounds.error_intervals` returns, by a name such as the size of the sample;
        drawn from top to bottom.
    truth
        The expected error, where it is known: a vertical line.
    xlabel
        Name and unit of the axis.
    ax
        Axes to draw on; a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn on.
    """
    rows = sum(len(intervals) for intervals in groups.values()) + len(groups) - 1
    ax = axes_or_new(ax, 7.5, 1.4 + 0.24 * rows)
    place, centres, named = 0.0, [], set()
    for intervals in groups.values():
        for row, interval in enumerate(intervals):
            label, color = _METHODS[interval.method]
            ax.hlines(place + row, interval.low, interval.high, color, lw=5, alpha=0.45)
            ax.plot(
                interval.estimate,
                place + row,
                "o",
                color=color,
                label=None if label in named else label,
            )
            named.add(label)
        centres.append(place + (len(intervals) - 1) / 2)
        place += len(intervals) + 1
    if truth is not None:
        ax.axvline(truth, color="0.2", ls="--", lw=1.2, label="truth")
    ax.set_yticks(centres, list(groups))
    ax.set_ylim(place - 1.4, -0.6)
    ax.tick_params(axis="y", length=0)
    _finish(ax, xlabel, None)
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize="small")
    return ax


def plot_bound_curves(
    curves: Mapping[str, Callable[[int], float]],
    sizes: ArrayLike,
    *,
    epsilon: float | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw how far each bound lets measured and expected error differ, by the number of examples.

    Parameters
    ----------
    curves
        From the number of examples to the bound, by name.
    sizes
        Numbers of examples, increasing.
    epsilon
        An accuracy asked for: a horizontal line, with a dot where each curve comes down to it.
    ax
        Axes to draw on; a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn on, both logarithmic.
    """
    ax = axes_or_new(ax, 7.5, 4.5)
    size = np.asarray(sizes)
    for i, (name, curve) in enumerate(curves.items()):
        values = np.array([curve(int(n)) for n in size])
        ax.plot(size, values, color=f"C{i}", label=name)
        if epsilon is not None and values[-1] <= epsilon < values[0]:
            size_needed = np.exp(np.interp(-np.log(epsilon), -np.log(values), np.log(size)))
            ax.plot(size_needed, epsilon, "o", color=f"C{i}")
    ax.set(xscale="log", yscale="log")
    ax.axhspan(1.0, max(ax.get_ylim()[1], 2.0), color="0.93", zorder=0)
    ax.text(size[-1], 1.1, "says nothing ", color="0.4", va="bottom", ha="right")
    if epsilon is not None:
        ax.axhline(epsilon, color="0.4", ls=":", lw=1)
        ax.text(size[0], epsilon * 1.08, f" within {epsilon:g}", color="0.4", va="bottom")
    _finish(ax, "Number of rated examples", "Measured and expected error\ndiffer by at most")
    ax.legend(frameon=False, fontsize="small")
    return ax


def plot_coverage(coverage: Coverage, delta: float, *, ax: "Axes | None" = None) -> "Axes":
    """Draw how far measured and expected error were apart, against what a bound allows.

    Parameters
    ----------
    coverage
        What `bayesrank.bounds.simulate_coverage` returns.
    delta
        Share of the samples in which the bound may fail.
    ax
        Axes to draw on; a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn on.
    """
    ax = axes_or_new(ax, 7.5, 3.2)
    ax.hist(coverage.deviation, bins=40, color="C0", alpha=0.6)
    enough, bound = np.quantile(coverage.deviation, 1.0 - delta), coverage.bound.mean()
    percent = f"{100 * (1 - delta):g}%"
    ax.axvline(enough, color="C2", lw=2, label=f"{percent} of samples are below {enough:.3f}")
    ax.axvline(bound, color="C3", lw=2, label=f"the bound for {percent}: {bound:.3f}")
    ax.set_xlim(0.0, max(bound, coverage.deviation.max()) * 1.05)
    _finish(ax, "Distance between measured and expected error", "Samples")
    ax.legend(frameon=False, fontsize="small", loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2)
    return ax


def plot_bound_parts(
    results: Mapping[str, CrossValidationBound],
    *,
    risks: Sequence[float] | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw what cross-validation bounds are made of, one bar each.

    Parameters
    ----------
    results
        What `bayesrank.bounds.cross_validation_bound` returns, by name, from top to bottom.
    risks
        The expected error of each model, where it is known: a mark on its bar.
    ax
        Axes to draw on; a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn on.
    """
    ax = axes_or_new(ax, 8.0, 1.8 + 0.55 * len(results))
    place = np.arange(len(results))
    left = np.zeros(len(results))
    for part, (label, color) in _PARTS.items():
        width = np.array([getattr(result, part) for result in results.values()])
        ax.barh(place, width, left=left, color=color, height=0.6, label=label)
        left += width
    for y, total in zip(place, left, strict=True):
        ax.text(float(total), float(y), f" {total:.2f}", va="center")
    if risks is not None:
        ax.plot(risks, place, "D", color="k", markersize=6, label="truth")
    ax.set_yticks(place, list(results))
    ax.set_ylim(len(results) - 0.5, -0.5)
    ax.set_xlim(0.0, max(1.0, float(left.max()) * 1.1))
    _finish(ax, "Bound of the expected share of pairs in the wrong order", None)
    ax.legend(frameon=False, fontsize="small", ncols=2, loc="lower left", bbox_to_anchor=(0.0, 1.0))
    return ax


def plot_figure_posterior(
    draws: Mapping[str, ArrayLike], *, prob: float = 0.9, xlabel: str = "", ax: "Axes | None" = None
) -> "Axes":
    """Draw the posterior of figures: a histogram of their draws, and an interval below each.

    Parameters
    ----------
    draws
        Draws of a figure, such as ``ndcg(samples, labels).mean``, by name.
    prob
        Posterior probability of the intervals.
    xlabel
        Name of the figure and of its unit.
    ax
        Axes to draw on; a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn on.
    """
    ax = axes_or_new(ax, 7.5, 3.2)
    samples = {name: np.asarray(values, np.float64) for name, values in draws.items()}
    bins = np.linspace(*_range(np.concatenate(list(samples.values()))), 60).tolist()
    for i, (name, sample) in enumerate(samples.items()):
        low, high = np.quantile(sample, [(1 - prob) / 2, (1 + prob) / 2])
        label = f"{name}: {sample.mean():.3f} ({100 * prob:g}%: {low:.3f} to {high:.3f})"
        ax.hist(sample, bins=bins, density=True, color=f"C{i}", alpha=0.5, label=label)
        ax.plot([low, high], [0.0, 0.0], color=f"C{i}", lw=6, solid_capstyle="butt", clip_on=False)
    ax.set_yticks([])
    _finish(ax, xlabel, None)
    ax.legend(frameon=False, fontsize="small", loc="lower left", bbox_to_anchor=(0.0, 1.0))
    return ax


def _range(values: np.ndarray) -> tuple[float, float]:
    """Lowest and highest value, a little apart if they are one."""
    low, high = float(values.min()), float(values.max())
    return (low, high) if high > low else (low - 0.5, low + 0.5)


def _finish(ax: "Axes", xlabel: str, ylabel: str | None) -> None:
    ax.set_xlabel(xlabel)
    if ylabel is None:
        ax.spines["left"].set_visible(False)
    else:
        ax.set_ylabel(ylabel)
    ax.spines[["top", "right"]].set_visible(False)
