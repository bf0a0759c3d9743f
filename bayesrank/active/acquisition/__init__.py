"""What makes a question a good one: scores of pairs under beliefs about the skills."""

from bayesrank.active.acquisition.beliefs import Beliefs as Beliefs
from bayesrank.active.acquisition.beliefs import anticipate as anticipate
from bayesrank.active.acquisition.beliefs import margins as margins
from bayesrank.active.acquisition.pairs import Acquisition as Acquisition
from bayesrank.active.acquisition.pairs import bald as bald
from bayesrank.active.acquisition.pairs import entropy_gain as entropy_gain
from bayesrank.active.acquisition.pairs import margin_variance as margin_variance
from bayesrank.active.acquisition.pairs import random_gain as random_gain
from bayesrank.active.acquisition.pairs import top_gain as top_gain
from bayesrank.active.acquisition.pool import pool_variance as pool_variance

__all__ = [
    "Acquisition",
    "Beliefs",
    "anticipate",
    "bald",
    "entropy_gain",
    "margin_variance",
    "margins",
    "pool_variance",
    "random_gain",
    "top_gain",
]
