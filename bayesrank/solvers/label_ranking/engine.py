"""EP on `bayesrank.models.label_ranking` with performances eliminated example by example."""

from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from bayesrank._memory import check_memory
from bayesrank.distributions import Thurstone, TiltedMoments
from bayesrank.infer.spi import (
    Block,
    Problem,
    Program,
    ProgramLayout,
    Rows,
    tilted_moments,
)
from bayesrank.models.label_ranking import LEVEL, STEP, calibrated_label_ranking, label_features
from bayesrank.solvers._engine import OwnPriorEP
from bayesrank.solvers.label_ranking.elimination import LabelPrior


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
