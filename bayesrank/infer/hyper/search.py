"""The search for the hyperparameters at which evidence times prior is largest."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import OptimizeResult, minimize

from bayesrank.infer.engine import Engine
from bayesrank.infer.hyper.ascent import ascend
from bayesrank.infer.hyper.estimated import EstimatedEvidence
from bayesrank.infer.hyper.hyperparameters import (
    EvidenceEvaluation,
    Hyperparameters,
    first_sites,
    refuse_without_covariances,
)
from bayesrank.infer.running import Call, warn_of

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
