"""A scorer for scikit-learn's searches, ``scoring=log_score``: of ordered levels, higher is better.

scikit-learn's own suppose labels in sorted order; these go by an estimator's ``classes_``.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def log_score(estimator: Any, X: ArrayLike, y: ArrayLike) -> float:
    """Mean log probability of the levels of items, in nats, at most zero.

    Parameters
    ----------
    estimator : fitted estimator
        With ``classes_`` from the lowest level to the highest, and ``predict_proba``.
    X : array-like of shape (m, d)
        Features of items.
    y : array-like of shape (m,)
        Their levels.

    Raises
    ------
    ValueError
        If a level is none that was learned.
    """
    levels = _positions(estimator, y)
    probability = estimator.predict_proba(X)[np.arange(len(levels)), levels]
    return float(np.log(probability).mean())


def _positions(estimator: Any, levels: ArrayLike) -> NDArray[np.intp]:
    known = {level: number for number, level in enumerate(estimator.classes_.tolist())}
    given = np.asarray(levels).tolist()
    for level in given:
        if level not in known:
            raise ValueError(f"y has the level {level!r}, which is none of {list(known)}")
    return np.array([known[level] for level in given], np.intp)
