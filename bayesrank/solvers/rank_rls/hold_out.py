r"""Hold-out without training again: whole lists, and pairs of a list.

For a list, or any union of lists, :math:`U`: :math:`S(y - f_{-U}) = P_{UU}^{-1} \alpha_U` on its
rows.

For a pair of a list: given all other lists, the function on :math:`U` is Gaussian with the
within-list covariance :math:`D = C M C`, by :math:`P_{UU}^{-1} = \delta D + \lambda C + ...`. The
list's other rows add regression on their values with a free level. Its hold-out is again a block of
an inverse, two by two. The list has the weight of n - 2 rows, as training again would give it. All
pairs of the list thus share one inverse of the size of the list.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

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
