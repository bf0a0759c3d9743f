"""ArviZ conversion: closed forms on a Gaussian model, and what ArviZ itself makes of the groups."""

from dataclasses import dataclass, field
from typing import Any, cast

import arviz as az
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import xarray as xr
from numpyro.contrib.control_flow import scan
from numpyro.infer import HMC, MCMC, NUTS, SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoMultivariateNormal
from numpyro.infer.svi import SVIRunResult
from refusals import refused
from scipy.special import expit
from scipy.stats import norm

from bayesrank.distributions import Thurstone
from bayesrank.infer import EP
from bayesrank.inferencedata import PosteriorResult, SVIPosterior, to_arviz

NAMES = ["ann", "bob", "eve", "kim"]
PAIRS = np.array([[0, 1], [1, 2], [2, 3], [3, 0], [0, 2], [1, 3]] * 2)
MARGIN = np.random.default_rng(0).normal(size=len(PAIRS))
NOISE = 0.8


def model(pairs, margin=None):
    noise: Any = numpyro.param("noise", NOISE)
    kappa = numpyro.deterministic("kappa", 1.0 / noise**2)
    with numpyro.plate("item", 4):
        f: Any = numpyro.sample("f", dist.Normal(0.0, 1.0))
    with numpyro.plate("comparison", len(pairs)):
        gap = numpyro.deterministic("gap", f[pairs[:, 0]] - f[pairs[:, 1]])
        numpyro.sample("margin", dist.Normal(gap, 1.0 / jnp.sqrt(kappa)), obs=margin)


def exact():
    """Posterior mean and covariance of ``f``, and the log density of each left-out margin."""
    design = np.eye(4)[PAIRS[:, 0]] - np.eye(4)[PAIRS[:, 1]]
    cov = np.linalg.inv(np.eye(4) + design.T @ design / NOISE**2)
    mean = cov @ design.T @ MARGIN / NOISE**2
    marginal = design @ design.T + NOISE**2 * np.eye(len(PAIRS))
    precision = np.linalg.inv(marginal)
    left_out_var = 1.0 / np.diag(precision)
    left_out_mean = MARGIN - (precision @ MARGIN) * left_out_var
    return design, mean, cov, norm.logpdf(MARGIN, left_out_mean, np.sqrt(left_out_var))


@dataclass
class Gaussian:
    """Exact draws of the model above, in the clothes of an EP result."""

    model: Any = model
    model_args: tuple[Any, ...] = (PAIRS,)
    model_kwargs: dict[str, Any] = field(default_factory=lambda: {"margin": MARGIN})
    params: dict[str, Any] = field(default_factory=lambda: {"noise": np.array(NOISE)})
    log_evidence: float = -12.5
    converged: bool = True
    num_sweeps: int = 1
    skipped_sites: int = 0
    num_samples: int = 4000
    draws: dict[str, Any] | None = None

    def get_samples(self, group_by_chain: bool = False) -> dict[str, Any]:
        _, mean, cov, _ = exact()
        f = np.random.default_rng(1).multivariate_normal(mean, cov, self.num_samples)
        draws = self.draws or {"f": f, "noise": np.full(self.num_samples, NOISE)}
        return {k: v[None] if group_by_chain else v for k, v in draws.items()}


def group_names(data: Any):
    names: Any = data.groups() if callable(data.groups) else data.children
    return set(names)


def elpd(data):
    loo: Any = az.loo(data)
    return loo.elpd_loo if hasattr(loo, "elpd_loo") else loo.elpd


@pytest.fixture(scope="module")
def data():
    return to_arviz(Gaussian(), coords={"item": NAMES}, num_predictive=2000)


