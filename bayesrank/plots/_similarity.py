"""Which items the same people like."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from bayesrank.plots._figure import axes_or_new, shorten, thin

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WRITTEN = 12
_LABELS = 40


def plot_similarity(
    kernel: ArrayLike, names: Sequence[object], *, ax: "Axes | None" = None
) -> "Axes":
    """Draw the correlations of items over users, alike ones side by side.

    Parameters
    ----------
    kernel
        Covariance of the users' functions at the items, shape (m, m), of two items or more.
    names
        One name for each item.
    ax
        Axes to draw on; a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn on. Of many items some labels are left out, but no item.

    Raises
    ------
    ValueError
        If it is no covariance of as many items as there are names.
    """
    covariance = np.asarray(kernel, float)
    m = len(names)
    if covariance.shape != (m, m) or m < 2:
        raise ValueError(
            f"kernel has shape {covariance.shape} and there are {m} names; pass a covariance of "
            "two items or more, and one name each"
        )
    sd = np.sqrt(np.diagonal(covariance))
    if not (np.isfinite(covariance).all() and (sd > 0).all()):
        raise ValueError("kernel is no covariance; it needs finite entries and positive variances")
    correlation = covariance / np.outer(sd, sd)
    order = _alike_together(correlation)
    correlation = correlation[np.ix_(order, order)]
    side = float(np.clip(0.4 * m, 3.5, 9.0))
    ax = axes_or_new(ax, side + 4.0, side + 2.5)
    image = ax.imshow(correlation, cmap="RdBu", vmin=-1.0, vmax=1.0)
    ax.figure.colorbar(image, ax=ax, shrink=0.8).set_label("Correlation over users")
    places = thin(m, _LABELS)
    labels = [shorten(str(names[order[place]])) for place in places]
    ax.set_xticks(places, labels, rotation=90, fontsize="small", parse_math=False)
    ax.set_yticks(places, labels, fontsize="small", parse_math=False)
    if m <= _WRITTEN:
        for (row, column), value in np.ndenumerate(correlation):
            colour = "white" if abs(value) > 0.7 else "black"
            ax.text(column, row, f"{value:.2f}", ha="center", va="center", color=colour,
                    fontsize="small")  # fmt: skip
    ax.set_title(
        "What do the same people like?\nblue: who likes one likes the other; red: rather not",
        fontsize="medium",
    )
    return ax


def _alike_together(correlation: np.ndarray) -> np.ndarray:
    """Order of items in which neighbours are alike, from a hierarchy of clusters."""
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    apart = 1.0 - 0.5 * (correlation + correlation.T)
    np.fill_diagonal(apart, 0.0)
    distance = squareform(np.maximum(apart, 0.0), checks=False)
    return leaves_list(linkage(distance, method="average", optimal_ordering=True))
