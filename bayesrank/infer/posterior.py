"""Forms of a posterior: a joint covariance, or what stands for one; also as arrays by name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np
from jax import Array
from numpy.typing import NDArray

from bayesrank._memory import TooLargeError
from bayesrank.infer.gaussian.low_rank import LowRankGaussian
from bayesrank.infer.gaussian.sparse import Probes, ShortRows, SparseGaussian, SparsePattern
from bayesrank.infer.margins import square_root

Numbers = NDArray[np.float64]
Indices = NDArray[np.integer[Any]]

# Up to here a joint covariance is made where somebody asks for it.
_MOST_TOGETHER = 5000
# Pairs that the approximation is judged on.
_JUDGED = 32


@dataclass(frozen=True)
class Approximation:
    """How EP represents a posterior, and what that costs in accuracy.

    Attributes
    ----------
    structure
        "dense", "factorised", "probes" or "low_rank".
    error
        Root mean square of the relative errors of standard deviations of differences, of pairs
        that have met and pairs that never have, half and half.
    bias
        Mean of the relative errors over the pairs that never met; negative if standard deviations
        are too small.
    method
        How the errors were estimated.
    rank
        Rank of a prior of low rank plus diagonal; else None.
    residuals_seen
        Share that the data reveal of what such a prior leaves to each latent alone, from 0 to 1.

    Examples
    --------
    >>> import jax, numpy as np
    >>> from bayesrank.infer import EP
    >>> from bayesrank.models import thurstone
    >>> games = np.array([[0, 1], [1, 2], [0, 2]])  # (winner, loser)
    >>> engine = EP(thurstone, structure="factorised")
    >>> result = engine.run(jax.random.key(0), 3, games, params={"scale": 1.0})
    >>> result.approximation.structure
    'factorised'
    """

    structure: str
    error: float
    bias: float
    method: str
    rank: int | None = None
    residuals_seen: float = 0.0

    @property
    def sentence(self) -> str:
        """The accuracy, in a sentence."""
        accuracy = (
            f"Standard deviations of differences are off by {self.error:.1%} (of pairs that never "
            f"met by {self.bias:+.1%} in the mean), from {self.method}."
        )
        if self.rank is None:
            return accuracy
        return (
            f"{accuracy} The prior has rank {self.rank}; the data reveal {self.residuals_seen:.2%} "
            "of what it leaves to each latent alone. If it stands for a Gaussian process and that "
            "is more than 0.5%, use a larger rank."
        )

    def __str__(self) -> str:
        """The structure, and what it costs."""
        return f"{self.structure}. {self.sentence}"


class DensePosterior:
    """Latents with all covariances, (n, n)."""

    structure, has_slopes = "dense", False

    def __init__(self, covariance: Numbers) -> None:
        self._covariance = covariance

    @property
    def variances(self) -> Numbers:
        """Variance of each latent, shape (n,)."""
        return np.diagonal(self._covariance)

    def covariance(self) -> Numbers:
        """Covariances of all latents, shape (n, n)."""
        return self._covariance

    def pair_variances(self, first: Indices, second: Indices, *, exact: bool = True) -> Numbers:
        """Variances of differences of latents, shape (m,), exact in any case."""
        del exact
        own = self.variances[first] + self.variances[second]
        return np.maximum(own - 2 * self._covariance[first, second], 0.0)

    def sample(self, rng_key: Array, count: int) -> Numbers:
        """Draws about the mean, shape (count, n)."""
        with jax.enable_x64(True):
            # Of one axis, which compiles sooner, and is the same numbers.
            normal = jax.random.normal(rng_key, (count * len(self._covariance),), dtype=float)
        return np.asarray(normal).reshape(count, -1) @ square_root(self._covariance).T

    def approximation(self) -> Approximation:
        """Nothing is approximated."""
        return Approximation("dense", 0.0, 0.0, "the covariances of all latents, which are kept")


class _LargePosterior:
    """What posteriors of very many latents have in common: the Gaussian of prior and sites."""

    structure: str
    variances: Numbers
    gaussian: Any
    _size: int  # of the Gaussian

    @property
    def has_slopes(self) -> bool:
        """Whether derivatives of the log evidence are estimated from draws."""
        return self.gaussian.has_slopes

    def covariance(self) -> Numbers:
        """Covariances of all latents, shape (n, n), up to 5,000 of them."""
        if (size := self.variances.size) > _MOST_TOGETHER:
            raise TooLargeError(
                f"the covariances of {size:,} latents are not kept; use difference, sd or "
                "get_samples"
            )
        return self._covariance

    @cached_property
    def _covariance(self) -> Numbers:
        """Covariances of all latents, shape (n, n)."""
        right = np.eye(self._size, self.variances.size)
        return self.gaussian.solve(right, tol=1e-9)[: self.variances.size]

    def pair_variances(self, first: Indices, second: Indices, *, exact: bool = True) -> Numbers:
        """Variances of differences of latents, shape (m,); if `exact`, by a solution for each."""
        signs = np.where(first == second, 0.0, 1.0)
        rows = np.stack([signs, -signs], 1), np.stack([first, second], 1)
        pairs = ShortRows(*rows, self._size)
        return self.gaussian.quadratic(pairs) if exact else self._rough_variances(pairs)

    def _rough_variances(self, pairs: ShortRows) -> Numbers:
        """Variances of sums of latents, shape (m,), in no time."""
        raise NotImplementedError

    def sample(self, rng_key: Array, count: int) -> Numbers:
        """Draws about the mean, shape (count, n)."""
        seed = int(jax.random.randint(rng_key, (), 0, 2**31 - 1))
        return self._drawn(np.random.default_rng(seed), count)

    def _drawn(self, rng: np.random.Generator, count: int) -> Numbers:
        """Draws about the mean, shape (count, n)."""
        return self.gaussian.sample(rng, count)[:, : self.variances.size]

    def approximation(self) -> Approximation:
        """What it costs, judged on 32 pairs, half of which never met, each solved by itself."""
        first, second, never = _judged_pairs(self.gaussian.pattern, self.variances.size)
        rough, exact = (self.pair_variances(first, second, exact=each) for each in (False, True))
        off = np.sqrt(rough) / np.sqrt(exact) - 1
        bias = off[never].mean() if never.any() else 0.0
        how = f"{off.size} pairs, {int(never.sum())} of which never met, each solved by itself"
        size, seen = float(np.sqrt(np.mean(off**2))), self.gaussian
        return Approximation(self.structure, size, float(bias), how, seen.rank, seen.residuals_seen)


class FactorisedPosterior(_LargePosterior):
    """Latents that are independent of each other, of variances (n,).

    They come from a prior of variances (n,) and sites of short rows.
    """

    structure = "factorised"

    def __init__(
        self, variances: Numbers, rows: ShortRows, prior: Numbers, tau: Numbers, nu: Numbers
    ) -> None:
        self.variances, self._size = variances, variances.size
        self._rows, self._sites = rows, (prior, tau, nu)

    @cached_property
    def gaussian(self) -> SparseGaussian:
        """The Gaussian that the prior and the sites make."""
        return SparseGaussian(SparsePattern(self._rows), *self._sites)

    @property
    def has_slopes(self) -> bool:
        """No."""
        return False

    @cached_property
    def _covariance(self) -> Numbers:
        return np.diag(self.variances)

    def _rough_variances(self, pairs: ShortRows) -> Numbers:
        return np.sum(pairs.values**2 * self.variances[pairs.columns], axis=1)

    def _drawn(self, rng: np.random.Generator, count: int) -> Numbers:
        return rng.standard_normal((count, self.variances.size)) * np.sqrt(self.variances)

    def factors(self) -> tuple[Numbers, Numbers]:
        """``B`` (n, 0) and ``d`` (n,), with covariances ``B B' + diag(d)``."""
        return np.zeros((self.variances.size, 0)), self.variances


