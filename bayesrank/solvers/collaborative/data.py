"""What a person hands to EM: checks, with one clear message each."""

import os
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesrank._validate import (
    check_base_kernels,
    check_choice,
    check_count,
    check_different,
    check_levels,
    check_not_negative,
    check_numbers,
    check_pairs_of_items,
    check_positive,
)
from bayesrank.solvers.collaborative.likelihoods import LIKELIHOODS
from bayesrank.solvers.collaborative.posteriors import Observations
from bayesrank.solvers.collaborative.state import EMState

# Of as many numbers one is there, or the numbers are somebody else's.
_MOST_ABSENT = 100
_LARGEST_LEVEL = 2**53
# Of a kernel in single precision, relative to its largest eigenvalue.
_ROUNDING = 1e-6


def check_settings(
    likelihood: str,
    numbers: dict[str, float],
    max_iterations: int,
    tol: float,
) -> None:
    """Refuse settings that make no sense."""
    check_choice(likelihood, "likelihood", *LIKELIHOODS)
    for name, value in numbers.items():
        check_not_negative(value, name)
    check_count(max_iterations, "max_iterations")
    check_positive(tol, "tol")


def check_run(checkpoint: str | Path | None, checkpoint_every: int, init_state: Any) -> None:
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


def check_observations(
    likelihood: str,
    users: ArrayLike,
    items: ArrayLike,
    levels: ArrayLike | None,
    num_users: int | None,
    num_items: int | None,
) -> Observations:
    """Return the observations as arrays."""
    pairwise = likelihood == "pairwise"
    n, m = _count(users, "users", num_users), _count(items, "items", num_items)
    who, what = np.asarray(users), np.asarray(items)
    if pairwise and what.shape != (len(who), 2):
        raise ValueError(f"items has shape {what.shape}; pass ({len(who)}, 2), the better first")
    for column in what.T if pairwise else [what]:
        check_pairs_of_items(who, column, n, m, unique=not pairwise)
    who, what = who.astype(np.int64), what.astype(np.int64)
    if pairwise:
        if levels is not None:
            raise ValueError("levels is given for comparisons; pass None, the better item is first")
        check_different(*what.T)
        return Observations(who, what, (1.0, -1.0), np.ones(len(who)), n, m)
    outcomes = np.asarray(levels)
    check_numbers(outcomes, "levels", len(who))
    if likelihood != "gaussian":
        whole = (outcomes == np.round(outcomes)) & (np.abs(outcomes) < _LARGEST_LEVEL)
        check_levels(outcomes.astype(int) if whole.all() else outcomes, len(who), None)
    return Observations(who, what[:, None], (1.0,), outcomes.astype(float), n, m)


def _count(values: ArrayLike, name: str, count: int | None) -> int:
    """How many users or items there are; one more than the largest if not given."""
    if count is not None:
        return check_count(count, f"num_{name}")
    array = np.asarray(values)
    if array.dtype.kind not in "iu" or not array.size:
        raise ValueError(
            f"{name} has shape {array.shape} and dtype {array.dtype}; pass whole numbers from 0"
        )
    if array.max() > _MOST_ABSENT * max(len(np.unique(array)), _MOST_ABSENT):
        raise ValueError(
            f"{name} goes up to {array.max()}, but few of the numbers below are there; number them "
            f"without gaps, as numpy.unique does with return_inverse, or pass num_{name}"
        )
    return max(int(array.max()), 0) + 1


def check_kernels(kernel: ArrayLike | None, num_items: int) -> NDArray[np.float64]:
    """Return base kernels of shape (C, m, m)."""
    if kernel is not None:
        kernel = np.asarray(kernel)
        if kernel.dtype.kind not in "biuf":
            raise ValueError(f"kernel has dtype {kernel.dtype}; pass numbers")
    with jax.enable_x64(True):
        array = np.asarray(check_base_kernels(kernel, num_items))
    if kernel is None:
        return array
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
