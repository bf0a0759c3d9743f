"""Score tables: the program, and its solver against quadrature, EP, NUTS and SVI."""

from typing import Any

import jax
import numpy as np
import numpyro
import pytest
from numpyro.infer import MCMC, NUTS, SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal
from scipy import stats
from scipy.special import expit

from bayesrank.infer import EP
from bayesrank.models import score_table
from bayesrank.solvers.scores import Board, fit_scores

SCALES: dict[str, float] = {"ability": 0.8, "difficulty": 1.1}


def _sites(scales: dict[str, Any]) -> dict[str, Any]:
    """The scales of the solver by the names of the program's sites."""
    gaps = [value for name, value in scales.items() if name.startswith("gap")]
    named = {f"{k}_spread": v for k, v in scales.items() if not k.startswith(("gap", "noise"))}
    named |= {"noise": scales["noise"]} if "noise" in scales else {}
    return named | ({"gaps": np.array(gaps)} if gaps else {})


def _board(kind: str, n: int = 4, num_tasks: int = 12, seed: int = 0) -> tuple[Board, Any]:
    """A board with missing cells, and its scales."""
    random = np.random.default_rng(seed)
    eta = random.normal(0.0, 0.8, (n, 1)) - random.normal(0.0, 1.2, num_tasks)
    runs = (random.random(eta.shape) > 0.1) * 1.0
    clusters = np.arange(num_tasks) % 3
    solved, counts = random.binomial(1, expit(eta)), random.binomial(3, expit(eta))
    if kind == "solved":
        return Board(solved, runs), SCALES
    if kind == "runs":
        return Board(counts, 3 * runs), SCALES | {"cell": 0.6}
    if kind == "clusters":
        return Board(counts, 3 * runs, clusters=clusters), SCALES | {"cell": 0.6, "cluster": 0.5}
    if kind == "grade":
        gaps = {"gap0": 1.0, "gap1": 1.5}
        return Board(counts, runs, "grade", values=np.arange(4)), SCALES | gaps
    scales = SCALES | {"noise": 0.7, "cluster": 0.5}
    return Board(random.normal(eta, 0.7), runs, "number", clusters), scales


def _by_ep(board: Board, scales: Any) -> Any:
    args, options = board.arguments()
    engine = EP(score_table, hyperparameters=_sites(scales))
    return engine.run(jax.random.key(0), *args, num_samples=1, **options)


@pytest.mark.parametrize("sharp", [None, np.array([0.5, 1.0, 2.5])])
def test_abilities_are_those_of_brute_force(sharp):
    scores = np.array([[1, 0, 1], [0, 0, 1]])
    grid = np.linspace(-6.0, 6.0, 121)
    normal: Any = stats.multivariate_normal
    prior = normal(np.zeros(2), 0.64 * np.eye(2) + 4.0)
    ability = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1)
    density = prior.pdf(ability)
    task = np.exp(-0.5 * (grid / 1.1) ** 2)
    for score, s in zip(scores.T, np.ones(3) if sharp is None else sharp, strict=True):
        chance = expit(s * (ability[..., None] - grid))
        each = np.where(score[:, None] > 0, chance, 1.0 - chance).prod(axis=-2)
        density = density * (each @ task)
    density /= density.sum()
    mean = np.tensordot(density, ability, 2)
    sd = np.sqrt(np.tensordot(density, (ability - mean) ** 2, 2))
    board = Board(scores, np.ones((2, 3)))
    held = {} if sharp is None else {"discrimination": sharp, "discrimination_spread": 0.3}
    args, options = board.arguments()
    options |= {"discriminations": True} if held else {}
    engine = EP(score_table, hyperparameters=_sites(SCALES) | held)
    result = engine.run(jax.random.key(0), *args, num_samples=1, **options)
    np.testing.assert_allclose(result.mean["ability"], mean, atol=0.01)
    np.testing.assert_allclose(result.sd["ability"], sd, rtol=0.01)
    if held:  # the solver takes all tasks for equally sharp
        return
    found = fit_scores(board, SCALES)
    np.testing.assert_allclose(found.moments()[0], mean, atol=0.1)
    np.testing.assert_allclose(found.moments()[1], sd, rtol=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["solved", "runs", "clusters", "grade", "number"])
def test_the_solver_agrees_with_ep(kind):
    board, scales = _board(kind)
    result, found = _by_ep(board, scales), fit_scores(board, scales)
    mean, sd = found.moments()
    exact = 1e-6 if kind == "number" else 0.06
    np.testing.assert_allclose(mean, result.mean["ability"], atol=exact)
    np.testing.assert_allclose(sd, result.sd["ability"], rtol=exact)
    np.testing.assert_allclose(found.tasks().mean, result.mean["difficulty"], atol=exact)
    if kind == "clusters":
        np.testing.assert_allclose(found.within, result.mean["cluster"], atol=exact)
    # Evidence differs by the logarithms of binomial coefficients and the prior of scales alone.
    other = {name: 1.4 * value for name, value in scales.items()}
    moved = fit_scores(board, other)
    gain = moved.log_evidence - found.log_evidence + _prior_gain(scales, other)
    np.testing.assert_allclose(
        gain, _by_ep(board, other).log_evidence - result.log_evidence, atol=0.1
    )


