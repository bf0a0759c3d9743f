"""Which pair to compare next."""

from bayesrank.active.acquisition import Acquisition as Acquisition
from bayesrank.active.acquisition import Beliefs as Beliefs
from bayesrank.active.acquisition import anticipate as anticipate
from bayesrank.active.acquisition import bald as bald
from bayesrank.active.acquisition import entropy_gain as entropy_gain
from bayesrank.active.acquisition import margin_variance as margin_variance
from bayesrank.active.acquisition import margins as margins
from bayesrank.active.acquisition import pool_variance as pool_variance
from bayesrank.active.acquisition import random_gain as random_gain
from bayesrank.active.acquisition import top_gain as top_gain
from bayesrank.active.factored import BestPair as BestPair
from bayesrank.active.factored import FactoredBeliefs as FactoredBeliefs
from bayesrank.active.factored import best_pair as best_pair
from bayesrank.active.factored import best_pair_batch as best_pair_batch
from bayesrank.active.history import Answer as Answer
from bayesrank.active.history import History as History
from bayesrank.active.loop import QueryLoop as QueryLoop
from bayesrank.active.open_journal import read_history as read_history
from bayesrank.active.questions import Question as Question
from bayesrank.active.selection import best_batch as best_batch
from bayesrank.active.selection import best_pairs as best_pairs
from bayesrank.active.stopping import Progress as Progress
from bayesrank.active.store import Journal as Journal
from bayesrank.active.store import JournalError as JournalError
from bayesrank.active.store import read_journal as read_journal

__all__ = [
    "Acquisition",
    "Answer",
    "Beliefs",
    "BestPair",
    "FactoredBeliefs",
    "History",
    "Journal",
    "JournalError",
    "Progress",
    "QueryLoop",
    "Question",
    "anticipate",
    "bald",
    "best_batch",
    "best_pair",
    "best_pair_batch",
    "best_pairs",
    "entropy_gain",
    "margin_variance",
    "margins",
    "pool_variance",
    "random_gain",
    "read_history",
    "read_journal",
    "top_gain",
]
