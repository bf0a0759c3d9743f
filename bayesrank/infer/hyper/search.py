"""The search for the hyperparameters at which evidence times prior is largest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.optimize import OptimizeResult, minimize

from bayesrank._validate import check_count, check_positive
from bayesrank.infer.ep import EP
from bayesrank.infer.hyper.ascent import ascend
from bayesrank.infer.hyper.estimated import EstimatedEvidence
from bayesrank.infer.hyper.hyperparameters import EvidenceEvaluation, Hyperparameters, first_sites
from bayesrank.infer.reader.traced import Traced
from bayesrank.infer.running import warn_of

# The search leaves no hyperparameter further from its start than this, on its unconstrained scale
# (a logarithm, for positive ones: a factor of about 3,000).
_REACH = 8.0
# Of an evidence that is an estimate, the gain of a step counts in nats: a step that gains .001 is a
# twentieth of a posterior standard deviation long.
_NATS = 1e3
STEPS, TOLERANCE = 200, 1e-6
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
        engine: EP,
        program: Traced,
        called: tuple[tuple, dict[str, Any]],
        params: dict[str, Any],
        init: dict[str, Any] | None = None,
        callback: Callable[[int, float], None] | None = None,
        *,
        tol: float = 0.0,
        jacobian: bool = False,
    ) -> None:
        self.callback, self.jacobian, init = callback, jacobian, init or {}
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
        # Refuses what EP cannot take before anything is searched. A maximum is run at in the end,
        # which shares the code of a run here.
        self.first = self.free.flatten(start)
        if jacobian and self.free.keeps_covariances:
            self.result = self.free.first_result(self.first, *called)
        else:
            found = engine.solve_traced(program, start)
            self.result = engine.result_of(found, program, jax.random.key(0), *called)
        warn_of(self.result, tol=engine.tol, structure=engine.structure)
        if self.result.posterior.has_slopes and not jacobian:
            self.free = EstimatedEvidence(engine, program, params)
        self.sites = first_sites(self.result.sites)
        self.count, self.best_objective = 0, -np.inf

    def ends(
        self,
        num_restarts: int = 0,
        rng_key: Array | None = None,
        max_steps: int = STEPS,
        tol: float = TOLERANCE,
    ) -> list[SearchEnd]:
        """Ends of runs from the first point, and from others spread around it."""
        key = jax.random.key(0) if rng_key is None else rng_key
        spread = np.zeros((0, self.first.size))
        if num_restarts:
            spread = np.asarray(jax.random.normal(key, (num_restarts, self.first.size)))
        starts = [self.first, *(self.first + spread)]
        return [self._climb(start, max_steps, tol) for start in starts]

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

    def _climb(self, start: np.ndarray, max_steps: int, tol: float) -> SearchEnd:
        """Run the optimiser from one point."""
        if self.free.by_slopes:
            return self._climb_by_slopes(start, max_steps, _NATS * tol)
        first, slope = self.evaluate(start)
        if not first.usable:
            return SearchEnd(OptimizeResult(x=start, success=False, message=_NOWHERE), first, slope)
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
        return SearchEnd(outcome, end, slope)

    def _climb_by_slopes(self, start: np.ndarray, max_steps: int, gain: float) -> SearchEnd:
        """Run the optimiser for estimates, whose values may not fit their gradients."""
        seen: dict[bytes, tuple[EvidenceEvaluation, np.ndarray]] = {}

        def slope(point: np.ndarray) -> np.ndarray | None:
            seen[point.tobytes()] = evaluation, gradient = self.evaluate(point)
            return gradient if evaluation.usable and np.all(np.isfinite(gradient)) else None

        bounds = self.first - _REACH, self.first + _REACH
        summit = ascend(slope, start, bounds, max_steps=max_steps, gain=gain)
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
        far = self.free.unravel(jnp.asarray(np.abs(point - self.first) >= _REACH - 1e-6, float))
        return {name: bool(jnp.any(values > 0)) for name, values in far.items()}


def _check_init(init: Mapping[str, Any], free: Hyperparameters) -> None:
    for name, value in init.items():
        wanted = np.shape(free.inventory.hyperparameters[name])
        array, support = np.asarray(value), free.inventory.supports[name]
        if array.shape != wanted:
            raise ValueError(f"init[{name!r}] has shape {array.shape}; pass shape {wanted}")
        if not (np.isfinite(array).all() and bool(jnp.all(support(jnp.asarray(array, float))))):
            raise ValueError(f"init[{name!r}] is {value}, which is outside its domain {support}")


def check_settings(num_restarts: Any, max_steps: Any = STEPS, tol: Any = TOLERANCE) -> None:
    """Refuse numbers that make no sense."""
    check_count(num_restarts, "num_restarts", 0)
    check_count(max_steps, "max_steps")
    check_positive(tol, "tol")
