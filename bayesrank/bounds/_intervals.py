"""Intervals of the expected error of one ranking function, from what they assume.

- `finite_class_bound` assumes nothing of the distribution, by McDiarmid's inequality.
- `normal_error` assumes many examples of each level: the error is a U-statistic [1]_.
- `bootstrap_error` assumes the same, and less of the shape; it resamples examples.
- `posterior_error` assumes that the model of the ratings is right, and takes posterior draws.

The first three need examples that the function was not learned from. The first two, and a
stratified `bootstrap_error`, hold the levels of the examples fixed, as the theorems do.

References
----------
.. [1] E. R. DeLong, D. M. DeLong and D. L. Clarke-Pearson, "Comparing the areas under two or more
       correlated receiver operating characteristic curves", Biometrics 44, 1988 (two levels).
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri
from scipy.stats import rankdata

from bayesrank.bounds._k_partite import finite_class_bound
from bayesrank.bounds._skew import check_delta, skew_vector
from bayesrank.metrics import PerQuery, k_partite_error
from bayesrank.metrics.lists import Lists, item_losses, ratio
from bayesrank.metrics.per_query import per_query

Array = NDArray[np.float64]
ErrorMethod = Literal["bound", "normal", "bootstrap", "posterior"]


@dataclass(frozen=True)
class ErrorInterval:
    """An interval of the expected error.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesrank.bounds import error_intervals
    >>> scores, levels = np.arange(20.0), np.repeat([1, 2], 10)
    >>> [interval.method for interval in error_intervals(scores, levels)]
    [...]
    """

    method: ErrorMethod  #: where it comes from
    estimate: float  #: its centre of gravity: the empirical error or the posterior mean
    low: float
    high: float


def normal_error(scores: ArrayLike, labels: ArrayLike, alpha: float = 0.0) -> tuple[float, float]:
    """Empirical k-partite error and its standard error, the error being a U-statistic [1]_.

    To first order the error is a sum over examples of their mean loss against other levels. Its
    variance is the sum over levels of ``n_l`` times the variance of these losses inside. It takes
    time ``O(n log n + n k)``.

    Parameters
    ----------
    scores, labels, alpha
        As in `bayesrank.metrics.k_partite_error`, shape ``(n,)``.

    Raises
    ------
    ValueError
        If a level has one example only, or there is one level only.
    """
    error = _error(scores, labels, alpha)
    levels, counts = np.unique(np.asarray(labels), return_counts=True)
    if len(levels) < 2 or counts.min() < 2:
        raise ValueError(
            "labels need two levels at least, and two examples of each; merge the rare levels"
        )

    def variance(lists: Lists) -> Array:
        known = lists.levels or ()
        sizes = [lists.total(lists.label == level) for level in known]
        pairs = (lists.size**2 - sum(size**2 for size in sizes)) / 2
        loss = item_losses(lists, known, alpha)
        total = np.zeros(lists.num_lists)
        for level, size in zip(known, sizes, strict=True):
            member = lists.label == level
            mean = ratio(lists.total(loss * member), size)[lists.list_id]
            squares = lists.total(np.where(member, (loss - mean) ** 2, 0.0))
            total = total + ratio(squares * size, size - 1)
        return ratio(total, pairs**2)

    return error, float(np.sqrt(per_query(variance, scores, labels, kind="level").mean))


def _error(scores: ArrayLike, labels: ArrayLike, alpha: float) -> float:
    """K-partite error of one sample."""
    if np.ndim(scores) != 1 or np.ndim(labels) != 1:
        raise ValueError(
            f"scores has shape {np.shape(scores)} and labels {np.shape(labels)}; pass (n,), one of "
            "each an example"
        )
    return k_partite_error(scores, labels, alpha).mean


def bootstrap_error(
    scores: ArrayLike,
    labels: ArrayLike,
    alpha: float = 0.0,
    *,
    num_samples: int = 1000,
    stratified: bool = True,
    rng: int | np.random.Generator = 0,
) -> Array:
    """K-partite errors of resampled examples, ``(num_samples,)``; NaN for a sample with one level.

    Parameters
    ----------
    scores, labels, alpha
        As in `bayesrank.metrics.k_partite_error`, shape ``(n,)``.
    num_samples, rng
        Number of samples, and a seed or generator.
    stratified
        Resample inside each level, so that the skew vector stays what it is.

    Raises
    ------
    ValueError
        If there are not as many scores as labels, or none, or they are not what the metric takes.
    """
    _error(scores, labels, alpha)  # refuses what it cannot take, before samples are drawn
    values, levels = np.asarray(scores, dtype=np.float64), np.asarray(labels)
    generator = np.random.default_rng(rng)
    groups = [np.flatnonzero(levels == level) for level in np.unique(levels)]
    if not stratified:
        groups = [np.arange(len(levels))]
    picks = np.concatenate(
        [generator.choice(group, (num_samples, len(group))) for group in groups], axis=1
    )
    return np.asarray(k_partite_error(values[picks], levels[picks], alpha).mean)


def bootstrap_queries(
    result: PerQuery, *, num_samples: int = 1000, rng: int | np.random.Generator = 0
) -> Array:
    """Means of a metric over resampled queries, shape ``(num_samples,)``.

    Parameters
    ----------
    result
        A metric of one set of scores (no draws). Queries in which it is undefined are left out.
    num_samples, rng
        Number of samples, and a seed or generator.

    Raises
    ------
    ValueError
        If the metric has draws, or is defined in no query.
    """
    values = np.asarray(result.values)
    if values.ndim != 1:
        raise ValueError("result has draws already: use its .mean, one value a draw, as it is")
    known = values[~np.isnan(values)]
    if not len(known):
        raise ValueError("result is undefined in every query; there is nothing to resample")
    generator = np.random.default_rng(rng)
    return known[generator.integers(len(known), size=(num_samples, len(known)))].mean(axis=1)


def posterior_error(scores: ArrayLike, probabilities: ArrayLike, alpha: float = 0.0) -> Array:
    """Compute the expected k-partite error of fixed scores if the ratings follow a model.

    It is Definition 2 of Rajaram and Agarwal for these inputs, the chances of their ratings, and
    the skew vector that goes with them. It takes time ``O(n log n + draws n k)``.

    Parameters
    ----------
    scores
        Scores of ``n`` inputs, shape ``(n,)``, higher is better.
    probabilities
        Chance of each rating for each input, shape ``(draws, n, k)`` or ``(n, k)``; lowest rating
        first.
    alpha
        Weight of mistakes, ``(m - l)**alpha``.

    Returns
    -------
    ndarray
        Shape ``(draws,)`` or ``()``: posterior draws of the chances give the error's posterior.

    Raises
    ------
    ValueError
        If the shapes do not fit, a score is NaN, or rows do not sum to 1.
    """
    values, chance = np.asarray(scores, np.float64), np.asarray(probabilities, np.float64)
    if chance.ndim < 2 or values.shape != chance.shape[-2:-1]:
        raise ValueError(
            f"probabilities must have shape (..., n, k) with n = {values.size} scores, "
            f"got {chance.shape}"
        )
    if np.isnan(values).any():
        raise ValueError(f"scores[{int(np.argmax(np.isnan(values)))}] is NaN; leave the input out")
    if not np.allclose(chance.sum(axis=-1), 1.0, atol=1e-5) or np.any(chance < 0):
        raise ValueError("probabilities must not be below zero, and sum to 1 over the ratings")
    order = np.argsort(-values, kind="stable")
    chance, below = chance[..., order, :], rankdata(values[order], "min") - 1
    first = len(values) - rankdata(values[order], "max").astype(int)
    last = len(values) - below.astype(int)
    sums = np.concatenate([np.zeros_like(chance[..., :1, :]), np.cumsum(chance, axis=-2)], axis=-2)
    # Chance mass of each level above an input, ties one half, the input itself left out.
    above = (sums[..., first, :] + sums[..., last, :] - chance) / 2.0
    wrong = np.einsum("...il,...im->...lm", above, chance)
    total = chance.sum(axis=-2)
    pairs = total[..., :, None] * total[..., None, :] - np.einsum(
        "...il,...im->...lm", chance, chance
    )
    level = np.arange(chance.shape[-1])
    gap = np.maximum(level - level[:, None], 0)
    weight = np.where(gap > 0, np.maximum(gap, 1.0) ** alpha, 0.0)
    return np.sum(wrong * weight, axis=(-2, -1)) / np.sum(pairs * (gap > 0), axis=(-2, -1))


def error_intervals(
    scores: ArrayLike,
    labels: ArrayLike,
    alpha: float = 0.0,
    *,
    delta: float = 0.1,
    posterior: ArrayLike | None = None,
    num_samples: int = 1000,
    rng: int | np.random.Generator = 0,
) -> list[ErrorInterval]:
    """Intervals of one expected error: by the bound, normal approximation, bootstrap and posterior.

    Parameters
    ----------
    scores, labels, alpha
        As in `bayesrank.metrics.k_partite_error`, of examples not learned from, shape ``(n,)``.
    delta
        Probability outside each interval.
    posterior
        Draws of the expected error, such as `posterior_error` gives; left out without it.
    num_samples, rng
        Of the bootstrap.

    Raises
    ------
    ValueError
        As for `normal_error`, or if there are no draws of the posterior or one is NaN.
    """
    tails = [check_delta(delta) / 2, 1 - delta / 2]
    error, standard_error = normal_error(scores, labels, alpha)
    rho, size = skew_vector(labels), len(np.asarray(labels))
    free = finite_class_bound(rho, size, delta=delta, alpha=alpha)
    normal = float(ndtri(tails[1])) * standard_error
    resampled = bootstrap_error(scores, labels, alpha, num_samples=num_samples, rng=rng)
    low, high = np.quantile(resampled, tails)
    intervals = [
        ErrorInterval("bound", error, error - free, error + free),
        ErrorInterval("normal", error, error - normal, error + normal),
        ErrorInterval("bootstrap", error, float(low), float(high)),
    ]
    if posterior is not None:
        draws = np.asarray(posterior, np.float64)
        if not draws.size or np.isnan(draws).any():
            raise ValueError("posterior is empty or holds NaN; pass draws of the expected error")
        low, high = np.quantile(draws, tails)
        intervals.append(ErrorInterval("posterior", float(draws.mean()), float(low), float(high)))
    return intervals
