"""Tables of any library mean the same as plain arrays, wherever one is taken."""

import numpy as np
import pandas as pd
import pytest
from refusals import refused

from bayesrank import Ranker, bounds, metrics
from bayesrank._tables import column_names, plain_array
from bayesrank.estimators.checks import comparison_numbers, pair_numbers
from bayesrank.estimators.collaborative_data import check_triples
from bayesrank.online import PRank

INDEX = [7, 2, 9]  # rows of a table go by their order, not by its index
PAIRS = pd.DataFrame({"loser": [1, 1, 0], "winner": [0, 2, 2]}, index=INDEX)
WANTED = [[0, 1], [2, 1], [2, 0]]
RATINGS = pd.DataFrame({"item": ["x", "x", "y"], "user": ["a", "b", "b"], "rating": [1, 2, 3]})


class Arrow:
    """Looks as pyarrow's tables do: `columns` are the columns, and cells are objects of its own."""

    def __init__(self, table):
        self._table = table
        self.column_names = list(table.columns)
        self.columns = [ArrowColumn(table[name]) for name in table.columns]

    def __getitem__(self, name):
        return self.columns[self.column_names.index(name)]

    def __array__(self, dtype=None, copy=None):
        return self._table.to_numpy(dtype)


class ArrowColumn:
    """A column whose cells are equal to nothing else."""

    def __init__(self, cells):
        self._cells = list(cells)

    def __iter__(self):
        return (object() for _ in self._cells)

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self._cells, dtype)

    def to_pylist(self):
        return self._cells


@pytest.mark.parametrize(
    "table",
    [
        PAIRS,
        PAIRS.astype("Int64"),
        PAIRS.astype(object),
        PAIRS.rename(columns=str.title),
        PAIRS.rename(columns=lambda name: f" {name.upper()}"),
        Arrow(PAIRS),
    ],
    ids=["plain", "nullable", "objects", "capitals", "blanks", "arrow"],
)
def test_winners_and_losers_go_by_their_names(table):
    assert comparison_numbers(table, 3).tolist() == WANTED


def test_columns_of_other_names_go_by_their_places():
    other = PAIRS.set_axis(["better", "worse"], axis=1)
    assert comparison_numbers(other, 3).tolist() == PAIRS.to_numpy().tolist()
    assert pair_numbers(other.astype("Int64"), 3).tolist() == PAIRS.to_numpy().tolist()


def test_cells_that_hold_nothing_are_named_by_their_row():
    gap = PAIRS.astype("Int64").mask(PAIRS == 2)
    refused("comparisons has no item in row 1", comparison_numbers, gap, 3)
    refused("comparisons has no item in row 0", comparison_numbers, [(0, None)], 3)
    with pytest.raises(ValueError, match="ties is nan in row 1; pass True or False"):
        Ranker().fit(PAIRS, ties=pd.Series([True, None, False], dtype="boolean"))
    refused("X is nan in row 1, column 1", PRank(3).partial_fit, gap, [1, 2, 3])
    with pytest.raises(ValueError, match="y is nan in row 0"):
        PRank(3).partial_fit(PAIRS, pd.Series([None, 2, 3], dtype="Int64"))
    refused(r"scores\[2\] is nan", metrics.ndcg, pd.Series([1, 2, None], dtype="Int64"), [1, 0, 1])


def test_ratings_of_an_arrow_table_have_plain_ids():
    who, what, said = check_triples(Arrow(RATINGS), None, None)
    assert (who, what, said.tolist()) == (["a", "b", "b"], ["x", "x", "y"], [1, 2, 3])
    with pytest.raises(ValueError, match=r"no column 'user'; it has \['item', 'rating'\]"):
        check_triples(Arrow(RATINGS[["item", "rating"]]), None, None)


@pytest.mark.parametrize("kind", ["Int64", object, "category"])
def test_figures_of_columns_are_those_of_arrays(kind):
    scores, labels, query = [3, 1, 2, 2], [1, 0, 2, 0], ["b", "b", "a", "a"]
    column = [pd.Series(values, index=[3, 1, 2, 0]).astype(kind) for values in (scores, labels)]
    names = pd.Series(query, index=[5, 6, 7, 8], dtype="category")
    result = metrics.ndcg(*column, query=names)
    np.testing.assert_array_equal(result.values, metrics.ndcg(scores, labels, query=query).values)
    assert result.query.tolist() == ["b", "a"]
    distance = bounds.ranking_distance(*column, query=names)
    assert (
        distance.values.tolist()
        == bounds.ranking_distance(scores, labels, query=query).values.tolist()
    )


def test_learners_take_columns_of_any_numbers():
    table = pd.DataFrame({"a": pd.Series([1, 2, 0], dtype="Int64"), "b": [0.5, 1.5, 0.0]})
    table["c"] = [True, False, True]
    plain = [[1.0, 0.5, 1.0], [2.0, 1.5, 0.0], [0.0, 0.0, 1.0]]
    levels = pd.Series([1, 3, 2], dtype="Int64", index=INDEX)
    np.testing.assert_array_equal(
        PRank(3).partial_fit(table, levels).coef_, PRank(3).partial_fit(plain, [1, 3, 2]).coef_
    )


def test_learners_refuse_columns_in_another_order(tmp_path):
    table = pd.DataFrame({"price": [1.0, 2.0, 3.0], "weight": [3.0, 1.0, 2.0]})
    model = PRank(3).partial_fit(table, [1, 2, 3])
    model.save(tmp_path / "state.npz")
    for known in (model, PRank.load(tmp_path / "state.npz")):
        assert known.feature_names_in_.tolist() == ["price", "weight"]
        for use in (known.predict, lambda X, known=known: known.partial_fit(X, [1, 2, 3])):
            refused("the same columns in the same order", use, table[["weight", "price"]])
        assert known.n_seen_ == 3
        np.testing.assert_array_equal(known.predict(table.to_numpy()), known.predict(table))
    model.fit(table[["weight", "price"]], [1, 2, 3])
    assert model.feature_names_in_.tolist() == ["weight", "price"]
    assert PRank(3).partial_fit(table.to_numpy(), [1, 2, 3]).feature_names_in_ is None


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([[1, 2.5], [True, None]], np.array([[1.0, 2.5], [1.0, np.nan]])),
        ([1, np.int8(2)], np.array([1, 2])),
        ([True, np.False_], np.array([True, False])),
        ([2**70, 1], np.array([2.0**70, 1.0])),
        ([None, None], np.array([None, None], object)),
        (["1", 2], np.array(["1", 2], object)),
        ([], np.zeros(0)),
    ],
)
def test_plain_arrays(values, wanted):
    found = plain_array(np.array(values, object) if values else values)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


def test_what_is_no_table_has_no_columns():
    assert column_names([1, 2]) is None and column_names(PAIRS) == ["loser", "winner"]
