"""Checks of what a person hands to EM, with one clear message for each."""

from __future__ import annotations

import os
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from jax.sharding import Mesh
from numpy.typing import ArrayLike, NDArray

from bayesrank._validate import check_count
from bayesrank.solvers.collaborative.blocks import Observations
from bayesrank.solvers.collaborative.likelihoods import LIKELIHOODS
from bayesrank.solvers.collaborative.state import EMState

__all__ = ["check_kernels", "check_observations", "check_run", "check_settings"]

# Of as many numbers one is there, or the numbers are somebody else's.
_MOST_ABSENT = 100
# Of a kernel in single precision, relative to its largest eigenvalue.
_ROUNDING = 1e-6


def check_settings(
    likelihood: str,
    strength: float,
    mean_strength: float,
    kernel_items: int,
    damping: float,
    max_iterations: int,
    tol: float,
) -> None:
    """Refuse settings that make no sense."""
    known = ("gaussian", *LIKELIHOODS)
    if likelihood not in known:
        raise ValueError(f"likelihood is {likelihood!r}; choose one of {known}")
    for name, value in (("strength", strength), ("mean_strength", mean_strength)):
        if not isinstance(value, Real):
            raise ValueError(f"{name} is {value!r}; pass a number of users")
        if not 0 <= value < np.inf:
            raise ValueError(f"{name} must not be negative or infinite, got {value}")
    check_count(kernel_items, "kernel_items")
    if not isinstance(damping, Real) or not 0 < damping <= 1:
        raise ValueError(f"damping must be in (0, 1], got {damping!r}")
    check_count(max_iterations, "max_iterations")
    if not isinstance(tol, Real) or not tol > 0:
        raise ValueError(f"tol must be positive, got {tol!r}")


def check_run(
    checkpoint: str | Path | None, checkpoint_every: int, mesh: Mesh | None, init_state: Any
) -> None:
    """Refuse what a run cannot be made with, before any work."""
    check_count(checkpoint_every, "checkpoint_every")
    if checkpoint is not None and not isinstance(checkpoint, str | Path):
        raise ValueError(f"checkpoint is {checkpoint!r}; pass the path of a file")
    if checkpoint is not None:
        path = Path(checkpoint)
        if path.is_dir() or not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
            raise ValueError(
                f"checkpoint is {str(path)!r}, which cannot be written; pass the path of a file in "
                "a folder that exists"
            )
    if init_state is not None and not isinstance(init_state, EMState | str | Path):
        raise ValueError(
            f"init_state is {init_state!r}; pass the state of an earlier result, or the path of "
            "the file that it was saved to"
        )
    if mesh is not None and not isinstance(mesh, Mesh):
        raise ValueError(f"mesh is {mesh!r}; pass a jax.sharding.Mesh with one axis, named 'users'")
    if mesh is not None and mesh.axis_names != ("users",):
        raise ValueError(f"mesh has the axes {mesh.axis_names}; give it one, named 'users'")


def check_observations(
    likelihood: str,
    users: ArrayLike,
    items: ArrayLike,
    levels: ArrayLike | None,
    num_users: int | None,
    num_items: int | None,
) -> Observations:
    """Return the observations as arrays.

    Raises
    ------
    ValueError
        If they do not fit each other, or an item is seen twice by a user (of a pair: by itself).
    """
    pairwise = likelihood == "pairwise"
    who = _numbers(users, "users", 1, num_users)
    what = _numbers(items, "items", 2 if pairwise else 1, num_items)
    if what.shape != (len(who), 2)[: what.ndim]:
        wanted = (len(who), 2) if pairwise else (len(who),)
        raise ValueError(f"items has shape {what.shape}; pass {wanted}, as many as users")
    n = num_users or int(who.max()) + 1
    m = num_items or int(what.max()) + 1
    if pairwise:
        if levels is not None:
            raise ValueError("levels is given for comparisons; pass None, the better item is first")
        if (what[:, 0] == what[:, 1]).any():
            row = int(np.argmax(what[:, 0] == what[:, 1]))
            raise ValueError(f"items compares item {what[row, 0]} with itself in row {row}")
        return Observations(who, what, (1.0, -1.0), np.ones(len(who)), n, m)
    said = _levels(levels, len(who), likelihood)
    key = who * m + what
    first = np.unique(key, return_index=True)[1]
    if len(first) < len(key):
        row = int(np.setdiff1d(np.arange(len(key)), first)[0])
        raise ValueError(
            f"user {who[row]} has rated item {what[row]} before row {row}; keep one of the two"
        )
    return Observations(who, what[:, None], (1.0,), said, n, m)


