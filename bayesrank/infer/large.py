"""The posterior of many independent latents, without a joint covariance."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesrank._memory import TooLargeError
from bayesrank.infer.gaussian.low_rank import LowRankGaussian
from bayesrank.infer.gaussian.sparse import Probes, ShortRows, SparseGaussian, SparsePattern
from bayesrank.infer.probed import short_rows
from bayesrank.infer.result import EPResult
from bayesrank.infer.white.trust import Trust

__all__ = [
    "Approximation",
    "FactorisedPosterior",
    "LargeEPResult",
    "LargePosterior",
    "ProbedPosterior",
    "SparseSites",
]

Numbers = NDArray[np.float64]

# Up to here a joint covariance is made where somebody asks for it.
_MOST_TOGETHER = 5000
# Pairs that the approximation is judged on.
_JUDGED = 32


class Approximation(NamedTuple):
    """How a posterior is kept, and what that costs in accuracy.

    Attributes
    ----------
    structure
        "factorised", "probes" or "low_rank".
    error
        Root mean square of the relative errors of standard deviations of differences, of pairs
        that have met and pairs that never have, half and half.
    bias
        Mean of the relative errors over the pairs that never met; negative where standard
        deviations are too small.
    how
        How it was estimated.
    rank
        Of a prior of low rank plus diagonal; else None.
    residuals_seen
        Share that the data tell of what such a prior leaves to each latent alone, from 0 to 1.
    """

    structure: str
    error: float
    bias: float
    how: str
    rank: int | None = None
    residuals_seen: float = 0.0

    @property
    def sentence(self) -> str:
        """What it costs, for people."""
        told = (
            f"Standard deviations of differences are off by {self.error:.1%} (of pairs that never "
            f"met by {self.bias:+.1%} in the mean), from {self.how}."
        )
        if self.rank is None:
            return told
        return (
            f"{told} The prior has rank {self.rank}; the data tell {self.residuals_seen:.2%} of "
            "what it leaves to each latent alone. Where it stands for a Gaussian process and that "
            "is more than .5%, a larger rank gives a better answer."
        )

    def __str__(self) -> str:
        """The structure, and what it costs."""
        return f"{self.structure}. {self.sentence}"


class LargePosterior(Protocol):
    """A Gaussian of n latents about their mean."""

    structure: str

    variances: Numbers

    @property
    def gaussian(self) -> SparseGaussian | LowRankGaussian:
        """The Gaussian that the prior and the sites make."""
        ...

    def sample(self, seed: int, count: int) -> Numbers:
        """Draws about the mean, shape (count, n)."""
        ...

    def pair_variances(self, first: NDArray[Any], second: NDArray[Any]) -> Numbers:
        """Variances of differences of latents, shape (m,), in no time."""
        ...

    def exact_pair_variances(self, first: NDArray[Any], second: NDArray[Any]) -> Numbers:
        """The same, given the sites, to rounding."""
        ...

    def covariance(self) -> Numbers:
        """Of all latents, shape (n, n)."""
        ...

    def factors(self) -> tuple[Numbers, Numbers]:
        """``B`` (n, S) and ``d`` (n,), with covariances nearly ``B B' + diag(d)``."""
        ...

    def arrays(self) -> dict[str, Any]:
        """What it is made of, by name; see `bayesrank.infer.large_state`."""
        ...


class SparseSites(NamedTuple):
    """Sites of short rows, and the prior that they multiply.

    Attributes
    ----------
    parts
        Values and columns of the rows of each block of sites.
    variances
        Of the prior, shape (n,).
    tau, nu
        Of the sites, shape (G,).
    """

    parts: tuple[tuple[NDArray[Any], NDArray[Any]], ...]
    variances: Numbers
    tau: Numbers
    nu: Numbers

    def rows(self) -> ShortRows:
        """Rows of all sites."""
        return short_rows(self.parts, self.variances.size)

    def gaussian(self) -> SparseGaussian:
        """The Gaussian that prior and sites make."""
        return SparseGaussian(SparsePattern(self.rows()), self.variances, self.tau, self.nu)

    def arrays(self) -> dict[str, Any]:
        """Rows, prior and sites by name."""
        return _of_sites(self.rows(), self)


