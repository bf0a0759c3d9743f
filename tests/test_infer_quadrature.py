"""The quadrature of likelihoods is right at its extremes, or says that it is not."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from infer_oracles import tilted
from jax.scipy.special import log_ndtr
from numpy.testing import assert_allclose
from scipy.special import expit, log_expit, logsumexp
from scipy.special import log_ndtr as log_ndtr_scipy
from scipy.stats import norm, t

from bayesrank.infer import EP, AccuracyWarning, sites
from bayesrank.infer.quadrature import tilted_moments
from bayesrank.infer.quadrature_check import faults_of
from bayesrank.infer.reader.predictors import mixture_moments
from bayesrank.infer.trapezoid import trapezoid_moments

KEY = jax.random.key(0)
PROBIT, LOGISTIC, POISSON, STUDENT_T, NO_COUNTS, NEGATIVE_BINOMIAL = range(6)


@pytest.fixture(autouse=True)
def doubles():
    with jax.enable_x64(True):
        yield


def log_likelihoods(kind):
    """Six likelihoods, element by element, so that all are integrated in one go."""

    def log_likelihood(x):
        choices = (
            log_ndtr(x),
            jax.nn.log_sigmoid(x),
            3.0 * x - jnp.exp(x),
            dist.StudentT(2.0, x, 0.3).log_prob(2.0),
            -jnp.exp(x),
            5.0 * x - 8.0 * jnp.logaddexp(x, jnp.log(3.0)),
        )
        every = jnp.stack([jnp.broadcast_to(c, x.shape) for c in choices])
        return every[kind, jnp.arange(x.shape[0])]

    return log_likelihood


def exact(kind, mean, variance):
    """Log Z, mean and variance of the product with a cavity, in NumPy."""
    by_hand: Any = {
        LOGISTIC: log_expit,
        POISSON: lambda x: 3.0 * x - np.exp(x),
        STUDENT_T: lambda x: t.logpdf(2.0, 2.0, x, 0.3),
        NO_COUNTS: lambda x: -np.exp(x),
        NEGATIVE_BINOMIAL: lambda x: 5 * x - 8 * np.logaddexp(x, np.log(3.0)),
    }[kind]
    return tilted(by_hand, mean, variance, (0.0, 2.0))


@jax.jit
def by_quadrature(kind, mean, variance):
    return tilted_moments(log_likelihoods(kind), mean, variance)


def probit(mean, variance):
    """Closed form of log Z and its derivatives; far left, the last is an asymptotic series."""
    z, width = mean / np.sqrt(1 + variance), np.sqrt(1 + variance)
    mills = np.exp(-0.5 * z**2 - 0.5 * np.log(2 * np.pi) - log_ndtr_scipy(z))
    far = np.minimum(z, -20.0) ** -2.0
    second = np.where(z < -20, -1 + far - 6 * far**2 + 50 * far**3, -mills * (z + mills))
    return log_ndtr_scipy(z), mills / width, second / width**2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "furthest", "error"), [(np.float64, 40, 5e-6), (np.float32, 12, 1e-4)]
)
def test_probit_has_its_closed_form(dtype, furthest, error):
    """Margins up to 40 of their scale, cavity variances from 1e-8 to 1e8."""
    margins = np.array([-40.0, -12.0, -3.0, -0.1, 0.0, 0.7, 5.0, 40.0])
    margins = margins[np.abs(margins) <= furthest]
    grid = [(m * np.sqrt(1 + v), v) for m in margins for v in (1e-8, 1e-4, 0.1, 1.0, 30, 1e4, 1e8)]
    mean, variance = np.array(grid).T
    kind = np.full(len(grid), PROBIT)
    with jax.enable_x64(dtype is np.float64):
        found = by_quadrature(kind, mean.astype(dtype), variance.astype(dtype))
        log_z, d1, d2 = (np.asarray(x, float) for x in found)
    log_z_exact, d1_exact, d2_exact = probit(mean, variance)
    spread = variance + variance**2 * d2_exact
    assert_allclose(log_z, log_z_exact, rtol=2e-6 if dtype is np.float32 else 1e-8, atol=error)
    assert_allclose((d1 - d1_exact) * variance / np.sqrt(spread), 0.0, atol=10 * error)
    whole = spread if dtype is np.float64 else variance
    assert_allclose((d2 - d2_exact) * variance**2 / whole, 0.0, atol=10 * error)


EXTREMES = [
    (LOGISTIC, -40.0, 1.0),
    (LOGISTIC, -300.0, 100.0),
    (LOGISTIC, -1e5, 1e8),
    (LOGISTIC, 0.0, 1e8),
    (POISSON, -40.0, 1.0),
    (POISSON, 40.0, 1.0),
    (POISSON, 0.5, 1e-8),
    (POISSON, 0.0, 1e8),
    # The data and the prior disagree: two modes, about as heavy as each other.
    (STUDENT_T, -2.0, 0.5),
    (STUDENT_T, -2.6, 0.5),
    (STUDENT_T, -40.0, 1.0),
    (STUDENT_T, 0.0, 1e8),
    (STUDENT_T, 1.7, 1e-8),
]


@pytest.mark.slow
def test_moments_at_extremes():
    kind, mean, variance = (np.array(x) for x in zip(*EXTREMES, strict=True))
    found = by_quadrature(kind, mean, variance)
    log_z, centre, spread = np.array([exact(*row) for row in EXTREMES]).T
    assert_allclose(found.log_z, log_z, rtol=2e-8, atol=1e-7)
    assert_allclose((mean + variance * found.d1 - centre) / np.sqrt(spread), 0.0, atol=5e-6)
    assert_allclose((variance + variance**2 * found.d2) / spread, 1.0, atol=5e-5)


def test_smooth_single_peaks_to_eight_digits():
    """From cavities much narrower than the likelihood to much wider ones."""
    kinds = LOGISTIC, POISSON, NO_COUNTS, NEGATIVE_BINOMIAL
    cavities = [(m, v) for m in (-6.0, 0.5, 3.0) for v in (1e-6, 1e-2, 1.0, 200.0)]
    rows = [(kind, *cavity) for kind in kinds for cavity in cavities]
    kind, mean, variance = (np.array(x) for x in zip(*rows, strict=True))
    found, is_right = jax.jit(lambda m, v: trapezoid_moments(log_likelihoods(kind), m, v))(
        mean, variance
    )
    assert is_right
    log_z, centre, spread = np.array([exact(*row) for row in rows]).T
    assert_allclose(found.log_z, log_z, rtol=1e-8, atol=1e-8)
    assert_allclose((mean + variance * found.d1 - centre) / np.sqrt(spread), 0.0, atol=1e-8)
    assert_allclose((variance + variance**2 * found.d2) / spread, 1.0, atol=2e-8)


# ---------------------------------------------------------------- other shapes


def spike(x):
    """A narrow spike at zero on a broad shoulder."""
    narrow, broad = dist.Normal(0.0, 1e-3), dist.Normal(0.0, 10.0)
    return jnp.logaddexp(jnp.log(0.99) + narrow.log_prob(x), jnp.log(0.01) + broad.log_prob(x))


def two_peaks(x):
    return jnp.logaddexp(dist.Normal(-3.0, 0.5).log_prob(x), dist.Normal(3.0, 0.5).log_prob(x))


def step(x):
    return jnp.where(x > 0.3, 0.0, -5.0)


@pytest.mark.slow
@pytest.mark.parametrize("log_likelihood", [spike, two_peaks, step])
def test_other_shapes_are_left_to_the_panels(log_likelihood):
    """One such factor among many is enough for all to be integrated by panels."""
    mean, variance = jnp.array([0.0, -6.0, 0.1]), jnp.array([1.0, 30.0, 4.0])
    assert not jax.jit(lambda m, v: trapezoid_moments(log_likelihood, m, v)[1])(mean, variance)
    if log_likelihood is spike:
        found = jax.jit(lambda m, v: tilted_moments(log_likelihood, m, v))(mean, variance)
        parts = [
            np.log(w) + norm.logpdf(0.0, mean, np.sqrt(v + variance))
            for w, v in ((0.99, 1e-6), (0.01, 100.0))
        ]
        assert_allclose(found.log_z, np.logaddexp(*parts), atol=1e-6)


@pytest.mark.slow
def test_a_bend_beyond_the_middle_of_the_cavity_is_seen():
    """Within a standard deviation of the cavity's mean, the log likelihood is a straight line."""
    bent = jax.jit(
        lambda m: tilted_moments(lambda x: jax.nn.log_sigmoid(-60 * (4.6 - x)), m, m + 1)
    )
    found = bent(jnp.zeros(1))
    _, mean, variance = tilted(lambda x: log_expit(60 * (x - 4.6)), 0.0, 1.0, (4.6,))
    assert_allclose(found.d1[0], mean, rtol=1e-6)
    assert_allclose(1 + found.d2[0], variance, rtol=1e-6)