class ProbedPosterior(_LargePosterior):
    """Latents with a sparse precision, or what they share beside one, and draws of these."""

    def __init__(
        self, gaussian: SparseGaussian | LowRankGaussian, probes: Probes, size: int | None = None
    ) -> None:
        self.structure, self.gaussian, self.probes = gaussian.structure, gaussian, probes
        self.variances = gaussian.latent_variances(probes)[:size]
        self._size = gaussian.pattern.rows.size

    def _rough_variances(self, pairs: ShortRows) -> Numbers:
        return self.gaussian.margin_variances(self.probes, pairs)

    def factors(self) -> tuple[Numbers, Numbers]:
        """``B`` (n, S), what latents share, in the probes at least, and ``d`` (n,)."""
        factor, diagonal = self.gaussian.factors(self.probes)
        return factor[: self.variances.size], diagonal[: self.variances.size]


# What posteriors have in common: structure, has_slopes, variances, covariance, pair_variances,
# sample and approximation.
KeptPosterior = DensePosterior | FactorisedPosterior | ProbedPosterior


def _judged_pairs(
    pattern: SparsePattern, size: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Pairs of the first latents, half of which a site sees together; and which none does."""
    rng, ones = np.random.default_rng(0), np.ones(len(pattern.rows.values))
    precision = pattern.precision(np.ones(pattern.rows.size), ones)[:size, :size]
    some = rng.integers(precision.nnz, size=_JUDGED)
    owner = np.searchsorted(precision.indptr, some, side="right") - 1
    first, second = (
        np.concatenate([met, rng.integers(size, size=2 * _JUDGED)])
        for met in (owner, precision.indices[some])
    )
    never = np.ravel(precision[first, second]) == 0
    apart = first != second
    met = np.flatnonzero(~never & apart)[: _JUDGED // 2]
    others = np.flatnonzero(never & apart)[: _JUDGED // 2]
    chosen = np.concatenate([met, others])
    return first[chosen], second[chosen], never[chosen]
