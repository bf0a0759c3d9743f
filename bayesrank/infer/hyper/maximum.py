"""Hyperparameters by maximum evidence, or by MAP where they have priors.

The top of a function of which only the slope is known well, as where both are estimates.

Slopes alone judge the lengths of quasi-Newton steps (BFGS). A step is too long if the function
falls at its end by more than half as steeply as it rose at its beginning. Values, whose errors need
not be those of the slopes, decide nothing.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, minimize

from bayesrank._stack import outside
from bayesrank.infer.engine import Engine
from bayesrank.infer.hyper.estimated import EstimatedEvidence
from bayesrank.infer.hyper.hyperparameters import (
    EvidenceEvaluation,
    Hyperparameters,
    first_sites,
    refuse_without_covariances,
)
from bayesrank.infer.result import EPResult
from bayesrank.infer.running import Call, ConvergenceWarning, warn_of

Numbers = NDArray[np.float64]

_LONGEST = 1.0
_MOST_SHORTENED = 12
# A step that takes away less than this share of the slope was far too short.
_STRAIGHT = 0.1
_ARRIVED = "a further step would gain next to nothing"
_TOO_MANY = "the number of steps has reached its limit"
_STUCK = "no step along the slope leads to a point that can be evaluated"


class Summit(NamedTuple):
    """End of an ascent."""

    x: Numbers  # the point, shape (d,)
    success: bool  # whether it is a top, and what there is to say
    message: str


def ascend(
    slope: Callable[[Numbers], Numbers | None],
    start: Numbers,
    bounds: tuple[Numbers, Numbers],
    *,
    max_steps: int,
    gain: float,
) -> Summit:
    """Go up by a slope (d,), None where there is none, until a step would gain less than `gain`."""
    low, high = bounds
    point, here = start, slope(start)
    if here is None:
        return Summit(start, False, _STUCK)
    # The first step goes as far in all coordinates: those with little slope are not forgotten.
    inverse, known = np.diag(1 / np.maximum(np.abs(here), gain)), False
    for _ in range(max_steps):
        inside = np.where(here > 0, point < high, point > low)
        direction = np.where(inside, inverse @ np.where(inside, here, 0.0), 0.0)
        direction *= min(1.0, _LONGEST / max(float(np.linalg.norm(direction)), 1e-300))
        expected = (0.5 if known else 1.0) * float(here @ direction)
        if expected < gain:
            return Summit(point, True, _ARRIVED)
        found = _along(slope, point, direction, float(here @ direction), bounds)
        if found is None:
            return Summit(point, False, _STUCK)
        new, there = found
        moved, lost = new - point, here - there
        if moved @ lost > _STRAIGHT * (here @ moved):
            if not known:
                inverse *= float(moved @ lost) / float(lost @ inverse @ lost)
            inverse, known = _updated(inverse, moved, lost), True
        else:  # The slope has hardly changed: the next step this way is many times as long.
            inverse = inverse + np.outer(moved, moved) / (_STRAIGHT * float(here @ moved))
        point, here = new, there
    return Summit(point, False, _TOO_MANY)


def _along(
    slope: Callable[[Numbers], Numbers | None],
    point: Numbers,
    direction: Numbers,
    rise: float,
    bounds: tuple[Numbers, Numbers],
) -> tuple[Numbers, Numbers] | None:
    """A point along a direction that is not far beyond the top there, and the gradient at it."""
    length = 1.0
    for _ in range(_MOST_SHORTENED):
        new = np.clip(point + length * direction, *bounds)
        there = slope(new)
        if there is None:
            length *= 0.25
            continue
        end = float(there @ direction)
        if end >= -0.5 * rise:
            return new, there
        length *= rise / (rise - end)
    return None


def _updated(inverse: Numbers, moved: Numbers, lost: Numbers) -> Numbers:
    """The inverse of minus the curvature after what a step has shown of it (BFGS)."""
    curved = float(moved @ lost)
    left = np.eye(moved.size) - np.outer(moved, lost) / curved
    return left @ inverse @ left.T + np.outer(moved, moved) / curved


# The search leaves no hyperparameter further from its start than this, on its unconstrained scale
# (a logarithm, for positive ones: a factor of about 3,000).
_REACH = 8.0
# With the Jacobian the objective is a density, which has its top somewhere: a vague prior
# (HalfNormal(1e6) of a scale of 20) starts further away from it than that.
_REACH_OF_DENSITY = 30.0
# A search ends where a step gains less than this, in nats. If the evidence is an estimate, a step
# that gains .001 is a twentieth of a posterior standard deviation long.
_GAIN, _ESTIMATED_GAIN = 1e-6, 1e-3
_STEPS = 200
# With more latents or messages than these a run of EP is dear, and worth its derivative's code.
_DEAR = 200, 10_000
# Modes this much lower than the best, in nats, compete with it; a valley between two is so deep,
# and ends that are nearer than this on the unconstrained scale are one.
_COMPETES, _VALLEY, _NEAR = 4.0, 0.1, 0.3
_NOWHERE = "EP does not converge at these hyperparameters"


class SearchEnd(NamedTuple):
    """The end of one run of the optimiser, with the evaluation and the gradient there."""

    outcome: OptimizeResult
    evaluation: EvidenceEvaluation
    gradient: np.ndarray


class Search:
    """One maximisation: the `free` hyperparameters, its start, EP's last `sites`, and a `count`."""

    def __init__(
        self,
        engine: Engine,
        call: Call,
        *,
        tol: float = 0.0,
        jacobian: bool = False,
    ) -> None:
        self.call, self.jacobian, init, program = call, jacobian, call.init, call.program
        self.reach = _REACH_OF_DENSITY if jacobian else _REACH
        limits = engine.limits._replace(tol=max(engine.tol, tol))
        self.free = Hyperparameters(engine, program, call.params, limits)
        unknown = sorted(set(init) - set(self.free.names))
        if unknown:
            raise ValueError(
                f"init names {unknown}; the free hyperparameters are {list(self.free.names)}"
            )
        _check_init(init, self.free)
        start = {**self.free.inventory.hyperparameters, **init}
        # Refuses what EP cannot take before anything is searched. A maximum is run at in the end,
        # which shares the code of a run here.
        self.first = self.free.flatten(start)
        if jacobian:
            refuse_without_covariances(engine, self.free.inventory, program)
            shapes = self.free.site_shapes()
            latents = sum(map(math.prod, self.free.inventory.latents.values()))
            self.is_dear = latents > _DEAR[0] or sum(map(math.prod, shapes)) > _DEAR[1]
            self.free.differences = not self.is_dear
            self.result = self.free.first_result(self.first, shapes, call)
        else:
            self.result = engine.result_of(engine.solve_traced(program, start), call, start)
        warn_of(self.result, tol=engine.tol, structure=engine.structure)
        if self.result.posterior.has_slopes and not jacobian:
            self.free = EstimatedEvidence(engine, program, call.params, limits)
        self.sites = first_sites(self.result.sites)
        self.count, self.best_objective = 0, -np.inf

    def ends(self) -> list[SearchEnd]:
        """Ends of runs from the first point, and from others spread around it."""
        count, spread = self.call.num_restarts, np.zeros((0, self.first.size))
        if count:
            spread = np.asarray(jax.random.normal(self.call.rng_key, (count, self.first.size)))
        return [self._climb(start) for start in [self.first, *(self.first + spread)]]

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
        if self.call.callback is not None:
            self.call.callback(self.count, self.best_objective)
        return evaluation, gradient

    def _climb(self, start: np.ndarray) -> SearchEnd:
        """Run the optimiser from one point."""
        if self.free.by_slopes:
            return self._climb_by_slopes(start)
        first, slope = self.evaluate(start)
        if not first.usable:
            return SearchEnd(OptimizeResult(x=start, success=False, message=_NOWHERE), first, slope)
        # With bounds on every side, L-BFGS-B begins with a step of the whole gradient: make that a
        # step of length one.
        scale = max(1.0, float(np.linalg.norm(slope)))
        # Above the first: the criterion for stopping is then a share of the gain, not of the whole.
        level = float(first.objective)
        far_worse = (2.0 * abs(level) + 100.0) / scale

        def downhill(point: np.ndarray) -> tuple[float, np.ndarray]:
            evaluation, gradient = self.evaluate(point)
            if not evaluation.usable or not np.all(np.isfinite(gradient)):
                # EP has not converged there, or a covariance is not positive definite: what it
                # says of the evidence means nothing, and the line search backs off.
                return far_worse, np.zeros_like(gradient)
            return (level - float(evaluation.objective)) / scale, -gradient / scale

        bounds = [(x - self.reach, x + self.reach) for x in self.first]
        outcome = minimize(
            downhill,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": _STEPS, "ftol": _GAIN / scale, "gtol": 1e-3 / scale},
        )
        end, slope = self.evaluate(outcome.x)
        if not end.usable:
            outcome.success, outcome.message = False, _NOWHERE
        return SearchEnd(outcome, end, slope)

    def _climb_by_slopes(self, start: np.ndarray) -> SearchEnd:
        """Run the optimiser for estimates, whose values may not fit their gradients."""
        seen: dict[bytes, tuple[EvidenceEvaluation, np.ndarray]] = {}

        def slope(point: np.ndarray) -> np.ndarray | None:
            seen[point.tobytes()] = evaluation, gradient = self.evaluate(point)
            return gradient if evaluation.usable and np.all(np.isfinite(gradient)) else None

        bounds = self.first - self.reach, self.first + self.reach
        summit = ascend(slope, start, bounds, max_steps=_STEPS, gain=_ESTIMATED_GAIN)
        outcome = OptimizeResult(summit._asdict())
        return SearchEnd(outcome, *seen[summit.x.tobytes()])

    def modes(self, ends: list[SearchEnd]) -> list[SearchEnd]:
        """The best end, and those that compete with it, a valley apart from all before them."""
        best = max(ends, key=lambda e: (bool(e.evaluation.usable), float(e.evaluation.objective)))
        found = [best]
        for end in sorted(ends, key=lambda e: -float(e.evaluation.objective)):
            least = float(best.evaluation.objective) - _COMPETES
            if not end.evaluation.usable or float(end.evaluation.objective) < least:
                continue
            if end is not best and all(self._is_valley_between(end, other) for other in found):
                found.append(end)
        return found

    def _is_valley_between(self, lower: SearchEnd, other: SearchEnd) -> bool:
        """Whether the objective halfway is below that of the lower end."""
        if np.linalg.norm(lower.outcome.x - other.outcome.x) < _NEAR:
            return False
        middle, _ = self.evaluate(0.5 * (lower.outcome.x + other.outcome.x))
        level = float(lower.evaluation.objective) - _VALLEY
        return bool(middle.usable) and float(middle.objective) < level

    def at_edge(self, point: np.ndarray) -> dict[str, bool]:
        """Whether hyperparameters stand at the edge of the region searched, by name."""
        far = self.free.parts(np.abs(point - self.first) >= self.reach - 1e-6)
        return {name: bool(values.any()) for name, values in far.items()}


