"""Is there one order at all? Cycles among three items, against what the model expects of them.

Margins of a log's comparisons at posterior draws, where more than today's skill decides.

`bayesrank.diagnostics.transitivity` makes up data by them.

A ranking supposes that one number an item says who beats whom. Chance alone makes some cycles
(A beats B, B beats C, C beats A). If there are more than in data that the fitted model makes up,
who wins depends on who meets whom. This is a posterior predictive check [1]_ whose statistic is the
share of cycles among all triads, as in [2]_.

References
----------
.. [1] Gelman, A., Meng, X.-L. and Stern, H. (1996). Posterior predictive assessment of model
       fitness via realized discrepancies. Statistica Sinica, 6, 733-760.
.. [2] Kendall, M. G. and Babington Smith, B. (1940). On the method of paired comparisons.
       Biometrika, 31, 324-345.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr
from threadpoolctl import threadpool_limits

from bayesrank._validate import check_pairs, check_row_weights
from bayesrank.datasets import ComparisonData
from bayesrank.models.dynamic import skill_covariances
from bayesrank.solvers.comparisons import EPSkills, JudgedSkills
from bayesrank.solvers.comparisons.chain import rate_name

Array = NDArray[Any]

_MOST_DRAWS = 200  # as many as data are made up
_STEPS = 50  # of Newton's method, which takes a dozen


def margins_of_log(
    data: ComparisonData,
    posterior: EPSkills | JudgedSkills,
    number: int,
    seed: int = 0,
) -> Callable[[int], Array]:
    """Return a function from the number of a draw to the (K,) margins that judges see.

    Skills are drawn jointly; the advantage of the position and each judge's effects apart from
    them, as their correlations have little bearing on cycles. `number` draws are made at most.
    """
    number, count = min(number, _MOST_DRAWS), len(data.category_names)
    shares = [None] if count < 2 else np.eye(count)
    skills = np.stack(
        [posterior.draws(each, number, np.random.RandomState(seed))[:number] for each in shares], 1
    )
    at = np.zeros(data.num_comparisons, int) if count < 2 else data.categories
    winner, loser = data.comparisons.T
    effects = posterior.effects()
    mean, sd = effects.position_effect or (0.0, 0.0)
    others = np.array(effects.covariate_effects).reshape(-1, 2)
    own = posterior.judges
    wide = np.sqrt(own.log_reliability_variance), np.sqrt(own.bias_variance)

    def margins(draw: int) -> Array:
        noise, seen = np.random.default_rng([seed, draw]), skills[draw % number]
        margin = seen[at, winner] - seen[at, loser]
        if data.judges is not None:
            factor = np.exp(own.log_reliability + wide[0] * noise.standard_normal(len(wide[0])))
            margin *= factor[data.judges]
        if data.covariates is not None:
            effect = others[:, 0] + others[:, 1] * noise.standard_normal(len(others))
            margin += data.covariates @ effect
        if data.position is not None:
            margin += data.position * (mean + sd * noise.standard_normal())
            if len(own.bias):
                bias = own.bias + wide[1] * noise.standard_normal(len(wide[1]))
                margin += data.position * bias[data.judges]
        return margin

    return margins


def margins_in_time(
    result: Any, params: Mapping[str, Any], rows: NDArray[np.bool_], number: int, seed: int = 0
) -> Array | None:
    """Draw the margins of comparisons when they were made, (number, R), by Laplace's method.

    `result` is a `bayesrank.solvers.comparisons.DynamicEP`, `params` are its hyperparameters. It
    learns from the R decisive comparisons of `rows`, bool of shape (K,), alone. None where the
    search for the most probable margins does not settle.
    """
    said, (_, pairs) = result.model_kwargs, result.model_args
    pairs, period = np.asarray(pairs)[rows], np.asarray(said["period"])[rows]
    weights = np.ones(len(pairs)) if said.get("weights") is None else said["weights"][rows]
    pace = params[rate_name(said["process"])]
    distinct, at = np.unique(period, return_inverse=True)
    with jax.enable_x64(True):
        times = jnp.asarray(said["times"], float)[distinct]
        prior, _ = skill_covariances(said["process"], params["scale"], pace, times)
    winner, loser = pairs.T
    same = 1.0 * (winner[:, None] == winner) - (winner[:, None] == loser)
    same += 1.0 * (loser[:, None] == loser) - (loser[:, None] == winner)
    covariance = same * np.asarray(prior)[np.ix_(at, at)]
    if said.get("position") is not None:
        covariance += np.multiply.outer(*2 * (np.asarray(said["position"], float)[rows],))
    if said.get("covariates") is not None:
        more = np.asarray(said["covariates"], float)[rows]
        covariance += more @ more.T
    if said.get("categories") is not None:
        within = np.asarray(said["categories"])[rows]
        covariance += same * (within[:, None] == within) * float(params["category_scale"]) ** 2
    found = _mode(covariance, weights, float(params.get("tie_width", 0.0)))
    if found is None:
        return None
    mean, bent = found
    root = np.sqrt(bent)
    inner = np.linalg.inv(np.eye(len(root)) + root[:, None] * covariance * root)
    gain = covariance * root
    within = covariance - gain @ inner @ gain.T
    values, vectors = np.linalg.eigh(within)
    normal = np.random.default_rng(seed).standard_normal((number, len(mean)))
    return mean + normal * np.sqrt(np.maximum(values, 0.0)) @ vectors.T


def _mode(covariance: Array, weights: Any, width: float) -> tuple[Array, Array] | None:
    """The most probable margins of won comparisons, and the curvature of their likelihood there.

    None where Newton's method does not settle.
    """
    margin, bent = np.zeros(len(covariance)), np.zeros(len(covariance))
    for _ in range(_STEPS):
        z = (margin - width) / np.sqrt(2.0)
        slope = np.exp(-0.5 * z**2 - log_ndtr(z)) / np.sqrt(2.0 * np.pi)
        bent = weights * slope * (slope + z) / 2.0
        pull = bent * margin + weights * slope / np.sqrt(2.0)
        root = np.sqrt(bent)
        inner = np.eye(len(root)) + root[:, None] * covariance * root
        new = covariance @ (pull - root * np.linalg.solve(inner, root * (covariance @ pull)))
        moved, margin = np.max(np.abs(new - margin)), new
        if moved < 1e-6:
            return margin, bent
    return None


_FEWEST = 10
_LEVEL = 0.05


@dataclass(frozen=True)
class Transitivity:
    """Cycles that were observed, and those that the model expects.

    Attributes
    ----------
    num_triads
        Number of triads of items each two of which have a winner, by the majority of their
        decisive comparisons.
    num_cycles
        Number of triads in which these winners make a cycle.
    share
        ``num_cycles / num_triads``; NaN without triads.
    expected_lower, expected_upper
        Ends of the 90% interval of that share in data that the model makes up.
    p_value
        Share of these data that have as many cycles or more.

    Examples
    --------
    >>> import numpy as np
    >>> from jax.scipy.stats.norm import cdf
    >>> from bayesrank.diagnostics import transitivity
    >>> games = np.array([[0, 1], [1, 2], [2, 0]])  # a cycle
    >>> found = transitivity(games, np.zeros((1, 3)), cdf)
    >>> found.num_cycles, found.num_triads
    (1, 1)
    """

    num_triads: int
    num_cycles: int
    share: float
    expected_lower: float
    expected_upper: float
    p_value: float

    @property
    def is_known(self) -> bool:
        """Whether there are enough triads for a verdict: ten."""
        return self.num_triads >= _FEWEST

    @property
    def is_good(self) -> bool:
        """Whether there are no more cycles than the model expects, at a level of 5%."""
        return self.is_known and self.p_value >= _LEVEL


def transitivity(
    comparisons: ArrayLike,
    skills: ArrayLike,
    win_chance: Callable[[Array], Array],
    *,
    tied: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    margins: Callable[[int], Array] | None = None,
    num_replicates: int = 200,
    max_items: int = 200,
    seed: int = 0,
) -> Transitivity:
    """Compare the cycles among three items with those in data of the fitted model.

    Parameters
    ----------
    comparisons
        Numbers of winner and loser of each comparison, shape ``(K, 2)``.
    skills
        Posterior draws of skill, shape ``(draws, n)``.
    win_chance
        Chance that an item wins a decisive comparison, by its margin: how much its skill is higher.
    tied
        True where the two were judged equal, shape ``(K,)``; these are left out.
    weights
        How often each comparison counts, shape ``(K,)``, rounded to whole numbers.
    margins
        Margins of the winners over the losers at the draw of a number, shape ``(K,)``, where more
        than skill decides, see `bayesrank.diagnostics.transitivity`.
    num_replicates
        Number of data sets that the model makes up, each from another draw.
    max_items
        Most items to look at: of more, those with the most opponents.
    seed
        Seed of the made-up data.

    Returns
    -------
    Transitivity
        The cycles, those expected, and how rare as many are; all but the counts NaN without triads.

    Raises
    ------
    ValueError
        If `comparisons` is not of pairs of the n items, or a weight is not a number from 0 on.

    Examples
    --------
    >>> from scipy.special import expit
    >>> games = [(0, 1), (1, 2), (2, 0)]
    >>> transitivity(games, np.zeros((10, 3)), expit).num_cycles
    1
    """
    draws = np.asarray(skills)
    pairs = check_pairs(comparisons, draws.shape[1], "comparisons")
    count = np.ones(len(pairs)) if weights is None else weights
    count = np.rint(check_row_weights(count, "weights", len(pairs)))
    count = count if tied is None else np.where(tied, 0.0, count)
    meetings = _meetings(pairs, count, draws.shape[1], max_items)
    kept, place = np.unique(meetings.items, return_inverse=True)
    one, other = place.reshape(2, -1)
    cycles, triads = _cycles(one, other, meetings.margin(meetings.number), len(kept))
    if triads == 0:
        return Transitivity(0, 0, np.nan, np.nan, np.nan, np.nan)
    winner, loser = pairs[meetings.rows].T
    rng = np.random.default_rng(seed)
    shares = []
    with threadpool_limits(1):  # small products, for which threads wait on each other
        for draw in np.resize(rng.permutation(len(draws)), num_replicates):
            if margins is None:
                margin = draws[draw, winner] - draws[draw, loser]
            else:
                margin = margins(int(draw))[meetings.rows]
            made_up = rng.binomial(meetings.number, win_chance(margin))
            again, of = _cycles(one, other, meetings.margin(made_up), len(kept))
            shares.append(again / of if of else 0.0)
    share = cycles / triads
    lower, upper = np.quantile(shares, [0.05, 0.95])
    p_value = float(np.mean(np.array(shares) >= share - 1e-12))
    return Transitivity(triads, cycles, share, float(lower), float(upper), p_value)


class _Meetings(NamedTuple):
    """Who met whom, P pairs of items, in which of the comparisons, R of them."""

    items: Array  # shape (2, P), the lower number first
    rows: Array  # comparisons, shape (R,)
    number: Array  # how often each of them was made, shape (R,)
    pair: Array  # the pair of each, shape (R,)
    side: Array  # 1 where the winner has the lower number, else -1, shape (R,)

    def margin(self, wins: Array) -> Array:
        """By how many comparisons the first of each pair won, if `wins` (R,) ended as they did."""
        return np.bincount(self.pair, self.side * (2.0 * wins - self.number), self.items.shape[1])


def _meetings(pairs: Array, count: Array, num_items: int, max_items: int) -> _Meetings:
    """The pairs that met, of the items with the most opponents."""
    low, high = pairs.min(axis=1, initial=num_items), pairs.max(axis=1, initial=-1)
    met = np.unique((low * num_items + high)[count > 0])
    opponents = np.bincount(np.concatenate(np.divmod(met, num_items)), minlength=num_items)
    busy = np.zeros(num_items, bool)
    busy[np.argsort(-opponents, kind="stable")[:max_items]] = True
    rows = np.flatnonzero(busy[low] & busy[high] & (count > 0))
    key, pair = np.unique(low[rows] * num_items + high[rows], return_inverse=True)
    side = np.where(pairs[rows, 0] == low[rows], 1.0, -1.0)
    items = np.stack(np.divmod(key, num_items))
    return _Meetings(items, rows, count[rows].astype(int), pair, side)


def _cycles(first: Array, second: Array, margin: Array, size: int) -> tuple[int, int]:
    """Number of cycles and of triads, where `first` beat `second` by `margin`."""
    beats = np.zeros((size, size), np.float32)
    beats[first[margin > 0], second[margin > 0]] = 1.0
    beats[second[margin < 0], first[margin < 0]] = 1.0
    met = beats + beats.T
    cycles = np.sum(beats @ beats * beats.T, dtype=float) / 3.0
    return round(cycles), round(float(np.sum(met @ met * met, dtype=float)) / 6.0)
