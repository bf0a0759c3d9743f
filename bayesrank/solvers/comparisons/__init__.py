"""Comparisons: terms of a log, posteriors of skills, chains in time, logs of a million."""

from bayesrank.solvers.comparisons.dynamic import DynamicEP as DynamicEP
from bayesrank.solvers.comparisons.judged_fit import fit_arena as fit_arena
from bayesrank.solvers.comparisons.judged_result import ArenaFit as ArenaFit
from bayesrank.solvers.comparisons.judged_result import JudgedSkills as JudgedSkills
from bayesrank.solvers.comparisons.posterior import EPSkills as EPSkills
from bayesrank.solvers.comparisons.settled import settles_scales as settles_scales
from bayesrank.solvers.comparisons.terms import TERMS as TERMS
from bayesrank.solvers.comparisons.terms import Asked as Asked
from bayesrank.solvers.comparisons.terms import Term as Term

__all__ = [
    "ArenaFit",
    "Asked",
    "DynamicEP",
    "EPSkills",
    "JudgedSkills",
    "TERMS",
    "Term",
    "fit_arena",
    "settles_scales",
]
