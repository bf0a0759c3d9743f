"""Comparisons of items with features: EP and GPyTorch's SVGP, on the same inducing points.

Both know the hyperparameters that skills were drawn with. SVGP maximises its bound by Adam in
minibatches, with a whitened mean and Cholesky factor; it sees the difference of two skills as one
value of a process, so that no larger covariance than of the inducing points is made. Evaluations
between epochs are not counted. Each is run in a process of its own.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import time
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from benchmarks.features import AMPLITUDE, LENGTHSCALE, feature_fit, feature_games

__all__ = ["COMMANDS"]

_FRESH = 20_000
# Of the rates .01 and .03 the one that comes near its best sooner.
_BATCH, _RATE, _EPOCHS = 1024, 0.03, 30
# After so many epochs without a better log loss SVGP is stopped; so near its best is good enough.
_PATIENCE, _NEAR = 3, 0.002


def _fresh(skill: NDArray[Any]) -> NDArray[np.int64]:
    """Further comparisons (winner, loser) of the same items."""
    rng = np.random.default_rng(7)
    first = rng.integers(skill.size, size=_FRESH)
    second = (first + 1 + rng.integers(skill.size - 1, size=_FRESH)) % skill.size
    won = skill[first] - skill[second] + np.sqrt(2.0) * rng.normal(size=_FRESH) > 0
    return np.where(won, [first, second], [second, first]).T


def _log_loss(mean: NDArray[Any], variance: NDArray[Any]) -> float:
    """Of comparisons whose differences of skills, winner less loser, have these moments."""
    return float(-log_ndtr(mean / np.sqrt(2.0 + variance)).mean())


def _ep(items: int, count: int, rank: int) -> dict[str, float]:
    _, skill, _ = feature_games(items, count)
    fresh, run = _fresh(skill), feature_fit(items, count, rank)
    start = time.process_time()
    result = run()
    taken = time.process_time() - start
    mean, sd = result.difference(fresh[:, 0], fresh[:, 1], exact=False)
    truth = skill[fresh[:, 0]] - skill[fresh[:, 1]]
    return {
        "cpu_s": taken,
        "log_loss": _log_loss(mean, sd**2),
        "truth": _log_loss(truth, np.zeros(_FRESH)),
    }


def _svgp(items: int, count: int, rank: int) -> list[dict[str, float]]:
    """Processor time and log loss after each epoch."""
    import gpytorch
    import jax.numpy as jnp
    import torch

    from bayesrank import gp

    X, skill, pairs = feature_games(items, count)
    points = torch.tensor(np.asarray(gp.inducing_points(jnp.asarray(X), rank)), dtype=torch.float32)
    features = torch.tensor(X, dtype=torch.float32)

    def inputs(first: Any, second: Any, weight: float) -> Any:
        return torch.cat([first, second, torch.full((len(first), 1), weight)], dim=-1)

    class Differences(gpytorch.kernels.Kernel):
        """Covariances of ``f(a) - w f(b)`` at inputs (a, b, w), over half the noise variance."""

        def __init__(self) -> None:
            super().__init__()
            self.base = gpytorch.kernels.RBFKernel()
            self.base.lengthscale = LENGTHSCALE

        def forward(self, x1: Any, x2: Any, diag: bool = False, **params: Any) -> Any:
            d = X.shape[1]
            (a, b, w), (c, e, v) = ((x[..., :d], x[..., d:-1], x[..., -1]) for x in (x1, x2))
            if diag:
                same = self.base(a, b, diag=True)
                return AMPLITUDE**2 / 2 * (1 + w**2 - 2 * w * same)
            left, right = w[..., :, None], v[..., None, :]
            of = [self.base(p, q).to_dense() for p in (a, b) for q in (c, e)]
            mixed = of[0] - right * of[1] - left * of[2] + left * right * of[3]
            return AMPLITUDE**2 / 2 * mixed

    class Model(gpytorch.models.ApproximateGP):
        def __init__(self) -> None:
            q = gpytorch.variational.CholeskyVariationalDistribution(rank)
            super().__init__(
                gpytorch.variational.VariationalStrategy(
                    self, inputs(points, points, 0.0), q, learn_inducing_locations=False
                )
            )
            self.mean_module, self.kernel = gpytorch.means.ZeroMean(), Differences()

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.kernel(x))

    def differences(of: Any) -> Any:
        return inputs(features[of[:, 0]], features[of[:, 1]], 1.0)

    model, likelihood = Model(), gpytorch.likelihoods.BernoulliLikelihood()
    model.kernel.requires_grad_(False)
    bound = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=count)
    adam = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=_RATE)
    fresh, rows, taken = torch.tensor(_fresh(skill)), [], 0.0
    played, shuffled = torch.tensor(pairs), np.random.default_rng(0)
    for _ in range(_EPOCHS):
        start = time.process_time()
        model.train()
        for batch in np.array_split(shuffled.permutation(count), count // _BATCH + 1):
            adam.zero_grad()
            seen = model(differences(played[batch]))
            (-bound(seen, torch.ones(len(batch)))).backward()
            adam.step()
        taken += time.process_time() - start
        model.eval()
        with torch.no_grad():
            parts = [model(differences(part)) for part in fresh.split(_BATCH)]
            mean = torch.cat([part.mean for part in parts]).numpy()
            variance = torch.cat([part.variance for part in parts]).numpy()
        # The noise has variance one there, and two here.
        rows.append({"cpu_s": taken, "log_loss": _log_loss(mean * 2**0.5, variance * 2)})
        best = int(np.argmin([row["log_loss"] for row in rows]))
        if len(rows) - best > _PATIENCE:
            break
    return rows


@click.command()
@click.option("--items", default=10_000)
@click.option("--comparisons", default=100_000)
@click.option("--rank", default=400, help="Inducing points.")
@click.option("--only", type=click.Choice(["ep", "svgp"]), default=None, hidden=True)
def inducing(items: int, comparisons: int, rank: int, only: str | None) -> None:
    """Items with features on inducing points: EP beside GPyTorch's SVGP, where it is installed."""
    if only is not None:
        found = (_ep if only == "ep" else _svgp)(items, comparisons, rank)
        click.echo(json.dumps(found))
        return
    command = [sys.executable, "-m", "benchmarks", "inducing", f"--items={items}"]
    command += [f"--comparisons={comparisons}", f"--rank={rank}", "--only"]

    def measured(which: str) -> Any:
        said = subprocess.run([*command, which], check=True, stdout=subprocess.PIPE, text=True)
        return json.loads(said.stdout.splitlines()[-1])

    ep = measured("ep")
    click.echo(
        f"EP: {ep['cpu_s']:.1f} s of processor time, compiling included; log loss "
        f"{ep['log_loss']:.4f} ({ep['truth']:.4f} under the true skills)"
    )
    if importlib.util.find_spec("gpytorch") is None:
        click.echo("gpytorch is not installed: no SVGP beside it")
        return
    rows = measured("svgp")
    best = min(row["log_loss"] for row in rows)
    near = next(row for row in rows if row["log_loss"] <= best + _NEAR)
    click.echo(
        f"SVGP: {near['cpu_s']:.1f} s to {near['log_loss']:.4f}, {near['cpu_s'] / ep['cpu_s']:.1f} "
        f"times as long; {rows[-1]['cpu_s']:.1f} s in all {len(rows)} epochs, best {best:.4f}"
    )


COMMANDS = (inducing,)
