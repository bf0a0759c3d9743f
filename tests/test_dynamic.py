"""Skills that move: chains against dense regression, the solver against EP and NUTS, refusals."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.handlers import seed
from numpyro.infer import Predictive

from bayesrank.infer import EP
from bayesrank.infer.gaussian.protocol import SiteTerm
from bayesrank.infer.gaussian.rows import Rows
from bayesrank.models import dynamic_thurstone
from bayesrank.solvers.comparisons import DynamicEP
from bayesrank.solvers.comparisons.chain import ChainPrior, Visits
from bayesrank.solvers.comparisons.dynamic import states_at

NUM_ITEMS = 4
TIMES = np.array([0.0, 0.07, 0.5, 1.0])


def season(num_comparisons: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Comparisons in no order of time, many of one time, none at the last."""
    rng = np.random.default_rng(seed)
    pairs = np.array([rng.choice(NUM_ITEMS, 2, replace=False) for _ in range(num_comparisons)])
    return pairs, rng.integers(0, len(TIMES) - 1, num_comparisons)


def kernel(process: str, scale: float, pace: float) -> np.ndarray:
    """Covariances of a skill at all times."""
    lag = np.abs(TIMES[:, None] - TIMES) / pace
    if process == "walk":
        return scale**2 + pace**2 * np.minimum(TIMES[:, None], TIMES)
    if process == "matern12":
        return scale**2 * np.exp(-lag)
    return scale**2 * (1 + np.sqrt(3) * lag) * np.exp(-np.sqrt(3) * lag)


