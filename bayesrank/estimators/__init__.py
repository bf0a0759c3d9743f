"""For people who do not write programs: ``fit`` and ``predict`` over a program and an engine."""

from bayesrank.estimators._collaborative import CollaborativeGP as CollaborativeGP
from bayesrank.estimators._collaborative import CollaborativeOrdinalGP as CollaborativeOrdinalGP
from bayesrank.estimators._collaborative_features import correlation_kernel as correlation_kernel
from bayesrank.estimators._ordinal_gp import OrdinalGP as OrdinalGP
from bayesrank.estimators._preference_gp import PreferenceGP as PreferenceGP

__all__ = [
    "CollaborativeGP",
    "CollaborativeOrdinalGP",
    "OrdinalGP",
    "PreferenceGP",
    "correlation_kernel",
]
