"""Latents that are drawn given few others, by their sparse precision: against all covariances."""

import pickle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from compilations import keep_covariances_up_to
from numpy.testing import assert_allclose
from numpyro.contrib.control_flow import scan

from bayesrank.distributions import Thurstone
from bayesrank.infer import EP, large_solution, maximize_evidence
from bayesrank.infer.gaussian.links import LinkedGaussian, linked
from bayesrank.infer.gaussian.rows import Rows
from bayesrank.infer.gaussian.sparse import (
    Linkage,
    NotPositiveError,
    NotSolvedError,
    ShortRows,
    SparsePattern,
)
from bayesrank.infer.hyper.estimated import EstimatedEvidence
from bayesrank.infer.state import posterior_state

KEY = jax.random.key(0)
PLAYERS, PERIODS = 10, 8


def games():
    rng = np.random.default_rng(0)
    skill = np.cumsum(0.5 * rng.normal(size=(PLAYERS, PERIODS)), axis=1)
    pairs = np.array([rng.choice(PLAYERS, 2, replace=False) for _ in range(300)])
    period = rng.integers(PERIODS, size=300)
    margin = skill[pairs[:, 0], period] - skill[pairs[:, 1], period]
    won = margin + np.sqrt(2.0) * rng.normal(size=300) > 0
    return np.where(won[:, None], pairs, pairs[:, ::-1]), period


def observed(skill, pairs, period):
    margin = skill[pairs[:, 0], period] - skill[pairs[:, 1], period]
    numpyro.sample("won", Thurstone(margin, 1.0), obs=1)


def walks(pairs, period):
    steps = jnp.linspace(0.3, 0.7, PLAYERS)
    with numpyro.plate("players", PLAYERS):
        skill: Any = numpyro.sample("skill", dist.GaussianRandomWalk(steps, num_steps=PERIODS))
    observed(skill, pairs, period)


def teams_that_drift(pairs, period):
    """Two parents each: the skill before, and a team of a mean of its own; and a forecast."""
    team: Any = numpyro.sample("team", dist.Normal(0.4, 0.8).expand([3]))
    of_player = np.arange(PLAYERS) % 3
    skill = [jnp.asarray(numpyro.sample("skill0", dist.Normal(team[of_player], 1.0)))]
    for t in range(1, PERIODS):
        mean = 0.2 + 0.7 * skill[-1] + 0.3 * team[of_player]
        skill.append(jnp.asarray(numpyro.sample(f"skill{t}", dist.Normal(mean, 0.5))))
    numpyro.sample("next", dist.Normal(0.7 * skill[-1], 0.5))
    observed(jnp.stack(skill, axis=1), pairs, period)


def scanned(pairs, period):
    """Level and slope, from a start of their own; two steps are remembered."""
    start: Any = numpyro.sample("start", dist.Normal(0.3, 1.0).expand([PLAYERS]))

    def step(carry, pace):
        (level, before), slope = carry
        loc = level + 0.8 * slope - 0.1 * (level - before)
        now = numpyro.sample("level", dist.Normal(loc, 0.5))
        slope = numpyro.sample("slope", dist.Normal(pace * slope, 0.2))
        return ((now, level), slope), now

    init, pace = ((start, start), jnp.zeros(PLAYERS)), jnp.linspace(0.5, 1.0, PERIODS)
    observed(scan(step, init, pace, length=PERIODS)[1].T, pairs, period)


def summed(pairs, period):
    """What a scan carries is a sum of all steps before."""

    def step(skill, _):
        skill = skill + numpyro.sample("step", dist.Normal(jnp.zeros(PLAYERS), 0.5))
        return skill, skill

    observed(scan(step, jnp.zeros(PLAYERS), None, length=PERIODS)[1].T, pairs, period)


SLOW = [pytest.param(program, marks=pytest.mark.slow) for program in (teams_that_drift, scanned)]


@pytest.fixture(scope="module", params=[walks, *SLOW], ids=["walks", "teams", "scanned"])
def results(request):
    engines = (EP(request.param, structure=how) for how in ("dense", "probes"))
    return tuple(engine.run(KEY, *games()) for engine in engines)


