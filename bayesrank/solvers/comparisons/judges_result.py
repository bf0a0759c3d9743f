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

from bayesrank.models.comparisons import SCALES
from bayesrank.ranking import SkillMixture
from bayesrank.solvers.comparisons.judges_state import ArenaState, OwnSlopes, Posterior, posterior
from bayesrank.solvers.comparisons.posterior import (
    ComparisonPosterior,
    Component,
    Judges,
    added_variance,
    variances_of,
)
from bayesrank.solvers.comparisons.terms import MarginRows

Floats = NDArray[np.float64]

# Beyond this number, covariances of judges' own latents with skills are not kept. They are of
# weight where judges are few; of thousands, none says much of how high the skills are.
_MOST_WITH_JUDGES = 5_000_000


class ArenaFit(NamedTuple):
    """Posterior of a log of comparisons.

    Attributes
    ----------
    mean, covariance
        Of the N latents: overall skills, what each category adds to them, then the position effect
        and the log tie width if there are any; shapes (N,) and (N, N).
    num_items, num_categories
        Numbers n and C: the first n latents are overall skills, and the next C n those of
        categories, if there are two or more.
    with_position, with_ties
        Which of the two last there are.
    bias, bias_variance, log_reliability, log_reliability_variance
        Order bias and log reliability of each judge, shape (J,).
    bias_reliability
        Covariance of each judge's order bias and log reliability, shape (J,).
    judge_covariance
        Covariances of the latents with each judge's order bias (if any) and log reliability, shape
        (L, N, J). None without judges, or beyond 5 million numbers: then they count as
        uncorrelated.
    scales
        Values of the scales, ``tie_width`` among them.
    converged, num_rounds
        Whether the fit has converged, and after how many rounds.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesrank.solvers.comparisons import arena_data, fit_arena
    >>> games = np.array([[0, 1], [0, 1], [1, 2], [2, 0]])
    >>> data = arena_data(3, games, judges=np.array([0, 1, 0, 1]), num_judges=2)
    >>> fit_arena(data).num_items
    3
    """

    mean: Floats
    covariance: Floats
    num_items: int
    num_categories: int
    with_position: bool
    with_ties: bool
    bias: Floats
    bias_variance: Floats
    log_reliability: Floats
    log_reliability_variance: Floats
    bias_reliability: Floats
    judge_covariance: Floats | None
    scales: dict[str, float]
    converged: bool
    num_rounds: int

    @property
    def position(self) -> tuple[float, float]:
        """Mean and standard deviation of the effect of the position; zeros if there is none."""
        if not self.with_position:
            return 0.0, 0.0
        at = self.num_items * (1 + self.num_categories)
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


def arena_fit(state: ArenaState, converged: bool, num_rounds: int) -> ArenaFit:
    """Covariances with uncertain reliabilities and tie width, by the delta method."""
    design, data = state.design, state.design.data
    judges = data.num_judges
    free_width = data.with_ties and "tie_width" not in state.fixed
    whole = _posterior(state, free_width)
    own = np.zeros((judges, 2, 2))  # of order bias and log reliability
    own[:, 2 - len(whole.gain) :, 2 - len(whole.gain) :] = whole.local
    known = data.with_ties and not free_width  # a width without doubt
    kept = 0 < whole.gain.size <= _MOST_WITH_JUDGES
    return ArenaFit(
        mean=np.append(state.x, np.log(state.tie_width)) if data.with_ties else state.x,
        covariance=np.pad(whole.covariance, (0, known)),
        num_items=data.num_items,
        num_categories=data.num_categories,
        with_position=data.with_position,
        with_ties=data.with_ties,
        bias=state.bias,
        bias_variance=own[: design.num_local, 0, 0],
        log_reliability=state.log_reliability[:judges],
        log_reliability_variance=own[:, 1, 1],
        bias_reliability=own[:, 0, 1],
        judge_covariance=-np.pad(whole.gain.astype(float), ((0, 0), (0, known), (0, 0)))
        if kept
        else None,
        scales=dict(state.scales),
        converged=converged,
        num_rounds=num_rounds,
    )


def _posterior(state: ArenaState, free_width: bool) -> Posterior:
    """Posterior of all latents; of judges' own, biases come first, and log reliabilities last."""
    data = state.design.data
    own = []
    if state.design.num_local:
        own.append((state.design.position, state.scales["bias_scale"]))
    if data.num_judges:
        slope = state.reliability * state.margins()[1]
        own.append((slope, state.scales["reliability_scale"]))
    precision, (coupling, local) = state.shared_precision(), state.judges_blocks(own)
    if data.num_judges:
        # The evidence's slope, which the prior's balances, bends it in the logarithm.
        prior = state.scales["reliability_scale"] ** -2.0
        local[:, -1, -1] += prior * np.maximum(-state.log_reliability, 0.0)
    if free_width:
        precision, coupling = _with_width(state, own, precision, coupling)
    return posterior(precision, coupling, local)


