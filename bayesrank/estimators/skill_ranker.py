"""What rankers of names and of rows share: the fit, the ranking, chances, and questions."""

import math
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, Literal

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from bayesrank._names import meant
from bayesrank._process import enter_jax
from bayesrank._stack import outside
from bayesrank._validate import check_choice, check_count
from bayesrank.datasets import ComparisonData
from bayesrank.estimators.base import EPEstimator, check_options, seed_of
from bayesrank.estimators.checks import graph_laplacian, location_and_scale, pair_numbers
from bayesrank.estimators.skills import FitSettings, RankerFit, RankerPosterior, ranker_posterior
from bayesrank.infer import AccuracyWarning
from bayesrank.ranking import (
    ItemRecords,
    RankSummary,
    SkillMixture,
    connected_components,
    count_records,
    skill_columns,
    summarize,
)
from bayesrank.ranking.columns import Anchor, EloScale, elo_per_skill
from bayesrank.solvers.comparisons.posterior import OUTCOMES
from bayesrank.solvers.comparisons.skills import ProcessSkills

Array = NDArray[np.float64]
Outcome = Literal["win", "tie", "loss"]
Callback = Callable[[int, float], None] | None

_NO_FEATURES: dict[str, Any] = dict.fromkeys(("feature_mean_", "feature_scale_", "laplacian_"))
_MOST_MEASURED = 1000  # items whose likeness before any comparison is averaged
MOST_NUMBERS = 20_000_000
"""Numbers in covariances of a mixture; beyond, a ranking goes by draws alone."""


_CONTRADICTION = 0.01  # probability of points that are further from what was expected


def _contradiction(chance: float) -> str:
    return (
        "the Elo points of the anchors contradict the comparisons: their differences are as far "
        f"from those expected with a probability of {chance:.1g}; check them, or give them larger "
        "errors"
    )


def read_anchors(given: Mapping[Any, Any]) -> tuple[Anchor, ...]:
    """Items whose Elo points are known, each a number or (number, standard deviation)."""
    anchors = []
    for item, value in given.items():
        pair = value if isinstance(value, tuple | list) else (value, 0.0)
        numbers = [each for each in pair if isinstance(each, Real) and math.isfinite(each)]
        if len(pair) != 2 or len(numbers) != 2 or numbers[1] < 0:
            raise ValueError(
                f"anchor gives {item!r} {value!r}; pass Elo points, or (points, standard deviation)"
            )
        anchors.append(Anchor(item, float(numbers[0]), float(numbers[1])))
    if not anchors:
        raise ValueError("anchor is empty; give an item its Elo points, or leave it out")
    return tuple(anchors)


