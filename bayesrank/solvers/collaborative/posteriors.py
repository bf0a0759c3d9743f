r"""Users' posteriors; users with equally many observations are one stack, so nothing is padded.

User :math:`j` has a function :math:`f_j \sim N(h, \Sigma)`, seen through the rows of :math:`P_j` by
sites of precisions :math:`T` and precision-means :math:`\nu`. With :math:`\Sigma_{jj} = P_j \Sigma
P_j'` and :math:`B = I + T^{1/2} \Sigma_{jj} T^{1/2}`,

.. math::
    G_j = T^{1/2} B^{-1} T^{1/2}, \quad
    a_j = T^{1/2} B^{-1} T^{-1/2} (\nu - T P_j h), \quad
    \hat f_j = h + \Sigma P_j' a_j, \quad
    \hat\Sigma_j = \Sigma - \Sigma P_j' G_j P_j \Sigma,

and the predictors' variances are :math:`(1 - \mathrm{diag} B^{-1}) / T`. A precision may be zero.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_lapack_funcs

Array = NDArray[Any]

_potrf, _potri = get_lapack_funcs(("potrf", "potri"), dtype=np.float64)

_NUMBERS_IN_STACK = 4_000_000  # 32 MB for each temporary array
# From this size on, LAPACK takes less time for one matrix than NumPy for its share of a stack.
_LARGE = 48
# Where a prior variance times a precision is smaller, the variance is a difference of equals.
_UNINFORMATIVE = 1e-8


class Observations(NamedTuple):
    """Observations of all users, an entry each, in any order."""

    users: NDArray[np.int64]  # (K,), from 0 to ``num_users - 1``
    items: NDArray[np.int64]  # (K, w): one for a rating, two for a comparison
    weights: tuple[float, ...]  # of each in the predictor, (w,): 1, or 1 and -1
    levels: Array  # a level from 0, a number, or 1: the first won; (K,)
    num_users: int
    num_items: int


class UserGroup(NamedTuple):
    """Users with ``s`` observations each."""

    users: NDArray[np.int64]  # (b,)
    rows: NDArray[np.int64]  # of their observations, (b, s)


class Stack(NamedTuple):
    """Posteriors of the users of a group."""

    users: NDArray[np.int64]
    rows: NDArray[np.int64]
    prior_mean: Array  # of the predictors, (b, s)
    shift: Array  # ``a``, (b, s)
    mean: Array  # of the predictors, less the prior's, (b, s)
    variance: Array  # (b, s)
    covariance: Array  # their prior's, (b, s, s)
    gain: Array  # ``G``, (b, s, s)
    log_det: Array  # ``log |B|``, (b,)


def groups_of(observations: Observations, users: Any = None) -> list[UserGroup]:
    """Groups of all users with observations, or of those of `users` who have any."""
    counts = np.bincount(observations.users, minlength=observations.num_users)
    # By item, too: what is read from and added to the kernel then lies close together.
    order = np.lexsort((observations.items[:, 0], observations.users))
    starts = np.cumsum(counts) - counts
    wanted = counts > 0
    if users is not None:
        wanted &= np.isin(np.arange(observations.num_users), users)
    groups = []
    for size in np.unique(counts[wanted]):
        members = np.flatnonzero(wanted & (counts == size))
        num_parts = min(-(-len(members) * int(size) ** 2 // _NUMBERS_IN_STACK), len(members))
        for part in np.array_split(members, num_parts):
            groups.append(UserGroup(part, order[starts[part][:, None] + np.arange(size)]))
    return groups


def prior_of(
    group: UserGroup, observations: Observations, mean: Array, kernel: Array, state: Any
) -> tuple[Array, Array]:
    """Prior mean (b, s) and covariance (b, s, s) of a group's predictors."""
    items, weights = observations.items[group.rows], observations.weights
    level = state.user_level[group.users, None, None]
    covariance: Any = 0.0
    for i, p in enumerate(weights):
        for j, q in enumerate(weights):
            part = kernel[items[:, :, None, i], items[:, None, :, j]]
            covariance = part if len(weights) == 1 else covariance + p * q * part
    scale = state.user_scale[group.users]
    if np.any(scale != 1.0):
        covariance *= scale[:, None, None]
    return (mean[items] + level) @ np.asarray(weights), covariance


def posteriors(
    groups: list[UserGroup], observations: Observations, mean: Array, kernel: Array, state: Any
) -> Iterator[Stack]:
    """Posteriors of all users of the groups, by the sites and the users' own of an `EMState`.

    Raises
    ------
    numpy.linalg.LinAlgError
        If the kernel, or a site, is not positive definite or not a number.
    """
    for group in groups:
        prior_mean, covariance = prior_of(group, observations, mean, kernel, state)
        tau, diagonal = state.tau[group.rows], np.arange(group.rows.shape[1])
        root, own = np.sqrt(tau), covariance[:, diagonal, diagonal]
        inner = root[:, :, None] * covariance * root[:, None, :]
        inner[:, diagonal, diagonal] += 1.0
        inverse, log_det = _inverses(inner)
        safe = np.where(tau > 0.0, root, 1.0)
        told = (state.nu[group.rows] - tau * prior_mean) / safe
        shift = root * (inverse @ told[..., None])[..., 0]
        gain = root[:, :, None] * inverse * root[:, None, :]
        variance = (1.0 - inverse[:, diagonal, diagonal]) / safe**2
        little = tau * own < _UNINFORMATIVE
        if little.any():
            variance = np.where(little, own - ((covariance @ gain) * covariance).sum(-1), variance)
        step = (covariance @ shift[..., None])[..., 0]
        yield Stack(*group, prior_mean, shift, step, variance, covariance, gain, log_det)


def scatter(stack: Stack, observations: Observations, shift: Array, spread: Array) -> None:
    """Add a stack to ``sum_j P_j' a_j`` (m,) and ``sum_j P_j' (a_j a_j' - G_j) P_j`` (m, m)."""
    items, weights = observations.items[stack.rows], observations.weights
    for i, p in enumerate(weights):
        np.add.at(shift, items[..., i], p * stack.shift)
    for user, a in enumerate(stack.shift):
        local = np.outer(a, a) - stack.gain[user]
        for i, p in enumerate(weights):
            for j, q in enumerate(weights):
                place = items[user, :, None, i], items[user, None, :, j]
                if len(weights) == 1:  # nobody rates an item twice
                    spread[place] += local
                else:
                    np.add.at(spread, place, p * q * local)


def inverse(matrix: Array) -> tuple[Array, float]:
    """Inverse and log determinant of a positive definite matrix."""
    factor, failed = _potrf(matrix, lower=1)
    if failed:
        raise np.linalg.LinAlgError("matrix is not positive definite")
    log_det = 2.0 * float(np.log(np.diagonal(factor)).sum())
    lower = _potri(factor, lower=1, overwrite_c=1)[0]  # with zeros above the diagonal
    found = lower + lower.T
    np.fill_diagonal(found, np.diagonal(lower))
    return found, log_det


def _inverses(matrices: Array) -> tuple[Array, Array]:
    """The same of a stack (b, s, s)."""
    if matrices.shape[-1] < _LARGE:
        pivots = np.diagonal(np.linalg.cholesky(matrices), axis1=1, axis2=2)
        return np.linalg.inv(matrices), 2.0 * np.log(pivots).sum(-1)
    found = [inverse(matrix) for matrix in matrices]
    return np.stack([x for x, _ in found]), np.array([x for _, x in found])