def _with_width(
    state: ArenaState, own: OwnSlopes, precision: Floats, coupling: Floats
) -> tuple[Floats, Floats]:
    """Add the log tie width behind what all share: sites depend on it and on margins together."""
    design, counts, width = state.design, state.design.data.counts, state.tie_width
    _, cavity, found = state.cavity()
    stretch = 1.0 / (1.0 + found.mean2 * cavity)
    cross = -counts * found.cross * stretch * width
    bend = counts @ (-found.width2 + found.cross**2 * cavity * stretch)
    alone = SCALES["tie_width"].sd ** -2.0 + width**2 * bend - width * (counts @ found.width)
    shared = design.to_global(cross * state.reliability, cross)
    rows = np.zeros((len(own), 1, coupling.shape[2]))
    for row, (slope, _) in zip(rows, own, strict=True):
        row[0] = design.to_local(cross * slope)
    whole = np.block([[precision, shared[:, None]], [shared, alone]])
    return whole, np.concatenate([coupling, rows], axis=1)


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

    Examples
    --------
    >>> import numpy as np
    >>> from bayesrank.solvers.comparisons import JudgedSkills, arena_data, fit_arena
    >>> games = np.array([[0, 1], [0, 1], [1, 2], [2, 0]])
    >>> data = arena_data(3, games, judges=np.array([0, 1, 0, 1]), num_judges=2)
    >>> skills = JudgedSkills(fit_arena(data))
    """

    def __init__(self, result: ArenaFit) -> None:
        self.result = result

    @property
    def at(self) -> dict[str, NDArray[np.int64]]:
        """Skills, and behind them the effect of the position."""
        fit = self.result
        found = {"f": np.arange(fit.num_items)}
        return found | ({"position_effect": np.array(fit.num_items)} if fit.with_position else {})

    @property
    def judges(self) -> Judges:
        """Log reliabilities and order biases of the judges, by the fit."""
        fit = self.result
        spread = fit.log_reliability_variance
        return Judges(fit.log_reliability, spread, fit.bias, fit.bias_variance)

    def components(
        self, shares: Floats | None = None, judge: int | None = None
    ) -> Iterator[Component]:
        """Gaussians given the tie width and a judge's reliability, by Gauss-Hermite quadrature."""
        fit, rows = self.result, self._rows(shares)
        mean, covariance = rows @ fit.mean, rows @ (rows @ fit.covariance).T
        if judge is not None:
            self._add_judge(mean, covariance, rows, judge)
        own = self.result.num_items + 1  # then come the log tie width and the log reliability
        root = _root(covariance[own:, own:])
        slopes = covariance[:own, own:] @ np.linalg.pinv(root).T
        left = covariance[:own, :own] - slopes @ slopes.T
        unknown = fit.scales["scale"] ** 2 + added_variance(fit.scales, shares)
        for weight, t in _grid(root):
            log_width, log_reliability = mean[own:] + root @ t
            params = {"tie_width": np.exp(log_width)} if self.result.with_ties else {}
            factors = np.append(np.full(own - 1, np.exp(log_reliability)), 1.0)
            seen = factors * (mean[:own] + slopes @ t)
            prior = factors[0] ** 2 * unknown
            yield Component(weight, params, seen, _AsJudged(left, factors), prior)

    def mixture(self, shares: Floats | None = None, most: float = np.inf) -> SkillMixture | None:
        """The one Gaussian of the fit; None beyond `most` numbers in its covariance."""
        if self.result.num_items**2 > most:
            return None
        return SkillMixture(np.ones(1), *(each[None] for each in self.result.skills(shares)))

    def skills(self, shares: Floats | None = None) -> tuple[Floats, Floats]:
        """Means and standard deviations by the fit, shape (n,)."""
        mean, covariance = self.result.skills(shares)
        return mean, np.sqrt(np.diagonal(covariance))

    def draws(self, shares: Floats | None, number: int, random: np.random.RandomState) -> Floats:
        """Draws of the Gaussian, shape (number, n)."""
        rows = skill_rows(self.result.num_items, shares, self.result.mean.size)[:, : len(self._all)]
        normal = random.standard_normal((number, len(self._all)))
        return rows @ self.result.mean[: len(self._all)] + normal @ (rows @ self._all).T

    @cached_property
    def _all(self) -> NDArray[Any]:
        """Lower triangular root of the covariance of all skills, overall and of categories."""
        fit = self.result
        size = fit.num_items * (1 + fit.num_categories)
        return np.linalg.cholesky(fit.covariance[:size, :size])

    def _rows(self, shares: Floats | None) -> Any:
        """Matrix that makes n skills, advantage, log tie width and log reliability of latents.

        Those that there are not have zeros.
        """
        fit = self.result
        n, size = fit.num_items, fit.mean.size
        effects = [n] * fit.with_position + [n + 1] * fit.with_ties
        at = np.arange(size - len(effects), size), np.array(effects, int) - n
        own = sparse.csr_array((np.ones(len(effects)), at[::-1]), shape=(3, size))
        return sparse.vstack([skill_rows(n, shares, size), own], "csr")

    def _add_judge(self, mean: Floats, covariance: Floats, rows: Any, judge: int) -> None:
        """Put the judge's own bias into the advantage, and its reliability behind all."""
        fit, n = self.result, self.result.num_items
        own = [n] * (len(fit.bias) > 0) + [n + 2]
        if fit.judge_covariance is not None:
            for latent, cross in zip(own, fit.judge_covariance[:, :, judge], strict=True):
                covariance[latent] += rows @ cross
                covariance[:, latent] += rows @ cross
        mean[n + 2] = fit.log_reliability[judge]
        covariance[n + 2, n + 2] = fit.log_reliability_variance[judge]
        if len(fit.bias):
            mean[n] += fit.bias[judge]
            covariance[n, n] += fit.bias_variance[judge]
            # That of the bias alone; with the effect of the position it is there already.
            covariance[n, n + 2] += fit.bias_reliability[judge]
            covariance[n + 2, n] += fit.bias_reliability[judge]


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
