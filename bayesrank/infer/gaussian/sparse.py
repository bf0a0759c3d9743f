r"""Many independent latents that sites see few at a time: a Gaussian as a sparse precision.

Matrices that are near a sparse precision, and easy to solve with.

Conjugate gradients take a step for each eigenvalue that they distinguish of :math:`M^{-1} P`, with
:math:`P` the precision and :math:`M` such a matrix. For independent latents `Diagonal` is enough.
In a walk each latent depends on the one before it, and so on all of them. `Forest` takes the prior
in which each latent is drawn given that one other on which it depends most, and factorises it
without fill.

The precision :math:`P = D^{-1} + A' \operatorname{diag}(\tau) A` has an entry for each two latents
that a site sees together. For players and games its factors would fill up. Conjugate gradients with
a `Preconditioner` near :math:`P` solve :math:`P x = b` for means, draws and covariances instead.

Variances come from probes. With :math:`b \sim N(0, P)`, :math:`x = P^{-1} b` is a draw. Given all
other latents, those of a row have precision :math:`P_{BB}` and mean
:math:`x_B - P_{BB}^{-1} b_B`, so the variance of their margin is

.. math:: a' P_{BB}^{-1} a + \operatorname{Var}(a' x_B - a' P_{BB}^{-1} b_B).

The first term is exact. The second, the lesser one, is an average over few draws (Rao and
Blackwell).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import eigh_tridiagonal
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import splu

Numbers = NDArray[np.float64]


class Diagonal:
    """``M`` is diagonal, (n,)."""

    def __init__(self, diagonal: Numbers) -> None:
        self.diagonal = diagonal

    def solve(self, right: Numbers) -> Numbers:
        """``M^-1 B`` of right-hand sides (n, S), in their type."""
        return right * (1 / self.diagonal[:, None]).astype(right.dtype)

    def rough(self, rng: np.random.Generator, count: int) -> Numbers:
        """Right-hand sides of covariance ``M``, made of random signs, shape (n, count)."""
        return np.sqrt(self.diagonal)[:, None] * white(rng, (self.diagonal.size, count), signs=True)

    def log_determinant(self) -> float:
        """Log determinant of ``M``."""
        return float(np.sum(np.log(self.diagonal)))


class Forest:
    """``F' Q^-1 F + R``: latents drawn given one other, `rows` ``F`` (n, n), and a diagonal."""

    def __init__(self, rows: Any, spread: Numbers, diagonal: Numbers) -> None:
        self._root = (sparse.diags_array(1 / np.sqrt(spread)) @ rows).T.tocsr()
        own = self._root @ self._root.T
        self._rest = np.maximum(diagonal - own.diagonal(), 0.0)
        matrix = (own + sparse.diags_array(self._rest)).tocsc()
        # Without pivoting, the order of least degree takes the leaves first and fills nothing.
        symmetric = {"SymmetricMode": True}
        self._factor = splu(matrix, "MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=symmetric)

    def solve(self, right: Numbers) -> Numbers:
        """``M^-1 B`` of right-hand sides (n, S), in their type."""
        return self._factor.solve(right.astype(float)).astype(right.dtype)

    def rough(self, rng: np.random.Generator, count: int) -> Numbers:
        """Right-hand sides of covariance ``M``, made of random signs, shape (n, count)."""
        first, second = white(rng, (2, self._rest.size, count), signs=True)
        return self._root @ first + np.sqrt(self._rest)[:, None] * second

    def log_determinant(self) -> float:
        """Log determinant of ``M``."""
        return float(np.sum(np.log(self._factor.U.diagonal())))


Preconditioner = Diagonal | Forest


def white(rng: np.random.Generator, shape: tuple[int, ...], *, signs: bool) -> Numbers:
    """Independent numbers of mean zero and variance one: random signs, or normal."""
    return rng.choice([-1.0, 1.0], shape) if signs else rng.standard_normal(shape)


# Rows, and right-hand sides, that are worked on at a time.
_CHUNK = 65_536
_TOGETHER = 32
_MOST_ITERATIONS = 2000


class NotPositiveError(ArithmeticError):
    """Sites and prior make no proper posterior."""

    def __init__(self) -> None:
        super().__init__(
            "sites of negative precision and the prior make no proper posterior together; use "
            "difference(exact=False), which takes latents as independent"
        )


class NotSolvedError(ValueError):
    """Conjugate gradients have not converged."""

    def __init__(self) -> None:
        super().__init__(
            f"conjugate gradients have not converged after {_MOST_ITERATIONS:,} steps: "
            "correlations reach too far, as in long walks of small steps with few data; use fewer "
            "periods, or EP(structure='dense') on fewer latents"
        )


class ShortRows(NamedTuple):
    """Rows of margins, each of which has few entries."""

    values: Numbers  # entries, shape (G, r); zeros are none
    columns: NDArray[np.integer[Any]]  # (G, r), each once in a row
    size: int  # number of latents n

    def matrix(self, values: Numbers | None = None) -> Any:
        """The rows as a sparse matrix (G, n), or others of the same columns."""
        values = self.values if values is None else values
        count, width = values.shape
        starts = np.arange(0, count * width + 1, width)
        shape = (count, self.size)
        return sparse.csr_array((values.ravel(), self.columns.ravel(), starts), shape=shape)


class Linkage(NamedTuple):
    """A prior of latents each of which is drawn given few others."""

    rows: ShortRows  # rows of ``I - J``; a latent's own column is the first of its row
    spread: Numbers  # its conditional variance, shape (n,)

    def strongest(self, order: NDArray[np.integer[Any]]) -> tuple[Any, Numbers]:
        """`Forest` of the latents in that order: each given the one that it depends on most."""
        values, columns, size = self.rows
        place = np.empty_like(order)
        place[order] = np.arange(order.size)
        most = np.argmax(np.abs(values[order, 1:]), axis=1)[:, None] + 1
        own = np.zeros_like(most)
        chosen = np.concatenate([own, most], axis=1)
        values = np.take_along_axis(values[order], chosen, 1)
        columns = place[np.take_along_axis(columns[order], chosen, 1)]
        return ShortRows(values, columns, size).matrix(), self.spread[order]


class SparsePattern:
    """Places of the precision's entries, and how sites with these rows add up to them."""

    def __init__(self, rows: ShortRows) -> None:
        self.rows, size = rows, rows.size
        columns = rows.columns.astype(np.int64)
        keys = columns[:, :, None] * size + columns[:, None, :]
        self.products = rows.values[:, :, None] * rows.values[:, None, :]
        diagonal = np.arange(size) * (size + 1)
        keys = np.where(self.products != 0, keys, 0)  # what has no entry adds zero to the first one
        found, places = np.unique(np.append(keys.ravel(), diagonal), return_inverse=True)
        self.places, self.diagonal = places[: keys.size].reshape(keys.shape), places[keys.size :]
        self.indices = (found % size).astype(np.int32)
        self.starts = np.searchsorted(found, np.arange(size + 1) * size).astype(np.int32)
        self.matrix = rows.matrix()
        self.transposed = self.matrix.T.tocsr()
        # What is near in this order is near in memory, of players who meet in leagues or periods.
        numbered = self._with(np.arange(self.indices.size))
        self.order = reverse_cuthill_mckee(numbered, symmetric_mode=True)
        self._ordered = numbered[self.order][:, self.order].tocsr()

    def __getstate__(self) -> dict[str, Any]:
        return {"rows": self.rows}  # all else follows

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(vars(SparsePattern(state["rows"])))

    def precision(self, variances: Numbers, tau: Numbers) -> Any:
        """``D^-1 + A' diag(tau) A``, a sparse matrix (n, n)."""
        weights = (tau[:, None, None] * self.products).ravel()
        data = np.bincount(self.places.ravel(), weights, minlength=self.indices.size)
        data[self.diagonal] += 1 / variances
        return self._with(data)

    def ordered(self, precision: Any) -> Any:
        """A precision of latents that are in `order`."""
        moved = precision.data[self._ordered.data], self._ordered.indices, self._ordered.indptr
        return sparse.csr_array(moved, shape=precision.shape)

    def _with(self, data: NDArray[Any]) -> Any:
        shape = (self.rows.size, self.rows.size)
        return sparse.csr_array((data, self.indices, self.starts), shape=shape)


class Probes(NamedTuple):
    """Draws, with what they solve."""

    right: Numbers  # ``b`` and ``x = P^-1 b``, shape (n, S)
    draws: Numbers


class SparseGaussian:
    """The posterior, of `precision` (n, n), of independent latents and sites of short rows."""

    structure = "probes"
    # Of a prior of low rank; and whether derivatives of the log integral come from draws.
    rank, residuals_seen, has_slopes = None, 0.0, False

    def __init__(
        self,
        pattern: SparsePattern,
        variances: Numbers,
        tau: Numbers,
        nu: Numbers,
        links: Linkage | None = None,
    ) -> None:
        self.pattern, self.variances, self.tau, self.nu = pattern, variances, tau, nu
        self.precision = pattern.precision(variances, tau)
        self.diagonal = self.precision.data[pattern.diagonal]
        if not np.all(self.diagonal > 0):
            raise NotPositiveError
        self._links = links

    def __getstate__(self) -> dict[str, Any]:
        # A factor of SciPy's cannot be pickled, and is soon made again.
        return {k: v for k, v in self.__dict__.items() if k != "_ordered"}

    @cached_property
    def _ordered(self) -> tuple[Any, Preconditioner]:
        """The precision in the order of the pattern, and what is near it."""
        order = self.pattern.order
        diagonal = self.diagonal[order]
        near: Preconditioner = Diagonal(diagonal)
        if self._links is not None:
            near = Forest(*self._links.strongest(order), diagonal)
        return self.pattern.ordered(self.precision), near

    def solve(self, right: Numbers, start: Numbers | None = None, tol: float = 1e-6) -> Numbers:
        """``P^-1 B`` of ``B`` (n, S) by conjugate gradients, to a relative residual of `tol`."""
        precision, near = self._ordered
        precision = precision.astype(right.dtype, copy=False)
        order, right = self.pattern.order, right[self.pattern.order]
        found = np.zeros_like(right) if start is None else start[order]
        residual = right - precision @ found
        step = near.solve(residual)
        direction, size = step.copy(), _columns_dot(residual, step)
        least = tol**2 * _columns_dot(right, near.solve(right))
        for _ in range(_MOST_ITERATIONS):
            if np.all(size <= least):
                break
            image = precision @ direction
            curvature = _columns_dot(direction, image)
            if np.any((curvature <= 0) & (size > least)):
                raise NotPositiveError
            length = size / np.where(curvature > 0, curvature, 1.0)
            found += length * direction
            residual -= length * image
            step = near.solve(residual)
            old, size = size, _columns_dot(residual, step)
            direction *= size / np.where(old > 0, old, 1.0)
            direction += step
        else:
            raise NotSolvedError
        # The right-hand side is a copy, which nobody needs any more.
        right[order] = found
        return right

    def mean(self, start: Numbers | None = None, tol: float = 1e-6) -> Numbers:
        """Posterior mean of the latents, measured from the prior's, shape (n,)."""
        shift = self.pattern.transposed @ self.nu
        return self.solve(shift[:, None], None if start is None else start[:, None], tol)[:, 0]

    def rough(self, rng: np.random.Generator, count: int, *, signs: bool = False) -> Numbers:
        """Right-hand sides of covariance ``P``, shape (n, count); of random signs, or normal."""
        if np.any(self.tau < 0):
            raise NotPositiveError
        root = np.sqrt(self.tau)
        sides = np.empty((self.pattern.rows.size, count))
        for column in range(count):
            own, seen = (white(rng, (x.size,), signs=signs) for x in (self.variances, root))
            sides[:, column] = own / np.sqrt(self.variances)
            sides[:, column] += self.pattern.transposed @ (root * seen)
        return sides

    def probes(
        self, seed: int, count: int, start: Numbers | None = None, tol: float = 1e-5
    ) -> Probes:
        """Draws for variances; of one seed, they change smoothly with the sites."""
        right = self.rough(np.random.default_rng(seed), count, signs=True)
        return Probes(right, self.solve(right, start, tol))

    def sample(self, rng: np.random.Generator, count: int) -> Numbers:
        """Draws about the mean, shape (count, n)."""
        draws = np.empty((count, self.variances.size))
        for first in range(0, count, _TOGETHER):
            several: Any = self.rough(rng, min(_TOGETHER, count - first)).astype(np.float32)
            draws[first : first + _TOGETHER] = self.solve(several, tol=1e-3).T
        return draws

    def latent_variances(self, probes: Probes) -> Numbers:
        """Variances of the latents, shape (n,)."""
        return 1 / self.diagonal + np.mean(self.moved(probes) ** 2, axis=1)

    def moved(self, probes: Probes) -> Numbers:
        """Means of the latents given all others, in the draws; shape (n, S)."""
        return probes.draws - probes.right / self.diagonal[:, None]

    def margin_variances(self, probes: Probes, rows: ShortRows | None = None) -> Numbers:
        """Variances of the margins of `rows`, or of all sites, shape (G,)."""
        if rows is None:
            rows, entries = self.pattern.rows, self.precision.data[self.pattern.places]
        else:
            left, right = rows.columns[:, :, None], rows.columns[:, None, :]
            left, right = np.broadcast_arrays(left, right)
            entries = np.asarray(self.precision[left.ravel(), right.ravel()]).reshape(left.shape)
        pull = _solved(_blocks(entries, rows.values == 0), rows.values)
        variance = np.sum(pull * rows.values, axis=1)
        for first in range(0, len(pull), _CHUNK):
            some = slice(first, first + _CHUNK)
            part = ShortRows(rows.values[some], rows.columns[some], rows.size)
            moved = part.matrix() @ probes.draws - part.matrix(pull[some]) @ probes.right
            variance[some] += np.mean(moved**2, axis=1)
        return variance

    def factors(self, probes: Probes) -> tuple[Numbers, Numbers]:
        """``B`` (n, S), what the latents move with all others in the probes, and ``d`` (n,)."""
        moved = self.moved(probes)
        return moved / np.sqrt(moved.shape[1]), 1 / self.diagonal

    def log_determinant(self, seed: int, count: int = 32, steps: int = 30) -> tuple[float, float]:
        """Log determinant of ``P`` by Lanczos quadrature, and its standard error."""
        precision, near = self._ordered
        # In the inner product of M, that of M^-1 P is a symmetric recurrence; `along` is M times
        # its vector.
        along = near.rough(np.random.default_rng(seed), count)
        vector = near.solve(along)
        weights = _columns_dot(vector, along)
        along, vector = along / np.sqrt(weights), vector / np.sqrt(weights)
        before, off = np.zeros_like(vector), np.zeros(count)
        on_diagonal, off_diagonal = [], []
        for _ in range(min(steps, self.variances.size)):
            image = precision @ vector - off * before
            on = _columns_dot(vector, image)
            image -= on * along
            turned = near.solve(image)
            off = np.sqrt(np.maximum(_columns_dot(image, turned), 0.0))
            on_diagonal.append(on)
            off_diagonal.append(off)
            scale = 1 / np.maximum(off, np.finfo(float).tiny)
            before, along, vector = along, image * scale, turned * scale
            if np.all(off < 1e-8):
                break
        estimates = []
        recurrences = weights, np.array(on_diagonal).T, np.array(off_diagonal).T
        for weight, on, beside in zip(*recurrences, strict=True):
            values, vectors = eigh_tridiagonal(on, beside[:-1])
            if values[0] <= 0:
                raise NotPositiveError
            estimates.append(weight * float(vectors[0] ** 2 @ np.log(values)))
        error = np.std(estimates, ddof=1) / np.sqrt(count)
        return float(near.log_determinant() + np.mean(estimates)), float(error)

    def quadratic(self, rows: ShortRows) -> Numbers:
        """Variances of the margins of `rows`, shape (G,), by a solution for each."""
        matrix, variances = rows.matrix(), np.empty(len(rows.values))
        for first in range(0, len(variances), _TOGETHER):
            right = matrix[first : first + _TOGETHER].toarray().T
            variances[first : first + _TOGETHER] = _columns_dot(right, self.solve(right))
        return variances


def _columns_dot(left: Numbers, right: Numbers) -> Numbers:
    return np.einsum("ns,ns->s", left, right)


def _blocks(entries: Numbers, empty: NDArray[np.bool_]) -> Numbers:
    """Precisions of the latents of each row given all others, (G, r, r); one for no latent."""
    present = ~(empty[:, :, None] | empty[:, None, :])
    return np.where(present, entries, 0.0) + empty[:, :, None] * np.eye(empty.shape[1])


def _solved(blocks: Numbers, values: Numbers) -> Numbers:
    """Solve small systems (G, r, r) for right-hand sides (G, r), all at once."""
    blocks, values = blocks.copy(), values.copy()
    width = values.shape[1]
    for pivot in range(width):
        if not np.all(blocks[:, pivot, pivot] > 0):
            raise NotPositiveError
        for row in range(pivot + 1, width):
            factor = blocks[:, row, pivot] / blocks[:, pivot, pivot]
            blocks[:, row] -= factor[:, None] * blocks[:, pivot]
            values[:, row] -= factor * values[:, pivot]
    for row in reversed(range(width)):
        known = np.einsum("gi,gi->g", blocks[:, row, row + 1 :], values[:, row + 1 :])
        values[:, row] = (values[:, row] - known) / blocks[:, row, row]
    return values