def test_the_sparse_precision_is_the_dense_posterior(results):
    dense, sparse = results
    assert dense.structure == "dense" and sparse.structure != "dense" and sparse.converged
    assert sparse.posterior.structure == "probes" and sparse.shapes == dense.shapes
    size = dense.joint_mean.size
    stddev = np.sqrt(np.diagonal(dense.joint_covariance))
    assert np.max(np.abs(sparse.joint_mean - dense.joint_mean) / stddev) < 0.05
    assert_allclose(sparse.joint_covariance, dense.joint_covariance, atol=0.01)
    first, second = np.random.default_rng(1).integers(size, size=(2, 200))
    covariance = dense.joint_covariance
    true = covariance[first, first] + covariance[second, second] - 2 * covariance[first, second]
    told = sparse.posterior.pair_variances(first, second)
    assert_allclose(told, true, rtol=0.01, atol=1e-9)
    rough = np.sqrt(sparse.posterior.variances) / stddev
    assert abs(rough.mean() - 1) < 0.05 and rough.std() < 0.15
    draws = sparse.posterior.sample(KEY, 2000)
    moved = (draws[:, first] - draws[:, second]).std(axis=0)[true > 0] / np.sqrt(true[true > 0])
    assert abs(moved.mean() - 1) < 0.03 and moved.std() < 0.05
    off = sparse.log_evidence - dense.log_evidence
    assert abs(off) < 4 * sparse.log_evidence_error and sparse.log_evidence_error < 2


def test_links_are_the_prior():
    rng = np.random.default_rng(0)
    size = 30
    columns = np.array([rng.integers(max(k, 1), size=2) for k in range(size)])
    columns[:, 1] = np.where(columns[:, 1] == columns[:, 0], 0, columns[:, 1])
    values = rng.normal(size=(size, 2)) * [1.0, 0.5]
    values[:2], values[columns[:, 0] == columns[:, 1], 1] = 0.0, 0.0
    loc, spread = rng.normal(size=size), rng.uniform(0.5, 2.0, size)
    with jax.enable_x64(True):
        slopes = Rows(jnp.asarray(values), jnp.asarray(columns), size)
        mean, prior = linked(slopes, jnp.asarray(loc), jnp.asarray(spread))
        root = np.linalg.inv(np.eye(size) - np.asarray(slopes.dense()))
        assert_allclose(mean, root @ loc, rtol=1e-10)
        links = np.asarray(prior.links.dense())
        precision, covariance = links.T @ (links / spread[:, None]), root * spread @ root.T
        assert_allclose(precision @ covariance, np.eye(size), atol=1e-8)


def test_a_mean_that_is_not_a_number_comes_to_an_end():
    slopes = Rows(jnp.ones((3, 1)).at[0].set(0.0), jnp.array([[0], [0], [1]]), 3)
    mean, prior = linked(slopes, jnp.array([0.0, jnp.nan, 1.0]), jnp.ones(3))
    assert np.isnan(mean).tolist() == [False, True, True]
    assert_allclose(prior.variances, [1.0, 2.0, 3.0])


def test_a_posterior_of_walks_is_pickled_and_has_no_state():
    result: Any = EP(walks, structure="probes").run(KEY, *games(), num_samples=10)
    again = pickle.loads(pickle.dumps(result))
    assert_allclose(again.get_samples()["skill"], result.get_samples()["skill"], atol=1e-5)
    assert_allclose(*(x.difference([0], [9])[1] for x in (again, result)), rtol=1e-6)
    with pytest.raises(ValueError, match="drawn given one another"):
        posterior_state(result.posterior)


def test_what_is_not_read_as_links(monkeypatch):
    keep_covariances_up_to(50, monkeypatch)
    assert EP(summed).run(KEY, *games()).structure == "dense"  # right, with all covariances
    with pytest.raises(ValueError, match="also normal ones each drawn given few others"):
        EP(summed, structure="probes").run(KEY, *games())
    with pytest.raises(ValueError, match="structure='factorised' needs independent"):
        EP(walks, structure="factorised").run(KEY, *games())


def test_solutions_that_take_too_long_are_refused(monkeypatch):
    monkeypatch.setattr("bayesrank.infer.gaussian.sparse._MOST_ITERATIONS", 3)
    with pytest.raises(NotSolvedError, match="have not converged after 3 steps"):
        EP(walks, structure="probes").run(KEY, *games())


