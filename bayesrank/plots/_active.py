"""Choosing questions: how fast errors fall, what is believed, and where a question would tell most.

The two maps take items with two features anywhere in the plane and join them by triangles, so that
a regular grid of made-up items (``X_new`` of `bayesrank.models.preference_gp`) and the real items
alone both do.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesrank.active import Acquisition, Beliefs, bald, best_pairs
from bayesrank.plots._figure import axes_or_new

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]

_LEVELS = 14


def plot_learning_curves(
    curves: Mapping[str, ArrayLike],
    *,
    band: str = "sd",
    reference: Mapping[str, float] | None = None,
    ylabel: str = "pairs in the wrong order",
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw how an error falls with the number of answers, for several ways of asking.

    Parameters
    ----------
    curves : mapping
        For each name the errors after 1, 2, ... answers in each trial, as fractions, shape (trials,
        answers).
    band : {"sd", "se"}
        What the band about the average is: the standard deviation of one trial, or the standard
        error of the average.
    reference : mapping, optional
        Errors to draw as horizontal lines, by name.
    ylabel : str
        What the errors are.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn on.

    Raises
    ------
    ValueError
        If an argument cannot be used; the message names it and what to do.
    """
    from matplotlib.ticker import PercentFormatter

    if band not in ("sd", "se"):
        raise ValueError(f"band must be 'sd' or 'se', got {band!r}")
    if not curves:
        raise ValueError("curves is empty; give at least one name with its errors")
    tables = {name: _errors(name, values) for name, values in curves.items()}
    ax = axes_or_new(ax, 6.5, 4.2)
    for number, (name, table) in enumerate(tables.items()):
        answers = np.arange(1, table.shape[1] + 1)
        mean, spread = table.mean(axis=0), table.std(axis=0, ddof=len(table) > 1)
        width = spread / np.sqrt(len(table)) if band == "se" else spread
        colour = f"C{number}"
        ax.plot(answers, mean, color=colour, label=name)
        ax.fill_between(answers, mean - width, mean + width, color=colour, alpha=0.18, lw=0)
    for name, value in (reference or {}).items():
        ax.axhline(value, color="0.4", ls="--", lw=1)
        ax.annotate(name, (1, value), xycoords=("axes fraction", "data"), ha="right", va="bottom",
                    xytext=(-3, 2), textcoords="offset points", color="0.4",
                    fontsize="small")  # fmt: skip
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    ax.set_xlim(1, max(2, *(table.shape[1] for table in tables.values())))
    ax.set_xlabel("answers")
    ax.set_ylabel(ylabel)
    ax.legend(frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    trials = sorted({len(table) for table in tables.values()})
    kind = "standard deviation" if band == "sd" else "standard error"
    several = f"average of {' or '.join(map(str, trials))} trials; band: {kind}"
    ax.set_title("one trial" if trials == [1] else several, fontsize="medium")
    return ax


def plot_skill_surface(
    beliefs: Beliefs,
    X: ArrayLike,
    *,
    comparisons: ArrayLike | None = None,
    feature_names: Sequence[str] = ("first feature", "second feature"),
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the skills over two features: means as colours, standard deviations as lines.

    Parameters
    ----------
    beliefs : Beliefs
        Beliefs about n skills.
    X : ArrayLike
        Features of these items, shape (n, 2); not all on one line.
    comparisons : ArrayLike, optional
        Integers of shape (K, 2), a row (winner, loser) for each comparison: arrows from loser to
        winner.
    feature_names : sequence of str
        Names of the two features.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn on.

    Raises
    ------
    ValueError
        If an argument cannot be used; the message names it and what to do.
    """
    points = _points(X, len(beliefs.mean))
    pairs = _pairs(comparisons, len(points))
    ax = axes_or_new(ax, 6.0, 4.8)
    _surface(ax, points, beliefs.mean, "RdBu", "mean skill (higher is better)", centred=True)
    sd = np.sqrt(np.diagonal(np.asarray(beliefs.covariance, float)))
    if np.ptp(sd) > 1e-9:
        lines = ax.tricontour(
            points[:, 0], points[:, 1], sd, levels=5, colors="k", linewidths=0.7, alpha=0.6
        )
        ax.clabel(lines, fontsize="x-small")
    for winner, loser in pairs:
        ax.annotate("", tuple(points[winner]), tuple(points[loser]),
                    arrowprops={"arrowstyle": "->", "color": "k", "lw": 1.2})  # fmt: skip
    compared = points[np.unique(pairs)]
    ax.plot(*compared.T, "o", color="k", markersize=3)
    _name_axes(ax, feature_names)
    caption = "; arrow: loser to winner" if len(pairs) else ""
    ax.set_title(f"Skill over the features\nlines: standard deviation{caption}", fontsize="medium")
    return ax


def plot_gain_surface(
    beliefs: Beliefs,
    X: ArrayLike,
    acquisition: Acquisition = bald,
    *,
    num_items: int | None = None,
    anchor: int | None = None,
    feature_names: Sequence[str] = ("first feature", "second feature"),
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw how much would be told by comparing one item with each of the others.

    Parameters
    ----------
    beliefs : Beliefs
        Beliefs about n skills.
    X : ArrayLike
        Features of these items, shape (n, 2); not all on one line.
    acquisition : callable
        Scores of pairs, see `bayesrank.active.acquisition`.
    num_items : int, optional
        How many of the items, from the first, can be asked about; the others only fill the map. By
        default all.
    anchor : int, optional
        The item to be compared; by default one of the best pair of all.
    feature_names : sequence of str
        Names of the two features.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn on. The anchor is a square, the best item to compare it with a star.

    Raises
    ------
    ValueError
        If an argument cannot be used; the message names it and what to do.
    """
    points = _points(X, len(beliefs.mean))
    n = len(points)
    real = n if num_items is None else num_items
    if not 2 <= real <= n:
        raise ValueError(f"num_items is {real}; at least 2 of the {n} items must be real ones")
    if anchor is None:
        real_pairs = np.stack(np.triu_indices(real, 1), axis=1)
        anchor = int(best_pairs(acquisition, beliefs, candidates=real_pairs)[0][0, 0])
    if not 0 <= anchor < real:
        raise ValueError(f"anchor is {anchor}; items are numbered from 0 to {real - 1}")
    others = np.delete(np.arange(n), anchor)
    pairs = np.stack([np.full(n - 1, anchor), others], axis=1)
    scores = np.asarray(acquisition(beliefs, pairs), float)
    partner = others[np.argmax(scores[: real - 1])]
    ax = axes_or_new(ax, 6.0, 5.0)
    _surface(ax, points[others], scores, "viridis", "score of the pair")
    marks: dict[str, Any] = {"color": "w", "markeredgecolor": "k", "linestyle": "none"}
    ax.plot(*points[anchor], "s", markersize=9, label=f"item {anchor}", **marks)
    ax.plot(*points[partner], "*", markersize=15, label=f"best opponent: {partner}", **marks)
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2, frameon=False)
    _name_axes(ax, feature_names)
    ax.set_title(f"What would comparing item {anchor} with others tell?", fontsize="medium")
    return ax


def _surface(
    ax: "Axes", points: Array, values: Any, colours: str, what: str, centred: bool = False
) -> None:
    """Fill a map with colours; `centred` puts the middle of the scale at zero."""
    from matplotlib.colors import CenteredNorm

    heights = np.asarray(values, float)
    filled = ax.tricontourf(
        points[:, 0],
        points[:, 1],
        heights,
        levels=_LEVELS,
        cmap=colours,
        norm=CenteredNorm() if centred else None,
    )
    ax.figure.colorbar(filled, ax=ax).set_label(what)


def _name_axes(ax: "Axes", feature_names: Sequence[str]) -> None:
    ax.set_xlabel(feature_names[0])
    ax.set_ylabel(feature_names[1])


def _errors(name: str, values: ArrayLike) -> Array:
    try:
        table = np.asarray(values, float)
    except ValueError:
        raise ValueError(
            f"curves[{name!r}] is not a table; give each trial the same number of answers"
        ) from None
    if table.ndim != 2 or 0 in table.shape or not np.isfinite(table).all():
        raise ValueError(
            f"curves[{name!r}] has shape {table.shape}; give finite errors of shape (trials, "
            "answers)"
        )
    return table


def _points(X: ArrayLike, n: int) -> Array:
    points = np.asarray(X, float)
    if points.shape != (n, 2):
        raise ValueError(
            f"X has shape {points.shape}; the beliefs are about {n} items, and the map needs two "
            f"features of each, shape ({n}, 2)"
        )
    centred = points - points.mean(axis=0)
    if n < 4 or np.linalg.matrix_rank(centred, tol=1e-9 * max(1.0, float(np.ptp(points)))) < 2:
        raise ValueError("X needs at least four items that are not all on one line")
    return points


def _pairs(comparisons: ArrayLike | None, n: int) -> NDArray[np.intp]:
    pairs = np.zeros((0, 2), int) if comparisons is None else np.asarray(comparisons)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise ValueError("comparisons must be integers of shape (K, 2), winner and loser")
    if pairs.size and not 0 <= pairs.min() <= pairs.max() < n:
        raise ValueError(f"comparisons must name items from 0 to {n - 1}")
    return pairs
