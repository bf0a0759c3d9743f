r"""What users share: mean and kernel, the base that these are drawn to, and their M-step.

The M-step of the scales of the base kernels: a Newton step in their logarithms.

With the kernel that the M-step chooses inserted, the expected log joint density is a function of
the scales alone; ``docs/systems/collaborative.md`` states it. Its derivatives are traces, with

.. math:: \partial \log |\Psi| = \mathrm{tr} \Psi^{-1} K_c, \quad
    \partial^2 \log |\Psi| = -\mathrm{tr} \Psi^{-1} K_c \Psi^{-1} K_d.

The core's kernel has a tiered inverse Wishart prior about the base :math:`\Psi = \sum_c s_c K_c`.
Items outside of the core follow it by the base, independent given it (Snelson and Ghahramani, 2006,
Sparse Gaussian processes using pseudo-inputs, NIPS): with
:math:`W = \Psi_{CC}^{-1} \Psi_{CR}`, :math:`D = \mathrm{diag}(\Psi_{RR} - W' \Psi_{CR})` and
:math:`A' = [I, W]`, the kernel of all is :math:`A \Sigma_{CC} A' + \mathrm{diag}(0, D)`.
Without a prior the M-step is (3) of Yu, Yu and Tresp (2005), Collaborative ordinal regression, NIPS
Workshop on Learning to Rank. ``docs/systems/collaborative.md`` derives it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike
from numpy.typing import NDArray
from scipy.linalg import cho_solve, solve_triangular

from bayesrank.gp import KernelPrior, Tier
from bayesrank.solvers.collaborative.likelihoods import inverse

_LONGEST_STEP = 1.0
_LENGTHS = (0.0, 0.125, 0.25, 0.5, 1.0)
_RIDGE = 1e-12


@jax.jit
def ascent_step(gradient: ArrayLike, hessian: ArrayLike, free: ArrayLike) -> jax.Array:
    """Newton's step (p,) of what is free (p,), upwards in every direction, no entry above one."""
    gradient, hessian, free = (jnp.asarray(x) for x in (gradient, hessian, free))
    inside = jnp.where(free[:, None] & free, hessian, jnp.diag(jnp.where(free, 0.0, -1.0)))
    values, axes = jnp.linalg.eigh(0.5 * (inside + inside.T))
    curvature = jnp.abs(values)
    curvature = jnp.maximum(curvature, _RIDGE * jnp.max(curvature))
    along = jnp.where(free, gradient, 0.0) @ axes
    step = axes @ (along / jnp.where(curvature > 0, curvature, 1.0))
    return step * jnp.minimum(1.0, _LONGEST_STEP / jnp.maximum(jnp.max(jnp.abs(step)), 1e-300))


