"""What estimators of skills share: the fit of a program, probabilities, ranking, questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import jax
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_random_state

from bayesrank._validate import check_count
from bayesrank.estimators.base import EPEstimator, engine_of, integrator_of, prior_medians
from bayesrank.estimators.checks import (
    check_hyperparameters,
    graph_laplacian,
    location_and_scale,
)
from bayesrank.estimators.comparisons import Comparisons
from bayesrank.estimators.inducing import (
    LOW_RANK,
    NewSkills,
    fewer_comparisons,
    rank_for_comparisons,
)
from bayesrank.estimators.predict import outcome_probability
from bayesrank.infer import EPResult, IntegratedEPResult, LargeEPResult, maximize_evidence
from bayesrank.infer.spi import MOST_DENSE
from bayesrank.models import preference_gp, thurstone
from bayesrank.ranking import RankSummary, summarize

__all__ = [
    "OUTCOMES",
    "Outcome",
    "SkillComponent",
    "SkillEstimator",
    "components",
    "moments_of",
    "variances_of_differences",
    "weighted_results",
    "with_others",
]

Array = NDArray[np.float64]
Outcome = Literal["win", "tie", "loss"]

OUTCOMES = {"loss": 0, "tie": 1, "win": 2}


class LargeCovariance(NamedTuple):
    """Covariances of the skills of a result that does not keep them.

    Attributes
    ----------
    result
        The result, of n skills.
    variances
        Of the skills, and of items of the population that stand behind them.
    """

    result: LargeEPResult
    variances: Array

    @property
    def shape(self) -> tuple[int, int]:
        """That of the matrix that it stands for."""
        return self.variances.shape * 2

    def of_differences(self, first: NDArray[Any], second: NDArray[Any]) -> Array:
        """Variances of differences of skills, shape (P,)."""
        variance = np.where(first == second, 0.0, self.variances[first] + self.variances[second])
        count = self.result.joint_mean.size
        known = (first < count) & (second < count)
        if known.any():
            stddev = self.result.difference(first[known], second[known], exact=False)[1]
            variance[known] = stddev**2
        return variance


class SkillComponent(NamedTuple):
    """Skills given the hyperparameters; the posterior is a mixture of one such, or several.

    Attributes
    ----------
    weight
        Its share.
    params
        Values of the hyperparameters.
    mean, covariance
        Of the skills, shapes (n,) and (n, n); or what stands for the covariance of many.
    prior_variance
        Of the skill of an item of which nothing is known; zero with features.
    """

    weight: float
    params: dict[str, NDArray[Any]]
    mean: Array
    covariance: Any
    prior_variance: float


def weighted_results(
    result: EPResult | IntegratedEPResult,
) -> list[tuple[float, dict[str, NDArray[Any]], Any]]:
    """Share, hyperparameters and moments of each part of a mixture; of one result, all of it."""
    if isinstance(result, IntegratedEPResult):
        return list(result.components())
    return [(1.0, result.params, result)]


def components(result: EPResult | IntegratedEPResult) -> list[SkillComponent]:
    """Return what the posterior of the skills, site ``f``, is made of."""
    return [
        SkillComponent(
            weight,
            params,
            moments.mean["f"],
            _covariance(moments),
            float(params.get("scale", 0.0)) ** 2,
        )
        for weight, params, moments in weighted_results(result)
    ]


def _covariance(moments: Any) -> Array | LargeCovariance:
    if isinstance(moments, LargeEPResult):
        return LargeCovariance(moments, moments.stddev["f"] ** 2)
    return moments.covariance["f"]


def variances_of_differences(
    covariance: Array | LargeCovariance | NewSkills, first: NDArray[Any], second: NDArray[Any]
) -> Array:
    """Variances of differences of skills, shape (P,), by their covariance or what stands for it."""
    if isinstance(covariance, (LargeCovariance, NewSkills)):
        return covariance.of_differences(first, second)
    own = np.diagonal(covariance)
    return own[first] + own[second] - 2.0 * covariance[first, second]


class WeightedGaussian(Protocol):
    """A Gaussian of a mixture; `numpy.diagonal` of its covariance are the variances."""

    @property
    def weight(self) -> float:
        """Its share."""
        ...

    @property
    def mean(self) -> Array:
        """Of the skills."""
        ...

    @property
    def covariance(self) -> Any:
        """Of the skills."""
        ...


def moments_of(parts: Sequence[WeightedGaussian]) -> tuple[Array, Array]:
    """Mean and standard deviation of each skill under a mixture."""
    weights = np.array([part.weight for part in parts])
    means = np.array([part.mean for part in parts])
    mean = weights @ means
    own = np.array([np.diagonal(part.covariance) for part in parts])
    return mean, np.sqrt(weights @ (own + (means - mean) ** 2))


def with_others(parts: list[SkillComponent], numbers: NDArray[np.int64]) -> list[SkillComponent]:
    """Add items from the population, whose skills are independent, if pairs name any."""
    count = len(parts[0].mean)
    others = int(numbers.max(initial=count - 1)) + 1 - count
    if not others:
        return parts
    extended = []
    for part in parts:
        mean = np.append(part.mean, np.zeros(others))
        if isinstance(part.covariance, LargeCovariance):
            new = np.full(others, part.prior_variance)
            variances = np.append(part.covariance.variances, new)
            covariance = part.covariance._replace(variances=variances)
            extended.append(part._replace(mean=mean, covariance=covariance))
            continue
        covariance = np.zeros((count + others, count + others))
        covariance[:count, :count] = part.covariance
        np.fill_diagonal(covariance[count:, count:], part.prior_variance)
        extended.append(part._replace(mean=mean, covariance=covariance))
    return extended


def at_mean(draws: Any, mean: Array) -> Array:
    """Draws moved so that they average to the posterior mean, which is known without chance."""
    draws = np.asarray(draws)
    return draws + (mean - draws.mean(axis=0, dtype=np.float64))


def _needs_inducing(program: Any, args: tuple, options: Mapping[str, Any]) -> bool:
    """Whether skills are those of features, of items too many for a covariance matrix."""
    return program is preference_gp and "laplacian" not in options and len(args[0]) > MOST_DENSE


class SkillEstimator(EPEstimator):
    """Skills of items, learned from comparisons; derived classes say what is known of the items."""

    ard: bool
    laplacian: Any
    standardize: bool
    likelihood: Literal["probit", "logit"]
    hyperparameters: str | Mapping[str, Any]
    num_restarts: int
    num_samples: int
    random_state: int | np.random.RandomState | None
    params_: dict[str, NDArray[Any]]
    log_evidence_: float
    laplacian_: sparse.csr_array | None
    feature_mean_: Array
    feature_scale_: Array

    def rank(
        self, names: Sequence[object] | None = None, *, prob: float = 0.9, k: int | None = None
    ) -> RankSummary:
        """Rank the items of `fit`, with uncertainty.

        Skills are reported as they stand above or below the average of these items: comparisons say
        nothing of the level that all skills share, whose uncertainty would swamp that of each.

        Parameters
        ----------
        names : sequence, optional
            One name for each item, in place of those of `fit`.
        prob : float, default 0.9
            Probability of the intervals of skills and ranks.
        k : int, optional
            Report the probability of being among the best `k`; 3 if not given.

        Returns
        -------
        RankSummary
            ``print`` it, or call ``to_dataframe()``.

        Raises
        ------
        NotFittedError
            If `fit` has not been called.
        ValueError
            If an argument does not fit.
        """
        skills = self.samples()
        names = self._names() if names is None else names
        return summarize(skills - skills.mean(axis=1, keepdims=True), names, prob=prob, k=k)

    def samples(self) -> Array:
        """Posterior draws of the skills of the items of `fit`, the same at every call.

        Returns
        -------
        ndarray of shape (num_samples, n)
            Their averages are the posterior means: what chance put between the two is taken off,
            so that items of the same evidence come out alike.

        Raises
        ------
        NotFittedError
            If `fit` has not been called.
        """
        result = self.result
        return at_mean(result.get_samples()["f"], result.mean["f"])

    def _names(self) -> Sequence[object] | None:
        """Names of the items of `fit`, if they have any."""
        return None

    def _fit_features(
        self, features: Array, data: Comparisons, callback: Callable[[int, float], None] | None
    ) -> None:
        """Learn the skills of items with features, shape (n, d)."""
        mean, scale = self._location_and_scale(features)
        scaled = (features - mean) / scale
        shapes = {"amplitude": (), "lengthscale": self._lengthscales(features), "noise": ()}
        options: dict[str, Any] = {"ard": bool(self.ard)}
        graph = graph_laplacian(self.laplacian, scaled)
        if graph is not None:
            shapes["graph_weight"] = ()
            options["laplacian"] = graph
        self._fit_program(preference_gp, scaled, data, shapes, options, callback)
        self.laplacian_, self.feature_mean_, self.feature_scale_ = graph, mean, scale

    def _location_and_scale(self, features: Array) -> tuple[Array, Array]:
        """What features, shape (n, d), are centred and divided by, both of shape (d,)."""
        if self.standardize:
            return location_and_scale(features)
        return np.zeros(features.shape[1]), np.ones(features.shape[1])

    def _lengthscales(self, features: Array) -> tuple[int, ...]:
        return features.shape[1:] if self.ard else ()

    def _fit_independent(
        self, num_items: int, data: Comparisons, callback: Callable[[int, float], None] | None
    ) -> None:
        """Learn the skills of items of which nothing is known."""
        self._fit_program(thurstone, num_items, data, {"scale": ()}, {}, callback)

    def _fit_program(
        self,
        program: Callable[..., Any],
        items: Array | int,
        data: Comparisons,
        shapes: dict[str, tuple[int, ...]],
        options: dict[str, Any],
        callback: Callable[[int, float], None] | None,
    ) -> None:
        """Learn hyperparameters of these shapes, then the posterior of the skills."""
        options["likelihood"] = self.likelihood
        if data.tied.any():
            shapes["tie_width"] = ()
            options["outcomes"] = np.where(data.tied, OUTCOMES["tie"], OUTCOMES["win"])
        if data.weights is not None:
            options["weights"] = data.weights
        self._infer(program, (items, data.pairs), shapes, options, callback)

    def _infer(
        self,
        program: Callable[..., Any],
        args: tuple,
        shapes: dict[str, tuple[int, ...]],
        options: dict[str, Any],
        callback: Callable[[int, float], None] | None,
    ) -> None:
        """Learn hyperparameters of these shapes, then the posterior, of any program of skills."""
        check_count(self.num_samples, "num_samples")
        params, choice = check_hyperparameters(
            self.hyperparameters, shapes, ("integrate", "maximum", "prior")
        )
        engine = engine_of(program)
        search: tuple[Any, tuple, dict[str, Any]] = (engine, args, options)
        inducing = _needs_inducing(program, args, options)
        if inducing:
            search = (LOW_RANK, *fewer_comparisons(args, options))
        if choice == "integrate" and (inducing or program is thurstone and args[0] > MOST_DENSE):
            choice = "maximum"  # so many items leave next to nothing open
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        search_key, draw_key = jax.random.split(jax.random.key(seed))
        if choice == "integrate":
            integrated = integrator_of(program).run(
                draw_key,
                *args,
                num_samples=self.num_samples,
                num_restarts=self.num_restarts,
                callback=callback,
                **options,
            )
            learned = {name: integrated.mean[name] for name in integrated.hyperparameters}
            self.result_, self.params_ = integrated, {**integrated.params, **learned}
            self.log_evidence_ = integrated.log_evidence
            return
        if choice == "maximum":
            learner, data, settings = search
            maximum = maximize_evidence(
                learner,
                *data,
                params=params,
                num_restarts=self.num_restarts,
                rng_key=search_key,
                callback=callback,
                **settings,
            )
            params = maximum.params
        else:
            params = prior_medians(*search, params)
        if inducing:
            X, pairs = args
            weights = options.get("weights")
            options["rank"] = rank_for_comparisons(params, X, pairs, weights, self.likelihood)
        self.result_ = engine.run(
            draw_key, *args, params=params, num_samples=self.num_samples, **options
        )
        self.params_ = self.result_.params
        self.log_evidence_ = self.result_.log_evidence

    def _with_ties(self) -> bool:
        return "outcomes" in self.result.model_kwargs

    def _probability(
        self, parts: list[SkillComponent], pairs: NDArray[Any], outcome: Outcome
    ) -> Array:
        """Probability of an outcome of each pair of rows, shape (P,)."""
        if outcome not in OUTCOMES:
            raise ValueError(f"outcome is {outcome!r}; choose one of {tuple(OUTCOMES)}")
        with_ties = self._with_ties()
        if outcome == "tie" and not with_ties:
            raise ValueError("outcome is 'tie', but no comparison given to fit was tied")
        value = OUTCOMES[outcome] if with_ties else int(outcome == "win")
        first, second = pairs.T
        probability = np.zeros(len(pairs))
        for weight, params, mean, covariance, _ in parts:
            variance = variances_of_differences(covariance, first, second)
            probability += weight * outcome_probability(
                self.likelihood, params, value, mean[first] - mean[second], variance
            )
        return probability

    def _log_probability(self, parts: list[SkillComponent], data: Comparisons) -> Array:
        """Log probability of what happened in each comparison."""
        probability = self._probability(parts, data.pairs, "win")
        if data.tied.any():
            if not self._with_ties():
                raise ValueError("some comparisons are tied, but none that were given to fit")
            tied = self._probability(parts, data.pairs, "tie")
            probability = np.where(data.tied, tied, probability)
        return np.log(probability)
