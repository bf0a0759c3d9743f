"""`Ranker(time=)`: times of every kind, predictions ahead, files, the command, refusals."""

import datetime
from typing import Any

import jax
import numpy as np
import pandas as pd
import pytest
from cli_run import run, said
from refusals import refused
from scipy.special import ndtr

from bayesrank import PreferenceGP, Ranker
from bayesrank.estimators.columns import read_times
from bayesrank.infer import EP
from bayesrank.models import dynamic_thurstone
from bayesrank.solvers.comparisons.dynamic import check_room

NAMES = np.array(["ann", "bob", "cy", "dee"], object)
RNG = np.random.default_rng(0)
PAIRS = np.array([RNG.choice(4, 2, replace=False) for _ in range(24)])
DAYS = RNG.integers(0, 100, 24)
DAYS[:2] = 0, 100
DATES = np.datetime64("2024-01-01") + DAYS
LAST = "2024-04-10"
OPTIONS: dict[str, Any] = {
    "time": "walk",
    "hyperparameters": {"scale": 1.0, "drift": 0.8},
    "items": [*NAMES, "eve"],
}


QUICK = "--save", "all", "--crosscheck", "none"
WRONG_TIMES = {
    "2023-12-31": "--at: 2023-12-31 is before the first comparison; give 2024-01-01 or a later",
    "soon": "--at: 'soon' is not a date as in 2024-05-31; write it so",
    "2024-02-10T00:00Z": "is not a date as in 2024-05-31",
    "nan": "is not a date",
}


@pytest.fixture(scope="module")
def ranker() -> Ranker:
    return Ranker(**OPTIONS).fit(NAMES[PAIRS], time=DATES)


def test_dates_numbers_and_columns_in_any_order_are_one_fit(ranker):
    table = pd.DataFrame({"winner": NAMES[PAIRS[:, 0]], "loser": NAMES[PAIRS[:, 1]], "time": DATES})
    by_column = Ranker(**OPTIONS).fit(table.sample(frac=1.0, random_state=0))
    by_number = Ranker(**OPTIONS).fit(NAMES[PAIRS], time=DAYS)
    for other in (by_column, by_number):
        np.testing.assert_allclose(other.predict()[0], ranker.predict()[0], atol=1e-6)
    pairs = [("ann", "bob")]
    expected = ranker.predict_proba(pairs, time="2024-05-01")
    np.testing.assert_allclose(by_number.predict_proba(pairs, time=121), expected, atol=1e-6)
    assert ranker.time_range_.text(ranker.time_range_.last) == LAST


def test_dates_of_every_kind_are_read_alike():
    first, second = datetime.datetime(2024, 1, 1, 12), datetime.datetime(2024, 1, 3)
    kinds = [
        np.array([first, second], "datetime64[s]"),
        [first, second],
        pd.Series([first, second]),
        ["2024-01-01 12:00", "2024-01-03"],
    ]
    for each in kinds:
        days, dates = read_times(each, "time")
        assert dates and (days == [19723.5, 19725.0]).all()


def test_ahead_of_the_data_a_walk_is_known_less_and_less(ranker):
    pairs, days = [("ann", "bob"), ("ann", "bob")], np.array([0, 50])
    time = np.datetime64(LAST) + days
    covariance, mean = ranker.result.covariance["f"], ranker.result.mean["f"]
    spread = covariance[0, 0] + covariance[1, 1] - 2.0 * covariance[0, 1]
    total = 2.0 + spread + 2.0 * 0.8**2 * days / 100
    expected = ndtr((mean[0] - mean[1]) / np.sqrt(total))
    np.testing.assert_allclose(ranker.predict_proba(pairs, time=time), expected, atol=1e-9)
    far = ranker.predict_proba(pairs[:1], time="9999-12-31")
    assert abs(far - 0.5) < abs(expected[1] - 0.5)
    mean_ahead, sd = ranker.predict(["cy"], time=time[1])
    np.testing.assert_allclose(mean_ahead, mean[2])
    np.testing.assert_allclose(sd**2, covariance[2, 2] + 0.8**2 / 2)
    new = ranker.predict_proba([("new", "newer")], time=LAST, unknown="population")
    np.testing.assert_allclose(new, 0.5)
    held_out = pd.DataFrame({"winner": ["ann"] * 2, "loser": ["bob"] * 2, "time": time})
    np.testing.assert_allclose(ranker.score(held_out), np.log(expected).mean(), atol=1e-9)
    np.testing.assert_allclose(ranker.predict_proba(held_out), expected, atol=1e-9)


