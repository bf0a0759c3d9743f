"""EP beside NUTS and importance sampling, and forecasts with learned hyperparameters."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path
from typing import Any, NamedTuple

import click
import jax
import jax.numpy as jnp
import numpy as np
from numpyro.diagnostics import effective_sample_size
from numpyro.infer import MCMC, NUTS
from scipy.special import log_ndtr, ndtr

from bayesrank.infer import EP, whiten
from bayesrank.models import preference_gp
from bayesrank.ranking import rank_interval
from benchmarks import problems


class Calibration(NamedTuple):
    """Outcome of a calibration study.

    Attributes
    ----------
    coverage
        For each data set, the share of items whose true rank lies in its 90% interval.
    skill_ranks
        Rank of each true skill among its posterior draws, as a fraction, (data sets, items); skills
        are measured from their mean.
    """

    coverage: np.ndarray
    skill_ranks: np.ndarray


def calibrate(
    datasets: int, n: int, count: int, variance: float, draws: int = 1_000
) -> Calibration:
    """Draw skills and comparisons from the model, infer, and look where the truth lies.

    References
    ----------
    Talts, S. et al. (2018). Validating Bayesian inference algorithms with simulation-based
    calibration.
    """
    engine = EP(problems.fixed_gp)
    coverage, ranks = np.empty(datasets), np.empty((datasets, n))
    for seed in range(datasets):
        problem = problems.gp_problem(n, count, variance, seed)
        result = engine.run(
            jax.random.key(seed),
            problem.X,
            problem.winner,
            problem.loser,
            np.asarray(variance),
            num_samples=draws,
        )
        samples = result.get_samples()["f"]
        low, high = np.asarray(rank_interval(samples, level=0.9)).T
        true_rank = np.empty(n)
        true_rank[np.argsort(-problem.skill)] = np.arange(1, n + 1)
        coverage[seed] = np.mean((low <= true_rank) & (true_rank <= high))
        # Comparisons say nothing of the level that all skills share: it is taken out of both.
        centred = samples - samples.mean(axis=1, keepdims=True)
        ranks[seed] = np.mean(centred < problem.skill - problem.skill.mean(), axis=0)
    return Calibration(coverage, ranks)


def plot(calibration: Calibration, path: Path, title: str) -> None:
    """Draw both halves of the study and write them to a PNG file."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    percent = 100 * calibration.coverage
    edges = np.arange(np.floor(percent.min()) - 0.5, 101.5)
    left.hist(percent, bins=edges, color="tab:blue", alpha=0.8)
    mean = percent.mean()
    left.axvline(90, color="black", ls="--", label="what the intervals promise: 90%")
    left.axvline(mean, color="tab:red", label=f"what they keep: {mean:.1f}%")
    left.set_xlabel("items whose true rank lies in the interval (%)")
    left.set_ylabel("simulated data sets")
    left.set_ylim(0, 1.35 * left.get_ylim()[1])
    left.legend(framealpha=1.0, edgecolor="none", loc="upper left")
    bins = 20
    values: Any = calibration.skill_ranks.ravel()
    right.hist(values, bins=bins, color="tab:blue", alpha=0.8)
    right.axhline(values.size / bins, color="black", ls="--", label="calibrated: flat")
    right.set_xlabel("where the true skill lies among its posterior draws")
    right.set_ylabel("items")
    right.legend(framealpha=1.0, edgecolor="none", loc="lower center")
    figure.suptitle(title)
    figure.savefig(path, dpi=110)


@click.command()
@click.option("--datasets", default=500)
@click.option("--items", default=100)
@click.option("--comparisons", default=500)
@click.option("--plot", "path", type=click.Path(path_type=Path), default=None)
def coverage(datasets: int, items: int, comparisons: int, path: Path | None) -> None:
    """Coverage of 90% rank intervals over simulated data sets."""
    result = calibrate(datasets, items, comparisons, 4.0)
    error = result.coverage.std() / len(result.coverage) ** 0.5
    click.echo(
        f"{datasets} data sets of {items} items and {comparisons} comparisons: 90% rank intervals "
        f"cover {100 * result.coverage.mean():.2f}% +- {100 * error:.2f}%"
    )
    if path is not None:
        plot(
            result,
            path,
            f"{datasets} simulated data sets, {items} items, {comparisons} comparisons",
        )


