"""From data to a fitted RankRLS: which system to set up, which constant, how to predict.

Linear RankRLS on large sparse features, by products with them alone.

LSMR solves ``min |S X w - t|^2 + lam |w|^2`` (Fong and Saunders, 2011, SIAM Journal on Scientific
Computing 33, 2950-2971). The evidence needs ``t' P t`` and a log determinant, for all constants at
once. Lanczos steps from the target give the first as a Gauss quadrature. Steps from random signs
give the second by stochastic Lanczos quadrature (Ubaru, Chen and Saad, 2017, SIAM Journal on Matrix
Analysis and Applications 38, 1075-1099).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from scipy.sparse.linalg import LinearOperator, lsmr
from scipy.spatial.distance import pdist
from tinygp.kernels import ExpSquared, Kernel

from bayesrank import gp
from bayesrank._process import enter_jax
from bayesrank._stack import outside
from bayesrank._validate import check_choice, check_count
from bayesrank.solvers.rank_rls.contrasts import Contrasts
from bayesrank.solvers.rank_rls.hold_out import (
    best_by_evidence,
    best_by_hold_out,
    equal_shares,
    log_evidence,
    refine,
    scale_of,
)
from bayesrank.solvers.rank_rls.spectrum import KernelFactor, KernelSpectrum, LinearSpectrum

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


LARGEST_DENSE = 5000
"""Side of the largest matrix that `solver="auto"` decomposes."""

_BLOCK = 128  # rows of a Gram matrix computed at once
_ALL_NOISE = 1e3  # times the largest eigenvalue: scores keep a thousandth of the grades
_LENGTH_ROWS = 1000  # of whole lists that tell the length scale


@dataclass(frozen=True, eq=False)
class RankRLSFit:
    """A fitted RankRLS.

    Attributes
    ----------
    system, kernel
        Spectrum, factor or iterative system; and "linear" or a tinygp kernel.
    lam, scale
        Regularisation constant and prior scale; the noise is ``sqrt(lam) * scale``.
    log_evidence
        Of the contrasts, in nats.
    constants
        Equally probable constants, over which standard deviations average; `lam` alone unless
        chosen by evidence.
    weights
        Weights of the features, or of Nystrom's features; None in the dual form.
    rows, dual
        Training rows and their coefficients in the dual form, or Nystrom's landmarks and None.
    root
        Nystrom's factor.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesrank.datasets import group_queries
    >>> from bayesrank.solvers.rank_rls import contrasts_of, fit_rank_rls
    >>> lists = group_queries(["q1", "q1", "q1", "q2", "q2"], 5)
    >>> X = np.array([[2.0], [1.0], [0.0], [1.0], [0.0]])
    >>> fit_rank_rls(X, X[:, 0] + 0.1, contrasts_of(lists), regularization=1.0).lam
    1.0
    """

    system: Any
    kernel: Any
    lam: float
    scale: float
    log_evidence: float
    constants: Array
    weights: Any = None
    rows: Any = None
    dual: Any = None
    root: Array | None = field(default=None, repr=False)

    def features(self, X: Any) -> Any:
        """The rows as the primal form sees them."""
        if self.root is None:
            return X
        across = cross_gram(self.kernel, self.rows, X)
        return linalg.solve_triangular(self.root, across, lower=True).T

    def predict(self, X: Any) -> Array:
        """Posterior mean of the score of each row."""
        if self.weights is not None:
            return np.asarray(self.features(X) @ self.weights)
        return cross_gram(self.kernel, X, self.rows) @ self.dual

    def std(self, X: Any) -> Array:
        """Root mean square error of the score of each row, averaged over the constants.

        Raises
        ------
        ValueError
            If the fit is iterative, which has no covariance.
        """
        if isinstance(self.system, IterativeSystem):
            raise ValueError(
                "solver='lsmr' gives no standard deviations; fit with solver='dense' or 'nystrom'"
            )
        lams = self.constants
        shares = np.array([scale_of(self.system, lam) for lam in lams]) ** 2 / lams.size
        if self.dual is None:
            features = self.features(X)
            variance = self.system.variance(features, lams, shares)
            means = features @ np.stack([self.system.weights(lam) for lam in lams], axis=1)
        else:
            across = self.system.contrasts.whiten(cross_gram(self.kernel, self.rows, X))
            reduction = self.system.reduction(across, lams, shares)
            variance = np.maximum(shares.sum() * prior_variance(self.kernel, X) - reduction, 0.0)
            means = across.T @ np.stack([self.system.alpha(lam) for lam in lams], axis=1)
        apart = np.asarray(means) - self.predict(X)[:, None]
        return np.sqrt(variance + np.mean(apart**2, axis=1))


def fit_rank_rls(
    X: Any,
    y: Array,
    contrasts: Contrasts,
    *,
    kernel: Kernel | str = "linear",
    regularization: float | str = "evidence",
    solver: str = "auto",
    num_landmarks: int = 1000,
    rng: np.random.Generator | None = None,
) -> RankRLSFit:
    """Fit RankRLS to rows that stand list after list.

    Parameters
    ----------
    X, y
        Features, shape (m, d), sparse for the linear kernel only; and targets, shape (m,).
    contrasts
        Of the lists, see `contrasts_of`.
    kernel, regularization, solver, num_landmarks
        As in `bayesrank.RankRLS`.
    rng
        For landmarks and the traces of iterative evidence.

    Raises
    ------
    ValueError
        If an option is unknown, or no list has two different targets.
    """
    highest, lowest = (part.reduceat(y, contrasts.starts) for part in (np.maximum, np.minimum))
    if (highest == lowest).all():
        raise ValueError("y is the same within every list; give lists with two different grades")
    lam = _given(regularization)
    num_landmarks = check_count(num_landmarks, "num_landmarks")
    rng = np.random.default_rng(0) if rng is None else rng
    if isinstance(kernel, str) and kernel == "rbf":
        kernel = _gaussian_kernel(X, y, contrasts, lam, rng)
    solver = _solver_for(solver, X.shape, kernel)
    system, parts = _system(X, y, contrasts, kernel, lam, solver, num_landmarks, rng)
    if lam is None:
        if regularization == "leave-query-out" and isinstance(system, IterativeSystem):
            raise ValueError(
                "regularization='leave-query-out' needs solver='dense' or 'nystrom', not 'lsmr'"
            )
        choose = best_by_evidence if regularization == "evidence" else best_by_hold_out
        lam = choose(system)
        if lam > _ALL_NOISE * system.values[-1]:
            warnings.warn(
                f"regularization by {regularization} is {lam:.3g}: it takes the grades for noise "
                "alone, and scores are next to 0; give more lists, or a number",
                UserWarning,
                stacklevel=outside(),
            )
    scale, evidence = scale_of(system, lam), float(log_evidence(system, lam))
    averaged = regularization == "evidence" and solver != "lsmr"
    constants = equal_shares(system) if averaged else np.array([lam])
    if parts.get("rows") is None or "root" in parts:
        parts["weights"] = system.weights(lam)
    else:
        dual = contrasts.whiten(system.alpha(lam))
        if kernel == "linear":  # more features than rows
            parts["weights"] = np.asarray(X.T @ dual)
        parts["dual"] = dual
    return RankRLSFit(system, kernel, lam, scale, evidence, constants, **parts)


def _gaussian_kernel(
    X: Array, y: Array, contrasts: Contrasts, lam: float | None, rng: np.random.Generator
) -> Kernel:
    """Gaussian kernel with the length scale of the largest evidence, on some whole lists."""
    rows, part = _some_lists(y, contrasts, rng, _LENGTH_ROWS)
    X, y = X[rows], y[rows]
    distances = pdist(X)
    if not distances.any():
        raise ValueError("X is the same in every row; give features that differ")
    usual = np.log(np.median(distances[distances > 0]))

    def loss(log_length: float) -> float:
        system = KernelSpectrum.of(gram_of(ExpSquared(np.exp(log_length)), X), y, part)
        at = best_by_evidence(system) if lam is None else lam
        return -float(log_evidence(system, at))

    grid = usual + np.log(2.0) * np.arange(-3.0, 6.0)
    best = refine(loss, grid, np.array([loss(each) for each in grid]))
    return ExpSquared(best)


def _some_lists(
    y: Array, contrasts: Contrasts, rng: np.random.Generator, limit: int
) -> tuple[NDArray[np.intp], Contrasts]:
    """Rows of lists that are drawn, of different grades and up to a limit, and their contrasts."""
    highest, lowest = (part.reduceat(y, contrasts.starts) for part in (np.maximum, np.minimum))
    drawn = rng.permutation(np.flatnonzero(highest > lowest))
    count = np.searchsorted(np.cumsum(contrasts.sizes[drawn]), limit, side="right")
    kept = np.zeros(len(contrasts.sizes), bool)
    kept[drawn[: max(int(count), 1)]] = True
    sizes = contrasts.sizes[kept]
    part = Contrasts(np.cumsum(sizes) - sizes, sizes, contrasts.delta[kept])
    return np.flatnonzero(contrasts.spread(kept)), part


def _solver_for(solver: str, shape: tuple[int, int], kernel: Any) -> str:
    """Choose the solver, where it is left to us."""
    check_choice(solver, "solver", "auto", "dense", "lsmr", "nystrom")
    linear = isinstance(kernel, str) and kernel == "linear"
    if not linear and not isinstance(kernel, Kernel):
        raise ValueError(f"kernel is {kernel!r}; pass 'linear', 'rbf' or a kernel of tinygp")
    if solver == "lsmr" and not linear:
        raise ValueError("solver='lsmr' is for kernel='linear'; use 'nystrom' for other kernels")
    if solver != "auto":
        return solver
    side = min(shape) if linear else shape[0]
    if side <= LARGEST_DENSE:
        return "dense"
    return "lsmr" if linear else "nystrom"


def _given(regularization: Any) -> float | None:
    """The constant that is given, or None where the data are to choose it."""
    if isinstance(regularization, str) and regularization in ("evidence", "leave-query-out"):
        return None
    if not isinstance(regularization, Real) or not 0.0 < float(regularization) < np.inf:
        raise ValueError(
            f"regularization is {regularization!r}; pass 'evidence', 'leave-query-out' or a "
            "positive number"
        )
    return float(regularization)


def _system(
    X: Any,
    y: Array,
    contrasts: Contrasts,
    kernel: Any,
    lam: float | None,
    solver: str,
    num_landmarks: int,
    rng: np.random.Generator,
) -> tuple[Any, dict[str, Any]]:
    """Set up what answers for every constant, and what prediction needs of it."""
    linear = isinstance(kernel, str)
    if solver == "lsmr":
        return IterativeSystem.of(X, y, contrasts, rng), {}
    if solver == "nystrom":
        chosen = rng.choice(X.shape[0], min(num_landmarks, X.shape[0]), replace=False)
        rows = X[np.sort(chosen)]
        root: Any = linalg.cholesky(gram_of(kernel, rows), lower=True)
        features = linalg.solve_triangular(root, cross_gram(kernel, rows, X), lower=True).T
        return LinearSpectrum.of(features, y, contrasts), {"rows": rows, "root": root}
    if linear and X.shape[1] <= X.shape[0]:
        return LinearSpectrum.of(X, y, contrasts), {}
    K = gram_of(kernel, X) if not linear else cross_gram(kernel, X, X)
    if lam is None:
        return KernelSpectrum.of(K, y, contrasts), {"rows": X}
    return KernelFactor.of(K, y, contrasts, lam), {"rows": X}


def cross_gram(kernel: Any, X: Any, other: Any) -> Array:
    """Kernel between two sets of rows, shape (m, n).

    Parameters
    ----------
    kernel
        "linear", or a kernel of tinygp.
    X, other
        Features (m, d) and (n, d); for "linear" they may be sparse.
    """
    if isinstance(kernel, str):
        product = X @ other.T
        return product.toarray() if sparse.issparse(product) else product
    enter_jax()
    out = np.empty((len(X), len(other)))
    with jax.enable_x64(True):
        columns = jnp.asarray(other)
        for start in range(0, len(X), _BLOCK):
            rows = X[start : start + _BLOCK]
            padded = jnp.asarray(np.resize(rows, (min(_BLOCK, len(X)), X.shape[1])))
            out[start : start + _BLOCK] = _evaluate(kernel, padded, columns)[: len(rows)]
    return out


@jax.jit
def _evaluate(kernel: Kernel, X: jax.Array, other: jax.Array) -> jax.Array:
    return kernel(X, other)


def gram_of(kernel: Any, X: Any) -> Array:
    """Gram matrix of the rows (m, m), with the jitter that the program's prior has as well.

    Parameters
    ----------
    kernel, X
        As for `cross_gram`.
    """
    K = cross_gram(kernel, X, X)
    K[np.diag_indices_from(K)] *= 1.0 + gp.JITTER[np.dtype(np.float64)]
    return K


def prior_variance(kernel: Any, X: Any) -> Array:
    """Kernel of each row with itself, shape (m,)."""
    if isinstance(kernel, str):
        squares = X.multiply(X) if sparse.issparse(X) else X**2
        return np.asarray(squares.sum(axis=1)).ravel()
    enter_jax()
    with jax.enable_x64(True):
        return np.array(kernel(jnp.asarray(X)))
