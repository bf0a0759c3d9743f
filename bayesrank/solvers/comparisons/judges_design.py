"""How margins depend on the latents: products with rows, and the blocks of the precision.

Global latents are, in this order, the skills (n), what each category adds (C n), and the effect of
the position (1). A judge's local latents are its order bias and, if its uncertainty is wanted, a
change of its log reliability.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bayesrank.solvers.comparisons.counted import ArenaData
from bayesrank.solvers.comparisons.terms import MarginRows

Floats = NDArray[np.float64]


class Design:
    """Rows of a log as a linear map from latents to margins."""

    def __init__(self, data: ArenaData) -> None:
        self.data = data
        n, count = data.num_items, len(data.first)
        self.with_categories = data.num_categories > 0
        self.size = n + data.num_categories * n + data.with_position
        self.num_local = data.num_judges if data.with_position else 0
        skills = [(1.0, data.first), (-1.0, data.second)]
        if self.with_categories:
            own = n + data.category * n
            skills += [(1.0, own + data.first), (-1.0, own + data.second)]
        #: skills that each row compares
        self.rows = MarginRows.of(count, *skills)
        values, columns = (part.ravel() for part in self.rows)
        starts = np.arange(0, len(values) + 1, len(skills))
        self._skills = sparse.csr_array((values, columns, starts), shape=(count, self.size))
        #: weight of the position's effect in each row
        self.position = data.position

    def differences(self, x: Floats) -> Floats:
        """Difference of the two items' skills in each row, shape (K,)."""
        return self._skills @ x

    def advantages(self, x: Floats, bias: Floats) -> Floats:
        """What the position adds to the margin of each row, shape (K,)."""
        if not self.data.with_position:
            return np.zeros(len(self.position))
        own = bias[self.data.judge] if self.num_local else 0.0
        return self.position * (x[-1] + own)

    def to_global(self, difference: Floats, advantage: Floats) -> Floats:
        """Transpose: sums over K rows of weights of skill differences and of positions, (size,)."""
        sums = self._skills.T @ difference
        if self.data.with_position:
            sums[-1] = advantage @ self.position
        return sums

    def to_local(self, weight: Floats) -> Floats:
        """Sums over the rows of each judge, shape (J,)."""
        return np.bincount(self.data.judge, weight, self.data.num_judges).astype(float)

    def precision(self, twice: Floats, once: Floats, never: Floats) -> Floats:
        """Precision of the global latents, (size, size), by weights (K,) by r^2, r and 1."""
        out = (self._skills.T @ (sparse.diags_array(twice) @ self._skills)).toarray()
        if self.data.with_position:
            out[-1] = out[:, -1] = self.to_global(once * self.position, never * self.position)
        return out

    def coupling(self, difference: Floats, advantage: Floats) -> Floats:
        """Precision of global latents with one local a judge, (size, J), by row weights (K,)."""
        count, judges = len(self.position), self.data.num_judges
        rows = difference, self.data.judge, np.arange(count + 1)
        out = (self._skills.T @ sparse.csr_array(rows, shape=(count, judges))).toarray()
        if self.data.with_position:
            out[-1] = self.to_local(advantage * self.position)
        return out
