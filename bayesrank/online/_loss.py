"""The rank loss: by how many levels a prediction is wrong, on average."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesrank._validate import check_count


def rank_loss(
    y_true: ArrayLike, y_pred: ArrayLike, *, rounded: bool = False, num_levels: int | None = None
) -> float:
    r"""Average rank loss :math:`\frac{1}{T} \sum_t |\hat y_t - y_t|`, in levels.

    Averages of ranks are real numbers, and the loss depends on whether they are rounded first.

    Parameters
    ----------
    y_true, y_pred : ArrayLike
        Levels, and predictions, whole or not, shape (T,).
    rounded : bool, default False
        Whether to round the predictions first, see `round_levels`.
    num_levels : int, optional
        Number of levels, to which rounded predictions are confined.

    Raises
    ------
    ValueError
        If the two have different shapes, or there is nothing to average.

    Examples
    --------
    >>> rank_loss([1, 2, 3], [1.4, 2.0, 2.4]), rank_loss([1, 2, 3], [1.4, 2.0, 2.4], rounded=True)
    (0.333..., 0.333...)
    """
    truth, predictions = np.asarray(y_true, np.float64), np.asarray(y_pred, np.float64)
    if truth.shape != predictions.shape or truth.size == 0:
        raise ValueError(
            f"y_true has shape {truth.shape} and y_pred {predictions.shape}; pass one "
            "prediction for each of at least one level"
        )
    if rounded:
        predictions = round_levels(predictions, num_levels).astype(np.float64)
    return float(np.abs(predictions - truth).mean())


def round_levels(values: ArrayLike, num_levels: int | None = None) -> NDArray[np.int64]:
    """Round predictions to levels, halves up.

    Parameters
    ----------
    values : ArrayLike
        Predictions on the scale of the levels, of any shape.
    num_levels : int, optional
        Number of levels; without it there is no highest one.

    Returns
    -------
    ndarray of int
        The nearest of the levels 1, 2, ..., `num_levels`, in the shape of `values`.

    Raises
    ------
    ValueError
        If a value is not finite, or `num_levels` not a positive whole number.
    """
    levels = np.floor(np.asarray(values, np.float64) + 0.5)
    if not np.isfinite(levels).all():
        raise ValueError("a prediction is NaN or infinite, which is near no level; leave it out")
    most = None if num_levels is None else check_count(num_levels, "num_levels")
    return np.clip(levels, 1, most).astype(np.int64)
