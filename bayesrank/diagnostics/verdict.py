"""An engine's Gaussian against draws of NUTS, and the sentence that a person can act on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin
from scipy.stats import norm

from bayesrank.infer.spi import Importance, split

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


Status = Literal["agrees", "close", "differs", "unclear"]

_LARGEST_R_HAT = 1.05
_LARGEST_K_HAT = 0.7
_DIVERGENT = 0.01
_LEVEL = 0.01
_ADVICE = {"ep": "use EP", "svi": "SVI will do"}


class Verdict(NamedTuple):
    """What to think of an engine's posterior."""

    engine: str
    # "agrees": no difference from NUTS beyond Monte Carlo error. "close": a difference, but within
    # the tolerance. "differs": a difference beyond the tolerance, or the engine has not converged.
    # "unclear": NUTS has not converged, or its Monte Carlo error is too large to tell.
    status: Status
    sentence: str  # the same in words, with what to do


class Sizes(NamedTuple):
    """How long NUTS was run: warm-up and kept draws of each chain, and divergent ones of all."""

    num_warmup: int
    num_samples: int
    num_chains: int
    num_divergent: int


@dataclass(frozen=True, eq=False)
class _Deviations:
    """Means or standard deviations of all sites against NUTS, with Monte Carlo errors."""

    labels: tuple[str, ...]
    value: Array
    error: Array

    @property
    def worst(self) -> int:
        return int(np.argmax(self.certain))

    @property
    def largest(self) -> float:
        return float(np.abs(self.value).max())

    @property
    def noise(self) -> float:
        return rms(self.error)

    @property
    def certain(self) -> Array:
        """What is left of each deviation when Monte Carlo error is allowed for, in all at once."""
        quantile = norm.isf(_LEVEL / 2 / self.value.size)
        return np.maximum(np.abs(self.value) - quantile * self.error, 0.0)

    @property
    def within_noise(self) -> bool:
        # Errors of neighbours go together, so their root mean square varies like that of one.
        return bool(rms(self.value) <= norm.isf(_LEVEL / 2) * self.noise and not self.certain.any())


def rms(values: Array) -> float:
    """Root mean square."""
    return float(np.sqrt(np.mean(np.square(values))))


def judge(
    comparisons: Sequence[Comparison], sizes: Sizes, tolerance: float, warning: str | None
) -> Verdict:
    """Judge one engine by its comparisons with NUTS, one a latent site; `tolerance` is in sds."""
    engine = comparisons[0].engine
    name = engine.upper()
    if warning is not None:
        return Verdict(engine, "differs", f"{name} {warning}")
    trouble = _trouble([c.reference for c in comparisons], sizes)
    if trouble is not None:
        advice = f"{trouble}, so {name} cannot be judged yet: {_run_again(sizes, 2.0)}."
        return Verdict(engine, "unclear", advice)
    labels = sum((c.reference.contrast.labels for c in comparisons), ())
    error = _join([c.reference.mean_error for c in comparisons])
    means = _Deviations(labels, _join([c.error for c in comparisons]), error)
    error = _join([c.reference.sd_error * c.ratio for c in comparisons])
    sds = _Deviations(labels, _join([c.ratio for c in comparisons]) - 1.0, error)
    if max(means.certain.max(), sds.certain.max()) > tolerance:
        return Verdict(engine, "differs", _describe_difference(name, means, sds, tolerance))
    noise = max(means.noise, sds.noise)
    factor = max(4.0, (4.0 * noise / tolerance) ** 2)
    if noise > tolerance / 3.0:
        sentence = (
            f"NUTS's Monte Carlo error ({noise:.2g} posterior standard deviations) is too large to "
            f"tell whether {name} is within {tolerance:g} of it: {_run_again(sizes, factor)}."
        )
        return Verdict(engine, "unclear", sentence)
    if max(means.largest, sds.largest) > tolerance:
        sentence = (
            f"{name} seems to differ from NUTS by up to {means.largest:.2g} posterior standard "
            f"deviations in the means and {100 * sds.largest:.2g}% in the standard deviations, "
            f"but what goes beyond {tolerance:g} may be Monte Carlo error: "
            f"{_run_again(sizes, factor)}."
        )
        return Verdict(engine, "unclear", sentence)
    if means.within_noise and sds.within_noise:
        sentence = f"{name} agrees with NUTS within Monte Carlo error: {_ADVICE[engine]}."
        return Verdict(engine, "agrees", sentence)
    sentence = (
        f"{name} matches NUTS: means are within {means.largest:.2g} posterior standard deviations, "
        f"standard deviations within {100 * sds.largest:.2g}% ({_median_change(sds)} in the "
        f"median), less than the tolerance of {tolerance:g}: {_ADVICE[engine]}."
    )
    return Verdict(engine, "close", sentence)


