"""NUTS over the hyperparameters with EP inside, against NUTS over everything."""

from __future__ import annotations

import time
from typing import Any

import jax
import numpy as np
from numpyro.diagnostics import effective_sample_size
from numpyro.infer import MCMC, NUTS

from bayesrank.infer import NestedEP, whiten
from bayesrank.models import preference_gp
from benchmarks import problems

__all__ = ["nested_against_joint"]


def nested_against_joint(n: int, count: int, draws: int) -> dict[str, dict[str, Any]]:
    """Sample the hyperparameters of ``preference_gp`` in both ways on the same comparisons.

    Returns
    -------
    dict
        For "nested" and "joint": wall and processor seconds with compiling, and for each
        hyperparameter the mean, standard deviation and effective number of draws.
    """
    problem = problems.gp_problem(n, count, 4.0, seed=3)
    X = (problem.X - problem.X.mean(0)) / problem.X.std(0)
    pairs = np.stack([problem.winner, problem.loser], axis=1)

    start = _clocks()
    nested = NestedEP(preference_gp).run(jax.random.key(0), X, pairs)
    figures = {"nested": _figures(nested.hyperparameters, start)}

    with jax.enable_x64(True):
        start = _clocks()
        mcmc = MCMC(
            NUTS(whiten(preference_gp)),
            num_warmup=500,
            num_samples=draws,
            num_chains=1,
            progress_bar=False,
        )
        mcmc.run(jax.random.key(1), jax.numpy.asarray(X), jax.numpy.asarray(pairs))
        samples = mcmc.get_samples(group_by_chain=True)
        kept = {k: np.asarray(samples[k]) for k in nested.hyperparameters}
        figures["joint"] = _figures(kept, start)
    return figures


def _clocks() -> np.ndarray:
    return np.array([time.perf_counter(), time.process_time()])


def _figures(draws: dict[str, np.ndarray], start: np.ndarray) -> dict[str, Any]:
    rows = {k: (v.mean(), v.std(), effective_sample_size(v)) for k, v in draws.items()}
    return {"seconds": _clocks() - start, **rows}
