"""From posterior draws of skill to what people ask of a ranking.

Every function takes ``samples`` of shape ``(draws, n)``: one joint posterior draw of all ``n``
skills a row (numpy or JAX, any real dtype). Higher skill is better and rank 1 is the best. Draws
of a batch or of chains are flattened first, ``samples.reshape(-1, n)``.

Ties. Items with equal skill in a draw share the ranks that their group covers evenly, which is
the expectation under random tie-breaking: two items tied for first have rank 1.5 each in that
draw and half a chance of being best. Nothing depends on the order in which items are listed.
"""

from bayesrank.ranking._components import connected_components as connected_components
from bayesrank.ranking._pairwise import pairwise_probability as pairwise_probability
from bayesrank.ranking._ranks import expected_rank as expected_rank
from bayesrank.ranking._ranks import prob_best as prob_best
from bayesrank.ranking._ranks import prob_top_k as prob_top_k
from bayesrank.ranking._ranks import rank_distribution as rank_distribution
from bayesrank.ranking._ranks import rank_interval as rank_interval
from bayesrank.ranking._ranks import rank_samples as rank_samples
from bayesrank.ranking._records import ItemRecords as ItemRecords
from bayesrank.ranking._records import count_records as count_records
from bayesrank.ranking._summary import RankSummary as RankSummary
from bayesrank.ranking._summary import summarize as summarize
from bayesrank.ranking._tiers import comparisons_needed as comparisons_needed
from bayesrank.ranking._tiers import is_provisional as is_provisional
from bayesrank.ranking._tiers import prob_better_than_next as prob_better_than_next
from bayesrank.ranking._tiers import tiers as tiers

__all__ = [
    "ItemRecords",
    "RankSummary",
    "comparisons_needed",
    "connected_components",
    "count_records",
    "expected_rank",
    "is_provisional",
    "pairwise_probability",
    "prob_best",
    "prob_better_than_next",
    "prob_top_k",
    "rank_distribution",
    "rank_interval",
    "rank_samples",
    "summarize",
    "tiers",
]
