"""Hyperparameters integrated over, by weighted points and by NUTS with EP inside: quadrature."""

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpy.testing import assert_allclose
from numpyro.diagnostics import effective_sample_size
from numpyro.infer import Predictive
from scipy import integrate, stats
from scipy.special import log_ndtr, logsumexp

from bayesrank import to_arviz
from bayesrank.infer import EP, ConvergenceWarning, IntegratedEP, NestedEP, maximize_evidence
from bayesrank.infer.hyper.nested import LARGEST_R_HAT, largest_r_hat
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


RUNS: dict[str, tuple[Any, dict[str, Any]]] = {
    "points": (IntegratedEP, {"num_points": 100, "num_samples": 4000}),
    "nested": (NestedEP, {"num_warmup": 100, "num_samples": 400}),
}


@pytest.fixture(scope="module", params=RUNS)
def result(request) -> Any:
    engine, counts = RUNS[request.param]
    return engine(regression).run(KEY, Y, **counts)


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
    assert result.converged and result.pareto_k < 0.7
    draws = result.get_samples(group_by_chain=True)
    slack = 0.1
    if draws["scale"].shape[0] > 1:
        fewest = min(float(effective_sample_size(draws[k])) for k in ("scale", "noise"))
        slack = 4 / fewest**0.5
    for name in ("f", "scale", "noise"):
        mean, sd = truth[name]
        assert_allclose((result.mean[name] - mean) / sd, 0.0, atol=slack)
        assert_allclose(result.sd[name], sd, rtol=0.08 if name == "f" else 0.3)
    off = result.log_evidence - truth["log_evidence"]
    assert abs(off) < 0.05 + 4 * result.log_evidence_error and result.log_evidence_error < 0.1


def test_points_too_few_to_show_a_tail_are_judged_by_how_many_count(truth):
    few = IntegratedEP(regression).run(KEY, Y, num_points=16)
    assert few.converged and np.isnan(few.pareto_k) and few.weights.size <= 16
    mean, sd = truth["f"]
    assert_allclose((few.mean["f"] - mean) / sd, 0.0, atol=0.2)
    assert_allclose(few.sd["f"], sd, rtol=0.15)
    assert abs(few.log_evidence - truth["log_evidence"]) < 4 * few.log_evidence_error


def test_draws_of_latents_belong_to_their_hyperparameters(result):
    """Given the scales, f is normal with known mean and variance: the residuals are standard."""
    draws = result.get_samples()
    shrink = draws["scale"] ** 2 / (draws["scale"] ** 2 + draws["noise"] ** 2)
    residual = draws["f"] - 0.2 - shrink[:, None] * (Y - 0.2)
    z = residual / (np.sqrt(shrink) * draws["noise"])[:, None]
    assert stats.kstest(z.ravel(), "norm").pvalue > 1e-3
    assert_allclose(np.cov(z, rowvar=False), np.eye(Y.size), atol=0.2)
    assert_allclose(np.cov(draws["f"], rowvar=False), result.covariance["f"], atol=0.15)


def test_has_the_interface_of_a_result(result, capsys):
    grouped, flat = result.get_samples(group_by_chain=True), result.get_samples()
    chains, draws = grouped["noise"].shape
    assert grouped["f"].shape == (chains, draws, 8) and flat["f"].shape == (chains * draws, 8)
    assert (grouped["level"] == 0.2).all() and result.params.keys() == {"level"}
    assert result.latent_sites == ("f",) and result.covariance["f"].shape == (8, 8)
    result.print_summary()
    printed = capsys.readouterr().out
    assert "noise" in printed and "f[0]" in printed
    data = to_arviz(result, num_predictive=5)
    assert data.posterior["f"].sizes == {"chain": chains, "draw": draws, "items": 8}
    assert "scale" in data.posterior and "level" in data.constant_data
    assert data.posterior.attrs["converged"] == 1
    assert_allclose(data.posterior.attrs["log_evidence"], result.log_evidence)
    some = {k: flat[k][:50] for k in ("f", "scale", "noise")}
    assert Predictive(regression, some)(KEY, Y)["y"].shape == (50, 8)


LEAST: list[tuple[Any, dict[str, Any]]] = [
    (IntegratedEP, {"num_samples": 1, "num_points": 8}),
    (NestedEP, {"num_warmup": r"\d", "num_samples": 4, "num_chains": 1}),
]


@pytest.mark.parametrize(("engine", "least"), LEAST)
def test_what_cannot_be_integrated_is_refused(engine, least):
    with pytest.raises(ValueError, match="no hyperparameter to integrate over.*Use EP"):
        engine(regression).run(KEY, Y, params={"scale": 1.0, "noise": 1.0})
    for name, at_least in least.items():
        for count in (0, 7.5):
            message = f"{name} is {count}; pass a whole number from {at_least}"
            with pytest.raises(ValueError, match=message):
                engine(regression).run(KEY, Y, **{name: count})


# ---------------------------------------------------------------- weighted points


def two_modes(y):
    """A level that is a square: there are two modes, of unequal weight."""
    root = numpyro.sample("root", dist.LogNormal(0.3, 1.0))
    f = numpyro.sample("f", dist.Normal(jnp.log(root) ** 2, 0.5))
    numpyro.sample("y", dist.Normal(f, 0.5), obs=y)


