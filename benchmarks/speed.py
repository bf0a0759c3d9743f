"""Seconds and memory of the engine and of other libraries, first and later calls apart."""

from __future__ import annotations

import importlib.util
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import click
import jax
import numpy as np

from bayesrank.infer import EP
from benchmarks import problems

Run = Callable[[], Any]


def _gp(n: int, count: int) -> Run:
    problem = problems.gp_problem(n, count, 4.0, seed=0)
    engine, key = EP(problems.fixed_gp), jax.random.key(0)
    variance = np.asarray(4.0)

    def run() -> Any:
        return engine.run(key, problem.X, problem.winner, problem.loser, variance)

    return run


def _skills(n: int, count: int) -> Run:
    problem = problems.skills_problem(n, count, seed=0)
    engine, key = EP(problems.skills), jax.random.key(0)

    def run() -> Any:
        return engine.run(key, problem.winner, problem.loser, n)

    return run


def _hyperparameters(n: int, count: int) -> Run:
    problem = problems.gp_problem(n, count, 4.0, seed=0)
    engine, key = EP(problems.ard_gp, hyperparameters="map"), jax.random.key(0)

    def run() -> Any:
        return engine.run(key, problem.X, problem.winner, problem.loser)

    return run


# Name: how to set it up, and repeats after the first call.
CASES: dict[str, tuple[Callable[[], Run], int]] = {
    "EP, GP, n=300, K=1,500": (lambda: _gp(300, 1_500), 20),
    "EP, GP, n=1,000, K=5,000": (lambda: _gp(1_000, 5_000), 7),
    "ARD by evidence, n=300, K=1,500": (lambda: _hyperparameters(300, 1_500), 5),
    "ARD by evidence, n=1,000, K=5,000": (lambda: _hyperparameters(1_000, 5_000), 3),
    "EP, independent skills, n=1,000, K=10,000": (lambda: _skills(1_000, 10_000), 7),
    "EP, independent skills, n=1,000, K=100,000": (lambda: _skills(1_000, 100_000), 7),
}


def _botorch(n: int, count: int, learn: bool) -> Run:
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


def _choix(n: int, count: int) -> Run:
    import choix

    problem = problems.skills_problem(n, count, seed=0)
    data = list(zip(problem.winner.tolist(), problem.loser.tolist(), strict=True))
    return lambda: choix.ep_pairwise(n, data, alpha=1.0, model="probit")


def _kickscore(n: int, count: int) -> Run:
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


# Name: package, how to set it up, repeats after the first call
PEERS: dict[str, tuple[str, Callable[[], Run], int]] = {
    "botorch Laplace, GP, n=300, K=1,500": ("botorch", lambda: _botorch(300, 1_500, False), 5),
    "botorch Laplace, GP, n=1,000, K=5,000": ("botorch", lambda: _botorch(1_000, 5_000, False), 3),
    "botorch ARD fit, n=300, K=1,500": ("botorch", lambda: _botorch(300, 1_500, True), 3),
    "kickscore EP, skills, n=1,000, K=10,000": ("kickscore", lambda: _kickscore(1_000, 10_000), 2),
    "choix EP, skills, n=1,000, K=10,000": ("choix", lambda: _choix(1_000, 10_000), 1),
}


def measure(name: str) -> dict[str, Any] | None:
    """Run one case in this process; None if its package is not installed.

    Returns
    -------
    dict
        Seconds of the first call (tracing and compiling included), median and smallest of the
        later ones, and the peak of the process's memory above what it held after imports, in MB.
    """
    if name in CASES:
        set_up, repeats = CASES[name]
    else:
        package, set_up, repeats = PEERS[name]
        if importlib.util.find_spec(package) is None:
            return None
    run = set_up()
    before = _peak_mb()
    first, *later = (_seconds(run) for _ in range(1 + repeats))
    return {
        "first_s": first,
        "median_s": float(np.median(later)),
        "min_s": min(later),
        "peak_mb": _peak_mb() - before,
    }


def _seconds(run: Run) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@click.command()
@click.option("--only", default="", help="Run the cases whose name contains this.")
def speed(only: str) -> None:
    """First call, later calls and memory of the engine, and of other libraries."""
    click.echo(f"{'case':45} {'first s':>8} {'median s':>9} {'min s':>8} {'MB':>6}")
    for name in (name for name in (*CASES, *PEERS) if only in name):
        command = [sys.executable, "-m", "benchmarks", "one", "speed", name]
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        row = json.loads(output.splitlines()[-1])
        click.echo(
            f"{name:45} not installed"
            if row is None
            else f"{name:45} {row['first_s']:8.2f} {row['median_s']:9.4f} {row['min_s']:8.4f} "
            f"{row['peak_mb']:6.0f}"
        )


COMMANDS = [speed]
