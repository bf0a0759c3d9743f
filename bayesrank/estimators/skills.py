"""The fit of skills: what a log has becomes a program's arguments, and one place takes the route.

EP runs every program; skills that move are chains in time; a log of which the scales are not
averaged over goes by the solver for logs, `bayesrank.solvers.comparisons.fit_arena`.
"""

import warnings
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from bayesrank._memory import check_memory
from bayesrank._names import count_of
from bayesrank._stack import outside
from bayesrank.datasets import ComparisonData
from bayesrank.estimators.base import engine_of
from bayesrank.estimators.checks import check_hyperparameters
from bayesrank.estimators.columns import TimeRange, read_times
from bayesrank.infer import EP
from bayesrank.infer.spi import MOST_DENSE
from bayesrank.models import preference_gp
from bayesrank.models.comparisons import SCALES
from bayesrank.models.dynamic import PROCESSES
from bayesrank.models.orders import Events
from bayesrank.solvers.comparisons import (
    Asked,
    EPSkills,
    JudgedSkills,
    fit_arena,
    settles_scales,
)
from bayesrank.solvers.comparisons.buckets import Bucket, in_bucket
from bayesrank.solvers.comparisons.dynamic import check_room
from bayesrank.solvers.comparisons.posterior import OUTCOMES, Component, chances_by, moments_of
from bayesrank.solvers.comparisons.skills import (
    Independent,
    Moving,
    Skills,
    above_average,
    enough_inducing,
    fewer_comparisons,
    with_new_items,
)
from bayesrank.solvers.comparisons.terms import MarginRows, arguments_of, scales_of

_PROCESS = "matern12"  # of long ago little is known, and newcomers are as the average is
_CHOICES = ("integrate", "map", "prior")
# Beyond these, averaging takes several times as long, and scales are known well.
_MOST_LATENTS, _MOST_ROWS = 600, 2_000
# Latents whose covariances one core finds in a minute, in some ten sweeps; a judge costs as five.
_LATENTS_A_MINUTE = 5_000
_LOW_RANK = EP(preference_gp, structure="low_rank")

RankerPosterior = EPSkills | JudgedSkills
"""The posterior of skills, by whatever route it was found: both answer to the same questions."""

Callback = Callable[[int, float], None] | None


class FitSettings(NamedTuple):
    """Options of a fit, as estimators have them; `seed` is of draws and of the search."""

    hyperparameters: str | Mapping[str, Any]
    num_samples: int
    seed: int
    num_restarts: int = 0
    likelihood: str = "probit"
    tastes: bool | Literal["auto"] = False


class RankerFit(NamedTuple):
    """What a fit found."""

    result: Any  # what the engine or the solver returned
    params: dict[str, NDArray[Any]]  # hyperparameters; means of those averaged over
    choice: str  # "integrate", "map" or "prior"


def ranker_posterior(
    result: Any, likelihood: str = "probit", widening: float = 1.0
) -> RankerPosterior:
    """What a ranker asks of a posterior, by whatever route it was found."""
    if hasattr(result, "model"):
        return EPSkills(result, likelihood, widening)
    return JudgedSkills(result, widening)


def fit_skills(
    data: ComparisonData | Events, skills: Skills, settings: FitSettings, callback: Callback = None
) -> RankerFit:
    """Learn hyperparameters and skills from comparisons, or from orders as events."""
    if isinstance(data, ComparisonData) and data.is_log:
        along = getattr(skills, "laplacian", None) is not None
        if isinstance(skills, Independent) and settings.likelihood == "probit" and not along:
            return _fit_log(data, skills, settings, callback)
        _refuse_beside(data, skills, settings)
    _check_room(skills.items, data, 0, settings)
    program, args, options, shapes = _call(data, skills, settings.likelihood)
    params, choice = check_hyperparameters(settings.hyperparameters, shapes, _CHOICES)
    if float(params.get("item_share", 0.0)) >= 1.0:
        share = float(params["item_share"])
        raise ValueError(f"hyperparameters['item_share'] is {share:g}; pass a share below one")
    of_pairs = isinstance(data, ComparisonData)
    key = jax.random.key(settings.seed)
    if choice == "integrate" and not (of_pairs and skills.too_many):
        bucket = _bucket(data, skills, settings)
        return _averaged((program, args, options), bucket, settings, callback)
    choice = "prior" if choice == "prior" else "map"
    counts: dict[str, Any] = {"num_samples": settings.num_samples}
    search: dict[str, Any] = {"num_restarts": settings.num_restarts, "callback": callback}
    if not (skills.inducing and of_pairs):
        engine = engine_of(program, choice)
        result: Any = engine.run(key, *args, params=params, **counts, **search, **options)
        return RankerFit(result, dict(result.params), choice)
    part, some = fewer_comparisons(args[0], args[1], options)
    engine = _LOW_RANK.with_settings(hyperparameters=choice)
    found: Any = engine.run(key, *part, params=params, num_samples=1, **search, **some)
    options["rank"] = enough_inducing(found.params, args[0], args[1], options)
    result = engine_of(program).run(key, *args, params=found.params, **counts, **options)
    return RankerFit(result, dict(result.params), choice)


