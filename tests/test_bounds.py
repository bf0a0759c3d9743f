"""Bounds of the k-partite error: constants, shatter functions, inversions, coverage."""

import itertools
import math
from functools import partial

import numpy as np
import pytest
from bounds_worlds import GaussianRatings, coverage_and_looseness
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesrank import bounds
from bayesrank.metrics import k_partite_error


def test_skew_vector_counts_levels():
    np.testing.assert_array_equal(bounds.skew_vector([3, 1, 1, 2]), [0.5, 0.25, 0.25])
    np.testing.assert_array_equal(bounds.skew_vector([2, 2], num_levels=3), [0, 1, 0])


@pytest.mark.parametrize("alpha", [0.0, 0.7, 1.0, 2.0])
def test_constants_are_the_bounded_differences(alpha):
    """McDiarmid's constant of an example is the most that moving it changes the error: C_l / M."""
    rng = np.random.default_rng(0)
    labels = np.array([1, 1, 2, 3, 3, 3, 4])
    constants = bounds.level_constants(bounds.skew_vector(labels), alpha)
    scores = rng.normal(size=(2000, len(labels)))
    for i, label in enumerate(labels):
        low, high = scores.copy(), scores.copy()
        low[:, i], high[:, i] = -99.0, 99.0
        change = np.abs(
            k_partite_error(low, labels, alpha).mean - k_partite_error(high, labels, alpha).mean
        )
        limit = constants[label - 1] / len(labels)
        assert change.max() <= limit + 1e-12
        if label in (1, 4):  # at an end of the scale moving from bottom to top changes all pairs
            assert change.max() == pytest.approx(limit)


def test_factor_of_two_levels_in_closed_form():
    for share in (0.5, 0.1, 0.01):
        rho = [share, 1 - share]
        assert bounds.skew_factor(rho) == pytest.approx(1 / (share * (1 - share)))
        assert bounds.skew_factor(rho, 3.0) == pytest.approx(bounds.skew_factor(rho))
        assert bounds.pair_share(rho) == pytest.approx(share * (1 - share))


def test_theorem_1_by_hand():
    """Three even levels, alpha 1: gamma = 1/3, C = (3, 2, 3) / 3 / gamma, M = 100, F = 10."""
    gamma = 3 / 9
    constants = [(1 + 2) / 3 / gamma, (1 + 1) / 3 / gamma, (2 + 1) / 3 / gamma]
    rho = [1 / 3] * 3
    np.testing.assert_allclose(bounds.level_constants(rho, 1), constants)
    by_hand = math.sqrt((math.log(10) + math.log(2 / 0.1)) / 200 * sum(c**2 for c in constants) / 3)
    bound = bounds.finite_class_bound(rho, 100, num_functions=10, delta=0.1, alpha=1)
    assert bound == pytest.approx(by_hand)


def test_theorem_2_by_hand():
    rho, size, dim = [0.5, 0.3, 0.2], 1000, 4
    n = [1000.0, 600.0, 400.0]  # twice the counts
    coefficient = sum(
        dim * math.log(2 * math.e * a * b / dim) for a, b in itertools.combinations(n, 2)
    )
    by_hand = math.sqrt(8 * (coefficient + math.log(4 / 0.05)) / size * bounds.skew_factor(rho))
    assert bounds.uniform_bound(rho, size, bounds.linear_shatter(dim)) == pytest.approx(by_hand)


def test_shatter_functions_stay_finite_where_the_coefficients_overflow():
    """Of polynomials of degree 3 in 30 features."""
    counts = np.array([4e8, 3e8, 2e8, 1e8])
    for form in ("theorem", "joint"):
        assert 1e5 < bounds.linear_shatter(math.comb(33, 3) - 1, form=form)(counts) < 1e7


def orderings(features, labels, num_weights, rng):
    """Ways to order the pairs of unlike level that some linear function shows."""
    pairs = [
        (i, j) for i, j in itertools.combinations(range(len(labels)), 2) if labels[i] != labels[j]
    ]
    differences = np.array([features[i] - features[j] for i, j in pairs])
    weights = rng.normal(size=(num_weights, features.shape[1]))
    found = np.sign(differences @ weights.T).T
    if features.shape[1] == 2:  # and those that tie a pair, which random weights miss
        normals = differences[:, ::-1] * [1, -1]
        normals = np.concatenate([normals, -normals, np.zeros((1, 2))])
        ties = normals @ differences.T
        found = np.concatenate([found, np.sign(np.where(np.abs(ties) < 1e-12, 0.0, ties))])
    return len({tuple(row) for row in found.astype(int).tolist()})