@pytest.mark.slow
def test_derivatives_of_the_integral():
    """In a parameter of the likelihood, in the mean and in the variance, in reverse mode."""
    at = jnp.array([0.4, -1.0]), jnp.array([0.3, 2.0])

    def moments(rate, mean, variance):
        return tilted_moments(lambda x: 3.0 * x - rate * jnp.exp(x), mean, variance)

    log_z = jax.jit(lambda *where: moments(*where).log_z.sum())
    found: Any = jax.jit(jax.grad(log_z, (0, 1, 2)))(1.3, *at)
    change = (log_z(1.3 + 1e-4, *at) - log_z(1.3 - 1e-4, *at)) / 2e-4
    assert_allclose(found[0], change, rtol=1e-6)
    told = jax.jit(moments)(1.3, *at)
    assert_allclose(found[1], told.d1, rtol=1e-7)
    assert_allclose(found[2], 0.5 * (told.d2 + told.d1**2), rtol=1e-6)


def poisson(y):
    f: Any = numpyro.sample("f", dist.Normal(0.0, 1.5).expand([4]))
    numpyro.sample("y", dist.Poisson(jnp.exp(f[jnp.arange(8) % 4] + 0.3 * f[0])), obs=y)


@pytest.mark.slow
@pytest.mark.parametrize("power", [1.0, 0.5])
def test_the_evidence_needs_no_further_quadrature(power):
    """What the last sweep integrated gives the same evidence as integrating anew."""
    y = np.array([0, 3, 1, 7, 2, 2, 0, 4])
    engine = EP(poisson, power=power, tol=1e-5)
    program, state = engine.read({}, y), jax.jit(lambda: engine.solve({}, y)[1])()
    anew = sites.evidence_at(program.problem, sites.step(program.problem, state, 0.0))
    counted = []
    block: Any = program.problem.blocks[0]
    watched = block._replace(moments=lambda *at: counted.append(at))
    kept = sites.evidence_at(program.problem._replace(blocks=(watched,)), state)
    assert_allclose(kept, anew, atol=1e-8)
    assert not counted