def check_tastes(tastes: Any, data: ComparisonData) -> None:
    """Refuse an option that is none, and tastes of no judges."""
    if not isinstance(tastes, bool) and tastes != "auto":
        raise ValueError(f"tastes is {tastes!r}; choose 'auto', True or False")
    if tastes is True and data.judges is None:
        raise ValueError("tastes is True, and comparisons name no judges; leave it out")


def moving(time: Any, data: ComparisonData) -> tuple[TimeRange, Moving] | None:
    """The range of times, and skills that move in it; None where skills stand still.

    `time` is an option of a ranker: a process, "auto", or None.
    """
    if time is not None and time not in ("auto", *PROCESSES):
        raise ValueError(f"time is {time!r}; choose None, 'auto' or one of {PROCESSES}")
    if data.times is None or time is None:
        if time in PROCESSES:
            raise ValueError(
                f"time={time!r} has to know when each comparison was; pass time to fit, or a "
                "column time"
            )
        return None
    if data.features is not None:
        raise ValueError(
            "comparisons has times, and skills of features stand still; leave item_features out, "
            "or pass time=None"
        )
    process = _PROCESS if time == "auto" else time
    check_room(data.num_items, data.num_comparisons, process)
    times, dates = read_times(data.times, "time")
    span = TimeRange(float(times.min()), float(times.max()), dates)
    distinct, period = np.unique(span.scaled(times), return_inverse=True)
    return span, Moving(data.num_items, process, distinct, period)


def _refuse_beside(data: ComparisonData, skills: Skills, settings: FitSettings) -> None:
    """Refuse columns that the model does not carry beside others."""
    if data.judges is not None:
        if isinstance(skills, Independent):
            graph = skills.laplacian is not None
            other = "design='matched'" if graph else "likelihood='logit'"
        else:
            other = "times" if isinstance(skills, Moving) else "item_features"
        raise ValueError(
            f"comparisons has judges, which do not go with {other} yet; leave one of them out"
        )
    if skills.inducing:
        raise ValueError(
            f"there are {data.num_items:,} items with features, over {MOST_DENSE:,}, with which "
            "positions, categories and covariates do not go; leave these out, or rank fewer items"
        )


def _fit_log(
    data: ComparisonData, skills: Skills, settings: FitSettings, callback: Callback
) -> RankerFit:
    """Learn the scales and skills of a log with whatever columns it has."""
    categories = len(data.category_names) if len(data.category_names) > 1 else 0
    dense = data.num_items * (1 + categories) + len(data.covariate_names) + 2
    _check_room(data.num_items, data, dense, settings)
    rows = data.distinct()
    tastes = settings.tastes if data.judges is not None else False
    names = ("scale", *scales_of(data), *(["taste_scale"] if tastes else []))
    fixed, choice = check_hyperparameters(
        settings.hyperparameters, dict.fromkeys(names, ()), _CHOICES
    )
    scales = {name: float(value) for name, value in fixed.items()}
    if choice == "prior":
        tastes = tastes is True
        learned = [name for name in names if tastes or name != "taste_scale"]
        scales = {name: SCALES[name].median for name in learned} | scales
    said = {**arguments_of(rows), "tastes": tastes}
    result = fit_arena(rows.num_items, rows.comparisons, scales=scales, callback=callback, **said)
    averages = choice == "integrate" and _can_average(rows)
    if averages and not settles_scales(rows, result, scales):
        call = _call(data, skills, settings.likelihood)[:3]
        return _averaged(call, _bucket(data, skills, settings), settings, callback)
    params = {name: np.asarray(value) for name, value in result.scales.items()}
    return RankerFit(result, params, "prior" if choice == "prior" else "map")


