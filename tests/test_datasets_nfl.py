"""The shipped NFL results: the same as their source, and as the season is known to have ended."""

import nfl_source
import numpy as np

from bayesrank.datasets import load_nfl
from bayesrank.ranking import count_records


def test_the_shipped_file_follows_from_the_source():
    assert nfl_source.FILE.read_text(encoding="utf-8") == nfl_source.build()


def test_every_team_played_sixteen_games_half_of_them_at_home():
    data = load_nfl()
    assert data.position is not None
    np.testing.assert_array_equal(np.bincount(data.comparisons.ravel()), 16)
    hosts = np.where(data.position == 1, *data.comparisons.T)
    np.testing.assert_array_equal(np.bincount(hosts), 8)


def test_standings_are_those_of_the_league():
    """Wins, losses and ties as the league printed them."""
    data = load_nfl()
    records = count_records(data.comparisons, data.num_items, tied=data.tied)
    final = {
        "Los Angeles Rams": (13, 3, 0),
        "Kansas City Chiefs": (12, 4, 0),
        "Pittsburgh Steelers": (9, 6, 1),
        "Cleveland Browns": (7, 8, 1),
        "Arizona Cardinals": (3, 13, 0),
    }
    for name, record in final.items():
        item = data.names.index(name)
        assert (records.wins[item], records.losses[item], records.ties[item]) == record
