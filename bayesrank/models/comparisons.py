r"""Skills of items from comparisons of two items at a time: one program with optional terms.

Each item has a skill :math:`f`. In a comparison each item performs at its skill plus noise of
standard deviation :math:`\sigma`, and the better performance wins. Item :math:`a` is compared with
item :math:`b` by judge :math:`j` in category :math:`c`. The judge sees the margin

.. math:: r_j \, (f_a + g_{ca} + t_{ja} - f_b - g_{cb} - t_{jb}) + x \, (h + b_j)
    + \sqrt 2 \, \sigma \varepsilon,

with standard normal noise :math:`\varepsilon`. A category adds :math:`g` to a skill, and the
judge's own taste adds :math:`t`; :math:`r_j` is the judge's reliability. Being shown first is worth
:math:`h`, plus the judge's own order bias :math:`b_j`; :math:`x` is 1 if :math:`a` was, and
:math:`-1` if :math:`b` was. Covariates :math:`z`, such as how much longer the answer of :math:`a`
is, add :math:`z' \beta`. The first item wins if the margin is above the tie width, the second if it
is below minus the tie width. All between is a tie. A judge of reliability zero answers without
regard to the items, and the typical judge has reliability one. A column that is not given adds no
term.

Comparisons only ever show skills relative to the noise, so its prior is tight around one. A skill
difference of :math:`\sqrt 2` then wins with probability :math:`\Phi(1)`, 84%. Adding a number to
all skills changes no probability either; the zero-mean prior decides the level.

Skills are independent (`thurstone`, `judged_comparisons`), a Gaussian process of the items'
features (`preference_gp`), or processes in time (`bayesrank.models.dynamic_thurstone`).

References
----------
.. [1] Chu, W. and Ghahramani, Z. (2005). Extensions of Gaussian processes for ranking:
   semi-supervised and active learning. NIPS Workshop on Learning to Rank.
.. [2] Thurstone, L. L. (1927). A law of comparative judgement. Psychological Review, 34, 273-286.
.. [3] Chen, X., Bennett, P. N., Collins-Thompson, K. and Horvitz, E. (2013). Pairwise ranking
   aggregation in a crowdsourced setting. WSDM. (Judges' reliabilities in Bradley-Terry models.)
.. [4] Davidson, R. R. and Beaver, R. J. (1977). On extending the Bradley-Terry model to incorporate
   within-pair order effects. Biometrics, 33, 693-702.
.. [5] Glenn, W. A. and David, H. A. (1960). Ties in paired-comparison experiments using a modified
   Thurstone-Mosteller model. Biometrics, 16, 86-109.
"""

import math
from contextlib import nullcontext
from typing import Any, Literal, NamedTuple, TypedDict, Unpack

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import Array
from jax.typing import ArrayLike
from numpyro import handlers

from bayesrank import gp
from bayesrank._validate import (
    check_choice,
    check_comparisons,
    check_count,
    check_features,
    check_laplacian,
    check_numbered,
    check_outcomes,
    check_position,
    check_weights,
)
from bayesrank.distributions import BradleyTerry, BradleyTerryTies, Thurstone, ThurstoneTies

PAIR_LIKELIHOODS = {"probit": (Thurstone, ThurstoneTies), "logit": (BradleyTerry, BradleyTerryTies)}
"""Distributions of an outcome without ties and with them."""


_LOG_ODDS_OF_OWN = -3.0, 1.5  # mean and sd; no maximum lies at a share of zero


class ScalePrior(NamedTuple):
    """A log-normal prior of a scale: median and standard deviation of the logarithm."""

    median: float
    sd: float

    def distribution(self) -> dist.LogNormal:
        """The prior as NumPyro has it."""
        return dist.LogNormal(math.log(self.median), self.sd)


