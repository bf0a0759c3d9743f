"""The fit of a log: sweeps of expectation propagation that carry the scales along.

After each sweep every scale takes a step towards the maximum of the evidence at the present sites.
So there is one loop, and its last state is the result.
"""

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import LinAlgError
from scipy.special import ndtri
from threadpoolctl import threadpool_limits

from bayesrank._stack import outside
from bayesrank._validate import check_positive_values
from bayesrank.infer import ConvergenceWarning
from bayesrank.models.comparisons import SCALES
from bayesrank.solvers.comparisons.judged_gaussian import Arrow, Precisions
from bayesrank.solvers.comparisons.judged_moments import matched, moments, row_cavities, stretch
from bayesrank.solvers.comparisons.judged_result import ArenaFit
from bayesrank.solvers.comparisons.judged_rows import JudgedRows, judged_rows

Floats = NDArray[np.float64]

_HELD = 4  # sweeps before log reliabilities move: all at once, they and skills would cycle
# Shares of the way to matched sites, in a sweep; the larger is for those of several predictors.
_LEAST_SHARE, _MOST_SHARE = 0.05, 0.75
_LONGEST = 0.5  # step of the logarithm of a scale
_NATS = 1e-3  # of evidence, which scales at rest would gain by a step
_STEP = 0.01  # in the log tie width, for differences
# Beyond this number, covariances of judges' own latents with skills are not kept. They are of
# weight where judges are few; of thousands, none says much of how high the skills are.
_MOST_ACROSS = 5_000_000
# Numbers in the precisions below which threads of BLAS wait for each other.
_MANY = 10_000_000
_CHUNK = 8192  # rows whose numbers stay in a processor's cache
# Sums over rows and precisions beyond which it is not asked whether judges have tastes.
_MOST_TASTES = 50_000_000
_HINT = 0.03  # a scale of tastes at which the evidence's slope says whether there are any
# Nodes of the quadrature over log reliability, by the largest standard deviation of a cavity.
_NODES = ((0.0, 1), (0.25, 5), (0.5, 7), (0.8, 11), (np.inf, 21))

_CORE = {"scale": "f", "category_scale": "category_skill"}
_OWN = {"bias_scale": "bias", "reliability_scale": "reliability", "taste_scale": "taste"}


@dataclass(frozen=True)
class _State:
    """Where the fit is."""

    rows: JudgedRows
    fixed: frozenset[str]  # scales that are not learned
    scales: dict[str, float]  # by name
    sites: tuple[Floats, Floats]  # of one comparison of each row, (3, 3, K) and (3, K)

    @cached_property
    def posterior(self) -> Arrow:
        """The prior at these scales times the sites; an error if that has no covariance."""
        return self.precisions().arrow()

    def precisions(self) -> Precisions:
        """Precisions of the prior times the sites."""
        rows = self.rows
        core, own = np.ones(rows.core.shape), np.ones(rows.own.shape[1:])
        for name, value in self.scales.items():
            if name in _CORE:
                core[rows.blocks[_CORE[name]]] = value**-2.0
            elif name in _OWN:
                own[rows.alone[_OWN[name]]] = value**-2.0
        return Precisions.of(rows, self.sites, (core, own))

    @property
    def tie_width(self) -> float:
        """Zero where there are no ties."""
        return self.scales.get("tie_width", 0.0)

    def chunks(self) -> Iterator[tuple[slice, int, Floats, Floats, Any]]:
        """Some rows at a time: which, how many are ties, their cavities, and which are proper."""
        rows = self.rows
        first_tie = len(rows.counts) - rows.num_tied
        for start in range(0, len(rows.counts), _CHUNK):
            some = slice(start, min(start + _CHUNK, len(rows.counts)))
            precision, shift = (part[..., some] for part in self.sites)
            mean, covariance, proper = row_cavities(
                precision, shift, *self.posterior.predictors(rows, some)
            )
            if not proper.all():
                mean, covariance = np.where(proper, mean, 0.0), np.where(proper, covariance, 0.0)
            tied = max(0, some.stop - max(start, first_tie))
            yield some, tied, mean, covariance, proper


