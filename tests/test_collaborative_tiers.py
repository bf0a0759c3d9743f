"""Tiers of items whose kernel has priors of different worth: by direct maximisation, and in EM."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

from bayesrank.gp import KernelPrior, Tier
from bayesrank.infer import EP
from bayesrank.models import collaborative_rating_gp
from bayesrank.solvers.collaborative import EM

M, USERS = 5, 7.0
TIERS = (Tier(0, 2, 3.0), Tier(2, 3, 8.0), Tier(3, M, 20.0))
RNG = np.random.default_rng(5)
PSI = np.cov(RNG.normal(size=(M, 9))) + 0.3 * np.eye(M)
MOMENTS = USERS * np.cov(RNG.normal(size=(M, 8)) * [[1.0], [2.0], [0.5], [1.0], [3.0]])


def _steps(kernel, base, tiers):
    """Of each tier: its worth, and weights and rest of its items given those before, of both."""
    for start, end, worth in tiers:
        found = []
        for matrix in (kernel, base):
            weights = np.linalg.solve(matrix[:start, :start], matrix[:start, start:end])
            rest = matrix[start:end, start:end] - matrix[:start, start:end].T @ weights
            found += [weights, rest]
        yield start, worth, *found


def _divergence(kernel, base, tiers):
    """Twice the expected log ratio of the tiers' conditional densities under the base."""
    total = 0.0
    for start, worth, weights, rest, its_weights, its_rest in _steps(kernel, base, tiers):
        shift = weights - its_weights
        spread = its_rest + shift.T @ base[:start, :start] @ shift
        ratio = np.linalg.slogdet(rest)[1] - np.linalg.slogdet(its_rest)[1]
        total += worth * (ratio + np.trace(np.linalg.solve(rest, spread)) - len(rest))
    return total


def _expected(kernel):
    """The expected log joint density that the M-step is to maximise."""
    fit = USERS * np.linalg.slogdet(kernel)[1] + np.trace(np.linalg.solve(kernel, MOMENTS))
    return -0.5 * (fit + _divergence(kernel, PSI, TIERS))


def _kernel(numbers):
    factor = np.zeros((M, M))
    factor[np.tril_indices(M)] = numbers
    factor[np.diag_indices(M)] = np.exp(np.diagonal(factor))
    return factor @ factor.T


def _drawn(prior):
    with jax.enable_x64(True):
        moments, psi, users = (jnp.asarray(x) for x in (MOMENTS, PSI, USERS))
        return np.asarray(prior.maximise(moments, psi, users))


def test_log_density_is_a_sum_over_tiers():
    other, prior = np.cov(RNG.normal(size=(M, 12))), KernelPrior(TIERS)
    with jax.enable_x64(True):
        factor, its = (jnp.linalg.cholesky(jnp.asarray(x)) for x in (other, PSI))
        found, same = float(prior.log_density(factor, its)), float(prior.log_density(its, its))
    np.testing.assert_allclose(found, -0.5 * _divergence(other, PSI, TIERS), rtol=1e-10)
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
    with jax.enable_x64(True):
        outside = KernelPrior((Tier(0, core, 3.0),))
        wanted = outside.all_items(jnp.asarray(found[:core, :core]), jnp.asarray(PSI))
    np.testing.assert_allclose(found, wanted, rtol=1e-8)


def test_a_prior_may_have_items_in_an_order_of_its_own():
    order = np.array([3, 0, 4, 1, 2])
    prior = KernelPrior((Tier(0, 3, 1.0),), tuple(order))
    place = np.argsort(order)
    with jax.enable_x64(True):
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
    with jax.enable_x64(True):
        prior = KernelPrior.for_items(size)
        found = np.asarray(prior.maximise(*(jnp.asarray(x) for x in (moments, base, users))))
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


@pytest.fixture(scope="module")
def ratings():
    """Numbers that 30 users say of 6 items, of some more often than of others."""
    rng = np.random.default_rng(2)
    root = rng.normal(size=(6, 2))
    functions = 2.0 + rng.normal(size=(30, 2)) @ root.T + 0.5 * rng.normal(size=(30, 6))
    seen = rng.random((30, 6)) < [0.3, 0.9, 0.4, 0.8, 0.5, 1.0]
    users, items = np.nonzero(seen)
    return users, items, functions[seen] + 0.3 * rng.normal(size=len(users))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:EM has not converged")
