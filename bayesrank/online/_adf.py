r"""Assumed-density filtering of weights and thresholds, one example at a time.

The weights :math:`w` and the thresholds :math:`c` are jointly Gaussian. The level :math:`y` of an
example says on which side of each threshold the score fell:

.. math:: \prod_{r=1}^{k-1} \Phi\left(l(r)\, (w \cdot x - c(r)) / \sigma\right), \quad
    l(r) = +1 \text{ if } y > r \text{ and } -1 \text{ else,}

the likelihood of `bayesrank.models.bayes_point`. Filtering takes in one factor after the other, and
replaces each by the Gaussian with the right first two moments [1]_ [2]_. One product of the
covariance with the example leads to the k - 1 margins :math:`w \cdot x - c(r)`. The covariance then
changes by k - 1 outer products: :math:`O(k D^2)`, or :math:`O(k D)` for variances only. A kernel
without explicit features has those of a changing basis of stored examples, see
`bayesrank.online._basis`.

With forgetting, the belief goes a little way back to the prior between two examples,
:math:`p^{1 - \lambda} p_0^\lambda`. So an example counts :math:`(1 - \lambda)^n` after n others.
Each unknown's mean and variance change as if it were alone, and correlations stay. The exact
geometric mean would need an inverse at every example. With a basis, the unknowns are the weights of
its orthonormal features.

References
----------
.. [1] Opper, M. (1998). A Bayesian approach to online learning. In: On-line Learning in Neural
   Networks. Cambridge University Press.
.. [2] Minka, T. (2001). A family of algorithms for approximate Bayesian inference. PhD thesis, MIT.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.scipy.special import ndtr
from jax.typing import ArrayLike
from tinygp.kernels import Kernel

from bayesrank.distributions import Thurstone
from bayesrank.online._basis import Basis, enter, features, leave, leaver

# Probability that a level is drawn at random, whatever the score: no noise level of a mixture is
# ever ruled out by a single example.
LAPSE = 1e-6


class Belief(NamedTuple):
    """What each of G components believes."""

    mean: Any  # of weights and thresholds, in this order, shape (G, D)
    covariance: Any  # shape (G, D, D), or their variances only, shape (G, D)
    log_weight: Any  # log of each component's probability, up to a constant; shape (G,)
    skipped: Any  # number of factors that could not be taken in, for want of precision
    seen: Any  # number of examples
    support: Any  # the basis, see `Basis`; where features are explicit, it is empty or None
    stamps: Any
    whitening: Any

    @property
    def basis(self) -> Basis:
        """The stored examples."""
        return Basis(self.support, self.stamps, self.whitening)


class ThresholdMargins(NamedTuple):
    """The margins of one example, ``w.x - c(r)``."""

    mean: Array  # shape (k - 1,)
    covariance: Array  # shape (k - 1, k - 1)
    cross: Array  # covariance of all unknowns with the margins, shape (D, k - 1)


def margins_of(mean: Array, covariance: Array, x: Array) -> ThresholdMargins:
    """Describe the margins of an example, of D - k + 1 features ``x``."""
    num_features = x.shape[0]
    if covariance.ndim == 2:
        cross = covariance[:, :num_features] @ x
        cross = cross[:, None] - covariance[:, num_features:]
    else:
        of_weights = covariance[:num_features] * x
        repeated = jnp.broadcast_to(of_weights[:, None], (num_features, len(mean) - num_features))
        cross = jnp.concatenate([repeated, -jnp.diag(covariance[num_features:])])
    return ThresholdMargins(
        x @ mean[:num_features] - mean[num_features:],
        x @ cross[:num_features] - cross[num_features:],
        cross,
    )


def absorb(
    mean: Array, covariance: Array, x: Array, y: Array, noise: Array, informative: Array
) -> tuple[Array, Array, Array]:
    """Take in one example: mean (D,), covariance, and how many factors were left out."""
    # With the probability `informative` the label is no lapse: the belief is a mixture of that with
    # the example and that without, and is replaced by the Gaussian of the same moments.
    now, before = margins_of(mean, covariance, x), mean
    likelihood, skipped = Thurstone(0.0, noise * 0.5**0.5), jnp.zeros((), jnp.int64)
    outer, curvature = [], []
    for r in range(now.mean.shape[0]):
        variance = now.covariance[r, r]
        possible = variance > 0.0
        side = (y > r + 1).astype(int)
        match = likelihood.tilted_moments(side, now.mean[r], jnp.where(possible, variance, 1.0))
        first, second = (jnp.where(possible, d, 0.0) for d in (match.d1, match.d2))
        skipped = skipped + ~possible
        row, column = now.covariance[r], now.cross[:, r]
        mean = mean + column * first
        outer.append(column)
        curvature.append(second)
        now = ThresholdMargins(
            now.mean + row * first,
            now.covariance + second * row[:, None] * row,
            now.cross + second * column[:, None] * row,
        )
    shift = mean - before
    mean = before + informative * shift
    columns = jnp.stack([*outer, shift], 1)
    scale = informative * jnp.append(jnp.stack(curvature), 1.0 - informative)
    if covariance.ndim == 2:
        return mean, covariance + (columns * scale) @ columns.T, skipped
    return mean, covariance + jnp.sum(scale * columns**2, 1), skipped


def drift(belief: Belief, prior: Belief, forgetting: Array) -> Belief:
    """Take each unknown, and the noises' weights, a little way back to the prior."""
    full = belief.covariance.ndim == 3
    variance, of_prior = (
        jnp.diagonal(b.covariance, axis1=1, axis2=2) if full else b.covariance
        for b in (belief, prior)
    )
    kept = 1.0 - forgetting
    growth = 1.0 / (kept + forgetting * variance / of_prior)
    shift = kept * growth * (belief.mean - prior.mean)
    if full:
        # What rounding has made asymmetric would grow without end: evidence never takes it back.
        symmetric = 0.5 * (belief.covariance + belief.covariance.mT)
        covariance = jnp.sqrt(growth[:, :, None] * growth[:, None, :]) * symmetric
    else:
        covariance = growth * belief.covariance
    return belief._replace(
        mean=prior.mean + shift,
        covariance=covariance,
        log_weight=prior.log_weight + kept * (belief.log_weight - prior.log_weight),
    )


