"""The posterior of a log of comparisons, by either route: Gaussians that predictions average over.

By `bayesrank.solvers.comparisons` it is one Gaussian, in which reliabilities and the tie width are
uncertain by the delta method; with the scales averaged over by `bayesrank.infer.IntegratedEP` it is
a mixture, in each part of which scales and tie width are known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import ndtr

from bayesrank.infer import IntegratedEPResult
from bayesrank.inferencedata import to_arviz
from bayesrank.inferencedata.arena import arena_to_arviz
from bayesrank.solvers.comparisons import ArenaFit

__all__ = ["ArenaPosterior", "Averaged", "Judges", "Learned", "Part"]

Array = NDArray[np.float64]

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(9)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_LONGEST_LIKELIHOOD = 10_000_000  # numbers, 80 MB


class Part(NamedTuple):
    """A Gaussian of the posterior, of skills and what else a comparison depends on.

    Attributes
    ----------
    weight
        Its share.
    mean, covariance
        Of n skills (overall, or in a category), then the advantage of being first, the log tie
        width and the log reliability, shapes (n + 3,) and (n + 3, n + 3). What there is not, or
        what is known, has zeros in the covariance.
    with_ties
        Whether a tie is possible.
    """

    weight: float
    mean: Array
    covariance: Array
    with_ties: bool

    def chances(self, pairs: NDArray[np.int64], position: float) -> tuple[Array, Array]:
        """Probabilities that the first item of each pair wins and loses, both of shape (P,).

        Given the log tie width and the log reliability the margin is normal; these two are
        integrated over by Gauss-Hermite quadrature.
        """
        n = len(self.mean) - 3
        first, second = pairs.T
        cov = self.covariance
        # Of the difference of skills, the advantage, the log width and the log reliability.
        own = np.diagonal(cov)
        variance = own[first] + own[second] - 2.0 * cov[first, second]
        others = cov[first, n:] - cov[second, n:]
        difference = self.mean[first] - self.mean[second]
        advantage, log_width, log_reliability = self.mean[n:]
        root = _root(cov[n + 1 :, n + 1 :])
        with_difference = _whitened(root, others[:, 1:].T)  # (2, P), with two standard normals
        with_advantage = _whitened(root, cov[n + 1 :, n])
        left = np.maximum(variance - (with_difference**2).sum(0), 0.0)
        left_both = others[:, 0] - with_advantage @ with_difference
        left_advantage = max(cov[n, n] - with_advantage @ with_advantage, 0.0)
        win, loss = np.zeros(len(pairs)), np.zeros(len(pairs))
        for weight, t in _grid(root):
            width = np.exp(log_width + root[0] @ t) if self.with_ties else 0.0
            r = np.exp(log_reliability + root[1] @ t)
            mean = r * (difference + t @ with_difference)
            mean += position * (advantage + t @ with_advantage)
            spread = r**2 * left + 2.0 * r * position * left_both + position**2 * left_advantage
            scale = np.sqrt(2.0 + np.maximum(spread, 0.0))
            win += weight * ndtr((mean - width) / scale)
            loss += weight * ndtr((-mean - width) / scale)
        return win, loss


def _root(covariance: Array) -> Array:
    """Lower triangular root of a 2 x 2 covariance, of which either variance may be zero."""
    (a, b), (_, c) = covariance
    root = np.zeros((2, 2))
    root[0, 0] = np.sqrt(a)
    root[1, 0] = b / root[0, 0] if a > 0.0 else 0.0
    root[1, 1] = np.sqrt(max(c - root[1, 0] ** 2, 0.0))
    return root


def _whitened(root: Array, cross: Array) -> Array:
    """Covariances with the standard normals whose product with the root is what they stand for."""
    found = np.zeros_like(cross)
    if root[0, 0] > 0.0:
        found[0] = cross[0] / root[0, 0]
    if root[1, 1] > 0.0:
        found[1] = (cross[1] - root[1, 0] * found[0]) / root[1, 1]
    return found


def _grid(root: Array) -> Iterator[tuple[float, Array]]:
    """Weights and values of the two standard normals; of one without effect, only zero."""
    axes = [
        list(zip(_WEIGHTS, _NODES, strict=True)) if side > 0.0 else [(1.0, 0.0)]
        for side in np.diagonal(root)
    ]
    for first_weight, first in axes[0]:
        for second_weight, second in axes[1]:
            yield first_weight * second_weight, np.array([first, second])


class Judges(NamedTuple):
    """Moments of what is each judge's own, shape (J,); biases are empty without positions."""

    log_reliability: Array
    log_reliability_variance: Array
    bias: Array
    bias_variance: Array


