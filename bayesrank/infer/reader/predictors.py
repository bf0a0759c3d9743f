"""The factors of an observed site, each as a function of its own scalar predictor."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array

from bayesrank.distributions import BradleyTerry, OrderedLogit, TiltedMoments
from bayesrank.infer.gaussian.rows import Rows
from bayesrank.infer.quadrature import tilted_moments
from bayesrank.infer.reader.affine import Affine
from bayesrank.infer.reader.components import Components

# Tilted moments of factors at means and variances (G,) of their cavities.
FactorMoments = Callable[[Array, Array], TiltedMoments]


@runtime_checkable
class SupportsTiltedMoments(Protocol):
    """A distribution that knows its tilted moments in closed form."""

    predictor: str  # name of the argument that is the scalar predictor

    def tilted_moments(
        self, value: Any, mean: Array, variance: Array
    ) -> tuple[Array, Array, Array]:
        """``log Z`` and its first two derivatives in the cavity's mean, elementwise."""
        ...


class Predictors(NamedTuple):
    """One predictor for each component of a site, and how the program's follow from it."""

    rows: Rows  # of the components' predictors, (G, n)
    offset: Array  # where all latents are zero, shape (G,)
    expand: Callable[[Array], list[Array]]  # predictors (G,) to affine arrays
    collinear: Array  # whether a component's rows have one direction, (G,)


def predictors_of(arrays: Sequence[Affine], components: Components, spread: Array) -> Predictors:
    """One predictor a component, ``c_j`` times whose row is ``a_j``; `spread` (n,) scales."""
    shapes = [a.shape for a in arrays]
    flat = [a.reshape((math.prod(a.shape),)) for a in arrays]
    if len(flat) == 1 and components.elementwise:
        (only,) = flat
        rows = Rows(only.values, only.columns, only.size)
        collinear = jnp.ones(components.size, bool)
        return Predictors(rows, only.offset, lambda eta: [eta.reshape(shapes[0])], collinear)
    values, columns, offsets = stacked(flat)
    owner = np.maximum(components.predictor, 0)
    used = jnp.asarray(components.predictor >= 0)
    weighted = values * (spread if columns is None else spread[columns])
    squared = jnp.where(used, _squared_norm(weighted, columns), -1.0)
    first = _longest(squared, owner, used, components.size)
    of_component = first[owner]
    reference = squared[of_component]
    cross = _inner_product(weighted, columns, of_component)
    scale = cross / jnp.where(reference > 0, reference, 1.0)
    residual = _squared_residual(weighted, columns, scale, of_component)
    # Of a norm, this is the power 3/4 of rounding: 2e-12, or 6e-6 in single precision.
    straight = ~used | (residual <= jnp.finfo(values.dtype).eps ** 1.5 * squared)
    collinear = jnp.ones(components.size, bool).at[owner].min(straight)
    cuts = np.cumsum([math.prod(shape) for shape in shapes])[:-1]

    def expand(eta: Array) -> list[Array]:
        moved = offsets + scale * (eta[owner] - offsets[of_component])
        parts = jnp.split(jnp.where(used, moved, offsets), cuts)
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    rows = Rows(values[first], None if columns is None else columns[first], flat[0].size)
    return Predictors(rows, offsets[first], expand, collinear)


class PairPredictors(NamedTuple):
    """Two predictors for each component of a site, in units of their prior."""

    rows: Rows  # of the first ones, the second ones and the sums of both, (3 G, n)
    offset: Array  # of the first two where all latents are zero, (2, G)
    expand: Callable[[Array], list[Array]]  # predictors (2, G) to affine arrays
    planar: Array  # whether a component's rows have two directions at most, (G,)


