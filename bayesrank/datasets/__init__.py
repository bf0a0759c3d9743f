"""Files in, plain arrays out: items ``0 .. n - 1`` and comparisons ``(winner, loser)``."""

from bayesrank.datasets._modechoice import load_modechoice as load_modechoice
from bayesrank.datasets.comparisons import read_comparisons as read_comparisons
from bayesrank.datasets.data import ComparisonData as ComparisonData
from bayesrank.datasets.data import OrderEvents as OrderEvents
from bayesrank.datasets.documents import TextData as TextData
from bayesrank.datasets.documents import read_links as read_links
from bayesrank.datasets.documents import read_texts as read_texts
from bayesrank.datasets.errors import DataError as DataError
from bayesrank.datasets.label_examples import LabelExamples as LabelExamples
from bayesrank.datasets.label_examples import read_label_examples as read_label_examples
from bayesrank.datasets.layouts import ColumnNames as ColumnNames
from bayesrank.datasets.lists import ListData as ListData
from bayesrank.datasets.lists import align as align
from bayesrank.datasets.lists import read_lists as read_lists
from bayesrank.datasets.queries import QueryLists as QueryLists
from bayesrank.datasets.queries import group_queries as group_queries
from bayesrank.datasets.ratings import RatingData as RatingData
from bayesrank.datasets.ratings import read_ratings as read_ratings

__all__ = [
    "ColumnNames",
    "ComparisonData",
    "DataError",
    "LabelExamples",
    "ListData",
    "OrderEvents",
    "QueryLists",
    "RatingData",
    "TextData",
    "align",
    "group_queries",
    "load_modechoice",
    "read_comparisons",
    "read_label_examples",
    "read_links",
    "read_lists",
    "read_ratings",
    "read_texts",
]
