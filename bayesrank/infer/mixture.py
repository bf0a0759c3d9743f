"""Means and covariances of latents, and mixtures of these over values of hyperparameters."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bayesrank._memory import check_memory
from bayesrank.infer.margins import bounded_draws
from bayesrank.infer.posterior import Approximation, DensePosterior, KeptPosterior

# The most bytes of covariances that a mixture keeps.
MOST_BYTES = 2e8


@dataclass(frozen=True, eq=False, kw_only=True)
class GaussianMoments:
    """Mean and covariance of the latents of a program."""

    # Shape of every latent site, in the order of the joint posterior.
    shapes: dict[str, tuple[int, ...]]
    # Of all latents laid end to end, shape (n,), float64.
    joint_mean: np.ndarray = field(repr=False)
    posterior: KeptPosterior = field(repr=False)  # their covariances, or what stands for these

    @property
    def structure(self) -> str:
        """Form of the posterior, as in `EP`; "dense" wherever it has all covariances."""
        return self.posterior.structure

    @property
    def joint_covariance(self) -> np.ndarray:
        """Covariances of all latents, shape (n, n); raises `TooLargeError` if they are too many."""
        return self.posterior.covariance()

    @cached_property
    def approximation(self) -> Approximation:
        """How EP represents the posterior, and what that costs in accuracy.

        Without covariances it solves 32 pairs one by one, in some seconds.
        """
        return self.posterior.approximation()

    @property
    def latent_sites(self) -> tuple[str, ...]:
        """Names of the latent sites."""
        return tuple(self.shapes)

    @cached_property
    def mean(self) -> dict[str, np.ndarray]:
        """Posterior mean of each latent site, in its own shape."""
        return self.split_sites(self.joint_mean)

    @cached_property
    def covariance(self) -> dict[str, np.ndarray]:
        """Posterior covariance of each latent site, in its own shape twice over."""
        return {
            k: self.joint_covariance[s, s].reshape(self.shapes[k] * 2)
            for k, s in self._spans.items()
        }

    @cached_property
    def sd(self) -> dict[str, np.ndarray]:
        """Posterior standard deviation of each latent site, in its own shape."""
        return self.split_sites(np.sqrt(self.posterior.variances))

    @property
    def _spans(self) -> dict[str, slice]:
        start, spans = 0, {}
        for name, shape in self.shapes.items():
            size = math.prod(shape)
            spans[name] = slice(start, start + size)
            start += size
        return spans

    def difference(
        self,
        first: ArrayLike,
        second: ArrayLike,
        *,
        site: str | None = None,
        exact: bool = True,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Posterior means and standard deviations of latents `first` minus latents `second`.

        Parameters
        ----------
        first, second
            Numbers of latents in their site, laid end to end: integers, or arrays of shape (m,);
            the results have the same shape.
        site
            Name of the site, needed if there are several.
        exact
            Without covariances, whether to solve for each pair. That is right given EP's sites, and
            takes some tens of milliseconds a pair. If not, standard deviations are as good as
            `approximation` says, and take a second for a million pairs.

        Raises
        ------
        ValueError
            If `site` is missing or unknown, or a number is not an integer or out of range.
        """
        first, second = self._numbers(first, second, site)
        flat = first.ravel(), second.ravel()
        variance = self.posterior.pair_variances(*flat, exact=exact).reshape(first.shape)
        return self.joint_mean[first] - self.joint_mean[second], np.sqrt(variance)

    def _numbers(
        self, first: ArrayLike, second: ArrayLike, site: str | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of latents of a site among all."""
        if site is None and len(self.shapes) == 1:
            [site] = self.shapes
        if site is None or site not in self.shapes:
            raise ValueError(f"site is {site!r}; choose one of {list(self.shapes)}")
        span = self._spans[site]
        first, second = np.broadcast_arrays(np.asarray(first), np.asarray(second))
        for name, numbers in (("first", first), ("second", second)):
            count = span.stop - span.start
            if not np.issubdtype(numbers.dtype, np.integer):
                raise ValueError(f"{name} holds {numbers.dtype}; pass integers")
            if numbers.size and not (0 <= numbers.min() and numbers.max() < count):
                raise ValueError(f"{name} is out of range: {site!r} has latents 0 to {count - 1}")
        return span.start + first, span.start + second

    def split_sites(self, draws: Any) -> dict[str, Any]:
        """Cut joint draws of shape (..., n) into those of each site."""
        return {
            k: draws[..., s].reshape((*draws.shape[:-1], *self.shapes[k]))
            for k, s in self._spans.items()
        }


class MixtureComponent(NamedTuple):
    """The posterior at one value of the hyperparameters."""

    weight: float  # its share of the mixture
    params: dict[str, np.ndarray]  # values of all hyperparameters, those held fixed included
    moments: GaussianMoments  # mean and covariance of the latents given these
    sites: Mapping[str, tuple[np.ndarray, np.ndarray]]  # parameters of the sites, if kept


class Drawn(NamedTuple):
    """Draws of hyperparameters and of the latents given these, shapes (chains, draws, ...)."""

    hyperparameters: dict[str, np.ndarray]
    latents: dict[str, np.ndarray]
    # Of the density that each is from, up to a constant: EP's of the latents, times its evidence
    # and the prior of the hyperparameters; shape (chains, draws).
    log_proposals: np.ndarray


class PosteriorMixture(NamedTuple):
    """EP's posteriors at K values of the hyperparameters, which weigh differently.

    Attributes
    ----------
    weights
        Weights of the values, shape (K,), adding up to one.
    points
        The values, shapes (K,) + their own.
    means, covariances
        EP's posterior of all latents there, shapes (K, n) and (K, n, n).
    heights
        EP's log evidence plus the log prior density there, shape (K,).
    sites
        For each observed site, EP's site parameters ``(tau, nu)`` there, with K rows each. They are
        kept where latents are integrated out (`EPResult.marginalized_sites`), of which they alone
        tell.
    """

    weights: np.ndarray
    points: dict[str, np.ndarray]
    means: np.ndarray
    covariances: np.ndarray
    heights: np.ndarray
    sites: dict[str, tuple[np.ndarray, np.ndarray]]

    def moments(self, shapes: dict[str, tuple[int, ...]]) -> GaussianMoments:
        """Mean and covariance of the mixture, of sites of `shapes`."""
        center = self.weights @ self.means
        between = self.means - center
        covariance = np.tensordot(self.weights, self.covariances, 1)
        covariance += (between.T * self.weights) @ between
        posterior = DensePosterior(covariance)
        return GaussianMoments(shapes=shapes, joint_mean=center, posterior=posterior)

    def components(
        self, shapes: dict[str, tuple[int, ...]], params: Mapping[str, np.ndarray]
    ) -> Iterator[MixtureComponent]:
        """The parts of the mixture, beside fixed hyperparameters `params`."""
        for number, weight in enumerate(self.weights):
            at = {name: values[number] for name, values in self.points.items()}
            moments = GaussianMoments(
                shapes=shapes,
                joint_mean=self.means[number],
                posterior=DensePosterior(self.covariances[number]),
            )
            sites = {name: (tau[number], nu[number]) for name, (tau, nu) in self.sites.items()}
            yield MixtureComponent(float(weight), {**params, **at}, moments, sites)

    def drawn(
        self, support: tuple[Any, Any] | None, count: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Owners (count,), draws (count, n), and the logs of their densities as in `Drawn`."""
        size = self.means.shape[1]
        check_memory(24 * count * size, f"{count:,} draws of {size:,} latents", "draw fewer")
        # Systematic: each component has its share of the draws to within one.
        levels = (np.arange(count) + rng.random()) / max(count, 1)
        owner = np.minimum(np.searchsorted(np.cumsum(self.weights), levels), self.weights.size - 1)
        draws, logs = rng.standard_normal((count, size)), self.heights[owner].astype(float)
        for number in np.unique(owner):
            mine = owner == number
            moments = self.means[number], self.covariances[number]
            draws[mine], there = bounded_draws(*moments, draws[mine], support)
            logs[mine] += there
        order = rng.permutation(count)
        return owner[order], draws[order], logs[order]

    def of_latents(self, at: np.ndarray) -> PosteriorMixture:
        """The mixture of some latents, by their numbers."""
        covariances = self.covariances[:, at[:, None], at]
        return self._replace(means=self.means[:, at], covariances=covariances)
