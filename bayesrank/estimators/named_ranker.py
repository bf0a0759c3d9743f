"""Answers of a fitted ranker of named items: the ranking, effects, judges, questions, draws."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from bayesrank._tables import column_names
from bayesrank.datasets import ComparisonData, ScoreTable
from bayesrank.estimators.columns import TimeRange, numbers_of, read_pairs
from bayesrank.estimators.coming import NOT_SAID, label_number
from bayesrank.estimators.effects import Effect, effects_of, judges_of, on_widening, sentences_on
from bayesrank.estimators.item_tables import id_list
from bayesrank.estimators.score_answers import ScoreQuestion
from bayesrank.estimators.scores import FittedScores, fitted_scores
from bayesrank.estimators.skill_ranker import MOST_NUMBERS, SkillRanker, averages_of
from bayesrank.inferencedata.draws import draws_to_arviz
from bayesrank.ranking import RankSummary
from bayesrank.solvers.comparisons import ArenaFit
from bayesrank.solvers.comparisons.skills import skills_at, skills_then

Array = NDArray[np.float64]
# Options that are of comparisons, and their values that say nothing.
_OF_COMPARISONS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("item_features", "items", "laplacian"), (None,)),
    **{"time": ("auto", None), "likelihood": ("probit",), "design": ("auto", "random")},
}


class NamedRanker(SkillRanker):
    """Skills of items that go by names, in categories and by judges where there are any."""

    names_: list[Hashable]
    judge_names_: list[Hashable]
    category_names_: list[Hashable]
    category_shares_: Array
    num_judged_: Array
    position_label_: str
    covariate_units_: dict[str, float]
    feature_names_in_: NDArray[Any] | None = None
    time_range_: TimeRange | None = None
    overall: Literal["average", "unseen"]
    question: ScoreQuestion

    @property
    def scores(self) -> FittedScores:
        """Answers of a score table: the winner, the smallest difference, which task to run next.

        Raises
        ------
        NotFittedError, ValueError
            If `fit` has not been called; if it was given anything else than a score table.
        """
        found = self._scored()
        if found is None:
            raise ValueError("scores are of score tables, and fit was given comparisons or orders")
        return found

    def rank(
        self,
        names: Sequence[object] | None = None,
        *,
        category: Hashable | None = None,
        time: Any = None,
        level: float = 0.9,
        k: int | None = None,
        anchor: Hashable | Mapping[Any, Any] | None = None,
    ) -> RankSummary:
        """Rank the items of `fit`, with uncertainty.

        Skills are above or below the average of these items. Comparisons say nothing of the level
        that all skills share, and its uncertainty would hide that of each. Items without features
        that no comparison links are ranked apart. Those of a score table are its systems, by their
        scores.

        Parameters
        ----------
        names, level, k, anchor
            As for `bayesrank.PreferenceGP.rank`.
        category : hashable, optional
            A category, to rank by the skills in it.
        time : number or date, optional
            Rank as of this time, if skills move: from the first comparison on, by all comparisons,
            those after it, too. By default as of the last comparison.

        Returns
        -------
        RankSummary
            ``print`` it, or call ``to_dataframe()``.

        Raises
        ------
        NotFittedError, ValueError
            If `fit` has not been called; if an argument does not fit.
        """
        scored = self._scored(category=category, anchor=anchor, time=time)
        if scored is not None:
            return scored.rank(names, level, k)
        then = self._as_of(time)
        records = then.records_ if category is None else None
        return then._ranked(self._shares(category), records, names, level, k, anchor)

    def samples(
        self,
        category: Hashable | None = None,
        time: Any = None,
        anchor: Mapping[Any, Any] | None = None,
    ) -> Array:
        """Posterior draws of the skills of the items of `fit`, the same at every call.

        Parameters
        ----------
        category : hashable, optional
            A category; without it, of the overall skills. Draws of categories are joint.
        time
            As for `rank`.
        anchor : mapping, optional
            Items whose Elo points are known, as for `rank`. Draws are in units of skill.

        Returns
        -------
        ndarray of shape (num_samples, n)
            A shift makes their averages the posterior means, so items of the same evidence come
            out alike.

        Raises
        ------
        NotFittedError, ValueError
            If `fit` has not been called; if the category is not known.
        """
        scored = self._scored(category=category, time=time, anchor=anchor)
        if scored is not None:
            return scored.samples()
        then, shares = self._as_of(time), self._shares(category)
        return then._draws(shares) if anchor is None else then._given(shares, anchor)[0]

    def skills_at(self, times: Any, category: Hashable | None = None) -> tuple[Array, Array]:
        """Skills at several times, above or below the average item then, by all comparisons.

        Skills of items that no comparison links are relative to the average of those that are
        linked. `bayesrank.plots.plot_skills_over_time` draws them.

        Parameters
        ----------
        times : array-like of shape (T,)
            Numbers or dates, as `fit` had them, from the first comparison on, in any order.
        category
            As for `rank`.

        Returns
        -------
        means, sds : ndarray of shape (T, n)
            Posterior means and standard deviations, in the order of ``names_``.

        Raises
        ------
        NotFittedError, ValueError
            If `fit` has not been called; if skills stand still, or a time is before the first.
        """
        self._refuse_scores("skills_at", "scores")
        shares, components = self._shares(category), self.components_
        group, averages = averages_of(components, len(self.names_))
        moments = []
        for then in skills_at(self._posterior(), self._since(times)):
            skills: Any = then.mixture(shares)
            moments.append(skills.relative(averages.toarray(), group).moments())
        means, sds = np.stack(moments, axis=1)
        return means, sds

    def suggest(
        self, n: int = 1, *, candidates: Any = None, again: bool = True
    ) -> list[tuple[Hashable, Hashable]]:
        """Pairs whose comparison is expected to tell most about the skills (BALD).

        `bayesrank.active.QueryLoop` asks one question after the other, with a journal.

        Parameters
        ----------
        n : int, default 1
            Number of pairs, chosen jointly: each for what it tells beyond those before it.
        candidates : table, or array-like of shape (m, 2), optional
            Names in the pairs to choose from; without it, all pairs.
        again : bool, default True
            Whether pairs may be suggested that `fit` was given.

        Returns
        -------
        list of tuple
            Names in pairs, the most informative first; fewer if there are fewer pairs.

        Raises
        ------
        NotFittedError, ValueError
            If `fit` has not been called; if an argument does not fit.
        """
        self._refuse_scores("suggest", "scores.next_tasks")
        pairs = None
        if candidates is not None:
            named, fix = read_pairs(candidates, "candidates"), "choose among names_"
            pairs = numbers_of(named, self.names_, fix, "candidates")
        chosen = self._questions(n, pairs, again)
        return [(self.names_[first], self.names_[second]) for first, second in chosen]

    def prob_better(
        self, pairs: Any, time: Any = None, anchor: Mapping[Any, Any] | None = None
    ) -> Array:
        """Probability that the skill of the first item of each pair is higher.

        It is without the noise of a comparison, which `predict_proba` has.

        Parameters
        ----------
        pairs : table, or array-like of shape (P, 2)
            Names of items.
        time
            As for `rank`.
        anchor
            As for `samples`.

        Returns
        -------
        ndarray of shape (P,)
            One half for an item with itself. Without chance, but for very many items, where it is a
            share of the draws.

        Raises
        ------
        NotFittedError, ValueError
            If `fit` has not been called; if a name is not known.
        """
        then, shares = self._as_of(time), self._shares()
        self._scored(anchor=anchor)
        if anchor is None:
            posterior = then._posterior().mixture(shares, MOST_NUMBERS)
        else:
            posterior = then._given(shares, anchor)[1]
        named = read_pairs(pairs, "pairs")
        first, second = numbers_of(named, self.names_, "name an item of fit", "pairs").T
        if posterior is not None:
            return posterior.better(first, second)
        draws = self.samples(time=time)
        gaps = draws[:, first] - draws[:, second]
        return np.mean(gaps > 0, axis=0) + 0.5 * np.mean(gaps == 0, axis=0)

    def effects(self, level: float = 0.9) -> list[Effect]:
        """Effects of position, ties and covariates.

        Parameters
        ----------
        level : float, default 0.9
            Probability of the intervals.

        Returns
        -------
        list of Effect
            That of the position, if it is known: how often the item shown first wins, in 100
            comparisons of equal items without ties. That of the tie width, if there are ties: how
            often equal items tie. That of each covariate: how often the item wins that has a unit
            (`covariate_units_`) more of it, likewise.

        Raises
        ------
        NotFittedError, ValueError
            If `fit` has not been called; if `level` is not between 0 and 1.
        """
        self._refuse_scores("effects", "scores")
        posterior, labels = self._posterior(), {"position_effect": self.position_label_}
        return effects_of(posterior, self.params_, labels, self.covariate_units_, level)

    def judges(self, level: float = 0.9) -> pd.DataFrame:
        """Reliability and order bias of each judge.

        Reliability 1 is the typical judge's, 0 that of one who answers without regard to the items;
        biases are on the scale of skill.

        Parameters
        ----------
        level
            As for `effects`, with the same errors.

        Returns
        -------
        pandas.DataFrame
            A row a judge, the least reliable first; ``_lower`` and ``_upper`` are ends of
            intervals.
        """
        self._refuse_scores("judges", "scores")
        return judges_of(self._posterior(), self.judge_names_, self.num_judged_, level)

    def notes(self, level: float = 0.9) -> tuple[str, ...]:
        """Sentences on the effects, the judges and the categories, or on scores, for a person.

        Parameters
        ----------
        level
            As for `effects`, with the same errors.
        """
        scored = self._scored()
        if scored is not None:
            return scored.notes(level)
        judges, num_categories = self.judges(level), len(self.category_names_)
        said = sentences_on(self.effects(level), judges, num_categories, self.params_, level)
        if not self.widened_for_:
            return said
        return (*said, on_widening(self.widened_for_, self.widening_))

    def to_arviz(self) -> Any:
        """Draws for ArviZ, see `bayesrank.to_arviz`.

        Judges, scales that were not averaged over, and difficulties of tasks, are estimates
        instead of draws.
        """
        fit: Any = self.result
        scored = self._scored()
        if scored is not None:
            return scored.to_arviz(self.params_)
        return super().to_arviz() if hasattr(fit, "model") else self._estimates(fit)

    def _axes(self) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
        """Names of items, features, judges and categories, and the sites that have them."""
        coords, dims = super()._axes()
        coords.pop("items", None)
        coords["item"] = list(map(str, self.names_))
        dims |= {site: ["item"] for site in ("f", "rate") if site in self._posterior().at}
        coords |= {"judge": list(map(str, self.judge_names_))} if self.judge_names_ else {}
        if self.covariate_units_:
            coords["covariate"] = list(self.covariate_units_)
            dims["covariate_effect"] = ["covariate"]
        if self.category_names_:
            coords["category"] = list(map(str, self.category_names_))
            dims["category_skill"] = ["category", "item"]
        return coords, dims

    def _estimates(self, fit: ArenaFit) -> Any:
        """Draws of overall skills and effects; of judges and scales, what was estimated."""
        n, random = fit.num_items, check_random_state(self.random_state)
        known = np.diagonal(fit.covariance) == 0.0
        draws = np.tile(fit.mean, (self.num_samples, 1))
        root = np.linalg.cholesky(fit.covariance[np.ix_(~known, ~known)])
        draws[:, ~known] += random.standard_normal((self.num_samples, len(root))) @ root.T
        skills, *within = np.split(
            draws[:, : n * (1 + fit.num_categories)], 1 + fit.num_categories, 1
        )
        named: dict[str, Any] = {"f": (("item",), skills)}
        if within:
            named["category_skill"] = (("category", "item"), np.stack(within, axis=1))
        start = n * (1 + fit.num_categories)
        last = start + fit.num_covariates
        if fit.num_covariates:
            named["covariate_effect"] = (("covariate",), draws[:, start:last])
        if fit.with_position:
            named["position_effect"] = ((), draws[:, last])
        if fit.with_ties:
            named["tie_width"] = ((), np.exp(draws[:, -1]))
        own = fit.judges
        judged: dict[str, Any] = {"reliability": np.exp(own.log_reliability), "bias": own.bias}
        constant: dict[str, Any] = {k: (("judge",), v) for k, v in judged.items() if len(v)}
        if fit.tasted is not None:
            where = np.indices((len(self.judge_names_), n))
            constant["taste"] = ("judge", "item"), self.posterior_.tastes(*where)
        constant |= {k: ((), v) for k, v in self.params_.items() if k != "tie_width"}
        coords = {"item": self.names_, "judge": self.judge_names_, "category": self.category_names_}
        coords["covariate"] = list(self.covariate_units_)
        labels = {name: [str(each) for each in names] for name, names in coords.items() if names}
        return draws_to_arviz(draws=named, constant=constant, coords=labels)

    def _fit_scores(self, data: ComparisonData, table: ScoreTable) -> None:
        """Learn from a score table; refuse options that are of comparisons."""
        options, settings = self.get_params(deep=False), self._settings()
        for name, unused in _OF_COMPARISONS.items():
            if not any(
                options[name] is each or (isinstance(each, str) and options[name] == each)
                for each in unused
            ):
                raise ValueError(
                    f"{name} is of comparisons, and there is a score table; leave it out"
                )
        table = replace(table, names=data.names)
        chosen = settings.hyperparameters, settings.num_samples, settings.seed
        posterior, params, choice = fitted_scores(table, self.question, *chosen)
        kept = {"posterior_": posterior, "result_": posterior.result}
        vars(self).update({**kept, "params_": params, "hyperparameters_": choice})

    def _since(self, times: Any) -> Array:
        """Times in the program's unit since the first comparison."""
        if self.time_range_ is None:
            raise ValueError("time is given, but skills stand still; leave it out")
        return self.time_range_.since(times)

    def _as_of(self, time: Any) -> "NamedRanker":
        """The ranker as of another time than the last comparison; itself if none is given."""
        if time is None:
            return self
        when = self._since(time)
        if when.size != 1:
            raise ValueError(f"time has {when.size} entries; pass one, or see skills_at")
        span: Any = self.time_range_
        then = object.__new__(type(self))
        vars(then).update(vars(self) | {"posterior_": skills_then(self._posterior(), when[0])})
        then._elapsed = float(when[0])
        then.records_ = None if when[0] < span.end else self.records_
        return then

    @property
    def holds_scores(self) -> bool:
        """Whether `fit` was given a score table."""
        return self._scored() is not None

    def _scored(self, **given: Any) -> FittedScores | None:
        """Answers of a score table if that was fitted, of which nothing given can be asked."""
        posterior: Any = self._posterior()
        if not isinstance(posterior, FittedScores):
            return None
        for name, value in given.items():
            if value is not None:
                raise ValueError(f"{name} is of comparisons, and fit was given a score table")
        return posterior

    def _refuse_scores(self, method: str, instead: str) -> None:
        """Refuse a method that is of comparisons after a score table."""
        if self._scored() is not None:
            raise ValueError(
                f"{method} is of comparisons, and fit was given a score table; see {instead}"
            )

    def _posterior(self) -> Any:
        posterior = super()._posterior()
        scored = isinstance(posterior, FittedScores)
        return posterior.asked(self.question) if scored else posterior

    def _names(self) -> list[Hashable]:
        return self.names_

    def _numbers(self, items: Sequence[Hashable] | None, fix: str | None) -> NDArray[np.int64]:
        """Numbers of named items, or of all."""
        if items is None:
            return np.arange(len(self.names_))
        table = getattr(items, "ndim", 1) > 1 or column_names(items) is not None
        if table or any(_is_pair(item) and item not in self.names_ for item in items):
            raise ValueError("items has pairs; predict_proba gives the chances of pairs")
        return numbers_of([id_list(items, "items")], self.names_, fix)[:, 0]

    def _shares(self, category: Hashable | None = None) -> Array | None:
        """Shares of categories: all of one that is named, or those of the overall skills."""
        self._posterior()
        if category is None:
            return self._shares_of(NOT_SAID)
        return self._shares_of(label_number(category, self.category_names_, "category"))

    def _shares_of(self, number: int) -> Array | None:
        """Shares of categories by the number of one, see `bayesrank.estimators.coming`."""
        if number >= 0:
            return np.eye(len(self.category_names_))[number]
        average = number == NOT_SAID and self.overall == "average" and self.category_names_
        return self.category_shares_ if average else None


def _is_pair(item: Any) -> bool:
    return isinstance(item, list | tuple | np.ndarray) and len(item) == 2
