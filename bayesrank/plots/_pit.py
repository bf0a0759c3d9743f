"""Are predicted distributions of levels calibrated? Drawn by ArviZ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesrank._arviz import import_arviz

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def randomized_pit(
    probability: ArrayLike, levels: ArrayLike, *, seed: int = 0
) -> NDArray[np.float64]:
    r"""Probability integral transform of levels, uniform if the predictions are right.

    Where level :math:`y` was predicted with probability :math:`p_y`, a draw from the interval
    between :math:`\sum_{k < y} p_k` and :math:`\sum_{k \le y} p_k`.

    Parameters
    ----------
    probability
        Predicted probabilities of the levels, shape (K, r).
    levels
        What the levels were, from 0, shape (K,).
    seed
        Of the draws.

    Returns
    -------
    ndarray of shape (K,)
        Numbers from 0 to 1.

    Raises
    ------
    ValueError
        If the shapes do not fit, or a level is out of range.

    References
    ----------
    .. [1] Czado, C., Gneiting, T. and Held, L. (2009). Predictive model assessment for count data.
       Biometrics, 65, 1254-1261.
    """
    p, seen = np.asarray(probability, float), np.asarray(levels)
    if p.ndim != 2 or seen.shape != p.shape[:1] or seen.dtype.kind not in "iu":
        raise ValueError(
            f"probability has shape {p.shape}, levels {seen.shape} of dtype {seen.dtype}; pass "
            "(K, r) and (K,) integers"
        )
    if seen.size and not 0 <= seen.min() <= seen.max() < p.shape[1]:
        raise ValueError(
            f"levels are from {seen.min()} to {seen.max()}; probability has columns for 0 to "
            f"{p.shape[1] - 1}"
        )
    rows = np.arange(len(seen))
    upper = p.cumsum(axis=1)[rows, seen]
    return upper - np.random.default_rng(seed).random(len(seen)) * p[rows, seen]


def plot_pit(probability: ArrayLike, levels: ArrayLike, *, seed: int = 0) -> Axes:
    """Draw how far the predicted distributions of levels are from calibrated, by ArviZ.

    The line is the share of outcomes below each quantile of their predicted distribution, less
    what it should be. If it lies above zero on the left and below it on the right, the predicted
    distributions are too narrow; the other way about, too wide. If predictions are right and
    outcomes independent, ArviZ 0.23 draws a band that holds the whole line with a probability of
    94%; ArviZ 1.x writes the p-value of a test instead, and marks where the line is not uniform if
    it is below 6%.

    Parameters
    ----------
    probability
        Predicted probabilities of the levels, shape (K, r).
    levels
        What the levels were, from 0, shape (K,).
    seed
        Of each outcome's place within its level, without which the distribution of a few levels
        could not be continuous; and of the band.

    Returns
    -------
    matplotlib.axes.Axes
        The axes of a new figure.

    Raises
    ------
    ValueError
        If the shapes do not fit, or a level is out of range.

    References
    ----------
    .. [1] Saeilynoja, T., Buerkner, P.-C. and Vehtari, A. (2022). Graphical test for discrete
       uniformity and its applications in goodness-of-fit evaluation and multiple sample
       comparison. Statistics and Computing, 32, 32.
    """
    values = randomized_pit(probability, levels, seed=seed)
    ax = _draw(values, seed)
    ax.figure.set_layout_engine("constrained")
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_xlabel("Quantile of the predicted distribution")
    ax.set_ylabel("Share of outcomes below it, less the quantile")
    ax.set_title("Are the predictions right? (near zero: yes)", fontsize="medium")
    return ax


def _draw(values: NDArray[np.float64], seed: int) -> Any:
    """Draw the difference of the empirical distribution from the uniform one."""
    arviz = import_arviz()
    if "InferenceData" in vars(arviz):
        from matplotlib import pyplot as plt
        from scipy.stats import uniform

        ax = plt.subplots(figsize=(6.0, 4.0))[1]
        return arviz.plot_ecdf(
            values,
            cdf=uniform.cdf,
            rvs=lambda size, random_state=None: uniform.rvs(size=size, random_state=random_state),
            difference=True,
            confidence_bands="simulated",
            ci_prob=0.94,
            eval_points=np.linspace(0.0, 1.0, 101),
            random_state=seed,
            ax=ax,
        )
    tree = arviz.from_dict({"predictions": {"PIT": values[None]}})
    collection = arviz.plot_ecdf_pit(
        tree,
        group="predictions",
        envelope_prob=0.94,
        backend="matplotlib",
        figure_kwargs={"figsize": (6.0, 4.0)},
    )
    return collection.get_target("PIT", {})
