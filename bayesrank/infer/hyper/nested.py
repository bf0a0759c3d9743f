r"""Full Bayes by nesting: NUTS over the hyperparameters, EP over the latents.

A program's hyperparameters :math:`\theta` are few and its latents :math:`f` are many. Given
:math:`\theta`, EP finds the posterior of :math:`f` and the evidence :math:`Z(\theta)`. So NUTS can
walk in :math:`\theta` alone, on :math:`p(\theta) Z(\theta)`, and the posterior of :math:`f` is the
mixture of EP's posteriors at the draws. Filippone and Girolami (2014) integrate out the latents of
a Gaussian model by importance sampling, Rue et al. (2009) by Laplace's method and a grid.

References
----------
Filippone, M. and Girolami, M. (2014). Pseudo-marginal Bayesian inference for Gaussian processes.
IEEE Transactions on Pattern Analysis and Machine Intelligence, 36, 2214-2226. Rue, H., Martino, S.
and Chopin, N. (2009). Approximate Bayesian inference for latent Gaussian models by using integrated
nested Laplace approximations. Journal of the Royal Statistical Society B, 71, 319-392.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpyro.diagnostics import split_gelman_rubin

from bayesrank._stack import outside
from bayesrank._validate import check_count, check_share
from bayesrank.infer.engine import Engine
from bayesrank.infer.hyper.hyperparameters import (
    EvidenceEvaluation,
    Hyperparameters,
    averaged,
    kept_sites,
)
from bayesrank.infer.hyper.maximum import Search
from bayesrank.infer.hyper.points import whitening_root
from bayesrank.infer.margins import bounded_draws
from bayesrank.infer.mixture import MOST_BYTES, Drawn, GaussianMoments, PosteriorMixture
from bayesrank.infer.posterior import DensePosterior
from bayesrank.infer.result import EPResult
from bayesrank.infer.running import Call, ConvergenceWarning
from bayesrank.infer.sites import Sites
from bayesrank.infer.whitening.importance import importance_sampler
from bayesrank.infer.whitening.program import run_nuts

LARGEST_R_HAT = 1.05
# The search and NUTS need no more of the sites than this. The evidence is stationary in them: with
# 200 items and 1,000 comparisons it is right to 4e-6 nats where they are settled to 0.01.
_SEARCH_TOL = 1e-3
_WALK_TOL = 1e-2
_IMPORTANCE_DRAWS = 400


class WalkSettings(NamedTuple):
    """How NUTS walks over hyperparameters, see `EP.run`."""

    num_warmup: int
    num_chains: int
    target_accept_prob: float

    @classmethod
    def checked(cls, num_warmup: int, num_chains: int, target_accept_prob: float) -> WalkSettings:
        """Refuse numbers that are none, and a share that is none."""
        check_count(num_warmup, "num_warmup")
        check_count(num_chains, "num_chains")
        check_share(target_accept_prob, "target_accept_prob", usual="0.7")
        return cls(num_warmup, num_chains, target_accept_prob)


def walk(engine: Engine, call: Call, settings: WalkSettings) -> EPResult:
    """Draw hyperparameters and latents from their joint posterior.

    The walk is on the unconstrained scale, whitened by the curvature at the mode, so a short
    warm-up is enough.
    """
    count = max(4, -(-call.num_samples // settings.num_chains))
    lengths = settings.num_warmup, count, settings.num_chains
    walk_key, evidence_key, draw_key = jax.random.split(call.rng_key, 3)
    walked = _prepared(engine, call)

    def advance(share: float) -> None:
        if call.callback is not None:
            call.callback(int(share * count * settings.num_chains), share)

    points, divergent = run_nuts(
        walked, walk_key, *lengths, lambda x: advance(0.7 * x), settings.target_accept_prob
    )
    weights = importance_sampler(walked, _IMPORTANCE_DRAWS, batch=None)(
        evidence_key, *_moments(walked.whiten(points))
    )
    values = jax.vmap(jax.vmap(walked.free.values))(jnp.asarray(points))
    found = _latents(walked, points, draw_key, lambda x: advance(0.7 + 0.3 * x))
    free = {k: np.asarray(v) for k, v in values.items()}
    r_hat = largest_r_hat(points)
    kept = found.kept
    mixture = PosteriorMixture(
        weights=np.full(kept.size, 1.0 / kept.size),
        points={k: v.reshape(-1, *v.shape[2:])[kept] for k, v in free.items()},
        means=found.means[kept],
        covariances=found.covariances,
        heights=found.heights[kept],
        sites=kept_sites(walked.start, found.evaluations),
    )
    result = averaged(
        walked.start,
        walked.free,
        mixture,
        found.moments,
        walk=Drawn(free, found.draws, found.log_proposals),
        num_samples=points.shape[0] * points.shape[1],
        rng_key=call.rng_key,
        log_evidence=weights.log_evidence,
        log_evidence_error=weights.error,
        pareto_k=weights.k_hat,
        converged=not divergent and not found.num_unconverged and r_hat < LARGEST_R_HAT,
        num_divergent=divergent,
        num_unconverged=found.num_unconverged,
    )
    if not result.converged:
        warnings.warn(_complaint(result, r_hat), ConvergenceWarning, stacklevel=outside())
    return result


def _prepared(engine: Engine, call: Call) -> _Walk:
    """Find the mode of the hyperparameters, and the curvature and the sites there."""
    # Wherever the search ends, the walk starts around it, and says itself whether it is done.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        search = Search(engine, call._replace(num_restarts=0), tol=_SEARCH_TOL, jacobian=True)
        [mode] = search.ends()
    free, first, centre = search.free, mode.evaluation.sites, mode.outcome.x

    def gradient(point: np.ndarray) -> np.ndarray:
        return free.evaluate_with_gradient(point, first, jacobian=True)[1]

    root = whitening_root(gradient, centre, gradient(centre))
    walked = free.with_limits(tol=max(engine.tol, _WALK_TOL))
    return _Walk(walked, centre, root, first, search.result)


class _LatentDraws(NamedTuple):
    """The latents at draws of the hyperparameters."""

    moments: GaussianMoments  # of the mixture
    draws: dict[str, np.ndarray]  # one for each, by site
    log_proposals: np.ndarray  # of the densities that these are from, shape (chains, draws)
    num_unconverged: int  # at how many EP did not converge
    kept: np.ndarray  # numbers of the draws whose covariances are kept, shape (K,)
    means: np.ndarray  # at all draws, shape (S, n)
    covariances: np.ndarray  # shape (K, n, n)
    heights: np.ndarray  # log evidence plus log prior at all draws, shape (S,)
    evaluations: list[EvidenceEvaluation]  # those of the draws that are kept


def _latents(
    walk: _Walk,
    points: np.ndarray,
    rng_key: Array,
    advance: Callable[[float], None],
) -> _LatentDraws:
    """Solve EP at each draw of the hyperparameters, and draw the latents there."""
    chains, count, _ = points.shape
    free = walk.free.with_limits(tol=walk.free.engine.tol)
    size = walk.start.joint_mean.size
    apart = max(1, math.ceil(chains * count * 8.0 * size**2 / MOST_BYTES))
    means, covariances, draws, logs, heights, evaluations = [], [], [], [], [], []
    spread, unconverged = 0.0, 0
    for number in range(chains * count):
        at = divmod(number, count)
        component = free.component(points[at], walk.sites)
        found = component.solution
        mean, covariance = np.asarray(found.mean), np.asarray(found.covariance)
        normal = np.asarray(jax.random.normal(jax.random.fold_in(rng_key, number), mean.shape))
        means.append(mean)
        if number % apart == 0:
            covariances.append(covariance)
            evaluations.append(component.evaluation)
        draw, log_density = bounded_draws(mean, covariance, normal, found.support)
        draws.append(draw)
        evaluation = component.evaluation
        heights.append(evaluation.log_evidence + evaluation.log_prior)
        logs.append(log_density + heights[-1])
        spread += covariance / (chains * count)
        unconverged += not component.converged
        advance((number + 1) / (chains * count))
    centre = np.mean(means, axis=0)
    between = np.stack(means) - centre
    spread = spread + between.T @ between / len(means)
    moments = GaussianMoments(
        shapes=walk.start.shapes, joint_mean=centre, posterior=DensePosterior(spread)
    )
    stacked = np.stack(draws).reshape(chains, count, -1)
    logs = np.array(logs, float).reshape(chains, count)
    return _LatentDraws(
        moments,
        moments.split_sites(stacked),
        logs,
        unconverged,
        np.arange(0, chains * count, apart),
        np.stack(means),
        np.stack(covariances),
        np.array(heights, float),
        evaluations,
    )


class _Walk(NamedTuple):
    """The density of the hyperparameters ``centre + root z`` on a white scale ``z``."""

    free: Hyperparameters  # the hyperparameters that vary
    centre: np.ndarray  # shapes (d,) and (d, d), on the unconstrained scale
    root: np.ndarray
    sites: Sites  # EP's sites at the centre, where EP starts from
    start: EPResult  # EP's result where the search for the centre started

    @property
    def size(self) -> int:
        """Number of hyperparameters, elements counted."""
        return self.centre.size

    def log_joint(self, z: Array) -> Array:
        """Log density on the white scale."""
        evaluation = self.free.evaluate(jnp.asarray(self.centre + self.root @ z), self.sites)
        log_volume = np.linalg.slogdet(self.root)[1]
        return jnp.where(evaluation.usable, evaluation.objective + log_volume, -jnp.inf)

    def colour(self, white: np.ndarray) -> np.ndarray:
        """Unconstrained vectors from white ones, both (..., d)."""
        return self.centre + white @ self.root.T

    def whiten(self, points: np.ndarray) -> np.ndarray:
        """White vectors from unconstrained ones, both (..., d)."""
        return np.linalg.solve(self.root, (points - self.centre)[..., None])[..., 0]


def _moments(white: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of draws (chains, draws, d), widened a little as a proposal."""
    flat = white.reshape(-1, white.shape[-1])
    covariance = np.atleast_2d(np.cov(flat, rowvar=False))
    return flat.mean(axis=0), 1.2 * covariance + 1e-9 * np.eye(flat.shape[1])


def largest_r_hat(points: np.ndarray) -> float:
    """Largest split R-hat of draws (chains, draws, d)."""
    return float(np.max(split_gelman_rubin(points)))


def _complaint(result: EPResult, r_hat: float) -> str:
    return (
        f"the walk over hyperparameters has not converged: {result.num_divergent} of "
        f"{result.num_samples} draws ended a divergent trajectory, EP did not converge at "
        f"{result.num_unconverged} of them, and the "
        f"largest R-hat is {r_hat:.3f}. Give it target_accept_prob=0.95 if trajectories "
        "diverge, more num_warmup and num_samples, or narrower priors of the hyperparameters"
    )
