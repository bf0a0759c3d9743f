"""Checks of the rating programs' arguments, with one clear message for each thing that is wrong.

Shapes and dtypes are checked always; values only where they are known, which they are not while
JAX traces the program.
"""

import math
from numbers import Real
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from bayesrank._validate import check_count, known

__all__ = [
    "check_base_kernels",
    "check_different",
    "check_levels",
    "check_likelihood",
    "check_numbers",
    "check_not_negative",
    "check_pairs_of_items",
]


def check_likelihood(likelihood: str) -> str:
    """Return the name of an ordinal likelihood.

    Raises
    ------
    ValueError
        If there is none of that name.
    """
    if likelihood not in ("probit", "logit"):
        raise ValueError(f"`likelihood` is {likelihood!r}; choose 'probit' or 'logit'.")
    return likelihood


def check_not_negative(value: float, name: str) -> float:
    """Return a finite number, 0 or larger.

    Raises
    ------
    ValueError
        If it is none.
    """
    if not isinstance(value, Real) or not 0.0 <= value < math.inf:
        raise ValueError(f"`{name}` is {value!r}; pass a number, 0 or larger.")
    return float(value)


def check_numbers(values: ArrayLike, name: str, count: int) -> Array:
    """Return numbers as a floating array of shape (count,).

    Raises
    ------
    ValueError
        If they are not as many finite numbers.
    """
    array = known(values)
    if array.shape != (count,) or array.dtype.kind not in "biuf":
        raise ValueError(
            f"`{name}` has shape {array.shape} and dtype {array.dtype}; pass ({count},) numbers."
        )
    if isinstance(array, np.ndarray) and not np.isfinite(array).all():
        row = int(np.argmin(np.isfinite(array)))
        raise ValueError(f"`{name}` is {array[row]} in row {row}; remove the row.")
    result = jnp.asarray(values)
    return result.astype(jnp.result_type(result.dtype, float))


def check_levels(levels: ArrayLike, count: int, num_levels: int | None) -> tuple[Array, int]:
    """Return levels as an integer array of shape (count,), and how many there are.

    Raises
    ------
    ValueError
        If they are not whole numbers from 0 to ``num_levels - 1``, or that is no number of levels.
    """
    if num_levels is not None:
        num_levels = check_count(num_levels, "num_levels")
    array = known(levels)
    if array.shape != (count,) or array.dtype.kind not in "iu":
        raise ValueError(
            f"`levels` has shape {array.shape} and dtype {array.dtype}; pass ({count},) integers "
            "from 0."
        )
    if isinstance(array, np.ndarray):
        num_levels = max(int(array.max()) + 1, 2) if num_levels is None else num_levels
        wrong = (array < 0) | (array >= num_levels)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise ValueError(
                f"`levels` is {array[row]} in row {row}; the {num_levels} levels are numbered 0 "
                f"to {num_levels - 1}."
            )
    if num_levels is None:
        num_levels = max(int(jnp.max(jnp.asarray(levels))) + 1, 2)  # JAX refuses what is not known
    if num_levels < 2:
        raise ValueError(f"`num_levels` is {num_levels}; ratings of one level say nothing.")
    return jnp.asarray(levels), num_levels


def check_pairs_of_items(
    users: ArrayLike,
    items: ArrayLike,
    num_users: int,
    num_items: int,
    *,
    name: str = "items",
    unique: bool = True,
) -> tuple[Array, Array]:
    """Return users and items as integer arrays of one shape (K,); `name` is what items are called.

    Raises
    ------
    ValueError
        If they are not numbers of users and items, or, where `unique`, a pair comes twice.
    """
    check_count(num_users, "num_users")
    check_count(num_items, "num_items")
    who, what = known(users), known(items)
    for called, array in (("users", who), (name, what)):
        if array.ndim != 1 or array.shape != who.shape or array.dtype.kind not in "iu":
            raise ValueError(
                f"`{called}` has shape {array.shape} and dtype {array.dtype}; pass integers, one "
                "for each rating."
            )
        if array.shape[0] == 0:
            raise ValueError(f"`{called}` is empty; pass at least one rating.")
    for called, array, count in (("users", who, num_users), (name, what, num_items)):
        if isinstance(array, np.ndarray) and ((array < 0) | (array >= count)).any():
            row = int(np.argmax((array < 0) | (array >= count)))
            raise ValueError(
                f"`{called}` is {array[row]} in row {row}; they are numbered 0 to {count - 1}."
            )
    if unique and isinstance(who, np.ndarray) and isinstance(what, np.ndarray):
        _refuse_repeated(who.astype(np.int64) * num_items + what, who, what)
    return jnp.asarray(users), jnp.asarray(items)


def check_different(winners: ArrayLike, losers: ArrayLike) -> None:
    """Refuse comparisons of an item with itself.

    Raises
    ------
    ValueError
        If there is one.
    """
    first, second = known(winners), known(losers)
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray) and (first == second).any():
        row = int(np.argmax(first == second))
        raise ValueError(
            f"`losers` is {second[row]} in row {row}, and so is `winners`; remove the row: an item "
            "is not compared with itself."
        )


def _refuse_repeated(key: Any, who: np.ndarray, what: np.ndarray) -> None:
    first = np.unique(key, return_index=True)[1]
    if len(first) < len(key):
        row = int(np.setdiff1d(np.arange(len(key)), first)[0])
        raise ValueError(
            f"user {who[row]} has rated item {what[row]} before row {row}; keep one of the two."
        )


def check_base_kernels(kernel: ArrayLike | None, num_items: int) -> Array:
    """Return the base kernels of the items, shape (C, m, m).

    Raises
    ------
    ValueError
        If they have another shape, or are not symmetric or not finite.
    """
    if kernel is None:
        return 0.5 * jnp.stack([jnp.ones((num_items, num_items)), jnp.eye(num_items)])
    array = jnp.asarray(kernel, float)
    kernels = array[None] if array.ndim == 2 else array
    if kernels.ndim != 3 or kernels.shape[1:] != (num_items, num_items) or not len(kernels):
        raise ValueError(
            f"`kernel` has shape {array.shape}; pass ({num_items}, {num_items}), a covariance of "
            f"all items, or (C, {num_items}, {num_items}), several to be mixed."
        )
    values = known(kernels)
    if isinstance(values, np.ndarray):
        rounding = 1e3 * float(np.finfo(values.dtype).eps) * np.abs(values).max()
        if not np.abs(values - values.swapaxes(1, 2)).max() <= rounding:
            raise ValueError("`kernel` is not symmetric, or not finite; pass a covariance matrix.")
    return kernels
