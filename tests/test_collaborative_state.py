"""What runs leave behind: no state is worse than those before, also where there is no maximum."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from rating_data import USERS_AND_ITEMS, draw_numbers

from bayesrank.infer import ConvergenceWarning
from bayesrank.solvers.collaborative import EM, EMState, em, loop
from bayesrank.solvers.collaborative.loop import Anderson, Loop

N, M = USERS_AND_ITEMS
pytestmark = pytest.mark.filterwarnings("ignore:EM has not converged")
# Acceleration goes too far in its sixth iteration.
TOO_FAR: dict[str, Any] = {"strength": 1.0, "user_scales": 0}


class Interrupted(Exception):
    """Somebody stops a run."""


@pytest.fixture(scope="module")
def data():
    """Numbers of all users but the last."""
    return draw_numbers()


def _levels(data):
    users, items, ratings = data
    return users, items, np.digitize(ratings, np.quantile(ratings, [0.3, 0.7]))


@pytest.fixture
def no_prior_of_the_mean(monkeypatch):
    monkeypatch.setattr(em, "_MEAN_STRENGTH", 0.0)


@pytest.fixture
def no_acceleration(monkeypatch):
    monkeypatch.setattr(em, "Anderson", partial(Anderson, plain_steps=10_000))


@pytest.mark.usefixtures("no_prior_of_the_mean")
def test_no_result_is_worse_than_the_iterations(data):
    engine = EM("gaussian", max_iterations=6, **TOO_FAR)
    result = engine.run(*data, progress_bar=False)
    assert result.log_evidence + result.log_prior >= result.trace[-1]
    assert np.diff(result.trace).min() >= 0


def _interrupt(engine, data, file, iteration, **options):
    """Stop a run in an iteration, after the file was written in the one before."""

    def stop(number, _):
        if number == iteration:
            raise Interrupted

    with pytest.raises(Interrupted):
        engine.run(*data, progress_bar=False, checkpoint=file, callback=stop,
                   checkpoint_every=iteration - 1, **options)  # fmt: skip


@pytest.mark.usefixtures("no_prior_of_the_mean")
def test_files_hold_nothing_that_nobody_has_looked_at(data, tmp_path):
    """The file is written while the proposal that goes too far waits."""
    engine, file, seen = EM("gaussian", max_iterations=7, **TOO_FAR), tmp_path / "state.npz", []
    whole = engine.run(*data, progress_bar=False)
    _interrupt(engine, data, file, 7)
    engine.max_iterations = 1
    engine.run(*data, progress_bar=False, init_state=file, callback=lambda _, x: seen.append(x))
    assert seen[0] * len(data[0]) >= whole.trace[5]


@pytest.mark.parametrize(
    ("likelihood", "options"),
    [
        ("gaussian", {}),
        ("gaussian", {"collaborative": False}),
        pytest.param("probit", {}, marks=pytest.mark.slow),
    ],
)
@pytest.mark.usefixtures("no_acceleration")
def test_a_run_that_was_interrupted_goes_on(data, tmp_path, monkeypatch, likelihood, options):
    """The last user rates nothing; one item, or two, are outside of the core."""
    monkeypatch.setattr(em, "_MOST_CORE_ITEMS", M - 1 if likelihood == "gaussian" else 2)
    said = data if likelihood == "gaussian" else _levels(data)
    file = tmp_path / "state.npz"
    engine = EM(likelihood, max_iterations=5, **options)
    whole = engine.run(*said, progress_bar=False, num_users=N + 1)
    _interrupt(engine, said, file, 3, num_users=N + 1)
    engine.max_iterations = 3
    rest = engine.run(*said, progress_bar=False, num_users=N + 1, init_state=str(file))
    np.testing.assert_allclose(rest.trace, whole.trace[2:], rtol=1e-12)
    for one, other in zip(rest.state, whole.state, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_levels_have_one_answer_with_and_without_acceleration(data, monkeypatch):
    """The variance of the base is held, whatever is extrapolated."""
    engine, levels = EM("probit", tol=1e-9, max_iterations=2000), _levels(data)
    fast = engine.run(*levels, progress_bar=False)
    monkeypatch.setattr(em, "Anderson", partial(Anderson, plain_steps=10_000))
    plain = engine.run(*levels, progress_bar=False)
    assert fast.converged and plain.converged and fast.num_iterations < plain.num_iterations
    np.testing.assert_allclose(fast.trace[-1], plain.trace[-1], atol=1e-4)
    np.testing.assert_allclose(fast.state.scales, plain.state.scales, rtol=1e-2, atol=1e-3)


def test_users_without_ratings_are_as_all_start(data):
    """In an individual model: at the mean of all numbers, with the base kernel's variance."""
    engine = EM("gaussian", collaborative=False, max_iterations=5)
    result = engine.run(*data, progress_bar=False, num_users=N + 1)
    mean, variance = result.functions([N])
    np.testing.assert_allclose(mean, data[2].mean())
    np.testing.assert_allclose(variance, 0.5 * np.var(data[2]))


