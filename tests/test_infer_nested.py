"""NUTS over hyperparameters with EP inside, against quadrature over the hyperparameters."""

from typing import Any

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpy.testing import assert_allclose
from numpyro.diagnostics import effective_sample_size
from numpyro.infer import Predictive
from scipy import stats
from scipy.special import log_ndtr, logsumexp

from bayesrank import to_arviz
from bayesrank.infer import ConvergenceWarning, NestedEP, NestedEPResult
from bayesrank.infer.hyper.nested import LARGEST_R_HAT, largest_r_hat

Y = np.array([-2.1, -0.4, 0.3, 1.7, 2.6])


def regression(y):
    """Gaussian all through, so that EP is exact and the scale alone is to be integrated over."""
    scale = numpyro.sample("scale", dist.LogNormal(0.0, 1.0))
    sd = numpyro.param("noise", 0.8, constraint=dist.constraints.positive)
    with numpyro.plate("items", len(y)):
        f = numpyro.sample("f", dist.Normal(0.0, scale))
        numpyro.sample("y", dist.Normal(f, sd), obs=y)


@pytest.fixture(scope="module")
def result() -> NestedEPResult:
    return NestedEP(regression).run(jax.random.key(0), Y, num_warmup=100, num_samples=400)


def exact() -> dict[str, Any]:
    """Posterior on a fine grid of the log scale, and the evidence."""
    log_scale = np.linspace(-6.0, 6.0, 4001)
    scale = np.exp(log_scale)[:, None]
    log_joint = stats.norm.logpdf(Y, 0.0, np.sqrt(scale**2 + 0.8**2)).sum(1)
    log_joint += stats.norm.logpdf(log_scale) + np.log(log_scale[1] - log_scale[0])
    weight = np.exp(log_joint - logsumexp(log_joint))
    shrink = scale**2 / (scale**2 + 0.8**2)
    mean = weight @ (shrink * Y)
    second = weight @ (shrink * 0.8**2 + (shrink * Y) ** 2)
    return {
        "log_evidence": logsumexp(log_joint),
        "scale": weight @ scale[:, 0],
        "scale_sd": np.sqrt(weight @ scale[:, 0] ** 2 - (weight @ scale[:, 0]) ** 2),
        "f": mean,
        "f_sd": np.sqrt(second - mean**2),
    }


def standard_error(draws: np.ndarray) -> float:
    return float(draws.std() / np.sqrt(effective_sample_size(draws)))


def test_agrees_with_quadrature_over_the_hyperparameter(result):
    truth = exact()
    scale = result.get_samples(group_by_chain=True)["scale"]
    shrink = scale**2 / (scale**2 + 0.8**2)
    assert result.converged
    assert_allclose(result.mean["scale"], truth["scale"], atol=4 * standard_error(scale))
    assert_allclose(result.stddev["scale"], truth["scale_sd"], rtol=0.3)
    # The latents hang on the scale alone, by their shrinkage.
    assert_allclose(result.mean["f"] / Y, truth["f"] / Y, atol=4 * standard_error(shrink))
    assert_allclose(result.stddev["f"], truth["f_sd"], rtol=0.08)


def test_integrates_the_evidence_over_the_hyperparameter(result):
    truth = exact()
    assert result.pareto_k < 0.7
    assert 0 < result.log_evidence_error < 0.1
    assert abs(result.log_evidence - truth["log_evidence"]) < 4 * result.log_evidence_error


def test_draws_of_latents_belong_to_their_hyperparameters(result):
    """Given the scale, f is normal with known mean and variance: the residuals are standard."""
    draws = result.get_samples()
    shrink = draws["scale"] ** 2 / (draws["scale"] ** 2 + 0.8**2)
    residual = draws["f"] - shrink[:, None] * Y
    z = residual / np.sqrt(shrink[:, None] * 0.8**2)
    assert stats.kstest(z.ravel(), "norm").pvalue > 1e-3
    assert_allclose(np.cov(z, rowvar=False), np.eye(Y.size), atol=0.2)


