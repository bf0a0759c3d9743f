r"""EP on `bayesrank.models.label_ranking` with performances eliminated example by example.

Performances eliminated example by example, in front of weights that all examples share.

In example i the alternatives perform at :math:`g_i = U_i + e_i`, with utilities
:math:`U_{ia} = v_a' \phi_i` (zero for the zero alternative) and noise :math:`e_i \sim N(0, S)`.
Sites see differences of performances. With :math:`\Lambda_i` and :math:`l_i` the precision and the
precision-mean that they make in :math:`g_i`, and :math:`P_i = (S^{-1} + \Lambda_i)^{-1}`, the
utilities see

.. math:: M_i = \Lambda_i - \Lambda_i P_i \Lambda_i, \qquad
          b_i = l_i - \Lambda_i P_i l_i,

and given these the performances have the covariance :math:`P_i` and the mean
:math:`(I - P_i \Lambda_i) U_i + P_i l_i`. The c p weights thus have the precision
:math:`I + \sum_i M_i \otimes \phi_i \phi_i'`. If labels have the correlation :math:`R = L L'`, the
weights of each feature are L times independent ones, and :math:`L' M_i L` replaces :math:`M_i`.

This is `bayesrank.infer.gaussian.arrow` with groups that touch the weights through c utilities
alone. It stores nothing of examples times weights, and makes arrays of examples times labels times
features label by label.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from bayesrank._memory import check_memory
from bayesrank.distributions import Thurstone, TiltedMoments
from bayesrank.infer.spi import (
    Block,
    DenseGaussian,
    Problem,
    Program,
    ProgramLayout,
    Rows,
    SiteTerm,
    exceeds_rounding,
    tilted_moments,
)
from bayesrank.models.label_ranking import LEVEL, STEP, calibrated_label_ranking, label_features
from bayesrank.solvers._engine import OwnPriorEP, SeenGaussian


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class LabelGaussian(SeenGaussian):
    """Posterior of c labels' p weights each, and of the G margins that the sites see."""

    free_mean: Array  # in prior units, before correlation, (c, p)
    free_covariance: Array  # shape (c p, c p)
    scales: Array  # prior sds of a label's weights, level first, (p,)
    root: Array | None  # Cholesky factor of the correlation, (c, c)
    margin_mean: Array  # shape (G,)
    margin_variance: Array  # shape (G,)
    log_normaliser: Array  # log of the integral of prior times sites
    valid: Array  # whether it is proper

    @property
    def core(self) -> DenseGaussian:
        """Levels of all labels, then the other weights, in their own units."""
        count, width = self.free_mean.shape
        weights, joint = _correlated(self.root, self.free_mean, self.free_covariance)
        number = jnp.arange(count * width).reshape(count, width)
        order = jnp.concatenate([number[:, 0], number[:, 1:].ravel()])
        units = jnp.tile(self.scales, count)[order]
        covariance = units[:, None] * joint[order[:, None], order] * units
        mean = units * weights.ravel()[order]
        return DenseGaussian(mean, covariance, self.log_normaliser, self.valid)


class _Eliminated(NamedTuple):
    """What is left of the sites of each example; q alternatives, of which c are labels."""

    precision: Array  #: M of the utilities, shape (n, c, c)
    shift: Array  #: b of the utilities, shape (n, c)
    spread: Array  #: P, shape (n, q, q)
    centre: Array  #: P l, shape (n, q)
    passed: Array  #: of I - P Lambda the columns of labels, shape (n, q, c)
    log_constant: Array  #: a scalar
    valid: Array