@pytest.mark.parametrize("levels", [(1, 1), (2, 2), (3, 2), (2, 1, 1), (1, 1, 1, 1), (3, 3, 2)])
@pytest.mark.parametrize("dim", [1, 2, 3, 6])
def test_linear_functions_show_no_more_orderings_than_the_bounds_allow(levels, dim):
    rng = np.random.default_rng(dim)
    labels = np.repeat(np.arange(len(levels)), levels)
    found = max(orderings(rng.normal(size=(len(labels), dim)), labels, 4000, rng) for _ in range(3))
    joint = bounds.linear_shatter(dim, form="joint")(levels)
    printed = bounds.linear_shatter(dim)(levels)
    assert math.log(found) <= joint + 1e-9
    assert joint <= printed + 1e-9


def test_the_printed_theorem_3_fails_for_few_pairs():
    """One pair in five dimensions: three orderings, and the printed formula has room for 1.5."""
    assert (2 * math.e * 1 * 1 / 5) ** 5 < 3
    assert bounds.linear_shatter(5)([1, 1]) == pytest.approx(math.log(3))
    assert bounds.linear_shatter(5, form="joint")([1, 1]) == pytest.approx(math.log(3))


def test_joint_form_is_the_number_of_faces():
    for pairs, dim in itertools.product((1, 3, 8, 20), (1, 2, 5)):
        faces = sum(2**i * math.comb(pairs, i) for i in range(dim + 1))
        assert bounds.linear_shatter(dim, form="joint")([pairs, 1]) == pytest.approx(
            math.log(faces)
        )


@settings(max_examples=40, deadline=None)
@given(
    counts=st.lists(st.integers(1, 40), min_size=2, max_size=5),
    epsilon=st.floats(0.01, 0.8),
    alpha=st.sampled_from([0.0, 1.0]),
    dim=st.integers(1, 12),
    form=st.sampled_from(["theorem", "joint"]),
)
def test_inversions_are_the_smallest_samples(counts, epsilon, alpha, dim, form):
    rho = np.array(counts) / sum(counts)
    finite = {"num_functions": 50, "delta": 0.1, "alpha": alpha}
    size = bounds.finite_class_examples(rho, epsilon, **finite)
    assert bounds.finite_class_bound(rho, size, **finite) <= epsilon
    assert size == 1 or bounds.finite_class_bound(rho, size - 1, **finite) > epsilon
    shatter = bounds.linear_shatter(dim, form=form)
    size = bounds.uniform_examples(rho, epsilon, shatter, delta=0.1, alpha=alpha)
    assert bounds.uniform_bound(rho, size, shatter, delta=0.1, alpha=alpha) <= epsilon
    assert bounds.uniform_bound(rho, size - 1, shatter, delta=0.1, alpha=alpha) > epsilon
    for larger in (2 * size, 10 * size):
        assert bounds.uniform_bound(rho, larger, shatter, delta=0.1, alpha=alpha) <= epsilon


PROBLEM = GaussianRatings(
    means=np.array([[0.0, 0.0], [0.6, 0.2], [1.2, 0.0]]), chances=np.array([0.5, 0.3, 0.2])
)


def test_expected_error_is_the_error_of_a_large_sample():
    features, labels = PROBLEM.sample(200_000, np.random.default_rng(1))
    weights = np.array([1.0, -0.3])
    for alpha in (0.0, 1.0):
        empirical = k_partite_error(features @ weights, labels, alpha).mean
        exact = PROBLEM.expected_error(weights, bounds.skew_vector(labels), alpha)
        assert empirical == pytest.approx(exact, abs=0.005)


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_theorem_1_holds_and_is_loose(alpha):
    """The best of 30 directions, picked on 100 examples, 200 times over."""
    angle = np.linspace(0, np.pi, 30, endpoint=False)
    candidates = np.stack([np.cos(angle), np.sin(angle)], axis=1)

    def pick_best(features, labels):
        return candidates[np.argmin(k_partite_error(candidates @ features.T, labels, alpha).mean)]

    def bound(rho, size):
        return bounds.finite_class_bound(rho, size, num_functions=30, delta=0.1, alpha=alpha)

    options = {"size": 100, "draws": 200, "alpha": alpha}
    covered, loose = coverage_and_looseness(PROBLEM, pick_best, bound, **options)
    assert covered >= 0.9 and 2 < loose < 10


def test_theorem_1_for_one_function_covers_where_its_direction_is_fixed():
    covered, loose = coverage_and_looseness(
        PROBLEM,
        lambda features, labels: np.array([1.0, 0.0]),
        lambda rho, size: bounds.finite_class_bound(rho, size, delta=0.1),
        size=60,
        draws=300,
    )
    assert covered >= 0.9 and loose > 1.5


def test_theorem_2_holds_and_is_looser():
    def least_squares(features, labels):
        centred = features - features.mean(axis=0)
        return np.linalg.lstsq(centred, labels - labels.mean(), rcond=None)[0]

    found = {}
    for form in ("theorem", "joint"):
        bound = partial(
            bounds.uniform_bound, shatter=bounds.linear_shatter(2, form=form), delta=0.1
        )
        found[form] = coverage_and_looseness(PROBLEM, least_squares, bound, size=150, draws=150)
        assert found[form][0] >= 0.9
    assert 10 < found["joint"][1] < found["theorem"][1]
