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
