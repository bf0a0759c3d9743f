"""What the fit of a log knows at any moment: scales, reliabilities, sites and latents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from bayesrank._validate import check_positive_values
from bayesrank.models.comparisons import SCALES
from bayesrank.solvers.comparisons.counted import ArenaData
from bayesrank.solvers.comparisons.judges_design import Design
from bayesrank.solvers.comparisons.judges_gaussian import RowVariances
from bayesrank.solvers.comparisons.judges_sites import Moments, moments

Floats = NDArray[np.float64]
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
