"""Skills by EP, at given hyperparameters or averaged over them, and predictions of comparisons.

A margin is a sum of few latents (`bayesrank.solvers.comparisons.terms`), so it is normal in each
part of the posterior. The likelihood averages over it.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from bayesrank.infer import EPResult
from bayesrank.infer.spi import tilted_moments
from bayesrank.models.comparisons import PAIR_LIKELIHOODS
from bayesrank.ranking import SkillMixture
from bayesrank.solvers.comparisons.terms import Asked, MarginRows, margin_rows

Floats = NDArray[np.float64]

OUTCOMES = ("loss", "tie", "win")
"""Outcomes for the first item of a pair, in the order of the columns of chances."""


class Effects(NamedTuple):
    """Mean and standard deviation of what decides comparisons beside skill, by name."""

    position_effect: tuple[float, float] | None
    log_tie_width: tuple[float, float] | None
    covariate_effects: tuple[tuple[float, float], ...] = ()


class Judges(NamedTuple):
    """Moments of what is each judge's own, shape (J,); biases are empty without positions."""

    log_reliability: Floats
    log_reliability_variance: Floats
    bias: Floats
    bias_variance: Floats


class Component(NamedTuple):
    """N latents given the hyperparameters; the posterior is a mixture of such."""

    weight: float  # its share
    params: Mapping[str, NDArray[Any]]  # values of the hyperparameters
    mean: Floats  # shape (N,)
    covariance: Any  # (N, N), or what has ``variances(rows)`` of sums of many
    prior_variance: float = 0.0  # of an unknown item's skill; zero with features

    def margins(self, rows: MarginRows) -> tuple[Floats, Floats]:
        """Means and variances of sums of latents, both of shape (P,)."""
        mean = np.sum(rows.values * self.mean[rows.columns], axis=1)
        if not isinstance(self.covariance, np.ndarray):
            return mean, self.covariance.variances(rows)
        return mean, variances_of(self.covariance, rows)

    def wider(self, factor: float) -> "Component":
        """The same with all standard deviations times a factor."""
        if factor == 1.0:
            return self
        if isinstance(self.covariance, np.ndarray):
            return self._replace(covariance=factor**2 * self.covariance)
        return self._replace(covariance=_Wider(self.covariance, factor))


class _Wider(NamedTuple):
    """Covariances of latents whose standard deviations are multiplied by a factor."""

    covariance: Any
    factor: float

    def variances(self, rows: MarginRows) -> Floats:
        return self.factor**2 * self.covariance.variances(rows)


def variances_of(covariance: Floats, rows: MarginRows) -> Floats:
    """Variances of sums of few latents of a covariance (N, N), shape (P,)."""
    values, columns = rows
    within = covariance[columns[:, :, None], columns[:, None, :]]
    return np.maximum(np.einsum("pa,pab,pb->p", values, within, values), 0.0)


class _KeptApart(NamedTuple):
    """Covariances of a result that does not keep them.

    The variance of the difference of the two skills is known; what follows in a row counts as
    independent of them.
    """

    result: EPResult

    def variances(self, rows: MarginRows) -> Floats:
        each = rows.values**2 * self.result.posterior.variances[rows.columns]
        both = (rows.values[:, :2] != 0.0).all(axis=1) & (rows.values.shape[1] > 1)
        if both.any():
            first, second = rows.columns[both, :2].T
            each[both, :2] = 0.0
            each[both, 0] = self.result.posterior.pair_variances(first, second, exact=False)
        return each.sum(axis=1)


