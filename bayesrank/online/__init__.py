"""Ordinal ranking of a stream whose examples are seen once.

Levels are ``1..num_levels``, the higher the better. Every learner has scikit-learn's manners:
``partial_fit`` on chunks of any size, ``predict``, ``decision_function``, ``coef_`` and
``thresholds_``; ``prequential`` predicts each example and then learns it; ``save`` and ``load``
keep the state. However the stream is cut into chunks, the result is the same to the last bit. All
take any kernel of tinygp: by explicit features if it is a polynomial and these are cheaper, else by
at most ``budget`` stored examples. The learners differ in what predicts:

- ``PRank``: a perceptron with thresholds between the levels;
- ``VotedPRank``: all rules that PRank ever had, each by how long it lasted;
- ``OAPBPM``: the average of many PRanks, each shown a random part of the stream;
- ``OAPBagging``: the average of their ranks;
- ``OAPVoted``: the average of their ranks, weighted by right predictions;
- ``WidrowHoff``: online least squares on the levels;
- ``OnlineBayesPoint``: a Gaussian belief about weights and thresholds; it gives probabilities, too.

``CalibratedPerceptron`` learns rankings of relevant labels, or any `LabelConstraints`, and not
levels; `expand_constraints` turns these into binary examples for any linear learner.
"""

from bayesrank.online._base import rank_loss as rank_loss
from bayesrank.online._base import round_levels as round_levels
from bayesrank.online._calibrated import CalibratedPerceptron as CalibratedPerceptron
from bayesrank.online._constraints import LabelConstraints as LabelConstraints
from bayesrank.online._constraints import constraint_loss as constraint_loss
from bayesrank.online._constraints import expand_constraints as expand_constraints
from bayesrank.online._kernel_form import polynomial_features as polynomial_features
from bayesrank.online._perceptrons import OAPBPM as OAPBPM
from bayesrank.online._perceptrons import OAPBagging as OAPBagging
from bayesrank.online._perceptrons import OAPVoted as OAPVoted
from bayesrank.online._perceptrons import PRank as PRank
from bayesrank.online._synthetic import SyntheticStream as SyntheticStream
from bayesrank.online._synthetic import synthetic_stream as synthetic_stream
from bayesrank.online._voted import VotedPRank as VotedPRank
from bayesrank.online._widrow_hoff import WidrowHoff as WidrowHoff
from bayesrank.online.bayes_point import OnlineBayesPoint as OnlineBayesPoint

__all__ = [
    "CalibratedPerceptron",
    "LabelConstraints",
    "OAPBPM",
    "OAPBagging",
    "OAPVoted",
    "OnlineBayesPoint",
    "PRank",
    "SyntheticStream",
    "VotedPRank",
    "WidrowHoff",
    "constraint_loss",
    "expand_constraints",
    "polynomial_features",
    "rank_loss",
    "round_levels",
    "synthetic_stream",
]
