"""What EM returns: the shared prior, every user's posterior, and predictions."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from bayesrank._stack import outside
from bayesrank._validate import check_count
from bayesrank.distributions.ordinal import centred_thresholds
from bayesrank.gp import KernelPrior
from bayesrank.infer import ConvergenceWarning
from bayesrank.solvers.collaborative.likelihoods import GaussianNoise, Likelihood, Ordinal
from bayesrank.solvers.collaborative.new_data import extend_prior, fit_users
from bayesrank.solvers.collaborative.posteriors import Observations, groups_of, posteriors
from bayesrank.solvers.collaborative.predictive import Explained, PredictiveFactors
from bayesrank.solvers.collaborative.state import EMState

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class EMResult:
    """The fit of many users who share a Gaussian-process prior.

    Attributes
    ----------
    observations, likelihood, collaborative
        What it was fitted to, and as what.
    state
        Everything that was estimated. ``state.save(path)`` writes it, and ``EM.run(...,
        init_state=path)`` continues from there.
    base_kernels
        Base kernels of the items, shape (C, m, m).
    kernel_prior
        Prior of the kernel, which a program takes as its ``strength``.
    mean_strength
        How many users the prior of the mean is worth.
    num_fitted
        How many users mean and kernel were learned of. None takes them as known.
    log_evidence
        Log probability of the observations at the estimate, in nats: exact for numbers, else EP's.
    log_prior
        Log prior density of the estimate, up to a constant.
    trace
        ``log_evidence + log_prior`` at the beginning of each iteration. It never falls for numbers
        if users do not differ. It may fall a little otherwise, as users' own parameters make steps
        of scoring, and EP's evidence is right at its fixed point only.
    converged
        Whether the last ten iterations changed less than the tolerance, and the sites converged.

    Notes
    -----
    Variances of functions integrate over mean and kernel, if these have a prior; see
    ``docs/systems/collaborative.md``. The likelihood's parameters are taken as known.

    Examples
    --------
    >>> from bayesrank.solvers.collaborative import EM
    >>> users, items = [0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 1]
    >>> result = EM(tol=1e-3).run(users, items, [0, 1, 0, 1, 1, 0], progress_bar=False)
    >>> result.state.mean.shape
    (2,)
    """

    observations: Observations = field(repr=False)
    likelihood: Likelihood
    collaborative: bool
    state: EMState = field(repr=False)
    base_kernels: Array = field(repr=False)
    kernel_prior: KernelPrior = field(repr=False)
    mean_strength: float
    num_fitted: int | None
    log_evidence: float
    log_prior: float
    trace: Array = field(repr=False)
    converged: bool

    @property
    def mean(self) -> Array:
        """The shared mean ``h``, shape (m,)."""
        return self.state.mean

    @property
    def kernel(self) -> Array:
        """The shared kernel ``Sigma``, shape (m, m)."""
        return self.state.kernel

    @property
    def num_iterations(self) -> int:
        """Number of iterations made."""
        return len(self.trace)

    @property
    def noise(self) -> Array:
        """Noise of each user, shape (n,): of numbers, or relative to the shared noise.

        Raises
        ------
        ValueError
            If the observations are comparisons, whose noise is everybody's.
        """
        if not self.state.theta.shape[1]:
            raise ValueError(
                "observations are comparisons, whose noise is 1 for every user; leave it out"
            )
        return np.exp(self.state.theta[:, -1])

    @property
    def thresholds(self) -> Array:
        """Thresholds between levels of each user, shape (n, r - 1), mean zero.

        Raises
        ------
        ValueError
            If the observations are not levels.
        """
        self._need_levels()
        with jax.enable_x64(True):
            return np.asarray(centred_thresholds(np.exp(self.state.theta[:, :-1])))

    @property
    def params(self) -> dict[str, Array]:
        """Values of the hyperparameters of the program (`bayesrank.models`), by site.

        ``Sigma`` is the core items' kernel, in the order of `kernel_prior`. ``level`` and
        ``scales`` are there if mean or kernel have a prior.
        """
        prior, state = self.kernel_prior, self.state
        values = {"h": self.mean, "Sigma": prior.core(self.kernel)}
        if prior.informative or self.mean_strength:
            values |= {"level": state.level, "scales": state.scales}
        factors = np.exp(state.theta - state.shared_theta) if state.spread.any() else None
        values |= self.likelihood.program_params(state.shared_theta, factors)
        return {name: value for name, value in values.items() if value.size}  # two levels: no gaps

    def functions(self, users: ArrayLike | None = None) -> tuple[Array, Array]:
        """Posterior mean and variance of users' functions at every item, (u, m) each.

        Parameters
        ----------
        users
            Numbers of users, shape (u,); all if not given.

        Raises
        ------
        ValueError
            If a user is not known.
        """
        n = self.observations.num_users
        who = np.arange(n) if users is None else self._known(users, n, "user")
        different, place = np.unique(who, return_inverse=True)
        mean = self.mean + self.state.user_level[different, None]
        variance = self.state.user_scale[different, None] * np.diagonal(self.kernel)
        for user, part in self._explained(different):
            row = np.searchsorted(different, user)
            mean[row] += part.shift
            variance[row] = part.variance(variance[row])
        return mean[place], variance[place]

    @cached_property
    def _predictive(self) -> PredictiveFactors | None:
        if self.num_fitted is None or not (self.collaborative and self.kernel_prior.informative):
            return None
        m = len(self.mean)
        return PredictiveFactors.of(self.kernel_prior, self.mean_strength, self.num_fitted, m)

    def _explained(
        self, users: NDArray[np.int64], columns: dict[int, Any] | None = None
    ) -> Iterator[tuple[int, Explained]]:
        """What observations say of different `users`, at all items or a user's `columns`."""
        seen, state = self.observations, self.state
        every, factors, rest = np.arange(len(self.mean)), self._predictive, set(users.tolist())
        with threadpool_limits(1, user_api="blas"):
            groups = groups_of(seen, users)
            for stack in posteriors(groups, seen, state.mean, state.kernel, state):
                for row, user in enumerate(stack.users.tolist()):
                    rest.remove(user)
                    items = seen.items[stack.rows[row]]
                    wanted = every if columns is None else columns[user]
                    block = state.kernel[items.T[:, :, None], wanted]
                    across = state.user_scale[user] * np.tensordot(seen.weights, block, 1)
                    shift, gain = stack.shift[row], stack.gain[row]
                    part = Explained(shift @ across, gain @ across, across)
                    if factors is not None:
                        square = shift @ stack.mean[row] - (gain * stack.covariance[row]).sum()
                        part = factors.widen(part, np.unique(items), square, state.kernel, wanted)
                    yield user, part
        if factors is None:
            return
        for user in rest:
            wanted = every if columns is None else columns[user]
            empty, nothing = np.zeros((0, len(wanted))), np.zeros(0, np.int64)
            part = Explained(np.zeros(len(wanted)), empty, empty)
            yield user, factors.widen(part, nothing, 0.0, state.kernel, wanted)

    def draw(self, users: ArrayLike, num_samples: int = 200, seed: int = 0) -> Array:
        """Draw users' functions at every item from their posteriors, shape (num_samples, u, m).

        It takes time of order ``m**3`` for each user.

        Parameters
        ----------
        users
            Different users, shape (u,).
        num_samples, seed
            Number of draws, and the seed of NumPy's generator.

        Raises
        ------
        ValueError
            If a user is not known, or `num_samples` is not a number of draws.
        """
        who = self._known(users, self.observations.num_users, "user")
        if who.ndim != 1:
            raise ValueError(f"users has shape {who.shape}; pass one shape (u,)")
        check_count(num_samples, "num_samples", 0)
        rng = np.random.default_rng(seed)
        means, _ = self.functions(who)
        draws = np.empty((num_samples, len(who), len(self.mean)))
        for column, user in enumerate(who.tolist()):
            covariance = self.state.user_scale[user] * self.kernel
            for _, part in self._explained(np.array([user])):
                covariance = part.covariance(covariance)
            values, vectors = np.linalg.eigh(covariance)
            # Eigenvalues that are negative at rounding level are zero.
            root = vectors * np.sqrt(np.maximum(values, 0.0))
            normal = rng.normal(size=(num_samples, len(self.mean)))
            draws[:, column] = means[column] + normal @ root.T
        return draws

    def predict_latent(self, users: ArrayLike, items: ArrayLike) -> tuple[Array, Array]:
        """Posterior mean and variance, (K,) each, of ``f_j(i)``, a pair (user, item) a row.

        Parameters
        ----------
        users, items
            Numbers of users and items, shape (K,).

        Raises
        ------
        ValueError
            If a number is not known, or there are not as many items as users.
        """
        who = self._known(users, self.observations.num_users, "user")
        what = self._known(items, len(self.mean), "item")
        if who.shape != what.shape or who.ndim != 1:
            raise ValueError(
                f"users has shape {who.shape}, items {what.shape}; pass one shape (K,)"
            )
        state, order = self.state, np.argsort(who, kind="stable")
        mean = state.mean[what] + state.user_level[who]
        variance = state.user_scale[who] * np.diagonal(state.kernel)[what]
        different, starts = np.unique(who[order], return_index=True)
        rows = dict(zip(different.tolist(), np.split(order, starts)[1:], strict=True))
        columns = {user: what[mine] for user, mine in rows.items()}
        for user, part in self._explained(different, columns):
            mean[rows[user]] += part.shift
            variance[rows[user]] = part.variance(variance[rows[user]])
        return mean, variance

    def predict_number(self, users: ArrayLike, items: ArrayLike) -> tuple[Array, Array]:
        """Mean and variance, (K,) each, of the numbers that users would give, noise included.

        Parameters
        ----------
        users, items
            As for `predict_latent`.

        Raises
        ------
        ValueError
            As there, or if the observations are not numbers.
        """
        likelihood = self.likelihood
        if not isinstance(likelihood, GaussianNoise):
            raise ValueError(
                f"the observations are {likelihood.name}, not numbers; use predict_proba, "
                "or predict_latent"
            )
        mean, variance = self.predict_latent(users, items)
        anchor, log_scale, log_noise = self.state.theta[np.asarray(users)].T
        scale = np.exp(log_scale)
        return anchor + scale * (mean - anchor), scale**2 * variance + np.exp(2.0 * log_noise)

    def predict_proba(self, users: ArrayLike, items: ArrayLike) -> Array:
        """Probability of each level, shape (K, r), a pair (user, item) a row.

        Parameters
        ----------
        users, items
            As for `predict_latent`.

        Raises
        ------
        ValueError
            As there, or if the observations are not levels.
        """
        likelihood = self._need_levels()
        moments = self.predict_latent(users, items)
        theta = self.state.theta[np.asarray(users)]
        return likelihood.probabilities(theta, *moments)

    def condition(
        self, users: ArrayLike, items: ArrayLike, levels: ArrayLike | None = None
    ) -> EMResult:
        """Fit new users, with the shared prior as it was learned.

        New users get their own most probable thresholds, or scale and noise, if users have them.
        ``log_prior`` is the density of these alone.

        Parameters
        ----------
        users, items, levels
            As in `EM.run`; the new users are numbered from 0.

        Raises
        ------
        ValueError
            If an argument cannot be used, or models are individual.

        Warns
        -----
        ConvergenceWarning
            If their own parameters have not converged.
        """
        if not self.collaborative:
            raise ValueError(
                "individual models share nothing with new users; fit with collaborative=True"
            )
        observations, state, figures = fit_users(self.likelihood, self.state, users, items, levels)
        if not figures["converged"]:
            message = "parameters of the new users have not converged; check their predictions"
            warnings.warn(message, ConvergenceWarning, stacklevel=outside())
        return replace(self, observations=observations, state=state, trace=np.zeros(0), **figures)

    def extend_items(self, across: ArrayLike, own: ArrayLike) -> EMResult:
        """Add k items that nobody has rated behind the m known ones, by their base kernels.

        Parameters
        ----------
        across, own
            Base kernels between known and new items, (C, m, k), and of the new ones, (C, k, k); of
            one base kernel, (m, k) and (k, k).

        Raises
        ------
        ValueError
            If the shapes do not fit, or known and new items have no covariance matrix together.

        References
        ----------
        Yu, K., Tresp, V. and Schwaighofer, A. (2005). Learning Gaussian processes from multiple
        tasks. ICML.
        """
        state, kernels = extend_prior(self.state, self.base_kernels, across, own)
        observations = self.observations._replace(num_items=len(state.mean))
        order = *(self.kernel_prior.items or ()), *range(len(self.mean), len(state.mean))
        prior = replace(self.kernel_prior, items=order)
        return replace(
            self, state=state, base_kernels=kernels, observations=observations, kernel_prior=prior
        )

    def with_new_users(self, count: int) -> EMResult:
        """Add users without observations at the end; their functions have the prior.

        They use the levels, or numbers, as all users do in common.

        Raises
        ------
        ValueError
            If models are individual.
        """
        if not self.collaborative:
            raise ValueError(
                "individual models share nothing with new users; fit with collaborative=True"
            )
        state, observations = self.state, self.observations
        theta = np.vstack([state.theta, np.tile(state.shared_theta, (count, 1))])
        state = state._replace(
            theta=theta,
            user_level=np.append(state.user_level, np.zeros(count)),
            user_scale=np.append(state.user_scale, np.ones(count)),
        )
        more = observations._replace(num_users=observations.num_users + count)
        return replace(self, state=state, observations=more)

    def _need_levels(self) -> Ordinal:
        likelihood = self.likelihood
        if not isinstance(likelihood, Ordinal):
            raise ValueError(f"{likelihood.name} observations have no levels")
        return likelihood

    @staticmethod
    def _known(numbers: ArrayLike, count: int, what: str) -> NDArray[Any]:
        array = np.asarray(numbers)
        if array.dtype.kind not in "iu":
            raise ValueError(f"{what}s has dtype {array.dtype}; pass whole numbers")
        unknown = (array < 0) | (array >= count)
        if unknown.any():
            raise ValueError(
                f"{what} {array[unknown].flat[0]} is not known; there are {count}, numbered from 0"
            )
        return array
