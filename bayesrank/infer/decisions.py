"""What the numbers of its data decide of a program's structure, looked at before compiling.

Compiled code serves all data of the same shapes, so what is static in it cannot follow from their
values. Most programs leave no doubt. For the others small code of its own evaluates the checks in
question at the given data, and the program is read as they say.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax import core

from bayesrank.infer.compiled import compiled_call
from bayesrank.infer.reader import conditionals
from bayesrank.infer.reader.inventory import take_inventory
from bayesrank.infer.reader.refusals import Refusal
from bayesrank.infer.reader.traced import Decided, Traced

if TYPE_CHECKING:
    from bayesrank.infer.engine import Engine

_IN_DOUBT = frozenset({"two_groups"})


def decide(engine: Engine, source: Traced, params: Mapping[str, Any]) -> Traced:
    """The program, to be read as its data say; as it is where these are traced."""
    traced = any(isinstance(x, core.Tracer) for x in source.constants)
    if traced or not _has_groups_in_doubt(source):
        return source
    point = _known_values(source, params)
    decided = Decided(by_rows=True)
    while True:
        program = source.deciding(decided)
        failed = _failed(engine, program, point)
        plates = frozenset(refusal.detail for refusal in failed)
        if not plates:
            return program
        decided = decided._replace(joined=decided.joined | plates)


def _has_groups_in_doubt(source: Traced) -> bool:
    """Whether a plate has many latents beside others, and some data stand outside of it."""
    sizes: Counter[str] = Counter()
    stacks = {k: m.get("cond_indep_stack", ()) for k, m in source.messages.items()}
    plates = {name: {frame.name for frame in stack} for name, stack in stacks.items()}
    for name, given in source.inputs.items():
        sizes.update(dict.fromkeys(plates[name], math.prod(given.shape)))
    observed = [k for k, m in source.messages.items() if m.get("is_observed")]
    return any(
        size >= conditionals.MANY and any(plate not in plates[k] for k in observed)
        for plate, size in sizes.items()
    )


def _known_values(source: Traced, params: Mapping[str, Any]) -> dict[str, Any]:
    """Values of fixed sites; where they are traced, the ones that the program starts from."""
    traced = [k for k, v in params.items() if isinstance(v, core.Tracer)]
    start = source.sites({}) if traced else {}
    return {**params, **{k: start[k]["value"] for k in traced}}


def _failed(engine: Engine, source: Traced, params: dict[str, Any]) -> list[Refusal]:
    passed, refusals = compiled_call(_checks, engine, source, params)
    return [x for x, ok in zip(refusals, passed, strict=True) if not np.all(ok)]


def _checks(
    engine: Engine, source: Traced, params: dict[str, Any]
) -> tuple[tuple[jax.Array, ...], list[Refusal]]:
    values = take_inventory(source, params).hyperparameters
    found = engine.read_source(source, {**params, **values}).checks
    checks = [(refusal, ok) for refusal, ok in found if refusal.reason in _IN_DOUBT]
    return tuple(ok for _, ok in checks), [refusal for refusal, _ in checks]
