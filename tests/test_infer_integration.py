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
from bayesrank.infer import EP, ConvergenceWarning
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


HELD = {"level": 0.2}


@pytest.fixture(scope="module", params=["integrate", "nuts"])
def result(request) -> Any:
    engine = EP(regression, hyperparameters=request.param)
    return engine.run(
        KEY, Y, params=HELD, num_samples=4000 if request.param == "integrate" else 800
    )


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


def line(x, y):
    intercept: Any = numpyro.sample("intercept", dist.Normal(0.0, 10.0))
    slope: Any = numpyro.sample("slope", dist.Normal(0.0, 10.0))
    noise = numpyro.sample("noise", dist.HalfNormal(10.0))
    numpyro.sample("y", dist.Normal(intercept + slope * x, noise), obs=y)


def test_a_straight_line_with_an_unknown_noise_by_the_natural_call():
    rng = np.random.default_rng(0)
    x = rng.normal(size=50)
    y = 1.0 + 2.0 * x + 0.6 * rng.normal(size=50)
    result = EP(line).run(KEY, x, y)
    # The noise on a fine grid; given it, the coefficients are those of a ridge regression.
    noise, design = np.linspace(0.3, 1.5, 2001), np.stack([np.ones(50), x], 1)
    covariance = np.linalg.inv(design.T @ design / noise[:, None, None] ** 2 + np.eye(2) / 100)
    mean = (covariance @ (design.T @ y)) / noise[:, None] ** 2
    left = y @ y / noise**2 - np.einsum("ki,kij,kj->k", mean, np.linalg.inv(covariance), mean)
    log_joint = stats.norm.logpdf(noise, scale=10.0) - 50 * np.log(noise) - 0.5 * left
    log_joint += 0.5 * np.linalg.slogdet(covariance)[1]
    weight = np.exp(log_joint - logsumexp(log_joint))
    centre = weight @ mean
    sd = np.sqrt(weight @ (covariance[:, [0, 1], [0, 1]] + (mean - centre) ** 2))
    for number, name in enumerate(("intercept", "slope")):
        assert_allclose(result.mean[name], centre[number], atol=0.05 * sd[number])
        assert_allclose(result.sd[name], sd[number], rtol=0.05)
    assert_allclose(result.mean["noise"], weight @ noise, atol=0.05 * float(result.sd["noise"]))
    assert result.converged and result.errors["noise"] < 0.05


@pytest.mark.slow
def test_a_vague_prior_does_not_keep_the_search_from_the_data():
    def spread(y):
        scale = numpyro.sample("scale", dist.HalfNormal(1e6))
        mean = numpyro.sample("mean", dist.Normal(0.0, 1e4))
        numpyro.sample("y", dist.Normal(mean, scale), obs=y)

    y = np.random.default_rng(1).normal(5.0, 3.0, size=400)
    result = EP(spread).run(KEY, y)
    # With flat priors (n - 1) s^2 / scale^2 follows a chi-squared distribution of n - 2 degrees.
    draws = np.sqrt(
        ((y - y.mean()) ** 2).sum() / stats.chi2.ppf((np.arange(4000) + 0.5) / 4000, 398)
    )
    assert_allclose(result.mean["scale"], draws.mean(), atol=0.05 * draws.std())
    assert_allclose(result.sd["scale"], draws.std(), rtol=0.05)


@pytest.mark.slow
def test_each_choice_is_a_way_of_one_engine():
    held = EP(regression, hyperparameters="prior").run(KEY, Y)
    assert held.defaulted_params == ("scale", "noise") and held.hyperparameters == {}
    best = EP(regression, hyperparameters="map").run(KEY, Y, params=HELD)
    assert best.sources == {"level": "as given", "scale": "by evidence", "noise": "by evidence"}
    some = EP(regression, hyperparameters={"noise": 0.5, "level": 0.2}).run(KEY, Y)
    assert set(some.hyperparameters) == {"scale"} and some.params["noise"] == 0.5
    every = EP(regression, hyperparameters=best.params).run(KEY, Y)
    assert_allclose(every.joint_mean, best.joint_mean, atol=1e-6)
    # A `param` site has no prior to average over: it takes the value with the largest evidence.
    free = EP(regression).run(KEY, Y)
    learned = EP(regression, hyperparameters="map").run(KEY, Y)
    assert_allclose(free.params["level"], learned.params["level"], atol=1e-4)


