"""`PreferenceGP`: skills of items with features, from comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self, overload

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from bayesrank._validate import check_count
from bayesrank.estimators.base import EPEstimator
from bayesrank.estimators.checks import (
    check_comparisons,
    check_hyperparameters,
    check_pairs,
    check_ties,
    graph_laplacian,
    location_and_scale,
)
from bayesrank.estimators.predict import NewItems, new_items, outcome_probability
from bayesrank.estimators.query import questions
from bayesrank.infer import maximize_evidence
from bayesrank.models import preference_gp
from bayesrank.ranking import RankSummary, summarize

__all__ = ["PreferenceGP"]

Array = NDArray[np.float64]

_OUTCOMES = {"loss": 0, "tie": 1, "win": 2}


class PreferenceGP(EPEstimator):
    """Skills of items with features, learned from comparisons of two items at a time.

    The skill is a Gaussian process of the features with a squared-exponential kernel, and varies
    little between neighbours in a graph of the items if there is one. It is on the scale on which
    ``noise``, the standard deviation of a performance about its skill, is about one; only
    differences of skill matter.

    Parameters
    ----------
    ard : bool, default False
        Whether each feature has a lengthscale of its own, so that some can turn out not to matter.
    likelihood : {"probit", "logit"}, default "probit"
        Normal noise (Thurstone) or logistic noise (Bradley-Terry).
    hyperparameters : {"evidence", "prior"} or mapping, default "evidence"
        "evidence" learns them as those under which the data are most probable, their priors
        included. "prior" takes the medians of their priors. A mapping fixes those that it names
        (``amplitude``, ``lengthscale``, ``noise``, ``tie_width``, ``graph_weight``) and learns the
        others.
    laplacian : int, matrix of shape (n, n), callable or None, default None
        A graph whose neighbours have similar skills, which lets the items of `fit` that nobody
        compared help to rank the others. An integer joins each item with so many nearest ones, by
        the features as the model sees them. A matrix, sparse or dense, is the Laplacian of a graph
        of the items of `fit`; a callable makes one from their features, say ``lambda X:
        gp.laplacian(gp.knn_graph(X, 5, weights="heat"))``. None is no graph.
    standardize : bool, default True
        Whether to give each feature mean zero and standard deviation one over the items of `fit`.
        The priors, and any ``lengthscale`` in `hyperparameters`, suppose features on that scale.
    num_restarts : int, default 0
        Number of further starts of the search for hyperparameters, from random points.
    num_samples : int, default 2000
        Number of posterior draws that `rank` is computed from.
    random_state : int, RandomState instance or None, default 0
        Seed of these draws and starts.

    Attributes
    ----------
    result_ : EPResult
        The posterior of the skills, site ``f``; also as `result`.
    params_ : dict
        Values of the hyperparameters that were used.
    log_evidence_ : float
        EP's log evidence at them, in nats.
    laplacian_ : csr_array of shape (n, n) or None
        The Laplacian that was used.
    feature_mean_, feature_scale_ : ndarray of shape (d,)
        What features are centred and divided by.
    n_features_in_, feature_names_in_ : int, ndarray
        As everywhere in scikit-learn.

    Notes
    -----
    Compiled code is kept between calls of `fit` and shared with clones, so that a fit to data of
    the same shape is quick. It is not part of a copy or a pickle. Computations are in double
    precision; `fit` takes memory of order n squared for n items and time of order n cubed, and
    little for each comparison.

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

    def __init__(
        self,
        *,
        ard: bool = False,
        likelihood: Literal["probit", "logit"] = "probit",
        hyperparameters: str | Mapping[str, Any] = "evidence",
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

    def fit(self, X: ArrayLike, comparisons: ArrayLike, *, ties: ArrayLike | None = None) -> Self:
        """Learn the hyperparameters, then the skills.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features of the items.
        comparisons : array-like of shape (K, 2)
            Row numbers of items in `X`, (winner, loser) for each comparison; repeats count. The
            columns of a table are told apart by these names if they have them.
        ties : array-like of shape (K,), optional
            True where the two were judged equal and their order means nothing. If any is, a tie
            is a third outcome, with a width of its own to be learned.

        Returns
        -------
        PreferenceGP
            This estimator.

        Raises
        ------
        ValueError
            If an argument or an option cannot be used; the message names it.

        Warns
        -----
        ConvergenceWarning
            If EP or the search for hyperparameters has not converged.
        """
        check_count(self.num_samples, "num_samples")
        features = self._check_features(X, ensure_min_samples=2)
        num_features = features.shape[1]
        pairs = check_comparisons(comparisons, len(features))
        tied = check_ties(ties, len(pairs))
        mean, scale = np.zeros(num_features), np.ones(num_features)
        if self.standardize:
            mean, scale = location_and_scale(features)
        shapes = {"amplitude": (), "lengthscale": (num_features,) if self.ard else (), "noise": ()}
        options: dict[str, Any] = {"ard": bool(self.ard), "likelihood": self.likelihood}
        if tied.any():
            shapes["tie_width"] = ()
            options["outcomes"] = np.where(tied, _OUTCOMES["tie"], _OUTCOMES["win"])
        data = (features - mean) / scale, pairs
        graph = graph_laplacian(self.laplacian, data[0])
        if graph is not None:
            shapes["graph_weight"] = ()
            options["laplacian"] = graph
        params, to_learn = check_hyperparameters(self.hyperparameters, shapes)

        engine = self._engine_of(preference_gp)
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        search_key, draw_key = jax.random.split(jax.random.key(seed))
        if to_learn:
            maximum = maximize_evidence(
                engine,
                *data,
                params=params,
                num_restarts=self.num_restarts,
                rng_key=search_key,
                **options,
            )
            params = maximum.params
        self.result_ = engine.run(
            draw_key, *data, params=params, num_samples=self.num_samples, **options
        )
        self.params_ = self.result_.params
        self.log_evidence_ = self.result_.log_evidence
        self.laplacian_ = graph
        self.feature_mean_, self.feature_scale_ = mean, scale
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

        They are values of the Gaussian process, whose level comparisons say nothing of and whose
        prior mean is zero; `rank` reports skills above or below the average item's instead.

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
        NotFittedError
            If `fit` has not been called.
        ValueError
            If `X` does not fit the items of `fit`.
        """
        result = self.result
        if X is None:
            mean, stddev = result.mean["f"].copy(), result.stddev["f"].copy()
        else:
            new = self._new_items(X, joint=False)
            mean, stddev = new.mean, np.sqrt(new.variance)
        return (mean, stddev) if return_std else mean

    def predict_proba(
        self,
        pairs: ArrayLike,
        X: ArrayLike | None = None,
        *,
        outcome: Literal["win", "tie", "loss"] = "win",
    ) -> Array:
        """Probability that the first item of each pair wins a comparison with the second.

        It allows for all that is uncertain: the skills, and the noise of a comparison. For the
        probability that the first item's skill is higher, see `bayesrank.ranking`.

        Parameters
        ----------
        pairs : array-like of shape (P, 2)
            Row numbers of items, in `X` or else among the items of `fit`.
        X : array-like of shape (m, d), optional
            Features of items.
        outcome : {"win", "tie", "loss"}, default "win"
            What the first item is to do. The probabilities of the three add up to one; those of a
            win and a loss do where the estimator was fitted without ties.

        Returns
        -------
        ndarray of shape (P,)
            Probabilities.

        Raises
        ------
        NotFittedError
            If `fit` has not been called.
        ValueError
            If `X` or `pairs` do not fit, or `outcome` is not possible.
        """
        result = self.result
        if outcome not in _OUTCOMES:
            raise ValueError(f"outcome is {outcome!r}; choose one of {tuple(_OUTCOMES)}")
        with_ties = "tie_width" in result.params
        if outcome == "tie" and not with_ties:
            raise ValueError("outcome is 'tie', but no comparison given to fit was tied")
        if X is None:
            mean, covariance = result.mean["f"], result.covariance["f"]
        else:
            new = self._new_items(X, joint=True)
            mean, covariance = new.mean, new.covariance
        first, second = check_pairs(pairs, len(mean)).T
        own = np.diagonal(covariance)
        variance = own[first] + own[second] - 2.0 * covariance[first, second]
        value = _OUTCOMES[outcome] if with_ties else int(outcome == "win")
        return outcome_probability(
            self.likelihood, result.params, value, mean[first] - mean[second], variance
        )

    def rank(
        self, names: Sequence[object] | None = None, *, prob: float = 0.9, k: int | None = None
    ) -> RankSummary:
        """Rank the items of `fit`, with uncertainty.

        Skills are reported as they stand above or below the average of these items: comparisons say
        nothing of the level that all skills share, whose uncertainty would swamp that of each.

        Parameters
        ----------
        names : sequence, optional
            One name for each item; its row number if not given.
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
        skills = self.result.get_samples()["f"]
        return summarize(skills - skills.mean(axis=1, keepdims=True), names, prob=prob, k=k)

    def query(self, n: int = 1, *, candidates: ArrayLike | None = None) -> NDArray[np.intp]:
        """Pairs of items whose comparison is expected to tell most about the skills (BALD).

        For a loop of questions, with a journal, see `bayesrank.active.QueryLoop`.

        Parameters
        ----------
        n : int, default 1
            Number of pairs, chosen jointly: each for what it tells beyond those before it.
        candidates : array-like of shape (m, 2), optional
            Pairs to choose from; without it, all pairs of the items of `fit`.

        Returns
        -------
        ndarray of shape (n, 2)
            Row numbers of items, the best question first; fewer rows if there are fewer pairs. No
            pair that `fit` was given is among them.

        Raises
        ------
        NotFittedError
            If `fit` has not been called.
        ValueError
            If an argument does not fit.
        """
        return questions(self.result, self.likelihood, n, candidates)

    def _new_items(self, X: ArrayLike, *, joint: bool) -> NewItems:
        features = self._check_features(X, reset=False)
        features = (features - self.feature_mean_) / self.feature_scale_
        return new_items(self.result_, features, joint=joint)
