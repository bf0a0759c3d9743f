"""How far a Gaussian posterior can be trusted: its draws are weighed by the program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import NDArray
from numpyro import handlers, validation_enabled

from bayesrank.infer.compiled import ONE_AT_A_TIME, as_working_dtype, jit, without_stale_traces
from bayesrank.infer.white.importance import pareto_k
from bayesrank.infer.white.program import white_program

__all__ = ["Trust", "trust_in"]

Numbers = NDArray[np.float64]

_DRAWS = 4000
_CHUNK = 500
_FLAT = 1e-12
_WORST_K = 0.7
_FEWEST = 100.0
_EVEN = 0.75
_MOST_SHIFT = 0.1
_MOST_SPREAD = 0.15


class EPPosterior(Protocol):
    """The attributes of `EPResult` that are needed."""

    @property
    def model(self) -> Callable[..., Any]: ...  # noqa: D102
    @property
    def model_args(self) -> tuple: ...  # noqa: D102
    @property
    def model_kwargs(self) -> dict[str, Any]: ...  # noqa: D102
    @property
    def params(self) -> dict[str, np.ndarray]: ...  # noqa: D102
    @property
    def sources(self) -> dict[str, str]: ...  # noqa: D102
    @property
    def shapes(self) -> dict[str, tuple[int, ...]]: ...  # noqa: D102
    @property
    def dropped_sites(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def joint_mean(self) -> Numbers: ...  # noqa: D102
    @property
    def joint_covariance(self) -> Numbers: ...  # noqa: D102
    @property
    def rng_key(self) -> Array: ...  # noqa: D102


class Trust(NamedTuple):
    """What importance sampling says of a posterior.

    Attributes
    ----------
    k_hat
        Shape of the Pareto tail of the importance weights, see `is_known`. Minus infinity where all
        weights are equal: the posterior is exact.
    effective
        Effective number of the draws, of `num_draws`.
    shift
        By how much a mean is off, in posterior standard deviations: the largest of all latents.
    spread
        By which share a standard deviation is off: the largest of all latents.
    site
        The site with the latent that is furthest off.
    num_draws
        Number of draws weighed.
    """

    k_hat: float
    effective: float
    shift: float
    spread: float
    site: str
    num_draws: int

    @property
    def is_known(self) -> bool:
        """Whether the weights are even enough to tell by how much the posterior is off.

        They are if k-hat is below 0.7 and at least 100 draws count; or if 75% of them count, for
        then the weights hardly vary, whatever the shape of their tail.
        """
        if self.effective >= _EVEN * self.num_draws:
            return True
        return bool(self.k_hat < _WORST_K and self.effective >= _FEWEST)

    @property
    def is_good(self) -> bool:
        """Whether means are right to 0.1 standard deviations, and those to 15%."""
        return self.is_known and self.shift <= _MOST_SHIFT and self.spread <= _MOST_SPREAD

    def __str__(self) -> str:
        figures = f"Pareto k-hat {self.k_hat:.2f}, {self.effective:.0f} of {self.num_draws} draws"
        if not self.is_known:
            return (
                f"not confirmed ({figures} count). The weights are too uneven to tell how far the "
                "posterior is off. Compare it with NUTS (bayesrank.diagnostics.crosscheck)"
            )
        off = f"means are off by up to {self.shift:.2f} sd, sds by up to {self.spread:.0%}"
        if self.is_good:
            return f"good: {off} ({figures} count)"
        return f"poor: {off}, most at {self.site!r} ({figures} count). Use NUTS where that matters"


def trust_in(result: EPPosterior) -> Trust:
    """Weigh draws from a Gaussian posterior by its program.

    Parameters
    ----------
    result
        EP's result.

    Returns
    -------
    Trust
        With NaN for all figures where the program has no density at some draw.
    """
    fixed: Any = {name: result.params[name] for name in result.sources if name in result.params}
    # Sites that the caller holds fixed are data: their densities count where latents reach them.
    model = handlers.substitute(handlers.condition(result.model, data=fixed), data=fixed)
    rest = {name: value for name, value in result.params.items() if name not in fixed}
    called = result.model_args, result.model_kwargs, rest

    def weigh() -> tuple[Numbers, Numbers]:
        args, kwargs, values = as_working_dtype(called)
        program = white_program(model, args, kwargs, values, result.shapes, result.dropped_sites)
        moments = program.whiten_moments(result.joint_mean, result.joint_covariance)
        points, log_density = _draws(*moments, result.rng_key)
        log_joint = jit(lambda z: lax.map(program.log_joint, z, batch_size=_CHUNK))
        return program.colour(points), np.asarray(log_joint(jnp.asarray(points))) - log_density

    with jax.enable_x64(True), ONE_AT_A_TIME, validation_enabled(False):
        points, logs = without_stale_traces(weigh)
    return _judge(points, logs, np.sqrt(np.diagonal(result.joint_covariance)), result.shapes)


def _draws(mean: Numbers, covariance: Numbers, rng_key: Array) -> tuple[Numbers, Numbers]:
    """Draws, and the logs of their densities up to a constant.

    A posterior may be flat in some directions (effects that add up to zero); it has a density in
    the others.
    """
    values, vectors = np.linalg.eigh(covariance)
    kept = values > _FLAT * values.max()
    white = np.asarray(jax.random.normal(rng_key, (_DRAWS, int(kept.sum())), dtype=float))
    points = mean + (white * np.sqrt(values[kept])) @ vectors[:, kept].T
    return points, -0.5 * np.sum(white**2, 1)


def _judge(
    points: Numbers,
    logs: Numbers,
    stddev: Numbers,
    shapes: dict[str, tuple[int, ...]],
) -> Trust:
    if np.isnan(logs).any() or np.isneginf(logs).all():
        return Trust(np.nan, np.nan, np.nan, np.nan, "", _DRAWS)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    plain = points.mean(0)
    weighted = weights @ points
    # The draws' own mean and spread are taken for EP's: what chance does to both cancels.
    shift = np.abs(weighted - plain) / stddev
    spread = np.abs(np.sqrt(weights @ (points - weighted) ** 2) / points.std(0) - 1.0)
    names = [name for name, shape in shapes.items() for _ in range(int(np.prod(shape, dtype=int)))]
    return Trust(
        pareto_k(logs),
        float(1.0 / np.sum(weights**2)),
        float(shift.max()),
        float(spread.max()),
        names[int(np.argmax(np.maximum(shift / _MOST_SHIFT, spread / _MOST_SPREAD)))],
        _DRAWS,
    )
