r"""Skills of items from a log of comparisons: who was shown first, who judged, in which category.

Item :math:`a` is compared with item :math:`b` by judge :math:`j` in category :math:`c`. The judge
sees the margin

.. math:: r_j \, (f_a + g_{ca} - f_b - g_{cb}) + x \, (h + b_j) + \sqrt 2 \, \varepsilon,

where :math:`f` are the skills, :math:`g` what a category adds to them, :math:`r_j` the judge's
reliability, :math:`h` what being shown first is worth (:math:`x = 1`, or :math:`-1` if it was
:math:`b`), :math:`b_j` the judge's own order bias, and :math:`\varepsilon` standard normal noise.
The first item wins if the margin is above the tie width, the second if it is below minus the tie
width, and all between is a tie. A judge of reliability zero answers without regard to the items;
reliability one is the typical judge's. Every part is optional: without position, judges,
categories and ties this is `bayesrank.models.thurstone`.

References
----------
.. [1] Chen, X., Bennett, P. N., Collins-Thompson, K. and Horvitz, E. (2013). Pairwise ranking
   aggregation in a crowdsourced setting. WSDM. (Judges' reliabilities in Bradley-Terry models.)
.. [2] Davidson, R. R. and Beaver, R. J. (1977). On extending the Bradley-Terry model to incorporate
   within-pair order effects. Biometrics, 33, 693-702.
.. [3] Glenn, W. A. and David, H. A. (1960). Ties in paired-comparison experiments using a modified
   Thurstone-Mosteller model. Biometrics, 16, 86-109.
"""

import math
from contextlib import nullcontext
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import Array
from jax.typing import ArrayLike
from numpyro import handlers

from bayesrank._validate import check_comparisons, check_count, check_outcomes, check_weights, known
from bayesrank.distributions import Thurstone, ThurstoneTies

__all__ = ["SCALES", "ScalePrior", "judged_comparisons"]


class ScalePrior(NamedTuple):
    """A log-normal prior of a scale: median and standard deviation of the logarithm."""

    median: float
    sd: float

    def distribution(self) -> dist.LogNormal:
        """The prior as NumPyro has it."""
        return dist.LogNormal(math.log(self.median), self.sd)


SCALES = {
    "scale": ScalePrior(1.0, 1.0),
    "group_scale": ScalePrior(0.3, 1.0),
    "bias_scale": ScalePrior(0.3, 1.0),
    "reliability_scale": ScalePrior(0.3, 0.5),
    "tie_width": ScalePrior(0.5, 1.0),
}
"""Priors of the scales, which the solver takes from here."""


