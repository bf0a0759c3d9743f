"""Ranks of posterior draws and their summaries: P(best), P(top k), expected rank, intervals.

In each draw an item holds the ranks ``low..high``: one rank when no other item has the same
skill, else the whole stretch of ranks that its group of equals covers. The summaries are means
over draws of what the item gets when the group shares its ranks evenly.
"""

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtrc, ndtr, ndtri

from bayesrank._memory import check_memory
from bayesrank._validate import check_choice, check_level

Array = NDArray[Any]

_EQUAL = 1e-6  # of the largest spread of a skill; fits leave differences below
# Arrays as large as a distribution over ranks that are held at once.
_COPIES = 4


def check_samples(samples: ArrayLike) -> Array:
    """Return ``samples`` as a finite floating array of shape ``(draws, n)``."""
    array = np.asarray(samples)
    if not (np.issubdtype(array.dtype, np.number) or array.dtype == bool):
        raise ValueError(f"samples must be real numbers, got dtype {array.dtype}")
    if np.iscomplexobj(array):
        raise ValueError("samples must be real, got complex numbers")
    if array.ndim != 2:
        raise ValueError(
            f"samples must have shape (draws, n), got {array.shape}; "
            "flatten chains and batches first with samples.reshape(-1, n)"
        )
    if 0 in array.shape:
        raise ValueError(f"samples must hold at least one draw of one item, got {array.shape}")
    if not np.issubdtype(array.dtype, np.floating):
        array = array.astype(np.float64)
    if not np.isfinite(array).all():
        draw, item = np.argwhere(~np.isfinite(array))[0]
        raise ValueError(
            f"samples must be finite, got {array[draw, item]} in draw {draw} of item {item}; "
            "look for a fit that diverged"
        )
    return array


def check_num_places(k: int, n: int) -> int:
    """Return ``k`` if it is a whole number from 1 to ``n``."""
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k <= n:
        raise ValueError(f"k must be a whole number from 1 to the number of items {n}, got {k!r}")
    return int(k)


def by_mean(samples: Array) -> Array:
    """Order of the columns by falling mean; means within a millionth of the spread are equal."""
    unit = _EQUAL * samples.std(axis=0, dtype=np.float64).max()
    mean = samples.mean(axis=0, dtype=np.float64)
    return np.argsort(-(np.round(mean / unit) if unit else mean), kind="stable")


def rank_bounds(samples: Array) -> tuple[Array, Array]:
    """Best and worst rank of each item in each draw, ``(draws, n)``; one array without ties."""
    n = samples.shape[1]
    dtype = np.uint16 if n < 2**16 - 1 else np.uint32
    order = np.argsort(-samples, axis=1)
    ranked = np.take_along_axis(samples, order, axis=1)
    tied = ranked[:, 1:] == ranked[:, :-1]
    low = np.empty(samples.shape, dtype)
    if not tied.any():
        np.put_along_axis(low, order, np.arange(1, n + 1, dtype=dtype)[None], axis=1)
        return low, low
    position = np.broadcast_to(np.arange(1, n + 1, dtype=dtype), samples.shape)
    first, last = position.copy(), position.copy()
    first[:, 1:][tied] = 0
    last[:, :-1][tied] = n + 1
    np.put_along_axis(low, order, np.maximum.accumulate(first, axis=1), axis=1)
    backwards = np.minimum.accumulate(last[:, ::-1], axis=1)
    high = np.empty_like(low)
    np.put_along_axis(high, order, backwards[:, ::-1], axis=1)
    return low, high


def top_k_share(low: Array, high: Array, k: int) -> Array:
    """Mean share of each item in the first ``k`` places, a group of equals sharing evenly."""
    if low is high:
        return np.mean(low <= k, axis=0)
    start, stop = low.astype(np.int64), high.astype(np.int64)
    places = np.minimum(stop, k) - start + 1
    return np.mean(np.where(places > 0, places / (stop - start + 1), 0.0), axis=0)


def mean_rank(low: Array, high: Array) -> Array:
    """Mean over draws of the middle of the ranks that each item holds."""
    return (low.mean(axis=0, dtype=np.float64) + high.mean(axis=0, dtype=np.float64)) / 2.0


