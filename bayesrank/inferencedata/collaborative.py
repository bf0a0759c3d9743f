"""The fit of many users to ArviZ, with users and items as coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesrank.inferencedata._convert import _assemble

__all__ = ["collaborative_to_arviz"]

Array = NDArray[np.float64]


def collaborative_to_arviz(
    *,
    functions: Array,
    users: Sequence[Any],
    items: Sequence[Any],
    constant: dict[str, tuple[tuple[str, ...], Array]],
    observed: dict[str, tuple[str, Array]],
    attrs: dict[str, Any],
) -> Any:
    """Put draws of users' functions and what is known beside them into ArviZ's groups.

    Parameters
    ----------
    functions
        Draws, shape (draws, users, items).
    users, items
        Ids.
    constant
        Dimension names and values of what was estimated.
    observed
        Dimension name and values of columns of the ratings.
    attrs
        Attributes of each group.

    Returns
    -------
    arviz.InferenceData or xarray.DataTree
        ``InferenceData`` before ArviZ 1.0, else ``DataTree``.
    """
    coords = {"user": _labels(users), "item": _labels(items), "item_other": _labels(items)}
    stamp = {"created_at": datetime.now(UTC).isoformat(), "creation_library": "bayesrank", **attrs}
    posterior = xr.Dataset(
        {"f": (("chain", "draw", "user", "item"), functions[None])},
        coords={
            "chain": [0],
            "draw": np.arange(len(functions)),
            "user": coords["user"],
            "item": coords["item"],
        },
        attrs=stamp,
    )
    needed = {dim for dims, _ in constant.values() for dim in dims}
    fixed = xr.Dataset(
        {name: (dims, values) for name, (dims, values) in constant.items()},
        coords={name: values for name, values in coords.items() if name in needed},
        attrs=stamp,
    )
    seen = xr.Dataset(
        {name: (dim, values) for name, (dim, values) in observed.items()}, attrs=stamp
    )
    return _assemble({"posterior": posterior, "constant_data": fixed, "observed_data": seen})


def _labels(ids: Sequence[Any]) -> NDArray[Any]:
    """Ids as whole numbers where all are, else as text, which every file format can hold."""
    if all(isinstance(label, int) for label in ids):
        return np.asarray(ids)
    return np.asarray([str(label) for label in ids])
