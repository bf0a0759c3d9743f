"""Log loss of fresh pairs after learning hyperparameters, ours beside botorch's."""

from __future__ import annotations

import importlib.util
from typing import Any

import jax
import numpy as np
from scipy.special import log_ndtr

from bayesrank.infer import EP, maximize_evidence
from bayesrank.models import preference_gp
from benchmarks import problems
from benchmarks.problems import Problem

__all__ = ["log_losses"]

Array = np.ndarray


def log_losses(n: int, count: int, seed: int) -> dict[str, float]:
    """Mean log loss of 20,000 fresh pairs for each way to learn one length scale per feature.

    Returns
    -------
    dict
        "truth" is the loss of the skills that the outcomes were drawn from; "EP" maximises the
        evidence, "EP, priors" the evidence times the priors of ``preference_gp``; "botorch" is
        there where it is installed.
    """
    problem = problems.gp_problem(n, count, 4.0, seed=seed)
    losses = {
        "truth": _loss(problem, problem.skill, np.zeros((n, n))),
        "EP": _loss(problem, *_evidence(problems.ard_gp, problem)),
        "EP, priors": _loss(problem, *_evidence(_with_priors, problem)),
    }
    if importlib.util.find_spec("botorch") is not None:
        losses["botorch"] = _loss(problem, *_botorch(problem))
    return losses


def _with_priors(X: Any, winner: Any, loser: Any) -> None:
    preference_gp(X, jax.numpy.stack([winner, loser], axis=1), ard=True)


def _evidence(program: Any, problem: Problem) -> tuple[Array, Array]:
    X = (problem.X - problem.X.mean(0)) / problem.X.std(0)
    engine, data = EP(program), (X, problem.winner, problem.loser)
    params, _ = maximize_evidence(engine, *data)
    result = engine.run(jax.random.key(0), *data, params=params)
    # Margins are in units of the noise.
    noise = float(params.get("noise", 1.0))
    return result.mean["f"] / noise, result.covariance["f"] / noise**2


def _botorch(problem: Problem) -> tuple[Array, Array]:
    import torch
    from botorch.fit import fit_gpytorch_mll
    from botorch.models.pairwise_gp import PairwiseGP, PairwiseLaplaceMarginalLogLikelihood

    X = torch.tensor(problem.X, dtype=torch.double)
    pairs = torch.tensor(np.stack([problem.winner, problem.loser], axis=1))
    model = PairwiseGP(X, pairs, jitter=1e-6)
    fit_gpytorch_mll(PairwiseLaplaceMarginalLogLikelihood(model.likelihood, model))
    posterior = model.eval().posterior(X)
    covariance: Any = posterior.distribution.covariance_matrix
    return posterior.mean.detach().numpy()[:, 0], covariance.detach().numpy()


def _loss(problem: Problem, mean: Array, covariance: Array) -> float:
    first, second = problem.fresh.T
    variances = np.diagonal(covariance)
    variance = variances[first] + variances[second] - 2 * covariance[first, second]
    margin = (mean[first] - mean[second]) / np.sqrt(2 + variance)
    return float(-log_ndtr(np.where(problem.first_wins, margin, -margin)).mean())
