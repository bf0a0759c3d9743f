"""What the fit of a log knows at any moment: scales, reliabilities, sites and latents.

How margins depend on the latents: products with rows, and the blocks of the precision.

Global latents are, in this order, the skills (n), what each category adds (C n), and the effect of
the position (1). A judge's local latents are its order bias and, if its uncertainty is wanted, a
change of its log reliability.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import LinAlgError, cholesky, get_lapack_funcs
from scipy.special import log_ndtr, ndtri

from bayesrank._validate import check_positive_values
from bayesrank.models.comparisons import SCALES
from bayesrank.solvers.comparisons.counted import ArenaData
from bayesrank.solvers.comparisons.posterior import variances_of
from bayesrank.solvers.comparisons.terms import MarginRows

Floats = NDArray[np.float64]


class Design:
    """Rows of a log as a linear map from latents to margins."""

    def __init__(self, data: ArenaData) -> None:
        self.data = data
        n, count = data.num_items, len(data.first)
        self.with_categories = data.num_categories > 0
        self.size = n + data.num_categories * n + data.with_position
        self.num_local = data.num_judges if data.with_position else 0
        skills = [(1.0, data.first), (-1.0, data.second)]
        if self.with_categories:
            own = n + data.category * n
            skills += [(1.0, own + data.first), (-1.0, own + data.second)]
        #: skills that each row compares
        self.rows = MarginRows.of(count, *skills)
        values, columns = (part.ravel() for part in self.rows)
        starts = np.arange(0, len(values) + 1, len(skills))
        self._skills = sparse.csr_array((values, columns, starts), shape=(count, self.size))
        #: weight of the position's effect in each row
        self.position = data.position

    def differences(self, x: Floats) -> Floats:
        """Difference of the two items' skills in each row, shape (K,)."""
        return self._skills @ x

    def advantages(self, x: Floats, bias: Floats) -> Floats:
        """What the position adds to the margin of each row, shape (K,)."""
        if not self.data.with_position:
            return np.zeros(len(self.position))
        own = bias[self.data.judge] if self.num_local else 0.0
        return self.position * (x[-1] + own)

    def to_global(self, difference: Floats, advantage: Floats) -> Floats:
        """Transpose: sums over K rows of weights of skill differences and of positions, (size,)."""
        sums = self._skills.T @ difference
        if self.data.with_position:
            sums[-1] = advantage @ self.position
        return sums

    def to_local(self, weight: Floats) -> Floats:
        """Sums over the rows of each judge, shape (J,)."""
        return np.bincount(self.data.judge, weight, self.data.num_judges).astype(float)

    def precision(self, twice: Floats, once: Floats, never: Floats) -> Floats:
        """Precision of the global latents, (size, size), by weights (K,) by r^2, r and 1."""
        out = (self._skills.T @ (sparse.diags_array(twice) @ self._skills)).toarray()
        if self.data.with_position:
            out[-1] = out[:, -1] = self.to_global(once * self.position, never * self.position)
        return out

    def coupling(self, difference: Floats, advantage: Floats) -> Floats:
        """Precision of global latents with one local a judge, (size, J), by row weights (K,)."""
        count, judges = len(self.position), self.data.num_judges
        rows = difference, self.data.judge, np.arange(count + 1)
        out = (self._skills.T @ sparse.csr_array(rows, shape=(count, judges))).toarray()
        if self.data.with_position:
            out[-1] = self.to_local(advantage * self.position)
        return out


class Posterior(NamedTuple):
    """Covariances of N global latents, and of L of each judge's own, at given precisions."""

    covariance: Floats  # of the global latents, shape (N, N)
    gain: NDArray[np.floating]  # minus covariance of global and local, (L, N, J)
    local: Floats  # of each judge's own, shape (J, L, L)
    coupling: Floats  # precisions of global with local, (L, N, J)
    local_given: Floats  # of the local given the global, (J, L, L)


def posterior(precision: Floats, coupling: Floats, local: Floats) -> Posterior:
    """Invert a precision (N, N) of couplings (L, N, J) and blocks (J, L, L)."""
    given: Any = np.linalg.inv(local)
    pulled = np.einsum("jlm,mnj->lnj", given, coupling)
    for block, other in zip(coupling, pulled, strict=True):
        precision = precision - block @ other.T
    covariance = _inverse(precision)
    # Single precision is enough for what these are used for: variances.
    gain = covariance.astype(np.float32) @ pulled.astype(np.float32)
    own = given + np.einsum("lnj,mnj->jlm", pulled, gain)
    return Posterior(covariance, gain, own, coupling, given)


