"""The noise of numbers: a share of their variance, chosen by ratings that are held out of fits."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from bayesrank.estimators.collaborative_features import BaseKernels
from bayesrank.infer import ConvergenceWarning
from bayesrank.solvers.collaborative import EM

Array = NDArray[np.float64]

_SHARES = (0.02, 0.1, 0.3, 0.5, None)  # None is learned
_HELD_OUT = 0.25
# Fewer ratings cannot choose: the share is then the one that simulated ratings ask for most often.
_FEWEST_JUDGED, _USUAL = 20, 0.3
# Larger data choose by a part: the items rated most often, and users drawn at random.
_MOST_ITEMS, _MOST_RATINGS = 500, 20_000


def chosen_share(
    engine: Callable[[float | None], EM],
    users: NDArray[np.int64],
    items: NDArray[np.int64],
    ratings: Array,
    kernels: BaseKernels,
    num_items: int,
) -> float | None:
    """The share of the noise with the best log density of a quarter of the ratings, held out.

    Parameters
    ----------
    engine
        Makes an engine from a share; None learns the noise.
    users, items, ratings
        Numbers from 0, and what was said, shape (K,).
    kernels
        Base kernels of the items.
    num_items
        Number of items.

    Returns
    -------
    float or None
        One of 0.02, 0.1, 0.3 and 0.5, or None: the noise is best learned.
    """
    rng = np.random.default_rng(0)
    kept = np.sort(
        np.argsort(-np.bincount(items, minlength=num_items), kind="stable")[:_MOST_ITEMS]
    )
    order = rng.permutation(int(users.max()) + 1)
    place = np.argsort(order)
    some = np.isin(items, kept)
    counts = np.bincount(place[users[some]], minlength=len(order)).cumsum()
    some &= counts[place[users]] <= max(_MOST_RATINGS, counts[0])
    told = some & (rng.random(len(users)) > _HELD_OUT)
    judged = some & ~told & np.isin(items, items[told]) & np.isin(users, users[told])
    if judged.sum() < _FEWEST_JUDGED or not np.var(ratings[told]):
        return _USUAL
    features, position = kernels.features, np.searchsorted(kept, items)
    some_kernels = kernels.of(None if features is None else features[kept])
    run: dict[str, Any] = {
        "num_users": len(order),
        "num_items": len(kept),
        "kernel": some_kernels.known(users[told], position[told], len(kept)),
        "progress_bar": False,
    }
    scores = []
    for share in _SHARES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            result = engine(share).run(users[told], position[told], ratings[told], **run)
        mean, variance = result.predict_number(users[judged], position[judged])
        scores.append(norm.logpdf(ratings[judged], mean, np.sqrt(variance)).mean())
    return _SHARES[int(np.argmax(scores))]
