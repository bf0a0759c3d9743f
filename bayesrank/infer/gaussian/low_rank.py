r"""A prior of low rank plus diagonal, and its posterior, without a joint covariance.

The prior is that of :math:`f = \Phi w + e` with :math:`w \sim N(0, I_M)` and
:math:`e \sim N(0, D)`. Sites see few elements of :math:`f` at a time: with rows :math:`A` they add
the sparse precision :math:`L = A' \operatorname{diag}(\tau) A`. Given :math:`w` the residuals have
the sparse precision :math:`Q = D^{-1} + L`, which conjugate gradients solve in few steps if the
residuals are small. Without them,

.. math:: f \mid w \sim N(Y w + Q^{-1} h, Q^{-1}), \quad Y = Q^{-1} D^{-1} \Phi, \qquad
    w \sim N(G^{-1} Y' h, G^{-1}), \quad G = I + \Phi' L Y.

So the covariance of :math:`f` is :math:`Q^{-1} + B B'` with :math:`B = Y G^{-1/2}`. EP does not
integrate out residuals site by site: what one comparison reveals of them counts in the next.

References
----------
Snelson, E. and Ghahramani, Z. (2006). Sparse Gaussian processes using pseudo-inputs. NIPS 18.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from bayesrank.infer.gaussian.dense import DensePrior
from bayesrank.infer.gaussian.factorised import FactorisedGaussian, FactorisedPrior
from bayesrank.infer.gaussian.protocol import (
    SLOPE_ROUNDS,
    TOGETHER,
    Large,
    SiteTerm,
    Slopes,
    products_of,
)
from bayesrank.infer.gaussian.sparse import (
    NotPositiveError,
    Numbers,
    Probes,
    ShortRows,
    SparseGaussian,
)

# Rows, and right-hand sides, that are worked on at a time.
_CHUNK = 16_384
_TOGETHER = 64
# A residual variance is no less than this share of its prior variance.
_LEAST = 1e-9


class LowRank(NamedTuple):
    """A covariance ``Phi Phi' + diag(d)``."""

    factor: Any  # ``Phi`` and ``d``, shapes (n, M) and (n,)
    diagonal: Any

    @property
    def ndim(self) -> int:
        """Number of axes of the matrix that it stands for."""
        return 2

    def dense(self) -> Array:
        """The matrix, shape (n, n)."""
        return self.factor @ self.factor.T + jnp.diag(self.diagonal)


class LowRankPrior(NamedTuple):
    """``N(0, Phi Phi' + diag(d))``, which `LowRankGaussian` multiplies by sites."""

    covariance: LowRank  # ``Phi`` and ``d``

    on_host, keeps_covariances = True, False
    serves = ("low_rank",)

    @property
    def variances(self) -> Array:
        """Prior variances, shape (n,)."""
        return jnp.sum(self.covariance.factor**2, axis=1) + self.covariance.diagonal

    @property
    def arrays(self) -> tuple[Array, Array]:
        """``Phi`` and ``d``."""
        return self.covariance.factor, self.covariance.diagonal

    def alone(self, terms: Sequence[SiteTerm] = ()) -> FactorisedGaussian:
        """The margins of the prior, as sweeps start from them."""
        return FactorisedPrior(self.variances).alone(())

    def packed(self, mean: Array, variances: Array, rows: tuple[tuple[Array, Array], ...]) -> Large:
        """What compiled code returns, see `bayesrank.infer.gaussian.protocol.Large`."""
        factor, residuals = self.covariance
        return Large(mean, residuals, variances, rows, factor=factor)

    def dense(self) -> DensePrior:
        """The same with all covariances."""
        return DensePrior(self.covariance.dense())


