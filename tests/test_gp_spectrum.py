"""Pieces of a kernel's spectrum: what they add up to, and what each of them is."""

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
