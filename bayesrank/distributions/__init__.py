"""NumPyro distributions of preferences and ratings.

Each but the last gives the probability of an outcome through one scalar: the attribute that
``predictor`` names. ``tilted_moments(value, mean, variance)`` averages this probability over a
normal predictor and returns the `TiltedMoments` that expectation propagation asks for.

============================ ================================ ==================================
distribution                 outcomes                         noise
============================ ================================ ==================================
``Thurstone``                second wins, first wins          normal, closed form
``ThurstoneTies``            second wins, tie, first wins     normal, closed form
``BradleyTerry``             second wins, first wins          logistic, 7 to 56 nodes
``BradleyTerryTies``         second wins, tie, first wins     logistic, 7 to 56 nodes
``OrderedProbit``            levels ``0, ..., r - 1``         normal, closed form
``OrderedLogit``             levels ``0, ..., r - 1``         logistic, 7 to 56 nodes
``PlackettLuce``             orders, top lists, choices       Gumbel, on each item; no scalar
============================ ================================ ==================================
"""

from bayesrank.distributions._logistic import (
    logistic_interval_moments as logistic_interval_moments,
)
from bayesrank.distributions._moments import TiltedMoments as TiltedMoments
from bayesrank.distributions.ordinal import OrderedLogit as OrderedLogit
from bayesrank.distributions.ordinal import OrderedProbit as OrderedProbit
from bayesrank.distributions.plackett_luce import PlackettLuce as PlackettLuce
from bayesrank.distributions.preference import BradleyTerry as BradleyTerry
from bayesrank.distributions.preference import BradleyTerryTies as BradleyTerryTies
from bayesrank.distributions.preference import Thurstone as Thurstone
from bayesrank.distributions.preference import ThurstoneTies as ThurstoneTies

__all__ = [
    "BradleyTerry",
    "BradleyTerryTies",
    "OrderedLogit",
    "OrderedProbit",
    "PlackettLuce",
    "Thurstone",
    "ThurstoneTies",
    "TiltedMoments",
    "logistic_interval_moments",
]
