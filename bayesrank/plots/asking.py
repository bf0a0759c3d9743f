"""Choosing questions: how fast errors fall, and why a question was asked and not another."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from bayesrank._names import check_names
from bayesrank._validate import check_choice, check_pairs
from bayesrank.plots.figure import axes_or_new, frame, plain_legend, shorten

if TYPE_CHECKING:
    from bayesrank.active import Beliefs

Array = NDArray[np.float64]


def plot_learning_curves(
    curves: Mapping[str, ArrayLike],
    *,
    band: str = "sd",
    reference: Mapping[str, float] | None = None,
    ylabel: str = "pairs in the wrong order",
    ax: Axes | None = None,
) -> Axes:
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

    Raises
    ------
    ValueError
        If an argument cannot be used; the message names it and what to do.
    """
    check_choice(band, "band", "sd", "se")
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
        at: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
        at |= {"ha": "right", "va": "bottom", "color": "0.4", "fontsize": "small"}
        ax.annotate(name, (1, value), xytext=(-3, 2), parse_math=False, **at)
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    ax.set_xlim(1, max(2, *(table.shape[1] for table in tables.values())))
    plain_legend(ax)
    trials = sorted({len(table) for table in tables.values()})
    kind = "standard deviation" if band == "sd" else "standard error"
    several = f"average of {' or '.join(map(str, trials))} trials; band: {kind}"
    frame(ax, "answers", ylabel, "one trial" if trials == [1] else several)
    return ax


def plot_question(
    beliefs: "Beliefs",
    pairs: ArrayLike,
    scores: ArrayLike,
    *,
    question: tuple[int, int] | None = None,
    names: Sequence[object] | None = None,
    score_label: str = "expected gain of an answer (nats)",
) -> Figure:
    """Draw in two panels why a question was chosen: its items, and the gains of other questions.

    The left panel shows all items from the highest skill to the lowest, each with one posterior
    standard deviation. It marks the two of the question. Skills are above or below the average
    item's. The right panel shows every candidate by the probability that its first item wins, if
    there is no tie, and the standard deviation of the difference of skills. A good question is near
    the middle, where the answer is open, and high, where there is much to learn.

    Parameters
    ----------
    beliefs : Beliefs
        Beliefs about n skills, such as ``loop.beliefs`` of a `bayesrank.active.QueryLoop`.
    pairs : ArrayLike
        Candidates, integers of shape (m, 2).
    scores : ArrayLike
        Their scores, shape (m,), both from ``pairs, scores = loop.candidates()``.
    question : tuple of int, optional
        The two items of the question; those with the highest score if not given.
    names : sequence, optional
        One name for each of the n items; their numbers if not given.
    score_label : str
        What the scores are.

    Raises
    ------
    ValueError
        If the arguments do not fit each other; the message says how.
    """
    candidates, pair, known = _checked(beliefs, pairs, scores, question, names)
    gains, labels = np.asarray(scores, float), [shorten(known[i]) for i in pair]
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(11, 4.6), layout="constrained", width_ratios=(1, 1.15)
    )
    _draw_items(left, beliefs, pair, labels)
    _draw_candidates(right, beliefs, candidates, gains, pair, score_label)
    first, second = labels
    figure.suptitle(f"Why ask: {first} or {second}?", parse_math=False)
    return figure


def _checked(
    beliefs: "Beliefs",
    pairs: ArrayLike,
    scores: ArrayLike,
    question: tuple[int, int] | None,
    names: Sequence[object] | None,
) -> tuple[NDArray[Any], NDArray[Any], list[str]]:
    """Candidates (m, 2), the question (2,) and names (n,), of arguments that fit each other."""
    n = len(beliefs.mean)
    candidates, gains = check_pairs(pairs, n), np.asarray(scores, float)
    if gains.shape != candidates.shape[:1]:
        raise ValueError(f"scores has shape {gains.shape}; pass one of each of {len(candidates)}")
    if len(gains) == 0:
        raise ValueError("pairs holds no candidate, so there is no question to draw; pass some")
    if not np.isfinite(gains).all():
        raise ValueError("scores has one that is not a finite number; leave that pair out")
    asked = candidates[[np.argmax(gains)]] if question is None else [question]
    return candidates, check_pairs(asked, n, "question")[0], check_names(names, n)


