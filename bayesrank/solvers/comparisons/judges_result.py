"""The fit of a log: moments of everything, with the uncertainty of reliabilities and tie width."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesrank.models.comparisons import SCALES
from bayesrank.solvers.comparisons.judges_gaussian import posterior
from bayesrank.solvers.comparisons.judges_state import ArenaState

__all__ = ["ArenaFit", "arena_fit"]

Floats = NDArray[np.float64]

# Beyond this number, covariances of judges' own latents with skills are not kept. They are of
# weight where judges are few; of thousands, none says much of how high the skills are.
_MOST_WITH_JUDGES = 5_000_000


class ArenaFit(NamedTuple):
    """Posterior of a log of comparisons.

    Attributes
    ----------
    mean, covariance
        Of the overall skills, the effect of the position and the log tie width, in this order and
        of the two last those that there are; shapes (m,) and (m, m).
    num_items
        How many of these are skills.
    group_skills, group_covariance
        Skills in each category, overall and its own together, shape (C, n), and their covariance
        with the two last of ``mean`` behind them, shape (C, m, m); None without categories.
    with_position, with_ties
        Which of the two last there are.
    bias, bias_variance
        Order bias of each judge, shape (J,).
    log_reliability, log_reliability_variance
        Of each judge, shape (J,).
    bias_reliability
        Covariance of each judge's order bias and log reliability, shape (J,).
    judge_covariance
        Covariances of ``mean`` (and of the skills in each category with what follows them there)
        with each judge's own latents: its order bias, if there is one, and its log reliability;
        shape (1 + C, L, m, J). None if there are no judges, or if this has more than 5 million
        numbers: then they are taken as uncorrelated.
    scales
        Values of the scales, ``tie_width`` among them.
    converged, num_rounds
        Whether the fit has converged, and after how many rounds.
    """

    mean: Floats
    covariance: Floats
    num_items: int
    with_position: bool
    with_ties: bool
    group_skills: Floats | None
    group_covariance: Floats | None
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
    """Covariances in which reliabilities and the tie width are uncertain, too.

    They are latents here, of which the margins are linear functions near what was learned (the
    delta method): judges' log reliabilities are eliminated with their order biases.
    """
    design, data = state.design, state.design.data
    n, size, judges = data.num_items, design.size, data.num_judges
    reliability, position = state.reliability, design.position
    _, difference, _ = state.margins()
    slope = reliability * difference  # of the margin, in the log reliability
    _, cavity, found = state.cavity()
    stretch = 1.0 / (1.0 + found.mean2 * cavity)
    weight = data.counts * state.precision

    free_width = data.with_ties and "tie_width" not in state.fixed
    total = size + free_width
    precision = np.zeros((total, total))
    precision[:size, :size] = design.precision(
        weight * reliability**2, weight * reliability, weight * position
    )
    precision[np.diag_indices(size)] += state.prior()
    # Of the site as a function of margin and log tie width together.
    cross = -data.counts * found.cross * stretch * state.tie_width
    if free_width:
        width, prior = state.tie_width, SCALES["tie_width"]
        precision[size, :size] = precision[:size, size] = design.to_global(
            cross * reliability, cross
        )
        own = -found.width2 + found.cross**2 * cavity * stretch
        precision[size, size] = width**2 * (data.counts @ own) + prior.sd**-2.0
        precision[size, size] -= width * (data.counts @ found.width)
    locals_ = []
    if design.num_local:
        locals_.append((position, state.scales["bias_scale"]))
    if judges:
        locals_.append((slope, state.scales["reliability_scale"]))
    width = len(locals_)
    coupling = np.zeros((width, total, judges))
    local = np.zeros((judges, width, width))
    for i, (one, scale) in enumerate(locals_):
        coupling[i, :size] = design.coupling(weight * reliability * one, weight * one)
        if free_width:
            coupling[i, size] = design.to_local(cross * one)
        for j, (other, _) in enumerate(locals_):
            local[:, i, j] = design.to_local(weight * one * other)
        local[:, i, i] += scale**-2.0
    if judges:
        # The evidence's slope, which the prior's balances, bends it in the logarithm.
        prior = state.scales["reliability_scale"] ** -2.0
        local[:, -1, -1] += prior * np.maximum(-state.log_reliability, 0.0)
    whole = posterior(precision, coupling, local)
    tail = [state.x[-1]] if data.with_position else []
    tail += [np.log(state.tie_width)] if data.with_ties else []
    latents = _Reported(state, len(tail), free_width)
    group_covariance = None
    if design.with_groups:
        parts = range(data.num_groups)
        group_covariance = np.stack([latents.covariance(whole.covariance, c) for c in parts])
    own = whole.local
    both = design.num_local > 0 and judges > 0
    return ArenaFit(
        mean=np.concatenate([state.x[:n], tail]),
        covariance=latents.covariance(whole.covariance, None),
        num_items=n,
        with_position=data.with_position,
        with_ties=data.with_ties,
        group_skills=design.skills(state.x) if design.with_groups else None,
        group_covariance=group_covariance,
        bias=state.bias,
        bias_variance=own[:, 0, 0] if design.num_local else np.zeros(0),
        log_reliability=state.log_reliability[:judges],
        log_reliability_variance=own[:, -1, -1] if judges else np.zeros(0),
        bias_reliability=own[:, 0, 1] if both else np.zeros(judges),
        judge_covariance=latents.with_judges(whole.gain) if judges else None,
        scales=dict(state.scales),
        converged=converged,
        num_rounds=num_rounds,
    )


class _Reported:
    """Which of the latents are reported together: skills, and the effects behind them."""

    def __init__(self, state: ArenaState, num_effects: int, free_width: bool) -> None:
        data = state.design.data
        self.num_items, self.num_groups = data.num_items, data.num_groups
        size = state.design.size
        self.effects = np.arange(size - data.with_position, size + free_width)
        self.size = data.num_items + num_effects

    def covariance(self, whole: Floats, group: int | None) -> Floats:
        """Of overall skills or those in a category; what is known has zeros."""
        return np.asarray(self._rows(self._rows(whole, group).T, group), np.float64)

    def with_judges(self, gain: NDArray[np.floating]) -> Floats | None:
        """Covariances with the judges' own latents, overall and in each category."""
        groups = (None, *range(self.num_groups))
        if len(groups) * self.size * gain[:, 0].size > _MOST_WITH_JUDGES:
            return None
        return -np.array([[self._rows(one, c) for one in gain] for c in groups], float)

    def _rows(self, matrix: NDArray[np.floating], group: int | None) -> NDArray[np.floating]:
        n = self.num_items
        skills = matrix[:n]
        if group is not None:
            skills = skills + matrix[n + group * n : 2 * n + group * n]
        found = np.zeros((self.size, matrix.shape[1]), matrix.dtype)
        found[:n] = skills
        found[n : n + len(self.effects)] = matrix[self.effects]
        return found