class FactorisedPosterior:
    """Latents that are independent of each other.

    Parameters
    ----------
    variances
        Of the latents, shape (n,).
    sites
        The sites and the prior.
    """

    structure = "factorised"

    def __init__(self, variances: Numbers, sites: SparseSites) -> None:
        self.variances, self.sites = variances, sites
        self._made: SparseGaussian | None = None

    @property
    def gaussian(self) -> SparseGaussian:
        """The Gaussian that the prior and the sites make."""
        if self._made is None:
            self._made = self.sites.gaussian()
        return self._made

    def sample(self, seed: int, count: int) -> Numbers:
        """Draws about the mean, shape (count, n)."""
        normal = np.random.default_rng(seed).standard_normal((count, self.variances.size))
        return normal * np.sqrt(self.variances)

    def pair_variances(self, first: NDArray[Any], second: NDArray[Any]) -> Numbers:
        """Variances of differences of latents, shape (m,)."""
        return np.where(first == second, 0.0, self.variances[first] + self.variances[second])

    def exact_pair_variances(self, first: NDArray[Any], second: NDArray[Any]) -> Numbers:
        """The same of the Gaussian that the prior and the sites make."""
        return self.gaussian.quadratic(_differences(first, second, self.variances.size))

    def covariance(self) -> Numbers:
        """Of all latents, shape (n, n)."""
        return np.diag(self.variances)

    def factors(self) -> tuple[Numbers, Numbers]:
        """``B`` (n, 0) and ``d`` (n,)."""
        return np.zeros((self.variances.size, 0)), self.variances

    def arrays(self) -> dict[str, Any]:
        """Sites, prior and own variances by name."""
        return self.sites.arrays() | {"own": self.variances}


class ProbedPosterior:
    """Latents whose sparse precision is kept, or what they share beside one.

    Parameters
    ----------
    gaussian, probes
        The Gaussian, and draws that know its variances.
    size
        Number of its latents, which come first; what follows from them comes after. By default all.
    """

    def __init__(
        self, gaussian: SparseGaussian | LowRankGaussian, probes: Probes, size: int | None = None
    ) -> None:
        self.structure, self.gaussian, self.probes = gaussian.structure, gaussian, probes
        self.variances = gaussian.latent_variances(probes)[:size]

    def _pairs(self, first: NDArray[Any], second: NDArray[Any]) -> ShortRows:
        return _differences(first, second, self.gaussian.pattern.rows.size)

    def sample(self, seed: int, count: int) -> Numbers:
        """Draws about the mean, shape (count, n)."""
        draws = self.gaussian.sample(np.random.default_rng(seed), count)
        return draws[:, : self.variances.size]

    def pair_variances(self, first: NDArray[Any], second: NDArray[Any]) -> Numbers:
        """Variances of differences of latents, shape (m,), from the probes."""
        return self.gaussian.margin_variances(self.probes, self._pairs(first, second))

    def exact_pair_variances(self, first: NDArray[Any], second: NDArray[Any]) -> Numbers:
        """The same, by a solution for each pair."""
        return self.gaussian.quadratic(self._pairs(first, second))

    def covariance(self) -> Numbers:
        """Of all latents, shape (n, n)."""
        size = self.variances.size
        right = np.eye(self.gaussian.pattern.rows.size, size)
        return self.gaussian.solve(right, tol=1e-9)[:size]

    def factors(self) -> tuple[Numbers, Numbers]:
        """``B`` (n, S), what latents share, in the probes at least, and ``d`` (n,)."""
        factor, diagonal = self.gaussian.factors(self.probes)
        return factor[: self.variances.size], diagonal[: self.variances.size]

    def arrays(self) -> dict[str, Any]:
        """Sites, prior and probes by name.

        Raises
        ------
        ValueError
            If latents are drawn given one another, or numbers that follow from them are kept too.
        """
        gaussian = self.gaussian
        of_prior = gaussian.arrays()
        if self.variances.size < gaussian.variances.size:
            raise ValueError("a posterior of latents with tables of what follows is not written")
        return _of_sites(gaussian.pattern.rows, gaussian) | self.probes._asdict() | of_prior


def _of_sites(rows: ShortRows, sites: SparseGaussian | LowRankGaussian | SparseSites) -> Any:
    """Rows, prior and sites by name."""
    rows_of = {"values": rows.values, "columns": rows.columns}
    return rows_of | {"variances": sites.variances, "tau": sites.tau, "nu": sites.nu}


def _differences(first: NDArray[Any], second: NDArray[Any], size: int) -> ShortRows:
    signs = np.where(first == second, 0.0, 1.0)
    return ShortRows(np.stack([signs, -signs], 1), np.stack([first, second], 1), size)


