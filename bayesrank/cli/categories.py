"""`rank --by-category`: a ranking of each category, below the one of all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from bayesrank.datasets import ComparisonData
    from bayesrank.ranking import RankSummary


class CategoryRanking(NamedTuple):
    """What is said of the items in one category."""

    name: str  #: of the category
    summary: RankSummary  #: of the skills in it, with the records of its comparisons
    conclusion: str


def refuse_no_categories(data: ComparisonData) -> None:
    """Refuse to rank by category where there are no categories, or one."""
    other = "--time" if data.times is not None else "--items" if data.features is not None else None
    if other is not None:
        raise click.UsageError(f"--by-category does not go with {other}; leave one of them out.")
    if data.orders is not None:
        raise click.UsageError("--by-category: orders have no categories; leave it out.")
    if data.categories is None:
        raise click.UsageError(
            "--by-category: no column of the file is read as categories; name it with --category."
        )
    if len(data.category_names) == 1:
        raise click.UsageError(
            f"--by-category: all comparisons are of one category ({data.category_names[0]}), and "
            "its ranking is the one of all; leave out --by-category."
        )


def with_records(summary: RankSummary, data: ComparisonData) -> RankSummary:
    """Put the records of comparisons beside a ranking that has none."""
    from bayesrank.ranking import ItemRecords, count_records

    counts = {"tied": data.tied, "weights": data.weights}
    records = count_records(data.comparisons, data.num_items, **counts)
    return replace(summary, records=ItemRecords(*(count[summary.indices] for count in records)))


def rank_categories(
    data: ComparisonData, ranker: Any, concluded: Callable[[RankSummary, Any], str]
) -> tuple[CategoryRanking, ...]:
    """Rank the items in each category, with its own records, and say what that comes to."""
    rankings = []
    for number, name in enumerate(data.category_names):
        summary = with_records(ranker.rank(category=name), data.where(data.categories == number))
        rankings.append(CategoryRanking(name, summary, concluded(summary, ranker.samples(name))))
    return tuple(rankings)