@pytest.mark.parametrize("size", [4, 6])
def test_em_ends_at_a_stationary_point_of_the_program(ratings, size):
    """Tiers, and items outside of the core: slopes of EP's evidence of the program vanish."""
    tiers = tuple(Tier(*x) for x in ((0, 2, 2.0), (2, 4, 9.0), (4, 6, 40.0)) if x[1] <= size)
    kernel = np.stack([np.ones((6, 6)), np.eye(6)])
    engine = EM(
        "gaussian",
        strength=KernelPrior(tiers),
        mean_strength=2.0,
        max_iterations=600,
        tol=1e-12,
        user_scales=0,
    )
    result = engine.run(*ratings, kernel=kernel, num_items=6, progress_bar=False)
    states = {"kernel": kernel, "strength": result.kernel_prior, "mean_strength": 2.0}
    program = EP(collaborative_rating_gp)

    def evidence(params):
        with jax.enable_x64(True):
            return program.run(
                jax.random.key(0), *ratings, 30, 6, params=params, num_samples=1, **states
            ).log_evidence  # fmt: skip

    best = evidence(result.params)
    np.testing.assert_allclose(best, result.log_evidence + result.log_prior, rtol=1e-7)
    rng = np.random.default_rng(4)
    for name, value in result.params.items():
        change = 3e-3 * rng.choice([-1.0, 1.0], size=np.shape(value))
        if name == "Sigma":
            change = change + change.T
        elif name in ("scales", "noise"):
            change = change * value
        ends = [evidence(result.params | {name: value + sign * change}) for sign in (-1, 1)]
        slope, bend = ends[1] - ends[0], ends[0] + ends[1] - 2.0 * best
        # EP's evidence has an error of rounding where noise is small.
        assert bend < 1e-5 and abs(slope) < 0.05 * abs(bend) + 1e-5, name


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:EM has not converged")
def test_em_climbs_with_tiers_and_ends_where_no_kernel_is_better(ratings):
    tiers = (Tier(0, 2, 2.0), Tier(2, 4, 9.0), Tier(4, 6, 40.0))
    kernel = np.stack([np.ones((6, 6)), np.eye(6)])
    settings: dict[str, Any] = {
        "strength": KernelPrior(tiers),
        "user_scales": 0,
        "accelerate": False,
        "learn_base": True,
    }
    engine = EM("gaussian", mean_strength=2.0, max_iterations=400, tol=1e-11, **settings)
    result = engine.run(*ratings, kernel=kernel, progress_bar=False)
    assert np.diff(result.trace).min() > -1e-9
    order = np.array([1, 5, 3, 4, 2, 0])  # by how often they were rated, each tier's in order
    said = np.bincount(ratings[1], minlength=6)
    assert said[order[:2]].min() >= said[order[2:4]].max() >= said[order[4:]].max()

    def objective(kernel, scales):
        """Log evidence and log prior, with dense algebra."""
        state, total = result.state, 0.0
        for j in range(30):
            mine = ratings[0] == j
            items, said = ratings[1][mine], ratings[2][mine] - state.mean[ratings[1][mine]]
            noise = np.exp(2.0 * state.shared_theta[-1])
            cover = kernel[np.ix_(items, items)] + noise * np.eye(len(items))
            total -= 0.5 * (
                np.linalg.slogdet(2.0 * np.pi * cover)[1] + said @ np.linalg.solve(cover, said)
            )
        base = scales[0] + scales[1] * np.eye(6)
        gap = state.mean - state.level
        inside = _divergence(kernel[np.ix_(order, order)], base, tiers)
        return total - 0.5 * (inside + 2.0 * gap @ np.linalg.solve(kernel, gap))

    scales = result.state.scales
    best = objective(result.kernel, scales)
    np.testing.assert_allclose(best, result.log_evidence + result.log_prior, rtol=1e-9)
    for _ in range(12):
        step = RNG.normal(size=(6, 6))
        step = 1e-3 * (step + step.T)
        assert objective(result.kernel + step, scales) < best
    for factor in ([1.05, 1.0], [0.95, 1.0], [1.0, 1.05], [1.0, 0.95]):
        assert objective(result.kernel, scales * factor) < best
