"""The site algebra of EP by itself, and the algorithm as the paper prints it."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from infer_oracles import pair_rows, rbf
from numpy.testing import assert_allclose
from scipy.stats import norm

from bayesrank.distributions import Thurstone, TiltedMoments
from bayesrank.infer import EP, sites
from bayesrank.infer.gaussian.dense import DensePrior, DiagonalPrior
from bayesrank.infer.gaussian.protocol import SiteTerm
from bayesrank.infer.gaussian.rows import Rows
from bayesrank.infer.reader.program import read_program
from bayesrank.infer.reader.traced import trace

RNG = np.random.default_rng(3)
X = RNG.uniform(size=(6, 2))
WINNER = np.array([0, 1, 2, 0, 3, 2, 5, 1])
LOSER = np.array([1, 2, 3, 2, 1, 1, 0, 4])
NOISE = 0.6
GRAPH = np.diag(np.full(6, 2.0)) - np.eye(6, k=1) - np.eye(6, k=-1)


def pairs_gp(graph: np.ndarray | None = None) -> Any:
    def model(winner, loser):
        f: Any = numpyro.sample("f", dist.MultivariateNormal(0.0, rbf(X, 0.5, 1.2)))
        if graph is not None:
            numpyro.factor("graph", -0.5 * f @ graph @ f)
        numpyro.sample("win", Thurstone(f[winner] - f[loser], NOISE), obs=1)

    return model


# ---------------------------------------------------------------- the paper's algorithm


def appendix_a(
    sigma: np.ndarray, graph: np.ndarray, winner: np.ndarray, loser: np.ndarray, noise: float
) -> tuple[np.ndarray, np.ndarray, float]:
    """Chu and Ghahramani (2005), appendix A, line by line: 2 x 2 sites, one at a time."""
    count = len(winner)
    one_1, one_2 = np.array([1.0, -1.0]), np.array([[1.0, -1.0], [-1.0, 1.0]])
    pi, psi, s = np.zeros((count, 2, 2)), np.zeros((count, 2)), np.ones(count)
    h, a = np.zeros(len(sigma)), np.linalg.inv(np.linalg.inv(sigma) + graph)
    for _ in range(200):
        before = psi.copy(), pi.copy()
        for k in range(count):
            pair = np.array([winner[k], loser[k]])
            lam, h_k = a[np.ix_(pair, pair)], h[pair]
            lam_cav = np.linalg.inv(np.linalg.inv(lam) - pi[k])
            h_cav = h_k + lam_cav @ (pi[k] @ h_k - psi[k])
            sigma_star = np.sqrt(2 * noise**2 + np.trace(lam_cav @ one_2))
            z = one_1 @ h_cav / sigma_star
            big_z = norm.cdf(z)
            gamma = norm.pdf(z) / (sigma_star * big_z) * one_1
            beta = -z * norm.pdf(z) / (2 * sigma_star**2 * big_z) * one_2
            omega = np.outer(gamma, gamma) - 2 * beta
            h_new = h_cav + lam_cav @ gamma
            lam_new = lam_cav - lam_cav @ omega @ lam_cav
            pi_new = np.linalg.inv(lam_new) - np.linalg.inv(lam_cav)
            psi_new = np.linalg.inv(lam_new) @ lam_cav @ gamma + pi_new @ h_cav
            weighted = np.linalg.solve(lam_cav, h_cav)
            b = h_cav @ weighted - (psi_new + weighted) @ lam_new @ (psi_new + weighted)
            widening = np.linalg.det((np.linalg.inv(lam_cav) + pi_new) @ lam_cav)
            s[k] = big_z * np.sqrt(widening) * np.exp(0.5 * b)
            columns, inverse = a[:, pair], np.linalg.inv(lam)
            upsilon = inverse @ (lam_new - lam) @ inverse
            eta = inverse @ lam_cav @ (gamma + pi[k] @ h_k - psi[k])
            assert_allclose(h_k + lam @ eta, h_new, atol=1e-9)
            a, h = a + columns @ upsilon @ columns.T, h + columns @ eta
            pi[k], psi[k] = pi_new, psi_new
        if max(np.abs(psi - before[0]).max(), np.abs(pi - before[1]).max()) < 1e-11:
            break
    shift = np.zeros(len(sigma))
    np.add.at(shift, winner, psi[:, 0])
    np.add.at(shift, loser, psi[:, 1])
    log_evidence = 0.5 * (np.linalg.slogdet(a)[1] - np.linalg.slogdet(sigma)[1])
    return h, a, log_evidence + 0.5 * shift @ a @ shift + np.log(s).sum()


@pytest.mark.parametrize("graph", [None, pytest.param(GRAPH, marks=pytest.mark.slow)])
def test_paper_algorithm(graph):
    """Same fixed point, and the same evidence as its equation (11), with and without the graph."""
    result = EP(pairs_gp(graph), tol=1e-9).run(jax.random.key(0), WINNER, LOSER)
    no_graph = np.zeros((6, 6))
    mean, covariance, log_evidence = appendix_a(
        rbf(X, 0.5, 1.2), no_graph if graph is None else graph, WINNER, LOSER, NOISE
    )
    assert result.converged
    assert_allclose(result.mean["f"], mean, atol=1e-7)
    assert_allclose(result.covariance["f"], covariance, atol=1e-7)
    assert_allclose(result.log_evidence, log_evidence, atol=1e-7)


def test_evidence_formula():
    """At any sites, converged or not: the same number by the Cholesky form of the evidence."""
    tau, nu = RNG.uniform(0.1, 1.0, 8), RNG.normal(size=8)

    @jax.jit
    def evidence(tau, nu):
        problem = read_program(trace(pairs_gp(), (WINNER, LOSER), {}, {})).problem
        start = sites.restart(problem, sites.init(problem), ((tau,), (nu,)))
        return sites.evidence_at(problem, sites.step(problem, start, 0.0))

    found = evidence(tau, nu)
    rows, k = pair_rows(6, WINNER, LOSER), rbf(X, 0.5, 1.2)
    covariance = np.linalg.inv(np.linalg.inv(k) + (rows.T * tau) @ rows)
    mean, variance = (
        rows @ covariance @ (rows.T @ nu),
        np.einsum("gi,ij,gj->g", rows, covariance, rows),
    )
    v = 1 / (1 / variance - tau)
    m = v * (mean / variance - nu)
    root = np.linalg.cholesky(k)
    c = np.linalg.cholesky(np.eye(6) + root.T @ (rows.T * tau) @ rows @ root)
    w = np.linalg.solve(c, root.T @ rows.T @ nu)
    log_z = norm.logcdf(m / np.sqrt(2 * NOISE**2 + v)).sum()
    each = np.log1p(tau * v) + (m**2 * tau - 2 * m * nu - nu**2 * v) / (1 + tau * v)
    exact = log_z + 0.5 * each.sum() - np.log(np.diag(c)).sum() + 0.5 * w @ w
    assert_allclose(found, exact, rtol=1e-9)


# ---------------------------------------------------------------- Gaussians


def prior_of(variances, diagonal):
    """A prior of these variances, alone or with covariances of .3."""
    if diagonal:
        return DiagonalPrior(jnp.asarray(variances))
    return DensePrior(jnp.asarray(np.diag(variances) + 0.3))


def term(rows, tau, nu):
    return SiteTerm(Rows(jnp.asarray(rows), None, rows.shape[1]), jnp.asarray(tau), jnp.asarray(nu))


@pytest.mark.parametrize("diagonal", [False, True])
def test_log_normaliser_and_its_derivative(diagonal):
    """By the determinant and a solve; its derivative against theirs by autodiff."""
    prior = prior_of([0.4, 1.0, 2.0, 0.1], diagonal)
    rows = RNG.normal(size=(5, 4))
    arguments = prior, RNG.uniform(0.2, 1.0, 5), RNG.normal(size=5)

    def direct(prior, tau, nu):
        full = jnp.diag(prior.variances) if diagonal else prior.covariance
        precision, shift = (rows.T * tau) @ rows, rows.T @ nu
        system = jnp.eye(4) + precision @ full
        mean = full @ jnp.linalg.solve(system, shift)
        return 0.5 * shift @ mean - 0.5 * jnp.linalg.slogdet(system)[1]

    def known(prior, tau, nu):
        terms = (term(rows, tau, nu),)
        return prior.log_normaliser(terms, prior.times(terms))

    found, expected = (
        jax.jit(jax.value_and_grad(f, argnums=(0, 1, 2)))(*arguments) for f in (known, direct)
    )
    # A covariance is symmetric: only the symmetric part of a derivative counts.
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert_allclose(one + one.T, other + other.T, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("diagonal", [False, True])
def test_prior_times_sites(diagonal):
    rows, tau, nu = RNG.normal(size=(9, 5)), RNG.uniform(0.1, 3.0, 9), RNG.normal(size=9)
    prior = prior_of(RNG.uniform(0.5, 2.0, 5), diagonal)
    alone = prior.alone()
    assert bool(alone.valid) and float(alone.log_normaliser) == 0.0
    before = alone.covariance
    found = prior.times([term(rows[:4], tau[:4], nu[:4]), term(rows[4:], tau[4:], nu[4:])])
    exact = np.linalg.inv(np.linalg.inv(before) + (rows.T * tau) @ rows)
    assert bool(found.valid)
    assert_allclose(found.covariance, exact, rtol=1e-10, atol=1e-12)
    assert_allclose(found.mean, exact @ rows.T @ nu, rtol=1e-9)
    log_det = np.linalg.slogdet(before)[1] - np.linalg.slogdet(exact)[1]
    log_normaliser = 0.5 * (nu @ rows @ exact @ rows.T @ nu - log_det)
    assert_allclose(found.log_normaliser, log_normaliser, rtol=1e-10)
    seen = RNG.normal(size=(3, 5))
    margins = found.margins(Rows(jnp.asarray(seen), None, 5))
    assert_allclose(margins, [seen @ found.mean, np.diag(seen @ exact @ seen.T)], rtol=1e-9)


def test_a_singular_prior_times_sites():
    """Two latents that are one: nothing is inverted, so nothing breaks."""
    prior, site = DensePrior(jnp.ones((2, 2))), term(np.eye(2), [3.0, 1.0], [1.0, 0.5])
    found = prior.times([site])
    assert bool(found.valid)
    assert_allclose(found.covariance, np.full((2, 2), 1 / 5))
    assert_allclose(found.mean, np.full(2, 1.5 / 5))
    assert_allclose(found.log_normaliser, 0.5 * (1.5**2 / 5 - np.log(5.0)))


@pytest.mark.parametrize("diagonal", [False, True])
def test_improper_product_is_seen(diagonal):
    prior = DiagonalPrior(jnp.ones(3)) if diagonal else DensePrior(jnp.eye(3))
    found = prior.times([term(np.eye(3), [-1.5, 0.0, 0.0], np.zeros(3))])
    assert not bool(found.valid)


# ---------------------------------------------------------------- sites


@pytest.mark.parametrize("power", [1.0, 0.5])
def test_cavity_and_match_undo_each_other(power):
    """A site taken out, and matched to moments that it gives itself, comes back."""
    tau, nu = jnp.array([0.7, -0.1, 2.0]), jnp.array([0.3, 1.0, -4.0])
    mean, variance = jnp.array([0.2, -1.0, 3.0]), jnp.array([0.9, 2.0, 0.3])
    m, v, proper = sites.cavity(tau, nu, mean, variance, power)
    assert bool(jnp.all(proper))
    assert_allclose(1 / v, 1 / variance - power * tau)
    assert_allclose(m / v, mean / variance - power * nu)
    moments = TiltedMoments(jnp.zeros(3), (mean - m) / v, (variance - v) / v**2)
    back_tau, back_nu, matched = sites.match(moments, m, v, power)
    assert bool(jnp.all(matched))
    assert_allclose(back_tau, tau, rtol=1e-10)
    assert_allclose(back_nu, nu, rtol=1e-10)


def test_improper_cavity_is_left_out():
    _, v, proper = sites.cavity(jnp.array([2.0]), jnp.zeros(1), jnp.zeros(1), jnp.array([0.6]))
    assert not bool(proper[0])
    assert_allclose(v, 0.6)
    moments = TiltedMoments(jnp.zeros(1), jnp.array([jnp.nan]), jnp.array([-0.1]))
    assert not bool(sites.match(moments, jnp.zeros(1), jnp.ones(1))[2][0])


# ---------------------------------------------------------------- rows


@pytest.mark.slow
def test_sparse_rows_are_dense_rows():
    """Columns may come in any order, and more than once."""
    columns = np.array([[0, 3, 1], [2, 2, 4], [4, 0, 0]])
    values = RNG.normal(size=(3, 3))
    dense = np.zeros((3, 5))
    np.add.at(dense, (np.arange(3)[:, None], columns), values)
    sparse, full = (
        Rows(jnp.asarray(values), jnp.asarray(columns), 5),
        Rows(jnp.asarray(dense), None, 5),
    )
    covariance, weights, x = (
        np.cov(RNG.normal(size=(5, 20))),
        RNG.normal(size=3),
        RNG.normal(size=5),
    )
    for rows in (sparse, full):
        assert_allclose(rows.dense(), dense)
        assert_allclose(rows.apply(jnp.asarray(x)), dense @ x)
        assert_allclose(rows.transpose_apply(jnp.asarray(weights)), dense.T @ weights)
        assert_allclose(rows.gram(jnp.asarray(weights)), (dense.T * weights) @ dense, atol=1e-14)
        assert_allclose(
            rows.quadratic(jnp.asarray(covariance)), np.diag(dense @ covariance @ dense.T)
        )
