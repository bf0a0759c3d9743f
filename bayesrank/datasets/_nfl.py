"""Real results that come with the package: a season of American football."""

from pathlib import Path

from bayesrank.datasets.comparisons import read_comparisons
from bayesrank.datasets.data import ComparisonData
from bayesrank.datasets.layouts import ColumnNames

FILE = Path(__file__).parent / "data" / "nfl_2018.csv"


def load_nfl() -> ComparisonData:
    """Results of the National Football League, regular season of 2018.

    Each of the 32 teams played 16 games, eight at home; two of the 256 games were tied. The file
    has the scores, of which only the winner is used here. ``position`` says who was at home, and
    ``data/README.md`` where the results come from.

    References
    ----------
    The results come with the package melo by J. Scott Moreland (MIT licence).

    Examples
    --------
    >>> data = load_nfl()
    >>> data.num_items, data.num_comparisons, int(data.tied.sum())
    (32, 256, 2)
    >>> data.names[:2]
    ('Philadelphia Eagles', 'Atlanta Falcons')
    """
    return read_comparisons(FILE, columns=ColumnNames(ignore=("date",)))