class SkillRanker(EPEstimator):
    """Skills of items, learned from comparisons; derived classes say what is known of the items."""

    ard = False
    laplacian: Any = None
    standardize = True
    likelihood: Literal["probit", "logit"] = "probit"
    hyperparameters: Any
    hyperparameters_: str
    num_restarts = 0
    num_samples: int
    random_state: int | np.random.RandomState | None
    params_: dict[str, NDArray[Any]]
    log_evidence_: float
    posterior_: RankerPosterior
    widening_ = 1.0
    widened_for_ = ""  # the column of which rows agree
    _elapsed = 1.0  # since the first comparison, in the program's unit of time
    laplacian_: sparse.csr_array | None
    components_: NDArray[np.int64] | None = None
    records_: ItemRecords | None = None
    feature_mean_: Any = None
    feature_scale_: Any = None
    _item_effects = True  # items have names, so that they can differ beyond their features

    def rank(
        self,
        names: Sequence[object] | None = None,
        *,
        level: float = 0.9,
        k: int | None = None,
        anchor: Hashable | Mapping[Any, Any] | None = None,
    ) -> RankSummary:
        """Rank the items of `fit`, with uncertainty.

        Skills are above or below the average of these items. Comparisons say nothing of the level
        that all skills share, and its uncertainty would hide that of each. Items without features
        that no comparison links are ranked apart.

        Parameters
        ----------
        names : sequence, optional
            One name for each item, in place of those of `fit`.
        level : float, default 0.9
            Probability of the intervals of skills and ranks.
        k : int, optional
            Report the probability of being among the best `k`; 3 if not given.
        anchor : hashable or mapping, optional
            An item of `fit` from which skills are measured, in place of the average: intervals are
            those of differences to it. Or Elo points that are known, with their standard
            deviation if there is one: ``{"base": 1000, "gpt-4": (1250, 10)}``. Skills are then
            given these, on the scale of Elo (400 points are odds of ten to one), and a skill of
            zero has the points of the first.

        Returns
        -------
        RankSummary
            ``print`` it, or call ``to_dataframe()``.

        Raises
        ------
        NotFittedError, ValueError
            If `fit` has not been called; if an argument does not fit.

        Warns
        -----
        AccuracyWarning
            If points that are known contradict the comparisons.
        """
        self._posterior()
        return self._ranked(self._shares(), self.records_, names, level, k, anchor)

    def _shares(self) -> Array | None:
        """Shares of the categories that skills are averaged over, if there are any."""
        return None

    def _ranked(
        self,
        shares: Array | None,
        records: ItemRecords | None,
        names: Sequence[object] | None,
        level: float,
        k: int | None,
        anchor: Hashable | Mapping[Any, Any] | None,
    ) -> RankSummary:
        """Rank by skills from the average of each component; show them from an anchor's."""
        found, known = self.components_, self._names()
        draws, posterior, elo, chance = self._given(shares, anchor)
        if chance < _CONTRADICTION:
            warnings.warn(_contradiction(chance), AccuracyWarning, stacklevel=outside())
        n = draws.shape[1]
        components, averages = averages_of(found, n)
        own = 0.0 if shares is None else float(shares @ shares)
        groups = range(averages.shape[0])
        prior_sd = np.array([self._prior_sd(components == group, own) for group in groups])
        summary = summarize(
            draws - (draws @ averages.T)[:, components],
            known if names is None else names,
            level=level,
            k=k,
            records=records,
            components=components,
            prior_sd=prior_sd[components],
            posterior=posterior and posterior.relative(averages.toarray(), components),
        )
        if anchor is None:
            return summary
        if elo is None:
            at = self._anchored(anchor, n)
            posterior = posterior and posterior.relative(np.eye(n)[[at]], np.zeros(n, int))
            draws = draws - draws[:, [at]]
        skills = skill_columns(draws, posterior, level)
        shown = {name: values[summary.indices] for name, values in skills.items()}
        return replace(summary, **shown, elo=elo)

    def _anchored(self, anchor: Any, n: int) -> int:
        """Number of an anchor among n items."""
        known = self._names()
        every = list(range(n) if known is None else known)
        if anchor not in every:
            raise ValueError(f"anchor is {anchor!r}; {meant(anchor, every, 'name an item of fit')}")
        return every.index(anchor)

    def _given(
        self, shares: Array | None, anchor: Any
    ) -> tuple[Array, SkillMixture | None, EloScale | None, float]:
        """Draws and posterior of skills by shares of categories, given Elo points of anchors.

        Behind them the scale, and the probability of points that contradict the rest as much.
        """
        draws, posterior = self._draws(shares), self.posterior_.mixture(shares, MOST_NUMBERS)
        if not isinstance(anchor, Mapping):
            return draws, posterior, None, 1.0
        anchors, n = read_anchors(anchor), draws.shape[1]
        scale = elo_per_skill(self.params_, self.likelihood)
        elo = EloScale(scale, anchors[0].points, anchors)
        at = np.array([self._anchored(each.item, n) for each in anchors])
        points, sds = np.array([each[1:] for each in anchors]).T
        if posterior is None:
            raise ValueError(
                "anchor has Elo points, for which the covariance of all skills has to be kept, "
                f"and {n:,} items are too many; name one item alone"
            )
        posterior, chance = posterior.given(at, (points - elo.origin) / scale, sds / scale)
        random = check_random_state(self.random_state)
        draws = posterior.draws(self.num_samples, random)
        return draws + (posterior.moments()[0] - draws.mean(axis=0)), posterior, elo, chance

    def _prior_sd(self, inside: NDArray[np.bool_], within: float) -> float:
        """Standard deviation of skills about the average of some, before any comparison.

        `within` is how much of the variance of what categories add is in these skills.
        """
        params = {name: np.asarray(value) for name, value in self.params_.items()}
        apart = 1.0 - 1.0 / inside.sum()
        added = apart * within * params.get("category_scale", 0.0) ** 2
        if "amplitude" in params:
            items = np.asarray(self.result.model_args[0])[inside][:_MOST_MEASURED]
            items = items / params["lengthscale"]
            shared = np.exp(-0.5 * cdist(items, items, "sqeuclidean")).mean()
            own = params.get("item_share", 0.0)
            spread = (1.0 - own) * (1.0 - shared) + own * apart
            return float(np.sqrt(params["amplitude"] ** 2 * spread + added))
        own = params["scale"] ** 2 + self._elapsed * params.get("drift", 0.0) ** 2
        return float(np.sqrt(own * apart + added))

    def _count(self, data: ComparisonData) -> None:
        """Count wins and losses, and find which items comparisons link; features link all."""
        counts = {"tied": data.tied, "weights": data.weights}
        self.records_ = count_records(data.comparisons, data.num_items, **counts)
        linked = data.features is None
        self.components_ = (
            connected_components(data.comparisons, data.num_items) if linked else None
        )

    def samples(self) -> Array:
        """Posterior draws of the skills of the items of `fit`, the same at every call.

        Returns
        -------
        ndarray of shape (num_samples, n)
            A shift makes their averages the posterior means, so items of the same evidence come
            out alike.

        Raises
        ------
        NotFittedError
            If `fit` has not been called.
        """
        return self._draws(self._shares())

    def _draws(self, shares: Array | None) -> Array:
        """Draws of skills by shares of categories, moved to the means known without chance."""
        posterior = self._posterior()
        random = check_random_state(self.random_state)
        draws = posterior.draws(shares, self.num_samples, random)
        return draws + (posterior.skills(shares)[0] - draws.mean(axis=0, dtype=np.float64))

    def _posterior(self) -> Any:
        enter_jax()
        check_is_fitted(self)
        return self.posterior_

    def _names(self) -> Sequence[object] | None:
        """Names of the items of `fit`, if they have any."""
        return None

    def _axes(self) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
        """Names of items and features, and the sites that have them."""
        features = self.feature_mean_ is not None
        item, names = "item" if features else "items", self._names()  # without, a plate's name
        coords = {} if names is None else {item: list(map(str, names))}
        dims = {"f": ["item"]} if features else {}
        if features and np.ndim(self.params_["lengthscale"]):
            dims["lengthscale"] = ["feature"]
            named = getattr(self, "feature_names_in_", None)
            coords |= {} if named is None else {"feature": list(named)}
        return coords, dims

    def _settings(self) -> FitSettings:
        enter_jax()
        check_options(self)
        seed = seed_of(self.random_state)
        chosen = self.hyperparameters, self.num_samples, seed
        return FitSettings(*chosen, self.num_restarts, self.likelihood)

    def _keep(self, fit: RankerFit, kept: Mapping[str, Any]) -> None:
        """Take over what a fit found, and the scales of features; no others stay."""
        vars(self).update({**_NO_FEATURES, **kept})
        self.result_, self.params_, self.hyperparameters_ = fit.result, fit.params, fit.choice
        self.posterior_ = ranker_posterior(fit.result, self.likelihood)
        self.widening_, self.widened_for_ = 1.0, ""
        if hasattr(fit.result, "log_evidence"):
            self.log_evidence_ = fit.result.log_evidence

    def _widen(self, data: ComparisonData) -> None:
        """Widen the posterior where rows that belong together agree more than the model says."""
        if not data.clusters and data.judges is None:
            return
        from bayesrank.diagnostics.agreement import design_effects  # most logs do not wait for it

        effects = design_effects(data, self.posterior_, self.params_)
        if effects and effects[0].is_large:
            self.widening_, self.widened_for_ = float(np.sqrt(effects[0].value)), effects[0].column
            self.posterior_ = ranker_posterior(self.result_, self.likelihood, self.widening_)

    def _process(self, features: Array) -> tuple[ProcessSkills, dict[str, Any]]:
        """Skills of items with features, shape (n, d), on the prior's scale, and what to keep."""
        mean, scale = location_and_scale(features, self.standardize)
        scaled = (features - mean) / scale
        graph = graph_laplacian(self.laplacian, scaled)
        kept = dict(zip(_NO_FEATURES, (mean, scale, graph), strict=True))
        return ProcessSkills(scaled, self.ard, graph, self._item_effects), kept

    def _chance(self, chances: Array, outcome: Outcome) -> Array:
        """The column of an outcome."""
        check_choice(outcome, "outcome", *OUTCOMES[::-1])
        if outcome == "tie" and "tie_width" not in self.params_:
            raise ValueError("outcome is 'tie', but no comparison given to fit was tied")
        return chances[:, OUTCOMES.index(outcome)]

    def _score(self, chances: Array, data: ComparisonData) -> float:
        """Mean log probability of what happened in each comparison."""
        if data.tied.any() and "tie_width" not in self.params_:
            raise ValueError("some comparisons are tied, but none that were given to fit")
        happened = np.where(data.tied, chances[:, 1], chances[:, 2])
        return float(np.average(np.log(happened), weights=data.weights))

    def _compared(self) -> NDArray[Any]:
        """Pairs of numbers that `fit` was given, (K, 2)."""
        result: Any = self.result
        found: Any = np.asarray(result.model_args[1]) if hasattr(result, "model") else np.zeros(0)
        if found.ndim != 2 or found.shape[1] != 2 or self.records_ is None:
            raise ValueError(
                "again is False, and which pairs were compared is not kept with judges, positions, "
                "categories or orders; pass candidates"
            )
        return found

    def _questions(self, n: int, candidates: ArrayLike | None, again: bool) -> NDArray[np.intp]:
        """Pairs to ask, (n, 2) or fewer rows; if `again`, also those of `fit`, and ties count."""
        from bayesrank.active import (  # a ranking does not wait for it
            Beliefs,
            FactoredBeliefs,
            bald,
            best_batch,
            best_pair_batch,
            best_pairs,
        )

        result: Any = self.result
        noise = float(self.params_.get("noise", 1.0))
        if self.likelihood == "logit":
            noise *= math.pi / math.sqrt(6.0)  # two performances make up the noise of a difference
        n, size = check_count(n, "n"), len(self.posterior_.at["f"])
        pairs = None if candidates is None else pair_numbers(candidates, size, "candidates")
        compared = None if again else self._compared()
        if getattr(result, "structure", "dense") != "dense":
            factor, diagonal = result.posterior.factors()
            large = FactoredBeliefs(result.mean["f"], factor, diagonal, noise)
            found = best_pair_batch(large, n, candidates=pairs, exclude=compared)
            kept = [each.pair for each in found if each.score > -np.inf]
            return np.array(kept, np.intp).reshape(-1, 2)
        with jax.enable_x64(True):
            width = self.params_.get("tie_width") if again else None
            skills: Any = self.posterior_.mixture(self._shares())
            beliefs = Beliefs(skills.moments()[0], skills.covariance(), noise, width)
            choose = best_pairs if n == 1 else best_batch
            chosen, gains = choose(bald, beliefs, n, candidates=pairs, exclude=compared)
            possible = np.asarray(gains) > -np.inf
        return np.asarray(chosen, np.intp)[possible]


def averages_of(found: NDArray[np.int64] | None, n: int) -> tuple[NDArray[np.int64], Any]:
    """Component of each of n items, and the average of each component as rows of shares."""
    components = np.zeros(n, np.int64) if found is None else found
    share = 1.0 / np.bincount(components)[components]
    averages: Any = sparse.csr_array((share, (components, np.arange(n))))
    return components, averages
