"""What sites with bounded support are: latents, hyperparameters, or nothing that matters.

A site is a latent if the program uses it as it does the Gaussian ones: added to others, in the mean
of a prior, in the predictor of a likelihood. As a scale, a rate or a threshold it is a
hyperparameter. The program's trace shows the difference by three signs of a hyperparameter:

1. it goes into the scale of a Gaussian prior, or into its mean otherwise than affinely;
2. the program divides by it, takes its logarithm or root, or multiplies it with another site;
3. a factor sees it and another predictor.

A vector whose elements are multiplied with another site, such as the discriminations of items, is
a latent all the same: there are too many of them for hyperparameters, and factors of two directions
take them, unless `Decided.held` says that these cannot.

Signs of the second kind come first: a noise scale has one by itself. Once that is known, the
effects beside it are seen alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from bayesrank.infer.reader.components import find_components, is_elementwise
from bayesrank.infer.reader.densities import elementwise, latent_density
from bayesrank.infer.reader.jaxpr import (
    Equation,
    FlatTrace,
    UnknownValueError,
    degree_of,
    flat,
    flat_trace,
    is_linear,
    needed_equations,
    operand_orders,
    propagated,
    reached,
)
from bayesrank.infer.reader.prior import GaussianForm, gaussian_form, unwrap
from bayesrank.infer.reader.refusals import Refusal
from bayesrank.infer.reader.scans import split_scans
from bayesrank.infer.reader.traced import Traced

Names = frozenset[str]


class Role(Enum):
    """What a site of a program is to EP."""

    LATENT = "latent"
    HYPERPARAMETER = "hyperparameter"
    CHILDLESS = "unobserved, and nothing depends on it"
    DISCRETE = "discrete"
    OBSERVED = "observed"
    GIVEN = "held fixed by the caller"


# Operands that have to be positive, or not zero, for a result to exist.
_RESTRICTED: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("log", "log1p", "log2", "sqrt", "rsqrt", "pow", "acosh", "atanh"), (0,)),
    **dict.fromkeys(("lgamma", "digamma", "erf_inv"), (0,)),
    **dict.fromkeys(("polygamma", "igamma", "igammac"), (0, 1)),
    "div": (1,),
    "regularized_incomplete_beta": (0, 1, 2),
}
_CUSTOM = frozenset({"custom_jvp_call", "custom_vjp_call"})
_SOLVES = frozenset({"triangular_solve", "custom_linear_solve"})


_NONE: Names = frozenset()


class _TraceView(NamedTuple):
    """A trace of densities, with some of its inputs as latents."""

    trace: FlatTrace
    outputs: dict[str, Any]  # numbers of its outputs, by site
    orders: dict[int, int]  # degrees of variables in the latents, where above zero
    sites: dict[int, Names]  # which of these latents reach a variable


def roles_of_bounded(
    source: Traced,
    sites: Mapping[str, Any],
    roles: Mapping[str, Role],
    values: Mapping[str, Array],
) -> dict[str, Role]:
    """Roles of sites with bounded support, from how the program uses them."""
    dtype = jnp.result_type(float)
    free = {
        name: jnp.asarray(sites[name]["value"], None if role is Role.DISCRETE else dtype)
        for name, role in roles.items()
        if role not in (Role.OBSERVED, Role.GIVEN)
    }

    def densities(free: Mapping[str, Array]) -> dict[str, Any]:
        traced = source.sites({**values, **free})
        return {name: _density(traced[name], role) for name, role in roles.items()}

    trace, structure = flat_trace(densities, free)
    inputs = dict(zip(sorted(free), trace.inputs, strict=True))
    latents = frozenset(name for name, role in roles.items() if role is Role.LATENT)
    bounded = [name for name, role in roles.items() if role is Role.HYPERPARAMETER]
    childless = _childless(_view(trace, structure, inputs, latents), inputs, bounded)
    candidates = frozenset(
        name for name in bounded if name not in childless and _is_elementwise(sites[name])
    )
    vectors = frozenset(k for k in candidates - source.decided.held if jnp.size(free[k]) > 1)
    blamed = candidates
    while candidates and blamed:
        view = _view(trace, structure, inputs, latents | candidates)
        multiplied = _multiplied(view) & vectors
        blamed = _out_of_place(view, multiplied) & candidates
        blamed = blamed or _beside_others(view, latents, candidates) & candidates - multiplied
        candidates -= blamed
    found = dict.fromkeys(bounded, Role.HYPERPARAMETER) | dict.fromkeys(childless, Role.CHILDLESS)
    return found | dict.fromkeys(candidates, Role.LATENT)


def _is_elementwise(site: Mapping[str, Any]) -> bool:
    base, _ = unwrap(site["fn"])
    return not base.event_dim and not getattr(base.support, "event_dim", 1)


def _view(
    trace: FlatTrace, structure: Any, inputs: Mapping[str, int], latents: Names
) -> _TraceView:
    """The trace with its scans taken apart, as a function of latents."""
    sites = {inputs[name]: frozenset({name}) for name in latents}
    trace = split_scans(trace, list(sites))
    numbers = [x if isinstance(x, int) else None for x in trace.outputs]
    orders = propagated(trace, dict.fromkeys(sites, 1))
    return _TraceView(trace, structure.unflatten(numbers), orders, reached(trace, sites))


def _childless(view: _TraceView, inputs: Mapping[str, int], bounded: list[str]) -> list[str]:
    """Bounded sites that no other density depends on, but for those of others like them."""
    reach = reached(view.trace, {x: frozenset({name}) for name, x in inputs.items()})
    queue, needed = [name for name in view.outputs if name not in bounded], set()
    while queue:
        name = queue.pop()
        parents = _NONE.union(*(reach.get(x, _NONE) for x in _numbers(view.outputs[name])))
        new = parents - {name} - needed
        needed |= new
        queue += [name for name in new if name in bounded]
    return [name for name in bounded if name not in needed]


def _multiplied(view: _TraceView) -> Names:
    """Sites that are multiplied with others, element by element."""
    found: Names = _NONE
    for equation in view.trace.equations:
        if equation.name == "mul" and operand_orders(equation, view.orders) == [1, 1]:
            left, right = (view.sites[x] for x in equation.inputs if isinstance(x, int))
            found |= left ^ right
    return found


def _out_of_place(view: _TraceView, multiplied: Names) -> Names:
    """Sites that are a scale, a rate, or the like, of another one's density."""
    blamed: Names = _NONE
    for name, output in view.outputs.items():
        needed = needed_equations(view.trace.equations, _numbers(output), ())
        names = _restricted(needed, view.orders, view.sites, multiplied)
        if isinstance(output, GaussianForm):
            names |= _nonlinear(output, view)
        blamed |= names - {name}
    return blamed


