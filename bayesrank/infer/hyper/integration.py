r"""Hyperparameters integrated over at the price of a few dozen runs of EP.

Given the hyperparameters :math:`\theta`, EP finds the posterior of the latents and the evidence
:math:`Z(\theta)`. The posterior of :math:`\theta` is :math:`p(\theta) Z(\theta)` up to a constant,
and that of the latents the mixture of EP's posteriors over it. A handful of hyperparameters needs
no walk (`NestedEP`). As in INLA (Rue et al., 2009) and GPstuff (Vanhatalo et al., 2013), the mode
and the curvature there place the points of the mixture. A design of points along the axes shows how
the density leans on each side.

INLA and GPstuff then trust the weights of a central composite design. Here quasi-random points from
a density of that shape get importance weights, which show how good they are. If they are poor, the
density is fitted anew to the weighted points, and more are added (adaptive multiple importance
sampling, Cornuet et al., 2012).

References
----------
Rue, H., Martino, S. and Chopin, N. (2009). Approximate Bayesian inference for latent Gaussian
models by using integrated nested Laplace approximations. Journal of the Royal Statistical Society
B, 71, 319-392. Vanhatalo, J., Riihimaki, J., Hartikainen, J., Jylanki, P., Tolvanen, V. and
Vehtari, A. (2013). GPstuff: Bayesian modeling with Gaussian processes. Journal of Machine Learning
Research, 14, 1175-1179. Cornuet, J.-M., Marin, J.-M., Mira, A. and Robert, C. P. (2012). Adaptive
multiple importance sampling. Scandinavian Journal of Statistics, 39, 798-812.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax import Array
from threadpoolctl import threadpool_limits

from bayesrank._memory import check_memory
from bayesrank._sizes import next_size
from bayesrank._stack import outside
from bayesrank._validate import check_count
from bayesrank.infer.ep import EP
from bayesrank.infer.hyper.hyperparameters import (
    ConditionalPosterior,
    engine_from,
    not_integrated,
)
from bayesrank.infer.hyper.mixture import IntegratedEPResult
from bayesrank.infer.hyper.points import Proposal, Weighted, weigh, whitening_root
from bayesrank.infer.hyper.search import Search, SearchEnd, check_settings
from bayesrank.infer.posterior import DensePosterior
from bayesrank.infer.reader.refusals import Refusal
from bayesrank.infer.result import GaussianMoments
from bayesrank.infer.running import ConvergenceWarning, check_run
from bayesrank.infer.seeds import generator

# Number of points of a round, and of one where EP is dear, of more latents or sites than these.
_POINTS, _FEW = 64, 32
_DEAR = {"latents": 200, "sites": 10_000}
# The spread of the points is so wide that about half of them count if the density is as it was
# fitted: long tails, as scales have, show in standard deviations only if points reach them.
_COUNTING = 0.5
# Share of a round that has to count, and the largest Pareto tail of the weights.
_ENOUGH = 0.35
_LARGEST_K = 0.7
_MOST_ROUNDS = 4
# The evidence is stationary in EP's sites, and means move by less than the last sweep moved them.
_POINTS_TOL = 1e-2
# Distance of the points of the design from the mode, in standard deviations.
_APART = 1.3
# A half of an axis may be so many times narrower or wider than the curvature says.
_LEANING = 3.0
# Of the scrambled numbers behind the points.
_SPREAD = 0
# Points that together weigh less than this are left out of the mixture.
_NOTHING = 1e-4


class IntegratedEP:
    """EP with a program's hyperparameters integrated over by a few dozen weighted points.

    Parameters
    ----------
    model
        A NumPyro program that `EP` takes, with at least one hyperparameter that is a `sample` site;
        or an `EP` engine of it, whose settings and compiled code are then used.
    **settings
        Settings of EP, see `EP`, where `model` is a program.

    Examples
    --------
    >>> import jax, numpy as np, numpyro, numpyro.distributions as dist
    >>> from bayesrank.infer import IntegratedEP
    >>> def schools(effect):
    ...     spread = numpyro.sample("spread", dist.HalfNormal(10.0))
    ...     f = numpyro.sample("f", dist.Normal(0.0, spread).expand([len(effect)]))
    ...     numpyro.sample("effect", dist.Normal(f, 12.0), obs=effect)
    >>> effect = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    >>> result = IntegratedEP(schools).run(jax.random.key(0), effect)
    >>> result.mean["spread"], result.sd["f"]
    (...)
    """

    def __init__(self, model: Callable[..., Any] | EP, **settings: Any) -> None:
        self.engine = engine_from(model, settings)

    def run(
        self,
        rng_key: Array,
        *args: Any,
        params: Mapping[str, Any] | None = None,
        init: Mapping[str, Any] | None = None,
        num_points: int | None = None,
        num_samples: int = 1000,
        num_restarts: int = 0,
        callback: Callable[[int, float], None] | None = None,
        **kwargs: Any,
    ) -> IntegratedEPResult:
        """Infer latents and hyperparameters.

        Parameters
        ----------
        rng_key
            Random key of the posterior draws and of further starts. The points are the same for
            every key, and so are the moments.
        *args, **kwargs
            Arguments of the program.
        params
            Values of sites to fix, by name. Other `param` sites have no prior to integrate over;
            they stay at their initial value.
        init, num_restarts, callback
            Start, number of further starts and call-back of the search for the mode, as for
            `maximize_evidence`.
        num_points
            Number of points of a round, rounded up to a power of two. By default 64, or 32 for up
            to four hyperparameters and over 200 latents or 10,000 sites. Up to three more rounds
            follow if the effective number is below 0.35 of a round, or the Pareto tail is 0.7 or
            above. With 64 points, means are right to about 0.05 standard deviations. Standard
            deviations are right to 5% (unconstrained), and to 15% with a long tail. With 32, errors
            are about twice that.
        num_samples
            Number of posterior draws of the result.

        Raises
        ------
        ValueError, TypeError
            If EP cannot take the program, it has no hyperparameter to integrate over, or a number
            makes no sense; if `rng_key` is not a random key, or an argument is being traced.

        Warns
        -----
        ConvergenceWarning
            If EP did not converge at points that count, or the weights cannot be relied on.
        """
        params = dict(params or {})
        check_settings(num_restarts)
        check_count(num_samples, "num_samples")
        if num_points is not None:
            check_count(num_points, "num_points", 8)
        check_run(rng_key, num_samples, (params, args, kwargs))
        seed = int(generator(rng_key).integers(2**31))
        precise = self.engine.precision == "float64"
        with jax.enable_x64(precise), threadpool_limits(1, user_api="blas"):
            program = self.engine.trace(args, kwargs, params)
            fixed = not_integrated(self.engine, program, params)
            called, start = (args, kwargs), dict(init or {})
            search = Search(self.engine, program, called, fixed, start, callback, jacobian=True)
            best, *others = search.modes(search.ends(num_restarts, rng_key))
            for name in search.free.names:
                if name in search.result.conditioned_sites:
                    raise Refusal("not_integrated", name).error()
            survey = _Survey(search, best, others)
            weighted, components = survey.integrate(num_points)
            result = self._result(survey, weighted, components, seed, num_samples)
        if not result.converged:
            warnings.warn(_complaint(result), ConvergenceWarning, stacklevel=outside())
        return result

    def _result(
        self,
        survey: _Survey,
        weighted: Weighted,
        components: list[ConditionalPosterior],
        seed: int,
        num_samples: int,
    ) -> IntegratedEPResult:
        kept = _that_count(weighted.weights)
        weights = weighted.weights[kept] / weighted.weights[kept].sum()
        start, free = survey.search.result, survey.free
        found = [components[k].solution for k in kept]
        points = {k: np.stack([x.hyperparameters[k] for x in found]) for k in free.names}
        means = np.stack([np.asarray(x.mean, float) for x in found])
        covariances = np.stack([np.asarray(x.covariance, float) for x in found])
        unconverged = sum(not components[k].converged for k in kept)
        moments = _moments_of(weights, means, covariances, start.shapes)
        heights = [components[k].evaluation for k in kept]
        return IntegratedEPResult.with_draws(
            num_samples,
            seed=seed,
            heights=np.array([float(x.log_evidence + x.log_prior) for x in heights]),
            support=found[0].support,
            shapes=moments.shapes,
            joint_mean=moments.joint_mean,
            posterior=moments.posterior,
            model=start.model,
            model_args=start.model_args,
            model_kwargs=start.model_kwargs,
            params=free.fixed,
            log_evidence=weighted.log_mean,
            log_evidence_error=weighted.error,
            pareto_k=weighted.pareto_k,
            converged=survey.enough(weighted) and not unconverged,
            num_unconverged=unconverged,
            marginalized_sites=start.marginalized_sites,
            effective_points=weighted.effective,
            mode=survey.named,
            weights=weights,
            points=points,
            component_means=means,
            component_covariances=covariances,
            num_evaluations=survey.count,
            other_modes=survey.shares(weighted),
        )


class _Survey:
    """The density of the hyperparameters around its mode, and EP's posteriors there."""

    def __init__(self, search: Search, mode: SearchEnd, others: Sequence[SearchEnd] = ()) -> None:
        self.search, self.top, self.mode = search, mode.evaluation, mode.outcome.x
        self.free = search.free.with_limits(tol=max(search.free.limits.tol, _POINTS_TOL))
        self.size = self.mode.size
        self.count = search.count + self.size
        self.round = 0
        self.root = whitening_root(self._gradient, self.mode, mode.gradient)
        self.solved = [(np.zeros(self.size), self.top.sites)]
        self.others = [_Survey(search, other) for other in others]

    def _gradient(self, flat: np.ndarray) -> np.ndarray:
        return self.search.free.evaluate_with_gradient(flat, self.top.sites, jacobian=True)[1]

    def _solve(self, flat: np.ndarray) -> ConditionalPosterior:
        # EP starts from the sites of the nearest point that was solved.
        white = np.linalg.solve(self.root, flat - self.mode)
        start = min(self.solved, key=lambda known: float(np.sum((known[0] - white) ** 2)))[1]
        component = self.free.component(flat, start)
        self.count += 1
        if component.evaluation.usable:
            self.solved.append((white, component.evaluation.sites))
        return component

    def proposal(self) -> Proposal:
        """A density that leans as its heights either way along each axis say."""

        def scale(axis: np.ndarray) -> float:
            evaluation = self._solve(self.mode + self.root @ axis).evaluation
            drop = np.inf
            if evaluation.usable:
                drop = float(self.top.objective) - float(evaluation.objective)
            narrowest, widest = 1.0 / _LEANING, _LEANING
            return np.clip(_APART / np.sqrt(2.0 * max(drop, 1e-9)), narrowest, widest)

        axes = _APART * np.eye(self.size)
        below, above = (np.array([scale(axis) for axis in sign * axes]) for sign in (-1.0, 1.0))
        return Proposal(self.mode, self.root, below, above).widened(_COUNTING)

    def _is_dear(self) -> bool:
        sites = sum(tau.size for tau in self.top.sites[0])
        return self.search.result.joint_mean.size > _DEAR["latents"] or sites > _DEAR["sites"]

    def enough(self, weighted: Weighted) -> bool:
        """Whether the points that count are enough of a round."""
        too_heavy = weighted.pareto_k >= _LARGEST_K
        return weighted.effective >= _ENOUGH * self.round and not too_heavy

    def integrate(self, num_points: int | None) -> tuple[Weighted, list[ConditionalPosterior]]:
        """Weigh points, until there are enough that count."""
        proposals = [survey.proposal() for survey in (self, *self.others)]
        wanted = num_points or (_FEW if self.size <= 4 and self._is_dear() else _POINTS)
        count = self.round = next_size(wanted)
        latents = self.search.result.joint_mean.size
        check_memory(
            8.0 * count * latents**2,
            f"the covariances of {latents:,} latents at {count} values of the hyperparameters",
            "use maximize_evidence and EP, which keep one",
        )
        batches, components, heights = [], [], []
        rounds = 0
        while True:
            for proposal in proposals:
                points = proposal.points(count, _SPREAD + len(batches))
                batches.append((proposal, points))
                for component in map(self._solve, points):
                    usable = bool(component.evaluation.usable)
                    heights.append(float(component.evaluation.objective) if usable else -np.inf)
                    components.append(component)
            weighted = weigh(batches, np.array(heights))
            rounds += 1
            if self.enough(weighted) or rounds == _MOST_ROUNDS:
                return weighted, components
            proposals = [weighted.refitted(proposals[0]).widened(_COUNTING)]

    def shares(self, weighted: Weighted) -> tuple[tuple[float, dict[str, np.ndarray]], ...]:
        """What the points nearest to each other mode weigh, and its hyperparameters."""
        surveys = (self, *self.others)
        apart = [np.linalg.solve(s.root, (weighted.points - s.mode).T) for s in surveys]
        nearest = np.argmin([np.sum(part**2, axis=0) for part in apart], axis=0)
        return tuple(
            (float(weighted.weights[nearest == k].sum()), s.named)
            for k, s in enumerate(self.others, 1)
        )

    @property
    def named(self) -> dict[str, np.ndarray]:
        """Hyperparameters of the mode by name."""
        return self.free.named(self.mode)