@pytest.mark.slow
def test_latents_with_heavy_tails_beside_a_hyperparameter():
    def heavy(y):
        noise = numpyro.sample("noise", dist.HalfNormal(1.0))
        f = numpyro.sample("f", dist.Laplace(0.0, 1.0))
        numpyro.sample("y", dist.Normal(f, noise), obs=y)

    y = np.array([1.0, 2.0, 0.5, 1.2])
    result = EP(heavy).run(KEY, y)
    f, noise = np.linspace(-4, 6, 801)[:, None], np.linspace(0.02, 5.0, 800)
    log_joint = stats.laplace.logpdf(f) + stats.halfnorm.logpdf(noise)
    log_joint = log_joint + sum(stats.norm.logpdf(each, f, noise) for each in y)
    weight = np.exp(log_joint - logsumexp(log_joint))
    mean = float(np.sum(weight * f))
    sd = float(np.sqrt(np.sum(weight * (f - mean) ** 2)))
    assert_allclose(result.mean["f"], mean, atol=0.15 * sd)
    assert_allclose(result.sd["f"], sd, rtol=0.15)
    assert np.isfinite(result.get_samples()["f"]).all()


@pytest.mark.slow
def test_constant_elements_of_a_hyperparameter_are_right():
    def correlated(y):
        root: Any = numpyro.sample("root", dist.LKJCholesky(2, 2.0))
        f: Any = numpyro.sample("f", dist.MultivariateNormal(jnp.zeros(2), scale_tril=root))
        numpyro.sample("y", dist.Normal(f, 0.5), obs=y)

    trust = EP(correlated).run(KEY, np.array([1.0, 0.8])).accuracy
    assert trust.is_good and np.isfinite([trust.mean_error, trust.sd_error]).all()


@pytest.mark.slow
def test_more_hyperparameters_than_points_can_cover_are_walked_over():
    def many(y):
        scale = numpyro.sample("scale", dist.HalfNormal(1.0).expand([len(y)]))
        f = numpyro.sample("f", dist.Normal(0.0, scale))
        numpyro.sample("y", dist.Normal(f, 0.5), obs=y)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = EP(many).run(KEY, np.linspace(-1, 1, 21), num_samples=20, num_warmup=20)
    assert result.get_samples(group_by_chain=True)["scale"].shape == (2, 10, 21)
    parts = list(result.components())
    assert_allclose(sum(part.weight * part.moments.joint_mean for part in parts), result.joint_mean)


# ---------------------------------------------------------------- weighted points


def two_modes(y):
    """A level that is a square: there are two modes, of unequal weight."""
    root = numpyro.sample("root", dist.LogNormal(0.3, 1.0))
    f = numpyro.sample("f", dist.Normal(jnp.log(root) ** 2, 0.5))
    numpyro.sample("y", dist.Normal(f, 0.5), obs=y)


@pytest.mark.slow
def test_modes_that_compete_have_points_of_their_own(capsys):
    result = EP(two_modes).run(KEY, 2.5, num_restarts=4)
    root = np.linspace(-12.0, 12.0, 40_001)
    weight = stats.norm.pdf(root, 0.3, 1.0) * stats.norm.pdf(2.5, root**2, np.sqrt(0.5))
    evidence = weight.sum() * (root[1] - root[0])
    weight /= weight.sum()
    assert result.log_evidence == pytest.approx(np.log(evidence), abs=0.05)
    assert result.mean["f"] == pytest.approx(weight @ (0.5 * (root**2 + 2.5)), abs=0.05)
    share, values = result.mode_shares[0], result.other_modes[0]
    assert share == pytest.approx(weight[root < 0].sum(), abs=0.03)
    peak = root[root < 0][np.argmax(weight[root < 0])]
    assert np.log(values["root"]) == pytest.approx(peak, abs=0.05)
    result.print_summary()
    for said in (repr(result), capsys.readouterr().out):
        assert f"another mode has {share:.0%} of the weight: root " in said


