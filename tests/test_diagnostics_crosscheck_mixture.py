"""A mixture over hyperparameters against NUTS on all of the program, and both against a grid."""

import dataclasses
from typing import Any

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import logsumexp

from bayesrank import to_arviz
from bayesrank.diagnostics import CrossCheck, crosscheck
from bayesrank.diagnostics.full_check import full_program
from bayesrank.infer import EP
from bayesrank.infer.spi import DensePosterior
from bayesrank.plots import plot_crosscheck

Y = np.array([-2.1, -0.4, 0.3, 1.7, 2.6, 0.9, -1.2, 0.1])
KEY = jax.random.key(0)


def levels(y):
    """Gaussian all through; the prior of `floor`, which is held fixed, hangs on `scale`."""
    scale: Any = numpyro.sample("scale", dist.LogNormal(0.0, 0.7))
    floor: Any = numpyro.sample("floor", dist.Normal(0.0, scale))
    level: Any = numpyro.param("level", 0.2)
    with numpyro.plate("items", len(y)):
        f = numpyro.sample("f", dist.Normal(level, scale))
        numpyro.sample("y", dist.Normal(f + floor, 0.8), obs=y)
    numpyro.sample("unused", dist.Poisson(3.0))


def exact() -> dict[str, Any]:
    """On a fine grid of the log scale, with `floor` at 0.3."""
    log_scale = np.linspace(-6.0, 5.0, 4001)
    scale, seen = np.exp(log_scale)[:, None], Y - 0.3 - 0.2
    log_joint = stats.norm.logpdf(seen, 0.0, np.sqrt(scale**2 + 0.64)).sum(1)
    log_joint += stats.norm.logpdf(log_scale, 0.0, 0.7) + stats.norm.logpdf(0.3, 0, scale[:, 0])
    weight = np.exp(log_joint - logsumexp(log_joint))
    shrink = scale**2 / (scale**2 + 0.64)
    mean = weight @ (shrink * seen)
    second = weight @ (shrink * 0.64 + (shrink * seen) ** 2)
    centre = weight @ log_scale
    return {
        "log_scale": (centre, np.sqrt(weight @ (log_scale - centre) ** 2)),
        "f": (0.2 + mean, np.sqrt(second - mean**2)),
    }


@pytest.fixture(scope="module")
def result() -> Any:
    return EP(levels).run(KEY, Y, params={"floor": 0.3, "level": 0.2})


@pytest.fixture(scope="module")
def check(result: Any) -> CrossCheck:
    return crosscheck(result, num_warmup=300, num_samples=1500, num_chains=2, progress_bar=False)


def test_both_are_what_a_grid_says(check):
    truth = exact()
    latent, scale = check.comparisons
    assert (latent.site, scale.site) == ("f", "scale")
    for comparison, (mean, sd) in ((latent, truth["f"]), (scale, truth["log_scale"])):
        reference = comparison.reference
        off = (reference.mean - mean) / (sd * reference.mean_error)
        assert np.abs(off).max() < 4
        assert np.abs((reference.sd / sd - 1) / reference.sd_error).max() < 4
        assert_allclose((comparison.mean - mean) / sd, 0.0, atol=0.05)
        assert_allclose(comparison.sd / sd, 1.0, atol=0.08)
    assert check.verdict.status in ("agrees", "close")
    assert check.params.keys() == {"floor", "level"}


def test_its_trust_counts_the_densities_of_fixed_sites(result):
    # EP is exact here, so all weights are equal but for the proposals' own moments.
    assert result.accuracy.ess > 0.999 * result.num_samples


def test_draws_are_of_all_sites(check, result):
    draws = check.nuts.get_samples()
    assert draws["f"].shape == (3000, 8) and draws["scale"].shape == (3000,)
    assert draws["scale"].min() > 0 and (draws["floor"] == 0.3).all()
    assert check.ep is result
    data = to_arviz(check.nuts, log_likelihood=False, num_predictive=0)
    assert data.posterior["scale"].shape == (2, 1500)
    legend = plot_crosscheck(check, labels={"f": "skill"}).axes[0].get_legend()
    assert legend is not None and "skill" in [text.get_text() for text in legend.get_texts()]
    assert "scale" in str(check) and len(check.to_dataframe()) == 4


@pytest.mark.slow
def test_what_is_wrong_is_found_out(result):
    lengths: dict[str, Any] = {"num_warmup": 200, "num_samples": 500, "num_chains": 2}
    narrow = dataclasses.replace(
        result, posterior=DensePosterior(0.5 * result.joint_covariance), converged=True
    )
    check = crosscheck(narrow, progress_bar=False, **lengths)
    assert check.verdict.status == "differs" and "f[" in check.verdict.sentence
    shifted = {k: 1.5 * v for k, v in result.mixture.points.items()}
    wrong = dataclasses.replace(result, mixture=result.mixture._replace(points=shifted))
    check = crosscheck(wrong, progress_bar=False, **lengths)
    assert "the mean of scale" in check.verdict.sentence


@pytest.mark.slow
def test_bounded_latents_stay_in_their_support():
    def model(y: Any) -> None:
        noise: Any = numpyro.sample("noise", dist.LogNormal(0.0, 0.3))
        effect: Any = numpyro.sample("effect", dist.HalfNormal(1.0).expand([2]))
        numpyro.sample("y", dist.Normal(effect, noise), obs=y)

    draws = {"effect": np.full((3, 2), 0.5) * [[1], [2], [3]], "noise": np.array([0.8, 1.0, 1.2])}
    with jax.enable_x64(True):
        program = full_program(model, (np.array([0.1, -0.5]),), {}, {}, draws)
        found = program.colour(np.random.default_rng(0).normal(size=(4, 5, program.size)))
    assert found.shape == (4, 5, 3) and found.min() > 0


@pytest.mark.parametrize("engines", [("ep",), ("ep", "nuts", "svi"), "nuts"])
def test_other_engines_are_refused(result, engines):
    with pytest.raises(ValueError, match="engines must be 'ep' and 'nuts' where hyperparameters"):
        crosscheck(result, engines=engines)


def test_a_result_brings_its_own_arguments(result):
    with pytest.raises(ValueError, match="has its own arguments and hyperparameters"):
        crosscheck(result, Y)
