"""`PreferenceGP`: skills of items with features, from comparisons."""

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any, Literal, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesrank.datasets import ComparisonData
from bayesrank.estimators.base import ScaleChoice
from bayesrank.estimators.checks import pair_numbers
from bayesrank.estimators.columns import read_columns, refuse_columns
from bayesrank.estimators.skill_ranker import Outcome, SkillRanker
from bayesrank.estimators.skills import fit_skills
from bayesrank.solvers.comparisons import Asked
from bayesrank.solvers.comparisons.posterior import Component, chances_by, moments_of
from bayesrank.solvers.comparisons.skills import at_new_items
from bayesrank.solvers.comparisons.terms import MarginRows

Array = NDArray[np.float64]

_FIX = "the index of X holds the items' names"


class PreferenceGP(SkillRanker):
    """Skills of items with features, learned from comparisons of two items at a time.

    The skill is a Gaussian process of the features with a squared-exponential kernel. If there is a
    graph of the items, skill varies little between neighbours. Items of the same features are
    equal; `bayesrank.Ranker` takes them to differ. Skill is in units in which ``noise`` is about
    one; only differences matter. Items go by row numbers, and new ones are predicted from their
    features.

    Parameters
    ----------
    ard : bool, default False
        Whether each feature has a lengthscale of its own, so that some can turn out not to matter.
    likelihood, hyperparameters, num_restarts, num_samples, random_state
        As for `bayesrank.Ranker`.
    laplacian : int, matrix of shape (n, n), callable or None, default None
        A graph whose neighbours have similar skills, so items that nobody compared help too. An
        integer joins each item with so many nearest ones, by (standardized) features. A matrix,
        sparse or dense, is the Laplacian of a graph of the items of `fit`; a callable makes one
        from their features: ``lambda X: gp.laplacian(gp.knn_graph(X, 5, weights="heat"))``.
    standardize : bool, default True
        Whether to give each feature mean zero and standard deviation one over the items of `fit`.
        The priors, and any ``lengthscale`` in `hyperparameters`, suppose features on that scale.

    Attributes
    ----------
    result_, params_, hyperparameters_, log_evidence_
        As for `bayesrank.Ranker`.
    laplacian_ : csr_array of shape (n, n) or None
        The Laplacian that was used.
    feature_mean_, feature_scale_ : ndarray of shape (d,)
        What features are centred and divided by.
    names_ : list or None
        Names of the items, if the index of `X` holds text.
    n_features_in_, feature_names_in_ : int, ndarray
        As everywhere in scikit-learn.

    Notes
    -----
    More than 3,000 items without a graph are fitted by up to 800 inducing points
    (`bayesrank.gp.inducing_point_prior`); ``result_.approximation`` says how much these leave open.
    Their hyperparameters are learned from 10,000 of the comparisons, and not integrated over.
    `fit` takes memory of order n squared for n items, and time of order n cubed.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesrank import PreferenceGP
    >>> X = np.linspace(0.0, 1.0, 5)[:, None]
    >>> comparisons = [(4, 0), (3, 1), (4, 2), (2, 0)]
    >>> gp = PreferenceGP(hyperparameters="prior").fit(X, comparisons)
    >>> skill, sd = gp.predict()
    >>> int(skill.argmax())
    4
    >>> gp.predict_proba([(4, 0), (0, 4)]).round(2)
    array([0.81, 0.19])
    """

    _item_effects = False  # rows of features, of which other rows can be asked

    def __init__(
        self,
        *,
        ard: bool = False,
        likelihood: Literal["probit", "logit"] = "probit",
        hyperparameters: ScaleChoice = "integrate",
        laplacian: Any = None,
        standardize: bool = True,
        num_restarts: int = 0,
        num_samples: int = 2000,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.ard = ard
        self.likelihood = likelihood
        self.hyperparameters = hyperparameters
        self.laplacian = laplacian
        self.standardize = standardize
        self.num_restarts = num_restarts
        self.num_samples = num_samples
        self.random_state = random_state

    def fit(
        self,
        X: ArrayLike,
        comparisons: Any,
        *,
        ties: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        callback: Callable[[int, float], None] | None = None,
    ) -> Self:
        """Learn the hyperparameters, then the skills.

        It raises and warns as `bayesrank.Ranker.fit` does.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features of the items.
        comparisons : array-like of shape (K, 2), or table
            Row numbers of items in `X`, (winner, loser) for each comparison; repeats count. Or the
            items' names, if `X` is a table whose index holds text. A table has the columns
            ``winner`` and ``loser``, and perhaps ``tie`` and ``weight``.
        ties, sample_weight, callback
            As for `bayesrank.Ranker.fit`.
        """
        features = self._check_features(X, ensure_min_samples=2)
        names = _names(X)
        data = self._read(comparisons, names, len(features), ties, sample_weight)
        skills, kept = self._process(features)
        self._keep(fit_skills(data, skills, self._settings(), callback), kept)
        self._count(replace(data, features=features))
        self.names_ = names
        return self

    @overload
    def predict(
        self, X: ArrayLike | None = ..., *, return_std: Literal[True] = ...
    ) -> tuple[Array, Array]: ...

    @overload
    def predict(self, X: ArrayLike | None = ..., *, return_std: Literal[False]) -> Array: ...

    def predict(
        self, X: ArrayLike | None = None, *, return_std: bool = True
    ) -> Array | tuple[Array, Array]:
        """Skills and how well they are known.

        Comparisons say nothing of the level of the Gaussian process, and its prior mean is zero;
        `rank` reports skills above or below the average item's instead.

        Parameters
        ----------
        X : array-like of shape (m, d), optional
            Features of items; without it, the items of `fit`.
        return_std : bool, default True
            Whether to return the standard deviations.

        Returns
        -------
        ndarray of shape (m,), or two of them
            Posterior means of the skills, and posterior standard deviations.

        Raises
        ------
        NotFittedError, ValueError
            If `fit` has not been called; if `X` does not fit the items of `fit`.
        """
        posterior = self._posterior()
        if X is None:
            mean, sd = (each.copy() for each in posterior.skills())
        else:
            parts = self._at(X, joint=False)
            each = np.arange(len(parts[0].mean))
            mean, sd = moments_of(parts, MarginRows.of(each.size, (1.0, each)))
        return (mean, sd) if return_std else mean

    def predict_proba(
        self,
        pairs: ArrayLike,
        X: ArrayLike | None = None,
        *,
        outcome: Outcome = "win",
    ) -> Array:
        """Probability that the first item of each pair wins a comparison with the second.

        Parameters
        ----------
        pairs : array-like of shape (P, 2)
            Row numbers of items, in `X` or else among the items of `fit`.
        X : array-like of shape (m, d), optional
            Features of items.
        outcome : {"win", "tie", "loss"}, default "win"
            As for `bayesrank.Ranker.predict_proba`.

        Returns
        -------
        ndarray of shape (P,)
            Probabilities, with the uncertainty of the skills and the noise of a comparison.

        Raises
        ------
        NotFittedError, ValueError
            If `fit` has not been called; if an argument does not fit, or an outcome is impossible.
        """
        parts = self._posterior().components() if X is None else self._at(X)
        pairs = pair_numbers(pairs, len(parts[0].mean))
        return self._chance(self._chances(parts, pairs), outcome)

    def score(
        self,
        X: ArrayLike,
        comparisons: Any,
        *,
        ties: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Mean log probability of the outcomes of comparisons, in nats; higher is better.

        Parameters
        ----------
        X : array-like of shape (m, d)
            Features of items, those of `fit` or others.
        comparisons, ties, sample_weight
            As for `fit`, with the rows of this `X`.

        Returns
        -------
        float
            At most zero; a guess by a coin has -0.69.
        """
        self._posterior()
        parts = self._at(X)
        data = self._read(comparisons, _names(X), len(parts[0].mean), ties, sample_weight)
        return self._score(self._chances(parts, data.comparisons), data)

    def _names(self) -> list[Hashable] | None:
        return self.names_

    def suggest(
        self, n: int = 1, *, candidates: ArrayLike | None = None, again: bool = True
    ) -> NDArray[np.intp]:
        """Pairs of items whose comparison is expected to tell most about the skills (BALD).

        Parameters
        ----------
        n, candidates, again
            As for `bayesrank.Ranker.suggest`, errors too, with row numbers of items.

        Returns
        -------
        ndarray of shape (n, 2)
            Row numbers of items, the most informative pair first; fewer if there are fewer pairs.
        """
        self._posterior()
        return self._questions(n, candidates, again)

    def _at(self, X: ArrayLike, *, joint: bool = True) -> list[Component]:
        """What the posterior of other items' skills is made of; without `joint`, variances only."""
        features = self._check_features(X, reset=False)
        scaled = (features - self.feature_mean_) / self.feature_scale_
        return at_new_items(self._posterior(), scaled, joint=joint)

    def _chances(self, parts: list[Component], pairs: NDArray[Any]) -> Array:
        at = {"f": np.arange(len(parts[0].mean))}
        return chances_by(parts, at, Asked(*pairs.T), self.likelihood)

    def _read(
        self, comparisons: Any, names: Any, count: int, ties: Any, sample_weight: Any
    ) -> ComparisonData:
        """Comparisons of items by their row numbers, or by names if there are some."""
        given = {"ties": ties, "sample_weight": sample_weight, "time": None}
        data = read_columns(comparisons, count if names is None else names, given, _FIX)
        refuse_columns(data)
        return data


def _names(X: Any) -> list[Hashable] | None:
    """Names of items, if the index of a table holds text."""
    index = getattr(X, "index", None)
    if index is None or callable(index) or not any(isinstance(name, str) for name in index):
        return None
    names = list(index)
    if len(set(names)) < len(names):
        again = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"X has two rows for item {again!r}; keep one of them")
    return names