@pytest.mark.slow
def test_past_skills_are_those_of_ep_on_the_joint_program(ranker):
    times, period = np.unique(DAYS / 100.0, return_inverse=True)
    said = {"times": times, "period": period, "params": OPTIONS["hyperparameters"]}
    joint = EP(dynamic_thurstone).run(jax.random.key(0), 5, PAIRS, **said)
    place = len(times) // 2
    day, past = np.datetime64("2024-01-01") + round(100 * times[place]), joint.mean["past"]
    mean, sd = ranker.predict(time=day)
    np.testing.assert_allclose(mean, past[:, place], atol=1e-4)
    np.testing.assert_allclose(sd, joint.sd["past"][:, place], atol=1e-4)
    within = joint.covariance["past"][:, place, :, place]
    gap = mean[0] - mean[1]
    total = 2.0 + within[0, 0] + within[1, 1] - 2.0 * within[0, 1]
    chances = ranker.predict_proba([("ann", "bob")] * 2, time=[day, LAST])
    np.testing.assert_allclose(chances[0], ndtr(gap / np.sqrt(total)), atol=1e-5)
    better = ranker.prob_better([("ann", "bob")], time=day)
    np.testing.assert_allclose(better, ndtr(gap / np.sqrt(total - 2.0)), atol=1e-4)
    linked = np.array([0, 1, 2, 3])  # eve was compared with none
    centre = np.eye(4) - 0.25
    means, sds = ranker.skills_at([LAST, str(day)])
    np.testing.assert_allclose(means[1, linked], centre @ mean[linked], atol=1e-4)
    variance = np.diag(centre @ within[:4, :4] @ centre)
    np.testing.assert_allclose(sds[1, linked] ** 2, variance, atol=1e-4)
    draws = ranker.samples(time=day)
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=1e-9)
    np.testing.assert_allclose(np.cov(draws.T), within, atol=0.12)  # 3 standard errors of 2,000
    ranking = ranker.rank(time=day)
    np.testing.assert_allclose(ranking.mean, means[1][ranking.indices], atol=1e-9)
    assert ranking.records is None and ranker.rank(time=LAST).records is not None
    np.testing.assert_allclose(ranker.rank(time=LAST).mean, ranker.rank().mean, atol=1e-9)
    np.testing.assert_allclose(means[0][ranker.rank().indices], ranker.rank().mean, atol=1e-9)
    eve = ranker.predict(["eve"], time="2024-01-01")
    np.testing.assert_allclose(np.concatenate(eve), [0.0, 1.0], atol=1e-6)


@pytest.mark.slow
def test_at_one_time_the_ranking_is_the_static_one():
    same = np.full(len(PAIRS), 7.0)
    moving = Ranker(time="walk", hyperparameters="map").fit(PAIRS, time=same)
    still = Ranker(hyperparameters="map").fit(PAIRS)
    np.testing.assert_allclose(moving.params_["scale"], still.params_["scale"], rtol=1e-3)
    np.testing.assert_allclose(moving.predict(), still.predict(), atol=1e-3)
    for method in (still.predict, still.rank, still.samples):
        refused("time is given, but skills stand still", method, time=3.0)
    refused("time is given, but skills stand still", still.skills_at, [3.0])


def test_a_player_who_never_plays_is_as_the_population(ranker):
    mean, sd = ranker.predict(["eve"])
    np.testing.assert_allclose([mean[0], sd[0]], [0.0, np.sqrt(1.0 + 0.8**2)], atol=1e-9)
    as_new = ranker.predict_proba([("ann", "new")], time=LAST, unknown="population")
    np.testing.assert_allclose(ranker.predict_proba([("ann", "eve")], time=LAST), as_new)


