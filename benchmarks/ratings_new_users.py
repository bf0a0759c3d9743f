"""Users whom the fit has not seen: thresholds, scale and noise of their own, or the shared ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from bayesrank.solvers.collaborative import EM, EMResult
from benchmarks.ratings import Ratings, load

__all__ = ["new_users"]

Array = NDArray[Any]

_LEFT_OUT = 60
_FEWEST_JUDGED = 5


def new_users(
    likelihood: str, seed: int, given: tuple[int | None, ...]
) -> Iterator[tuple[str, Array, Array]]:
    """Leave 60 users out of the fit, tell it some ratings of each, and predict the others.

    Parameters
    ----------
    likelihood
        What ratings are taken for: "probit", "logit" or "gaussian".
    seed
        Of who is left out, and which ratings are told.
    given
        Numbers of ratings that are told; None for half of each user's.

    Yields
    ------
    tuple
        How many are told, and the mean log loss of each user's other ratings with what is shared
        and with what is the user's own, shape (u,). Users with fewer than five others are left out.
    """
    data, rng = load("movielens"), np.random.default_rng(seed)
    left_out = rng.permutation(int(data.users.max()) + 1)[:_LEFT_OUT]
    train = _numbered(data.where(~np.isin(data.users, left_out)))
    engine = EM(likelihood, tol=1e-4)
    result = engine.run(*train, num_items=int(data.items.max()) + 1, progress_bar=False)
    alike = replace(result, state=result.state._replace(spread=np.zeros_like(result.state.spread)))
    order = rng.random(len(data.users))
    for number in given:
        told, judged = _split(data, left_out, order, number)
        shared, own = (_losses(fit.condition(*told), judged) for fit in (alike, result))
        yield "half" if number is None else str(number), shared, own


def _numbered(data: Ratings) -> Ratings:
    return data._replace(users=np.unique(data.users, return_inverse=True)[1])


def _split(
    data: Ratings, users: Array, order: Array, number: int | None
) -> tuple[Ratings, Ratings]:
    """Ratings that are told and that are judged, of users numbered anew."""
    told, judged = [], []
    for user in users:
        rows = np.flatnonzero(data.users == user)
        rows = rows[np.argsort(order[rows])]
        cut = len(rows) // 2 if number is None else number
        if cut >= 1 and len(rows) - cut >= _FEWEST_JUDGED:
            told.append(rows[:cut])
            judged.append(rows[cut:])
    one, other = (data.where(np.concatenate(rows)) for rows in (told, judged))
    return _numbered(one), _numbered(other)


def _losses(result: EMResult, judged: Ratings) -> Array:
    """Mean log loss of each user's ratings."""
    users, items, levels = judged
    if result.setting.likelihood.name == "gaussian":
        mean, variance = result.predict_number(users, items)
        loss = -norm.logpdf(levels, mean, np.sqrt(variance))
    else:
        loss = -np.log(result.predict_proba(users, items)[np.arange(len(levels)), levels])
    return np.bincount(users, loss) / np.bincount(users)
