"""Does every estimator keep what its intervals and probabilities promise? On data from its program.

The truth is drawn from the program that the estimator states, its hyperparameters from their
priors, and then data; what the estimator says by default is held against the truth:

- of latents (skills, functions), measured from their mean, how often central intervals of 50 and
  90% hold them, and of ranks likewise: as whole numbers, both ends included, which hold more than
  they promise, and with the ranks at either end counted by the share of them that is inside;
- the probability integral transform (PIT): where the truth lies among posterior draws, whose
  spread, times the root of 12, is one if these are right, and more if they are too sure;
- the slope of the truth on the posterior mean, one if this goes neither too far nor not far enough.

Where an estimator has probabilities of levels and no latents to speak of, the level seen has a PIT
(randomised within the level), and the slope is that power of the probabilities that fits best.

Standard errors are those between data sets.

Cases of `benchmarks.calibration` in which people differ: users who rate, and judges.

The exact posterior of `ordinal_version_space`, by tempered sequential Monte Carlo.

The likelihood comes in step by step, each as large as keeps three fifths of the particles
effective; after each the particles are drawn again and moved by Metropolis steps. Six latents and
a few dozen examples take a second, and sites that are nearly edges do no harm.
"""

from __future__ import annotations

import itertools
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray
from numpyro import handlers
from scipy.optimize import brentq, minimize_scalar
from scipy.special import log_ndtr, logsumexp, ndtr
from scipy.stats import invwishart, norm

from bayesrank import CollaborativeGP, CollaborativeOrdinalGP
from bayesrank.estimators import Ranker
from bayesrank.models.comparisons import judged_comparisons
from bayesrank.ranking import rank_interval, rank_samples

RANKS = ("ranks 90%", "ranks 90%, randomised")
FIGURES = ("50%", "90%", *RANKS, "PIT spread", "slope")


class Trial(NamedTuple):
    """What one data set shows.

    Attributes
    ----------
    pit
        Probability integral transforms, shape (n,).
    ranks
        Shares of items whose rank is held by intervals of 90%, whole and randomised.
    slope
        Numerator and denominator of a slope, which add up over data sets; or, of levels, log
        probabilities (n, r) and the level seen (n,).
    """

    pit: list[float]
    ranks: list[float]
    slope: list[Any]


class Case(NamedTuple):
    """An estimator with settings, on data of one kind.

    Attributes
    ----------
    name
        For the table.
    trial
        What happens on a data set, by its seed.
    sets
        How many data sets the full study has.
    """

    name: str
    trial: Callable[[int], Trial]
    sets: int


def of_draws(draws: np.ndarray, truth: np.ndarray, *, centred: bool = True) -> Trial:
    """Hold draws (S, n) of latents against the truth (n,), both measured from their mean."""
    if centred:
        draws, truth = draws - draws.mean(axis=1, keepdims=True), truth - truth.mean()
    mean = draws.mean(axis=0)
    place = np.empty(truth.size)
    place[np.argsort(-truth)] = np.arange(1, truth.size + 1)
    held = [_held(draws, place, 0.9), _held_at_random(draws, place, 0.9)]
    pit = np.mean(draws < truth, axis=0)
    # Sets of large skills would decide alone: each counts in units of its posterior's spread.
    unit = draws.var(axis=0).mean()
    slope = [float(mean @ truth / unit), float(mean @ mean / unit)]
    return Trial(pit.tolist(), held if centred else [], slope)