class LabelPrior(NamedTuple):
    """Weights and performances of q alternatives before anything is seen.

    `phi` are features times the prior standard deviations `scales`, the constant first, (n, p) and
    (p,); `root` the Cholesky factor of labels' correlation, (c, c), or None; `noise` (q,) standard
    deviations; `better`, `worse` alternatives of each site, (n, M), -1 for none.
    """

    phi: Array
    scales: Array
    root: Array | None
    noise: Array
    num_labels: int
    better: Array
    worse: Array

    on_host, keeps_covariances = False, True

    @property
    def size(self) -> int:
        """Number of levels and weights."""
        return self.num_labels * self.phi.shape[1]

    @property
    def dtype(self) -> Any:
        """Type of its numbers."""
        return self.phi.dtype

    def prepared(self) -> LabelPrior:
        """Return itself: nothing is left to prepare."""
        return self

    def alone(self, terms: Sequence[SiteTerm] = ()) -> LabelGaussian:
        """The prior as a posterior."""
        none = jnp.zeros(self.better.size, self.dtype)
        return self.times((SiteTerm(Rows.identity(0), none, none),))

    def times(self, terms: Sequence[SiteTerm], before: Any = None) -> LabelGaussian:
        """Multiply by sites: eliminate the performances, then solve for the weights."""
        [(_, tau, nu)] = terms
        local = self._eliminate(tau, nu)
        identity = jnp.eye(self.size, dtype=self.dtype)
        seen = _gathered(local.precision, self.phi)
        back = None if self.root is None else self.root.T
        precision = identity + _mixed(back, _mixed(back, seen).T)
        factor = jnp.linalg.cholesky(precision)
        covariance = jax.scipy.linalg.cho_solve((factor, True), identity)
        covariance = 0.5 * (covariance + covariance.T)
        shift = _mixed(back, jnp.einsum("na,nj->aj", local.shift, self.phi).reshape(-1, 1))[:, 0]
        mean = (covariance @ shift).reshape(self.num_labels, -1)
        pivots = jnp.diagonal(factor)
        log_normaliser = local.log_constant + 0.5 * shift @ mean.ravel() - jnp.sum(jnp.log(pivots))
        margins = self._margins(local, *_correlated(self.root, mean, covariance))
        known = exceeds_rounding(pivots**2, jnp.diagonal(precision))
        valid = local.valid & known & jnp.isfinite(log_normaliser)
        return LabelGaussian(
            mean, covariance, self.scales, self.root, *margins, log_normaliser, valid
        )

    def log_normaliser(self, terms: Sequence[SiteTerm], posterior: LabelGaussian) -> Array:
        """The normaliser, differentiable in `phi`, `root` and `noise` at fixed posteriors."""
        [(_, tau, nu)] = terms
        fixed, local = lax.stop_gradient((posterior, self._eliminate(tau, nu)))
        weights, joint = _correlated(self.root, fixed.free_mean, fixed.free_covariance)
        mean = self.phi @ weights.T
        spreads = _spreads(joint, self.phi, self.num_labels)
        second = spreads + mean[:, :, None] * mean[:, None, :]
        slope = jnp.sum(local.shift * mean) - 0.5 * jnp.sum(local.precision * second)
        own = lax.stop_gradient(self._noise_power(local, mean, spreads))
        slope -= len(self.phi) * jnp.sum(jnp.log(self.noise)) + 0.5 * jnp.sum(own / self.noise**2)
        return fixed.log_normaliser + slope - lax.stop_gradient(slope)

    def _noise_power(self, local: _Eliminated, mean: Array, spreads: Array) -> Array:
        """Expected sum of squares over examples of each alternative's noise, shape (q,)."""
        moved = local.passed - jnp.eye(self.noise.size, dtype=self.dtype)[:, : self.num_labels]
        centre = jnp.einsum("nqc,nc->nq", moved, mean) + local.centre
        variance = jnp.diagonal(local.spread, axis1=1, axis2=2)
        variance += jnp.einsum("nqc,ncd,nqd->nq", moved, spreads, moved)
        return jnp.sum(centre**2 + variance, axis=0)

    def _eliminate(self, tau: Array, nu: Array) -> _Eliminated:
        """Take in one site of each example at a time; factorisations in batches can hang XLA."""
        upper, lower = self._alternatives()
        tau, nu = (x.reshape(upper.shape) for x in (tau, nu))
        count, alternatives = len(self.phi), self.noise.size
        row = jnp.arange(count)
        start = jnp.broadcast_to(jnp.diag(self.noise**2), (count, alternatives, alternatives))
        nothing = jnp.zeros((count, alternatives), self.dtype)

        def take_in(state: Any, site: Any) -> tuple[Any, tuple[Array, Array]]:
            spread, shift, precision = state
            a, b, t, m = site
            towards = _column(spread, a) - _column(spread, b)
            variance = _entry(towards, a) - _entry(towards, b)
            widened = 1.0 + t * variance
            share = t / widened
            spread -= share[:, None, None] * towards[:, :, None] * towards[:, None, :]
            shift = shift.at[row, a].add(m, mode="drop").at[row, b].add(-m, mode="drop")
            for x, y, sign in ((a, a, 1), (b, b, 1), (a, b, -1), (b, a, -1)):
                precision = precision.at[row, x, y].add(sign * t, mode="drop")
            return (spread, shift, precision), (jnp.log(widened), widened > 0)

        sites = tuple(x.T for x in (upper, lower, tau, nu))
        state = start, nothing, jnp.zeros_like(start)
        (spread, shift, precision), (logs, proper) = lax.scan(take_in, state, sites)
        centre = jnp.einsum("nij,nj->ni", spread, shift)
        passed = jnp.eye(alternatives, dtype=self.dtype) - spread @ precision
        seen = precision @ passed
        c = self.num_labels
        return _Eliminated(
            0.5 * (seen + jnp.swapaxes(seen, 1, 2))[:, :c, :c],
            jnp.einsum("nji,nj->ni", passed, shift)[:, :c],
            spread,
            centre,
            passed[:, :, :c],
            0.5 * jnp.sum(shift * centre) - 0.5 * jnp.sum(logs),
            jnp.all(proper),
        )

    def _margins(self, local: _Eliminated, mean: Array, covariance: Array) -> tuple[Array, Array]:
        """Means and variances of the differences of performances that the sites see."""
        utility = self.phi @ mean.T
        spreads = _spreads(covariance, self.phi, self.num_labels)
        means = jnp.einsum("nqc,nc->nq", local.passed, utility) + local.centre
        moved = local.passed @ spreads @ jnp.swapaxes(local.passed, 1, 2)
        covariances = local.spread + moved
        upper, lower = self._alternatives()
        row = jnp.arange(len(self.phi))[:, None]
        take = partial(lambda table, *index: table.at[(row, *index)].get(mode="clip"))
        variance = take(covariances, upper, upper) + take(covariances, lower, lower)
        variance -= 2.0 * take(covariances, upper, lower)
        used = self.better >= 0
        difference = take(means, upper) - take(means, lower)
        return jnp.where(used, difference, 0.0).ravel(), jnp.where(used, variance, 0.0).ravel()

    def _alternatives(self) -> tuple[Array, Array]:
        """The alternatives of each site, with a number past the last one for no site."""
        nobody = self.noise.size
        used = self.better >= 0
        return jnp.where(used, self.better, nobody), jnp.where(used, self.worse, nobody)


