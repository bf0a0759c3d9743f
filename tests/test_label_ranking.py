"""Calibrated label ranking: conditions, the program under all engines, and the elimination."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from jax.extend.core import jaxprs_in_params
from numpy.testing import assert_allclose
from numpyro.infer import MCMC, NUTS, Predictive

from bayesrank.distributions import Thurstone
from bayesrank.infer import EP
from bayesrank.models.label_ranking import (
    LEVEL,
    calibrated_label_ranking,
    conditions,
    label_features,
)
from bayesrank.solvers.label_ranking import LabelRankingEP, check_label_memory

KEY = jax.random.key(0)
GIVEN = {"scale": 0.8, "zero_noise": 0.5}


def simulated(seed, n=30, c=3, p=2, scale=0.8, zero_noise=0.5):
    """Examples with top rankings drawn from the program; some labels' relevance left unsaid."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    bias, w = LEVEL * rng.normal(size=c), scale * rng.normal(size=(c, p))
    performance = bias + X @ w.T + rng.normal(size=(n, c))
    relevant = (performance > zero_noise * rng.normal(size=(n, 1))).astype(int)
    rankings: list[Any] = [
        [int(a) for a in np.argsort(-row) if chosen[a]]
        for row, chosen in zip(performance, relevant, strict=True)
    ]
    relevant[::4, 0] = np.where(relevant[::4, 0] == 0, -1, relevant[::4, 0])
    rankings[1], relevant[2] = None, -1
    return X, conditions(c, rankings, relevant), bias, w


def stated(found):
    return [
        {(int(b), int(w)) for b, w in zip(*row, strict=True) if b >= 0}
        for row in zip(*found, strict=True)
    ]


def test_neighbours_of_a_top_ranking_say_everything():
    found = conditions(4, [[2, 0], None, [3, (0, 1)], {(1, 0), (0, 3), (1, 3)}])
    assert stated(found) == [{(2, 0)}, set(), {(3, 0), (3, 1)}, {(1, 0), (0, 3)}]
    found = conditions(4, [[2, 0], []], [[1, 0, 1, 0], [0, 0, 0, 0]])
    assert stated(found)[0] == {(2, 0), (0, 4), (4, 1), (4, 3)}
    assert stated(found)[1] == {(4, label) for label in range(4)}


def holds(order, pairs):
    place = {alternative: number for number, alternative in enumerate(order)}
    return all(place[better] < place[worse] for better, worse in pairs)


@pytest.mark.parametrize("seed", range(10))
def test_conditions_allow_the_same_orders_and_none_can_be_left_out(seed):
    rng = np.random.default_rng(seed)
    order = rng.permutation(5)
    zero = 4
    pairs = {
        (int(a), int(b))
        for a, b in itertools.combinations(order, 2)
        if zero not in (a, b) and rng.random() < 0.6
    }
    place = np.argsort(order)
    relevant = np.where(rng.random(4) < 0.7, place[:4] < place[zero], -1)
    said = pairs | {(a, zero) for a in range(4) if relevant[a] == 1}
    said |= {(zero, a) for a in range(4) if relevant[a] == 0}
    if not said:
        return
    [kept] = stated(conditions(4, [pairs], relevant[None]))
    every = list(itertools.permutations(range(5)))
    assert [o for o in every if holds(o, said)] == [o for o in every if holds(o, kept)]
    for pair in kept:
        assert any(holds(o, kept - {pair}) and not holds(o, kept) for o in every)


@pytest.mark.parametrize(
    ("rankings", "relevant", "message"),
    [
        (None, None, "rankings and relevant are missing"),
        ([[0, 1]], [[1, 1, 1]] * 2, "has 1 examples and relevant 2"),
        ([None, []], None, "no example says anything"),
        ([[0, 1, 0]], None, "names a label twice in example 0"),
        ([[0, 3]], None, "names 3 in example 0; the labels are numbered 0 to 2"),
        ([["a", 1]], None, "names 'a' in example 0"),
        ([{(0, 1), (1, 2), (2, 0)}], None, "label 0 would be better than itself"),
        ([{0, 1}], None, "not one of pairs"),
        ([None, [0, 1]], [[1, 0, 0], [0, 1, -1]], "example 1 contradicts itself: label 0 would"),
        (None, [[1, 0]], "pass numbers \\(n, 3\\)"),
        (None, [[1, 0, 2]], "relevant is 2 in row 0, column 2; pass 1 for"),
        (None, [["a", "b", "c"]], "and dtype <U1; pass numbers"),
    ],
)
def test_refuses_what_are_no_targets(rankings, relevant, message):
    with pytest.raises(ValueError, match=message):
        conditions(3, rankings, relevant)


def test_the_program_refuses_conditions_of_other_labels():
    with pytest.raises(ValueError, match="worse is 4 in row 0, column 1; pass numbers from 0 to 3"):
        numpyro.handlers.seed(calibrated_label_ranking, 0)(
            np.ones((1, 1)), *conditions(4, [[0, 1]], [[1, 1, -1, -1]]), 3
        )