SCALES = {
    "scale": ScalePrior(1.0, 1.0),
    "category_scale": ScalePrior(0.3, 1.0),
    "bias_scale": ScalePrior(0.3, 1.0),
    "taste_scale": ScalePrior(0.3, 1.0),
    "reliability_scale": ScalePrior(0.3, 0.5),
    "tie_width": ScalePrior(0.5, 1.0),
    "graph_weight": ScalePrior(50.0, 1.5),
}
"""Priors of the scales, which solvers take from here."""


class ComparisonColumns(TypedDict, total=False):
    """What may be said of each comparison, see `observe_comparisons`."""

    outcomes: ArrayLike | None
    weights: ArrayLike | None
    counted: ArrayLike | None
    likelihood: Literal["probit", "logit"]
    position: ArrayLike | None
    judges: ArrayLike | None
    num_judges: int | None
    tastes: bool
    covariates: ArrayLike | None
    categories: ArrayLike | None
    num_categories: int | None


def thurstone(
    num_items: int,
    comparisons: ArrayLike | None = None,
    *,
    scale: ArrayLike | None = None,
    laplacian: Any = None,
    **columns: Unpack[ComparisonColumns],
) -> None:
    r"""Independent skills of items, compared two at a time; or alike along a graph.

    ================ ============================== ============================================
    site             prior                          meaning
    ================ ============================== ============================================
    ``scale``        LogNormal(0, 1)                prior sd of a skill (unless given)
    ``graph_weight`` LogNormal(log 50, 1.5)         pull between neighbours (with `laplacian`)
    ``f``            Normal(0, scale), shape (n,)   skills, in units of the noise
    ================ ============================== ============================================

    The other sites are those of `observe_comparisons`.

    Where near-equals are chosen to meet, opponents are alike. With the Laplacian :math:`L` of the
    graph of comparisons, of mean degree :math:`d`, skills differ by :math:`N(0, s^2 c \,
    (I + w L / d)^{-1})`, :math:`s = \mathtt{scale}` and :math:`w = \mathtt{graph\_weight}`, where
    :math:`c` keeps the average variance at :math:`s^2`. The averages of the graph's components are
    as with independent skills, which :math:`w = 0` is.

    Parameters
    ----------
    num_items : int
    comparisons : ArrayLike, optional
        Integers of shape (K, 2), a row (winner, loser) for each comparison; repeats count. Without
        it the program is the prior. To draw outcomes of given pairs, run the program under
        ``numpyro.handlers.uncondition``.
    scale : ArrayLike, optional
        Prior standard deviation of a skill, positive. Without it ``scale`` is a site.
    laplacian : ArrayLike or scipy.sparse array, optional
        Laplacian of a graph of the items, shape (n, n), see `bayesrank.gp.laplacian`.
    **columns
        What else is known of each comparison, see `observe_comparisons`.

    Raises
    ------
    ValueError
        If an argument cannot be used; the message names it and what to do.
    """
    if laplacian is None:
        skills = independent_skills(num_items, scale)
    else:
        skills = _alike_skills(num_items, scale, laplacian)
    observe_comparisons(skills, comparisons, **columns)