def test_has_the_interface_of_a_result(result, capsys):
    samples, grouped = result.get_samples(), result.get_samples(group_by_chain=True)
    assert samples["f"].shape == (800, 5) and grouped["f"].shape == (2, 400, 5)
    assert samples["scale"].shape == (800,)
    assert (samples["noise"] == 0.8).all() and result.params.keys() == {"noise"}
    assert result.covariance["f"].shape == (5, 5) and result.latent_sites == ("f",)
    drawn = Predictive(regression, {k: samples[k] for k in ("f", "scale")})(jax.random.key(1), Y)
    assert drawn["y"].shape == (800, 5)
    result.print_summary()
    printed = capsys.readouterr().out
    assert "scale" in printed and "f[0]" in printed


def test_converts_to_arviz(result):
    data = to_arviz(result, num_predictive=5)
    assert data.posterior["f"].sizes == {"chain": 2, "draw": 400, "items": 5}
    assert "scale" in data.posterior and "noise" in data.constant_data
    assert data.posterior.attrs["converged"] == 1
    assert_allclose(data.posterior.attrs["log_evidence"], result.log_evidence)


def test_refuses_a_program_without_hyperparameters():
    with pytest.raises(ValueError, match="no hyperparameter to integrate over.*Use EP"):
        NestedEP(regression).run(jax.random.key(0), Y, params={"scale": 1.0})


@pytest.mark.parametrize("name", ["num_warmup", "num_samples", "num_chains"])
@pytest.mark.parametrize("count", [0, 7.5])
def test_refuses_impossible_numbers(name, count):
    with pytest.raises(ValueError, match=f"{name} is {count}; pass a whole number from"):
        counts: dict[str, Any] = {name: count}
        NestedEP(regression).run(jax.random.key(0), Y, **counts)


def test_chains_that_disagree_have_not_converged():
    agreeing = np.random.default_rng(0).normal(size=(2, 200, 3))
    apart = agreeing + np.array([0.0, 1.0])[:, None, None]
    assert largest_r_hat(agreeing) < LARGEST_R_HAT < largest_r_hat(apart)


def governed(y):
    """A hyperparameter whose prior hangs on a latent: its posterior has two modes."""
    mu: Any = numpyro.sample("mu", dist.Normal(0.0, 1.0))
    b: Any = numpyro.sample("b", dist.TruncatedNormal(mu, 0.1, low=0.0))
    a: Any = numpyro.sample("a", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Normal(a + b, 1.0), obs=y)


@pytest.mark.slow
def test_a_prior_that_hangs_on_a_latent():
    counts: dict[str, Any] = {"num_warmup": 200, "num_samples": 600, "num_chains": 2}
    found = NestedEP(governed).run(jax.random.key(0), 1.0, target_accept_prob=0.95, **counts)
    assert found.converged and found.num_divergent == 0
    mu, log_b = np.linspace(-6.0, 6.0, 1201)[:, None], np.linspace(-12.0, 2.0, 2001)
    log_joint = stats.norm.logpdf(mu) + stats.norm.logpdf(np.exp(log_b), mu, 0.1) + log_b
    log_joint += stats.norm.logpdf(1.0, np.exp(log_b), np.sqrt(2.0)) - log_ndtr(mu / 0.1)
    evidence = logsumexp(log_joint) + np.log(0.01 * (log_b[1] - log_b[0]))
    weight = np.exp(log_joint - logsumexp(log_joint))
    draws = np.log(found.get_samples(group_by_chain=True)["b"])
    at = float(np.sum(weight * log_b)), float(np.sum(weight * mu))
    spread = float(np.sqrt(np.sum(weight * log_b**2) - at[0] ** 2))
    effective = float(effective_sample_size(draws))
    assert effective > 50
    assert_allclose(draws.mean(), at[0], atol=4 * spread / np.sqrt(effective))
    assert_allclose(draws.std(), spread, rtol=0.15)
    # As far as the latents hang on it, they are off by what it is.
    assert_allclose(found.mean["mu"], at[1], atol=4 / np.sqrt(effective))
    assert abs(found.log_evidence - evidence) < 4 * found.log_evidence_error


@pytest.mark.slow
def test_a_short_walk_is_told_with_the_cure(capsys):
    with pytest.warns(ConvergenceWarning, match=r"Give it target_accept_prob=0\.95"):
        found = NestedEP(regression).run(jax.random.key(0), Y, num_warmup=1, num_samples=4)
    found.print_summary()
    assert "It has not converged" in capsys.readouterr().out
    with pytest.raises(ValueError, match="target_accept_prob must be between 0 and 1, got 1"):
        NestedEP(regression).run(jax.random.key(0), Y, target_accept_prob=1.0)
