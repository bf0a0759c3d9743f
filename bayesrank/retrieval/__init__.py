"""Texts to counts, counts to an index, and links between documents.

Counts are SciPy sparse arrays of shape (documents, terms), whole numbers from 0 on. A ranking of
documents for queries is a `Hits`.
"""

from bayesrank.retrieval.engine import BM25, SearchEngine
from bayesrank.retrieval.index import (
    Collection,
    Hits,
    Index,
    check_counts,
    collection,
    term_counter,
)
from bayesrank.retrieval.links import Links, LinkWeight, learn_link_weight, links_of, with_linked

__all__ = [
    "BM25",
    "Collection",
    "Hits",
    "Index",
    "LinkWeight",
    "Links",
    "SearchEngine",
    "check_counts",
    "collection",
    "learn_link_weight",
    "links_of",
    "term_counter",
    "with_linked",
]
