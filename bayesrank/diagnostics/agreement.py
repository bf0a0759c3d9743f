r"""Do comparisons agree more than the model says? Rows that belong together, and what sides share.

At the posterior means of what decides comparisons, each of K rows has a residual :math:`r_k`: the
score of its first item less the expected one. Skills err by about :math:`A^{-1} \sum_k r_k c_k`,
with the contrast :math:`c_k` of the two items and the information :math:`A`. If residuals of a
cluster (a question, a judge) go together, that error has a variance larger than that of independent
rows by the design effect [1]_: intervals are too narrow by its square root. Random signs of the
residuals say what chance alone makes of few rows. Where the design effect is larger, intervals are
widened by that root (`widening`).

An order has a score of its own: by how much the performances of its items are expected to differ
from their skills, given the order. Draws from the worst group upward, each above the best of the
group below, have that expectation with weights.

References
----------
.. [1] Liang, K.-Y. and Zeger, S. L. (1986). Longitudinal data analysis using generalized linear
   models. Biometrika, 73, 13-22.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import log_ndtr, ndtr, ndtri, softmax

from bayesrank._validate import unit_of
from bayesrank.datasets import ComparisonData, OrderEvents
from bayesrank.solvers.comparisons import EPSkills, JudgedSkills

Array = NDArray[np.float64]

_SIGNS = 19  # random ones: as large a design effect by chance has a probability of 5%
_STEP = 1e-3
# Logs of the model have a design effect of 1.25 at most, and above that of random signs in 5%.
_LARGE = 1.2
_MOST_ITEMS = 2_000  # whose information matrix is inverted
_MOST_PLACES = 100_000  # of different orders, whose performances are drawn
_DRAWS, _DRAWN_AT_ONCE = 400, 2_000_000  # of the performances in an order


class DesignEffect(NamedTuple):
    """By how much clusters of a column multiply the variances of skills."""

    column: str
    value: float
    by_chance: float  # the largest of those with random signs

    @property
    def is_large(self) -> bool:
        """Whether chance alone does not account for it."""
        return self.value > max(_LARGE, self.by_chance)


class Sway(NamedTuple):
    """What a number of the two sides decides beside skill."""

    column: str
    share: float  # of wins between equals, of the side that has one standard deviation more
    z: float  # how many standard errors from none


class _Scores:
    """Scores of R rows for n items, and the metric of the errors of skills that they make."""

    weights: Array  # how often each row counts
    _scores: Any  # sparse, shape (R, n)
    _metric: Array  # shape (n, n)

    def design_effect(self, column: str, codes: NDArray[np.integer[Any]]) -> DesignEffect:
        """Compare clusters, numbered for each row by `codes`, with independent rows."""
        count = len(codes)
        _, codes = np.unique(codes, return_inverse=True)
        number = codes.max() + 1
        own: Any = sparse.csr_array(
            (np.ones(count), (codes, np.arange(count))), shape=(number, count)
        )
        alone = self._variance(np.sqrt(self.weights)[:, None] * self._scores)
        rng = np.random.default_rng(0)

        def ratio(signs: Array) -> float:
            found = self._variance(own @ ((signs * self.weights)[:, None] * self._scores))
            return number / (number - 1) * (count - 1) / count * found / alone

        # A row that counts w times is w rows, whose signs add up to one of variance w.
        each = 1.0 / np.sqrt(self.weights)
        by_chance = [ratio(each * rng.choice([-1.0, 1.0], count)) for _ in range(_SIGNS)]
        return DesignEffect(column, ratio(np.ones(count)), max(by_chance))

    def _variance(self, sums: Any) -> float:
        """Trace of the covariance of skills by independent sums of scores."""
        return float(np.sum((sums.T @ sums).toarray() * self._metric))


class OrderResiduals(_Scores):
    """Scores of the rows of a file of orders.

    Parameters
    ----------
    orders
        Orders with their `answers`.
    skills
        Draws of the skills, shape (draws, n), in units of the noise.
    """

    def __init__(self, orders: OrderEvents, skills: Array) -> None:
        number, weights = np.asarray(orders.answers).T
        self.weights = weights.astype(np.float64)
        self._scores = order_scores(orders, skills.mean(axis=0))[number]
        inside = np.cov(skills - skills.mean(axis=1, keepdims=True), rowvar=False)
        self._metric = inside @ inside


def order_scores(orders: OrderEvents, skills: Array) -> Any:
    """Derivative of the log probability of each of N orders by the skills, sparse, (N, n)."""
    shapes: dict[tuple[int, ...], list[int]] = {}
    for number, groups in enumerate(orders.groups):
        shapes.setdefault(tuple(map(len, groups)), []).append(number)
    rng, parts = np.random.default_rng(0), []
    for sizes, numbers in shapes.items():
        at_once = max(1, _DRAWN_AT_ONCE // (_DRAWS * sum(sizes)))
        for start in range(0, len(numbers), at_once):
            some = numbers[start : start + at_once]
            items = np.array([[i for group in orders.groups[k] for i in group] for k in some])
            values = _above_skill(skills[items], sizes, rng)
            parts.append((values.ravel(), np.repeat(some, sum(sizes)), items.ravel()))
    values, rows, columns = map(np.concatenate, zip(*parts, strict=True))
    shape = (len(orders.groups), len(skills))
    return sparse.csr_array((values, (rows, columns)), shape=shape)


def _above_skill(skills: Array, sizes: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Mean performances less skills (E, L) in orders of items of these skills, best first."""
    floor = np.full((len(skills), _DRAWS), -np.inf)
    log_weight, drawn = np.zeros(floor.shape), []
    for own in reversed(np.split(skills, np.cumsum(sizes)[:-1], axis=1)):
        above = own[:, None] - floor[..., None]
        tail = np.maximum(rng.random(above.shape) * ndtr(above), np.finfo(float).tiny)  # not 0
        drawn.append(-ndtri(tail))
        log_weight += log_ndtr(above).sum(axis=-1)
        floor = (own[:, None] + drawn[-1]).max(axis=-1)
    weight = softmax(log_weight, axis=1)
    return np.einsum("es,esl->el", weight, np.concatenate(drawn[::-1], axis=-1))