def _moments_of(
    weights: np.ndarray,
    means: np.ndarray,
    covariances: np.ndarray,
    shapes: dict[str, tuple[int, ...]],
) -> GaussianMoments:
    """Moments of a mixture of Gaussians (K,), (K, n), (K, n, n)."""
    centre = weights @ means
    between = means - centre
    covariance = np.tensordot(weights, covariances, 1) + (between.T * weights) @ between
    return GaussianMoments(shapes=shapes, joint_mean=centre, posterior=DensePosterior(covariance))


def _that_count(weights: np.ndarray) -> np.ndarray:
    """Numbers of the points without those that together weigh next to nothing."""
    order = np.argsort(weights)
    return np.sort(order[np.cumsum(weights[order]) > _NOTHING])


def _complaint(result: IntegratedEPResult) -> str:
    if result.num_unconverged:
        return (
            f"EP did not converge at {result.num_unconverged} of {result.weights.size} values of "
            "the hyperparameters that count. Try power=0.5 or more max_sweeps"
        )
    seen = not math.isnan(result.pareto_k)
    tail = f", with a Pareto tail of {result.pareto_k:.2f} (reliable below 0.7)" if seen else ""
    return (
        "the posterior of the hyperparameters rests on few points: an effective number of "
        f"{result.effective_points:.0f}{tail}. Fix hyperparameters that the data "
        "leave open, or use NestedEP"
    )