def level_probs(mean: Array, variance: Array, noise: Array) -> Array:
    """Probability of each level, (k,), if labels tell; where thresholds cross, the smaller."""
    above = lax.cummin(ndtr(mean / jnp.sqrt(variance + noise**2)))
    ends = jnp.ones(1, above.dtype), jnp.zeros(1, above.dtype)
    probs = jnp.concatenate([ends[0], above]) - jnp.concatenate([above, ends[1]])
    return with_lapse(probs, LAPSE)


def with_lapse(probs: Array, lapse: ArrayLike) -> Array:
    """Probabilities of levels of which a share is drawn at random; shape (..., k)."""
    return (1.0 - jnp.asarray(lapse)) * probs + jnp.asarray(lapse) / probs.shape[-1]


@jax.jit
def take_block(
    belief: Belief,
    X: ArrayLike,
    y: ArrayLike,
    count: ArrayLike,
    prior: Belief,
    noises: ArrayLike,
    lapses: ArrayLike,
    forgetting: ArrayLike,
    kernel: Kernel | None = None,
) -> tuple[Belief, Array]:
    """Take in `count` examples of a block (B, d) in turn: belief, and levels foreseen (B, k)."""
    X, y, noises, lapses = (jnp.asarray(a) for a in (X, y, noises, lapses))
    forgetting = jnp.asarray(forgetting)
    width = X.shape[1] if kernel is None else belief.stamps.shape[0]
    num_levels = belief.mean.shape[1] - width + 1

    def turn(i: Array, carry: tuple[Belief, Array]) -> tuple[Belief, Array]:
        belief, predicted = carry
        row = X[i] if kernel is None else features(kernel, belief.basis, X[i])
        probs = jax.vmap(_foresee, in_axes=(0, 0, None, 0))(
            belief.mean, belief.covariance, row, noises
        )
        every = with_lapse(probs, lapses[:, None])
        mixed, found = jax.nn.softmax(belief.log_weight) @ every, every[:, y[i] - 1]
        informative = (1.0 - lapses) * probs[:, y[i] - 1] / found
        mean, covariance, skipped = jax.vmap(absorb, in_axes=(0, 0, None, None, 0, 0))(
            belief.mean, belief.covariance, row, y[i], noises, informative
        )
        log_weight = belief.log_weight + jnp.log(found)
        belief = belief._replace(
            mean=mean,
            covariance=covariance,
            log_weight=log_weight - log_weight.max(),
            skipped=belief.skipped + skipped.sum(),
            seen=belief.seen + 1,
        )
        if kernel is not None:
            basis = enter(belief.basis, X[i], row, belief.seen)
            belief = _within_budget(belief._replace(**basis._asdict()), prior)
        # What is kept is the belief about the next example, drift included.
        belief = lax.cond(
            forgetting > 0.0, lambda b: drift(b, prior, forgetting), lambda b: b, belief
        )
        return belief, predicted.at[i].set(mixed)

    return lax.fori_loop(0, count, turn, (belief, jnp.zeros((len(X), num_levels))))


def _foresee(mean: Array, covariance: Array, x: Array, noise: Array) -> Array:
    known = margins_of(mean, covariance, x)
    # Where rounding leaves no positive variance there is nothing left to be learned.
    return level_probs(known.mean, jnp.maximum(jnp.diag(known.covariance), 0.0), noise)


def _within_budget(belief: Belief, prior: Belief) -> Belief:
    """Let an example leave the basis if there is no free slot."""

    def without_one(belief: Belief) -> Belief:
        width = belief.stamps.shape[0]
        weights = jax.nn.softmax(belief.log_weight) @ belief.mean[:, :width]
        slot = leaver(belief.basis, weights)
        basis, mirror = leave(belief.basis, slot)
        mirror = jnp.concatenate([mirror, jnp.zeros(belief.mean.shape[1] - width)])
        mean = belief.mean - (belief.mean @ mirror)[:, None] * mirror
        half = belief.covariance - mirror[:, None] * (mirror @ belief.covariance)[:, None]
        covariance = half - (half @ mirror)[:, :, None] * mirror
        return belief._replace(
            mean=mean.at[:, slot].set(0.0),
            covariance=covariance.at[:, slot]
            .set(prior.covariance[:, slot])
            .at[:, :, slot]
            .set(prior.covariance[:, :, slot]),
            **basis._asdict(),
        )

    return lax.cond(belief.stamps.min() > 0, without_one, lambda b: b, belief)
