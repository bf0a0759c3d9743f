"""`ArenaRanker`: skills from a log of comparisons, with its judges, positions and categories."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from bayesrank._states import no_state, read_arrays, write_arrays
from bayesrank._tables import column_names
from bayesrank._validate import check_count
from bayesrank._version import __version__
from bayesrank.datasets import ComparisonData
from bayesrank.estimators.comparisons import numbers_of, read_comparisons, read_pairs
from bayesrank.estimators.skills import OUTCOMES, Outcome
from bayesrank.inferencedata.arena import arena_to_arviz
from bayesrank.ranking import RankSummary, connected_components, summarize
from bayesrank.solvers.arena import ArenaFit, arena_data, fit_arena

__all__ = ["ArenaRanker", "Effect"]

Array = NDArray[np.float64]

_OWNER = "an ArenaRanker"
_FORMAT = 1
_LABELS = ("judge", "group")


class Effect(NamedTuple):
    """What something other than skill does to comparisons, with its interval.

    Attributes
    ----------
    name
        As in `bayesrank.models.judged_comparisons`.
    label
        In words.
    mean, lower, upper
        On the scale of skill.
    percent, percent_lower, percent_upper
        What it comes to between items of equal skill, in 100 comparisons.
    """

    name: str
    label: str
    mean: float
    lower: float
    upper: float
    percent: float
    percent_lower: float
    percent_upper: float


class ArenaRanker(BaseEstimator):
    """Rank named items from a log of comparisons, by who judged, in which order and category.

    Every part is optional: being shown first (or playing at home) is worth something; ties are a
    third outcome; each judge has an order bias and a reliability, so that careless judges count
    less; and items have a skill in each category, drawn to their overall one. Judges and categories
    are partially pooled: of those with few comparisons little is said. See
    `bayesrank.models.judged_comparisons`. For items with features, or skills that move, see
    `bayesrank.PairwiseRanker`.

    Skill is in units of the noise of a performance about it, as the typical judge sees it; only
    differences matter. Logs of a million comparisons are fitted within a minute or so.

    Parameters
    ----------
    items : sequence or None, default None
        Names of all items; by default those that are compared.
    num_samples : int, default 2000
        Number of posterior draws that `rank` is computed from.
    random_state : int, RandomState instance or None, default 0
        Seed of these draws.

    Attributes
    ----------
    names_, judge_names_, group_names_ : list
        Names of items, judges and categories.
    fit_ : bayesrank.solvers.arena.ArenaFit
        The posterior.
    params_ : dict
        Scales of the priors, and the tie width.
    components_ : ndarray
        Which items comparisons link, see `bayesrank.ranking.connected_components`.
    num_judged_ : ndarray
        Number of comparisons of each judge.

    Notes
    -----
    Scales of the priors are those under which the data are most probable, and are taken as known.
    The uncertainty of reliabilities and of the tie width is in all intervals (by the delta method),
    but not in `predict_proba`. 90% intervals of skills hold 88.5% in logs of 5,000 comparisons, and
    82% in leagues of 40 games: where there are so few and the position does not matter,
    `bayesrank.PairwiseRanker` is right, which averages over the scales.

    Examples
    --------
    >>> import pandas as pd
    >>> from bayesrank.estimators import ArenaRanker
    >>> log = pd.DataFrame({
    ...     "winner": ["x", "x", "y", "x", "z", "x"],
    ...     "loser": ["y", "z", "z", "y", "y", "y"],
    ...     "judge": ["Eve", "Eve", "Eve", "Dan", "Dan", "Dan"],
    ... })
    >>> ranker = ArenaRanker().fit(log)
    >>> ranker.rank().name[0]
    'x'
    >>> ranker.judges().index.tolist()
    ['Eve', 'Dan']
    """

    fit_: ArenaFit
    names_: list[Hashable]

    def __init__(
        self,
        *,
        items: Sequence[Hashable] | None = None,
        num_samples: int = 2000,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.items = items
        self.num_samples = num_samples
        self.random_state = random_state

    def fit(
        self,
        comparisons: Any,
        y: None = None,
        *,
        ties: ArrayLike | None = None,
        position: ArrayLike | None = None,
        judge: ArrayLike | None = None,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        callback: Callable[[int, float], None] | None = None,
    ) -> Self:
        """Learn the scales and reliabilities, then skills, biases and effects.

        Parameters
        ----------
        comparisons : ComparisonData, table, or array-like of shape (K, 2)
            What `bayesrank.datasets.read_comparisons` returns; or a table with the columns
            ``winner`` and ``loser``, and perhaps ``tie``, ``weight``, ``position``, ``judge`` and
            ``group``; or names of winner and loser.
        y : None
            Not used; scikit-learn passes it.
        ties : array-like of shape (K,), optional
            True where the two were judged equal. If any is, a tie is a third outcome.
        position : array-like of shape (K,), optional
            1 where the winner (of a tie, the item named first) was shown first or at home, -1 where
            the loser was, 0 where neither.
        judge, group : array-like of shape (K,), optional
            Names of judge and category.
        sample_weight : array-like of shape (K,), optional
            How often each comparison counts, from zero on.
        callback : callable, optional
            Called after each round of the fit with its number and its largest change.

        Raises
        ------
        ValueError
            If an argument cannot be used; the message names it.

        Warns
        -----
        ConvergenceWarning
            If the fit has not converged.
        """
        check_count(self.num_samples, "num_samples")
        given = {"position": position, "judge": judge, "group": group}
        if isinstance(comparisons, ComparisonData):
            if any(value is not None for value in (ties, sample_weight, *given.values())):
                raise ValueError("comparisons has its columns; give no others beside it")
            log = comparisons
        else:
            log = _read_log(comparisons, self.items, ties, sample_weight, given)
        if log.num_items < 2:
            raise ValueError("there are fewer than two items; compare two or more")
        if log.orders is not None or log.features is not None or log.times is not None:
            raise ValueError(
                "comparisons has orders, features of items or times, which this model does not "
                "take; use OrderRanker or PairwiseRanker"
            )
        data = arena_data(
            log.num_items,
            log.comparisons,
            outcomes=np.where(log.tied, 1, 2) if log.tied.any() else None,
            position=log.position,
            judges=log.judges,
            groups=log.groups if len(log.group_names) > 1 else None,
            num_judges=len(log.judge_names),
            num_groups=len(log.group_names),
            weights=log.weights,
        )
        fit = fit_arena(data, callback=callback)
        self.names_ = list(log.names)
        self.judge_names_ = list(log.judge_names)
        # One category alone cannot be told from the overall skill.
        self.group_names_ = list(log.group_names) if len(log.group_names) > 1 else []
        self.position_label_ = log.position_label or "being shown first"
        self.components_ = connected_components(log.comparisons, log.num_items)
        self.num_judged_ = np.bincount(data.judge, data.counts, max(len(log.judge_names), 1))
        self.fit_, self.params_ = fit, {k: np.asarray(v) for k, v in fit.scales.items()}
        return self

    def samples(self, group: Hashable | None = None) -> Array:
        """Posterior draws of skills, the same at every call.

        Parameters
        ----------
        group : hashable, optional
            A category; without it, of the overall skills.

        Returns
        -------
        ndarray of shape (num_samples, n)
        """
        check_is_fitted(self)
        return self._draws(*self._moments(group))

    def rank(
        self,
        names: Sequence[object] | None = None,
        *,
        group: Hashable | None = None,
        prob: float = 0.9,
        k: int | None = None,
    ) -> RankSummary:
        """Rank the items, with uncertainty; arguments as for `bayesrank.PairwiseRanker.rank`.

        Parameters
        ----------
        names : sequence, optional
            One name for each item, in place of those of `fit`.
        group : hashable, optional
            A category, to rank by the skills in it.
        prob : float, default 0.9
            Probability of the intervals of skills and ranks.
        k : int, optional
            Report the probability of being among the best `k`.
        """
        draws = self.samples(group)
        for number in range(int(self.components_.max()) + 1):
            inside = self.components_ == number
            draws[:, inside] -= draws[:, inside].mean(axis=1, keepdims=True)
        names = self.names_ if names is None else names
        return summarize(draws, names, prob=prob, k=k, components=self.components_)

    def predict(
        self, items: Sequence[Hashable] | None = None, *, group: Hashable | None = None
    ) -> tuple[Array, Array]:
        """Skills and how well they are known: posterior means and standard deviations.

        Parameters
        ----------
        items : sequence, optional
            Names; without it all, in the order of ``names_``.
        group : hashable, optional
            A category, for the skills in it.

        Raises
        ------
        NotFittedError
            If `fit` has not been called.
        ValueError
            If an item or a category is not known.
        """
        check_is_fitted(self)
        mean, covariance = self._moments(group)
        ids: list[Hashable] = self.names_ if items is None else list(items)
        at = numbers_of((ids, ids), self._known(), "it was not in fit")[:, 0]
        return mean[at], np.sqrt(np.diagonal(covariance))[at]

    def predict_proba(
        self,
        pairs: Any,
        *,
        position: float = 0.0,
        group: Hashable | None = None,
        judge: Hashable | None = None,
        outcome: Outcome = "win",
    ) -> Array:
        """Probability of an outcome of new comparisons, with all that is uncertain of skills.

        Parameters
        ----------
        pairs : table, or array-like of shape (P, 2)
            Names of items.
        position : {1, 0, -1}, default 0
            1 if the first item of each pair is shown first or at home, -1 if the second is.
        group : hashable, optional
            The category; without it, skills are the overall ones.
        judge : hashable, optional
            The judge; without it, one who is as reliable as the typical judge and has no order
            bias of its own.
        outcome : {"win", "tie", "loss"}, default "win"
            What the first item is to do.

        Returns
        -------
        ndarray of shape (P,)

        Raises
        ------
        NotFittedError
            If `fit` has not been called.
        ValueError
            If a name is not known, or `outcome` is not possible.
        """
        check_is_fitted(self)
        if outcome not in OUTCOMES:
            raise ValueError(f"outcome is {outcome!r}; choose one of {tuple(OUTCOMES)}")
        width = float(self.params_.get("tie_width", 0.0))
        if outcome == "tie" and not width:
            raise ValueError("outcome is 'tie', but no comparison given to fit was tied")
        if position not in (-1, 0, 1):
            raise ValueError(f"position is {position!r}; pass 1, 0 or -1")
        numbers = numbers_of(read_pairs(pairs, "pairs"), self._known(), "it was not in fit")
        mean, covariance = self._moments(group)
        first, second = numbers.T
        own = np.diagonal(covariance)
        variance = own[first] + own[second] - 2.0 * covariance[first, second]
        reliability, advantage, advantage_variance = 1.0, *self._advantage(None)
        if judge is not None:
            number = self._number(judge, self.judge_names_, "judge")
            reliability = float(np.exp(self.fit_.log_reliability[number]))
            advantage, advantage_variance = self._advantage(number)
        margin = reliability * (mean[first] - mean[second]) + position * advantage
        scale = np.sqrt(2.0 + reliability**2 * variance + position**2 * advantage_variance)
        win, loss = ndtr((margin - width) / scale), ndtr((-margin - width) / scale)
        return {"win": win, "loss": loss, "tie": 1.0 - win - loss}[outcome]

    def effects(self, prob: float = 0.9) -> list[Effect]:
        """What the position and ties come to, with intervals.

        For the position it is how often the item shown first wins, in 100 comparisons of equal
        items that one of them wins; for the tie width, how often equal items tie.

        Parameters
        ----------
        prob : float, default 0.9
            Probability of the intervals.
        """
        check_is_fitted(self)
        fit, tail = self.fit_, ndtri(0.5 + prob / 2.0)
        found = []
        if fit.with_position:
            mean, sd = fit.position
            ends = mean, mean - tail * sd, mean + tail * sd
            width = float(self.params_.get("tie_width", 0.0))
            shares = [100.0 * _share(value, width) for value in ends]
            found.append(Effect("position_effect", self.position_label_, *ends, *shares))
        if fit.log_tie_width is not None:
            mean, sd = fit.log_tie_width
            ends = np.exp([mean, mean - tail * sd, mean + tail * sd])
            shares = 100.0 * (2.0 * ndtr(ends / np.sqrt(2.0)) - 1.0)
            found.append(Effect("tie_width", "ties", *map(float, ends), *map(float, shares)))
        return found

    def judges(self, prob: float = 0.9) -> pd.DataFrame:
        """Reliability and order bias of each judge, with intervals.

        Parameters
        ----------
        prob : float, default 0.9
            Probability of the intervals.

        Returns
        -------
        DataFrame
            A row for each judge, the least reliable first. Reliability 1 is the typical judge's, 0
            that of one who answers without regard to the items; biases are on the scale of skill.
        """
        check_is_fitted(self)
        fit, tail = self.fit_, ndtri(0.5 + prob / 2.0)
        log, spread = fit.log_reliability, np.sqrt(fit.log_reliability_variance)
        columns: dict[str, Any] = {
            "comparisons": self.num_judged_[: len(log)],
            "reliability": np.exp(log),
            "reliability_lower": np.exp(log - tail * spread),
            "reliability_upper": np.exp(log + tail * spread),
        }
        if len(fit.bias):
            spread = np.sqrt(fit.bias_variance)
            columns["bias"] = fit.bias
            columns["bias_lower"] = fit.bias - tail * spread
            columns["bias_upper"] = fit.bias + tail * spread
        frame = pd.DataFrame(columns, index=pd.Index(self.judge_names_, name="judge"))
        return frame.sort_values("reliability", kind="stable")

    def notes(self, prob: float = 0.9) -> tuple[str, ...]:
        """Sentences on the effects, the judges and the categories, for a person."""
        said = []
        sure = f"{100 * prob:g}% sure"
        for effect in self.effects(prob):
            low, high = sorted((effect.percent_lower, effect.percent_upper))
            interval = f"{effect.percent:.0f} in 100 ({sure}: {low:.0f} to {high:.0f})"
            if effect.name == "position_effect":
                label = effect.label[0].upper() + effect.label[1:]
                said.append(f"{label} is worth {interval} of the comparisons between equals.")
            else:
                said.append(f"Equals tie in {interval}.")
        if self.judge_names_:
            said.append(self._on_judges(prob))
        if self.group_names_:
            overall, own = self.params_["scale"], self.params_["group_scale"]
            said.append(
                f"Items have a skill in each of {len(self.group_names_):,} categories; it differs "
                f"from the overall one by {own:.2f} (standard deviation), which itself varies "
                f"between items by {overall:.2f}."
            )
        return tuple(said)

    def _on_judges(self, prob: float) -> str:
        frame = self.judges(prob)
        careless = int(np.sum(frame["reliability_upper"].to_numpy() < 0.5))
        low, high = np.exp(ndtri([0.05, 0.95]) * self.params_["reliability_scale"])
        text = (
            f"{len(frame):,} judges: what nine in ten see of a difference in skill is {low:.2f} to "
            f"{high:.2f} times what the typical one sees"
        )
        if careless:
            count = "1 sees" if careless == 1 else f"{careless:,} see"
            text += f", and {count} less than half ({100 * prob:g}% sure of each)"
        if "bias_scale" in self.params_:
            text += (
                f"; their order biases differ by {self.params_['bias_scale']:.2f} (standard "
                "deviation)"
            )
        return text + "."

    def to_arviz(self) -> Any:
        """Draws of skills, position effect and tie width, and estimates of judges, for ArviZ.

        Returns
        -------
        arviz.InferenceData or xarray.DataTree
            ``InferenceData`` before ArviZ 1.0, else ``DataTree``.
        """
        check_is_fitted(self)
        fit, n = self.fit_, self.fit_.num_items
        draws = self._draws(fit.mean, fit.covariance)
        named: dict[str, Any] = {"f": (("item",), draws[:, :n])}
        if fit.with_position:
            named["position_effect"] = ((), draws[:, n])
        if fit.with_ties:
            named["tie_width"] = ((), np.exp(draws[:, -1]))
        judged: dict[str, Any] = {"reliability": np.exp(fit.log_reliability), "bias": fit.bias}
        constant: dict[str, Any] = {k: (("judge",), v) for k, v in judged.items() if len(v)}
        constant |= {k: ((), v) for k, v in self.params_.items() if k != "tie_width"}
        return arena_to_arviz(
            draws=named,
            constant=constant,
            coords={"item": self.names_, "judge": self.judge_names_},
        )

    def save(self, path: str | Path) -> None:
        """Write the fitted ranker to a file, whole or not at all.

        Parameters
        ----------
        path : str or Path
            The file. Names have to be text or whole numbers.

        Raises
        ------
        NotFittedError
            If `fit` has not been called.
        ValueError
            If a name cannot be written.
        OSError
            If the file cannot be written.
        """
        check_is_fitted(self)
        names = {name: getattr(self, name) for name in ("names_", "judge_names_", "group_names_")}
        if not all(isinstance(each, str | int) for some in names.values() for each in some):
            raise ValueError("a name is neither text nor a whole number; rename it to save")
        arrays = {"components_": self.components_, "num_judged_": self.num_judged_}
        plain: dict[str, Any] = {}
        for name, value in self.fit_._asdict().items():
            (arrays if isinstance(value, np.ndarray) else plain)[name] = value
        seed = self.random_state if isinstance(self.random_state, int) else None
        header = {
            "format": _FORMAT,
            "version": __version__,
            "names": names,
            "label": self.position_label_,
            "options": {"num_samples": self.num_samples, "random_state": seed},
            "fit": plain,
        }
        arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
        write_arrays(path, arrays)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a ranker that `save` wrote.

        Raises
        ------
        ValueError
            If the file is none, or damaged; the message names it.
        FileNotFoundError
            If there is no file.
        """
        arrays = read_arrays(path, _OWNER)
        try:
            header = json.loads(arrays.pop("header").tobytes().decode())
            if header["format"] != _FORMAT:
                raise ValueError(f"its format is {header['format']}, and {_FORMAT} is read")
            names = header["names"]
            ranker = cls(items=names["names_"], **header["options"])
            for name, value in names.items():
                setattr(ranker, name, value)
            ranker.position_label_ = header["label"]
            ranker.components_ = arrays.pop("components_")
            ranker.num_judged_ = arrays.pop("num_judged_")
            parts: dict[str, Any] = {**header["fit"], **arrays}
            ranker.fit_ = ArenaFit(**parts)
            ranker.params_ = {k: np.asarray(v) for k, v in ranker.fit_.scales.items()}
            ranker.rank()  # what does not fit together does not answer
            ranker.judges()
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise no_state(path, _OWNER, " ".join(str(error).split())) from None
        return ranker

    def _draws(self, mean: Array, covariance: Array) -> Array:
        normal = check_random_state(self.random_state).standard_normal
        return mean + normal((self.num_samples, len(mean))) @ np.linalg.cholesky(covariance).T

    def _known(self) -> dict[Hashable, int]:
        return {name: number for number, name in enumerate(self.names_)}

    def _number(self, name: Hashable, names: Sequence[Any], what: str) -> int:
        if name not in names:
            raise ValueError(f"{what} {name!r} was not in fit; it is none of {names[:5]!r}")
        return names.index(name)

    def _moments(self, group: Hashable | None) -> tuple[Array, Array]:
        """Mean and covariance of overall skills, or of those in a category."""
        fit, n = self.fit_, self.fit_.num_items
        if group is None:
            return fit.mean[:n], fit.covariance[:n, :n]
        number = self._number(group, self.group_names_, "group")
        if fit.group_skills is None or fit.group_covariance is None:
            raise ValueError("fit was given no categories")
        return fit.group_skills[number], fit.group_covariance[number]

    def _advantage(self, judge: int | None) -> tuple[float, float]:
        """Mean and variance of what being first is worth before a judge."""
        mean, sd = self.fit_.position
        if judge is None or not len(self.fit_.bias):
            return mean, sd**2
        own = float(self.fit_.bias[judge]), float(self.fit_.bias_variance[judge])
        return mean + own[0], sd**2 + own[1]


