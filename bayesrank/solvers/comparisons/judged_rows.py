"""Rows of a log of comparisons: what each of them sees of the latents.

A row sees three predictors: a difference, an advantage and a log reliability. Each is a sum of few
latents times values. Core latents are of all rows: skills, what categories add, effects of
covariates and of the position. Own latents are of the row's judge: tastes for the items that the
judge has seen, order bias, log reliability.

Equal comparisons may be one row that counts several times, see
`bayesrank.datasets.ComparisonData.distinct`. Two latents that a row sees together have one place in
a matrix, whatever the matrix holds. So covariances of predictors gather from the same places to
which their precisions add.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesrank._validate import (
    check_comparisons,
    check_features,
    check_numbered,
    check_outcomes,
    check_position,
    check_row_weights,
)
from bayesrank.datasets.outcomes import LOSS, TIE, WIN

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

DIFFERENCE, ADVANTAGE, RELIABILITY = range(3)


class SeenLatent(NamedTuple):
    """A latent that each of K rows sees in a predictor."""

    predictor: int
    values: Any  # what multiplies it, (K,) or one number
    latent: Any  # its number, (K,) or one number


class SeenPlaces(NamedTuple):
    """Places in a flat array at which rows see it in a predictor, or in a pair of predictors."""

    predictors: tuple[Ints, ...]  # one or two, shape (E,); none if nothing is seen
    values: NDArray[np.floating[Any]]  # shape (E, K)
    places: NDArray[np.signedinteger[Any]]  # shape (E, K)
    shape: tuple[int, ...]  # of the array

    def sums(self, of: Floats) -> Floats:
        """Add up what rows say of predictors, (..., K), in the places that they see."""
        if not self.predictors:
            return np.zeros(self.shape)
        weights = of[self.predictors]
        weights *= self.values
        flat: Any = np.bincount(self.places.ravel(), weights.ravel(), int(np.prod(self.shape)))
        return flat.reshape(self.shape)

    def gather(self, array: Floats, rows: slice, out: Floats) -> None:
        """Add what some rows see of an array to their predictors, (..., k)."""
        if not self.predictors:
            return
        seen = array.ravel().take(self.places[:, rows])
        seen *= self.values[:, rows]
        for *at, value in zip(*self.predictors, seen, strict=True):
            out[tuple(at)] += value


class JudgedRows(NamedTuple):
    """Comparisons, and what each of them sees."""

    counts: Floats  # how often each counts, shape (K,)
    num_tied: int  # the last rows are ties; in the others the first item wins
    num_judges: int
    num_categories: int
    with_ties: bool  # whether ties are possible
    blocks: Mapping[str, slice]  # numbers of the core latents, by site of `judged_comparisons`
    alone: Mapping[str, slice]  # numbers of each judge's own latents, by site
    tasted: Ints | None  # items of each judge's tastes (J, M), -1 where it has seen fewer
    core: SeenPlaces  # of means (N,)
    own: SeenPlaces  # of means (J, L)
    within_core: SeenPlaces  # of matrices (N, N), one of each pair's two orders
    across: SeenPlaces  # of matrices (J, L, N)
    within_own: SeenPlaces  # of matrices (J, L, L), one of each pair's two orders


def judged_rows(
    num_items: int,
    comparisons: ArrayLike,
    *,
    outcomes: ArrayLike | None = None,
    position: ArrayLike | None = None,
    judges: ArrayLike | None = None,
    categories: ArrayLike | None = None,
    num_judges: int | None = None,
    tastes: bool = False,
    num_categories: int | None = None,
    covariates: ArrayLike | None = None,
    weights: ArrayLike | None = None,
) -> JudgedRows:
    """List what each comparison sees; arguments are those of `judged_comparisons`.

    Raises
    ------
    ValueError
        If an argument cannot be used; the message names it and what to do.
    """
    pairs = np.asarray(check_comparisons(comparisons, num_items), np.int64)
    count = len(pairs)
    said: Any = np.full(count, WIN) if outcomes is None else check_outcomes(outcomes, count)
    place = np.zeros(count) if position is None else check_position(position, count)
    more = _covariates(covariates, count)
    counts = np.ones(count) if weights is None else check_row_weights(weights, "weights", count)
    judge, num_judges = _numbers(judges, "judges", count, num_judges)
    category, num_categories = _numbers(categories, "categories", count, num_categories)
    # The winner stands first, and ties come last; rows of one judge are neighbours in memory.
    lost, tied = np.asarray(said) == LOSS, np.asarray(said) == TIE
    first, second = np.where(lost, pairs[:, ::-1].T, pairs.T)
    place, more = np.where(lost, -place, place), np.where(lost, -1.0, 1.0)[:, None] * more
    order = np.lexsort((judge, tied))
    columns: Any = (first, second, place, judge, category, counts, more)
    first, second, place, judge, category, counts, more = (np.asarray(c)[order] for c in columns)
    kinds, seen_first = (num_items, num_categories), None if position is None else place
    blocks, core = _core_latents(kinds, (first, second, category), more, seen_first)
    size = max(part.stop for part in blocks.values())
    tasted: Ints | None = None
    at: Sequence[Ints] = ()
    if tastes:
        tasted, at = _tastes(judge, np.stack([first, second]), (num_judges, num_items))
    alone, own = _own_latents(num_judges, at, seen_first)
    width = alone["reliability"].stop if alone else 0
    seen = _seen(core, own, judge, (num_judges, width, size))
    return JudgedRows(
        counts.astype(np.float64),
        int(np.sum(tied)),
        num_judges,
        num_categories,
        outcomes is not None,
        blocks,
        alone,
        tasted,
        *seen,
    )


def _core_latents(
    kinds: tuple[int, int], sides: tuple[Ints, Ints, Ints], more: Floats, place: Any
) -> tuple[dict[str, slice], list[SeenLatent]]:
    """Numbers of the core latents by site, and what rows see of them.

    `kinds` has the numbers of items and categories; `sides` both items and the category of each
    row.
    """
    (num_items, num_categories), (first, second, category) = kinds, sides
    size = num_items * (1 + num_categories)
    blocks = {"f": slice(0, num_items), "category_skill": slice(num_items, size)}
    starts = [0, num_items * (1 + category)] if num_categories else [0]
    seen = [
        SeenLatent(DIFFERENCE, sign, start + item)
        for start in starts
        for sign, item in ((1.0, first), (-1.0, second))
    ]
    blocks["covariate_effect"] = slice(size, size + more.shape[1])
    seen += [SeenLatent(ADVANTAGE, column, size + d) for d, column in enumerate(more.T)]
    size += more.shape[1]
    if place is not None:
        blocks["position_effect"] = slice(size, size + 1)
        seen.append(SeenLatent(ADVANTAGE, place, size))
    return blocks, seen


def _own_latents(
    num_judges: int, liked: Sequence[Ints], place: Any
) -> tuple[dict[str, slice], list[SeenLatent]]:
    """Numbers of each judge's own latents by name, and what rows see of them.

    `liked` has the numbers of the tastes for both sides of each row, if there are tastes.
    """
    alone: dict[str, slice] = {}
    if not num_judges:
        return alone, []
    seen = [SeenLatent(DIFFERENCE, sign, at) for sign, at in zip((1.0, -1.0), liked, strict=False)]
    end = max((int(at.max()) + 1 for at in liked), default=0)
    if end:
        alone["taste"] = slice(0, end)
    if place is not None:
        alone["bias"], end = slice(end, end + 1), end + 1
        seen.append(SeenLatent(ADVANTAGE, place, end - 1))
    alone["reliability"] = slice(end, end + 1)
    return alone, [*seen, SeenLatent(RELIABILITY, 1.0, end)]


def _tastes(judge: Ints, sides: Ints, shape: tuple[int, int]) -> tuple[Ints, list[Ints]]:
    """Items that each judge has seen (J, M), -1 for none, and where those of rows (2, K) stand.

    `shape` has the numbers of judges and items.
    """
    found, at = np.unique(judge * shape[1] + sides, return_inverse=True)
    who, item = np.divmod(found, shape[1])
    place = np.arange(found.size) - np.searchsorted(who, who)
    tasted = np.full((shape[0], place.max() + 1), -1)
    tasted[who, place] = item
    return tasted, list(place[at.reshape(sides.shape)])


def _seen(
    core: Sequence[SeenLatent], own: Sequence[SeenLatent], judge: Ints, sizes: tuple[int, int, int]
) -> tuple[SeenPlaces, SeenPlaces, SeenPlaces, SeenPlaces, SeenPlaces]:
    """What rows see of J judges' L latents and of N core ones, one at a time and in pairs."""
    num_judges, width, size = sizes
    core, own = ([_filled(entry, judge.size) for entry in entries] for entries in (core, own))
    flat = [entry._replace(latent=judge * width + entry.latent) for entry in own]
    return (
        _stacked([((e.predictor,), e.values, e.latent) for e in core], (size,), judge.size),
        _stacked([((e.predictor,), e.values, e.latent) for e in flat], sizes[:2], judge.size),
        _stacked(_pairs(core, core, size, once=True), (size, size), judge.size),
        _stacked(_pairs(flat, core, size), sizes, judge.size),
        _stacked(_pairs(flat, own, width, once=True), (num_judges, width, width), judge.size),
    )


