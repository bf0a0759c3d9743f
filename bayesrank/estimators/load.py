"""`load_ranker`: any ranker of named items, of the class that its file names."""

from pathlib import Path

from bayesrank._states import read_state
from bayesrank.estimators.arena import ArenaRanker
from bayesrank.estimators.orders import OrderRanker
from bayesrank.estimators.pairwise import PairwiseRanker


def load_ranker(path: str | Path) -> ArenaRanker | OrderRanker | PairwiseRanker:
    """Read a ranker that `save` wrote, of whatever class it is.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    PairwiseRanker, ArenaRanker or OrderRanker
        Fitted, as it was saved.

    Raises
    ------
    ValueError, FileNotFoundError
        If the file was not written by `save`, or is damaged; if there is none.
    """
    return read_state(path, "a ranker", (ArenaRanker, OrderRanker, PairwiseRanker))
