"""The fit of a log of comparisons to ArviZ, with items and judges as coordinates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesrank.inferencedata._convert import _assemble

__all__ = ["arena_to_arviz"]

Named = Mapping[str, tuple[tuple[str, ...], NDArray[Any]]]


def arena_to_arviz(*, draws: Named, constant: Named, coords: Mapping[str, Sequence[Any]]) -> Any:
    """Put draws and estimates into ArviZ's groups.

    Parameters
    ----------
    draws
        Dimension names of an entry, and draws, whose first axis is the draw.
    constant
        Dimension names and values of what was estimated.
    coords
        Labels of the dimensions.

    Returns
    -------
    arviz.InferenceData or xarray.DataTree
        ``InferenceData`` before ArviZ 1.0, else ``DataTree``.
    """
    stamp = {"created_at": datetime.now(UTC).isoformat(), "creation_library": "bayesrank"}
    labels = {name: [str(each) for each in values] for name, values in coords.items()}
    number = len(next(iter(draws.values()))[1])

    def labelled(named: Named) -> dict[str, list[str]]:
        return {dim: labels[dim] for dims, _ in named.values() for dim in dims}

    posterior = xr.Dataset(
        {name: (("chain", "draw", *dims), values[None]) for name, (dims, values) in draws.items()},
        coords={"chain": [0], "draw": np.arange(number), **labelled(draws)},
        attrs=stamp,
    )
    fixed = xr.Dataset(dict(constant), coords=labelled(constant), attrs=stamp)
    return _assemble({"posterior": posterior, "constant_data": fixed})