class ComparisonPosterior:
    """The posterior of skills, by the Gaussians that it is a mixture of.

    Standard deviations of latents are multiplied by `widening`, where rows agree more than the
    model says; those of judges and of the tie width are not.
    """

    likelihood = "probit"
    widening = 1.0

    @property
    def at(self) -> dict[str, NDArray[np.int64]]:
        """Numbers of the latents of each site, in its shape."""
        raise NotImplementedError

    @property
    def judges(self) -> Judges:
        """Moments of the judges; empty arrays if the log has none."""
        return Judges(*(np.zeros(0) for _ in range(4)))

    def tastes(self, judges: NDArray[np.int64], items: NDArray[np.int64]) -> Floats:
        """Means of the tastes of judges for items, both of one shape; zeros without tastes."""
        del judges
        return np.zeros(items.shape)

    def components(self, shares: Floats | None = None, judge: int | None = None) -> list[Component]:
        """The Gaussians of the latents, skills by `shares` of categories, as a judge sees them.

        Without shares (C,), whose sum is one, skills are those before what a category adds.
        """
        return [part.wider(self.widening) for part in self._parts(shares, judge)]

    def _parts(self, shares: Floats | None, judge: int | None) -> Iterable[Component]:
        """The same before they are widened."""
        raise NotImplementedError

    def draws(self, shares: Floats | None, number: int, random: np.random.RandomState) -> Floats:
        """Draws of skills by `shares` of categories; joint, where `random` is in the same state."""
        raise NotImplementedError

    def mixture(self, shares: Floats | None = None, most: float = np.inf) -> SkillMixture | None:
        """Skills by `shares` of categories; None without covariances of `most` numbers in all."""
        at = self.at["f"]
        parts = list(self.components(shares))
        kept = all(isinstance(part.covariance, np.ndarray) for part in parts)
        if not kept or len(parts) * at.size**2 > most:
            return None
        found = [(p.weight, p.mean[at], p.covariance[np.ix_(at, at)]) for p in parts]
        return SkillMixture(*(np.array(each) for each in zip(*found, strict=True)))

    def skills(self, shares: Floats | None = None) -> tuple[Floats, Floats]:
        """Means and standard deviations of skills by `shares` of categories, shape (n,)."""
        at = self.at["f"]
        return moments_of(self.components(shares), MarginRows.of(at.size, (1.0, at)))

    def chances(self, asked: Asked) -> Floats:
        """Probabilities of `OUTCOMES` in comparisons to come, shape (P, 3)."""
        parts = self.components(asked.shares, asked.judge)
        return chances_by(parts, self.at, asked, self.likelihood)

    def effects(self) -> Effects:
        """Effects of the position and of ties."""
        position = width = None
        parts, at = list(self.components()), self.at
        if "position_effect" in at:
            rows = MarginRows.of(1, (1.0, at["position_effect"]))
            mean, sd = moments_of(parts, rows)
            position = float(mean[0]), float(sd[0])
        if "tie_width" in parts[0].params:
            logs = np.log([float(part.params["tie_width"]) for part in parts])
            weights = np.array([part.weight for part in parts])
            mean = float(weights @ logs)
            width = mean, float(np.sqrt(weights @ (logs - mean) ** 2))
        others = at.get("covariate_effect", np.zeros(0, np.int64))
        if others.size:
            found = moments_of(parts, MarginRows.of(others.size, (1.0, others)))
            return Effects(position, width, tuple(zip(*(m.tolist() for m in found), strict=True)))
        return Effects(position, width)


class EPSkills(ComparisonPosterior):
    """The posterior of skills by a result of EP.

    Parameters
    ----------
    result
        Of a program of comparisons or orders, whose skills are the site ``f``.
    likelihood
        "probit" or "logit".
    widening
        What standard deviations are multiplied by.

    Examples
    --------
    >>> import jax, numpy as np
    >>> from bayesrank.infer import EP
    >>> from bayesrank.models import thurstone
    >>> games = np.array([[0, 1], [1, 2], [0, 2]])  # (winner, loser)
    >>> result = EP(thurstone).run(jax.random.key(0), 3, games, params={"scale": 1.0})
    >>> from bayesrank.solvers.comparisons import EPSkills
    >>> skills = EPSkills(result)
    """

    def __init__(self, result: Any, likelihood: str = "probit", widening: float = 1.0) -> None:
        self.result, self.likelihood, self.widening = result, likelihood, widening
        self.then: Any = None  # as of the time that was asked for last, where skills move

    @property
    def at(self) -> dict[str, NDArray[np.int64]]:
        """Numbers of the latents of each site, in the order of the result."""
        start, at = 0, {}
        for name, shape in self.result.shapes.items():
            at[name] = np.arange(start, start + int(np.prod(shape, dtype=int))).reshape(shape)
            start += at[name].size
        return at

    def _parts(self, shares: Floats | None, judge: int | None) -> list[Component]:
        """Gaussians of the result, skills by `shares` of categories; judges are alike."""
        if judge is not None:
            raise ValueError("the log had no judges; leave judge out")
        return by_shares(components_of(self.result), self.at, shares)

    def skills(self, shares: Floats | None = None) -> tuple[Floats, Floats]:
        """Means and standard deviations in the result, or by `shares` of categories, (n,)."""
        if shares is not None:
            return super().skills(shares)
        return self.result.mean["f"], self.widening * self.result.sd["f"]

    def draws(self, shares: Floats | None, number: int, random: np.random.RandomState) -> Floats:
        """Draws in the result, whatever their number."""
        del number, random
        draws = self.result.get_samples()
        skills = draws["f"]
        if shares is not None:
            skills = skills + np.tensordot(draws["category_skill"], shares, (1, 0))
        if self.widening == 1.0:
            return skills
        mean = skills.mean(axis=0, dtype=np.float64)
        return mean + self.widening * (skills - mean)


