"""EP without a joint covariance, structure by structure, against the dense posterior."""

import pickle
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from compilations import keep_covariances_up_to
from numpy.testing import assert_allclose
from structure_worlds import (
    ITEMS,
    KEY,
    PERIODS,
    PLAYERS,
    RANK,
    WORLDS,
    World,
    beaten,
    correlated,
    features_and_pairs,
    field,
    games,
    heavy_tails,
    normal,
    run,
    sample,
    seasons,
    smooth_skills,
    summed,
    weighed_features,
)

from bayesrank import gp, to_arviz
from bayesrank._memory import TooLargeError
from bayesrank.diagnostics import crosscheck
from bayesrank.infer import (
    EP,
    AccuracyWarning,
    large_solution,
)
from bayesrank.infer.gaussian.sparse import NotPositiveError
from bayesrank.infer.hyper.estimated import EstimatedEvidence
from bayesrank.models import thurstone

positive = dist.constraints.positive


FAST = "walks", "weights"


@pytest.fixture(
    scope="module",
    params=[n if n in FAST else pytest.param(n, marks=pytest.mark.slow) for n in WORLDS],
)
def results(request):
    world = WORLDS[request.param]
    return world, run(world, "dense"), run(world, world.structure)


def test_a_structure_is_the_dense_posterior(results):
    world, dense, kept = results
    assert dense.structure == "dense" and kept.structure == world.structure and kept.converged
    assert kept.shapes == dense.shapes
    sd = np.sqrt(np.diagonal(dense.joint_covariance))
    assert np.max(np.abs(kept.joint_mean - dense.joint_mean) / sd) < 0.05
    scale = np.outer(sd, sd)
    assert_allclose(kept.joint_covariance / scale, dense.joint_covariance / scale, atol=0.03)
    off = kept.log_evidence - dense.log_evidence
    assert abs(off) < 4 * kept.log_evidence_error + 0.5 and kept.log_evidence_error < 2
    rough = np.concatenate([np.ravel(kept.sd[name]) for name in dense.sd])
    rough = rough / np.concatenate([np.ravel(x) for x in dense.sd.values()])
    assert abs(rough.mean() - 1) < 0.6 * world.rough and rough.std() < world.rough
    assert kept.approximation.error < 0.1
    if world.structure == "low_rank":
        factor, diagonal = kept.posterior.factors()
        told = factor @ factor.T + np.diag(diagonal)
        assert np.sqrt(np.mean((told - dense.joint_covariance) ** 2)) < 0.01


def test_differences_and_draws_are_those_of_the_dense_posterior(results):
    world, dense, kept = results
    drawn = kept.get_samples()
    for site, shape in dense.shapes.items():
        size = int(np.prod(shape, dtype=int))
        if size < 5:
            continue
        first, second = np.random.default_rng(2).integers(size, size=(2, 200))
        first, second = first[first != second], second[first != second]
        (mean, sd), (told_mean, told) = (
            x.difference(first, second, site=site) for x in (dense, kept)
        )
        assert_allclose(told, sd, rtol=0.02)
        assert np.sqrt(np.mean(((told_mean - mean) / sd) ** 2)) < 0.03
        rough = kept.difference(first, second, site=site, exact=False)[1] / sd
        assert abs(rough.mean() - 1) < 0.4 * world.rough and rough.std() < world.rough
        draws = drawn[site].reshape(-1, size)
        moved = draws[:, first] - draws[:, second]
        assert_allclose(moved.mean(0), mean, atol=5 * sd.max() / 1000**0.5)
        assert abs(np.mean(moved.std(0) / sd) - 1) < 0.03


@pytest.mark.slow
@pytest.mark.parametrize("name", ["random", "similar"])
def test_the_bias_of_latents_kept_alone_is_told_from_pairs_that_never_met(name):
    dense, alone = (run(WORLDS[name], how) for how in ("dense", "factorised"))
    first, second = np.random.default_rng(3).integers(200, size=(2, 500))
    true = dense.difference(first, second)[1]
    told = alone.difference(first, second, exact=False)[1]
    bias = np.mean(told[true > 0] / true[true > 0]) - 1
    assert alone.approximation.structure == "factorised" and alone.converged
    assert abs(alone.approximation.bias - bias) < 0.04
    moved = alone.get_samples()["f"][:, first] - alone.get_samples()["f"][:, second]
    assert abs(np.mean(moved.std(0)[told > 0] / told[told > 0]) - 1) < 0.01
    if name == "similar":
        assert alone.approximation.bias < -0.08
        assert "of pairs that never met by -" in repr(alone)


