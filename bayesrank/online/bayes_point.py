"""The Bayes point online: a Gaussian belief about weights and thresholds, one pass."""

from collections.abc import Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.utils.validation import check_is_fitted
from tinygp.kernels import Kernel

from bayesrank._validate import check_choice, check_count, check_positive, check_share
from bayesrank.online._adf import Belief, take_block
from bayesrank.online._base import LARGE, SMALL, Array, ExampleBlock, blocks_of
from bayesrank.online._basis import empty_basis, feature_block
from bayesrank.online._kernel_form import FeatureMap, KernelRanker, feature_map
from bayesrank.online._mixture import NUM_COMPONENTS as NUM_COMPONENTS
from bayesrank.online._mixture import Mixture, decide, foresee_block, given_noises, mixture

EXPLICIT = 1000
"""Number of monomials up to which a polynomial kernel is always explicit, and so exact."""


class OnlineBayesPoint(KernelRanker):
    """Weights and thresholds with their uncertainty, by assumed-density filtering.

    The model is `bayesrank.models.ordinal_version_space`: weights and thresholds are Gaussian. A
    level says on which side of each threshold the score fell, up to normal noise. The posterior
    mean is the Bayes point.

    The size of the noise is unknown, too. Nine components, seven noises and two robust ones, run
    side by side. Each counts by the probability that it gave to the levels seen.

    Parameters
    ----------
    num_levels : int
        Number of levels, at least 2.
    noise : float or sequence of float, optional
        Standard deviation of the noise, on the scale of the scores; the stream weighs several. By
        default seven, from 0.01 to 10 times a score's standard deviation, and two components a
        quarter of whose labels are random.
    weight_scale : float, default 1.0
        Prior standard deviation of a weight. Features of size about one are best, as standardised
        ones are; ten times larger or smaller does little harm.
    threshold_scale : float, optional
        Prior standard deviation of thresholds that are independent about zero, in no order. By
        default they are expected in order (`bayesrank.distributions.ordinal.threshold_prior`);
        otherwise the first hundred forecasts are overconfident.
    covariance : {"full", "diagonal"}, default "full"
        Whether to keep covariances, at :math:`O(k D^2)` an example, or variances only, at
        :math:`O(k D)`. Variances do well only if the features are hardly correlated: centre each at
        zero.
    forgetting : float, default 0.0
        Share, in [0, 1), of the knowledge of each unknown that is lost between two examples, for
        streams that drift. About the last 1 / forgetting examples count.
    kernel : Kernel, optional
        A kernel of tinygp; without it, the scalar product. A polynomial kernel with no more than
        1,000 monomials, or than `budget`, is used through explicit features, which is exact. With
        others the score is a Gaussian process with this kernel times `weight_scale` squared, at a
        basis of stored examples, at :math:`O(k B^2)` an example.
    budget : int, default 100
        Number of examples B that the basis may have. It takes in those that are new to it, and
        until it is full only the filtering approximates. From a full basis the example leaves
        without which the mean of the scores changes least at its place.

    Attributes
    ----------
    coef_, thresholds_ : ndarray
        The Bayes point; with a basis, ``coef_`` are the coefficients of ``support_``.
    noises_, lapses_, noise_weights_ : ndarray of shape (G,)
        Noise of each component, share of its labels that are random, and its probability.
    skipped_ : int
        Number of factors of the likelihood that were left out because of rounding.
    state_ : Belief
        All that is believed.

    Notes
    -----
    `predict` gives the median of `predict_proba`, which has the least expected rank loss, or with
    ``rounded=False`` the mean. `query_score` measures what the level of an example would teach.

    References
    ----------
    .. [1] Opper, M. (1998). A Bayesian approach to online learning. In: On-line Learning in Neural
       Networks. Cambridge University Press.
    .. [2] Harrington, E. F. (2003). Online ranking/collaborative filtering using the perceptron
       algorithm. ICML.
    .. [3] Csato, L. and Opper, M. (2002). Sparse on-line Gaussian processes. Neural Computation,
       14, 641-668 (the basis).
    .. [4] Houlsby, N. et al. (2011). Bayesian active learning for classification and preference
       learning. arXiv:1112.5745 (`query_score`).

    Examples
    --------
    >>> from bayesrank.online import OnlineBayesPoint
    >>> model = OnlineBayesPoint(3).partial_fit([[-1.0], [0.1], [1.0]] * 20, [1, 2, 3] * 20)
    >>> model.predict([[-2.0], [0.1], [2.0]])
    array([1, 2, 3])
    >>> model.predict_proba([[0.1]]).round(1)
    array([[0., 1., 0.]])
    """

    _entering: int  # features of the first chunk, while it is learned

    def __init__(
        self,
        num_levels: int,
        *,
        noise: float | Sequence[float] | None = None,
        weight_scale: float = 1.0,
        threshold_scale: float | None = None,
        covariance: Literal["full", "diagonal"] = "full",
        forgetting: float = 0.0,
        kernel: Kernel | None = None,
        budget: int = 100,
    ) -> None:
        self.num_levels = num_levels
        self.noise = noise
        self.weight_scale = weight_scale
        self.threshold_scale = threshold_scale
        self.covariance = covariance
        self.forgetting = forgetting
        self.kernel = kernel
        self.budget = budget

    # What is believed.

    @property
    def coef_(self) -> Array:
        """Posterior mean of the weights, (D,); with a basis, coefficients of `support_`."""
        weights = self._mean()[: 1 - self.num_levels]
        if self._stored:
            return self._used(np.asarray(self.state_.whitening).T @ weights)
        return weights

    @property
    def thresholds_(self) -> Array:
        """Posterior mean of the thresholds, shape (num_levels - 1,)."""
        return self._mean()[1 - self.num_levels :]

    @property
    def noises_(self) -> Array:
        """Noise of each component, shape (G,)."""
        check_is_fitted(self, "state_")
        return self._components.noises

    @property
    def lapses_(self) -> Array:
        """Share of each component's labels that are random, shape (G,)."""
        check_is_fitted(self, "state_")
        return self._components.lapses

    @property
    def noise_weights_(self) -> Array:
        """Probability of each component, shape (G,)."""
        check_is_fitted(self, "state_")
        return softmax(np.asarray(self.state_.log_weight))

    @property
    def skipped_(self) -> int:
        """Number of factors of the likelihood that could not be taken in."""
        check_is_fitted(self, "state_")
        return int(self.state_.skipped)

    def _mean(self) -> Array:
        return self.noise_weights_ @ np.asarray(self.state_.mean)

    def _score(self, X: Array) -> Array:
        return self._rows(X) @ self._mean()[: 1 - self.num_levels]

    # What it foresees.

    def predict_proba(self, X: ArrayLike) -> Array:
        """Probability of each level, shape (n, num_levels), with all uncertainty included.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features.

        Raises
        ------
        NotFittedError, ValueError
            If nothing has been learned; if the examples cannot be used.
        """
        return self._foresee(self._known_rows(X))

    def query_score(self, X: ArrayLike) -> Array:
        """Score how much the level of each example would teach, in nats, shape (n,).

        It is the mutual information of the level and the unknowns (weights, thresholds, noise), at
        least zero up to rounding. It is small if the level is uncertain because of noise alone.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features.

        Raises
        ------
        NotFittedError, ValueError
            If nothing has been learned; if the examples cannot be used.
        """
        return self._foresight(self._known_rows(X), with_scores=True)[1]

    def prequential_proba(self, X: ArrayLike, y: ArrayLike) -> Array:
        """Predict probabilities of each example before learning it, then learn it; (n, num_levels).

        Parameters
        ----------
        X, y
            As for `partial_fit`.

        Raises
        ------
        ValueError
            As for `partial_fit`.
        """
        return np.concatenate([self._nothing(), *self._stream(X, y, self._met)])

    # How it learns.

    @property
    def _components(self) -> Mixture:
        """What the belief is a mixture of, in units of a score of features of size one."""
        learned = hasattr(self, "state_")
        size = self.weight_scale * self._unit(self.n_features_in_ if learned else self._entering)
        if self.noise is None:
            return mixture(size)
        noises = np.atleast_1d(np.asarray(self.noise, np.float64))
        if noises.ndim != 1 or not noises.size or not ((noises > 0) & np.isfinite(noises)).all():
            raise ValueError(f"noise is {self.noise!r}; pass one or more positive numbers")
        return given_noises(noises.tolist(), size)

    def _unit(self, num_features: int) -> float:
        """Root of the kernel's value for features that are all one, kept for the next block."""
        known, count, unit = getattr(self, "_last_unit", (None, None, 0.0))
        if known is not self.kernel or count != num_features:
            unit = float(num_features**0.5)
            if self.kernel is not None:
                with jax.enable_x64(True):
                    ones = jnp.ones((1, num_features))
                    variance = float(self.kernel(ones, ones)[0, 0])
                unit = variance**0.5 if 0.0 < variance < np.inf else 1.0
            self._last_unit = self.kernel, num_features, unit
        return unit

    def _explicit(self, num_features: int) -> FeatureMap | None:
        diagonal = self.covariance == "diagonal"
        return feature_map(self.kernel, num_features, None if diagonal else self._most())

    def _most(self) -> int:
        return max(EXPLICIT, check_count(self.budget, "budget"))

    def _rows(self, X: Array) -> Array:
        if self.kernel is None or not self._stored:
            return X
        rows = [np.zeros((0, len(self.state_.stamps)))]
        for (part,), count in blocks_of(_sizes(X), X):
            with jax.enable_x64(True):
                block = feature_block(self.kernel, self.state_.basis, part)
            rows.append(np.asarray(block)[:count])
        return np.concatenate(rows)

    def _record_width(self, num_features: int) -> int:
        return self.num_levels

    def _init_state(self, num_features: int) -> Belief:
        check_positive(self.weight_scale, "weight_scale")
        if self.threshold_scale is not None:
            check_positive(self.threshold_scale, "threshold_scale")
        check_share(self.forgetting, "forgetting", zero=True)
        check_choice(self.covariance, "covariance", "full", "diagonal")
        slots = self._slots(num_features)
        if slots and self.covariance == "diagonal":
            raise ValueError(
                f"kernel is {self.kernel!r} and covariance 'diagonal'; the scores at stored "
                "examples depend on each other: choose 'full', or a polynomial kernel"
            )
        basis = empty_basis(slots, num_features)
        self._entering = num_features
        prior = self._prior(len(basis.stamps) or self._width(num_features))
        return prior._replace(**basis._asdict())

    def _prior(self, num_weights: int) -> Belief:
        """Return what is believed of the unknowns at first, without a basis."""
        components = self._components
        between, covariance = components.thresholds(self.num_levels, self.threshold_scale)
        groups, size = len(between), num_weights + self.num_levels - 1
        own = np.zeros((groups, size, size))
        weights = np.arange(num_weights)
        own[:, weights, weights] = self.weight_scale**2
        own[:, num_weights:, num_weights:] = covariance
        return Belief(
            mean=np.hstack([np.zeros((groups, num_weights)), between]),
            covariance=own if self.covariance == "full" else np.diagonal(own, axis1=1, axis2=2),
            log_weight=components.log_weights,
            skipped=np.int64(0),
            seen=np.int64(0),
            support=None,
            stamps=None,
            whitening=None,
        )

    def _learn(self, state: Belief, block: ExampleBlock) -> tuple[Belief, Any]:
        stored, components = bool(state.support.shape[0]), self._components
        prior = self._prior(state.mean.shape[1] - self.num_levels + 1)
        fixed = prior, components.noises, components.lapses, np.float64(self.forgetting)
        if stored:
            return take_block(state, *block, *fixed, self.kernel)
        # What is empty is not handed over: for one example that would take as long as learning.
        bare = state._replace(support=None, stamps=None, whitening=None)
        after, probs = take_block(bare, *block, *fixed)
        return after._replace(**state.basis._asdict()), probs

    def _met(self, state: Belief, records: Array) -> Array:
        return records

    def _foresee(self, X: Array) -> Array:
        return self._foresight(X)[0]

    def _decide(self, predictions: Array, rounded: bool) -> NDArray[Any]:
        return decide(predictions, rounded)

    def _nothing(self) -> Array:
        return np.zeros((0, self.num_levels))

    def _foresight(self, X: Array, *, with_scores: bool = False) -> tuple[Array, Array]:
        """Probabilities (n, k) and query scores (n,), computed in blocks of two shapes."""
        probs, scores = [np.zeros((0, self.num_levels))], [np.zeros(0)]
        noises, lapses = self._components[:2]
        rows = self._rows(X)
        for (part,), count in blocks_of(_sizes(rows), rows):
            with jax.enable_x64(True):
                block = foresee_block(self.state_, part, noises, lapses, with_scores)
            probs.append(np.asarray(block[0])[:count])
            scores.append(np.asarray(block[1])[:count])
        return np.concatenate(probs), np.concatenate(scores)


def _sizes(X: Array) -> tuple[int]:
    """The one size, of two, of blocks in which nothing is learned."""
    return (SMALL if len(X) <= SMALL else LARGE,)
