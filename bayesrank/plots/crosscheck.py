"""Does an engine give the same answer as NUTS? Its estimates and uncertainties beside NUTS's."""

import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bayesrank.plots.figure import frame

if TYPE_CHECKING:
    from bayesrank.diagnostics import CrossCheck
    from bayesrank.diagnostics.verdict import Comparison


def plot_crosscheck(
    check: "CrossCheck", engine: str | None = None, *, labels: Mapping[str, str] | None = None
) -> Figure:
    """Draw an engine's means and standard deviations against NUTS's, one dot a quantity.

    Parameters
    ----------
    check
        What `bayesrank.diagnostics.crosscheck` returns.
    engine
        "ep" or "svi"; the one that ``check.verdict`` is about if not given.
    labels
        What to call sites, by their names in the program.

    Returns
    -------
    matplotlib.figure.Figure
        A new figure. If the engines agree, the dots lie on the line; the band around it in the
        right panel is the tolerance.

    Raises
    ------
    ValueError
        If NUTS or ``engine`` was not among the engines run.
    """
    engine = check.verdict.engine if engine is None else engine
    comparisons = [c for c in check.comparisons if c.engine == engine]
    if not comparisons:
        raise ValueError(
            f"engine {engine!r} was not compared with NUTS; run crosscheck with both among its "
            f"engines (compared: {sorted({c.engine for c in check.comparisons})})"
        )
    name = engine.upper()
    sentence = textwrap.wrap(check.verdicts[engine].sentence, 95)
    size = (9.0, 4.9 + 0.25 * len(sentence))
    figure, (left, right) = plt.subplots(1, 2, figsize=size, layout="constrained")
    pairs = any(c.reference.contrast.second is not None for c in comparisons)
    alone = "the difference of two" if pairs else "one unknown"
    for comparison in comparisons:
        reference = comparison.reference
        site = (labels or {}).get(comparison.site, comparison.site)
        label = site if len(comparisons) > 1 else alone
        style = {"s": 16, "alpha": 0.6, "linewidths": 0, "label": label}
        left.scatter(reference.mean, comparison.mean, **style)
        right.scatter(reference.sd, comparison.sd, **style)
    for ax, title, what in (
        (left, "Estimates", "Estimate"),
        (right, "Uncertainties", "Standard deviation"),
    ):
        subtitle = f"{title}\neach dot is {alone}; on the line: the same answer"
        ax.set_title(subtitle, fontsize="small")
        _square(ax, f"{what} by NUTS", f"{what} by {name}")
    ends = np.array(right.get_xlim())
    band = check.tolerance * ends
    percent = f"within {100 * check.tolerance:g}%"
    right.fill_between(ends, ends - band, ends + band, color="0.9", zorder=0, label=percent)
    _note(left, "typical difference: " + _typical_error(comparisons))
    _note(right, "typical difference: " + _typical_change(comparisons))
    for ax in (left, right) if len(comparisons) > 1 else (right,):
        ax.legend(loc="upper left", frameon=False)
    question = f"Does {name} give the same answer as NUTS?"
    figure.suptitle("\n".join([question, *sentence]), fontsize="medium", parse_math=False)
    return figure


def _square(ax: Axes, xlabel: str, ylabel: str) -> None:
    """Draw the line of equality over a square that holds all dots."""
    low = min(ax.get_xlim()[0], ax.get_ylim()[0])
    high = max(ax.get_xlim()[1], ax.get_ylim()[1])
    ax.plot([low, high], [low, high], color="0.5", linewidth=1, zorder=1)
    ax.set(xlim=(low, high), ylim=(low, high), aspect="equal")
    frame(ax, xlabel, ylabel)


def _note(ax: Axes, text: str) -> None:
    ax.text(0.98, 0.03, text, ha="right", transform=ax.transAxes, fontsize="small", color="0.3")


def _typical_error(comparisons: "list[Comparison]") -> str:
    error = np.concatenate([c.error for c in comparisons])
    return f"{np.sqrt(np.mean(error**2)):.1%} of the uncertainty"


def _typical_change(comparisons: "list[Comparison]") -> str:
    ratio = np.concatenate([c.ratio for c in comparisons])
    return f"{np.median(np.abs(ratio - 1.0)):.1%}"
