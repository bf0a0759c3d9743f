r"""What a likelihood is to EM: an object with its start, prior, sites, and M-step.

Users' posteriors; users with equally many observations are one stack, so nothing is padded.

User :math:`j` has a function :math:`f_j \sim N(h, \Sigma)`, seen through the rows of :math:`P_j` by
sites of precisions :math:`T` and precision-means :math:`\nu`. With :math:`\Sigma_{jj} = P_j \Sigma
P_j'` and :math:`B = I + T^{1/2} \Sigma_{jj} T^{1/2}`,

.. math::
    G_j = T^{1/2} B^{-1} T^{1/2}, \quad
    a_j = T^{1/2} B^{-1} T^{-1/2} (\nu - T P_j h), \quad
    \hat f_j = h + \Sigma P_j' a_j, \quad
    \hat\Sigma_j = \Sigma - \Sigma P_j' G_j P_j \Sigma,

and the predictors' variances are :math:`(1 - \mathrm{diag} B^{-1}) / T`. A precision may be zero.

- ``GaussianNoise`` sees ``a + c (x - a)`` plus normal noise, with ``theta`` the anchor ``a``,
  ``log c`` and the log noise. The anchor is the mean of all numbers.
- ``Probit`` sees the two thresholds that x plus normal noise lies between; ``Logit`` has logistic
  noise. Their ``theta`` is the log gaps between thresholds, and the log noise.
- ``Pairwise`` sees the first item win, by the logistic of ``x = f(a) - f(b)``, without ``theta``.

Thresholds have mean zero, and users' shared noise of levels is one: ``f`` carries level and scale.
A user's ``theta`` is the shared one plus normal deviations, as in `bayesrank.models.collaborative`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_lapack_funcs
from scipy.stats import norm

from bayesrank._sizes import next_size
from bayesrank.distributions import BradleyTerry
from bayesrank.infer.spi import cavity, jit, log_sites, match

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
    covariance: Array  # their prior's, (b, s, s)
    gain: Array  # ``G``, (b, s, s)
    shift: Array  # ``a``, (b, s)
    mean: Array  # of the predictors, less the prior's, (b, s)
    variance: Array  # (b, s)
    log_det: Array  # ``log |B|``, (b,)


def groups_of(observations: Observations, users: Any = None) -> list[UserGroup]:
    """Groups of all users with observations, or of those of `users` who have any."""
    counts = np.bincount(observations.users, minlength=observations.num_users)
    order, starts = np.argsort(observations.users, kind="stable"), np.cumsum(counts) - counts
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
        yield Stack(*group, prior_mean, covariance, gain, shift, step, variance, log_det)


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


_FEWEST_ROWS, _MOST_ROWS = 32, 32_768  # of what is compiled: shapes are powers of two in between


class Start(NamedTuple):
    """Where EM starts: parameters (p,), level and variance of the functions."""

    theta: Array
    level: float
    variance: float


class Parameters(NamedTuple):
    """Parameters of a likelihood: shared, the spread of users about these, and of some users."""

    shared: Array  # (p,)
    spread: Array  # (p,), zero where users do not differ
    theta: Array  # (u, p)


class ObservedMoments(NamedTuple):
    """What the E-step found of the predictor of each observation (K,)."""

    levels: Array
    theta: Array  # of the user, (K, p)
    prior_mean: Array
    shift: Array  # derivative of the log evidence in the prior mean
    mean: Array  # the posterior's less the prior's
    variance: Array


class Update(NamedTuple):
    """What a likelihood makes of these."""

    tau: Array  # new sites, (K,)
    nu: Array
    log_evidence: Array  # terms of it, but for the users' log determinants, (K,)
    delta: float  # how far a posterior mean is from the tilted, in the cavity's deviations
    statistics: tuple[Array, ...]  # a row each; `Likelihood.m_step` gets users' sums


@dataclass(frozen=True)
class Likelihood:
    """One kind of observation."""

    name: ClassVar[str]  # what `EM` knows it by
    exact: ClassVar[bool] = False  # whether posterior and evidence are exact; if not, they are EP's
    sets_unit: ClassVar[bool] = True  # whether noise is the unit: only ratios are learned
    sees_level: ClassVar[bool] = True  # whether an observation depends on the level of a function

    def start(self, levels: Array, num_levels: int | None, *, collaborative: bool) -> Start:
        """Values to start from."""
        return Start(np.zeros(0), 0.0, 1.0)

    def spread(self, size: int, user_spread: float, *, collaborative: bool) -> Array:
        """Spread of users' parameters, shape (p,), where that of those that may differ is given."""
        return np.full(size, user_spread)

    def program_params(self, shared: Array, factors: Array | None) -> dict[str, Any]:
        """Sites of the program: shared parameters, and users' factors (n, p) where they differ."""
        return {}

    def log_prior(self, params: Parameters) -> float:
        """Log density of the deviations of users."""
        free = params.spread > 0
        deviations = (params.theta - params.shared)[:, free]
        return float(norm.logpdf(deviations, scale=params.spread[free]).sum())

    def sites(self, tau: Array, nu: Array, levels: Array, theta: Array) -> tuple[Array, Array]:
        """Sites (K,) to begin the E-step with, theta (K, p) those of the observations' users."""
        return tau, nu

    def update(self, tau: Array, nu: Array, rows: ObservedMoments) -> Update:
        """Make a parallel sweep of EP, from the sites of the posterior that the rows are of."""
        before = nu - tau * rows.prior_mean  # measured from the prior mean
        new_tau, new_nu, terms, moved, statistics = in_pieces(_tilt, self, tau, before, rows)
        terms = terms + 0.5 * before * rows.mean
        nu = new_nu + new_tau * rows.prior_mean
        return Update(new_tau, nu, terms, float(moved.max()), statistics)

    def tilted(self, theta: Any, level: Any, mean: Any, variance: Any) -> tuple[Any, tuple]:
        """Moments of one observation at its cavity, and its statistics."""
        raise NotImplementedError

    def m_step(
        self, params: Parameters, count: Array, statistics: tuple[Array, ...], *, pooled: bool
    ) -> tuple[Array, Array]:
        """Improve what users share (p,), if `pooled`, and their own (u, p); `count` is (u,)."""
        return params.shared, params.theta

    def alone(
        self,
        params: Parameters,
        observations: Observations,
        priors: list[tuple[UserGroup, Array, Array]],
    ) -> tuple[Array, float] | None:
        """Own parameters (n, p) given what is shared, and the last step, if better than by EM."""
        return None


