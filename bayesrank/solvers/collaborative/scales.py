r"""The M-step of the scales of the base kernels: a Newton step in their logarithms.

With the kernel that the M-step chooses inserted, the expected log joint density is a function of
the scales alone; ``docs/systems/collaborative.md`` states it. Its derivatives are traces, with

.. math:: \partial \log |\Psi| = \mathrm{tr} \Psi^{-1} K_c, \quad
    \partial^2 \log |\Psi| = -\mathrm{tr} \Psi^{-1} K_c \Psi^{-1} K_d.
"""

from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from bayesrank.gp import KernelPrior, Tier
from bayesrank.solvers.collaborative.newton import ascent_step
from bayesrank.solvers.collaborative.users import inverse

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
