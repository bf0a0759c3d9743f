"""The evidence, and its gradient, of posteriors without covariances.

EP sweeps to its fixed point outside of compiled code. The derivative of the evidence is that at
fixed sites and cavities. Compiled code differentiates the factors over their cavities. The
posterior gives the slopes of the Gaussian integral by the arrays of the prior
(`bayesrank.infer.gaussian.protocol`). The same code carries them on to the hyperparameters.
Draws use the same random numbers at every point, so the gradient changes smoothly.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from bayesrank.infer import sites
from bayesrank.infer.compiled import compiled_call
from bayesrank.infer.engine import Engine
from bayesrank.infer.gaussian.protocol import Slopes
from bayesrank.infer.gaussian.sparse import NotSolvedError
from bayesrank.infer.hyper.hyperparameters import (
    EvidenceEvaluation,
    Hyperparameters,
    Vector,
    log_hyperprior,
)
from bayesrank.infer.large_solution import NotProperError, TooWideError
from bayesrank.infer.reader.inventory import take_inventory
from bayesrank.infer.reader.traced import Traced
from bayesrank.infer.sites import Sites
from bayesrank.infer.solution import Solution


class _Fixed(NamedTuple):
    """Constants of the derivative: sites, margins (G,) of each block, and slopes."""

    tau: tuple[Any, ...]
    nu: tuple[Any, ...]
    means: tuple[Any, ...]
    variances: tuple[Any, ...]
    slopes: tuple[Any, ...]
    row_slopes: tuple[Any, ...]


class EstimatedEvidence(Hyperparameters):
    """Hyperparameters of a program whose posterior has no covariances."""

    by_slopes = True

    def evaluate_with_gradient(
        self, flat: ArrayLike, init_sites: Sites, *, jacobian: bool = False
    ) -> tuple[EvidenceEvaluation, np.ndarray]:
        """As `Hyperparameters` does, the gradient from draws; not a number where unsolved."""
        params = {**self.inventory.hyperparameters, **self.fixed, **self.values(flat)}
        try:
            solved, posterior = self.engine.posterior_at(self.program, params, init_sites)
        except (NotProperError, NotSolvedError, TooWideError, np.linalg.LinAlgError):
            return _nowhere(init_sites, np.size(flat))
        if posterior is None:
            return _nowhere(init_sites, np.size(flat))
        point = flat, self.fixed, _fixed(solved, posterior), jnp.asarray(float(jacobian))
        (log_prior, log_jacobian, gradient), _ = compiled_call(
            _estimated, self.engine, self.program, point
        )
        evidence = jnp.asarray(solved.log_evidence)
        found = EvidenceEvaluation(
            evidence + log_prior + float(jacobian) * log_jacobian,
            evidence,
            log_prior,
            (tuple(solved.state.tau), tuple(solved.state.nu)),
            jnp.asarray(solved.state.max_change),
            solved.log_evidence_error,
        )
        return found, np.asarray(gradient, float)


def _estimated(
    engine: Engine, source: Traced, point: tuple[Array, dict[str, Any], _Fixed, Array]
) -> tuple[tuple[Array, Array, Array], None]:
    flat, fixed, known, weight = point
    inventory = take_inventory(source, fixed)
    vector = Vector(inventory)

    def parts(flat: Array) -> tuple[Array, Array, Array]:
        params = {**fixed, **vector.values(flat)}
        given = {k: jnp.asarray(v) for k, v in params.items()}
        problem = engine.read_source(source, params).problem
        log_prior = log_hyperprior(source, inventory, given)
        return _moving(problem, known), log_prior, vector.log_jacobian(flat)

    def slope(direction: Array) -> Array:
        moving, prior, jacobian = jax.jvp(parts, (flat,), (direction,))[1]
        return moving + prior + weight * jacobian

    # One direction after the other: hyperparameters are few, and the prior's arrays large.
    gradient = lax.map(slope, jnp.eye(flat.size, dtype=flat.dtype))
    return (*parts(flat)[1:], gradient), None


def _moving(problem: sites.Problem, fixed: _Fixed) -> Array:
    """What of the evidence hyperparameters move: its value is of no use, its gradient is."""
    prior: Any = problem.prior  # a `LinkedPrior` or `LowRankPrior`
    total = jnp.asarray(problem.log_constant)
    for array, slope in zip(prior.arrays, fixed.slopes, strict=True):
        total += jnp.sum(slope[..., : array.shape[-1]] * array)
    blocks = zip(problem.blocks, *fixed[:4], fixed.row_slopes, strict=True)
    for block, tau, nu, mean, variance, slope in blocks:
        power = block.share(1.0)
        m, v, _ = sites.cavity(tau, nu, mean, variance, power)
        total += jnp.sum(block.moments(block.offset + m, v).log_z / power)
        values = block.rows.values
        total += jnp.sum(slope[:, : values.shape[1]] * values)
    return total


def _fixed(solved: Solution, posterior: Any) -> _Fixed:
    """What the derivative holds fixed, of a `ProbedPosterior`."""
    gaussian, probes, large = posterior.gaussian, posterior.probes, solved.large
    if large is None:
        raise ValueError("the posterior has its covariances")
    mean = np.asarray(solved.mean, float) - np.asarray(large.prior_mean, float)
    taus, nus = tuple(solved.state.tau), tuple(solved.state.nu)
    sizes = [len(tau) for tau in taus]
    own = len(gaussian.pattern.rows.values) - sum(sizes)
    slopes: Slopes = gaussian.slopes(mean)
    means = (gaussian.pattern.matrix @ mean)[own:]
    variances = gaussian.margin_variances(probes)[own:]
    cut = (tuple(np.split(x, np.cumsum(sizes)[:-1])) for x in (means, variances, slopes.rows))
    means, variances, rows = cut
    return _Fixed(taus, nus, means, variances, slopes.prior, rows)


def _nowhere(init_sites: Sites, size: int) -> tuple[EvidenceEvaluation, np.ndarray]:
    unknown = jnp.asarray(jnp.nan)
    found = EvidenceEvaluation(unknown, unknown, unknown, init_sites, jnp.asarray(jnp.inf))
    return found, np.full(size, np.nan)