def pair_predictors_of(
    arrays: Sequence[Affine], components: Components, spread: Array
) -> PairPredictors:
    """Two predictors a component, whose rows all others combine; `spread` (n,) scales.

    The first has the longest row, the second that with the most beside the first.
    """
    shapes = [a.shape for a in arrays]
    values, columns, offsets = stacked([a.reshape((math.prod(a.shape),)) for a in arrays])
    owner, used = np.maximum(components.predictor, 0), jnp.asarray(components.predictor >= 0)
    weighted = values * (spread if columns is None else spread[columns])
    squared = jnp.where(used, _squared_norm(weighted, columns), -1.0)
    first = _longest(squared, owner, used, components.size)
    one = first[owner]
    length = jnp.where(squared[one] > 0, squared[one], 1.0)
    along_first = _inner_product(weighted, columns, one)
    beside = _squared_residual(weighted, columns, along_first / length, one)
    beside = jnp.where(used, beside, -1.0)
    second = _longest(beside, owner, used, components.size)
    two, rounding = second[owner], jnp.finfo(values.dtype).eps ** 1.5
    alone = beside[two] <= rounding * squared[two]
    # Each row is ``x`` times the first and ``y`` times the second.
    across = jnp.where(alone, 0.0, along_first[two])
    along_second = jnp.where(alone, 0.0, _inner_product(weighted, columns, two))
    y = (length * along_second - across * along_first) / jnp.where(alone, 1.0, length * beside[two])
    x = (along_first - across * y) / length
    left = _squared_rest(weighted, columns, [(x, one), (y, two)])
    planar = jnp.ones(components.size, bool).at[owner].min(~used | (left <= rounding * squared))
    units = [jnp.sqrt(length), jnp.sqrt(jnp.where(alone, 1.0, squared[two]))]
    x, y = x * units[0], y * units[1]
    start = jnp.stack([offsets[first] / units[0][first], offsets[second] / units[1][second]])
    cuts = np.cumsum([math.prod(shape) for shape in shapes])[:-1]

    def expand(eta: Array) -> list[Array]:
        apart = (eta - start)[:, owner]
        moved = offsets + x * apart[0] + y * apart[1]
        parts = jnp.split(jnp.where(used, moved, offsets), cuts)
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    weights = 1 / units[0][first], jnp.where(alone[second], 0.0, 1 / units[1][second])
    chosen = Rows(values, columns, arrays[0].size)
    rows = _with_sums(
        *(_taken(chosen, *what) for what in zip((first, second), weights, strict=True))
    )
    return PairPredictors(rows, start, expand, planar)


def _taken(rows: Rows, places: Array, weights: Array) -> Rows:
    """Multiples of the rows at some places."""
    columns = None if rows.columns is None else rows.columns[places]
    return Rows(weights[:, None] * rows.values[places], columns, rows.size)


def _with_sums(one: Rows, two: Rows) -> Rows:
    """Rows of two kinds, and behind them their sums."""
    if one.columns is None or two.columns is None:
        values = jnp.concatenate([one.values, two.values, one.values + two.values])
        return Rows(values, None, one.size)
    none = jnp.zeros_like(one.values)
    pairs = (one.values, none), (two.values, none), (one.values, two.values)
    places = (one.columns, one.columns), (two.columns, two.columns), (one.columns, two.columns)
    values, columns = (
        jnp.concatenate([jnp.concatenate(pair, axis=-1) for pair in each])
        for each in (pairs, places)
    )
    return Rows(values, columns, one.size)


def stacked(flat: list[Affine]) -> tuple[Array, Array | None, Array]:
    """Entries (E, r), columns and offsets (E,) of the rows of several flat arrays."""
    if any(a.columns is None for a in flat):
        flat = [a.densified() for a in flat]
    else:
        width = max(a.values.shape[-1] for a in flat)
        flat = [a.widened(width) for a in flat]
    sparse = [a.columns for a in flat if a.columns is not None]
    columns = jnp.concatenate(sparse) if sparse else None
    values = jnp.concatenate([a.values for a in flat])
    return values, columns, jnp.concatenate([a.offset for a in flat])


def _longest(squared: Array, owner: np.ndarray, used: Array, count: int) -> Array:
    """The longest row of each component, shape (count,): others may be zero."""
    every = np.arange(squared.shape[0])
    longest = jnp.zeros(count, squared.dtype).at[owner].max(squared)
    candidates = jnp.where(used & (squared == longest[owner]), every, every.size)
    return jnp.full(count, every.size).at[owner].min(candidates)


def _inner_product(values: Array, columns: Array | None, others: Array) -> Array:
    """Products of rows with the rows at `others`, shape (E,)."""
    if columns is None:
        return jnp.sum(values * values[others], axis=-1)
    same = columns[:, :, None] == columns[others][:, None, :]
    pairs = values[:, :, None] * values[others][:, None, :]
    return jnp.sum(jnp.where(same, pairs, 0.0), axis=(-1, -2))


