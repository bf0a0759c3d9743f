"""Which items comparisons link, against a search through the graph."""

import numpy as np
import pytest

from bayesrank.ranking import connected_components


def by_search(pairs, num_items):
    """Sets of items that can be reached from each other, the largest first."""
    left, found = set(range(num_items)), []
    while left:
        inside, frontier = set(), [min(left)]
        while frontier:
            item = frontier.pop()
            inside.add(item)
            for pair in pairs:
                frontier += [other for other in pair if item in pair and other not in inside]
        found.append(inside)
        left -= inside
    return sorted(found, key=lambda items: (-len(items), min(items)))


def test_components_are_those_of_a_search_the_largest_first():
    rng = np.random.default_rng(0)
    for num_pairs in (0, 3, 8, 14):
        pairs = rng.integers(0, 15, (num_pairs, 2))
        labels = connected_components(pairs, 15)
        groups = [set(np.flatnonzero(labels == k).tolist()) for k in range(labels.max() + 1)]
        assert groups == by_search(pairs.tolist(), 15)


@pytest.mark.parametrize("pairs", [[0, 1], [[0.0, 1.0]], [[0, 5]], [[-1, 0]]])
def test_what_are_no_pairs_is_refused(pairs):
    with pytest.raises(ValueError, match="comparisons"):
        connected_components(pairs, 5)