@pytest.mark.parametrize(
    ("options", "time", "message"),
    [
        ({"time": "walk"}, None, "has to know when each comparison was"),
        ({"time": "jump"}, DAYS, "time is 'jump'"),
        ({"time": "walk"}, DAYS[1:], r"time has shape \(23,\)"),
        ({"time": "walk"}, np.where(DAYS == 0, np.nan, DAYS), "time is nan in row 0"),
        ({"time": "walk"}, np.where(DAYS == 0, np.datetime64("NaT", "D"), DATES), "NaT in row 0"),
        ({"time": "walk"}, ["soon"] * 24, "time is 'soon' in row 0"),
        ({"time": "walk"}, ["2024-13-01"] * 24, "what is not a date"),
        ({"time": "walk"}, [True] * 24, "dtype bool"),
        ({"time": "walk"}, [None, *DATES[1:].tolist()], "None in row 0"),
        ({"time": "walk"}, pd.to_datetime(DATES, utc=True), "time zone in row 0"),
        ({"time": "walk", "item_features": np.eye(4)}, DAYS, "skills of features stand"),
    ],
)
def test_fits_that_make_no_sense_are_refused(options, time, message):
    refused(message, Ranker(**options).fit, PAIRS, time=time)


def test_predictions_that_make_no_sense_are_refused(ranker):
    pairs = [("ann", "bob")]
    early = "2023-12-31 in row 0, before the first comparison in fit at 2024-01-01; ask for"
    for method in (ranker.rank, ranker.samples, ranker.predict, ranker.skills_at):
        given: dict[str, Any] = {"times" if method == ranker.skills_at else "time": "2023-12-31"}
        refused(early, method, **given)
    refused(early, ranker.predict_proba, pairs, time="2023-12-31")
    refused("time has 2 entries; pass one, or see skills_at", ranker.rank, time=DATES[:2])
    refused("time holds numbers, and in fit it held dates", ranker.predict_proba, pairs, time=3.0)
    with pytest.raises(ValueError, match="time has 2 entries; pass one, or 1"):
        ranker.predict_proba(pairs, time=["2025-01-01", "2025-01-02"])
    with pytest.raises(ValueError, match="item 'new' in row 0 is not known"):
        ranker.predict_proba([("new", "bob")], time="2025-01-01")
    table = pd.DataFrame({"winner": ["ann"], "loser": ["bob"], "time": [DATES[0]]})
    refused("has a column 'time' and time is given", ranker.predict_proba, table, time="2025-01-01")
    refused("one time for each comparison", read_times, np.zeros((2, 2)), "time")
    features = PreferenceGP(hyperparameters="prior")
    with pytest.raises(ValueError, match="comparisons has times, which this model"):
        features.fit(np.eye(2), pd.DataFrame({"winner": [0], "loser": [1], "time": [3]}))


def test_more_than_fits_is_refused_with_its_size_and_fix():
    refused("TiB of memory, .* fit fewer items", check_room, 1_000_000, 10, "walk")


@pytest.mark.slow
def test_rank_reads_a_column_of_times(tmp_path, capsys):
    rows = [f"{NAMES[w]},{NAMES[x]},{d}" for (w, x), d in zip(PAIRS, DATES, strict=True)]
    rows += rows[:5]  # equal games on a day are rows that count
    games, out = tmp_path / "games.csv", tmp_path / "out"
    games.write_text("\n".join(["winner,loser,day", *rows]))
    printed, _ = said("rank", games, "--time", "day", "--out", out)
    assert f"Skills change over time; the ranking is as of {LAST}." in printed
    table = pd.read_csv(out / "ranking.csv")
    printed, _ = said("rank", games, "--time", "day", "--at", "2024-02-10", "--out", out, *QUICK)
    assert "the ranking is as of 2024-02-10." in printed and "more comparison" not in printed
    then, fitted = pd.read_csv(out / "ranking.csv"), Ranker.load(out / "ranker.npz")
    until = sum(row.split(",")[2] <= "2024-02-10" for row in rows)
    assert int(np.sum(then["comparisons"])) == 2 * until
    for frame, time in ((table, LAST), (then, "2024-02-10")):
        expected = fitted.skills_at([time])[0][0]
        numbers = [fitted.names_.index(name) for name in frame["item"]]
        np.testing.assert_allclose(frame["skill_mean"], expected[numbers], atol=1e-6)
    assert (out / "over-time.png").stat().st_size > 10_000
    for wrong, message in WRONG_TIMES.items():
        assert run("rank", games, "--time", "day", "--at", wrong) == 2
        assert message in capsys.readouterr().err
    assert run("rank", games, "--ignore", "day", "--at", "2024-02-10") == 2
    assert "--at: the file has no times" in capsys.readouterr().err