def _beside_others(view: _TraceView, latents: Names, candidates: Names) -> Names:
    """Sites that some factor sees together with another predictor, where one is a candidate."""
    blamed: Names = _NONE
    for name, output in view.outputs.items():
        if isinstance(output, int) and view.orders.get(output) == 3:
            if view.sites[output] & candidates:
                blamed |= _mixed(name, output, view, name in latents | candidates)
    return blamed


def _mixed(name: str, output: int, view: _TraceView, latent: bool) -> Names:
    """Sites that a factor of a density sees together."""
    trace, orders = view.trace, view.orders
    smooth = [x for x in _variables(trace) if orders.get(x, 0) < 2]
    equations = needed_equations(trace.equations, [output], smooth)
    shapes = _affine_inputs(equations, orders)
    try:
        components = find_components(trace, equations, shapes, output)
    except UnknownValueError as error:
        raise Refusal("traced_structure", name).error() from error
    owner = components.predictor
    count = np.bincount(owner[owner >= 0], minlength=components.size)
    shared = (owner >= 0) & (count[np.maximum(owner, 0)] > 1)
    parts = zip(shapes, _parts(shared, shapes), strict=True)
    touched = _NONE.union(*(view.sites[number] for number, part in parts if part.any()))
    # A mixture's components see one site, each for itself.
    return frozenset() if latent and touched <= {name} else touched | {name}