def _prior_gain(scales: Any, other: Any) -> float:
    """What the prior of scales lacks at others."""
    medians = {"ability": 0.7, "cell": 0.5, "cluster": 0.3, "noise": 0.7}
    square = lambda s: sum(np.log(v / medians.get(k, 1.0)) ** 2 for k, v in s.items())  # noqa: E731
    return 0.5 * (square(other) - square(scales))


def test_clusters_that_differ_in_nothing_change_nothing():
    board, scales = _board("runs")
    alone = fit_scores(board, scales)
    clusters = np.arange(board.runs.shape[1]) % 3
    found = fit_scores(board._replace(clusters=clusters), scales | {"cluster": 1e-3})
    np.testing.assert_allclose(found.mode, alone.mode, atol=1e-4)
    np.testing.assert_allclose(found.covariances, alone.covariances, rtol=1e-3)


def test_scales_and_abilities_of_a_large_board_are_learned():
    random = np.random.default_rng(3)
    ability, difficulty = random.normal(0.5, 0.9, 60), random.normal(0.0, 1.6, 300)
    eta = ability[:, None] - difficulty + random.normal(0.0, 0.7, (60, 300))
    found = fit_scores(Board(random.binomial(4, expit(eta)), np.full(eta.shape, 4.0)))
    assert abs(np.log(found.scales["difficulty"] / 1.6)) < 0.15
    assert abs(np.log(found.scales["cell"] / 0.7)) < 0.15
    mean, sd = found.moments()
    apart = ((mean - mean.mean()) - (ability - ability.mean())) / sd
    assert np.abs(apart).max() < 4.0
    assert 0.4 < apart.std() < 1.2


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["runs", "grade", "number"])
def test_the_solver_agrees_with_nuts_on_unknown_scales(kind):
    board, _ = _board(kind, n=6, num_tasks=25, seed=4)
    args, options = board.arguments()
    with numpyro.handlers.seed(rng_seed=0), jax.enable_x64(True):
        mcmc = MCMC(NUTS(score_table), num_warmup=800, num_samples=3000, progress_bar=False)
        mcmc.run(jax.random.key(0), *args, **options)
        drawn = np.asarray(mcmc.get_samples()["ability"])
    found = fit_scores(board)
    centred = drawn - drawn.mean(1, keepdims=True)
    error = centred.std(0) * np.sqrt(10 / len(drawn))  # of effective draws a tenth
    mean = found.moments()[0] - found.moments()[0].mean()
    np.testing.assert_array_less(np.abs(mean - centred.mean(0)), 0.1 * centred.std(0) + 2.0 * error)
    draws = found.draws(4000, np.random.default_rng(0))
    spread = (draws - draws.mean(1, keepdims=True)).std(0)
    np.testing.assert_allclose(spread, centred.std(0), rtol=0.12)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["solved", "runs", "clusters", "grade", "number", "sharp"])
def test_svi_runs_the_program(kind):
    board, _ = _board("solved" if kind == "sharp" else kind)
    args, options = board.arguments()
    options |= {"discriminations": True} if kind == "sharp" else {}
    optimizer = numpyro.optim.Adam(0.02)
    svi = SVI(score_table, AutoNormal(score_table), optimizer, Trace_ELBO(num_particles=4))
    result = svi.run(jax.random.key(1), 600, *args, progress_bar=False, **options)
    assert result.losses[-200:].mean() < result.losses[:50].mean()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"systems": [0, 4]}, "systems is 4 in row 1; pass numbers from 0 to 3"),
        ({"tasks": [0, 1, 1]}, "tasks has shape"),
        ({"scores": [0.5, 1]}, "scores is 0.5 in row 0; pass 0 or 1"),
        ({"kind": "grade", "runs": [1, 1]}, "runs are given"),
        ({"kind": "marks"}, "kind"),
    ],
)
def test_arguments_that_are_none_are_refused(change, words):
    call: dict[str, Any] = {"systems": [0, 1], "tasks": [0, 1], "scores": [0, 1]} | change
    columns = [np.array(call.pop(name)) for name in ("systems", "tasks", "scores")]
    with pytest.raises(ValueError, match=words), numpyro.handlers.seed(rng_seed=0):
        score_table(columns[0], columns[1], columns[2], 4, 3, **call)
