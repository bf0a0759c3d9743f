"""What a ranking of a score table says beside its columns: counts, checks, and its method."""

from typing import TYPE_CHECKING, Any

import click
import numpy as np

from bayesrank._names import count_of
from bayesrank.cli.trust import ORDER, Check, CheckStatus
from bayesrank.cli.words import rough
from bayesrank.datasets import ScoreTable

if TYPE_CHECKING:
    from bayesrank.estimators.scores import FittedScores

_FEWEST = 10  # tasks or clusters; intervals of differences cover 84% with 8 clusters
_TOGETHER = 0.1  # by which residuals correlate more within families
_MOST = 100_000  # beyond this, a number of tasks is no help
_NOT_OF_SCORES = ("elo", "anchor", "home", "by_category", "at")


def refuse_options(options: dict[str, Any]) -> None:
    """Refuse options that are of comparisons."""
    given = [name for name in _NOT_OF_SCORES if options.get(name)]
    given += ["overall"] if options.get("overall") == "unseen" else []
    given += ["crosscheck"] if options.get("crosscheck") == "full" else []
    if given:
        name = given[0].replace("_", "-")
        raise click.UsageError(f"--{name} does not go with score tables; leave it out.")


def tasks_needed(
    scores: "FittedScores",
    tied: np.ndarray,
    level: float,
    which: str = "the leader from each of them",
) -> str:
    """How many more tasks would tell a leader from those that are tied with it, if that helps."""
    if scores.question == "these tasks":
        return ""
    leader, *others = (scores.table.names[i] for i in tied)
    draws = scores.samples()[:, tied].mean(axis=0)
    needed = [
        scores.more_tasks(leader, other, level) if gap > 0 else _MOST + 1
        for other, gap in zip(others, draws[0] - draws[1:], strict=True)
    ]
    if max(needed) > _MOST:
        return "They are too close to say how many more tasks would separate them."
    if not max(needed):
        return ""
    more = count_of(rough(max(needed)), "more task")
    return (
        f"{more} like these would separate {which} with a chance of 80%, if the true gaps match "
        "today's estimates."
    )


def score_checks(scores: "FittedScores") -> tuple[Check, ...]:
    """All checks of a score table, warnings first."""
    checks = (
        Check("Tasks", *_enough(scores.table)),
        Check("Missing cells", *_missing(scores.table)),
        Check("Repeated runs", *_repeats(scores)),
        Check("Clusters", *_clusters(scores)),
        Check("Families", *_families(scores)),
        Check("Laplace vs NUTS", "not checked", "NUTS runs bayesrank.models.score_table in Python"),
    )
    return tuple(sorted(checks, key=lambda check: ORDER.index(check.status)))


def _enough(table: ScoreTable) -> tuple[CheckStatus, str]:
    many, what = len(table.task_names), "task"
    if table.clusters is not None:
        many, what = len(table.cluster_names), "cluster"
    if many >= _FEWEST:
        return "ok", f"{count_of(many, what)} stand for others like them"
    return "warning", (
        f"{count_of(many, what)} say little of others like them, and intervals are too narrow; "
        f"add {what}s, or read the ranking on these very tasks"
    )


def _missing(table: ScoreTable) -> tuple[CheckStatus, str]:
    share = float((table.runs == 0).mean())
    if not share:
        return "n/a", "every system was run on every task"
    return "not checked", (
        f"{share:.1%} of the cells; abilities and difficulties fill them in, which is wrong where "
        "a system skips what it would fail"
    )


def _repeats(scores: "FittedScores") -> tuple[CheckStatus, str]:
    table = scores.table
    if table.runs.max() <= 1:
        return "n/a", "one run a cell counts"
    sd = scores.result.scales["cell"]
    return "ok", f"runs of a cell share what a system has with the task (SD {sd:.2f})"


def _clusters(scores: "FittedScores") -> tuple[CheckStatus, str]:
    if scores.table.clusters is None:
        return "n/a", "no column cluster; add one if tasks share a repository or a text"
    sd = scores.result.scales["cluster"]
    return "ok", f"systems are better or worse within a cluster (SD {sd:.2f})"


def _families(scores: "FittedScores") -> tuple[CheckStatus, str]:
    if scores.table.families is None:
        return "n/a", "no column family"
    inside, outside = scores.family_agreement()
    if np.isnan(inside):
        return "n/a", "no two systems are of one family"
    said = f"residuals correlate by {inside:.2f} within families, and by {outside:.2f} between them"
    if not inside - outside > _TOGETHER:
        return "ok", said
    return "warning", (
        f"{said}: systems of a family err together, for which the model has no term; intervals of "
        "differences within a family are wider than need be"
    )


def score_method(params: dict[str, Any]) -> tuple[str, ...]:
    """Sentences on the questions, what intervals include, and the scales by name."""
    listed = "; ".join(
        f"{name.replace('_', ' ')} {', '.join(f'{v:.3g}' for v in np.atleast_1d(value))}"
        for name, value in params.items()
    )
    return (
        "On tasks like these, the tasks are a sample, and a score is the mean over all tasks of "
        "their kind. On these tasks, only the runs are random, and missing cells are filled in.",
        "Intervals include uncertainty in abilities, difficulties and the spread of abilities, and "
        f"none in the other scales. Estimates: {listed}.",
    )
