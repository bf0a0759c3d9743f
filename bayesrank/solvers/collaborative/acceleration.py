"""Anderson's acceleration of a fixed-point iteration on flat arrays.

An iteration takes :math:`x` to :math:`g(x)`. A combination of the last few iterations makes their
residuals nearly cancel; the same combination of the :math:`g(x)` is the proposal (Walker and Ni,
2011, SIAM Journal on Numerical Analysis 49, 1715-1735). The proposal can be worse than the
iteration's own step. The caller compares, and if it is worse goes back and restarts; a few plain
steps then come before the next proposal (Henderson and Varadhan, 2019, Journal of Computational and
Graphical Statistics 28, 834-846).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Anderson:
    """The last iterations (`depth` at most), and what they propose from the `plain_steps`-th on."""

    def __init__(self, depth: int = 6, plain_steps: int = 4, ridge: float = 1e-8) -> None:
        self.depth, self.plain_steps, self.ridge = depth, plain_steps, ridge
        self.restart()

    def restart(self) -> None:
        """Forget all iterations, as after a proposal that was worse."""
        self._last: tuple[Array, Array] | None = None
        self._images: list[Array] = []
        self._residuals: list[Array] = []
        self._wait = self.plain_steps

    def propose(self, image: Array, residual: Array) -> Array | None:
        """A point beyond the image (d,) by residuals (e,), or None: go to the image itself."""
        if self._last is not None:
            self._images = [*self._images, image - self._last[0]][-self.depth :]
            self._residuals = [*self._residuals, residual - self._last[1]][-self.depth :]
        self._last = image, residual
        self._wait -= 1
        if self._wait > 0 or not self._residuals:
            return None
        point = image.copy()
        for weight, difference in zip(self._weights(residual), self._images, strict=True):
            point -= weight * difference
        return point

    def _weights(self, residual: Array) -> Array:
        """Least-squares weights of the differences that best make up the residual."""
        columns = [*self._residuals, residual]
        products = np.array([[a @ b for b in columns] for a in columns[:-1]])
        size = np.sqrt(np.diagonal(products))
        if not np.isfinite(products).all() or not size.all():
            return np.zeros(len(size))  # no number, or nothing has changed
        gram = products[:, :-1] / np.outer(size, size) + self.ridge * np.eye(len(size))
        return np.linalg.solve(gram, products[:, -1] / size) / size