def test_groups_dims_coords_attributes_and_draws(data):
    assert group_names(data) == {
        "posterior",
        "posterior_predictive",
        "log_likelihood",
        "observed_data",
        "constant_data",
    }
    posterior = data["posterior"]
    assert set(posterior.data_vars) == {"f", "gap"}, "fixed numbers must not be in the posterior"
    assert posterior["f"].dims == ("chain", "draw", "item")
    assert posterior["gap"].dims == ("chain", "draw", "comparison")
    assert list(posterior["item"].values) == NAMES
    assert set(data["constant_data"].data_vars) == {"noise", "kappa"}
    np.testing.assert_allclose(data["constant_data"]["noise"], NOISE)
    np.testing.assert_allclose(data["constant_data"]["kappa"], 1 / NOISE**2)
    np.testing.assert_array_equal(data["observed_data"]["margin"], MARGIN)
    assert data["log_likelihood"]["margin"].dims == ("chain", "draw", "comparison")
    attrs = posterior.attrs
    assert attrs["inference_library"] == "bayesrank" and attrs["inference_method"] == "Gaussian"
    figures = [attrs[k] for k in ("log_evidence", "converged", "num_sweeps", "skipped_sites")]
    assert figures == [-12.5, 1, 1, 0]
    f = posterior["f"].values[0]
    np.testing.assert_array_equal(f, Gaussian().get_samples()["f"])
    gap = f[:, PAIRS[:, 0]] - f[:, PAIRS[:, 1]]
    np.testing.assert_allclose(posterior["gap"].values[0], gap)
    np.testing.assert_allclose(
        data["log_likelihood"]["margin"].values[0], norm.logpdf(MARGIN, gap, NOISE)
    )


def test_predictive_draws_are_evenly_spaced_and_have_the_right_moments(data):
    design, mean, cov, _ = exact()
    predictive = data["posterior_predictive"]
    np.testing.assert_array_equal(predictive["draw"], np.arange(0, 4000, 2))
    values = predictive["margin"].values[0]
    assert values.shape == (2000, len(PAIRS))
    variance = np.diag(design @ cov @ design.T) + NOISE**2
    z = (values.mean(0) - design @ mean) / np.sqrt(variance / 2000)
    assert np.abs(z).max() < 4.5
    np.testing.assert_allclose(values.var(0) / variance, 1.0, atol=4.5 * np.sqrt(2 / 2000))


def check_summary_and_loo(data):
    _, mean, cov, left_out = exact()
    summary = az.summary(data, var_names=["f"], round_to="none")
    assert list(summary.index) == [f"f[{name}]" for name in NAMES]
    assert np.isfinite(summary.drop(columns="r_hat").to_numpy()).all()
    np.testing.assert_allclose(summary["mean"], mean, atol=4.5 * np.sqrt(cov[0, 0] / 4000))
    np.testing.assert_allclose(summary["sd"], np.sqrt(np.diag(cov)), rtol=0.06)
    np.testing.assert_allclose(elpd(data), left_out.sum(), atol=0.1)


def test_what_arviz_makes_of_it(data, tmp_path):
    check_summary_and_loo(data)
    drawn: Any = az.plot_forest(data, var_names=["f"], combined=True)
    figure = drawn[0].figure if not hasattr(drawn, "viz") else drawn.viz["figure"].item()
    texts = [t.get_text() for axes in figure.axes for t in axes.findobj() if hasattr(t, "get_text")]
    assert any("ann" in text for text in texts)
    path = tmp_path / "fit.nc"
    data.to_netcdf(path)
    with xr.open_dataset(path, group="posterior", engine="h5netcdf") as back:
        np.testing.assert_array_equal(back["f"], data["posterior"]["f"])
        assert [str(name) for name in back["item"].values] == NAMES
        assert back.attrs["log_evidence"] == -12.5
    again: Any = az.from_netcdf(path)
    np.testing.assert_allclose(again["constant_data"]["noise"], NOISE)


def test_groups_can_be_left_out_and_the_key_decides_the_replicates():
    keys, fit = map(jax.random.key, (1, 1, 2)), Gaussian(num_samples=5)
    bare = to_arviz(fit, num_predictive=0, log_likelihood=False)
    assert group_names(bare) == {"posterior", "observed_data", "constant_data"}
    one, two, three = (to_arviz(fit, rng_key=key)["posterior_predictive"] for key in keys)
    np.testing.assert_array_equal(one["margin"], two["margin"])
    assert not np.allclose(one["margin"], three["margin"])


def test_ep_result():
    engine = EP(model, hyperparameters="prior")
    result = engine.run(jax.random.key(0), PAIRS, margin=MARGIN, num_samples=4000)
    assert isinstance(result, PosteriorResult)
    data = to_arviz(result, coords={"item": NAMES}, num_predictive=5)
    check_summary_and_loo(data)
    np.testing.assert_array_equal(data["posterior"]["f"].values[0], result.get_samples()["f"])
    np.testing.assert_allclose(data["constant_data"]["noise"], NOISE)
    attrs = data["posterior"].attrs
    assert attrs["inference_method"] == "EPResult" and attrs["converged"] == 1
    np.testing.assert_allclose(attrs["log_evidence"], cast(Any, result).log_evidence)


