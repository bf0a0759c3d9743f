"""Files in, plain arrays out: items are numbered from 0; a comparison is ``(winner, loser)``."""

from bayesrank.datasets._examples import load_modechoice, load_nfl
from bayesrank.datasets.comparisons import read_comparisons
from bayesrank.datasets.data import ComparisonData, OrderEvents
from bayesrank.datasets.errors import DataError, ReadingNote
from bayesrank.datasets.layouts import ColumnNames
from bayesrank.datasets.queries import QueryLists, group_queries
from bayesrank.datasets.ratings import RatingData, read_ratings
from bayesrank.datasets.scores import ScoreTable, read_scores

__all__ = [
    "ColumnNames",
    "ComparisonData",
    "DataError",
    "OrderEvents",
    "QueryLists",
    "RatingData",
    "ReadingNote",
    "ScoreTable",
    "group_queries",
    "load_modechoice",
    "load_nfl",
    "read_comparisons",
    "read_ratings",
    "read_scores",
]