def _num_nodes(covariance: Floats) -> int:
    """Enough nodes for log reliabilities as uncertain as these."""
    spread = float(np.sqrt(covariance[2, 2].max()))
    return next(number for most, number in _NODES if spread <= most)


class _Sweep(NamedTuple):
    """Sites after a sweep, and what it saw."""

    sites: tuple[Floats, Floats]
    slope: float  # of the evidence by the log tie width
    squares: float  # of the slopes of all comparisons
    skipped: int  # sites that could not be matched


def _sweep(state: _State, share: float, held: bool) -> _Sweep:
    """Move sites a share of the way to those that match."""
    sites = state.sites[0].copy(), state.sites[1].copy()
    slope, squares, skipped = 0.0, 0.0, 0
    for some, tied, mean, covariance, proper in state.chunks():
        if held:  # as if all judges were known to be typical
            mean[2], covariance[2], covariance[:, 2] = 0.0, 0.0, 0.0
        found = moments(tied, mean, covariance, state.tie_width, _num_nodes(covariance))
        *wanted, usable = matched(found, mean, covariance)
        usable &= proper
        for part, target in zip(sites, wanted, strict=True):
            part[..., some] += np.where(usable, share * (target - part[..., some]), 0.0)
        by_width = np.where(usable, state.tie_width * found.width, 0.0)
        slope += float(state.rows.counts[some] @ by_width)
        squares += float(state.rows.counts[some] @ by_width**2)
        skipped += int(np.sum(~usable))
    return _Sweep(sites, slope, squares, skipped)


def _known(state: _State, name: str) -> tuple[float, float, float]:
    """Sum of squares of the means of a scale's latents, and what share of them is known.

    Of latents with prior variance ``s^2`` and covariance ``C``, data determine ``1 - C / s^2``:
    returns its trace and its sum of squares. Own latents of two judges count as uncorrelated.
    """
    rows, posterior, precision = state.rows, state.posterior, state.scales[name] ** -2.0
    if name in _CORE:
        at = rows.blocks[_CORE[name]]
        means, known = posterior.mean[at], -precision * posterior.covariance[at, at]
        known[np.diag_indices(means.size)] += 1.0
        trace = float(np.trace(known))
    else:
        at = rows.alone[_OWN[name]]
        means = posterior.own_mean[:, at].ravel()
        known = -precision * posterior.own_covariance[:, at, at]
        known += np.eye(known.shape[1])
        trace = float(np.trace(known, axis1=1, axis2=2).sum())
    return float(means @ means), trace, float(np.sum(known**2))


def _steps(state: _State, sweep: _Sweep, names: Collection[str]) -> tuple[dict[str, float], float]:
    """Steps of the logarithms of scales to the top of the evidence, and the nats they would gain.

    The evidence's slope by the logarithm of a scale has MacKay's number of determined latents
    (1992, Neural Computation 4, 415-447). Twice the squares of what they are determined by is the
    Fisher information.
    """
    steps, gain = {}, 0.0
    for name in names:
        if name == "tie_width":
            slope, information = sweep.slope, sweep.squares
        else:
            total, trace, squares = _known(state, name)
            slope = state.scales[name] ** -2.0 * total - trace
            information = 2.0 * squares
        prior = SCALES[name]
        slope -= np.log(state.scales[name] / prior.median) / prior.sd**2
        step = slope / (information + prior.sd**-2.0)
        gain += 0.5 * slope * step
        steps[name] = float(np.clip(step, -_LONGEST, _LONGEST))
    return steps, gain