def newton(
    objective: Callable[[jax.Array], jax.Array], start: jax.Array, free: jax.Array, num_steps: int
) -> tuple[jax.Array, jax.Array]:
    """Maximise by so many steps of the best length: the end (p,), and the last step's largest."""

    def improve(_: int, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        x = state[0]
        step = ascent_step(jax.grad(objective)(x), jax.hessian(objective)(x), free)
        tried = x + jnp.asarray(_LENGTHS)[:, None] * step
        best = tried[jnp.argmax(jax.vmap(objective)(tried))]
        return best, jnp.max(jnp.abs(step))

    return lax.fori_loop(0, num_steps, improve, (start, jnp.zeros((), start.dtype)))


Array = NDArray[Any]

# No kernel's variance is below this part of the largest one's: what keeps the mixture positive
# definite may be a kernel that the data have no use for.
_SMALLEST = 1e-6
_SHORTEST_SHARE = 1e-3  # of a step: what is shorter is none


class CoreKernels(NamedTuple):
    """What is needed of the base kernels; the core items come first."""

    core: Array  # of the core items, shape (C, c, c)
    across: Array  # between core and other items, shape (C, c, k)
    own: Array  # variances of the other items, shape (C, k)


class FunctionMoments(NamedTuple):
    """Second moments of users' functions about the mean, summed over users."""

    core: Array  # (c, c)
    across: Array  # with what is left of the other items by their weights, (c, k)
    rest: Array  # of what is left of the other items, (k,)


class ScaleObjective(NamedTuple):
    """Expected log joint density as a function of the scales (C,), up to a constant.

    `weights` (c, k) are those by which other items follow the core in `moments`.
    """

    kernels: CoreKernels
    weights: Array
    moments: FunctionMoments
    num_users: int
    prior: KernelPrior

    def improved(self, scales: Array, *, hold: bool) -> Array:
        """Make a Newton step in log scales that does not lower it; `hold` keeps the base's size."""
        size = np.diagonal(self.kernels.core, axis1=1, axis2=2).mean(axis=1)
        gradient, hessian = self.derivatives(scales)
        gradient, hessian = _in_logs(gradient, hessian, scales, scales * size if hold else None)
        # What is as small as may be, and should be smaller, must not shorten the others' step.
        free = (scales * size > 1.01 * _SMALLEST * np.max(scales * size)) | (gradient > 0)
        with jax.enable_x64(True):
            step = np.asarray(ascent_step(gradient, hessian, free))
        present, share = self.value(scales), 1.0
        while share > _SHORTEST_SHARE:
            new = scales * np.exp(share * step)
            new = np.maximum(new, _SMALLEST * np.max(new * size) / size)
            new *= (scales @ size) / (new @ size) if hold else 1.0
            if self.value(new) >= present:
                return new
            share *= 0.5
        return scales

    def value(self, scales: Array) -> float:
        """Its value; minus infinity where there is none."""
        base, total = np.tensordot(scales, self.kernels.core, 1), 0.0
        n, moments = self.num_users, self.moments
        try:
            for tier in self.prior.tiers:
                chosen = np.asarray(self.prior.posterior_mode(tier, moments.core, base, n))
                ours, theirs = (_log_det(x, tier) for x in (base, chosen))
                total += 0.5 * (tier.strength * ours - (n + tier.strength) * theirs)
        except np.linalg.LinAlgError:
            return -np.inf
        if not self.weights.shape[1]:
            return total
        across = np.tensordot(scales, self.kernels.across, 1)
        new = np.linalg.solve(base, across)
        own, change = scales @ self.kernels.own - (across * new).sum(0), new - self.weights
        left = moments.rest - (change * (2.0 * moments.across - moments.core @ change)).sum(0)
        return total - 0.5 * float((n * np.log(own) + left / own).sum())

    def derivatives(self, scales: Array) -> tuple[Array, Array]:
        """Gradient (C,) and Hessian (C, C) in the scales that the weights are of."""
        base, n = np.tensordot(scales, self.kernels.core, 1), self.num_users
        gradient, hessian = np.zeros(len(scales)), np.zeros((len(scales), len(scales)))
        for tier in self.prior.tiers:
            total = n + tier.strength
            for end, sign in ((tier.end, 0.5), (tier.start, -0.5)):
                chosen = (self.moments.core + tier.strength * base)[:end, :end] / total
                for matrix, factor, share in (
                    (base[:end, :end], sign * tier.strength, 1.0),
                    (chosen, -sign * total, tier.strength / total),
                ):
                    if end and factor:
                        slope, curvature = _of_log_det(matrix, self.kernels.core[:, :end, :end])
                        gradient += factor * share * slope
                        hessian += factor * share**2 * curvature
        if not self.weights.shape[1]:
            return gradient, hessian
        slope, curvature = self._of_rest(scales, inverse(base)[0])
        return gradient + slope, hessian + curvature

    def _of_rest(self, scales: Array, inv: Array) -> tuple[Array, Array]:
        """The same of the items outside of the core, by the inverse of the base of the core."""
        (core, across, variances), weights, moments, n, _ = self
        own = scales @ variances - (np.tensordot(scales, across, 1) * weights).sum(0)
        count, left = range(len(scales)), moments.rest
        residual = across - core @ weights
        moved = inv @ residual  # derivatives of the weights
        d_own = variances - ((across + residual) * weights).sum(1)
        d_left = -2.0 * (moved * moments.across).sum(1)
        slope = -0.5 * ((n - left / own) * d_own / own + d_left / own).sum(1)
        curvature = np.zeros((len(scales), len(scales)))
        for c in count:
            for d in count:
                twice = -(inv @ (core[d] @ moved[c] + core[c] @ moved[d]))
                d2_own = -2.0 * (residual[c] * moved[d]).sum(0)
                d2_left = moved[c] * (moments.core @ moved[d]) - twice * moments.across
                value = (n - left / own) * d2_own + 2.0 * d2_left.sum(0)
                value -= (n - 2.0 * left / own) * d_own[c] * d_own[d] / own
                value -= (d_left[c] * d_own[d] + d_left[d] * d_own[c]) / own
                curvature[c, d] = -0.5 * (value / own).sum()
        return slope, curvature


def _log_det(matrix: Array, tier: Tier) -> float:
    """Log determinant of a tier of a matrix (c, c) given those before."""
    factor = np.linalg.cholesky(matrix[: tier.end, : tier.end])
    return 2.0 * float(np.log(np.diagonal(factor)[tier.start :]).sum())


def _of_log_det(matrix: Array, parts: Array) -> tuple[Array, Array]:
    """Derivatives of the log determinant of a matrix along each of `parts` (C, e, e)."""
    inv = inverse(matrix)[0]
    products = [_times(inv, part) for part in parts]
    slope = np.array([np.trace(product) for product in products])
    curvature = np.array([[np.vdot(a, b.T) for b in products] for a in products], float)
    return slope, -curvature


def _times(matrix: Array, kernel: Array) -> Array:
    """A product with a base kernel, which may be a constant or diagonal."""
    diagonal = np.diagonal(kernel)
    if np.all(kernel == kernel[0, 0]):
        return np.broadcast_to(kernel[0, 0] * matrix.sum(1)[:, None], matrix.shape)
    if np.count_nonzero(kernel) == np.count_nonzero(diagonal):
        return matrix * diagonal
    return matrix @ kernel


def _in_logs(
    gradient: Array, hessian: Array, scales: Array, sizes: Array | None
) -> tuple[Array, Array]:
    """Derivatives in log scales; with `sizes` (C,), those of scales whose sum of sizes is held."""
    weight = np.zeros_like(scales) if sizes is None else sizes / sizes.sum()
    lean = np.eye(len(scales)) - weight
    jacobian = scales[:, None] * lean
    bend = np.einsum("i,ij,ik->jk", gradient * scales, lean, lean)
    bend -= (gradient @ scales) * (np.diag(weight) - np.outer(weight, weight))
    return jacobian.T @ gradient, jacobian.T @ hessian @ jacobian + bend


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
    holds_size
        Whether learning keeps the base's mean variance, as only ratios are learned.
    """

    def __init__(
        self,
        kernels: Array,
        prior: KernelPrior,
        mean_strength: float,
        *,
        learns: bool,
        holds_size: bool,
    ) -> None:
        self.prior, self.mean_strength = prior, mean_strength
        self.informative = prior.informative or mean_strength > 0
        self.learns, self.holds_size = learns and prior.informative, holds_size
        order = np.asarray(prior.items)
        self._core, self._rest = np.split(order, [prior.num_core])
        self.order, self.place = order, np.argsort(order)
        inside = kernels
        if not np.array_equal(self._core, np.arange(kernels.shape[1])):
            inside = kernels[:, self._core[:, None], self._core]
        self.kernels = CoreKernels(
            inside,
            kernels[:, self._core[:, None], self._rest],
            np.diagonal(kernels, axis1=1, axis2=2)[:, self._rest],
        )
        self._base: tuple[Array, Base] | None = None

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
            core, across = (np.tensordot(scales, x, 1) for x in self.kernels[:2])
            factor = np.linalg.cholesky(core)
            weights = cho_solve((factor, True), across) if across.shape[1] else across
            own = scales @ self.kernels.own - (across * weights).sum(0)
            self._base = np.array(scales), Base(core, factor, weights, own)
        return self._base[1]

    def kernel_of_all(self, kernel: Array, scales: Array) -> Array:
        """Kernel of all items, from that of the core."""
        if not len(self._rest):
            return kernel
        base = self.base(scales)
        across = kernel @ base.weights
        rest = base.weights.T @ across + np.diag(base.own)
        return np.block([[kernel, across], [across.T, rest]])

    def log_prior(self, state: Any) -> float:
        """Log density of mean and kernel, zero where they are the base's own."""
        if not self.informative:
            return 0.0
        base, factor, gap = self.base(state.scales), _factor(state.kernel), state.mean - state.level
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
            factor, ones = _factor(kernel), np.ones_like(average)
            sums = (_square(factor, base, ones, x) for x in (average, ones))
            level = np.asarray(next(sums) / next(sums))
        gap = average - level
        moments = _moments(columns, base, spread - np.outer(shift / n, shift), n, gap, kappa)
        if self.learns and learn:
            objective = ScaleObjective(self.kernels, base.weights, moments, n, self.prior)
            scales = objective.improved(scales, hold=self.holds_size)
        core = np.asarray(self.prior.maximize(moments.core, self.base(scales).core, n))
        mean = level + n / (n + kappa) * gap
        return state._replace(mean=mean, kernel=core, level=level, scales=scales)


def _factor(kernel: Array) -> Array:
    return np.linalg.cholesky(kernel)


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