class LargeEPResult(EPResult):
    """The posterior of many latents, whose covariances are not kept.

    What needs them all, as `joint_covariance` and `trust`, is refused beyond 5,000 latents; means,
    standard deviations, differences and draws are there of any number.

    Attributes
    ----------
    posterior
        What stands for the covariances.
    log_evidence_error
        Standard error of `log_evidence`, of which the log determinant is estimated; zero where it
        is Bethe's.

    Notes
    -----
    The other attributes are those of `EPResult`.
    """

    posterior: LargePosterior
    log_evidence_error: float

    def __init__(
        self, *, posterior: LargePosterior, log_evidence_error: float, **fields: Any
    ) -> None:
        super().__init__(joint_covariance=np.empty(0), **fields)
        # The one below takes its place, which is computed when it is asked for.
        del self.__dict__["joint_covariance"]
        self.__dict__.update(posterior=posterior, log_evidence_error=log_evidence_error)

    @property
    def structure(self) -> str:
        """How the posterior is kept: "factorised", "probes" or "low_rank"."""
        return self.posterior.structure

    @property
    def has_slopes(self) -> bool:
        """Whether derivatives of the log evidence are estimated from draws."""
        return self.structure != "factorised" and self.posterior.gaussian.has_slopes

    @cached_property
    def joint_covariance(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Covariances of all latents, shape (n, n), up to 5,000 latents.

        Raises
        ------
        TooLargeError
            If there are more.
        """
        size = self.joint_mean.size
        if size > _MOST_TOGETHER:
            raise TooLargeError(
                f"the covariances of {size:,} latents are not kept; use difference, stddev or "
                "get_samples"
            )
        return self.posterior.covariance()

    @cached_property
    def stddev(self) -> dict[str, np.ndarray]:
        """Posterior standard deviation of each latent site, in its own shape."""
        return self.by_site(np.sqrt(self.posterior.variances))

    @cached_property
    def _draws(self) -> dict[str, np.ndarray]:
        seed = int(jax.random.randint(self.rng_key, (), 0, 2**31 - 1))
        draws = self.posterior.sample(seed, self.num_samples)
        draws += self.joint_mean
        return self.by_site(draws)

    def difference(
        self,
        first: ArrayLike,
        second: ArrayLike,
        *,
        site: str | None = None,
        exact: bool = True,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Posterior means and standard deviations of differences of latents.

        Parameters
        ----------
        first, second, site
            As of `EPResult.difference`.
        exact
            Whether to solve for each pair, which is right given EP's sites and takes some tens of
            milliseconds a pair; else standard deviations are as good as `approximation` says, of a
            million pairs in a second.

        Returns
        -------
        tuple
            Mean and standard deviation of ``first - second``, in the shape of these.

        Raises
        ------
        ValueError
            As `EPResult.difference`.
        """
        first, second = self._numbers(first, second, site)
        kept = self.posterior
        compute = kept.exact_pair_variances if exact else kept.pair_variances
        variances = compute(first.ravel(), second.ravel()).reshape(first.shape)
        return self.joint_mean[first] - self.joint_mean[second], np.sqrt(variances)

    @cached_property
    def approximation(self) -> Approximation:
        """How the posterior is kept, and what that costs in accuracy.

        It is judged on 16 pairs that have met and 16 that never have, each by a solution of its
        own: some seconds.
        """
        first, second, never = _judged_pairs(self.posterior.gaussian.pattern, self.joint_mean.size)
        told = np.sqrt(self.posterior.pair_variances(first, second))
        off = told / np.sqrt(self.posterior.exact_pair_variances(first, second)) - 1
        bias = off[never].mean() if never.any() else 0.0
        how = f"{off.size} pairs, {int(never.sum())} of which never met, each solved by itself"
        size, seen = float(np.sqrt(np.mean(off**2))), self.posterior.gaussian
        return Approximation(self.structure, size, float(bias), how, seen.rank, seen.residuals_seen)

    @cached_property
    def trust(self) -> Trust:
        """Not looked into: see `approximation`.

        Raises
        ------
        TooLargeError
            Always.
        """
        raise TooLargeError(
            f"the accuracy of {self.joint_mean.size:,} latents is not looked into by importance "
            "sampling; see approximation, or run EP(model, structure='dense') on fewer of them"
        )

    @property
    def _is_cheap_to_judge(self) -> bool:
        return False

    def _known_trust(self) -> str:
        if "approximation" in self.__dict__:
            return str(self.approximation)
        return f"{self.posterior.structure}, without covariances; see result.approximation"


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