def _inverse(matrix: Floats) -> Floats:
    """Inverse of a symmetric matrix of which the upper triangle is given."""
    factor = cholesky(matrix.T, lower=True, check_finite=False, overwrite_a=True)
    invert: Any = get_lapack_funcs("potri", dtype=np.float64)
    inverse, info = invert(factor, lower=1, overwrite_c=1)
    if info:
        raise LinAlgError("the precision matrix is singular")
    inverse += inverse.T.copy()  # the other triangle is zero
    inverse[np.diag_indices(len(inverse))] *= 0.5
    return inverse


class RowVariances(NamedTuple):
    """Posterior variances in each row: of the skill difference, the advantage, and between them."""

    difference: Floats
    advantage: Floats
    both: Floats

    def margin(self, reliability: Floats) -> Floats:
        """Variance of the margin."""
        return reliability**2 * self.difference + 2.0 * reliability * self.both + self.advantage


def row_variances(design: Design, found: Posterior) -> RowVariances:
    """Variances of the rows; of the locals, the first is the order bias."""
    data, covariance, position = design.data, found.covariance, design.position
    difference = variances_of(covariance, design.rows)
    if not data.with_position:
        zero = np.zeros_like(difference)
        return RowVariances(difference, zero, zero)
    with_position = design.differences(covariance[:, -1])
    advantage = np.full_like(difference, covariance[-1, -1])
    if len(found.gain):
        gain, (values, columns) = found.gain[0], design.rows
        with_position -= np.sum(values * gain[columns, data.judge[:, None]], axis=1)
        advantage += (found.local[:, 0, 0] - 2.0 * gain[-1])[data.judge]
    return RowVariances(difference, position**2 * advantage, position * with_position)


def solve(found: Posterior, x: Floats, local: Floats) -> tuple[Floats, Floats]:
    """Product of the covariance with a vector of the global latents and one of the locals."""
    if not len(local):
        return found.covariance @ x, local
    width, _, judges = found.coupling.shape
    given = np.einsum("jlm,mj->lj", found.local_given, local.reshape(width, judges))
    pulled = sum(block @ part for block, part in zip(found.coupling, given, strict=True))
    solution = found.covariance @ (x - pulled)
    back = np.stack([solution @ block for block in found.coupling])
    return solution, (given - np.einsum("jlm,mj->lj", found.local_given, back)).ravel()


_LOG_SQRT_2PI = 0.5 * np.log(2.0 * np.pi)


class Moments(NamedTuple):
    """Log probability of each outcome and its derivatives, all of shape (K,)."""

    log_z: Floats
    mean: Floats  # derivative by the mean of the margin
    mean2: Floats  # second derivative
    width: Floats  # derivative by the tie width
    width2: Floats  # second derivative
    cross: Floats  # mixed derivative


def moments(
    outcome: NDArray[np.int64], mean: Floats, variance: Floats, tie_width: float
) -> Moments:
    """Average the probability of outcomes 2, 1 or 0 (won, tied, lost) over K normal margins."""
    s, tied = np.sqrt(2.0 + variance), outcome == 1
    # Seen from the side that won, and of ties from that of the lower tail, where nothing cancels,
    # a performance is between two edges. They move with the tie width, and one may be infinite.
    side = np.where((outcome == 0) | (tied & (mean > 0)), -1.0, 1.0)
    moves, seen = np.where(tied, 1.0, -1.0), side * mean
    high = (seen + moves * tie_width) / s
    low = np.where(tied, (seen - tie_width) / s, -np.inf)
    upper, lower = log_ndtr(high), log_ndtr(low)
    log_z = upper + np.log(-np.expm1(lower - upper))
    at_high, at_low = (np.exp(-0.5 * x**2 - _LOG_SQRT_2PI - log_z) / s for x in (high, low))
    down, up = high * at_high / s, np.where(tied, low, 0.0) * at_low / s
    first, width = at_high - at_low, moves * at_high + at_low
    return Moments(
        log_z,
        side * first,
        up - down - first**2,
        width,
        up - down - width**2,
        -side * (moves * down + up + first * width),
    )


OwnSlopes = Sequence[tuple[Floats, float]]
"""Slopes (K,) of margins in latents that each judge has, and the scales of their priors."""


