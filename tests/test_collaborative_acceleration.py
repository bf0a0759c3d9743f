"""Anderson's acceleration, on a quadratic: it knows nothing of what it accelerates."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesrank.solvers.collaborative.acceleration import Anderson

CURVATURE = np.array([1.0, 0.3, 0.1, 0.03, 0.01, 0.003])
TARGET = np.arange(6.0)


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


def _descend(x):
    """A step of gradient descent on a quadratic."""
    return x - jnp.asarray(CURVATURE) * (x - jnp.asarray(TARGET))


def _run(anderson, steps):
    x = jnp.zeros(6)
    for _ in range(steps):
        image = _descend(x)
        further = anderson.propose(image, image - x)
        x = image if further is None else further
    return x


def test_a_quadratic_is_solved_in_as_many_steps_as_it_has_curvatures():
    assert np.abs(_run(Anderson(plain_steps=1, ridge=1e-14), 12) - TARGET).max() < 1e-4
    plain = jnp.zeros(6)
    for _ in range(12):
        plain = _descend(plain)
    assert np.abs(plain - TARGET).max() > 4


def test_a_short_memory_helps_less():
    errors = [
        np.abs(_run(Anderson(depth=depth, plain_steps=1), 12) - TARGET).max() for depth in (1, 6)
    ]
    assert errors[1] < 0.5 * errors[0]


def test_after_a_bad_proposal_plain_steps_are_made():
    anderson = Anderson(plain_steps=3)
    x = jnp.ones(6)
    made = []
    for step in range(9):
        image = _descend(x)
        further = anderson.propose(image, image - x)
        made.append(further is not None)
        if step == 4:
            anderson.restart()
        x = image
    assert made == [False, False, True, True, True, False, False, True, True]


def test_where_nothing_moves_nothing_is_proposed_beyond_it():
    anderson = Anderson(plain_steps=1)
    x = jnp.asarray(TARGET)
    further = None
    for _ in range(3):
        further = anderson.propose(_descend(x), _descend(x) - x)
    np.testing.assert_array_equal(further, TARGET)
