"""How far EP is from a long NUTS run and from importance sampling."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer import MCMC, NUTS
from scipy.special import log_ndtr, ndtr

from bayesrank.infer import EP
from benchmarks import problems

__all__ = ["few_comparisons", "importance_evidence"]


def white_logdensity(root: Any, winner: Any, loser: Any, white: Any) -> Any:
    """Log posterior density of the whitened skills, up to a constant."""
    f = root @ white
    margin = (f[winner] - f[loser]) / jnp.sqrt(2.0)
    return jnp.sum(jax.scipy.special.log_ndtr(margin)) - 0.5 * white @ white


def nuts_draws(problem: problems.Problem, variance: float, draws: int, chains: int) -> np.ndarray:
    """Draws of the skills from NUTS on the whitened posterior, shape (chains * draws, n)."""
    with jax.enable_x64(True):
        K = problems.covariance(jnp.asarray(problem.X), variance, problems.LENGTHSCALE)
        root = jnp.linalg.cholesky(K)
        winner, loser = jnp.asarray(problem.winner), jnp.asarray(problem.loser)

        def potential(white: Any) -> Any:
            return -white_logdensity(root, winner, loser, white)

        sampler = MCMC(
            NUTS(potential_fn=potential),
            num_warmup=1_000,
            num_samples=draws,
            num_chains=chains,
            chain_method="sequential",
            progress_bar=False,
        )
        start = jnp.zeros((chains, root.shape[0])) if chains > 1 else jnp.zeros(root.shape[0])
        sampler.run(jax.random.key(1), init_params=start)
        return np.asarray(sampler.get_samples() @ root.T)


def few_comparisons(
    n: int, count: int, variance: float, *, draws: int, chains: int, seed: int = 0
) -> dict[str, Any]:
    """Compare EP with NUTS on pair differences and on fresh pairs.

    Returns
    -------
    dict
        Root mean square error of the means of all pair differences in posterior standard
        deviations, with the part of it that is NUTS's own Monte Carlo error; median ratio of
        standard deviations; mean log losses over the fresh pairs.
    """
    problem = problems.gp_problem(n, count, variance, seed)
    result = EP(problems.fixed_gp).run(
        jax.random.key(0), problem.X, problem.winner, problem.loser, np.asarray(variance)
    )
    samples = nuts_draws(problem, variance, draws, chains)
    first, second = np.triu_indices(n, 1)
    mean, cov = samples.mean(0), np.cov(samples, rowvar=False)
    halves = [half.mean(0) for half in np.array_split(samples, 2)]
    sd, ep_sd = (_pair_sd(C, first, second) for C in (cov, result.covariance["f"]))
    error = _differences(result.mean["f"] - mean, first, second) / sd
    noise = _differences(halves[0] - halves[1], first, second) / sd / 2
    return {
        "n": n,
        "K": count,
        "variance": variance,
        "error": float(np.sqrt(np.mean(error**2))),
        "monte_carlo": float(np.sqrt(np.mean(noise**2))),
        "sd_ratio": float(np.median(ep_sd / sd)),
        "log_loss_ep": _gaussian_log_loss(problem, result),
        "log_loss_nuts": _draws_log_loss(problem, samples),
    }


def importance_evidence(n: int, count: int, variance: float, draws: int) -> dict[str, float]:
    """Log evidence by EP and by importance sampling from EP's posterior, inflated a little."""
    problem = problems.gp_problem(n, count, variance, seed=0)
    result = EP(problems.fixed_gp, tol=1e-6).run(
        jax.random.key(0), problem.X, problem.winner, problem.loser, np.asarray(variance)
    )
    with jax.enable_x64(True):
        K = np.asarray(problems.covariance(jnp.asarray(problem.X), variance, problems.LENGTHSCALE))
    root = np.linalg.cholesky(K)
    inverse = np.linalg.solve(root, result.mean["f"])
    white_cov = np.linalg.solve(root, np.linalg.solve(root, result.covariance["f"]).T)
    proposal = np.linalg.cholesky(1.05 * 0.5 * (white_cov + white_cov.T))
    rng = np.random.default_rng(0)
    log_weights = []
    for _ in range(draws // 2_000):
        normal = rng.normal(size=(2_000, n))
        white = inverse + normal @ proposal.T
        f = white @ root.T
        margin = (f[:, problem.winner] - f[:, problem.loser]) / np.sqrt(2)
        log_target = log_ndtr(margin).sum(1) - 0.5 * (white**2).sum(1)
        log_proposal = -0.5 * (normal**2).sum(1) - np.log(np.diag(proposal)).sum()
        log_weights.append(log_target - log_proposal)
    stacked = np.concatenate(log_weights)
    top = stacked.max()
    weights = np.exp(stacked - top)
    return {
        "n": n,
        "ep": result.log_evidence,
        "importance": float(top + np.log(weights.mean())),
        "standard_error": float(weights.std() / weights.mean() / np.sqrt(weights.size)),
        "effective_draws": float(weights.sum() ** 2 / (weights**2).sum()),
    }


def _differences(vector: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return vector[first] - vector[second]


def _pair_sd(cov: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    variance = np.diag(cov)
    return np.sqrt(variance[first] + variance[second] - 2 * cov[first, second])


def _gaussian_log_loss(problem: problems.Problem, result: Any) -> float:
    first, second = problem.fresh.T
    mean = _differences(result.mean["f"], first, second)
    variance = _pair_sd(result.covariance["f"], first, second) ** 2
    z = mean / np.sqrt(2 + variance)
    return float(-np.mean(log_ndtr(np.where(problem.first_wins, z, -z))))


def _draws_log_loss(problem: problems.Problem, samples: np.ndarray) -> float:
    first, second = problem.fresh.T
    probability = np.zeros(first.size)
    for part in np.array_split(samples, max(1, len(samples) // 200)):
        probability += ndtr((part[:, first] - part[:, second]) / np.sqrt(2)).sum(0)
    probability /= len(samples)
    likelihood = np.where(problem.first_wins, probability, 1 - probability)
    return float(-np.mean(np.log(likelihood)))
