"""The densities of a program's sites, as one trace over its latents.

A trace in which elements are moved before anything nonlinear is done to them.

``exp(f)[i]`` becomes ``exp(f[i])``, and an operation between arrays of different shapes becomes one
between arrays of its result's. So each element of a likelihood has affine predictors of its own,
where otherwise all elements that share ``exp(f_i)`` would be one factor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax import Array

from bayesrank.infer.reader.affine import Affine, Value, evaluate, identity
from bayesrank.infer.reader.components import ELEMENTWISE
from bayesrank.infer.reader.densities import (
    SiteDensity,
    elementwise,
    latent_density,
    log_density_of,
    observed_density,
    validates,
    with_trailing_axes,
)
from bayesrank.infer.reader.inventory import Inventory
from bayesrank.infer.reader.jaxpr import (
    Constant,
    Equation,
    FlatTrace,
    bind,
    flat_trace,
    needed_equations,
    propagated,
    reached,
)
from bayesrank.infer.reader.predictors import with_known_moments
from bayesrank.infer.reader.prior import gaussian_form, unwrap
from bayesrank.infer.reader.scans import split_scans
from bayesrank.infer.reader.tables import Tables
from bayesrank.infer.reader.traced import Decided, Traced

_MOVES = frozenset(
    "reshape broadcast_in_dim transpose squeeze slice rev gather dynamic_slice copy".split()
)


def moves_first(trace: FlatTrace, latents: Sequence[int]) -> FlatTrace:
    """The same function, traced anew as long as some move comes late; `latents` are inputs."""
    orders = propagated(trace, dict.fromkeys(latents, 1))
    made = {x: e for e in trace.equations if e.name in ELEMENTWISE for x in e.outputs}
    curved = {x for x in made if orders.get(x, 0) > 1}
    if not any(map(partial(_is_late, curved), trace.equations)):
        return trace

    def evaluated(*inputs: Array) -> list[Any]:
        known = {**trace.constants, **dict(zip(trace.inputs, inputs, strict=True))}
        for equation in trace.equations:
            known.update(zip(equation.outputs, _moved(equation, known, made, curved), strict=True))
        return [_value(x, known) for x in trace.outputs]

    found = flat_trace(evaluated, *trace.avals)[0]
    wanted = needed_equations(found.equations, found.outputs, ())
    return moves_first(found._replace(equations=wanted), latents)


def _is_late(curved: set[int], equation: Equation) -> bool:
    """Whether an equation moves elements of an array that was computed element by element."""
    if not equation.shapes:
        return False
    if equation.name in _MOVES:
        seen = curved & equation.variables
        return len(seen) == 1 and equation.inputs[0] in seen
    pairs = zip(equation.inputs, equation.input_shapes, strict=True)
    return equation.name in ELEMENTWISE and any(
        isinstance(x, int) and x in curved and shape not in ((), equation.shapes[0])
        for x, shape in pairs
    )


def _moved(
    equation: Equation, known: dict[int, Any], made: dict[int, Equation], curved: set[int]
) -> list[Any]:
    """Results of an equation, moves of whose operands come before what these are made by."""

    def move(x: int | Constant, to: Callable[[Any], Any]) -> Any:
        if isinstance(x, Constant) or x not in curved:
            return to(_value(x, known))
        maker = made[x]
        shape = maker.shapes[0]
        return bind(
            maker, [move(y, lambda z: to(jnp.broadcast_to(z, shape))) for y in maker.inputs]
        )[0]

    if equation.name in _MOVES and _is_late(curved, equation):
        first, *rest = equation.inputs
        others = [_value(x, known) for x in rest]
        return [move(first, lambda z: bind(equation, [z, *others])[0])]
    operands = [_value(x, known) for x in equation.inputs]
    if equation.name in ELEMENTWISE and _is_late(curved, equation):
        shape = equation.shapes[0]
        operands = [move(x, lambda z: jnp.broadcast_to(z, shape)) for x in equation.inputs]
    return bind(equation, operands)


def _value(x: int | Constant, known: dict[int, Any]) -> Any:
    return x.value if isinstance(x, Constant) else known[x]


class ObservedOutputs(NamedTuple):
    """What is traced of an observed site."""

    log_prob: Any  # of each element, before scaling
    parts: Any  # of a mixture, logs of its weighted parts; else None
    scale: Any  # of `handlers.scale`, or None
    closed_form: Any  # distribution with known moments, predictor, value, mask; or None
    supported: Any  # whether values lie in the support; None where that is not looked at


class Joint(NamedTuple):
    """A program's densities as functions of its latents."""

    inventory: Inventory  # the program's sites
    # Inputs: latents, then discrete latents.  Outputs: `latent` and `observed`, flattened.
    trace: FlatTrace
    env: dict[int, Value]  # value of every variable of the trace, see `evaluate`
    # For each site its outputs' values; `GaussianForm` or the log density of a latent,
    # `ObservedOutputs`.  Sites whose value is held fixed are observed if a latent reaches their
    # density.
    latent: dict[str, Any]
    observed: dict[str, ObservedOutputs]
    # Variable numbers of these outputs.
    latent_numbers: dict[str, Any]
    observed_numbers: dict[str, ObservedOutputs]
    # Of latents whose density is a mixture, the variable number of its parts, see `SiteDensity`.
    latent_parts: dict[str, Any]
    reach: Callable[[Any], frozenset[str]]  # for each variable, which inputs reach it
    # Sites that a scan sees, whose elements may depend on their own earlier ones.
    scanned: frozenset[str]
    # For latents of a scan, whether the elements of the site are those of the latent, one by one.
    in_order: dict[str, Array]
    # The summed, scaled log densities of named sites as a function of all latents.
    log_densities: Callable[[tuple[str, ...], Mapping[str, Array]], Array]
    # NumPyro's trace of the program where all latents are zero.
    sites_at_zero: Callable[[], dict[str, Any]]
    # Those that keep rows short, which then count among the inventory's latents; else None.
    tables: Tables | None
    decided: Decided


