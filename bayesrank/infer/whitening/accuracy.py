"""How far a Gaussian posterior can be trusted: its draws are weighed by the program."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array, lax
from numpy.typing import NDArray
from numpyro import validation_enabled

from bayesrank.infer.compiled import ONE_AT_A_TIME, jit
from bayesrank.infer.reader.densities import log_density_of
from bayesrank.infer.reader.precision import without_stale_traces
from bayesrank.infer.reader.traced import Traced
from bayesrank.infer.seeds import generator
from bayesrank.infer.whitening.importance import pareto_k
from bayesrank.infer.whitening.program import white_posterior

if TYPE_CHECKING:
    from bayesrank.infer.result import EPResult


Numbers = NDArray[np.float64]

# Draws are taken in chunks: eight, and fewer of many data, as each is weighed by all of these.
_CHUNK, _MOST_CHUNKS, _FEWEST_CHUNKS = 500, 8, 2
_MOST_DENSITIES = 10_000_000
_FLAT = 1e-12
_WORST_K = 0.7
_FEWEST = 100.0
_EVEN = 0.75
_MOST_SHIFT = 0.1
_MOST_SPREAD = 0.15
# Beyond so many standard deviations of a posterior of one latent there is nothing of it; of n, as
# many beyond the root of n.
_BEYOND = 5.0
_MOST_ELSEWHERE = 0.05


@dataclass(frozen=True)
class ImportanceCheck:
    """What importance sampling says of a posterior.

    Attributes
    ----------
    k_hat
        Shape of the Pareto tail of the importance weights, see `is_reliable`. Minus infinity if all
        weights are equal: the posterior is exact.
    num_draws, ess
        Number of draws weighed, and their effective sample size.
    mean_error, sd_error
        Largest errors of all latents: of a mean, in posterior standard deviations; and of a
        standard deviation, as a share of it.
    site
        The site with the latent that is furthest off.
    missed
        Largest share of a factor's mass that the quadrature missed, and no draw comes near; see
        `EPResult.missed_mass`.
    error
        Largest error by quadrature of a factor's mean or standard deviation, in standard
        deviations; see `EPResult.moment_errors`.
    of_points
        Largest Monte Carlo error of the mean of a hyperparameter that points were averaged over, in
        posterior standard deviations; see `EPResult.errors`.
    given
        Hyperparameters that were held. The posterior is judged at their values, and what is not
        known of them is not in it.
    mass_outside
        Share of the mass that draws from the prior find where EP's posterior has none, such as
        another mode. With many latents no draw from the prior finds one.
    """

    k_hat: float
    ess: float
    mean_error: float
    sd_error: float
    site: str
    num_draws: int
    missed: float = 0.0
    error: float = 0.0
    mass_outside: float = 0.0
    of_points: float = 0.0
    given: tuple[str, ...] = ()

    @property
    def is_reliable(self) -> bool:
        """Whether k-hat is below 0.7 and 100 draws count; or 75% do, whatever the tail."""
        if self.ess >= _EVEN * self.num_draws:
            return True
        return bool(self.k_hat < _WORST_K and self.ess >= _FEWEST)

    @property
    def misses_mass(self) -> bool:
        """Whether the quadrature is wrong somewhere, or over 5% of the mass lies elsewhere."""
        return bool(self.missed or self.error) or self.mass_outside > _MOST_ELSEWHERE

    @property
    def is_good(self) -> bool:
        """Whether means are right to 0.1 standard deviations, those to 15%; no mode is left out."""
        if self.misses_mass:
            return False
        mean_error = max(self.mean_error, self.of_points)
        return self.is_reliable and mean_error <= _MOST_SHIFT and self.sd_error <= _MOST_SPREAD

    def __str__(self) -> str:
        held = f", given {', '.join(self.given)}" if self.given else ""
        return self._verdict() + held

    def _verdict(self) -> str:
        figures = f"Pareto k-hat {self.k_hat:.2f}, {self.ess:.0f} of {self.num_draws} draws"
        if self.missed:
            return (
                f"poor: the quadrature missed at least {self.missed:.0%} of a factor's mass, and "
                f"no draw comes near that ({figures} count). Compare it with NUTS "
                "(bayesrank.diagnostics.crosscheck)"
            )
        if self.error:
            return (
                "poor: the quadrature has the mean or the standard deviation of a factor wrong by "
                f"about {self.error:.0%} of that standard deviation ({figures} count). Compare it "
                "with NUTS (bayesrank.diagnostics.crosscheck)"
            )
        if self.mass_outside > _MOST_ELSEWHERE:
            return (
                f"poor: {self.mass_outside:.0%} of the mass lies where EP's posterior has none, as "
                f"in another mode ({figures} count). Compare it with NUTS, from several starts"
            )
        if not self.is_reliable:
            return (
                f"not confirmed ({figures} count). The weights are too uneven to tell how far the "
                "posterior is off. Compare it with NUTS (bayesrank.diagnostics.crosscheck)"
            )
        if self.of_points > _MOST_SHIFT:
            return (
                f"poor: the points that hyperparameters were averaged over leave a mean off by "
                f"about {self.of_points:.2f} sd. Use EP(hyperparameters='nuts') where that matters"
            )
        off = f"means are off by up to {self.mean_error:.2f} sd, sds by up to {self.sd_error:.0%}"
        if self.is_good:
            return f"good: {off} ({figures} count)"
        return f"poor: {off}, most at {self.site!r} ({figures} count). Use NUTS where that matters"


def importance_check(result: EPResult, rng_key: Array) -> ImportanceCheck:
    """Weigh draws from a posterior by its program; NaN where that has no density at some draw."""

    def weigh() -> tuple[Numbers, Numbers, float]:
        program = white_posterior(result)
        moments = program.whiten_moments(result.joint_mean, result.joint_covariance)
        random = generator(rng_key)
        points, log_density = _draws(*moments, random, _number_of_draws(result))
        prior = random.standard_normal(points.shape)
        log_joint = jit(lambda z: lax.map(program.log_joint, z, batch_size=_CHUNK))
        logs, prior_logs = (np.asarray(log_joint(jnp.asarray(z))) for z in (points, prior))
        logs = logs - log_density
        elsewhere = _elsewhere(*moments, prior, prior_logs + 0.5 * np.sum(prior**2, 1), logs)
        return program.colour(points), logs, elsewhere

    with jax.enable_x64(True), ONE_AT_A_TIME, validation_enabled(False):
        points, logs, elsewhere = without_stale_traces(weigh)
    sd = np.sqrt(np.diagonal(result.joint_covariance))
    return replace(_judge(points, logs, sd, result.shapes), mass_outside=elsewhere)


def importance_check_of_draws(
    program: Traced,
    samples: dict[str, Numbers],
    params: dict[str, Numbers],
    log_proposals: Numbers,
) -> ImportanceCheck:
    """Weigh draws (S, ...) of latents and hyperparameters, of log density `log_proposals`."""

    def weigh() -> Numbers:
        def log_joint(values: dict[str, Array]) -> Array:
            given = {**params, **values}
            sites = program.sites(given)
            parts = [log_density_of(s) for k, s in sites.items() if _counts(s, k in given)]
            return jnp.sum(jnp.stack(parts))

        mapped = jit(lambda draws: lax.map(log_joint, draws, batch_size=_CHUNK))
        return np.asarray(mapped({k: jnp.asarray(v) for k, v in samples.items()}))

    with jax.enable_x64(True), ONE_AT_A_TIME, validation_enabled(False):
        logs = without_stale_traces(weigh) - log_proposals
    points = np.concatenate([v.reshape(logs.size, -1) for v in samples.values()], axis=1)
    shapes = {name: value.shape[1:] for name, value in samples.items()}
    return _judge(points, logs, points.std(0), shapes)


def _counts(site: dict[str, Any], has_value: bool) -> bool:
    """Whether a site's density counts: that of data, of what has a value, and of point masses."""
    if site["type"] != "sample":
        return False
    return site["is_observed"] or has_value or isinstance(site["fn"], dist.Delta)


