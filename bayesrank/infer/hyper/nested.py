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

import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpyro.diagnostics import split_gelman_rubin
from threadpoolctl import threadpool_limits

from bayesrank._stack import outside
from bayesrank._validate import check_count, check_share
from bayesrank.infer.ep import EP
from bayesrank.infer.hyper.hyperparameters import (
    Hyperparameters,
    engine_from,
    not_integrated,
)
from bayesrank.infer.hyper.mixture import NestedEPResult
from bayesrank.infer.hyper.points import whitening_root
from bayesrank.infer.hyper.search import Search
from bayesrank.infer.margins import drawn
from bayesrank.infer.posterior import DensePosterior
from bayesrank.infer.result import EPResult, GaussianMoments
from bayesrank.infer.running import ConvergenceWarning, check_run
from bayesrank.infer.sites import Sites
from bayesrank.infer.whitening.importance import importance_sampler
from bayesrank.infer.whitening.nuts import run_nuts

LARGEST_R_HAT = 1.05
# The search and NUTS need no more of the sites than this. The evidence is stationary in them: with
# 200 items and 1,000 comparisons it is right to 4e-6 nats where they are settled to 0.01.
_SEARCH_TOL = 1e-3
_WALK_TOL = 1e-2
_IMPORTANCE_DRAWS = 400
# In few dimensions on a white scale a trajectory of three long steps turns round; with NUTS's usual
# 0.8 it takes up to seven for no larger effective number of draws.
_ACCEPTED = 0.7


