"""The main job: comparisons to a posterior, a ranking, and files that a person keeps."""

import itertools
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click
import numpy as np

from bayesrank._memory import TooLargeError
from bayesrank._states import state_bytes
from bayesrank.cli.document import DOCUMENT, MOST_PAIRS, document, dumped, refuse_another_input
from bayesrank.cli.outputs import Job, OutputError, csv_text, drawn, job, netcdf
from bayesrank.cli.progress import Steps
from bayesrank.cli.report import report
from bayesrank.cli.tables import checks_table, legend, meanings, ranking_table
from bayesrank.cli.trust import Check, trust_checks
from bayesrank.cli.words import (
    Headline,
    counts,
    heading,
    headline,
    method,
    moment,
    needed_comparisons,
    notes_on,
    part_of,
    unit,
)
from bayesrank.datasets import ComparisonData
from bayesrank.ranking import ItemRecords, RankSummary, count_records
from bayesrank.ranking.columns import EloScale, elo_per_skill, file_columns

if TYPE_CHECKING:
    from bayesrank.diagnostics import CrossCheck
    from bayesrank.diagnostics.quick import Crosschecked
    from bayesrank.estimators import Ranker


FIGURES = ("ranking.png", "pairs.png", "crosscheck.png", "over-time.png")
RANKER = "ranker.npz"
FILES = ("report.html", "card.png", "ranking.csv", DOCUMENT, RANKER, "posterior.nc", *FIGURES)

_UNASKED = "skipped (--crosscheck none)"
_LARGEST_RANKER = 200_000_000  # bytes
_DRAWS, _FEWEST_DRAWS = 2000, 200
_NUMBERS_DRAWN = 20_000_000  # 160 MB, several times over
_NAMED = 5  # judges or categories by name
_MOMENTS, _LINES = 60, 6  # of the picture of skills over time: times, and best items


class Settings(NamedTuple):
    """What a person chose."""

    out: Path  #: folder of the results
    rows: int  #: rows of the printed table, 0 for all
    seed: int
    crosscheck: str  #: "quick", "full" or "none", see `bayesrank.diagnostics.quick`
    quiet: bool  #: no progress
    elo: bool = False  #: show skills on the scale of chess
    hyperparameters: str | Mapping[str, list[float] | float] = "integrate"
    by_category: bool = False  #: rank by each category, too
    notes: tuple[str, ...] = ()  #: what else to say below the table
    inputs: tuple[Path, ...] = ()  #: files that were read, and must not be overwritten
    save: str = "report"  #: or "all": the posterior and pictures, too
    force: bool = False  #: replace results of another input
    title: str = ""  #: of the page; the name of the file if empty
    command: str = ""  #: how the person called it
    verbose: bool = False  #: print hyperparameters
    level: float = 0.9  #: probability of all intervals
    anchor: Mapping[str, tuple[float, float]] | None = None  #: Elo points of items, and errors
    overall: Literal["average", "unseen"] = "average"  #: see `Ranker`
    format: str = "table"  #: or "csv" or "json": what is printed
    at: Any = None  #: number or date to rank as of, if not the last comparison


class Ranked(NamedTuple):
    """A ranking with its headline, overall or in a category."""

    category: str  #: empty for the ranking of all
    summary: RankSummary  #: with the records of its comparisons
    headline: Headline


class Ranking(NamedTuple):
    """What stands first: the fit, and what it says of the items."""

    ranker: Any  #: fitted estimator
    skills: np.ndarray  #: draws, shape (draws, n)
    rankings: tuple[Ranked, ...]  #: of all, and by category where that is asked for
    elo: EloScale | None = None  #: where it is asked for
    how: Mapping[str, Any] = MappingProxyType({})  #: time and anchors that they are by

    @property
    def summary(self) -> RankSummary:
        """The ranking of all."""
        return self.rankings[0].summary

    def better(self, names: Sequence[Hashable]) -> np.ndarray:
        """Probability that each of some items is better than each other, shape (m, m)."""
        pairs = list(itertools.product(names, repeat=2))
        return self.ranker.prob_better(pairs, **self.how).reshape(len(names), -1)

    def legend(self, titles: Collection[str]) -> dict[str, str]:
        """What the columns of these titles mean."""
        summaries = [each.summary for each in self.rankings]
        return legend(summaries, titles, self.elo, unit(getattr(self.ranker, "params_", {})))


