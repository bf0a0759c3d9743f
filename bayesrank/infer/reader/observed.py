"""Turns what was traced of an observed site into factors of one or two predictors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from bayesrank.distributions import TiltedMoments
from bayesrank.infer.gaussian.rows import Rows
from bayesrank.infer.pairs import PairBlock, PairLikelihood
from bayesrank.infer.quadrature_check import QuadratureMoments
from bayesrank.infer.reader.affine import Affine, Degree
from bayesrank.infer.reader.components import Components, find_components
from bayesrank.infer.reader.densities import takes_any_value
from bayesrank.infer.reader.jaxpr import UnknownValueError, computed, needed_equations
from bayesrank.infer.reader.joint import Joint
from bayesrank.infer.reader.predictors import (
    FactorMoments,
    Predictors,
    gaussian_moments,
    mixture_moments,
    pair_predictors_of,
    predictors_of,
)
from bayesrank.infer.reader.refusals import Refusal
from bayesrank.infer.sites import Block

Checks = list[tuple[Refusal, Array]]


class SiteFactors(NamedTuple):
    """The factors of one observed site."""

    rows: Rows  # of predictors over all latents, (G, n); of pairs, (3 G, n)
    offset: Array  # (G,); of pairs, (2, G)
    moments: FactorMoments | None  # of factors to `power`; None of pairs
    constant: Array  # of elements that see no latent
    collinear: Array | None  # whether each sees one direction; None by construction
    gaussian: bool  # in their predictors
    repeats: Array | None = None  # how often each counts, (G,); once without it
    pair_likelihood: PairLikelihood | None = None  # of pairs, to `power`

    def block(self, rows: Rows, mean: Array) -> Block | PairBlock:
        """The factors as EP takes them: rows over the core latents, measured from their mean."""
        at_mean = rows.apply(mean)
        if self.pair_likelihood is not None:
            offset = self.offset + at_mean.reshape(3, -1)[:2]
            return PairBlock(rows, offset, self.pair_likelihood)
        if self.moments is None:
            raise TypeError("factors have either moments or the likelihood of a pair")
        return Block(rows, self.offset + at_mean, self.moments, self.gaussian, self.repeats)


class Observed(NamedTuple):
    """What the observed sites say."""

    factors: dict[str, SiteFactors]  # their factors by site
    quadratic: list[str]  # sites that mix latents, and belong to the Gaussian part
    constant: Array  # log densities that see no latent
    checks: Checks  # refusals, each with a boolean array that must hold for it not to be raised


def all_factors(joint: Joint, power: float, spread: Array) -> Observed:
    """Factors of all observed sites, or the refusal that names the site; see `observed_factors`."""
    factors: dict[str, SiteFactors] = {}
    quadratic: list[str] = []
    constant = jnp.zeros((), spread.dtype)
    checks: Checks = []
    for name in joint.observed:
        if name in joint.inventory.sampled:
            raise _depends_on_latents(joint, name, "log_prob", "prior_of_hyperparameter")
        weight = joint.observed[name].scale
        if isinstance(weight, (Affine, Degree)):
            raise _depends_on_latents(joint, name, "scale", "scale_of_data")
        if weight is not None:
            checks.append((Refusal("no_weight", name), jnp.isfinite(weight) & (weight >= 0)))
        supported = joint.observed[name].supported
        moves = isinstance(supported, (Affine, Degree))
        if moves and not takes_any_value(joint.sites_at_zero()[name]["fn"]):
            raise _depends_on_latents(joint, name, "supported", "moving_support")
        if supported is not None and not moves:
            checks.append((Refusal("unsupported_value", name), supported))
        found = observed_factors(joint, name, power, spread)
        if isinstance(found, SiteFactors):
            factors[name] = found
            constant += found.constant
            if found.collinear is not None:
                reason = "not_quadratic" if name in joint.inventory.factors else "two_directions"
                seen = joint.reach(joint.observed_numbers[name].log_prob)
                refusal = Refusal(reason, name, sites=tuple(sorted(seen)))
                checks.append((refusal, found.collinear))
        elif found is None:
            quadratic.append(name)
        else:
            constant += found
    return Observed(factors, quadratic, constant, checks)


def _depends_on_latents(joint: Joint, name: str, what: str, reason: str) -> ValueError:
    parents = ", ".join(sorted(joint.reach(getattr(joint.observed_numbers[name], what))))
    return Refusal(reason, name, parents).error()


def observed_factors(
    joint: Joint, name: str, power: float, spread: Array
) -> SiteFactors | Array | None:
    """Factors of a site; its log density (); or None where it is quadratic and mixes latents."""
    outputs = joint.observed[name]
    log_prob = outputs.log_prob
    scale = 1.0 if outputs.scale is None else outputs.scale
    if not isinstance(log_prob, (Affine, Degree)):
        return jnp.sum(scale * log_prob)
    if outputs.closed_form is not None and power == 1:
        factors = _closed_form(outputs.closed_form, outputs.scale, _shape(joint, name))
        if factors is not None:
            return factors
    if isinstance(log_prob, Affine):
        return None
    return _from_trace(joint, name, scale, power, spread)


def _shape(joint: Joint, name: str) -> tuple[int, ...]:
    number = joint.observed_numbers[name].log_prob
    return next(
        shape
        for equation in joint.trace.equations
        for output, shape in zip(equation.outputs, equation.shapes, strict=True)
        if output == number
    )


def _closed_form(closed_form: Any, scale: Any, shape: tuple[int, ...]) -> SiteFactors | None:
    """Factors of a distribution that knows its tilted moments, if only its predictor varies."""
    base, predictor, value, mask = closed_form
    if not isinstance(predictor, Affine):
        return None
    leaves, structure = jax.tree.flatten(base, is_leaf=lambda x: isinstance(x, (Affine, Degree)))
    varying = [leaf for leaf in leaves if isinstance(leaf, (Affine, Degree))]
    if len(varying) != 1:
        return None
    # The predictor's own value is not used by `tilted_moments`.
    fixed = jax.tree.unflatten(
        structure, [leaf.offset if isinstance(leaf, Affine) else leaf for leaf in leaves]
    )
    size, count = math.prod(shape), None
    flat = predictor.broadcast(shape).reshape((size,))
    if scale is not None:
        weight = jnp.broadcast_to(scale, shape)
        counts = weight != 0  # no factor can take a share of nothing
        mask, count = counts if mask is None else counts & mask, jnp.where(counts, weight, 1.0)
        count = count.reshape(size)

    def moments(mean: Array, variance: Array) -> TiltedMoments:
        parts = fixed.tilted_moments(value, mean.reshape(shape), variance.reshape(shape))
        if mask is not None:
            parts = [jnp.where(mask, part, 0.0) for part in parts]
        return TiltedMoments(*(jnp.broadcast_to(part, shape).reshape(size) for part in parts))

    rows = Rows(flat.values, flat.columns, flat.size)
    constant = jnp.zeros((), flat.offset.dtype)
    return SiteFactors(rows, flat.offset, moments, constant, None, False, count)


def _from_trace(
    joint: Joint, name: str, scale: Any, power: float, spread: Array
) -> SiteFactors | None:
    """Factors whose likelihood is the nonlinear part of the trace."""
    output = joint.observed_numbers[name].log_prob
    part = nonlinear_part(joint, name, output, joint.observed_numbers[name].parts)
    quadratic = joint.observed[name].log_prob is Degree.QUADRATIC
    if quadratic and not _one_each(part.components):
        return None
    if name in joint.decided.pairs and not quadratic:
        return _pairs(part, scale, power, spread)
    predictors = predictors_of(part.arrays, part.components, spread)

    def elements(eta: Array) -> Array:
        return (scale * part.evaluate(predictors.expand(eta))).reshape(-1)

    def log_likelihood(eta: Array) -> Array:
        return power * _sum_by_component(elements(eta), part.components)

    moments = gaussian_moments(log_likelihood) if quadratic else QuadratureMoments(log_likelihood)
    with_latents = jnp.asarray(part.components.output < 0)
    constant = jnp.sum(jnp.where(with_latents, elements(predictors.offset), 0.0))
    mixture = _mixture(part, predictors, _shape(joint, name), joint.observed[name].scale, power)
    return SiteFactors(
        predictors.rows,
        predictors.offset,
        moments if mixture is None else mixture,
        constant,
        predictors.collinear,
        quadratic,
    )


def _pairs(part: NonlinearPart, scale: Any, power: float, spread: Array) -> SiteFactors:
    """Factors of two predictors each."""
    predictors = pair_predictors_of(part.arrays, part.components, spread)

    def elements(eta: Array) -> Array:
        return (scale * part.evaluate(predictors.expand(eta))).reshape(-1)

    def log_likelihood(eta: Array) -> Array:
        return power * _sum_by_component(elements(eta), part.components)

    alone = jnp.asarray(part.components.output < 0)
    constant = jnp.sum(jnp.where(alone, elements(predictors.offset), 0.0))
    seen = predictors.rows, predictors.offset, None, constant, predictors.planar, False
    return SiteFactors(*seen, pair_likelihood=log_likelihood)


def _mixture(
    part: NonlinearPart, predictors: Predictors, shape: tuple[int, ...], scale: Any, power: float
) -> FactorMoments | None:
    """Tilted moments of mixtures of one element each, part by part; None where they are none."""
    log_parts, components = part.log_parts, part.components
    kept = np.flatnonzero(components.output >= 0)
    owner = components.output[kept]
    if log_parts is None or not np.array_equal(np.sort(owner), np.arange(components.size)):
        return None
    element = kept[np.argsort(owner)]

    def of_factors(eta: Array) -> Array:
        found = log_parts(predictors.expand(eta))
        return found.reshape(-1, found.shape[-1])[element]

    exponent: Any = power
    if scale is not None:
        exponent = power * jnp.broadcast_to(scale, shape).reshape(-1)[element]
    return partial(mixture_moments, of_factors, exponent)


def _one_each(components: Components) -> bool:
    """Whether each component joins the predictors of no more than one output element."""
    used = components.output[components.output >= 0]
    return np.unique(used).size == used.size and bool(
        np.bincount(components.predictor[components.predictor >= 0], minlength=1).max() <= 1
    )


def _sum_by_component(elements: Array, components: Components) -> Array:
    if components.elementwise:
        return elements
    kept = np.flatnonzero(components.output >= 0)
    owner = components.output[kept]
    return jnp.zeros(components.size, elements.dtype).at[owner].add(elements[kept])


class NonlinearPart(NamedTuple):
    """What is done to affine arrays until the log densities of a site are there."""

    arrays: tuple[Affine, ...]
    components: Components  # which of their elements results depend on
    evaluate: Callable[[Sequence[Array]], Array]  # the result
    log_parts: Callable[[Sequence[Array]], Array] | None  # of a mixture, or None


def nonlinear_part(joint: Joint, name: str, output: int, parts: int | None = None) -> NonlinearPart:
    """What of the trace is nonlinear before an output, and before the parts of a mixture."""
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
    fixed: dict[int, Any] = {
        k: v for k, v in joint.env.items() if not isinstance(v, (Affine, Degree))
    }

    def evaluated(number: int) -> Callable[[Sequence[Array]], Array]:
        def at(values: Sequence[Array]) -> Array:
            known = fixed | dict(zip(arrays, values, strict=True))
            return computed(equations, [number], known)[0]

        return at

    log_parts = None if parts is None else evaluated(parts)
    return NonlinearPart(tuple(arrays.values()), components, evaluated(output), log_parts)
