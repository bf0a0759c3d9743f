r"""The regularisation constant by the evidence or by hold-out, without training again.

For a list, or any union of lists, :math:`U`: :math:`S(y - f_{-U}) = P_{UU}^{-1} \alpha_U` on its
rows.

For a pair of a list: given all other lists, the function on :math:`U` is Gaussian with the
within-list covariance :math:`D = C M C`, by :math:`P_{UU}^{-1} = \delta D + \lambda C + ...`. The
list's other rows add regression on their values with a free level. Its hold-out is again a block of
an inverse, two by two. The list has the weight of n - 2 rows, as training again would give it. All
pairs of the list thus share one inverse of the size of the list.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from bayesrank.solvers.rank_rls.contrasts import Contrasts, Folds, weights_of

Array = NDArray[np.float64]


def held_out_errors(system: Any, lam: float) -> Array:
    """Weighted squared error of each list, predicted from the others, shape (q,)."""
    solved = system.solve_blocks(lam, system.contrasts.folds())
    return np.add.reduceat(solved**2, system.contrasts.starts)


def leave_query_out(system: Any, lam: float, folds: Folds | None = None) -> Array:
    """Scores of each list's rows, (m,), by RankRLS trained on the lists that are not of its fold.

    Parameters
    ----------
    system, lam
        A spectrum or a factor, and the regularisation constant.
    folds
        See `Contrasts.folds`; by default each list is held out alone.
    """
    contrasts: Contrasts = system.contrasts
    folds = contrasts.folds() if folds is None else folds
    solved = system.solve_blocks(lam, folds)
    root = contrasts.spread(np.sqrt(contrasts.delta))
    whitened = system.target - solved
    within = np.divide(whitened, root, out=np.zeros_like(root), where=root > 0)
    return within + contrasts.spread(system.levels(lam, solved, folds))


def leave_pair_out(
    system: Any, y: Array, lam: float, pairs: NDArray[np.intp], weights: str
) -> Array:
    """Differences of score, (P,), of pairs by training that has seen neither of the two rows.

    Parameters
    ----------
    system, lam
        As for `leave_query_out`.
    y, pairs
        Targets, shape (m,), and rows of the same list, shape (P, 2).
    weights
        How lists are weighted; a list that has lost two rows is weighted as one of n - 2.
    """
    contrasts: Contrasts = system.contrasts
    lists = contrasts.spread(np.arange(len(contrasts.sizes)))[pairs[:, 0]]
    folds = contrasts.folds()
    solved = system.solve_blocks(lam, folds)
    out = np.empty(len(pairs))
    for q in np.unique(lists):
        start, size = contrasts.starts[q], contrasts.sizes[q]
        rows, mine = folds.rows[q], np.flatnonzero(lists == q)
        i, j = (pairs[mine] - start).T
        left = int(size) - 2
        residual = solved[rows] / np.sqrt(contrasts.delta[q])
        if not left:  # nothing of the list remains
            held = residual
            out[mine] = (y[rows][i] - held[i]) - (y[rows][j] - held[j])
            continue
        delta = weights_of(np.array([left]), weights)[0].item() if left > 1 else 1.0
        inverse = _contrast_inverse(
            system.inverse_block(lam, rows), contrasts.delta[q].item(), lam, delta
        )
        out[mine] = y[rows][i] - y[rows][j] - _held_difference(inverse, residual, i, j)
    return out


def _contrast_inverse(block: Array, delta: float, lam: float, new_delta: float) -> Array:
    """Inverse, on contrasts, of the list's covariance given all others plus its noise."""
    n = len(block)
    centre = np.eye(n) - 1.0 / n
    covariance = (np.linalg.inv(block) - lam * np.eye(n)) / delta
    noisy = centre @ covariance @ centre + lam / new_delta * centre
    return centre @ np.linalg.inv(noisy + 1.0 / n) @ centre


def _held_difference(G: Array, residual: Array, i: Any, j: Any) -> Array:
    """Difference of the residuals of two rows that are both held out, in O(1) a pair."""
    a, b, c = G[i, i], G[i, j], G[j, j]
    right = G @ residual
    p, r = right[i], right[j]
    determinant = a * c - b * b
    return ((c * p - b * r) - (a * r - b * p)) / determinant


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
