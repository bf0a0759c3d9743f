"""Checks of arguments that several packages share, with one clear message for each problem.

Every check raises a `ValueError` that names the argument, the problem and the fix. It checks shapes
and dtypes always, and values only where they are known: JAX does not know them while it traces a
program. Only the checks that return JAX arrays load JAX.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from bayesrank._tables import unmasked

if TYPE_CHECKING:
    from jax import Array
    from jax.typing import ArrayLike

_NUMBERS, _WHOLE = "biuf", "iu"


def check_level(level: Any) -> float:
    """Return a probability of intervals, above 0 and below 1."""
    return check_share(level, "level", usual="0.9 for 90%")


def check_flag(value: Any, name: str) -> bool:
    """Return True or False."""
    if not isinstance(value, bool | np.bool):
        raise ValueError(f"{name} is {value!r}; pass True or False")
    return bool(value)


def check_count(count: Any, name: str, least: int = 1) -> int:
    """Return a count, a whole number from `least` on, as an integer."""
    try:
        whole = least - 1 if isinstance(count, bool | np.bool) else operator.index(count)
    except TypeError:
        whole = least - 1
    if whole < least:
        raise ValueError(f"{name} is {count!r}; pass a whole number from {least} on")
    return whole


def check_positive(value: Any, name: str) -> float:
    """Return a positive finite number."""
    if not 0.0 < _number(value) < math.inf:
        raise ValueError(f"{name} is {value!r}; pass a positive number")
    return float(value)


def check_not_negative(value: Any, name: str) -> float:
    """Return a finite number from 0 on."""
    if not 0.0 <= _number(value) < math.inf:
        raise ValueError(f"{name} is {value!r}; pass a number from 0 on")
    return float(value)


def check_share(
    value: Any, name: str, *, zero: bool = False, one: bool = False, usual: str = ""
) -> float:
    """Return a number between 0 and 1; `zero` and `one` allow these ends, `usual` is an example."""
    number = _number(value)
    if not (0.0 < number < 1.0 or (zero and number == 0.0) or (one and number == 1.0)):
        low, high = "at least" if zero else "above", "at most" if one else "below"
        such = f", such as {usual}" if usual else ""
        raise ValueError(f"{name} is {value!r}; pass a number {low} 0 and {high} 1{such}")
    return number


def _number(value: Any) -> float:
    """Return a number as it is, and NaN for anything else."""
    try:
        is_number = not isinstance(value, str | bytes | bool | np.bool) and np.ndim(value) == 0
        return float(value) if is_number else math.nan
    except (TypeError, ValueError, OverflowError):
        return math.nan


def check_choice(value: Any, name: str, *choices: str) -> Any:
    """Return what is one of some texts."""
    if not isinstance(value, str) or value not in choices:
        *others, last = map(repr, choices)
        raise ValueError(f"{name} is {value!r}; choose {', '.join(others)} or {last}")
    return value


def check_pairs(pairs: Any, count: int, name: str = "pairs", *, what: str = "item") -> Any:
    """Return pairs of numbers below `count`, integers (P, 2); an empty list has no pairs."""
    values = known(pairs)
    if values.shape == (0,):
        return np.zeros((0, 2), np.int64)
    if values.ndim != 2 or values.shape[1] != 2 or values.dtype.kind not in _WHOLE:
        raise ValueError(
            f"{name} has shape {values.shape} and dtype {values.dtype}; pass pairs of {what} "
            "numbers, integers of shape (P, 2)"
        )
    if isinstance(values, np.ndarray):
        _refuse_unknown(values, count, name, what)
    return values


def check_positive_values(
    given: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]], name: str
) -> dict[str, np.ndarray]:
    """Return values by name, positive and of these shapes; `name` calls the mapping."""
    values = {}
    for key, value in given.items():
        if key not in shapes:
            raise ValueError(f"{name} names {key!r}; there are {tuple(shapes)}")
        try:
            array = np.array(value, np.float64)
        except (TypeError, ValueError):
            array = np.array(np.nan)
        if array.shape != shapes[key] or not (np.isfinite(array) & (array > 0.0)).all():
            wanted = f"{shapes[key][0]} positive numbers" if shapes[key] else "a positive number"
            raise ValueError(f"{name}[{key!r}] is {value!r}; pass {wanted}")
        values[key] = array
    return values


def check_comparisons(comparisons: Any, num_items: int) -> Array:
    """Return comparisons of two different items each as an integer array (K, 2)."""
    values = known(comparisons)
    if values.ndim == 2 and values.shape[0] == 0:
        raise ValueError("comparisons has no rows; pass None for draws from the prior")
    values = check_pairs(values, num_items, "comparisons")
    if isinstance(values, np.ndarray):
        itself = values[:, 0] == values[:, 1]
        if itself.any():
            row = int(np.argmax(itself))
            raise ValueError(
                f"comparisons compares item {values[row, 0]} with itself in row {row}; remove "
                "the row"
            )
    return _on_device(values)


def check_outcomes(outcomes: Any, num_comparisons: int) -> Array:
    """Return outcomes 0, 1 or 2 of comparisons with ties as an integer array (K,)."""
    values = check_column(outcomes, "outcomes", num_comparisons, _WHOLE, "integers 0, 1 or 2")
    fix = "pass 2 if the first item wins, 1 for no difference, 0 if the second wins"
    refuse_rows(values, lambda v: ~np.isin(v, (0, 1, 2)), "outcomes", fix)
    return _on_device(values)


def check_weights(weights: Any, num_comparisons: int) -> Array:
    """Return how often each comparison counts, a positive number, as a floating array (K,)."""
    values = check_column(
        weights, "weights", num_comparisons, _NUMBERS, "a number for each comparison"
    )
    fix = "pass positive numbers, and leave a comparison out that is not to count"
    refuse_rows(values, lambda v: ~((v > 0) & (v < np.inf)), "weights", fix)
    return _floating(values)


def check_row_weights(weights: Any, name: str, count: int) -> Any:
    """Return how often each row counts, finite numbers from 0 on, (count,)."""
    values = check_column(weights, name, count, _NUMBERS, "a number for each row")
    fix = "pass finite numbers from zero on"
    refuse_rows(values, lambda v: ~((v >= 0) & (v < np.inf)), name, fix)
    return values.astype(np.float64)


def check_position(position: Any, num_comparisons: int) -> Any:
    """Return 1 where the first item was shown first, -1 where the second was, else 0, (K,)."""
    wanted = "1, 0 or -1 for each row of comparisons"
    values = check_column(position, "position", num_comparisons, _NUMBERS, wanted)
    refuse_rows(values, lambda v: ~np.isin(v, (-1, 0, 1)), "position", "pass 1, 0 or -1")
    return values


def check_numbered(values: Any, name: str, num_comparisons: int, number: int | None) -> Any:
    """Return integers (K,) from 0 to ``number - 1``; without `number`, to the largest."""
    wanted = "integers, one for each row of comparisons"
    array = check_column(values, name, num_comparisons, _WHOLE, wanted)
    number = int(array.max()) + 1 if number is None else number
    fix = f"pass numbers from 0 to {number - 1}"
    refuse_rows(array, lambda v: (v < 0) | (v >= number), name, fix)
    return array


def check_places(values: ArrayLike, name: str, count: int) -> Array:
    """Return numbers below `count`, and -1 for none, as an integer array (N, M)."""
    table = known(values)
    if table.ndim != 2 or table.dtype.kind not in _WHOLE:
        raise ValueError(
            f"{name} has shape {table.shape} and dtype {table.dtype}; pass integers (N, M)"
        )
    wrong = np.argwhere((table < -1) | (table >= count)) if isinstance(table, np.ndarray) else []
    if len(wrong):
        row, column = wrong[0]
        raise ValueError(
            f"{name} is {table[row, column]} in row {row}, column {column}; pass numbers from 0 to "
            f"{count - 1}, and -1 for none"
        )
    return _on_device(table)


def check_numbers(values: ArrayLike, name: str, count: int) -> Array:
    """Return finite numbers as a floating array (count,)."""
    array = check_column(values, name, count, _NUMBERS, "numbers")
    refuse_rows(array, lambda v: ~np.isfinite(v), name, "remove the row")
    return _floating(array)


def check_levels(levels: ArrayLike, count: int, num_levels: int | None) -> tuple[Array, int]:
    """Return levels from 0 to ``num_levels - 1`` as integers (count,), and how many there are."""
    if num_levels is not None:
        num_levels = check_count(num_levels, "num_levels")
    array = check_column(levels, "levels", count, _WHOLE, "integers from 0")
    if num_levels is None:
        num_levels = max(int(array.max()) + 1, 2)  # JAX refuses what is not known
    most = num_levels - 1
    fix = f"the {num_levels} levels are numbered 0 to {most}"
    refuse_rows(array, lambda v: (v < 0) | (v > most), "levels", fix)
    if num_levels < 2:
        raise ValueError(f"num_levels is {num_levels}; ratings of one level say nothing")
    return _on_device(array), num_levels


def check_pairs_of_items(
    users: ArrayLike,
    items: ArrayLike,
    num_users: int,
    num_items: int,
    *,
    name: str = "items",
    unique: bool = True,
) -> tuple[Array, Array]:
    """Users and items, which `name` names, as integers (K,); with `unique` no pair comes twice."""
    check_count(num_users, "num_users")
    check_count(num_items, "num_items")
    who, what = known(users), known(items)
    for called, array, count in (("users", who, num_users), (name, what, num_items)):
        if array.ndim != 1 or array.shape != who.shape or array.dtype.kind not in _WHOLE:
            raise ValueError(
                f"{called} has shape {array.shape} and dtype {array.dtype}; pass integers, one "
                "for each rating"
            )
        if array.shape[0] == 0:
            raise ValueError(f"{called} is empty; pass at least one rating")
        fix = f"they are numbered 0 to {count - 1}"
        refuse_rows(array, lambda v, n=count: (v < 0) | (v >= n), called, fix)
    if unique and isinstance(who, np.ndarray) and isinstance(what, np.ndarray):
        key = who.astype(np.int64) * num_items + what
        first = np.unique(key, return_index=True)[1]
        if len(first) < len(key):
            row = int(np.setdiff1d(np.arange(len(key)), first)[0])
            raise ValueError(
                f"user {who[row]} has rated item {what[row]} before row {row}; keep one of the two"
            )
    return _on_device(who), _on_device(what)


def check_different(winners: ArrayLike, losers: ArrayLike) -> None:
    """Refuse comparisons of an item with itself."""
    first, second = known(winners), known(losers)
    if isinstance(first, np.ndarray):
        fix = "and so is winners; remove the row: an item is not compared with itself"
        refuse_rows(second, lambda v: v == first, "losers", fix, ", ")


def check_features(X: ArrayLike, name: str, *, columns: int | None = None) -> Array:
    """Return the items' features, finite numbers, as a floating array (n, d)."""
    return _floating(check_table(X, name, columns=columns))


