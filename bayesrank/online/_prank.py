r"""PRank: a perceptron with thresholds between the levels.

The predicted level of an example is the first whose threshold lies above its score,
:math:`\hat y = \min \{ r : w \cdot x - c(r) < 0 \}` with :math:`c(k) = \infty`. After a mistake,
each threshold on the wrong side of the score moves by one towards it. The weights move along the
example by as many steps, so that the score approaches the thresholds. Thresholds that start in
order stay in order (Crammer and Singer, 2002, Pranking with ranking, NIPS 14, 641-647). This is
Algorithm 1 of Harrington (2003), Online ranking/collaborative filtering using the perceptron
algorithm, ICML, whose line 16 swaps the names of weights and thresholds.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array


class Change(NamedTuple):
    """What one perceptron learns from one example."""

    steps: Any  # by how many multiples of the example its weights move; a scalar
    thresholds: Any  # by how much each threshold moves, shape (k - 1,)
    correct: Any  # whether it predicted the level


def level_of(score: Array, thresholds: Array) -> Array:
    """Level of a score: one more than the number of ordered thresholds (k - 1,) that it reaches."""
    return 1 + jnp.sum(score - thresholds >= 0.0)


def prank_change(score: Array, thresholds: Array, level: Array) -> Change:
    """Compare a perceptron's prediction with the level from 1 to k, Algorithm 1."""
    side = jnp.where(level <= jnp.arange(1, thresholds.shape[0] + 1), -1.0, 1.0)
    correct = level_of(score, thresholds) == level
    wrong = ((score - thresholds) * side <= 0.0) & ~correct
    moved = jnp.where(wrong, side, 0.0)
    return Change(moved.sum(), -moved, correct)
