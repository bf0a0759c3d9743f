"""Generalisation of ConeRank by stability: the paper's two theorems as functions.

They are from Tran, T. and Pham, D.-S. ConeRANK: ranking as learning generalized inequalities.
"""

import math

import numpy as np
from numpy.typing import NDArray

from bayesrank._validate import check_count, check_share


def stability_bound(
    atoms: NDArray[np.float64],
    left_out: list[NDArray[np.float64]],
    *,
    rho: float,
    bound: float,
    largest_sum: float = 1.0,
) -> float:
    """Theorem 2: upper bound beta of how far the loss of any pair moves when one query is left out.

    It is for the loss without grades' weights.

    Parameters
    ----------
    atoms
        Atoms from all queries, shape (K, N).
    left_out
        Atoms from all queries but one, for each; in the same order of atoms.
    rho, bound
        Largest lengths of a normalised difference, and of an atom (c).
    largest_sum
        Largest sum of weights; 1 on the simplex.
    """
    s_max = max(float(np.linalg.norm(atoms - other, ord=2)) for other in left_out)
    level = rho + math.sqrt(len(atoms)) * bound * largest_sum
    return 2.0 * s_max * largest_sum * level + (s_max * largest_sum) ** 2


def risk_bound(
    empirical: float, beta: float, largest_loss: float, num_queries: int, epsilon: float = 0.1
) -> float:
    """Theorem 1: upper bound of the expected risk, with probability ``1 - epsilon``.

    Parameters
    ----------
    empirical
        Empirical risk.
    beta
        Stability, see `stability_bound`.
    largest_loss
        Largest loss of a query.
    num_queries
        Number of queries that were learned from.
    epsilon
        Probability that the bound fails.

    Raises
    ------
    ValueError
        If `epsilon` is not between 0 and 1, or `num_queries` not positive.
    """
    epsilon = check_share(epsilon, "epsilon", usual="0.05")
    num_queries = check_count(num_queries, "num_queries")
    spread = math.sqrt(math.log(1.0 / epsilon) / (2.0 * num_queries))
    return empirical + 2.0 * beta + (4.0 * num_queries * beta + largest_loss) * spread
