"""The next question in context: why this pair and not another."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from bayesrank.active import Beliefs, margins
from bayesrank.plots._figure import shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

_FIRST, _SECOND = "C0", "C3"


def plot_question(
    beliefs: Beliefs,
    pairs: ArrayLike,
    scores: ArrayLike,
    *,
    question: tuple[int, int] | None = None,
    names: Sequence[object] | None = None,
    score_label: str = "expected gain of an answer (nats)",
) -> "Figure":
    """Draw why a question was chosen: where its items stand, and what the others would tell.

    On the left all items from the highest skill to the lowest, the two of the question marked, each
    with one posterior standard deviation; skills are above or below the average item's. On the
    right every candidate by what is believed of it: how sure its answer is, and how little is known
    of its margin. The question tells most because it is near the middle, where the answer is open,
    and high, where much is to be learned.

    Parameters
    ----------
    beliefs : Beliefs
        Beliefs about n skills, such as ``loop.beliefs`` of a `bayesrank.active.QueryLoop`.
    pairs : ArrayLike
        Candidates, integers of shape (m, 2), and
    scores : ArrayLike
        their scores, shape (m,): ``pairs, scores = loop.candidates()``.
    question : tuple of int, optional
        The two items of the question; those with the highest score if not given.
    names : sequence, optional
        One name for each of the n items; their numbers if not given.
    score_label : str
        What the scores are.

    Returns
    -------
    matplotlib.figure.Figure
        A new figure with two panels.

    Raises
    ------
    ValueError
        If the arguments do not fit each other; the message says how.
    """
    from matplotlib import pyplot as plt

    candidates, gains, n = np.asarray(pairs), np.asarray(scores, float), len(beliefs.mean)
    if candidates.ndim != 2 or candidates.shape[1:] != (2,) or gains.shape != candidates.shape[:1]:
        raise ValueError(
            f"pairs has shape {candidates.shape} and scores {gains.shape}; pass (m, 2) and (m,)"
        )
    if len(gains) == 0:
        raise ValueError("pairs holds no candidate, so there is no question to draw; pass some")
    pair = candidates[np.argmax(gains)] if question is None else np.asarray(question)
    for name, items in (("pairs", candidates), ("question", pair)):
        whole = items.dtype.kind in "iu" and items.shape[-1:] == (2,)
        if not whole or not 0 <= items.min() <= items.max() < n:
            raise ValueError(f"{name} names an item that is not one of 0 to {n - 1}")
    if not np.isfinite(gains).all():
        raise ValueError("scores has one that is not a finite number; leave that pair out")
    if names is not None and len(names) != n:
        raise ValueError(f"names holds {len(names)} names; pass one for each of the {n} items")
    labels = [shorten(str(i if names is None else names[i])) for i in pair]
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(11, 4.6), layout="constrained", width_ratios=(1, 1.15)
    )
    _draw_items(left, beliefs, pair, labels)
    _draw_candidates(right, beliefs, candidates, gains, pair, score_label)
    first, second = labels
    figure.suptitle(f"Why ask: {first} or {second}?", parse_math=False)
    return figure


def _draw_items(ax: "Axes", beliefs: Beliefs, pair: Array, labels: list[str]) -> None:
    """All items from the best to the worst, the two of the question marked."""
    mean, sd = _about_the_average(beliefs)
    order = np.argsort(-mean, kind="stable")
    place = np.empty(len(order), int)
    place[order] = np.arange(1, len(order) + 1)
    ax.fill_between(
        np.arange(1, len(order) + 1),
        (mean - sd)[order],
        (mean + sd)[order],
        color="0.88",
        lw=0,
        label="one sd, each item",
    )
    ax.plot(np.arange(1, len(order) + 1), mean[order], color="0.45", lw=1.5)
    for item, label, color in zip(pair, labels, (_FIRST, _SECOND), strict=True):
        name = f"{label}: now rank {place[item]}"
        ax.errorbar(
            place[item], mean[item], sd[item], fmt="o", color=color, lw=2, capsize=4, label=name
        )
    ax.set_xlabel("Rank by estimated skill")
    ax.set_ylabel("Skill above the average item's")
    ax.set_title("Where the two stand now", fontsize="medium")
    for text in ax.legend(frameon=False, fontsize="small", loc="best").get_texts():
        text.set_parse_math(False)  # names with dollars are no formulas
    ax.spines[["top", "right"]].set_visible(False)


def _draw_candidates(
    ax: "Axes",
    beliefs: Beliefs,
    pairs: Array,
    scores: Array,
    pair: Array,
    score_label: str,
) -> None:
    """Every candidate by how open its answer is and how little is known of its margin."""
    win, sd = _open_and_unknown(beliefs, pairs)
    order = np.argsort(scores)  # the best on top
    dots = ax.scatter(
        win[order], sd[order], c=scores[order], s=14, cmap="viridis", rasterized=True, lw=0
    )
    (at_win,), (at_sd,) = _open_and_unknown(beliefs, pair[None])
    ax.plot(at_win, at_sd, "*", ms=17, mfc="#ff7f0e", mec="black", label="this question", ls="")
    ax.axvline(0.5, color="0.7", lw=0.8, zorder=0)
    ax.set_xlim(-0.02, 1.02)
    ax.set_ylim(bottom=0.0)
    ax.set_xlabel("Probability that the first item wins")
    ax.set_ylabel("Posterior sd of the difference of skills")
    ax.set_title(f"What each of {len(scores):,} candidates would tell", fontsize="medium")
    ax.legend(frameon=False, fontsize="small", loc="lower left")
    ax.spines[["top", "right"]].set_visible(False)
    ax.figure.colorbar(dots, ax=ax, label=score_label)


def _about_the_average(beliefs: Beliefs) -> tuple[Array, Array]:
    """Mean and sd of each skill less the average skill."""
    mean, covariance = np.asarray(beliefs.mean, float), np.asarray(beliefs.covariance, float)
    rows = covariance.mean(axis=1)
    variance = np.diagonal(covariance) - 2.0 * rows + rows.mean()
    return mean - mean.mean(), np.sqrt(np.maximum(variance, 0.0))


def _open_and_unknown(beliefs: Beliefs, pairs: Array) -> tuple[Array, Array]:
    """Probability that the first item wins, and sd of the margin."""
    with jax.enable_x64(True):
        mean, variance = (np.asarray(part, float) for part in margins(beliefs, pairs))
    noise = float(np.asarray(beliefs.noise))
    return ndtr(mean / np.sqrt(2.0 * noise**2 + variance)), np.sqrt(variance)
