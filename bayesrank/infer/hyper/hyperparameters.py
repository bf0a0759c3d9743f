"""The free hyperparameters of a program as one vector, and the evidence as a function of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array, lax
from jax.flatten_util import ravel_pytree
from jax.typing import ArrayLike

from bayesrank.infer.compiled import compiled_call
from bayesrank.infer.engine import Engine
from bayesrank.infer.mixture import GaussianMoments, PosteriorMixture
from bayesrank.infer.reader.densities import log_density_of
from bayesrank.infer.reader.inventory import Inventory, take_inventory
from bayesrank.infer.reader.jaxpr import flat_trace, reached
from bayesrank.infer.reader.program import Program
from bayesrank.infer.reader.refusals import Refusal
from bayesrank.infer.reader.structure import Wanted
from bayesrank.infer.reader.traced import Traced
from bayesrank.infer.result import EPResult
from bayesrank.infer.running import Call
from bayesrank.infer.sites import EPState, Sites
from bayesrank.infer.solution import CheckedRefusal, Limits, Solution, Static, packed

# Of a state whose last sweep still moved a margin further, in posterior standard deviations, the
# evidence means nothing.
_LARGEST_DELTA = 0.05
# Of differences of the objective, on the unconstrained scale.
_STEP = 1e-2


class EvidenceEvaluation(NamedTuple):
    """The evidence at one point, and EP's end there."""

    objective: Array  # log evidence and prior, and the log Jacobian if asked for
    log_evidence: Array
    log_prior: Array
    sites: Sites  # EP's ``(tau, nu)``
    max_change: Array  # of the last sweep, in posterior standard deviations
    log_evidence_error: Array | float = 0.0  # where it is an estimate

    @property
    def usable(self) -> Any:
        """Whether EP came near enough to its fixed point for its evidence to mean something."""
        return (abs(self.objective) < jnp.inf) & (self.max_change < _LARGEST_DELTA)


class ConditionalPosterior(NamedTuple):
    """EP's posterior at one value of the hyperparameters."""

    evaluation: EvidenceEvaluation  # the evidence there
    solution: Solution
    converged: bool  # whether EP came to its fixed point


class Vector:
    """Free hyperparameters end to end on their unconstrained scale, by their supports now."""

    def __init__(self, inventory: Inventory) -> None:
        self.names = tuple(inventory.supports)
        self.transforms = {k: dist.biject_to(s) for k, s in inventory.supports.items()}
        start = self._unconstrained(inventory.hyperparameters)
        _, self.unravel = ravel_pytree(start)
        self.sizes = {name: np.size(start[name]) for name in sorted(start)}  # in this order

    def flatten(self, values: Mapping[str, Any]) -> np.ndarray:
        """One vector of the unconstrained values of all free hyperparameters."""
        return np.asarray(ravel_pytree(self._unconstrained(values))[0], float)

    def parts(self, flat: np.ndarray) -> dict[str, np.ndarray]:
        """What a vector says of each hyperparameter's unconstrained elements, by name."""
        ends = np.cumsum([*self.sizes.values()])
        return dict(zip(self.sizes, np.split(flat, ends[:-1]), strict=True))

    def _unconstrained(self, values: Mapping[str, Any]) -> dict[str, Array]:
        return {
            k: jnp.asarray(self.transforms[k].inv(jnp.asarray(values[k], float)))
            for k in self.names
        }

    def values(self, flat: Any) -> dict[str, Array]:
        """Values of the free hyperparameters on their own scale, by name.  Pure."""
        return {k: self.transforms[k](u) for k, u in self.unravel(jnp.asarray(flat)).items()}

    def log_jacobian(self, flat: Array) -> Array:
        """Log of how much a vector's surroundings grow on their own scale.  Pure."""
        total = jnp.zeros(())
        for name, u in self.unravel(flat).items():
            transform = self.transforms[name]
            total += jnp.sum(jnp.asarray(transform.log_abs_det_jacobian(u, transform(u))))
        return total


