"""EM where numbers are large or small, and where what is estimated has no maximum."""

import numpy as np
import pytest

from bayesrank.infer import ConvergenceWarning
from bayesrank.solvers.collaborative import EM
from bayesrank.solvers.collaborative.loop import Loop

USERS, ITEMS = np.divmod(np.arange(30), 5)
RATINGS = np.random.default_rng(0).normal(size=30) + ITEMS


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "shift"), [(1e8, 0.0), (1e-8, 0.0), (1.0, 1e6)])
@pytest.mark.filterwarnings("ignore:EM has not converged")
def test_units_of_numbers_mean_nothing(engine, factor, shift):
    """Nor do they to the acceleration, which has to weigh means against logarithms."""
    first = engine.run(USERS, ITEMS, RATINGS, progress_bar=False)
    other = engine.run(USERS, ITEMS, factor * RATINGS + shift, progress_bar=False)
    assert other.num_iterations == first.num_iterations
    mean, variance = (first.predict_number(USERS, ITEMS), other.predict_number(USERS, ITEMS))[1]
    ours = first.predict_number(USERS, ITEMS)
    np.testing.assert_allclose((mean - shift) / factor, ours[0], atol=1e-4)
    np.testing.assert_allclose(variance / factor**2, ours[1], rtol=1e-3)
    expected = first.trace - len(RATINGS) * np.log(factor)
    np.testing.assert_allclose(other.trace, expected, rtol=1e-5)


@pytest.fixture(scope="module")
def engine():
    return EM("gaussian", max_iterations=15)


@pytest.mark.slow
def test_an_estimate_without_a_maximum_is_the_last_that_is_one():
    engine = EM("gaussian", strength=0, mean_strength=0, user_scales=0, max_iterations=3000)
    with pytest.warns(ConvergenceWarning, match="the objective was no longer a number"):
        result = engine.run(np.zeros(5, int), np.arange(5), [0, 1, 2, 1, 0], progress_bar=False)
    assert not result.converged and 5 < result.num_iterations < 3000
    assert np.isfinite(result.trace).all() and np.isfinite(result.log_evidence)
    assert all(np.isfinite(x).all() for x in (result.kernel, *result.functions()))


def test_where_nothing_can_be_computed_that_is_said(engine, monkeypatch):
    monkeypatch.setattr(Loop, "evaluate", lambda *_: np.nan)
    with pytest.raises(ValueError, match="the objective is no number where EM starts: levels"):
        engine.run(USERS, ITEMS, RATINGS, progress_bar=False)