def _check_init(init: Mapping[str, Any], free: Hyperparameters) -> None:
    for name, value in init.items():
        wanted = np.shape(free.inventory.hyperparameters[name])
        array, support = np.asarray(value), free.inventory.supports[name]
        if array.shape != wanted:
            raise ValueError(f"init[{name!r}] has shape {array.shape}; pass shape {wanted}")
        if not (np.isfinite(array).all() and bool(jnp.all(support(jnp.asarray(array, float))))):
            raise ValueError(f"init[{name!r}] is {value}, which is outside its domain {support}")


# Nearer to an end of its domain than this share of it, a hyperparameter is at that end: it comes
# there on the unconstrained scale, where the way to the end itself has no end.
_EDGE = 1e-3
# Log evidences further apart than this, in nats, are those of two fixed points.
_APART = 0.1


class Maximum(NamedTuple):
    """The point of the largest evidence times prior."""

    params: dict[str, Any]  # values of all hyperparameters, fixed ones included
    log_evidence: float  # there, from where the search had come
    log_prior: float  # log prior density of the `sample` hyperparameters there
    converged: bool  # whether the optimiser has, inside the bounds
    # Those that stopped at the edge of the region searched, or of a domain with two ends.
    at_bound: tuple[str, ...]
    message: str  # what the optimiser said
    num_evaluations: int  # over all restarts
    restarts: tuple[float, ...]  # log evidence plus log prior at the end of each start
    other_modes: tuple[dict[str, np.ndarray], ...]  # that compete, as in `EPResult`

    def fields(self) -> dict[str, Any]:
        """What the result at the maximum holds of it."""
        names = ("log_prior", "at_bound", "num_evaluations", "restarts", "other_modes")
        return {name: getattr(self, name) for name in names}

    def complaints(self) -> Iterator[tuple[type[Warning], str]]:
        """Kinds of warnings, and what they say."""
        if not self.converged:
            what = (
                f"stopped at an edge: {', '.join(self.at_bound)} would go further"
                if self.at_bound
                else f"has not converged: {self.message}"
            )
            yield (
                ConvergenceWarning,
                f"the search for hyperparameters {what}. Give it another init, num_restarts, or a "
                "prior on these hyperparameters",
            )
        if self.other_modes:
            yield (
                UserWarning,
                f"modes of the hyperparameters compete: {len(self.other_modes)} beside the "
                "highest, which alone is used. Average over them with hyperparameters='integrate'",
            )