@pytest.mark.slow
def test_ep_result_of_comparisons():
    """Outcomes 0/1, a hyperparameter with a prior, and an outcome yet to come."""

    def program(pairs, new):
        scale = numpyro.sample("scale", dist.HalfNormal(1.0))
        prior = dist.MultivariateNormal(jnp.zeros(4), jnp.eye(4))
        f: Any = numpyro.sample("f", prior, infer={"event_dims": ["item"]})
        with numpyro.plate("comparison", len(pairs)):
            gap = f[pairs[:, 0]] - f[pairs[:, 1]]
            numpyro.sample("won", Thurstone(gap, scale / np.sqrt(2)), obs=jnp.ones(len(pairs)))
        numpyro.sample("won_new", dist.Bernoulli(logits=f[new[0]] - f[new[1]]))

    key, new = jax.random.key(0), np.array([0, 3])
    result = EP(program).run(key, PAIRS[:3], new, params={"scale": 2.0}, num_samples=2000)
    data = to_arviz(result, coords={"item": NAMES})
    assert set(data["posterior"].data_vars) == {"f"}
    assert data["posterior"]["f"].dims == ("chain", "draw", "item")
    np.testing.assert_allclose(data["constant_data"]["scale"], 2.0, rtol=1e-6)
    f = data["posterior"]["f"].values[0]
    gap = (f[:, PAIRS[:3, 0]] - f[:, PAIRS[:3, 1]]) / 2.0
    np.testing.assert_allclose(
        data["log_likelihood"]["won"].values[0], norm.logcdf(gap), rtol=1e-5, atol=1e-6
    )
    assert set(data["log_likelihood"].data_vars) == {"won"}
    predictive = data["posterior_predictive"]
    assert set(predictive.data_vars) == {"won", "won_new"}
    error = 4.5 * 0.5 / np.sqrt(2000)
    np.testing.assert_allclose(
        predictive["won"].values[0].mean(0), norm.cdf(gap).mean(0), atol=error
    )
    expected = expit(f[:, 0] - f[:, 3]).mean()
    np.testing.assert_allclose(predictive["won_new"].values.mean(), expected, atol=error)
    assert len(az.summary(data, var_names=["f"])) == 4 and np.isfinite(elpd(data))


@pytest.mark.slow
def test_mcmc():
    sampler = MCMC(
        NUTS(model), num_warmup=150, num_samples=250, num_chains=2, chain_method="sequential",
        progress_bar=False,
    )  # fmt: skip
    extra = ("potential_energy", "num_steps")
    sampler.run(jax.random.key(0), PAIRS, margin=MARGIN, extra_fields=extra)
    data = to_arviz(sampler, coords={"item": NAMES})
    _, mean, cov, left_out = exact()
    f = data["posterior"]["f"]
    np.testing.assert_array_equal(f.values, sampler.get_samples(group_by_chain=True)["f"])
    assert f.dims == ("chain", "draw", "item") and f.shape == (2, 250, 4)
    np.testing.assert_allclose(f.mean(("chain", "draw")), mean, atol=0.2)
    stats = data["sample_stats"]
    assert stats["diverging"].dtype == bool and "n_steps" in stats
    energy = sampler.get_extra_fields(group_by_chain=True)["potential_energy"]
    np.testing.assert_array_equal(stats["lp"], -energy)
    gap = f.values[..., PAIRS[:, 0]] - f.values[..., PAIRS[:, 1]]
    density = norm.logpdf(MARGIN, gap, NOISE)
    np.testing.assert_allclose(data["log_likelihood"]["margin"].values, density, rtol=1e-6)
    assert data["posterior"].attrs["inference_method"] == "MCMC with NUTS"
    np.testing.assert_allclose(elpd(data), left_out.sum(), atol=0.4)


def start_svi():
    """Return SVI and the parameters it starts from, which are a posterior like any other here."""
    svi = SVI(model, AutoMultivariateNormal(model), numpyro.optim.Adam(0.05), Trace_ELBO())
    return svi, svi.get_params(svi.init(jax.random.key(0), PAIRS, MARGIN))


