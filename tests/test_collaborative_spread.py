"""How much users differ, against evidence with their deviations integrated out by brute force."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from scipy.special import logsumexp
from scipy.stats import norm

from bayesrank.infer import EP, ConvergenceWarning
from bayesrank.models import collaborative_ordinal_gp
from bayesrank.solvers.collaborative import EM, extend, iterate, loop
from bayesrank.solvers.collaborative.curvature import theta_curvature
from bayesrank.solvers.collaborative.e_step import UserSums
from bayesrank.solvers.collaborative.likelihoods import LIKELIHOODS
from bayesrank.solvers.collaborative.posterior import Told, UserState
from bayesrank.solvers.collaborative.sweep import sweep
from bayesrank.solvers.collaborative.thresholds import Theta, log_volume, update_theta

USERS, ITEMS = 200, 10
GAPS = np.linspace(-1.6, 1.6, 17)
NOISES, WEIGHTS = np.polynomial.hermite_e.hermegauss(3)
NOISE_SPREAD = 0.3  # what EM takes it to be
SPREADS = np.linspace(0.1, 0.8, 71)


def _levels(spread):
    """Three levels, log gaps of users scattered about 0.4; where they are, log noises about 0."""
    rng = np.random.default_rng(5)
    functions = rng.normal(size=(USERS, 1)) + rng.normal(size=(USERS, ITEMS)) / 2
    noise = np.exp((spread > 0) * NOISE_SPREAD * rng.normal(size=(USERS, 1)))
    heard = functions + noise * rng.normal(size=(USERS, ITEMS))
    edge = np.exp(0.4 + spread * rng.normal(size=(USERS, 1))) / 2
    return (heard > edge).astype(int) + (heard > -edge)


@pytest.fixture(scope="module")
def engine():
    return EM("probit", strength=20.0, max_iterations=60, tol=5e-4)


@pytest.fixture(scope="module")
def fits(engine):
    """Levels and results, by how much users differ."""

    @cache
    def fit(true):
        levels = _levels(true)
        users, items = np.indices(levels.shape).reshape(2, -1)
        return levels, engine.run(users, items, levels.ravel(), progress_bar=False)

    return fit


@pytest.fixture(scope="module")
def sweeps():
    """Log evidence and curvature of users at parameters, shapes (q, n) and (q, n, p, p)."""
    law = LIKELIHOODS["probit"]

    def one(levels, theta, mean, kernel):
        told = Told(levels, jnp.ones(ITEMS, bool), mean, kernel)
        zero = jnp.zeros(ITEMS)
        state = UserState(zero, zero, theta, jnp.zeros(()), jnp.ones(()))

        def again(state, _):
            after, swept, at = sweep(law, told, state, 1.0)
            curvature = theta_curvature(law, theta, at, swept.posterior.half)
            return after, (swept.log_evidence, curvature)

        evidence, curvature = lax.scan(again, state, length=6)[1]
        return evidence[-1], curvature[-1]

    users = jax.vmap(one, in_axes=(0, None, None, None))

    @jax.jit
    def several(theta, levels, *prior):
        return lax.map(lambda t: users(levels, t, *prior), theta)

    def run(result, levels):
        gap, noise = np.meshgrid(GAPS, NOISE_SPREAD * NOISES, indexing="ij")
        theta = result.state.shared_theta + np.stack([gap, noise], axis=-1).reshape(-1, 2)
        with jax.enable_x64(True):
            found = several(theta, levels * 1.0, result.mean, result.kernel)
        return (np.asarray(x).reshape(len(GAPS), len(NOISES), *x.shape[1:]) for x in found)

    return run


def _of_spreads(evidence):
    """Log evidence of all users for each spread, and where nobody's gaps differ."""
    noise = (WEIGHTS / WEIGHTS.sum())[:, None]
    evidence = np.asarray(logsumexp(evidence, axis=1, b=noise))
    weights = norm.pdf(GAPS, scale=SPREADS[:, None])
    weights /= weights.sum(axis=1, keepdims=True)
    total = np.asarray(logsumexp(evidence[None], axis=1, b=weights[:, :, None]))
    return total.sum(axis=1), evidence[len(GAPS) // 2].sum()


@pytest.mark.parametrize("true", [0.5, 0.0])
def test_spread_is_where_the_evidence_is_largest(fits, sweeps, true):
    levels, result = fits(true)
    assert result.converged and result.num_iterations < 40
    evidence, curvature = sweeps(result, levels)
    total, nobody = _of_spreads(evidence)
    found = result.state.spread[0]
    if true == 0:
        assert found == 0
        assert np.all(result.state.theta[:, 0] == result.state.shared_theta[0])
        assert nobody > total.max() - 0.1
        return
    np.testing.assert_allclose(found, true, atol=0.1)
    np.testing.assert_allclose(found, SPREADS[total.argmax()], atol=0.05)
    assert np.interp(found, SPREADS, total) > total.max() - 0.5 > nobody + 10
    # Second differences of the evidence in the gap, mean of users.
    middle, step = len(GAPS) // 2, GAPS[1] - GAPS[0]
    second = np.diff(evidence[middle - 1 : middle + 2, 1], 2, axis=0)[0] / step**2
    np.testing.assert_allclose(curvature[middle, 1, :, 0, 0].mean(), -second.mean(), rtol=0.02)


@pytest.fixture(scope="module")
def new(fits):
    """Five users of the fit, as new ones."""
    levels, result = fits(0.5)
    who, what = np.indices((5, ITEMS)).reshape(2, -1)
    return levels[:5].ravel(), who, what, result.condition(who, what, levels[:5].ravel())


def test_users_of_the_fit_would_get_the_same_as_new_ones(fits, new, monkeypatch):
    """Their own parameters, found together with what is shared, and now given that."""
    result, (levels, who, what, again) = fits(0.5)[1], new
    own = result.state.theta[:5]
    assert again.converged and np.all(own.std(axis=0) > 0.02)
    np.testing.assert_allclose(again.state.theta, own, atol=5e-3)
    expected = result.predict_proba(who, what)
    np.testing.assert_allclose(again.predict_proba(who, what), expected, atol=2e-3)
    traced = []

    def expect(*args):
        traced.append(args)
        return iterate.expect(*args)

    monkeypatch.setattr(extend, "expect", expect)
    few, more = (result.condition(who[:n], what[:n], levels[:n]) for n in (1, 8))
    assert len(traced) == 1  # compiled once for up to eight
    far = [np.linalg.norm(x.state.theta[0] - result.state.shared_theta) for x in (few, more, again)]
    assert far[0] < far[1] and far[0] < far[2]
    monkeypatch.setattr(extend, "_STEPS", 1)
    with pytest.warns(ConvergenceWarning, match="parameters of the new users have not settled"):
        assert not result.condition(who, what, levels).converged


def test_their_thresholds_and_noise_are_stationary(fits, new):
    """Differences of EP's evidence of the program, and the density of the deviations."""
    state, (levels, _, what, again) = fits(0.5)[1].state, new
    levels, what = levels[:ITEMS], what[:ITEMS]
    deviation = again.state.theta[:1] - state.shared_theta
    assert np.all(abs(deviation) > 0.01)
    ep = EP(collaborative_ordinal_gp, tol=1e-8)

    def density(change):
        params = {
            **again.params,
            "gap_factor": np.exp(deviation + change)[:, :-1],
            "noise_factor": np.exp(deviation + change)[:, -1],
        }
        result = ep.run(
            jax.random.key(0), np.zeros(ITEMS, int), what, levels, 1, ITEMS,
            num_levels=3, params=params, num_samples=1, user_thresholds=0.3,
        )  # fmt: skip
        return result.log_evidence + norm.logpdf(deviation + change, scale=state.spread).sum()

    for change in 1e-3 * np.eye(2):
        slope = (density(change) - density(-change)) / 2e-3
        assert abs(slope) < 2e-3


@pytest.mark.filterwarnings("ignore:EM has not converged")
def test_it_makes_no_difference_in_how_many_blocks_users_are(monkeypatch):
    rng = np.random.default_rng(6)
    levels = _levels(0.5)[:30]
    users, items = np.nonzero(rng.random(levels.shape) < 0.5)
    data = users, items, levels[users, items]
    states = []
    for blocks in (1, 2):
        made = partial(loop.make_blocks, most=blocks, worth=0.0)
        with monkeypatch.context() as patched:
            patched.setattr(loop, "make_blocks", made)
            engine = EM("probit", accelerate=False, max_iterations=2)
            states.append(engine.run(*data, progress_bar=False).state)
    for one, other in zip(*(state[:-2] for state in states), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-10)


def test_a_program_decomposes_one_batch_of_matrices():
    """Two at a time can wait for each other's threads for ever, on CPUs."""
    users, p = (3, 4), 3
    zero, square = jnp.zeros((*users, p)), jnp.zeros((*users, p, p))
    nothing = jnp.zeros(users)
    state = UserState(nothing, nothing, zero, nothing, nothing)
    own = UserSums(zero, square, square, *[nothing] * 7)
    theta, known = Theta(jnp.zeros(p), jnp.ones(p)), (nothing > 0,) * 2
    step = partial(update_theta, learn_shared=True, learn_spread=True)
    for program in (
        jax.make_jaxpr(step)(theta, (state,) * 2, (own,) * 2, known),
        jax.make_jaxpr(log_volume)(theta, (own,) * 2, known),
    ):
        assert str(program).count("= eigh[") == 1
