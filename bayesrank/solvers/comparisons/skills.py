r"""What is known of the items' skills: nothing, their features, or when they were compared.

An object of each kind names its program, lays out its hyperparameters, and carries a posterior
further: to later times by the process in time, or to new items by the Gaussian process. From the
posterior :math:`f \sim N(m, S)` of the items compared,

.. math:: f_* \sim N(W' m, \; K_{**} - W' K_* + W' S W), \qquad W = K^{-1} K_*.

If items with features are too many for a covariance matrix, the prior has low rank
(`bayesrank.gp.inducing_point_prior`). So has what new items share with the posterior.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from tinygp.kernels import Kernel

from bayesrank import gp
from bayesrank.infer import EPResult
from bayesrank.infer.spi import MOST_DENSE
from bayesrank.models import (
    dynamic_thurstone,
    preference_gp,
    preference_orders,
    thurstone,
    thurstone_orders,
)
from bayesrank.ranking import SkillMixture
from bayesrank.solvers.comparisons.chain import propagate, rate_name, transitions_of
from bayesrank.solvers.comparisons.dynamic import states_at
from bayesrank.solvers.comparisons.posterior import (
    ComparisonPosterior,
    Component,
    EPSkills,
    by_shares,
    components_of,
)
from bayesrank.solvers.comparisons.terms import MarginRows

Floats = NDArray[np.float64]
Shapes = dict[str, tuple[int, ...]]

# Inducing points and comparisons that hyperparameters are learned with.
_LEARNING_RANK = 200
_LEARNING_COMPARISONS = 10_000
_CHUNK = 16_384
_MOST_NUMBERS = 20_000_000  # of covariances at once
# Largest curvature of the log likelihood in the margin, where noise is one.
_CURVATURE = {"probit": 1 / math.pi, "logit": 0.25}


class Independent(NamedTuple):
    """Items without features or times; with a Laplacian (n, n), alike along its graph."""

    items: int
    laplacian: Any = None

    programs = (thurstone, thurstone_orders)
    inducing = False

    def shapes(self, orders: bool) -> Shapes:
        """The spread of skills, and the graph's weight."""
        return {"scale": (), **({} if self.laplacian is None else {"graph_weight": ()})}

    def arguments(self) -> dict[str, Any]:
        """The graph, if there is one."""
        return {} if self.laplacian is None else {"laplacian": self.laplacian}

    @property
    def too_many(self) -> bool:
        """Whether the items are so many that they leave next to nothing open."""
        return self.items > MOST_DENSE


class ProcessSkills(NamedTuple):
    """Items with features on the scale of the prior, (n, d), and a graph if there is one."""

    items: Floats
    ard: bool = False
    laplacian: Any = None
    item_effects: bool = False

    programs = (preference_gp, preference_orders)

    def shapes(self, orders: bool) -> Shapes:
        """Kernel, noise and the graph's weight; of orders, the noise sets the unit."""
        lengthscale = self.items.shape[1:] if self.ard else ()
        found: Shapes = {"amplitude": (), "lengthscale": lengthscale}
        found |= {} if orders else {"noise": ()}
        found |= {"item_share": ()} if self.item_effects else {}
        return found | ({} if self.laplacian is None else {"graph_weight": ()})

    def arguments(self) -> dict[str, Any]:
        """Whether features have lengthscales of their own, items effects of theirs; the graph."""
        graph = {} if self.laplacian is None else {"laplacian": self.laplacian}
        return {"ard": self.ard, "item_effects": self.item_effects, **graph}

    @property
    def inducing(self) -> bool:
        """Whether the items are too many for a covariance matrix."""
        return self.laplacian is None and len(self.items) > MOST_DENSE

    @property
    def too_many(self) -> bool:
        """Whether the prior has low rank; then its hyperparameters are learned."""
        return self.inducing


class Moving(NamedTuple):
    """Items whose skills move, at times on the scale of the prior, (T,)."""

    items: int
    process: str
    times: Floats
    period: NDArray[np.int64]

    programs = (dynamic_thurstone, None)
    inducing = False
    too_many = False

    def shapes(self, orders: bool) -> Shapes:
        """The spread of skills, and how fast they move."""
        return {"scale": (), rate_name(self.process): ()}

    def arguments(self) -> dict[str, Any]:
        """The times, and which of them each comparison was at."""
        return {"times": self.times, "period": self.period, "process": self.process}


Skills = Independent | ProcessSkills | Moving
"""What may be known of the items' skills."""


