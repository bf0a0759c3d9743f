"""Rows of linear predictors that several devices share, each a part of the sites.

What rows make of latents stays where the rows are. One ``psum`` sums what they make for the
latents over the devices. These may belong to several processes, see `jax.distributed`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from bayesrank.infer.gaussian.rows import Rows


class ShardedRows(NamedTuple):
    """As `bayesrank.infer.gaussian.rows.Rows`, whose methods it has, over the devices of a mesh."""

    values: Array  # as of `Rows`
    columns: Array | None
    size: int
    mesh: Mesh  # the devices; its axes share the rows, whatever they are called

    @classmethod
    def over(cls, mesh: Mesh, rows: Rows) -> ShardedRows:
        """Share rows among the devices of a mesh."""
        return cls(rows.values, rows.columns, rows.size, _auto(mesh))

    def apply(self, vector: Array) -> Array:
        """As `Rows.apply`."""
        return self._each(Rows.apply, vector)

    def take(self, vector: Array) -> Array:
        """As `Rows.take`."""
        return self._each(Rows.take, vector)

    def quadratic(self, covariance: Array) -> Array:
        """As `Rows.quadratic`."""
        return self._each(Rows.quadratic, covariance)

    def put(self, entries: Array) -> Array:
        """As `Rows.put`."""
        return self._summed(Rows.put, entries)

    def transpose_apply(self, weights: Array) -> Array:
        """As `Rows.transpose_apply`."""
        return self._summed(Rows.transpose_apply, weights)

    def gram(self, weights: Array) -> Array:
        """As `Rows.gram`."""
        return self._summed(Rows.gram, weights)

    def _each(self, method: Callable[[Rows, Array], Array], shared: Array) -> Array:
        """What each row makes of something that all devices have."""
        mine, every = PartitionSpec(self.mesh.axis_names), PartitionSpec()

        def local(values: Array, columns: Array | None, shared: Array) -> Array:
            return method(Rows(values, columns, self.size), shared)

        mapped = jax.shard_map(local, mesh=self.mesh, in_specs=(mine, mine, every), out_specs=mine)
        values, columns = self._padded(self.values, self.columns)
        return mapped(values, columns, shared)[: self.values.shape[0]]

    def _summed(self, method: Callable[[Rows, Array], Array], own: Array) -> Array:
        """What all rows and something of their own make together."""
        mine, axes = PartitionSpec(self.mesh.axis_names), self.mesh.axis_names

        def local(values: Array, columns: Array | None, own: Array) -> Array:
            return lax.psum(method(Rows(values, columns, self.size), own), axes)

        mapped = jax.shard_map(
            local, mesh=self.mesh, in_specs=(mine, mine, mine), out_specs=PartitionSpec()
        )
        return mapped(*self._padded(self.values, self.columns, own))

    def _padded(self, *arrays: Any) -> tuple[Any, ...]:
        """Arrays of as many rows on each device; those that are added are zero."""
        more = -self.values.shape[0] % self.mesh.size

        def padded(array: Array) -> Array:
            return jnp.pad(array, ((0, more), *((0, 0),) * (array.ndim - 1))) if more else array

        return tuple(None if array is None else padded(array) for array in arrays)


def _auto(mesh: Mesh) -> Mesh:
    """The mesh, on which XLA finds out how arrays lie that nobody has laid."""
    return Mesh(mesh.devices, mesh.axis_names, axis_types=(AxisType.Auto,) * mesh.devices.ndim)


def everywhere(mesh: Mesh) -> NamedSharding:
    """All of an array on each device of a mesh."""
    return NamedSharding(_auto(mesh), PartitionSpec())


def global_array(array: Any, sharding: NamedSharding) -> Array:
    """An array that every process knows all of, on all devices of a mesh."""
    if isinstance(array, Array) and array.sharding == sharding:
        return array
    values = np.asarray(array)
    return jax.make_array_from_callback(values.shape, sharding, values.__getitem__)


def check_mesh(mesh: Any) -> None:
    """Refuse anything but a mesh of devices."""
    if not isinstance(mesh, Mesh):
        raise ValueError(
            f"mesh is {mesh!r}; pass a jax.sharding.Mesh, say jax.make_mesh((jax.device_count(),), "
            "('sites',)), or None"
        )
