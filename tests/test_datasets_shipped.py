"""The shipped data: the same as their sources, and what their provenance says of them."""

import modechoice_source
import nfl_source
import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.sparse.csgraph import connected_components
from statsmodels.datasets import modechoice

from bayesrank.datasets import load_modechoice, load_nfl
from bayesrank.ranking import count_records


@pytest.fixture(scope="module")
def source():
    return pd.DataFrame(modechoice.load_pandas().data)


def test_shipped_files_follow_from_the_source():
    for name, text in modechoice_source.build().items():
        assert (modechoice_source.FOLDER / name).read_text(encoding="utf-8") == text


def test_shape_and_meaning(source):
    data = load_modechoice()
    assert data.orders is not None and data.orders.counts.sum() == 210
    assert {tuple(map(len, groups)) for groups in data.orders.groups} == {(1, 3)}
    assert data.features is not None
    assert data.features.shape == (139, 6)
    modes = data.features[:, :4]
    np.testing.assert_array_equal(modes.sum(axis=1), 1)
    assert all(
        name.split()[0] == data.feature_names[m]
        for name, m in zip(data.names, modes.argmax(1), strict=True)
    )
    taken = modes[[best for (best,), _ in data.orders.groups]]
    wins = data.orders.counts @ taken
    chosen = source[source["choice"] == 1].groupby("mode").size().to_numpy()
    np.testing.assert_array_equal(wins, chosen)


def test_comparisons_connect_all_items():
    data = load_modechoice()
    graph = np.zeros((data.num_items, data.num_items))
    graph[tuple(data.comparisons.T)] = 1
    assert connected_components(graph, directed=False)[0] == 1


def test_exact_times_give_the_choice_away_as_the_provenance_says(source):
    chosen = source["choice"] == 1
    assert round(float((source["invt"][chosen] % 5 == 0).mean()), 2) == 0.96
    assert round(float((source["invt"][~chosen] % 5 == 0).mean()), 2) == 0.23
    for mode in (1, 2, 3):
        waits = source["ttme"][source["mode"] == mode]
        not_taken = set(waits[~chosen[waits.index]])
        assert len(not_taken) == 2
        assert not not_taken & set(waits[chosen[waits.index]])


def _logit(source, hours, fare):
    """Greatest log likelihood of a conditional logit with a constant a mode."""
    modes = source["mode"].to_numpy()
    columns = [modes == 1, modes == 2, modes == 3, hours / 5, fare / 30]
    X = np.stack(columns, axis=1).astype(float).reshape(210, 4, 5)
    chosen = source["choice"].to_numpy().reshape(210, 4).argmax(axis=1)

    def loss(beta):
        utility = X @ beta
        return (np.logaddexp.reduce(utility, axis=1) - utility[np.arange(210), chosen]).sum()

    return -minimize(loss, np.zeros(5)).fun


def test_rounding_keeps_the_fit_of_a_conditional_logit(source):
    hours, fare = source["invt"].to_numpy() / 60, source["invc"].to_numpy()
    exact = _logit(source, hours, fare)
    rounded = _logit(source, np.floor(hours + 0.5), 20 * np.floor(fare / 20 + 0.5))
    assert exact == pytest.approx(-264.1, abs=0.05)
    assert rounded == pytest.approx(-265.7, abs=0.06)


def test_the_shipped_file_follows_from_the_source():
    assert nfl_source.FILE.read_text(encoding="utf-8") == nfl_source.build()


def test_every_team_played_sixteen_games_half_of_them_at_home():
    data = load_nfl()
    assert data.position is not None
    np.testing.assert_array_equal(np.bincount(data.comparisons.ravel()), 16)
    hosts = np.where(data.position == 1, *data.comparisons.T)
    np.testing.assert_array_equal(np.bincount(hosts), 8)


def test_standings_are_those_of_the_league():
    """Wins, losses and ties as the league printed them."""
    data = load_nfl()
    records = count_records(data.comparisons, data.num_items, tied=data.tied)
    final = {
        "Los Angeles Rams": (13, 3, 0),
        "Kansas City Chiefs": (12, 4, 0),
        "Pittsburgh Steelers": (9, 6, 1),
        "Cleveland Browns": (7, 8, 1),
        "Arizona Cardinals": (3, 13, 0),
    }
    for name, record in final.items():
        item = data.names.index(name)
        assert (records.wins[item], records.losses[item], records.ties[item]) == record