def components_of(result: Any) -> list[Component]:
    """The Gaussians that a result of EP is, or is a mixture of."""
    found = []
    for weight, params, moments, _ in result.components():
        is_dense = moments.structure == "dense"
        covariance = moments.joint_covariance if is_dense else _KeptApart(moments)
        prior_variance = float(params.get("scale", 0.0)) ** 2
        found.append(Component(weight, params, moments.joint_mean, covariance, prior_variance))
    return found


def by_shares(
    parts: list[Component], at: Mapping[str, Any], shares: Floats | None
) -> list[Component]:
    """Components with skills by `shares` of categories (C,), or as they are without."""
    if shares is None:
        return parts
    rows = np.eye(len(parts[0].mean))
    for share, own in zip(shares, at["category_skill"], strict=True):
        rows[at["f"], own] = share
    return [
        part._replace(
            mean=rows @ part.mean,
            covariance=rows @ part.covariance @ rows.T,
            prior_variance=part.prior_variance + added_variance(part.params, shares),
        )
        for part in parts
    ]


def added_variance(params: Mapping[str, Any], shares: Floats | None) -> float:
    """What categories add to the variance of an unknown item's skill by shares of them."""
    within = 0.0 if shares is None else float(shares @ shares)
    return within * float(params.get("category_scale", 0.0)) ** 2


def moments_of(parts: Iterable[Component], rows: MarginRows) -> tuple[Floats, Floats]:
    """Means and standard deviations of sums of latents under a mixture, both of shape (P,)."""
    found = [(part.weight, *part.margins(rows)) for part in parts]
    weights, means, variances = (np.array(each) for each in zip(*found, strict=True))
    mean = weights @ means
    return mean, np.sqrt(weights @ (variances + (means - mean) ** 2))


def chances_by(
    parts: Iterable[Component], at: Mapping[str, Any], asked: Asked, likelihood: str
) -> Floats:
    """Chances by some components; items beyond those of ``at["f"]`` come from the population."""
    num_items = at["f"].size
    pairs = np.stack([asked.first, asked.second], axis=1)
    new = pairs >= num_items
    first, second = np.where(new, 0, pairs).T
    rows = margin_rows(asked._replace(first=first, second=second), at)
    rows.values[:, :2][new] = 0.0  # of a newcomer the posterior says nothing
    newcomers = np.where(pairs[:, 0] == pairs[:, 1], 0, new.sum(axis=1))
    total = np.zeros((len(pairs), 3))
    for part in parts:
        mean, variance = part.margins(rows)
        variance = variance + newcomers * part.prior_variance
        total += part.weight * chances_of_margins(likelihood, part.params, mean, variance)
    return np.minimum(total, 1.0)  # weights add up to one but for rounding


def chances_of_margins(
    likelihood: str, params: Mapping[str, Any], mean: Floats, variance: Floats
) -> Floats:
    """Probabilities of `OUTCOMES` (P, 3) by normal margins; ties where there is a ``tie_width``."""
    width, noise = (float(params.get(name, 1.0)) for name in ("tie_width", "noise"))
    ties = "tie_width" in params
    if likelihood == "probit":
        width, scale, far = ties * width, np.sqrt(2.0 * noise**2 + variance), -np.abs(mean)
        loss, win = ndtr((-mean - width) / scale), ndtr((mean - width) / scale)
        # Of both tails the lower, where nothing cancels.
        return np.stack([loss, ndtr((far + width) / scale) - ndtr((far - width) / scale), win], 1)
    family, scales = PAIR_LIKELIHOODS[likelihood][ties], [width, noise] if ties else [noise]
    with jax.enable_x64(True):
        values = np.array([0, 1, 2]) if ties else np.array([0, 1])
        found = np.exp(np.asarray(_log_chances(family, scales, values, mean, variance)))
    return found.T if ties else np.stack([found[0], np.zeros_like(mean), found[1]], axis=1)


@partial(jax.jit, static_argnums=0)
def _log_chances(
    family: Callable[..., Any],
    scales: list[jax.Array],
    values: jax.Array,
    mean: jax.Array,
    variance: jax.Array,
) -> jax.Array:
    """Log probabilities of outcomes, averaged over normal margins, shape (outcomes, P)."""

    def of_one(value: jax.Array) -> jax.Array:
        return tilted_moments(lambda m: family(m, *scales).log_prob(value), mean, variance).log_z

    return jax.lax.map(of_one, values)
