"""Hyperparameters by maximum evidence, or by MAP where they have priors."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.optimize import OptimizeResult, minimize

from bayesrank._stack import outside
from bayesrank._validate import check_count
from bayesrank.infer.ep import EP
from bayesrank.infer.hyper.ascent import ascend
from bayesrank.infer.hyper.estimated import EstimatedEvidence
from bayesrank.infer.hyper.hyperparameters import EvidenceEvaluation, Hyperparameters, first_sites
from bayesrank.infer.reader.traced import Traced
from bayesrank.infer.running import ConvergenceWarning, LearnedParams, warn_of

# Modes this much lower than the best, in nats, compete with it; a valley between two is so deep,
# and ends that are nearer than this on the unconstrained scale are one.
_COMPETES, _VALLEY, _NEAR = 4.0, 0.1, 0.3
# The search leaves no hyperparameter further from its start than this, on its unconstrained scale
# (a logarithm, for positive ones: a factor of about 3,000).
_REACH = 8.0
# Nearer to an end of its domain than this share of it, a hyperparameter is at that end: it comes
# there on the unconstrained scale, where the way to the end itself has no end.
_EDGE = 1e-3
_STEPS, _TOLERANCE = 200, 1e-6
# Of an evidence that is an estimate, the gain of a step counts in nats: a step that gains .001 is a
# twentieth of a posterior standard deviation long.
_NATS = 1e3
_NOWHERE = "EP does not converge at these hyperparameters"


@dataclass(frozen=True)
class EvidenceMaximum:
    """Where the evidence is largest; unpacks as ``params, log_evidence``.

    Attributes
    ----------
    params
        Values of the hyperparameters, those held fixed included.
    log_evidence
        EP's log evidence there, in nats, without the prior density of the hyperparameters.
    log_prior
        Log prior density of the `sample` hyperparameters there.
    log_evidence_error
        Standard error of `log_evidence` where it is an estimate, as without covariances; else 0.
    converged
        Whether the optimiser has converged, inside the bounds.
    at_bound
        Hyperparameters that stopped at the edge of the region searched, or of a domain with two
        ends.
    message
        What the optimiser said.
    num_evaluations
        Number of times the evidence was computed, over all restarts.
    restarts
        ``log_evidence + log_prior`` at the end of each start.
    """

    params: dict[str, np.ndarray]
    log_evidence: float
    log_prior: float
    log_evidence_error: float
    converged: bool
    at_bound: tuple[str, ...]
    message: str
    num_evaluations: int
    restarts: tuple[float, ...] = field(repr=False)

    def __iter__(self) -> Iterator[Any]:
        yield self.params
        yield self.log_evidence


class Mode(NamedTuple):
    """The most probable hyperparameters on their unconstrained scale."""

    free: Hyperparameters
    flat: np.ndarray  # the point, shape (d,)
    evaluation: EvidenceEvaluation  # there; its objective is the log density of the point
    gradient: np.ndarray  # (d,)
    num_evaluations: int  # of the evidence
    others: tuple[Mode, ...] = ()  # modes that compete with it, best first


class _SearchEnd(NamedTuple):
    """The end of one run of the optimiser, with the evaluation and the gradient there."""

    outcome: OptimizeResult
    evaluation: EvidenceEvaluation
    gradient: np.ndarray


def maximize_evidence(
    model: Callable[..., Any] | EP,
    *args: Any,
    params: Mapping[str, Any] | None = None,
    init: Mapping[str, Any] | None = None,
    num_restarts: int = 0,
    rng_key: Array | None = None,
    max_steps: int = _STEPS,
    tol: float = _TOLERANCE,
    callback: Callable[[int, float], None] | None = None,
    **kwargs: Any,
) -> EvidenceMaximum:
    """Find the hyperparameters that make the data most probable.

    Maximises EP's log evidence plus the log prior density of the hyperparameters that are `sample`
    sites (their values' own density, as in `numpyro.infer.autoguide.AutoDelta`); `param` sites have
    no prior and count by the evidence alone. Gradients hold EP's sites fixed; each evaluation
    starts from the sites of the one before it.  The optimiser is SciPy's L-BFGS-B on the
    unconstrained scale.

    Without covariances (priors of low rank, and latents drawn given few others, by ``EP``'s
    `structure`) gradient and evidence are estimates, from the same random numbers at every point.
    The ascent then goes by the gradient alone, until a step would gain less than .001 nats; what is
    learned is off by some .06 posterior standard deviations, or less.

    Parameters
    ----------
    model
        The NumPyro program; or an `EP` engine of it, whose settings and compiled code are then
        used.
    *args, **kwargs
        Arguments of the program.
    params
        Values of sites to be held fixed, by name.
    init
        Where to start, by name; hyperparameters not named start at their initial value or prior
        median.
    num_restarts
        Number of further starts, from points spread around the first by one unit on the
        unconstrained scale.
    rng_key
        Random key for these; by default ``jax.random.key(0)``.
    max_steps
        Number of steps after which a start is given up.
    tol
        A start has converged when a step gains less than this share of the objective; where that
        is an estimate, less than a thousand times this, in nats.
    callback
        Called after each evaluation with its number and the best objective so far.

    Returns
    -------
    EvidenceMaximum

    Raises
    ------
    ValueError
        If the program is not one that EP can take, has no free hyperparameters, `init` names
        others or is outside their domains, or a setting makes no sense.

    Warns
    -----
    ConvergenceWarning
        If the optimiser has not converged, or stopped at an edge.
    """
    engine = model if isinstance(model, EP) else EP(model)
    _check_settings(num_restarts, max_steps, tol)
    with jax.enable_x64(engine.precision == "float64"):
        given = dict(params or {})
        called = args, kwargs
        program = engine.trace(args, kwargs, given)
        search = _Search(engine, program, called, given, dict(init or {}), callback)
        starts = search.starting_points(num_restarts, rng_key)
        ends = [search.climb(start, max_steps, tol) for start in starts]
        maximum = search.report(ends)
    if not maximum.converged:
        what = (
            f"stopped at an edge: {', '.join(maximum.at_bound)} would go further"
            if maximum.at_bound
            else f"has not converged: {maximum.message}"
        )
        warnings.warn(
            f"the search for hyperparameters {what}. Give it more max_steps, another init, "
            "num_restarts, or a prior on these hyperparameters",
            ConvergenceWarning,
            stacklevel=outside(),
        )
    return maximum


def find_mode(
    engine: EP,
    program: Traced,
    called: tuple[tuple, dict[str, Any]],
    params: Mapping[str, Any],
    *,
    num_restarts: int = 0,
    rng_key: Array | None = None,
    callback: Callable[[int, float], None] | None = None,
    tol: float = 0.0,
    jacobian: bool = True,
) -> Mode:
    """The mode of evidence times prior on the unconstrained scale, where an integration starts.

    With `jacobian` False it is the mode of the density on the hyperparameters' own scale.
    """
    _check_settings(num_restarts, _STEPS, _TOLERANCE)
    search = _Search(
        engine, program, called, dict(params), {}, callback, tol=tol, jacobian=jacobian
    )
    starts = search.starting_points(num_restarts, rng_key)
    ends = [search.climb(start, _STEPS, _TOLERANCE) for start in starts]
    first, *others = (
        Mode(search.free, np.asarray(end.outcome.x), end.evaluation, end.gradient, search.count)
        for end in search.apart(ends)
    )
    return first._replace(others=tuple(others), num_evaluations=search.count)


class _Search:
    """One maximisation: what is searched, and what has been evaluated."""

    def __init__(
        self,
        engine: EP,
        program: Traced,
        called: tuple[tuple, dict[str, Any]],
        params: dict[str, Any],
        init: dict[str, Any],
        callback: Callable[[int, float], None] | None,
        *,
        tol: float = 0.0,
        jacobian: bool = False,
    ) -> None:
        self.callback, self.jacobian = callback, jacobian
        limits = engine.limits._replace(tol=max(engine.tol, tol))
        self.free = Hyperparameters(engine, program, params, limits)
        if not self.free.names:
            raise ValueError(
                "the model has no free hyperparameters to learn: it has no param site and no "
                "sample site other than its Gaussian latents that params does not hold fixed"
            )
        unknown = sorted(set(init) - set(self.free.names))
        if unknown:
            raise ValueError(
                f"init names {unknown}; the free hyperparameters are {list(self.free.names)}"
            )
        _check_init(init, self.free)
        start = {**self.free.inventory.hyperparameters, **init}
        # Refuses what EP cannot take before anything is searched.  All hyperparameters are named,
        # so that a run at those that are learned shares its code.
        first = engine.run_traced(program, start, jax.random.key(0), *called)
        warn_of(first, tol=engine.tol, structure=engine.structure)
        if first.posterior.has_slopes and not jacobian:
            self.free = EstimatedEvidence(engine, program, params)
        self.first = self.free.flatten(start)
        self.sites = first_sites(first.sites)
        self.count, self.best_objective = 0, -np.inf

    def starting_points(self, num_restarts: int, rng_key: Array | None) -> list[np.ndarray]:
        """The first point, and others spread around it."""
        key = jax.random.key(0) if rng_key is None else rng_key
        spread = np.asarray(jax.random.normal(key, (num_restarts, self.first.size)))
        return [self.first, *(self.first + spread)]

    def evaluate(self, point: np.ndarray) -> tuple[EvidenceEvaluation, np.ndarray]:
        """Objective and gradient at a point, starting EP from the sites of the last evaluation."""
        evaluation, gradient = self.free.evaluate_with_gradient(
            point, self.sites, jacobian=self.jacobian
        )
        objective = float(evaluation.objective)
        usable = bool(evaluation.usable)
        if usable:
            self.sites = evaluation.sites
        self.count += 1
        self.best_objective = max(self.best_objective, objective) if usable else self.best_objective
        if self.callback is not None:
            self.callback(self.count, self.best_objective)
        return evaluation, gradient

    def climb(self, start: np.ndarray, max_steps: int, tol: float) -> _SearchEnd:
        """Run the optimiser from one point."""
        if self.free.by_slopes:
            return self._climb_by_slopes(start, max_steps, _NATS * tol)
        first, slope = self.evaluate(start)
        if not first.usable:
            return _SearchEnd(
                OptimizeResult(x=start, success=False, message=_NOWHERE), first, slope
            )
        # With bounds on every side, L-BFGS-B begins with a step of the whole gradient: make that a
        # step of length one.
        scale = max(1.0, float(np.linalg.norm(slope)))
        far_worse = (abs(float(first.objective)) + 100.0 - float(first.objective)) / scale

        def downhill(point: np.ndarray) -> tuple[float, np.ndarray]:
            evaluation, gradient = self.evaluate(point)
            if not evaluation.usable or not np.all(np.isfinite(gradient)):
                # EP has not converged there, or a covariance is not positive definite: what it
                # says of the evidence means nothing, and the line search backs off.
                return far_worse, np.zeros_like(gradient)
            return -float(evaluation.objective) / scale, -gradient / scale

        bounds = [(x - _REACH, x + _REACH) for x in self.first]
        outcome = minimize(
            downhill,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": max_steps, "ftol": tol, "gtol": 1e-3 / scale},
        )
        end, slope = self.evaluate(outcome.x)
        if not end.usable:
            outcome.success, outcome.message = False, _NOWHERE
        return _SearchEnd(outcome, end, slope)

    def _climb_by_slopes(self, start: np.ndarray, max_steps: int, gain: float) -> _SearchEnd:
        """Run the optimiser for estimates, whose values may not fit their gradients."""
        seen: dict[bytes, tuple[EvidenceEvaluation, np.ndarray]] = {}

        def slope(point: np.ndarray) -> np.ndarray | None:
            seen[point.tobytes()] = evaluation, gradient = self.evaluate(point)
            return gradient if evaluation.usable and np.all(np.isfinite(gradient)) else None

        bounds = self.first - _REACH, self.first + _REACH
        summit = ascend(slope, start, bounds, max_steps=max_steps, gain=gain)
        outcome = OptimizeResult(summit._asdict())
        return _SearchEnd(outcome, *seen[summit.x.tobytes()])

    def best(self, ends: list[_SearchEnd]) -> _SearchEnd:
        """The best of several ends."""
        return max(ends, key=lambda e: (bool(e.evaluation.usable), float(e.evaluation.objective)))

    def apart(self, ends: list[_SearchEnd]) -> list[_SearchEnd]:
        """The best end, and those that compete with it, a valley apart from all before them."""
        best = self.best(ends)
        found = [best]
        for end in sorted(ends, key=lambda e: -float(e.evaluation.objective)):
            least = float(best.evaluation.objective) - _COMPETES
            if not end.evaluation.usable or float(end.evaluation.objective) < least:
                continue
            if end is not best and all(self._valley_between(end, other) for other in found):
                found.append(end)
        return found

    def _valley_between(self, lower: _SearchEnd, other: _SearchEnd) -> bool:
        """Whether the objective halfway is below that of the lower end."""
        if np.linalg.norm(lower.outcome.x - other.outcome.x) < _NEAR:
            return False
        middle, _ = self.evaluate(0.5 * (lower.outcome.x + other.outcome.x))
        level = float(lower.evaluation.objective) - _VALLEY
        return bool(middle.usable) and float(middle.objective) < level

    def report(self, ends: list[_SearchEnd]) -> EvidenceMaximum:
        """What was found at the best of several ends."""
        end = self.best(ends)
        with_bounds = np.abs(end.outcome.x - self.first) >= _REACH - 1e-6
        edges = self.free.unravel(jnp.asarray(with_bounds, float))
        learned = {k: np.asarray(v) for k, v in self.free.values(end.outcome.x).items()}
        at_bound = tuple(
            k
            for k in self.free.names
            if bool(jnp.any(edges[k] > 0)) or _at_end(learned[k], self.free.inventory.supports[k])
        )
        fixed = {k: np.asarray(v) for k, v in self.free.inventory.hyperparameters.items()}
        params = LearnedParams({**fixed, **learned})
        params.learned = tuple(learned)
        return EvidenceMaximum(
            params=params,
            log_evidence=float(end.evaluation.log_evidence),
            log_prior=float(end.evaluation.log_prior),
            log_evidence_error=float(end.evaluation.log_evidence_error),
            converged=bool(end.outcome.success) and not at_bound,
            at_bound=at_bound,
            message=str(end.outcome.message),
            num_evaluations=self.count,
            restarts=tuple(float(e.evaluation.objective) for e in ends),
        )


def _at_end(value: np.ndarray, support: Any) -> bool:
    """Whether a value is at an end of a domain that has two."""
    support = getattr(support, "base_constraint", support)  # that of each element of a vector
    low = np.asarray(getattr(support, "lower_bound", -np.inf), float)
    high = np.asarray(getattr(support, "upper_bound", np.inf), float)
    width = high - low
    near = np.minimum(value - low, high - value) < _EDGE * width
    return bool(np.any(np.isfinite(width) & near))


def _check_init(init: Mapping[str, Any], free: Hyperparameters) -> None:
    for name, value in init.items():
        wanted = np.shape(free.inventory.hyperparameters[name])
        array, support = np.asarray(value), free.inventory.supports[name]
        if array.shape != wanted:
            raise ValueError(f"init[{name!r}] has shape {array.shape}; pass shape {wanted}")
        if not (np.isfinite(array).all() and bool(jnp.all(support(jnp.asarray(array, float))))):
            raise ValueError(f"init[{name!r}] is {value}, which is outside its domain {support}")


def _check_settings(num_restarts: Any, max_steps: Any, tol: Any) -> None:
    check_count(num_restarts, "num_restarts", 0)
    check_count(max_steps, "max_steps")
    if not (isinstance(tol, Real) and 0 < float(tol) < np.inf):
        raise ValueError(f"tol is {tol!r}; pass a positive number")
