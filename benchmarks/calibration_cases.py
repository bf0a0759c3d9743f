"""The estimators, and data from their own programs, for `benchmarks.calibration`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal

import click
import jax
import numpy as np
import pandas as pd
from scipy.special import expit

from bayesrank import (
    LabelRanker,
    LambdaRank,
    OrdinalGP,
    PreferenceGP,
    Ranker,
    RankRLS,
)
from bayesrank.infer import EP
from bayesrank.models import ordinal_gp, preference_gp, score_table, thurstone
from bayesrank.models.bayes_point import ordinal_version_space
from bayesrank.models.label_ranking import calibrated_label_ranking
from bayesrank.online import OnlineBayesPoint
from benchmarks.calibration import (
    Case,
    Trial,
    arena,
    divisions,
    drawn,
    exact_weights,
    figures,
    near_equals,
    numbers,
    of_draws,
    of_levels,
    opinionated,
    plot,
    ratings,
    read_table,
    run,
    styled,
    table,
)
from benchmarks.dynamic import league_skills

_ERROR_DRIVEN = "moved by errors, one example at a time: no distribution"
POINTS = {
    "ConeRank": "a score, the minimum of its objective",
    "LinkLearn": "term weights, the maximum of a likelihood of links",
    **dict.fromkeys(("PRank", "VotedPRank", "OAPBPM", "OAPBagging", "OAPVoted"), _ERROR_DRIVEN),
    "WidrowHoff": "online least squares",
    "CalibratedPerceptron": _ERROR_DRIVEN,
}
"""What gives neither intervals nor probabilities, and what it is instead."""


def _pairs(rng: np.random.Generator, n: int, count: int) -> np.ndarray:
    return np.array([rng.choice(n, 2, replace=False) for _ in range(count)])


def _standard(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    X = rng.normal(size=(n, d))
    return (X - X.mean(axis=0)) / X.std(axis=0)


def thurstone_skills(seed: int, *, ties: bool = False, **options: Any) -> Trial:
    """Twenty items of independent skills, sixty comparisons."""
    rng, n, count = np.random.default_rng(seed), 20, 60
    pairs = _pairs(rng, n, count)
    said = {"outcomes": np.full(count, 2)} if ties else {}
    law = {"likelihood": options.get("likelihood", "probit")}
    truth = drawn(thurstone, seed, n, pairs, **said, **law)
    won = truth["comparison"] > (1 if ties else 0)
    tied = truth["comparison"] == 1 if ties else np.zeros(count, bool)
    rows = np.where((won | tied)[:, None], pairs, pairs[:, ::-1])
    ranker = Ranker(items=range(n), **options).fit(rows, ties=tied)
    return of_draws(ranker.result.get_samples()["f"], truth["f"])


def preference(seed: int, *, ard: bool = False, **options: Any) -> Trial:
    """Thirty items with two features, sixty comparisons."""
    rng, n, count = np.random.default_rng(seed), 30, 60
    X, pairs = _standard(rng, n, 2), _pairs(rng, n, count)
    truth = drawn(preference_gp, seed, X, pairs, ard=ard)
    rows = np.where(truth["comparison"][:, None] == 1, pairs, pairs[:, ::-1])
    model = PreferenceGP(ard=ard, **options).fit(X, rows)
    return of_draws(model.result.get_samples()["f"], truth["f"])


def featured(seed: int, *, item_effects: bool) -> Trial:
    """Twenty-five named items with three features, of which they may be more than the sum."""
    rng, n, count = np.random.default_rng(seed), 25, 120
    X, pairs = _standard(rng, n, 3), _pairs(rng, n, count)
    truth = drawn(preference_gp, seed, X, pairs, item_effects=item_effects)
    rows = np.where(truth["comparison"][:, None] == 1, pairs, pairs[:, ::-1])
    ranker = Ranker(items=range(n), item_features=X).fit(rows)
    return of_draws(ranker.samples(), truth["f"])


def ordinal(seed: int, **options: Any) -> Trial:
    """Fifty items with two features, four levels; sets that show fewer are drawn again."""
    rng, n, r = np.random.default_rng(seed), 50, 4
    X = _standard(rng, n, 2)
    truth: dict[str, Any] = {"rating": []}
    attempts = itertools.count(1000 * seed)
    while len(np.unique(truth["rating"])) < r:
        truth = drawn(ordinal_gp, next(attempts), X, np.zeros(n, int), num_levels=r, ard=True)
    model = OrdinalGP(**options).fit(X, truth["rating"])
    return of_draws(model.result.get_samples()["f"], truth["f"])


def moving_skills(seed: int, process: str, moment: int = -1) -> Trial:
    """Eight players, 120 games at ten times: their skills at the last, or at another."""
    return of_draws(*league_skills(seed, process, moment))


def orders(seed: int, **options: Any) -> Trial:
    """Ten items, thirty orders of five of them."""
    rng, n = np.random.default_rng(seed), 10
    skill = rng.lognormal() * rng.normal(size=n)
    said = []
    for _ in range(30):
        shown = rng.permutation(n)[:5]
        said.append(shown[np.argsort(-(skill[shown] + rng.normal(size=5)))].tolist())
    ranker = Ranker(items=range(n), **options).fit(said)
    return of_draws(ranker.result.get_samples()["f"], skill)


def orders_as_pairs(seed: int) -> Trial:
    """The same orders as their pairs."""
    rng, n = np.random.default_rng(seed), 10
    skill = rng.lognormal() * rng.normal(size=n)
    rows = []
    for _ in range(30):
        shown = rng.permutation(n)[:5]
        order = shown[np.argsort(-(skill[shown] + rng.normal(size=5)))]
        rows += [(order[i], order[j]) for i in range(5) for j in range(i + 1, 5)]
    ranker = Ranker(items=range(n)).fit(rows)
    return of_draws(ranker.result.get_samples()["f"], skill)


_SETS = 200
_NOISES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
_SPACE = {"num_levels": 3, "threshold_scale": 2.0}


def _version_space(seed: int, n: int, **options: Any) -> tuple[np.ndarray, np.ndarray, Any]:
    """Examples, their levels from 1, and the truth: drawn until all sides agree on a level."""
    rng = np.random.default_rng(seed)
    X = _standard(rng, n, 3)
    above, truth = np.ones((n, 2), int), {}
    attempts = itertools.count(100_000 * seed)
    # Sides of the thresholds in their order are those of one level.
    while (np.diff(above, axis=1) > 0).any() or not 0 < above.mean() < 1:
        truth = drawn(ordinal_version_space, next(attempts), X, np.ones(n, int), **options)
        above = truth["above"]
    return X, 1 + above.sum(axis=1), truth


@cache
def _engine(choice: Literal["integrate", "prior"]) -> EP:
    return EP(ordinal_version_space, hyperparameters=choice)


def bayes_point(seed: int, *, choice: Literal["integrate", "prior"]) -> Trial:
    """Forty examples of three features and three levels: their scores."""
    X, y, truth = _version_space(seed, 40, **_SPACE)
    result = _engine(choice).run(jax.random.key(seed), X, y, **_SPACE)
    return of_draws(result.get_samples()["weights"] @ X.T, X @ truth["weights"])


def exact_bayes_point(seed: int) -> Trial:
    """The same by Monte Carlo, which tells whether the approximation misses or the simulation."""
    X, y, truth = _version_space(seed, 40, **_SPACE)
    return of_draws(exact_weights(X, y, **_SPACE, seed=seed) @ X.T, X @ truth["weights"])


def online_bayes_point(seed: int, *, first: int, last: int) -> Trial:
    """A stream of examples of four features and five levels, with thresholds among the scores."""
    rng, r = np.random.default_rng(seed), 5
    X = rng.normal(size=(last, 4))
    noise = rng.choice(_NOISES)
    weights = rng.normal(size=4)
    thresholds = np.sort(rng.normal(0.0, np.hypot(2.0, noise), r - 1))
    score = X @ weights + noise * rng.normal(size=last)
    y = 1 + (score[:, None] > thresholds).sum(axis=1)
    probability = OnlineBayesPoint(r).prequential_proba(X, y)
    return of_levels(probability[first:], y[first:] - 1, seed)


def rank_rls(seed: int) -> Trial:
    """Twenty lists of eight items with five features: scores, as they stand in each list."""
    rng, lists, n, d = np.random.default_rng(seed), 20, 8, 5
    X = rng.normal(size=(lists * n, d))
    query = np.repeat(np.arange(lists), n)
    scale, noise = rng.lognormal(size=2)
    weights = scale * rng.normal(size=d)
    level = 10.0 * rng.normal(size=lists)[query]
    y = X @ weights + level + noise * np.sqrt((n - 1) / 2) * rng.normal(size=lists * n)
    model = RankRLS().fit(X, y, query)
    new = np.eye(d) - 1.0 / d
    mean, sd = model.predict(new, return_std=True)
    draws = mean + sd * np.random.default_rng(seed).normal(size=(2000, d))
    return of_draws(draws, new @ weights, centred=False)


def labels(seed: int, **options: Any) -> Trial:
    """Forty examples of three features: rankings and relevant sets of four labels; new examples."""
    rng, n, d, c = np.random.default_rng(seed), 40, 3, 4
    X, none = _standard(rng, n, d), np.full((n, 1), -1)
    truth = drawn(calibrated_label_ranking, seed, X, none, none, c)
    noise = truth["noise"] * np.append(np.ones(c), truth["zero_noise"])
    performance = truth["bias"] + X @ truth["w"].T + noise[:, :c]
    orders = np.argsort(-performance, axis=1).tolist()
    relevant = (performance > noise[:, c:]).astype(int)
    model = LabelRanker(labels=range(c), **options).fit(X, orders, relevant)
    new = rng.normal(size=(5, d))
    found = model.posterior_.utilities((new - model.feature_mean_) / model.feature_scale_)
    part = rng.choice(len(found.weights), 1000, p=found.weights)
    sd = np.sqrt(np.diagonal(found.covariance, axis1=2, axis2=3))
    draws = found.mean[part] + sd[part] * rng.normal(size=(1000, 5, c))
    utility = truth["bias"] + new @ truth["w"].T
    return of_draws(draws.reshape(len(draws), -1), utility.ravel(), centred=False)


def frozen_field(seed: int, *, size: int) -> Trial:
    """Sixty lists of items with five features, in an order of Plackett and Luce: the weights.

    Of two items each has the probability that the frozen field gives it.
    """
    rng, lists, d = np.random.default_rng(seed), 60, 5
    X = _standard(rng, lists * size, d)
    weights = rng.normal(size=d)
    performance = (X @ weights + rng.gumbel(size=lists * size)).reshape(lists, size)
    grades = performance.argsort(axis=1).argsort(axis=1).ravel()
    model = LambdaRank().fit(X, grades, np.repeat(np.arange(lists), size))
    return of_draws(model.posterior().get_samples()["w"], weights, centred=False)


def score_tables(seed: int) -> Trial:
    """Ten systems on forty tasks, a tenth of the cells missing: scores on all tasks like these."""
    rng, n, count = np.random.default_rng(seed), 10, 40
    system, task = np.nonzero(rng.random((n, count)) < 0.9)
    truth = drawn(score_table, seed, system, task, np.zeros(len(system), int), n, count)
    solved = np.full((n, count), np.nan)
    solved[system, task] = truth["score"]
    board = pd.DataFrame(solved, columns=[f"t{t}" for t in range(count)])
    board.insert(0, "system", [f"s{i}" for i in range(n)])
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    chance = expit(truth["ability"][:, None] - truth["difficulty_spread"] * nodes)
    return of_draws(Ranker().fit(board).samples(), chance @ weights / weights.sum())


def normal_means(seed: int, *, n: int) -> Trial:
    """Standard normal means seen with unit noise, under their exact posterior."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=n)
    seen = truth + rng.normal(size=n)
    return of_draws(0.5 * seen + np.sqrt(0.5) * rng.normal(size=(2000, n)), truth)


