"""Pure functions under JAX's transformations, what is compiled when, and no state left behind."""

import subprocess
import sys
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from infer_oracles import rbf
from jax import lax
from numpy.testing import assert_allclose
from numpyro.infer import Predictive, log_likelihood
from scipy.stats import norm

import bayesrank
from bayesrank.distributions import Thurstone
from bayesrank.infer import EP, ConvergenceWarning
from bayesrank.infer.reader.inventory import take_inventory
from bayesrank.infer.reader.traced import trace

KEY = jax.random.key(2)
K = rbf(np.linspace(0, 2, 5)[:, None], 0.7, 1.4)


def model(winner, loser):
    noise: Any = numpyro.sample("noise", dist.LogNormal(np.log(0.7), 0.5))
    bias = numpyro.param("bias", 0.2)
    f: Any = numpyro.sample("f", dist.MultivariateNormal(bias, covariance_matrix=K))
    numpyro.sample("win", Thurstone(f[winner] - f[loser], noise), obs=1)
    numpyro.sample("f_new", dist.Normal(f[:2], 0.5))


def problems(count: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    pairs = [[rng.choice(5, 2, replace=False) for _ in range(7)] for _ in range(count)]
    return np.transpose(pairs, (2, 0, 1))


WINNER, LOSER = problems(1)[:, 0]


@pytest.fixture(scope="module")
def engine():
    return EP(model, hyperparameters="prior", tol=1e-9)


@pytest.fixture(scope="module")
def result(engine):
    return engine.run(KEY, WINNER, LOSER, num_samples=4000)


# ---------------------------------------------------------------- pure functions


def test_steps_under_scan(engine, result):
    """`init` and `step` by hand, as many times as it takes, are `run`."""

    @jax.jit
    def sweep(winner, loser):
        state = engine.init({}, winner, loser)
        return lax.scan(
            lambda s, _: (engine.step(s, {}, winner, loser), s.max_change), state, length=30
        )[0]

    state = sweep(WINNER, LOSER)
    assert int(state.sweep) == 30 and float(state.max_change) < 1e-9
    assert_allclose(state.posterior.mean + 0.2, result.mean["f"], atol=1e-9)
    assert_allclose(state.posterior.covariance, result.covariance["f"], atol=1e-9)


@pytest.mark.slow
def test_vmap_is_a_loop(engine):
    """Problems of one shape in one call: each is what it is alone, however long the others take."""
    winner, loser = problems(4, seed=1)
    noise = np.array([0.1, 0.5, 1.0, 5.0])

    @jax.jit
    @jax.vmap
    def solve(noise, winner, loser):
        params = {"noise": noise}
        evidence, state = engine.evidence_and_state(params, winner, loser)
        return evidence, state.posterior.mean, state.posterior.covariance

    evidence, mean, covariance = solve(noise, winner, loser)
    for k in range(4):
        alone = engine.run(KEY, winner[k], loser[k], params={"noise": noise[k]})
        assert_allclose(evidence[k], alone.log_evidence, atol=1e-8)
        assert_allclose(mean[k] + 0.2, alone.mean["f"], atol=1e-8)
        assert_allclose(covariance[k], alone.covariance["f"], atol=1e-8)


@pytest.mark.slow
def test_warm_start(engine):
    """From the sites of the answer there is nothing left to do."""

    @jax.jit
    def twice(winner, loser):
        _, first = engine.solve({}, winner, loser)
        _, second = engine.solve({}, winner, loser, init_sites=(first.tau, first.nu))
        return first, second

    first, second = twice(WINNER, LOSER)
    assert int(second.sweep) <= 2 < int(first.sweep)
    assert_allclose(second.posterior.mean, first.posterior.mean, atol=1e-8)


# ---------------------------------------------------------------- compilation


@pytest.mark.slow
def test_compiles_once_for_a_shape(engine, result):
    """Other data, other hyperparameters, another key: the program runs once, and no compilation."""
    events: list[str] = []

    def listen(event: str, duration_secs: float, **kwargs: str | int) -> None:
        events.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    winner, loser = problems(1, seed=9)[:, 0]
    other_key = jax.random.key(7)
    engine.run(KEY, WINNER, LOSER, params={"noise": 0.4})
    del events[:]
    other = engine.run(other_key, winner, loser, params={"noise": 0.9})
    work = [name for name in events if "jaxpr_trace" in name or "compile" in name]
    assert work == ["/jax/core/compile/jaxpr_trace_duration"]
    assert not np.allclose(other.mean["f"], result.mean["f"])
    engine.run(KEY, winner[:6], loser[:6], params={"noise": 0.9})
    assert any("backend_compile" in name for name in events)


# ---------------------------------------------------------------- hyperparameters


def test_params(engine, result):
    """Free ones take their initial value or prior median; those named are held, latents too."""
    assert_allclose(result.params["noise"], 0.7, rtol=1e-9)
    assert_allclose(result.params["bias"], 0.2)
    assert result.defaulted_params == ("noise",)
    given = {"noise": 0.7, "bias": 0.2}
    same = engine.run(KEY, WINNER, LOSER, params=given)
    assert same.defaulted_params == ()
    assert_allclose(same.mean["f"], result.mean["f"], atol=1e-8)
    f = np.array([1.0, 0.5, 0.0, -0.5, 2.0])
    fixed = engine.run(KEY, WINNER, LOSER, params={"f": f})
    assert fixed.latent_sites == ("f_new",)
    assert_allclose(fixed.mean["f_new"], f[:2])
    assert_allclose(fixed.sd["f_new"], 0.5)
    # With f known, the evidence is the likelihood; the density of f itself is not part of it.
    margin = (f[WINNER] - f[LOSER]) / (np.sqrt(2) * 0.7)
    assert_allclose(fixed.log_evidence, norm.logcdf(margin).sum(), rtol=1e-9)


RUNS = []


def seen_with_noise(y):
    RUNS.append(y)
    spread: Any = numpyro.sample("spread", dist.HalfNormal(1.0))
    f: Any = numpyro.sample("f", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Normal(f, spread), obs=y)


def test_pure_functions_run_the_program_once_and_look_at_what_is_known():
    RUNS.clear()
    jax.make_jaxpr(lambda y: EP(seen_with_noise).read({}, y).mean)(0.7)
    assert len(RUNS) == 1
    with pytest.raises(ValueError, match="'y': the scale of its Normal distribution is invalid"):
        EP(seen_with_noise).read({"spread": -1.0}, 0.7)


@pytest.mark.slow
def test_the_evidence_is_differentiated_by_the_data():
    slope = jax.grad(lambda y: EP(seen_with_noise).log_evidence({"spread": 1.0}, y))(0.7)
    assert_allclose(slope, -0.7 / 2.0, rtol=1e-5)  # y is normal with variance 2


@pytest.mark.slow
def test_prior_medians():
    """By the quantile function where there is one, else by draws on the unconstrained scale."""

    def priors():
        rate: Any = numpyro.sample("rate", dist.Gamma(2.0, 3.0))
        share: Any = numpyro.sample("share", dist.Dirichlet(jnp.array([4.0, 2.0, 1.0])))
        width: Any = numpyro.sample("width", dist.HalfNormal(2.0).expand([2]))
        noise = rate + share[0] + width[1]
        numpyro.sample("y", dist.Normal(numpyro.sample("f", dist.Normal(0, 1)), noise), obs=0.3)

    params = jax.jit(lambda: take_inventory(trace(priors, (), {}, {}), {}).hyperparameters)()
    assert_allclose(params["rate"], 0.559449, rtol=0.1)
    assert_allclose(params["width"], 2.0 * norm.ppf(0.75), rtol=1e-6)
    assert_allclose(params["share"].sum(), 1.0)
    assert np.all(np.diff(params["share"]) < 0)


# ---------------------------------------------------------------- results


def test_samples(result):
    draws = result.get_samples()
    grouped = result.get_samples(group_by_chain=True)
    assert {k: v.shape for k, v in draws.items()} == {
        "f": (4000, 5),
        "f_new": (4000, 2),
        "noise": (4000,),
        "bias": (4000,),
    }
    np.testing.assert_array_equal(grouped["f"], draws["f"][None])
    joint = np.concatenate([draws["f"], draws["f_new"]], axis=1)
    sd = np.sqrt(np.diag(result.joint_covariance))
    standard_error = 4.5 / np.sqrt(4000)
    assert_allclose((joint.mean(0) - result.joint_mean) / sd, 0.0, atol=standard_error)
    difference = (np.cov(joint.T) - result.joint_covariance) / np.outer(sd, sd)
    assert_allclose(difference, 0.0, atol=1.5 * standard_error)


def test_predictive_and_log_likelihood(result):
    draws = result.get_samples()
    args = WINNER, LOSER
    margin = (draws["f"][:, WINNER] - draws["f"][:, LOSER]) / (np.sqrt(2) * 0.7)
    pointwise = np.asarray(log_likelihood(model, draws, *args)["win"])
    assert_allclose(pointwise, norm.logcdf(margin), rtol=1e-5, atol=1e-6)
    forecast = Predictive(
        lambda *a: numpyro.handlers.uncondition(model)(*a), draws, return_sites=["win", "f_new"]
    )(KEY, *args)
    error = 4.5 * 0.5 / np.sqrt(4000)
    assert_allclose(np.mean(forecast["win"], 0), norm.cdf(margin).mean(0), atol=error)
    np.testing.assert_array_equal(np.asarray(forecast["f_new"]), draws["f_new"])


def test_quantiles_and_probabilities_of_functions_of_the_latents(result):
    mean, covariance = result.mean["f"], result.covariance["f"]
    apart = mean[0] - mean[1]
    sd = np.sqrt(covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1])
    levels = [0.05, 0.5, 0.95]
    found = result.quantiles(lambda draw: draw["f"][:1] - draw["f"][1], levels)
    assert_allclose(found[:, 0], norm.ppf(levels, apart, sd), atol=0.15 * sd)
    better = result.probability(lambda draw: draw["f"][0] > draw["f"][1])
    assert_allclose(better, norm.cdf(apart / sd), atol=0.03)


