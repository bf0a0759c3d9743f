"""Hyperparameters integrated over by weighted points, against quadrature over them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, stats
from scipy.special import logsumexp

from bayesrank import to_arviz
from bayesrank.infer import EP, ConvergenceWarning, IntegratedEP, IntegratedEPResult
from bayesrank.infer.hyper.points import Proposal, weigh

Y = np.array([-2.1, -0.4, 0.3, 1.7, 2.6, 0.9, -1.2, 0.1])
KEY = jax.random.key(0)


def regression(y):
    """Gaussian all through, so that EP is exact and the scales alone are to be integrated over."""
    scale = numpyro.sample("scale", dist.LogNormal(0.0, 1.0))
    noise = numpyro.sample("noise", dist.LogNormal(-1.0, 0.25))
    level = numpyro.param("level", 0.2)
    with numpyro.plate("items", len(y)):
        f = numpyro.sample("f", dist.Normal(level, scale))
        numpyro.sample("y", dist.Normal(f, noise), obs=y)


@pytest.fixture(scope="module")
def result() -> IntegratedEPResult:
    return IntegratedEP(regression).run(KEY, Y, num_points=100, num_samples=4000)


@pytest.fixture(scope="module")
def truth() -> dict[str, Any]:
    """Posterior on a fine grid of the log scales, and the evidence."""
    grid = np.linspace(-7.0, 5.0, 301)
    log_scale, log_noise = (g.ravel() for g in np.meshgrid(grid, grid))
    scale, noise = np.exp(log_scale)[:, None], np.exp(log_noise)[:, None]
    log_joint = stats.norm.logpdf(Y, 0.2, np.sqrt(scale**2 + noise**2)).sum(1)
    log_joint += stats.norm.logpdf(log_scale) + stats.norm.logpdf(log_noise, -1.0, 0.25)
    log_joint += 2 * np.log(grid[1] - grid[0])
    weight = np.exp(log_joint - logsumexp(log_joint))
    shrink = scale**2 / (scale**2 + noise**2)
    centre, variance = 0.2 + shrink * (Y - 0.2), shrink * noise**2
    mean = weight @ centre
    moments = {"f": (mean, np.sqrt(weight @ (variance + (centre - mean) ** 2)))}
    for name, value in {"scale": scale[:, 0], "noise": noise[:, 0]}.items():
        moments[name] = weight @ value, np.sqrt(weight @ (value - weight @ value) ** 2)
    return {"log_evidence": logsumexp(log_joint), **moments}


def test_agrees_with_quadrature_over_the_hyperparameters(result, truth):
    assert result.converged and result.effective_points > 64
    for name in ("f", "scale", "noise"):
        mean, stddev = truth[name]
        assert_allclose((result.mean[name] - mean) / stddev, 0.0, atol=0.1)
        assert_allclose(result.stddev[name], stddev, rtol=0.05 if name == "f" else 0.15)


def test_integrates_the_evidence_over_the_hyperparameters(result, truth):
    assert result.pareto_k < 0.7 and result.log_evidence_error < 0.1
    assert_allclose(result.log_evidence, truth["log_evidence"], atol=0.05)


def test_moments_and_draws_are_those_of_the_components(result):
    parts = list(result.components())
    assert_allclose(sum(part.weight for part in parts), 1.0)
    mean = sum(part.weight * part.moments.mean["f"] for part in parts)
    assert_allclose(mean, result.mean["f"])
    second = sum(
        part.weight * (part.moments.covariance["f"] + np.outer(*[part.moments.mean["f"]] * 2))
        for part in parts
    )
    assert_allclose(second - np.outer(mean, mean), result.covariance["f"], atol=1e-12)
    draws = result.get_samples()
    assert_allclose(draws["f"].mean(0), mean, atol=0.06)
    assert_allclose(np.cov(draws["f"], rowvar=False), result.covariance["f"], atol=0.1)
    assert_allclose(draws["scale"].mean(), result.mean["scale"], rtol=0.02)
    shrink = draws["scale"] ** 2 / (draws["scale"] ** 2 + draws["noise"] ** 2)
    residual = draws["f"] - 0.2 - shrink[:, None] * (Y - 0.2)
    z = residual / (np.sqrt(shrink) * draws["noise"])[:, None]
    assert stats.kstest(z.ravel(), "norm").pvalue > 1e-3


def test_has_the_interface_of_a_result(result, capsys):
    grouped = result.get_samples(group_by_chain=True)
    assert grouped["f"].shape == (1, 4000, 8) and grouped["noise"].shape == (1, 4000)
    assert (grouped["level"] == 0.2).all() and result.params.keys() == {"level"}
    result.print_summary()
    assert "noise" in capsys.readouterr().out
    data = to_arviz(result, num_predictive=5)
    assert data.posterior["f"].sizes == {"chain": 1, "draw": 4000, "items": 8}
    assert "scale" in data.posterior and "level" in data.constant_data
    assert_allclose(data.posterior.attrs["log_evidence"], result.log_evidence)


@pytest.mark.slow
def test_an_engine_lends_its_settings_and_its_code():
    engine = EP(regression, power=0.5)
    assert IntegratedEP(engine).engine is engine
    one, other = (IntegratedEP(engine).run(KEY, Y, num_samples=3) for _ in range(2))
    assert_allclose(one.draws["f"], other.draws["f"])
    with pytest.raises(TypeError, match="model is an EP engine.*power"):
        IntegratedEP(engine, power=0.5)


@pytest.mark.slow
def test_holds_fixed_what_it_is_given():
    result = IntegratedEP(regression).run(KEY, Y, params={"noise": 0.5}, num_samples=10)
    assert set(result.points) == {"scale"} and result.params["noise"] == 0.5
    assert "noise" not in result.hyperparameters


@pytest.mark.slow
def test_warns_where_few_points_count():
    with pytest.warns(ConvergenceWarning, match="stands on few points"):
        result = IntegratedEP(funnel).run(KEY, Y)
    assert not result.converged


def funnel(y):
    """Hyperparameters in a funnel, which a density with straight axes covers badly."""
    with numpyro.plate("hyper", 2):
        scale = numpyro.sample("scale", dist.LogNormal(0.0, 3.0))
    u, v = jnp.log(scale)
    numpyro.factor("funnel", -0.5 * (v * jnp.exp(-2.0 * u)) ** 2 - 2.0 * u)
    with numpyro.plate("items", len(y)):
        f = numpyro.sample("f", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(f, 1.0), obs=y)


def test_refuses_a_program_without_hyperparameters():
    given = {"scale": 1.0, "noise": 1.0}
    with pytest.raises(ValueError, match="no hyperparameter to integrate over.*Use EP"):
        IntegratedEP(regression).run(KEY, Y, params=given)


@pytest.mark.parametrize(("name", "least"), [("num_samples", 1), ("num_points", 8)])
@pytest.mark.parametrize("count", [0, 7.5])
def test_refuses_impossible_numbers(name, least, count):
    counts: dict[str, Any] = {name: count}
    with pytest.raises(ValueError, match=f"{name} is {count}; pass a whole number from {least}"):
        IntegratedEP(regression).run(KEY, Y, **counts)


LEANING = Proposal(np.array([0.5]), np.array([[2.0]]), np.array([0.7]), np.array([1.6]))


def test_a_proposal_is_a_density_and_its_points_follow_it():
    def density(x: float) -> float:
        return float(np.exp(LEANING.log_density(np.array([[x]]))[0]))

    below = integrate.quad(density, -60, 0.5)[0]
    assert_allclose(below + integrate.quad(density, 0.5, 90)[0], 1.0, rtol=1e-5)
    points = LEANING.points(1024, 0)[:, 0]
    grid = np.quantile(points, [0.1, 0.3, 0.5, 0.7, 0.9])
    shares = [integrate.quad(density, -60, x)[0] for x in grid]
    assert_allclose(shares, [0.1, 0.3, 0.5, 0.7, 0.9], atol=0.01)


def test_a_proposal_in_two_dimensions_is_normalised():
    root = np.array([[1.0, 0.0], [0.8, 0.5]])
    proposal = Proposal(np.zeros(2), root, np.array([0.7, 1.0]), np.array([1.6, 0.8]))
    grid = np.linspace(-30, 30, 1201)
    points = np.stack(np.meshgrid(grid, grid), -1).reshape(-1, 2)
    total = np.exp(proposal.log_density(points)).sum() * (grid[1] - grid[0]) ** 2
    assert_allclose(total, 1.0, rtol=1e-3)


def test_points_of_two_proposals_weigh_as_draws_from_their_mixture():
    batches = []
    for centre, count in ((0.0, 128), (1.5, 256)):
        proposal = LEANING._replace(centre=np.array([centre]))
        batches.append((proposal, proposal.points(count, 1)))
    points = np.concatenate([p for _, p in batches])
    weighted = weigh(batches, stats.norm.logpdf(points[:, 0], 1.0, 1.3) + 3.0)
    assert_allclose(weighted.log_mean, 3.0, atol=0.02)
    mean = weighted.weights @ points[:, 0]
    assert_allclose(mean, 1.0, atol=0.03)
    refitted = weighted.refitted(batches[0][0])
    assert_allclose(refitted.centre, mean)
    assert_allclose(refitted.root[0, 0], 1.3, rtol=0.05)
