r"""Labels ranked for each example, from its features, with a zero that parts the relevant ones.

Label :math:`a` has the utility :math:`u_a(x) = b_a + w_a' \phi(x)` for an example, and one more
alternative, the zero, has utility zero [1]_. In an example every alternative performs at its
utility plus noise of its own. The data say which of these performances are better than which: they
order some labels, or part them into relevant ones, better than the zero, and irrelevant ones. A
ranking of ten labels is one event, with a noise for each performance and not for each pair, see
`bayesrank.models.orders`.

A label's noise has standard deviation one, which sets the unit of utility. That of the zero is
learned: the larger it is, the more the labels of an example are relevant, or not, together. With
none at all, sets alone make each label a probit regression by itself.

References
----------
.. [1] Brinker, K. and Huellermeier, E. (2005). Calibrated label-ranking. NIPS Workshop on Learning
   to Rank.
"""

import math
from collections.abc import Collection, Sequence, Set
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import numpyro
import numpyro.distributions as dist
from jax import Array
from jax.typing import ArrayLike
from numpy.typing import NDArray
from numpyro.distributions.transforms import ReshapeTransform

from bayesrank import gp
from bayesrank._validate import check_count, check_features, check_places
from bayesrank.distributions import Thurstone

STEP = 0.02
"""Standard deviation of the small noise of each of two performances that are compared."""

LEVEL = 2.0
"""Prior standard deviation of the level of a label, in units of the noise of a performance."""

_CONCENTRATION = 5.0  # of correlations of labels: at one, all matrices are as probable

# Entries of the relations that are worked on at once.
_BLOCK = 2**24

Group = int | Sequence[int]
LabelOrder = Sequence[Group] | Set[tuple[int, int]]


class LabelConditions(NamedTuple):
    """What examples say, as pairs of alternatives; what an example does not need is -1."""

    # Numbers of the better and the worse alternative of each condition, shape (n, M). Labels are
    # ``0..c-1``, and the zero is ``c``.
    better: NDArray[np.int64]
    worse: NDArray[np.int64]


