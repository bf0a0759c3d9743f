"""A program as a function of its unobserved sites: one trace, whose constants are arguments.

The Python program runs once. JAX's equations then lead from the values of its unobserved sites to
the parameters of all its distributions, the observed values and the scales. Whatever the program
read meanwhile, of its arguments, a closure, a module or a file, is a constant of these equations.
Compiled code takes the constants for arguments and is stored under the equations themselves, so it
follows what the program reads now.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array, core, lax
from jax.extend.core import Primitive
from numpyro import handlers, validation_enabled
from numpyro.distributions import constraints

from bayesrank.infer.reader.densities import (
    Domain,
    check_known_domains,
    unknown_domains,
)
from bayesrank.infer.reader.freeze import Key, frozen, frozen_equations, frozen_tree, shared_key
from bayesrank.infer.reader.jaxpr import (
    Constant,
    Equation,
    FlatTrace,
    UnknownValueError,
    computed,
    concrete_value,
    evaluated,
    flat,
    needed_equations,
)
from bayesrank.infer.reader.portable import portable
from bayesrank.infer.reader.precision import (
    as_working_dtype,
    refuse_stale,
    to_numpy,
    without_stale_traces,
)
from bayesrank.infer.reader.unobserved import Unobserved, site_value

# What JAX raises where a program looks at the values of arrays that are being traced.
NEEDS_VALUES = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError,
)

_LOOKS_AT_LATENTS = (
    "the program looks at the value of a latent while it runs: it branches on it in Python, or "
    "gives it to NumPy or pandas. Use jnp.where and jax.numpy, and pass columns of tables as "
    "arrays (column.to_numpy())"
)

_MASKED = (
    "{} is a masked array of NumPy's, whose mask would be lost; pass its data and its mask "
    "(x.filled(0.0), ~np.ma.getmaskarray(x)), and give the mask to numpyro.handlers.mask"
)

_SHOWN = ("type", "name", "is_observed")


class Decided(NamedTuple):
    """What data decide of a program's structure; see `bayesrank.infer.decisions`."""

    by_rows: bool = False  # whether rows were looked at; else plates alone say what is local
    joined: frozenset[str] = frozenset()  # plates of whose groups some factor sees several
    pairs: frozenset[str] = frozenset()  # observed sites whose factors see two directions
    held: frozenset[str] = frozenset()  # hyperparameters that factors of pairs have no room for


# A number among the arguments: it stands in a trace until it becomes one of its constants.
_number = Primitive("number")
_number.def_abstract_eval(lambda x: core.ShapedArray(x.shape, x.dtype))


def run_with(
    model: Callable[..., Any], args: tuple, kwargs: Mapping[str, Any], values: Mapping[str, Any]
) -> dict[str, Any]:
    """Trace a program with some of its sites at given values; NumPyro does not validate."""
    seeded = handlers.seed(model, jax.random.key(0))
    with handlers.block(), validation_enabled(False):
        return handlers.trace(handlers.substitute(seeded, data=dict(values))).get_trace(
            *args, **kwargs
        )


class _Input(NamedTuple):
    number: int
    shape: tuple[int, ...]
    dtype: Any