def equal_tailed(low: Array, high: Array, level: float) -> tuple[Array, Array]:
    """Order statistics of each column that leave at most ``(1 - level) / 2`` outside either end."""
    draws = low.shape[0]
    outside = int(np.floor(draws * (1.0 - level) / 2.0 + 1e-9))
    below = np.sort(low.T, axis=1)
    above = below if low is high else np.sort(high.T, axis=1)
    return below[:, outside], above[:, draws - 1 - outside]


def rank_samples(
    samples: ArrayLike, *, ties: Literal["average", "min", "max"] = "average"
) -> Array:
    """Rank the items within each draw, 1 = highest skill.

    Parameters
    ----------
    samples
        Posterior draws of skill, shape ``(draws, n)``.
    ties
        The rank given to items of equal skill: the middle (``"average"``), the best (``"min"``)
        or the worst (``"max"``) of the ranks that their group covers.

    Returns
    -------
    Array
        Shape ``(draws, n)``; float64 for ``"average"``, int64 otherwise.

    Raises
    ------
    ValueError
        If ``samples`` is not a finite ``(draws, n)`` array or ``ties`` is not known.

    Examples
    --------
    >>> rank_samples([[2.0, 5.0, 1.0], [3.0, 3.0, 7.0]])
    array([[2. , 1. , 3. ],
           [2.5, 2.5, 1. ]])
    """
    check_choice(ties, "ties", "average", "min", "max")
    low, high = rank_bounds(check_samples(samples))
    if ties == "average":
        return (low.astype(np.float64) + high) / 2.0
    return (low if ties == "min" else high).astype(np.int64)


def prob_top_k(samples: ArrayLike, k: int) -> Array:
    """Probability that each item is among the best ``k``.

    Parameters
    ----------
    samples
        Posterior draws of skill, shape ``(draws, n)``.
    k
        Number of places, from 1 to ``n``.

    Returns
    -------
    Array
        Shape ``(n,)``; sums to ``k``. The Monte Carlo error is ``sqrt(p (1 - p) / draws)``.

    Raises
    ------
    ValueError
        If ``samples`` is not a finite ``(draws, n)`` array or ``k`` is out of range.

    Examples
    --------
    >>> prob_top_k([[2.0, 5.0, 1.0], [3.0, 3.0, 7.0]], 2)
    array([0.75, 0.75, 0.5 ])
    """
    array = check_samples(samples)
    low, high = rank_bounds(array)
    return top_k_share(low, high, check_num_places(k, array.shape[1]))


def prob_best(samples: ArrayLike) -> Array:
    """Probability that each item is the best of all: ``prob_top_k`` with ``k = 1``.

    Parameters
    ----------
    samples
        Posterior draws of skill, shape ``(draws, n)``.

    Returns
    -------
    Array
        Shape ``(n,)``; sums to 1.

    Raises
    ------
    ValueError
        If ``samples`` is not a finite ``(draws, n)`` array.
    """
    return prob_top_k(samples, 1)


def expected_rank(samples: ArrayLike) -> Array:
    r"""Posterior mean of each item's rank.

    It equals :math:`1 + \sum_{j \ne i} P(j \text{ beats } i)`, so ordering by it is Borda's count
    on the pairwise probabilities.

    Parameters
    ----------
    samples
        Posterior draws of skill, shape ``(draws, n)``.

    Returns
    -------
    Array
        Shape ``(n,)``, between 1 and ``n``; the mean is ``(n + 1) / 2``.

    Raises
    ------
    ValueError
        If ``samples`` is not a finite ``(draws, n)`` array.
    """
    return mean_rank(*rank_bounds(check_samples(samples)))


def rank_interval(samples: ArrayLike, level: float = 0.9) -> Array:
    r"""Equal-tailed credible interval of each item's rank, with whole-number ends.

    The lower end is the largest rank :math:`a` with :math:`P(R < a) \le (1 - level) / 2`, the upper
    end the smallest :math:`b` with :math:`P(R > b) \le (1 - level) / 2`, under the draws. Ranks are
    whole, so the interval has *at least* this probability: noticeably more if it is a few ranks
    wide. A tied item counts with the best rank of its group at the lower end and the worst at the
    upper end.

    Parameters
    ----------
    samples
        Posterior draws of skill, shape ``(draws, n)``.
    level
        Posterior probability of the interval, strictly between 0 and 1.

    Returns
    -------
    Array
        Shape ``(n, 2)``, int64, both ends included.

    Raises
    ------
    ValueError
        If ``samples`` is not a finite ``(draws, n)`` array or ``level`` is out of range.
    """
    low, high = rank_bounds(check_samples(samples))
    return np.stack(equal_tailed(low, high, check_level(level)), axis=1).astype(np.int64)


