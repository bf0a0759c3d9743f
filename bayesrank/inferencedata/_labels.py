"""Names of axes and of their entries: plates, ``event_dims``, and what the caller adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from bayesrank.inferencedata._results import Arrays

if TYPE_CHECKING:
    import xarray as xr


def site_shape(site: Mapping[str, Any]) -> tuple[int, ...]:
    """Shape of a site's value; of an observed one, broadcast against its distribution."""
    shape = np.shape(site["value"])
    return np.broadcast_shapes(shape, site["fn"].shape()) if site["type"] == "sample" else shape


def site_dims(name: str, site: Mapping[str, Any], shape: tuple[int, ...]) -> list[str]:
    """Name each axis of a site's value: by its plate, by ``event_dims``, else by number."""
    labels = [f"{name}_dim_{axis}" for axis in range(len(shape))]
    event = site["fn"].event_dim if site["type"] == "sample" else 0
    batch = len(shape) - event
    for frame in site.get("cond_indep_stack", ()):
        axis = batch + frame.dim
        if 0 <= axis < batch and shape[axis] == frame.size:
            labels[axis] = frame.name
    named = list((site.get("infer") or {}).get("event_dims", ()))
    if named and len(named) == event:
        labels[batch:] = named
    return labels


class AxisLabels:
    """Dimension names of every site, checked against sizes and coordinates."""

    def __init__(
        self,
        sites: Mapping[str, Any],
        coords: Mapping[str, ArrayLike] | None,
        dims: Mapping[str, Sequence[str]] | None,
    ) -> None:
        self._dims = {k: [v] if isinstance(v, str) else list(v) for k, v in (dims or {}).items()}
        self._coords = {name: np.asarray(values) for name, values in (coords or {}).items()}
        self._sites = sites
        self._sizes: dict[str, tuple[int, str]] = {}
        self._check()

    def _check(self) -> None:
        unknown = sorted(set(self._dims) - set(self._sites))
        if unknown:
            raise ValueError(
                f"dims names {unknown}, which the program has not; its sites are "
                f"{sorted(self._sites)}"
            )
        for dim, values in self._coords.items():
            if dim in ("chain", "draw"):
                raise ValueError(f"coords cannot rename {dim!r}; the draws are numbered from 0")
            if values.ndim != 1:
                raise ValueError(f"coords[{dim!r}] must be one-dimensional, got {values.shape}")

    def of(self, name: str, shape: tuple[int, ...]) -> list[str]:
        """Names of the axes of site ``name``, or of its leading axes if ``shape`` has fewer."""
        site = self._sites.get(name, {"type": "param", "value": np.empty(shape)})
        whole = site_shape(site)
        labels = self._dims.get(name) or site_dims(name, site, whole)
        if len(labels) != len(whole):
            raise ValueError(
                f"dims[{name!r}] must name {len(whole)} axes, of shape {whole}, got {labels}"
            )
        labels = labels[: len(shape)]
        if len(set(labels)) < len(labels):
            raise ValueError(
                f"dims[{name!r}] uses a name twice: {labels}; give each axis its own name"
            )
        for dim, size in zip(labels, shape, strict=True):
            self._check_size(name, dim, size)
        return labels

    def _check_size(self, name: str, dim: str, size: int) -> None:
        """Refuse one dimension with two lengths, be it between sites or with its coordinate."""
        if dim in self._coords and len(self._coords[dim]) != size:
            raise ValueError(
                f"coords[{dim!r}] holds {len(self._coords[dim])} entries but site {name!r} "
                f"has {size} along {dim!r}"
            )
        known, owner = self._sizes.setdefault(dim, (size, name))
        if known != size:
            raise ValueError(
                f"dimension {dim!r} has length {known} in site {owner!r} but {size} in site "
                f"{name!r}; rename one of them with dims={{{name!r}: [...]}}"
            )

    def check_used(self) -> None:
        """Refuse coordinates that no site has; call it when all data sets are made."""
        unused = sorted(set(self._coords) - set(self._sizes))
        if unused:
            raise ValueError(
                f"coords {unused} fit no dimension; dimensions are {sorted(self._sizes)}. Say "
                f"which site has them with dims={{'site': {unused}}}"
            )

    def dataset(
        self, arrays: Arrays, attrs: Mapping[str, Any], draw: np.ndarray | None
    ) -> xr.Dataset:
        """Label the arrays; with ``draw``, their first two axes are chain and draw."""
        import xarray as xr  # a fit does not wait for it

        lead = [] if draw is None else ["chain", "draw"]
        variables, used = {}, set()
        for name, value in arrays.items():
            labels = self.of(name, value.shape[len(lead) :])
            variables[name] = (lead + labels, value)
            used.update(labels)
        coords = {}
        for dim in used:
            coords[dim] = self._coords.get(dim, np.arange(self._sizes[dim][0]))
        if draw is not None:
            coords["chain"] = np.arange(next(iter(arrays.values())).shape[0])
            coords["draw"] = draw
        return xr.Dataset(variables, coords, dict(attrs))
