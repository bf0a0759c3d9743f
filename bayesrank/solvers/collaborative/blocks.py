"""Users' observations in a few padded blocks, each of users with about as many observations.

`jax.vmap` needs users with the same number of rows, some of them empty. An empty row has weight
zero, so no other mask is needed. The cuts between blocks make the padded work, the sum of cubes,
smallest. Compiling a block takes some seconds: a further block must save more than that.
"""

from typing import Any

import numpy as np
from jax.typing import ArrayLike
from numpy.typing import NDArray

from bayesrank._sizes import next_size
from bayesrank.solvers.collaborative.types import Observations, UserBlock

_MAX_BLOCKS = 6
# Sum of cubes of a sweep that takes as long, in some fifty sweeps, as compiling for another block.
_BLOCK_COST = 1e8
_FEWEST_ROWS = 8  # of the blocks that are rounded up
_NUMBERS_IN_BATCH = 2_000_000  # 16 MB for each temporary array of a batch


def make_blocks(
    observations: Observations,
    *,
    multiple: int = 1,
    max_blocks: int = _MAX_BLOCKS,
    block_cost: float = _BLOCK_COST,
    alike: bool = False,
    columns: int = 0,
) -> tuple[UserBlock, ...]:
    """Sort users into blocks of NumPy arrays, from those with fewest observations on."""
    # Batches of a block are a multiple of `multiple`, for as many devices. A further block must
    # save `block_cost` of the summed cubes of sizes. `alike` rounds numbers of few users and rows
    # up to powers of two, for code compiled before; `columns` are computed for each row, if more.
    counts = np.bincount(observations.users, minlength=observations.num_users)
    order = np.argsort(observations.users, kind="stable")
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    blocks, smaller = [], 0
    for size in _cuts(counts[counts > 0], max_blocks, block_cost):
        members = np.flatnonzero((counts > smaller) & (counts <= size))
        smaller, room = size, len(members)
        if alike and next_size(room) * max(next_size(size), _FEWEST_ROWS) ** 3 <= block_cost:
            room, size = next_size(room), max(next_size(size), _FEWEST_ROWS)
        in_batch = max(1, min(room, _NUMBERS_IN_BATCH // (size * max(size, columns))))
        batches = -(-room // in_batch)
        batches = -(-batches // multiple) * multiple
        blocks.append(_block(observations, members, room, size, batches, counts, starts, order))
    return tuple(blocks)


def _cuts(counts: NDArray[np.int64], max_blocks: int, block_cost: float) -> list[int]:
    """Sizes of the blocks: those that make the sum of their cubes, and their price, smallest."""
    sizes, users = np.unique(counts, return_counts=True)
    before = np.concatenate([[0], np.cumsum(users)])
    # cost[k]: of all users up to the k-th size, with as many blocks as rounds so far.
    cost = np.full(len(sizes) + 1, np.inf)
    cost[0] = 0.0
    choices, totals = [], []
    for _ in range(min(max_blocks, len(sizes))):
        # From cut i to cut k, users between them have the k-th size.
        between = (before[None, 1:] - before[:-1, None]) * sizes[None, :].astype(float) ** 3
        between[np.tril_indices(len(sizes), -1)] = np.inf
        table = cost[:-1, None] + between
        choices.append(table.argmin(axis=0))
        cost = np.concatenate([[np.inf], table.min(axis=0)])
        totals.append(cost[-1])
    number = int(np.argmin(np.add(totals, block_cost * np.arange(len(totals))))) + 1
    cuts, k = [], len(sizes)
    for choice in reversed(choices[:number]):
        cuts.append(int(sizes[k - 1]))
        k = int(choice[k - 1])
    return cuts[::-1]


def _block(
    observations: Observations,
    members: NDArray[np.int64],
    room: int,
    size: int,
    batches: int,
    counts: NDArray[np.int64],
    starts: NDArray[np.int64],
    order: NDArray[np.int64],
) -> UserBlock:
    in_batch = -(-room // batches)  # spread evenly, so that few users are empty
    places = np.full((batches * in_batch, size), len(order))
    column = np.arange(size)
    filled = column < counts[members][:, None]
    places[: len(members)][filled] = order[(starts[members][:, None] + column)[filled]]
    users = np.full(batches * in_batch, observations.num_users)
    users[: len(members)] = members
    known = places < len(order)
    safe = np.where(known, places, 0)
    shape = (batches, in_batch, size)
    weights = known[..., None] * np.asarray(observations.weights)
    return UserBlock(
        np.where(known[..., None], observations.items[safe], 0).reshape(*shape, -1),
        weights.reshape(*shape, -1),
        np.where(known, observations.levels[safe], 0.0).reshape(shape),
        users.reshape(shape[:2]),
        places.reshape(shape),
    )


def take(values: NDArray[np.float64], places: ArrayLike, empty: float = 0.0) -> Any:
    """Look up values by place, along the first axis; one past the end is `empty`."""
    padded = np.concatenate([values, np.full((1, *values.shape[1:]), empty)])
    return padded[np.asarray(places)]


def restore(values: NDArray[np.float64], found: ArrayLike, places: ArrayLike) -> Any:
    """Put values back to their places, the inverse of `take`."""
    padded = np.concatenate([values, np.zeros_like(values[:1])])
    padded[np.asarray(places)] = np.asarray(found)
    return padded[:-1]