class LowRankGaussian:
    """The posterior that a prior of low rank plus diagonal and sites of short rows make.

    `factor` is ``Phi`` (n, M), `variances` (n,) are of the residuals, `tau` and `nu` (G,) sites.
    `explained`, ``Phi - Y`` (n, M), starts conjugate gradients (`before`); `root` is ``B`` (n, M),
    `root_of_w` that of ``w`` (M, M), `residuals` given ``w``.
    """

    structure = "low_rank"
    has_slopes = True

    def __init__(
        self,
        pattern: Any,
        factor: Numbers,
        variances: Numbers,
        tau: Numbers,
        nu: Numbers,
        before: Numbers | None = None,
        tol: float = 1e-6,
    ) -> None:
        if np.any(tau < 0):
            raise NotPositiveError
        self.pattern, self.factor, self.variances = pattern, factor, variances
        self.residuals = SparseGaussian(pattern, variances, tau, nu)
        sites = pattern.precision(np.full(variances.size, np.inf), tau)
        # Y = Phi - X with Q X = L Phi: next to nothing is lost where the residuals are small.
        self.explained = np.empty_like(factor)
        for some in _slices(self.factor.shape[1], _TOGETHER):
            right = sites @ self.factor[:, some]
            start = None if before is None else before[:, some]
            self.explained[:, some] = self.residuals.solve(right, start, tol)
        self.root = self.factor - self.explained
        gram = np.eye(self.factor.shape[1])
        for some in _slices(variances.size, _CHUNK):
            gram += self.factor[some].T @ (sites[some] @ self.root)
        lower = np.linalg.cholesky(0.5 * (gram + gram.T))
        self.log_determinant_of_w = 2 * float(np.sum(np.log(np.diagonal(lower))))
        self.root_of_w = solve_triangular(lower, np.eye(len(lower)), lower=True).T
        for some in _slices(variances.size, _CHUNK):
            self.root[some] = self.root[some] @ self.root_of_w

    @property
    def rank(self) -> int:
        """Rank of its prior."""
        return self.factor.shape[1]

    @property
    def residuals_seen(self) -> float:
        """Share of the residuals that the sites reveal, from 0 to 1, in the mean over latents."""
        some = self.variances > 2 * _LEAST * (_squares(self.factor) + self.variances)
        seen = 1 - 1 / (self.variances * self.residuals.diagonal)
        return float(np.sum(seen[some]) / max(np.sum(some), 1))

    @property
    def tau(self) -> Numbers:
        """Precisions of the sites, shape (G,)."""
        return self.residuals.tau

    @property
    def nu(self) -> Numbers:
        """Precision-means of the sites, shape (G,)."""
        return self.residuals.nu

    def solve(self, right: Numbers, start: Numbers | None = None, tol: float = 1e-6) -> Numbers:
        """The covariance times right-hand sides (n, S); `start` is not needed."""
        del start
        return self.residuals.solve(right, tol=tol) + self.root @ (self.root.T @ right)

    def mean(self, start: Numbers | None = None, tol: float = 1e-7) -> Numbers:
        """Posterior mean of the latents, measured from the prior's, shape (n,)."""
        shift = self.pattern.transposed @ self.nu
        return self.solve(shift[:, None], start, tol)[:, 0]

    def shared(self) -> tuple[Numbers, Numbers]:
        """Posterior mean of ``w``, shape (M,), and a root of its covariance, (M, M)."""
        shift = self.pattern.transposed @ self.nu
        return self.root_of_w @ (self.root.T @ shift), self.root_of_w

    def probes(
        self, seed: int, count: int, start: Numbers | None = None, tol: float = 1e-5
    ) -> Probes:
        """Draws of the residuals given ``w``, for their variances."""
        return self.residuals.probes(seed, count, start, tol)

    def sample(self, rng: np.random.Generator, count: int) -> Numbers:
        """Draws about the mean, shape (count, n)."""
        draws = self.residuals.sample(rng, count)
        draws += rng.standard_normal((count, self.root.shape[1])) @ self.root.T
        return draws

    def latent_variances(self, probes: Probes) -> Numbers:
        """Variances of the latents, shape (n,)."""
        return self.residuals.latent_variances(probes) + _squares(self.root)

    def margin_variances(self, probes: Probes, rows: ShortRows | None = None) -> Numbers:
        """Variances of the margins of `rows`, or of all sites, shape (G,)."""
        own = self.residuals.margin_variances(probes, rows)
        return own + self._shared_variances(self.pattern.rows if rows is None else rows)

    def quadratic(self, rows: ShortRows) -> Numbers:
        """Variances of the margins of `rows`, shape (G,), by a solution for each."""
        return self.residuals.quadratic(rows) + self._shared_variances(rows)

    def _shared_variances(self, rows: ShortRows) -> Numbers:
        """What ``w`` adds to the variances of margins, shape (G,)."""
        matrix = rows.matrix()
        parts = _slices(len(rows.values), _CHUNK)
        return np.concatenate(
            [np.zeros(0), *(_squares(matrix[some] @ self.root) for some in parts)]
        )

    def log_determinant(self, seed: int) -> tuple[float, float]:
        """Log determinant of the precision of residuals and ``w``, and its standard error."""
        found, error = self.residuals.log_determinant(seed)
        return found + self.log_determinant_of_w, error

    def slopes(self, mean: Numbers) -> Slopes:
        r"""Derivatives of the log integral; `mean` (n,) is measured from the prior's.

        By ``Phi`` they are :math:`b \bar w^\top - L B G^{-1/2}`, without error. By ``d`` they are

        .. math:: \tfrac12 \Bigl(b_i^2 + |L B|_i^2 - \frac{L_{ii}}{1 + d_i L_{ii}}
            + \operatorname{Var} \frac{\sum_{j \ne i} L_{ij} x_j}{1 + d_i L_{ii}}\Bigr),

        the last term a mean over draws ``x`` of the residuals.
        """
        sites = self.pattern.precision(np.full(self.variances.size, np.inf), self.tau)
        pull = self.pattern.transposed @ self.nu - sites @ mean
        mean_of_w, root_of_w = self.shared()
        factor = np.outer(pull, mean_of_w)
        diagonal = pull**2
        for some in _slices(self.variances.size, _CHUNK):
            seen = sites[some] @ self.root
            factor[some] -= seen @ root_of_w.T
            diagonal[some] += _squares(seen)
        own = sites.diagonal()
        left = (1 + self.variances * own)[:, None]
        rows = self._row_slopes(mean)
        diagonal -= own / left[:, 0]
        for seed in range(SLOPE_ROUNDS):
            draws = self.residuals.probes(seed + 1, TOGETHER).draws
            others = (sites @ draws - own[:, None] * draws) / left
            diagonal += np.mean(others**2, axis=1) / SLOPE_ROUNDS
            scaled = self.tau[:, None] * (self.pattern.matrix @ draws)
            rows -= products_of(scaled, draws, self.pattern.rows.columns) / SLOPE_ROUNDS
        return Slopes((factor, 0.5 * diagonal), rows)

    def _row_slopes(self, mean: Numbers) -> Numbers:
        """Derivatives by the entries of rows, but for what the residuals add."""
        matrix, columns = self.pattern.matrix, self.pattern.rows.columns
        slopes = (self.nu - self.tau * (matrix @ mean))[:, None] * mean[columns]
        for some in _slices(len(columns), _CHUNK):
            seen = self.tau[some, None] * (matrix[some] @ self.root)
            for place in range(columns.shape[1]):
                entry = self.root[columns[some, place]]
                slopes[some, place] -= np.einsum("gm,gm->g", seen, entry)
        return slopes

    def factors(self, probes: Probes) -> tuple[Numbers, Numbers]:
        """``B`` (n, M + S) and ``d`` (n,), with covariances nearly ``B B' + diag(d)``."""
        moved, diagonal = self.residuals.factors(probes)
        return np.concatenate([self.root, moved], axis=1), diagonal


def _slices(size: int, step: int) -> Iterator[slice]:
    return (slice(first, min(first + step, size)) for first in range(0, size, step))


def _squares(rows: Numbers) -> Numbers:
    """Squared lengths of rows."""
    return np.einsum("nm,nm->n", rows, rows)


def least_residuals(factor: NDArray[Any], diagonal: NDArray[Any]) -> Numbers:
    """Variances of residuals, none of them lost beside what ``w`` explains, shape (n,)."""
    total = _squares(factor) + diagonal
    return np.maximum(diagonal, _LEAST * np.where(total > 0, total, np.mean(total)))