class _Paces:
    """How far scales go along their steps: less where the last one went too far."""

    def __init__(self, names: Iterable[str]) -> None:
        self.last = dict.fromkeys(names, 0.0)
        self.pace = dict.fromkeys(names, 1.0)
        self.most = dict.fromkeys(names, 1.0)

    def scales(
        self, scales: Mapping[str, float], steps: dict[str, float], share: float
    ) -> dict[str, float]:
        """Scales after steps as slow as the sites, which follow them."""
        moved = dict(scales)
        for name, step in steps.items():
            if step * self.last[name] < 0.0:
                self.most[name] = 0.8 * self.pace[name]
                self.pace[name] *= 0.5
            else:
                self.pace[name] = min(self.most[name], 1.2 * self.pace[name])
            moved[name] = float(scales[name] * np.exp(share * self.pace[name] * step))
            self.last[name] = step
        return moved


def fit_arena(
    num_items: int,
    comparisons: ArrayLike,
    *,
    scales: Mapping[str, float] | None = None,
    tastes: bool | Literal["auto"] = False,
    max_sweeps: int = 200,
    tolerance: float = 0.01,
    callback: Callable[[int, float], None] | None = None,
    **columns: Any,
) -> ArenaFit:
    """Learn the scales of a log, and the posterior of all else.

    Parameters
    ----------
    num_items, comparisons
        As for `bayesrank.models.judged_comparisons`.
    scales
        Values of scales that are held fixed, by their names in
        `bayesrank.models.judged_comparisons`; the others are learned.
    tastes
        Whether each judge has a taste for each item; "auto" learns tastes if judges disagree more
        than chance has it, by one standard error, and the log is not too large to ask.
    max_sweeps
        Largest number of sweeps.
    tolerance
        Largest change in a sweep at which latents are at rest, in posterior standard deviations.
    callback
        Called after each sweep with its number and its largest change.
    **columns
        ``outcomes``, ``position``, ``judges``, ``num_judges``, ``categories``, ``num_categories``
        and ``weights``, as for `bayesrank.models.judged_comparisons`.

    Returns
    -------
    ArenaFit
        Scales, and the Gaussian posterior of all else.

    Raises
    ------
    ValueError
        If an argument cannot be used; if `scales` has a name that this log's model has not, or a
        value that is not positive.

    Warns
    -----
    ConvergenceWarning
        If it has not converged after `max_sweeps`.
    """
    given = dict(scales or {})
    asks = tastes == "auto" and "taste_scale" not in given
    said = {**columns, "tastes": tastes is True or "taste_scale" in given}
    state = _start(judged_rows(num_items, comparisons, **said), given)
    calls = max_sweeps, tolerance, callback
    with threadpool_limits(_num_threads(state.rows), user_api="blas"):
        found = _settled(state, _HELD if state.rows.num_judges else 0, *calls)
    if asks and found.converged and _may_ask(state.rows):  # a slope says nothing elsewhere
        said["tastes"] = True
        rows = judged_rows(num_items, comparisons, **said)
        with threadpool_limits(_num_threads(rows), user_api="blas"):
            if _disagree(found.state, rows):
                found = _settled(_start(rows, given), _HELD, *calls)
    if not found.converged:
        warnings.warn(
            f"the fit of the log has not converged after {max_sweeps} sweeps; the last changed "
            f"something by {found.change:.2g} standard deviations",
            ConvergenceWarning,
            stacklevel=outside(),
        )
    return _fit(found)


def _num_threads(rows: JudgedRows) -> int | None:
    """One for few numbers, where threads of BLAS wait for each other; else as many as there are."""
    judges, own, core = rows.across.shape
    return 1 if core * (core + judges * own) < _MANY else None


def _may_ask(rows: JudgedRows) -> bool:
    """Whether tastes, some of them for each judge, are few enough to look for."""
    if rows.num_judges < 2:
        return False
    each = min(rows.blocks["f"].stop, 2.0 * len(rows.counts) / rows.num_judges)
    core = rows.across.shape[2]
    return 100 * len(rows.counts) + rows.num_judges * each * (each + core) < _MOST_TASTES


