"""Pieces of a kernel's spectrum: what they add up to, and what each of them is."""

import re

import numpy as np
import pytest

from bayesrank import gp

RNG = np.random.default_rng(3)
FEATURES = RNG.normal(size=(9, 4))
KERNEL = FEATURES @ FEATURES.T


@pytest.mark.parametrize("cuts", [[], [1], [2, 5], (1, 2, 3)])
def test_pieces_add_up_and_do_not_overlap(cuts):
    pieces = gp.spectral_components(KERNEL, cuts)
    assert pieces.shape == (len(cuts) + 1, 9, 9)
    np.testing.assert_allclose(pieces.sum(axis=0), KERNEL, atol=1e-12)
    for a, one in enumerate(pieces):
        for other in pieces[a + 1 :]:
            np.testing.assert_allclose(one @ other, 0.0, atol=1e-10)


def test_the_first_piece_is_the_best_approximation_of_its_rank():
    # By the singular value decomposition of the features, and Eckart and Young.
    left, sizes, _ = np.linalg.svd(FEATURES, full_matrices=False)
    expected = (left[:, :2] * sizes[:2] ** 2) @ left[:, :2].T
    np.testing.assert_allclose(gp.spectral_components(KERNEL, [2])[0], expected, atol=1e-12)


def test_pieces_of_a_kernel_without_full_rank_are_covariances():
    for piece in gp.spectral_components(KERNEL, [2, 6]):
        np.testing.assert_array_equal(piece, piece.T)
        assert np.linalg.eigvalsh(piece)[0] > -1e-12


@pytest.mark.parametrize(
    ("kernel", "cuts", "message"),
    [
        (KERNEL[:5], [1], "kernel must have the shape (m, m), got (5, 9)"),
        (np.zeros((0, 0)), [], "kernel must have the shape (m, m), got (0, 0)"),
        (np.full((2, 2), np.nan), [1], "kernel has entries that are not finite"),
        ([[1.0, 0.5], [0.0, 1.0]], [1], "kernel is not symmetric"),
        (-np.eye(3), [1], "its smallest eigenvalue is -1"),
        (KERNEL, [0], "cuts must be whole numbers from 1 to 8, rising, got [0]"),
        (KERNEL, [3, 3], "rising, got [3, 3]"),
        (KERNEL, [9], "from 1 to 8"),
        (KERNEL, [1.5], "whole numbers"),
    ],
)
def test_refusals_name_the_argument(kernel, cuts, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        gp.spectral_components(kernel, cuts)