def judged_comparisons(
    num_items: int,
    comparisons: ArrayLike | None = None,
    *,
    outcomes: ArrayLike | None = None,
    position: ArrayLike | None = None,
    judges: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    num_judges: int | None = None,
    num_groups: int | None = None,
    weights: ArrayLike | None = None,
) -> None:
    r"""Independent skills of items, compared by judges, in an order, in categories.

    ===================== ================================ ========================================
    site                  prior                            meaning
    ===================== ================================ ========================================
    ``scale``             LogNormal(0, 1)                  prior sd of a skill
    ``f``                 Normal(0, scale), shape (n,)     skills, in units of the noise
    ``position_effect``   Normal(0, 1)                     what being first is worth (``position``)
    ``group_scale``       LogNormal(log 0.3, 1)            prior sd of what a category adds
    ``group_skill``       Normal(0, group_scale), (C, n)   what it adds (with ``groups``)
    ``reliability_scale`` LogNormal(log 0.3, 0.5)          prior sd of log reliability
    ``reliability``       LogNormal(0, reliability_scale)  of each judge, (J,) (with ``judges``)
    ``bias_scale``        LogNormal(log 0.3, 1)            prior sd of a judge's order bias
    ``bias``              Normal(0, bias_scale), (J,)      order biases (judges and ``position``)
    ``tie_width``         LogNormal(log 0.5, 1)            least decisive margin (``outcomes``)
    ``comparison``        observed, shape (K,)             1 for each comparison, or ``outcomes``
    ===================== ================================ ========================================

    Parameters
    ----------
    num_items : int
        Number of items.
    comparisons : ArrayLike, optional
        Integers of shape (K, 2), a row (winner, loser) for each comparison; repeats count. Without
        it the program is the prior.
    outcomes : ArrayLike, optional
        Integers of shape (K,) that make ties possible: 2 if the first item of the row wins, 1 if
        there is no difference, 0 if the second wins. Without it the first item of the row wins.
    position : ArrayLike, optional
        Shape (K,): 1 where the first item of the row was shown first or at home, -1 where the
        second was, 0 where neither.
    judges, groups : ArrayLike, optional
        Integers of shape (K,): judge and category of each comparison.
    num_judges, num_groups : int, optional
        How many there are; needed with `judges` and `groups`.
    weights : ArrayLike, optional
        How often each comparison counts, positive numbers of shape (K,). Without it, once.

    Raises
    ------
    ValueError
        If an argument cannot be used; the message names it and what to do.

    Examples
    --------
    >>> import jax
    >>> from numpyro.infer import Predictive
    >>> rows = [(0, 1), (1, 2), (2, 0)]
    >>> said = {"judges": [0, 1, 0], "num_judges": 2, "position": [1, 1, -1]}
    >>> draws = Predictive(judged_comparisons, num_samples=50)(jax.random.key(0), 3, rows, **said)
    >>> draws["reliability"].shape, draws["bias"].shape
    ((50, 2), (50, 2))
    """
    num_items = check_count(num_items, "num_items")
    scale = numpyro.sample("scale", SCALES["scale"].distribution())
    with numpyro.plate("items", num_items):
        f = jnp.asarray(numpyro.sample("f", dist.Normal(0.0, scale)))
    if comparisons is None:
        return
    pairs = check_comparisons(comparisons, num_items)
    count = pairs.shape[0]
    difference = f[pairs[:, 0]] - f[pairs[:, 1]]
    if groups is not None:
        group, num_groups = _labels(groups, num_groups, count, "groups")
        group_scale = numpyro.sample("group_scale", SCALES["group_scale"].distribution())
        prior = dist.Normal(0.0, group_scale).expand([num_groups, num_items]).to_event(2)
        added = jnp.asarray(numpyro.sample("group_skill", prior))
        difference = difference + added[group, pairs[:, 0]] - added[group, pairs[:, 1]]
    judge = None
    if judges is not None:
        judge, num_judges = _labels(judges, num_judges, count, "judges")
        spread = numpyro.sample("reliability_scale", SCALES["reliability_scale"].distribution())
        prior = dist.LogNormal(0.0, spread).expand([num_judges]).to_event(1)
        difference = jnp.asarray(numpyro.sample("reliability", prior))[judge] * difference
    margin = difference
    if position is not None:
        first = _position(position, count)
        effect = jnp.asarray(numpyro.sample("position_effect", dist.Normal(0.0, 1.0)))
        margin = margin + first * effect
        if judge is not None and num_judges is not None:
            spread = numpyro.sample("bias_scale", SCALES["bias_scale"].distribution())
            prior = dist.Normal(0.0, spread).expand([num_judges]).to_event(1)
            margin = margin + first * jnp.asarray(numpyro.sample("bias", prior))[judge]
    _observe(margin, outcomes, weights)


def _observe(margin: Array, outcomes: ArrayLike | None, weights: ArrayLike | None) -> None:
    count = margin.shape[0]
    if outcomes is None:
        distribution, observed = Thurstone(margin), jnp.ones(count, int)
    else:
        observed = check_outcomes(outcomes, count)
        tie_width = numpyro.sample("tie_width", SCALES["tie_width"].distribution())
        distribution = ThurstoneTies(margin, tie_width)
    counted = nullcontext()
    if weights is not None:
        counted = handlers.scale(scale=check_weights(weights, count))
    with counted, numpyro.plate("comparisons", count):
        numpyro.sample("comparison", distribution, obs=observed)


def _labels(labels: ArrayLike, number: int | None, count: int, name: str) -> tuple[Array, int]:
    """Numbers of judges or categories, one a comparison."""
    values = known(labels)
    if values.shape != (count,) or values.dtype.kind not in "iu":
        raise ValueError(
            f"`{name}` has shape {values.shape} and dtype {values.dtype}; pass integers of shape "
            f"({count},), one for each row of `comparisons`."
        )
    if number is None:
        raise ValueError(f"`num_{name}` is not given; pass how many {name} there are.")
    number = check_count(number, f"num_{name}")
    if isinstance(values, np.ndarray) and not ((values >= 0) & (values < number)).all():
        raise ValueError(f"`{name}` has numbers that are not from 0 to {number - 1}.")
    return jnp.asarray(labels), number


def _position(position: ArrayLike, count: int) -> Array:
    values = known(position)
    if values.shape != (count,) or values.dtype.kind not in "biuf":
        raise ValueError(
            f"`position` has shape {values.shape} and dtype {values.dtype}; pass ({count},), 1, 0 "
            "or -1 for each row of `comparisons`."
        )
    if isinstance(values, np.ndarray) and not np.isin(values, (-1, 0, 1)).all():
        raise ValueError("`position` has numbers other than 1, 0 and -1.")
    result = jnp.asarray(position)
    return result.astype(jnp.result_type(result.dtype, float))
