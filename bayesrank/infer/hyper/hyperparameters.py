"""The free hyperparameters of a program as one vector, and the evidence as a function of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array, core
from jax.flatten_util import ravel_pytree
from jax.typing import ArrayLike

from bayesrank.infer import sites
from bayesrank.infer.compiled import as_working_dtype
from bayesrank.infer.ep import EP
from bayesrank.infer.reader.hyperprior import log_hyperprior
from bayesrank.infer.reader.inventory import Inventory, take_inventory
from bayesrank.infer.reader.program import MOST_DENSE
from bayesrank.infer.reader.refusals import Refusal, TracedStructureError
from bayesrank.infer.sites import EPState, Sites
from bayesrank.infer.structures import keeps_covariances

__all__ = [
    "ConditionalLayout",
    "ConditionalPosterior",
    "EvidenceEvaluation",
    "Hyperparameters",
    "first_sites",
    "inventory_of",
    "not_integrated",
]

# Of a state whose last sweep still moved a margin further, in posterior standard deviations, the
# evidence means nothing.
_LARGEST_DELTA = 0.05


class EvidenceEvaluation(NamedTuple):
    """The evidence at one point, and EP's end there.

    Attributes
    ----------
    objective
        Log evidence plus log prior density, plus the log Jacobian where it was asked for.
    log_evidence, log_prior
        Its parts.
    sites
        EP's sites ``(tau, nu)``.
    delta
        How far the last sweep moved a margin, in posterior standard deviations.
    log_evidence_error
        Standard error of `log_evidence`, where it is an estimate.
    """

    objective: Array
    log_evidence: Array
    log_prior: Array
    sites: Sites
    delta: Array
    log_evidence_error: Array | float = 0.0

    @property
    def usable(self) -> Array:
        """Whether EP came near enough to its fixed point for its evidence to mean something."""
        return jnp.isfinite(self.objective) & (self.delta < _LARGEST_DELTA)


class ConditionalPosterior(NamedTuple):
    """EP's posterior at one value of the hyperparameters.

    Attributes
    ----------
    evaluation
        The evidence there.
    mean, covariance
        Of all latents, laid end to end.
    converged
        Whether EP came to its fixed point.
    ends
        Of the latents' supports, as in `Program`.
    """

    evaluation: EvidenceEvaluation
    mean: Array
    covariance: Array
    converged: Array
    ends: tuple[Array, Array] | None


class ConditionalLayout(NamedTuple):
    """What is the same at all values: see the attributes of `Program` of the same names."""

    shapes: dict[str, tuple[int, ...]]
    eliminated: tuple[str, ...]
    given_factors: tuple[str, ...]


class Hyperparameters:
    """Hyperparameters that `params` does not hold fixed, end to end on their unconstrained scale.

    Positive ones are on the scale of their logarithm, and so on, see `numpyro`'s ``biject_to``.

    Parameters
    ----------
    engine
        The engine of the program.
    args, kwargs
        What the program is called with.
    params
        Values of sites to be held fixed, by name.

    Attributes
    ----------
    inventory
        The program's sites.
    names
        Names of the free hyperparameters.
    transforms
        From the unconstrained scale to their own, by name.
    """

    def __init__(
        self, engine: EP, args: tuple, kwargs: Mapping[str, Any], params: Mapping[str, Any]
    ) -> None:
        self.engine = engine
        self.inventory = inventory_of(engine, args, kwargs, params)
        self.names = tuple(self.inventory.supports)
        self.transforms = {k: dist.biject_to(s) for k, s in self.inventory.supports.items()}
        _, self.unravel = ravel_pytree(self._unconstrained(self.inventory.hyperparameters))

    def flatten(self, values: Mapping[str, Any]) -> np.ndarray:
        """One vector of the unconstrained values of all free hyperparameters."""
        return np.asarray(ravel_pytree(self._unconstrained(values))[0], float)

    def _unconstrained(self, values: Mapping[str, Any]) -> dict[str, Array]:
        return {
            k: jnp.asarray(self.transforms[k].inv(jnp.asarray(values[k], float)))
            for k in self.names
        }

    def values(self, flat: Any) -> dict[str, Array]:
        """Values of the free hyperparameters on their own scale, by name.  Pure."""
        return {k: self.transforms[k](u) for k, u in self.unravel(jnp.asarray(flat)).items()}

    def evaluate(
        self,
        flat: Array,
        fixed: Mapping[str, Any],
        init_sites: Sites | None,
        args: tuple,
        kwargs: dict[str, Any],
        *,
        jacobian: bool = False,
    ) -> EvidenceEvaluation:
        """Evidence and prior density at a vector.  Pure, and differentiable in the vector.

        Parameters
        ----------
        flat
            The vector.
        fixed
            Values of the sites held fixed, by name.
        init_sites
            Sites that EP starts from.
        args, kwargs
            What the program is called with.
        jacobian
            Whether the objective is the density of the vector itself, and not of the
            hyperparameters on their own scale.
        """
        params = {**fixed, **self.values(flat)}
        log_evidence, end = self.engine.evidence_and_state(
            params, *args, init_sites=init_sites, **kwargs
        )
        return self._evaluation(flat, params, log_evidence, end, args, kwargs, jacobian)

    def _evaluation(
        self,
        flat: Array,
        params: dict[str, Any],
        log_evidence: Array,
        end: EPState,
        args: tuple,
        kwargs: dict[str, Any],
        jacobian: bool,
    ) -> EvidenceEvaluation:
        known = {k: jnp.asarray(v) for k, v in params.items()}
        log_prior = log_hyperprior(self.engine.model, args, kwargs, self.inventory, known)
        objective = log_evidence + log_prior
        if jacobian:
            objective += self.log_jacobian(flat)
        return EvidenceEvaluation(objective, log_evidence, log_prior, (end.tau, end.nu), end.delta)

    def evaluate_with_gradient(
        self,
        flat: ArrayLike,
        fixed: Mapping[str, Any],
        init_sites: Sites,
        args: tuple,
        kwargs: dict[str, Any],
        *,
        jacobian: bool = False,
    ) -> tuple[EvidenceEvaluation, np.ndarray]:
        """Evaluate at a vector, and differentiate the objective there, compiled once.

        Parameters
        ----------
        flat, fixed, init_sites, args, kwargs, jacobian
            As in `evaluate`.

        Returns
        -------
        tuple
            The evaluation, and the gradient of its objective, shape (d,).
        """
        # The weight of the Jacobian is data: code with it serves without it.
        point = flat, init_sites, dict(fixed), jnp.asarray(float(jacobian))
        (evaluation, gradient), _ = self.engine.compiled(self._differentiated, point, args, kwargs)
        return evaluation, np.asarray(gradient, float)

    def _differentiated(
        self,
        point: tuple[Array, Sites, dict[str, Any], Array],
        args: tuple,
        kwargs: dict[str, Any],
    ) -> tuple[tuple[EvidenceEvaluation, Array], None]:
        flat, init_sites, fixed, weight = point

        def objective(flat: Array) -> tuple[Array, EvidenceEvaluation]:
            evaluation = self.evaluate(flat, fixed, init_sites, args, kwargs)
            value = evaluation.objective + weight * self.log_jacobian(flat)
            return value, evaluation._replace(objective=value)

        (_, evaluation), gradient = jax.value_and_grad(objective, has_aux=True)(flat)
        return (evaluation, gradient), None

    def component(
        self,
        flat: ArrayLike,
        fixed: Mapping[str, Any],
        init_sites: Sites,
        args: tuple,
        kwargs: dict[str, Any],
    ) -> tuple[ConditionalPosterior, ConditionalLayout]:
        """Solve EP at a vector, compiled once.

        Parameters
        ----------
        flat, fixed, init_sites, args, kwargs
            As in `evaluate`.

        Returns
        -------
        tuple
            EP's posterior, with an evaluation whose objective is the density of the vector itself;
            and what is the same for all of them.
        """
        point = flat, init_sites, dict(fixed)
        return self.engine.compiled(self._component, point, args, kwargs)

    def _component(
        self, point: tuple[Array, Sites, dict[str, Any]], args: tuple, kwargs: dict[str, Any]
    ) -> tuple[ConditionalPosterior, ConditionalLayout]:
        flat, init_sites, fixed = point
        params = {**fixed, **self.values(flat)}
        program, end = self.engine.solve(params, *args, init_sites=init_sites, **kwargs)
        mean, covariance = program.all_latents(end.posterior)
        log_evidence = sites.evidence_at(program.problem, end)
        evaluation = self._evaluation(flat, params, log_evidence, end, args, kwargs, True)
        converged = (end.delta <= self.engine.tol) & (end.skipped == 0)
        layout = ConditionalLayout(program.shapes, program.eliminated, program.given_factors)
        found = ConditionalPosterior(evaluation, mean, covariance, converged, program.ends)
        return found, layout

    def log_jacobian(self, flat: Array) -> Array:
        """Log of how much a vector's surroundings grow on their own scale.  Pure."""
        total = jnp.zeros(())
        for name, u in self.unravel(flat).items():
            transform = self.transforms[name]
            total += jnp.sum(jnp.asarray(transform.log_abs_det_jacobian(u, transform(u))))
        return total


