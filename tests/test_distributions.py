"""Distributions of preferences and ratings: one table of cases, many properties."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
from numpyro import handlers
from numpyro.distributions.batch_util import vmap_over
from numpyro.infer.util import log_density
from refusals import refused
from scipy import special, stats

from bayesrank.distributions import (
    BradleyTerry,
    BradleyTerryTies,
    OrderedLogit,
    OrderedProbit,
    Thurstone,
    ThurstoneTies,
)

KEY = jax.random.key(7)
MARGIN = np.array([-2.5, -0.3, 0.0, 0.8, 4.0])
CUTPOINTS = np.array([-1.3, -0.2, 0.4, 2.0])


@dataclass(frozen=True)
class Case:
    """A distribution, its parameters, and its probabilities by SciPy, outcomes on the last axis."""

    cls: Callable[..., Any]
    params: dict[str, Any]
    probs: Callable[..., np.ndarray]

    def make(self, **changes: Any) -> Any:
        return self.cls(**{**self.params, **changes})

    def expected(self) -> np.ndarray:
        return self.probs(**self.params)

    def outcomes(self, *sample_shape: int) -> np.ndarray:
        """Every outcome in turn, in the shape of a sample."""
        *batch_shape, n = self.expected().shape
        return (np.arange(math.prod((*sample_shape, *batch_shape))) % n).reshape(
            *sample_shape, *batch_shape
        )

    def __str__(self) -> str:
        shapes = (f"{name}{np.shape(value)}" for name, value in self.params.items())
        return f"{self.cls.__name__}({', '.join(shapes)})"


def _thurstone(margin, noise=1.0):
    sd = np.sqrt(2.0) * noise
    return np.stack([stats.norm.sf(margin, scale=sd), stats.norm.cdf(margin, scale=sd)], -1)


def _bradley_terry(margin, scale=1.0):
    first = stats.logistic.cdf(margin, scale=scale)
    return np.stack([stats.logistic.sf(margin, scale=scale), first], -1)


def _with_ties(law, margin, tie_width, scale):
    first = law.sf(tie_width, loc=margin, scale=scale)
    second = law.cdf(-tie_width, loc=margin, scale=scale)
    return np.stack(np.broadcast_arrays(second, 1 - first - second, first), -1)


def _thurstone_ties(margin, tie_width, noise=1.0):
    return _with_ties(stats.norm, margin, tie_width, np.sqrt(2.0) * noise)


def _bradley_terry_ties(margin, tie_width, scale=1.0):
    return _with_ties(stats.logistic, margin, tie_width, scale)


def _ordered(law, loc, cutpoints, noise=1.0):
    edges = (np.asarray(cutpoints) - np.asarray(loc)[..., None]) / np.asarray(noise)[..., None]
    below = law.cdf(edges)
    ends = np.zeros_like(below[..., :1]), np.ones_like(below[..., :1])
    return np.diff(np.concatenate([ends[0], below, ends[1]], -1), axis=-1)


_ordered_probit, _ordered_logit = partial(_ordered, stats.norm), partial(_ordered, stats.logistic)
CLASSES = [Thurstone, BradleyTerry, ThurstoneTies, BradleyTerryTies, OrderedProbit, OrderedLogit]
COLUMN = np.array([[0.5], [1.5]])
CASES = [
    Case(Thurstone, {"margin": 0.7}, _thurstone),
    Case(Thurstone, {"margin": MARGIN, "noise": COLUMN}, _thurstone),
    Case(BradleyTerry, {"margin": MARGIN, "scale": COLUMN}, _bradley_terry),
    Case(ThurstoneTies, {"margin": 0.1, "tie_width": MARGIN + 3.0}, _thurstone_ties),
    Case(ThurstoneTies, {"margin": MARGIN, "tie_width": 0.6, "noise": COLUMN}, _thurstone_ties),
    Case(
        BradleyTerryTies,
        {"margin": MARGIN, "tie_width": 0.6, "scale": COLUMN},
        _bradley_terry_ties,
    ),
    Case(OrderedProbit, {"loc": 0.2, "cutpoints": CUTPOINTS[:1]}, _ordered_probit),
    Case(OrderedProbit, {"loc": MARGIN, "cutpoints": CUTPOINTS, "noise": COLUMN}, _ordered_probit),
    Case(OrderedLogit, {"loc": MARGIN, "cutpoints": CUTPOINTS, "noise": COLUMN}, _ordered_logit),
    Case(
        OrderedProbit,
        {"loc": MARGIN, "cutpoints": CUTPOINTS + np.arange(5.0)[:, None]},
        _ordered_probit,
    ),
]
every_case = pytest.mark.parametrize("case", CASES, ids=str)
# The case of each class in which every parameter has a shape of its own.
RICHEST = [max((c for c in CASES if c.cls is cls), key=lambda c: len(c.params)) for cls in CLASSES]
every_class = pytest.mark.parametrize("case", RICHEST, ids=str)


@jax.jit
def _log_prob(d: Any, value: jax.Array) -> jax.Array:
    return jnp.asarray(d.log_prob(value))


def _log_probs(d: Any) -> np.ndarray:
    """Log probabilities of all outcomes, outcomes on the last axis."""
    return np.moveaxis(_log_prob(d, d.enumerate_support()), 0, -1)


@jax.jit
def _moments(d: Any) -> tuple[jax.Array, ...]:
    return d.probs, d.mean, d.variance


@every_case
def test_probabilities_mean_and_variance_agree_with_scipy(case):
    d, probs = case.make(), case.expected()
    np.testing.assert_allclose(np.exp(_log_probs(d)), probs, rtol=1e-12, atol=1e-15)
    outcomes = np.arange(probs.shape[-1])
    mean = probs @ outcomes
    computed = _moments(d)
    np.testing.assert_allclose(computed[0], probs, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(computed[1], mean, rtol=1e-11)
    np.testing.assert_allclose(computed[2], probs @ outcomes**2 - mean**2, atol=1e-12)


@every_case
def test_shapes_and_support(case):
    d, n = case.make(), case.expected().shape[-1]
    batch_shape = case.expected().shape[:-1]
    assert (d.batch_shape, d.event_shape, d.event_dim) == (batch_shape, (), 0)
    assert d.to_event().event_shape == batch_shape
    wide = d.expand((4, *batch_shape))
    assert wide.batch_shape == jax.eval_shape(wide.sample, KEY).shape == (4, *batch_shape)
    assert jax.eval_shape(wide.log_prob, case.outcomes(4)).shape == (4, *batch_shape)
    sample = jax.eval_shape(lambda key: d.sample(key, (3, 2)), jax.random.key(0))
    assert sample.shape == (3, 2, *batch_shape)
    assert jnp.issubdtype(sample.dtype, jnp.integer)
    assert jax.eval_shape(_log_prob, d, sample).shape == sample.shape
    assert d.num_outcomes == n and d.has_enumerate_support
    full, small = d.enumerate_support(), np.asarray(d.enumerate_support(expand=False))
    assert small.shape == (n,) + (1,) * len(batch_shape)
    np.testing.assert_array_equal(small.ravel(), np.arange(n))
    np.testing.assert_array_equal(full, np.broadcast_to(small, (n, *batch_shape)))
    assert bool(jnp.all(d.support(full))) and not bool(jnp.any(d.support(full + n)))
    assert case.cls.predictor == next(iter(case.params))
    np.testing.assert_array_equal(getattr(d, d.predictor), case.params[d.predictor])


@every_class
def test_samples_pass_a_chi_square_test(case):
    draws, probs = 20_000, case.expected()
    sample = np.asarray(jax.jit(lambda d, key: d.sample(key, (draws,)))(case.make(), KEY))
    counts = np.stack([(sample == y).sum(0) for y in range(probs.shape[-1])], -1)
    assert np.all(counts.sum(-1) == draws)
    expected = draws * probs
    common = expected >= 5
    statistic = ((counts - expected) ** 2 / np.where(common, expected, np.inf)).sum(-1)
    assert np.all(statistic < stats.chi2.isf(1e-4, probs.shape[-1]))
    assert np.all(counts[~common] < 25)
    refused("key is None", case.make().sample, None)


@every_class
def test_jit_of_the_whole_life_of_a_distribution(case):
    @jax.jit
    def life(params, key):
        d = case.cls(**params)
        return d, d.sample(key)

    d, sample = life(case.params, KEY)
    assert type(d) is case.cls and len(jax.tree.leaves(d)) == len(case.cls.arg_constraints)
    assert (d.batch_shape, d.event_shape) == (case.make().batch_shape, ())
    np.testing.assert_array_equal(_log_probs(d), _log_probs(case.make()))
    np.testing.assert_array_equal(sample, case.make().sample(KEY))


@every_class
@pytest.mark.parametrize("of", ["the predictor", "every parameter"])
def test_vmap_over_a_batch_of_distributions(case, of):
    value = case.outcomes()
    names = [case.cls.predictor] if of == "the predictor" else list(case.params)
    rows = [{name: factor * case.params[name] for name in names} for factor in (0.5, 2.0)]
    batch = jax.tree.map(lambda *leaves: np.stack(leaves), *rows)
    axes = vmap_over(case.make(), **dict.fromkeys(names, 0))
    made = jax.vmap(lambda changes: case.make(**changes), out_axes=axes)(batch)
    together = jax.jit(jax.vmap(lambda d: d.log_prob(value), in_axes=(axes,)))(made)
    one_by_one = np.stack([_log_prob(case.make(**row), value) for row in rows])
    np.testing.assert_allclose(together, one_by_one, rtol=1e-12)


@every_class
def test_gradients_agree_with_finite_differences(case):
    value = case.outcomes()

    @jax.jit
    @jax.value_and_grad
    def total(params):
        return jnp.sum(_log_prob(case.cls(**params), value))

    params = {name: np.asarray(value, float) for name, value in case.params.items()}
    for name, gradient in total(params)[1].items():
        for index in np.ndindex(gradient.shape):
            step = np.zeros(gradient.shape)
            step[index] = 1e-5
            ends = [total({**params, name: params[name] + s * step})[0] for s in (1, -1)]
            slope = (ends[0] - ends[1]) / 2e-5
            np.testing.assert_allclose(gradient[index], slope, rtol=1e-6, atol=1e-8)


@every_class
def test_single_precision_is_kept(case):
    params = {name: jnp.asarray(value, jnp.float32) for name, value in case.params.items()}
    d = case.cls(**params)
    log_probs = _log_probs(d)
    assert log_probs.dtype == jax.eval_shape(lambda d: d.mean, d).dtype == jnp.float32
    np.testing.assert_allclose(np.exp(log_probs), case.expected(), rtol=2e-5, atol=1e-9)


@pytest.mark.parametrize("standard", [-1e4, -40.0, -5.0, 0.0, 5.0, 40.0, 1e4])
@pytest.mark.parametrize("noise", [1e-3, 1.0, 1e3])
def test_far_tails_are_finite_and_right(standard, noise):
    normal = stats.norm.logcdf([-standard, standard])
    margin = standard * np.sqrt(2.0) * noise
    np.testing.assert_allclose(_log_probs(Thurstone(margin, noise)), normal, rtol=1e-12)
    logistic = special.log_expit([-standard, standard])
    np.testing.assert_allclose(_log_probs(BradleyTerry(standard * noise, noise)), logistic)

    # Of a level that is far away, all the mass is at its nearer end.
    cutpoints = noise * np.array([-3.0, 0.0, 3.0])
    edges = np.array([-3.0, 0.0, 3.0]) - standard
    near = np.where(edges[:-1] > 0, edges[:-1], -edges[1:])
    log_probs = _log_probs(OrderedProbit(standard * noise, cutpoints, noise))
    assert np.all(np.isfinite(log_probs))
    np.testing.assert_allclose(log_probs[0], stats.norm.logcdf(edges[0]), rtol=1e-12)
    np.testing.assert_allclose(log_probs[-1], stats.norm.logsf(edges[-1]), rtol=1e-12)
    far = near > 4.5
    np.testing.assert_allclose(log_probs[1:-1][far], stats.norm.logsf(near[far]), rtol=1e-5)


@every_case
def test_probabilities_add_up_to_one_in_the_tails_and_swapping_items_mirrors_outcomes(case):
    for shift in (-1e3, -40.0, 40.0, 1e3):
        moved = np.asarray(case.params[case.cls.predictor]) + shift
        d = case.make(**{case.cls.predictor: moved})
        total = np.asarray(special.logsumexp(_log_probs(d), axis=-1))
        np.testing.assert_allclose(total, 0.0, atol=1e-13)
    moved = {case.cls.predictor: -np.asarray(case.params[case.cls.predictor])}
    if "cutpoints" in case.params:
        moved["cutpoints"] = -case.params["cutpoints"][..., ::-1]
    mirrored = _log_probs(case.make(**moved))[..., ::-1]
    np.testing.assert_allclose(mirrored, _log_probs(case.make()), rtol=1e-13)


def test_bradley_terry_ties_is_rao_and_kupper_in_strengths():
    strength_a, strength_b, theta = np.exp(MARGIN), 1.0, np.exp(0.6)
    first = strength_a / (strength_a + theta * strength_b)
    second = strength_b / (strength_b + theta * strength_a)
    expected = np.stack([second, 1 - first - second, first], -1)
    np.testing.assert_allclose(BradleyTerryTies(MARGIN, 0.6).probs, expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("with_ties", "without"), [(ThurstoneTies, Thurstone), (BradleyTerryTies, BradleyTerry)]
)
def test_without_width_there_are_no_ties(with_ties, without):
    log_probs = _log_probs(with_ties(MARGIN, 1e-12))
    np.testing.assert_allclose(log_probs[:, [0, 2]], _log_probs(without(MARGIN)), rtol=1e-9)
    # A tie has the density at equal performance, times the width of the window.
    normal, logistic = stats.norm.logpdf(MARGIN, scale=np.sqrt(2.0)), stats.logistic.logpdf(MARGIN)
    at_par = normal if without is Thurstone else logistic
    np.testing.assert_allclose(log_probs[:, 1], at_par + np.log(2e-12), rtol=1e-9)


def test_outcomes_may_be_boolean_or_floating():
    for d in (Thurstone(MARGIN), BradleyTerry(MARGIN)):
        for value in (MARGIN > 0, (MARGIN > 0).astype(float)):
            as_integers = _log_prob(d, (MARGIN > 0).astype(int))
            np.testing.assert_array_equal(_log_prob(d, value), as_integers)


def test_in_a_program_with_a_plate_and_an_observed_site():
    def model(value=None):
        with numpyro.plate("comparisons", 5):
            return numpyro.sample(
                "comparison", ThurstoneTies(MARGIN, 0.3, validate_args=True), obs=value
            )

    drawn = jax.jit(lambda key: handlers.seed(model, key)())(KEY)
    assert drawn.shape == (5,)
    total = jax.jit(lambda drawn: log_density(model, (drawn,), {}, {})[0])(drawn)
    np.testing.assert_allclose(total, np.sum(_log_prob(ThurstoneTies(MARGIN, 0.3), drawn)))


@pytest.mark.parametrize(
    ("make", "parameter"),
    [
        (lambda: Thurstone(0.0, -1.0, validate_args=True), "noise"),
        (lambda: Thurstone(np.nan, validate_args=True), "margin"),
        (lambda: BradleyTerry(0.0, 0.0, validate_args=True), "scale"),
        (lambda: ThurstoneTies(0.0, 0.0, validate_args=True), "tie_width"),
        (lambda: ThurstoneTies(0.0, 1.0, -1.0, validate_args=True), "noise"),
        (lambda: BradleyTerryTies(0.0, -0.1, validate_args=True), "tie_width"),
        (lambda: BradleyTerryTies(0.0, 0.1, -1.0, validate_args=True), "scale"),
        (lambda: OrderedProbit(0.0, CUTPOINTS[::-1], validate_args=True), "cutpoints"),
        (lambda: OrderedProbit(0.0, CUTPOINTS, 0.0, validate_args=True), "noise"),
        (lambda: OrderedProbit(np.inf, CUTPOINTS, validate_args=True), "loc"),
    ],
)
def test_invalid_parameters_are_named(make, parameter):
    refused(f"invalid {parameter} parameter", make)


@pytest.mark.parametrize("cutpoints", [0.0, np.zeros(0), np.zeros((3, 0))])
def test_cutpoints_without_an_edge_are_refused(cutpoints):
    refused("cutpoints has shape .* at least one edge", OrderedProbit, 0.0, cutpoints)


@pytest.mark.parametrize("case", [CASES[0], CASES[3]], ids=str)
def test_outcomes_out_of_support_have_no_probability(case):
    d = case.make(validate_args=True)
    with pytest.warns(UserWarning, match="Out-of-support"):
        log_prob = d.log_prob(jnp.full(d.batch_shape, d.num_outcomes))
    assert np.all(np.asarray(log_prob) == -np.inf)
