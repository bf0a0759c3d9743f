"""What a result hands to NumPyro's own engines, and what integrated results say of themselves."""

from typing import Any

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpy.testing import assert_allclose
from numpyro import optim
from numpyro.infer import MCMC, NUTS, SVI, Predictive, Trace_ELBO

from bayesrank.infer import EP

KEY = jax.random.key(0)
Y = np.array([0.1, 0.5, 2.0])


def model(y):
    scale: Any = numpyro.sample("scale", dist.LogNormal(0.0, 0.3))
    effect: Any = numpyro.sample("effect", dist.ZeroSumNormal(1.0, (3,)))
    level: Any = numpyro.sample("level", dist.Normal(0.0, scale))
    numpyro.sample("y", dist.Normal(level + effect, 0.5), obs=y)
    numpyro.sample("new", dist.Poisson(2.0))


@pytest.fixture(scope="module")
def result():
    return EP(model, hyperparameters="prior").run(KEY, Y)


@pytest.mark.slow
def test_a_guide_starts_at_the_posterior(result):
    guide = result.autoguide()
    svi = SVI(result.conditioned_model, guide, optim.Adam(1e-3), Trace_ELBO(num_particles=2))
    state = svi.init(KEY, Y)
    # The program is Gaussian and so is the guide: the bound is the evidence from the start.
    assert_allclose(-svi.evaluate(state, Y), result.log_evidence, atol=1e-3)
    drawn = Predictive(result.conditioned_model, guide=guide, params={}, num_samples=1000)(
        KEY, None
    )
    assert_allclose(np.mean(drawn["y"], 0), result.mean["level"] + result.mean["effect"], atol=0.1)


@pytest.mark.slow
def test_nuts_starts_at_the_posterior(result):
    settings = result.nuts_settings()
    names = settings["dense_mass"][0]
    assert names == ("effect", "level")
    kernel = NUTS(result.conditioned_model, **settings)
    mcmc = MCMC(kernel, num_warmup=1, num_samples=1, progress_bar=False)
    mcmc.run(KEY, Y)
    assert set(mcmc.get_samples()) == {"effect", "level"}
    mass = settings["inverse_mass_matrix"][names]
    assert mass.shape == (3, 3)  # effects that add up to zero have two free numbers
    assert_allclose(mass[2, 2], result.sd["level"] ** 2, rtol=1e-5)


@pytest.mark.slow
def test_bounded_latents_are_carried_to_their_unconstrained_scale():
    def bounded():
        share: Any = numpyro.sample("share", dist.Beta(4.0, 2.0))
        numpyro.sample("y", dist.Normal(share, 0.3), obs=0.5)

    found = EP(bounded).run(KEY)
    mass = found.nuts_settings()["inverse_mass_matrix"][("share",)]
    slope = 1 / (found.mean["share"] * (1 - found.mean["share"]))
    assert_allclose(mass[0, 0], (slope * found.sd["share"]) ** 2, rtol=1e-5)


def levels(y):
    scale: Any = numpyro.sample("scale", dist.LogNormal(0.0, 0.5))
    f: Any = numpyro.sample("f", dist.Normal(0.0, scale).expand([3]))
    numpyro.sample("y", dist.Normal(f, 0.5), obs=y)


@pytest.mark.slow
def test_integrated_results_say_how_far_to_trust_them(capsys):
    good = EP(levels).run(KEY, Y)
    assert good.accuracy.is_good
    assert good.accuracy.ess > 0.8 * good.num_samples
    good.print_summary()
    assert "How far to trust it: good" in capsys.readouterr().out