@pytest.fixture(scope="module")
def posterior_of_two():
    data = conditions(2, [[1, 0], None], [[1, 1], [1, 0]])
    return LabelRankingEP().run(KEY, np.array([[1.0], [-0.5]]), *data, 2, params=GIVEN)


def test_posterior_is_that_of_simulation(posterior_of_two):
    """Utilities and performances from the prior, kept where they come out as observed."""
    rng, count, result = np.random.default_rng(0), 400_000, posterior_of_two
    X = np.array([[1.0], [-0.5]])
    bias, w = LEVEL * rng.normal(size=(count, 2)), 0.8 * rng.normal(size=(count, 2))
    performance = bias[:, None] + w[:, None] * X + rng.normal(size=(count, 2, 2))
    zero = 0.5 * rng.normal(size=(count, 2))
    first = (performance[:, 0, 1] > performance[:, 0, 0]) & (performance[:, 0, 0] > zero[:, 0])
    second = (performance[:, 1, 0] > zero[:, 1]) & (performance[:, 1, 1] < zero[:, 1])
    kept = first & second
    for name, draws in (("bias", bias[kept]), ("w", w[kept])):
        mean, sd = result.mean[name].ravel(), result.sd[name].ravel()
        error = 4 * draws.std(0) / np.sqrt(kept.sum())
        assert (np.abs(mean - draws.mean(0)) < error + 0.01).all()
        assert_allclose(sd, draws.std(0), rtol=0.03)
    share = kept.mean()
    error = 4 * np.sqrt((1 - share) / share / count)
    assert_allclose(result.log_evidence, np.log(share), atol=error + 0.01)


def joint(X, better, worse, num_labels):
    """The program without plates, so that all performances stay in one covariance."""
    bias = numpyro.sample("bias", dist.Normal(0.0, LEVEL).expand([num_labels]).to_event(1))
    shape = [num_labels, X.shape[1]]
    w = numpyro.sample("w", dist.Normal(0.0, GIVEN["scale"]).expand(shape).to_event(2))
    size = [len(X), num_labels + 1]
    noise = numpyro.sample("noise", dist.Normal(0.0, 1.0).expand(size).to_event(2))
    utility = jnp.asarray(bias) + X @ jnp.asarray(w).T
    performance = jnp.pad(utility, ((0, 0), (0, 1)))
    performance += noise * jnp.append(jnp.ones(num_labels), GIVEN["zero_noise"])
    rows = np.arange(len(X))[:, None]
    margin = performance[rows, jnp.maximum(better, 0)] - performance[rows, jnp.abs(worse)]
    law = Thurstone(margin, 0.02).mask(better >= 0)
    numpyro.sample("order", law.to_event(2), obs=jnp.ones(better.shape, int))


def assert_alike(one, other):
    assert one.converged and other.converged
    for name in ("bias", "w"):
        off = (one.mean[name] - other.mean[name]) / other.sd[name]
        assert_allclose(off, 0, atol=1e-4)
        assert_allclose(one.sd[name], other.sd[name], rtol=1e-4)
    assert_allclose(one.log_evidence, other.log_evidence, atol=1e-3)


R = np.array([[1.0, 0.7, -0.3], [0.7, 1.0, 0.1], [-0.3, 0.1, 1.0]])
SMOOTH = {"scale": 1.1, "lengthscale": 1.5}
RELATED = {**GIVEN, "correlation": R}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "given", "power"),
    [(20, GIVEN, 1), (90, GIVEN, 1), (15, RELATED, 1), (60, RELATED, 1)]
    + [(15, SMOOTH, 1), (15, SMOOTH, 0.5)],
)
def test_elimination_gives_what_all_performances_together_give(n, given, power):
    """What EP finds by the program's trace: of many examples that is an arrow."""
    X, data, _, _ = simulated(1, n)
    options: dict[str, Any] = {"correlated": given is RELATED}
    if given is SMOOTH:
        data = conditions(3, [[0, 2, 1], [1, (0, 2)], [2, 1]] * 5)
        options = {"basis": X[:6], "calibrated": False, "step": 0.1}
    fast = LabelRankingEP(power=power).run(KEY, X, *data, 3, params=given, **options)
    engine = EP(calibrated_label_ranking, power=power)
    slow = engine.run(KEY, X, *data, 3, params=given, num_samples=5, **options)
    assert_alike(fast, slow)
    if n < 50 and given is not SMOOTH:
        assert_allclose(fast.joint_covariance, slow.joint_covariance[:9, :9], atol=1e-4)
    if n == 20:
        assert_alike(fast, EP(joint).run(KEY, X, *data, 3, num_samples=5))
        assert fast.marginalized_sites == ("noise",)


