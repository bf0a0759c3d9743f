"""Which pair to compare next."""

from bayesrank.active.acquisition import Acquisition as Acquisition
from bayesrank.active.acquisition import bald as bald
from bayesrank.active.acquisition import entropy_gain as entropy_gain
from bayesrank.active.acquisition import eubo as eubo
from bayesrank.active.acquisition import margin_variance as margin_variance
from bayesrank.active.acquisition import random_gain as random_gain
from bayesrank.active.beliefs import Beliefs as Beliefs
from bayesrank.active.beliefs import anticipate as anticipate
from bayesrank.active.beliefs import margins as margins
from bayesrank.active.selection import best_batch as best_batch
from bayesrank.active.selection import best_pairs as best_pairs

__all__ = [
    "Acquisition",
    "Beliefs",
    "anticipate",
    "bald",
    "best_batch",
    "best_pairs",
    "entropy_gain",
    "eubo",
    "margin_variance",
    "margins",
    "random_gain",
]
