"""What rankings refuse."""

from functools import partial

import numpy as np
from refusals import Refusal, each, rows

from bayesrank.ranking import (
    ItemRecords,
    connected_components,
    count_records,
    expected_rank,
    pairwise_probability,
    prob_best,
    prob_top_k,
    rank_distribution,
    rank_interval,
    rank_samples,
    summarize,
)

REFUSED = [
    *rows(
        lambda arguments: summarize(np.zeros((4, 3)), **arguments),
        ({"components": [0, 0]}, "for each of the 3 items"),
        ({"components": [0, 2, 2]}, "not numbered 0, 1 and so on"),
        ({"records": ItemRecords(*np.zeros((3, 2)))}, "records are of 2 items, and samples of 3"),
    ),
    *rows(
        lambda pairs: connected_components(pairs, 5),
        ([0, 1], "comparisons"),
        ([[0.0, 1.0]], "comparisons"),
        ([[0, 5]], "comparisons"),
        ([[-1, 0]], "comparisons"),
    ),
    *rows(
        lambda pairs, n, tied=None, weights=None: count_records(
            pairs, n, tied=tied, weights=weights
        ),
        ([(0, 3)], 3, "names item 3 in row 0, but the 3 items are numbered 0 to 2"),
        ([(0.0, 1.0)], 3, "pairs of item numbers"),
        ([(0, 1)], 3, [True, False], "tied has shape"),
        ([(0, 1)], 3, None, [1.0, 2.0], "weights has shape"),
        ([(0, 1)], 3, None, [np.nan], "weights is nan in row 0"),
    ),
    *(
        row
        for function in (
            rank_samples,
            prob_best,
            lambda s: prob_top_k(s, 1),
            expected_rank,
            rank_interval,
            rank_distribution,
            pairwise_probability,
            summarize,
        )
        for row in rows(
            function,
            (np.zeros(3), r"shape \(draws, n\), got \(3,\)"),
            (np.zeros((2, 3, 4)), r"reshape\(-1, n\)"),
            (np.zeros((0, 3)), "at least one draw"),
            (np.array([[0.0, np.nan]]), "nan in draw 0 of item 1"),
            (np.array([[np.inf, 0.0]]), "inf in draw 0 of item 0"),
            (np.array([["a", "b"]]), "real numbers"),
            (np.array([[1j, 0.0]]), "complex"),
        )
    ),
    *(
        Refusal(partial(f, np.zeros((2, 3)), k), "whole number from 1 to the number of items 3")
        for f in (prob_top_k, lambda s, k: summarize(s, k=k))
        for k in (0, 4, -1, 1.5, True)
    ),
    *(
        Refusal(partial(f, np.zeros((2, 3)), prob), "above 0 and below 1")
        for f in (rank_interval, lambda s, p: summarize(s, level=p))
        for prob in (0.0, 1.0, -0.1, 90, np.nan, "0.9", None)
    ),
    *rows(
        lambda ties: rank_samples(np.zeros((1, 2)), ties=ties),
        ("first", "ties is 'first'; choose 'average', 'min' or 'max'"),
    ),
    *rows(
        lambda names: summarize(np.zeros((1, 2)), names),
        (["a"], "one name per item, 2 in all"),
        ("ab", "one name per item, 2 in all"),
    ),
]


@each(REFUSED)
def test_refused(refusal):
    refusal.check()
