"""What a graph of the items changes: the skills over two features, and how sure they are.

References
----------
.. [1] Chu, W. and Ghahramani, Z. (2005). Extensions of Gaussian processes for ranking:
   semi-supervised and active learning. NIPS Workshop on Learning to Rank. Figure 1.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from bayesrank._validate import check_count

Array = NDArray[np.float64]

_MARGIN = 0.12


class Predictor(Protocol):
    """Anything that predicts skills from features, as a fitted `bayesrank.PreferenceGP`."""

    def predict(self, X: Array, /) -> tuple[Array, Array]:
        """Return means and standard deviations of the skills of items with these features."""
        ...


def plot_semi_supervised(
    X: ArrayLike,
    comparisons: ArrayLike,
    supervised: Predictor,
    semi_supervised: Predictor,
    *,
    graph: Any = None,
    order: ArrayLike | None = None,
    xlabel: str = "item, in the order of its skill with the graph",
    feature_names: Sequence[str] = ("first feature", "second feature"),
    num_grid: int = 80,
) -> Figure:
    """Draw the skills without and with a graph, over two features, and their error bars [1]_.

    Parameters
    ----------
    X : ArrayLike
        Features of the items, shape (n, 2).
    comparisons : ArrayLike
        Integers of shape (K, 2), a row (winner, loser) for each comparison. Triangles mark the
        items compared: up for those that won at least half of their comparisons, down for others.
    supervised, semi_supervised : Predictor
        What was learned without and with the graph: fitted estimators, or anything whose
        ``predict(X)`` returns means and standard deviations.
    graph : scipy.sparse array or ArrayLike, optional
        Weights of edges, shape (n, n), or a Laplacian; its edges are drawn in the second panel.
    order : ArrayLike, optional
        Items from left to right in the third panel, shape (n,), say along a path in the feature
        space. By default from the lowest skill with the graph to the highest.
    xlabel : str
        What that order is.
    feature_names : sequence of str
        Names of the two features.
    num_grid : int
        Number of points of the contours' grid along each feature, at least 2.

    Returns
    -------
    matplotlib.figure.Figure
        With three panels, and colours for skill that the first two share.

    Raises
    ------
    ValueError
        If there are not two features, or `num_grid` is too small.
    """
    items, pairs = np.asarray(X, float), np.asarray(comparisons)
    if items.ndim != 2 or items.shape[1] != 2:
        raise ValueError(f"X has shape {items.shape}; the picture takes two features, (n, 2)")
    check_count(num_grid, "num_grid", 2)
    with_graph = semi_supervised.predict(items)
    place = np.argsort(with_graph[0]) if order is None else np.asarray(order)
    axis_values, grid = _grid(items, num_grid)
    skills = [p.predict(grid)[0].reshape(num_grid, num_grid) for p in (supervised, semi_supervised)]

    figure, axes = plt.subplots(1, 3, figsize=(13.5, 4.0), layout="constrained")
    limit = max(np.abs(s).max() for s in skills)
    levels = MaxNLocator(nbins=16, symmetric=True).tick_values(-limit, limit)
    titles = ("Mean skill without the graph", "Mean skill with the graph")
    filled = [
        ax.contourf(*axis_values, skill, levels, cmap="RdBu_r", alpha=0.85)
        for ax, skill in zip(axes, skills, strict=False)
    ]
    for ax, skill, title in zip(axes, skills, titles, strict=False):
        ax.contour(*axis_values, skill, levels, colors="0.35", linewidths=0.4)
        _mark_items(ax, items, pairs)
        ax.set(title=title, xlabel=feature_names[0], aspect="equal")
    axes[0].set(ylabel=feature_names[1])
    if graph is not None:
        _draw_edges(axes[1], items, graph)
    figure.colorbar(filled[0], ax=axes[:2], shrink=0.85)
    _error_bars(axes[2], supervised.predict(items), with_graph, place, pairs)
    axes[2].set(title="Mean ± one standard deviation", xlabel=xlabel, ylabel="skill")
    return figure


def _grid(items: Array, num_grid: int) -> tuple[tuple[Array, Array], Array]:
    """Values along each feature, and all their combinations (num_grid squared, 2)."""
    low, high = items.min(axis=0), items.max(axis=0)
    margin = _MARGIN * (high - low)
    first, second = (
        np.linspace(a, b, num_grid) for a, b in zip(low - margin, high + margin, strict=True)
    )
    return (first, second), np.stack(np.meshgrid(first, second), axis=-1).reshape(-1, 2)


def _winners_and_losers(num_items: int, pairs: NDArray) -> tuple[NDArray, NDArray]:
    """Items that won at least half of their comparisons, and those that won fewer."""
    wins, losses = (np.bincount(pairs[:, side], minlength=num_items) for side in (0, 1))
    return np.flatnonzero((wins > 0) & (wins >= losses)), np.flatnonzero(losses > wins)


def _mark_items(ax: Axes, items: Array, pairs: NDArray) -> None:
    ax.plot(*items.T, "o", markersize=4, markerfacecolor="white", markeredgecolor="0.15", zorder=3)
    for marked, marker in zip(_winners_and_losers(len(items), pairs), "^v", strict=True):
        style = {"markersize": 10, "markerfacecolor": "gold", "markeredgecolor": "0.15"}
        ax.plot(*items[marked].T, marker, zorder=4, **style)


def _draw_edges(ax: Axes, items: Array, graph: Any) -> None:
    first, second = sparse.triu(sparse.coo_array(graph), k=1).nonzero()
    edges = np.stack([items[first], items[second]], axis=1)
    ax.add_collection(LineCollection(list(edges), colors="0.15", linewidths=0.8, zorder=2))


def _error_bars(
    ax: Axes,
    without: tuple[Array, Array],
    with_graph: tuple[Array, Array],
    place: NDArray,
    pairs: NDArray,
) -> None:
    across = np.arange(len(place))
    compared = np.isin(place, pairs)
    for (mean, sd), label, color, shift in (
        (without, "without the graph", "0.6", -0.15),
        (with_graph, "with the graph", "C0", 0.15),
    ):
        style: dict[str, Any] = {"color": color, "markersize": 4, "elinewidth": 1.2}
        ax.errorbar(across + shift, mean[place], sd[place], fmt="o", label=label, **style)
    style = {"color": "gold", "markersize": 9, "markeredgecolor": "0.15", "label": "compared"}
    at = ax.get_xaxis_transform()
    ax.plot(across[compared], np.full(compared.sum(), 0.03), "^", transform=at, **style)
    ax.spines[["top", "right"]].set_visible(False)
    low, high = ax.get_ylim()
    ax.set_ylim(low - 0.05 * (high - low), high + 0.2 * (high - low))  # room for marks and legend
    ax.legend(frameon=False, fontsize="small", loc="upper left", handletextpad=0.1)
