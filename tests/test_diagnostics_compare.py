"""Programs compared: evidence and leaving out by closed forms, notes, and data that differ."""

import dataclasses
import re
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy import stats

from bayesrank.diagnostics import compare
from bayesrank.infer import EP

RNG = np.random.default_rng(4)
Y = 1.0 + RNG.normal(size=12)
SCALES = {"narrow": 0.2, "wide": 3.0}


def level(y, scale):
    centre = numpyro.sample("level", dist.Normal(0.0, scale))
    with numpyro.plate("data", len(y)):
        numpyro.sample("y", dist.Normal(centre, 1.0), obs=y)


def _closed_form(scale):
    """Log evidence, and log density of each observation given the others."""
    covariance: Any = scale**2 + np.eye(12)
    log_evidence = stats.multivariate_normal.logpdf(Y, cov=covariance)
    precision = np.linalg.inv(covariance)
    variance = 1.0 / np.diag(precision)
    mean = Y - variance * (precision @ Y)
    return log_evidence, stats.norm.logpdf(Y, mean, np.sqrt(variance))


@pytest.fixture(scope="module")
def fitted():
    engine = EP(level)
    return {
        name: engine.run(jax.random.key(1), Y, np.array(scale), num_samples=8000)
        for name, scale in SCALES.items()
    }


@pytest.fixture(scope="module")
def compared(fitted):
    return compare(fitted)


def test_figures_are_those_in_closed_form(compared):
    assert compared.names == ("wide", "narrow") and compared.num_observations == 12
    evidence, parts = zip(*(_closed_form(SCALES[name]) for name in compared.names), strict=True)
    np.testing.assert_allclose(compared.log_evidence, evidence, rtol=1e-9)
    odds = np.exp(evidence[0] - evidence[1])
    np.testing.assert_allclose(compared.probability, [odds / (1 + odds), 1 / (1 + odds)])
    np.testing.assert_allclose(compared.elpd, np.sum(parts, axis=1), atol=0.05)
    difference = parts[0] - parts[1]
    np.testing.assert_allclose(compared.elpd_difference, [0.0, difference.sum()], atol=0.05)
    error = np.sqrt(12) * difference.std()
    np.testing.assert_allclose(compared.difference_error, [0.0, error], atol=0.05)
    # One parameter, of which the narrow prior leaves what the data say beside it.
    np.testing.assert_allclose(compared.num_effective, [1.0, 12 / (12 + 25)], atol=0.5)
    np.testing.assert_array_equal(compared.num_unreliable, 0)


def test_masked_observations_count_for_nothing(compared):
    def with_gaps(y, scale):
        centre = numpyro.sample("level", dist.Normal(0.0, scale))
        with numpyro.plate("data", len(y)), numpyro.handlers.mask(mask=~jnp.isnan(y)):
            numpyro.sample("y", dist.Normal(centre, 1.0), obs=y)

    engine, y = EP(with_gaps), np.append(Y, np.nan)
    other = compare(
        {
            name: engine.run(jax.random.key(1), y, np.array(scale), num_samples=8000)
            for name, scale in SCALES.items()
        }
    )
    assert other.names == compared.names and other.num_observations == 12
    np.testing.assert_allclose(other.elpd, compared.elpd, rtol=1e-9)
    np.testing.assert_allclose(other.difference_error, compared.difference_error, rtol=1e-9)


def test_the_order_of_the_mapping_does_not_matter(fitted, compared):
    other = compare(dict(reversed(fitted.items())))
    assert str(other) == str(compared)


def test_the_table_says_what_the_data_frame_says(compared):
    frame = compared.to_dataframe()
    assert list(frame.index) == ["wide", "narrow"]
    header, *rows = str(compared).splitlines()[:3]
    assert header.split()[0] == "program" and "log evidence" in header
    for row, (name, figures) in zip(rows, frame.iterrows(), strict=True):
        cells = row.split()
        assert cells[0] == name
        printed = [float(cell) for cell in cells[1:]]
        np.testing.assert_allclose(printed, figures.to_numpy(float), atol=0.051)


def _notes(comparison):
    """The notes as they are printed, without the breaks between lines."""
    return " ".join(str(comparison).split("\n\n")[1].split())


class _Draws(SimpleNamespace):
    """A result that has draws and nothing else."""

    params: dict[str, Any] = {}

    def get_samples(self, group_by_chain=False):
        return {k: v[None] if group_by_chain else v for k, v in self.draws.items()}


def _drawn(model, *args, draws, **others) -> Any:
    return _Draws(model=model, model_args=args, model_kwargs={}, draws=draws, **others)


def test_results_without_evidence_have_no_probability(fitted, compared):
    narrow = fitted["narrow"]
    sampled = _drawn(level, *narrow.model_args, draws=narrow.get_samples())
    mixed = compare({"wide": fitted["wide"], "sampled": sampled})
    assert np.isnan(mixed.probability).all() and np.isnan(mixed.log_evidence[1])
    assert mixed.elpd[1] == pytest.approx(compared.elpd[1])
    assert str(mixed).splitlines()[2].split()[1:3] == ["-", "-"]