def _squared_norm(values: Array, columns: Array | None) -> Array:
    """Squared lengths of rows, shape (E,), without differences of squares that cancel."""
    if columns is None:
        return jnp.sum(values**2, axis=-1)
    same = columns[:, :, None] == columns[:, None, :]
    total = jnp.sum(jnp.where(same, values[:, None, :], 0.0), axis=-1)
    return jnp.sum(total**2 / jnp.sum(same, axis=-1), axis=-1)


def _squared_residual(values: Array, columns: Array | None, scale: Array, others: Array) -> Array:
    """Squared length of what rows have beside `scale` times the rows at `others`, shape (E,)."""
    return _squared_rest(values, columns, [(scale, others)])


def _squared_rest(
    values: Array, columns: Array | None, parts: Sequence[tuple[Array, Array]]
) -> Array:
    """Squared length of what rows have beside multiples of rows at places, shape (E,)."""
    multiples = [-scale[:, None] * values[others] for scale, others in parts]
    if columns is None:
        return _squared_norm(sum(multiples, values), None)
    at = [columns, *(columns[others] for _, others in parts)]
    return _squared_norm(
        jnp.concatenate([values, *multiples], axis=-1), jnp.concatenate(at, axis=-1)
    )


def gaussian_moments(log_likelihood: Callable[[Array], Array]) -> FactorMoments:
    """Tilted moments of factors whose log is quadratic, by its expansion at the cavity's mean."""

    def moments(mean: Array, variance: Array) -> TiltedMoments:
        one = jnp.ones_like(mean)

        def slope(eta: Array) -> tuple[Array, Array]:
            return jax.jvp(log_likelihood, (eta,), (one,))

        (value, first), (_, second) = jax.jvp(slope, (mean,), (one,))
        widening = 1 - second * variance
        log_z = value + 0.5 * first**2 * variance / widening - 0.5 * jnp.log(widening)
        return TiltedMoments(log_z, first / widening, second / widening)

    return moments


def with_known_moments(fn: dist.Distribution) -> SupportsTiltedMoments | None:
    """The same distribution as one that knows its tilted moments, or None."""
    if isinstance(fn, SupportsTiltedMoments):
        return fn
    if isinstance(fn, dist.BernoulliLogits):
        return BradleyTerry(fn.logits, validate_args=False)
    if isinstance(fn, dist.OrderedLogistic):
        return OrderedLogit(fn.predictor, fn.cutpoints, validate_args=False)
    return None


# In place of a log density of minus infinity.
_NOTHING = -1e30


def mixture_moments(
    log_parts: Callable[[Array], Array], power: Any, mean: Array, variance: Array
) -> TiltedMoments:
    r"""Moments (G,) of mixtures over cavities, part by part: each part has one peak as a rule.

    ``log_parts`` gives logs of weighted parts (G, K), and `power` is () or (G,). With
    :math:`r_k = Z_k / Z` moments are :math:`d = \sum_k r_k d_k` and
    :math:`d_2 = \sum_k r_k (d_{2k} + (d_k - d)^2)`. To a power p a mixture has the parts
    :math:`a_k^p g` with :math:`g = (\sum_k a_k)^p / \sum_k a_k^p`.
    """
    num_parts = jax.eval_shape(log_parts, mean).shape[-1]

    def one(points: Array, number: Array) -> Array:
        parts = jnp.maximum(log_parts(points), _NOTHING)
        part = parts[..., number]
        if isinstance(power, float) and power == 1:
            return part
        whole = jax.nn.logsumexp(parts, axis=-1)
        raised = jax.nn.logsumexp(jnp.asarray(power)[..., None] * parts, axis=-1)
        return power * (part + whole) - raised

    def each(points: Array) -> Array:
        return jax.vmap(one)(points, jnp.arange(num_parts))

    shape = (num_parts, *mean.shape)
    found = tilted_moments(each, jnp.broadcast_to(mean, shape), jnp.broadcast_to(variance, shape))
    log_z = jax.nn.logsumexp(found.log_z, axis=0)
    share = jnp.exp(found.log_z - log_z)
    d1 = jnp.sum(share * found.d1, axis=0)
    d2 = jnp.sum(share * (found.d2 + (found.d1 - d1) ** 2), axis=0)
    return TiltedMoments(log_z, d1, d2)