def test_the_guide_draws_the_posterior(result):
    shown = ["f_new", "noise"]
    predictive = Predictive(
        model, guide=result.guide, params={}, num_samples=4000, return_sites=shown
    )
    draws = predictive(KEY, WINNER, LOSER)
    assert_allclose(draws["f_new"].mean(0), result.mean["f_new"], atol=0.1)
    assert_allclose(np.cov(draws["f_new"].T), result.covariance["f_new"], atol=0.1)
    guided = Predictive(result.guide, num_samples=4000)(KEY)
    assert_allclose(np.cov(guided["f"].T), result.covariance["f"], atol=0.1)
    for noise in (draws["noise"], guided["noise"]):
        assert_allclose(noise, result.params["noise"], rtol=1e-6)


def test_print_summary(result, capsys):
    result.print_summary()
    printed = capsys.readouterr().out
    table, sites = printed.split("EPResult")
    assert "f[4]" in table and "f_new[1]" in table and "noise" not in table
    title, *rows = (line.split() for line in table.splitlines())
    assert title == ["mean", "sd", "median", "5.0%", "95.0%"]  # of independent draws
    mean, *_ = (row[1] for row in rows if row[0] == "f[4]")
    assert float(mean) == pytest.approx(result.get_samples()["f"][:, 4].mean(), rel=1e-3)
    assert "noise  fixed: at 0.7, median of its prior" in sites


