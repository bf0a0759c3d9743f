"""PRank, and ensembles of it: Bayes point, bagging and voting."""

from typing import Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted
from tinygp.kernels import Kernel

from bayesrank._validate import check_choice, check_count, check_share
from bayesrank.online._base import Array, ExampleBlock
from bayesrank.online._kernel_form import KernelRanker
from bayesrank.online._members import Members, Records, init_members, learn_block


class PerceptronRanker(KernelRanker):
    """Perceptrons with thresholds, N of them side by side."""

    num_members: int = 1
    tau: float = 1.0
    sampling: str = "bernoulli"
    seed: int = 0

    def _init_state(self, num_features: int) -> Members:
        num_members = check_count(self.num_members, "num_members")
        check_share(self.tau, "tau", one=True)
        check_choice(self.sampling, "sampling", "bernoulli", "poisson")
        check_count(self.seed, "seed", 0)
        slots = self._slots(num_features)
        width = num_features if slots else self._width(num_features)
        return init_members(num_members, self.num_levels, width, slots)

    def _learn(self, state: Members, block: ExampleBlock) -> tuple[Members, Records]:
        return learn_block(
            state,
            *block,
            np.int64(self.seed),
            np.float64(self.tau),
            self.kernel if state.support.shape[0] else None,
            poisson=self.sampling == "poisson",
        )

    def _record_width(self, num_features: int) -> int:
        return (self.num_levels + 1) * self.num_members

    def _member_scores(self, X: Array) -> Array:
        """Score of each example by each member, shape (n, N)."""
        return self._rows(X) @ np.asarray(self.state_.weights)

    def _met(self, state: Members, records: Records) -> Array:
        return self._combine(records.scores, records.thresholds, records.votes)

    def _foresee(self, X: Array) -> Array:
        state = self.state_
        return self._combine(
            self._member_scores(X),
            np.asarray(state.thresholds)[None],
            np.asarray(state.votes)[None],
        )

    def _combine(self, scores: Array, thresholds: Array, votes: Array) -> Array:
        """Predict from the members: scores (n, N), thresholds (n, k - 1, N), votes (n, N)."""
        raise NotImplementedError


class _OneRule(PerceptronRanker):
    """One rule of weights and thresholds: the members' average."""

    def _combine(self, scores: Array, thresholds: Array, votes: Array) -> Array:
        reached = scores.mean(-1)[:, None] >= thresholds.mean(-1)
        return 1.0 + reached.sum(1)

    @property
    def coef_(self) -> Array:
        """Weights, shape (D,), of the explicit features; in the kernel form of `support_`."""
        check_is_fitted(self, "state_")
        return self._used(self.state_.weights).mean(1)

    @property
    def thresholds_(self) -> Array:
        """Thresholds in order, shape (num_levels - 1,)."""
        check_is_fitted(self, "state_")
        return np.asarray(self.state_.thresholds).mean(1)

    def _score(self, X: Array) -> Array:
        return self._member_scores(X).mean(1)


class _ManyRules(PerceptronRanker):
    """Many rules, whose ranks are averaged."""

    def _shares(self, votes: Array) -> Array:
        """Weight of each member's rank, adding up to one; shape (n, N)."""
        return np.full_like(votes, 1.0 / votes.shape[-1])

    def _combine(self, scores: Array, thresholds: Array, votes: Array) -> Array:
        ranks = 1.0 + (scores[:, None] >= thresholds).sum(1)
        return (self._shares(votes) * ranks).sum(-1)

    @property
    def coef_(self) -> Array:
        """Weights of each member, shape (N, D); in the kernel form of `support_`."""
        check_is_fitted(self, "state_")
        return self._used(self.state_.weights).T

    @property
    def thresholds_(self) -> Array:
        """Thresholds of each member, in order, shape (N, num_levels - 1)."""
        check_is_fitted(self, "state_")
        return np.asarray(self.state_.thresholds).T