@pytest.mark.slow
def test_svi_draws_match_the_guide_and_stay_the_same():
    svi, params = start_svi()
    posterior = SVIPosterior(svi, params, model_args=(PAIRS, MARGIN), num_samples=3000)
    assert isinstance(posterior, PosteriorResult)
    first, second = posterior.get_samples(), posterior.get_samples(group_by_chain=True)
    np.testing.assert_array_equal(first["f"], second["f"][0])
    guide = svi.guide.get_posterior(params)
    sd = np.sqrt(np.diag(guide.covariance_matrix))
    assert (np.abs(first["f"].mean(0) - guide.mean) < 4.5 * sd / np.sqrt(3000)).all()
    np.testing.assert_allclose(np.cov(first["f"].T), guide.covariance_matrix, atol=0.1 * sd[0])
    data = to_arviz(posterior, coords={"item": NAMES}, num_predictive=10)
    assert set(data["posterior"].data_vars) == {"f", "gap"}
    np.testing.assert_allclose(data["constant_data"]["noise"], params["noise"])
    np.testing.assert_array_equal(data["posterior"]["f"], second["f"])
    assert data["posterior"].attrs["inference_method"] == "SVIPosterior"
    other = SVIPosterior(svi, params, model_args=(PAIRS, MARGIN), rng_key=jax.random.key(9))
    assert not np.allclose(other.get_samples()["f"][:100], first["f"][:100])


def test_svi_with_a_guide_function():
    def program(pairs, margin):
        numpyro.sample("f", dist.Normal(0.0, 1.0).expand([4]).to_event(1))

    def guide(pairs, margin):
        numpyro.sample("f", dist.Normal(numpyro.param("loc", jnp.zeros(4)), 0.5).to_event(1))

    svi = SVI(program, guide, numpyro.optim.Adam(0.02), Trace_ELBO())
    posterior = SVIPosterior(
        svi, {"loc": np.arange(4.0)}, model_args=(PAIRS, None), num_samples=2000
    )
    data = to_arviz(posterior, dims={"f": ["item"]}, coords={"item": NAMES})
    assert group_names(data) == {"posterior"}
    mean = data["posterior"]["f"].mean(("chain", "draw"))
    np.testing.assert_allclose(mean, np.arange(4.0), atol=4.5 * 0.5 / np.sqrt(2000))

    svi.guide = lambda pairs, margin: None
    with pytest.raises(ValueError, match=r"guide draws no value for the model's sites \['f'\]"):
        SVIPosterior(svi, {}, model_args=(PAIRS, None)).get_samples()


def several(y, z):
    """Event axes, named and not; two observed sites, one of vectors; a factor; an odd broadcast."""
    f = numpyro.sample(
        "f", dist.MultivariateNormal(jnp.zeros(3), jnp.eye(3)), infer={"event_dims": ["item"]}
    )
    numpyro.factor("pull", -0.1 * jnp.sum(f**2))
    with numpyro.plate("row", 2):
        numpyro.sample("y", dist.MultivariateNormal(f, jnp.eye(3)), obs=y)
    with numpyro.plate("item", 3, dim=-1):
        numpyro.sample("z", dist.Normal(f, 1.0), obs=z)


def test_event_axes_several_observed_sites_and_factors():
    args, draws = (np.ones((2, 3)), 0.5), {"f": np.zeros((7, 3))}
    fit = Gaussian(model=several, model_args=args, model_kwargs={}, params={}, draws=draws)
    data = to_arviz(fit, coords={"item": NAMES[:3]}, dims={"y": ["row", "column"]})
    assert data["posterior"]["f"].dims == ("chain", "draw", "item")
    likelihood = data["log_likelihood"]
    assert set(likelihood.data_vars) == {"y", "z"}, "a factor is not an observation"
    assert likelihood["y"].dims == ("chain", "draw", "row")
    assert likelihood["z"].dims == ("chain", "draw", "item")
    np.testing.assert_allclose(likelihood["y"], 3 * norm.logpdf(1.0))
    np.testing.assert_allclose(likelihood["z"], norm.logpdf(0.5))
    assert data["observed_data"]["y"].dims == ("row", "column")
    np.testing.assert_array_equal(data["observed_data"]["z"], [0.5] * 3)
    assert data["posterior_predictive"]["y"].shape == (1, 7, 2, 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"coords": {"item": NAMES[:3]}}, r"coords\['item'\] holds 3 entries but site 'f' has 4"),
        ({"coords": {"itme": NAMES}}, r"coords \['itme'\] fit no dimension"),
        ({"coords": {"item": [NAMES]}}, "must be one-dimensional"),
        ({"coords": {"draw": range(50)}}, "cannot rename 'draw'"),
        ({"dims": {"g": ["item"]}}, r"dims names \['g'\], which the program has not"),
        ({"dims": {"f": ["item", "two"]}}, r"dims\['f'\] must name 1 axes, of shape \(4,\)"),
        ({"dims": {"f": ["comparison"]}}, "dimension 'comparison' has length 4 in site 'f' but 12"),
        ({"num_predictive": 51}, "between 0 and the 50 draws of a chain, got 51"),
        ({"num_predictive": -1}, "got -1"),
    ],
)
def test_what_does_not_fit_is_refused(options, message):
    refused(message, to_arviz, Gaussian(num_samples=50), **options)