# ---------------------------------------------------------------- mixtures, written as such or not


class Mixtures:
    """Three parts of widths from .01 to 10, about cavities of deviations from .1 to 20."""

    def __init__(self, count: int) -> None:
        rng = np.random.default_rng(0)
        self.share = rng.dirichlet(np.ones(3), count)
        self.width = 10 ** rng.uniform(-2, 1, (count, 3))
        self.centre, self.mean = 5 * rng.normal(size=(count, 3)), 5 * rng.normal(size=count)
        self.variance = 10 ** rng.uniform(-2, 2 * np.log10(20), count)

    @property
    def factors(self) -> tuple[Any, ...]:
        return self.share, self.width, self.centre

    def closed_form(self) -> tuple[Any, Any, Any]:
        """Log Z, mean and standard deviation of the product with the cavity."""
        total = self.width**2 + self.variance[:, None]
        parts = np.log(self.share) + norm.logpdf(self.mean[:, None], self.centre, np.sqrt(total))
        log_z: Any = logsumexp(parts, axis=1)
        odds = np.exp(parts - log_z[:, None])
        centres = self.mean[:, None] * self.width**2 + self.centre * self.variance[:, None]
        centres = centres / total
        mean = np.sum(odds * centres, axis=1)
        within = self.width**2 * self.variance[:, None] / total
        spread = np.sum(odds * (within + (centres - mean[:, None]) ** 2), axis=1)
        return log_z, mean, np.sqrt(spread)


def log_parts(x: Any, share: Any, width: Any, centre: Any) -> Any:
    z = (x[..., None] - centre) / width
    return jnp.log(share / width) - 0.5 * z**2 - 0.5 * jnp.log(2 * jnp.pi)


@pytest.mark.slow
def test_random_mixtures_have_their_closed_form():
    of = Mixtures(4000)
    found = jax.jit(lambda m, v: mixture_moments(lambda x: log_parts(x, *of.factors), 1.0, m, v))(
        of.mean, of.variance
    )
    log_z, d1, d2 = (np.asarray(x) for x in found)
    expected, mean, sd = of.closed_form()
    assert_allclose(log_z, expected, rtol=0, atol=1e-9)
    assert_allclose((of.mean + of.variance * d1 - mean) / sd, 0.0, atol=1e-8)
    assert_allclose((of.variance + of.variance**2 * d2) / sd**2, 1.0, atol=2e-7)