@dataclass
class ArenaState:
    """Parameters, sites of K rows, and the means of the latents."""

    design: Design
    scales: dict[str, float]  # values by site name of `judged_comparisons`
    log_reliability: Floats  # shape (J,); one zero without judges
    precision: Floats  # of the site of one comparison of each row, (K,)
    shift: Floats  # its precision times mean, shape (K,)
    x: Floats  # means of the global latents
    bias: Floats  # means of judges' order biases
    variances: RowVariances | None = None  # of the rows, as of the last posterior
    precision_then: Floats | None = None  # the sites' precisions at that time
    fixed: frozenset[str] = frozenset()  # scales that are not learned

    @property
    def reliability(self) -> Floats:
        """Reliability of the judge of each row, shape (K,)."""
        return np.exp(self.log_reliability)[self.design.data.judge]

    @property
    def tie_width(self) -> float:
        """Zero where there are no ties."""
        return self.scales.get("tie_width", 0.0)

    def margins(self) -> tuple[Floats, Floats, Floats]:
        """Means of the margins, of the skill differences, and of the advantages."""
        difference = self.design.differences(self.x)
        advantage = self.design.advantages(self.x, self.bias)
        return self.reliability * difference + advantage, difference, advantage

    def cavity_variance(self) -> Floats:
        """Variance of each margin without one of the row's sites; zero before there is any."""
        if self.variances is None or self.precision_then is None:
            return np.zeros_like(self.precision)
        variance = self.variances.margin(self.reliability)
        return variance / np.maximum(1.0 - variance * self.precision_then, 1e-3)

    def cavity(self) -> tuple[Floats, Floats, Moments]:
        """Mean and variance of each margin without one of its sites, and the moments there."""
        mean, variance = self.margins()[0], self.cavity_variance()
        mean = mean + variance * (self.precision * mean - self.shift)
        return mean, variance, moments(self.design.data.outcome, mean, variance, self.tie_width)

    def update_sites(self, cavity: tuple[Floats, Floats, Moments] | None = None) -> None:
        """Match the sites' moments, all at once."""
        mean, variance, found = self.cavity() if cavity is None else cavity
        stretch = 1.0 / (1.0 + found.mean2 * variance)
        self.precision = -found.mean2 * stretch
        self.shift = (found.mean - mean * found.mean2) * stretch

    def prior(self) -> Floats:
        """Prior precisions of the global latents."""
        data = self.design.data
        parts = [np.full(data.num_items, self.scales["scale"] ** -2.0)]
        if self.design.with_categories:
            count = data.num_items * data.num_categories
            parts.append(np.full(count, self.scales["category_scale"] ** -2.0))
        if data.with_position:
            parts.append(np.ones(1))
        return np.concatenate(parts)

    def shared_precision(self) -> Floats:
        """Precision of the global latents, (N, N): the data's part and the prior's."""
        design, weight, reliability = self.design, self._weight, self.reliability
        precision = design.precision(weight * reliability**2, weight * reliability, weight)
        precision[np.diag_indices(design.size)] += self.prior()
        return precision

    def judges_blocks(self, own: OwnSlopes) -> tuple[Floats, Floats]:
        """Precisions of judges' own L latents: with the global ones (L, N, J), and (J, L, L)."""
        design, weight, judges = self.design, self._weight, self.design.data.num_judges
        coupling = np.zeros((len(own), design.size, judges))
        local = np.zeros((judges, len(own), len(own)))
        for i, (one, scale) in enumerate(own):
            coupling[i] = design.coupling(weight * self.reliability * one, weight * one)
            for j, (other, _) in enumerate(own):
                local[:, i, j] = design.to_local(weight * one * other)
            local[:, i, i] += scale**-2.0
        return coupling, local

    @property
    def _weight(self) -> Floats:
        """Precision of the sites of each row together, shape (K,)."""
        return self.design.data.counts * self.precision


def _scale_names(data: ArenaData) -> tuple[str, ...]:
    """Names of the scales that the model of a log has, the tie width among them."""
    has = {
        "scale": True,
        "category_scale": data.num_categories > 0,
        "reliability_scale": data.num_judges > 0,
        "bias_scale": data.num_judges > 0 and data.with_position,
        "tie_width": data.with_ties,
    }
    return tuple(name for name, there in has.items() if there)


def initial_arena_state(data: ArenaData, scales: Mapping[str, float]) -> ArenaState:
    """Sites at margin zero, scales as given or at their prior medians, reliabilities one."""
    design = Design(data)
    zeros = np.zeros(len(data.first))
    state = ArenaState(
        design,
        {name: SCALES[name].median for name in _scale_names(data)},
        np.zeros(max(data.num_judges, 1)),
        zeros,
        zeros,
        np.zeros(design.size),
        np.zeros(design.num_local),
        fixed=frozenset(scales),
    )
    if data.with_ties:
        # From the share of ties between equals, were all items equal.
        share = np.clip(np.average(data.outcome == 1, weights=data.counts), 0.01, 0.9)
        state.scales["tie_width"] = float(np.sqrt(2.0) * ndtri(0.5 + share / 2.0))
    given = check_positive_values(scales, dict.fromkeys(state.scales, ()), "scales")
    state.scales |= {name: float(value) for name, value in given.items()}
    return state