def _number_of_draws(result: EPResult) -> int:
    """How many draws are weighed, by the number of rows that each takes."""
    rows = result.traced.num_rows
    chunks = _MOST_DENSITIES // (_CHUNK * max(rows, 1))
    return _CHUNK * min(max(chunks, _FEWEST_CHUNKS), _MOST_CHUNKS)


def _draws(
    mean: Numbers, covariance: Numbers, random: np.random.Generator, count: int
) -> tuple[Numbers, Numbers]:
    """Draws, and logs of their densities up to a constant, in directions that are not flat."""
    values, vectors = np.linalg.eigh(covariance)
    kept = values > _FLAT * values.max()
    white = random.standard_normal((count, int(kept.sum())))
    points = mean + (white * np.sqrt(values[kept])) @ vectors[:, kept].T
    return points, -0.5 * np.sum(white**2, 1)


def _elsewhere(
    mean: Numbers, covariance: Numbers, prior: Numbers, prior_logs: Numbers, logs: Numbers
) -> float:
    """Share of the mass far from a Gaussian, by white draws (S, n) from the prior, weighed."""
    values, vectors = np.linalg.eigh(covariance)
    if values.min() <= _FLAT * values.max() or not np.isfinite(logs).any():
        return 0.0
    distance = np.sum(((prior - mean) @ vectors) ** 2 / values, 1)
    far = distance > (np.sqrt(mean.size) + _BEYOND) ** 2
    beyond = np.where(far & np.isfinite(prior_logs), prior_logs, -np.inf)
    inside = np.where(np.isfinite(logs), logs + 0.5 * np.log(values).sum(), -np.inf)
    top = max(beyond.max(), inside.max())
    outer, inner = (np.exp(x - top).mean() for x in (beyond, inside))
    return float(outer / (outer + inner))


def _judge(
    points: Numbers,
    logs: Numbers,
    sd: Numbers,
    shapes: dict[str, tuple[int, ...]],
) -> ImportanceCheck:
    if np.isnan(logs).any() or np.isneginf(logs).all():
        return ImportanceCheck(np.nan, np.nan, np.nan, np.nan, "", logs.size)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    plain = points.mean(0)
    weighted = weights @ points
    # The draws' own mean and spread are taken for EP's: what chance does to both cancels.
    varies = sd > 0  # constant elements, as of a Cholesky factor, are right
    shift = np.where(varies, np.abs(weighted - plain) / np.where(varies, sd, 1.0), 0.0)
    spread = np.sqrt(weights @ (points - weighted) ** 2) / np.where(varies, points.std(0), 1.0)
    spread = np.where(varies, np.abs(spread - 1.0), 0.0)
    names = [name for name, shape in shapes.items() for _ in range(math.prod(shape))]
    return ImportanceCheck(
        pareto_k(logs),
        float(1.0 / np.sum(weights**2)),
        float(shift.max()),
        float(spread.max()),
        names[int(np.argmax(np.maximum(shift / _MOST_SHIFT, spread / _MOST_SPREAD)))],
        logs.size,
    )