class Residuals(_Scores):
    """What is left of comparisons at the posterior means.

    Parameters
    ----------
    data
        The comparisons, of items without times and orders.
    posterior
        That of their skills.
    chance
        Chance to win at a margin.
    prior_sd
        Standard deviation of skills before the comparisons.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.special import ndtr
    >>> from bayesrank.datasets import ComparisonData
    >>> from bayesrank.solvers.comparisons import JudgedSkills, fit_arena
    >>> games = np.array([[0, 1], [0, 1], [1, 2], [2, 0]])
    >>> data = ComparisonData(tuple("abc"), games, np.zeros(4, bool))
    >>> posterior = JudgedSkills(fit_arena(3, games))
    >>> rows = Residuals(data, posterior, lambda margin: ndtr(margin / 2**0.5), 1.0)
    >>> rows.design_effect("game", np.arange(4)).value.round(9)
    np.float64(1.0)
    """

    def __init__(
        self,
        data: ComparisonData,
        posterior: EPSkills | JudgedSkills,
        chance: Callable[[Array], Array],
        prior_sd: float,
    ) -> None:
        n, count = data.num_items, data.num_comparisons
        margin = mean_margins(data, posterior)

        def expected(margin: Array) -> Array:
            return 0.5 * (1.0 + chance(margin) - chance(-margin))

        self.weights = np.ones(count) if data.weights is None else data.weights
        self.residual = np.where(data.tied, 0.5, 1.0) - expected(margin)
        self._slope = self.weights * (expected(margin + _STEP) - expected(margin - _STEP))
        self._slope /= 2.0 * _STEP
        self._expected = expected
        rows = np.repeat(np.arange(count), 2), data.comparisons.ravel()
        self._sides: Any = sparse.csr_array((np.tile([1.0, -1.0], count), rows), shape=(count, n))
        information = (self._sides.T @ (self._slope[:, None] * self._sides)).toarray()
        self._inverse = np.linalg.inv(information + np.eye(n) / prior_sd**2)
        inside = self._inverse - self._inverse.mean(axis=0)
        self._metric = inside.T @ inside  # of errors of skills about their average
        self._scores = self.residual[:, None] * self._sides

    def sway(self, column: str, gap: Array) -> Sway:
        """Look for an effect of a number that the winner has `gap` (K,) more of than the loser."""
        unit = gap / unit_of(gap)
        apart = unit - self._sides @ (self._inverse @ (self._sides.T @ (self._slope * unit)))
        pull = self.weights * self.residual @ apart
        effect = pull / (self._slope @ apart**2 or 1.0)
        error = np.sqrt(self.weights @ (self.residual * apart) ** 2)
        return Sway(column, float(self._expected(np.array(effect))), float(pull / (error or 1.0)))