def _density(site: Mapping[str, Any], role: Role) -> Any:
    fn, value = site["fn"], site["value"]
    if role is Role.LATENT:
        form = gaussian_form(fn, jnp.shape(value))
        if form is not None:
            return form._replace(proper=None)
    if role in (Role.LATENT, Role.HYPERPARAMETER):
        return latent_density(fn, jnp.asarray(value)).log_prob
    return jnp.asarray(elementwise(fn).log_prob(value))


def _numbers(output: Any) -> list[int]:
    return [x for x in jax.tree.leaves(output) if isinstance(x, int)]


def _variables(trace: FlatTrace) -> Iterator[int]:
    yield from trace.constants
    yield from trace.inputs
    for equation in trace.equations:
        yield from equation.outputs


def _affine_inputs(
    equations: tuple[Equation, ...], orders: Mapping[int, int]
) -> dict[int, tuple[int, ...]]:
    """Shapes of the affine arrays that enter equations, by number."""
    return {
        x: shape
        for equation in equations
        for x, shape in zip(equation.inputs, equation.input_shapes, strict=True)
        if isinstance(x, int) and orders.get(x) == 1
    }


def _parts(array: np.ndarray, shapes: dict[int, tuple[int, ...]]) -> list[np.ndarray]:
    cuts = np.cumsum([math.prod(shape) for shape in shapes.values()])[:-1]
    return np.split(array, cuts)


# ---------------------------------------------------------------- the three signs


def _restricted(
    equations: tuple[Equation, ...],
    order_of: Mapping[int, int],
    sites_of: Mapping[int, Names],
    multiplied: Names = _NONE,
) -> Names:
    """Sites that go into an operation which does not exist for all their values."""
    blamed: Names = _NONE
    for equation in equations:
        orders = operand_orders(equation, order_of)
        sites = [sites_of.get(x, _NONE) if isinstance(x, int) else _NONE for x in equation.inputs]
        if not any(orders):
            continue
        name = equation.name
        if name in _CUSTOM:
            blamed |= _restricted_inside(equation, orders, sites)
        elif name in _SOLVES:
            blamed |= _NONE.union(*sites[:-1])
        elif name in ("mul", "dot_general"):
            left, right = sites
            if orders == [1, 1] and left != right:
                blamed |= (left | right) - (multiplied if name == "mul" else _NONE)
        elif name in _RESTRICTED or name == "integer_pow" and equation.params["y"] < 0:
            at = _RESTRICTED.get(name, (0,))
            blamed |= _NONE.union(*(sites[i] for i in at if orders[i] == 1))
        elif name == "scan" and degree_of(equation, orders) == 1:
            continue
        elif not (is_elementwise(name) or is_linear(name)):
            blamed |= _NONE.union(*sites)
    return blamed


def _restricted_inside(equation: Equation, orders: list[int], sites: list[Names]) -> Names:
    """The same for a call with its own derivative rule."""
    inner = equation.params.get("call_jaxpr", equation.params.get("fun_jaxpr"))
    if inner is None:
        return _NONE.union(*sites)
    trace = flat(inner)
    order_of, sites_of = propagated(trace, dict(enumerate(orders))), dict(enumerate(sites))
    return _restricted(trace.equations, order_of, reached(trace, sites_of))


def _nonlinear(form: GaussianForm, view: _TraceView) -> Names:
    """Sites that keep a Gaussian prior from being jointly Gaussian with them."""
    names: Names = _NONE
    for part, allowed in ((form.loc, 1), (form.scale, 0), (form.covariance, 0)):
        for x in _numbers(part):
            if view.orders.get(x, 0) > allowed:
                names |= view.sites[x]
    return names
