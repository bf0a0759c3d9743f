"""Comparisons beyond what a run of EP takes: chains in time, logs of a million with judges."""

from bayesrank.solvers.comparisons.counted import ArenaData as ArenaData
from bayesrank.solvers.comparisons.counted import arena_data as arena_data
from bayesrank.solvers.comparisons.dynamic import DynamicEP as DynamicEP
from bayesrank.solvers.comparisons.dynamic import check_room as check_room
from bayesrank.solvers.comparisons.judges_fit import fit_arena as fit_arena
from bayesrank.solvers.comparisons.judges_result import ArenaFit as ArenaFit
from bayesrank.solvers.comparisons.judges_state import scale_names as scale_names
from bayesrank.solvers.comparisons.process import move as move
from bayesrank.solvers.comparisons.process import pace_of as pace_of
from bayesrank.solvers.comparisons.process import steps_of as steps_of

__all__ = [
    "ArenaData",
    "ArenaFit",
    "DynamicEP",
    "arena_data",
    "check_room",
    "fit_arena",
    "move",
    "pace_of",
    "scale_names",
    "steps_of",
]
