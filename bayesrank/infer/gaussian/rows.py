"""Rows of linear predictors, sparse or dense, and the four products that EP needs of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

_GATHER_WIDTH = 16


class Rows(NamedTuple):
    """Rows ``a_1 .. a_G`` of length n."""

    values: Array  # entries, shape (G, r)
    columns: Array | None  # int, (G, r), repeated ones adding up; None for dense rows, r = n
    size: int  # number of latents n

    @classmethod
    def identity(cls, size: int, dtype: Any = float) -> Rows:
        """One row for each latent: the latents themselves as predictors."""
        return cls(jnp.ones((size, 1), dtype), jnp.arange(size)[:, None], size)

    def dense(self) -> Array:
        """The rows as a matrix (G, n)."""
        if self.columns is None:
            return self.values
        rows = jnp.arange(self.values.shape[0])[:, None]
        empty = jnp.zeros((self.values.shape[0], self.size), self.values.dtype)
        return empty.at[rows, self.columns].add(self.values)

    def apply(self, vector: Array) -> Array:
        """``A x``: predictors (G,) of latents (n,)."""
        if self.columns is None:
            return self.values @ vector
        return jnp.sum(self.values * vector[self.columns], axis=-1)

    def take(self, vector: Array) -> Array:
        """Latents (n,) at the entries of sparse rows, shape (G, r)."""
        return vector[self.columns]

    def put(self, entries: Array) -> Array:
        """Add up what entries of sparse rows say, shape (G, r, k), in the latents, shape (n, k)."""
        empty = jnp.zeros((self.size, entries.shape[-1]), entries.dtype)
        return empty.at[self.columns].add(entries)

    def transpose_apply(self, weights: Array) -> Array:
        """``A' w``: weights (G,) of the rows gathered in the latents (n,)."""
        if self.columns is None:
            return weights @ self.values
        empty = jnp.zeros(self.size, self.values.dtype)
        return empty.at[self.columns].add(self.values * weights[:, None])

    def gram(self, weights: Array) -> Array:
        """``A' diag(w) A``, shape (n, n); for comparisons, a weighted graph Laplacian."""
        if self.columns is None:
            return self.values.T @ (weights[:, None] * self.values)
        if self.values.shape[-1] > _GATHER_WIDTH:
            return self._replace(values=self.dense(), columns=None).gram(weights)
        left, right = self.columns[:, :, None], self.columns[:, None, :]
        product = weights[:, None, None] * self.values[:, :, None] * self.values[:, None, :]
        empty = jnp.zeros((self.size, self.size), self.values.dtype)
        return empty.at[left, right].add(product)

    def quadratic(self, covariance: Array) -> Array:
        """``diag(A C A')``: variances (G,) of the predictors under a covariance (n, n)."""
        if self.columns is None:
            return jnp.sum((self.values @ covariance) * self.values, axis=-1)
        width = self.values.shape[-1]
        if width > _GATHER_WIDTH:
            return self._replace(values=self.dense(), columns=None).quadratic(covariance)
        block = covariance[self.columns[:, :, None], self.columns[:, None, :]]
        return jnp.einsum("gi,gij,gj->g", self.values, block, self.values)
