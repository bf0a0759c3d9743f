"""EM's steps on a state: the E-step of all users, the M-step, and the log prior density."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesrank.solvers.collaborative.likelihoods import Likelihood, ObservedMoments, Parameters
from bayesrank.solvers.collaborative.shared import SharedProcess
from bayesrank.solvers.collaborative.state import EMState
from bayesrank.solvers.collaborative.users import Observations, groups_of, posteriors, scatter

Array = NDArray[Any]


class Expected(NamedTuple):
    """What the E-step found of a state."""

    state: EMState  # with new sites
    log_evidence: float
    delta: float  # see `likelihoods.Update`
    statistics: tuple[Array, ...]  # of the likelihood, summed over each user's observations
    trace: Array  # ``a' Sigma_jj a - tr(G Sigma_jj)`` of each user, (n,)
    level_score: Array  # ``1' a``, (n,)
    level_information: Array  # ``1' G 1``, (n,)
    shift: Array  # sums over users, see `users.scatter`
    spread: Array


class EMSteps:
    """The steps for a set of observations and a likelihood.

    With `shared` users share mean and kernel, and the state and the items of the observations are
    those inside of it; without, each has a level and scale of the state's own kernel.
    """

    def __init__(
        self, observations: Observations, likelihood: Likelihood, shared: SharedProcess | None
    ) -> None:
        self.observations, self.likelihood, self.shared = observations, likelihood, shared
        self.groups = groups_of(observations)
        self.count = np.bincount(observations.users, minlength=observations.num_users)
        self.there = self.count > 0
        self._order = np.argsort(observations.users, kind="stable")
        self._starts = (np.cumsum(self.count) - self.count)[self.there]

    def expect(self, state: EMState, *, gather: bool = True) -> Expected:
        """Make the E-step; `gather` the sums that only the M-step needs.

        Raises
        ------
        numpy.linalg.LinAlgError
            If something is not positive definite or not a number.
        """
        seen, likelihood = self.observations, self.likelihood
        theta = state.theta[seen.users]
        tau, nu = likelihood.sites(state.tau, state.nu, seen.levels, theta)
        state, kernel = state._replace(tau=tau, nu=nu), state.kernel
        if self.shared is not None:
            kernel = self.shared.kernel_of_all(kernel, state.scales)
        rows, own = np.empty((4, len(tau))), np.zeros((3, seen.num_users))
        pooled = gather and self.shared is not None
        m, log_det = len(state.mean), 0.0
        shift, spread = np.zeros(m), np.zeros((m, m) if pooled else (0, 0))
        for stack in posteriors(self.groups, seen, state.mean, kernel, state):
            for row, values in zip(
                rows, (stack.prior_mean, stack.shift, stack.mean, stack.variance), strict=True
            ):
                row[stack.rows] = values
            log_det += stack.log_det.sum()
            if pooled:
                scatter(stack, seen, shift, spread)
            elif gather:
                explained = (stack.gain * stack.covariance).sum((1, 2))
                own[0, stack.users] = (stack.shift * stack.mean).sum(-1) - explained
                own[1:, stack.users] = stack.shift.sum(-1), stack.gain.sum((1, 2))
        update = likelihood.update(tau, nu, ObservedMoments(seen.levels, theta, *rows))
        return Expected(
            state._replace(tau=update.tau, nu=update.nu),
            float(update.log_evidence.sum() - 0.5 * log_det),
            update.delta,
            tuple(self._by_user(x) for x in update.statistics) if gather else (),
            own[0],
            own[1],
            own[2],
            shift,
            spread,
        )

    def _by_user(self, rows: Array) -> Array:
        """Sums of rows (K, ...) over each user with observations, (u, ...)."""
        return np.add.reduceat(rows[self._order], self._starts)

    def _params(self, state: EMState) -> Parameters:
        """Parameters of the users with observations."""
        return Parameters(state.shared_theta, state.spread, state.theta[self.there])

    def log_prior(self, state: EMState) -> float:
        """Log prior density of what is estimated, up to a constant."""
        value = self.likelihood.log_prior(self._params(state))
        return value if self.shared is None else value + self.shared.log_prior(state)

    def maximize(self, found: Expected, *, learn: bool = True) -> EMState:
        """The state after the M-step; `learn` the scales of the base, too."""
        state, num_users = found.state, int(self.there.sum())
        if self.shared is not None:
            sums = found.shift, found.spread
            state = self.shared.maximize(state, *sums, num_users, learn=learn)
            return self.users_own(state, found, pooled=True)
        # Each user's own level and scale, as in a model of this user alone.
        scale = state.user_scale * (1.0 + found.trace / np.maximum(self.count, 1))
        state = state._replace(user_scale=scale)
        if self.likelihood.sees_level:
            step = found.level_score / np.where(self.there, found.level_information, 1.0)
            state = state._replace(user_level=state.user_level + step)
        return self.users_own(state, found, pooled=False)

    def users_own(self, state: EMState, found: Expected, *, pooled: bool) -> EMState:
        """The M-step of the likelihood; users without observations have what is shared."""
        if not state.shared_theta.size:
            return state
        shared, own = self.likelihood.m_step(
            self._params(state), self.count[self.there], found.statistics, pooled=pooled
        )
        theta = np.tile(shared, (len(state.theta), 1))
        theta[self.there] = own
        return state._replace(shared_theta=shared, theta=theta)
