"""Features of items: tables by item id, and the base kernels that they give."""

import warnings
from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.stats import norm

from bayesrank._validate import are_equal
from bayesrank.estimators.checks import standardization
from bayesrank.infer import ConvergenceWarning

Array = NDArray[np.float64]

# Of a variance of one: keeps a kernel positive definite. Where everybody rated everything, the
# columns less the users' means vanish.
_LEAST = 1e-9


class BaseKernels:
    """Base kernels: constant, by features, by who rated both, and of each item alone.

    Parameters
    ----------
    features
        Features (m, d) of the items, for a squared exponential, or None.
    corated
        Whether who rated both is one.
    """

    def __init__(self, features: Array | None, *, corated: bool) -> None:
        self.features, self.corated = features, corated
        if features is not None:
            self._centre, self._scale, constant = standardization(features, "item_features")
            self._square = 2.0 * max(int((~constant).sum()), 1)

    def known(self, users: NDArray, items: NDArray, num_items: int) -> Array | None:
        """Kernels of the items of `fit`, shape (C, m, m); None where they are EM's own."""
        if self.features is None and not self.corated:
            return None
        count = 2 + (self.features is not None) + self.corated
        kernels = np.zeros((count, num_items, num_items))  # filled in place, as they may be large
        kernels[0] = 1.0
        if self.features is not None:
            kernels[1] = self._smooth(self.features, self.features)
        if self.corated:
            kernels[-2] = corating_kernel(users, items, num_items)
        np.fill_diagonal(kernels[-1], 1.0)
        return kernels

    def extended(self, known: Array, features: Array | None, count: int) -> tuple[Array, Array]:
        """Kernels of `known` ones (C, m, m) with new items, (C, m, k), and of these, (C, k, k).

        Who rates new items is not known: they have the mean variance, and no covariance.
        """
        m = known.shape[1]
        if m < 2:
            raise ValueError("one item tells nothing of other items; fit to ratings of two or more")
        across, own = np.zeros((len(known), m, count)), np.zeros((len(known), count, count))
        across[0], own[0] = known[0, 0, 1], known[0, 0, 1]
        if self.features is not None and features is not None:
            across[1] = self._smooth(self.features, features)
            own[1] = self._smooth(features, features)
        if self.corated:
            own[-2] = np.eye(count)
        own[-1] = known[-1, 0, 0] * np.eye(count)
        return across, own

    def of(self, features: Array | None) -> "BaseKernels":
        """The same kernels, of items with these features."""
        other = copy(self)
        other.features = features
        return other

    def _smooth(self, first: Array, second: Array) -> Array:
        a, b = ((x - self._centre) / self._scale for x in (first, second))
        distance = (a**2).sum(1)[:, None] + (b**2).sum(1) - 2.0 * a @ b.T
        return np.exp(-0.5 * np.maximum(distance, 0.0) / self._square)


def corating_kernel(users: NDArray, items: NDArray, num_items: int) -> Array:
    """Covariance of items by who rated them: implicit feedback.

    Columns of the 0/1 table of who rated what are divided by the root of their sums, and centred by
    user. An item that nobody rated has the mean variance, and no covariance.

    Parameters
    ----------
    users, items : ndarray of shape (K,)
        Who rated what, numbers from 0, no pair twice.
    num_items : int
        Number m of items.

    Returns
    -------
    ndarray of shape (m, m)
        Positive definite, with a mean variance of one.
    """
    counts = np.bincount(items, minlength=num_items)
    weights = 1.0 / np.sqrt(np.maximum(counts, 1))
    table = csr_array((weights[items], (users, items)), shape=(int(users.max()) + 1, num_items))
    mean = table.sum(axis=1) / num_items
    cross = table.T @ mean
    kernel = (table.T @ table).toarray() - cross[:, None] - cross + mean @ mean
    rated = counts > 0
    kernel[~rated], kernel[:, ~rated] = 0.0, 0.0
    size = np.diagonal(kernel)[rated].mean()
    kernel = kernel / size if size > _LEAST else np.zeros_like(kernel)
    unknown = ~rated | (size <= _LEAST)
    kernel[np.diag_indices(num_items)] += np.where(unknown, 1.0, _LEAST)
    return kernel


_SHARES = (0.02, 0.1, 0.3, 0.5, None)  # None is learned
_HELD_OUT = 0.25
# Fewer ratings cannot choose: the share is then the one that simulated ratings ask for most often.
_FEWEST_JUDGED, _USUAL = 20, 0.3
# Larger data choose by a part: the items rated most often, and users drawn at random.
_MOST_ITEMS, _MOST_RATINGS = 500, 20_000


def chosen_share(
    engine: Callable[[float | None], Any],
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
        Makes an `EM` from a share; None learns the noise.
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
    if judged.sum() < _FEWEST_JUDGED or are_equal(ratings[told].min(), ratings[told].max()):
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