def _mixed(root: Array | None, table: Array) -> Array:
    """Mix the rows (c p, k) of different labels, apart from those of their levels."""
    if root is None:
        return table
    parts = table.reshape(len(root), -1, table.shape[1])
    mixed = jnp.tensordot(root, parts[:, 1:], 1)
    return jnp.concatenate([parts[:, :1], mixed], axis=1).reshape(table.shape)


def _correlated(root: Array | None, mean: Array, covariance: Array) -> tuple[Array, Array]:
    """Mean (c, p) and covariance (c p, c p) of weights, of those of the free ones."""
    weights = _mixed(root, mean.reshape(-1, 1)).reshape(mean.shape)
    return weights, _mixed(root, _mixed(root, covariance).T)


def _column(table: Array, number: Array) -> Array:
    """A column of each matrix of a table (n, q, q), shape (n, q)."""
    return jnp.take_along_axis(table, number[:, None, None], axis=2, mode="clip")[:, :, 0]


def _entry(table: Array, number: Array) -> Array:
    """An entry of each row of a table (n, q), shape (n,)."""
    return jnp.take_along_axis(table, number[:, None], axis=1, mode="clip")[:, 0]


def _gathered(precision: Array, phi: Array) -> Array:
    """Sum over examples of ``M_i`` times ``phi_i phi_i'``, shape (c p, c p)."""
    count, width = phi.shape
    labels = precision.shape[1]

    def row(weights: Array) -> Array:
        return phi.T @ (weights[:, :, None] * phi[:, None, :]).reshape(count, labels * width)

    rows = lax.map(row, jnp.swapaxes(precision, 0, 1))
    return rows.reshape(labels * width, labels * width)


def _spreads(covariance: Array, phi: Array, labels: int) -> Array:
    """Covariances of the utilities of each example, shape (n, c, c)."""
    count, width = phi.shape

    @jax.checkpoint
    def row(block: Array) -> Array:
        return jnp.einsum("ncp,np->nc", (phi @ block).reshape(count, labels, width), phi)

    rows = lax.map(row, covariance.reshape(labels, width, labels * width))
    return jnp.swapaxes(rows, 0, 1)