class Pairwise(Likelihood):
    """Comparisons of two items by the logistic of their difference; nothing to learn."""

    name = "pairwise"
    sees_level = False

    def tilted(self, theta: Any, level: Any, mean: Any, variance: Any) -> tuple[Any, tuple]:
        """Moments of a win of the first."""
        return BradleyTerry(0.0, validate_args=False).tilted_moments(1, mean, variance), ()


@partial(jit, static_argnums=0)
def _tilt(likelihood: Likelihood, tau: Any, nu: Any, rows: Any) -> Any:
    """New sites, terms of the evidence, how far means move, and statistics, all of (K,) rows."""
    m, v, _ = cavity(tau, nu, rows.mean, rows.variance)
    at = rows.theta, rows.levels, rows.prior_mean + m, v
    moments, statistics = jax.vmap(likelihood.tilted)(*at)
    new_tau, new_nu, _ = match(moments, m, v)
    # The tilted mean against the posterior's, which EP makes equal.
    moved = jnp.abs(m + moments.d1 * v - rows.mean) / jnp.sqrt(v)
    return new_tau, new_nu, moments.log_z - log_sites(tau, nu, m, v), moved, statistics


def in_pieces(function: Callable[..., Any], likelihood: Likelihood, *columns: Any) -> Any:
    """Apply a jitted function to rows (K, ...) of columns, in pieces of few sizes."""
    count, found = len(columns[0]), []
    for start in range(0, max(count, 1), _MOST_ROWS):
        size = min(count - start, _MOST_ROWS)
        rows = next_size(size, _FEWEST_ROWS)

        def piece(x: Array, start: int = start, size: int = size, rows: int = rows) -> Array:
            return np.resize(x[start : start + size], (rows, *x.shape[1:]))

        made = function(likelihood, *jax.tree.map(piece, columns))
        found.append(jax.tree.map(lambda x, size=size: np.asarray(x)[:size], made))
    return jax.tree.map(lambda *x: np.concatenate(x), *found)