class ArenaPosterior(Protocol):
    """What `ArenaRanker` asks of a posterior."""

    @property
    def result(self) -> Any:
        """What the engine or the solver returned."""
        ...

    @property
    def scales(self) -> dict[str, Any]:
        """Scales of the priors and the tie width; their means where they were averaged over."""
        ...

    @property
    def with_position(self) -> bool:
        """Whether what being first is worth was learned."""
        ...

    @property
    def with_ties(self) -> bool:
        """Whether a tie is possible."""
        ...

    @property
    def judges(self) -> Judges:
        """What is each judge's own."""
        ...

    def parts(self, group: int | None = None, judge: int | None = None) -> list[Part]:
        """The Gaussians of skills, overall or in a category, before a judge or the typical one."""
        ...

    def samples(self, group: int | None, number: int, random: np.random.RandomState) -> Array:
        """Draws of skills, shape (number, n)."""
        ...

    def to_arviz(self, coords: Mapping[str, list[str]], random: np.random.RandomState) -> Any:
        """The posterior for ArviZ; labels of ``item``, ``judge`` and ``group``."""
        ...


@dataclass(frozen=True)
class Learned:
    """One Gaussian, at scales that were learned or fixed, by `fit_arena`.

    Attributes
    ----------
    result
        What `fit_arena` returned.
    num_samples
        Number of draws for ArviZ.
    """

    result: ArenaFit
    num_samples: int

    @property
    def scales(self) -> dict[str, Any]:
        """Values of the scales and the tie width."""
        return {name: np.asarray(value) for name, value in self.result.scales.items()}

    @property
    def with_position(self) -> bool:
        """As the fit has it."""
        return self.result.with_position

    @property
    def with_ties(self) -> bool:
        """As the fit has it."""
        return self.result.with_ties

    @property
    def judges(self) -> Judges:
        """As the fit has them."""
        fit = self.result
        spread = fit.log_reliability_variance
        return Judges(fit.log_reliability, spread, fit.bias, fit.bias_variance)

    def parts(self, group: int | None = None, judge: int | None = None) -> list[Part]:
        """The Gaussian, with a judge's bias and reliability if one is named."""
        fit = self.result
        n = fit.num_items
        mean, covariance = np.zeros(n + 3), np.zeros((n + 3, n + 3))
        effects = [n] * fit.with_position + [n + 1] * fit.with_ties
        at = np.array([*range(n), *effects])
        mean[at], covariance[np.ix_(at, at)] = fit.mean, fit.covariance
        if group is not None:
            if fit.group_skills is None or fit.group_covariance is None:
                raise ValueError("the log had fewer than two categories; leave group out")
            mean[:n] = fit.group_skills[group]
            covariance[np.ix_(at, at)] = fit.group_covariance[group]
        if judge is not None:
            self._add_judge(mean, covariance, at, judge, 0 if group is None else 1 + group)
        return [Part(1.0, mean, covariance, fit.with_ties)]

    def _add_judge(
        self, mean: Array, covariance: Array, at: NDArray[np.intp], judge: int, row: int
    ) -> None:
        """Put the judge's own bias into the advantage, and its reliability behind all."""
        fit, n = self.result, self.result.num_items
        own = [n] * (len(fit.bias) > 0) + [n + 2]
        if fit.judge_covariance is not None:
            for latent, cross in zip(own, fit.judge_covariance[row, :, :, judge], strict=True):
                covariance[latent, at] += cross
                covariance[at, latent] += cross
        mean[n + 2] = fit.log_reliability[judge]
        covariance[n + 2, n + 2] = fit.log_reliability_variance[judge]
        if len(fit.bias):
            mean[n] += fit.bias[judge]
            covariance[n, n] += fit.bias_variance[judge]
            # That of the bias alone; with the effect of the position it is there already.
            covariance[n, n + 2] += fit.bias_reliability[judge]
            covariance[n + 2, n] += fit.bias_reliability[judge]

    def samples(self, group: int | None, number: int, random: np.random.RandomState) -> Array:
        """Draws of the Gaussian."""
        [part] = self.parts(group)
        n = self.result.num_items
        return _draws(part.mean[:n], part.covariance[:n, :n], number, random)

    def to_arviz(self, coords: Mapping[str, list[str]], random: np.random.RandomState) -> Any:
        """Draws of overall skills and effects; of judges and scales, what was estimated."""
        fit, n = self.result, self.result.num_items
        known = np.diagonal(fit.covariance) == 0.0
        covariance = fit.covariance[np.ix_(~known, ~known)]
        draws = np.tile(fit.mean, (self.num_samples, 1))
        draws[:, ~known] = _draws(fit.mean[~known], covariance, self.num_samples, random)
        named: dict[str, Any] = {"f": (("item",), draws[:, :n])}
        if fit.with_position:
            named["position_effect"] = ((), draws[:, n])
        if fit.with_ties:
            named["tie_width"] = ((), np.exp(draws[:, -1]))
        judged: dict[str, Any] = {"reliability": np.exp(fit.log_reliability), "bias": fit.bias}
        constant: dict[str, Any] = {k: (("judge",), v) for k, v in judged.items() if len(v)}
        constant |= {k: ((), v) for k, v in self.scales.items() if k != "tie_width"}
        return arena_to_arviz(draws=named, constant=constant, coords=coords)