@pytest.mark.slow
@pytest.mark.parametrize("process", ["walk", "matern12", "matern32"])
def test_gaussian_observations_are_a_dense_gaussian_process_regression(process):
    pairs, period = season(15)
    period = np.where(period == 1, 0, period)  # at one of the times there is no comparison
    rng = np.random.default_rng(1)
    tau, nu = rng.gamma(1.0, size=15), rng.normal(size=15)
    design = np.zeros((15, len(TIMES), NUM_ITEMS))
    rows = np.arange(15)
    design[rows, period, pairs[:, 0]], design[rows, period, pairs[:, 1]] = 1.0, -1.0
    design = design.reshape(15, -1)

    def dense(scales: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        prior = np.kron(kernel(process, *scales), np.eye(NUM_ITEMS))
        posterior = np.linalg.inv(np.linalg.inv(prior) + design.T @ (tau[:, None] * design))
        shift = design.T @ nu
        widened = np.eye(len(prior)) + prior @ design.T @ (tau[:, None] * design)
        log_normaliser = 0.5 * (shift @ posterior @ shift - np.linalg.slogdet(widened)[1])
        return posterior @ shift, posterior, log_normaliser

    with jax.enable_x64(True):
        order = np.argsort(period, kind="stable")
        gaps = np.diff(TIMES[period[order]], prepend=TIMES[0])
        values = jnp.tile(jnp.array([1.0, -1.0]), (15, 1))
        columns = jnp.asarray(pairs)
        terms = (SiteTerm(Rows(values, columns, NUM_ITEMS), jnp.asarray(tau), jnp.asarray(nu)),)
        after = jnp.asarray(TIMES[-1:] - TIMES[period[order[-1]]])
        visits = Visits(jnp.asarray(order), jnp.asarray(gaps), values, columns[order], after)

        def solve(scales):
            prior = ChainPrior(process, NUM_ITEMS, scales, visits, jnp.zeros(0, int))
            posterior = prior.times(terms)
            return prior.log_normaliser(terms, posterior), posterior

        scales = jnp.array([0.8, 1.3])
        chain = jax.jit(jax.value_and_grad(solve, has_aux=True))
        (log_normaliser, posterior), slope = chain(scales)
        prior = ChainPrior(process, NUM_ITEMS, scales, visits, jnp.zeros(0, int))
        when = np.array([2, 0, 3, 1])  # in any order
        means, covariances = jax.jit(prior.states_at)(tau, nu, TIMES[when])
    mean, covariance, expected = dense(np.array([0.8, 1.3]))
    assert posterior.valid
    np.testing.assert_allclose(log_normaliser, expected, atol=1e-9)
    np.testing.assert_allclose(posterior.margin_mean, design @ mean, atol=1e-9)
    variance = np.einsum("ki,ij,kj->k", design, covariance, design)
    np.testing.assert_allclose(posterior.margin_variance, variance, atol=1e-9)
    last = slice(-NUM_ITEMS, None)
    np.testing.assert_allclose(posterior.mean[:NUM_ITEMS], mean[last], atol=1e-9)
    own = posterior.core.covariance[:NUM_ITEMS, :NUM_ITEMS]
    np.testing.assert_allclose(own, covariance[last, last], atol=1e-9)
    for place, number in enumerate(when):
        at = slice(number * NUM_ITEMS, (number + 1) * NUM_ITEMS)
        own = covariances[place, :NUM_ITEMS, :NUM_ITEMS]
        np.testing.assert_allclose(means[place, :NUM_ITEMS], mean[at], atol=1e-9)
        np.testing.assert_allclose(own, covariance[at, at], atol=1e-9)
    steps = 1e-5 * np.eye(2)
    ends = [dense(np.array([0.8, 1.3]) + s)[2] - dense(np.array([0.8, 1.3]) - s)[2] for s in steps]
    np.testing.assert_allclose(slope, np.array(ends) / 2e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("process", "ties", "home"),
    [("walk", False, False), ("matern32", True, False), ("matern12", True, True)],
)
def test_the_solver_has_the_fixed_point_of_ep_on_the_joint_program(process, ties, home):
    pairs, period = season(25)
    options: dict[str, Any] = {"times": TIMES, "period": period, "process": process}
    rng = np.random.default_rng(2)
    if ties:
        options["outcomes"] = rng.integers(0, 3, 25)
    if home:
        options |= {"position": rng.integers(-1, 2, 25), "categories": rng.integers(0, 2, 25)}
        options["num_categories"] = 2
    joint = EP(dynamic_thurstone, tol=1e-7).run(jax.random.key(0), NUM_ITEMS, pairs, **options)
    chains = DynamicEP(tol=1e-7).run(jax.random.key(0), NUM_ITEMS, pairs, **options)
    assert chains.converged and chains.marginalized_sites == ("past",)
    for site in chains.latent_sites:
        np.testing.assert_allclose(chains.mean[site], joint.mean[site], atol=1e-5)
        np.testing.assert_allclose(chains.covariance[site], joint.covariance[site], atol=1e-5)
    np.testing.assert_allclose(chains.log_evidence, joint.log_evidence, atol=1e-4)
    when = np.array([1, 0, 2])
    parts = list(states_at(chains, TIMES[when]))
    weights, means = np.array([p.weight for p in parts]), np.array([p.means for p in parts])
    own = np.array([np.diagonal(part.covariances, axis1=1, axis2=2) for part in parts])
    mean = np.tensordot(weights, means, 1)
    sd = np.sqrt(np.tensordot(weights, own + (means - mean) ** 2, 1))
    np.testing.assert_allclose(mean[:, :NUM_ITEMS].T, joint.mean["past"][:, when], atol=1e-4)
    np.testing.assert_allclose(sd[:, :NUM_ITEMS].T, joint.sd["past"][:, when], atol=1e-4)


@pytest.mark.slow
def test_past_skills_by_a_walk_over_hyperparameters_are_those_by_points():
    pairs, period = season(25)
    options: dict[str, Any] = {"times": TIMES, "period": period, "process": "matern12"}
    chains: dict[str, Any] = {"num_warmup": 50, "num_samples": 200, "num_chains": 1}
    means = []
    for engine, more in ((DynamicEP(hyperparameters="nuts"), chains), (DynamicEP(), {})):
        result = engine.run(jax.random.key(0), NUM_ITEMS, pairs, **options, **more)
        parts = list(states_at(result, TIMES[[0, 3]]))
        weights = np.array([part.weight for part in parts])
        mean = np.tensordot(weights, [part.means[:, :NUM_ITEMS] for part in parts], 1)
        np.testing.assert_allclose(mean[1], result.mean["f"], atol=1e-3)
        means.append(mean[0])
    np.testing.assert_allclose(*means, atol=0.15)  # 3 standard errors, of skills of some 0.5


@pytest.mark.slow
@pytest.mark.parametrize("process", ["walk", "matern12", "matern32"])
def test_the_prior_is_drawn_in_single_precision_too(process):
    times = np.linspace(0.0, 1.0, 10)
    prior = Predictive(dynamic_thurstone, num_samples=2000)
    with jax.enable_x64(False):
        drawn = prior(jax.random.key(0), NUM_ITEMS, times=times, process=process)
    white = (np.asarray(drawn["past"])[..., 0] / np.asarray(drawn["scale"])[:, None]).ravel()
    assert drawn["f"].dtype == np.float32
    np.testing.assert_allclose([white.mean(), white.std()], [0.0, 1.0], atol=0.05)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"times": [0.0, 1.0]}, "period is missing"),
        ({"times": [1.0, 0.0], "period": [0, 1]}, "do not increase"),
        ({"times": [0.0, np.nan], "period": [0, 1]}, "is not a finite number"),
        ({"times": [[0.0]], "period": [0, 0]}, "times has shape"),
        ({"times": [0.0, 1.0], "period": [0, 2]}, "period is 2 in row 1"),
        ({"times": [0.0, 1.0], "period": [0.0, 1.0]}, "period has shape"),
        ({"times": [0.0], "process": "jump"}, "process is 'jump'"),
        ({"times": [0.0], "comparisons": None, "period": [0]}, "period is given without"),
    ],
)
def test_the_program_refuses(options, message):
    arguments = {"comparisons": np.array([[0, 1], [1, 0]]), **options}
    for name in ("times", "period"):
        if name in arguments:
            arguments[name] = np.array(arguments[name])
    with pytest.raises(ValueError, match=message):
        seed(dynamic_thurstone, jax.random.key(0))(2, **arguments)


def test_engines_made_of_it_keep_its_chains():
    engine = DynamicEP(tol=1e-3, damping=0.5)
    made = engine.with_settings(tol=1e-2)
    assert isinstance(made, DynamicEP)
    assert made.settings == engine.settings | {"tol": 1e-2}