@pytest.mark.slow
def test_failure_to_converge_is_seen():
    """And pointed at in the caller's file, though an estimator's was between."""
    between: dict[str, Any] = {}
    estimator = str(Path(bayesrank.__file__).with_name("estimator.py"))
    exec(compile("def fit(run):\n    return run()", estimator, "exec"), between)
    run = partial(EP(model, hyperparameters="prior", max_sweeps=1).run, KEY, WINNER, LOSER)
    with pytest.warns(ConvergenceWarning, match=r"not converged after 1 sweeps.*damping") as said:
        result = between["fit"](run)
    assert [warning.filename for warning in said] == [__file__]
    assert not result.converged
    assert result.num_sweeps == 1 and result.max_change > 1e-4


def test_damping_changes_the_way_not_the_end(result):
    damped = EP(model, hyperparameters="prior", damping=0.4, tol=1e-9).run(KEY, WINNER, LOSER)
    assert damped.num_sweeps > result.num_sweeps
    assert_allclose(damped.mean["f"], result.mean["f"], atol=1e-7)
    assert_allclose(damped.log_evidence, result.log_evidence, atol=1e-7)


# ---------------------------------------------------------------- precision

SCRIPT = """
import sys
import jax
before = dict(jax.config.values)
import bayesrank, bayesrank.infer
assert dict(jax.config.values) == before, "importing changed JAX's configuration"
assert "matplotlib.pyplot" not in sys.modules
import jax.numpy as jnp, numpy as np
sys.path.insert(0, {folder!r})
from test_infer_pure import model, WINNER, LOSER
from bayesrank.infer import EP
jax.config.update("jax_enable_x64", False)
result = EP(model, hyperparameters="prior", tol=1e-9).run(jax.random.key(2), WINNER, LOSER)
assert result.joint_mean.dtype == np.float64
assert jnp.zeros(1).dtype == jnp.float32, "running left double precision on"
np.save({file!r}, np.append(result.joint_mean, result.log_evidence))
"""


