"""`LabelRanker`: rankings and relevant sets of labels, from features."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from bayesrank._validate import check_choice, check_count
from bayesrank.estimators.base import EPEstimator, ScaleChoice, check_options
from bayesrank.estimators.checks import location_and_scale
from bayesrank.estimators.label_fit import (
    LabelUtilities,
    SampledRankings,
    fit_labels,
    label_posterior,
)
from bayesrank.estimators.label_targets import named_array, read_targets
from bayesrank.models.label_ranking import conditions

__all__ = ["LabelRanker"]

Array = NDArray[np.float64]


class LabelRanker(EPEstimator):
    """Rank labels for each example from its features, and find the relevant ones.

    A label's utility is a function of the features, and a zero alternative separates the relevant
    labels from the others [1]_. In an example each of them performs with noise of its own: see
    `bayesrank.models.calibrated_label_ranking`. Utility is in units of that noise.

    Parameters
    ----------
    kernel : {"auto", "linear", "rbf"}, default "auto"
        Utilities linear in the features, or smooth functions of them. "auto" takes the one with the
        larger evidence; it is "linear" if the other has more than 500 weights, ``n_basis + 1`` a
        label.
    n_basis : int, default 50
        Number of points that the smooth functions are learned at: centres of the examples.
    calibrated : bool, default True
        Whether there is a zero alternative; it takes part if `fit` is given relevant labels.
    correlated : bool, default False
        Whether utilities of labels are correlated. The correlations are learned, and stay at their
        most probable values when hyperparameters are averaged over.
    labels : sequence, optional
        Names of all labels; without it, a table's columns, or those that are named.
    hyperparameters : {"integrate", "map", "prior"} or mapping, default "integrate"
        "integrate" averages over them, by 16 or 32 fits. "map" takes the most probable values; from
        forty examples, its 90% intervals of utilities cover 86%. "prior" takes the prior medians. A
        mapping fixes what it names (``scale``, ``lengthscale`` of "rbf", ``zero_noise``,
        ``correlation``); "map" learns the rest.
    standardize : bool, default True
        Whether to give each feature mean zero and standard deviation one over the examples.
    num_restarts : int, default 0
        Number of further starts of the search for hyperparameters.
    random_state : int, RandomState instance or None, default 0
        Seed of the basis and of these starts.

    Attributes
    ----------
    labels_ : ndarray of shape (c,)
        Names of the labels, in the order of columns.
    kernel_ : str
        The kernel of the fit, "linear" or "rbf".
    calibrated_ : bool
        Whether relevance can be forecast.
    posterior_ : LabelPosterior
        What forecasts are made of.
    result_ : EPResult
        The posterior of ``bias`` and ``w``; also as `result`. Files do not store it.
    params_ : dict
        Values of the hyperparameters that were used; their means if they were integrated over.
    log_evidence_ : float
        EP's log evidence at them, in nats; of the program as a whole if they were integrated over.

    References
    ----------
    .. [1] Brinker, K. and Huellermeier, E. (2005). Calibrated label-ranking. NIPS Workshop on
       Learning to Rank.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesrank import LabelRanker
    >>> X = np.linspace(-1.0, 1.0, 8)[:, None]
    >>> rankings = [["sea", "hills"]] * 4 + [["hills", "sea"]] * 4
    >>> model = LabelRanker().fit(X, rankings)
    >>> model.predict([[-1.0], [1.0]]).tolist()
    [['sea', 'hills'], ['hills', 'sea']]
    """

    _learned = "posterior_"

    def __init__(
        self,
        *,
        kernel: Literal["auto", "linear", "rbf"] = "auto",
        n_basis: int = 50,
        calibrated: bool = True,
        correlated: bool = False,
        labels: Sequence[Hashable] | None = None,
        hyperparameters: ScaleChoice = "integrate",
        standardize: bool = True,
        num_restarts: int = 0,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.kernel = kernel
        self.n_basis = n_basis
        self.calibrated = calibrated
        self.correlated = correlated
        self.labels = labels
        self.hyperparameters = hyperparameters
        self.standardize = standardize
        self.num_restarts = num_restarts
        self.random_state = random_state

    def fit(
        self,
        X: ArrayLike,
        rankings: Any = None,
        relevant: Any = None,
        *,
        callback: Callable[[int, float], None] | None = None,
    ) -> Self:
        """Learn the hyperparameters, then the utilities.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features of the examples.
        rankings : sequence of length n, optional
            For each example, an order of some labels, best first, or None. A list or tuple in place
            of a label is a group in no order; a set of pairs (better, worse) is a partial order. Or
            a DataFrame of ranks, 1 the best, with a column for each label and empty cells. Numbers
            are labels only if ``labels`` or the columns of `relevant` say so. An array of numbers
            is refused: it may hold ranks.
        relevant : sequence of length n, optional
            For each example, its relevant labels (all others are irrelevant), a tuple of relevant
            and irrelevant labels, or None. Or a table of 1, 0 and NaN with a column for each label.
        callback : callable, optional
            Called during the search for hyperparameters, see `bayesrank.infer.EP.run`.

        Raises
        ------
        ValueError
            If an argument or an option cannot be used, or targets contradict themselves.

        Warns
        -----
        ConvergenceWarning
            If EP or the search for hyperparameters has not converged.
        """
        checked = self._check_features(X)
        check_choice(self.kernel, "kernel", "auto", "linear", "rbf")
        check_count(self.n_basis, "n_basis")
        check_options(self)
        if relevant is not None and not self.calibrated:
            raise ValueError("relevant needs the zero; leave it out, or set calibrated=True")
        targets = read_targets(X, rankings, relevant, self.labels)
        data = conditions(len(targets.labels), targets.rankings, targets.relevant)
        calibrated = targets.relevant is not None
        mean, scale = location_and_scale(checked, self.standardize)
        features = (checked - mean) / scale
        fit = fit_labels(self, features, data, len(targets.labels), calibrated, callback)
        self.result_, self.params_ = fit.result, fit.params
        self.log_evidence_ = self.result_.log_evidence
        self.posterior_ = label_posterior(fit.result, fit.basis)
        self.labels_, self.calibrated_ = named_array(targets.labels), calibrated
        self.feature_mean_, self.feature_scale_ = mean, scale
        return self

    @property
    def kernel_(self) -> str:
        """The kernel of the fit, "linear" or "rbf"; a `NotFittedError` before it."""
        check_is_fitted(self, "posterior_")
        return "rbf" if len(self.posterior_.basis) else "linear"

    def _axes(self) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
        """The labels' names."""
        dims = {"bias": ["label"], "w": ["label", "basis"]}
        return {"label": list(map(str, self.labels_))}, dims

    def decision_function(self, X: ArrayLike) -> Array:
        """Posterior mean of the utility of each label; the zero's is zero.

        Parameters
        ----------
        X : array-like of shape (m, d)
            Features of examples.

        Returns
        -------
        ndarray of shape (m, c)
            In units of the noise of a performance.
        """
        return self.predict_utility(X)[0]

    def predict_utility(self, X: ArrayLike) -> tuple[Array, Array]:
        """Utilities of the labels, and how well they are known.

        Parameters
        ----------
        X : array-like of shape (m, d)
            Features of examples.

        Returns
        -------
        tuple of ndarray
            Posterior means and standard deviations, both of shape (m, c), in units of the noise of
            a performance.
        """
        return self._utilities(X).average()

    def predict(
        self, X: ArrayLike, *, decision: Literal["kendall", "spearman"] = "kendall"
    ) -> NDArray[Any]:
        """All labels, best first.

        Parameters
        ----------
        X : array-like of shape (m, d)
            Features of examples.
        decision : {"kendall", "spearman"}, default "kendall"
            Which expected distance to make smallest: pairs in the wrong order ("kendall", exact
            unless hyperparameters were integrated over), or squared differences of ranks
            ("spearman").

        Returns
        -------
        ndarray of shape (m, c)
            Labels.

        Raises
        ------
        ValueError
            If `decision` is another.
        """
        check_choice(decision, "decision", "kendall", "spearman")
        found = self._utilities(X)
        worth = found.average()[0] if decision == "kendall" else found.wins()
        return self.labels_[np.argsort(-worth, axis=1, kind="stable")]

    def predict_top(self, X: ArrayLike, k: int, *, num_samples: int = 2000) -> NDArray[Any]:
        """The k labels that are most probably among the best k: the largest expected overlap.

        Parameters
        ----------
        X : array-like of shape (m, d)
            Features of examples.
        k : int
            How many, at most c.
        num_samples : int, default 2000
            Number of draws behind the probabilities.

        Returns
        -------
        ndarray of shape (m, k)
            Labels, the most probable first.

        Raises
        ------
        ValueError
            If `k` is not a whole number from 1 to c.
        """
        check_is_fitted(self, "posterior_")
        if check_count(k, "k") > len(self.labels_):
            raise ValueError(f"k is {k}; there are {len(self.labels_)} labels")
        among = self.rank_distribution(X, num_samples=num_samples)[:, :, :k].sum(axis=2)
        return self.labels_[np.argsort(-among, axis=1, kind="stable")[:, :k]]

    def predict_proba(self, X: ArrayLike) -> Array:
        """Probability that each label is relevant.

        Parameters
        ----------
        X : array-like of shape (m, d)
            Features of examples.

        Returns
        -------
        ndarray of shape (m, c)
            Columns as ``labels_``.

        Raises
        ------
        ValueError
            If `fit` had no relevant labels.
        """
        self._needs_zero()
        return self._utilities(X).relevant()

    def predict_relevant(self, X: ArrayLike) -> NDArray[np.bool_]:
        """Labels that are probably relevant (more than one half), for the least Hamming loss.

        Parameters
        ----------
        X
            As for `predict_proba`, which raises the same errors.

        Returns
        -------
        ndarray of shape (m, c)
            True or False, columns as ``labels_``.
        """
        return self.predict_proba(X) > 0.5

    def score(self, X: ArrayLike, rankings: Any = None, relevant: Any = None) -> float:
        """Kendall's tau of the forecasts: right pairs less wrong ones, as a share of all.

        The pairs are those that an example's target orders. With relevant labels, the zero
        alternative is among the items. For full rankings without ties it is Kendall's tau.

        Parameters
        ----------
        X : array-like of shape (m, d)
            Features of examples.
        rankings, relevant
            As for `fit`. Numbers may be labels if they were so there.

        Returns
        -------
        float
            From -1 to 1, the mean over the examples with a target.

        Raises
        ------
        ValueError
            If an argument cannot be used, or names a label that `fit` did not see.
        """
        utility = self.decision_function(X)
        if relevant is not None:
            self._needs_zero()
        targets = read_targets(X, rankings, relevant, self.labels_.tolist())
        pairs = conditions(len(self.labels_), targets.rankings, targets.relevant, implied=True)
        worth = np.concatenate([utility, np.zeros((len(utility), 1))], axis=1)
        ahead = [np.take_along_axis(worth, part, axis=1) for part in pairs]
        compared = pairs.better >= 0
        right = np.sum(compared * np.sign(ahead[0] - ahead[1]), axis=1)
        number = compared.sum(axis=1)
        return float(np.mean(right[number > 0] / number[number > 0]))

    def rank_distribution(
        self, X: ArrayLike, *, num_samples: int = 2000, random_state: int | None = 0
    ) -> Array:
        """Probability of each rank of each label, from draws.

        Parameters
        ----------
        X : array-like of shape (m, d)
            Features of examples.
        num_samples, random_state : int
            Number of draws, and their seed; None for another one at each call.

        Returns
        -------
        ndarray of shape (m, c, c)
            Example, label, rank from the best on; ranks and labels add up to one.
        """
        found, rng = self._utilities(X), self._draws(num_samples, random_state)
        _, count, labels = found.mean.shape
        total = np.zeros((count, labels, labels))
        rows, columns = np.arange(count)[:, None], np.arange(labels)
        for size in _sizes(num_samples, count * labels):
            performances, _ = found.performances(rng, size)
            for order in np.argsort(-performances, axis=2):
                total[rows, order, columns] += 1.0
        return total / num_samples

    def sample_rankings(
        self, X: ArrayLike, num_samples: int = 1000, *, random_state: int | None = 0
    ) -> SampledRankings:
        """Draw rankings of new examples with these features, each example by itself.

        Parameters
        ----------
        X, num_samples, random_state
            As for `rank_distribution`.

        Returns
        -------
        SampledRankings
            Without relevant labels in `fit`, ``num_relevant`` is -1.
        """
        found, rng = self._utilities(X), self._draws(num_samples, random_state)
        performances, zero = found.performances(rng, num_samples)
        order = np.argsort(-performances, axis=2)
        above = (performances > zero[:, :, None]).sum(axis=2)
        return SampledRankings(
            self.labels_[order], above if self.calibrated_ else np.full_like(above, -1)
        )

    def _utilities(self, X: ArrayLike) -> LabelUtilities:
        check_is_fitted(self, "posterior_")
        checked = self._check_features(X, reset=False)
        return self.posterior_.utilities((checked - self.feature_mean_) / self.feature_scale_)

    def _needs_zero(self) -> None:
        check_is_fitted(self, "posterior_")
        if not self.calibrated_:
            raise ValueError("fit had no relevant labels; pass relevant to fit")

    def _draws(self, num_samples: int, random_state: int | None) -> np.random.Generator:
        check_count(num_samples, "num_samples")
        return np.random.default_rng(random_state)


def _sizes(total: int, width: int) -> list[int]:
    """Numbers of draws that are worked on at once."""
    most = max(1, 2**22 // max(width, 1))
    return [min(most, total - start) for start in range(0, total, most)]
