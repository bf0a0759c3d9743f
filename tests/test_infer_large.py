"""Many independent latents without a joint covariance, against the dense posterior of fewer."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from compilations import keep_covariances_up_to
from numpy.testing import assert_allclose

from bayesrank import to_arviz
from bayesrank._memory import TooLargeError
from bayesrank.diagnostics import crosscheck
from bayesrank.infer import (
    EP,
    AccuracyWarning,
    IntegratedEP,
    NestedEP,
    maximize_evidence,
)
from bayesrank.infer.gaussian.sparse import ShortRows, SparseGaussian, SparsePattern
from bayesrank.models import thurstone

KEY = jax.random.key(0)


def games(kind, items, count, scale=1.0):
    """Comparisons (winner, loser): who meets whom as in arenas, leagues, or by rating."""
    rng = np.random.default_rng(1)
    skill = scale * rng.normal(size=items)
    first = rng.integers(items, size=count)
    if kind == "random":
        second = rng.integers(items, size=count)
    elif kind == "popular":
        share = 1.0 / np.arange(1, items + 1) ** 0.7
        first, second = rng.choice(items, (2, count), p=share / share.sum())
    elif kind == "leagues":
        second = first // 50 * 50 + rng.integers(50, size=count)
        across = rng.random(count) < 0.02
        second[across] = rng.integers(items, size=across.sum())
    else:  # opponents of similar rating
        order = np.argsort(skill)
        place = np.empty(items, int)
        place[order] = np.arange(items)
        near = place[first] + np.rint(5 * rng.normal(size=count)).astype(int)
        second = order[np.clip(near, 0, items - 1)]
    apart = first != second
    first, second = first[apart], second[apart]
    won = skill[first] - skill[second] + np.sqrt(2.0) * rng.normal(size=first.size) > 0
    return np.stack([np.where(won, first, second), np.where(won, second, first)], axis=1)


GRAPHS = {
    "random": ("random", 1.0),
    "popular": ("popular", 1.0),
    "leagues": ("leagues", 1.0),
    "similar": ("similar", 1.0),
    "similar-weak": ("similar", 5.0),
}


def fitted(pairs, items, scale, structure):
    engine = EP(thurstone, structure=structure, max_sweeps=1000)
    return engine.run(KEY, items, pairs, params={"scale": scale})


@pytest.fixture(scope="module", params=sorted(GRAPHS))
def graph(request):
    kind, scale = GRAPHS[request.param]
    pairs = games(kind, 400, 2400, scale)
    return request.param, {
        structure: fitted(pairs, 400, scale, structure)
        for structure in ("dense", "factorised", "probes")
    }


def test_probes_are_the_dense_posterior(graph):
    _, results = graph
    dense, probes = results["dense"], results["probes"]
    assert probes.structure != "dense" and probes.converged
    first, second = np.random.default_rng(2).integers(400, size=(2, 500))
    mean, stddev = dense.difference(first, second)
    told_mean, told = probes.difference(first, second)
    known = stddev > 0
    assert_allclose(told[known], stddev[known], rtol=0.02)
    assert np.all(told[~known] < 1e-6)
    off = (told_mean - mean)[known] / stddev[known]
    assert np.sqrt(np.mean(off**2)) < 0.01
    rough = probes.difference(first, second, exact=False)[1][known] / stddev[known]
    assert abs(rough.mean() - 1) < 0.02 and rough.std() < 0.08
    assert abs(np.mean(probes.stddev["f"] / dense.stddev["f"]) - 1) < 0.02
    assert abs(probes.log_evidence - dense.log_evidence) < 4 * probes.log_evidence_error + 0.5


def test_the_approximation_is_told_from_pairs_that_never_met(graph):
    name, results = graph
    first, second = np.random.default_rng(3).integers(400, size=(2, 500))
    true = results["dense"].difference(first, second)[1]
    told = results["factorised"].difference(first, second, exact=False)[1]
    bias = np.mean(told[true > 0] / true[true > 0]) - 1
    approximation = results["factorised"].approximation
    assert approximation.structure == "factorised"
    assert abs(approximation.bias - bias) < 0.03
    if name == "similar-weak":
        assert approximation.bias < -0.08
        assert "of pairs that never met by -" in repr(results["factorised"])
    assert results["probes"].approximation.error < 0.08


def test_draws_have_the_moments_of_the_posterior(graph):
    _, results = graph
    first, second = np.random.default_rng(4).integers(400, size=(2, 200))
    for structure, exact in (("factorised", False), ("probes", True)):
        result = results[structure]
        draws = result.get_samples()["f"]
        mean, stddev = result.difference(first, second, exact=exact)
        moved = draws[:, first] - draws[:, second]
        known = stddev > 0
        assert_allclose(moved.mean(0)[known], mean[known], atol=5 * stddev.max() / 1000**0.5)
        assert abs(np.mean(moved.std(0)[known] / stddev[known]) - 1) < 0.01


@pytest.mark.slow
def test_on_a_tree_messages_are_exact():
    rng = np.random.default_rng(0)
    parents = [rng.integers(k) for k in range(1, 60)]
    pairs = np.stack([np.arange(1, 60), parents], axis=1)
    pairs = np.where(rng.random((59, 1)) < 0.5, pairs, pairs[:, ::-1])
    dense, factorised = (fitted(pairs, 60, 1.5, s) for s in ("dense", "factorised"))
    assert factorised.converged
    assert_allclose(factorised.mean["f"], dense.mean["f"], atol=1e-3)
    assert_allclose(factorised.stddev["f"], dense.stddev["f"], rtol=1e-3)
    assert_allclose(factorised.log_evidence, dense.log_evidence, atol=1e-3)
    assert factorised.structure != "dense" and factorised.log_evidence_error == 0


def with_field_and_ties(columns, levels, counts):
    """Rows of three latents, one of which may stand there twice; ties; and counts of one."""
    skill = jnp.asarray(numpyro.sample("skill", dist.Normal(0.3, 1.2).expand([40])))
    field = jnp.asarray(numpyro.sample("field", dist.Normal(0.0, 0.5).expand([6])))
    left, right, at = columns.T
    margin = skill[left] - skill[right] + 2.0 * field[at] - field[(at + left) % 6]
    cuts = jnp.array([-0.4, 0.4])
    numpyro.sample("level", dist.OrderedLogistic(margin, cuts), obs=levels)
    numpyro.sample("count", dist.Poisson(jnp.exp(0.5 * skill)), obs=counts)


@pytest.mark.slow
def test_rows_of_several_latents_and_several_kinds_of_data():
    rng = np.random.default_rng(0)
    columns = np.stack([*rng.integers(40, size=(2, 300)), rng.integers(6, size=300)], axis=1)
    args = columns, rng.integers(3, size=300), rng.poisson(1.5, 40)
    dense, probes = (
        EP(with_field_and_ties, structure=s).run(KEY, *args) for s in ("dense", "probes")
    )
    assert probes.structure != "dense" and probes.converged
    assert set(probes.shapes) == {"skill", "field"}
    for name in ("skill", "field"):
        off = (probes.mean[name] - dense.mean[name]) / dense.stddev[name]
        assert np.sqrt(np.mean(off**2)) < 0.05
        assert_allclose(probes.stddev[name], dense.stddev[name], rtol=0.2)
    first = np.arange(39)
    mean, stddev = dense.difference(first, first + 1, site="skill")
    told_mean, told = probes.difference(first, first + 1, site="skill")
    assert_allclose(told, stddev, rtol=0.02)
    assert_allclose(told_mean, mean, atol=0.1 * stddev.max())
    assert_allclose(probes.joint_covariance, dense.joint_covariance, atol=0.02)
    assert abs(probes.log_evidence - dense.log_evidence) < 4 * probes.log_evidence_error + 0.5


def gaussian():
    rng = np.random.default_rng(0)
    columns = np.array([rng.choice(50, 3, replace=False) for _ in range(150)])
    values = rng.normal(size=(150, 3)) * (rng.random((150, 3)) < 0.8)
    rows, variances = ShortRows(values, columns, 50), rng.uniform(0.5, 2.0, 50)
    tau = rng.uniform(0.0, 2.0, 150)
    dense = np.diag(1 / variances) + rows.matrix().toarray().T * tau @ rows.matrix().toarray()
    kept = SparseGaussian(SparsePattern(rows), variances, tau, rng.normal(size=150))
    return kept, rows.matrix().toarray(), dense


def test_sparse_precision_against_matrices():
    kept, matrix, dense = gaussian()
    covariance = np.linalg.inv(dense)
    assert_allclose(kept.precision.toarray(), dense, atol=1e-12)
    assert_allclose(kept.mean(tol=1e-12), covariance @ matrix.T @ kept.nu, atol=1e-9)
    variances = np.einsum("gi,ij,gj->g", matrix, covariance, matrix)
    assert_allclose(kept.quadratic(kept.pattern.rows), variances, rtol=1e-8)
    probes = kept.probes(0, 4000)
    seen = variances > 0
    assert_allclose(kept.margin_variances(probes)[seen], variances[seen], rtol=0.05)
    assert_allclose(kept.margin_variances(probes, kept.pattern.rows), kept.margin_variances(probes))
    assert_allclose(kept.latent_variances(probes), np.diagonal(covariance), rtol=0.05)
    drawn = np.cov(kept.sample(np.random.default_rng(1), 20_000).T)
    assert_allclose(drawn, covariance, atol=0.04)
    found, error = kept.log_determinant(0, count=200)
    assert abs(found - np.linalg.slogdet(dense)[1]) < 4 * error
    assert error < 1


@pytest.mark.slow
def test_bethes_evidence_and_its_slope():
    pairs = games("random", 60, 400)
    engine = EP(thurstone, structure="factorised", tol=1e-9)
    with jax.enable_x64(True):

        def height(scale):
            return engine.log_evidence({"scale": scale}, 60, pairs)

        slope = jax.grad(height)(1.3)
        assert_allclose(slope, (height(1.301) - height(1.299)) / 0.002, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["random", "leagues"])
def test_the_scale_is_learned_as_with_a_dense_posterior(kind):
    pairs = games(kind, 300, 1500)
    found = [
        float(maximize_evidence(EP(thurstone, structure=s), 300, pairs).params["scale"])
        for s in ("dense", "factorised")
    ]
    assert_allclose(found[1], found[0], rtol=0.02)


@pytest.mark.slow
def test_which_structure_is_found(monkeypatch):
    keep_covariances_up_to(59, monkeypatch)
    pairs = games("random", 59, 300)
    assert fitted(pairs, 59, 1.0, "auto").structure == "dense"
    result = fitted(pairs, 60, 1.0, "auto")
    assert result.structure != "dense" and result.converged
    assert result.posterior.structure == "probes"
    assert "result.approximation" in repr(result)
    assert to_arviz(result).posterior["f"].shape == (1, 1000, 60)
    with pytest.raises(TooLargeError, match="see approximation"):
        _ = result.trust
    # What has no such structure stays dense, however large.
    assert EP(correlated).run(KEY, games("random", 60, 99), 60).structure == "dense"


@pytest.mark.slow
def test_covariances_of_more_are_refused(monkeypatch):
    result = fitted(games("random", 50, 300), 50, 1.0, "probes")
    monkeypatch.setattr("bayesrank.infer.posterior._MOST_TOGETHER", 49)
    with pytest.raises(TooLargeError, match="the covariances of 50 latents are not kept"):
        _ = result.covariance
    with pytest.raises(ValueError, match="second is out of range: 'f' has latents 0 to 49"):
        result.difference(0, 50)
    with pytest.raises(ValueError, match="site is 'g'"):
        result.difference(0, 1, site="g")


def correlated(pairs, size):
    prior = dist.MultivariateNormal(jnp.zeros(size), jnp.eye(size) + 1.0)
    f = jnp.asarray(numpyro.sample("f", prior))
    numpyro.sample("win", dist.Bernoulli(logits=f[pairs[:, 0]] - f[pairs[:, 1]]), obs=1)


def heavy_tails(y):
    f = jnp.asarray(numpyro.sample("f", dist.Normal(0.0, 3.0).expand([9])))
    numpyro.sample("y", dist.StudentT(2.0, f[np.zeros(len(y), int)], 0.3), obs=y)


@pytest.mark.slow
def test_likelihoods_that_are_not_log_concave_leave_each_latent_alone(monkeypatch):
    y = np.array([1.0, 1.1, 0.9, 1.2, 4.0])
    dense = EP(heavy_tails).run(KEY, y)
    keep_covariances_up_to(5, monkeypatch)
    with pytest.warns(AccuracyWarning, match="EP keeps each latent alone"):
        result = EP(heavy_tails).run(KEY, y)
    assert result.structure == "factorised"
    # Each datum sees one latent, so that nothing is lost.
    assert_allclose(result.mean["f"], dense.mean["f"], atol=1e-3)
    assert_allclose(result.stddev["f"], dense.stddev["f"], rtol=1e-3)


@pytest.mark.slow
def test_what_a_structure_cannot_take_is_refused():
    with pytest.raises(ValueError, match="choose one of .'auto', 'dense'"):
        EP(thurstone, structure="sparse")
    pairs = games("random", 9, 40)
    with pytest.raises(ValueError, match="structure='probes' needs independent Gaussian latents"):
        EP(correlated, structure="probes").run(KEY, pairs, 9)
    with pytest.raises(ValueError, match="needs power=1 and independent"):
        EP(thurstone, structure="factorised", power=0.5).run(KEY, 9, pairs)
    with pytest.raises(ValueError, match="no covariances are made, which this engine needs"):
        IntegratedEP(EP(thurstone, structure="factorised")).run(KEY, 9, pairs)
    with pytest.raises(ValueError, match="need sites of positive precision"):
        EP(heavy_tails, structure="probes").run(KEY, np.array([9.0, 9.1, 8.9, 9.0, 0.0]))


@pytest.mark.slow
def test_what_needs_all_covariances_is_refused_before_it_takes_time(monkeypatch):
    """Of the same latents a search for hyperparameters, NUTS or a guide would take minutes."""
    monkeypatch.setattr("bayesrank.infer.posterior._MOST_TOGETHER", 30)
    keep_covariances_up_to(30, monkeypatch)
    pairs = np.stack([np.arange(40), np.arange(1, 41)], axis=1)
    engines: Any = (IntegratedEP, NestedEP)
    for engine in engines:
        with pytest.raises(ValueError, match="no covariances are made, which this engine needs"):
            engine(thurstone).run(KEY, 41, pairs, callback=pytest.fail)
    found: Any = EP(thurstone).run(KEY, 41, pairs, params={"scale": 1.0}, num_samples=2)
    for ask in (found.autoguide, found.nuts_settings):
        with pytest.raises(ValueError, match="the covariances of 41 latents are not kept"):
            ask()
    with pytest.raises(ValueError, match="of 41 latents EP keeps no covariances, and NUTS"):
        crosscheck(found)
