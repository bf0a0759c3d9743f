"""What is found in a program's trace: rows, degrees, factors, and Gaussian priors in every form."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from jax import lax
from jax.flatten_util import ravel_pytree
from jax.scipy.linalg import solve_triangular
from numpy.testing import assert_allclose
from numpyro import handlers
from numpyro.distributions.transforms import AffineTransform
from numpyro.infer.reparam import LocScaleReparam
from numpyro.infer.util import log_density

from bayesrank.distributions import Thurstone
from bayesrank.infer import EP
from bayesrank.infer.reader.affine import Affine, Degree, evaluate, identity
from bayesrank.infer.reader.jaxpr import flat_trace
from bayesrank.infer.reader.program import read_program
from bayesrank.infer.reader.traced import trace

SHAPES = {"f": (5,), "g": (2, 3)}
LEFT, RIGHT = np.array([0, 3, 2, 2]), np.array([1, 0, 2, 4])
RNG = np.random.default_rng(7)
M, N, V = RNG.normal(size=(4, 5)), RNG.normal(size=(3, 4)), RNG.normal(size=5)
L = np.tril(RNG.normal(size=(5, 5))) + 3 * np.eye(5)
MASK = np.array([True, False, True, False])

# Expressions affine in the latents, and the width of their rows: 11 where they are dense.
AFFINE: dict[str, tuple[Any, int]] = {
    "difference": (lambda f, g: f[LEFT] - f[RIGHT], 2),
    "difference of sites": (lambda f, g: f[LEFT] - g[1, 0] + 2.0, 2),
    "scaled": (lambda f, g: -(3.0 * f - 1.0) / V, 1),
    "gather of a matrix": (lambda f, g: g[LEFT % 2, RIGHT % 3], 1),
    "gather by a matrix": (lambda f, g: f[np.array([[0, 1], [4, 4]])], 1),
    "slices": (lambda f, g: jnp.diff(f[::-1]), 2),
    "roll": (lambda f, g: jnp.roll(f, 2), 1),
    "dynamic slice": (lambda f, g: lax.dynamic_slice(f, (1,), (3,)), 1),
    "where": (lambda f, g: jnp.where(MASK, f[LEFT], 3.0), 1),
    "where of two": (lambda f, g: jnp.where(MASK, f[LEFT], g[0, 1]), 1),
    "concatenate": (lambda f, g: jnp.concatenate([f, jnp.ones(2), g.ravel()]), 1),
    "stack": (lambda f, g: jnp.stack([jnp.zeros(3), g[0], f[2:]], axis=1), 1),
    "pad": (lambda f, g: jnp.pad(f, (1, 2), constant_values=9.0), 1),
    "tile": (lambda f, g: jnp.tile(f, 2), 1),
    "repeat": (lambda f, g: jnp.repeat(g, 2, axis=1), 1),
    "split": (lambda f, g: jnp.split(f, [2])[1], 1),
    "transpose": (lambda f, g: g.T[..., None], 1),
    "sums": (lambda f, g: g.sum(0) - g.mean(), 8),
    "sum of all": (lambda f, g: f.sum() + g.sum(), 11),
    "cumulative": (lambda f, g: jnp.cumsum(f), 11),
    "matrix product": (lambda f, g: M @ f, 5),
    "matrix product from the left": (lambda f, g: f @ M.T, 5),
    "matrix of latents": (lambda f, g: g @ N, 3),
    "einsum": (lambda f, g: jnp.einsum("ij,jk->ki", g, N), 3),
    "outer": (lambda f, g: f[:, None] * V, 1),
    "triangular solve": (lambda f, g: solve_triangular(L, f, lower=True), 11),
    "solve": (lambda f, g: jnp.linalg.solve(L, f), 11),
    "set": (lambda f, g: f.at[1].set(2.0), 11),
    "scatter add": (lambda f, g: jnp.zeros(3).at[np.array([0, 2, 2, 1, 0])].add(f), 11),
    "inner call": (lambda f, g: jax.checkpoint(jax.jit(lambda x: x[LEFT] * 2.0))(f), 1),
    "batched": (lambda f, g: jax.vmap(lambda row: row @ N - row[0])(g), 4),
    "power of one": (lambda f, g: f**1, 1),
    "constant power": (lambda f, g: jnp.exp(V) ** 2 * f, 1),
}

DEGREES: dict[str, tuple[Any, Degree]] = {
    "square": (lambda f, g: f**2, Degree.QUADRATIC),
    "product": (lambda f, g: f[:3] * g[0] - f[0], Degree.QUADRATIC),
    "quadratic form": (lambda f, g: -0.5 * f @ L @ f + f[1], Degree.QUADRATIC),
    "squared distance": (lambda f, g: jnp.sum((g - 1.0) ** 2), Degree.QUADRATIC),
    "cube": (lambda f, g: f**3, Degree.NONLINEAR),
    "fourth power": (lambda f, g: (f**2) ** 2, Degree.NONLINEAR),
    "square times latent": (lambda f, g: f**2 * f, Degree.NONLINEAR),
    "exponential": (lambda f, g: jnp.exp(f), Degree.NONLINEAR),
    "quotient": (lambda f, g: 1.0 / f, Degree.NONLINEAR),
    "branch on a latent": (lambda f, g: jnp.where(f > 0, f, 2 * f), Degree.NONLINEAR),
    "absolute": (lambda f, g: jnp.abs(f), Degree.NONLINEAR),
}


def expressions(latents: dict[str, jax.Array]) -> dict[str, jax.Array]:
    table = {name: case[0] for name, case in (AFFINE | DEGREES).items()}
    return {name: expression(latents["f"], latents["g"]) for name, expression in table.items()}


@pytest.fixture(scope="module")
def found():
    zeros = {name: jnp.zeros(shape) for name, shape in SHAPES.items()}
    trace, structure = flat_trace(expressions, zeros)
    sizes = {name: int(np.prod(shape)) for name, shape in SHAPES.items()}
    widths, degrees = {}, {}

    @jax.jit
    def solve():
        start = identity(sizes, SHAPES, jnp.zeros(0).dtype)
        env = evaluate(trace, [start["f"], start["g"]])
        outputs = [x for x in trace.outputs if isinstance(x, int)]
        values = jax.tree.unflatten(structure, [env[x] for x in outputs])
        rows = {k: v for k, v in values.items() if isinstance(v, Affine)}
        degrees.update({k: v for k, v in values.items() if isinstance(v, Degree)})
        widths.update({k: v.values.shape[-1] for k, v in rows.items()})
        return {k: (v.offset, v.dense()) for k, v in rows.items()}

    return solve(), widths, degrees


@pytest.mark.slow
def test_rows_are_jacobians(found):
    rows, widths, _ = found
    zeros = {name: jnp.zeros(shape) for name, shape in SHAPES.items()}
    flat, unravel = ravel_pytree(zeros)

    def affine(z):
        return {name: expressions(unravel(z))[name] for name in AFFINE}

    offsets, jacobians = jax.jit(lambda z: (affine(z), jax.jacfwd(affine)(z)))(flat)
    assert set(rows) == set(AFFINE)
    for name, (offset, dense) in rows.items():
        assert_allclose(offset, offsets[name], atol=1e-12, err_msg=name)
        assert_allclose(dense, jacobians[name], atol=1e-12, err_msg=name)
    assert widths == {name: width for name, (_, width) in AFFINE.items()}


def test_degrees(found):
    assert found[2] == {name: degree for name, (_, degree) in DEGREES.items()}


# ---------------------------------------------------------------- size


def largest(jaxpr: Any) -> int:
    """Size of the largest array in a jaxpr and all that it calls."""
    size = 0
    for equation in jaxpr.eqns:
        size = max([size, *(v.aval.size for v in equation.outvars if hasattr(v.aval, "size"))])
        for inner in jax.tree.leaves(
            list(equation.params.values()), is_leaf=lambda x: hasattr(x, "eqns")
        ):
            inner = getattr(inner, "jaxpr", inner)
            if hasattr(inner, "eqns"):
                size = max(size, largest(inner))
    return size


def test_numbers_that_are_taken_are_those_that_are_indexed():
    """`jnp.take` reads NaN beyond the ends, which the columns of rows cannot be."""
    number = np.array([3, 0, 3])

    def model(take):
        f: Any = numpyro.sample("f", dist.Normal(0.0, 1.0).expand([4]))
        numpyro.sample("y", dist.Normal(take(f), 0.5), obs=np.arange(3.0))

    taken, indexed = (
        EP(partial(model, take)).run(jax.random.key(0))
        for take in (lambda f: jnp.take(f, number), lambda f: f[number])
    )
    assert_allclose(taken.joint_mean, indexed.joint_mean, atol=1e-12)
    assert_allclose(taken.log_evidence, indexed.log_evidence, atol=1e-12)


@pytest.mark.parametrize("likelihood", [Thurstone, dist.BernoulliLogits])
def test_no_dense_rows(likelihood):
    """10,000 comparisons of 5,000 items: nothing larger than the items' covariance."""
    items, count = 5000, 10000
    pairs = RNG.integers(items, size=(2, count))

    def model(winner, loser):
        f: Any = numpyro.sample("f", dist.Normal(0.0, 1.0).expand([items]))
        numpyro.sample("win", likelihood(f[winner] - f[loser]), obs=1)

    engine = EP(model, structure="dense")
    jaxpr = jax.make_jaxpr(lambda *args: engine.step(engine.init({}, *args), {}, *args))(*pairs)
    assert largest(jaxpr.jaxpr) == items * items < items * count


