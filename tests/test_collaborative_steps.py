"""The parts of EM: M-steps by direct maximisation, moments by quadrature, acceleration."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rating_data import divergence
from scipy.optimize import minimize
from scipy.special import expit, ndtr

from bayesrank.gp import KernelPrior, Tier
from bayesrank.solvers.collaborative.likelihoods import LIKELIHOODS, Ordinal
from bayesrank.solvers.collaborative.loop import Anderson
from bayesrank.solvers.collaborative.posteriors import Observations, groups_of, posteriors
from bayesrank.solvers.collaborative.shared import FunctionMoments, SharedProcess
from bayesrank.solvers.collaborative.state import initial_state


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


# ---------------------------------------------------------------- the kernel, in tiers of items

M, USERS = 5, 7.0
TIERS = (Tier(0, 2, 3.0), Tier(2, 3, 8.0), Tier(3, M, 20.0))
RNG = np.random.default_rng(5)
PSI = np.cov(RNG.normal(size=(M, 9))) + 0.3 * np.eye(M)
MOMENTS = USERS * np.cov(RNG.normal(size=(M, 8)) * [[1.0], [2.0], [0.5], [1.0], [3.0]])


def _expected(kernel):
    """The expected log joint density that the M-step is to maximise."""
    fit = USERS * np.linalg.slogdet(kernel)[1] + np.trace(np.linalg.solve(kernel, MOMENTS))
    return -0.5 * (fit + divergence(kernel, PSI, TIERS))


def _kernel(numbers):
    factor = np.zeros((M, M))
    factor[np.tril_indices(M)] = numbers
    factor[np.diag_indices(M)] = np.exp(np.diagonal(factor))
    return factor @ factor.T


def _drawn(prior):
    moments, psi, users = (jnp.asarray(x) for x in (MOMENTS, PSI, USERS))
    return np.asarray(prior.maximize(moments, psi, users))


def test_log_density_is_a_sum_over_tiers():
    other, prior = np.cov(RNG.normal(size=(M, 12))), KernelPrior(TIERS)
    factor, its = (jnp.linalg.cholesky(jnp.asarray(x)) for x in (other, PSI))
    found, same = float(prior.log_density(factor, its)), float(prior.log_density(its, its))
    np.testing.assert_allclose(found, -0.5 * divergence(other, PSI, TIERS), rtol=1e-10)
    np.testing.assert_allclose(same, 0.0, atol=1e-12)


def test_the_kernel_is_the_most_probable_one():
    found, start = _drawn(KernelPrior(TIERS)), np.zeros(M * (M + 1) // 2)
    best = minimize(lambda x: -_expected(_kernel(x)), start, tol=1e-12, options={"gtol": 1e-7})
    np.testing.assert_allclose(_expected(found), -best.fun, rtol=1e-10)
    np.testing.assert_allclose(found, _kernel(best.x), atol=1e-4)


def test_one_tier_is_an_inverse_wishart_prior():
    wanted = (MOMENTS + 4.0 * PSI) / (USERS + 4.0)
    np.testing.assert_allclose(_drawn(KernelPrior.for_items(M, 4.0)), wanted, rtol=1e-12)


def test_a_tier_with_a_strong_prior_follows_as_the_base_has_it():
    """Which is how items outside of the core follow it, too."""
    core = M - 1
    found = _drawn(KernelPrior((Tier(0, core, 3.0), Tier(core, M, 1e12))))
    outside = KernelPrior((Tier(0, core, 3.0),))
    wanted = outside.all_items(jnp.asarray(found[:core, :core]), jnp.asarray(PSI))
    np.testing.assert_allclose(found, wanted, rtol=1e-8)


def test_a_prior_may_have_items_in_an_order_of_its_own():
    order = np.array([3, 0, 4, 1, 2])
    prior = KernelPrior((Tier(0, 3, 1.0),), tuple(order))
    place = np.argsort(order)
    psi = jnp.asarray(PSI)
    found = prior.all_items(prior.core(psi), psi)
    plain = KernelPrior(prior.tiers)
    sorted_psi = psi[order][:, order]
    wanted = plain.all_items(plain.core(sorted_psi), sorted_psi)[place][:, place]
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize("size", [3, 503])
def test_rare_items_do_not_touch_frequent_ones(size):
    """Frequent ones have a prior worth 30 more users than they are; how others follow has more."""
    rng, users = np.random.default_rng(8), 40.0
    base = np.eye(size) + 0.5
    draws = rng.normal(size=(40, size)) @ np.linalg.cholesky(base).T
    moments = draws.T @ draws
    prior = KernelPrior.for_items(size)
    found = np.asarray(prior.maximize(*(jnp.asarray(x) for x in (moments, base, users))))
    first = min(size, 500)
    frequent, worth = (slice(first), slice(first)), first + 30.0
    alone = (moments + worth * base)[frequent] / (users + worth)
    np.testing.assert_allclose(found[frequent], alone, rtol=1e-9, atol=1e-12)
    if size > first:
        weights, from_base, alone = (
            np.linalg.solve(x[frequent], x[:first, first:])
            for x in (found, base, (moments + worth * base) / (users + worth))
        )
        near, far = (np.abs(x - from_base).max() for x in (weights, alone))
        assert 0 < near < 0.2 * far


# ---------------------------------------------------------------- scales of base kernels

SIZE, NUM_USERS = 6, 9.0
RNG = np.random.default_rng(3)
ROOTS = RNG.normal(size=(2, SIZE, SIZE))
KERNELS = np.stack([*(ROOTS @ ROOTS.transpose(0, 2, 1) / SIZE), np.eye(SIZE)])
TRUE = np.linalg.cholesky(np.einsum("c,cij", [2.0, 0.1, 0.5], KERNELS))
DRAWS = RNG.normal(size=(int(NUM_USERS), SIZE)) @ TRUE.T
SCATTER = DRAWS.T @ DRAWS


def _objective(scales, prior):
    """Of draws of the core, and of what is left of other items: normal variables of their own."""
    base, core = np.einsum("c,cij->ij", scales, KERNELS), prior.num_core
    inside, total = base[:core, :core], 0.0
    for start, end, strength in prior.tiers:
        shared = (SCATTER[:core, :core] + strength * inside) / (NUM_USERS + strength)
        ours, theirs = (
            np.linalg.slogdet(matrix[:end, :end])[1] - np.linalg.slogdet(matrix[:start, :start])[1]
            for matrix in (inside, shared)
        )
        total += 0.5 * strength * ours - 0.5 * (NUM_USERS + strength) * theirs
    weights = np.linalg.solve(inside, base[:core, core:])
    own = np.diagonal(base)[core:] - np.sum(base[:core, core:] * weights, axis=0)
    left = DRAWS[:, core:] - DRAWS[:, :core] @ weights
    rest = NUM_USERS * np.log(own) + (left**2).sum(axis=0) / own
    return total - 0.5 * rest.sum()


def _step(scales, prior, hold_size):
    core = prior.num_core
    ordered = replace(prior, items=tuple(range(SIZE)))
    shared = SharedProcess(KERNELS, ordered, 0.0, learns=True, holds=hold_size)
    base = np.einsum("c,cij->ij", scales, KERNELS)
    inside = DRAWS[:, :core]
    left = DRAWS[:, core:] - inside @ np.linalg.solve(base[:core, :core], base[:core, core:])
    moments = FunctionMoments(inside.T @ inside, inside.T @ left, (left**2).sum(axis=0))
    return shared.improved(scales, moments, int(NUM_USERS))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("prior", "hold_size", "second"),
    [
        (KernelPrior.for_items(SIZE, 2.0), False, 1.0),
        (KernelPrior.for_items(SIZE, 5000.0), True, 1.0),
        (KernelPrior.for_items(3, 2.0), False, 1.0),
        (KernelPrior.for_items(1, 50.0), False, 1e-6),  # as small as may be, and has to stay so
        (KernelPrior((Tier(0, 2, 2.0), Tier(2, SIZE, 50.0))), False, 1.0),
        (KernelPrior((Tier(0, 2, 9.0), Tier(2, 3, 3.0), Tier(3, 4, 30.0))), True, 1.0),
    ],
)
def test_steps_never_lower_the_objective_and_end_at_its_maximum(prior, hold_size, second):
    scales, trace = np.array([1.0, second, 1.0]), []
    for _ in range(200):
        trace.append(_objective(scales, prior))
        scales = _step(scales, prior, hold_size)
    assert np.diff(trace).min() > -1e-9 * abs(trace[0])
    core = prior.num_core
    size = np.trace(KERNELS[:, :core, :core], axis1=1, axis2=2)

    def loss(logs):
        scales = np.exp(logs)
        if hold_size:
            scales *= size.sum() / (scales @ size)
        return -_objective(scales, prior)

    best = minimize(loss, np.zeros(3), method="Nelder-Mead",
                    options={"xatol": 1e-6, "fatol": 1e-9, "maxiter": 4000})  # fmt: skip
    np.testing.assert_allclose(trace[-1], -best.fun, atol=1e-4)
    if hold_size:
        np.testing.assert_allclose(scales @ size, size.sum(), rtol=1e-9)


# ---------------------------------------------------------------- what users say

THETA = np.array([0.3, -0.4])  # log gap, log noise
# A user who is sure of every rating has little noise beside the width of the cavity.
CAVITIES = np.array([(0.3, 0.1), (-1.0, 1.0), (4.0, 5.0), (0.5, 30.0), (-9.0, 2.0)])


def _probability(kind, theta, level, x):
    edges, below = np.exp(theta[0]) * np.array([-0.5, 0.5]), {"probit": ndtr, "logit": expit}
    at = (x - edges[:, None]) / np.exp(theta[1])
    above = [np.ones_like(x), *below[kind](at), np.zeros_like(x)]
    return above[level] - above[level + 1]


def _log_z(kind, theta, level, mean, sd):
    """By the trapezoidal rule, exact for what is smooth and vanishes at both ends."""
    z = np.linspace(-9.0, 9.0, 20_001)
    return np.log(
        np.average(_probability(kind, theta, level, mean + sd * z), weights=np.exp(-z * z / 2))
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["probit", "logit"])
def test_moments_and_scores_are_those_of_quadrature(kind):
    likelihood = LIKELIHOODS[kind]
    assert isinstance(likelihood, Ordinal)
    theta = jnp.asarray(THETA)
    cases = [(level, mean, sd) for level in (0, 1, 2) for mean, sd in CAVITIES]

    def both(*args):
        def log_z(theta):
            moments = likelihood.moments(theta, *args)
            return moments.log_z, moments

        score, moments = jax.grad(log_z, has_aux=True)(theta)
        return moments, score

    level, mean, sd = (jnp.asarray(x, float) for x in zip(*cases, strict=True))
    moments, score = jax.jit(jax.vmap(both))(level, mean, sd**2)
    for row, (level, mean, sd) in enumerate(cases):
        step = 1e-3 * max(sd, 1.0)
        low, middle, high = (
            _log_z(kind, theta, level, mean + k * step, sd) for k in (-1.0, 0.0, 1.0)
        )
        np.testing.assert_allclose(moments.log_z[row], middle, atol=1e-8)
        np.testing.assert_allclose(moments.d1[row], (high - low) / (2 * step), atol=1e-6)
        d2 = (high - 2 * middle + low) / step**2
        np.testing.assert_allclose(moments.d2[row], d2, atol=2e-5)
        for k, change in enumerate(1e-3 * np.eye(len(theta))):
            ends = [_log_z(kind, theta + x, level, mean, sd) for x in (-change, change)]
            np.testing.assert_allclose(score[row, k], np.diff(ends)[0] / 2e-3, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "tolerance"), [("probit", 1e-6), pytest.param("logit", 0.1, marks=pytest.mark.slow)]
)
def test_the_information_is_what_scores_are_expected_to_have(kind, tolerance):
    """Averaged over all levels; that of logistic noise is that of the normal noise most alike."""
    likelihood = LIKELIHOODS[kind]
    assert isinstance(likelihood, Ordinal)

    def both(mean, variance):
        theta, levels = jnp.asarray(THETA), jnp.arange(3)

        def log_z(theta, level):
            return likelihood.moments(theta, level, mean, variance).log_z

        values, scores = jax.vmap(jax.value_and_grad(log_z), (None, 0))(theta, levels)
        expected = jnp.einsum("y,yp,yq->pq", jnp.exp(values), scores, scores)
        return likelihood.information(theta, mean, variance), expected

    mean, sd = CAVITIES[:3].T
    for found, expected in zip(*jax.jit(jax.vmap(both))(mean, sd**2), strict=True):
        np.testing.assert_allclose(found, expected, atol=tolerance * np.abs(expected).max())


# ---------------------------------------------------------------- users' posteriors


def test_posteriors_are_the_conditionals_of_dense_algebra():
    """Of users with few and many observations, told nothing, little and much, in any order."""
    rng = np.random.default_rng(3)
    counts, m = [1, 60, 3, 0, 3], 60
    users = np.repeat(np.arange(5), counts)
    items = np.concatenate([rng.permutation(m)[:count] for count in counts])[:, None]
    order = rng.permutation(len(users))
    seen = Observations(users[order], items[order], (1.0,), rng.normal(size=67), 5, m)
    kernel = np.cov(rng.normal(size=(m, 80))) + 0.1 * np.eye(m)
    state = initial_state(
        LIKELIHOODS["gaussian"], seen, kernel[None], None, 0.3, collaborative=True
    )
    tau = np.exp(rng.normal(size=67)) * np.resize([0.0, 1e-12, 1.0, 1e6], 67)
    state = state._replace(
        tau=tau, nu=tau * rng.normal(size=67),
        user_level=rng.normal(size=5), user_scale=np.exp(rng.normal(size=5)),
    )  # fmt: skip
    mean, found = rng.normal(size=m), 0
    for stack in posteriors(groups_of(seen), seen, mean, kernel, state):
        for row, user in enumerate(stack.users):
            rows = stack.rows[row]
            assert np.all(seen.users[rows] == user) and len(rows) == counts[user]
            what = seen.items[rows, 0]
            prior = state.user_scale[user] * kernel[np.ix_(what, what)]
            inner = np.eye(len(rows)) + prior * tau[rows]
            at = mean[what] + state.user_level[user]
            covariance = np.linalg.solve(inner, prior)
            step = covariance @ (state.nu[rows] - tau[rows] * at)
            np.testing.assert_allclose(stack.mean[row], step, rtol=1e-6, atol=1e-7)
            np.testing.assert_allclose(prior @ stack.shift[row], step, rtol=1e-6, atol=1e-7)
            np.testing.assert_allclose(stack.variance[row], np.diagonal(covariance), rtol=1e-6)
            np.testing.assert_allclose(stack.log_det[row], np.linalg.slogdet(inner)[1], rtol=1e-9)
            found += 1
    assert found == 4
    assert [list(group.users) for group in groups_of(seen, [4, 3, 1])] == [[4], [1]]


# ---------------------------------------------------------------- acceleration

CURVATURE = np.array([1.0, 0.3, 0.1, 0.03, 0.01, 0.003])
TARGET = np.arange(6.0)


def _descend(x):
    """A step of gradient descent on a quadratic."""
    return x - CURVATURE * (x - TARGET)


def _run(anderson, steps):
    x = np.zeros(6)
    for _ in range(steps):
        image = _descend(x)
        further = anderson.propose((image,), image - x)
        x = image if further is None else further[0]
    return x


def test_a_quadratic_is_solved_in_as_many_steps_as_it_has_curvatures():
    assert np.abs(_run(Anderson(plain_steps=1, ridge=1e-14), 12) - TARGET).max() < 1e-4
    plain = np.zeros(6)
    for _ in range(12):
        plain = _descend(plain)
    assert np.abs(plain - TARGET).max() > 4


def test_after_a_bad_proposal_plain_steps_are_made():
    anderson = Anderson(plain_steps=3)
    x = np.ones(6)
    made = []
    for step in range(9):
        image = _descend(x)
        further = anderson.propose((image,), image - x)
        made.append(further is not None)
        if step == 4:
            anderson.restart()
        x = image
    assert made == [False, False, True, True, True, False, False, True, True]


def test_where_nothing_moves_nothing_is_proposed_beyond_it():
    anderson = Anderson(plain_steps=1)
    x = TARGET.copy()
    further = None
    for _ in range(3):
        further = anderson.propose((_descend(x),), _descend(x) - x)
    assert further is not None
    np.testing.assert_array_equal(further[0], TARGET)