def _disagree(state: _State, rows: JudgedRows) -> bool:
    """Whether judges disagree more than chance has it, given rows with tastes.

    At a scale near zero, where the posterior is as without tastes, the evidence's slope over the
    root of its information is the score statistic of the variance of tastes.
    """
    near = replace(state, rows=rows, scales={**state.scales, "taste_scale": _HINT})
    total, trace, squares = _known(near, "taste_scale")
    return bool(_HINT**-2.0 * total - trace > np.sqrt(2.0 * squares))


class _Rest(NamedTuple):
    """The last state of the sweeps."""

    state: _State
    converged: bool
    number: int  # of sweeps
    change: float  # of the last one, in posterior standard deviations


def _settled(
    state: _State,
    held: int,
    max_sweeps: int,
    tolerance: float,
    callback: Callable[[int, float], None] | None,
) -> _Rest:
    """Sweep until sites and scales are at rest; reliabilities are held at first."""
    most = _MOST_SHARE if state.rows.num_judges else 1.0
    share, change, number = most, np.inf, 0
    paces = _Paces(state.scales)
    for number in range(1, max_sweeps + 1):
        found = _sweep(state, share, number <= held)
        free = state.scales.keys() - state.fixed
        free -= {"reliability_scale"} if number <= held + 2 else set()
        steps, gain = _steps(state, found, sorted(free))
        moved = paces.scales(state.scales, steps, share)
        try:
            after = replace(state, scales=moved, sites=found.sites)
            change, before = _distance(state.posterior, after.posterior) / share, change
        except LinAlgError:
            share = max(0.5 * share, _LEAST_SHARE)
            continue
        # A scale that moves takes its latents along; that alone is no reason to slow down.
        far = max(abs(np.log(moved[name] / state.scales[name])) for name in moved)
        slower = change > before and number > held + 1 and share * change > 3.0 * far
        share = float(np.clip(share * (0.5 if slower else 1.3), _LEAST_SHARE, most))
        state = after
        if callback is not None:
            callback(number, change)
        if max(change / tolerance, gain / _NATS) < 1.0 and number > held + 2 and not found.skipped:
            return _Rest(state, True, number, change)
    return _Rest(state, False, number, change)


def _start(rows: JudgedRows, given: Mapping[str, float]) -> _State:
    """Sites that say nothing, scales as given or at their prior medians."""
    names = {
        "scale": True,
        "category_scale": rows.num_categories > 0,
        "reliability_scale": "reliability" in rows.alone,
        "bias_scale": "bias" in rows.alone,
        "taste_scale": "taste" in rows.alone,
        "tie_width": rows.with_ties,
    }
    scales = {name: SCALES[name].median for name, there in names.items() if there}
    if rows.with_ties:
        # From the share of ties between equals, were all items equal.
        wins = len(rows.counts) - rows.num_tied
        share = np.clip(rows.counts[wins:].sum() / rows.counts.sum(), 0.01, 0.9)
        scales["tie_width"] = float(np.sqrt(2.0) * ndtri(0.5 + share / 2.0))
    fixed = check_positive_values(given, dict.fromkeys(scales, ()), "scales")
    scales |= {name: float(value) for name, value in fixed.items()}
    count = len(rows.counts)
    sites = np.zeros((3, 3, count)), np.zeros((3, count))
    return _State(rows, frozenset(fixed), scales, sites)


def _distance(before: Arrow, after: Arrow) -> float:
    """Largest change of a mean, in standard deviations, and of the logarithm of one of these."""
    variances = after.variances()
    of_means = np.abs(after.means() - before.means()) / np.sqrt(variances)
    of_spreads = 0.5 * np.abs(np.log(variances / before.variances()))
    return float(max(of_means.max(), of_spreads.max()))


class _Border(NamedTuple):
    """Precisions that a latent shares with the core (N,), with judges' own (J, L), and its own."""

    core: Floats
    own: Floats
    alone: float


