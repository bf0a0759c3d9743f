"""What the learners with kernels share: explicit features, or a store of examples."""

from typing import Any

import jax
import numpy as np
from sklearn.utils.validation import check_is_fitted
from tinygp.kernels import Kernel

from bayesrank._validate import check_count
from bayesrank.online._base import Array, OnlineRanker
from bayesrank.online._features import FeatureMap, feature_map
from bayesrank.online._store import Store, kernel_rows
from bayesrank.online._validate import check_kernel


class KernelRanker(OnlineRanker):
    """Learns in explicit features where they are cheaper, else in the kernel form."""

    kernel: Kernel | None
    budget: int | None

    def _explicit(self, num_features: int) -> FeatureMap | None:
        return feature_map(self.kernel, num_features, self.budget)

    def _slots(self, num_features: int) -> int:
        """Number of examples that can be stored; none with explicit features."""
        check_kernel(self.kernel)
        budget = None if self.budget is None else check_count(self.budget, "budget")
        if self._explicit(num_features) is not None:
            return 0
        if budget is None:
            raise ValueError(
                f"budget is None and kernel {self.kernel!r}, for which examples are stored; "
                "say how many, as a whole number from 1 on"
            )
        return budget

    def _width(self, num_features: int) -> int:
        """Number of weights: of explicit features, or coefficients of stored examples."""
        explicit = self._explicit(num_features)
        return self._slots(num_features) if explicit is None else explicit.count(num_features)

    def _expand(self, X: Array) -> Array:
        explicit = self._explicit(X.shape[1])
        return X if explicit is None else explicit(X)

    @property
    def _stored(self) -> bool:
        """Whether examples are stored."""
        return bool(self.state_.support.shape[0])

    def _rows(self, X: Array) -> Array:
        """What the weights are multiplied with: explicit features, or kernels, (n, D)."""
        if self.kernel is None or not self._stored:
            return X
        with jax.enable_x64(True):
            return kernel_rows(self.kernel, Store(self.state_.support, self.state_.stamps), X)

    def _used(self, weights: Any) -> Array:
        """Weights (D, ...), of stored examples without those of free slots."""
        weights = np.asarray(weights)
        return weights[np.asarray(self.state_.stamps) > 0] if self._stored else weights

    @property
    def support_(self) -> Array:
        """Stored examples of the kernel form, shape (m, d)."""
        check_is_fitted(self, "state_")
        return np.asarray(self.state_.support)[np.asarray(self.state_.stamps) > 0]
