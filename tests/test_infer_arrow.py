"""Latents of groups eliminated group by group, against the dense Gaussian of all of them."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from bayesrank.infer.gaussian.arrow import ArrowPrior, Groups, one_group_each
from bayesrank.infer.gaussian.dense import DensePrior
from bayesrank.infer.gaussian.protocol import SiteTerm
from bayesrank.infer.gaussian.rows import Rows

CORE, COUNT, EACH = 3, 5, 2
SIZE = CORE + COUNT * EACH


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def problem():
    """A prior, the same prior dense, and sites that see two of the core and one group each."""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(CORE, CORE))
    group = rng.permutation(np.repeat(np.arange(COUNT), EACH))
    groups = Groups.of(group)
    variances = rng.uniform(0.3, 2.0, COUNT * EACH)
    prior = ArrowPrior(DensePrior(jnp.asarray(root @ root.T)), jnp.asarray(variances), groups)
    dense = np.zeros((SIZE, SIZE))
    dense[:CORE, :CORE] = root @ root.T
    dense[CORE:, CORE:] = np.diag(variances)
    terms = []
    for sites in (7, 20):
        own = CORE + groups.latent[rng.integers(COUNT, size=sites)]
        columns = np.concatenate([rng.integers(CORE, size=(sites, 2)), own], axis=1)
        rows = Rows(jnp.asarray(rng.normal(size=columns.shape)), jnp.asarray(columns), SIZE)
        tau, nu = rng.uniform(0.1, 3.0, sites), rng.normal(size=sites)
        terms.append(SiteTerm(rows, jnp.asarray(tau), jnp.asarray(nu)))
    return prior, DensePrior(jnp.asarray(dense)), terms


def test_is_the_dense_posterior():
    prior, dense, terms = problem()
    every = Rows(jnp.eye(SIZE), None, SIZE)

    def figures(prior):
        posterior = prior.times(terms)
        return posterior.valid, (
            posterior.mean,
            posterior.covariance,
            posterior.log_normaliser,
            posterior.margins(terms[1].rows),
            posterior.margins(every),
            posterior.covariance_of(terms[0].rows, every),
        )

    (valid, found), (_, wanted) = (jax.jit(partial(figures, x))() for x in (prior, dense))
    assert valid
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert_allclose(one, other, atol=1e-11)


def test_its_prior_alone_is_the_prior():
    prior, dense, terms = problem()

    def figures(prior):
        alone = prior.alone()
        return alone.covariance, alone.margins(terms[0].rows)[1]

    found, wanted = (jax.jit(partial(figures, x))() for x in (prior, dense))
    for one, other in zip(found, wanted, strict=True):
        assert_allclose(one, other)
    assert prior.size == SIZE


@pytest.mark.slow
def test_its_normaliser_has_the_derivative_of_the_dense_one():
    prior, dense, terms = problem()

    def slope(prior, posterior):
        def of(scale):
            scaled = jax.tree.map(
                lambda x: scale * x if jnp.issubdtype(x.dtype, jnp.floating) else x, prior
            )
            return scaled.log_normaliser(terms, posterior)

        return jax.jit(jax.grad(of))(1.0)

    found, wanted = (slope(x, jax.jit(partial(x.times, terms))()) for x in (prior, dense))
    assert_allclose(found, wanted, rtol=1e-9)


def test_draws_have_its_moments():
    prior, _, terms = problem()

    def figures():
        posterior = prior.times(terms)
        return posterior.mean, posterior.covariance, posterior.sample(jax.random.key(0), 20_000)

    mean, covariance, draws = map(np.asarray, jax.jit(figures)())
    error = np.sqrt(np.diagonal(covariance) / len(draws))
    assert (np.abs(draws.mean(0) - mean) < 4.5 * error).all()
    assert_allclose(np.cov(draws, rowvar=False), covariance, atol=0.08)


def test_tells_rows_that_see_two_groups():
    prior, _, terms = problem()
    assert one_group_each(prior.groups, terms[0].rows)
    columns = jnp.asarray(CORE + prior.groups.latent[:2, 0])[None]
    assert not one_group_each(prior.groups, Rows(jnp.ones((1, 2)), columns, SIZE))
    assert one_group_each(prior.groups, Rows(jnp.array([[1.0, 0.0]]), columns, SIZE))
