"""What sites with bounded support are: latents, hyperparameters, or nothing that matters.

A site is a latent if the program uses it as it does the Gaussian ones: added to others, in the mean
of a prior, in the predictor of a likelihood. As a scale, a rate or a threshold it is a
hyperparameter. The program's trace shows the difference by three signs of a hyperparameter:

1. it goes into the scale of a Gaussian prior, or into its mean otherwise than affinely;
2. the program divides by it, takes its logarithm or root, or multiplies it with another site;
3. a factor sees it and another predictor.

Signs of the second kind come first: a noise scale has one by itself. Once that is known, the
effects beside it are seen alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.extend import core as jax_core

from bayesrank.infer.reader.components import find_components, is_elementwise
from bayesrank.infer.reader.densities import elementwise, latent_density
from bayesrank.infer.reader.jaxpr import (
    Constant,
    Equation,
    FlatTrace,
    UnknownValueError,
    degree_of,
    flat_trace,
    is_linear,
    needed_equations,
)
from bayesrank.infer.reader.prior import GaussianForm, gaussian_form, unwrap
from bayesrank.infer.reader.refusals import Refusal
from bayesrank.infer.reader.scans import split_scans

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
    "log": (0,),
    "log1p": (0,),
    "log2": (0,),
    "sqrt": (0,),
    "rsqrt": (0,),
    "div": (1,),
    "pow": (0,),
    "lgamma": (0,),
    "digamma": (0,),
    "polygamma": (0, 1),
    "igamma": (0, 1),
    "igammac": (0, 1),
    "regularized_incomplete_beta": (0, 1, 2),
    "erf_inv": (0,),
    "acosh": (0,),
    "atanh": (0,),
}
_CUSTOM = frozenset({"custom_jvp_call", "custom_vjp_call"})
_SOLVES = frozenset({"triangular_solve", "custom_linear_solve"})


class _Mark(NamedTuple):
    """Degree of a variable in the latents, and the sites that reach it."""

    order: int
    sites: Names


_NONE = _Mark(0, frozenset())


class _TraceView(NamedTuple):
    """The trace, the numbers of its outputs, the equations that each needs, and all marks."""

    trace: FlatTrace
    outputs: dict[str, Any]
    needed: dict[str, tuple[Equation, ...]]
    marks: dict[int, _Mark]


def roles_of_bounded(
    run: Callable[[Mapping[str, Any]], dict[str, Any]],
    sites: Mapping[str, Any],
    roles: Mapping[str, Role],
    values: Mapping[str, Array],
) -> dict[str, Role]:
    """Roles of sites with bounded support, whose dependence `run` tells from the trace."""
    densities = _Densities(run, sites, roles, values)
    bounded = [name for name, role in roles.items() if role is Role.HYPERPARAMETER]
    childless = densities.without_children(bounded)
    sorted_roles = dict.fromkeys(bounded, Role.HYPERPARAMETER)
    sorted_roles |= dict.fromkeys(childless, Role.CHILDLESS)
    candidates = frozenset(
        name for name in bounded if name not in childless and _is_elementwise(sites[name])
    )
    while candidates:
        blamed = densities.out_of_place(candidates) or densities.beside_others(candidates)
        if not blamed:
            break
        candidates -= blamed
    return sorted_roles | dict.fromkeys(candidates, Role.LATENT)


def _is_elementwise(site: Mapping[str, Any]) -> bool:
    base, _ = unwrap(site["fn"])
    return not base.event_dim and not getattr(base.support, "event_dim", 1)


class _Densities:
    """The trace of all sites' densities over latents and bounded sites."""

    def __init__(
        self,
        run: Callable[[Mapping[str, Any]], dict[str, Any]],
        sites: Mapping[str, Any],
        roles: Mapping[str, Role],
        values: Mapping[str, Array],
    ) -> None:
        dtype = jnp.result_type(float)
        free = {
            name: jnp.asarray(sites[name]["value"], None if role is Role.DISCRETE else dtype)
            for name, role in roles.items()
            if role not in (Role.OBSERVED, Role.GIVEN)
        }

        def densities(free: Mapping[str, Array]) -> dict[str, Any]:
            traced = run({**values, **free})
            return {name: _density(traced[name], role) for name, role in roles.items()}

        self.roles = roles
        self.trace, self.structure = flat_trace(densities, free)
        self.inputs = dict(zip(sorted(free), self.trace.inputs, strict=True))

    def _view(self, candidates: Names) -> _TraceView:
        """The trace with these candidates as latents, its scans taken apart."""
        latents = [name for name, role in self.roles.items() if role is Role.LATENT]
        marks = {self.inputs[name]: _Mark(1, frozenset({name})) for name in (*latents, *candidates)}
        trace = split_scans(self.trace, list(marks))
        numbers = [x if isinstance(x, int) else None for x in trace.outputs]
        outputs = self.structure.unflatten(numbers)
        needed = {
            name: needed_equations(trace.equations, _numbers(output), ())
            for name, output in outputs.items()
        }
        return _TraceView(trace, outputs, needed, _propagated(trace.equations, marks))

    def without_children(self, bounded: list[str]) -> list[str]:
        """Bounded sites that no other density depends on, but for those of others like them."""
        view = self._view(frozenset())
        names = {number: name for name, number in self.inputs.items()}

        def parents(name: str) -> set[str]:
            used = set(_numbers(view.outputs[name])).union(
                *(equation.variables for equation in view.needed[name])
            )
            return {names[x] for x in used if x in names} - {name}

        queue, needed = [name for name in self.roles if name not in bounded], set()
        while queue:
            new = parents(queue.pop()) - needed
            needed |= new
            queue += [name for name in new if name in bounded]
        return [name for name in bounded if name not in needed]

    def out_of_place(self, candidates: Names) -> Names:
        """Candidates that are a scale, a rate, or the like."""
        view, blamed = self._view(candidates), frozenset()
        marks = view.marks
        for name, output in view.outputs.items():
            names = _restricted(view.needed[name], marks)
            if isinstance(output, GaussianForm):
                names |= _nonlinear(output, marks)
            blamed |= names - {name}
        return blamed & candidates

    def beside_others(self, candidates: Names) -> Names:
        """Candidates that some factor sees together with another predictor."""
        view, blamed = self._view(candidates), frozenset()
        marks = view.marks
        for name, output in view.outputs.items():
            latent = self.roles[name] is Role.LATENT or name in candidates
            if isinstance(output, int) and marks.get(output, _NONE).order == 3:
                if marks[output].sites & candidates:
                    blamed |= _mixed(name, output, view, latent)
        return blamed & candidates


