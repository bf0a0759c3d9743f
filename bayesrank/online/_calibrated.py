"""The perceptron of calibrated label ranking: rankings of relevant labels from a stream."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array as JaxArray
from jax import lax
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from bayesrank._validate import check_choice, check_count
from bayesrank.online._base import SavedLearner, blocks_of, check_column_names, check_rows
from bayesrank.online._constraints import LabelConstraints, tabulate

Array = NDArray[np.float64]
_LabelTarget = Sequence[int] | NDArray[Any] | LabelConstraints

# Sizes of the blocks that a chunk is cut into, each compiled once.
_SIZES = (4096, 256, 16)


class LearnedLabels(NamedTuple):
    """All that the perceptron has learned."""

    weights: Any  # weights of each label, shape (c, d)
    seen: Any  # number of examples
    updates: Any  # number of those that changed the weights


class CalibratedPerceptron(SavedLearner):
    """Calibrated constraint classification, online (Algorithm 1 of [1]_), for top label-rankings.

    Each label has a linear utility, and the zero alternative has utility zero. A target is the
    relevant labels of an example, best first. If the labels with positive utility rank differently,
    weights of labels in violated constraints move towards or away from the example. Each moves by
    the loss over the number of such constraints.

    Parameters
    ----------
    num_labels : int
        Number of labels c, at least 2.
    pairs : {"adjacent", "all"}, default "adjacent"
        Which two relevant labels make a constraint: neighbours in the ranking, or any two. They
        make up the perceptron's implicit loss: "all" counts a label that is far off more often.
    relevant : {"all", "lowest"}, default "all"
        Which relevant labels are set against the zero and against the irrelevant labels: all of
        them, or the lowest, which implies the others.
    loss : {"kendall", "footrule"}, default "kendall"
        Distance of two bucket orders, from 0 to 1 (`bayesrank.metrics.kendall_distance`,
        `bayesrank.metrics.spearman_footrule`): the relevant labels one by one, the zero, and the
        others together. The zero puts rankings that differ in their relevant labels at a positive
        distance.

    Attributes
    ----------
    coef_ : ndarray of shape (c, d)
        Weights of each label.
    n_seen_, n_updates_ : int
        Number of examples learned, and of those that changed the weights.

    References
    ----------
    .. [1] Brinker, K. and Huellermeier, E. (2005). Calibrated label-ranking. NIPS Workshop on
       Learning to Rank. (The weights start at t = 1, and an empty set of relevant labels is a
       target as well.)

    Examples
    --------
    >>> from bayesrank.online import CalibratedPerceptron
    >>> X = [[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]] * 10
    >>> model = CalibratedPerceptron(2).partial_fit(X, [[0], [1, 0], []] * 10)
    >>> model.predict(X[:3])
    [[0], [1, 0], []]
    """

    def __init__(
        self,
        num_labels: int,
        *,
        pairs: Literal["adjacent", "all"] = "adjacent",
        relevant: Literal["all", "lowest"] = "all",
        loss: Literal["kendall", "footrule"] = "kendall",
    ) -> None:
        self.num_labels = num_labels
        self.pairs = pairs
        self.relevant = relevant
        self.loss = loss

    def partial_fit(self, X: ArrayLike, y: Iterable[_LabelTarget]) -> Self:
        """Learn the next examples of the stream; a chunk that cannot be used changes nothing.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features.
        y : sequence of length n
            For each example, the numbers of its relevant labels from 0 to c - 1, best first; none
            is a target, too. In an array of integers (n, l), -1 stands for no label. A target can
            also be a `LabelConstraints`; the loss is then `constraint_loss`, whatever `pairs`,
            `relevant` and `loss`.

        Raises
        ------
        ValueError
            If the chunk or an option cannot be used; the message names row and column.
        """
        started = hasattr(self, "state_")
        options = self._check_options()
        names = check_column_names(X, self.feature_names_in_)
        rows = check_rows(X, self.n_features_in_ if started else None)
        targets = _targets(y, len(rows), self.num_labels)
        with jax.enable_x64(True):
            state = self.state_ if started else self._init_state(rows.shape[1])
            weights, updates = jnp.asarray(state.weights), int(state.updates)
            for (block, *parts), count in blocks_of(_SIZES, rows, *targets):
                used = np.arange(len(block)) < count
                weights, moved = _learn(options, weights, (block, tuple(parts), used))
                updates += int(moved)
            learned = np.asarray(weights)
        if not np.isfinite(learned).all():
            raise ValueError(
                "X makes the weights overflow; scale the features. Nothing of the chunk was learned"
            )
        seen = np.int64(state.seen + len(rows))
        self._take(rows.shape[1], names, LearnedLabels(learned, seen, np.int64(updates)))
        return self

    def decision_function(self, X: ArrayLike) -> Array:
        """Utility of each label, shape (n, c); that of the zero is zero.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features.

        Raises
        ------
        NotFittedError, ValueError
            If nothing has been learned; if the examples cannot be used.
        """
        check_is_fitted(self, "state_")
        self._check_options()
        check_column_names(X, self.feature_names_in_)
        return check_rows(X, self.n_features_in_) @ self.coef_.T

    def predict(self, X: ArrayLike) -> list[list[int]]:
        """Numbers of the labels of positive utility, best first; of two equal ones the lower first.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features.

        Returns
        -------
        list of n lists
            Numbers of labels.

        Raises
        ------
        NotFittedError, ValueError
            As for `decision_function`.
        """
        utility = self.decision_function(X)
        order = np.argsort(-utility, axis=1, kind="stable")
        count = (utility > 0).sum(axis=1)
        return [row[:k].tolist() for row, k in zip(order, count, strict=True)]

    @property
    def coef_(self) -> Array:
        """Weights of each label, shape (c, d)."""
        check_is_fitted(self, "state_")
        return self.state_.weights

    @property
    def n_updates_(self) -> int:
        """Number of examples that changed the weights."""
        check_is_fitted(self, "state_")
        return int(self.state_.updates)

    def _init_state(self, num_features: int) -> LearnedLabels:
        weights = np.zeros((self.num_labels, num_features))
        return LearnedLabels(weights, np.int64(0), np.int64(0))

    def _check_options(self) -> "_Constraints":
        check_count(self.num_labels, "num_labels", 2)
        check_choice(self.pairs, "pairs", "adjacent", "all")
        check_choice(self.relevant, "relevant", "all", "lowest")
        check_choice(self.loss, "loss", "kendall", "footrule")
        if hasattr(self, "state_") and len(self.coef_) != self.num_labels:
            raise ValueError(
                f"num_labels is {self.num_labels}, but {len(self.coef_)} labels have been "
                "learned; begin anew by fit"
            )
        return _Constraints(self.pairs == "adjacent", self.relevant == "lowest", self.loss)


class _Constraints(NamedTuple):
    """Options, as compiled code knows them."""

    adjacent: bool
    lowest: bool
    loss: str


def _targets(y: Any, count: int, num_labels: int) -> tuple[NDArray[Any], ...]:
    """Places of the alternatives in rankings, or tables of constraints."""
    general = [isinstance(row, LabelConstraints) for row in y] if np.iterable(y) else []
    if not any(general):
        return (_places(y, count, num_labels),)
    if not all(general) or len(general) != count:
        raise ValueError(
            f"y has {sum(general)} LabelConstraints among {len(general)} entries; pass one for "
            f"each of the {count} rows"
        )
    return tuple(tabulate(list(y), num_labels))


def _places(y: Any, count: int, num_labels: int) -> NDArray[np.int64]:
    """Places of the labels and the zero in bucket orders: relevant labels, the zero, the others."""
    lists = [np.asarray(row).ravel() for row in y] if np.iterable(y) else []
    if len(lists) != count:
        raise ValueError(f"y has {len(lists)} entries; pass one for each of the {count} rows")
    length = np.array([row.size for row in lists], np.int64)
    flat = np.concatenate([np.zeros(0, np.int64), *(row for row in lists if row.size)])
    row = np.repeat(np.arange(count), length)
    if flat.dtype.kind not in "iu" or any(row.dtype.kind == "b" for row in lists):
        raise ValueError("y has labels that are not whole numbers; number them from 0")
    named = flat >= 0 if isinstance(y, np.ndarray) else np.ones(flat.size, bool)
    wrong = named & ~((flat >= 0) & (flat < num_labels))
    if wrong.any():
        raise ValueError(
            f"y has label {flat[wrong][0]} in row {row[wrong][0]}; they are numbered 0 to "
            f"{num_labels - 1}. Nothing of the chunk was learned"
        )
    flat, row = flat[named], row[named]
    length = np.bincount(row, minlength=count)
    places = np.repeat(length[:, None] + 1, num_labels + 1, axis=1)
    places[:, num_labels] = length
    places[row, flat] = np.arange(flat.size) - np.repeat(np.cumsum(length) - length, length)
    repeated = (places[:, :num_labels] < length[:, None]).sum(axis=1) < length
    if repeated.any():
        raise ValueError(
            f"y names a label twice in row {int(np.argmax(repeated))}; name it once. Nothing of "
            "the chunk was learned"
        )
    return places


@partial(jax.jit, static_argnums=0)
def _learn(
    options: _Constraints, weights: JaxArray, block: tuple[Any, Any, Any]
) -> tuple[JaxArray, JaxArray]:
    """Learn examples (B, d), with their targets, of those used; count which changed the weights."""

    def step(weights: JaxArray, example: Any) -> tuple[JaxArray, JaxArray]:
        x, targets, used = example
        utility = weights @ x
        if len(targets) > 1:  # of constraints
            beta, count = _broken(utility, *targets)
            loss = count / jnp.maximum(sum(jnp.sum(part) for part in targets), 1)
        else:
            loss = _loss(options.loss, _predicted(utility), targets[0])
            beta, count = _violations(options, utility, targets[0])
        rate = jnp.where(used & (count > 0), loss / jnp.maximum(count, 1), 0.0)
        return weights + rate * beta[:, None] * x, rate > 0

    weights, moved = lax.scan(step, weights, jax.tree.map(jnp.asarray, block))
    return weights, jnp.sum(moved)


def _predicted(utility: JaxArray) -> JaxArray:
    """Places of labels and zero in the ranking of the labels of positive utility."""
    number = jnp.arange(utility.size)
    higher = utility[:, None] > utility
    ahead = higher | ((utility[:, None] == utility) & (number[:, None] < number))
    positive = utility > 0
    count = jnp.sum(positive)
    place = jnp.sum(ahead & positive[:, None], axis=0)
    return jnp.append(jnp.where(positive, place, count + 1), count)


def _loss(name: str, first: JaxArray, second: JaxArray) -> JaxArray:
    """Normalised distance of two bucket orders, given as places of q alternatives."""
    apart = jnp.sign(first[:, None] - first) - jnp.sign(second[:, None] - second)
    count = first.size
    if name == "kendall":
        return jnp.sum(jnp.abs(apart)) / (2 * count * (count - 1))
    return jnp.sum(jnp.abs(jnp.sum(apart, axis=1))) / (2 * (count**2 // 2))


def _violations(
    options: _Constraints, utility: JaxArray, places: JaxArray
) -> tuple[JaxArray, JaxArray]:
    """How often each label is to rise less how often it is to fall, and the constraints broken."""
    labels, length = places[:-1], places[-1]
    relevant, irrelevant = labels < length, labels > length
    upper = (labels == length - 1) if options.lowest else relevant
    gap = labels - labels[:, None]
    ordered = (gap == 1) if options.adjacent else (gap > 0)
    wanted = ordered & relevant[:, None] & relevant
    wanted |= upper[:, None] & irrelevant
    return _broken(utility, wanted, upper, irrelevant)


def _broken(
    utility: JaxArray, pairs: JaxArray, above: JaxArray, below: JaxArray
) -> tuple[JaxArray, JaxArray]:
    """Do as `_violations`, for constraints in tables (c, c), (c,) and (c,)."""
    broken = pairs & (utility[:, None] <= utility)
    low, high = above & (utility <= 0), below & (utility >= 0)
    beta = broken.sum(1) - broken.sum(0) + low.astype(int) - high
    return beta, jnp.sum(broken) + jnp.sum(low) + jnp.sum(high)
