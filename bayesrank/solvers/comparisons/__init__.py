"""Comparisons: terms of a log, posteriors of skills, chains in time, logs of a million."""

from bayesrank.solvers.comparisons.counted import ArenaData as ArenaData
from bayesrank.solvers.comparisons.counted import arena_data as arena_data
from bayesrank.solvers.comparisons.dynamic import DynamicEP as DynamicEP
from bayesrank.solvers.comparisons.judges_fit import fit_arena as fit_arena
from bayesrank.solvers.comparisons.judges_fit import settles_scales as settles_scales
from bayesrank.solvers.comparisons.judges_result import ArenaFit as ArenaFit
from bayesrank.solvers.comparisons.judges_result import JudgedSkills as JudgedSkills
from bayesrank.solvers.comparisons.posterior import EPSkills as EPSkills
from bayesrank.solvers.comparisons.terms import TERMS as TERMS
from bayesrank.solvers.comparisons.terms import Asked as Asked
from bayesrank.solvers.comparisons.terms import Term as Term

__all__ = [
    "ArenaData",
    "ArenaFit",
    "Asked",
    "DynamicEP",
    "EPSkills",
    "JudgedSkills",
    "TERMS",
    "Term",
    "arena_data",
    "fit_arena",
    "settles_scales",
]
