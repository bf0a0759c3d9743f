"""What integration over hyperparameters returns: a mixture of Gaussian posteriors, with draws."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from bayesrank._memory import check_memory
from bayesrank._validate import check_count
from bayesrank.infer.margins import bounded_draws
from bayesrank.infer.posterior import DensePosterior
from bayesrank.infer.result import GaussianMoments, MixtureComponent, warn_unless_good
from bayesrank.infer.summary import SiteRow, draws_as_text, rounded, rows_as_text, shape_in_words
from bayesrank.infer.whitening.accuracy import ImportanceCheck, importance_check_of_draws

_DRAWN = ("hyperparameters", "draws", "log_proposals")  # what follows from a seed


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class MixtureResult(GaussianMoments):
    """The posterior of latents and hyperparameters; `bayesrank.to_arviz` takes it.

    Attributes
    ----------
    model, model_args, model_kwargs
        The program and its arguments.
    params
        Values of the hyperparameters that were fixed: those given, and `param` sites.
    shapes, joint_mean, posterior
        Of the latents, as in `EPResult`: here the moments of the mixture.
    log_evidence, log_evidence_error
        Log of the integral of the program's density over latents and hyperparameters, in nats, by
        importance sampling of the hyperparameters; and its standard error.
    pareto_k
        Tail shape of the importance weights; above 0.7 the evidence cannot be relied on. NaN with
        fewer than 25 points, which show no tail.
    converged, num_unconverged
        Whether the posterior can be relied on, by the engine's own criterion; and the number of
        values of the hyperparameters at which EP did not converge.
    marginalized_sites
        Latents of groups that are not kept, as in `EPResult`.
    hyperparameters, draws
        Draws of the hyperparameters, and one draw of the latents for each of these, by site; shapes
        (chains, draws) + their own.
    log_proposals
        Log of the density that each draw came from: EP's of the latents given the hyperparameters,
        times EP's evidence and the prior of these; up to a constant, shape (chains, draws).
    points, weights
        Values of the hyperparameters at the K points, shapes (K,) + their own; and their weights,
        shape (K,), adding up to one. Of a walk, some of its draws.
    component_means, component_covariances
        EP's posterior of all latents there, shapes (K, n) and (K, n, n).
    """

    model: Callable[..., Any]
    model_args: tuple
    model_kwargs: dict[str, Any]
    params: dict[str, np.ndarray]
    log_evidence: float
    log_evidence_error: float
    pareto_k: float
    converged: bool
    num_unconverged: int
    marginalized_sites: tuple[str, ...] = ()
    hyperparameters: dict[str, np.ndarray]
    draws: dict[str, np.ndarray]
    log_proposals: np.ndarray
    weights: np.ndarray
    points: dict[str, np.ndarray]
    component_means: np.ndarray
    component_covariances: np.ndarray
    _chains: ClassVar[bool] = False  # whether draws are those of Markov chains

    def __repr__(self) -> str:
        """Show what became of each site, twenty at most."""
        rows = [SiteRow(k, "inferred", shape_in_words(shape)) for k, shape in self.shapes.items()]
        for name, (mean, sd) in self.hyperparameter_moments.items():
            moments = f"mean {rounded(mean)}, standard deviation {rounded(sd)}"
            rows.append(SiteRow(name, "integrated over", moments))
        rows += [SiteRow(name, "fixed", f"at {rounded(x)}") for name, x in self.params.items()]
        ended = "converged" if self.converged else "not converged"
        title = f"{type(self).__name__}: {ended}, log evidence {self.log_evidence:.4g}"
        return "\n".join([title, *rows_as_text(rows)])

    @property
    def num_samples(self) -> int:
        """Number of draws, of all chains together."""
        chains, draws = next(iter(self.hyperparameters.values())).shape[:2]
        return chains * draws

    @property
    def _error_of_points(self) -> float:
        return 0.0

    @property
    def weighted_points(self) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Values of the hyperparameters, shapes (K,) + their own, and their weights (K,)."""
        count = self.num_samples
        points = {k: v.reshape(count, *v.shape[2:]) for k, v in self.hyperparameters.items()}
        return points, np.full(count, 1.0 / count)

    def components(self) -> Iterator[MixtureComponent]:
        """The Gaussians that the posterior is a mixture of."""
        for number, weight in enumerate(self.weights):
            at = {name: values[number] for name, values in self.points.items()}
            moments = GaussianMoments(
                shapes=self.shapes,
                joint_mean=self.component_means[number],
                posterior=DensePosterior(self.component_covariances[number]),
            )
            yield MixtureComponent(float(weight), {**self.params, **at}, moments)

    @cached_property
    def hyperparameter_moments(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Posterior mean and standard deviation of each hyperparameter."""
        points, weights = self.weighted_points
        moments = {}
        for name, values in points.items():
            mean = np.tensordot(weights, values, 1)
            moments[name] = mean, np.sqrt(np.tensordot(weights, (values - mean) ** 2, 1))
        return moments

    @cached_property
    def mean(self) -> dict[str, np.ndarray]:
        """Posterior mean of each latent site and hyperparameter, in its own shape."""
        means = {k: mean for k, (mean, _) in self.hyperparameter_moments.items()}
        return {**GaussianMoments.mean.func(self), **means}

    @cached_property
    def sd(self) -> dict[str, np.ndarray]:
        """Posterior standard deviation of each latent site and hyperparameter."""
        own = {k: sd for k, (_, sd) in self.hyperparameter_moments.items()}
        return {**GaussianMoments.sd.func(self), **own}

    def get_samples(self, group_by_chain: bool = False) -> dict[str, np.ndarray]:
        """Draws of latents and hyperparameters together; the same ones at every call.

        For each site, fixed ones included, draws have the shape (num_samples,) + its own.

        Parameters
        ----------
        group_by_chain
            Whether to have two axes in front instead, (chains, draws).
        """
        samples = {**self.draws, **self.hyperparameters}
        chains, draws = next(iter(samples.values())).shape[:2]
        for name, value in self.params.items():
            samples[name] = np.broadcast_to(value, (chains, draws, *np.shape(value)))
        if group_by_chain:
            return samples
        return {k: v.reshape(chains * draws, *v.shape[2:]) for k, v in samples.items()}

    @cached_property
    def accuracy(self) -> ImportanceCheck:
        """How far the posterior can be trusted, by importance sampling.

        The program's own density of latents and hyperparameters together weighs the draws, when
        first asked for. This supposes that hyperparameters are drawn as EP's evidence says:
        `converged` shows whether they are. Errors and warnings are those of `EPResult.accuracy`.
        """
        samples = {**self.draws, **self.hyperparameters}
        flat = {k: v.reshape(-1, *v.shape[2:]) for k, v in samples.items()}
        called = self.model, self.model_args, self.model_kwargs
        return warn_unless_good(
            self.marginalized_sites,
            lambda: replace(
                importance_check_of_draws(
                    *called, flat, self.params, self.log_proposals.reshape(-1)
                ),
                of_points=self._error_of_points,
            ),
        )

    def print_summary(self, level: float = 0.9) -> None:
        """Print a table of hyperparameters and latents, and `accuracy` if it has been asked for.

        Parameters
        ----------
        level
            Probability of the interval shown, the narrowest that has it.
        """
        draws = {**self.hyperparameters, **self.draws}
        sys.stdout.write(draws_as_text(draws, level, chains=self._chains))
        if not self.converged:
            sys.stdout.write(
                "It has not converged: the table describes the draws that there are.\n"
            )
        accuracy = (
            str(self.accuracy)
            if "accuracy" in self.__dict__
            else "not checked; see result.accuracy"
        )
        sys.stdout.write(f"How far to trust it: {accuracy}\n")


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class IntegratedEPResult(MixtureResult):
    """A `MixtureResult` at weighted hyperparameters; `bayesrank.to_arviz` takes it.

    Moments are those of the weighted points; each draw belongs to one of the points.

    Attributes
    ----------
    converged
        Whether EP converged at all points that count, and the weights are reliable: their Pareto
        tail is below 0.7, and `errors` are at most twice what was wanted.
    effective_points
        Effective number of points, ``1 / sum w^2``.
    errors
        Monte Carlo error of the mean of each hyperparameter, in posterior standard deviations. The
        points grow until these are below 0.05 and standard deviations right to 10%, up to 1,024.
        With over 200 latents or 10,000 data it is 0.1 and 20%, up to 128.
    mode
        Most probable hyperparameters, on their unconstrained scale.
    num_evaluations
        Number of values of the hyperparameters at which EP was run, the search included.
    other_modes
        Modes that compete with `mode`, found from `num_restarts`: the share of the weights near
        each, and its hyperparameters. They have points of their own.
    seed, heights, support
        What the draws follow from: a seed, EP's log evidence plus log prior at each point, shape
        (K,), and supports as in `EPResult`.

    Examples
    --------
    >>> import jax, numpy as np
    >>> from bayesrank.infer import EP
    >>> from bayesrank.models import thurstone
    >>> games = np.array([[0, 1], [1, 2], [0, 2]])  # (winner, loser)
    >>> result = EP(thurstone).run(jax.random.key(0), 3, games)
    >>> result.mean["f"].shape, round(float(result.weights.sum()), 6)
    ((3,), 1.0)
    """

    effective_points: float
    errors: dict[str, float] = field(default_factory=dict)
    mode: dict[str, np.ndarray]
    num_evaluations: int
    other_modes: tuple[tuple[float, dict[str, np.ndarray]], ...] = ()
    seed: int | None = None
    heights: np.ndarray | None = None
    support: tuple[Any, Any] | None = None

    @classmethod
    def with_draws(cls, num_samples: int, **known: Any) -> Self:
        """Make a result of all but its draws, which `seed`, `heights` and `support` say."""
        weights, points, shapes = (known[name] for name in ("weights", "points", "shapes"))
        components = known["component_means"], known["component_covariances"], known["support"]
        owner, draws, logs = _draw(weights, *components, num_samples, known["seed"])
        cut = GaussianMoments(
            shapes=shapes, joint_mean=known["joint_mean"], posterior=known["posterior"]
        )
        return cls(
            hyperparameters={k: v[owner][None] for k, v in points.items()},
            draws=cut.split_sites(draws[None]),
            log_proposals=(logs + known["heights"][owner])[None],
            **known,
        )

    def __getstate__(self) -> dict[str, Any]:
        # The draws follow from the seed.
        state = {each.name: getattr(self, each.name) for each in fields(self)}
        if self.seed is not None:
            state = {name: each for name, each in state.items() if name not in _DRAWN}
            state["num_samples"] = self.num_samples
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        if state.get("seed") is not None:
            count, size = check_count(state["num_samples"], "num_samples"), len(state["joint_mean"])
            check_memory(24 * count * size, f"{count:,} draws of {size:,} latents", "save fewer")
            state = vars(self.with_draws(**state))
        vars(self).update(state)

    def cut_to(
        self, shapes: Mapping[str, tuple[int, ...]], args: tuple, kwargs: dict[str, Any]
    ) -> Self:
        """The posterior of the first latents of each site, as that of the program's call for these.

        The latents beyond `shapes` have to be independent of the data and of the others.
        """
        start, kept = 0, []
        for name, shape in self.shapes.items():
            numbers = start + np.arange(math.prod(shape)).reshape(shape)
            kept.append(numbers[tuple(map(slice, shapes[name]))].ravel())
            start += numbers.size
        at = np.concatenate(kept)
        known = {each.name: getattr(self, each.name) for each in fields(self)}
        known = {name: each for name, each in known.items() if name not in _DRAWN}
        known |= {"model_args": args, "model_kwargs": kwargs, "shapes": dict(shapes)}
        known |= {"joint_mean": self.joint_mean[at]}
        known |= {"posterior": DensePosterior(self.joint_covariance[np.ix_(at, at)])}
        known |= {"component_means": self.component_means[:, at]}
        known |= {"component_covariances": self.component_covariances[:, at[:, None], at]}
        if self.support is not None:
            known["support"] = tuple(end[at] for end in self.support)
        return self.with_draws(self.num_samples, **known)

    def __repr__(self) -> str:
        """Show what became of each site, and which modes compete."""
        return "\n".join([super().__repr__(), *self._competing()])

    def print_summary(self, level: float = 0.9) -> None:
        """Print the table of `MixtureResult.print_summary`, and which modes compete."""
        super().print_summary(level)
        sys.stdout.writelines(f"{line}\n" for line in self._competing())

    def _competing(self) -> Iterator[str]:
        for share, values in self.other_modes:
            at = ", ".join(f"{name} {rounded(value)}" for name, value in values.items())
            yield f"another mode has {share:.0%} of the weight: {at}"

    @property
    def _error_of_points(self) -> float:
        return max(self.errors.values(), default=0.0)

    @property
    def num_points(self) -> int:
        """Number of points that count."""
        return self.weights.size

    @property
    def weighted_points(self) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Values of the hyperparameters, shapes (K,) + their own, and their weights (K,)."""
        return self.points, self.weights


def _draw(
    weights: np.ndarray,
    means: np.ndarray,
    covariances: np.ndarray,
    support: tuple[Any, Any] | None,
    count: int,
    seed: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Owners (count,), draws (count, n), and log densities in the owner, up to a constant."""
    rng = np.random.default_rng(seed)
    # Systematic: each component has its share of the draws to within one.
    levels = (np.arange(count) + rng.random()) / count
    owner = np.minimum(np.searchsorted(np.cumsum(weights), levels), weights.size - 1)
    draws, logs = rng.standard_normal((count, means.shape[1])), np.zeros(count)
    for number in np.unique(owner):
        mine = owner == number
        moments = means[number], covariances[number]
        draws[mine], logs[mine] = bounded_draws(*moments, draws[mine], support)
    order = rng.permutation(count)
    return owner[order], draws[order], logs[order]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class NestedEPResult(MixtureResult):
    """A `MixtureResult` by NUTS over the hyperparameters; `bayesrank.to_arviz` takes it.

    Attributes
    ----------
    converged
        Whether EP converged at every draw, no trajectory diverged, and R-hat (where there are
        several chains) is below 1.05 for every hyperparameter.
    num_divergent
        Number of draws that ended a divergent trajectory.

    Examples
    --------
    >>> import jax, numpy as np
    >>> from bayesrank.infer import EP
    >>> from bayesrank.models import thurstone
    >>> games = np.array([[0, 1], [1, 2], [0, 2]])  # (winner, loser)
    >>> engine = EP(thurstone, hyperparameters="nuts")
    >>> result = engine.run(jax.random.key(0), 3, games, num_samples=200)
    >>> result.mean["f"].shape
    (3,)
    """

    num_divergent: int
    _chains: ClassVar[bool] = True
