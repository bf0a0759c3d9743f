"""The nonlinear part of a trace, from affine arrays of predictors to an array of log densities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from jax import Array

from bayesrank.infer.reader.affine import Affine, Degree, Value
from bayesrank.infer.reader.components import Components, find_components
from bayesrank.infer.reader.jaxpr import UnknownValueError, needed_equations
from bayesrank.infer.reader.joint import Joint
from bayesrank.infer.reader.predictors import evaluate
from bayesrank.infer.reader.refusals import Refusal

__all__ = ["NonlinearPart", "nonlinear_part"]


class NonlinearPart(NamedTuple):
    """What is done to affine arrays until the log densities of a site are there.

    Attributes
    ----------
    arrays
        The affine arrays.
    components
        Which of their elements the elements of the result depend on.
    evaluate
        Gives the result from values of the affine arrays.
    log_parts
        Gives the parts that a mixture's result is computed from; None where it is no mixture.
    """

    arrays: tuple[Affine, ...]
    components: Components
    evaluate: Callable[[Sequence[Array]], Array]
    log_parts: Callable[[Sequence[Array]], Array] | None


def nonlinear_part(joint: Joint, name: str, output: int, parts: int | None = None) -> NonlinearPart:
    """The nonlinear part of the trace before an output, or the parts of a mixture, of a site.

    It is refused if its structure depends on an array that is being traced.
    """
    constants = [k for k, v in joint.env.items() if not isinstance(v, Degree)]
    equations = needed_equations(joint.trace.equations, [output], constants)
    inputs = dict.fromkeys(
        x
        for equation in equations
        for x in equation.inputs
        if isinstance(x, int) and isinstance(joint.env[x], Affine)
    )
    arrays = {x: value for x in inputs if isinstance(value := joint.env[x], Affine)}
    shapes = {x: array.shape for x, array in arrays.items()}
    try:
        components = find_components(joint.trace, equations, shapes, output)
    except UnknownValueError as error:
        raise Refusal("traced_structure", name).error() from error
    fixed: dict[int, Value] = {
        k: v for k, v in joint.env.items() if not isinstance(v, (Affine, Degree))
    }

    def evaluated(number: int) -> Callable[[Sequence[Array]], Array]:
        def at(values: Sequence[Array]) -> Array:
            given = dict(zip(arrays, values, strict=True))
            return evaluate(equations, fixed, given, number)

        return at

    log_parts = None if parts is None else evaluated(parts)
    return NonlinearPart(tuple(arrays.values()), components, evaluated(output), log_parts)
