"""NumPyro distributions of preferences and ratings.

Each gives the probability of an outcome through one scalar: the attribute that ``predictor`` names.
Where the integral of that probability over a normal predictor is known in closed form, the
distribution offers it as ``tilted_moments(value, mean, variance)``, a `TiltedMoments`, which is how
a likelihood meets expectation propagation.

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

The moments of an interval seen through logistic noise, which have no closed form, are
``logistic_interval_moments``, by a rule of 56 nodes or fewer.
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