def trace_joint(source: Traced, inventory: Inventory, *, short: bool = False) -> Joint:
    """Trace densities over the latents; `short` puts long rows into tables (`NotShortError`)."""
    dtype, sites = jnp.result_type(float), _SitesAt(source, inventory)
    zeros = {name: jnp.zeros(shape, dtype) for name, shape in inventory.latents.items()}
    # Dictionaries are flattened in the order of their keys; sites are wanted in the order of the
    # program.
    order, discrete = sorted(zeros), sorted(inventory.discrete)
    trace, structure = flat_trace(sites.densities, zeros, inventory.discrete)
    scanned = _scanned(trace, [*order, *discrete])
    trace = split_scans(trace, trace.inputs[: len(zeros)])
    if source.decided.pairs:
        trace = moves_first(trace, trace.inputs[: len(zeros)])
    sizes = {name: zeros[name].size for name in inventory.latents}
    affine = identity(sizes, inventory.latents, dtype)
    inputs = [affine[name] for name in order] + [inventory.discrete[name] for name in discrete]
    tables = Tables(inventory.latents) if short else None
    trace, env = _walked(trace, inputs, tables)
    inventory = inventory._replace(latents=tables.shapes) if tables else inventory
    values = [x.value if isinstance(x, Constant) else env[x] for x in trace.outputs]
    latent, _, placed, observed = jax.tree.unflatten(structure, values)
    numbers = jax.tree.unflatten(structure, list(trace.outputs))
    latent_numbers, latent_parts, value_numbers, observed_numbers = numbers
    moved = [k for k, x in zip(order, trace.inputs, strict=False) if value_numbers[k] != x]
    reached = _reachability(trace, [*order, *discrete])
    # The density of a hyperparameter is a factor only if it sees a latent.
    maybe = (*inventory.given, *inventory.sampled)
    held = [k for k in maybe if reached(observed_numbers[k].log_prob)]
    observed = {k: observed[k] for k in (*inventory.observed, *held)}
    return Joint(
        inventory,
        trace,
        env,
        latent,
        observed,
        latent_numbers,
        observed_numbers,
        latent_parts,
        reached,
        scanned,
        {k: _same(placed[k], affine[k]) for k in moved if isinstance(placed[k], Affine)},
        sites.log_densities,
        partial(sites.at, {**sites.inventory.discrete, **zeros}),
        tables,
        source.decided,
    )


def _walked(
    trace: FlatTrace, inputs: Sequence[Value], tables: Tables | None
) -> tuple[FlatTrace, dict[int, Value]]:
    """The trace, and the value of each of its variables; with tables, of those that are needed."""
    if tables is None:
        return trace, evaluate(trace, inputs)
    wanted = needed_equations(trace.equations, trace.outputs, ())
    trace = trace._replace(equations=wanted)
    return trace, tables.evaluate(trace, inputs)