def conditions(
    num_labels: int,
    rankings: Sequence[LabelOrder | None] | None = None,
    relevant: npt.ArrayLike | None = None,
    *,
    implied: bool = False,
) -> LabelConditions:
    """Turn targets into the fewest conditions that say as much.

    Conditions that follow from others are left out: ``y1 > ... > yl > zero > rest`` leaves only
    neighbours.

    Parameters
    ----------
    num_labels : int
        Number of labels c.
    rankings : sequence of length n, optional
        For each example, an order of some labels, or None. An order is a sequence of groups, best
        first, as in `bayesrank.models.orders.events`: ``[3, 1, 2]``, or ``[3, (0, 1)]``, which says
        nothing between 0 and 1. A set of pairs (better, worse) is a partial order.
    relevant : ArrayLike, optional
        Shape (n, c): 1 if a label is relevant for an example, 0 if it is not, -1 if unknown.
    implied : bool, default False
        Whether to include conditions that follow from others as well.

    Raises
    ------
    ValueError
        If nothing is said at all, or an argument has another shape. If an example repeats a label,
        names one that does not exist, or contradicts itself.

    Examples
    --------
    >>> conditions(3, [[2, 0]], [[1, 0, 1]])
    LabelConditions(better=array([[0, 2, 3]]), worse=array([[3, 0, 1]]))
    """
    num_labels = check_count(num_labels, "num_labels", 2)
    sets = None if relevant is None else _check_sets(relevant, num_labels)
    if rankings is None and sets is None:
        raise ValueError("rankings and relevant are missing; pass one of them, or both")
    count = len(rankings) if rankings is not None else 0 if sets is None else len(sets)
    if sets is not None and len(sets) != count:
        raise ValueError(
            f"rankings has {count} examples and relevant {len(sets)}; pass one entry for each"
        )
    blocks = []
    step = max(1, _BLOCK // (num_labels + 1) ** 2)
    for start in range(0, count, step):
        said = np.zeros((min(step, count - start), num_labels + 1, num_labels + 1), bool)
        for number in range(len(said)):
            ranking = None if rankings is None else rankings[start + number]
            for better, worse in _pairs(start + number, ranking, num_labels):
                said[number, better, worse] = True
        if sets is not None:
            part = sets[start : start + step]
            said[:, :num_labels, num_labels] = part == 1
            said[:, num_labels, :num_labels] = part == 0
        closed = _closed(said, start)
        kept = closed if implied else _reduced(closed)
        blocks += [np.argwhere(kept) + [start, 0, 0]]
    found = np.concatenate(blocks) if blocks else np.zeros((0, 3), int)
    if not len(found):
        raise ValueError("no example says anything; pass a ranking or a set of labels of one")
    return _padded(found, count)


def _check_sets(relevant: npt.ArrayLike, num_labels: int) -> NDArray[np.int64]:
    table = np.asarray(relevant)
    if table.ndim != 2 or table.shape[1] != num_labels or table.dtype.kind not in "biuf":
        raise ValueError(
            f"relevant has shape {table.shape} and dtype {table.dtype}; pass numbers "
            f"(n, {num_labels}), one for each label of each example"
        )
    if not np.isin(table, (-1, 0, 1)).all():
        row, column = np.argwhere(~np.isin(table, (-1, 0, 1)))[0]
        raise ValueError(
            f"relevant is {table[row, column]} in row {row}, column {column}; pass 1 for "
            "relevant, 0 for irrelevant, -1 for unknown"
        )
    return table.astype(np.int64)


def _pairs(number: int, ranking: LabelOrder | None, num_labels: int) -> list[tuple[int, int]]:
    """Pairs (better, worse) that an example's ranking states."""
    if ranking is None:
        return []
    if isinstance(ranking, Set):
        pairs: list[Any] = list(ranking)
        if not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
            raise ValueError(
                f"rankings has a set in example {number} that is not one of pairs (better, "
                "worse); pass a list for an order"
            )
        _check_labels(number, [label for pair in pairs for label in pair], num_labels)
        return pairs
    groups = [list(g) if isinstance(g, Collection | np.ndarray) else [g] for g in ranking]
    labels = [label for group in groups for label in group]
    _check_labels(number, labels, num_labels)
    if len(set(labels)) < len(labels):
        raise ValueError(f"rankings names a label twice in example {number}; name it once")
    filled = [group for group in groups if group]
    return [
        (better, worse)
        for upper, lower in zip(filled[:-1], filled[1:], strict=True)
        for better in upper
        for worse in lower
    ]


def _check_labels(number: int, labels: list[int], num_labels: int) -> None:
    for label in labels:
        whole = isinstance(label, int | np.integer) and not isinstance(label, bool)
        if not whole or not 0 <= label < num_labels:
            raise ValueError(
                f"rankings names {label!r} in example {number}; the labels are numbered 0 to "
                f"{num_labels - 1}"
            )


def _closed(said: NDArray[np.bool_], start: int) -> NDArray[np.bool_]:
    """Add to relations (n, q, q) what follows from them; refuse those with a cycle."""
    closed = said.copy()
    for middle in range(said.shape[1]):
        closed |= closed[:, :, middle, None] & closed[:, None, middle, :]
    cycles = np.diagonal(closed, axis1=1, axis2=2)
    if cycles.any():
        number, label = np.argwhere(cycles)[0]
        what = "the zero" if label == said.shape[1] - 1 else f"label {label}"
        raise ValueError(
            f"what is said of example {start + number} contradicts itself: {what} would be better "
            "than itself; correct its ranking, or which labels are relevant"
        )
    return closed


def _reduced(closed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Leave out of closed relations what follows from the rest."""
    implied = np.zeros_like(closed)
    for middle in range(closed.shape[1]):
        implied |= closed[:, :, middle, None] & closed[:, None, middle, :]
    return closed & ~implied


def _padded(found: NDArray[np.int64], count: int) -> LabelConditions:
    """Pairs of alternatives, one row for each example."""
    each = np.bincount(found[:, 0], minlength=count)
    place = np.arange(len(found)) - np.repeat(np.cumsum(each) - each, each)
    table = np.full((2, count, each.max()), -1)
    table[0, found[:, 0], place], table[1, found[:, 0], place] = found[:, 1], found[:, 2]
    return LabelConditions(*table)


def label_features(X: Array, basis: Array | None, lengthscale: ArrayLike | None) -> Array:
    r"""Features that utilities are linear in: `X`, (n, d), or those of a basis, (n, m).

    A basis Z, (m, d), gives :math:`\phi(x) = L^{-1} k(Z, x)` with :math:`L L' = k(Z, Z)`, and k the
    squared-exponential kernel of amplitude one and this lengthscale.
    """
    if basis is None or lengthscale is None:
        return X
    kernel = gp.rbf(1.0, lengthscale)
    root = jnp.linalg.cholesky(gp.gram(kernel, basis))
    return jax.scipy.linalg.solve_triangular(root, kernel(basis, X), lower=True).T


def calibrated_label_ranking(
    X: ArrayLike,
    better: ArrayLike,
    worse: ArrayLike,
    num_labels: int,
    *,
    basis: ArrayLike | None = None,
    calibrated: bool = True,
    correlated: bool = False,
    step: float = STEP,
) -> None:
    r"""Utilities of labels, whose noisy performances are put in order example by example.

    ================ =============================== ===========================================
    site             prior                           meaning
    ================ =============================== ===========================================
    ``scale``        LogNormal(-log(d) / 2, 1)       prior sd of a weight; with a basis, that of
                     or LogNormal(0, 1)              a utility
    ``lengthscale``  LogNormal(log(d) / 2, 1)        distance over which utilities vary (basis)
    ``correlation``  LKJ(5), shape (c, c)            of the weights of labels, if correlated
    ``zero_noise``   LogNormal(-1, 1)                sd of the zero's noise, if calibrated
    ``bias``         Normal(0, 2), shape (c,)        levels of the labels
    ``w``            Normal(0, scale), shape (c, p)  weights of features, with that correlation
    ``noise``        Normal(0, 1), shape (n, q)      of each alternative in each example
    ``order``        observed, shape (n, M)          1 for each condition
    ================ =============================== ===========================================

    Parameters
    ----------
    X : ArrayLike
        Standardised features of the examples, shape (n, d).
    better, worse : ArrayLike
        Conditions, as `conditions` makes them, shape (n, M).
    num_labels : int
        Number of labels c.
    basis : ArrayLike, optional
        Points of a basis, see `label_features`, shape (m, d).
    calibrated : bool, default True
        Whether there is a zero among the alternatives.
    correlated : bool, default False
        Whether utilities of labels are correlated. Those of labels a and b then have the covariance
        :math:`scale^2 R_{ab} \phi(x)' \phi(x')` (the intrinsic model of coregionalisation).
    step : float, default 0.02
        Standard deviation of small noise on each side of a condition, in units of the noise of a
        performance. Without it EP's sites would be edges.

    Raises
    ------
    ValueError
        If `X` or `basis` is not an array of finite numbers with the same columns, or conditions
        are of other alternatives.

    Examples
    --------
    >>> import jax
    >>> from bayesrank.infer import EP
    >>> found = conditions(2, relevant=[[1, 0], [0, 1], [0, 1]])
    >>> X = np.array([[1.0], [-1.0], [-0.5]])
    >>> result = EP(calibrated_label_ranking).run(jax.random.key(0), X, *found, 2)
    >>> bool(result.mean["w"][0, 0] > 0 > result.mean["w"][1, 0])
    True
    """
    X = check_features(X, "X")
    num_labels = check_count(num_labels, "num_labels", 2)
    half_log = 0.5 * math.log(X.shape[1])
    scale = numpyro.sample("scale", dist.LogNormal(0.0 if basis is not None else -half_log, 1.0))
    lengthscale = None
    if basis is not None:
        basis = check_features(basis, "basis", columns=X.shape[1])
        lengthscale = numpyro.sample("lengthscale", dist.LogNormal(half_log, 1.0))
    phi = label_features(X, basis, lengthscale)
    bias = numpyro.sample("bias", dist.Normal(0.0, LEVEL).expand([num_labels]).to_event(1))
    shape = num_labels, phi.shape[1]
    weights: Any = dist.Normal(0.0, scale).expand(shape).to_event(2)
    if correlated:
        correlation = numpyro.sample("correlation", dist.LKJ(num_labels, _CONCENTRATION))
        root = jnp.kron(jnp.linalg.cholesky(jnp.asarray(correlation)), jnp.eye(shape[1]))
        flat = dist.MultivariateNormal(0.0, scale_tril=jnp.asarray(scale) * root)
        weights = dist.TransformedDistribution(flat, ReshapeTransform(shape, (math.prod(shape),)))
    w = numpyro.sample("w", weights)
    utility = jnp.asarray(bias) + phi @ jnp.asarray(w).T
    own = jnp.ones(num_labels)
    if calibrated:
        zero_noise = numpyro.sample("zero_noise", dist.LogNormal(-1.0, 1.0))
        utility = jnp.concatenate([utility, jnp.zeros((len(X), 1))], axis=1)
        own = jnp.append(own, jnp.asarray(zero_noise))
    with numpyro.plate("examples", len(X), dim=-2), numpyro.plate("alternatives", own.size):
        noise = numpyro.sample("noise", dist.Normal(0.0, 1.0))
    performance = utility + own * jnp.asarray(noise)
    upper, lower = check_places(better, "better", own.size), check_places(worse, "worse", own.size)
    margin = _at(performance, upper, 0) - _at(performance, lower, 1)
    with numpyro.plate("examples", len(X), dim=-2), numpyro.plate("conditions", upper.shape[1]):
        distribution = Thurstone(margin, step).mask(upper >= 0)
        numpyro.sample("order", distribution, obs=jnp.ones(upper.shape, int))


def _at(performance: Array, alternatives: Array, spare: int) -> Array:
    """Performances of alternatives in each example, and of a spare one, which differs by side."""
    places = jnp.where(alternatives >= 0, alternatives, spare)
    return jnp.take_along_axis(performance, places, axis=1, mode="clip")