class Hyperparameters(Vector):
    """Hyperparameters that `fixed` leaves free, and the evidence as their function."""

    by_slopes = False

    def __init__(
        self,
        engine: Engine,
        program: Traced,
        fixed: Mapping[str, Any],
        limits: Limits | None = None,
        *,
        differences: bool = False,
    ) -> None:
        self.differences = differences
        self.engine, self.program, self.fixed = engine, program, dict(fixed)
        self.limits = limits or engine.limits
        self.inventory = traced_inventory(engine, program, fixed)
        super().__init__(self.inventory)

    def with_limits(self, **changed: Any) -> Hyperparameters:
        """The same, of an EP that stops elsewhere."""
        limits = self.limits._replace(**changed)
        return Hyperparameters(
            self.engine, self.program, self.fixed, limits, differences=self.differences
        )

    def evaluate(self, flat: Array, init_sites: Sites | None) -> EvidenceEvaluation:
        """Evidence, prior density and Jacobian at a vector, differentiable in it.  Pure."""
        point = _Point(flat, self.fixed, init_sites, self.limits)
        return _evaluate(self.engine, self.program, point, 1.0)[0]

    def evaluate_with_gradient(
        self, flat: ArrayLike, init_sites: Sites, *, jacobian: bool = False
    ) -> tuple[EvidenceEvaluation, np.ndarray]:
        """Objective and its gradient (d,); `jacobian` makes it the density of the vector."""
        if self.differences:
            return self._by_differences(np.asarray(flat, float), init_sites, jacobian)
        (evaluation, gradient, _), _ = self._solve(flat, init_sites, jacobian, full=True)
        return jax.tree.map(np.asarray, evaluation), np.asarray(gradient, float)

    def component(self, flat: ArrayLike, init_sites: Sites) -> ConditionalPosterior:
        """EP's posterior at a vector, by the code that gives the gradient."""
        (evaluation, _, found), _ = self._solve(flat, init_sites)
        state = found.state
        converged = float(state.max_change) <= self.limits.tol and not int(state.skipped)
        return ConditionalPosterior(jax.tree.map(np.asarray, evaluation), found, converged)

    def _by_differences(
        self, flat: np.ndarray, init_sites: Sites, jacobian: bool
    ) -> tuple[EvidenceEvaluation, np.ndarray]:
        """Evaluate, and difference the objective: derivatives take longer to compile than that."""
        (found, *_), _ = self._solve(flat, init_sites, jacobian)
        evaluation = jax.tree.map(np.asarray, found)
        start = evaluation.sites if evaluation.usable else init_sites

        def objective(at: np.ndarray) -> float:
            (there, *_), _ = self._solve(at, start, jacobian)
            there = jax.tree.map(np.asarray, there)
            return float(there.objective) if there.usable else np.nan

        steps = _STEP * np.eye(flat.size)
        slopes = [(objective(flat + x) - objective(flat - x)) / (2 * _STEP) for x in steps]
        return evaluation, np.array(slopes)

    def site_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of EP's messages."""
        start = self.inventory.hyperparameters
        return compiled_call(_site_shapes, self.engine, self.program, start)[1]

    def first_result(
        self, flat: ArrayLike, shapes: tuple[tuple[int, ...], ...], call: Call
    ) -> EPResult:
        """EP's result at a vector, from messages of these shapes, unless it is refused."""
        tau: Any = tuple(map(np.zeros, shapes))
        (_, _, solution), static = self._solve(flat, (tau, tau), full=True)
        return self.engine.result_of((solution, static), call, {})

    def _solve(
        self, flat: ArrayLike, init_sites: Sites, jacobian: bool = True, full: bool = False
    ) -> tuple[tuple[EvidenceEvaluation, Array, Solution], Static]:
        # The weight of the Jacobian, and whether gradient and faults are wanted, are data, so that
        # one code serves.
        point = _Point(flat, self.fixed, init_sites, self.limits)
        dynamic = point, np.asarray(float(jacobian)), np.asarray(full)
        function = _evaluated if self.differences else _differentiated
        return compiled_call(function, self.engine, self.program, dynamic)

    def named(self, flat: np.ndarray) -> dict[str, np.ndarray]:
        """`values` as NumPy's, by code that is kept."""
        found, _ = compiled_call(_values, self.engine, self.program, (flat, self.fixed))
        return {k: np.asarray(v) for k, v in found.items()}

    def held(self) -> dict[str, np.ndarray]:
        """Values of the hyperparameters that are not free."""
        values = self.inventory.hyperparameters
        return {k: np.asarray(v) for k, v in values.items() if k not in self.names}


