"""The fit of a log: moments of everything, with the uncertainty of reliabilities and tie width."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bayesrank.models.comparisons import SCALES
from bayesrank.solvers.comparisons.judges_gaussian import Posterior, posterior
from bayesrank.solvers.comparisons.judges_state import ArenaState, OwnSlopes

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
    whole = _posterior(state, free_width)
    tail = [state.x[-1]] if data.with_position else []
    tail += [np.log(state.tie_width)] if data.with_ties else []
    reports = _reports(state, len(tail), free_width)
    overall, *within = reports
    own = np.zeros((judges, 2, 2))  # of order bias and log reliability
    own[:, 2 - len(whole.gain) :, 2 - len(whole.gain) :] = whole.local
    numbers = len(reports) * (n + len(tail)) * whole.gain[:, 0].size
    kept = 0 < numbers <= _MOST_WITH_JUDGES
    known = whole.covariance
    return ArenaFit(
        mean=np.concatenate([state.x[:n], tail]),
        covariance=overall @ known @ overall.T,
        num_items=n,
        with_position=data.with_position,
        with_ties=data.with_ties,
        category_skills=np.stack([part[:n, : design.size] @ state.x for part in within])
        if within
        else None,
        category_covariance=np.stack([part @ known @ part.T for part in within])
        if within
        else None,
        bias=state.bias,
        bias_variance=own[: design.num_local, 0, 0],
        log_reliability=state.log_reliability[:judges],
        log_reliability_variance=own[:, 1, 1],
        bias_reliability=own[:, 0, 1],
        judge_covariance=-np.array([[part @ one for one in whole.gain] for part in reports], float)
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


def _reports(state: ArenaState, num_effects: int, free_width: bool) -> list[Any]:
    """Matrices that make what is reported of all latents: with overall skills, and categories'."""
    data, size = state.design.data, state.design.size
    n = data.num_items
    every: Any = sparse.eye_array(size + free_width, format="csr")
    effects = every[np.arange(size - data.with_position, size + free_width)]
    known = sparse.csr_array((num_effects - effects.shape[0], size + free_width))  # without doubt
    skills = [every[:n] + every[n * (c + 1) : n * (c + 2)] for c in range(data.num_categories)]
    return [sparse.vstack([part, effects, known], "csr") for part in (every[:n], *skills)]
