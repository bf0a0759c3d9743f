"""Comparisons to come: what is said of each, and the chances of their outcomes."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesrank._tables import plain_array
from bayesrank.estimators.columns import TimeRange
from bayesrank.estimators.item_tables import id_list
from bayesrank.solvers.comparisons import Asked
from bayesrank.solvers.comparisons.skills import skills_at

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

NOT_SAID, NEW_NAME = -1, -2
"""Numbers of a judge or category that is not named, or that was not in `fit`."""


class Coming(NamedTuple):
    """What is said of P comparisons to come, each of shape (P,)."""

    position: Array  # 1 where the first item is shown first, -1 where the second is, else 0
    category: Ints  # its number, -1 where none is said, -2 for one that was not in fit
    judge: Ints  # likewise
    when: Array  # time since the first comparison of fit, in the program's unit; or -1
    covariates: Array | None = None  # how much more the first item has, (P, D)

    def chances(
        self, posterior: Any, pairs: Ints, shares_of: Callable[[int], Array | None]
    ) -> Array:
        """Chances of each outcome of pairs of numbers (P, 2), shape (P, 3).

        `shares_of` gives the shares of categories that stand for one of these numbers.
        """
        chances = np.zeros((len(pairs), 3))
        moments, moment = np.unique(self.when, return_inverse=True)
        still = len(moments) == 0 or moments[0] < 0.0
        posteriors = [posterior] if still else skills_at(posterior, moments)
        keys, group = np.unique(np.stack(self[:3], axis=1), axis=0, return_inverse=True)
        for time, then in enumerate(posteriors):
            for number, (position, category, judge) in enumerate(keys):
                rows = np.flatnonzero((group.ravel() == number) & (moment.ravel() == time))
                shares, who = shares_of(int(category)), None if judge < 0 else int(judge)
                if not rows.size:
                    continue
                first, second = pairs[rows].T
                more = None if self.covariates is None else self.covariates[rows]
                chances[rows] = then.chances(Asked(first, second, position, shares, who, more))
        return chances


def read_coming(
    said: Mapping[str, Any],
    count: int,
    *,
    judges: Sequence[Hashable],
    categories: Sequence[Hashable],
    times: TimeRange | None,
    with_position: bool,
    covariates: Mapping[str, float],
    new_names: bool,
) -> Coming:
    """Read columns by name, each a value for all of `count` comparisons or one for each.

    `covariates` has the unit of each, by name.
    """
    position = np.zeros(count)
    if said.get("position") is not None:
        position = _spread(np.atleast_1d(plain_array(said["position"])), count, "position")
        _check_position(position, with_position)
    when = np.full(count, -1.0 if times is None else times.end)
    if said.get("time") is not None:
        if times is None:
            raise ValueError("time is given, but skills stand still; leave it out")
        when = _spread(times.since(said["time"]), count, "time")
    category = _labels(said.get("category"), categories, "category", count, new_names)
    judge = _labels(said.get("judge"), judges, "judge", count, new_names)
    more = _differences(said.get("covariates"), covariates, count)
    return Coming(position.astype(np.float64), category, judge, when, more)


def _differences(value: Any, units: Mapping[str, float], count: int) -> Array | None:
    """How much more the first item has of each covariate, in their units, (P, D)."""
    if value is None:
        return None
    if not isinstance(value, Mapping) or not {*value} <= {*units}:
        raise ValueError(
            f"covariates is {value!r}; pass how much more the first has, by name: there are "
            f"{list(units)}"
        )
    columns = [
        _spread(np.atleast_1d(plain_array(value.get(name, 0.0))), count, name) / unit
        for name, unit in units.items()
    ]
    return np.stack(columns, axis=1)


def _check_position(position: NDArray[Any], known: bool) -> None:
    odd = ~np.isin(position, (-1, 0, 1))
    if odd.any():
        raise ValueError(f"position is {position[odd][0]}; pass 1, 0 or -1")
    if not known and position.any():
        raise ValueError(
            f"position is {position[position != 0][0]}, but fit was given no positions, so their "
            "effect is unknown; leave it out"
        )


def _labels(value: Any, names: Sequence[Hashable], what: str, count: int, new_names: bool) -> Ints:
    """Numbers of judges or categories, shape (P,)."""
    if value is None:
        return np.full(count, NOT_SAID)
    one = isinstance(value, str | bytes | tuple) or not np.iterable(value)
    cells = id_list([value] if one else value, what)
    if new_names and len(names) == 0 and what == "category" and len(set(cells)) == 1:
        return np.full(count, NOT_SAID)  # one category alone is as none
    known = {
        name: NEW_NAME
        if new_names and names and name not in names
        else label_number(name, names, what)
        for name in dict.fromkeys(cells)
    }
    return _spread(np.array([known[name] for name in cells], np.int64), count, what)


def label_number(name: Hashable, names: Sequence[Any], what: str) -> int:
    """The number of a judge or category by its name."""
    if not names:
        raise ValueError(
            f"{what} is {name!r}, but fit was given no column of that name; leave it out"
        )
    if name not in names:
        raise ValueError(f"{what} {name!r} was not in fit; choose one of {names[:5]!r}")
    return names.index(name)


def _spread(values: NDArray[Any], count: int, name: str) -> NDArray[Any]:
    if values.shape not in ((1,), (count,)):
        raise ValueError(f"{name} has {values.size} entries; pass one, or {count}")
    return np.broadcast_to(values, (count,))
