"""An engine's Gaussian against draws of NUTS, site by site, with the draws' Monte Carlo error."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin

from bayesrank.infer.spi import split

_MOST_PAIRS = 1000
_AT_ONCE = 250

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Contrast:
    """Quantities of one site that are compared: its elements, or differences of pairs of them."""

    site: str
    # Positions of the elements in the flattened site, shape (q,); `second` is None for elements.
    first: NDArray[np.intp]
    second: NDArray[np.intp] | None
    labels: tuple[str, ...]  # name of each quantity, such as ``f[3]`` or ``f[3] - f[7]``

    def apply(self, values: Array) -> Array:
        """Quantities (..., q) from flattened values of the site (..., m)."""
        chosen = values[..., self.first]
        return chosen if self.second is None else chosen - values[..., self.second]

    def variance(self, covariance: Array) -> Array:
        """Variances (q,) from the covariance (m, m) of the flattened site."""
        own = np.diagonal(covariance)
        if self.second is None:
            return own[self.first]
        both = own[self.first] + own[self.second]
        return both - 2.0 * covariance[self.first, self.second]


def contrast_of(site: str, shape: tuple[int, ...], pairs: bool) -> Contrast:
    """A site's elements, or differences of them if `pairs`: 1,000 at most, always the same."""
    size = int(np.prod(shape, dtype=int))
    names = [site + (str(list(index)) if shape else "") for index in np.ndindex(shape)]
    if not pairs or size == 1:
        return Contrast(site, np.arange(size), None, tuple(names))
    count = size * (size - 1) // 2
    if count <= _MOST_PAIRS:
        first, second = np.triu_indices(size, 1)
    else:
        rng = np.random.default_rng(0)
        first = rng.integers(0, size, _MOST_PAIRS)
        second = (first + rng.integers(1, size, _MOST_PAIRS)) % size
    labels = tuple(f"{names[i]} - {names[j]}" for i, j in zip(first, second, strict=True))
    return Contrast(site, first, second, labels)


@dataclass(frozen=True, eq=False)
class Reference:
    """What NUTS says of the quantities of one site; all arrays have shape (q,)."""

    contrast: Contrast
    # Their posterior means and standard deviations.
    mean: Array
    sd: Array
    mean_error: Array  # Monte Carlo standard errors of the means, in posterior standard deviations
    sd_error: Array  # Monte Carlo standard errors of the standard deviations, relative to them
    # Split R-hat, and the effective sample size of the mean.
    r_hat: Array
    ess: Array


def reference_of(contrast: Contrast, draws: Array) -> Reference:
    """Summarise the draws of one site, shape (chains, draws, m)."""
    parts = []
    for start in range(0, contrast.first.size, _AT_ONCE):
        some = slice(start, start + _AT_ONCE)
        second = None if contrast.second is None else contrast.second[some]
        part = Contrast(contrast.site, contrast.first[some], second, contrast.labels[some])
        parts.append(_summarise(part.apply(draws)))
    return Reference(contrast, *np.concatenate(parts, axis=1))


def _summarise(draws: Array) -> Array:
    """Rows of `Reference` from draws (chains, draws, q)."""
    mean = draws.mean(axis=(0, 1))
    square = (draws - mean) ** 2
    variance = square.mean(axis=(0, 1))
    with np.errstate(invalid="ignore", divide="ignore"):  # a chain that never moved: NaN
        ess = effective_sample_size(draws)
        variance_error = square.std(axis=(0, 1)) / np.sqrt(effective_sample_size(square))
        sd_error = 0.5 * variance_error / variance
        r_hat = split_gelman_rubin(draws)
        return np.stack([mean, np.sqrt(variance), 1.0 / np.sqrt(ess), sd_error, r_hat, ess])


@dataclass(frozen=True, eq=False)
class Comparison:
    """An engine against NUTS on one site; all arrays have shape (q,)."""

    engine: str  # name of the engine
    reference: Reference  # what NUTS says
    # What the engine says.
    mean: Array
    sd: Array

    @property
    def site(self) -> str:
        """The site."""
        return self.reference.contrast.site

    @property
    def error(self) -> Array:
        """Errors of the means, in posterior standard deviations."""
        return (self.mean - self.reference.mean) / self.reference.sd

    @property
    def ratio(self) -> Array:
        """Ratios of the standard deviations, the engine's to NUTS's."""
        return self.sd / self.reference.sd


def references_of(
    draws: Mapping[str, Array], shapes: Mapping[str, tuple[int, ...]], pairs: bool
) -> tuple[Reference, ...]:
    """What draws (chains, draws, ...) of NUTS say of each site of these shapes."""
    contrasts = [contrast_of(name, shape, pairs) for name, shape in shapes.items()]
    flat = {name: draws[name].reshape(*draws[name].shape[:2], -1) for name in shapes}
    return tuple(reference_of(contrast, flat[contrast.site]) for contrast in contrasts)


def compared(
    reference: Reference,
    engine: str,
    mean: Array,
    covariance: Array,
    shapes: dict[str, tuple[int, ...]],
) -> Comparison:
    """An engine's Gaussian of all sites, (n,) and (n, n), against NUTS on one of them."""
    contrast = reference.contrast
    own = split(np.arange(mean.size), shapes)[contrast.site].reshape(-1)
    variance = contrast.variance(covariance[np.ix_(own, own)])
    return Comparison(engine, reference, contrast.apply(mean[own]), np.sqrt(variance))
