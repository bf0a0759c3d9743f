"""The fit of a log: moments of everything, and its skills as a mixture of Gaussians.

Skills of a log with judges, by `fit_arena`, as a mixture of Gaussians like any other posterior.

The fit is one Gaussian; the delta method makes reliabilities and the tie width uncertain. Given the
logarithms of both, margins are normal. Quadrature averages over these logarithms.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bayesrank.ranking import SkillMixture
from bayesrank.solvers.comparisons.posterior import (
    ComparisonPosterior,
    Component,
    Judges,
    added_variance,
    variances_of,
)
from bayesrank.solvers.comparisons.terms import MarginRows

Floats = NDArray[np.float64]


class ArenaFit(NamedTuple):
    """Posterior of a log of comparisons.

    Attributes
    ----------
    mean, covariance
        Of the N latents: overall skills, what each category adds to them, then effects of
        covariates, the position effect and the log tie width if there are any; shapes (N,) and
        (N, N).
    num_items, num_categories
        Numbers n and C: the first n latents are overall skills, and the next C n those of
        categories, if there are two or more.
    num_covariates
        Number D of covariates.
    with_position, with_ties
        Which of the two last there are.
    own_mean, own_covariance
        Of each judge's own latents, which are tastes if there are any, the order bias (with
        positions), and behind it the log reliability; shapes (J, L) and (J, L, L).
    across
        Covariances of each judge's own latents with the others, shape (J, L, N). None beyond 5
        million numbers: then they count as uncorrelated.
    scales
        Values of the scales, ``tie_width`` among them.
    converged, num_sweeps
        Whether the fit has converged, and after how many sweeps.
    tasted
        Items of each judge's M tastes, shape (J, M), -1 behind those that it has seen; None without
        tastes.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesrank.solvers.comparisons import fit_arena
    >>> games = np.array([[0, 1], [0, 1], [1, 2], [2, 0]])
    >>> fit_arena(3, games, judges=np.array([0, 1, 0, 1]), num_judges=2).num_items
    3
    """

    mean: Floats
    covariance: Floats
    num_items: int
    num_categories: int
    num_covariates: int
    with_position: bool
    with_ties: bool
    own_mean: Floats
    own_covariance: Floats
    across: Floats | None
    scales: dict[str, float]
    converged: bool
    num_sweeps: int
    tasted: NDArray[np.int64] | None = None

    @property
    def judges(self) -> Judges:
        """Moments of log reliabilities and order biases."""
        first = 0 if self.tasted is None else self.tasted.shape[1]
        variances = np.diagonal(self.own_covariance, axis1=1, axis2=2)
        each = zip(self.own_mean.T[first:], variances.T[first:], strict=True)
        own = [part for pair in each for part in pair]
        none = np.zeros(0)
        return Judges(*(own[-2:] or (none, none)), *(own[:-2] or (none, none)))

    @property
    def position(self) -> tuple[float, float]:
        """Mean and standard deviation of the effect of the position; zeros if there is none."""
        if not self.with_position:
            return 0.0, 0.0
        at = self.num_items * (1 + self.num_categories) + self.num_covariates
        return float(self.mean[at]), float(np.sqrt(self.covariance[at, at]))

    def skills(self, shares: Floats | None = None) -> tuple[Floats, Floats]:
        """Means (n,) and covariance (n, n) of skills, overall or by shares (C,) of categories."""
        rows = skill_rows(self.num_items, shares, self.mean.size)
        return rows @ self.mean, rows @ (rows @ self.covariance).T

    @property
    def log_tie_width(self) -> tuple[float, float] | None:
        """Mean and standard deviation of the log tie width; None without ties."""
        if not self.with_ties:
            return None
        return float(self.mean[-1]), float(np.sqrt(self.covariance[-1, -1]))


def skill_rows(num_items: int, shares: Floats | None, size: int) -> Any:
    """Matrix (n, size) that makes skills of latents: overall ones, and `shares` of categories."""
    blocks = [1.0, *(() if shares is None else shares)]
    one: Any = sparse.eye_array(num_items, format="csr")
    rows: Any = sparse.hstack([share * one for share in blocks], "csr")
    rows.resize(num_items, size)
    return rows


_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(9)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


class _AsJudged(NamedTuple):
    """Covariances of latents as a judge sees them, each multiplied by a number, shape (N,)."""

    covariance: Floats
    factors: Floats

    def variances(self, rows: MarginRows) -> Floats:
        seen = rows.values * self.factors[rows.columns]
        return variances_of(self.covariance, rows._replace(values=seen))


class JudgedSkills(ComparisonPosterior):
    """The posterior of skills at scales that were learned or fixed.

    Parameters
    ----------
    result
        What `fit_arena` returned.
    widening
        What standard deviations are multiplied by.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesrank.solvers.comparisons import JudgedSkills, fit_arena
    >>> games = np.array([[0, 1], [0, 1], [1, 2], [2, 0]])
    >>> skills = JudgedSkills(fit_arena(3, games, judges=np.array([0, 1, 0, 1]), num_judges=2))
    """

    def __init__(self, result: ArenaFit, widening: float = 1.0) -> None:
        self.result, self.widening = result, widening

    @property
    def at(self) -> dict[str, NDArray[np.int64]]:
        """Skills, and behind them the effects of covariates and of the position."""
        n, last = self.result.num_items, self._advantage
        found = {"f": np.arange(n), "covariate_effect": np.arange(n, last)}
        return found | ({"position_effect": np.array(last)} if self.result.with_position else {})

    @property
    def _advantage(self) -> int:
        """Where the advantage stands: behind skills and effects of covariates."""
        return self.result.num_items + self.result.num_covariates

    @property
    def judges(self) -> Judges:
        """Log reliabilities and order biases of the judges, by the fit."""
        return self.result.judges

    def _parts(self, shares: Floats | None, judge: int | None) -> Iterator[Component]:
        """Gaussians given the tie width and a judge's reliability, by Gauss-Hermite quadrature."""
        fit, rows = self.result, self._rows(shares)
        mean, covariance = rows @ fit.mean, rows @ (rows @ fit.covariance).T
        tastes = np.full(fit.num_items, fit.scales.get("taste_scale", 0.0) ** 2)
        if judge is not None:
            tastes[self._add_judge(mean, covariance, rows, judge)] = 0.0
        covariance[np.diag_indices(fit.num_items)] += tastes
        own = self._advantage + 1  # then come the log tie width and the log reliability
        root = _root(covariance[own:, own:])
        slopes = covariance[:own, own:] @ np.linalg.pinv(root).T
        left = covariance[:own, :own] - slopes @ slopes.T
        unknown = fit.scales["scale"] ** 2 + added_variance(fit.scales, shares)
        unknown += fit.scales.get("taste_scale", 0.0) ** 2
        for weight, t in _grid(root):
            log_width, log_reliability = mean[own:] + root @ t
            params = {"tie_width": np.exp(log_width)} if self.result.with_ties else {}
            factors = np.ones(own)
            factors[: fit.num_items] = np.exp(log_reliability)
            seen = factors * (mean[:own] + slopes @ t)
            prior = factors[0] ** 2 * unknown
            yield Component(weight, params, seen, _AsJudged(left, factors), prior)

    def mixture(self, shares: Floats | None = None, most: float = np.inf) -> SkillMixture | None:
        """The one Gaussian of the fit; None beyond `most` numbers in its covariance."""
        if self.result.num_items**2 > most:
            return None
        mean, covariance = self.result.skills(shares)
        return SkillMixture(np.ones(1), mean[None], self.widening**2 * covariance[None])

    def skills(self, shares: Floats | None = None) -> tuple[Floats, Floats]:
        """Means and standard deviations by the fit, shape (n,)."""
        mean, covariance = self.result.skills(shares)
        return mean, self.widening * np.sqrt(np.diagonal(covariance))

    def draws(self, shares: Floats | None, number: int, random: np.random.RandomState) -> Floats:
        """Draws of the Gaussian, shape (number, n)."""
        rows = skill_rows(self.result.num_items, shares, self.result.mean.size)[:, : len(self._all)]
        normal = self.widening * random.standard_normal((number, len(self._all)))
        return rows @ self.result.mean[: len(self._all)] + normal @ (rows @ self._all).T

    @cached_property
    def _all(self) -> NDArray[Any]:
        """Lower triangular root of the covariance of all skills, overall and of categories."""
        fit = self.result
        size = fit.num_items * (1 + fit.num_categories)
        return np.linalg.cholesky(fit.covariance[:size, :size])

    def _rows(self, shares: Floats | None) -> Any:
        """Matrix that makes skills, effects, advantage, log tie width and log reliability.

        Those that there are not have zeros.
        """
        fit = self.result
        n, size, last = fit.num_items, fit.mean.size, fit.num_covariates
        effects = [*range(last), *[last] * fit.with_position, *[last + 1] * fit.with_ties]
        at = np.array(effects, int), np.arange(size - len(effects), size)
        own = sparse.csr_array((np.ones(len(effects)), at), shape=(last + 3, size))
        return sparse.vstack([skill_rows(n, shares, size), own], "csr")

    def _add_judge(self, mean: Floats, covariance: Floats, rows: Any, judge: int) -> Any:
        """Add a judge's tastes to skills, its bias to the advantage, its reliability behind all.

        Returns the items of the tastes.
        """
        fit, n = self.result, self._advantage
        items = np.zeros(0, np.int64) if fit.tasted is None else fit.tasted[judge]
        biased = fit.own_mean.shape[1] - items.size == 2
        places = np.concatenate([items, [n] * biased, [n + 2]]).astype(np.int64)
        known = places >= 0
        own = places[known]
        mean[own] += fit.own_mean[judge, known]
        covariance[np.ix_(own, own)] += fit.own_covariance[judge][np.ix_(known, known)]
        if fit.across is not None:
            cross = rows @ fit.across[judge, known].T
            covariance[:, own] += cross
            covariance[own] += cross.T
        return items[items >= 0]

    def tastes(self, judges: NDArray[np.int64], items: NDArray[np.int64]) -> Floats:
        """Means of the tastes of judges for items, both of one shape; zeros without tastes."""
        fit = self.result
        if fit.tasted is None:
            return np.zeros(items.shape)
        size = fit.tasted.shape[1]
        who = np.repeat(np.arange(len(fit.tasted)), size)
        at, means = fit.tasted.ravel(), fit.own_mean[:, :size].ravel()
        shape = len(fit.tasted), fit.num_items
        table: Any = sparse.csr_array((means[at >= 0], (who[at >= 0], at[at >= 0])), shape=shape)
        return np.asarray(table[judges.ravel(), items.ravel()]).reshape(judges.shape)


def _root(covariance: Floats) -> Floats:
    """Lower triangular root of a 2 x 2 covariance, of which either variance may be zero."""
    (a, b), (_, c) = covariance
    root = np.zeros((2, 2))
    root[0, 0] = np.sqrt(a)
    root[1, 0] = b / root[0, 0] if a > 0.0 else 0.0
    root[1, 1] = np.sqrt(max(c - root[1, 0] ** 2, 0.0))
    return root


def _grid(root: Floats) -> Iterator[tuple[float, Floats]]:
    """Weights and values of the two standard normals; of one without effect, only zero."""
    axes = [
        list(zip(_WEIGHTS, _NODES, strict=True)) if side > 0.0 else [(1.0, 0.0)]
        for side in np.diagonal(root)
    ]
    for first_weight, first in axes[0]:
        for second_weight, second in axes[1]:
            yield first_weight * second_weight, np.array([first, second])
