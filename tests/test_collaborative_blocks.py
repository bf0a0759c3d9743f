"""Users in padded blocks: everyone once, and shapes that few users share."""

import numpy as np

from bayesrank.solvers.collaborative.blocks import make_blocks
from bayesrank.solvers.collaborative.types import Observations


def test_padding_and_blocks_change_nothing():
    rng = np.random.default_rng(3)
    counts = rng.integers(1, 30, size=40)
    users = rng.permutation(np.repeat(np.arange(40), counts))
    items = np.arange(len(users))[:, None] % 30
    observations = Observations(users, items, (1.0,), rng.normal(size=len(users)), 41, 30)
    blocks = make_blocks(observations, multiple=3, block_cost=0.0)
    assert len(blocks) > 2 and len(make_blocks(observations)) == 1
    entries = np.concatenate([np.ravel(b.entries) for b in blocks])
    found = entries[entries < len(users)]
    np.testing.assert_array_equal(np.sort(found), np.arange(len(users)))
    for block in blocks:
        there = np.asarray(block.weights)[..., 0] != 0
        who = np.broadcast_to(np.asarray(block.users)[..., None], there.shape)[there]
        np.testing.assert_array_equal(who, users[np.asarray(block.entries)[there]])
        assert len(np.asarray(block.users)) % 3 == 0


def test_few_users_are_in_blocks_alike():
    """So that a user's next rating, or another user, needs no code compiled anew."""
    for count in (1, 2, 8):
        items = np.arange(count)[:, None]
        one = Observations(np.zeros(count, int), items, (1.0,), np.ones(count), 1, 8)
        assert [np.shape(b.items) for b in make_blocks(one, alike=True)] == [(1, 1, 8, 1)]
    many = Observations(np.repeat(np.arange(5), 9), np.tile(np.arange(9), 5)[:, None], (1.0,),
                        np.zeros(45), 5, 9)  # fmt: skip
    assert np.shape(make_blocks(many, alike=True)[0].items) == (1, 8, 16, 1)
    assert np.shape(make_blocks(many, alike=True, block_cost=1e4)[0].items) == (1, 5, 9, 1)


def test_batches_are_small_where_rows_are_long():
    users = np.repeat(np.arange(600), 20)
    items = np.tile(np.arange(20), 600)[:, None]
    observations = Observations(users, items, (1.0,), np.zeros(len(users)), 600, 10_000)
    (narrow,), (wide,) = make_blocks(observations), make_blocks(observations, columns=10_000)
    assert np.shape(narrow.items) == (1, 600, 20, 1)
    batches, in_batch, size, _ = np.shape(wide.items)
    assert in_batch * size * 10_000 <= 2_000_000 < (in_batch + 1) * size * 10_000
    assert batches * in_batch == 600