def _check_room(items: Any, data: Any, dense: int, settings: FitSettings) -> None:
    """Refuse what memory cannot hold: draws, and covariances of `dense` latents with judges.

    Warn of covariances that take more than a minute to find.
    """
    n = items if isinstance(items, int) else len(items)
    comparisons = data.num_comparisons if isinstance(data, ComparisonData) else 0
    judges = len(data.judge_names) if isinstance(data, ComparisonData) else 0
    need = 3 * settings.num_samples * n + (100 if judges else 10) * comparisons
    need += dense * (6 * dense + 10 * judges)
    what = f"{n:,} items and {comparisons:,} comparisons" if comparisons else f"{n:,} items"
    each, fewer = "", "rank fewer items"
    if dense > n + 2:
        categories = f"{(dense - 2) // n - 1:,} categories"
        what += f" in {categories}"
        each, fewer = f", each overall and in {categories},", f"{fewer} or categories"
    check_memory(8 * need, what, fewer)
    minutes = dense**2 * (dense + 5 * judges) / _LATENTS_A_MINUTE**3
    if minutes > 1:
        also = ", or leave the column of categories out" if each else ""
        cost = f"about {count_of(round(minutes), 'minute')} of CPU time to fit"
        warnings.warn(f"{n:,} items{each} take {cost}; {fewer}{also}", stacklevel=outside())


def _bucket(data: ComparisonData | Events, skills: Skills, settings: FitSettings) -> Bucket | None:
    """Arguments in a shape that others have, too, where items can be added without a trace."""
    if isinstance(skills, Independent) and isinstance(data, ComparisonData):
        return in_bucket(data, settings.likelihood, skills.laplacian)
    return None


def _averaged(
    call: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]],
    bucket: Bucket | None,
    settings: FitSettings,
    callback: Callback,
) -> RankerFit:
    """Average over the hyperparameters of a program and its arguments, in a bucket if there is."""
    (program, args, options), key = call, jax.random.key(settings.seed)
    used, said = (args, options) if bucket is None else (bucket.args, bucket.options)
    counts = {"num_samples": settings.num_samples, "num_restarts": settings.num_restarts}
    result: Any = engine_of(program).run(key, *used, callback=callback, **counts, **said)
    if bucket is not None:
        result = bucket.without_filling(result, args, options)
    means = {name: result.mean[name] for name in result.hyperparameters}
    return RankerFit(result, {**result.params, **means}, "integrate")


def _call(
    data: ComparisonData | Events, skills: Skills, likelihood: str
) -> tuple[Any, tuple[Any, ...], dict[str, Any], dict[str, tuple[int, ...]]]:
    """A program, its arguments, and shapes of its hyperparameters."""
    of_pairs, of_orders = skills.programs
    if isinstance(data, Events):
        return of_orders, (skills.items, *data), skills.arguments(), skills.shapes(True)
    shapes = skills.shapes(False) | dict.fromkeys(scales_of(data), ())
    options = {**skills.arguments(), "likelihood": likelihood, **arguments_of(data)}
    return of_pairs, (skills.items, data.comparisons), options, shapes


def _can_average(rows: ComparisonData) -> bool:
    """Whether the scales of a log of distinct rows can be averaged over in little time."""
    within = len(rows.category_names)
    latents = rows.num_items * (1 + within * (within > 1))
    few = latents <= _MOST_LATENTS and rows.num_comparisons <= _MOST_ROWS
    return rows.judges is None and few


Array = NDArray[np.float64]


class Newcomers(NamedTuple):
    """Skills of the items of `fit`, and behind them of new ones."""

    parts: list[Component]  # what the posterior of all of them is made of
    num_known: int  # number of the items of `fit`

    def skills(self) -> tuple[Array, Array]:
        """Means and standard deviations of the new ones, from the average of those of `fit`."""
        new = [above_average(part, self.num_known) for part in self.parts]
        each = np.arange(len(new[0].mean))
        return moments_of(new, MarginRows.of(each.size, (1.0, each)))


def newcomers(ranker: Any, features: Array) -> Newcomers:
    """Add items to those of a fitted ranker, by their features (m, d) in its units."""
    scaled = (features - ranker.feature_mean_) / ranker.feature_scale_
    return Newcomers(with_new_items(ranker.posterior_, scaled), len(ranker.names_))


def outcome_chances(
    ranker: Any, pairs: NDArray[np.int64], new: Newcomers | None = None
) -> dict[str, Array]:
    """Probability of each possible outcome for the first item of each pair of numbers (P, 2)."""
    asked = Asked(*pairs.T, shares=ranker._shares())
    if new is None:
        found = ranker.posterior_.chances(asked)
    else:
        everyone = {"f": np.arange(len(new.parts[0].mean))}
        found = chances_by(new.parts, everyone, asked._replace(shares=None), ranker.likelihood)
    possible = ("win", "tie", "loss") if "tie_width" in ranker.params_ else ("win", "loss")
    return {outcome: found[:, OUTCOMES.index(outcome)] for outcome in possible}