@pytest.mark.slow
def test_double_precision_without_asking_jax(result, tmp_path, request):
    """In a process of JAX's own configuration: float64 results, and the configuration as it was."""
    file = tmp_path / "mean.npy"
    script = SCRIPT.format(folder=str(request.path.parent), file=str(file))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = np.load(file)
    assert_allclose(found[:7], result.joint_mean, atol=1e-8)
    assert_allclose(found[7], result.log_evidence, atol=1e-8)


def test_single_precision(result):
    sd = np.sqrt(np.diag(result.joint_covariance))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        single = EP(model, hyperparameters="prior", precision="float32").run(KEY, WINNER, LOSER)
    assert single.converged
    assert_allclose((single.joint_mean - result.joint_mean) / sd, 0.0, atol=1e-3)
    assert_allclose(single.sd["f"] / result.sd["f"], 1.0, atol=1e-3)
    assert_allclose(single.log_evidence, result.log_evidence, atol=1e-3)
    assert jnp.zeros(1).dtype == jnp.float64


MANY = """
import jax, jax.numpy as jnp, numpy as np, numpyro, numpyro.distributions as dist
from bayesrank.infer import EP

jax.config.update("jax_enable_x64", True)
X = np.linspace(-2.0, 2.0, 30)
C = np.random.default_rng(0).permuted(np.tile(np.arange(30), (60, 1)), axis=1)[:, :2]

def model(length, c):
    covariance = jnp.exp(-0.5 * ((X[:, None] - X) / length) ** 2) + 1e-4 * jnp.eye(30)
    f = numpyro.sample("f", dist.MultivariateNormal(jnp.zeros(30), covariance_matrix=covariance))
    numpyro.sample("win", dist.Bernoulli(logits=f[c[:, 0]] - f[c[:, 1]]), obs=jnp.ones(60))

lengths = jnp.linspace(0.2, 2.0, 48)
solve = lambda length: EP(model).solve({}, length, C)[1].posterior.mean
means = jax.block_until_ready(jax.jit(jax.vmap(solve))(lengths))
one = jax.jit(solve)(lengths[7])
assert np.allclose(means[7], one, atol=1e-3), abs(means[7] - one).max()
evidence = jax.vmap(lambda length: EP(model).log_evidence({}, length, C))
assert np.isfinite(jax.block_until_ready(jax.jit(evidence)(lengths))).all()
"""


@pytest.mark.slow
def test_vmap_over_48_parameters_returns():
    subprocess.run([sys.executable, "-c", MANY], check=True, timeout=120)
