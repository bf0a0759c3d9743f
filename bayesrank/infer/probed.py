"""EP on many latents and short rows: means by conjugate gradients, variances by probes.

It starts from given sites and goes on as EP does where all covariances are kept, with the variances
of the margins from the same random signs in every sweep, so that it converges.
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

__all__ = ["Matched", "Probed", "refined", "short_rows"]

Numbers = NDArray[np.float64]

_PROBES = 32
_SEED = 0
_SMALLEST_DAMPING = 0.05


class Matched(NamedTuple):
    """New sites, shapes (G,), of given margins.

    Attributes
    ----------
    tau, nu
        Their precisions and precision-means.
    skipped
        Number of those that keep their old ones.
    log_terms
        What the old sites and the cavities contribute to the log evidence.
    """

    tau: Numbers
    nu: Numbers
    skipped: int
    log_terms: float


class Probed(NamedTuple):
    """EP's end.

    Attributes
    ----------
    gaussian, probes
        The posterior, and draws that know its variances.
    tau, nu
        Its sites, shape (G,).
    mean
        Of the latents, measured from the prior's, shape (n,).
    delta, sweep, skipped, skipped_total
        As of `bayesrank.infer.sites.EPState`.
    log_evidence, log_evidence_error
        EP's log evidence, and the standard error of the log determinant in it.
    """

    gaussian: SparseGaussian | LowRankGaussian
    probes: Probes
    tau: Numbers
    nu: Numbers
    mean: Numbers
    delta: float
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


class _ProbedState(NamedTuple):
    gaussian: SparseGaussian | LowRankGaussian
    probes: Probes
    mean: Numbers
    margins: tuple[Numbers, Numbers]


def refined(
    rows: ShortRows,
    variances: Numbers,
    tau: Numbers,
    nu: Numbers,
    match: Callable[[Numbers, Numbers, Numbers, Numbers], Matched],
    *,
    links: ShortRows | None = None,
    factor: Numbers | None = None,
    damping: float,
    tol: float,
    max_sweeps: int,
) -> Probed:
    """Sweep from given sites to EP's fixed point.

    Parameters
    ----------
    rows, variances
        Rows of all sites, and variances of the prior, shape (n,).
    tau, nu
        Sites to start from, shape (G,).
    match
        ``match(tau, nu, mean, variance)`` of sites and margins.
    links
        Rows of ``I - J`` of a prior of precision ``(I - J)' D^-1 (I - J)``, with `variances` on the
        diagonal of ``D``. They count as Gaussian sites that stay as they are.
    factor
        ``Phi`` of a prior ``Phi Phi' + D``, shape (n, M), whose ``D`` is `variances`.
    damping, tol, max_sweeps
        As those of `EP`.

    Raises
    ------
    NotPositiveError
        If a site has a negative precision, as where a likelihood is not log-concave.
    """
    own = 0 if links is None else len(links.values)
    linked = None if links is None else Linkage(links, variances)
    pattern = SparsePattern(rows if links is None else _stacked(links, rows))
    most = damping

    def posterior(tau: Numbers, nu: Numbers, old: _ProbedState | None) -> _ProbedState:
        gaussian: SparseGaussian | LowRankGaussian
        if linked is not None:
            gaussian = LinkedGaussian(pattern, linked, tau, nu)
        elif factor is None:
            gaussian = SparseGaussian(pattern, variances, tau, nu)
        else:
            near: Any = None if old is None else old.gaussian
            before = None if near is None else near.explained
            gaussian = LowRankGaussian(pattern, factor, variances, tau, nu, before)
        mean = gaussian.mean(None if old is None else old.mean)
        draws = None if old is None else old.probes.draws
        probes = gaussian.probes(_SEED, _PROBES, draws)
        margins = pattern.matrix @ mean, gaussian.margin_variances(probes)
        return _ProbedState(gaussian, probes, mean, (margins[0][own:], margins[1][own:]))

    state, delta, skipped, sweep = posterior(tau, nu, None), np.inf, 0, 0
    found, total = match(tau, nu, *state.margins), 0
    while sweep < max_sweeps:
        sweep += 1
        step_tau, step_nu = (
            old + damping * (new - old) for old, new in ((tau, found.tau), (nu, found.nu))
        )
        try:
            new = posterior(step_tau, step_nu, state)
        except NotPositiveError:
            if damping <= _SMALLEST_DAMPING:
                raise
            damping = max(0.5 * damping, _SMALLEST_DAMPING)
            continue
        moved = _largest_change(state.margins, new.margins) / damping
        damping = min(most, max(damping * (0.5 if moved > delta else 1.2), _SMALLEST_DAMPING))
        state, tau, nu, delta, skipped = new, step_tau, step_nu, moved, found.skipped
        total += skipped
        found = match(tau, nu, *state.margins)
        if delta <= tol and skipped == 0:
            break
    log_determinant, error = state.gaussian.log_determinant(_SEED)
    # The shift times the mean of the latents is that of the sites' margins, each times its own.
    log_normaliser = 0.5 * (
        nu @ (pattern.matrix @ state.mean)[own:] - log_determinant - np.sum(np.log(variances))
    )
    return Probed(
        state.gaussian,
        state.probes,
        tau,
        nu,
        state.mean,
        float(delta),
        sweep,
        skipped,
        total,
        float(found.log_terms + log_normaliser),
        0.5 * error,
    )


def _largest_change(before: tuple[Numbers, Numbers], after: tuple[Numbers, Numbers]) -> float:
    (mean, variance), (new_mean, new_variance) = before, after
    known = (variance > 0) & (new_variance > 0)
    old, new = (np.where(known, v, 1.0) for v in (variance, new_variance))
    moved = np.maximum(np.abs(new_mean - mean) / np.sqrt(new), np.abs(np.log(new / old)))
    return float(np.max(np.where(known, moved, 0.0), initial=0.0))