def judged_comparisons(
    num_items: int, comparisons: ArrayLike | None = None, **columns: Unpack[ComparisonColumns]
) -> None:
    """Independent skills of items, compared by judges, in an order, in categories: `thurstone`.

    Parameters
    ----------
    num_items, comparisons, **columns
        As for `thurstone`, with the same errors.

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
    thurstone(num_items, comparisons, **columns)


def preference_gp(
    X: ArrayLike,
    comparisons: ArrayLike | None = None,
    *,
    X_new: ArrayLike | None = None,
    ard: bool = False,
    item_effects: bool = False,
    laplacian: Any = None,
    rank: int | None = None,
    **columns: Unpack[ComparisonColumns],
) -> None:
    r"""Gaussian-process skills of items with features, compared two at a time.

    ================ ============================== ============================================
    site             prior                          meaning
    ================ ============================== ============================================
    ``amplitude``    LogNormal(0, 1)                prior sd of a skill
    ``lengthscale``  LogNormal(log sqrt d, 1)       distance over which skill varies
    ``noise``        LogNormal(0, 0.1)              sd of a performance; sets the unit of skill
    ``item_share``   LogitNormal(-3, 1.5)           share of each item alone (`item_effects`)
    ``graph_weight`` LogNormal(0, 2)                pull between neighbours (with ``laplacian``)
    ``f``            Gaussian process, shape (n,)   skills
    ``f_new``        given ``f``, shape (m,)        skills of the new items (with ``X_new``)
    ================ ============================== ============================================

    The other sites are those of `observe_comparisons`. The priors suppose features of mean zero and
    standard deviation one: two items are then at a distance of about :math:`\sqrt{2 d}`. In the
    symbols of Chu and Ghahramani (2005) :math:`\kappa_o = \mathtt{amplitude}^2`,
    :math:`\kappa = 1 / \mathtt{lengthscale}^2` and :math:`\sigma = \mathtt{noise}`. Their graph has
    the weight one.

    Parameters
    ----------
    X : ArrayLike
        Features of the items, shape (n, d).
    comparisons, **columns
        As for `thurstone`.
    X_new : ArrayLike, optional
        Features of items that are in no comparison, shape (m, d).
    ard : bool, default False
        Whether each feature has a lengthscale of its own; then ``lengthscale`` has shape (d,).
    item_effects : bool, default False
        Whether items of the same features differ: each has an independent effect of its own, which
        ``f`` and ``f_new`` contain.
    laplacian : ArrayLike or scipy.sparse array, optional
        Laplacian :math:`L` of a graph of the items, shape (n, n), see `bayesrank.gp.laplacian`. The
        prior density of ``f`` is multiplied by :math:`\exp(-w f' L f / 2)`, with :math:`w =
        \mathtt{graph\_weight}`, and normalised, so neighbours have similar skills. The process as a
        whole has the kernel `bayesrank.gp.graph_kernel`.
    rank : int, optional
        Number of inducing points, for items too many for a covariance matrix. The prior of ``f`` is
        then `bayesrank.gp.inducing_point_prior`, without `laplacian` or `X_new`.

    Raises
    ------
    ValueError
        If an argument cannot be used; the message names it and what to do.

    Examples
    --------
    >>> import jax, numpy as np
    >>> from numpyro.infer import Predictive
    >>> X = np.array([[-1.0], [0.0], [1.0]])
    >>> prior = Predictive(preference_gp, num_samples=100)(jax.random.key(0), X)
    >>> prior["f"].shape
    (100, 3)
    """
    X = check_features(X, "X")
    kernel, own = feature_kernel(X.shape[1], ard, item_effects)
    noise = numpyro.sample("noise", dist.LogNormal(0.0, 0.1))
    skills = process_skills(X, kernel, X_new, laplacian, rank, own)
    observe_comparisons(skills, comparisons, noise=noise, **columns)


def observe_comparisons(
    skills: Array,
    comparisons: ArrayLike | None,
    *,
    noise: ArrayLike = 1.0,
    period: ArrayLike | None = None,
    outcomes: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    counted: ArrayLike | None = None,
    likelihood: Literal["probit", "logit"] = "probit",
    position: ArrayLike | None = None,
    judges: ArrayLike | None = None,
    num_judges: int | None = None,
    tastes: bool = False,
    covariates: ArrayLike | None = None,
    categories: ArrayLike | None = None,
    num_categories: int | None = None,
) -> None:
    """Compare items of given skills; a column that is not given adds no term.

    ===================== ================================= =======================================
    site                  prior                             meaning
    ===================== ================================= =======================================
    ``category_scale``    LogNormal(log 0.3, 1)             prior sd of what a category adds
    ``category_skill``    Normal(0, category_scale), (C, n) what it adds (with `categories`)
    ``reliability_scale`` LogNormal(log 0.3, 0.5)           prior sd of log reliability
    ``reliability``       LogNormal(0, reliability_scale)   of each judge, (J,) (with `judges`)
    ``taste_scale``       LogNormal(log 0.3, 1)             prior sd of a taste
    ``taste``             Normal(0, taste_scale), (J, n)    of judges for items (with `tastes`)
    ``position_effect``   Normal(0, 1)                      what being first is worth (`position`)
    ``covariate_effect``  Normal(0, 1), (D,)                what a unit is worth (with `covariates`)
    ``bias_scale``        LogNormal(log 0.3, 1)             prior sd of a judge's order bias
    ``bias``              Normal(0, bias_scale), (J,)       order biases (judges and `position`)
    ``tie_width``         LogNormal(log 0.5, 1)             least decisive margin (with `outcomes`)
    ``comparison``        observed, shape (K,)              1 for each comparison, or `outcomes`
    ===================== ================================= =======================================

    Parameters
    ----------
    skills : Array
        Shape (n,); of skills that move (n, T).
    comparisons : ArrayLike or None
        Integers of shape (K, 2), a row (winner, loser) for each comparison; repeats count. Without
        it nothing is observed.
    noise : ArrayLike, default 1.0
        Standard deviation of a performance, a scalar or one a comparison; see `likelihood`.
    period : ArrayLike, optional
        Which of the T times each comparison was at, integers of shape (K,).
    outcomes : ArrayLike, optional
        Integers of shape (K,): 2 if the first item of the row wins, 1 for a tie, 0 if the second
        wins. Without it the first item of the row wins.
    weights : ArrayLike, optional
        How often each comparison counts, positive numbers of shape (K,); once without it.
    counted : ArrayLike, optional
        Shape (K,): False for rows that fill up a table, which say nothing.
    likelihood : {"probit", "logit"}
        Normal noise of standard deviation `noise` on each performance (Thurstone), or logistic
        noise of scale `noise` on their difference (Bradley-Terry).
    position : ArrayLike, optional
        Shape (K,): 1 if the first item of the row was shown first or at home, -1 if the second was,
        0 if neither.
    covariates : ArrayLike, optional
        Shape (K, D): by how much the first item of the row has more of each covariate.
    judges, categories : ArrayLike, optional
        Integers of shape (K,): judge and category of each comparison.
    num_judges, num_categories : int, optional
        How many there are; needed with `judges` and `categories`.
    tastes : bool, default False
        Whether each judge likes each item more or less than others do.

    Raises
    ------
    ValueError
        If an argument cannot be used; the message names it and what to do.
    """
    check_choice(likelihood, "likelihood", *PAIR_LIKELIHOODS)
    if tastes and judges is None:
        raise ValueError("tastes is True, and there are no judges; pass judges, or leave it out")
    if comparisons is None:
        given = {"outcomes": outcomes, "weights": weights, "period": period, "position": position}
        given |= {"judges": judges, "categories": categories, "covariates": covariates}
        _refuse_columns(given)
        return
    pairs = check_comparisons(comparisons, skills.shape[0])
    count = pairs.shape[0]
    difference = _difference(skills, pairs, period)
    if categories is not None:
        category, num_categories = _labels(categories, num_categories, count, "categories")
        added = _varying("category_skill", "category_scale", num_categories, skills.shape[0])
        difference = difference + added[category, pairs[:, 0]] - added[category, pairs[:, 1]]
    if judges is not None:
        judges, num_judges = _labels(judges, num_judges, count, "judges")
        difference = _tasted(difference, pairs, judges, (num_judges, skills.shape[0]), tastes)
        reliability = _varying("reliability", "reliability_scale", num_judges, of=dist.LogNormal)
        difference = reliability[judges] * difference
    margin = difference
    if position is not None:
        first = jnp.asarray(check_position(position, count), float)
        effect = jnp.asarray(numpyro.sample("position_effect", dist.Normal(0.0, 1.0)))
        margin = margin + first * effect
        if judges is not None and num_judges is not None:
            margin = margin + first * _varying("bias", "bias_scale", num_judges)[judges]
    if covariates is not None:
        more = check_features(covariates, "covariates")
        if more.shape[0] != count:
            raise ValueError(
                f"covariates has {more.shape[0]} rows; pass {count}, one for each comparison"
            )
        prior = dist.Normal(0.0, 1.0).expand([more.shape[1]]).to_event(1)
        margin = margin + more @ jnp.asarray(numpyro.sample("covariate_effect", prior))
    _observe(margin, outcomes, weights, counted, PAIR_LIKELIHOODS[likelihood], noise)


def _observe(
    margin: Array,
    outcomes: ArrayLike | None,
    weights: ArrayLike | None,
    counted: ArrayLike | None,
    likelihood: tuple[Any, Any],
    noise: ArrayLike,
) -> None:
    """Observe outcomes of comparisons of these margins, shape (K,)."""
    decisive, with_ties = likelihood
    count = margin.shape[0]
    if outcomes is None:
        seen, observed = decisive(margin, noise), jnp.ones(count, int)
    else:
        observed = check_outcomes(outcomes, count)
        seen = with_ties(margin, draw_scale("tie_width"), noise)
    if counted is not None:
        seen = seen.mask(jnp.asarray(counted))
    weighted = nullcontext()
    if weights is not None:
        weighted = handlers.scale(scale=check_weights(weights, count))
    with weighted, numpyro.plate("comparisons", count):
        numpyro.sample("comparison", seen, obs=observed)


def independent_skills(num_items: int, scale: ArrayLike | None = None) -> Array:
    """Draw independent skills ``f`` and, unless it is given, their ``scale``; see `thurstone`."""
    num_items = check_count(num_items, "num_items")
    scale = draw_scale("scale") if scale is None else scale
    with numpyro.plate("items", num_items):
        return jnp.asarray(numpyro.sample("f", dist.Normal(0.0, scale)))


def _alike_skills(num_items: int, scale: ArrayLike | None, laplacian: Any) -> Array:
    """Draw skills ``f`` that are alike along a graph; see `thurstone`."""
    num_items = check_count(num_items, "num_items")
    graph = check_laplacian(laplacian, num_items)
    scale = draw_scale("scale") if scale is None else scale
    weight = draw_scale("graph_weight")
    degrees = jnp.diagonal(graph)
    values, basis = jnp.linalg.eigh(graph * (jnp.sum(degrees > 0.0) / jnp.sum(degrees)))
    inside = values > num_items * jnp.finfo(values.dtype).eps * values[-1]
    shares = jnp.where(inside, 1.0 / (1.0 + weight * jnp.where(inside, values, 0.0)), 0.0)
    shares = jnp.where(inside, shares * (jnp.sum(inside) / jnp.sum(shares)), 1.0)
    covariance = jnp.square(jnp.asarray(scale)) * (basis * shares) @ basis.T
    prior = dist.MultivariateNormal(covariance_matrix=covariance)
    return jnp.asarray(numpyro.sample("f", prior))


def process_skills(
    X: Array,
    kernel: Any,
    X_new: ArrayLike | None = None,
    laplacian: Any = None,
    rank: int | None = None,
    own_variance: ArrayLike = 0.0,
) -> Array:
    """Draw skills ``f`` of items with features (n, d), a Gaussian process; see `preference_gp`."""
    if rank is not None:
        if laplacian is not None or X_new is not None:
            raise ValueError("rank goes with neither laplacian nor X_new; leave it out")
        shared = gp.inducing_point_prior(kernel, X, check_count(rank, "rank"))
        parts = shared.loc, shared.cov_factor, shared.cov_diag + own_variance
        return jnp.asarray(numpyro.sample("f", dist.LowRankMultivariateNormal(*parts)))
    covariance = gp.gram(kernel, X) + own_variance * jnp.eye(X.shape[0], dtype=X.dtype)
    process = prior = dist.MultivariateNormal(covariance_matrix=covariance)
    if laplacian is not None:
        weight = jnp.asarray(numpyro.sample("graph_weight", dist.LogNormal(0.0, 2.0)))
        graph = check_laplacian(laplacian, X.shape[0])
        prior = gp.graph_prior(process.scale_tril, graph, weight=weight)
    f = jnp.asarray(numpyro.sample("f", prior))
    if X_new is not None:
        X_new = check_features(X_new, "X_new", columns=X.shape[1])
        # Of other items the graph says nothing once f is known: no Laplacian here.
        new: Any = gp.conditional(kernel, X, process.scale_tril, f, X_new)
        covariance = new.covariance_matrix + own_variance * jnp.eye(X_new.shape[0], dtype=X.dtype)
        numpyro.sample("f_new", dist.MultivariateNormal(new.loc, covariance_matrix=covariance))
    return f


def feature_kernel(
    num_features: int, ard: bool, item_effects: bool = False
) -> tuple[Any, ArrayLike]:
    """Draw the kernel of skills, and the variance that each item has of its own."""
    amplitude = numpyro.sample("amplitude", dist.LogNormal(0.0, 1.0))
    prior = dist.LogNormal(0.5 * math.log(num_features), 1.0)
    prior = prior.expand([num_features]).to_event(1) if ard else prior
    lengthscale = numpyro.sample("lengthscale", prior)
    if not item_effects:
        return gp.rbf(amplitude, lengthscale), 0.0
    odds = dist.Normal(*_LOG_ODDS_OF_OWN)
    logistic = dist.TransformedDistribution(odds, dist.transforms.SigmoidTransform())
    share = jnp.asarray(numpyro.sample("item_share", logistic))
    return gp.rbf(amplitude * jnp.sqrt(1.0 - share), lengthscale), share * amplitude**2


def draw_scale(name: str) -> Array:
    """Draw the scale of this name in `SCALES`."""
    return jnp.asarray(numpyro.sample(name, SCALES[name].distribution()))


def _varying(name: str, spread: str, *shape: int, of: Any = dist.Normal) -> Array:
    """Draw partially pooled values of this shape, and how far they spread."""
    prior = of(0.0, draw_scale(spread)).expand(shape).to_event(len(shape))
    return jnp.asarray(numpyro.sample(name, prior))


def _difference(skills: Array, pairs: Array, period: ArrayLike | None) -> Array:
    """Differences of the two items' skills in each comparison, shape (K,)."""
    if skills.ndim == 1:
        return skills[pairs[:, 0]] - skills[pairs[:, 1]]
    num_times = skills.shape[1]
    if period is None and num_times > 1:
        raise ValueError(
            f"period is missing, and there are {num_times} times; pass which of them each "
            "comparison was at"
        )
    period = np.zeros(pairs.shape[0], int) if period is None else period
    at = pairs * num_times + _labels(period, num_times, pairs.shape[0], "period")[0][:, None]
    return skills.ravel()[at[:, 0]] - skills.ravel()[at[:, 1]]


def _tasted(
    difference: Array, pairs: Array, judges: Array, shape: tuple[int, int], tastes: bool
) -> Array:
    """Add to differences of skills what judges like more or less than others do."""
    if not tastes:
        return difference
    taste = _varying("taste", "taste_scale", *shape)
    return difference + taste[judges, pairs[:, 0]] - taste[judges, pairs[:, 1]]


def _labels(labels: ArrayLike, number: int | None, count: int, name: str) -> tuple[Array, int]:
    """Numbers of judges, categories or times, one a comparison, and how many there are."""
    if number is None:
        raise ValueError(f"num_{name} is not given; pass how many {name} there are")
    number = check_count(number, f"num_{name}")
    return jnp.asarray(check_numbered(labels, name, count, number)), number


def _refuse_columns(columns: dict[str, ArrayLike | None]) -> None:
    """Refuse columns of comparisons where there are no comparisons."""
    for name, column in columns.items():
        if column is not None:
            raise ValueError(f"{name} is given without comparisons; pass the pairs compared")