# ---------------------------------------------------------------- factors that share a predictor


@pytest.mark.slow
def test_elements_of_one_factor():
    """Alternatives of a choice see one margin, at their own rates; one is the reference."""
    choice = np.array([0, 1, 2, 1])

    def model(left, right, choice):
        f: Any = numpyro.sample("f", dist.Normal(0.0, 1.0).expand([5]))
        margin = f[left] - f[right]
        logits = jnp.stack([jnp.zeros(4), margin - 0.5, 0.3 - 2.0 * margin], axis=-1)
        numpyro.sample("choice", dist.CategoricalLogits(logits), obs=choice)

    @jax.jit
    def read(*args):
        program = read_program(trace(model, args, {}, {}))
        block: Any = program.problem.blocks[0]
        # A cavity that is all but a point: log Z is the likelihood there.
        log_z = block.moments(jnp.full(4, 0.7), jnp.full(4, 1e-12)).log_z
        passed = [passed for _, passed in program.checks]
        return block.rows.dense(), block.offset, log_z, passed

    rows, offset, log_z, passed = read(LEFT, RIGHT, choice)
    assert all(bool(jnp.all(p)) for p in passed)
    gap = np.eye(5)[LEFT] - np.eye(5)[RIGHT]
    assert_allclose(rows, -2.0 * gap)
    margin = (0.3 - (0.7 + 0 * offset)) / 2.0
    logits = np.stack([np.zeros(4), margin - 0.5, np.full(4, 0.7)], axis=-1)
    exact = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    alone = np.abs(gap).sum(1) > 0
    assert_allclose(log_z[alone], exact[np.arange(4), choice][alone], rtol=1e-6)