Array = np.ndarray


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
    nested = EP(preference_gp, hyperparameters="nuts").run(jax.random.key(0), X, pairs)
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


def _evidence(program: Any, problem: problems.Problem) -> tuple[Array, Array]:
    X = (problem.X - problem.X.mean(0)) / problem.X.std(0)
    engine = EP(program, hyperparameters="map")
    result = engine.run(jax.random.key(0), X, problem.winner, problem.loser)
    # Margins are in units of the noise.
    noise = float(result.params.get("noise", 1.0))
    return result.mean["f"] / noise, result.covariance["f"] / noise**2


def _botorch(problem: problems.Problem) -> tuple[Array, Array]:
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


def _loss(problem: problems.Problem, mean: Array, covariance: Array) -> float:
    first, second = problem.fresh.T
    variances = np.diagonal(covariance)
    variance = variances[first] + variances[second] - 2 * covariance[first, second]
    margin = (mean[first] - mean[second]) / np.sqrt(2 + variance)
    return float(-log_ndtr(np.where(problem.first_wins, margin, -margin)).mean())


@click.command()
@click.option("--draws", default=5_000, help="NUTS draws in each chain.")
@click.option("--chains", default=2, help="NUTS chains.")
@click.option("--only", default="", help="Run the cases (n=100, K=50, v=4) that contain this.")
def accuracy(draws: int, chains: int, only: str) -> None:
    """EP against long NUTS runs: pair differences, and log loss of fresh pairs."""
    cases = [(100, 50, 4.0), (100, 100, 25.0), (100, 200, 100.0), (300, 1_500, 4.0)]
    click.echo("error: r.m.s. over pair differences, in posterior sd; mc: NUTS's own part of it")
    for n, count, variance in cases:
        name = f"n={n}, K={count}, v={variance:g}"
        if only in name:
            row = few_comparisons(n, count, variance, draws=draws, chains=chains)
            click.echo(
                f"{name:25} error {row['error']:.4f} (mc {row['monte_carlo']:.4f})  "
                f"sd ratio {row['sd_ratio']:.4f}  log loss EP {row['log_loss_ep']:.4f} "
                f"NUTS {row['log_loss_nuts']:.4f}"
            )


@click.command()
@click.option("--draws", default=100_000)
def evidence(draws: int) -> None:
    """EP's log evidence against importance sampling."""
    for n, count in ((100, 500), (300, 1_500)):
        row = importance_evidence(n, count, 4.0, draws)
        click.echo(
            f"n={n}, K={count}: EP {row['ep']:.3f}, importance sampling {row['importance']:.3f} "
            f"+- {row['standard_error']:.3f} ({row['effective_draws']:.0f} effective draws)"
        )


@click.command()
@click.option("--seeds", default=5, help="Data sets.")
def learned(seeds: int) -> None:
    """Log loss of fresh pairs after learning hyperparameters, beside botorch's."""
    rows = [log_losses(300, 1_500, seed) for seed in range(seeds)]
    for name in rows[0]:
        losses = [row[name] for row in rows]
        each = "  ".join(f"{loss:.4f}" for loss in losses)
        click.echo(f"{name:12} {sum(losses) / seeds:.4f}   each: {each}")


@click.command()
@click.option("--draws", default=1_000, help="Draws of NUTS over everything.")
def nested(draws: int) -> None:
    """NUTS over the hyperparameters with EP inside, against NUTS over everything."""
    for n, count in ((50, 150), (200, 1_000)):
        for name, row in nested_against_joint(n, count, draws).items():
            wall, cpu = row.pop("seconds")
            sites = "  ".join(f"{k} {m:.3f} +- {s:.3f} ({e:.0f})" for k, (m, s, e) in row.items())
            click.echo(
                f"n={n}, K={count}, {name:7} {wall:7.1f} s ({cpu:.1f} s of CPU)  "
                f"mean +- sd (ESS): {sites}"
            )


COMMANDS = [accuracy, coverage, evidence, learned, nested]