def test_a_name_used_for_two_axes_is_refused():
    def square(pairs, margin):
        numpyro.sample("f", dist.Normal(jnp.zeros((4, 4)), 1.0))

    fit = Gaussian(model=square, params={}, draws={"f": np.zeros((3, 4, 4))})
    refused(r"uses a name twice: \['item', 'item'\]", to_arviz, fit, dims={"f": ["item", "item"]})


def test_wrong_results_are_refused():
    svi = SVI(model, AutoMultivariateNormal(model), numpyro.optim.Adam(0.05), Trace_ELBO())
    fit: Any = SVIRunResult({}, None, jnp.zeros(1))  # type: ignore[arg-type]
    refused(r"got SVIRunResult; wrap a fitted SVI as SVIPosterior", to_arviz, fit, kind=TypeError)
    with pytest.raises(ValueError, match="num_samples is 0; pass a whole number from 1 on"):
        SVIPosterior(svi, fit.params, num_samples=0)
    refused(r"call mcmc.run\(...\) first", to_arviz, MCMC(NUTS(model), num_warmup=1, num_samples=1))
    potential = MCMC(
        HMC(potential_fn=lambda x: jnp.sum(x**2)), num_warmup=1, num_samples=2, progress_bar=False
    )
    potential.run(jax.random.key(0), init_params=jnp.zeros(2))
    refused("built from potential_fn", to_arviz, potential)
    fixed = Gaussian(params={"noise": np.array(NOISE), "f": np.zeros(4)}, num_samples=2)
    refused("no draws of a latent site", to_arviz, fixed)


class Unsampled(dist.Normal):
    def sample(self, key, sample_shape=()):
        raise NotImplementedError


def test_a_likelihood_without_a_sampler_says_how_to_go_on():
    def program(pairs, margin):
        f: Any = numpyro.sample("f", dist.Normal(0.0, 1.0).expand([4]))
        numpyro.sample("margin", Unsampled(f[pairs[:, 0]], NOISE), obs=margin)

    fit = Gaussian(model=program, params={}, draws={"f": np.zeros((3, 4))})
    refused("pass num_predictive=0", to_arviz, fit)
    assert "log_likelihood" in group_names(to_arviz(fit, num_predictive=0))


@pytest.mark.slow
def test_a_program_with_a_scan():
    def program(y):
        def step(last, now):
            x: Any = numpyro.sample("x", dist.Normal(0.5 * last, 0.9))
            numpyro.sample("y", dist.Normal(x, 0.5), obs=now)
            return x, None

        scan(step, 0.0, y)

    y = np.array([0.5, -1.0, 2.0, 1.0])
    result = EP(program).run(jax.random.key(0), y, num_samples=50)
    data = to_arviz(result, num_predictive=5)
    np.testing.assert_allclose(data["observed_data"]["y"], y)
    x = result.get_samples()["x"]
    expected = norm.logpdf(y, x, 0.5)
    np.testing.assert_allclose(data["log_likelihood"]["y"].values[0], expected, rtol=1e-5)


def test_data_that_changed_since_the_fit_are_refused():
    y = np.array([0.3, -1.0, 0.8])

    def program(data: Any) -> None:
        f = numpyro.sample("f", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(f, 1.0), obs=data)

    result = EP(program).run(jax.random.key(0), y)
    to_arviz(result, num_predictive=0)
    y[1] = 2.0
    with pytest.raises(ValueError, match="the data have changed since the fit.*fit again"):
        to_arviz(result, num_predictive=0)