# ---------------------------------------------------------------- priors


def gaussian_priors(y):
    """A program of Gaussian sites in every form, some upon others, each measured."""
    root = jnp.asarray(L[:3, :3])
    scale = numpyro.sample("scale", dist.HalfNormal(1.0))
    a: Any = numpyro.sample("a", dist.Normal(1.0, scale).expand([3]).to_event(1))
    b: Any = numpyro.sample("b", dist.MultivariateNormal(2.0 * a - 1.0, scale_tril=root))
    with numpyro.plate("batch", 2):
        c: Any = numpyro.sample("c", dist.MultivariateNormal(a, covariance_matrix=root @ root.T))
    factor = jnp.asarray(M[:3, :2])
    d = numpyro.sample("d", dist.LowRankMultivariateNormal(b, factor, jnp.array([0.1, 0.2, 0.3])))
    e = numpyro.sample(
        "e", dist.TransformedDistribution(dist.Normal(0, 1), AffineTransform(3.0, 0.5))
    )
    steps: Any = numpyro.sample("walk", dist.GaussianRandomWalk(0.7, num_steps=3))
    g: Any = numpyro.sample("g", dist.MatrixNormal(jnp.ones((3, 3)), root, jnp.eye(3)))
    h = numpyro.sample("h", dist.Normal(c[1, 0] + e, 0.4))
    level = numpyro.sample("level", dist.Normal(a[1], 0.3))
    total = jnp.stack([b @ jnp.ones(3), c.sum(), jnp.sum(d), steps[2], g[0, 1] - g[2, 2], h, level])
    numpyro.sample("y", dist.Normal(total, 0.6), obs=y)


