"""Whitening: the program means the same, and NUTS mixes on it."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import tinygp
from numpyro import handlers
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin
from numpyro.infer import MCMC, NUTS
from numpyro.infer.util import log_density

from bayesrank.infer import WhitenReparam, whiten

RNG = np.random.default_rng(0)
ROOTS = np.tril(RNG.normal(size=(2, 3, 3))) + 2.0 * np.eye(3)
ROOT = ROOTS[0]
COVARIANCE = ROOT @ ROOT.T
LOC, SPREAD = np.array([0.3, -1.0, 2.0]), np.array([0.5, 1.0, 2.0])


def gaussian_process():
    process = tinygp.GaussianProcess(
        tinygp.kernels.ExpSquared(), jnp.arange(3.0), diag=jnp.full(3, 0.1)
    )
    return process.numpyro_dist()


# Made where they are used, in compiled code.
SITES = {
    "normal": lambda: dist.Normal(0.5, 2.0),
    "normal expanded": lambda: dist.Normal(LOC, 2.0).expand([2, 3]),
    "normal vector": lambda: dist.Normal(LOC, SPREAD).to_event(1),
    "covariance": lambda: dist.MultivariateNormal(LOC, covariance_matrix=COVARIANCE),
    "precision": lambda: dist.MultivariateNormal(LOC, precision_matrix=COVARIANCE),
    "scale_tril": lambda: dist.MultivariateNormal(LOC, scale_tril=ROOT),
    "scalar loc": lambda: dist.MultivariateNormal(0.0, scale_tril=ROOT),
    "batch": lambda: dist.MultivariateNormal(LOC, scale_tril=ROOTS),
    "expanded": lambda: dist.MultivariateNormal(LOC, scale_tril=ROOT).expand([2, 2]),
    "expanded inside": lambda: dist.MultivariateNormal(LOC, scale_tril=ROOTS[:1]).expand([4, 2]),
    "low rank": lambda: dist.LowRankMultivariateNormal(LOC, ROOT[:, :1], SPREAD),
    "tinygp": gaussian_process,
}


def log_joint(model, values, *args):
    return jax.jit(lambda values: log_density(model, args, {}, values)[0])(values)


def traced(model, *args):
    return handlers.trace(handlers.seed(model, jax.random.key(0))).get_trace(*args)


@pytest.mark.parametrize("name", SITES)
def test_density_is_the_same_up_to_the_volume(name):
    laws, sites = {}, {}

    def model():
        laws["f"] = SITES[name]()
        numpyro.sample("f", laws["f"])

    jax.eval_shape(lambda: sites.update(traced(whiten(model))))
    fn = laws["f"]
    assert {k: s["type"] for k, s in sites.items()} == {"f_white": "sample", "f": "deterministic"}
    shape = fn.shape()
    assert sites["f"]["value"].shape == sites["f_white"]["value"].shape == shape
    assert sites["f_white"]["fn"].event_dim == fn.event_dim
    z = RNG.normal(size=shape)

    def colour(flat):
        values = {"f_white": flat.reshape(shape)}
        return traced(handlers.substitute(whiten(model), data=values))["f"]["value"].ravel()

    f, jacobian = jax.jit(lambda z: (colour(z), jax.jacfwd(colour)(z)))(z.ravel())
    volume = np.linalg.slogdet(jacobian)[1]
    original = log_joint(model, {"f": f.reshape(shape)})
    np.testing.assert_allclose(
        log_joint(whiten(model), {"f_white": z}), original + volume, rtol=1e-9
    )


def full_program(y, mask):
    spread = numpyro.sample("spread", dist.HalfNormal(1.0))
    common = numpyro.sample("common", dist.Normal(0.0, 2.0))
    with numpyro.plate("user", 4, dim=-2), numpyro.plate("item", 3):
        skill = numpyro.sample("skill", dist.Normal(common, spread))
        with handlers.mask(mask=mask):
            masked = numpyro.sample("masked", dist.Normal(0.0, spread))
        with handlers.scale(scale=0.5):
            scaled = numpyro.sample("scaled", dist.Normal(0.0, spread))
        numpyro.sample("y", dist.Normal(skill + masked + scaled, 1.0), obs=y)
    numpyro.sample("several", dist.Normal(0.0, 3.0), sample_shape=(2,))


def test_what_stays_as_it_is():
    y, mask = jnp.zeros((4, 3)), jnp.arange(3) < 2
    sites = traced(whiten(full_program), y, mask)
    sampled = [k for k, s in sites.items() if s["type"] == "sample" and not s["is_observed"]]
    white = ["common_white", "skill_white"]
    assert sorted(sampled) == sorted(["spread", *white, "masked", "scaled", "several"])
    assert sites["y"]["is_observed"] and sites["y"]["type"] == "sample"
    plates = [frame.name for frame in sites["skill_white"]["cond_indep_stack"]]
    assert sorted(plates) == ["item", "user"]
    values = {k: jnp.asarray(RNG.normal(size=np.shape(sites[k]["value"]))) for k in sampled}
    values["spread"] = jnp.asarray(0.7)
    original = {k: v for k, v in values.items() if k not in white}
    original["common"] = 2.0 * values["common_white"]
    original["skill"] = original["common"] + 0.7 * values["skill_white"]
    expected = log_joint(full_program, original, y, mask) + np.log(2.0) + 12 * np.log(0.7)
    np.testing.assert_allclose(log_joint(whiten(full_program), values, y, mask), expected)


def test_sites_fixed_by_a_handler_inside_stay():
    def model():
        numpyro.sample("a", dist.Normal(0.0, 1.0))
        numpyro.sample("b", dist.Normal(0.0, 1.0))

    inside = handlers.substitute(
        handlers.condition(model, data={"a": jnp.ones(())}), data={"b": jnp.full((), 2.0)}
    )
    sites = traced(whiten(inside))
    assert [sites[k]["type"] for k in "ab"] == ["sample", "sample"]
    assert sites["a"]["is_observed"] and float(sites["b"]["value"]) == 2.0


def test_reparam_alone_through_a_config():
    def model():
        numpyro.sample("a", dist.Normal(1.0, 2.0))
        numpyro.sample("b", dist.Normal(1.0, 2.0))

    white = handlers.reparam(model, config={"a": WhitenReparam()})
    assert list(traced(white)) == ["a_white", "a", "b"]


@pytest.mark.slow
def test_nuts_mixes_where_the_centred_form_does_not():
    x = np.linspace(0.0, 1.0, 20)
    covariance = np.exp(-((x[:, None] - x) ** 2) / 0.5) + 1e-6 * np.eye(20)
    y, rows_seen = np.array([0.5, -0.5, 1.0]), np.array([2, 9, 15])

    def model():
        f = numpyro.sample("f", dist.MultivariateNormal(jnp.zeros(20), covariance))
        numpyro.sample("y", dist.Normal(jnp.asarray(f)[rows_seen], 0.5), obs=jnp.asarray(y))

    def run(program):
        kernel = NUTS(program, max_tree_depth=5)
        mcmc = MCMC(kernel, num_warmup=200, num_samples=200, progress_bar=False)
        mcmc.run(jax.random.key(0))
        return np.asarray(mcmc.get_samples(group_by_chain=True)["f"])

    rows = np.eye(20)[rows_seen]
    gain = covariance @ rows.T @ np.linalg.inv(rows @ covariance @ rows.T + 0.25 * np.eye(3))
    white, centred = run(whiten(model)), run(model)
    assert split_gelman_rubin(white).max() < 1.05 < split_gelman_rubin(centred).max()
    ess = effective_sample_size(white)
    assert ess.min() > 5 * effective_sample_size(centred).max()
    error = (white.mean((0, 1)) - gain @ y) / (white.std((0, 1)) / np.sqrt(ess))
    assert np.abs(error).max() < 4.0
