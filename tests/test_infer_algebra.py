"""Gaussians kept by a sparse precision, by low rank, by groups or by an inverse: dense algebra."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpy.testing import assert_allclose

from bayesrank.infer import EP
from bayesrank.infer.gaussian import dense
from bayesrank.infer.gaussian.arrow import ArrowPrior, Groups, one_group_each
from bayesrank.infer.gaussian.dense import DensePrior, InvertedPrior, inverse_and_pivots
from bayesrank.infer.gaussian.links import LinkedGaussian, linked
from bayesrank.infer.gaussian.low_rank import LowRankGaussian
from bayesrank.infer.gaussian.protocol import SiteTerm
from bayesrank.infer.gaussian.rows import Rows
from bayesrank.infer.gaussian.sparse import (
    Diagonal,
    Forest,
    Linkage,
    ShortRows,
    SparseGaussian,
    SparsePattern,
)

SIZE, SITES = 50, 150


@pytest.fixture(autouse=True)
def doubles():
    with jax.enable_x64(True):
        yield


# ---------------------------------------------------------------- sparse precisions and low rank


def short_rows(rng):
    columns = np.array([rng.choice(SIZE, 3, replace=False) for _ in range(SITES)])
    return ShortRows(rng.normal(size=(SITES, 3)), columns, SIZE)


def trees(rng):
    """Each latent given two earlier ones, on one of which it depends more; some given none."""
    parents = np.array([rng.integers(max(k, 1), size=2) for k in range(SIZE)])
    weights = rng.uniform(0.5, 1.0, (SIZE, 2)) * [1.0, 0.2]
    weights[::7] = 0.0
    weights[parents[:, 0] == parents[:, 1], 1] = 0.0
    columns = np.concatenate([np.arange(SIZE)[:, None], parents], axis=1)
    values = np.concatenate([np.ones((SIZE, 1)), -weights], axis=1)
    return ShortRows(values, columns, SIZE), rng.uniform(0.1, 1.0, SIZE)


def dense_rows(values, columns):
    count = len(columns)
    return jnp.zeros((count, SIZE)).at[np.arange(count)[:, None], columns].add(values)


def problem(kind: str) -> tuple[Any, ...]:
    """A Gaussian, the function of its parts that is its prior's covariance, and those parts."""
    rng = np.random.default_rng(0)
    rows, tau, nu = short_rows(rng), rng.uniform(0.0, 1.0, SITES), rng.normal(size=SITES)
    if kind == "sparse":
        variances = rng.uniform(0.5, 2.0, SIZE)
        kept: Any = SparseGaussian(SparsePattern(rows), variances, tau, nu)
        return kept, rows, tau, nu, jnp.diag, (variances,)
    if kind == "linked":
        links, spread = trees(rng)
        values = np.concatenate([links.values, rows.values])
        columns = np.concatenate([links.columns, rows.columns])
        pattern = SparsePattern(ShortRows(values, columns, SIZE))
        kept = LinkedGaussian(pattern, Linkage(links, spread), tau, nu)

        def linked_covariance(values, spread):
            root = jnp.linalg.inv(dense_rows(values, links.columns))
            return (root * spread) @ root.T

        return kept, rows, tau, nu, linked_covariance, (links.values, spread)
    factor, variances = rng.normal(size=(SIZE, 6)), rng.uniform(0.01, 2.0, SIZE)
    pattern = SparsePattern(rows)
    near = LowRankGaussian(pattern, factor, variances, 0.9 * tau, nu).explained
    kept = LowRankGaussian(pattern, factor, variances, tau, nu, near, 1e-10)
    return kept, rows, tau, nu, lambda w, v: w @ w.T + jnp.diag(v), (factor, variances)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sparse", "linked", "low rank"])