def test_scales_of_many_items_are_learned_first(data, monkeypatch):
    monkeypatch.setattr(loop, "_FEW_ITEMS", M - 1)
    monkeypatch.setattr(loop, "_LEARNING", 2)
    kernel, scales = np.stack([np.ones((M, M)), np.eye(M)]), []
    for most in (1, 2, 3):
        engine = EM("gaussian", max_iterations=most)
        result = engine.run(*data, kernel=kernel, progress_bar=False)
        scales.append(result.state.scales)
    assert np.all(scales[0] != scales[1])
    np.testing.assert_array_equal(scales[1], scales[2])


def test_states_are_of_observations_and_of_a_model(data, tmp_path):
    engine, file = EM("gaussian", max_iterations=1), tmp_path / "state.npz"
    state = engine.run(*data, progress_bar=False, checkpoint=file).state
    with pytest.raises(ValueError, match=r"users' spread 2 and \[0.0, 0.3, 0.3\], not 1"):
        engine.run(*data, init_state=file, kernel=np.eye(M), progress_bar=False)
    with pytest.raises(ValueError, match="init_state is of other observations"):
        engine.run(*(x[::-1] for x in data), init_state=EMState.load(file), progress_bar=False)
    with pytest.raises(
        ValueError, match=r"users' spread 2 and \[0.0, 0.3, 0.3\], not 2 and \[0.0, 0.1"
    ):
        EM("gaussian", user_scales=0.1).run(*data, init_state=state, progress_bar=False)
    alone = EM("gaussian", collaborative=False)
    with pytest.raises(
        ValueError, match="of the model 'gaussian, collaborative', not 'gaussian, i"
    ):
        alone.run(*data, init_state=state, progress_bar=False)
    users, items, _ = data
    four = np.arange(len(users)) % 4  # levels with as many parameters as numbers have
    state = engine.run(users, items, four, progress_bar=False).state
    with pytest.raises(ValueError, match="of the model 'gaussian, collaborative', not 'probit, co"):
        EM("probit").run(users, items, four, init_state=state, progress_bar=False)


def test_files_that_hold_no_state_are_refused(data, tmp_path):
    file, other = tmp_path / "state.npz", tmp_path / "text"
    state = EM("gaussian", max_iterations=1).run(*data, progress_bar=False, checkpoint=file).state
    other.write_text("no state")
    with pytest.raises(ValueError, match="text is not a state that was saved by EM"):
        EMState.load(other)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["state.npz", "text"]
    kernel = state.kernel.tobytes()
    other.write_bytes(file.read_bytes().replace(kernel, bytes(len(kernel))))
    with pytest.raises(ValueError, match="text is not a state that was saved by EM"):
        EMState.load(other)


# ---------------------------------------------------------------- extremes

RATED = (*np.divmod(np.arange(30), 5), np.random.default_rng(0).normal(size=30) + np.arange(30) % 5)


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "shift"), [(1e8, 0.0), (1e-8, 0.0), (1.0, 1e6)])
def test_units_of_numbers_mean_nothing(engine, factor, shift):
    """Nor do they to the acceleration, which has to weigh means against logarithms."""
    first = engine.run(*RATED, progress_bar=False)
    other = engine.run(*RATED[:2], factor * RATED[2] + shift, progress_bar=False)
    assert other.num_iterations == first.num_iterations
    mean, variance = (first.predict_number(*RATED[:2]), other.predict_number(*RATED[:2]))[1]
    ours = first.predict_number(*RATED[:2])
    np.testing.assert_allclose((mean - shift) / factor, ours[0], atol=1e-4)
    np.testing.assert_allclose(variance / factor**2, ours[1], rtol=1e-3)
    expected = first.trace - 30 * np.log(factor)
    np.testing.assert_allclose(other.trace, expected, rtol=1e-5)


@pytest.fixture(scope="module")
def engine():
    return EM("gaussian", max_iterations=15)


@pytest.mark.slow
def test_an_estimate_without_a_maximum_is_the_last_that_is_one():
    engine = EM("gaussian", strength=0, user_scales=0, max_iterations=3000)
    with pytest.warns(ConvergenceWarning, match="the objective was no longer a number"):
        result = engine.run(np.zeros(5, int), np.arange(5), [0, 1, 2, 1, 0], progress_bar=False)
    assert not result.converged and 5 < result.num_iterations < 3000
    assert np.isfinite(result.trace).all() and np.isfinite(result.log_evidence)
    assert all(np.isfinite(x).all() for x in (result.kernel, *result.functions()))


def test_where_nothing_can_be_computed_that_is_said(engine, monkeypatch):
    monkeypatch.setattr(Loop, "evaluate", lambda *_, **__: (None, np.nan))
    with pytest.raises(ValueError, match="the objective is not a number where EM starts: levels"):
        engine.run(*RATED, progress_bar=False)