@pytest.mark.slow
def test_modes_that_compete_have_points_of_their_own(capsys):
    result = IntegratedEP(two_modes).run(KEY, 2.5, num_restarts=4)
    root = np.linspace(-12.0, 12.0, 40_001)
    weight = stats.norm.pdf(root, 0.3, 1.0) * stats.norm.pdf(2.5, root**2, np.sqrt(0.5))
    evidence = weight.sum() * (root[1] - root[0])
    weight /= weight.sum()
    assert result.log_evidence == pytest.approx(np.log(evidence), abs=0.05)
    assert result.mean["f"] == pytest.approx(weight @ (0.5 * (root**2 + 2.5)), abs=0.05)
    (share, values), *_ = result.other_modes
    assert share == pytest.approx(weight[root < 0].sum(), abs=0.03)
    peak = root[root < 0][np.argmax(weight[root < 0])]
    assert np.log(values["root"]) == pytest.approx(peak, abs=0.05)
    result.print_summary()
    for said in (repr(result), capsys.readouterr().out):
        assert f"another mode has {share:.0%} of the weight: root " in said


@pytest.mark.slow
def test_the_maximum_says_that_modes_compete():
    with pytest.warns(UserWarning, match="modes of the hyperparameters compete: 1 beside"):
        best = maximize_evidence(two_modes, 2.5, num_restarts=4)
    prior: Any = stats.lognorm(1.0, scale=np.exp(0.3))
    root = np.exp(np.linspace(-6.0, 3.0, 9001))
    height = prior.pdf(root) * stats.norm.pdf(2.5, np.log(root) ** 2, np.sqrt(0.5))
    peaks = root[1:-1][(height[1:-1] > height[:-2]) & (height[1:-1] > height[2:])]
    (other,) = best.other_modes
    assert_allclose(sorted([best.params["root"], other["root"]]), peaks, rtol=0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert maximize_evidence(regression, Y, num_restarts=2).other_modes == ()


@pytest.mark.slow
def test_moments_are_those_of_the_components():
    result = IntegratedEP(regression).run(KEY, Y, num_samples=10)
    parts = list(result.components())
    assert_allclose(sum(part.weight for part in parts), 1.0)
    mean = sum(part.weight * part.moments.mean["f"] for part in parts)
    assert_allclose(mean, result.mean["f"])
    second = sum(
        part.weight * (part.moments.covariance["f"] + np.outer(*[part.moments.mean["f"]] * 2))
        for part in parts
    )
    assert_allclose(second - np.outer(mean, mean), result.covariance["f"], atol=1e-12)
    held = IntegratedEP(regression).run(KEY, Y, params={"noise": 0.5}, num_samples=10)
    assert set(held.points) == {"scale"} and held.params["noise"] == 0.5
    assert "noise" not in held.hyperparameters


@pytest.mark.slow
def test_an_engine_lends_its_settings_and_its_code():
    engine = EP(regression, power=0.5)
    for kind in (IntegratedEP, NestedEP):
        assert kind(engine).engine is engine
        assert kind(regression, precision="float32").engine.precision == "float32"
        with pytest.raises(TypeError, match="model is an EP engine.*power"):
            kind(engine, power=0.5)
    one, other = (IntegratedEP(engine).run(KEY, Y, num_samples=3) for _ in range(2))
    assert_allclose(one.draws["f"], other.draws["f"])


def funnel(y):
    """Hyperparameters in a funnel, which a density with straight axes covers badly."""
    with numpyro.plate("hyper", 2):
        scale = numpyro.sample("scale", dist.LogNormal(0.0, 3.0))
    u, v = jnp.log(scale)
    numpyro.factor("funnel", -0.5 * (v * jnp.exp(-2.0 * u)) ** 2 - 2.0 * u)
    with numpyro.plate("items", len(y)):
        f = numpyro.sample("f", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(f, 1.0), obs=y)


@pytest.mark.slow
def test_warns_where_few_points_count():
    with pytest.warns(ConvergenceWarning, match="rests on few points"):
        result = IntegratedEP(funnel).run(KEY, Y)
    assert not result.converged


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
    root = np.array([[1.0, 0.0], [0.8, 0.5]])
    plane = Proposal(np.zeros(2), root, np.array([0.7, 1.0]), np.array([1.6, 0.8]))
    grid = np.linspace(-30, 30, 1201)
    points = np.stack(np.meshgrid(grid, grid), -1).reshape(-1, 2)
    total = np.exp(plane.log_density(points)).sum() * (grid[1] - grid[0]) ** 2
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


# ---------------------------------------------------------------- NUTS with EP inside


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
    found = NestedEP(governed).run(KEY, 1.0, target_accept_prob=0.95, **counts)
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
def test_a_short_walk_is_told_with_the_fix(capsys):
    with pytest.warns(ConvergenceWarning, match=r"Give it target_accept_prob=0\.95"):
        found = NestedEP(regression).run(KEY, Y, num_warmup=1, num_samples=4)
    found.print_summary()
    assert "It has not converged" in capsys.readouterr().out
    with pytest.raises(ValueError, match="target_accept_prob is 1.0; pass a number above 0 and"):
        NestedEP(regression).run(KEY, Y, target_accept_prob=1.0)
