"""The regularisation constant: by the evidence of the contrasts, or by holding lists out."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from bayesrank.solvers.rank_rls.hold_out import held_out_errors

Array = NDArray[np.float64]

# Variance of log lambda in the program, whose log scale and log noise have variance one each.
_PRIOR_VARIANCE = 8.0
_SHARES = 32


def scale_of(system: Any, lam: float) -> float:
    """Prior scale s under which the contrasts are most probable, given ``lam = noise^2 / s^2``."""
    return float(np.sqrt(system.quadratic(lam) / system.contrasts.num_contrasts))


def log_evidence(system: Any, lam: Any) -> Any:
    """Log density of the contrasts of the targets, at the best scale, in nats, for each constant.

    It is that of the n - 1 contrasts of each list (restricted maximum likelihood): the level of a
    list is not an observation.

    Parameters
    ----------
    system, lam
        A spectrum, factor or iterative system, and one constant or an array of them.
    """
    count = system.contrasts.num_contrasts
    variance = system.quadratic(lam) / count
    constant = count * (np.log(2 * np.pi * variance) + 1.0)
    return system.contrasts.log_jacobian - (constant + system.log_determinant(lam)) / 2


def best_by_evidence(system: Any) -> float:
    """Constant of the largest evidence: a grid first, as there can be two maxima, then a search."""
    _refuse_nothing(system)

    def objective(log_lam: Any) -> Any:
        return -log_evidence(system, np.exp(log_lam))

    grid = _log_grid(system, 71)
    return refine(objective, grid, objective(grid))


def equal_shares(system: Any) -> Array:
    """Middles of 32 parts of equal posterior probability of the constant, shape (32,)."""
    grid = _log_grid(system, 701)
    logs = log_evidence(system, np.exp(grid)) - grid**2 / (2.0 * _PRIOR_VARIANCE)
    density = np.exp(logs - logs.max())
    below = (np.cumsum(density) - 0.5 * density) / density.sum()
    return np.exp(np.interp((np.arange(_SHARES) + 0.5) / _SHARES, below, grid))


def best_by_hold_out(system: Any) -> float:
    """Constant of the least weighted squared error of lists held out, on a grid of 29."""
    _refuse_nothing(system)
    if (system.contrasts.sizes > 1).sum() < 2:
        raise ValueError(
            "regularization='leave-query-out' needs two lists of two items or more, and there is "
            "one; pass 'evidence'"
        )
    usual = np.mean(system.values[system.values > 0])
    grid = usual * np.logspace(-4.0, 3.0, 29)
    errors = [held_out_errors(system, lam).sum() for lam in grid]
    return float(grid[int(np.argmin(errors))])


def _log_grid(system: Any, size: int) -> Array:
    return np.log(system.values[-1]) + np.log(10.0) * np.linspace(-10.0, 4.0, size)


def _refuse_nothing(system: Any) -> None:
    """Refuse features that do not differ within lists."""
    if not np.any(system.values > 0.0):
        raise ValueError(
            "X is the same within every list, to working precision; give features that differ"
        )


def refine(objective: Callable[[Any], Any], grid: Array, values: Array) -> float:
    """Exponential of the least point near the best of a grid of logarithms."""
    best = int(np.argmin(values))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    found: Any = minimize_scalar(objective, bounds=(low, high), method="bounded")
    return float(np.exp(found.x if found.fun < values[best] else grid[best]))
