"""Heat maps: who beats whom, and which rank each item has."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesrank.plots._figure import axes_or_new, ranked_labels, shorten, thin
from bayesrank.ranking import pairwise_probability, rank_distribution, summarize

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[Any]

_WRITTEN = 12
_LABELS = 30


def plot_pairwise(
    samples: ArrayLike,
    names: Sequence[object] | None = None,
    *,
    components: ArrayLike | None = None,
    max_items: int = 150,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the probability that each item is better than each other, in ranked order.

    Items stand in the order of `bayesrank.ranking.summarize`, with the ranks that it gives them.

    Parameters
    ----------
    samples
        Posterior draws of skill, shape ``(draws, n)``.
    names
        One name per item; the item's index if not given.
    components
        As for `bayesrank.ranking.summarize`. Nothing is drawn of two items of different ones.
    max_items
        Most items to draw: of more, the best are, and the title says so.
    ax
        Axes to draw on; a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn on. Of many items some labels are left out, but no item.

    Raises
    ------
    ValueError
        If ``max_items`` is not positive, or ``samples``, ``names`` or ``components`` do not fit,
        see `bayesrank.ranking`.
    """
    if max_items < 1:
        raise ValueError(f"max_items must be at least 1, got {max_items}")
    summary = summarize(samples, names, components=components)
    drawn = summary.item[:max_items]
    labels = summary.name[:max_items]
    probability = pairwise_probability(np.asarray(samples)[:, drawn])
    component = summary.component[:max_items]
    probability[component[:, None] != component] = np.nan
    n = len(drawn)
    ax = axes_or_new(ax, *_size(labels, labels))
    _heat(ax, probability, "RdBu", None, "Chance that the row's item is better")
    if n <= _WRITTEN:
        np.fill_diagonal(probability, np.nan)
        _write(ax, probability, np.abs(probability - 0.5) > 0.35)
    _label_rows(ax, ranked_labels(labels, summary.rank[:max_items]))
    columns = thin(n, _LABELS)
    ax.set_xticks(columns, [shorten(labels[i]) for i in columns], rotation=90, parse_math=False)
    ax.set_xlabel("… than this item (same order)")
    title = "How sure are we of each pair?\nblue: row's item better, red: column's"
    if component[-1] > 0:
        title += "; grey: no comparison links them"
    if n < len(summary):
        title += f"\nthe best {n} of {len(summary)} items; the others are left out"
    ax.set_title(title, fontsize="medium")
    return ax


def plot_rank_distribution(
    samples: ArrayLike, names: Sequence[object] | None = None, *, ax: "Axes | None" = None
) -> "Axes":
    """Draw how probable each rank is for each item, items in ranked order.

    Parameters
    ----------
    samples
        Posterior draws of skill, shape ``(draws, n)``.
    names
        One name per item; the item's index if not given.
    ax
        Axes to draw on; a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn on. Of many items some labels are left out, but no item.

    Raises
    ------
    ValueError
        If ``samples`` or ``names`` do not fit, see `bayesrank.ranking`.
    """
    summary = summarize(samples, names)
    labels = summary.name
    probability = rank_distribution(samples)[summary.item]
    n = len(summary)
    ax = axes_or_new(ax, *_size(labels, []))
    _heat(ax, probability, "Blues", 0.5, "Chance that the item has the rank")
    if n <= _WRITTEN:
        shown = np.where(probability < 0.005, np.nan, probability)
        _write(ax, shown, probability > 0.4 * probability.max())
    _label_rows(ax, ranked_labels(labels))
    columns = thin(n, _WRITTEN + 1)
    ax.set_xticks(columns, [str(i + 1) for i in columns])
    ax.set_xlabel("Rank (1 = best)")
    ax.set_title(
        "Which rank does each item have?\nnarrow and dark: its rank is well known",
        fontsize="medium",
    )
    return ax


def _size(rows: list[str], columns: list[str]) -> tuple[float, float]:
    """Width and height in inches of a new figure: the cells, and room for the names."""
    side = float(np.clip(0.5 * len(rows), 3.5, 7.0))
    left, below = (max((len(shorten(name)) for name in names), default=2)
                   for names in (rows, columns))  # fmt: skip
    return side + 2.2 + 0.08 * left, side + 1.0 + 0.08 * below


def _heat(ax: "Axes", values: Array, colours: str, gamma: float | None, what: str) -> None:
    """Draw the cells and their colour scale in percent.

    With ``gamma`` the scale runs from 0 to the largest value and is bent by that power, so that
    small probabilities show beside large ones; without, it runs from 0 to 1.
    """
    from matplotlib.colors import Normalize, PowerNorm
    from matplotlib.ticker import PercentFormatter

    norm = Normalize(0.0, 1.0) if gamma is None else PowerNorm(gamma, 0.0, values.max())
    ax.set_facecolor("0.85")  # of what is not known
    image = ax.imshow(values, cmap=colours, norm=norm, aspect="auto")
    bar = ax.figure.colorbar(image, ax=ax, format=PercentFormatter(1.0))
    bar.set_label(what)


def _label_rows(ax: "Axes", labels: list[str]) -> None:
    """Name the rows, or evenly spaced ones of them if there are many."""
    rows = thin(len(labels), _LABELS)
    ax.set_yticks(rows, [labels[i] for i in rows], parse_math=False)
    ax.set_ylabel("Rank and item")


def _write(ax: "Axes", values: Array, light: Array) -> None:
    """Write the percentage into each cell, in white where the cell is dark."""
    for (row, column), value in np.ndenumerate(values):
        if not np.isnan(value):
            colour = "white" if light[row, column] else "black"
            ax.text(column, row, _percent(value), ha="center", va="center", color=colour,
                    fontsize="small")  # fmt: skip


def _percent(share: float) -> str:
    """Return a share of draws as a whole percentage; no number of draws makes it 0 or 100."""
    whole = f"{100 * share:.0f}"
    return {"0": "<1", "100": ">99"}.get(whole, whole)
