"""EP on many latents and short rows: from the end of message passing to the posterior of a result.

From given sites on, the host sweeps as EP does with all covariances. Means come by conjugate
gradients. The variances of the margins come from the same random signs in every sweep, so the
sweeps converge.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
from jax import Array
from numpy.typing import NDArray

from bayesrank._memory import check_memory
from bayesrank.infer import sites
from bayesrank.infer.gaussian.links import LinkedGaussian
from bayesrank.infer.gaussian.low_rank import LowRankGaussian, least_residuals
from bayesrank.infer.gaussian.sparse import (
    Linkage,
    NotPositiveError,
    Probes,
    ShortRows,
    SparseGaussian,
    SparsePattern,
)
from bayesrank.infer.posterior import FactorisedPosterior, KeptPosterior, ProbedPosterior
from bayesrank.infer.sites import EPState, Problem
from bayesrank.infer.solution import Limits, Solution

if TYPE_CHECKING:
    from bayesrank.infer.engine import Engine

Numbers = NDArray[np.float64]
BlockArrays = tuple[Array, ...]

_PROBES = 32
_SEED = 0
# Arrays as large as `Phi` that a sweep holds, those of the sweep before included.
_COPIES = 5
# Of a residual that the prior has not: standard deviations are off by about a third of that.
_MOST_REVEALED = 0.01


class TooWideError(ValueError):
    """Data reveal residuals that stand in the algebra for none."""

    def __init__(self) -> None:
        super().__init__(
            "structure='low_rank' would be wrong here: the prior of the latents that all data "
            "share is so wide that rounding hides what the data say about it; give them smaller "
            "prior standard deviations, or use EP(structure='dense')"
        )


class NotProperError(ValueError):
    """Sweeps have come to no proper posterior."""

    def __init__(self) -> None:
        super().__init__(
            "structure='probes' and 'low_rank' need sites of positive precision, as log-concave "
            "likelihoods have them; use 'factorised' if latents are independent, or 'dense' on "
            "fewer of them"
        )


class Probed(NamedTuple):
    """A posterior at given sites."""

    gaussian: SparseGaussian | LowRankGaussian  # the posterior, and draws that know its variances
    probes: Probes
    mean: Numbers  # of the latents, measured from the prior's, shape (n,)
    margins: tuple[Numbers, Numbers]  # means and variances of the sites' margins, shapes (G,)


class HostPrior:
    """A prior as compiled code has packed it (`Large`), multiplied by sites outside of that.

    `variances` (n,) are the prior's, or the ``D`` of its links, rows of ``I - J`` in
    ``(I - J)' D^-1 (I - J)``, or that of ``Phi Phi' + D`` with `factor` ``Phi`` (n, M).
    """

    def __init__(self, large: Any) -> None:
        self.variances, self.factor = np.asarray(large.prior_variances, float), None
        size, parts, self._links, self._own = self.variances.size, large.rows, None, 0
        if large.factor is not None:
            self.factor = np.asarray(large.factor, float)
            what = f"the {self.factor.shape[1]} features of {size:,} latents"
            check_memory(_COPIES * self.factor.nbytes, what, "give them fewer (a smaller rank)")
            self.variances = least_residuals(self.factor, self.variances)
        if large.links is not None:
            self._links = Linkage(_short_rows((large.links,), size), self.variances)
            self._own, parts = size, (large.links, *parts)
        self.pattern = SparsePattern(_short_rows(parts, size))

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


def _short_rows(parts: tuple[tuple[Any, Any], ...], size: int) -> ShortRows:
    """Rows of several blocks, given as values and columns, as those of one."""
    width = max(values.shape[1] for values, _ in parts)

    def padded(array: Any) -> Any:
        return np.pad(np.asarray(array), ((0, 0), (0, width - array.shape[1])))

    values = np.concatenate([padded(values) for values, _ in parts]).astype(float)
    columns = np.concatenate([padded(columns) for _, columns in parts])
    return ShortRows(values, columns, size)


def refined(
    prior: HostPrior,
    tau: Numbers,
    nu: Numbers,
    match: Callable[..., tuple[Numbers, Numbers, int, float]],
    damping: float,
    limits: Limits,
) -> tuple[EPState, float, float]:
    """Sweep from sites (G,) to EP's fixed point; with the log evidence and its standard error.

    ``match(tau, nu, mean, variance)`` finds sites for margins, how many EP skips, and what the
    given sites add to the evidence.
    """
    state, most, delta, skipped, sweep = prior.times(tau, nu), damping, np.inf, 0, 0
    (to_tau, to_nu, skipping, terms), total = match(tau, nu, *state.margins), 0
    while sweep < limits.max_sweeps:
        sweep += 1
        step_tau, step_nu = tau + damping * (to_tau - tau), nu + damping * (to_nu - nu)
        try:
            new = prior.times(step_tau, step_nu, state)
        except NotPositiveError:
            if damping <= sites.SMALLEST_DAMPING:
                raise
            damping = float(sites.next_damping(damping, 0.0, delta, sweep, False, most, np))
            continue
        moved = float(sites.largest_change((state.margins,), (new.margins,), np)) / damping
        damping = float(sites.next_damping(damping, moved, delta, sweep, True, most, np))
        state, tau, nu, delta, skipped = new, step_tau, step_nu, moved, skipping
        total += skipped
        to_tau, to_nu, skipping, terms = match(tau, nu, *state.margins)
        if delta <= limits.tol and skipped == 0:
            break
    log_normaliser, error = prior.log_normaliser(nu, state)
    numbers: list[Any] = [tau, nu, state, damping, delta, sweep, skipped, total, ()]
    return EPState(*numbers), float(terms + log_normaliser), error


def without_covariance(
    solved: Solution, engine: Engine, size: int, rematch: Callable[..., Any]
) -> tuple[Solution, KeptPosterior]:
    """The factorised posterior of `size` latents, or what EP comes to from there with probes."""
    solution: Any = jax.tree.map(np.asarray, solved)
    large, start = solution.large, solution.state
    tau, nu = (np.concatenate(x).astype(float) for x in (start.tau, start.nu))
    if engine.structure == "factorised":
        return solved, _factorised(large, tau, nu)
    cuts = np.cumsum([len(x) for x in start.tau])[:-1]

    def match(*numbers: Numbers) -> tuple[Numbers, Numbers, int, float]:
        taus, nus, skipped, terms = rematch(*(tuple(np.split(x, cuts)) for x in numbers))
        tau, nu = (np.concatenate([np.asarray(x, float) for x in part]) for part in (taus, nus))
        return tau, nu, int(skipped), float(terms)

    prior = HostPrior(large)
    try:
        end, log_evidence, error = refined(prior, tau, nu, match, engine.damping, engine.limits)
    except NotPositiveError as failure:
        if engine.structure == "auto" and large.links is None and large.factor is None:
            return solved, _factorised(large, tau, nu)
        raise NotProperError from failure
    found: Probed = end.posterior
    if large.factor is not None:
        _check_unseen(found.gaussian, prior.variances > large.prior_variances)
    tau, nu = (tuple(np.split(x, cuts)) for x in (end.tau, end.nu))
    after = solution._replace(
        state=end._replace(tau=tau, nu=nu, posterior=None),
        mean=large.prior_mean + found.mean,
        log_evidence=log_evidence,
        log_evidence_error=error,
    )
    return after, ProbedPosterior(found.gaussian, found.probes, size)


def _factorised(large: Any, tau: Numbers, nu: Numbers) -> KeptPosterior:
    """Each latent alone, with the prior and the sites."""
    prior, own = (np.asarray(x, float) for x in (large.prior_variances, large.variances))
    return FactorisedPosterior(own, _short_rows(large.rows, own.size), prior, tau, nu)


def _check_unseen(gaussian: Any, added: NDArray[np.bool_]) -> None:
    """Refuse a `LowRankGaussian` whose data see residuals that the algebra has added."""
    revealed = gaussian.variances * gaussian.residuals.diagonal - 1
    if np.any(revealed[added] > _MOST_REVEALED):
        raise TooWideError


def match_margins(
    problem: Problem,
    taus: BlockArrays,
    nus: BlockArrays,
    means: BlockArrays,
    variances: BlockArrays,
) -> tuple[BlockArrays, BlockArrays, Array, Array]:
    """New sites (G,) of given ones and their margins, how many stay, and terms of the evidence."""
    margins = list(zip(means, variances, strict=True))
    found = sites.propose(problem, taus, nus, margins, 1.0)
    terms = sites.factor_terms(problem, taus, nus, margins, found.tilted)
    return found.tau, found.nu, found.skipped, problem.log_constant + terms
