"""EP on many latents and short rows: means by conjugate gradients, variances by probes.

From given sites on, the host sweeps as EP does with all covariances. The variances of the margins
come from the same random signs in every sweep, so the sweeps converge.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesrank.infer.gaussian.links import LinkedGaussian
from bayesrank.infer.gaussian.low_rank import LowRankGaussian
from bayesrank.infer.gaussian.sparse import (
    Linkage,
    NotPositiveError,
    Probes,
    ShortRows,
    SparseGaussian,
    SparsePattern,
)
from bayesrank.infer.sites import SMALLEST_DAMPING, largest_change, next_damping

Numbers = NDArray[np.float64]

_PROBES = 32
_SEED = 0


class Matched(NamedTuple):
    """Sites (G,) for given margins, how many EP skipped, and what the old add to the evidence."""

    tau: Numbers
    nu: Numbers
    skipped: int
    log_terms: float


class Probed(NamedTuple):
    """A posterior at given sites."""

    gaussian: SparseGaussian | LowRankGaussian  # the posterior, and draws that know its variances
    probes: Probes
    mean: Numbers  # of the latents, measured from the prior's, shape (n,)
    margins: tuple[Numbers, Numbers]  # means and variances of the sites' margins, shapes (G,)


class Refined(NamedTuple):
    """EP's end: the posterior, and what `bayesrank.infer.sites.EPState` and `EPResult` call so."""

    posterior: Probed
    tau: Numbers
    nu: Numbers
    max_change: float
    sweep: int
    skipped: int
    skipped_total: int
    log_evidence: float
    log_evidence_error: float


def short_rows(parts: tuple[tuple[Any, Any], ...], size: int) -> ShortRows:
    """Rows of several blocks, given as values and columns, as those of one."""
    width = max(values.shape[1] for values, _ in parts)

    def padded(array: Any) -> Any:
        return np.pad(np.asarray(array), ((0, 0), (0, width - array.shape[1])))

    values = np.concatenate([padded(values) for values, _ in parts]).astype(float)
    columns = np.concatenate([padded(columns) for _, columns in parts])
    return ShortRows(values, columns, size)


def _stacked(above: ShortRows, below: ShortRows) -> ShortRows:
    parts = ((rows.values, rows.columns) for rows in (above, below))
    return short_rows(tuple(parts), below.size)


class HostPrior:
    """A prior that is multiplied by sites of short `rows` outside of compiled code.

    `variances` (n,) are the prior's, or the ``D`` of its `links`, rows of ``I - J`` in
    ``(I - J)' D^-1 (I - J)``, or that of ``Phi Phi' + D`` with `factor` ``Phi`` (n, M).
    """

    def __init__(
        self,
        rows: ShortRows,
        variances: Numbers,
        links: ShortRows | None = None,
        factor: Numbers | None = None,
    ) -> None:
        self.variances, self.factor = variances, factor
        self.pattern = SparsePattern(rows if links is None else _stacked(links, rows))
        self._links = None if links is None else Linkage(links, variances)
        self._own = 0 if links is None else len(links.values)

    def times(self, tau: Numbers, nu: Numbers, before: Probed | None = None) -> Probed:
        """Multiply by sites; a posterior at sites that are near says where to start."""
        gaussian = self._gaussian(tau, nu, None if before is None else before.gaussian)
        mean = gaussian.mean(None if before is None else before.mean)
        probes = gaussian.probes(_SEED, _PROBES, None if before is None else before.probes.draws)
        margins = self.pattern.matrix @ mean, gaussian.margin_variances(probes)
        return Probed(gaussian, probes, mean, (margins[0][self._own :], margins[1][self._own :]))

    def _gaussian(self, tau: Numbers, nu: Numbers, near: Any) -> SparseGaussian | LowRankGaussian:
        if self._links is not None:
            return LinkedGaussian(self.pattern, self._links, tau, nu)
        if self.factor is None:
            return SparseGaussian(self.pattern, self.variances, tau, nu)
        explained = None if near is None else near.explained
        return LowRankGaussian(self.pattern, self.factor, self.variances, tau, nu, explained)

    def log_normaliser(self, nu: Numbers, posterior: Probed) -> tuple[float, float]:
        """Log integral of prior times sites, and its standard error."""
        log_determinant, error = posterior.gaussian.log_determinant(_SEED)
        log_determinant += np.sum(np.log(self.variances))
        # The shift times the mean of the latents is that of the sites' margins, each times its own.
        return 0.5 * (nu @ posterior.margins[0] - log_determinant), 0.5 * error


def refined(
    prior: HostPrior,
    tau: Numbers,
    nu: Numbers,
    match: Callable[[Numbers, Numbers, Numbers, Numbers], Matched],
    *,
    damping: float,
    tol: float,
    max_sweeps: int,
) -> Refined:
    """Sweep from sites (G,) to EP's fixed point; ``match(tau, nu, mean, variance)`` matches."""
    state, most, delta, skipped, sweep = prior.times(tau, nu), damping, np.inf, 0, 0
    found, total = match(tau, nu, *state.margins), 0
    while sweep < max_sweeps:
        sweep += 1
        step_tau, step_nu = tau + damping * (found.tau - tau), nu + damping * (found.nu - nu)
        try:
            new = prior.times(step_tau, step_nu, state)
        except NotPositiveError:
            if damping <= SMALLEST_DAMPING:
                raise
            damping = float(next_damping(damping, 0.0, delta, sweep, False, most, np))
            continue
        moved = float(largest_change((state.margins,), (new.margins,), np)) / damping
        damping = float(next_damping(damping, moved, delta, sweep, True, most, np))
        state, tau, nu, delta, skipped = new, step_tau, step_nu, moved, found.skipped
        total += skipped
        found = match(tau, nu, *state.margins)
        if delta <= tol and skipped == 0:
            break
    log_normaliser, error = prior.log_normaliser(nu, state)
    log_evidence = float(found.log_terms + log_normaliser)
    return Refined(state, tau, nu, delta, sweep, skipped, total, log_evidence, error)