class SkillsAt(ComparisonPosterior):
    """The posterior of skills that move, as of a moment; of what stands still as ever.

    Parameters
    ----------
    when
        The moment, as the program has times.
    parts
        Gaussians of the latents then.
    skills
        The posterior as of the last comparison.
    """

    def __init__(self, when: float, parts: list[Component], skills: EPSkills) -> None:
        self.when, self.parts, self._at = when, parts, skills.at
        self.likelihood, self.widening = skills.likelihood, skills.widening

    @property
    def at(self) -> dict[str, NDArray[np.int64]]:
        """Numbers of the latents of each site, as of the posterior it comes from."""
        return self._at

    def _parts(self, shares: Floats | None, judge: int | None) -> list[Component]:
        return by_shares(self.parts, self.at, shares)

    def draws(self, shares: Floats | None, number: int, random: np.random.RandomState) -> Floats:
        """Draws of the mixture, joint over categories."""
        wide = [part.wider(self.widening) for part in self.parts]
        found = [(part.weight, part.mean, part.covariance) for part in wide]
        everything = SkillMixture(*(np.array(each) for each in zip(*found, strict=True)))
        draws = everything.draws(number, random)
        skills = draws[:, self.at["f"]]
        if shares is None:
            return skills
        return skills + np.tensordot(draws[:, self.at["category_skill"]], shares, (1, 0))