def judge_alone(engine: str, weights: Importance, tolerance: float, warning: str | None) -> Verdict:
    """Judge an engine by importance weights: as if by a shift of `tolerance` sds."""
    name = engine.upper()
    if warning is not None:
        return Verdict(engine, "differs", f"{name} {warning}")
    if weights.k_hat < _LARGEST_K_HAT or weights.divergence < tolerance**2 / 2:
        found = f"k-hat {weights.k_hat:.2f}, divergence {weights.divergence:.2g}"
        sentence = f"Importance sampling confirms {name} ({found}): {_ADVICE[engine]}."
        return Verdict(engine, "agrees", sentence)
    sentence = (
        f"Importance sampling cannot tell whether {name} is right (k-hat {weights.k_hat:.2f}): "
        "add 'nuts' to engines."
    )
    return Verdict(engine, "unclear", sentence)


def _join(arrays: Sequence[Array]) -> Array:
    return np.concatenate(arrays)


def _trouble(references: Sequence[Reference], sizes: Sizes) -> str | None:
    """Why the draws of NUTS cannot be relied on, if so."""
    r_hat = _join([reference.r_hat for reference in references])
    labels = sum((reference.contrast.labels for reference in references), ())
    if np.isnan(r_hat).any():
        return f"A chain of NUTS never moved ({labels[int(np.argmax(np.isnan(r_hat)))]})"
    worst = int(np.argmax(r_hat))
    if r_hat[worst] > _LARGEST_R_HAT:
        return f"NUTS has not converged (R-hat {r_hat[worst]:.2f} for {labels[worst]})"
    share = sizes.num_divergent / (sizes.num_chains * sizes.num_samples)
    if share > _DIVERGENT:
        return f"NUTS has not explored the posterior ({100 * share:.0f}% of its draws diverged)"
    return None


def _run_again(sizes: Sizes, factor: float) -> str:
    samples = int(np.ceil(sizes.num_samples * factor / 100.0)) * 100
    if factor > 2.0:
        return f"run again with num_samples={samples}"
    return f"run again with num_warmup={2 * sizes.num_warmup}, num_samples={samples}"


def _describe_difference(name: str, means: _Deviations, sds: _Deviations, tolerance: float) -> str:
    parts = []
    if means.certain.max() > tolerance:
        parts.append(
            f"the mean of {means.labels[means.worst]} is {abs(means.value[means.worst]):.2g} "
            "posterior standard deviations off"
        )
    if sds.certain.max() > tolerance:
        change = sds.value[sds.worst]
        parts.append(
            f"the standard deviation of {sds.labels[sds.worst]} is {100 * abs(change):.0f}% too "
            f"{'large' if change > 0 else 'small'} ({_median_change(sds)} in the median)"
        )
    return (
        f"{name} differs from NUTS: {' and '.join(parts)}, beyond Monte Carlo error and the "
        f"tolerance of {tolerance:g}. Use the draws of NUTS instead."
    )


def _median_change(sds: _Deviations) -> str:
    median = 100 * float(np.median(sds.value))
    return f"{abs(median):.2g}% too {'large' if median > 0 else 'small'}"
