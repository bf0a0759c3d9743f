"""How margins depend on the latents: products with rows, and the blocks of the precision.

Global latents are, in this order, the skills (n), what each category adds (C n), and the effect of
the position (1). A judge's local latents are its order bias and, if its uncertainty is wanted, a
change of its log reliability.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bayesrank.solvers.comparisons.counted import ArenaData

Floats = NDArray[np.float64]


class Design:
    """Rows of a log as a linear map from latents to margins."""

    def __init__(self, data: ArenaData) -> None:
        self.data = data
        n, self.num_parts = data.num_items, max(data.num_categories, 1)
        self.with_categories = data.num_categories > 0
        self.size = n + data.num_categories * n + data.with_position
        self.num_local = data.num_judges if data.with_position else 0
        #: numbers of the two items within their category, all categories one after another
        self.first = data.category * n + data.first
        self.second = data.category * n + data.second
        self._pair = self.first * n + data.second
        #: weight of the position's effect in each row
        self.position = data.position

    def skills(self, x: Floats) -> Floats:
        """Skill of each item in each category, shape (parts, n)."""
        n = self.data.num_items
        if not self.with_categories:
            return x[None, :n]
        return x[:n] + x[n : n + self.num_parts * n].reshape(-1, n)

    def differences(self, x: Floats) -> Floats:
        """Difference of the two items' skills in each row, shape (K,)."""
        skills = self.skills(x).ravel()
        return skills[self.first] - skills[self.second]

    def advantages(self, x: Floats, bias: Floats) -> Floats:
        """What the position adds to the margin of each row, shape (K,)."""
        if not self.data.with_position:
            return np.zeros(len(self.position))
        own = bias[self.data.judge] if self.num_local else 0.0
        return self.position * (x[-1] + own)

    def to_global(self, difference: Floats, advantage: Floats) -> Floats:
        """Transpose: sums over K rows of weights of skill differences and of positions, (size,)."""
        n, total = self.data.num_items, self.num_parts * self.data.num_items
        sums = np.bincount(self.first, difference, total)
        sums -= np.bincount(self.second, difference, total)
        parts = [sums.reshape(-1, n).sum(0)] + ([sums] if self.with_categories else [])
        if self.data.with_position:
            parts.append(np.array([advantage @ self.position]))
        return np.concatenate(parts)

    def to_local(self, weight: Floats) -> Floats:
        """Sums over the rows of each judge, shape (J,)."""
        return np.bincount(self.data.judge, weight, self.data.num_judges).astype(float)

    def precision(self, twice: Floats, once: Floats, never: Floats) -> Floats:
        """Precision of the global latents, (size, size), by weights (K,) by r^2, r and 1."""
        n, parts = self.data.num_items, self.num_parts
        pairs = np.bincount(self._pair, twice, parts * n * n).reshape(parts, n, n)
        pairs = -(pairs + pairs.transpose(0, 2, 1))
        pairs[:, np.arange(n), np.arange(n)] -= pairs.sum(2)
        out = np.zeros((self.size, self.size))
        out[:n, :n] = pairs.sum(0)
        if self.with_categories:
            for part, block in enumerate(pairs):
                at = slice(n + part * n, 2 * n + part * n)
                out[at, at] = out[at, :n] = out[:n, at] = block
        if self.data.with_position:
            out[-1] = out[:, -1] = self.to_global(once * self.position, never * self.position)
        return out

    def coupling(self, difference: Floats, advantage: Floats) -> Floats:
        """Precision of global latents with one local a judge, (size, J), by row weights (K,)."""
        n, judges = self.data.num_items, self.data.num_judges
        total = self.num_parts * n
        sums = np.bincount(self.first * judges + self.data.judge, difference, total * judges)
        sums -= np.bincount(self.second * judges + self.data.judge, difference, total * judges)
        sums = sums.reshape(self.num_parts, n, judges)
        parts = [sums.sum(0)] + ([sums.reshape(total, judges)] if self.with_categories else [])
        if self.data.with_position:
            parts.append(self.to_local(advantage * self.position)[None])
        return np.concatenate(parts)
