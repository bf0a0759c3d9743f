"""The generative stories, one file each: plain NumPyro programs that any engine can take.

A program says what is believed and nothing about how to compute with it; see ``bayesrank.infer``
for expectation propagation, and ``numpyro.infer`` for NUTS and SVI.

==================== ==============================================================================
file                 programs
==================== ==============================================================================
``bayes_point``      ``ordinal_version_space``: linear scores and thresholds from levels
``preference``       ``preference_gp``, ``thurstone``: skills from comparisons of two items
==================== ==============================================================================
"""

from bayesrank.models.bayes_point import ordinal_version_space as ordinal_version_space
from bayesrank.models.preference import preference_gp as preference_gp
from bayesrank.models.preference import thurstone as thurstone

__all__ = ["ordinal_version_space", "preference_gp", "thurstone"]