@pytest.mark.slow
def test_random_mixtures_that_are_missed_are_flagged_and_no_others():
    of = Mixtures(250)

    def log_likelihood(x: Any, *factor: Any) -> Any:
        return jax.nn.logsumexp(log_parts(x, *factor), axis=-1)

    def alone(mean: Any, variance: Any, *factor: Any) -> Any:
        at = mean[None], variance[None]
        found = tilted_moments(lambda x: log_likelihood(x, *factor), *at)
        return jax.tree.map(lambda x: x[0], found)

    @jax.jit
    def looked(mean, variance):
        found = jax.vmap(alone)(mean, variance, *of.factors)
        every = faults_of(lambda x: log_likelihood(x, *of.factors), mean, variance, found)
        return found, every

    found, faults = looked(of.mean, of.variance)
    log_z, mean, sd = of.closed_form()
    error = np.asarray(found.log_z) - log_z
    flagged, half = np.asarray(faults.missed) > 0.01, error < -np.log(2)
    assert np.sum(half) > 15
    assert np.mean(flagged[half]) > 0.95
    assert np.mean(flagged[error < -0.01]) > 0.85
    assert not np.any(flagged[error > -0.005])
    shift = np.abs(of.mean + found.d1 * of.variance - mean) / sd
    ratio = np.sqrt(of.variance * np.maximum(1 + found.d2 * of.variance, 0)) / sd
    off = np.maximum(shift, np.abs(ratio - 1))
    flagged, same_mass = np.asarray(faults.error) > 0, np.abs(error) < 0.01
    assert np.sum(flagged[same_mass & (off > 0.1)]) >= 1
    assert np.mean(flagged[same_mass & (off > 0.1)]) > 0.5
    assert not np.any(flagged[same_mass & (off < 0.03)])


def unnamed_mixture():
    """A mixture that is not written as one; half of its mass is beside the peak that is found."""
    f: Any = numpyro.sample("f", dist.Normal(0.3, 5.0))
    near: Any = dist.Normal(f, 0.1).log_prob(0.0)
    far: Any = dist.Normal(f - 4.0, 0.1).log_prob(0.0)
    numpyro.factor("y", jnp.logaddexp(near, far))


def both_roots():
    """The second peak is ten standard deviations of the prior away, and as likely as the first."""
    f: Any = numpyro.sample("f", dist.Normal(0.1, 1.0))
    numpyro.sample("y", dist.Normal(f**2, 1.0), obs=100.0)


def log_odds(loc: float, scale: float, first: float, second: float) -> float:
    return float(norm.logpdf(second, loc, scale) - norm.logpdf(first, loc, scale))


# Peaks of a width of .1 and .05: what their widths do to the prior's density is within a hundredth.
MISSED = {
    unnamed_mixture: log_odds(0.3, 5.0, 0.0, 4.0),
    both_roots: log_odds(0.1, 1.0, 9.975, -9.975),
}


@pytest.mark.slow
@pytest.mark.parametrize("program", MISSED, ids=lambda program: program.__name__)
def test_a_peak_that_is_missed_is_said_to_be(program):
    with pytest.warns(AccuracyWarning, match="missed at least .*% of the mass of a factor of 'y'"):
        result = EP(program).run(KEY)
    assert result.converged
    # The look counts what it sees from below.
    assert 0.5 < result.missed_mass["y"] / expit(MISSED[program]) < 1.02
    share = f"{result.missed_mass['y']:.0%}"
    assert f"at least {share} of a factor of y missed" in repr(result)
    if program is unnamed_mixture:
        with pytest.warns(AccuracyWarning, match=f"poor: the quadrature missed at least {share}"):
            assert not result.accuracy.is_good


@pytest.mark.slow
def test_wrong_moments_of_the_right_mass_are_said_to_be():
    def many_roots():
        f: Any = numpyro.sample("f", dist.Normal(0.0, 3.0))
        numpyro.sample("y", dist.Normal(jnp.sin(f), 0.1), obs=0.4)

    with pytest.warns(AccuracyWarning, match="mean or the standard deviation of a factor of 'y'"):
        result = EP(many_roots).run(KEY)
    grid = np.linspace(-40, 40, 400_001)
    log_density = norm.logpdf(grid, 0, 3) + norm.logpdf(0.4, np.sin(grid), 0.1)
    log_z: Any = logsumexp(log_density)
    weight = np.exp(log_density - log_z)
    mean = weight @ grid
    sd = np.sqrt(weight @ (grid - mean) ** 2)
    assert abs(result.log_evidence - log_z - np.log(grid[1] - grid[0])) < 0.02
    assert not result.missed_mass
    found = result.joint_mean[0], np.sqrt(result.joint_covariance[0, 0])
    off = max(abs(found[0] - mean), abs(found[1] - sd)) / sd
    assert off > 0.5 and abs(result.moment_errors["y"] / off - 1) < 0.02
    said = f"wrong by about {result.moment_errors['y']:.0%}"
    assert said in repr(result)
    with pytest.warns(AccuracyWarning, match=f"poor: .*{said}"):
        assert not result.accuracy.is_good
