"""What the numbers of its data decide of a program's structure, looked at before compiling.

Compiled code serves all data of the same shapes, so what is static in it cannot follow from their
values. Most programs leave no doubt. For the others small code of its own evaluates the checks in
question at the given data, and the program is read as they say.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import jax
import numpy as np
from jax import core

from bayesrank.infer.compiled import Identified, compiled_call
from bayesrank.infer.reader import conditionals
from bayesrank.infer.reader.components import ELEMENTWISE
from bayesrank.infer.reader.inventory import take_inventory
from bayesrank.infer.reader.jaxpr import FlatTrace, needed_equations, propagated
from bayesrank.infer.reader.program import Program
from bayesrank.infer.reader.refusals import Refusal
from bayesrank.infer.reader.traced import Decided, Traced

_OF_PAIRS = frozenset({"two_directions", "not_quadratic"})
_IN_DOUBT = _OF_PAIRS | {"two_groups"}


class _Reader(Identified, Protocol):
    """An engine that reads programs."""

    def read_source(self, source: Traced, params: Mapping[str, Any]) -> Program:
        """Read a program with the sites in `params` fixed."""
        ...


def resolve_structure(engine: _Reader, source: Traced, params: Mapping[str, Any]) -> Traced:
    """The program, to be read as its data say; as it is where these are traced."""
    traced = any(isinstance(x, core.Tracer) for x in source.constants)
    latents = [
        name
        for name, given in source.inputs.items()
        if name not in params and (name not in source.initial or math.prod(given.shape) > 1)
    ]
    if traced or not (
        _has_groups_in_doubt(source, latents) or _has_pairs_in_doubt(source, latents)
    ):
        return source
    point = _known_values(source, params)
    program, refused = _settled(engine, source, point, Decided(by_rows=True))
    bounded = frozenset(k for x in refused for k in x.sites if k in source.initial)
    if bounded:
        held = Decided(by_rows=True, held=bounded)
        other, refused = _settled(engine, source, point, held)
        program = program if refused else other
    return program


def _settled(
    engine: _Reader, source: Traced, point: dict[str, Any], decided: Decided
) -> tuple[Traced, list[Refusal]]:
    """The program, read as checks ask for in turn; and the refusals of pairs that remain."""
    while True:
        program = source.deciding(decided)
        failed = _failed(engine, program, point)
        joined = frozenset(x.detail for x in failed if x.reason == "two_groups")
        pairs = frozenset(x.name for x in failed if x.reason in _OF_PAIRS)
        found = decided._replace(joined=decided.joined | joined, pairs=decided.pairs | pairs)
        if found == decided:
            return program, [x for x in failed if x.reason in _OF_PAIRS]
        decided = found


def _has_groups_in_doubt(source: Traced, latents: Sequence[str]) -> bool:
    """Whether a plate has many latents, and both other latents and data stand outside of it."""
    sizes: Counter[str] = Counter()
    stacks = {k: m.get("cond_indep_stack", ()) for k, m in source.messages.items()}
    plates = {name: {frame.name for frame in stack} for name, stack in stacks.items()}
    for name, given in source.inputs.items():
        sizes.update(dict.fromkeys(plates[name], math.prod(given.shape)))
    observed = [k for k, m in source.messages.items() if m.get("is_observed")]
    return any(
        size >= conditionals.MANY
        and all(any(plate not in plates[k] for k in names) for names in (observed, latents))
        for plate, size in sizes.items()
    )


def _has_pairs_in_doubt(source: Traced, latents: Sequence[str]) -> bool:
    """Whether elements of some likelihood may depend on more than one element of affine arrays."""
    numbers = [source.inputs[name].number for name in latents]
    orders = propagated(FlatTrace(source.equations, (), (), {}), dict.fromkeys(numbers, 1))
    messages = jax.tree.unflatten(source.tree, range(len(source.outputs)))
    for name, message in source.messages.items():
        if message.get("is_observed"):
            leaves = [source.outputs[k] for k in jax.tree.leaves(messages[name])]
            seeing = [x for x in leaves if isinstance(x, int) and orders.get(x)]
            size = math.prod(messages[name]["fn"].batch_shape)
            if seeing and not _sees_one_each(source, seeing, orders, size):
                return True
    return False


def _sees_one_each(
    source: Traced, numbers: list[int], orders: Mapping[int, int], size: int
) -> bool:
    """Whether outputs follow element by element from one affine array of `size` elements."""
    affine = {x for x, order in orders.items() if order == 1}
    equations = needed_equations(source.equations, numbers, affine)
    entering = affine & set(numbers).union(*(e.variables for e in equations))
    curved = [e for e in equations if not orders.keys().isdisjoint(e.outputs)]
    if len(entering) > 1 or any(e.name not in ELEMENTWISE for e in curved):
        return False
    shapes = {
        x: shape for e in source.equations for x, shape in zip(e.outputs, e.shapes, strict=True)
    }
    shapes |= {given.number: given.shape for given in source.inputs.values()}
    return all(math.prod(shapes[x]) <= size for x in entering)


def _known_values(source: Traced, params: Mapping[str, Any]) -> dict[str, Any]:
    """Values of fixed sites; where they are traced, the ones that the program starts from."""
    traced = [k for k, v in params.items() if isinstance(v, core.Tracer)]
    start = source.sites({}) if traced else {}
    return {**params, **{k: start[k]["value"] for k in traced}}


def _failed(engine: _Reader, source: Traced, params: dict[str, Any]) -> list[Refusal]:
    passed, refusals = compiled_call(_checks, engine, source, params)
    return [x for x, ok in zip(refusals, passed, strict=True) if not np.all(ok)]


def _checks(
    engine: _Reader, source: Traced, params: dict[str, Any]
) -> tuple[tuple[jax.Array, ...], list[Refusal]]:
    values = take_inventory(source, params).hyperparameters
    found = engine.read_source(source, {**params, **values}).checks
    checks = [(refusal, ok) for refusal, ok in found if refusal.reason in _IN_DOUBT]
    return tuple(ok for _, ok in checks), [refusal for refusal, _ in checks]
