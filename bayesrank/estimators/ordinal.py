"""`OrdinalGP`: levels of items from their features.

A scorer for scikit-learn's searches, ``scoring=log_score``: of ordered levels, higher is better.

scikit-learn's own suppose labels in sorted order; these go by an estimator's ``classes_``.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from numbers import Real
from typing import Any, Literal, Self

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve
from sklearn.base import ClassifierMixin

from bayesrank._tables import missing, unmasked
from bayesrank._validate import check_choice
from bayesrank.distributions.ordinal import LIKELIHOODS, centred_thresholds
from bayesrank.estimators.base import EPEstimator, ScaleChoice, check_options, inferred, seed_of
from bayesrank.estimators.checks import check_hyperparameters, location_and_scale
from bayesrank.infer.spi import tilted_moments
from bayesrank.models.ordinal import ordinal_gp, ordinal_kernel
from bayesrank.solvers.comparisons.posterior import components_of
from bayesrank.solvers.comparisons.skills import prior_covariances


def log_score(estimator: Any, X: ArrayLike, y: ArrayLike) -> float:
    """Mean log probability of the levels of items, in nats, at most zero.

    Parameters
    ----------
    estimator : fitted estimator
        With ``classes_`` from the lowest level to the highest, and ``predict_proba``.
    X : array-like of shape (m, d)
        Features of items.
    y : array-like of shape (m,)
        Their levels.

    Raises
    ------
    ValueError
        If a level is none that was learned.
    """
    levels = _level_numbers(estimator, y)
    probability = estimator.predict_proba(X)[np.arange(len(levels)), levels]
    return float(np.log(probability).mean())


def _level_numbers(estimator: Any, levels: ArrayLike) -> NDArray[np.intp]:
    known = {level: number for number, level in enumerate(estimator.classes_.tolist())}
    given = np.asarray(levels).tolist()
    for level in given:
        if level not in known:
            raise ValueError(f"y has the level {level!r}, which is none of {list(known)}")
    return np.array([known[level] for level in given], np.intp)


Array = NDArray[np.float64]


class OrdinalGP(ClassifierMixin, EPEstimator):
    """Ordinal regression: ordered levels of items, from their features.

    A level is which of the intervals between learned thresholds the item's value plus noise falls
    into; the value is a Gaussian process of the features. For levels that many people give to the
    same items, see `bayesrank.CollaborativeOrdinalGP`.

    Parameters
    ----------
    ard : bool, default True
        Whether each feature has a lengthscale of its own, so that some can turn out to matter less.
    likelihood : {"probit", "logit"}, default "probit"
        Normal or logistic noise; compare their ``log_evidence_``.
    predict_as : {"median", "mode"}, default "median"
        What `predict` gives of a level's distribution: the median, which keeps absolute errors
        small, or the most probable level, which is right most often.
    levels : sequence, optional
        All levels from the lowest to the highest; by default those in `y`, sorted, or the
        categories of `y` if they are ordered.
    hyperparameters : {"integrate", "map", "prior"} or mapping, default "integrate"
        As for `bayesrank.Ranker`, of ``amplitude``, ``lengthscale``, ``stretch`` and
        ``gaps``.
    standardize : bool, default True
        Whether to give each feature mean zero and standard deviation one over the items of `fit`,
        as the priors suppose.
    num_restarts : int, default 3
        Number of further random starts of the search for hyperparameters. With few items a rough
        function and a smooth one may both explain the levels. "integrate" averages over such modes
        (``result_.mode_shares``); "map" warns of them.
    random_state : int, RandomState instance or None, default 0
        Seed of these starts.

    Attributes
    ----------
    classes_ : ndarray of shape (r,)
        The levels, from the lowest to the highest. For scikit-learn's ``log_loss`` give numbers, or
        names that sort like levels.
    result_, params_, log_evidence_
        As for `bayesrank.Ranker`, of the function at the items of `fit`, site ``f``.
    thresholds_ : ndarray of shape (r - 1,)
        Edges between the levels, on the scale of the function and in units of the noise.
    lengthscales_ : ndarray of shape (d,)
        Lengthscale of each feature, in the feature's own units.
    feature_mean_, feature_scale_ : ndarray of shape (d,)
        What features are centred and divided by.
    n_features_in_, feature_names_in_ : int, ndarray
        As everywhere in scikit-learn.

    References
    ----------
    .. [1] Chu, W. and Ghahramani, Z. (2005). Gaussian processes for ordinal regression. Journal of
       Machine Learning Research, 6, 1019-1041.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesrank import OrdinalGP
    >>> X = np.linspace(0.0, 1.0, 6)[:, None]
    >>> y = np.array(["bad", "bad", "fair", "fair", "good", "good"])
    >>> model = OrdinalGP(levels=["bad", "fair", "good"], hyperparameters="prior").fit(X, y)
    >>> model.predict([[0.0], [0.5], [1.0]])
    array(['bad', 'fair', 'good'], dtype='<U4')
    """

    _at_once = ("predict_as",)

    def __init__(
        self,
        *,
        ard: bool = True,
        likelihood: Literal["probit", "logit"] = "probit",
        predict_as: Literal["median", "mode"] = "median",
        levels: Sequence[Any] | None = None,
        hyperparameters: ScaleChoice = "integrate",
        standardize: bool = True,
        num_restarts: int = 3,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.ard = ard
        self.likelihood = likelihood
        self.predict_as = predict_as
        self.levels = levels
        self.hyperparameters = hyperparameters
        self.standardize = standardize
        self.num_restarts = num_restarts
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn thresholds and kernel, then the function.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features of the items.
        y : array-like of shape (n,)
            Their levels: numbers, pandas' ordered categories, or anything else if ``levels`` gives
            the order.

        Raises
        ------
        ValueError
            If an argument or an option cannot be used; the message names it.

        Warns
        -----
        ConvergenceWarning
            If EP or the search for hyperparameters has not converged.
        UserWarning
            If modes of the hyperparameters compete and only one is used ("map").
        """
        checked = self._check_features(X, ensure_min_samples=2)
        classes, numbers = _levels(y, self.levels, len(checked))
        check_options(self)
        check_choice(self.predict_as, "predict_as", "median", "mode")
        check_choice(self.likelihood, "likelihood", *LIKELIHOODS)
        d, r = checked.shape[1], len(classes)
        mean, scale = location_and_scale(checked, self.standardize)
        shapes: dict[str, tuple[int, ...]] = {"amplitude": (), "lengthscale": ()}
        shapes |= {"stretch": (d,)} if self.ard else {}
        shapes |= {"gaps": (r - 2,)} if r > 2 else {}
        params, choice = check_hyperparameters(
            self.hyperparameters, shapes, ("integrate", "map", "prior")
        )

        data = (checked - mean) / scale, numbers
        options = {"num_levels": r, "likelihood": self.likelihood, "ard": self.ard}
        key = jax.random.key(seed_of(self.random_state))
        search = {"num_restarts": self.num_restarts}
        self.result_, self.params_ = inferred(
            ordinal_gp, data, options, tuple(shapes), params, choice, key, search
        )
        self.log_evidence_ = self.result_.log_evidence
        self.classes_ = classes
        self.thresholds_ = _thresholds(self.params_)
        self.lengthscales_ = scale * self.params_["lengthscale"] * self.params_.get("stretch", 1.0)
        self.feature_mean_, self.feature_scale_ = mean, scale
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Level of each item, see ``predict_as``.

        Parameters
        ----------
        X : array-like of shape (m, d)
            Features of items.

        Returns
        -------
        ndarray of shape (m,)
            Levels, entries of ``classes_``.
        """
        probability = self.predict_proba(X)
        if self.predict_as == "mode":
            return self.classes_[probability.argmax(axis=1)]
        below = probability.cumsum(axis=1)[:, :-1]
        return self.classes_[(below < 0.5).sum(axis=1)]

    def predict_proba(self, X: ArrayLike) -> Array:
        """Probability of each level, with the uncertainty of the function.

        Parameters
        ----------
        X : array-like of shape (m, d)
            Features of items.

        Returns
        -------
        ndarray of shape (m, r)
            Probabilities, a column for each of ``classes_``.
        """
        parts, (means, variances) = components_of(self.result), self._latents(X)
        probability = np.zeros((means.shape[1], len(self.classes_)))
        with jax.enable_x64(True):
            for part, mean, variance in zip(parts, means, variances, strict=True):
                arrays = (jnp.asarray(a) for a in (_thresholds(part.params), mean, variance))
                probability += part.weight * np.asarray(_probabilities(self.likelihood, *arrays))
        return probability / probability.sum(axis=1, keepdims=True)

    def predict_latent(self, X: ArrayLike) -> tuple[Array, Array]:
        """Posterior mean and standard deviation of the function, on the scale of the thresholds.

        Parameters
        ----------
        X : array-like of shape (m, d)
            Features of items.

        Returns
        -------
        tuple of ndarray
            Means and standard deviations, both of shape (m,), in units of the noise.
        """
        means, variances = self._latents(X)
        weights = np.array([part.weight for part in components_of(self.result)])
        mean = weights @ means
        return mean, np.sqrt(weights @ (variances + (means - mean) ** 2))

    def _latents(self, X: ArrayLike) -> tuple[Array, Array]:
        """Means and variances under each component of the posterior, shapes (K, m)."""
        result = self.result
        checked = self._check_features(X, reset=False)
        new = (checked - self.feature_mean_) / self.feature_scale_
        names = ("amplitude", "lengthscale", "stretch")
        means, variances = [], []
        for _, params, mean, own, _ in components_of(result):
            with jax.enable_x64(True):
                scales = [params[k] for k in names if k in params]
                arrays = prior_covariances(ordinal_kernel, scales, result.model_args[0], new)
                covariance, across, prior = map(np.asarray, arrays)
            weights = cho_solve(cho_factor(covariance, lower=True), across)
            change = own @ weights - across
            means.append(weights.T @ mean)
            variances.append(prior + np.einsum("nm,nm->m", weights, change))
        return np.array(means), np.array(variances)


@partial(jax.jit, static_argnums=0)
def _probabilities(
    likelihood: str, edges: jax.Array, mean: jax.Array, variance: jax.Array
) -> jax.Array:
    """Probability of each level, shape (m, r), where the function is normal, shape (m,)."""
    family = LIKELIHOODS[likelihood]
    shape = (mean.size, edges.size + 1)
    level, m, v = (
        jnp.broadcast_to(values, shape).ravel()
        for values in (jnp.arange(shape[1]), mean[:, None], variance[:, None])
    )
    if likelihood == "probit":
        moments = family(0.0, edges).tilted_moments(level, m, v)
    else:
        moments = tilted_moments(lambda f: family(f, edges).log_prob(level), m, v)
    return jnp.exp(moments.log_z).reshape(shape)


def _thresholds(params: Mapping[str, Array]) -> Array:
    with jax.enable_x64(True):
        return np.asarray(centred_thresholds(jnp.asarray(params.get("gaps", np.zeros(0)))))


def _levels(
    y: ArrayLike, levels: Sequence[Any] | None, count: int
) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return all levels in their order, and each item's number among them."""
    given = np.asarray(unmasked(y))
    if given.shape != (count,):
        raise ValueError(f"y has shape {given.shape}; pass ({count},), a level for each row of X")
    none = np.array([missing(v) for v in given])
    if given.dtype.kind == "f":
        none |= np.isinf(given)
    if none.any():
        raise ValueError(f"y has no level in row {int(np.argmax(none))}; remove the row")
    order = getattr(y, "dtype", None)
    if levels is None and getattr(order, "ordered", False):
        levels = list(getattr(order, "categories", ()))  # pandas' ordered categories
    if levels is None:
        if given.dtype == object and all(isinstance(v, Real) for v in given):
            given = np.array(given.tolist())
        if given.dtype.kind not in "biuf":
            raise ValueError(
                f"y has dtype {given.dtype}; name the levels from the lowest to the highest by "
                "levels=[...], or give numbers or ordered categories: nothing tells the order of "
                "other things"
            )
        classes, numbers = np.unique(given, return_inverse=True)
    else:
        classes = np.asarray(levels)
        numbers = _positions(given, classes)
    if len(classes) < 2:
        raise ValueError(f"y has one level, {classes.tolist()[0]!r}; pass items of two or more")
    if len(classes) > 100:
        raise ValueError(
            f"y has {len(classes)} different values; merge them to a hundred levels or fewer, or "
            "use a regression"
        )
    return classes, numbers.astype(np.intp)


def _positions(given: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.intp]:
    if classes.ndim != 1 or len(np.unique(classes)) != len(classes):
        raise ValueError("levels is not a list of different levels; name each once")
    position = {level: number for number, level in enumerate(classes.tolist())}
    values = given.tolist()
    unknown = [value for value in values if value not in position]
    if unknown:
        raise ValueError(
            f"y has the level {unknown[0]!r}, which is not among levels={classes.tolist()}"
        )
    return np.array([position[value] for value in values], np.intp)