@dataclass(frozen=True)
class Traced:
    """A traced program."""

    equations: tuple[Equation, ...]  # in order of evaluation
    # Number, shape and type of each unobserved site's value, in order of the program.
    inputs: dict[str, _Input]
    # Of the arrays that the program read; arrays, or stand-ins for them in compiled code.
    numbers: tuple[int, ...]
    constants: tuple[Any, ...]
    # Variables, or values, from which `tree` makes the messages' distributions and values.
    outputs: tuple[Any, ...]
    tree: Any
    initial: dict[str, Any]  # variable of each initial value; a site without one starts at zero
    computed: dict[str, Any]  # variable of each `deterministic` site
    messages: dict[str, dict[str, Any]]  # what is static in NumPyro's messages, by site
    # Which parameters of distributions have to be looked at when their values are known.
    domains: tuple[tuple[Domain, Any], ...]
    validates: bool  # whether NumPyro validates distributions that do not say so themselves
    key: Hashable  # equal for programs that can share compiled code
    # Variables, or values, and the structure of the arguments; None where these are not kept.
    called: tuple[tuple[Any, ...], Any] | None
    as_numpy: bool  # whether the program was given its arguments as NumPy's arrays
    decided: Decided = Decided()

    def deciding(self, decided: Decided) -> Traced:
        """The same program, read as its data decide."""
        return replace(self, decided=decided, key=(self.key, decided))

    def at(self, constants: Sequence[Any]) -> Traced:
        """The same equations, of other constants."""
        return replace(self, constants=tuple(constants))

    @cached_property
    def _known(self) -> dict[int, Any]:
        return dict(zip(self.numbers, self.constants, strict=True))

    @cached_property
    def _of_sites(self) -> tuple[Equation, ...]:
        return needed_equations(self.equations, self.outputs, ())

    def arguments(self) -> tuple[tuple, dict[str, Any]]:
        """What the program is called with."""
        if self.called is None:
            raise TypeError("the program was traced without keeping its arguments")
        leaves, tree = self.called
        return jax.tree.unflatten(tree, evaluated((), leaves, self._known))

    def kept(self) -> Traced:
        """The same, whatever happens to the arrays that the program has read."""
        return self.at([_copied(x) for x in self.constants])

    def has_read_what(self, other: Traced) -> bool:
        """Whether another trace of the program has read the same numbers."""
        pairs = zip(self.constants, other.constants, strict=False)
        alike = all(
            np.array_equal(x, y, equal_nan=np.asarray(x).dtype.kind in "fc") for x, y in pairs
        )
        return alike and len(self.constants) == len(other.constants)

    @property
    def num_rows(self) -> int:
        """Length of the longest array that the program has read."""
        return max((np.shape(x)[0] for x in self.constants if np.ndim(x)), default=1)

    def without_derivative(self) -> Traced:
        """The same, of whose constants nothing is differentiated."""
        return self.at(
            [lax.stop_gradient(x) if isinstance(x, core.Tracer) else x for x in self.constants]
        )

    def sites(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """A message of NumPyro's for each site, at given values; others at their initial ones."""
        leaves = evaluated(self._of_sites, self.outputs, self.known(values))
        found = jax.tree.unflatten(self.tree, leaves)
        return {name: self.messages[name] | found[name] for name in self.messages}

    def computed_from(self, sites: Collection[str]) -> tuple[str, ...]:
        """Names of ``deterministic`` sites that follow from some of these sites, and no others."""
        found = []
        for name, output in self.computed.items():
            equations = needed_equations(self.equations, [output], ())
            read = {output} if isinstance(output, int) else set()
            read = read.union(*(equation.variables for equation in equations))
            on = {name for name, given in self.inputs.items() if given.number in read}
            if on and on <= {*sites}:
                found.append(name)
        return tuple(found)

    def compute(self, names: Sequence[str], values: Mapping[str, Any]) -> dict[str, Any]:
        """Values of ``deterministic`` sites at given values of the unobserved ones."""
        outputs = [self.computed[name] for name in names]
        equations = needed_equations(self.equations, outputs, ())
        return dict(zip(names, evaluated(equations, outputs, self.known(values)), strict=True))

    def known(self, values: Mapping[str, Any], besides: Collection[str] = ()) -> dict[int, Any]:
        """Constants and values of unobserved sites, or their initial ones, `besides` some."""
        known = dict(self._known)
        for name, given in self.inputs.items():
            if name not in besides:
                value = values[name] if name in values else self._start(name, known)
                known[given.number] = _as_input(value, given)
        return known

    def _start(self, name: str, known: Mapping[int, Any]) -> Any:
        own = self.inputs[name]
        if name not in self.initial:
            return jnp.zeros(own.shape, own.dtype)
        # A site of a scan may have a prior that depends on the site itself.
        known = {own.number: jnp.ones(own.shape, own.dtype), **known}
        number = self.initial[name]
        return jnp.broadcast_to(computed(self.equations, [number], known)[0], own.shape)

    def checked_domains(self, params: Mapping[str, Any]) -> list[tuple[Domain, Array]]:
        """Domains of parameters that no latent reaches, and whether they hold."""
        known = dict(self._known)
        for name, given in self.inputs.items():
            if name in params:
                known[given.number] = _as_input(params[name], given)
        found = []
        for domain, number in self.domains:
            equations = needed_equations(self.equations, [number], known)
            if _is_computable(equations, number, known):
                (holds,) = evaluated(equations, [number], dict(known))
                found.append((domain, jnp.asarray(holds)))
        return found


def _copied(x: Any) -> Any:
    if isinstance(x, core.Tracer):
        return x
    return np.array(x) if isinstance(x, np.ndarray) else jnp.copy(x)


def _as_input(value: Any, given: _Input) -> Any:
    if getattr(value, "dtype", None) == given.dtype and isinstance(value, Array):
        return value
    return jnp.asarray(value, given.dtype)


def _is_computable(equations: Sequence[Equation], number: Any, known: Mapping[int, Any]) -> bool:
    made = {x for equation in equations for x in equation.outputs} | known.keys()
    used = {x for equation in equations for x in equation.variables}
    return used <= made and (isinstance(number, Constant) or number in made)


# ---------------------------------------------------------------- tracing


def trace(
    model: Callable[..., Any],
    args: tuple,
    kwargs: Mapping[str, Any],
    params: Mapping[str, Any],
    *,
    keep_arguments: bool = False,
) -> Traced:
    """Run a program once, with NumPy's arrays where it looks at values; keep what it computes."""
    _refuse_masked(args, kwargs, params)
    called: Any = as_working_dtype((args, dict(kwargs)))
    given = as_working_dtype(dict(params))
    traced = partial(_trace, model, params=given, keep_arguments=keep_arguments)
    try:
        return without_stale_traces(partial(traced, called, as_numpy=False))
    except NEEDS_VALUES:
        called = jax.tree.map(to_numpy, called)
    try:
        return without_stale_traces(partial(traced, called, as_numpy=True))
    except NEEDS_VALUES as error:
        raise TypeError(_LOOKS_AT_LATENTS) from error


def _refuse_masked(args: tuple, kwargs: Mapping[str, Any], params: Mapping[str, Any]) -> None:
    """Refuse arrays of `numpy.ma`, whose masked numbers JAX takes for data."""
    positional = {f"number {place}": x for place, x in enumerate(args)}
    for name, value in {**positional, **kwargs, **params}.items():
        if any(map(np.ma.isMaskedArray, jax.tree.leaves(value))):
            raise ValueError(_MASKED.format(f"argument {name}"))


def _trace(
    model: Callable[..., Any],
    called: tuple[tuple, dict[str, Any]],
    *,
    params: dict[str, Any],
    keep_arguments: bool,
    as_numpy: bool,
) -> Traced:
    validates = bool(dist.Distribution._validate_args)
    unknown = Unobserved(params)
    found: dict[str, Any] = {}

    def leaves() -> list[Any]:
        args, kwargs = called if as_numpy else jax.tree.map(_as_unknown_number, called)
        messages = unknown.run(model, args, kwargs)
        check_known_domains(messages, validates)
        dynamic = {name: _dynamic(message) for name, message in messages.items()}
        named, found["tree"] = jax.tree_util.tree_flatten_with_path(dynamic)
        places = enumerate(path for path, _ in named)
        found["scales"] = {path[0].key: place for place, path in places if path[1].key == "scale"}
        outputs = [_as_numbers(path[0].key, leaf) for path, leaf in named]
        initial = {name: jnp.asarray(make()) for name, make in unknown.initial.items()}
        domains = list(unknown_domains(messages, validates))
        given, found["called"] = jax.tree.flatten((args, kwargs)) if keep_arguments else ([], None)
        found["messages"] = {name: _static(message) for name, message in messages.items()}
        found["domains"] = [domain for domain, _ in domains]
        found["computed"] = list(unknown.computed)
        computed = [jnp.asarray(value) for value in unknown.computed.values()]
        groups = outputs, initial, computed, [holds for _, holds in domains], given
        found["leaves"], found["groups"] = jax.tree.flatten(groups)
        return [0 if _is_static(x) else x for x in found["leaves"]]

    with handlers.block(), validation_enabled(False):
        closed = jax.make_jaxpr(leaves)()
    refuse_stale(closed)
    return _assembled(flat(closed), found, validates, as_numpy, unknown.names)


def _assembled(
    traced: FlatTrace,
    found: dict[str, Any],
    validates: bool,
    as_numpy: bool,
    names: Sequence[str],
) -> Traced:
    inputs, constants, kept = _taken_out(traced)
    inputs = {name: inputs[name] for name in names}
    # Numbers and objects of Python's stand for themselves.
    leaves = zip(found["leaves"], traced.outputs, strict=True)
    variables = [Constant(leaf) if _is_static(leaf) else number for leaf, number in leaves]
    outputs, initial, computed, holds, given = jax.tree.unflatten(found["groups"], variables)
    domains, tree = tuple(zip(found["domains"], holds, strict=True)), found["called"]
    whole = traced._replace(equations=tuple(kept), constants=constants)
    for name, place in found["scales"].items():
        found["messages"][name]["in_part"] = _counts_in_part(whole, outputs[place])
    called = None if tree is None else (tuple(given), tree)
    equations = needed_equations(kept, variables, ())
    read = {x for equation in equations for x in equation.variables}
    read |= {x for x in variables if isinstance(x, int)}
    constants = {number: value for number, value in constants.items() if number in read}
    said = found["computed"], found["messages"], called and called[0]
    content = (
        frozen_equations(equations),
        frozen({name: (x.number, x.shape, str(x.dtype)) for name, x in inputs.items()}),
        tuple((number, jnp.shape(x), str(x.dtype)) for number, x in constants.items()),
        frozen([outputs, initial, computed, domains, *said]),
        frozen_tree(found["tree"]),
        None if tree is None else frozen_tree(tree),
        validates,
    )
    return Traced(
        equations,
        inputs,
        tuple(constants),
        tuple(constants.values()),
        tuple(outputs),
        found["tree"],
        initial,
        dict(zip(found["computed"], computed, strict=True)),
        found["messages"],
        domains,
        validates,
        shared_key(Key(content)),
        called,
        as_numpy,
    )


def _taken_out(
    traced: FlatTrace,
) -> tuple[dict[str, _Input], dict[int, Any], list[Equation]]:
    """Inputs and constants in the place of the equations that stood for them; and the others."""
    inputs, constants, kept = {}, dict(traced.constants), []
    for equation in traced.equations:
        params = equation.params
        if equation.primitive is site_value:
            (number,) = equation.outputs
            inputs[params["name"]] = _Input(number, params["shape"], params["dtype"])
        elif equation.primitive is _number:
            (x,), (number,) = equation.inputs, equation.outputs
            constants[number] = x.value if isinstance(x, Constant) else constants[x]
        else:
            kept.append(equation)
    return inputs, constants, kept


def _counts_in_part(trace: FlatTrace, scale: Any) -> bool:
    """Whether some datum counts less than once, as far as is known before code is compiled."""
    try:
        known = scale.value if isinstance(scale, Constant) else concrete_value(trace, scale)
    except UnknownValueError:
        return True
    return not np.all((np.equal(known, 0)) | (np.greater_equal(known, 1)))


def readable_arguments(
    model: Callable[..., Any],
    args: tuple,
    kwargs: Mapping[str, Any],
    params: Mapping[str, Any],
    fitted: Traced | None = None,
) -> tuple[tuple, dict[str, Any]]:
    """Arguments of a program in the form, JAX's or NumPy's, in which it can be traced.

    Where the program that was `fitted` had read other data, it is refused.
    """
    learned = {} if fitted is None else fitted.initial
    given = {name: value for name, value in params.items() if name not in learned}
    kept = fitted is not None and fitted.called is not None
    found = trace(model, args, kwargs, given, keep_arguments=kept)
    if fitted is not None and not found.has_read_what(fitted):
        raise ValueError(
            "the data have changed since the fit, so what would be said is of other data; fit "
            "again, or give the fit a copy that stays as it is"
        )
    as_numpy = found.as_numpy
    called = as_working_dtype((args, dict(kwargs)))
    return jax.tree.map(to_numpy, called) if as_numpy else called


def _dynamic(message: Mapping[str, Any]) -> dict[str, Any]:
    """What of a message is computed."""
    if message["type"] == "sample":
        scale, fn = message["scale"], portable(message["fn"], np.shape(message["value"]))
        return {"fn": fn, "value": message["value"], "scale": scale}
    if message["type"] == "param":
        constraint = message["kwargs"].get("constraint", constraints.real)
        return {"value": message["value"], "kwargs": {"constraint": constraint}}
    return {}


def _static(message: Mapping[str, Any]) -> dict[str, Any]:
    """What of a message is the same for all values."""
    shown = {name: message[name] for name in _SHOWN if name in message}
    if message["type"] == "plate":
        return shown | {"args": tuple(message["args"])}
    frames = [_Frame(f.name, f.dim, f.size) for f in message["cond_indep_stack"]]
    return shown | {"cond_indep_stack": frames, "args": (), "kwargs": {}}


class _Frame(NamedTuple):
    name: str
    dim: int
    size: int


def _as_numbers(site: str, leaf: Any) -> Any:
    """An array as it is, and a table's column as one: a key would show its identity alone."""
    if np.ma.isMaskedArray(leaf):
        raise ValueError(_MASKED.format(f"the value of site {site!r}"))
    if isinstance(leaf, jax.Array) or not hasattr(leaf, "__array__"):
        return leaf
    array = np.asarray(leaf)
    if not (array.dtype == bool or jnp.issubdtype(array.dtype, jnp.number)):
        raise TypeError(
            f"site {site!r} is given a {type(leaf).__name__} of dtype {array.dtype}, which holds "
            "other things than numbers. Leave out or mask what is missing, and convert the rest"
        )
    return array


def _is_static(leaf: Any) -> bool:
    return not isinstance(leaf, (np.ndarray, np.generic, jax.Array))


def _as_unknown_number(leaf: Any) -> Any:
    """A number among the arguments is a constant like others, and no literal."""
    return _number.bind(leaf) if isinstance(leaf, jax.Array) and not leaf.ndim else leaf