def _mixed(name: str, output: int, view: _TraceView, latent: bool) -> Names:
    """Sites that a factor of a density sees together."""
    trace, marks = view.trace, view.marks
    smooth = [x for x in _variables(trace) if marks.get(x, _NONE).order < 2]
    equations = needed_equations(trace.equations, [output], smooth)
    shapes = _affine_inputs(equations, marks)
    try:
        components = find_components(trace, equations, shapes, output)
    except UnknownValueError as error:
        raise Refusal("traced_structure", name).error() from error
    owner = components.predictor
    count = np.bincount(owner[owner >= 0], minlength=components.size)
    shared = (owner >= 0) & (count[np.maximum(owner, 0)] > 1)
    touched = frozenset().union(
        *(
            marks[number].sites
            for number, part in zip(shapes, _parts(shared, shapes), strict=True)
            if part.any()
        )
    )
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
    equations: tuple[Equation, ...], marks: dict[int, _Mark]
) -> dict[int, tuple[int, ...]]:
    """Shapes of the affine arrays that enter equations, by number."""
    return {
        x: shape
        for equation in equations
        for x, shape in zip(equation.inputs, equation.input_shapes, strict=True)
        if isinstance(x, int) and marks.get(x, _NONE).order == 1
    }


def _parts(array: np.ndarray, shapes: dict[int, tuple[int, ...]]) -> list[np.ndarray]:
    cuts = np.cumsum([math.prod(shape) for shape in shapes.values()])[:-1]
    return np.split(array, cuts)


# ---------------------------------------------------------------- the three signs


def _operands(equation: Equation, marks: dict[int, _Mark]) -> list[_Mark]:
    return [_NONE if isinstance(x, Constant) else marks.get(x, _NONE) for x in equation.inputs]


def _propagated(equations: tuple[Equation, ...], marks: dict[int, _Mark]) -> dict[int, _Mark]:
    for equation in equations:
        operands = _operands(equation, marks)
        order = degree_of(equation, [x.order for x in operands])
        if order:
            sites = frozenset().union(*(x.sites for x in operands))
            marks.update(dict.fromkeys(equation.outputs, _Mark(order, sites)))
    return marks


def _restricted(equations: tuple[Equation, ...], marks: dict[int, _Mark]) -> Names:
    """Sites that go into an operation which does not exist for all their values."""
    blamed: Names = frozenset()
    for equation in equations:
        operands = _operands(equation, marks)
        if not any(x.order for x in operands):
            continue
        name = equation.name
        if name in _CUSTOM:
            blamed |= _restricted_inside(equation, operands)
        elif name in _SOLVES:
            blamed |= frozenset().union(*(x.sites for x in operands[:-1]))
        elif name in ("mul", "dot_general"):
            left, right = operands
            if left.order == right.order == 1 and left.sites != right.sites:
                blamed |= left.sites | right.sites
        elif name in _RESTRICTED or name == "integer_pow" and equation.params["y"] < 0:
            at = _RESTRICTED.get(name, (0,))
            blamed |= frozenset().union(*(operands[i].sites for i in at if operands[i].order == 1))
        elif name == "scan" and degree_of(equation, [x.order for x in operands]) == 1:
            continue
        elif not (is_elementwise(name) or is_linear(name)):
            blamed |= frozenset().union(*(x.sites for x in operands))
    return blamed


def _restricted_inside(equation: Equation, operands: list[_Mark]) -> Names:
    """The same for a call with its own derivative rule."""
    inner = equation.params.get("call_jaxpr", equation.params.get("fun_jaxpr"))
    if inner is None:
        return frozenset().union(*(x.sites for x in operands))
    trace, _ = flat_trace(jax_core.jaxpr_as_fun(inner), *inner.in_avals)
    marks = dict(zip(trace.inputs, operands, strict=True))
    return _restricted(trace.equations, _propagated(trace.equations, marks))


def _nonlinear(form: GaussianForm, marks: dict[int, _Mark]) -> Names:
    """Sites that keep a Gaussian prior from being jointly Gaussian with them."""
    names: Names = frozenset()
    for part, allowed in ((form.loc, 1), (form.scale, 0), (form.covariance, 0)):
        for mark in (marks.get(x, _NONE) for x in _numbers(part)):
            if mark.order > allowed:
                names |= mark.sites
    return names