class Analysis(NamedTuple):
    """What takes longer: the checks, and what is written."""

    checks: tuple[Check, ...]
    notes: tuple[str, ...]  #: sentences on effects, to print below the table
    method: tuple[str, ...]  #: those on hyperparameters
    posterior: bytes | None  #: netCDF
    figures: dict[str, bytes]  #: by file name, one of `FIGURES`


def rank_and_write(data: ComparisonData, settings: Settings) -> None:
    """Do the main job on `data`: print the table, then check the fit and write the results."""
    inputs = settings.inputs
    with job(settings.out, FILES, inputs, quiet=settings.quiet) as run:
        if not settings.force:
            refuse_another_input(settings.out, FILES, inputs, data)
        with run.steps.running():
            layout = f"; read as {data.layout}" if data.layout else ""
            run.steps.say(f"{counts(data)}{layout}")
            if data.ignored_columns:
                run.steps.say(f"Columns not used: {', '.join(data.ignored_columns)}")
            ranking = rank_items(data, settings, run.steps)
        run.steps.end()
        if settings.format == "table":
            _show_ranking(run, ranking, settings)
        with run.steps.running():
            analysis = analyse(data, settings, ranking, run.steps)
            results = _results(data, ranking, analysis, settings)
            run.write(results)
    if settings.format == "csv":
        click.echo(csv_text(results["ranking.csv"]), nl=False)
    elif settings.format == "json":
        click.echo(results[DOCUMENT], nl=False)
    else:
        run.show(checks_table(analysis.checks, settings.verbose))
        notes = (*analysis.notes, *settings.notes, *(analysis.method if settings.verbose else ()))
        run.show(*(["\n".join(notes)] if notes else []), run.where)


def _show_ranking(run: Job, ranking: Ranking, settings: Settings) -> None:
    """Print the verdicts and tables, and what the columns mean."""
    titles = set()
    for category, summary, (_, _, said) in ranking.rankings:
        said = f"{heading(summary.measure, category)}: {said}" if category else said
        table = ranking_table(summary, settings.rows, ranking.elo, run.width)
        titles |= {str(column.header) for column in table.columns}
        run.show(said, table)
    run.show(meanings(ranking.legend(titles)))


def dry_run(data: ComparisonData) -> str:
    """What was read of the files, in a few lines."""
    ends = () if data.times is None else (data.times.min(), data.times.max())
    parts = {
        "layout": data.layout,
        "judges": _some(data.judge_names),
        "categories": _some(data.category_names),
        "position": data.position_label if data.position is not None else "",
        "features": ", ".join(data.feature_names),
        "times": " to ".join(map(moment, ends)),
        "not used": ", ".join(data.ignored_columns),
        "notes": " ".join(data.notes),
    }
    return "\n".join([counts(data), *(f"{name}: {said}" for name, said in parts.items() if said)])


def _some(names: Sequence[str]) -> str:
    """How many names there are, and the first of them."""
    first = ", ".join(names[:_NAMED])
    return f"{len(names):,} ({first}{', ...' if len(names) > _NAMED else ''})" if names else ""


