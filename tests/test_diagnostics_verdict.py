"""The comparison with NUTS and its verdicts, on made-up draws and cases."""

from typing import Any

import numpy as np
import pytest

from bayesrank.diagnostics.verdict import (
    Comparison,
    Reference,
    Sizes,
    contrast_of,
    judge,
    judge_alone,
    reference_of,
)
from bayesrank.infer.whitening.importance import Importance

RNG = np.random.default_rng(0)


# ---------------------------------------------------------------- contrasts and references


@pytest.mark.parametrize("pairs", [False, True])
def test_contrast_is_a_matrix_of_differences(pairs):
    contrast = contrast_of("f", (2, 3), pairs)
    rows = np.eye(6)
    if pairs:
        first, second = np.triu_indices(6, 1)
        rows = rows[first] - rows[second]
    values = RNG.normal(size=(4, 5, 6))
    np.testing.assert_allclose(contrast.apply(values), values @ rows.T)
    root = RNG.normal(size=(6, 6))
    expected = np.diag(rows @ root @ root.T @ rows.T)
    np.testing.assert_allclose(contrast.variance(root @ root.T), expected)
    labels = ("f[0, 0] - f[0, 1]", 15) if pairs else ("f[0, 0]", 6)
    assert (contrast.labels[0], len(contrast.labels)) == labels


def test_contrast_of_many_items_and_of_one():
    many = contrast_of("f", (100,), True)
    assert many.second is not None and many.first.size == 1000
    assert (many.first != many.second).all() and many.second.max() < 100
    assert contrast_of("f", (), True).labels == ("f",)


@pytest.mark.parametrize("rho", [0.0, 0.6])
def test_reference_knows_its_monte_carlo_error(rho):
    # An autoregression of known mean 0 and variance 1, in more columns than are done at once.
    noise = RNG.normal(size=(2000, 4, 300))
    draws = np.empty_like(noise)
    draws[0] = noise[0]
    for t in range(1, len(noise)):
        draws[t] = rho * draws[t - 1] + np.sqrt(1 - rho**2) * noise[t]
    reference = reference_of(contrast_of("f", (300,), False), draws.swapaxes(0, 1))
    ess = 8000 * (1 - rho) / (1 + rho)
    np.testing.assert_allclose(np.median(reference.ess), ess, rtol=0.05)
    np.testing.assert_allclose(np.std(reference.mean), np.median(reference.mean_error), rtol=0.15)
    np.testing.assert_allclose(np.std(reference.sd), np.median(reference.sd_error), rtol=0.15)
    np.testing.assert_allclose(reference.sd, 1.0, atol=0.1)
    assert 0.99 < reference.r_hat.min() < reference.r_hat.max() < 1.03


def test_reference_sees_chains_that_disagree_or_stand_still():
    draws = RNG.normal(size=(4, 100, 2))
    draws[0, :, 1] += 5.0
    reference = reference_of(contrast_of("f", (2,), False), draws)
    assert reference.r_hat[0] < 1.05 < 1.5 < reference.r_hat[1]
    still = reference_of(contrast_of("f", (1,), False), np.zeros((2, 10, 1)))
    assert np.isnan(still.r_hat).all()


# ---------------------------------------------------------------- verdicts


def case(
    error: Any = 0.0, change: Any = 0.0, noise: float = 0.01, r_hat: float = 1.0, q: int = 5
) -> list[Comparison]:
    """An engine whose means are off by `error` sds, and sds by a factor of `1 + change`."""
    contrast = contrast_of("f", (q,), False)
    full = np.ones(q)
    reference = Reference(
        contrast, 3.0 * full, 2.0 * full, noise * full, noise * full, r_hat * full, full / noise**2
    )
    mean = 3.0 + 2.0 * np.broadcast_to(error, q)
    return [Comparison("ep", reference, mean, 2.0 * (1.0 + np.broadcast_to(change, q)))]


SIZES = Sizes(num_warmup=500, num_samples=1000, num_chains=4, num_divergent=0)
ONE_OFF = np.array([0.0, 0.0, 0.0, 0.3, 0.0])


@pytest.mark.parametrize(
    ("comparisons", "status", "words"),
    [
        (case(), "agrees", "EP agrees with NUTS within Monte Carlo error: use EP."),
        (case(error=0.02), "agrees", "within Monte Carlo error"),
        (case(error=0.04), "close", "within 0.04 posterior standard deviations"),
        (case(change=-0.05), "close", "standard deviations within 5% (5% too small in the median)"),
        (case(error=ONE_OFF), "differs", "mean of f[3] is 0.3 posterior standard deviations off"),
        (case(change=-ONE_OFF), "differs", "f[3] is 30% too small ("),
        (case(change=0.2), "differs", "is 20% too large (20% too large in the median)"),
        (case(error=0.2, change=-0.2), "differs", "off and the standard deviation of f[0] is"),
        (case(error=0.11), "unclear", "may be Monte Carlo error: run again with num_samples=4000"),
        (case(noise=0.05), "unclear", "Monte Carlo error (0.05 posterior standard deviations)"),
        (case(noise=0.2), "unclear", "run again with num_samples=64000"),
        (case(error=1.0, r_hat=1.2), "unclear", "NUTS has not converged (R-hat 1.20 for f[0])"),
        (case(r_hat=1.2), "unclear", "run again with num_warmup=1000, num_samples=2000"),
        (case(r_hat=np.nan), "unclear", "A chain of NUTS never moved (f[0])"),
    ],
)
def test_verdict(comparisons, status, words):
    verdict = judge(comparisons, SIZES, 0.1, None)
    assert (verdict.engine, verdict.status) == ("ep", status)
    assert words in verdict.sentence and verdict.sentence.count(". ") <= 1


def test_verdict_on_divergences_and_complaints():
    diverged = SIZES._replace(num_divergent=200)
    assert "5% of its draws diverged" in judge(case(), diverged, 0.1, None).sentence
    verdict = judge(case(), SIZES, 0.1, "has not converged.")
    assert (verdict.status, verdict.sentence) == ("differs", "EP has not converged.")


def test_tolerance_is_the_callers():
    assert judge(case(error=0.04), SIZES, 0.01, None).status == "unclear"
    assert judge(case(error=0.3), SIZES, 0.5, None).status == "close"


@pytest.mark.slow
def test_noise_alone_is_agreement():
    contrast = contrast_of("f", (50,), False)
    statuses = []
    for _ in range(300):
        reference = reference_of(contrast, RNG.normal(size=(2, 500, 50)))
        exact = Comparison("svi", reference, np.zeros(50), np.ones(50))
        statuses.append(judge([exact], SIZES, 0.5, None).status)
    assert statuses.count("agrees") > 0.95 * len(statuses)


def test_verdict_without_nuts():
    def alone(k_hat, divergence, warning=None):
        weights = Importance(k_hat, -divergence, 0.0, 0.01)
        return judge_alone("svi", weights, 0.1, warning)

    assert alone(0.3, 1.0).status == "agrees"
    assert alone(1.5, 0.004).status == "agrees" and alone(1.5, 0.006).status == "unclear"
    assert "add 'nuts'" in alone(0.9, 1.0).sentence
    assert alone(np.nan, np.nan).status == "unclear"
    assert alone(0.1, 0.0, "is broken.").sentence == "SVI is broken."