def _share(advantage: float, width: float) -> float:
    """How often the side with the advantage wins between equals, if one of them does."""
    win, loss = ndtr((np.array([advantage, -advantage]) - width) / np.sqrt(2.0))
    return float(win / (win + loss))


def _read_log(
    comparisons: Any,
    items: Sequence[Hashable] | None,
    ties: ArrayLike | None,
    sample_weight: ArrayLike | None,
    given: dict[str, Any],
) -> ComparisonData:
    """Comparisons by name, and their covariates from arguments or columns."""
    columns = column_names(comparisons) or []
    for name, value in given.items():
        if name in columns and value is not None:
            raise ValueError(
                f"comparisons has a column {name!r} and {name} is given; leave one out"
            )
        if name in columns:
            given[name] = np.asarray(comparisons[name])
    if columns:
        comparisons = _without(comparisons, given)
    named = [np.asarray(side, object) for side in read_pairs(comparisons, "comparisons")]
    seen = pd.unique(np.concatenate(named)).tolist()
    names: Any = list(items) if items is not None else _sorted(seen)
    known = {name: number for number, name in enumerate(names)}
    if sample_weight is None and "weight" not in columns:
        sample_weight = np.ones(len(named[0]))
    weight = np.asarray(comparisons["weight"] if "weight" in columns else sample_weight, float)
    rows = read_comparisons(
        comparisons, known, ties, None if "weight" in columns else sample_weight
    )
    kept = weight > 0.0
    labelled: dict[str, Any] = {}
    for name in _LABELS:
        if given[name] is not None:
            labels = np.asarray(given[name], object)
            if labels.shape != kept.shape:
                raise ValueError(f"{name} has shape {labels.shape}; pass a name for each row")
            codes, values = pd.factorize(labels[kept], sort=False)
            if (codes < 0).any():
                raise ValueError(f"{name} is missing in some rows; name it or leave them out")
            labelled[f"{name}s"], labelled[f"{name}_names"] = codes, tuple(values)
    place = None if given["position"] is None else np.asarray(given["position"], float)
    if place is not None:
        if place.shape != kept.shape or not np.isin(place, (-1, 0, 1)).all():
            raise ValueError("position has to be 1, 0 or -1 for each row")
        place = place[kept]
    weights = None if (weight == 1.0).all() else rows.weights
    return ComparisonData(
        tuple(names), rows.pairs, rows.tied, weights=weights, position=place, **labelled
    )


def _without(table: Any, given: dict[str, Any]) -> Any:
    """A table of pandas or any other library without the columns of covariates."""
    names = [name for name in column_names(table) or [] if name not in given]
    return {name: table[name] for name in names} if isinstance(table, dict) else table[names]


def _sorted(names: list[Any]) -> list[Any]:
    try:
        return sorted(names)
    except TypeError:
        return names
