r"""What users share: mean and kernel, the base that these are drawn to, and their M-step.

The core's kernel has a tiered inverse Wishart prior about the base :math:`\Psi = \sum_c s_c K_c`.
Items outside of the core follow it by the base, independent given it (Snelson and Ghahramani, 2006,
Sparse Gaussian processes using pseudo-inputs, NIPS): with
:math:`W = \Psi_{CC}^{-1} \Psi_{CR}`, :math:`D = \mathrm{diag}(\Psi_{RR} - W' \Psi_{CR})` and
:math:`A' = [I, W]`, the kernel of all is :math:`A \Sigma_{CC} A' + \mathrm{diag}(0, D)`.
Without a prior the M-step is (3) of Yu, Yu and Tresp (2005), Collaborative ordinal regression, NIPS
Workshop on Learning to Rank. ``docs/systems/collaborative.md`` derives it.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, solve_triangular

from bayesrank.gp import KernelPrior
from bayesrank.solvers.collaborative.posteriors import inverse

Array = NDArray[Any]

# No kernel's variance is below this part of the largest one's: what keeps the mixture positive
# definite may be a kernel that the data have no use for.
_SMALLEST = 1e-6
_LONGEST_STEP, _RIDGE = 1.0, 1e-12


class FunctionMoments(NamedTuple):
    """Second moments of users' functions about the mean, summed over users."""

    core: Array  # (c, c)
    across: Array  # with what is left of the other items by their weights, (c, k)
    rest: Array  # of what is left of the other items, (k,)


class Base(NamedTuple):
    """The base process at its scales."""

    core: Array  # ``Psi_CC``, (c, c)
    factor: Array  # its lower Cholesky factor
    weights: Array  # ``W``, (c, k)
    own: Array  # the diagonal of ``D``, (k,)


class SharedProcess:
    """Prior and M-step of mean and kernel; inside, items are in the order of the prior's tiers.

    Parameters
    ----------
    kernels
        Base kernels of all items, as numbered, shape (C, m, m).
    prior
        Prior of the kernel, with its order of the items.
    mean_strength
        How many users the prior of the mean is worth.
    learns
        Whether the scales of the base are learned.
    holds
        Whether learning keeps the base's mean variance, as only ratios are learned.
    """

    def __init__(
        self, kernels: Array, prior: KernelPrior, mean_strength: float, *, learns: bool, holds: bool
    ) -> None:
        self.prior, self.mean_strength = prior, mean_strength
        self.informative = prior.informative or mean_strength > 0
        self.learns, self.holds = learns and prior.informative, holds
        order = np.asarray(prior.items)
        self._core, rest = np.split(order, [prior.num_core])
        self.order, self.place = order, np.argsort(order)
        inside = slice(None), self._core[:, None], self._core
        alike = np.array_equal(self._core, np.arange(kernels.shape[1]))
        self._inside = kernels if alike else kernels[inside]
        self._across = kernels[:, self._core[:, None], rest]
        self._own = np.diagonal(kernels, axis1=1, axis2=2)[:, rest]
        self.sizes = np.diagonal(self._inside, axis1=1, axis2=2).mean(axis=1)
        self._base: tuple[Array, Base] | None = None
        self._factored: tuple[Array, Array] | None = None

    def enter(self, state: Any) -> Any:
        """Turn a state of all items into what the steps work on: of the kernel, the core's."""
        core = state.kernel[np.ix_(self._core, self._core)]
        return state._replace(mean=state.mean[self.order], kernel=core)

    def leave(self, state: Any) -> Any:
        """Undo `enter`: number items as they were; the kernel is of all of them."""
        kernel = self.kernel_of_all(state.kernel, state.scales)[np.ix_(self.place, self.place)]
        return state._replace(mean=state.mean[self.place], kernel=kernel)

    def base(self, scales: Array) -> Base:
        """The base at these scales."""
        if self._base is None or not np.array_equal(self._base[0], scales):
            core, across = (np.tensordot(scales, x, 1) for x in (self._inside, self._across))
            factor = np.linalg.cholesky(core)
            weights = cho_solve((factor, True), across) if across.shape[1] else across
            own = scales @ self._own - (across * weights).sum(0)
            self._base = np.array(scales), Base(core, factor, weights, own)
        return self._base[1]

    def _factor(self, kernel: Array) -> Array:
        """Lower Cholesky factor of the core's kernel."""
        if self._factored is None or self._factored[0] is not kernel:
            self._factored = kernel, np.linalg.cholesky(kernel)
        return self._factored[1]

    def kernel_of_all(self, kernel: Array, scales: Array) -> Array:
        """Kernel of all items, from that of the core."""
        if len(kernel) == len(self.order):
            return kernel
        base = self.base(scales)
        across = kernel @ base.weights
        rest = base.weights.T @ across + np.diag(base.own)
        return np.block([[kernel, across], [across.T, rest]])

    def log_prior(self, state: Any) -> float:
        """Log density of mean and kernel, zero where they are the base's own."""
        factor = self._factor(state.kernel)  # an error if the kernel is none
        if not self.informative:
            return 0.0
        base, gap = self.base(state.scales), state.mean - state.level
        value = -0.5 * self.mean_strength * _square(factor, base, gap, gap)
        return value + float(self.prior.log_density(factor, base.factor))

    def maximize(
        self, state: Any, shift: Array, spread: Array, num_users: int, *, learn: bool = True
    ) -> Any:
        """The state after the M-step, from sums of the E-step, see `users.scatter`.

        `learn` the scales, too, where these are learned.
        """
        n, kappa, base = num_users, self.mean_strength, self.base(state.scales)
        kernel, level, scales = state.kernel, state.level, state.scales
        columns = np.concatenate([kernel, base.weights.T @ kernel]) if len(base.own) else kernel
        average = state.mean + columns @ _project(base, shift / n)
        average[len(kernel) :] += base.own * shift[len(kernel) :] / n
        if self.informative:
            factor, ones = self._factor(kernel), np.ones_like(average)
            sums = (_square(factor, base, ones, x) for x in (average, ones))
            level = np.asarray(next(sums) / next(sums))
        gap = average - level
        moments = _moments(columns, base, spread - np.outer(shift / n, shift), n, gap, kappa)
        if self.learns and learn:
            scales = self.improved(scales, moments, n)
        core = np.asarray(self.prior.maximize(moments.core, self.base(scales).core, n))
        mean = level + n / (n + kappa) * gap
        return state._replace(mean=mean, kernel=core, level=level, scales=scales)

    def improved(self, scales: Array, moments: FunctionMoments, num_users: int) -> Array:
        """Scales (C,) after a step of Fisher's scoring in their logs, with the kernel then best.

        By slopes and informations, both twice the expected log joint density's: of
        ``tau log |Psi| - (n + tau) log |Sigma|`` for each tier, where `Sigma` is near `Psi`.
        """
        n, base = num_users, self.base(scales)
        slope, information = np.zeros_like(scales), np.zeros((len(scales), len(scales)))
        for tier in self.prior.tiers:
            chosen = self.prior.posterior_mode(tier, moments.core, base.core, n)
            for end, weight in ((tier.end, tier.strength), (tier.start, -tier.strength)):
                if end and weight:
                    kernels = self._inside[:, :end, :end]
                    before = inverse(base.core[:end, :end])[0]
                    parts = [_times(before, kernel) for kernel in kernels]
                    products = np.array([[np.vdot(x, y.T) for y in parts] for x in parts])
                    new = np.tensordot(kernels, inverse(chosen[:end, :end])[0], 2)
                    slope += weight * (np.array([np.trace(x) for x in parts]) - new)
                    information += weight * n / (n + tier.strength) * products
        if len(base.own):
            more, known = self._of_rest(base, moments, n)
            slope, information = slope + more, information + known
        slope, information = scales * slope, scales[:, None] * scales * information
        sizes = scales * self.sizes
        free = np.flatnonzero((sizes > 4.0 * _SMALLEST * sizes.max()) | (slope > 0))
        inside = information[np.ix_(free, free)] + _RIDGE * information.max() * np.eye(len(free))
        step, size = np.linalg.solve(inside, np.stack([slope[free], sizes[free]], axis=1)).T
        if self.holds:
            step = step - sizes[free] @ step / (sizes[free] @ size) * size
        new = scales.copy()
        new[free] *= np.exp(np.clip(step, -_LONGEST_STEP, _LONGEST_STEP))
        new = np.maximum(new, _SMALLEST * np.max(new * self.sizes) / self.sizes)
        return new * (sizes.sum() / (new @ self.sizes) if self.holds else 1.0)

    def _of_rest(self, base: Base, moments: FunctionMoments, num_users: int) -> tuple[Array, Array]:
        """Slope (C,) and information (C, C) by the items outside of the core."""
        size, count, n = len(base.core), len(self.sizes), num_users
        left = self._across - self._inside @ base.weights
        own = (self._own - ((self._across + left) * base.weights).sum(1)) / base.own
        moved = cho_solve((base.factor, True), left.swapaxes(0, 1).reshape(size, -1))
        moved = moved.reshape(size, count, -1).swapaxes(0, 1)  # slopes of the weights
        slope = (moments.rest / base.own - n) * own + 2.0 * (moved * moments.across).sum(
            1
        ) / base.own
        known = np.einsum("cir,dir->cd", moved, (moments.core @ moved) / base.own)
        return slope.sum(1), n * own @ own.T + 2.0 * known


