"""Users who differ in thresholds and noise: against the truth, EP on the program, and new users."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from bayesrank.infer import EP, ConvergenceWarning
from bayesrank.models import collaborative_ordinal_gp
from bayesrank.solvers.collaborative import EM, e_step, new_data
from bayesrank.solvers.collaborative.data import LIKELIHOODS
from bayesrank.solvers.collaborative.likelihood_gaussian import GaussianStatistics
from bayesrank.solvers.collaborative.likelihood_ordinal import OrdinalStatistics
from bayesrank.solvers.collaborative.types import LikelihoodParams, UserState, UserStatistics

USERS, ITEMS = 200, 10
NOISE_SPREAD = 0.3  # what EM takes it to be


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


@pytest.mark.slow
def test_what_users_differ_in_is_found(fits):
    """Users' own gaps, drawn to the shared one as ten ratings deserve, rise with the true ones."""
    for true in (0.5, 0.0):
        result = fits(true)[1]
        assert result.converged and result.num_iterations < 40
    own = np.log(np.diff(result.thresholds)[:, 0])
    assert own.std() < 0.15  # where nobody differs, three tenths are much too wide
    rng = np.random.default_rng(5)
    for shape in ((USERS, 1), (USERS, ITEMS), (USERS, 1), (USERS, ITEMS)):
        rng.normal(size=shape)
    gaps = rng.normal(size=USERS)
    assert np.corrcoef(np.log(np.diff(fits(0.5)[1].thresholds)[:, 0]), gaps)[0, 1] > 0.5


@pytest.fixture(scope="module")
def new(fits):
    """Five users of the fit, as new ones."""
    levels, result = fits(0.5)
    who, what = np.indices((5, ITEMS)).reshape(2, -1)
    return levels[:5].ravel(), who, what, result.condition(who, what, levels[:5].ravel())


@pytest.mark.slow
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
        return e_step.expect(*args)

    monkeypatch.setattr(new_data, "expect", expect)
    few, more = (result.condition(who[:n], what[:n], levels[:n]) for n in (1, 8))
    assert len(traced) == 1  # compiled once for up to eight
    far = [np.linalg.norm(x.state.theta[0] - result.state.shared_theta) for x in (few, more, again)]
    assert far[0] < far[1] and far[0] < far[2]
    monkeypatch.setattr(new_data, "_STEPS", 1)
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
            strength=again.kernel_prior, mean_strength=12.0,
        )  # fmt: skip
        return result.log_evidence + norm.logpdf(deviation + change, scale=state.spread).sum()

    for change in 1e-3 * np.eye(2):
        slope = (density(change) - density(-change)) / 2e-3
        assert abs(slope) < 2e-3


@pytest.mark.parametrize(("kind", "operation"), [("probit", "lu"), ("gaussian", "eigh")])
def test_a_program_decomposes_one_batch_of_matrices(kind, operation):
    """Two at a time can wait for each other's threads for ever, on CPUs."""
    users, p = (3, 4), 3
    zero, square = jnp.zeros((*users, p)), jnp.zeros((*users, p, p))
    nothing = jnp.zeros(users)
    state = UserState(nothing, nothing, zero, nothing, nothing)
    own = {
        "probit": OrdinalStatistics(zero, square),
        "gaussian": GaussianStatistics(nothing, nothing, nothing),
    }[kind]
    statistics = UserStatistics(nothing, nothing, nothing, nothing, own)
    params, known = LikelihoodParams(jnp.zeros(p), jnp.ones(p)), (nothing > 0,) * 2
    step = partial(LIKELIHOODS[kind].m_step, pooled=True)
    program = str(jax.make_jaxpr(step)(params, (state,) * 2, (statistics,) * 2, known))
    batches = [
        line
        for line in program.splitlines()
        if any(f" {name}[" in line or f" {name} " in line for name in ("lu", "eigh", "cholesky"))
        and f"[{2 * users[0] * users[1]}," in line
    ]
    assert len(batches) == 1 and f" {operation}" in batches[0]
