"""Logs of a million comparisons: EM over judges' reliabilities, EP over skills and biases."""

from bayesrank.solvers.arena.data import ArenaData as ArenaData
from bayesrank.solvers.arena.data import arena_data as arena_data
from bayesrank.solvers.arena.fit import fit_arena as fit_arena
from bayesrank.solvers.arena.result import ArenaFit as ArenaFit
from bayesrank.solvers.arena.state import scale_names as scale_names

__all__ = ["ArenaData", "ArenaFit", "arena_data", "fit_arena", "scale_names"]
