r"""EM for many users who share a Gaussian-process prior: collaborative (ordinal) regression.

User :math:`j` has a function :math:`f_j \sim N(h, \Sigma)` of the items, and rates or compares some
of them (`bayesrank.models.collaborative`). The E-step finds every user's posterior, exactly for
numbers and by expectation propagation otherwise. The M-step learns the shared mean and kernel, the
noise and the thresholds [1]_. ``docs/systems/collaborative.md`` derives the steps.

Base kernels start with equal parts of a variance: half of that of numbers, four times the noise's
for levels (once in individual models), and one for comparisons. If EM learns their scales, it
learns each for numbers, and only their ratios otherwise.

References
----------
.. [1] Yu, S., Yu, K. and Tresp, V. (2005). Collaborative ordinal regression. NIPS Workshop on
   Learning to Rank.
.. [2] Henderson, N. C. and Varadhan, R. (2019). Damped Anderson acceleration with restarts and
   monotonicity control for accelerating EM and EM-like algorithms. Journal of Computational and
   Graphical Statistics, 28(4), 834-846.
.. [3] Snelson, E. and Ghahramani, Z. (2006). Sparse Gaussian processes using pseudo-inputs. NIPS.
"""

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
from numpy.typing import ArrayLike
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from bayesrank._process import enter_jax
from bayesrank._stack import outside
from bayesrank._validate import check_share, unit_of
from bayesrank.gp import KernelPrior
from bayesrank.infer import ConvergenceWarning
from bayesrank.solvers.collaborative.data import (
    check_kernels,
    check_observations,
    check_run,
    check_settings,
)
from bayesrank.solvers.collaborative.likelihoods import LIKELIHOODS, GaussianNoise
from bayesrank.solvers.collaborative.loop import Anderson, EMSteps, Loop
from bayesrank.solvers.collaborative.posteriors import Observations
from bayesrank.solvers.collaborative.result import EMResult
from bayesrank.solvers.collaborative.shared import SharedProcess
from bayesrank.solvers.collaborative.state import EMState, initial_state

# Sweeps over the sites alone, before the first iteration and, at most, after the last.
_FIRST_SWEEPS, _LAST_SWEEPS = 6, 30
_EP_TOL = 1e-3
# How many users the prior of the mean is worth, where the kernel has one. On held-out ratings of 30
# to 3,000 users, 12 is about as good as anything from 5 to 40, and better than 1.
_MEAN_STRENGTH = 12.0
# Items, those observed most often, with a learned kernel; an iteration takes their number cubed.
_MOST_CORE_ITEMS = 3000
# Standard deviation of the noise of numbers, in units of theirs: below, variances are rounding.
_LEAST_NOISE = 1e-3
# Of so many items an exchangeable base is learned. With more, their learned covariances outvote it,
# and its step takes a good part of an iteration.
_FEW_ITEMS = 200