def _filled(entry: SeenLatent, count: int) -> SeenLatent:
    """Values and latents as arrays of one number a row."""
    return entry._replace(
        values=np.broadcast_to(entry.values, count), latent=np.broadcast_to(entry.latent, count)
    )


def _pairs(
    first: Sequence[SeenLatent], second: Sequence[SeenLatent], width: int, once: bool = False
) -> list[tuple[tuple[int, ...], Floats, Ints]]:
    """Pairs of entries in a matrix of so many columns.

    Where both are of one list, `once` leaves out each pair's other order. The matrix is then to be
    added to its transpose, so an entry with itself counts half.
    """
    return [
        (
            (one.predictor, two.predictor),
            one.values * two.values * (0.5 if once and i == j else 1.0),
            one.latent * width + two.latent,
        )
        for i, one in enumerate(first)
        for j, two in enumerate(second)
        if j >= i or not once
    ]


def _stacked(
    found: Sequence[tuple[tuple[int, ...], Floats, Ints]], shape: tuple[int, ...], count: int
) -> SeenPlaces:
    """Entries as arrays; there may be none."""
    predictors = tuple(np.array(each) for each in zip(*(one[0] for one in found), strict=True))
    values, places = np.empty((len(found), count)), np.empty((len(found), count), np.int64)
    for k, (_, value, place) in enumerate(found):
        values[k], places[k] = value, place
    half: Any = values.astype(np.float32)  # ones and halves, of which there are many, take less
    small = places.astype(np.int32) if np.prod(shape) < 2**31 else places
    return SeenPlaces(predictors, half if (half == values).all() else values, small, shape)


def _covariates(covariates: Any, count: int) -> Floats:
    """Differences of covariates, shape (K, D)."""
    if covariates is None:
        return np.zeros((count, 0))
    return np.asarray(check_features(np.asarray(covariates), "covariates"))


def _numbers(labels: Any, name: str, size: int, number: int | None) -> tuple[Ints, int]:
    """Numbers of judges or categories, zero without them, and how many there are."""
    if labels is None:
        return np.zeros(size, np.int64), 0
    values = check_numbered(labels, name, size, number)
    return values, int(values.max()) + 1 if number is None else number
