r"""Transductive RankRLS: scores of new lists under which cross-validation fits best.

Let :math:`P = (S K S + \lambda I)^{-1}` over training rows T and new rows V alike,
:math:`B = \mathrm{blockdiag}(P_{UU})` over the folds, of a list or several, and
:math:`E = B^{-1} P S`. The weighted error of every fold predicted from all others is then
:math:`|E Y|^2`. Theorem 2 minimises it in the new rows' scores, with a pull of strength
:math:`\gamma` to what the training rows predict; with :math:`R = E'E`,

.. math:: \hat Y = (R_{VV} + \gamma I)^{-1} (\gamma f_{-V} - R_{VT} Y_T).

:math:`R` does not see a constant added to the scores of a list, so :math:`\gamma` must be positive.
The paper (Pahikkala, Suominen, Boberg and Salakoski, Transductive ranking via pairwise regularized
least-squares) prints a half in the definition of its R by mistake; here the two matrices agree.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from bayesrank.solvers.rank_rls.contrasts import Contrasts, Folds

Array = NDArray[np.float64]


def transduce(
    K: Array,
    contrasts: Contrasts,
    y: Array,
    new: NDArray[np.bool_],
    lam: float,
    gamma: float,
    folds: Folds | None = None,
) -> Array:
    """Scores of the rows of new lists, shape (m_new,).

    Parameters
    ----------
    K
        Gram matrix of all rows, list after list, shape (m, m).
    contrasts, folds
        Contrasts of the rows, and the folds of cross-validation; by default each list is one.
    y, new
        Targets, which are not read of new rows, and which rows these are, shape (m,).
    lam, gamma
        Regularisation constant, and pull towards the prediction from the training rows; positive.

    Raises
    ------
    ValueError
        If `gamma` is not positive.
    """
    if not gamma > 0:
        raise ValueError(
            f"gamma is {gamma}; pass a positive number: without a pull the levels of the new lists "
            "are not determined"
        )
    y = np.where(new, 0.0, y)
    predicted = _from_training(K, contrasts, y, new, lam)
    E = _cross_validation(K, contrasts, lam, folds or contrasts.folds())
    left = E[:, new]
    matrix = left.T @ left
    matrix[np.diag_indices_from(matrix)] += gamma
    right = gamma * predicted - left.T @ (E[:, ~new] @ y[~new])
    return linalg.solve(matrix, right, assume_a="pos")


def _from_training(
    K: Array, contrasts: Contrasts, y: Array, new: NDArray[np.bool_], lam: float
) -> Array:
    """Predict the new rows from the training rows alone: a list without weight tells nothing."""
    old_lists = ~np.logical_or.reduceat(new, contrasts.starts)
    old = Contrasts(contrasts.starts, contrasts.sizes, np.where(old_lists, contrasts.delta, 0.0))
    matrix = K.copy()
    old.whiten_kernel(matrix)
    matrix[np.diag_indices_from(matrix)] += lam
    alpha = linalg.solve(matrix, old.whiten(y), assume_a="pos")
    return K[new] @ old.whiten(alpha)


def _cross_validation(K: Array, contrasts: Contrasts, lam: float, folds: Folds) -> Array:
    """``E``, which takes scores to the weighted errors of every fold held out, shape (m, m)."""
    matrix = K.copy()
    contrasts.whiten_kernel(matrix)
    matrix[np.diag_indices_from(matrix)] += lam
    P = linalg.inv(matrix, overwrite_a=True, check_finite=False)
    E = contrasts.whiten(P.T).T
    for rows in folds.rows:
        E[rows] = linalg.solve(P[np.ix_(rows, rows)], E[rows], assume_a="pos")
    return E