class EM:
    """EM over users who share a Gaussian-process prior.

    Parameters
    ----------
    likelihood
        What the observations are: "gaussian" (numbers), "probit" or "logit" (levels), "pairwise"
        (which of two items is better, by the logistic of the difference).
    collaborative
        Whether users share mean and kernel. If not, each learns a level, scale and noise alone,
        under the prior ``N(level, scale * K)`` with ``K`` the base kernel.
    strength
        How many users the prior of the kernel is worth, or a `bayesrank.gp.KernelPrior`; without
        ``items``, its tiers are of those observed most often first. By default 30 more than the
        number of items, up to 500, and 5,000 for how further items follow these. Maximum likelihood
        (0), for which the mean has no prior either, overfits.
    user_thresholds
        Standard deviation, over users, of log gaps between thresholds and of log noise; 0 makes
        users equal.
    user_scales
        The same for the scale and noise of users' numbers, if users share mean and kernel.
    noise_share
        The shared noise of numbers as a share of their variance, held at that; None learns it, and
        then it may come out much too small, since nobody rates an item twice.
    max_iterations
        Number of iterations after which to give up.
    tol
        EM has converged when ten iterations change the objective per observation by less than this.

    Notes
    -----
    EM goes further than its own steps by Anderson's acceleration [2]_, unless that lowers the
    objective. It learns the scales of base kernels if `run` gets any, and for levels of up to 200
    items; those of more than 500 items in the first 15 iterations. Beyond 3,000 items, those
    observed least have their own means, and follow the others by the base kernel, independent given
    these [3]_.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> users, items = np.divmod(rng.permutation(200)[:120], 10)
    >>> ratings = rng.normal(items % 3, 0.3)
    >>> result = EM("gaussian").run(users, items, ratings, progress_bar=False)
    >>> result.mean.shape, result.kernel.shape, result.converged
    ((10,), (10, 10), True)
    """

    def __init__(
        self,
        likelihood: str = "probit",
        *,
        collaborative: bool = True,
        strength: float | KernelPrior | None = None,
        user_thresholds: float = 0.3,
        user_scales: float = 0.3,
        noise_share: float | None = None,
        max_iterations: int = 300,
        tol: float = 1e-5,
    ) -> None:
        number = 0.0 if strength is None or isinstance(strength, KernelPrior) else strength
        numbers = {
            "strength": number, "user_thresholds": user_thresholds, "user_scales": user_scales
        }  # fmt: skip
        check_settings(likelihood, numbers, max_iterations, tol)
        if noise_share is not None and likelihood != "gaussian":
            raise ValueError(f"noise_share is {noise_share}, but noise is of numbers; leave it out")
        if noise_share is not None:
            check_share(noise_share, "noise_share")
        self.likelihood, self.collaborative = likelihood, bool(collaborative)
        self.strength = strength
        self.user_thresholds, self.user_scales = float(user_thresholds), float(user_scales)
        self.noise_share = noise_share
        self.max_iterations, self.tol = int(max_iterations), float(tol)

    def run(
        self,
        users: ArrayLike,
        items: ArrayLike,
        levels: ArrayLike | None = None,
        *,
        num_users: int | None = None,
        num_items: int | None = None,
        num_levels: int | None = None,
        kernel: ArrayLike | None = None,
        init_state: EMState | str | Path | None = None,
        checkpoint: str | Path | None = None,
        checkpoint_every: int = 10,
        progress_bar: bool = True,
        callback: Callable[[int, float], None] | None = None,
    ) -> EMResult:
        """Fit.

        Parameters
        ----------
        users
            Who, shape (K,), numbers from 0.
        items
            What, shape (K,), numbers from 0; for "pairwise" (K, 2), the better item first.
        levels
            Their ratings, shape (K,): numbers for "gaussian", levels from 0 for "probit" and
            "logit", nothing for "pairwise".
        num_users, num_items, num_levels
            How many there are; one more than the largest by default.
        kernel
            Base kernel of the items, (m, m), or several to be mixed, (C, m, m), such as
            `bayesrank.gp.spectral_components`. Without it, items are exchangeable: a constant, and
            independent values.
        init_state
            State to start from, or its file; of the same observations, in the same order.
        checkpoint, checkpoint_every
            File to save the state to, and after how many iterations each time.
        progress_bar
            Whether to show progress on standard error.
        callback
            Called after each iteration with its number and the objective per observation.

        Raises
        ------
        ValueError
            If an argument cannot be used; the message names it and what to do.

        Warns
        -----
        ConvergenceWarning
            If EM has not converged after `max_iterations` iterations.
        """
        enter_jax()
        check_run(checkpoint, checkpoint_every, init_state)
        observations = check_observations(
            self.likelihood, users, items, levels, num_users, num_items
        )
        no_number = np.errstate(over="ignore", divide="ignore", invalid="ignore")
        with jax.enable_x64(True), threadpool_limits(1, user_api="blas"), no_number:
            # Matrices are small and many: threads inside one of them only get in the way. What is
            # not a number ends the run, and the warning says so.
            kernels = check_kernels(kernel, observations.num_items)
            prior = self._kernel_prior(observations)
            loop = self._begin(
                observations, kernels, prior, num_levels, init_state, learns=kernel is not None
            )
            settled = self._iterate(loop, (checkpoint, checkpoint_every), progress_bar, callback)
            delta = loop.sweep(_LAST_SWEEPS, tol=_EP_TOL)
            result = EMResult(
                observations,
                loop.steps.likelihood,
                self.collaborative,
                loop.leave(),
                kernels,
                prior,
                self._mean_strength,
                len(np.unique(observations.users)),
                log_evidence=loop.log_evidence,
                log_prior=loop.log_prior,
                trace=np.asarray(loop.trace),
                converged=settled and not loop.broken and delta < 10 * _EP_TOL,
            )
        if checkpoint is not None:
            result.state.save(checkpoint)
        if not result.converged:
            message = _not_converged(loop, self, delta)
            warnings.warn(message, ConvergenceWarning, stacklevel=outside())
        return result

    def _begin(
        self,
        observations: Observations,
        kernels: np.ndarray,
        prior: KernelPrior,
        num_levels: int | None,
        init_state: EMState | str | Path | None,
        *,
        learns: bool,
    ) -> Loop:
        likelihood = LIKELIHOODS[self.likelihood]
        if likelihood.exact:
            # Without a prior there may be no maximum, which is said, see `Loop`.
            noise = _LEAST_NOISE * unit_of(observations.levels)
            least = float(np.log(noise)) if prior.informative else -np.inf
            likelihood = GaussianNoise(share=self.noise_share, least=least)
        spread = self.user_scales if likelihood.exact else self.user_thresholds
        start = initial_state(
            likelihood, observations, kernels, num_levels, spread, collaborative=self.collaborative
        )
        if init_state is not None:
            fresh = start
            start = init_state if isinstance(init_state, EMState) else EMState.load(init_state)
            start.check(fresh)
        shared, anderson = None, None
        if self.collaborative:
            few = likelihood.name in ("probit", "logit") and observations.num_items <= _FEW_ITEMS
            shared = SharedProcess(
                kernels,
                prior,
                self._mean_strength,
                learns=learns or few,
                holds=likelihood.sets_unit,
            )
            start, anderson = shared.enter(start), Anderson()
            observations = observations._replace(items=shared.place[observations.items])
        loop = Loop(EMSteps(observations, likelihood, shared), start, anderson)
        if init_state is None:
            loop.sweep(_FIRST_SWEEPS)
        return loop

    @property
    def _mean_strength(self) -> float:
        none = not isinstance(self.strength, KernelPrior) and self.strength == 0
        return 0.0 if none else _MEAN_STRENGTH

    def _kernel_prior(self, observations: Observations) -> KernelPrior:
        """The prior of the kernel, with the items in tiers, most often observed first."""
        m = observations.num_items
        if not self.collaborative:
            prior = KernelPrior.for_items(m, 0.0)  # each user has the base kernel
        elif isinstance(self.strength, KernelPrior):
            prior = self.strength
            if prior.items is not None or prior.num_core > m:
                raise ValueError(
                    f"strength has an order of items, or tiers of {prior.num_core} items of {m}; "
                    "give tiers of no more items, without an order"
                )
        else:
            prior = KernelPrior.for_items(min(m, _MOST_CORE_ITEMS), self.strength)
        counts = np.bincount(observations.items.ravel(), minlength=m)
        ends = [tier.end for tier in prior.tiers if tier.end < m]
        parts = np.split(np.argsort(-counts, kind="stable"), ends)
        order = np.concatenate([np.sort(part) for part in parts])
        return replace(prior, items=tuple(order.tolist()))

    def _iterate(
        self,
        loop: Loop,
        checkpoint: tuple[str | Path | None, int],
        progress_bar: bool,
        callback: Callable[[int, float], None] | None,
    ) -> bool:
        """Iterate until the objective has settled; return whether it has."""
        file, every = checkpoint
        with tqdm(total=self.max_iterations, disable=not progress_bar, desc="EM") as bar:
            while len(loop.trace) < self.max_iterations and not loop.settled(self.tol):
                loop.step()
                if loop.broken:
                    return False
                bar.update()
                bar.set_postfix_str(f"log evidence per observation {loop.per_observation:.5f}")
                if callback is not None:
                    callback(len(loop.trace), loop.per_observation)
                if file is not None and len(loop.trace) % every == 0:
                    loop.leave().save(file)
        return loop.settled(self.tol)


def _not_converged(loop: Loop, engine: EM, delta: float) -> str:
    if loop.broken:
        return (
            f"EM has not converged: after {len(loop.trace)} iterations the objective was no longer "
            "a number, and the result is the state before that. It may have no maximum, where "
            "something fits the observations exactly; give it a larger strength"
        )
    return (
        f"EM has not converged after {len(loop.trace)} iterations: the last ones changed the "
        f"objective per observation by {loop.change:.2g} "
        f"(tol={engine.tol:.2g}), and EP's last sweep moved a mean by {delta:.2g} standard "
        "deviations. Give it more max_iterations, or start it again from result.state"
    )
