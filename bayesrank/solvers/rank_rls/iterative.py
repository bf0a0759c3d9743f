"""Linear RankRLS on large sparse features, by products with them alone.

LSMR solves ``min |S X w - t|^2 + lam |w|^2`` (Fong and Saunders, 2011, SIAM Journal on Scientific
Computing 33, 2950-2971). The evidence needs ``t' P t`` and a log determinant, for all constants at
once. Lanczos steps from the target give the first as a Gauss quadrature. Steps from random signs
give the second by stochastic Lanczos quadrature (Ubaru, Chen and Saad, 2017, SIAM Journal on Matrix
Analysis and Applications 38, 1075-1099).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.sparse.linalg import LinearOperator, lsmr

from bayesrank.solvers.rank_rls.contrasts import Contrasts

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class IterativeSystem:
    """Linear RankRLS by products; answers what `log_evidence` and `best_by_evidence` ask."""

    contrasts: Contrasts  # as in a spectrum
    target: Array  # as in a spectrum
    operator: Any  # ``Z = S X`` as a linear operator, shape (m, d)
    nodes_target: Array  # Gauss quadrature of functions of ``Z Z'`` at the target
    weights_target: Array  # Gauss quadrature of functions of ``Z Z'`` at the target
    nodes_trace: Array  # estimated quadrature of the trace of functions of ``Z'Z``
    weights_trace: Array  # estimated quadrature of the trace of functions of ``Z'Z``

    @classmethod
    def of(
        cls,
        X: Any,
        y: Array,
        contrasts: Contrasts,
        rng: np.random.Generator,
        *,
        num_steps: int = 50,
        num_probes: int = 6,
    ) -> IterativeSystem:
        """Take the Lanczos steps."""
        m, d = X.shape
        build: Any = LinearOperator
        operator = build(
            (m, d),
            matvec=lambda w: contrasts.whiten(X @ np.ravel(w)),
            rmatvec=lambda r: X.T @ contrasts.whiten(np.ravel(r)),
            dtype=np.float64,
        )
        target = contrasts.whiten(y)
        nodes, weights = _lanczos(lambda r: operator.matvec(operator.rmatvec(r)), target, num_steps)
        probes = [
            _lanczos(
                lambda w: operator.rmatvec(operator.matvec(w)),
                rng.choice([-1.0, 1.0], d),
                num_steps,
            )
            for _ in range(num_probes)
        ]
        trace_nodes, trace_weights = (np.concatenate(part) for part in zip(*probes, strict=True))
        return cls(
            contrasts, target, operator, nodes, weights, trace_nodes, trace_weights / num_probes
        )

    @property
    def values(self) -> Array:
        """Ritz values, which reach the largest eigenvalue first."""
        return np.sort(self.nodes_trace)

    def quadratic(self, lam: Any) -> Array:
        """``t' P t`` for each constant."""
        lam = np.asarray(lam, np.float64)[..., None]
        return (self.weights_target / (self.nodes_target + lam)).sum(axis=-1)

    def log_determinant(self, lam: Any) -> Array:
        """Log determinant of ``Z Z' + lam`` on the contrasts, estimated, for each constant."""
        lam = np.asarray(lam, np.float64)[..., None]
        rest = self.contrasts.num_contrasts - self.operator.shape[1]
        features = (self.weights_trace * np.log(self.nodes_trace + lam)).sum(axis=-1)
        return features + rest * np.log(lam[..., 0])

    def weights(self, lam: float) -> Array:
        """Weights of the features, shape (d,)."""
        options = {"atol": 1e-10, "btol": 1e-10, "maxiter": 10 * min(self.operator.shape)}
        return lsmr(self.operator, self.target, damp=float(np.sqrt(lam)), **options)[0]


def _lanczos(
    product: Callable[[Array], Array], start: Array, num_steps: int
) -> tuple[Array, Array]:
    """Nodes and weights of the Gauss quadrature at `start`, every step orthogonalised in full."""
    norm = float(np.linalg.norm(start))
    steps = min(num_steps, len(start))
    vectors = np.zeros((steps, len(start)))
    diagonal, beside = np.zeros(steps), np.zeros(steps)
    vector = start / norm
    for k in range(steps):
        vectors[k] = vector
        image = product(vector)
        diagonal[k] = vector @ image
        for _ in range(2):
            image = image - vectors[: k + 1].T @ (vectors[: k + 1] @ image)
        beside[k] = np.linalg.norm(image)
        if beside[k] <= 1e-10 * max(diagonal[: k + 1].max(), 1e-300):
            steps = k + 1
            break
        vector = image / beside[k]
    nodes, rotation = linalg.eigh_tridiagonal(diagonal[:steps], beside[: steps - 1])
    return np.maximum(nodes, 0.0), (norm * rotation[0]) ** 2