def _of_people(case: Callable[..., Case]) -> Iterator[Case]:
    """Logs in which style pleases, or judges have tastes."""
    for told, how in ((True, "as a covariate"), (False, "left out")):
        yield case(f"Ranker, 1,500 battles, style {how}", styled, told=told)
    for judges in (12, 60):
        for tastes, how in (("auto", "as a term"), (False, "left out")):
            name = f"Ranker, {judges} judges, tastes {how}"
            yield case(name, opinionated, judges=judges, tastes=tastes)


def _matched(case: Callable[..., Case]) -> Iterator[Case]:
    """Designs in which near-equals meet; the truth is not from the program."""
    for design in ("auto", "random"):
        yield case(f"Ranker, near-equals meet, design: {design}", near_equals, design=design)
        yield case(f"Ranker, two divisions, design: {design}", divisions, design=design)


def _all() -> Iterator[Case]:
    def case(name: str, trial: Callable[..., Trial], *, times: int = 1, **options: Any) -> Case:
        return Case(name, lambda seed: trial(seed, **options), times * _SETS)

    maximum: dict[str, Any] = {"hyperparameters": "map"}
    yield case("Ranker, independent skills", thurstone_skills)
    yield case("Ranker, logistic noise", thurstone_skills, likelihood="logit")
    yield case("Ranker, ties", thurstone_skills, ties=True)
    yield case("Ranker, ties, maximum", thurstone_skills, ties=True, **maximum)
    yield case("PreferenceGP", preference)
    yield case("PreferenceGP, ard", preference, ard=True)
    yield case("PreferenceGP, maximum", preference, **maximum)
    yield case("Ranker, features and items", featured, item_effects=True)
    yield case("Ranker, features alone", featured, item_effects=False)
    yield case("OrdinalGP", ordinal)
    yield case("OrdinalGP, maximum", ordinal, **maximum)
    for name, moment in (("time", -1), ("past skills", 3)):
        for process in ("walk", "matern12"):
            yield case(f"Ranker, {name}: {process}", moving_skills, process=process, moment=moment)
    yield case("Ranker, orders", orders)
    yield case("Ranker, orders, maximum", orders, **maximum)
    yield case("orders as pairs (not to be done)", orders_as_pairs)
    yield case("Bayes point, EP", bayes_point, times=2, choice="integrate")
    yield case("Bayes point, exact (Monte Carlo)", exact_bayes_point, times=2)
    yield case("Bayes point, EP, noise at its median", bayes_point, times=2, choice="prior")
    yield case("OnlineBayesPoint, examples 1 to 100", online_bayes_point, first=0, last=100)
    yield case("OnlineBayesPoint, examples 101 to 300", online_bayes_point, first=100, last=300)
    yield from (case("Ranker, scores 10 x 40", score_tables), case("RankRLS", rank_rls))
    yield case("LabelRanker", labels)
    yield case("LabelRanker, linear", labels, kernel="linear")
    yield case("LabelRanker, linear, maximum", labels, kernel="linear", **maximum)
    yield case("LambdaRank.posterior, lists of two", frozen_field, size=2)
    yield case("LambdaRank.posterior, lists of five", frozen_field, size=5)
    yield from _matched(case)
    yield case("Ranker, 60 games", arena, rows=60)
    yield case("Ranker, 2,000 games, judges", arena, rows=2000, judges=20, categories=3)
    yield from _of_people(case)
    for name, rated in (("CollaborativeOrdinalGP", ratings), ("CollaborativeGP", numbers)):
        for m, n in ((30, 12), (60, 30)):
            yield case(f"{name}, {m} x {n}", rated, num_users=m, num_items=n)
    yield case("normal means, 8, exact posterior", normal_means, n=8)
    yield case("normal means, 20, exact posterior", normal_means, n=20)