def test_evidence_and_leaving_out_can_disagree(fitted):
    better = dataclasses.replace(fitted["narrow"], log_evidence=0.0)
    text = _notes(compare({"narrow": better, "wide": fitted["wide"]}))
    assert "The evidence prefers narrow, leaving out prefers wide: the evidence counts" in text


def _two_sites(y, hyper, penalty):
    scale = numpyro.sample("scale", dist.LogNormal(0.0, 1.0)) if hyper else 1.0
    f = jnp.asarray(numpyro.sample("f", dist.Normal(0.0, scale).expand([2]).to_event(1)))
    if penalty:
        numpyro.factor("penalty", -0.5 * (f[0] - f[1]) ** 2)
    numpyro.sample("first", dist.Normal(f[0], 1.0), obs=y[:3])
    numpyro.sample("second", dist.Normal(f[1], 1.0), obs=y[3:])


@pytest.fixture(scope="module")
def penalised():
    """EP's result of a program with two observed sites, a factor and a hyperparameter."""
    engine = EP(_two_sites, hyperparameters="prior")
    return engine.run(jax.random.key(0), Y[:5], True, True, num_samples=500)


def test_all_sites_count_and_notes_say_what_the_figures_leave_out(penalised):
    # Without the factor the two levels are apart, with three observations and two.
    means = np.array([Y[:3].sum() / 4, Y[3:5].sum() / 3])
    draws = means + RNG.normal(size=(20_000, 2)) / np.sqrt([4, 3])
    plain = _drawn(_two_sites, Y[:5], False, False, draws={"f": draws})
    comparison = compare({"plain": plain, "penalised": penalised})
    assert comparison.num_observations == 5
    counts = np.array([3, 3, 3, 2, 2])
    sums = np.repeat([Y[:3].sum(), Y[3:5].sum()], [3, 2])
    left_out = stats.norm.logpdf(Y[:5], (sums - Y[:5]) / counts, np.sqrt(1 + 1 / counts))
    place = comparison.names.index("plain")
    assert comparison.elpd[place] == pytest.approx(left_out.sum(), abs=0.1)
    text = _notes(comparison)
    assert "Hyperparameters of penalised are held fixed" in text
    assert "of the data and of the factor statements penalty, which are not normalised" in text


def test_averaged_evidence_is_not_compared_with_a_conditional_one(penalised):
    args = penalised.model_args
    nested = _drawn(
        _two_sites,
        *args,
        draws=penalised.get_samples(),
        log_evidence=-7.0,
        hyperparameters={"s": 1.0},
    )
    text = _notes(compare({"nested": nested, "fixed": penalised}))
    assert "evidence of nested is averaged over hyperparameters and that of fixed is not" in text


def _each_its_own(y):
    own = numpyro.sample("own", dist.Normal(0.0, 30.0).expand([len(y)]).to_event(1))
    numpyro.sample("y", dist.Normal(own, 0.1).to_event(0), obs=y)


def test_observations_that_cannot_be_left_out_are_told():
    """Each has a level of its own, so that without it nothing is known of that level."""
    draws = {"own": Y[:4] + 0.1 * RNG.normal(size=(500, 4))}
    result = _drawn(_each_its_own, Y[:4], draws=draws)
    comparison = compare({"one": result, "two": result})
    assert comparison.num_unreliable.min() >= 3
    assert "For one and two, leaving out is not reliable" in _notes(comparison)


PAIRS, WON = np.array([[0, 1], [1, 2], [0, 2]]), np.array([1, 1, 0])


def _games(pairs, won):
    skill = jnp.asarray(numpyro.sample("skill", dist.Normal(0.0, 1.0).expand([3]).to_event(1)))
    margin = skill[pairs[:, 0]] - skill[pairs[:, 1]]
    numpyro.sample("win", dist.Bernoulli(logits=margin), obs=won)


def _played(pairs, won):
    return _drawn(_games, pairs, won, draws={"skill": RNG.normal(size=(50, 3))})


def test_other_pairs_with_the_same_outcomes_are_warned_of():
    won = np.ones(3)
    results = {"given": _played(PAIRS, won), "others": _played(PAIRS[:, ::-1], won)}
    message = r"'given' and 'others' were run with different arrays of integers of shape \(3, 2\)"
    with pytest.warns(UserWarning, match=message):
        compare(results)


def test_what_cannot_be_compared_is_refused(fitted):
    def nothing():
        numpyro.sample("f", dist.Normal(0.0, 1.0))

    level, games = fitted["wide"], _played(PAIRS, WON)
    results: Any
    empty = _drawn(nothing, draws={"f": np.zeros(4)})
    for results, message in (
        ({"one": level}, "results must be a mapping from names to at least two results"),
        ([level, level], "results must be a mapping"),
        ({1: level, "1": level}, "names that are the same as text, [1, '1']"),
        ({"a": level, "b": games}, "observe different sites, ['y'] and ['win']"),
        ({"a": games, "b": _played(PAIRS[:2], WON[:2])}, "'win' has shape (3,) in program 'a' but"),
        ({"a": games, "b": _played(PAIRS, 1 - WON)}, "observe different values at site 'win'"),
        ({"a": empty, "b": level}, "program 'a' observes nothing"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            compare(results)
