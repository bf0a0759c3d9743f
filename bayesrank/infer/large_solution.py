"""From the end of message passing to the posterior of a large result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array
from numpy.typing import NDArray

from bayesrank._memory import check_memory
from bayesrank.infer import sites
from bayesrank.infer.gaussian.low_rank import least_residuals
from bayesrank.infer.gaussian.sparse import NotPositiveError
from bayesrank.infer.posterior import (
    FactorisedPosterior,
    KeptPosterior,
    ProbedPosterior,
    SparseSites,
)
from bayesrank.infer.probed import HostPrior, Matched, refined, short_rows
from bayesrank.infer.sites import Problem
from bayesrank.infer.solution import Solution

BlockArrays = tuple[Array, ...]

# Arrays as large as `Phi` that a sweep holds, those of the sweep before included.
_COPIES = 5


# Of a residual that the prior has not: standard deviations are off by about a third of that.
_MOST_TOLD = 0.01


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


class Kept(NamedTuple):
    """What stands for a joint covariance: attributes of `EPResult`."""

    posterior: KeptPosterior
    log_evidence_error: float


def without_covariance(
    solved: Solution,
    structure: str,
    rematch: Callable[..., Any],
    *,
    size: int,
    damping: float,
    tol: float,
    max_sweeps: int,
) -> tuple[Solution, Kept]:
    """The factorised posterior as it is, or what EP comes to from there with probes."""
    solution: Any = jax.tree.map(np.asarray, solved)
    large = solution.large
    tau, nu = (np.concatenate(x).astype(float) for x in (solution.tau, solution.nu))
    if structure == "factorised":
        return solved, _factorised(large, tau, nu)
    cuts = np.cumsum([len(x) for x in solution.tau])[:-1]

    def match(*numbers: NDArray[np.float64]) -> Matched:
        taus, nus, skipped, terms = rematch(*(tuple(np.split(x, cuts)) for x in numbers))
        tau, nu = (np.concatenate([np.asarray(x, float) for x in part]) for part in (taus, nus))
        return Matched(tau, nu, int(skipped), float(terms))

    prior = _prior_of(large)
    try:
        end = refined(prior, tau, nu, match, damping=damping, tol=tol, max_sweeps=max_sweeps)
    except NotPositiveError as failure:
        if structure == "auto" and large.links is None and large.factor is None:
            return solved, _factorised(large, tau, nu)
        raise NotProperError from failure
    if large.factor is not None:
        _check_unseen(end.posterior.gaussian, prior.variances > large.prior_variances)
    after = solution._replace(
        tau=tuple(np.split(end.tau, cuts)),
        nu=tuple(np.split(end.nu, cuts)),
        max_change=end.max_change,
        sweep=end.sweep,
        skipped=end.skipped,
        skipped_total=end.skipped_total,
        mean=large.prior_mean + end.posterior.mean,
        log_evidence=end.log_evidence,
    )
    kept = ProbedPosterior(end.posterior.gaussian, end.posterior.probes, size)
    return after, Kept(kept, end.log_evidence_error)


def _factorised(large: Any, tau: NDArray[Any], nu: NDArray[Any]) -> Kept:
    """Each latent alone, with the prior and the sites."""
    sites = SparseSites(large.rows, np.asarray(large.prior_variances, float), tau, nu)
    return Kept(FactorisedPosterior(np.asarray(large.variances, float), sites), 0.0)


def _prior_of(large: Any) -> HostPrior:
    """The prior that compiled code has packed."""
    variances, factor = np.asarray(large.prior_variances, float), None
    if large.factor is not None:
        factor = np.asarray(large.factor, float)
        what = f"the {factor.shape[1]} features of {factor.shape[0]:,} latents"
        check_memory(_COPIES * factor.nbytes, what, "give them fewer (a smaller rank)")
        variances = least_residuals(factor, variances)
    links = None if large.links is None else short_rows((large.links,), variances.size)
    return HostPrior(short_rows(large.rows, variances.size), variances, links, factor)


def _check_unseen(gaussian: Any, added: NDArray[np.bool_]) -> None:
    """Refuse a `LowRankGaussian` whose data see residuals that the algebra has added."""
    told = gaussian.variances * gaussian.residuals.diagonal - 1
    if np.any(told[added] > _MOST_TOLD):
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