def num_draws(num_items: int) -> int:
    """How many posterior draws a ranking takes: 2,000, of very many items fewer, 200 at least."""
    return max(_FEWEST_DRAWS, min(_DRAWS, _NUMBERS_DRAWN // num_items))


def rank_items(data: ComparisonData, settings: Settings, steps: Steps) -> Ranking:
    """Learn the hyperparameters and the skills, and rank."""
    with steps.step("Loading JAX and NumPyro"):
        from bayesrank.estimators import Ranker  # noqa: F401
    what = "skills (EP)" if data.scores is None else "scores"
    with steps.step(f"Fitting the {what}") as advance:
        ranker: Any = _fit(data, settings, lambda number, _: advance(None, f"step {number}"))
    if data.scores is not None:
        return _of_scores(ranker, settings)
    with steps.step("Ranking"):
        how: dict[str, Any] = {"time": settings.at, "anchor": settings.anchor}
        summary, until = ranker.rank(**how, level=settings.level), _until(data, settings.at)
        skills, params = ranker.samples(**how), ranker.params_
        summary = _with_records(summary, until) if summary.records is None else summary

        def ranked(category: str, summary: RankSummary, skills: np.ndarray) -> Ranked:
            needed = partial(needed_comparisons, skills, params, settings.level)
            # None can be added to the past.
            said = headline(summary, needed if until is data else lambda tied: "")
            return Ranked(category, summary, said)

        rankings = [ranked("", summary, skills)]
        for number, name in enumerate(data.category_names if settings.by_category else ()):
            inside = until.where(until.categories == number)
            own = ranker.rank(category=name, **how, level=settings.level)
            rankings.append(ranked(name, _with_records(own, inside), ranker.samples(name, **how)))
    usual = EloScale(elo_per_skill(params)) if settings.elo else None
    return Ranking(ranker, skills, tuple(rankings), summary.elo or usual, how)


def _until(data: ComparisonData, at: Any) -> ComparisonData:
    """The comparisons up to a time; all, if there is none later."""
    if at is None or data.times is None or at >= data.times.max():
        return data
    return data.where(data.times <= at)


def _of_scores(ranker: "Ranker", settings: Settings) -> Ranking:
    """Rank the systems of a score table by both questions that can be answered."""
    from bayesrank.cli.scores import tasks_needed

    rankings = []
    for question, draws in ranker.scores.drawn.items():
        asked = ranker.scores.asked(question)
        summary = asked.rank(level=settings.level)
        needed = partial(tasks_needed, asked, level=settings.level)
        rankings.append((draws, Ranked(question, summary, headline(summary, needed))))
    first = rankings[0][1]
    ranker.set_params(question=first.category)
    return Ranking(ranker, rankings[0][0], tuple(each for _, each in rankings))


def _with_records(summary: RankSummary, data: ComparisonData) -> RankSummary:
    """Put the records of comparisons beside a ranking that has none."""
    counts = {"tied": data.tied, "weights": data.weights}
    records = count_records(data.comparisons, data.num_items, **counts)
    return replace(summary, records=ItemRecords(*(count[summary.indices] for count in records)))


def analyse(data: ComparisonData, settings: Settings, ranking: Ranking, steps: Steps) -> Analysis:
    """Cross-check, answer the other questions of trust, and draw."""
    from bayesrank.estimators.log import in_units

    ranker, (_, data) = ranking.ranker, in_units(data)
    if data.scores is not None:
        return _analysed_scores(data, settings, ranking)
    result: Any = ranker.result
    found = _checked(data, result, settings, steps)
    check = None if isinstance(found, str) else found.check
    with steps.step("Looking for cycles"):
        drawn = ranking.summary, ranking.skills
        checks = trust_checks(data, *drawn, ranker.params_, found, result)
    figures, posterior = {}, None
    if settings.save == "all":
        with steps.step("Drawing"):
            figures, posterior = _draw(data, ranking, check), netcdf(ranker.to_arviz())
    notes = (*notes_on(data, ranker.params_, settings.at), *ranker.notes(settings.level))
    how = method(data, ranker.params_, _spread(result, settings.level), settings.level)
    return Analysis(checks, notes, how, posterior, figures)


def _analysed_scores(data: ComparisonData, settings: Settings, ranking: Ranking) -> Analysis:
    """Check and draw a ranking of a score table."""
    from bayesrank.cli.scores import score_checks, score_method

    ranker, figures, posterior = ranking.ranker, {}, None
    if settings.save == "all":
        figures, posterior = _draw(data, ranking, None), netcdf(ranker.to_arviz())
    how = score_method(ranker.params_)
    notes = ranker.notes(settings.level)
    return Analysis(score_checks(ranker.scores), notes, how, posterior, figures)


def _checked(
    data: ComparisonData, result: Any, settings: Settings, steps: Steps
) -> "Crosschecked | str":
    """What the check of EP found, or why there is none."""
    from bayesrank.diagnostics.quick import (
        crosschecked,
        crosschecked_skills,
        result_of_log,
        skills_of_log,
        skills_of_result,
    )

    if settings.crosscheck == "none":
        return _UNASKED
    by_ep = hasattr(result, "model")
    if by_ep and result.structure != "dense":
        return f"NUTS takes too long for so many items. {result.approximation.sentence}"
    how, seed = settings.crosscheck, settings.seed
    with steps.step("Checking the fit") as advance:
        if by_ep and result.marginalized_sites:
            found = crosschecked_skills(skills_of_result(result), how, seed, advance)
        elif by_ep:
            found = crosschecked(result, how, seed, advance)
        elif data.judges is None and not result.num_categories:
            found = crosschecked(result_of_log(data, result), how, seed, advance)
        else:
            found = crosschecked_skills(skills_of_log(data, result), how, seed, advance)
    return found.named(data.names)


def _fit(
    data: ComparisonData, settings: Settings, callback: Callable[[int, float], None]
) -> "Ranker":
    """Learn the skills."""
    from bayesrank.estimators import Ranker

    hyperparameters: Any = settings.hyperparameters
    ranker = Ranker(
        hyperparameters=hyperparameters,
        num_samples=num_draws(data.num_items),
        random_state=settings.seed,
        ard=True,
        overall=settings.overall,
    )
    try:
        return ranker.fit(data, callback=callback)
    except ValueError as error:
        if isinstance(error, TooLargeError) or not isinstance(settings.hyperparameters, Mapping):
            raise
        raise OutputError(f"--hyperparameters: {error}") from error


def _spread(result: Any, level: float) -> dict[str, np.ndarray] | None:
    """Intervals of the hyperparameters that were averaged over, if any were."""
    draws = getattr(result, "hyperparameters", None)
    if not draws:
        return None
    return {
        name: np.quantile(v, ((1 - level) / 2, (1 + level) / 2), axis=(0, 1))
        for name, v in draws.items()
    }


def _draw(data: ComparisonData, ranking: Ranking, check: "CrossCheck | None") -> dict[str, bytes]:
    from bayesrank.plots import (
        plot_crosscheck,
        plot_pairwise,
        plot_ranking,
        plot_skills_over_time,
    )

    summary, unit_of = ranking.summary, {}
    first = [data.names[i] for i in summary.indices[:MOST_PAIRS]]
    pairs = drawn(plot_pairwise, summary, ranking.better(first))
    if ranking.elo is not None:
        unit_of = {"xlabel": f"Elo ({ranking.elo.meaning}; 400 points are odds of 10 to 1)"}
        ends = ("mean", "skill_lower", "skill_upper")
        summary = replace(summary, **{end: ranking.elo.of(getattr(summary, end)) for end in ends})
    figures = {"ranking.png": drawn(plot_ranking, summary, **unit_of), "pairs.png": pairs}
    if data.times is not None:
        span = data.times.min(), data.times.max()
        times = np.unique(span[0] + np.linspace(0.0, 1.0, _MOMENTS) * (span[1] - span[0]))
        skills, drawn_ = ranking.ranker.skills_at(times), summary.indices[:_LINES]
        named = [data.names[i] for i in drawn_]
        over = (each[:, drawn_] for each in skills)
        figures["over-time.png"] = drawn(plot_skills_over_time, times, *over, named)
    if check is not None:
        figures["crosscheck.png"] = drawn(plot_crosscheck, check, labels={"f": "skill"})
    return figures


def _results(
    data: ComparisonData, ranking: Ranking, analysis: Analysis, settings: Settings
) -> dict[str, Any]:
    """What is written, by the names of the files."""
    from bayesrank.cli.report import card

    small = state_bytes(ranking.ranker) <= _LARGEST_RANKER
    found = document(data, settings, ranking, analysis)
    results = {
        "report.html": report(found),
        "card.png": card(found),
        "ranking.csv": _frame(ranking),
        DOCUMENT: dumped(found),
        RANKER: ranking.ranker if small else None,
    }
    if settings.save == "all":
        results |= {"posterior.nc": analysis.posterior, **analysis.figures}
    return results


def _frame(ranking: Ranking) -> Any:
    """The table with all columns; below it those of categories, which a first column names."""
    import pandas as pd  # refusals do not wait for it

    columns = [file_columns(each.summary, ranking.elo) for each in ranking.rankings]
    if len(columns) == 1:
        return pd.DataFrame(columns[0])
    names = [each.category for each in ranking.rankings]
    part = part_of(ranking.summary)
    return pd.concat([pd.DataFrame({part: n, **c}) for n, c in zip(names, columns, strict=True)])