def mean_margins(data: ComparisonData, posterior: EPSkills | JudgedSkills) -> Array:
    """Margins (K,) of the winners at the posterior means of all that decides comparisons."""
    many = len(data.category_names) > 1
    shares = np.eye(len(data.category_names)) if many else [None]
    skills = np.stack([posterior.skills(each)[0] for each in shares])
    at = data.categories if many else np.zeros(data.num_comparisons, int)
    winner, loser = data.comparisons.T
    margin = skills[at, winner] - skills[at, loser]
    judges = posterior.judges
    if data.judges is not None:
        for sign, side in zip((1.0, -1.0), (winner, loser), strict=True):
            margin = margin + sign * posterior.tastes(data.judges, side)
        margin = margin * np.exp(judges.log_reliability)[data.judges]
    if data.covariates is not None:
        margin = margin + data.covariates @ [mean for mean, _ in posterior.effects()[2]]
    if data.position is not None:
        effect = (posterior.effects().position_effect or (0.0, 0.0))[0]
        own = judges.bias[data.judges] if len(judges.bias) else 0.0
        margin = margin + data.position * (effect + own)
    return margin


def clusters_of(data: ComparisonData) -> Mapping[str, NDArray[np.integer[Any]]]:
    """What may make rows agree, by name: columns that repeat, judges, and the pairs they saw."""
    found = dict(data.clusters)
    if data.judges is not None and len(data.judge_names) > 1:
        low, high = np.sort(data.comparisons, axis=1).T
        seen = (data.judges * data.num_items + low) * data.num_items + high
        found |= {"judge": data.judges, "judge and pair": seen}
    return found


def residuals_of(
    data: ComparisonData, posterior: EPSkills | JudgedSkills, params: Mapping[str, Any]
) -> Residuals | OrderResiduals | None:
    """What is left of comparisons or orders; None if skills move, or are too many for a matrix.

    Parameters
    ----------
    data
        The comparisons, or orders; covariates are in their units.
    posterior
        That of their skills.
    params
        Hyperparameters by name.
    """
    orders = data.orders
    places = 0 if orders is None else sum(sum(map(len, each)) for each in orders.groups)
    if data.times is not None or data.num_items > _MOST_ITEMS or places > _MOST_PLACES:
        return None
    if orders is not None and orders.answers is None:
        return None
    if orders is not None:
        draws = posterior.draws(None, _DRAWS, np.random.RandomState(0))
        return OrderResiduals(orders, draws)
    noise = float(params.get("noise", 1.0))
    noise *= np.pi / np.sqrt(3.0) if posterior.likelihood == "logit" else np.sqrt(2.0)
    width = float(params.get("tie_width", 0.0))

    def chance(margin: Array) -> Array:
        return ndtr((margin - width) / noise)

    prior_sd = float(params.get("scale", params.get("amplitude", 1.0)))
    return Residuals(data, posterior, chance, prior_sd)


def design_effects(
    data: ComparisonData, posterior: EPSkills | JudgedSkills, params: Mapping[str, Any]
) -> list[DesignEffect]:
    """Design effects of all that may make rows agree, the largest first; as `residuals_of`."""
    clusters = clusters_of(data)
    rows = residuals_of(data, posterior, params) if clusters else None
    if rows is None:
        return []
    effects = [rows.design_effect(name, codes) for name, codes in clusters.items()]
    return sorted(effects, key=lambda each: -each.value)