def inventory_of(
    engine: EP, args: tuple, kwargs: Mapping[str, Any], params: Mapping[str, Any]
) -> Inventory:
    """The sites of a program, compiled where they can be.

    Run step by step, a program computes its prior covariance only for the shapes of its sites to be
    looked at; compiled code leaves out what is not asked for.
    """

    def read(params: dict[str, Any], args: tuple, kwargs: dict[str, Any]) -> tuple[Any, Inventory]:
        inventory = take_inventory(engine.model, args, kwargs, params)
        if any(isinstance(x, core.Tracer) for x in jax.tree.leaves(inventory.supports)):
            raise TracedStructureError
        values = inventory.hyperparameters, inventory.discrete
        return values, inventory._replace(hyperparameters={}, discrete={})

    try:
        values, inventory = engine.compiled(read, dict(params), args, kwargs)
    except TracedStructureError:
        # The domain of a hyperparameter is computed from the arguments.
        _, args, kwargs = as_working_dtype(((), args, dict(kwargs)))
        return take_inventory(engine.model, args, kwargs, params)
    return inventory._replace(hyperparameters=values[0], discrete=values[1])


def not_integrated(
    engine: EP, args: tuple, kwargs: Mapping[str, Any], params: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """Values of all hyperparameters that are not to be integrated over.

    They are those that `params` holds fixed, and `param` sites, which have no prior, at their
    initial value.

    Raises
    ------
    ValueError
        If there is no other; or if so many latents are kept without covariances.
    """
    inventory = inventory_of(engine, args, kwargs, params)
    if not inventory.sampled:
        raise ValueError(
            "the model has no hyperparameter to integrate over: it has no sample site other "
            "than its Gaussian latents that params does not hold fixed. Use EP"
        )
    values = inventory.hyperparameters
    _refuse_without_covariances(engine, inventory, args, kwargs)
    return {k: np.asarray(v) for k, v in values.items() if k not in inventory.sampled}


def _refuse_without_covariances(
    engine: EP, inventory: Inventory, args: tuple, kwargs: Mapping[str, Any]
) -> None:
    """Refuse at once what would be refused after the search for the mode."""
    count = sum(math.prod(shape) for shape in inventory.latents.values())
    if engine.structure == "dense" or count <= MOST_DENSE:
        return
    params = inventory.hyperparameters
    if not keeps_covariances(jax.eval_shape(lambda: engine.problem_at(params, args, kwargs).prior)):
        raise Refusal("no_covariances", ", ".join(inventory.latents)).error()


def first_sites(named: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> Sites:
    """Sites as EP takes them, from a result that names them."""
    tau, nu = zip(*named.values(), strict=True) if named else ((), ())
    return jax.tree.map(jnp.asarray, (tau, nu))