@pytest.mark.slow
def test_slopes_are_those_of_the_dense_integral(monkeypatch):
    monkeypatch.setattr("bayesrank.infer.gaussian.links.SLOPE_ROUNDS", 60)
    rng, size, count = np.random.default_rng(0), 12, 30
    own = np.arange(size)
    parents = np.array([rng.choice(max(k, 2), 2, replace=False) for k in range(size)])
    links = np.concatenate([np.ones((size, 1)), rng.normal(size=(size, 2))], axis=1)
    links[:2, 1:] = 0.0
    columns = np.concatenate([own[:, None], parents], axis=1)
    columns[:2, 1:] = columns[:2, :1]
    seen = np.array([rng.choice(size, 3, replace=False) for _ in range(count)])
    values, spread = rng.normal(size=(count, 3)), rng.uniform(0.5, 2.0, size)
    tau, nu = rng.uniform(0.0, 1.0, count), rng.normal(size=count)

    def integral(links, spread, values):
        root = jnp.zeros((size, size)).at[own[:, None], columns].add(links)
        rows = jnp.zeros((count, size)).at[np.arange(count)[:, None], seen].add(values)
        prior = root.T @ (root / spread[:, None])
        precision, shift = prior + rows.T @ (tau[:, None] * rows), rows.T @ nu
        determinants = jnp.linalg.slogdet(prior)[1] - jnp.linalg.slogdet(precision)[1]
        return 0.5 * (shift @ jnp.linalg.solve(precision, shift) + determinants)

    prior = Linkage(ShortRows(links, columns, size), spread)
    every = np.concatenate([links, values]), np.concatenate([columns, seen])
    gaussian = LinkedGaussian(SparsePattern(ShortRows(*every, size)), prior, tau, nu)
    told = gaussian.slopes(gaussian.mean(tol=1e-10))
    with jax.enable_x64(True):
        by_links, by_spread, by_rows = jax.grad(integral, (0, 1, 2))(links, spread, values)
    assert_allclose(told.prior[1], by_spread, atol=0.05)
    assert_allclose(told.rows, by_rows, atol=0.05)
    assert_allclose(told.prior[0][2:, 1:], by_links[2:, 1:], atol=0.1)


def drifting_teams(pairs, period, scores):
    """All scales, the share that a player has of a team, and the noise of scores are learned."""
    positive = dist.constraints.positive
    spread: Any = numpyro.sample("spread", dist.LogNormal(0.0, 1.0))
    share: Any = numpyro.param("share", 0.5)
    step: Any = numpyro.param("step", 0.3, constraint=positive)
    noise: Any = numpyro.param("noise", 0.5, constraint=positive)
    team: Any = numpyro.sample("team", dist.Normal(2.0, 1.0).expand([5]))
    level: Any = numpyro.sample("level", dist.Normal(share * team[np.arange(PLAYERS) % 5], 0.5))
    with numpyro.plate("players", PLAYERS):
        walk: Any = numpyro.sample("walk", dist.GaussianRandomWalk(step, num_steps=PERIODS))
    skill = level[:, None] + spread * walk
    observed(skill, pairs, period)
    numpyro.sample("score", dist.Normal(skill[:, -1], noise), obs=scores)


@pytest.mark.slow
def test_hyperparameters_are_learned_as_with_all_covariances():
    pairs, period = games()
    scores = 1.0 + np.random.default_rng(2).normal(size=PLAYERS)
    args = pairs, period, scores
    engines = EP(drifting_teams, structure="dense"), EP(drifting_teams, structure="probes")
    dense, sparse = (maximize_evidence(e, *args, params={"step": 0.4}) for e in engines)
    assert sparse.converged and sparse.num_evaluations < 30
    for name in ("spread", "share", "noise"):
        assert_allclose(sparse.params[name], dense.params[name], rtol=0.03)
    off = sparse.log_evidence - dense.log_evidence
    assert abs(off) < 2 * sparse.log_evidence_error < 4 and dense.log_evidence_error == 0
    with jax.enable_x64(True):
        fixed = {"step": 0.4}
        free = EstimatedEvidence(engines[1], engines[1].trace(args, {}, fixed), fixed)
        sites: Any = (np.ones(300), np.ones(PLAYERS)), (np.ones(300), np.ones(PLAYERS))
        nowhere, slope = free.evaluate_with_gradient(np.full(3, np.nan), sites)
    assert not nowhere.usable and np.isnan(slope).all()


@pytest.mark.slow
def test_a_point_without_a_proper_posterior_is_stepped_back_from(monkeypatch):
    engine, args = EP(drifting_teams, structure="probes"), (*games(), np.ones(PLAYERS))
    params = {"step": 0.4, "share": 0.5, "noise": 1.0}
    known, seen = maximize_evidence(engine, *args, params=params), []
    refined = large_solution.refined

    def sometimes(*arrays: Any, **options: Any) -> Any:
        seen.append(1)
        if len(seen) == 3:  # the run, the start, and the first step from it
            raise NotPositiveError
        return refined(*arrays, **options)

    monkeypatch.setattr(large_solution, "refined", sometimes)
    learned = maximize_evidence(engine, *args, params=params)
    assert learned.converged and len(seen) > 3
    assert_allclose(learned.params["spread"], known.params["spread"], rtol=0.03)