def _times(matrix: Array, kernel: Array) -> Array:
    """A product with a base kernel, which may be a constant or diagonal."""
    diagonal = np.diagonal(kernel)
    if np.all(kernel == kernel[0, 0]):
        return np.broadcast_to(kernel[0, 0] * matrix.sum(1)[:, None], matrix.shape)
    if np.count_nonzero(kernel) == np.count_nonzero(diagonal):
        return matrix * diagonal
    return matrix @ kernel


def _project(base: Base, vector: Array) -> Array:
    """``A'`` times a vector (c + k,)."""
    core, rest = np.split(vector, [len(base.core)])
    return core + base.weights @ rest if len(rest) else core


def _square(factor: Array, base: Base, u: Array, v: Array) -> float:
    """``u' Sigma^-1 v``, with the Cholesky factor of ``Sigma_CC``."""
    (core, rest), (other, its_rest) = (np.split(x, [len(factor)]) for x in (u, v))
    left, right = rest - core @ base.weights, its_rest - other @ base.weights
    a, b = (solve_triangular(factor, x, lower=True) for x in (core, other))
    return float(a @ b + np.sum(left * right / base.own))


def _moments(
    columns: Array, base: Base, spread: Array, num_users: int, gap: Array, mean_strength: float
) -> FunctionMoments:
    """Second moments of users' functions about their mean, and of its `gap` to the level."""
    n, size = num_users, len(base.core)
    strength = n * mean_strength / (n + mean_strength)
    product = spread @ columns
    inside, outside = np.split(gap, [size])
    left = outside - inside @ base.weights
    rest = n + base.own * np.diagonal(spread)[size:]
    return FunctionMoments(
        n * columns[:size] + columns.T @ product + strength * np.outer(inside, inside),
        base.own * product[size:].T + strength * np.outer(inside, left),
        base.own * rest + strength * left**2,
    )
