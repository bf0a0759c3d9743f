"""Data that come with the package: trips that were chosen, and games of a season."""

from pathlib import Path

from bayesrank.datasets.comparisons import read_comparisons
from bayesrank.datasets.data import ComparisonData
from bayesrank.datasets.layouts import ColumnNames

FOLDER = Path(__file__).parent / "data"


def load_modechoice() -> ComparisonData:
    """Trips that 210 people took, each chosen from four.

    Each traveller between Sydney, Canberra and Melbourne (1987) chose one of four modes, each with
    its own fare and travel time. A choice is one order, for `bayesrank.Ranker`: the chosen
    trip before the other three. The items are the 139 distinct trips, named like ``train 7 h $40``,
    with six features: four marks of the mode, hours in the vehicle, and the fare in dollars. Hours
    are rounded to whole hours and fares to $20; ``data/README.md`` explains why, and where the
    numbers come from.

    References
    ----------
    W. H. Greene and D. Hensher (1997), in W. H. Greene, LIMDEP version 7.0 user's manual revised,
    Plainview, New York: Econometric Software, Inc. The data are in the public domain.

    Examples
    --------
    >>> data = load_modechoice()
    >>> data.num_items, int(data.orders.counts.sum())
    (139, 210)
    >>> data.feature_names
    ('air', 'train', 'bus', 'car', 'hours', 'fare')
    """
    return read_comparisons(FOLDER / "modechoice_choices.csv", FOLDER / "modechoice_items.csv")


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