class _SitesAt(NamedTuple):
    """NumPyro's trace of the program, and its densities, as functions of its latents."""

    source: Traced
    inventory: Inventory

    def at(self, free: Mapping[str, Array]) -> dict[str, Any]:
        """The trace at values of all sites that are not observed."""
        return self.source.sites({**self.inventory.hyperparameters, **free})

    def densities(self, latents: dict[str, Array], discrete: dict[str, Array]) -> Any:
        """What is traced: of latents density, parts and value; and of observed sites."""
        inventory, sites = self.inventory, self.at({**latents, **discrete})
        known = {name: _latent_outputs(sites[name]) for name in latents}
        return (
            {name: density.log_prob for name, density in known.items()},
            {name: density.parts for name, density in known.items()},
            {name: sites[name]["value"] for name in known},
            {
                name: _observed_outputs(sites[name], inventory.validates)
                for name in (*inventory.observed, *inventory.given, *inventory.sampled)
            },
        )

    def log_densities(self, names: tuple[str, ...], latents: Mapping[str, Array]) -> Array:
        """The summed, scaled log densities of named sites."""
        sites, total = self.at({**self.inventory.discrete, **latents}), jnp.zeros(())
        for name in names:
            total += log_density_of(sites[name])
        return total


def _latent_outputs(site: dict[str, Any]) -> SiteDensity:
    """The log density; where the family is known to be Gaussian, location and spread in place."""
    form = gaussian_form(site["fn"], jnp.shape(site["value"]))
    if form is not None and site["scale"] is None:
        return SiteDensity(form)
    return latent_density(site["fn"], jnp.asarray(site["value"]))


def _observed_outputs(site: dict[str, Any], validating: bool) -> ObservedOutputs:
    fn, value, scale = elementwise(site["fn"]), jnp.asarray(site["value"]), site["scale"]
    base, mask = unwrap(fn)
    if isinstance(base, dist.Delta) and not site["is_observed"]:
        log_prob = jnp.broadcast_to(jnp.asarray(base.log_density), fn.batch_shape)
        log_prob = log_prob if mask is None else jnp.where(mask, log_prob, 0.0)
        return ObservedOutputs(log_prob, None, scale, None, None)
    closed_form = None
    known = with_known_moments(base)
    if known is not None and not site.get("in_part", False):
        closed_form = (known, getattr(known, known.predictor), value, mask)
    if scale is not None:
        scale = with_trailing_axes(scale, site["fn"].event_dim - fn.event_dim)
    # Of other values moments are not known: a share of a win is no win.
    checked = closed_form is not None or validates(base, validating)
    supported = _supported(base, mask, value) if checked else None
    return ObservedOutputs(*observed_density(fn, value), scale, closed_form, supported)


def _supported(base: dist.Distribution, mask: Any, value: Array) -> Any:
    if isinstance(base, dist.Unit) or base.support is None:
        return None
    inside = base.support(value)
    return inside if mask is None else inside | ~jnp.asarray(mask)


def _same(placed: Affine, latent: Affine) -> Array:
    """Whether two arrays agree, at latents that differ from one another."""
    at = jnp.arange(1.0, 1.0 + latent.size)
    return jnp.array_equal(placed.at(at).reshape(-1), latent.at(at).reshape(-1))


def _scanned(trace: FlatTrace, names: list[str]) -> frozenset[str]:
    scans = [equation for equation in trace.equations if equation.name == "scan"]
    inputs = [x for equation in scans for x in equation.inputs if isinstance(x, int)]
    return _reachability(trace, names)(inputs) if inputs else frozenset()


def _reachability(trace: FlatTrace, names: list[str]) -> Callable[[Any], frozenset[str]]:
    """Which inputs reach a variable, or any of a tree of variables."""
    inputs = {x: frozenset({name}) for x, name in zip(trace.inputs, names, strict=True)}
    reach = reached(trace, inputs)

    def of(tree: Any) -> frozenset[str]:
        numbers = [x for x in jax.tree.leaves(tree) if isinstance(x, int)]
        return frozenset().union(*(reach[x] for x in numbers if x in reach))

    return of