def _draws(mean: Array, covariance: Array, number: int, random: np.random.RandomState) -> Array:
    normal = random.standard_normal((number, len(mean)))
    return mean + normal @ np.linalg.cholesky(covariance).T


@dataclass(frozen=True)
class Averaged:
    """A mixture over scales and tie width, of a log without judges.

    Attributes
    ----------
    result
        What `IntegratedEP` returned of `bayesrank.models.judged_comparisons`.
    """

    result: IntegratedEPResult

    @property
    def scales(self) -> dict[str, Any]:
        """Posterior means."""
        return {name: self.result.mean[name] for name in self.result.hyperparameters}

    @property
    def with_position(self) -> bool:
        """Whether the program has the site."""
        return "position_effect" in self.result.shapes

    @property
    def with_ties(self) -> bool:
        """Whether the program has the site."""
        return "tie_width" in self.result.hyperparameters

    @property
    def judges(self) -> Judges:
        """None."""
        none = np.zeros(0)
        return Judges(none, none, none, none)

    def parts(self, group: int | None = None, judge: int | None = None) -> list[Part]:
        """The Gaussians at the values of the scales."""
        if judge is not None:
            raise ValueError("the log had no judges; leave judge out")
        chosen, n = self._chosen(group), self.result.shapes["f"][0]
        parts = []
        for weight, params, moments in self.result.components():
            mean = chosen @ moments.joint_mean
            covariance = chosen @ (chosen @ moments.joint_covariance).T
            if self.with_ties:
                mean[n + 1] = np.log(params["tie_width"])
            parts.append(Part(weight, mean, covariance, self.with_ties))
        return parts

    def _chosen(self, group: int | None) -> sparse.csr_array:
        """The matrix that makes skills and effects of all latents, shape (n + 3, N)."""
        start, at = 0, {}
        for name, shape in self.result.shapes.items():
            at[name] = np.arange(start, start + int(np.prod(shape, dtype=int))).reshape(shape)
            start += at[name].size
        n = len(at["f"])
        rows, columns = [np.arange(n)], [at["f"]]
        if group is not None:
            rows, columns = [*rows, np.arange(n)], [*columns, at["group_skill"][group]]
        if self.with_position:
            rows, columns = [*rows, np.array([n])], [*columns, at["position_effect"].reshape(1)]
        places = np.concatenate(rows), np.concatenate(columns)
        return sparse.csr_array((np.ones(len(places[0])), places), shape=(n + 3, start))

    def samples(self, group: int | None, number: int, random: np.random.RandomState) -> Array:
        """Draws that the result keeps, copied."""
        draws = self.result.get_samples()
        return draws["f"].copy() if group is None else draws["f"] + draws["group_skill"][:, group]

    def to_arviz(self, coords: Mapping[str, list[str]], random: np.random.RandomState) -> Any:
        """Draws of all latents and scales."""
        count = len(self.result.model_args[1])
        dims = {"f": ["item"], "group_skill": ["group", "item"]}
        return to_arviz(
            self.result,
            coords={name: labels for name, labels in coords.items() if labels},
            dims={name: axes for name, axes in dims.items() if name in self.result.shapes},
            num_predictive=0,
            log_likelihood=self.result.num_samples * count <= _LONGEST_LIKELIHOOD,
        )
