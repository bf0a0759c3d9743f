"""What has a number for each two items is refused where that does not fit."""

import numpy as np
import pytest

from bayesrank import ranking

ROOM = 100 * 2**20
DRAWS = np.zeros((2, 3000))


@pytest.mark.parametrize(
    "ask",
    [
        ranking.pairwise_probability,
        ranking.rank_distribution,
        lambda draws: ranking.consensus_ranking(draws, "copeland"),
        lambda draws: ranking.pairwise_probability_gaussian(
            draws[0], np.broadcast_to(0.0, (3000, 3000))
        ),
    ],
    ids=["pairs", "ranks", "consensus", "gaussian"],
)
def test_pairs_of_very_many_items_are_refused(ask, monkeypatch):
    monkeypatch.setattr("bayesrank._memory.available", lambda: ROOM)
    with pytest.raises(ValueError, match=r"of 3,000 items take 275 MiB of memory, and 100 MiB are"):
        ask(DRAWS)
    assert len(ranking.expected_rank(DRAWS)) == 3000