class LabelRankingEP(OwnPriorEP):
    """EP on `bayesrank.models.label_ranking`: the same fixed point, for many examples.

    `bayesrank.infer.EP` eliminates the performances of an example as well, but keeps a row of
    weights for each. Here a sweep over n examples of c labels and p features takes a time of order
    ``n (c p)^2`` and memory for ``(c p)^2 + n c (c + p)`` numbers. The result holds ``bias`` and
    ``w``; ``noise`` is among its ``marginalized_sites``. It takes the settings of any engine.

    Parameters
    ----------
    **settings
        Those of `bayesrank.infer.EP`.

    Examples
    --------
    >>> import jax, numpy as np
    >>> from bayesrank.models.label_ranking import conditions
    >>> found = conditions(2, relevant=[[1, 0], [0, 1], [0, 1]])
    >>> X = np.array([[1.0], [-1.0], [-0.5]])
    >>> result = LabelRankingEP().run(jax.random.key(0), X, *found, 2)
    >>> bool(result.mean["w"][0, 0] > 0 > result.mean["w"][1, 0])
    True
    """

    program = staticmethod(calibrated_label_ranking)

    def build(self, inventory: Any, *args: Any, **kwargs: Any) -> Program:
        """Put the eliminated performances in the place of the joint prior."""
        return _read(inventory, self.power, *args, **kwargs)


def _read(
    inventory: Any,
    power: float,
    X: ArrayLike,
    better: ArrayLike,
    worse: ArrayLike,
    num_labels: int,
    *,
    basis: ArrayLike | None = None,
    calibrated: bool = True,
    correlated: bool = False,
    step: float = STEP,
) -> Program:
    """Put the eliminated performances in the place of the program's joint prior."""
    values = inventory.hyperparameters
    features, points = jnp.asarray(X, float), None if basis is None else jnp.asarray(basis, float)
    phi = label_features(features, points, values.get("lengthscale"))
    scales = jnp.full(phi.shape[1] + 1, jnp.asarray(values["scale"], phi.dtype)).at[0].set(LEVEL)
    phi = scales * jnp.concatenate([jnp.ones((len(phi), 1), phi.dtype), phi], axis=1)
    noise = jnp.ones(num_labels, phi.dtype)
    if calibrated:
        noise = jnp.append(noise, jnp.asarray(values["zero_noise"], phi.dtype))
    upper, lower = jnp.asarray(better), jnp.asarray(worse)
    root = None
    if correlated:
        root = jnp.linalg.cholesky(jnp.asarray(values["correlation"], phi.dtype))
    prior = LabelPrior(phi, scales, root, noise, num_labels, upper, lower)
    used = (upper >= 0).ravel()
    offset = jnp.zeros(used.size, phi.dtype)

    def moments(mean: Array, variance: Array) -> TiltedMoments:
        found = _moments(mean, variance, step, power)
        return TiltedMoments(*(jnp.where(used, x, 0.0) for x in found))

    shapes = {"bias": (num_labels,), "w": (num_labels, phi.shape[1] - 1)}
    return Program(
        problem=Problem(prior, (Block(Rows.identity(0), offset, moments),), 0.0, power),
        mean=jnp.zeros(prior.size, phi.dtype),
        hyperparameters=values,
        layout=ProgramLayout(shapes, inventory.sampled, ("order",), eliminated=("noise",)),
    )


def _moments(mean: Array, variance: Array, step: float, power: float) -> TiltedMoments:
    """Tilted moments of conditions, raised to `power`."""
    if power == 1:
        return Thurstone(jnp.zeros_like(mean), step).tilted_moments(1, mean, variance)
    return tilted_moments(lambda f: power * Thurstone(f, step).log_prob(1), mean, variance)


def check_label_memory(
    num_examples: int, num_labels: int, num_features: int, num_fits: int = 1
) -> None:
    """Refuse examples if their posteriors do not fit into memory.

    Parameters
    ----------
    num_examples, num_labels, num_features
        Numbers n, c and p of examples, labels and features.
    num_fits
        How many posteriors are kept.

    Raises
    ------
    ValueError
        If a fit needs more than there is.
    """
    weights = num_labels * (num_features + 1)
    needed = 8 * ((6 + num_fits) * weights**2)
    needed += 8 * num_examples * num_labels * (12 * num_labels + 4 * num_features)
    what = (
        f"X has {num_examples:,} rows, and fits of {weights:,} weights ({num_labels:,} labels of "
        f"{num_features:,} features and a level)"
    )
    check_memory(needed, what, "give fewer features, or a smaller basis")
