"""The same comparisons given to other libraries, where they are installed."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import problems

__all__ = ["PEERS", "measure_peer"]


def _botorch(n: int, count: int, learn: bool) -> Callable[[], Any]:
    import torch
    from botorch.fit import fit_gpytorch_mll
    from botorch.models.pairwise_gp import PairwiseGP, PairwiseLaplaceMarginalLogLikelihood

    problem = problems.gp_problem(n, count, 4.0, seed=0)
    X = torch.tensor(problem.X, dtype=torch.double)
    pairs = torch.tensor(np.stack([problem.winner, problem.loser], axis=1))

    def run() -> Any:
        model = PairwiseGP(X, pairs, jitter=1e-6)
        mll = PairwiseLaplaceMarginalLogLikelihood(model.likelihood, model)
        if learn:
            fit_gpytorch_mll(mll)
        else:
            model.covar_module.outputscale = 4.0
            model.covar_module.base_kernel.lengthscale = problems.LENGTHSCALE
            # The utilities were fitted when the model was made, at its default kernel.
            model.set_train_data(X, pairs, update_model=True)
        model.eval()
        posterior = model.posterior(X)
        return posterior.mean, posterior.distribution.covariance_matrix

    return run


def _choix(n: int, count: int) -> Callable[[], Any]:
    import choix

    problem = problems.skills_problem(n, count, seed=0)
    data = list(zip(problem.winner.tolist(), problem.loser.tolist(), strict=True))
    return lambda: choix.ep_pairwise(n, data, alpha=1.0, model="probit")


def _kickscore(n: int, count: int) -> Callable[[], Any]:
    import kickscore

    problem = problems.skills_problem(n, count, seed=0)

    def run() -> Any:
        model = kickscore.BinaryModel(obs_type="probit")
        for item in range(n):
            model.add_item(str(item), kernel=kickscore.kernel.Constant(var=1.0))
        for winner, loser in zip(problem.winner, problem.loser, strict=True):
            model.observe(winners=[str(winner)], losers=[str(loser)], t=0.0)
        return model.fit()

    return run


# name: package, how to set it up, repeats after the first call
PEERS: dict[str, tuple[str, Callable[[], Callable[[], Any]], int]] = {
    "botorch Laplace, GP, n=300, K=1,500": ("botorch", lambda: _botorch(300, 1_500, False), 5),
    "botorch Laplace, GP, n=1,000, K=5,000": ("botorch", lambda: _botorch(1_000, 5_000, False), 3),
    "botorch ARD fit, n=300, K=1,500": ("botorch", lambda: _botorch(300, 1_500, True), 3),
    "kickscore EP, skills, n=1,000, K=10,000": ("kickscore", lambda: _kickscore(1_000, 10_000), 2),
    "choix EP, skills, n=1,000, K=10,000": ("choix", lambda: _choix(1_000, 10_000), 1),
}


def measure_peer(name: str) -> dict[str, Any] | None:
    """Seconds of one peer in this process, or None where it is not installed."""
    package, set_up, repeats = PEERS[name]
    if importlib.util.find_spec(package) is None:
        return None
    run = set_up()
    seconds = []
    for _ in range(1 + repeats):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return {"case": name, "first_s": seconds[0], "median_s": float(np.median(seconds[1:]))}