def rank_distribution(samples: ArrayLike) -> Array:
    """Posterior probability of each rank for each item.

    Parameters
    ----------
    samples
        Posterior draws of skill, shape ``(draws, n)``.

    Returns
    -------
    Array
        Shape ``(n, n)``: entry ``[i, r - 1]`` is the probability that item ``i`` has rank ``r``.
        Rows and columns sum to 1.

    Raises
    ------
    ValueError
        If ``samples`` is not a finite ``(draws, n)`` array.
    """
    array = check_samples(samples)
    draws, n = array.shape
    check_memory(
        _COPIES * 8.0 * n**2,
        f"probabilities of all ranks of {n:,} items",
        "use expected_rank, rank_interval or prob_top_k, or pass the draws of fewer items",
    )
    low, high = rank_bounds(array)
    group = high - low + np.uint8(1)
    item = np.broadcast_to(np.arange(n) * (n + 1), low.shape)
    counts = np.zeros((n, n))
    for size in np.unique(group):
        chosen = group == size
        starts = np.bincount(item[chosen] + low[chosen] - 1, minlength=n * (n + 1))
        stops = np.bincount(item[chosen] + high[chosen], minlength=n * (n + 1))
        held = np.cumsum((starts - stops).reshape(n, n + 1), axis=1)[:, :n]
        counts += held / size
    return counts / draws


_HALVINGS = 60  # of the bracket of a quantile