@pytest.mark.slow
def test_the_maximum_says_that_modes_compete():
    with pytest.warns(UserWarning, match="modes of the hyperparameters compete: 1 beside"):
        best = EP(two_modes, hyperparameters="map").run(KEY, 2.5, num_restarts=4)
    prior: Any = stats.lognorm(1.0, scale=np.exp(0.3))
    root = np.exp(np.linspace(-6.0, 3.0, 9001))
    height = prior.pdf(root) * stats.norm.pdf(2.5, np.log(root) ** 2, np.sqrt(0.5))
    peaks = root[1:-1][(height[1:-1] > height[:-2]) & (height[1:-1] > height[2:])]
    (other,) = best.other_modes
    assert_allclose(sorted([best.params["root"], other["root"]]), peaks, rtol=0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        best = EP(regression, hyperparameters="map").run(KEY, Y, num_restarts=2)
    assert best.other_modes == ()


def distances(y, first, second):
    scale = numpyro.sample("scale", dist.HalfNormal(2.0))
    f = jnp.asarray(numpyro.sample("f", dist.Normal(0.0, scale).expand([6])))
    numpyro.sample("y", dist.Normal(jnp.abs(f[first] - f[second]), 0.2), obs=y)


@pytest.mark.slow
def test_two_fixed_points_at_the_maximum_are_told():
    rng = np.random.default_rng(3)
    pick = np.sort(rng.choice(15, 8, replace=False))
    first, second = (each[pick] for each in np.triu_indices(6, 1))
    truth = rng.normal(size=6)
    y = np.abs(truth[first] - truth[second]) + 0.2 * rng.normal(size=8)
    with pytest.warns(ConvergenceWarning, match="EP has several fixed points"):
        EP(distances, hyperparameters="map").run(KEY, y, first, second)


@pytest.mark.slow
def test_moments_are_those_of_the_components():
    result = EP(regression).run(KEY, Y, params=HELD, num_samples=10)
    parts = list(result.components())
    assert_allclose(sum(part.weight for part in parts), 1.0)
    mean = sum(part.weight * part.moments.mean["f"] for part in parts)
    assert_allclose(mean, result.mean["f"])
    second = sum(
        part.weight * (part.moments.covariance["f"] + np.outer(*[part.moments.mean["f"]] * 2))
        for part in parts
    )
    assert_allclose(second - np.outer(mean, mean), result.covariance["f"], atol=1e-12)
    held = EP(regression).run(KEY, Y, params=HELD | {"noise": 0.5}, num_samples=10)
    assert set(held.weighted_points[0]) == {"scale"} and held.params["noise"] == 0.5
    assert "noise" not in held.hyperparameters


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
def test_what_points_do_not_cover_is_walked_over(monkeypatch):
    monkeypatch.setattr("bayesrank.infer.hyper.integration._MOST", 64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        walked = EP(funnel).run(KEY, Y, num_samples=20)
    assert walked.get_samples(group_by_chain=True)["scale"].shape == (2, 10, 2)
    monkeypatch.setattr("bayesrank.infer.hyper.maximum._DEAR", (1, 1))
    monkeypatch.setattr("bayesrank.infer.hyper.integration._MOST_DEAR", 32)
    with pytest.warns(
        ConvergenceWarning, match="points are too few.*'scale'.*hyperparameters='nuts'"
    ):
        result = EP(funnel).run(KEY, Y)
    assert not result.converged and result.errors["scale"] > 0.1


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
    grid = np.linspace(-4.0, 6.0, 2001)[:, None]
    density = np.exp(refitted.log_density(grid))
    assert_allclose(density @ grid[:, 0] / density.sum(), mean, atol=0.05)
    peak = density.max() * np.sqrt(2 * np.pi) * 1.3
    assert_allclose(peak, 1.0, atol=0.1)


def test_blocks_of_a_net_show_its_error():
    """Against the spread over nets of other seeds, of a density that leans the other way."""
    found = []
    for seed in range(60):
        points = LEANING.points(64, seed)
        heights = stats.gamma.logpdf(np.exp(0.5 * points[:, 0]), 3.0) + 0.5 * points[:, 0]
        weighted = weigh([(LEANING, points)], heights)
        mean = weighted.weights @ points[:, 0]
        sd = np.sqrt(weighted.weights @ (points[:, 0] - mean) ** 2)
        found.append((mean, sd, *(each[0] for each in weighted.errors([64]))))
    mean, sd, of_mean, of_sd = np.array(found).T
    for spread, said in ((mean.std() / sd.mean(), of_mean), (sd.std() / sd.mean(), of_sd)):
        assert 0.7 * spread < np.median(said) < 4 * spread


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
    counts: dict[str, Any] = {"num_warmup": 200, "num_samples": 1200, "num_chains": 2}
    found = EP(governed).run(KEY, 1.0, target_accept_prob=0.95, **counts)
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
        found = EP(regression, hyperparameters="nuts").run(KEY, Y, num_warmup=1, num_samples=8)
    found.print_summary()
    assert "It has not converged" in capsys.readouterr().out