def kept_sites(
    start: EPResult, found: Sequence[EvidenceEvaluation]
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Sites of EP's posteriors, as a mixture keeps them where latents are integrated out."""
    if not start.marginalized_sites:
        return {}

    def stacked(kind: int, block: int) -> np.ndarray:
        return np.stack([each.sites[kind][block] for each in found])

    return {name: (stacked(0, block), stacked(1, block)) for block, name in enumerate(start.sites)}


def averaged(
    start: EPResult,
    free: Hyperparameters,
    mixture: PosteriorMixture,
    moments: GaussianMoments,
    **known: Any,
) -> EPResult:
    """The result of an average over free hyperparameters, that started at a result."""
    return EPResult(
        model=start.model,
        model_args=start.model_args,
        model_kwargs=start.model_kwargs,
        params=free.held(),
        sources={name: "as given" for name in free.fixed},
        power=start.power,
        marginalized_sites=start.marginalized_sites,
        shapes=moments.shapes,
        joint_mean=moments.joint_mean,
        posterior=moments.posterior,
        mixture=mixture,
        **known,
    )


_End = tuple[Program, EPState, list[CheckedRefusal]]  # the last also with what may be refused


class _Point(NamedTuple):
    """A point to evaluate: a vector and fixed sites; EP's start and criteria for stopping."""

    flat: ArrayLike
    fixed: dict[str, Any]
    init_sites: Sites | None
    limits: Limits


def _evaluate(
    engine: Engine, source: Traced, point: _Point, weight: Array | float
) -> tuple[EvidenceEvaluation, _End]:
    """Evaluate, and count the Jacobian with a weight; and the program and state at the end."""
    flat = jnp.asarray(point.flat)
    inventory = take_inventory(source, point.fixed)
    vector = Vector(inventory)
    params = {**point.fixed, **vector.values(flat)}
    log_evidence, end, fixed = engine.evidence_of(source, params, point.init_sites, point.limits)
    known = {k: jnp.asarray(v) for k, v in params.items()}
    log_prior = log_hyperprior(source, inventory, known)
    objective = log_evidence + log_prior + weight * vector.log_jacobian(flat)
    sites = end.tau, end.nu
    evaluation = EvidenceEvaluation(objective, log_evidence, log_prior, sites, end.max_change)
    return evaluation, (fixed, end, source.checked_domains(params))


def _differentiated(
    engine: Engine, source: Traced, dynamic: tuple[_Point, Array, Array]
) -> tuple[tuple[EvidenceEvaluation, Array, Solution], Static]:
    point, weight, wanted = dynamic
    static: list[Static] = []

    def objective(flat: Array) -> tuple[Array, tuple[EvidenceEvaluation, Solution]]:
        evaluation, end = _evaluate(engine, source, point._replace(flat=flat), weight)
        solution, what = packed(*end, evaluation.log_evidence, wanted)
        static.append(what)
        return evaluation.objective, (evaluation, solution)

    _, pullback, (evaluation, solution) = jax.vjp(objective, point.flat, has_aux=True)
    one, none = jnp.ones_like(evaluation.objective), jnp.zeros_like(point.flat)
    gradient = lax.cond(wanted, lambda: pullback(one)[0], lambda: none)
    return (evaluation, gradient, solution), static[-1]


def _evaluated(
    engine: Engine, source: Traced, dynamic: tuple[_Point, Array, Array]
) -> tuple[tuple[EvidenceEvaluation, Array, Solution], Static]:
    """`_differentiated` without the derivative."""
    point, weight, wanted = dynamic
    evaluation, end = _evaluate(engine, source, point, weight)
    solution, static = packed(*end, evaluation.log_evidence, wanted)
    return (evaluation, jnp.zeros_like(point.flat), solution), static


def _site_shapes(
    engine: Engine, source: Traced, params: dict[str, Any]
) -> tuple[tuple[()], tuple[tuple[int, ...], ...]]:
    problem = engine.read_source(source, params).problem
    return (), tuple(block.at_rest().shape for block in problem.blocks)


def traced_inventory(engine: Engine, program: Traced, params: Mapping[str, Any]) -> Inventory:
    """The sites of a traced program, compiled: only what is asked for is computed."""
    arrays, (inventory, tree) = compiled_call(_inventory, engine, program, dict(params))
    hyperparameters, discrete, supports = arrays
    return inventory._replace(
        hyperparameters=hyperparameters,
        discrete=discrete,
        supports=jax.tree.unflatten(tree, supports),
    )


def _values(engine: Engine, source: Traced, point: tuple[Array, Any]) -> tuple[Any, None]:
    flat, fixed = point
    return Vector(take_inventory(source, fixed)).values(flat), None


def _inventory(engine: Engine, source: Traced, params: dict[str, Any]) -> tuple[Any, Any]:
    found = take_inventory(source, params)
    # Trees of constraints are static, what they are made of is not.
    supports, tree = jax.tree.flatten(found.supports)
    static = found._replace(hyperparameters={}, discrete={}, supports={})
    return (found.hyperparameters, found.discrete, supports), (static, tree)


def refuse_without_covariances(engine: Engine, inventory: Inventory, program: Traced) -> None:
    """Refuse at once what would be refused after the search for the mode."""
    if not _is_large(engine, inventory):
        return
    params = inventory.hyperparameters
    prior = jax.eval_shape(lambda: engine.read_source(program, params).problem.prior)
    if not prior.keeps_covariances:
        raise Refusal("no_covariances", ", ".join(inventory.latents)).error()


def _is_large(engine: Engine, inventory: Inventory) -> bool:
    count = sum(math.prod(shape) for shape in inventory.latents.values())
    return Wanted(engine.structure, engine.power).is_large(count)


def first_sites(named: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> Sites:
    """Sites as EP takes them, from a result that names them."""
    tau, nu = zip(*named.values(), strict=True) if named else ((), ())
    return jax.tree.map(jnp.asarray, (tau, nu))


def log_hyperprior(
    source: Traced,
    inventory: Inventory,
    hyperparameters: Mapping[str, Array],
) -> Array:
    """Log prior density of hyperparameters (), but for densities that a latent reaches."""
    latents = {k: jnp.zeros(shape) for k, shape in inventory.latents.items()}
    free = {k: v for k, v in hyperparameters.items() if k in inventory.supports}
    fixed = {k: v for k, v in hyperparameters.items() if k not in free}

    def densities(latents: Mapping[str, Array], free: Mapping[str, Array]) -> dict[str, Array]:
        known = {**inventory.discrete, **fixed, **latents, **free}
        sites = source.sites(known)
        return {k: log_density_of(sites[k]) for k in (*inventory.sampled, *inventory.given)}

    trace, _ = flat_trace(densities, latents, free)
    names = sorted(latents) + sorted(free)
    reach = reached(trace, {x: frozenset({k}) for x, k in zip(trace.inputs, names, strict=True)})
    values, total = densities(latents, free), jnp.zeros(())
    for name, output in zip(sorted(values), trace.outputs, strict=True):
        seen = reach.get(output, frozenset()) if isinstance(output, int) else frozenset()
        if seen.isdisjoint(latents) and (name in free or not seen.isdisjoint(free)):
            total += values[name]
    return total
