"""The fit of a log: moments of everything, with the uncertainty of reliabilities and tie width."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesrank.models.comparisons import SCALES
from bayesrank.solvers.comparisons.judges_gaussian import posterior
from bayesrank.solvers.comparisons.judges_state import ArenaState

Floats = NDArray[np.float64]

# Beyond this number, covariances of judges' own latents with skills are not kept. They are of
# weight where judges are few; of thousands, none says much of how high the skills are.
_MOST_WITH_JUDGES = 5_000_000


class ArenaFit(NamedTuple):
    """Posterior of a log of comparisons.

    Attributes
    ----------
    mean, covariance
        Of the overall skills, then the position effect and the log tie width if there are any;
        shapes (m,) and (m, m).
    num_items
        How many of these are skills.
    category_skills, category_covariance
        Skills in each category (C, n), overall plus own, and their covariance (C, m, m), with what
        follows the skills in ``mean``. None without categories.
    with_position, with_ties
        Which of the two last there are.
    bias, bias_variance, log_reliability, log_reliability_variance
        Order bias and log reliability of each judge, shape (J,).
    bias_reliability
        Covariance of each judge's order bias and log reliability, shape (J,).
    judge_covariance
        Covariances of ``mean``, and of each category's, with each judge's order bias (if any) and
        log reliability, shape (1 + C, L, m, J). None without judges, or beyond 5 million numbers:
        then they count as uncorrelated.
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
    with_position: bool
    with_ties: bool
    category_skills: Floats | None
    category_covariance: Floats | None
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
        at = self.num_items
        return float(self.mean[at]), float(np.sqrt(self.covariance[at, at]))

    @property
    def log_tie_width(self) -> tuple[float, float] | None:
        """Mean and standard deviation of the log tie width; None without ties."""
        if not self.with_ties:
            return None
        return float(self.mean[-1]), float(np.sqrt(self.covariance[-1, -1]))


def arena_fit(state: ArenaState, converged: bool, num_rounds: int) -> ArenaFit:
    """Covariances with uncertain reliabilities and tie width, by the delta method."""
    design, data = state.design, state.design.data
    n, judges = data.num_items, data.num_judges
    free_width = data.with_ties and "tie_width" not in state.fixed
    _, cavity, found = state.cavity()
    stretch = 1.0 / (1.0 + found.mean2 * cavity)
    # Of the site as a function of margin and log tie width together.
    cross = -data.counts * found.cross * stretch * state.tie_width
    precision = _shared_precision(state, free_width, cross)
    if free_width:
        bend = -found.width2 + found.cross**2 * cavity * stretch
        precision[-1, -1] += state.tie_width**2 * (data.counts @ bend)
        precision[-1, -1] -= state.tie_width * (data.counts @ found.width)
    whole = posterior(precision, *_judges_blocks(state, free_width, cross))
    tail = [state.x[-1]] if data.with_position else []
    tail += [np.log(state.tie_width)] if data.with_ties else []
    latents = _Reported(state, len(tail), free_width)
    return ArenaFit(
        mean=np.concatenate([state.x[:n], tail]),
        covariance=latents.covariance(whole.covariance, None),
        num_items=n,
        with_position=data.with_position,
        with_ties=data.with_ties,
        category_skills=design.skills(state.x) if design.with_categories else None,
        category_covariance=latents.in_categories(whole.covariance)
        if design.with_categories
        else None,
        bias=state.bias,
        log_reliability=state.log_reliability[:judges],
        **_own_variances(whole.local, design.num_local > 0, judges),
        judge_covariance=latents.with_judges(whole.gain) if judges else None,
        scales=dict(state.scales),
        converged=converged,
        num_rounds=num_rounds,
    )


