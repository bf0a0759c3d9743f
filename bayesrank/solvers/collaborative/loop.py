"""EM on its way: the state, EM's own next where that is a proposal, and the objective so far.

Anderson's acceleration of a fixed-point iteration on flat arrays.

An iteration takes :math:`x` to :math:`g(x)`. A combination of the last few iterations makes their
residuals nearly cancel; the same combination of the :math:`g(x)` is the proposal (Walker and Ni,
2011, SIAM Journal on Numerical Analysis 49, 1715-1735). The proposal can be worse than the
iteration's own step. The caller compares, and if it is worse goes back and restarts; a few plain
steps then come before the next proposal (Henderson and Varadhan, 2019, Journal of Computational and
Graphical Statistics 28, 834-846).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesrank._validate import unit_of
from bayesrank.solvers.collaborative.likelihoods import Likelihood, ObservedMoments, Parameters
from bayesrank.solvers.collaborative.posteriors import (
    Observations,
    groups_of,
    posteriors,
    scatter,
)
from bayesrank.solvers.collaborative.shared import SharedProcess
from bayesrank.solvers.collaborative.state import EMState

Array = NDArray[Any]
Coordinates = tuple[Array, ...]


class Anderson:
    """The last iterations (`depth` at most), and what they propose from the `plain_steps`-th on."""

    def __init__(self, depth: int = 6, plain_steps: int = 4, ridge: float = 1e-8) -> None:
        self.depth, self.plain_steps, self.ridge = depth, plain_steps, ridge
        self.restart()

    def restart(self) -> None:
        """Forget all iterations, as after a proposal that was worse."""
        self._last: tuple[Coordinates, Array] | None = None
        self._images: list[Coordinates] = []
        self._residuals: list[Array] = []
        self._wait = self.plain_steps

    def propose(self, image: Coordinates, residual: Array) -> Coordinates | None:
        """Arrays beyond those of the image by residuals (e,), or None: go to the image itself."""
        if self._last is not None:
            before = self._last[0]
            moved = tuple(new - old for new, old in zip(image, before, strict=True))
            self._images = [*self._images, moved][-self.depth :]
            self._residuals = [*self._residuals, residual - self._last[1]][-self.depth :]
        self._last = image, residual
        self._wait -= 1
        if self._wait > 0 or not self._residuals:
            return None
        weights, moves = self._weights(residual), zip(*self._images, strict=True)
        return tuple(
            x - sum(w * move for w, move in zip(weights, each, strict=True))
            for x, each in zip(image, moves, strict=True)
        )

    def _weights(self, residual: Array) -> Array:
        """Least-squares weights of the differences that best make up the residual."""
        columns = [*self._residuals, residual]
        products = np.array([[a @ b for b in columns] for a in columns[:-1]])
        size = np.sqrt(np.diagonal(products))
        if not np.isfinite(products).all() or not size.all():
            return np.zeros(len(size))  # no number, or nothing has changed
        gram = products[:, :-1] / np.outer(size, size) + self.ridge * np.eye(len(size))
        return np.linalg.solve(gram, products[:, -1] / size) / size


class Expected(NamedTuple):
    """What the E-step found of a state."""

    state: EMState  # with new sites
    log_evidence: float
    delta: float  # see `likelihoods.Update`
    statistics: tuple[Array, ...]  # of the likelihood, summed over each user's observations
    trace: Array  # ``a' Sigma_jj a - tr(G Sigma_jj)`` of each user, (n,)
    level_score: Array  # ``1' a``, (n,)
    level_information: Array  # ``1' G 1``, (n,)
    shift: Array  # sums over users, see `posteriors.scatter`
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
        rows, own = np.empty((7, len(tau))), np.zeros((3, seen.num_users))
        pooled = gather and self.shared is not None
        m, log_det = len(state.mean), 0.0
        shift, spread = np.zeros(m), np.zeros((m, m) if pooled else (0, 0))
        for stack in posteriors(self.groups, seen, state.mean, kernel, state):
            for row, values in zip(rows, stack[2:6], strict=False):
                row[stack.rows] = values
            if likelihood.exact and gather:
                gain, ones = stack.gain, np.ones_like(stack.prior_mean)
                rows[4][stack.rows] = np.einsum("bst,bst->bs", gain, gain)
                for row, x in zip(rows[5:], (stack.prior_mean, ones), strict=True):
                    row[stack.rows] = (gain @ x[..., None])[..., 0]
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


# Iterations that together change the objective by little: single ones do so again and again on the
# way, where acceleration pauses.
_QUIET = 10
# Nats per observation: EP's evidence is right at its fixed point only.
_SLACK = 1e-5
# With more items, the scales of the base are learned in so many iterations: their step takes half
# the time of one, and they settle before kernel and mean do.
_FEW_ITEMS, _LEARNING = 500, 15


class Loop:
    """The state, the objective at those so far, and whether it was no number (`broken`)."""

    def __init__(self, steps: EMSteps, state: EMState, anderson: Anderson | None) -> None:
        self.steps, self.state, self._anderson = steps, state, anderson
        self.trace: list[float] = []
        self.broken = False
        self._sound: EMState | None = None  # the last whose objective is known
        self._plain: EMState | None = None  # EM's own next, if the present state is a proposal
        likelihood, levels = steps.likelihood, steps.observations.levels
        self._count = len(levels)
        self._slack = 0.0 if likelihood.exact else _SLACK * self._count
        # Whatever unit numbers are in, the acceleration is the same.
        self._unit = 1.0 if likelihood.sets_unit else unit_of(levels)

    @property
    def per_observation(self) -> float:
        """Objective divided by the number of observations."""
        return self.trace[-1] / self._count

    def step(self) -> None:
        """Make one iteration, and note the objective at its beginning."""
        found = self._checked()
        if self.broken:
            return
        self.trace.append(self.log_evidence + self.log_prior)
        self._sound = self.state
        learn = len(self.state.kernel) <= _FEW_ITEMS or len(self.trace) <= _LEARNING
        new = self.steps.maximize(found, learn=learn)
        self._plain, self.state = self._further(self.state, new)

    def _further(self, old: EMState, new: EMState) -> tuple[EMState | None, EMState]:
        """Go beyond EM's own step, if there is a proposal; that step, then, and where to go."""
        if self._anderson is None:
            return None, new
        try:
            after, before = (self._coordinates(x) for x in (new, old))
        except np.linalg.LinAlgError:  # which the next E-step finds and says
            return None, new
        # What residuals weigh comes first: kernel, shared parameters, and the mean in its unit.
        change = [(x - y).ravel() for x, y in zip(after[:3], before[:3], strict=True)]
        change[2] /= self._unit
        point = self._anderson.propose(after, np.concatenate(change))
        return (None, new) if point is None else (new, self._state_at(point, new))

    def _coordinates(self, state: EMState) -> Coordinates:
        """The state as arrays of logarithms and factors, of which every combination is a state."""
        root = np.linalg.cholesky(state.kernel / self._unit**2)
        np.fill_diagonal(root, np.log(np.diagonal(root)))
        logs = np.log(np.where(state.tau > 0, state.tau, 1.0)), np.log(state.scales)
        return root, state.shared_theta, state.mean, state.level, state.nu, state.theta, *logs

    def _state_at(self, point: Coordinates, state: EMState) -> EMState:
        """Undo `_coordinates`; what is not one, or has no logarithm, is as in `state`."""
        root, shared, mean, level, nu, theta, tau, scales = point
        np.fill_diagonal(root, np.exp(np.diagonal(root)))
        scales, process = np.exp(scales), self.steps.shared
        shared[-1:] = np.maximum(shared[-1:], self.steps.likelihood.least)
        if process is not None and process.learns and process.holds:
            # Else the combination would change what is held.
            scales *= (state.scales @ process.sizes) / (scales @ process.sizes)
        return state._replace(
            mean=mean,
            kernel=root @ root.T * self._unit**2,
            level=level,
            scales=scales,
            shared_theta=shared,
            tau=np.where(state.tau > 0, np.exp(tau), state.tau),
            nu=nu,
            theta=np.where(state.spread > 0, theta, shared),
        )

    def sweep(self, num_sweeps: int, tol: float = 0.0) -> float:
        """Improve the sites alone until they settle; return how far the last sweep moved them."""
        found = self._checked(gather=False)
        for _ in range(num_sweeps - 1):
            if found.delta <= tol:
                break
            self.state = found.state
            found = self.steps.expect(self.state, gather=False)
            self.log_evidence = found.log_evidence
        self.state = found.state
        return found.delta

    def _checked(self, *, gather: bool = True) -> Expected:
        """Make the E-step; take back a proposal that has lost, and what has no objective."""
        found, value = self.evaluate(gather=gather)
        if self._plain is not None and not value >= self.trace[-1] - self._slack:
            self.state = self._plain
            if self._anderson is not None:
                self._anderson.restart()
            found, value = self.evaluate(gather=gather)
        self._plain = None
        if found is not None and np.isfinite(value):
            return found
        if self._sound is None:
            raise ValueError(
                "the objective is not a number where EM starts: levels, kernel or a strength are "
                "too large or too small; rescale them"
            )
        self.state, self.broken = self._sound, True
        found = self.steps.expect(self.state, gather=gather)
        self.log_evidence, self.log_prior = found.log_evidence, self.steps.log_prior(self.state)
        return found

    def evaluate(self, *, gather: bool = True) -> tuple[Expected | None, float]:
        """The E-step and the objective of the state; no number where there is none."""
        try:
            found = self.steps.expect(self.state, gather=gather)
            log_prior = self.steps.log_prior(self.state)
        except np.linalg.LinAlgError:
            return None, np.nan
        self.log_evidence, self.log_prior = found.log_evidence, log_prior
        return found, found.log_evidence + log_prior

    def settled(self, tol: float) -> bool:
        """Whether the last iterations changed the objective by little."""
        return len(self.trace) > _QUIET and self.change < tol

    @property
    def change(self) -> float:
        """Change of the objective per observation, over the last iterations."""
        recent = self.trace[-_QUIET - 1 :]
        return float(np.ptp(recent)) / self._count if len(recent) > 1 else np.inf

    def leave(self) -> EMState:
        """The state of all items as they are numbered; EM's own for one proposed."""
        state = self.state if self._plain is None else self._plain
        return state if self.steps.shared is None else self.steps.shared.leave(state)
