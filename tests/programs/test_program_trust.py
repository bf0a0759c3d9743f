"""What a result says of itself: its sites, where fixed values came from, how far to trust it."""

import warnings
from typing import Any

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpy.testing import assert_allclose
from program_table import PROGRAMS
from scipy.stats import norm, t

from bayesrank.infer import EP, AccuracyWarning

KEY = jax.random.key(0)
X = np.linspace(-2.0, 2.0, 20)


def far_apart():
    f: Any = numpyro.sample("f", dist.Normal(0.0, 10.0))
    numpyro.sample("y", dist.Cauchy(f, 1.0), obs=np.array([-10.0, 10.0]))


def separable():
    a: Any = numpyro.sample("a", dist.Normal(0.0, 100.0))
    b: Any = numpyro.sample("b", dist.Normal(0.0, 100.0))
    numpyro.sample("y", dist.Bernoulli(logits=a + b * X), obs=(X > 0).astype(int))


def levels(y):
    scale: Any = numpyro.sample("scale", dist.LogNormal(0.0, 0.5))
    noise: Any = numpyro.sample("noise", dist.LogNormal(0.0, 0.5))
    offset: Any = numpyro.param("offset", 0.5)
    f: Any = numpyro.sample("f<g>", dist.Normal(0.0, scale).expand([3]))
    numpyro.sample("y", dist.Normal(f + offset, noise), obs=y)
    numpyro.sample("new", dist.Poisson(np.exp(1.0)))


def two_camps():
    f: Any = numpyro.sample("f", dist.Normal(0.0, 6.0))
    numpyro.sample("y", dist.StudentT(2.0, f, 0.3), obs=np.array([-3.0, -3.1, 3.0, 3.1]))


Y = np.array([0.3, -1.0, 2.0])


@pytest.mark.slow
@pytest.mark.parametrize("model", [far_apart, separable])
def test_what_is_wrong_though_converged_is_flagged(model):
    result = EP(model).run(KEY)
    assert result.converged
    with pytest.warns(AccuracyWarning, match=r"EP's posterior is poor: means are off by up to"):
        trust = result.accuracy
    assert not trust.is_good
    assert trust.is_reliable
    assert trust.sd_error > 0.2
    assert result.accuracy is trust


@pytest.mark.slow
def test_a_second_mode_is_found_though_every_draw_is_even():
    """EP settles on one of two modes, and its own draws all say that this one is right."""
    result = EP(two_camps).run(KEY)
    assert result.converged
    with pytest.warns(AccuracyWarning, match="mass lies where EP's posterior has none"):
        trust = result.accuracy
    assert not trust.is_good
    x = np.linspace(-20.0, 20.0, 40_001)
    log_density = norm.logpdf(x, 0.0, 6.0)
    log_density += t.logpdf(x[:, None], 2.0, [-3.0, -3.1, 3.0, 3.1], 0.3).sum(1)
    weight = np.exp(log_density - log_density.max())
    other = np.sign(x) != np.sign(result.mean["f"])
    assert_allclose(trust.mass_outside, weight[other].sum() / weight.sum(), atol=0.1)


@pytest.fixture(scope="module")
def result():
    return EP(far_apart).run(KEY)


def test_shift_and_spread_are_what_quadrature_finds(result):
    grid = np.linspace(-60.0, 60.0, 200_001)
    log_density = -0.5 * (grid / 10) ** 2 - np.log1p((grid - 10) ** 2) - np.log1p((grid + 10) ** 2)
    weight = np.exp(log_density - log_density.max())
    sd = np.sqrt(np.sum(weight * grid**2) / weight.sum())
    with pytest.warns(AccuracyWarning, match="EP's posterior is poor"):
        assert not result.accuracy.is_good
    assert_allclose(result.accuracy.sd_error, abs(sd / result.sd["f"] - 1), atol=0.03)


GOOD = ["eight_schools", "sum_to_zero_effects", "gp_classification"]
SLOW = ["intrinsic_neighbours", "separated_logistic", "log_gaussian_cox", "negative_binomial"]


@pytest.mark.parametrize("name", GOOD + [pytest.param(k, marks=pytest.mark.slow) for k in SLOW])
def test_what_is_right_passes(name):
    trust = EP(PROGRAMS[name], hyperparameters="prior").run(KEY).accuracy
    assert trust.is_good
    assert str(trust).startswith("good: means are off by up to 0.0")


@pytest.mark.slow
def test_weights_too_uneven_to_tell():
    def model():
        f: Any = numpyro.sample("f", dist.Normal(0.0, 1.0).expand([100]))
        numpyro.sample("y", dist.StudentT(2.0, f, 0.3), obs=np.linspace(-6.0, 6.0, 100))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = EP(model).run(KEY)
    with pytest.warns(AccuracyWarning, match="too uneven to tell how far"):
        assert not result.accuracy.is_reliable


def test_every_site_is_listed_with_where_it_came_from(capsys):
    result = EP(levels, hyperparameters="prior").run(KEY, Y, params={"scale": 2.0})
    assert repr(result).splitlines()[1:] == [
        "  f<g>    inferred: 3 numbers, shape (3,)",
        "  noise   fixed: at 1, median of its prior",
        "  offset  fixed: at 0.5, its initial value",
        "  scale   fixed: at 2, as given",
        "  new     dropped: no data depend on it",
    ]
    assert "trust" not in repr(result)  # not computed yet
    assert "<td>f&lt;g&gt;</td>" in result._repr_html_()
    result.print_summary()
    printed = capsys.readouterr().out
    assert "How far to trust it: good" in printed
    assert "How far to trust it: good" in repr(result)
    assert "How far to trust it: good" in result._repr_html_()


@pytest.mark.slow
def test_values_learned_by_evidence_are_said_to_be():
    result = EP(levels, hyperparameters="map").run(KEY, Y, params={"offset": 0.1})
    assert result.sources == {
        "offset": "as given",
        "noise": "by evidence",
        "scale": "by evidence",
    }


def test_the_repr_fits_a_screen():
    def model():
        for number in range(40):
            numpyro.sample(f"f{number}", dist.Normal(0.0, 1.0).expand([2, 1]))
        numpyro.param("many", np.arange(50.0))
        few: Any = numpyro.param("few", np.arange(3.0))
        numpyro.sample("y", dist.Normal(few, 1.0), obs=Y)

    result = EP(model).run(KEY)
    lines = repr(result).splitlines()
    assert len(lines) < 24
    assert lines[-1] == "  and 22 more sites"
    assert max(map(len, lines)) < 100
    assert "50 values from 0 to 49" in result._repr_html_()