def test_a_gaussian_is_that_of_matrices(kind, monkeypatch):
    monkeypatch.setattr("bayesrank.infer.gaussian.links.SLOPE_ROUNDS", 60)
    kept, rows, tau, nu, covariance_of, parts = problem(kind)
    matrix = rows.matrix().toarray()
    prior = np.asarray(covariance_of(*parts))
    covariance = np.linalg.inv(np.linalg.inv(prior) + (matrix.T * tau) @ matrix)
    mean = kept.mean(tol=1e-12)
    assert_allclose(mean, covariance @ matrix.T @ nu, atol=1e-6)
    assert_allclose(kept.solve(np.eye(SIZE), tol=1e-10), covariance, atol=1e-6)
    shares = np.einsum("gi,ij,gj->g", matrix, covariance, matrix)
    assert_allclose(kept.quadratic(rows), shares, rtol=1e-6)
    probes = kept.probes(0, 4000)
    assert_allclose(kept.margin_variances(probes, rows), shares, rtol=0.05)
    assert_allclose(kept.latent_variances(probes), np.diagonal(covariance), rtol=0.06)
    drawn = np.cov(kept.sample(np.random.default_rng(1), 20_000).T)
    assert_allclose(drawn, covariance, atol=0.05)
    found, error = kept.log_determinant(0)
    true = -np.linalg.slogdet(covariance)[1]
    if kind == "low rank":  # beside that of its own variances
        true += np.linalg.slogdet(prior)[1] - np.sum(np.log(parts[1]))
    assert abs(found - true) < 4 * error and error < 2
    if kind == "sparse":
        return

    @jax.jit
    @partial(jax.grad, argnums=(0, 1))
    def slopes(parts, values):
        prior, rows_ = covariance_of(*parts), dense_rows(values, rows.columns)
        shift, changed = rows_.T @ nu, jnp.eye(SIZE) + prior @ ((rows_.T * tau) @ rows_)
        quadratic = shift @ jnp.linalg.solve(changed, prior @ shift)
        return 0.5 * (quadratic - jnp.linalg.slogdet(changed)[1])

    told, (by_parts, by_rows) = kept.slopes(mean), slopes(parts, rows.values)
    assert_allclose(told.rows, by_rows, atol=0.1)
    seen = (parts[0] != 0) if kind == "linked" else np.ones_like(parts[0], bool)
    seen[:, 0] &= kind == "low rank"
    assert_allclose(np.asarray(told.prior[0])[seen], np.asarray(by_parts[0])[seen], atol=0.15)
    assert_allclose(told.prior[1], by_parts[1], atol=0.2)


def test_links_are_the_prior():
    rows, spread = trees(np.random.default_rng(0))
    loc = np.random.default_rng(1).normal(size=SIZE)
    slopes = Rows(jnp.asarray(-rows.values[:, 1:]), jnp.asarray(rows.columns[:, 1:]), SIZE)
    prior_of = jax.jit(lambda loc: linked(slopes, loc, jnp.asarray(spread)))
    mean, prior = prior_of(jnp.asarray(loc))
    root = np.linalg.inv(rows.matrix().toarray())
    assert_allclose(mean, root @ loc, rtol=1e-10)
    links = np.asarray(prior.links.dense())
    precision = links.T @ (links / spread[:, None])
    assert_allclose(precision @ (root * spread @ root.T), np.eye(SIZE), atol=1e-8)
    lost = prior_of(jnp.asarray(loc).at[1].set(jnp.nan))[0]  # the walk over parents ends
    assert np.isnan(lost[1]) and not np.isnan(lost[0])