@pytest.mark.slow
def test_on_a_tree_messages_are_exact_and_bethes_evidence_has_its_slope():
    rng = np.random.default_rng(0)
    pairs = np.stack([np.arange(1, 60), [rng.integers(k) for k in range(1, 60)]], axis=1)
    pairs = np.where(rng.random((59, 1)) < 0.5, pairs, pairs[:, ::-1])
    tree = World(thurstone, ((60, pairs), {"scale": 1.5}), "factorised")
    dense, alone = (run(tree, s) for s in ("dense", "factorised"))
    assert alone.converged and alone.log_evidence_error == 0
    for told, true in ((alone.mean, dense.mean), (alone.sd, dense.sd)):
        assert_allclose(told["f"], true["f"], atol=1e-3)
    assert_allclose(alone.log_evidence, dense.log_evidence, atol=1e-3)
    engine, pairs = EP(thurstone, structure="factorised", tol=1e-9), games("random", 60, 400)
    with jax.enable_x64(True):
        height = jax.jit(lambda scale: engine.log_evidence({"scale": scale}, 60, pairs))
        slope = jax.jit(jax.grad(height))(1.3)
        assert_allclose(slope, (height(1.301) - height(1.299)) / 0.002, rtol=1e-4)


# ---------------------------------------------------------------- hyperparameters


def learned_scale(pairs):
    beaten(normal("f", 150, scale=sample("spread", dist.HalfNormal(3.0))), pairs)


def drifting_teams(pairs, scores):
    """All scales, the share that a player has of a team, and the noise of scores are learned."""
    spread = sample("spread", dist.LogNormal(0.0, 1.0))
    share: Any = numpyro.param("share", 0.5)
    noise: Any = numpyro.param("noise", 0.5, constraint=positive)
    team = normal("team", 5, 2.0)
    level = sample("level", dist.Normal(share * team[np.arange(PLAYERS) % 5], 0.5))
    with numpyro.plate("players", PLAYERS):
        walk = sample("walk", dist.GaussianRandomWalk(0.4, num_steps=PERIODS))
    skill = level[:, None] + spread * walk
    beaten(skill.ravel(), pairs)
    sample("score", dist.Normal(skill[:, -1], noise), obs=scores)


def learned_kernel(X, pairs, scores):
    """Kernel, the scale of what the likelihood sees, and the noise of scores are learned."""
    amplitude = sample("amplitude", dist.LogNormal(0.0, 1.0))
    lengthscale: Any = numpyro.param("lengthscale", 0.6, constraint=positive)
    share: Any = numpyro.param("share", 0.7, constraint=positive)
    noise: Any = numpyro.param("noise", 0.7, constraint=positive)
    f = sample("f", gp.inducing_point_prior(gp.rbf(amplitude, lengthscale), X, 8))
    beaten(share * f, pairs)
    sample("score", dist.Normal(f[: len(scores)], noise), obs=scores)


def learned_weights(X, pairs):
    weighed_features(X, pairs, sample("scale", dist.LogNormal(0.0, 1.0)))


def scores_of(size):
    rng = np.random.default_rng(3)
    return 2 * np.sin(6 * field()[0][0][:size]).sum(axis=1) + 0.5 * rng.normal(size=size)


