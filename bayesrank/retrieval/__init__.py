"""Texts to counts, counts to an index, and links between documents.

Counts are SciPy sparse arrays of shape (documents, terms), whole numbers from 0 on. A ranking of
documents for queries is a `Hits`.
"""

from bayesrank.retrieval.bm25 import BM25
from bayesrank.retrieval.counts import Collection, check_counts, collection
from bayesrank.retrieval.engine import SearchEngine
from bayesrank.retrieval.index import Hits, Index
from bayesrank.retrieval.link_weight import LinkWeight, learn_link_weight
from bayesrank.retrieval.links import Links, links_of, with_linked
from bayesrank.retrieval.text import term_counter

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