def _draw_items(ax: Axes, beliefs: "Beliefs", pair: Array, labels: list[str]) -> None:
    """All items from the best to the worst, the two of the question marked."""
    mean, sd = _about_the_average(beliefs)
    order, ranks = np.argsort(-mean, kind="stable"), np.arange(1, len(mean) + 1)
    place = np.empty(len(order), int)
    place[order] = ranks
    band = (mean - sd)[order], (mean + sd)[order]
    ax.fill_between(ranks, *band, color="0.88", lw=0, label="one sd, each item")
    ax.plot(ranks, mean[order], color="0.45", lw=1.5)
    for item, label, color in zip(pair, labels, ("C0", "C3"), strict=True):
        name, at = f"{label}: now rank {place[item]}", (place[item], mean[item], sd[item])
        ax.errorbar(*at, fmt="o", color=color, lw=2, capsize=4, label=name)
    frame(
        ax, "Rank by estimated skill", "Skill above the average item's", "Where the two stand now"
    )
    plain_legend(ax, fontsize="small", loc="best")


def _draw_candidates(
    ax: Axes, beliefs: "Beliefs", pairs: Array, scores: Array, pair: Array, score_label: str
) -> None:
    """Every candidate by how open its answer is and how little is known of its margin."""
    win, sd = _open_and_unknown(beliefs, pairs)
    order = np.argsort(scores)  # the best on top
    style = {"c": scores[order], "s": 14, "cmap": "viridis", "rasterized": True, "lw": 0}
    dots = ax.scatter(win[order], sd[order], **style)
    (at_win,), (at_sd,) = _open_and_unknown(beliefs, pair[None])
    ax.plot(at_win, at_sd, "*", ms=17, mfc="#ff7f0e", mec="black", label="this question", ls="")
    ax.axvline(0.5, color="0.7", lw=0.8, zorder=0)
    ax.set_xlim(-0.02, 1.02)
    ax.set_ylim(bottom=0.0)
    title = f"What each of {len(scores):,} candidates would tell"
    across = "Probability that the first item wins"
    across += "" if beliefs.tie_width is None else ", if there is no tie"
    up = "Posterior sd of the difference of skills"
    frame(ax, across, up, title)
    plain_legend(ax, fontsize="small", loc="lower left")
    ax.figure.colorbar(dots, ax=ax, label=score_label)


def _about_the_average(beliefs: "Beliefs") -> tuple[Array, Array]:
    """Mean and sd (n,) of each skill less the average skill."""
    mean, covariance = np.asarray(beliefs.mean, float), np.asarray(beliefs.covariance, float)
    rows = covariance.mean(axis=1)
    variance = np.diagonal(covariance) - 2.0 * rows + rows.mean()
    return mean - mean.mean(), np.sqrt(np.maximum(variance, 0.0))


def _open_and_unknown(beliefs: "Beliefs", pairs: Array) -> tuple[Array, Array]:
    """Probability that the first item wins, if one does, and sd of the margin, shape (m,)."""
    mean, covariance = np.asarray(beliefs.mean, float), np.asarray(beliefs.covariance, float)
    (i, j), variances = pairs.T, np.diagonal(covariance)
    variance = np.maximum(variances[i] + variances[j] - 2.0 * covariance[i, j], 0.0)
    spread = np.sqrt(2.0 * float(np.asarray(beliefs.noise)) ** 2 + variance)
    width = 0.0 if beliefs.tie_width is None else float(np.asarray(beliefs.tie_width))
    win, loss = (
        ndtr((margin - width) / spread) for margin in (mean[i] - mean[j], mean[j] - mean[i])
    )
    return win / (win + loss), np.sqrt(variance)


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