def _shared_precision(state: ArenaState, free_width: bool, cross: Floats) -> Floats:
    """Precision of what all share, shape (N, N): the data's part and the priors'."""
    design, data = state.design, state.design.data
    size, weight = design.size, data.counts * state.precision
    precision = np.zeros((size + free_width, size + free_width))
    reliability = state.reliability
    precision[:size, :size] = design.precision(
        weight * reliability**2, weight * reliability, weight * design.position
    )
    precision[np.diag_indices(size)] += state.prior()
    if free_width:
        precision[size, :size] = design.to_global(cross * reliability, cross)
        precision[:size, size] = precision[size, :size]
        precision[size, size] = SCALES["tie_width"].sd ** -2.0
    return precision


def _judges_blocks(state: ArenaState, free_width: bool, cross: Floats) -> tuple[Floats, Floats]:
    """Precision of judges' own L latents: with what all share (L, N, J), and (J, L, L)."""
    design, data = state.design, state.design.data
    size, judges, weight = design.size, data.num_judges, data.counts * state.precision
    own = []  # the margin's slope in a judge's order bias, and in its log reliability
    if design.num_local:
        own.append((design.position, state.scales["bias_scale"]))
    if judges:
        difference = state.margins()[1]
        own.append((state.reliability * difference, state.scales["reliability_scale"]))
    coupling = np.zeros((len(own), size + free_width, judges))
    local = np.zeros((judges, len(own), len(own)))
    for i, (one, scale) in enumerate(own):
        coupling[i, :size] = design.coupling(weight * state.reliability * one, weight * one)
        if free_width:
            coupling[i, size] = design.to_local(cross * one)
        for j, (other, _) in enumerate(own):
            local[:, i, j] = design.to_local(weight * one * other)
        local[:, i, i] += scale**-2.0
    if judges:
        # The evidence's slope, which the prior's balances, bends it in the logarithm.
        prior = state.scales["reliability_scale"] ** -2.0
        local[:, -1, -1] += prior * np.maximum(-state.log_reliability, 0.0)
    return coupling, local


def _own_variances(local: Floats, biased: bool, judges: int) -> dict[str, Floats]:
    """Variances and covariance of judges' own latents, shape (J,) each, from blocks (J, L, L)."""
    return {
        "bias_variance": local[:, 0, 0] if biased else np.zeros(0),
        "log_reliability_variance": local[:, -1, -1] if judges else np.zeros(0),
        "bias_reliability": local[:, 0, 1] if biased and judges else np.zeros(judges),
    }


class _Reported:
    """Which of the latents are reported together: skills, and the effects behind them."""

    def __init__(self, state: ArenaState, num_effects: int, free_width: bool) -> None:
        data = state.design.data
        self.num_items, self.num_categories = data.num_items, data.num_categories
        size = state.design.size
        self.effects = np.arange(size - data.with_position, size + free_width)
        self.size = data.num_items + num_effects

    def covariance(self, whole: Floats, category: int | None) -> Floats:
        """Covariance of overall skills or those in a category; known latents have zeros."""
        return np.asarray(self._rows(self._rows(whole, category).T, category), np.float64)

    def in_categories(self, whole: Floats) -> Floats:
        """Covariances of the skills in each category, one after the other."""
        return np.stack([self.covariance(whole, c) for c in range(self.num_categories)])

    def with_judges(self, gain: NDArray[np.floating]) -> Floats | None:
        """Covariances with the judges' own latents, overall and in each category."""
        categories = (None, *range(self.num_categories))
        if len(categories) * self.size * gain[:, 0].size > _MOST_WITH_JUDGES:
            return None
        return -np.array([[self._rows(one, c) for one in gain] for c in categories], float)

    def _rows(self, matrix: NDArray[np.floating], category: int | None) -> NDArray[np.floating]:
        n = self.num_items
        skills = matrix[:n]
        if category is not None:
            skills = skills + matrix[n + category * n : 2 * n + category * n]
        found = np.zeros((self.size, matrix.shape[1]), matrix.dtype)
        found[:n] = skills
        found[n : n + len(self.effects)] = matrix[self.effects]
        return found