def test_correlated_weights_are_those_of_the_program():
    """Draws of the program have the covariance scale^2 R for each feature."""
    X, data, _, _ = simulated(7, 5)
    given: Any = {"scale": 0.8, "zero_noise": 0.5, "correlation": jnp.asarray(R)}
    model = numpyro.handlers.condition(calibrated_label_ranking, given)
    draw = Predictive(model, num_samples=4000, batch_ndims=1)
    w = np.asarray(draw(KEY, X, *data, 3, correlated=True)["w"])
    assert_allclose(np.einsum("sap,sbp->ab", w, w) / w.shape[0] / w.shape[2], 0.64 * R, atol=0.05)


def test_a_basis_of_all_examples_is_the_gaussian_process():
    X = np.random.default_rng(3).normal(size=(8, 2))
    with jax.enable_x64(True):
        phi = np.asarray(label_features(jnp.asarray(X), jnp.asarray(X), 1.5))
    distance = ((X[:, None] - X[None]) ** 2).sum(-1)
    assert_allclose(phi @ phi.T, np.exp(-distance / 2 / 1.5**2), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["scale", "lengthscale", "zero_noise", "correlation"])
def test_evidence_has_the_slope_of_finite_differences(name):
    X, data, _, _ = simulated(4, 12)
    engine, correlated = LabelRankingEP(tol=1e-9), name == "correlation"
    with jax.enable_x64(True):

        def evidence(x):
            params: Any = {"scale": 1.2, "lengthscale": 1.3, "zero_noise": 0.6}
            if correlated:
                params = {**GIVEN, name: jnp.eye(3).at[0, 1].set(x).at[1, 0].set(x)}
            else:
                params[name] = x
            options = {"correlated": True} if correlated else {"basis": X[:5]}
            return engine.log_evidence(params, X, *data, 3, **options)

        value_and_slope = jax.jit(jax.value_and_grad(evidence))
        ends = [value_and_slope(0.4 + step)[0] for step in (1e-4, -1e-4)]
        slope = value_and_slope(0.4)[1]
    assert_allclose(slope, (ends[0] - ends[1]) / 2e-4, rtol=1e-4, atol=1e-5)


def factorised(jaxpr):
    """Numbers of dimensions of all matrices that a trace factorises or solves with."""
    for equation in jaxpr.eqns:
        if equation.primitive.name in {"cholesky", "lu", "eigh", "triangular_solve"}:
            yield equation.invars[0].aval.ndim
        for inner in jaxprs_in_params(equation.params):
            yield from factorised(inner)


def test_many_small_matrices_are_not_factorised_at_once():
    """Where two such calls run together, XLA's threads can wait for each other for ever."""
    X, data, _, _ = simulated(6, 8)
    engine = LabelRankingEP()

    def evidence(scale):
        return engine.log_evidence({"scale": scale, "zero_noise": 0.5}, X, *data, 3)

    with jax.enable_x64(True):
        found = list(factorised(jax.make_jaxpr(jax.grad(evidence))(0.8).jaxpr))
    assert found and set(found) == {2}


@pytest.mark.slow
def test_nuts_runs_the_program():
    """With steps that are not as hard: NUTS has to walk along them."""
    X, data, _, _ = simulated(5, 12)
    result = LabelRankingEP().run(KEY, X, *data, 3, params=GIVEN, step=0.5)
    given: Any = GIVEN
    held = numpyro.handlers.condition(calibrated_label_ranking, given)
    mcmc = MCMC(NUTS(held), num_warmup=150, num_samples=400, progress_bar=False)
    mcmc.run(KEY, X, *data, 3, step=0.5)
    draws = np.asarray(mcmc.get_samples()["w"])
    assert_allclose((draws.mean(0) - result.mean["w"]) / result.sd["w"], 0, atol=0.3)
    assert_allclose(draws.std(0), result.sd["w"], rtol=0.2)


@pytest.mark.slow
def test_intervals_hold_what_they_say():
    """Weights and differences of weights drawn from the prior; 90% intervals."""
    held, engine = [], LabelRankingEP()
    for seed in range(60):
        X, data, _, w = simulated(100 + seed, 25)
        result = engine.run(KEY, X, *_wide(data, 4), 3, params=GIVEN, num_samples=1)
        off = (result.mean["w"] - w) / result.sd["w"]
        held.append(np.mean(np.abs(off) < 1.645))
    error = np.std(held) / np.sqrt(len(held))
    assert abs(np.mean(held) - 0.9) < 3.5 * error


def _wide(data, width):
    """Conditions padded to one width, so that nothing is compiled again."""
    return [np.pad(part, ((0, 0), (0, width - part.shape[1])), constant_values=-1) for part in data]


def test_says_what_does_not_fit_into_memory():
    check_label_memory(1000, 5, 10)
    with pytest.raises(ValueError, match="fits of 1,000,100 weights .100 labels"):
        check_label_memory(1000, 100, 10_000)