def check_table(X: Any, name: str, *, columns: int | None = None) -> Any:
    """Return a table of finite numbers (n, d) as NumPy has it, or as it is while JAX traces it."""
    values = known(X)
    if values.dtype.kind not in _NUMBERS:
        raise ValueError(f"{name} has dtype {values.dtype}; pass a table of numbers")
    if values.ndim != 2 or 0 in values.shape:
        raise ValueError(
            f"{name} has shape {values.shape}; pass (n, d), one row of features for each item"
        )
    if columns is not None and values.shape[1] != columns:
        raise ValueError(
            f"{name} has {values.shape[1]} columns, but X has {columns}; describe the new "
            "items by the same features"
        )
    if isinstance(values, np.ndarray) and not np.isfinite(values).all():
        row, column = np.argwhere(~np.isfinite(values))[0]
        raise ValueError(
            f"{name} is {values[row, column]} in row {row}, column {column}; remove the item or "
            "fill the value in"
        )
    return values


def check_weight(weight: Any) -> Any:
    """Return the weight of a Laplacian, a finite number that is not negative."""
    value = known(weight)
    if np.shape(value) != () or (
        isinstance(value, np.ndarray) and not 0.0 <= float(value) < np.inf
    ):
        raise ValueError(f"weight is {weight}; pass a finite number that is not negative")
    return weight


