r"""How the integral of prior times sites grows with what prior and rows are made of.

With sites held fixed, a Gaussian prior of covariance ``K`` and precision ``S`` of the sites, the
log integral has the derivative

.. math:: \tfrac12 \operatorname{tr}\bigl((b b^\top - W)\, dK\bigr), \qquad
    b = \psi - S \mu, \quad W = S - S C S,

``C`` and :math:`\mu` being the posterior's. Nothing of size ``n x n`` is made: what is kept is a
slope for each array that the prior is made of, and compiled code goes on from there to the
hyperparameters.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["SLOPE_ROUNDS", "TOGETHER", "Slopes", "products_of"]

Numbers = NDArray[np.float64]

# Slopes are means over so many draws, made so many at a time. With R of them, the top of the
# evidence is off by one in the root of R of a posterior standard deviation, or less.
SLOPE_ROUNDS, TOGETHER = 8, 32


class Slopes(NamedTuple):
    """Derivatives of a log integral.

    Attributes
    ----------
    prior
        By the arrays of the prior: see its property `arrays`.
    rows
        By the entries of the rows of all sites, shape (G, r).
    """

    prior: tuple[Numbers, ...]
    rows: Numbers


def products_of(left: Numbers, right: Numbers, columns: NDArray[Any]) -> Numbers:
    """Mean over draws of ``left`` (G, S) times the columns of ``right`` (n, S) that a row has."""
    total = np.zeros(columns.shape)
    for one, other in zip(left.T, right.T, strict=True):
        total += one[:, None] * other[columns]
    return total / left.shape[1]
