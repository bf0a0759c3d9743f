"""For people who do not write programs: ``fit`` and ``predict`` over a program and an engine."""

from bayesrank.estimators._preference_gp import PreferenceGP as PreferenceGP

__all__ = ["PreferenceGP"]
