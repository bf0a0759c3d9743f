"""The fit of a log: moments of everything, with the uncertainty of reliabilities and tie width."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesrank.models.arena import SCALES
from bayesrank.solvers.arena.gaussian import posterior
from bayesrank.solvers.arena.state import ArenaState

__all__ = ["ArenaFit", "arena_fit"]

Floats = NDArray[np.float64]


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
        Skills in each category, overall and its own together, shapes (C, n) and (C, n, n); None
        without categories.
    with_position, with_ties
        Which of the two last there are.
    bias, bias_variance
        Order bias of each judge, shape (J,).
    log_reliability, log_reliability_variance
        Of each judge, shape (J,).
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

    total = size + data.with_ties
    precision = np.zeros((total, total))
    precision[:size, :size] = design.precision(
        weight * reliability**2, weight * reliability, weight * position
    )
    precision[np.diag_indices(size)] += state.prior()
    # Of the site as a function of margin and log tie width together.
    cross = -data.counts * found.cross * stretch * state.tie_width
    if data.with_ties:
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
        if data.with_ties:
            coupling[i, size] = design.to_local(cross * one)
        for j, (other, _) in enumerate(locals_):
            local[:, i, j] = design.to_local(weight * one * other)
        local[:, i, i] += scale**-2.0
    if judges:
        # The evidence's slope, which the prior's balances, bends it in the logarithm.
        prior = state.scales["reliability_scale"] ** -2.0
        local[:, -1, -1] += prior * np.maximum(-state.log_reliability, 0.0)
    whole = posterior(precision, coupling, local)
    covariance = whole.covariance
    group_skills = group_covariance = None
    if design.with_groups:
        group_skills = design.skills(state.x)
        group_covariance = np.empty((data.num_groups, n, n))
        for part in range(data.num_groups):
            at = slice(n + part * n, 2 * n + part * n)
            cross_part = covariance[:n, at]
            group_covariance[part] = covariance[:n, :n] + covariance[at, at] + cross_part
            group_covariance[part] += cross_part.T
    own = whole.local
    tail = [state.x[-1]] if data.with_position else []
    tail += [np.log(state.tie_width)] if data.with_ties else []
    at = np.concatenate([np.arange(n), np.arange(total - len(tail), total)])
    return ArenaFit(
        mean=np.concatenate([state.x[:n], tail]),
        covariance=covariance[np.ix_(at, at)],
        num_items=n,
        with_position=data.with_position,
        with_ties=data.with_ties,
        group_skills=group_skills,
        group_covariance=group_covariance,
        bias=state.bias,
        bias_variance=own[:, 0, 0] if design.num_local else np.zeros(0),
        log_reliability=state.log_reliability[:judges],
        log_reliability_variance=own[:, -1, -1] if judges else np.zeros(0),
        scales=dict(state.scales),
        converged=converged,
        num_rounds=num_rounds,
    )