def skills_at(skills: EPSkills, when: Sequence[float] | Floats) -> Iterator[SkillsAt]:
    """The posterior of `dynamic_thurstone` at times (T,) since the first comparison.

    All comparisons count, those after a time, too.
    """
    options, times = skills.result.model_kwargs, np.asarray(when, np.float64)
    process, num_items, end = options["process"], skills.at["f"].size, components_of(skills.result)
    last, size = float(options["times"][-1]), sum(len(part.mean) ** 2 for part in end)
    chunk = min(len(times), max(1, _MOST_NUMBERS // size))
    for start in range(0, len(times), chunk):
        some = times[start : start + chunk]
        found: list[Any] = []
        if (some < last).any():  # always so many, so that code is compiled once
            asked = np.full(chunk, last)
            asked[: some.size] = np.minimum(some, last)
            found = list(states_at(skills.result, asked))
        for place, moment in enumerate(some.tolist()):
            if moment < last:
                parts = [
                    Component(each.weight, each.params, each.means[place], each.covariances[place])
                    for each in found
                ]
            else:
                parts = [_moved(part, process, moment - last, num_items) for part in end]
            parts = [each._replace(prior_variance=_unknown(each, moment)) for each in parts]
            yield SkillsAt(moment, parts, skills)


def _unknown(part: Component, since: float) -> float:
    """Variance of an unknown item's skill some time after the first comparison."""
    drift = float(part.params.get("drift", 0.0))
    return float(part.params["scale"]) ** 2 + drift**2 * since


def _moved(part: Component, process: str, gap: float, num_items: int) -> Component:
    """A Gaussian some time after the last comparison."""
    with jax.enable_x64(True):
        scale, pace = (jnp.asarray(part.params[k]) for k in ("scale", rate_name(process)))
        steps = transitions_of(process, scale, pace, jnp.array([gap]))
        state = jnp.asarray(part.mean), jnp.asarray(part.covariance)
        moved = propagate(*state, steps.decay[0], steps.noise[0], num_items)
    mean, covariance = map(np.asarray, moved)
    return part._replace(mean=mean, covariance=covariance)


def skills_then(skills: EPSkills, when: float) -> SkillsAt:
    """The posterior at one time; several questions about one are answered by one pass."""
    found = skills.then  # once, for another thread may ask about another time
    if found is None or found.when != when:
        [found] = skills_at(skills, [when])
        skills.then = found
    return found


class _SharedSkills(NamedTuple):
    """Covariances ``root @ root.T + diag(own)``, shapes (m, M) and (m,)."""

    root: Floats
    own: Floats

    def variances(self, rows: MarginRows) -> Floats:
        values, columns = rows
        if columns.shape[1] == 2:  # of an item with itself nothing is left
            values = np.where(columns[:, :1] == columns[:, 1:], 0.0, values)
        variance = np.sum(values**2 * self.own[columns], axis=1)
        for start in range(0, len(columns), _CHUNK):
            some = slice(start, start + _CHUNK)
            roots = np.einsum("pw,pwm->pm", values[some], self.root[columns[some]])
            variance[some] += np.sum(roots**2, axis=1)
        return variance


def at_new_items(
    skills: EPSkills, features: Floats, *, joint: bool = True, num_same: int = 0
) -> list[Component]:
    """Skills of m items by features (m, d); without `joint` the variances alone, of many.

    The first `num_same` are those of the result; the others differ from them beyond features, too.
    """
    result = skills.result
    if result.structure != "dense":
        mean, root, own = _by_inducing(result, features)
        return [Component(1.0, result.params, mean, _SharedSkills(root, own))]
    known = result.model_args[0]
    found = []
    for part in skills.components():
        with jax.enable_x64(True):
            arrays = prior_covariances(gp.rbf, kernel_scales(part.params), known, features, joint)
            gram, across, prior = map(np.array, arrays)
        own = own_variance(part.params)
        gram[np.diag_indices_from(gram)] += own
        across[np.diag_indices(num_same)] += own
        prior[np.diag_indices_from(prior) if joint else slice(None)] += own
        weights = cho_solve(cho_factor(gram, lower=True), across)
        change = np.asarray(part.covariance) @ weights - across
        if joint:
            carried: Any = prior + weights.T @ change
        else:
            left = prior + np.einsum("nm,nm->m", weights, change)
            carried = _SharedSkills(np.zeros((left.size, 0)), left)
        found.append(part._replace(mean=weights.T @ part.mean, covariance=carried))
    return found


def with_new_items(skills: EPSkills, features: Floats) -> list[Component]:
    """Skills of the items of `fit`, and behind them of new ones, features (m, d)."""
    result = skills.result
    if result.structure == "dense":
        known = result.model_args[0]
        return at_new_items(skills, np.concatenate([known, features]), num_same=len(known))
    mean, new_root, new_own = _by_inducing(result, features)
    root, own = result.posterior.factors()
    # What all skills share comes first, then what the compared ones share besides.
    shared = np.pad(new_root, ((0, 0), (0, root.shape[1] - new_root.shape[1])))
    whole = _SharedSkills(np.concatenate([root, shared]), np.concatenate([own, new_own]))
    return [Component(1.0, result.params, np.concatenate([result.mean["f"], mean]), whole)]


def above_average(part: Component, num_known: int) -> Component:
    """Skills of the items after the known ones, from the average of these, as a ranking has it."""
    if isinstance(part.covariance, _SharedSkills):
        root, own = part.covariance
        mean, root = (x[num_known:] - x[:num_known].mean(axis=0) for x in (part.mean, root))
        own = own[num_known:] + own[:num_known].mean() / num_known
        return part._replace(mean=mean, covariance=_SharedSkills(root, own))
    contrast = np.eye(len(part.mean))[num_known:]
    contrast[:, :num_known] -= 1.0 / num_known
    covariance = contrast @ np.asarray(part.covariance) @ contrast.T
    return part._replace(mean=contrast @ part.mean, covariance=covariance)


@partial(jax.jit, static_argnums=(0, 4))
def prior_covariances(
    make: Callable[..., Kernel],
    scales: list[jax.Array],
    known: jax.Array,
    new: jax.Array,
    joint: bool = False,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Prior covariances: known (n, n), across (n, m), new (m, m); variances if not `joint`."""
    kernel = make(*scales)
    own = gp.gram(kernel, new) if joint else (1.0 + gp.JITTER[new.dtype]) * kernel(new)
    return gp.gram(kernel, known), kernel(known, new), own


def own_variance(params: Mapping[str, Any]) -> float:
    """How much items differ beyond their features, a variance."""
    return float(params.get("item_share", 0.0)) * float(params["amplitude"]) ** 2


def kernel_scales(params: Mapping[str, Any]) -> list[Any]:
    """Amplitude and lengthscales of what follows from features."""
    share = jnp.asarray(params.get("item_share", 0.0))
    return [params["amplitude"] * jnp.sqrt(1.0 - share), params["lengthscale"]]


def fewer_comparisons(
    X: Floats, pairs: NDArray[Any], options: Mapping[str, Any]
) -> tuple[tuple[Floats, NDArray[Any]], dict[str, Any]]:
    """Arguments for learning: 10,000 comparisons by chance, or all, their items, and a rank."""
    kept = np.random.default_rng(0).permutation(len(pairs))[:_LEARNING_COMPARISONS]
    kept = np.sort(kept)
    items, inverse = np.unique(pairs[kept], return_inverse=True)
    part = {k: v[kept] if k in ("outcomes", "weights") else v for k, v in options.items()}
    return (X[items], inverse.reshape(-1, 2)), {**part, "rank": min(_LEARNING_RANK, len(items))}


def enough_inducing(
    params: Mapping[str, Any], X: Floats, pairs: NDArray[Any], options: Mapping[str, Any]
) -> int:
    """Number of inducing points by `gp.choose_num_inducing`, of what comparisons tell of items."""
    each = np.asarray(options.get("weights", np.ones(len(pairs))), float)
    precision = np.bincount(pairs.ravel(), np.repeat(each, 2), len(X))
    precision *= _CURVATURE[options["likelihood"]] / float(params["noise"]) ** 2
    with jax.enable_x64(True):
        kernel = gp.rbf(*kernel_scales(params))
        return gp.choose_num_inducing(kernel, X, precision)


def _by_inducing(result: EPResult, features: Floats) -> tuple[Floats, Floats, Floats]:
    """Means of new items, what they share by the inducing points, (m, M), and their own, (m,)."""
    kept: Any = result.posterior
    known, rank, params = result.model_args[0], result.model_kwargs["rank"], result.params
    with jax.enable_x64(True):
        kernel = gp.rbf(*kernel_scales(params))
        points = gp.inducing_points(jnp.asarray(known), rank)
        prior = gp.inducing_point_prior(kernel, jnp.asarray(features), rank, inducing=points)
    mean, root = kept.gaussian.shared()
    factor = np.asarray(prior.cov_factor)
    return factor @ mean, factor @ root, np.asarray(prior.cov_diag) + own_variance(params)