def check_laplacian(laplacian: Any, num_items: int) -> Array:
    """Return the Laplacian of a graph of the items, sparse or dense, as a dense array (n, n)."""
    matrix: Any = laplacian.toarray() if sparse.issparse(laplacian) else laplacian
    values = known(matrix)
    if values.dtype.kind not in _NUMBERS:
        raise ValueError(f"laplacian has dtype {values.dtype}; pass a matrix of numbers")
    if values.shape != (num_items, num_items):
        raise ValueError(
            f"laplacian has shape {values.shape}; pass ({num_items}, {num_items}), a row and a "
            "column for each row of X, whether the item is in a comparison or not"
        )
    if isinstance(values, np.ndarray):
        _check_laplacian_values(values)
    return _floating(values)


def check_base_kernels(kernel: ArrayLike | None, num_items: int) -> Array:
    """Return the base kernels of the items, symmetric and finite, shape (C, m, m)."""
    import jax.numpy as jnp

    if kernel is None:
        return 0.5 * jnp.stack([jnp.ones((num_items, num_items)), jnp.eye(num_items)])
    array = jnp.asarray(kernel, float)
    kernels = array[None] if array.ndim == 2 else array
    if kernels.ndim != 3 or kernels.shape[1:] != (num_items, num_items) or not len(kernels):
        raise ValueError(
            f"kernel has shape {array.shape}; pass ({num_items}, {num_items}), a covariance of "
            f"all items, or (C, {num_items}, {num_items}), several to be mixed"
        )
    values = known(kernels)
    if isinstance(values, np.ndarray) and not _is_symmetric(values):
        raise ValueError("kernel is not symmetric, or not finite; pass a covariance matrix")
    return kernels