class PRank(_OneRule):
    r"""A perceptron with thresholds between the levels, learning from its mistakes.

    Parameters
    ----------
    num_levels : int
        Number of levels, at least 2.
    kernel : Kernel, optional
        A kernel of tinygp; without it, the scalar product. A polynomial kernel with no more
        monomials than `budget` is used through explicit features, which is exact and cheaper.
    budget : int, default 1000
        Number of examples that the kernel form may store; the oldest leaves for the next.

    Attributes
    ----------
    coef_, thresholds_ : ndarray
        The rule: the level is one more than the number of thresholds that the score reaches.
    state_ : Members
        All that was learned.

    Notes
    -----
    If weights of norm 1 (thresholds included) separate the levels by a margin :math:`\gamma`, it
    makes at most :math:`(k - 1)(R^2 + 1) / \gamma^2` mistakes, with :math:`R = \max_t \|x_t\|`.

    References
    ----------
    .. [1] Crammer, K. and Singer, Y. (2002). Pranking with ranking. NIPS 14, Theorem 2.
    .. [2] Harrington, E. F. (2003). Online ranking/collaborative filtering using the perceptron
       algorithm. ICML, Algorithm 1. (Its section 2 prints :math:`R` squared once too often.)

    Examples
    --------
    >>> from bayesrank.online import PRank
    >>> model = PRank(3).partial_fit([[-1.0], [0.1], [1.0]] * 20, [1, 2, 3] * 20)
    >>> model.predict([[-2.0], [0.1], [2.0]])
    array([1, 2, 3])
    """

    def __init__(
        self,
        num_levels: int,
        *,
        kernel: Kernel | None = None,
        budget: int = 1000,
    ) -> None:
        self.num_levels = num_levels
        self.kernel = kernel
        self.budget = budget


class _Ensemble(PerceptronRanker):
    """Options of the ensembles."""

    def __init__(
        self,
        num_levels: int,
        num_members: int = 100,
        tau: float = 0.3,
        seed: int = 0,
        *,
        sampling: Literal["bernoulli", "poisson"] = "bernoulli",
        kernel: Kernel | None = None,
        budget: int = 1000,
    ) -> None:
        self.num_levels = num_levels
        self.num_members = num_members
        self.tau = tau
        self.sampling = sampling
        self.seed = seed
        self.kernel = kernel
        self.budget = budget


class OAPBPM(_OneRule, _Ensemble):
    """Bayes point of online PRanks: the average of their weights and thresholds.

    Each member is a `PRank` that is shown a random part of the stream (Algorithm 2). The average
    estimates the Bayes point, the centre of all rules that fit the data.

    Parameters
    ----------
    num_levels : int
        Number of levels, at least 2.
    num_members : int, default 100
        Number of perceptrons.
    tau : float, default 0.3
        Probability that a member is shown an example: the smaller, the more the members differ, and
        the more examples they need.
    seed : int, default 0
        Seed of what each member is shown.
    sampling : {"bernoulli", "poisson"}, default "bernoulli"
        How often a member is shown an example: once or not at all, as in the paper, or by a Poisson
        variable of mean `tau`. Oza's online bagging is "poisson" with ``tau=1.0``.
    kernel : Kernel, optional
        As for `PRank`.
    budget : int, default 1000
        Number of examples that the kernel form may store, for all members together.

    Attributes
    ----------
    coef_, thresholds_ : ndarray
        The average rule: the level is one more than the number of thresholds that a score reaches.
    state_ : Members
        All that the members have learned.

    References
    ----------
    Harrington, E. F. (2003). Online ranking/collaborative filtering using the perceptron algorithm.
    ICML.

    Examples
    --------
    >>> from bayesrank.online import OAPBPM
    >>> model = OAPBPM(3).partial_fit([[-1.0], [0.1], [1.0]] * 20, [1, 2, 3] * 20)
    >>> model.predict([[-2.0], [0.1], [2.0]])
    array([1, 2, 3])
    """


class OAPBagging(_ManyRules, _Ensemble):
    """Bagging of online PRanks: the average of their ranks; Oza's with ``sampling="poisson"``.

    The average is a real number: see ``rounded`` in `predict`. Parameters, and the paper, are those
    of `OAPBPM`; ``coef_`` and ``thresholds_`` have a row for each member.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesrank.online import OAPBagging
    >>> X = np.linspace(-1.0, 1.0, 90)[:, None]
    >>> levels = np.digitize(X[:, 0], [-0.3, 0.3]) + 1
    >>> learner = OAPBagging(num_levels=3, num_members=10).partial_fit(X, levels)
    >>> learner.predict(X[:2]).shape
    (2,)
    """


class OAPVoted(_ManyRules, _Ensemble):
    """Vote of online PRanks: the average of their ranks, weighted by right predictions.

    A member's vote is the number of examples shown to it whose level it predicted. The average is a
    real number: see ``rounded`` in `predict`. Parameters, and the paper, are those of `OAPBPM`;
    ``coef_`` and ``thresholds_`` have a row for each member.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesrank.online import OAPVoted
    >>> X = np.linspace(-1.0, 1.0, 90)[:, None]
    >>> levels = np.digitize(X[:, 0], [-0.3, 0.3]) + 1
    >>> learner = OAPVoted(num_levels=3, num_members=10).partial_fit(X, levels)
    >>> learner.predict(X[:2]).shape
    (2,)
    """

    def _shares(self, votes: Array) -> Array:
        total = votes.sum(-1, keepdims=True)
        equal = np.full_like(votes, 1.0 / votes.shape[-1])
        return np.where(total > 0.0, votes / np.where(total > 0.0, total, 1.0), equal)