def drawn(program: Callable[..., Any], seed: int, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Values of all sites of a program, observed ones included, drawn from it."""
    with jax.enable_x64(True):
        free = handlers.seed(handlers.uncondition(program), jax.random.key(seed))
        trace = handlers.trace(free).get_trace(*args, **kwargs)
        return {name: np.asarray(site["value"]) for name, site in trace.items()}


def _held(draws: np.ndarray, place: np.ndarray, prob: float) -> float:
    low, high = np.asarray(rank_interval(draws, level=prob)).T
    return float(np.mean((low <= place) & (place <= high)))


def _held_at_random(draws: np.ndarray, place: np.ndarray, prob: float) -> float:
    """Coverage by the ranks' PIT, randomised within a rank: exact for a posterior that is right.

    The expectation over the random part is taken: of what probability the true rank has, the share
    that is between the two quantiles.
    """
    ranks, tail = rank_samples(draws), (1.0 - prob) / 2.0
    below, upto = np.mean(ranks < place, axis=0), np.mean(ranks <= place, axis=0)
    width = upto - below
    inside = np.minimum(upto, 1.0 - tail) - np.maximum(below, tail)
    share = np.maximum(inside, 0.0) / np.where(width > 0, width, 1.0)
    sure = (below >= tail) & (below <= 1.0 - tail)
    return float(np.mean(np.where(width > 0, share, sure)))


def of_normals(mean: np.ndarray, sd: np.ndarray, truth: np.ndarray) -> Trial:
    """Hold normal forecasts, shape (n,), against the truth (n,)."""
    slope = [float(mean @ truth / np.mean(sd**2)), float(mean @ mean / np.mean(sd**2))]
    return Trial(ndtr((truth - mean) / sd).tolist(), [], slope)


def of_levels(probability: np.ndarray, level: np.ndarray, seed: int) -> Trial:
    """Hold probabilities (n, r) of levels against the levels seen, 0 .. r - 1, shape (n,)."""
    rows = np.arange(len(level))
    above = np.cumsum(probability, axis=1)[rows, level]
    uniform = np.random.default_rng(seed).random(len(level))
    pit = above - uniform * probability[rows, level]
    logs = np.log(np.maximum(probability, 1e-300))
    return Trial(pit.tolist(), [], [logs.tolist(), np.asarray(level).tolist()])


def run(
    cases: Sequence[Case], share: float, results: Path | None, report: Callable[[str], None]
) -> dict[str, list[Trial]]:
    """Run the trials that a file of results, a line of JSON each, does not have yet; add them."""
    known: dict[str, list[Trial]] = {case.name: [] for case in cases}
    if results is not None and results.exists():
        for line in results.read_text().splitlines():
            name, *trial = json.loads(line)
            known.setdefault(name, []).append(Trial(*trial))
    found: dict[str, list[Trial]] = {}
    for case in cases:
        trials = known[case.name]
        for seed in range(len(trials), max(2, round(share * case.sets))):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                trials.append(case.trial(seed))
            if results is not None:
                with results.open("a") as file:
                    file.write(json.dumps([case.name, *trials[-1]]) + "\n")
        found[case.name] = trials
        report(table({case.name: trials}, header=False))
    return found


def figures(trials: Sequence[Trial]) -> dict[str, tuple[float, float]]:
    """Each figure with its standard error, by leaving out one data set at a time."""
    whole = _figures(trials)
    each = [_figures([t for t in trials if t is not one]) for one in trials]
    count = len(trials)
    errors = {k: np.std([e[k] for e in each]) * np.sqrt(count - 1) for k in whole}
    return {k: (whole[k], float(errors[k])) for k in whole}


def _figures(trials: Sequence[Trial]) -> dict[str, float]:
    pit = np.concatenate([trial.pit for trial in trials])
    inside = {p: float(np.mean(np.abs(pit - 0.5) <= p / 2)) for p in (0.5, 0.9)}
    found = {"50%": inside[0.5], "90%": inside[0.9]}
    if trials[0].ranks:
        held = np.mean([trial.ranks for trial in trials], axis=0)
        found |= dict(zip(RANKS, held.tolist(), strict=True))
    spread = float(np.sqrt(12.0 * np.mean((pit - 0.5) ** 2)))
    return found | {"PIT spread": spread, "slope": _slope(trials)}


def _slope(trials: Sequence[Trial]) -> float:
    if not isinstance(trials[0].slope[0], list):
        above, below = np.sum([trial.slope for trial in trials], axis=0)
        return float(above / below)
    logs = np.concatenate([trial.slope[0] for trial in trials])
    level = np.concatenate([trial.slope[1] for trial in trials])

    def loss(power: float) -> float:
        scaled = power * logs
        seen = scaled[np.arange(len(level)), level]
        return float(np.mean(np.asarray(logsumexp(scaled, axis=1)) - seen))

    found: Any = minimize_scalar(loss, bounds=(0.05, 5.0), method="bounded")
    return float(found.x)


def table(
    found: dict[str, list[Trial]], points: Mapping[str, str] = {}, *, header: bool = True
) -> str:
    """A table in Markdown; `points` are what gives no intervals, and what it gives instead."""
    lines = []
    if header:
        lines.append(f"| estimator and data | sets | {' | '.join(FIGURES)} |")
        lines.append(f"|---|---|{'---|' * len(FIGURES)}")
    for name, trials in found.items():
        row = figures(trials)
        cells = [_cell(key, row) for key in FIGURES]
        lines.append(f"| {name} | {len(trials)} | {' | '.join(cells)} |")
    for instead in dict.fromkeys(points.values()):
        names = ", ".join(name for name, what in points.items() if what == instead)
        lines += ["", f"No intervals, {instead}: {names}."]
    return "\n".join(lines)


def _cell(key: str, row: dict[str, tuple[float, float]]) -> str:
    if key not in row:
        return "-"
    value, error = row[key]
    if "%" in key:
        return f"{100 * value:.1f} ± {100 * error:.1f}"
    return f"{value:.2f} ± {error:.2f}"


def read_table(text: str) -> dict[str, dict[str, tuple[float, float]]]:
    """The figures of a page that has the table, with their standard errors, by estimator."""
    rows = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
        if line.startswith("| ") and len(cells) == 2 + len(FIGURES) and " ± " in line:
            rows[cells[0]] = {
                key: _read_cell(key, cell)
                for key, cell in zip(FIGURES, cells[2:], strict=True)
                if cell != "-"
            }
    return rows


def _read_cell(key: str, cell: str) -> tuple[float, float]:
    unit = 100.0 if "%" in key else 1.0
    value, error = (float(number) / unit for number in cell.split(" ± "))
    return value, error


def plot(rows: Mapping[str, Mapping[str, tuple[float, float]]], path: Path) -> None:
    """Draw the coverage of 90% intervals, of latents and of ranks, and write a PNG file."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 1.2 + 0.34 * len(rows)), layout="constrained")
    axes = figure.subplots()
    places = np.arange(len(rows))[::-1]
    axes.axvspan(87, 93, color="tab:green", alpha=0.15, label="87 to 93%")
    axes.axvline(90, color="black", lw=0.8, ls="--")
    kinds = {"90%": (0.2, "tab:blue"), RANKS[0]: (0.0, "tab:orange"), RANKS[1]: (-0.2, "tab:red")}
    for key, (shift, colour) in kinds.items():
        seen = [(p, *row[key]) for p, row in zip(places, rows.values(), strict=True) if key in row]
        place, value, error = np.array(seen).T
        what = key.replace(" 90%", "") if "ranks" in key else "latents, levels or numbers"
        axes.errorbar(
            100 * value, place + shift, xerr=100 * error, fmt="o", ms=4, color=colour, label=what
        )
    axes.set_yticks(places, list(rows))
    axes.set_xlabel("90% intervals hold so many of what is true (%), with standard errors")
    axes.legend(loc="lower left", framealpha=1.0, edgecolor="none")
    figure.savefig(path, dpi=110)


Array = NDArray[Any]

_PARTICLES, _STEPS, _LAST_STEPS = 2000, 8, 16
_EFFECTIVE, _ACCEPTED = 0.6, 0.25


def exact_weights(
    X: Array, y: NDArray[np.int64], num_levels: int, threshold_scale: float, seed: int
) -> Array:
    """Draws of the weights, shape (2000, d), noise and thresholds integrated over."""
    rng, d = np.random.default_rng(seed), X.shape[1]
    side = np.where(y[:, None] > np.arange(1, num_levels), 1.0, -1.0)

    def log_likelihood(z: Array) -> Array:
        score, edges = z[:, 1 : 1 + d] @ X.T, threshold_scale * z[:, 1 + d :]
        margin = side * (score[:, :, None] - edges[:, None])
        return log_ndtr(margin / np.exp(z[:, :1, None])).sum(axis=(1, 2))

    def log_prior(z: Array) -> Array:
        # Half-Cauchy noise, in its log; the others are standard normal.
        return z[:, 0] - np.log1p(np.exp(2.0 * z[:, 0]) / d) - 0.5 * (z[:, 1:] ** 2).sum(axis=1)

    noise = np.sqrt(d) * np.abs(rng.standard_cauchy((_PARTICLES, 1)))
    z = np.hstack([np.log(noise), rng.normal(size=(_PARTICLES, d + num_levels - 1))])
    power, size, fit = 0.0, 0.6, log_likelihood(z)
    while power < 1.0:
        step = _step(fit, 1.0 - power)
        power += step
        share = np.exp(step * fit - np.asarray(logsumexp(step * fit)))
        levels = (np.arange(_PARTICLES) + rng.random()) / _PARTICLES
        z = z[np.minimum(np.searchsorted(np.cumsum(share), levels), _PARTICLES - 1)]
        fit, prior = log_likelihood(z), log_prior(z)
        root = np.linalg.cholesky(np.cov(z.T))
        for _ in range(_STEPS if power < 1.0 else _LAST_STEPS):
            moved = z + size * rng.lognormal(0.0, 0.5) * rng.normal(size=z.shape) @ root.T
            new_fit, new_prior = log_likelihood(moved), log_prior(moved)
            log_ratio = power * (new_fit - fit) + new_prior - prior
            taken = np.log(rng.random(_PARTICLES)) < log_ratio
            z[taken], fit[taken], prior[taken] = moved[taken], new_fit[taken], new_prior[taken]
            size *= np.exp(0.3 * (taken.mean() - _ACCEPTED))
    return z[:, 1 : 1 + d]


def _step(fit: Array, most: float) -> float:
    """How much of the likelihood keeps the particles effective."""

    def too_many(step: float) -> float:
        share = np.exp(step * fit - np.asarray(logsumexp(step * fit)))
        return float(1.0 / (share**2).sum()) - _EFFECTIVE * _PARTICLES

    if too_many(most) > 0.0:
        return most
    found: Any = brentq(too_many, 0.0, most)
    return float(found)


LEVELS = 5

_FIRST_SEED = 3_000_000  # of ratings, on which nothing was chosen
_USER_SPREAD = 0.3
_ONE_SD = float(2.0 * norm.cdf(1.0) - 1.0)  # probability of the interval from -1 to 1


def styled(seed: int, *, told: bool) -> Trial:
    """Battles of twenty items, of which some are longer, and longer ones please."""
    rng = np.random.default_rng(seed)
    skill, verbose = rng.normal(size=(2, 20))
    pairs = np.array([rng.choice(20, 2, replace=False) for _ in range(1_500)])
    length = np.exp(5.0 + 0.35 * verbose[pairs] + 0.5 * rng.normal(size=pairs.shape))
    more = np.log(length[:, 0] / length[:, 1])
    margin = skill[pairs[:, 0]] - skill[pairs[:, 1]] + 0.8 * more / more.std()
    margin += np.sqrt(2.0) * rng.normal(size=len(pairs))
    lost, tied = margin < 0.0, np.abs(margin) < 0.4
    pairs[lost] = pairs[lost, ::-1]
    given = {"covariates": np.where(lost, -more, more)} if told else {}
    return of_draws(Ranker(items=range(20)).fit(pairs, ties=tied, **given).samples(), skill)


def opinionated(seed: int, *, judges: int, tastes: Any = "auto") -> Trial:
    """Battles of twenty items, which each judge likes a little more or less than others do."""
    rng = np.random.default_rng(seed)
    skill, count = rng.normal(size=20), 150 * judges if judges < 20 else 3_000
    liked = skill + 0.4 * rng.normal(size=(judges, 20))
    pairs = np.array([rng.choice(20, 2, replace=False) for _ in range(count)])
    judge, rows = rng.integers(judges, size=count), np.arange(count)
    seen = liked[judge] * np.exp(0.2 * rng.normal(size=judges))[judge, None]
    margin = (
        seen[rows, pairs[:, 0]] - seen[rows, pairs[:, 1]] + np.sqrt(2.0) * rng.normal(size=count)
    )
    games = np.where(margin[:, None] > 0.0, pairs, pairs[:, ::-1])
    return of_draws(Ranker(items=range(20), tastes=tastes).fit(games, judge=judge).samples(), skill)


def arena(seed: int, *, rows: int, judges: int = 0, categories: int = 0) -> Trial:
    """Games of twenty items, one of them at home, with ties; perhaps with judges and categories."""
    rng, n = np.random.default_rng(seed), 20
    pairs = np.array([rng.choice(n, 2, replace=False) for _ in range(rows)])
    said: dict[str, Any] = {"outcomes": np.full(rows, 2), "position": np.ones(rows, int)}
    given: dict[str, Any] = {}
    if judges:
        given = {
            "judge": rng.integers(judges, size=rows),
            "category": rng.integers(categories, size=rows),
        }
        said |= {"judges": given["judge"], "num_judges": judges}
        said |= {"categories": given["category"], "num_categories": categories}
    truth = drawn(judged_comparisons, seed, n, pairs, **said)
    tied, first = truth["comparison"] == 1, truth["comparison"] > 0
    games = np.where(first[:, None], pairs, pairs[:, ::-1])
    ranker = Ranker(items=range(n))
    ranker.fit(games, ties=tied, position=np.where(first, 1, -1), **given)
    skills = truth["f"]
    if judges:  # the ranker's are averages over the log's categories
        share = np.bincount(given["category"], minlength=categories) / rows
        skills = skills + share @ truth["category_skill"]
    return of_draws(ranker.samples(), skills)


def divisions(seed: int, **options: Any) -> Trial:
    """Two divisions of ten, 1.5 apart: each pair of a division meets four times, ten games link."""
    rng, half = np.random.default_rng(seed), 10
    truth = 0.5 * rng.normal(size=2 * half) + np.repeat([1.5, 0.0], half)
    within = np.array([(i, j) for i, j in itertools.permutations(range(half), 2)] * 2)
    cup = np.stack([rng.integers(half, size=10), half + rng.integers(half, size=10)], axis=1)
    return _games(rng, truth, np.concatenate([within, within + half, cup]), options)


def near_equals(seed: int, **options: Any) -> Trial:
    """Twenty items, 1,500 games between those of near-equal skill."""
    rng, n = np.random.default_rng(seed), 20
    truth = 0.6 * rng.normal(size=n)
    odds = np.exp(-0.5 * ((truth[:, None] - truth) / 0.2) ** 2) * (1.0 - np.eye(n))
    odds /= odds.sum(axis=1, keepdims=True)
    first = rng.integers(n, size=1500)
    pairs = np.stack([first, [rng.choice(n, p=odds[i]) for i in first]], axis=1)
    return _games(rng, truth, pairs, options)


def _games(rng: np.random.Generator, truth: Array, pairs: Array, options: Any) -> Trial:
    margin = truth[pairs[:, 0]] - truth[pairs[:, 1]] + np.sqrt(2.0) * rng.normal(size=len(pairs))
    games = np.where(margin[:, None] > 0.0, pairs, pairs[:, ::-1])
    return of_draws(Ranker(items=range(truth.size), **options).fit(games).samples(), truth)


def ratings(seed: int, *, num_users: int, num_items: int) -> Trial:
    """Levels by users who told half of theirs: the others."""
    attempts = itertools.count(_FIRST_SEED + 1000 * seed)
    levels, told = _draw(num_users, num_items, next(attempts))
    while len(np.unique(levels[told])) < LEVELS:
        levels, told = _draw(num_users, num_items, next(attempts))
    users, items = np.nonzero(told)
    model = CollaborativeOrdinalGP().fit(users, items, levels[told])
    return of_levels(model.predict_proba(*np.nonzero(~told)), levels[~told], seed)


def numbers(seed: int, *, num_users: int, num_items: int) -> Trial:
    """Numbers by users who told half of theirs: the others, noise included."""
    rng, n, m = np.random.default_rng([_FIRST_SEED, seed]), num_users, num_items
    mean, kernel = _of_the_prior(rng, m)
    f = mean + rng.normal(size=(n, m)) @ np.linalg.cholesky(kernel).T
    scale, noise = np.exp(_USER_SPREAD * rng.normal(size=(2, n, 1)))
    values = mean.mean() + scale * (f - mean.mean()) + noise * rng.normal(size=(n, m))
    told = np.argsort(rng.random((n, m)), axis=1) < m // 2
    users, items = np.nonzero(told)
    model = CollaborativeGP().fit(users, items, values[told])
    low, high = model.predict_interval(*np.nonzero(~told), level=_ONE_SD)
    return of_normals((low + high) / 2.0, (high - low) / 2.0, values[~told])


def _draw(num_users: int, num_items: int, seed: int) -> tuple[Array, Array]:
    """Levels of all users and items, shape (n, m), and which half of them each user tells.

    The kernel is drawn from the program's prior. Strengths run from the number of items to ten
    times it, the mean's from 2 to 15 users, and users differ in thresholds and noise.
    """
    rng, n, m = np.random.default_rng([seed, num_users, num_items]), num_users, num_items
    mean, kernel = _of_the_prior(rng, m)
    f = mean + rng.normal(size=(n, m)) @ np.linalg.cholesky(kernel).T
    size = np.sqrt(1.0 + np.trace(kernel) / m + mean.var())
    shares = rng.dirichlet(np.full(LEVELS, 8.0))
    edges = size * norm.ppf(np.cumsum(shares)[:-1]) + mean.mean()
    gaps = np.diff(edges) * np.exp(_USER_SPREAD * rng.normal(size=(n, LEVELS - 2)))
    own = np.hstack([np.zeros((n, 1)), np.cumsum(gaps, axis=1)])
    own += edges.mean() - own.mean(1, keepdims=True)
    noise = np.exp(_USER_SPREAD * rng.normal(size=(n, 1)))
    levels = ((f + noise * rng.normal(size=(n, m)))[:, :, None] > own[:, None]).sum(2)
    return levels, np.argsort(rng.random((n, m)), axis=1) < m // 2


def _of_the_prior(rng: np.random.Generator, m: int) -> tuple[Array, Array]:
    """Mean and kernel of m items from the program's prior, their strengths drawn as well."""
    strength = np.exp(rng.uniform(np.log(m + 4), np.log(10 * m)))
    shared, size = rng.uniform(0.1, 0.9), 3.0 * np.exp(0.5 * rng.normal())
    base = size * (shared * np.ones((m, m)) + (1.0 - shared) * np.eye(m))
    kernel = invwishart(strength, base * (strength - m - 1)).rvs(random_state=rng)
    kappa = np.exp(rng.uniform(np.log(2.0), np.log(15.0)))
    return np.linalg.cholesky(kernel) @ rng.normal(size=m) / np.sqrt(kappa), kernel