class NestedEP:
    """NUTS over the hyperparameters of a program, with its latents integrated out by EP.

    Parameters
    ----------
    model, **settings
        As for `IntegratedEP`.

    Examples
    --------
    >>> import jax, numpy as np, numpyro, numpyro.distributions as dist
    >>> from bayesrank.infer import NestedEP
    >>> def schools(effect):
    ...     spread = numpyro.sample("spread", dist.LogNormal(2.0, 0.5))
    ...     f = numpyro.sample("f", dist.Normal(0.0, spread).expand([len(effect)]))
    ...     numpyro.sample("effect", dist.Normal(f, 12.0), obs=effect)
    >>> effect = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    >>> engine = NestedEP(schools)
    >>> result = engine.run(jax.random.key(0), effect, num_samples=200)
    >>> result.mean["spread"], result.sd["f"]
    (...)
    """

    def __init__(self, model: Callable[..., Any] | EP, **settings: Any) -> None:
        self.engine = engine_from(model, settings)

    def run(
        self,
        rng_key: Array,
        *args: Any,
        params: Mapping[str, Any] | None = None,
        num_warmup: int = 100,
        num_samples: int = 250,
        num_chains: int = 2,
        target_accept_prob: float = _ACCEPTED,
        callback: Callable[[float], None] | None = None,
        **kwargs: Any,
    ) -> NestedEPResult:
        """Draw hyperparameters and latents from their joint posterior.

        The walk is on the unconstrained scale, whitened by the curvature at the mode, so a short
        warm-up is enough.

        Parameters
        ----------
        rng_key
            Random key of the walk and the draws.
        params, *args, **kwargs
            As for `IntegratedEP.run`.
        num_warmup, num_samples
            Numbers of draws of each chain to discard, and to return.
        num_chains
            Number of chains, run one after the other.
        target_accept_prob
            As NUTS's in NumPyro: nearer to 1 the steps are shorter, where trajectories diverge.
        callback
            Called now and then with the share of the work done, between 0 and 1.

        Raises
        ------
        ValueError, TypeError
            If EP cannot take the program, it has no hyperparameter to integrate over, or a setting
            is out of range; if `rng_key` is not a random key, or an argument is being traced.

        Warns
        -----
        ConvergenceWarning
            If a trajectory diverged, EP did not converge at some of the draws, or the chains
            disagree.
        """
        _check_walk(num_warmup, num_samples, num_chains, target_accept_prob)
        check_run(rng_key, num_samples, (params, args, kwargs))
        advance = callback or (lambda share: None)
        walk_key, evidence_key, draw_key = jax.random.split(rng_key, 3)
        # Factorisations are small and many: threads inside one of them only get in the way.
        precise = self.engine.precision == "float64"
        with jax.enable_x64(precise), threadpool_limits(1, user_api="blas"):
            walk = self._prepare(args, kwargs, dict(params or {}))
            lengths = num_warmup, num_samples, num_chains, lambda x: advance(0.7 * x)
            points, divergent = run_nuts(walk, walk_key, *lengths, target_accept_prob)
            weights = importance_sampler(walk, _IMPORTANCE_DRAWS, batch=None)(
                evidence_key, *_moments(walk.whiten(points))
            )
            values = jax.vmap(jax.vmap(walk.free.values))(jnp.asarray(points))
            moments, draws, log_proposals, unconverged = self._latents(
                walk, points, draw_key, lambda x: advance(0.7 + 0.3 * x)
            )
        r_hat = largest_r_hat(points)
        result = NestedEPResult(
            shapes=moments.shapes,
            joint_mean=moments.joint_mean,
            posterior=moments.posterior,
            model=self.engine.model,
            model_args=args,
            model_kwargs=kwargs,
            params={k: np.asarray(v) for k, v in walk.free.fixed.items()},
            log_evidence=weights.log_evidence,
            log_evidence_error=weights.error,
            pareto_k=weights.k_hat,
            converged=not divergent and not unconverged and r_hat < LARGEST_R_HAT,
            num_divergent=divergent,
            num_unconverged=unconverged,
            marginalized_sites=walk.start.marginalized_sites,
            hyperparameters={k: np.asarray(v) for k, v in values.items()},
            draws=draws,
            log_proposals=log_proposals,
        )
        if not result.converged:
            warnings.warn(_complaint(result, r_hat), ConvergenceWarning, stacklevel=outside())
        return result

    def _prepare(self, args: tuple, kwargs: dict[str, Any], params: dict[str, Any]) -> _Walk:
        """Find the mode of the hyperparameters, and the curvature and the sites there."""
        program = self.engine.trace(args, kwargs, params)
        fixed = not_integrated(self.engine, program, params)
        # Wherever the search ends, the walk starts around it, and says itself whether it is done.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            search = Search(self.engine, program, (args, kwargs), fixed, tol=_SEARCH_TOL)
            [mode] = search.ends()
        free, first, centre = search.free, mode.evaluation.sites, mode.outcome.x

        def gradient(point: np.ndarray) -> np.ndarray:
            return free.evaluate_with_gradient(point, first, jacobian=True)[1]

        root = whitening_root(gradient, centre, gradient(centre))
        walked = free.with_limits(tol=max(self.engine.tol, _WALK_TOL))
        return _Walk(walked, centre, root, first, search.result)

    def _latents(
        self,
        walk: _Walk,
        points: np.ndarray,
        rng_key: Array,
        advance: Callable[[float], None],
    ) -> tuple[GaussianMoments, dict[str, np.ndarray], np.ndarray, int]:
        """Solve EP at each draw of the hyperparameters, and draw the latents there.

        Returns the moments of the mixture, one draw for each, the logs of the densities that these
        are from, shape (chains, draws), and at how many EP did not converge.
        """
        chains, count, _ = points.shape
        free = walk.free.with_limits(tol=self.engine.tol)
        means, draws, logs, spread, unconverged = [], [], [], 0.0, 0
        for number in range(chains * count):
            at = divmod(number, count)
            component = free.component(points[at], walk.sites)
            found = component.solution
            mean, covariance = np.asarray(found.mean), np.asarray(found.covariance)
            normal = np.asarray(jax.random.normal(jax.random.fold_in(rng_key, number), mean.shape))
            means.append(mean)
            draw, log_density = drawn(mean, covariance, normal, found.support)
            draws.append(draw)
            evaluation = component.evaluation
            logs.append(log_density + evaluation.log_evidence + evaluation.log_prior)
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
        return moments, moments.split_sites(stacked), logs, unconverged


def _check_walk(
    num_warmup: int, num_samples: int, num_chains: int, target_accept_prob: float
) -> None:
    """Refuse numbers of draws that are none, and a share that is none."""
    check_count(num_warmup, "num_warmup")
    check_count(num_samples, "num_samples", 4)
    check_count(num_chains, "num_chains")
    check_share(target_accept_prob, "target_accept_prob", usual="0.8")


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


def _complaint(result: NestedEPResult, r_hat: float) -> str:
    return (
        f"NestedEP has not converged: {result.num_divergent} of {result.num_samples} draws ended a "
        f"divergent trajectory, EP did not converge at {result.num_unconverged} of them, and the "
        f"largest R-hat is {r_hat:.3f}. Give it target_accept_prob=0.95 if trajectories "
        "diverge, more num_warmup and num_samples, or narrower priors of the hyperparameters"
    )
