"""From posterior draws of skill to what people ask of a ranking.

Every function takes ``samples`` of shape ``(draws, n)``: one joint posterior draw of all ``n``
skills a row (numpy or JAX, any real dtype). Higher skill is better and rank 1 is the best. Draws
of a batch or of chains are flattened first, ``samples.reshape(-1, n)``.

Ties. Items with equal skill in a draw share the ranks that their group covers evenly, which is
the expectation under random tie-breaking: two items tied for first have rank 1.5 each in that
draw and half a chance of being best. Nothing depends on the order in which items are listed.
"""

from bayesrank.ranking._observed import ItemRecords, connected_components, count_records
from bayesrank.ranking._pairwise import pairwise_probability
from bayesrank.ranking._ranks import (
    SkillMixture,
    expected_rank,
    prob_best,
    prob_top_k,
    rank_distribution,
    rank_interval,
    rank_samples,
)
from bayesrank.ranking._summary import RankSummary, skill_columns, summarize
from bayesrank.ranking._tiers import (
    comparisons_needed,
    is_provisional,
    prob_better_than_next,
    tiers,
)

__all__ = [
    "ItemRecords",
    "RankSummary",
    "SkillMixture",
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
    "skill_columns",
    "summarize",
    "tiers",
]