def warn_of_fixed_points(maximum: Maximum, result: EPResult) -> None:
    """Warn where EP comes to another evidence from a fresh start than the search came to."""
    error, found = result.log_evidence_error, (maximum.log_evidence, result.log_evidence)
    if abs(found[0] - found[1]) > _APART + 3.0 * error:
        warnings.warn(
            "EP has several fixed points at the hyperparameters that the search found: the log "
            f"evidence is {found[0]:.4g} where it ended and {found[1]:.4g} from a fresh start. The "
            "posterior has several modes; use NUTS from several starts",
            ConvergenceWarning,
            stacklevel=outside(),
        )


def maximize(engine: Engine, call: Call) -> Maximum:
    """Find the hyperparameters that make the data most probable.

    It maximises EP's log evidence plus the log prior density of the hyperparameters that are
    `sample` sites (their values' own density, as in `numpyro.infer.autoguide.AutoDelta`). `param`
    sites have no prior. SciPy's L-BFGS-B works on the unconstrained scale. Gradients hold EP's
    sites fixed; each evaluation starts from the sites of the one before it.

    Without covariances (`EP`'s `structure`) gradient and evidence are estimates, from the same
    random numbers at every point. The ascent then goes by the gradient alone, until a step would
    gain less than 0.001 nats. Its error is about 0.06 posterior standard deviations or less.
    """
    search = Search(engine, call)
    ends = search.ends()
    end, *others = search.modes(ends)
    inventory = search.free.inventory
    learned = search.free.named(end.outcome.x)
    edges = search.at_edge(end.outcome.x)
    at_bound = tuple(k for k, v in learned.items() if edges[k] or _at_end(v, inventory.supports[k]))
    fixed = {k: np.asarray(v) for k, v in inventory.hyperparameters.items()}
    return Maximum(
        params={**fixed, **learned},
        log_evidence=float(end.evaluation.log_evidence),
        log_prior=float(end.evaluation.log_prior),
        converged=bool(end.outcome.success) and not at_bound,
        at_bound=at_bound,
        message=str(end.outcome.message),
        num_evaluations=search.count,
        restarts=tuple(float(e.evaluation.objective) for e in ends),
        other_modes=tuple(search.free.named(other.outcome.x) for other in others),
    )


def _at_end(value: np.ndarray, support: Any) -> bool:
    """Whether a value is at an end of a domain that has two."""
    support = getattr(support, "base_constraint", support)  # that of each element of a vector
    low = np.asarray(getattr(support, "lower_bound", -np.inf), float)
    high = np.asarray(getattr(support, "upper_bound", np.inf), float)
    width = high - low
    near = np.minimum(value - low, high - value) < _EDGE * width
    return bool(np.any(np.isfinite(width) & near))