def test_a_forest_keeps_the_strongest_parent():
    rng = np.random.default_rng(0)
    (rows, spread), order = trees(rng), rng.permutation(SIZE)
    links, own = Linkage(rows, spread).strongest(order)
    kept = rows.values.copy()
    kept[:, 2] = 0.0
    expected = ShortRows(kept, rows.columns, SIZE).matrix().toarray()
    assert_allclose(links.toarray(), expected[order][:, order])
    prior = links.toarray().T @ (links.toarray() / own[:, None])
    forest = prior + np.diag(np.maximum(50.0 - np.diagonal(prior), 0.0))
    diagonal, right = np.linspace(1.0, 2.0, SIZE), rng.normal(size=(SIZE, 4))
    for near, matrix in (
        (Forest(links, own, np.full(SIZE, 50.0)), forest),
        (Diagonal(diagonal), np.diag(diagonal)),
    ):
        assert_allclose(near.solve(right), np.linalg.solve(matrix, right), rtol=1e-9, atol=1e-12)
        assert_allclose(near.log_determinant(), np.linalg.slogdet(matrix)[1])
        drawn = near.rough(np.random.default_rng(1), 20_000)
        assert_allclose(drawn @ drawn.T / 20_000, matrix, atol=0.04 * matrix.max())
        single: Any = right.astype(np.float32)
        assert near.solve(single).dtype == np.float32


def test_solutions_near_a_forest_leave_what_they_are_given():
    kept = problem("linked")[0]
    for dtype, tol, close in ((np.float64, 1e-10, 1e-8), (np.float32, 1e-4, 2e-3)):
        right: Any = np.random.default_rng(2).normal(size=(SIZE, 3)).astype(dtype)
        given, before = right.copy(), np.ones_like(right)
        exact = np.linalg.solve(kept.precision.toarray(), right)
        assert_allclose(kept.solve(right, before, tol=tol), exact, rtol=close, atol=close)
        assert_allclose(right, given)
        assert_allclose(before, 1.0)


def test_few_steps_are_enough_in_a_long_walk(monkeypatch):
    """Of 2,000 small steps with little data, without what is near it, CG takes thousands."""
    monkeypatch.setattr("bayesrank.infer.gaussian.sparse._MOST_ITERATIONS", 20)
    size = 2000
    own = np.arange(size)
    values = np.stack([np.ones(size), np.where(own > 0, -1.0, 0.0)], axis=1)
    rows = ShortRows(values, np.stack([own, np.maximum(own - 1, 0)], axis=1), size)
    seen = np.arange(0, size, 100)
    sites = np.stack([np.ones(seen.size), np.zeros(seen.size)], 1), np.stack([seen, seen], 1)
    both = np.concatenate([values, sites[0]]), np.concatenate([rows.columns, sites[1]])
    spread = np.where(own > 0, 1e-4, 1.0)
    tau = np.concatenate([1 / spread, np.ones(seen.size)])
    made = SparsePattern(ShortRows(*both, size)), np.full(size, np.inf), tau, np.ones(tau.size)
    walk = SparseGaussian(*made, links=Linkage(rows, spread))
    covariance = 1.0 + np.cumsum(np.where(own > 0, 1e-4, 0.0))
    prior = np.minimum(covariance[:, None], covariance)[seen][:, seen]
    exact = prior - prior @ np.linalg.solve(prior + np.eye(seen.size), prior)
    first = ShortRows(sites[0][:1], sites[1][:1], size)
    assert_allclose(walk.quadratic(first), exact[0, 0], rtol=1e-5)
    with pytest.raises(ValueError, match="have not converged after 20 steps"):
        SparseGaussian(*made).quadratic(first)


# ---------------------------------------------------------------- groups beside a core

CORE, COUNT, EACH = 3, 5, 2
ALL = CORE + COUNT * EACH


def core_and_groups():
    """A prior, the same prior dense, and sites that see two of the core and one group each."""
    rng = np.random.default_rng(0)
    root, variances = rng.normal(size=(CORE, CORE)), rng.uniform(0.3, 2.0, COUNT * EACH)
    groups = Groups.of(rng.permutation(np.repeat(np.arange(COUNT), EACH)))
    prior = ArrowPrior(DensePrior(jnp.asarray(root @ root.T)), jnp.asarray(variances), groups)
    covariance = np.diag(np.concatenate([np.zeros(CORE), variances]))
    covariance[:CORE, :CORE] = root @ root.T
    terms = []
    for sites in (7, 20):
        own = CORE + groups.latent[rng.integers(COUNT, size=sites)]
        columns = np.concatenate([rng.integers(CORE, size=(sites, 2)), own], axis=1)
        rows = Rows(jnp.asarray(rng.normal(size=columns.shape)), jnp.asarray(columns), ALL)
        tau, nu = rng.uniform(0.1, 3.0, sites), rng.normal(size=sites)
        terms.append(SiteTerm(rows, jnp.asarray(tau), jnp.asarray(nu)))
    return prior, DensePrior(jnp.asarray(covariance)), terms