@pytest.mark.slow
def test_priors_in_every_form():
    """Against the Hessian of NumPyro's own joint density."""
    model = handlers.reparam(gaussian_priors, config={"level": LocScaleReparam(0)})
    y = RNG.normal(size=7)
    result = EP(model).run(jax.random.key(0), y, params={"scale": 0.8})
    assert result.converged and result.num_sweeps == 1
    assert result.latent_sites == ("a", "b", "c", "d", "e", "walk", "g", "h", "level_decentered")
    start = {name: jnp.zeros(result.mean[name].shape) for name in result.latent_sites}
    flat, unravel = ravel_pytree(start)

    def density(z):
        return log_density(model, (y,), {}, {**unravel(z), "scale": 0.8})[0]

    value, slope, hessian = jax.jit(
        lambda z: (density(z), jax.grad(density)(z), jax.hessian(density)(z))
    )(flat)
    covariance = np.linalg.inv(-np.asarray(hessian))
    mean = covariance @ slope
    # `log_density` counts the prior of `scale`, too; the evidence does not.
    log_scale = dist.HalfNormal(1.0).log_prob(0.8)
    evidence = value - log_scale + 0.5 * slope @ mean
    evidence += 0.5 * (mean.size * np.log(2 * np.pi) + np.linalg.slogdet(covariance)[1])
    for name in result.latent_sites:
        assert_allclose(result.mean[name], unravel(jnp.asarray(mean))[name], atol=1e-8)
    sd = unravel(jnp.sqrt(jnp.diag(covariance)))
    for name in result.latent_sites:
        assert_allclose(result.sd[name], sd[name], atol=1e-8, err_msg=name)
    assert_allclose(result.log_evidence, evidence, rtol=1e-9)


def test_values_picked_from_a_row_may_be_traced():
    """Which level was seen does not say which latents hang together: no new compilation."""

    def model(index, rating, cuts):
        f: Any = numpyro.sample("f", dist.Normal(0.0, 1.0).expand([5]))
        numpyro.sample("rating", dist.OrderedLogistic(f[index], cuts), obs=rating)

    def read(index, rating, cuts):
        (block,) = read_program(trace(model, (index, rating, cuts), {}, {})).problem.blocks
        return jnp.abs(block.rows.dense())

    rows = jax.jit(read)(LEFT, np.array([0, 1, 2, 1]), np.array([-1.0, 1.0]))
    assert_allclose(rows, np.eye(5)[LEFT])
    batch = jax.jit(jax.vmap(read, in_axes=(0, None, None)))
    rows = batch(np.stack([LEFT, RIGHT]), np.array([0, 1, 2, 1]), np.array([-1.0, 1.0]))
    assert_allclose(rows, np.stack([np.eye(5)[LEFT], np.eye(5)[RIGHT]]))
