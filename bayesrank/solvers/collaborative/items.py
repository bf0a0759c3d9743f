"""Which items have a kernel that is learned, and the order in which the steps see all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bayesrank.solvers.collaborative.blocks import Observations
from bayesrank.solvers.collaborative.carry import CoreKernels
from bayesrank.solvers.collaborative.state import EMState

__all__ = ["Items"]

Array = Any  # float64: NumPy's on the host, JAX's on devices


class Items:
    """The core's tiers, of the items that most was said of, before the others.

    Parameters
    ----------
    observations
        Observations.
    ends
        Number of items in the first tier, in the first two, and so on.

    Attributes
    ----------
    order
        Numbers of the items as the steps see them, shape (m,).
    size
        Number of core items, ``c``.
    """

    def __init__(self, observations: Observations, ends: Sequence[int]) -> None:
        m = observations.num_items
        self.size = ends[-1]
        said = np.bincount(observations.items.ravel(), minlength=m)
        ranked = np.argsort(-said, kind="stable")
        parts = np.split(ranked, [end for end in ends if end < m])
        self.order = np.concatenate([np.sort(part) for part in parts])
        self._place = np.argsort(self.order)

    def base_kernels(self, kernels: Array) -> CoreKernels:
        """Cut base kernels of all items, shape (C, m, m), to what the steps need of them."""
        if self.size == len(self.order):
            return CoreKernels(kernels, kernels[:, :, :0], kernels[:, 0, :0])
        core, rest = np.split(self.order, [self.size])
        rows = kernels[:, core]
        return CoreKernels(rows[:, :, core], rows[:, :, rest], kernels[:, rest, rest])

    def observations(self, observations: Observations) -> Observations:
        """Number the items of observations as the steps do."""
        return observations._replace(items=self._place[observations.items])

    def enter(self, state: EMState) -> EMState:
        """Turn a state of all items into what the steps work on: of the kernel, the core's."""
        core = self.order[: self.size]
        return state._replace(mean=state.mean[self.order], kernel=state.kernel[np.ix_(core, core)])

    def leave(self, state: EMState) -> EMState:
        """Number items as they were; the state's kernel is of all items."""
        place = self._place
        return state._replace(mean=state.mean[place], kernel=state.kernel[np.ix_(place, place)])