@pytest.mark.slow
def test_groups_beside_a_core_are_the_dense_posterior():
    prior, whole, terms = core_and_groups()
    every = Rows(jnp.eye(ALL), None, ALL)

    def figures(prior):
        posterior, alone = prior.times(terms), prior.alone()
        numbers = posterior.mean, posterior.covariance, posterior.log_normaliser
        numbers += posterior.margins(terms[1].rows), posterior.margins(every)
        numbers += alone.covariance, alone.margins(terms[0].rows)[1]

        def normaliser(scale):
            move = jax.tree.map(
                lambda x: scale * x if jnp.issubdtype(x.dtype, jnp.floating) else x, prior
            )
            return move.log_normaliser(terms, posterior)

        return posterior, (*numbers, jax.grad(normaliser)(1.0))

    (posterior, found), (_, wanted) = (jax.jit(partial(figures, x))() for x in (prior, whole))
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert_allclose(one, other, rtol=1e-9, atol=1e-11)
    assert posterior.valid and posterior.mean.size == ALL


def test_rows_that_see_two_groups_are_told():
    prior, _, terms = core_and_groups()
    columns = jnp.asarray(CORE + prior.groups.latent[:2, 0])[None]
    assert one_group_each(prior.groups, terms[0].rows)
    assert not one_group_each(prior.groups, Rows(jnp.ones((1, 2)), columns, ALL))
    assert one_group_each(prior.groups, Rows(jnp.array([[1.0, 0.0]]), columns, ALL))


# ---------------------------------------------------------------- a prior inverted once

FEW = 11


@pytest.fixture
def small_blocks(monkeypatch):
    """Few latents are inverted too, and by halves."""
    monkeypatch.setattr(dense, "LARGEST_BLOCK", 6)


def smooth(jitter=1e-3, scale=2.0):
    place = jnp.linspace(0.0, 3.0, FEW)
    return scale * (jnp.exp(-0.5 * (place[:, None] - place) ** 2) + jitter * jnp.eye(FEW))


def comparisons(tau):
    """Sites of which one has a negative precision, as where a likelihood is not log-concave."""
    rng = np.random.default_rng(0)
    first = rng.integers(FEW, size=30)
    second = (first + 1 + rng.integers(FEW - 1, size=30)) % FEW
    values = jnp.tile(jnp.array([1.0, -1.0]), (30, 1))
    rows = Rows(values, jnp.asarray(np.stack([first, second], axis=1)), FEW)
    return [SiteTerm(rows, tau * jnp.ones(30).at[3].set(-0.02), jnp.asarray(rng.normal(size=30)))]


def inverted_prior(covariance):
    prior = DensePrior(covariance).prepared()
    assert isinstance(prior, InvertedPrior)
    return prior


@pytest.mark.slow
def test_an_inverse_by_halves_gives_what_the_solution_by_lu_gives(small_blocks):
    inverse, covariance = jax.jit(inverse_and_pivots), smooth()
    found, pivots = inverse(covariance)
    assert_allclose(found @ covariance, np.eye(FEW), atol=1e-9)
    assert_allclose(np.log(pivots).sum(), np.linalg.slogdet(covariance)[1], rtol=1e-12)
    assert np.isnan(inverse(covariance - 20 * np.eye(FEW))[1]).any()
    prior = inverted_prior(covariance)
    assert prior.trusted
    both = jax.jit(lambda tau: [x.times(comparisons(tau)) for x in (prior, prior.prior)])
    for tau in (0.3, 50.0):
        told, known = both(tau)
        for name, value in known._asdict().items():
            assert_allclose(getattr(told, name), value, rtol=1e-9, atol=1e-11, err_msg=name)
        assert told.valid
    no_posterior = comparisons(0.3)[0]._replace(tau=jnp.full(30, -1.0))
    assert not prior.times([no_posterior]).valid