def _log_scale(state: _State, name: str) -> _Border:
    """What the logarithm of a scale ``s`` sees, by the delta method.

    A latent ``x`` has the precision ``exp(-2 log s)``, so it shares ``-2 x / s^2`` with ``log s``.
    """
    rows, found = state.rows, state.posterior
    core, own = np.zeros_like(found.mean), np.zeros_like(found.own_mean)
    if name in _CORE:
        at: Any = rows.blocks[_CORE[name]]
        core[at] = found.mean[at]
        spread = np.diagonal(found.covariance)[at].sum()
    else:
        at = rows.alone[_OWN[name]]
        own[:, at] = found.own_mean[:, at]
        spread = np.diagonal(found.own_covariance, axis1=1, axis2=2)[:, at].sum()
    twice = 2.0 * state.scales[name] ** -2.0
    squares = float(core @ core + np.sum(own**2) + spread)
    return _Border(-twice * core, -twice * own, SCALES[name].sd ** -2.0 + twice * squares)


def _log_width(state: _State) -> _Border:
    """What the log tie width sees, by the delta method: sites depend on it and on predictors."""
    rows = state.rows
    towards, alone = np.zeros_like(state.sites[1]), SCALES["tie_width"].sd ** -2.0
    for some, tied, mean, covariance, _ in state.chunks():
        widths = state.tie_width * np.exp([-_STEP, 0.0, _STEP])
        low, here, high = (
            moments(tied, mean, covariance, width, _num_nodes(covariance)) for width in widths
        )
        cross = (high.gradient - low.gradient) / (2.0 * _STEP)
        bend = (widths[2] * high.width - widths[0] * low.width) / (2.0 * _STEP)
        gain, _ = stretch(here, covariance)
        towards[:, some] = -np.einsum("jik,jk->ik", gain, cross)
        bend += np.einsum("ik,ijk,jk->k", cross, covariance, towards[:, some])
        alone -= float(rows.counts[some] @ bend)
    towards *= rows.counts
    return _Border(rows.core.sums(towards), rows.own.sums(towards), alone)


def _uncertain(state: _State) -> Arrow:
    """The posterior where scales and the tie width are uncertain if they were learned.

    The tie width stays, behind all others. Scales of logs without judges count as known here, and
    `settles_scales` says whether they may.
    """
    free, found = state.scales.keys() - state.fixed, state.posterior
    width = [_log_width(state)] if "tie_width" in free else []
    scales = sorted(free - {"tie_width"}) if state.rows.num_judges else []
    seen, size = [*width, *(_log_scale(state, name) for name in scales)], found.mean.size
    if seen:
        core, own, alone = (np.array(part) for part in zip(*seen, strict=True))
        found, size = state.precisions().bordered(core, own, alone).arrow(), size + len(width)
    covariance, across = found.covariance[:size, :size], found.across[..., :size]
    if "tie_width" in state.fixed:
        covariance = np.pad(covariance, (0, 1))
        across = np.pad(across, ((0, 0), (0, 0), (0, 1)))
    return found._replace(covariance=covariance, across=across)


def _fit(last: _Rest) -> ArenaFit:
    """What was found, with uncertain scales."""
    state = last.state
    rows, found = state.rows, _uncertain(state)
    mean = state.posterior.mean
    if rows.with_ties:
        mean = np.append(mean, np.log(state.tie_width))
    return ArenaFit(
        mean=mean,
        covariance=found.covariance,
        num_items=rows.blocks["f"].stop,
        num_categories=rows.num_categories,
        num_covariates=rows.blocks["covariate_effect"].stop - rows.blocks["covariate_effect"].start,
        with_position="position_effect" in rows.blocks,
        with_ties=rows.with_ties,
        own_mean=state.posterior.own_mean,
        own_covariance=found.own_covariance,
        across=found.across if found.across.size <= _MOST_ACROSS else None,
        scales=dict(state.scales),
        converged=last.converged,
        num_sweeps=last.number,
        tasted=rows.tasted,
    )
