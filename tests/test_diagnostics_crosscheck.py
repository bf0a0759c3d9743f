"""The cross-check of engines: each figure against what is known by hand."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from numpyro.infer.util import log_density
from refusals import refused
from scipy.stats import norm

from bayesrank import to_arviz
from bayesrank.diagnostics import CrossCheck, crosscheck
from bayesrank.infer.reader.traced import trace
from bayesrank.infer.spi import DensePosterior
from bayesrank.infer.whitening.accuracy import _number_of_draws
from bayesrank.infer.whitening.importance import importance_sampler, pareto_k
from bayesrank.infer.whitening.program import WhiteProgram, white_program
from bayesrank.plots import plot_crosscheck

RNG = np.random.default_rng(0)


def frame(check: CrossCheck) -> Any:
    return check.to_dataframe().set_index(["site", "engine"])


# ---------------------------------------------------------------- the white program


def regression(x, y, noise):
    bias = numpyro.sample("bias", dist.Normal(1.0, 2.0))
    scale: Any = numpyro.param("scale", 1.5, constraint=dist.constraints.positive)
    width = numpyro.sample("width", dist.LogNormal(0.0, 1.0))
    gram = scale**2 * jnp.exp(-((x[:, None] - x) ** 2) / width) + 1e-6 * jnp.eye(len(x))
    f = numpyro.sample("f", dist.MultivariateNormal(bias * jnp.ones(len(x)), gram))
    numpyro.sample("y", dist.Normal(f, noise), obs=y)
    numpyro.sample("unused", dist.Poisson(3.0))
    numpyro.deterministic("twice", 2.0 * f)


X = np.linspace(0.0, 1.0, 4)
Y = np.array([0.1, 1.0, 0.7, 2.0])
PARAMS = {"width": 0.3, "scale": 1.2}
GRAM = 1.44 * np.exp(-((X[:, None] - X) ** 2) / 0.3) + 1e-6 * np.eye(4)
#: Of (bias, f), by hand.
PRIOR = np.block([[np.full((1, 1), 4.0), np.full((1, 4), 4.0)], [np.full((4, 1), 4.0), 4.0 + GRAM]])
ROOT = np.linalg.cholesky(PRIOR[1:, 1:] + 0.25 * np.eye(4))
GAIN = PRIOR[:, 1:] @ np.linalg.inv(PRIOR[1:, 1:] + 0.25 * np.eye(4))
MEAN = 1.0 + GAIN @ (Y - 1.0)
COVARIANCE = PRIOR - GAIN @ PRIOR[1:]
EVIDENCE = norm.logpdf(np.linalg.solve(ROOT, Y - 1.0)).sum() - np.log(np.diag(ROOT)).sum()


@pytest.fixture(scope="module")
def white() -> WhiteProgram:
    shapes: dict[str, tuple[int, ...]] = {"bias": (), "f": (4,)}
    with jax.enable_x64(True):
        program = trace(regression, (X, Y, 0.5), {}, PARAMS)
        return white_program(program, PARAMS, shapes)


def test_white_program_is_the_program(white):
    z = RNG.normal(size=5)
    latents = white.colour(z)

    @jax.jit
    def log_joint():
        values = {**PARAMS, "bias": latents[0], "f": latents[1:], "unused": 2}
        total, sites = log_density(regression, (X, Y, 0.5), {}, values)
        hidden = [sites[name]["fn"].log_prob(values[name]) for name in ("width", "unused")]
        return total - sum(hidden)

    volume = np.linalg.slogdet(white.root)[1]
    np.testing.assert_allclose(jax.jit(white.log_joint)(z), log_joint() + volume, rtol=1e-9)
    np.testing.assert_allclose(white.root @ white.root.T, PRIOR, atol=1e-9)


def test_moments_go_to_the_white_scale_and_back(white):
    there = white.whiten_moments(MEAN, COVARIANCE)
    mean, covariance = white.colour_moments(*there)
    np.testing.assert_allclose(mean, MEAN, rtol=1e-9)
    np.testing.assert_allclose(covariance, COVARIANCE, atol=1e-9)
    # In one dimension less: independent latents have a diagonal root.
    shapes: dict[str, tuple[int, ...]] = {"f": (2,)}

    def model():
        f = numpyro.sample("f", dist.Normal(1.0, jnp.array([2.0, 4.0])))
        numpyro.sample("y", dist.Normal(f, 1.0), obs=jnp.zeros(2))

    diagonal = white_program(trace(model, (), {}, {}), {}, shapes)
    np.testing.assert_allclose(diagonal.root, [2.0, 4.0])
    there = diagonal.whiten_moments(np.array([3.0, 5.0]), np.array([[4.0, 1.0], [1.0, 8.0]]))
    np.testing.assert_allclose(there[0], [1.0, 1.0])
    np.testing.assert_allclose(there[1], [[1.0, 0.125], [0.125, 0.5]])
    np.testing.assert_allclose(diagonal.colour_moments(*there)[1], [[4.0, 1.0], [1.0, 8.0]])


def test_importance_sampling_knows_evidence_and_divergence(white):
    mean, covariance = white.whiten_moments(MEAN, COVARIANCE)
    weigh, key = importance_sampler(white), jax.random.key(0)
    exact = weigh(key, mean, covariance)
    np.testing.assert_allclose([exact.log_evidence, exact.elbo], EVIDENCE, atol=1e-5)
    assert exact.k_hat == -np.inf and exact.error < 1e-6
    wide = weigh(key, mean, 1.5 * covariance)
    divergence = 0.5 * 5 * (1.5 - 1.0 - np.log(1.5))
    np.testing.assert_allclose(wide.elbo, EVIDENCE - divergence, atol=0.05)
    assert abs(wide.log_evidence - EVIDENCE) < 4.0 * wide.error
    np.testing.assert_allclose(wide.divergence, divergence, atol=0.05)
    assert wide.k_hat < 0.5 < 0.7 < weigh(key, mean, 0.2 * covariance).k_hat
    assert np.isnan(weigh(key, mean, -covariance)).all()


def test_pareto_k_where_a_few_draws_have_all_the_weight():
    assert pareto_k(np.r_[np.zeros(999), 800.0]) == np.inf
    assert pareto_k(np.arange(4.0)) == np.inf
    assert pareto_k(np.repeat([0.0, 1.0], [900, 100])) == np.inf


@pytest.mark.parametrize(
    "spread, k", [(0.3, -0.1092), (1.0, 0.1053), (3.0, 0.7887), (20.0, 6.1340)]
)
def test_pareto_k_is_that_of_zhang_and_stephens(spread, k):
    """As ArviZ 0.23 has them; 1.x takes one draw less for the tail."""
    logs = spread * np.random.default_rng(0).standard_normal(4000)
    np.testing.assert_allclose(pareto_k(logs), k, atol=1e-4)


# ---------------------------------------------------------------- all together


@pytest.fixture(scope="module")
def checked() -> tuple[CrossCheck, list[tuple[str, float]]]:
    seen: list[tuple[str, float]] = []
    check = crosscheck(
        regression, X, Y, noise=0.5, params=PARAMS, contrast="pairs", num_warmup=200,
        num_samples=1010, num_chains=2, num_steps=1000, progress_bar=False,
        progress=lambda engine, share: seen.append((engine, share)),
    )  # fmt: skip
    return check, seen


def test_crosscheck_compares_three_engines(checked):
    check, seen = checked
    nuts = check.nuts
    assert list(check.runs) == ["ep", "nuts", "svi"] and nuts is not None
    assert (check.verdict.engine, check.verdict.status) == ("ep", "agrees")
    assert {k: float(v) for k, v in check.params.items()} == PARAMS
    table = frame(check)
    assert table.index.tolist() == [(s, e) for s in ("bias", "f") for e in check.runs]
    assert table["seconds"].gt(0).all() and table["monte_carlo_error"].lt(0.1).all()
    np.testing.assert_allclose(table.loc[("f", "ep"), "log_evidence"], EVIDENCE)
    np.testing.assert_allclose(table.loc[("f", "svi"), "log_evidence"], EVIDENCE, atol=0.2)
    np.testing.assert_allclose(table["importance_evidence"].dropna(), EVIDENCE, atol=0.05)
    for engine in check.runs:
        shares = [share for name, share in seen if name == engine]
        assert shares == sorted(shares) and (shares[0], shares[-1]) == (0.0, 1.0)


def test_crosscheck_on_what_is_known_by_hand(checked):
    check, _ = checked
    first, second = np.triu_indices(4, 1)
    rows = np.zeros((6, 5))
    rows[range(6), first + 1], rows[range(6), second + 1] = 1.0, -1.0
    mean, sd = rows @ MEAN, np.sqrt(np.diag(rows @ COVARIANCE @ rows.T))
    assert [(c.engine, c.site) for c in check.comparisons] == [
        (e, s) for e in ("ep", "svi") for s in ("bias", "f")]  # fmt: skip
    ep, svi = check.comparisons[1], check.comparisons[3]
    reference = ep.reference
    assert reference is svi.reference and reference.contrast.labels[0] == "f[0] - f[1]"
    np.testing.assert_allclose(ep.mean, mean, rtol=1e-8)
    np.testing.assert_allclose(ep.sd, sd, rtol=1e-8)
    np.testing.assert_allclose((svi.mean - mean) / sd, 0.0, atol=0.1)
    np.testing.assert_allclose(svi.sd / sd, 1.0, atol=0.15)
    assert np.abs((reference.mean - mean) / (sd * reference.mean_error)).max() < 4.0
    assert np.abs((reference.sd / sd - 1.0) / reference.sd_error).max() < 4.0
    row = frame(check).loc[("f", "ep")]
    error, ratio = (mean - reference.mean) / reference.sd, sd / reference.sd
    np.testing.assert_allclose(row["mean_error_rms"], np.sqrt(np.mean(error**2)))
    np.testing.assert_allclose(row["mean_error_max"], np.abs(error).max())
    columns = ["sd_ratio_min", "sd_ratio_median", "sd_ratio_max"]
    np.testing.assert_allclose(
        row[columns].astype(float), [ratio.min(), np.median(ratio), ratio.max()]
    )


def test_crosscheck_prints_a_table(checked):
    check, _ = checked
    lines = str(check).splitlines()
    assert lines[0].split()[:2] == ["site", "engine"]
    assert [line.split()[:2] for line in lines[2:5]] == [
        ["bias", "EP"], ["bias", "NUTS"], ["bias", "SVI"]]  # fmt: skip
    assert "±" in lines[3] and lines[-2] == check.verdicts["ep"].sentence
    assert max(map(len, lines[:8])) <= 120


def test_draws_of_nuts_convert_to_arviz(checked):
    check, _ = checked
    nuts = check.nuts
    assert nuts is not None
    samples = nuts.get_samples(group_by_chain=True)
    assert samples["bias"].shape == (2, 1010) and samples["width"].shape == (2, 1010)
    assert nuts.get_samples()["f"].shape == (2020, 4)
    data = to_arviz(nuts, log_likelihood=False, num_predictive=0)
    assert data.posterior["f"].shape == (2, 1010, 4)


def test_plot_shows_every_pair_and_the_verdict(checked):
    check, _ = checked
    figure = plot_crosscheck(check)
    left, right = figure.axes
    for ax, own, theirs in ((left, "mean", "mean"), (right, "sd", "sd")):
        for dots, comparison in zip(ax.collections, check.comparisons[:2], strict=False):
            expected = np.c_[getattr(comparison.reference, theirs), getattr(comparison, own)]
            np.testing.assert_allclose(np.asarray(dots.get_offsets()), expected)
    title: Any = figure.get_suptitle()
    assert " ".join(title.split()).endswith(check.verdict.sentence)
    assert "difference of two" in left.get_title()
    assert "SVI" in str(plot_crosscheck(check, "svi").get_suptitle())
    refused("engine 'nuts' was not compared", plot_crosscheck, check, "nuts")


@pytest.mark.slow
def test_a_wrong_result_is_found_out(checked):
    ep = checked[0].ep
    wrong = dataclasses.replace(ep, posterior=DensePosterior(0.5 * ep.joint_covariance))
    with jax.enable_x64(False):  # the caller's precision is not the engines'
        check = crosscheck(
            wrong, engines=("ep", "nuts"), num_warmup=200, num_samples=500, num_chains=2,
            progress_bar=False,
        )  # fmt: skip
    assert check.verdict.status == "differs" and check.verdict.engine == "ep"
    assert "too small in the median)" in check.verdict.sentence
    ratio = np.concatenate([c.ratio for c in check.comparisons])
    np.testing.assert_allclose(np.median(ratio), np.sqrt(0.5), rtol=0.1)
    assert check.nuts is not None and check.nuts.draws["f"].dtype == np.float64
    assert np.isnan(check.runs["ep"].seconds) and check.ep is wrong
    bad = dataclasses.replace(ep, converged=False)
    check = crosscheck(bad, engines="ep", progress_bar=False)
    assert check.verdict.sentence.startswith("EP has not converged after")
    assert check.comparisons == () and len(check.to_dataframe()) == 1


def test_programs_that_look_at_their_arguments_or_mask(capsys):
    def model(n, x):
        with numpyro.plate("item", n):
            f = numpyro.sample("f", dist.Normal(0.0, 1.0))
        with handlers.mask(mask=x > 0), handlers.scale(scale=0.5):
            numpyro.sample("y", dist.Normal(f, 1.0), obs=x)

    check = crosscheck(model, 3, np.array([1.0, -1.0, 2.0]), engines="ep")
    # Exact: half a unit observation each, where it counts.
    assert check.ep is not None and check.runs["ep"].weights is not None
    np.testing.assert_allclose(check.ep.mean["f"], [1 / 3, 0.0, 2 / 3], atol=1e-9)
    assert check.runs["ep"].weights.k_hat == -np.inf
    np.testing.assert_allclose(check.runs["ep"].weights.log_evidence, check.ep.log_evidence)
    assert capsys.readouterr().out == ""


def test_a_result_brings_its_own_arguments(checked):
    refused("has its own arguments and hyperparameters", crosscheck, checked[0].ep, X)


@pytest.mark.parametrize("rows, count", [(1, 4000), (2_500, 4000), (7_000, 1000), (10**6, 1000)])
def test_fewer_draws_are_weighed_by_many_data(rows, count):
    result: Any = SimpleNamespace(traced=SimpleNamespace(num_rows=rows))
    assert _number_of_draws(result) == count
