"""Draws of estimators that run no program at the end, for ArviZ, with their labels."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesrank.inferencedata._convert import _assemble

Named = Mapping[str, tuple[tuple[str, ...], NDArray[Any]]]


def draws_to_arviz(
    *,
    draws: Named,
    constant: Named,
    coords: Mapping[str, Sequence[Any]],
    observed: Mapping[str, tuple[str, ArrayLike]] | None = None,
    attrs: Mapping[str, Any] | None = None,
) -> Any:
    """Put draws, estimates and observations, with names of dimensions, into ArviZ's groups."""
    import xarray as xr  # a fit does not wait for it

    stamp = {"created_at": datetime.now(UTC).isoformat(), "creation_library": "bayesrank"}
    stamp |= dict(attrs or {})
    labels = {name: _labels(values) for name, values in coords.items()}
    number = len(next(iter(draws.values()))[1])

    def labelled(named: Named) -> dict[str, Any]:
        return {dim: labels[dim] for dims, _ in named.values() for dim in dims if dim in labels}

    posterior = xr.Dataset(
        {name: (("chain", "draw", *dims), values[None]) for name, (dims, values) in draws.items()},
        coords={"chain": [0], "draw": np.arange(number), **labelled(draws)},
        attrs=stamp,
    )
    fixed = xr.Dataset(dict(constant), coords=labelled(constant), attrs=stamp)
    groups = {"posterior": posterior, "constant_data": fixed}
    if observed is not None:
        groups["observed_data"] = xr.Dataset(dict(observed), attrs=stamp)
    return _assemble(groups)


def _labels(ids: Sequence[Any]) -> NDArray[Any]:
    """Ids as whole numbers where all are, else as text, which every file format can hold."""
    if all(isinstance(label, int) for label in ids):
        return np.asarray(ids)
    return np.asarray([str(label) for label in ids])