@pytest.mark.slow
def test_a_prior_too_near_singular_is_left_to_lu(small_blocks):
    third = jnp.eye(FEW).at[:, 2].set(0.0).at[2, :2].set(1.0)  # the sum of the first two
    for near in (0.0, 1e-12):
        prior = inverted_prior((third @ smooth() @ third.T).at[2, 2].add(near))
        assert not prior.trusted
        told, known = prior.times(comparisons(0.3)), prior.prior.times(comparisons(0.3))
        assert_allclose(told.covariance, known.covariance, rtol=1e-12, atol=1e-12)
        assert told.valid


PAIRS = np.stack([np.arange(30) % 5, 5 + np.arange(30) % 6], axis=1)


def evidence_and_slope(scale):
    """From an engine of its own, so that code is compiled as things stand."""

    def program(scale, pairs):
        f: Any = numpyro.sample("f", dist.MultivariateNormal(jnp.zeros(FEW), smooth(scale=scale)))
        numpyro.sample("win", dist.Bernoulli(logits=f[pairs[:, 0]] - f[pairs[:, 1]]), obs=1)

    engine = EP(program, tol=1e-9)
    return jax.value_and_grad(lambda scale: engine.log_evidence({}, scale, PAIRS))(scale)


@pytest.mark.slow
def test_evidence_its_derivative_and_batches_are_those_of_lu(request):
    scales = jnp.array([0.5, 2.0])
    by_lu = jax.jit(evidence_and_slope)(scales[1])
    request.getfixturevalue("small_blocks")
    assert_allclose(jax.jit(lambda scale: evidence_and_slope(scale))(scales[1]), by_lu, rtol=1e-9)
    batch = jax.jit(jax.vmap(evidence_and_slope))(scales)
    assert_allclose([each[1] for each in batch], by_lu, rtol=1e-9)
    priors = jax.vmap(lambda scale: DensePrior(smooth(scale=scale)).prepared())(jnp.ones(2))
    assert isinstance(priors, InvertedPrior) and not priors.trusted.any()


# The data say nothing of the level, and far more of differences than the prior says of it.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("variance", "precision", "dtype"),
    [
        (1e5, 1.0, "float64"),
        (1.0, 30.0, "float32"),
        (20.0, 30.0, "float32"),
        (40.0, 0.1, "float32"),
    ],
)
def test_digits_of_latents_that_share_a_wide_level_are_not_lost(variance, precision, dtype):
    size = 420
    first = np.arange(4 * size) % size
    pairs = np.stack([first, (first + 1 + np.arange(4 * size) // size * 17) % size], axis=1)
    values = jnp.tile(jnp.array([1.0, -1.0], dtype), (4 * size, 1))
    rows = Rows(values, jnp.asarray(pairs), size)
    taus = jnp.full(4 * size, precision, dtype)
    prior = inverted_prior(jnp.asarray(variance + np.eye(size), dtype))
    told = prior.times([SiteTerm(rows, taus, jnp.zeros_like(taus))])
    # With no shift of the level, ``I`` and the sites have a posterior of their own beside it.
    matrix = np.asarray(rows.dense(), float)
    spread = np.eye(size) + precision * matrix.T @ matrix
    known, tolerance = np.linalg.inv(spread), 1e-8 if dtype == "float64" else 1e-4
    assert told.valid
    assert_allclose(told.log_normaliser, -0.5 * np.linalg.slogdet(spread)[1], rtol=tolerance)
    if dtype == "float64":
        expected = rows.quadratic(jnp.asarray(known))
        assert_allclose(rows.quadratic(told.covariance), expected, rtol=1e-8)
    else:
        expected = np.diagonal(known) + variance
        assert_allclose(jnp.diagonal(told.covariance), expected, rtol=2e-3)