def known(value: ArrayLike) -> Any:
    """Return the value as a NumPy array, or as it is while JAX traces it."""
    jax = sys.modules.get("jax")
    traced = jax is not None and isinstance(value, jax.core.Tracer)
    return value if traced else np.asarray(unmasked(value))


def _on_device(values: Any) -> Array:
    import jax.numpy as jnp

    return jnp.asarray(values)


def _floating(values: Any) -> Array:
    import jax.numpy as jnp

    array = jnp.asarray(values)
    return array.astype(jnp.result_type(array.dtype, float))


def check_column(values: Any, name: str, count: int, kinds: str, wanted: str) -> Any:
    """An array (count,) of these kinds."""
    array = known(values)
    if array.shape != (count,) or array.dtype.kind not in kinds:
        raise ValueError(
            f"{name} has shape {array.shape} and dtype {array.dtype}; pass ({count},), {wanted}"
        )
    return array


def refuse_rows(values: Any, wrong: Any, name: str, fix: str, then: str = "; ") -> None:
    """Refuse the first row of known values (K,) of which `wrong` is true."""
    if not isinstance(values, np.ndarray):
        return
    bad = wrong(values)
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(f"{name} is {values[row]} in row {row}{then}{fix}")


def are_equal(low: Any, high: Any) -> Any:
    """Whether values from `low` to `high` are one value, up to rounding."""
    rounding = 8.0 * np.finfo(float).eps
    return high - low <= rounding * np.maximum(np.abs(low), np.abs(high))


def unit_of(values: Any) -> float:
    """The unit to measure values in: their standard deviation, or their size if they are equal."""
    low, high = values.min(), values.max()
    spread = 0.0 if are_equal(low, high) else float(np.std(values))
    return spread or float(np.abs(high)) or 1.0


def _refuse_unknown(pairs: np.ndarray, count: int, name: str, what: str) -> None:
    unknown = (pairs < 0) | (pairs >= count)
    if unknown.any():
        row, column = np.argwhere(unknown)[0]
        raise ValueError(
            f"{name} names {what} {pairs[row, column]} in row {row}, but the {count} {what}s are "
            f"numbered 0 to {count - 1}"
        )


def _is_symmetric(values: np.ndarray) -> bool:
    """Whether finite matrices (..., n, n) are symmetric but for rounding."""
    rounding = _rounding(values)
    return bool(np.abs(values - np.swapaxes(values, -1, -2)).max() <= rounding)


def _rounding(values: np.ndarray) -> float:
    eps = float(np.finfo(np.result_type(values, np.float32)).eps)
    return 1e3 * eps * float(np.abs(values).max())


def _check_laplacian_values(values: np.ndarray) -> None:
    if not np.isfinite(values).all():
        row, column = np.argwhere(~np.isfinite(values))[0]
        raise ValueError(
            f"laplacian is {values[row, column]} in row {row}, column {column}; pass "
            "bayesrank.gp.laplacian a graph whose weights are finite"
        )
    if not _is_symmetric(values):
        raise ValueError(
            "laplacian is not symmetric; make it of a graph whose edges have no direction, as "
            "bayesrank.gp.knn_graph returns"
        )
    # No entry of a positive semi-definite matrix is larger than its row's and column's diagonal.
    diagonal, rounding = np.diagonal(values), _rounding(values)
    if (
        diagonal.min() < 0.0
        or (np.abs(values) > np.sqrt(np.outer(diagonal, diagonal)) + rounding).any()
    ):
        raise ValueError(
            "laplacian is not positive semi-definite, as a Laplacian is; pass "
            "bayesrank.gp.laplacian(graph), not the graph itself"
        )