class SkillMixture(NamedTuple):
    """Skills of n items by a mixture of C Gaussians.

    Attributes
    ----------
    weights
        Share of each Gaussian, shape ``(C,)``.
    means, covariances
        Their moments, shapes ``(C, n)`` and ``(C, n, n)``.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesrank.ranking import SkillMixture
    >>> skills = SkillMixture(np.ones(1), np.array([[1.0, 0.0]]), np.eye(2)[None])
    >>> float(skills.better(0, 1).round(3))
    0.76
    """

    weights: Array
    means: Array
    covariances: Array

    def of(self, items: Array) -> "SkillMixture":
        """Skills of some items, by their indices."""
        return self._replace(
            means=self.means[:, items], covariances=self.covariances[:, items][:, :, items]
        )

    def relative(self, averages: Array, group: Array) -> "SkillMixture":
        """Skills less some average of skills: rows of `averages` (G, n), that of each item's group.

        `group` has shape (n,).
        """
        shared = averages @ self.covariances
        both = (shared @ averages.T)[:, group][:, :, group]
        own = shared[:, group]
        means = self.means - (self.means @ averages.T)[:, group]
        return self._replace(means=means, covariances=self.covariances - own - own.mT + both)

    def given(self, items: Array, known: Array, sds: Array) -> tuple["SkillMixture", float]:
        r"""Skills on a scale on which those of some items are known with errors.

        The level :math:`o` that all skills share is on that scale unknown, with a flat prior. With
        :math:`V = S_{AA} + \mathrm{diag}(s^2)`, :math:`G = S_{\cdot A} V^{-1}`, :math:`d = y -
        m_A` and :math:`h = 1 - G 1`, a Gaussian :math:`N(m, S)` becomes :math:`N(m + G d + \hat o
        h, \; S - G S_{A \cdot} + v h h')`, where :math:`v = (1' V^{-1} 1)^{-1}` and
        :math:`\hat o = v 1' V^{-1} d`. The Gaussians then weigh as they expect the known skills.

        Parameters
        ----------
        items
            Their indices, shape (A,).
        known, sds
            Their skills and the standard deviations of these, shape (A,).

        Returns
        -------
        SkillMixture, float
            The skills, and the probability that the known ones differ as much as this from what
            was expected.
        """
        within = self.covariances[:, items]
        spread = within[:, :, items] + np.diag(sds**2)
        gain = np.linalg.solve(spread, within).mT
        weights = np.linalg.solve(spread, np.ones((len(spread), len(items), 1)))[..., 0]
        apart = known - self.means[:, items]
        variance = 1.0 / weights.sum(axis=1)
        level = variance * np.einsum("ca,ca->c", weights, apart)
        rest = 1.0 - gain.sum(axis=2)
        means = self.means + np.einsum("cna,ca->cn", gain, apart) + level[:, None] * rest
        outer = variance[:, None, None] * rest[:, :, None] * rest[:, None, :]
        left = apart - level[:, None]
        squared = np.einsum("ca,ca->c", left, np.linalg.solve(spread, left[..., None])[..., 0])
        logs = np.log(self.weights) + 0.5 * (np.log(variance) - np.linalg.slogdet(spread)[1])
        shares = np.exp(logs - 0.5 * squared - np.max(logs - 0.5 * squared))
        beyond = chdtrc(len(items) - 1, squared) if len(items) > 1 else np.ones(len(squared))
        covariances, exact = self.covariances - gain @ within + outer, items[sds == 0.0]
        means[:, exact] = known[sds == 0.0]
        covariances[:, exact] = covariances[:, :, exact] = 0.0  # but for rounding
        found = SkillMixture(shares / shares.sum(), means, covariances)
        return found, float(self.weights @ beyond)

    def draws(self, number: int, random: np.random.RandomState) -> Array:
        """Draws (number, n), of which each Gaussian has its share to within one."""
        levels = (np.arange(number) + random.random_sample()) / number
        owner = np.searchsorted(np.cumsum(self.weights), levels)
        owner = np.minimum(owner, len(self.weights) - 1)
        draws = random.standard_normal((number, self.means.shape[1]))
        for part in np.unique(owner):
            values, vectors = np.linalg.eigh(self.covariances[part])
            root = vectors * np.sqrt(np.maximum(values, 0.0))
            draws[owner == part] = self.means[part] + draws[owner == part] @ root.T
        return draws[random.permutation(number)]

    def moments(self) -> tuple[Array, Array]:
        """Means and standard deviations, shape ``(n,)``."""
        mean = self.weights @ self.means
        variance = self._variances() + (self.means - mean) ** 2
        return mean, np.sqrt(self.weights @ variance)

    def covariance(self) -> Array:
        """Covariance of the skills, shape ``(n, n)``."""
        apart = self.means - self.weights @ self.means
        return np.tensordot(self.weights, self.covariances, 1) + (self.weights * apart.T) @ apart

    def interval(self, level: float) -> tuple[Array, Array]:
        """Ends of the equal-tailed credible interval of each skill, shape ``(n,)``."""
        sd = np.sqrt(self._variances())
        reach = -ndtri((1.0 - level) / 2.0) * sd

        def quantile(share: float) -> Array:
            low, high = (self.means - reach).min(axis=0), (self.means + reach).max(axis=0)
            for _ in range(_HALVINGS):
                middle = 0.5 * (low + high)
                below = self.weights @ ndtr((middle - self.means) / np.maximum(sd, 1e-300)) < share
                low, high = np.where(below, middle, low), np.where(below, high, middle)
            return 0.5 * (low + high)

        return quantile((1.0 - level) / 2.0), quantile((1.0 + level) / 2.0)

    def better(self, first: ArrayLike, second: ArrayLike) -> Array:
        """Probability that items `first` are better than items `second`; one half of equals."""
        first, second = np.broadcast_arrays(first, second)
        own = self._variances()
        both = own[:, first] + own[:, second] - 2.0 * self.covariances[:, first, second]
        gap, sd = self.means[:, first] - self.means[:, second], np.sqrt(np.maximum(both, 0.0))
        known = np.where(gap == 0.0, 0.5, gap > 0.0)
        chance = np.where(sd > 0.0, ndtr(gap / np.where(sd > 0.0, sd, 1.0)), known)
        # Weights add up to one but for rounding.
        return np.minimum(np.tensordot(self.weights, chance, 1), 1.0)

    def _variances(self) -> Array:
        return np.maximum(np.diagonal(self.covariances, axis1=1, axis2=2), 0.0)
