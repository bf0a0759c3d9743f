"""Texts to counts, counts to an index, and links between documents.

Counts are SciPy sparse arrays of shape (documents, terms), whole numbers from 0 on. A ranking of
documents for queries is a `Hits`.
"""

from bayesrank.retrieval.bm25 import BM25 as BM25
from bayesrank.retrieval.counts import Collection as Collection
from bayesrank.retrieval.counts import check_counts as check_counts
from bayesrank.retrieval.counts import collection as collection
from bayesrank.retrieval.engine import SearchEngine as SearchEngine
from bayesrank.retrieval.index import Hits as Hits
from bayesrank.retrieval.index import Index as Index
from bayesrank.retrieval.link_weight import LinkWeight as LinkWeight
from bayesrank.retrieval.link_weight import learn_link_weight as learn_link_weight
from bayesrank.retrieval.links import Links as Links
from bayesrank.retrieval.links import links_of as links_of
from bayesrank.retrieval.links import with_linked as with_linked
from bayesrank.retrieval.text import term_counter as term_counter

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