LEARNED = {
    "factorised": (learned_scale, (games("random", 150, 750),)),
    "probes": (drifting_teams, (*seasons()[0], 1.0 + np.random.default_rng(2).normal(size=10))),
    "low_rank": (learned_kernel, (*features_and_pairs()[0], scores_of(40))),
    "low_rank of weights": (learned_weights, features_and_pairs()[0]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNED)
def test_hyperparameters_are_learned_as_with_all_covariances(name):
    program, args = LEARNED[name]
    dense, kept = (
        EP(program, structure=how, hyperparameters="map").run(KEY, *args)
        for how in ("dense", name.split()[0])
    )
    assert kept.converged and dense.log_evidence_error == 0
    for site, value in dense.params.items():
        assert_allclose(kept.params[site], value, rtol=0.05)
    off = kept.log_evidence - dense.log_evidence
    assert abs(off) < 4 * kept.log_evidence_error + 0.5 and kept.log_evidence_error < 2


@pytest.mark.slow
def test_a_point_without_a_proper_posterior_is_stepped_back_from(monkeypatch):
    engine = EP(drifting_teams, structure="probes", hyperparameters="map")
    args = LEARNED["probes"][1]
    params = {"share": 0.5, "noise": 1.0}
    known, seen = engine.run(KEY, *args, params=params), []
    refined = large_solution.refined

    def sometimes(*arrays: Any, **options: Any) -> Any:
        seen.append(1)
        if len(seen) == 3:  # the run, the start, and the first step from it
            raise NotPositiveError
        return refined(*arrays, **options)

    monkeypatch.setattr(large_solution, "refined", sometimes)
    learned = engine.run(KEY, *args, params=params)
    assert learned.converged and len(seen) > 3
    assert_allclose(learned.params["spread"], known.params["spread"], rtol=0.03)
    with jax.enable_x64(True):
        free = EstimatedEvidence(engine, engine.trace(args, {}, params), params)
        sites: Any = (np.ones(300), np.ones(PLAYERS)), (np.ones(300), np.ones(PLAYERS))
        nowhere, slope = free.evaluate_with_gradient(np.full(1, np.nan), sites)
    assert not nowhere.usable and np.isnan(slope).all()


# ---------------------------------------------------------------- which structure is found


@pytest.mark.slow
def test_the_structure_is_found(monkeypatch):
    keep_covariances_up_to(59, monkeypatch)
    pairs = games("random", 59, 300)
    few, many = (
        EP(thurstone).run(KEY, n, pairs, params={"scale": 1.0}, num_samples=20) for n in (59, 60)
    )
    assert few.structure == "dense" and many.structure == "probes" and many.converged
    assert "result.approximation" in repr(many)
    assert to_arviz(many).posterior["f"].shape == (1, 20, 60)
    with pytest.raises(TooLargeError, match="see approximation"):
        _ = many.accuracy
    for program, args in ((smooth_skills, field()[0]), (weighed_features, features_and_pairs()[0])):
        found = EP(program, max_sweeps=4, tol=10.0, precision="float32").run(KEY, *args)
        assert found.structure == "low_rank"
    # What has no such structure stays dense, however large.
    assert EP(correlated).run(KEY, 60, pairs).structure == "dense"
    assert EP(summed).run(KEY, *seasons()[0]).structure == "dense"


@pytest.mark.slow
def test_likelihoods_that_are_not_log_concave_leave_each_latent_alone(monkeypatch):
    y = np.array([1.0, 1.1, 0.9, 1.2, 4.0])
    dense = EP(heavy_tails).run(KEY, y)
    keep_covariances_up_to(5, monkeypatch)
    with pytest.warns(AccuracyWarning, match="EP treats latents as independent"):
        result = EP(heavy_tails).run(KEY, y)
    assert result.structure == "factorised"
    # Each datum sees one latent, so that nothing is lost.
    assert_allclose(result.mean["f"], dense.mean["f"], atol=1e-3)
    assert_allclose(result.sd["f"], dense.sd["f"], rtol=1e-3)


def test_a_posterior_of_walks_is_pickled():
    result: Any = run(WORLDS["walks"], "probes")
    again = pickle.loads(pickle.dumps(result))
    assert_allclose(again.get_samples()["skill"], result.get_samples()["skill"], atol=1e-5)
    assert_allclose(*(x.difference([0], [9])[1] for x in (again, result)), rtol=1e-6)


@pytest.mark.slow
def test_low_rank_says_what_it_leaves_out():
    told = run(WORLDS["features"], "low_rank").approximation
    assert str(told).startswith("low_rank. Standard deviations") and told.rank == RANK
    assert f"rank {RANK}; the data reveal" in told.sentence
    # Residuals matter here: without them, the process is another one.
    prior: Any = gp.inducing_point_prior(gp.rbf(2.0, 0.4), jnp.asarray(field()[0][0]), RANK)
    assert np.mean(np.asarray(prior.cov_diag) / np.asarray(prior.variance)) > 0.05


@pytest.mark.slow
def test_features_are_the_process_and_enough_rank_leaves_little_to_be_seen():
    X, kernel, precision = field()[0][0], gp.rbf(2.0, 0.4), np.linspace(0.0, 2.0, ITEMS)
    with jax.enable_x64(True):
        true = np.asarray(gp.gram(kernel, jnp.asarray(X)))
        errors, seen = {}, {}
        for rank in (10, 50, ITEMS):
            prior: Any = gp.inducing_point_prior(kernel, jnp.asarray(X), rank)
            assert_allclose(np.asarray(prior.variance), 4.0, rtol=1e-4)
            errors[rank] = np.abs(np.asarray(prior.covariance_matrix) - true).max()
            left = np.asarray(prior.cov_diag) * precision
            seen[rank] = np.mean(left / (1 + left))
        assert errors[ITEMS] < 2e-5 < 1e-2 < errors[50] < errors[10] / 3
        enough = gp.choose_num_inducing(kernel, X, precision)
        assert (
            enough in seen
            and seen[enough] < 0.01
            and gp.choose_num_inducing(kernel, X, 1e-6) <= enough
        )
        for wrong, message in (
            (-precision, "precision has entries that are negative"),
            (np.inf, "negative or not finite"),
            (np.ones(3), r"precision has shape \(3,\)"),
        ):
            with pytest.raises(ValueError, match=message):
                gp.choose_num_inducing(kernel, X, wrong)
    with pytest.raises(TypeError, match="call it before the program"):
        jax.eval_shape(lambda x: gp.choose_num_inducing(kernel, x, 1.0), jnp.asarray(X))
    with pytest.raises(ValueError, match="rank is 0"):
        gp.inducing_point_prior(kernel, jnp.asarray(X), 0)
    with pytest.raises(ValueError, match="rank is 7, and inducing has 5 points; pass rank=5"):
        gp.inducing_point_prior(kernel, jnp.asarray(X), 7, inducing=jnp.asarray(X[:5]))
    with pytest.raises(ValueError, match=r"such as gp.choose_num_inducing\(kernel, X, precision\)"):
        EP(smooth_skills).run(KEY, *field()[0], rank="auto")


# ---------------------------------------------------------------- refusals

PAIR = np.array([[0, 1], [1, 2]])


@pytest.mark.slow
def test_integrals_over_hyperparameters_are_refused(monkeypatch):
    message = "an average over hyperparameters needs covariances"
    with pytest.raises(ValueError, match=message):
        EP(thurstone, structure="factorised").run(KEY, 9, PAIR)
    with pytest.raises(ValueError, match=f"{message}.*use EP.hyperparameters='map'"):
        EP(learned_kernel, structure="low_rank").run(KEY, *LEARNED["low_rank"][1])
    monkeypatch.setattr("bayesrank.infer.posterior._MOST_TOGETHER", 30)
    keep_covariances_up_to(30, monkeypatch)
    pairs = np.stack([np.arange(40), np.arange(1, 41)], axis=1)
    for choice in ("integrate", "nuts"):
        with pytest.raises(ValueError, match=message):
            EP(thurstone, hyperparameters=choice).run(
                KEY, 41, pairs, callback=cast(Any, pytest.fail)
            )
    found: Any = EP(thurstone).run(KEY, 41, pairs, params={"scale": 1.0}, num_samples=2)
    for ask in (found.autoguide, found.nuts_settings, lambda: found.covariance):
        with pytest.raises((ValueError, TooLargeError), match="the covariances of 41 latents are"):
            ask()
    with pytest.raises(ValueError, match="EP keeps no covariances of 41 latents, and NUTS"):
        crosscheck(found)
    for wrong, message in (
        ({"second": 41}, "second is out of range: 'f' has latents 0 to 40"),
        ({"second": 1, "site": "g"}, "site is 'g'"),
    ):
        with pytest.raises(ValueError, match=message):
            found.difference(0, **wrong)


@pytest.mark.slow
def test_features_that_leave_no_room_are_refused_in_numbers(monkeypatch):
    monkeypatch.setattr("bayesrank._memory.available", lambda: 5_000)
    monkeypatch.setattr("bayesrank.infer.compiled.check_compiled", lambda *_: None)
    monkeypatch.setattr("bayesrank.infer.compiled.check_trace", lambda *_: None)
    with pytest.raises(TooLargeError, match="the 12 features of 104 latents take"):
        EP(smooth_skills, structure="low_rank").run(KEY, *field()[0])


def test_solutions_that_take_too_long_are_refused(monkeypatch):
    monkeypatch.setattr("bayesrank.infer.gaussian.sparse._MOST_ITERATIONS", 3)
    with pytest.raises(ValueError, match="have not converged after 3 steps"):
        run(WORLDS["walks"], "probes")
