r"""Hyperparameters integrated over at the price of a few dozen runs of EP.

Given the hyperparameters :math:`\theta`, EP finds the posterior of the latents and the evidence
:math:`Z(\theta)`. The posterior of :math:`\theta` is :math:`p(\theta) Z(\theta)` up to a constant,
and that of the latents the mixture of EP's posteriors over it. A handful of hyperparameters needs
no walk by NUTS. As in INLA (Rue et al., 2009) and GPstuff (Vanhatalo et al., 2013), the mode
and the curvature there place the points of the mixture. A design of points along the axes shows how
the density leans on each side.

INLA and GPstuff then trust the weights of a central composite design. Here quasi-random points from
a density of that shape get importance weights. Means over blocks of one net of points show its
error, and the net doubles until that is small. If the weights are uneven, the density is fitted
anew to the weighted points (adaptive multiple importance sampling, Cornuet et al., 2012).

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

import warnings
from collections.abc import Callable, Sequence

import numpy as np

from bayesrank._memory import check_memory
from bayesrank._sizes import next_size
from bayesrank._stack import outside
from bayesrank.infer.engine import Engine
from bayesrank.infer.hyper.hyperparameters import ConditionalPosterior, averaged, kept_sites
from bayesrank.infer.hyper.maximum import Search, SearchEnd
from bayesrank.infer.hyper.points import Proposal, Weighted, weigh, whitening_root
from bayesrank.infer.mixture import MOST_BYTES, PosteriorMixture
from bayesrank.infer.result import EPResult
from bayesrank.infer.running import Call, ConvergenceWarning

# Number of points of the first net, also where a run of EP is dear.
_POINTS, _FEW = 64, 32
# The most points, also where a run is dear.
_MOST, _MOST_DEAR = 1024, 128
# The spread of the points is so wide that this share of them counts if the density is as it was
# fitted: long tails, as scales have, show in standard deviations only if points reach them.
_COUNTING, _COUNTING_AGAIN = 0.5, 0.6
# Monte Carlo errors that are small enough: of means, in standard deviations, and of these. Where a
# run of EP is dear, twice that; with more than that the average cannot be relied on.
_MEAN_ERROR, _SD_ERROR = 0.05, 0.1
# The weights' largest Pareto tail; and the largest with which a refitted density gains nothing.
_LARGEST_K, _GOOD_K = 0.7, 0.15
# The evidence is stationary in EP's sites, and means move by less than the last sweep moved them.
_POINTS_TOL = 1e-2
# Distance of the points of the design from the mode, in standard deviations.
_APART = 1.3
# A half of an axis may be so many times narrower or wider than the curvature says.
_LEANING = 3.0
# Points that together weigh less than this are left out of the mixture.
_NOTHING = 1e-4


def integrate(engine: Engine, call: Call) -> EPResult | None:
    """Average over all free hyperparameters by weighted points; None if a walk does it better.

    The points are the same for every key, and so are the moments.
    """
    search = Search(engine, call, jacobian=True)
    if set(search.free.names) & set(search.result.conditioned_sites):
        return None  # their prior depends on latents: the posterior may have several modes
    best, *others = search.modes(search.ends())
    survey = _Survey(search, best, others)
    survey.integrate()
    if not (survey.enough(2.0) or search.is_dear):
        return None  # bent, or of many directions
    result = _result(survey, call)
    if complaint := _complaint(result):
        warnings.warn(complaint, ConvergenceWarning, stacklevel=outside())
    return result


def _result(survey: _Survey, call: Call) -> EPResult:
    weighted, components = survey.weighted, survey.components
    kept = _that_count(weighted.weights)
    found = [components[k].solution for k in kept]
    heights = [components[k].evaluation for k in kept]
    mixture = PosteriorMixture(
        weights=weighted.weights[kept] / weighted.weights[kept].sum(),
        points={k: np.stack([x.hyperparameters[k] for x in found]) for k in survey.free.names},
        means=np.stack([np.asarray(x.mean, float) for x in found]),
        covariances=np.stack([np.asarray(x.covariance, float) for x in found]),
        heights=np.array([float(x.log_evidence + x.log_prior) for x in heights]),
        sites=kept_sites(survey.search.result, heights),
    )
    unconverged = sum(not components[k].converged for k in kept)
    return averaged(
        survey.search.result,
        survey.free,
        mixture,
        mixture.moments(survey.search.result.shapes),
        num_samples=call.num_samples,
        rng_key=call.rng_key,
        support=found[0].support,
        log_evidence=weighted.log_mean,
        log_evidence_error=weighted.error,
        pareto_k=weighted.pareto_k,
        converged=survey.enough(2.0) and not unconverged,
        num_unconverged=unconverged,
        effective_points=weighted.effective,
        errors=survey.named_errors(),
        mode=survey.named,
        num_evaluations=survey.count,
        other_modes=tuple(each.named for each in survey.others),
        mode_shares=survey.shares(weighted),
    )


class _Net:
    """Points of one density, and EP's posteriors there."""

    def __init__(self, proposal: Proposal, seed: int) -> None:
        self.proposal, self._seed = proposal, seed
        self.components: list[ConditionalPosterior] = []

    @property
    def size(self) -> int:
        return len(self.components)

    @property
    def points(self) -> np.ndarray:
        return self.proposal.points(self.size, self._seed)

    @property
    def heights(self) -> list[float]:
        """Log densities, minus infinity where EP does not converge."""
        found = (each.evaluation for each in self.components)
        return [float(x.objective) if x.usable else -np.inf for x in found]

    def grow(self, count: int, solve: Callable[[np.ndarray], ConditionalPosterior]) -> None:
        """Have so many points, a power of two; those that it has are the first of these."""
        new = self.proposal.points(count, self._seed)[self.size :]
        self.components += map(solve, new)


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

    def enough(self, factor: float = 1.0) -> bool:
        """Whether errors are below a factor times what is wanted, and the weights even."""
        means, sds = self.errors
        wide = factor * (2.0 if self.search.is_dear else 1.0)
        small = np.all(means < wide * _MEAN_ERROR) and np.all(sds < wide * _SD_ERROR)
        return bool(small and self.weighted.pareto_k < _LARGEST_K)

    def integrate(self) -> None:
        """Weigh points, more until their errors are small or there are too many."""
        nets = [_Net(each.proposal(), k) for k, each in enumerate((self, *self.others))]
        latents, dear = self.search.result.joint_mean.size, self.search.is_dear
        count, most = (_FEW, _MOST_DEAR) if dear else (_POINTS, _MOST)
        check_memory(
            8.0 * count * latents**2,
            f"the covariances of {latents:,} latents at {count} values of the hyperparameters",
            "use EP(hyperparameters='map'), which keeps one",
        )
        most = max(count, min(most, int(MOST_BYTES / (8.0 * latents**2))))
        growing = nets
        while True:
            for net in growing:
                net.grow(max(count, 2 * net.size), self._solve)
            heights = np.array([each for net in nets for each in net.heights])
            if not np.isfinite(heights).any():
                raise ValueError(
                    f"EP converges at none of {heights.size} values of the hyperparameters around "
                    "the most probable ones; try power=0.5 or more max_sweeps, or use NUTS"
                )
            self.weighted = weigh([(net.proposal, net.points) for net in nets], heights)
            self.errors = self.weighted.errors([net.size for net in nets])
            self.components = [each for net in nets for each in net.components]
            if self.enough() or 2 * heights.size > most:
                return
            if self.weighted.pareto_k > _GOOD_K:
                fitted = self.weighted.refitted(nets[-1].proposal).widened(_COUNTING_AGAIN)
                growing, count = [_Net(fitted, len(nets))], next_size(heights.size)
                nets = [*nets, *growing]

    def named_errors(self) -> dict[str, float]:
        """Largest Monte Carlo error of the mean of each hyperparameter, in standard deviations."""
        each = self.free.parts(self.errors[0])
        return {name: float(np.max(values)) for name, values in each.items()}

    def shares(self, weighted: Weighted) -> tuple[float, ...]:
        """What the points nearest to each other mode weigh."""
        surveys = (self, *self.others)
        apart = [np.linalg.solve(s.root, (weighted.points - s.mode).T) for s in surveys]
        nearest = np.argmin([np.sum(part**2, axis=0) for part in apart], axis=0)
        return tuple(float(weighted.weights[nearest == k].sum()) for k in range(1, len(surveys)))

    @property
    def named(self) -> dict[str, np.ndarray]:
        """Hyperparameters of the mode by name."""
        return self.free.named(self.mode)


def _that_count(weights: np.ndarray) -> np.ndarray:
    """Numbers of the points without those that together weigh next to nothing."""
    order = np.argsort(weights)
    return np.sort(order[np.cumsum(weights[order]) > _NOTHING])


def _complaint(result: EPResult) -> str:
    count = result.weighted_points[1].size
    if result.num_unconverged:
        return (
            f"EP did not converge at {result.num_unconverged} of {count} values of "
            "the hyperparameters that count. Try power=0.5 or more max_sweeps"
        )
    if result.converged:
        return ""
    worst = max(result.errors, key=result.errors.__getitem__)
    return (
        f"{count} points are too few for the posterior of the hyperparameters: the "
        f"mean of {worst!r} has a Monte Carlo error of {result.errors[worst]:.2f} standard "
        f"deviations, and the weights a Pareto tail of {result.pareto_k:.2f} (reliable below 0.7). "
        "Fix hyperparameters that the data leave open, or use EP(hyperparameters='nuts')"
    )