CASES = tuple(_all())
"""The cases, in the order of the table."""


@click.command()
@click.option("--quick", is_flag=True, help="A twentieth of the data sets: about a minute.")
@click.option("--only", default="", help="Run the cases whose name contains this.")
@click.option(
    "--results",
    type=click.Path(path_type=Path),
    default=None,
    help="File to keep the trials in: the study goes on where it stopped.",
)
@click.option("--plot", "path", type=click.Path(path_type=Path), default=None)
@click.option(
    "--table",
    "page",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    default=None,
    help="A page with a table of earlier runs: --plot draws it, and nothing is run.",
)
def calibration(
    quick: bool, only: str, results: Path | None, path: Path | None, page: Path | None
) -> None:
    """What every estimator promises and keeps, on data from its own program."""
    if page is not None:
        if path is None:
            raise click.UsageError("--table gives what --plot draws; name a file with --plot.")
        plot(read_table(page.read_text()), path)
        return
    cases = [case for case in CASES if only in case.name]
    found = run(cases, 0.05 if quick else 1.0, results, lambda row: click.echo(row, err=True))
    click.echo(table(found, {name: what for name, what in POINTS.items() if only in name}))
    if path is not None:
        plot({name: figures(trials) for name, trials in found.items()}, path)


COMMANDS = [calibration]