def _numbers(values: ArrayLike, name: str, ndim: int, count: int | None) -> NDArray[np.int64]:
    if count is not None:
        check_count(count, f"num_{name}")
    array = np.asarray(values)
    if array.ndim != ndim or array.dtype.kind not in "iu" or not len(array):
        raise ValueError(
            f"{name} has shape {array.shape} and dtype {array.dtype}; pass whole numbers from 0, "
            f"with {ndim} axis" + ("es" if ndim > 1 else "")
        )
    if array.min() < 0 or (count is not None and array.max() >= count):
        raise ValueError(
            f"{name} holds {array.min() if array.min() < 0 else array.max()}; numbers go from 0"
            + ("" if count is None else f" to {count - 1}")
        )
    if count is None and array.max() > _MOST_ABSENT * max(len(np.unique(array)), _MOST_ABSENT):
        raise ValueError(
            f"{name} goes up to {array.max()}, but few of the numbers below are there; number them "
            f"without gaps, as numpy.unique does with return_inverse, or pass num_{name}"
        )
    return array.astype(np.int64)


def _levels(levels: Any, count: int, likelihood: str) -> NDArray[np.float64]:
    array = np.asarray(levels)
    if levels is None or array.shape != (count,) or array.dtype.kind not in "biuf":
        raise ValueError(
            f"levels has shape {array.shape} and dtype {array.dtype}; pass ({count},) numbers, one "
            "for each of users"
        )
    array = array.astype(float)
    if not np.isfinite(array).all():
        row = int(np.argmin(np.isfinite(array)))
        raise ValueError(f"levels is {array[row]} in row {row}; remove the row")
    if likelihood != "gaussian" and ((array < 0) | (array != np.round(array))).any():
        wrong = array[(array < 0) | (array != np.round(array))][0]
        raise ValueError(f"levels holds {wrong:g}; number the levels 0, 1, 2, ...")
    return array


def check_kernels(kernel: ArrayLike | None, num_items: int) -> NDArray[np.float64]:
    """Return base kernels of shape (C, m, m).

    Raises
    ------
    ValueError
        If they are not covariance matrices of all items.
    """
    if kernel is None:
        return np.stack([np.eye(num_items), np.ones((num_items, num_items))])
    array = np.asarray(kernel)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"kernel has dtype {array.dtype}; pass numbers")
    array = array.astype(float)
    array = array[None] if array.ndim == 2 else array
    if array.ndim != 3 or array.shape[1:] != (num_items, num_items) or not len(array):
        raise ValueError(
            f"kernel has shape {np.shape(kernel)}; pass ({num_items}, {num_items}), or several such"
        )
    if not np.isfinite(array).all() or not np.allclose(array, np.swapaxes(array, 1, 2)):
        raise ValueError("kernel is not symmetric, or not finite; pass a covariance matrix")
    sizes = np.trace(array, axis1=1, axis2=2) / num_items
    if not (sizes > 0).all():
        raise ValueError(f"kernel {int(sizes.argmin())} of {len(array)} is zero; leave it out")
    if not _positive(array.sum(axis=0)):
        raise ValueError("kernel is not positive definite; add a small number to its diagonal")
    # Their scales change, so that each has to be a covariance, of which some may be singular.
    for number, part in enumerate(array if len(array) > 1 else ()):
        if not _positive(part + _ROUNDING * num_items * sizes[number] * np.eye(num_items)):
            raise ValueError(
                f"kernel {number} of {len(array)} has a negative eigenvalue; pass covariances"
            )
    return array


def _positive(matrix: NDArray[np.float64]) -> bool:
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return True
