"""Overall skills of a log with categories, draws of categories, and skills from an anchor."""

from typing import Any

import jax
import numpy as np
import pandas as pd
import pytest

from bayesrank import Ranker, _memory
from bayesrank.infer import EP, AccuracyWarning
from bayesrank.models import thurstone
from bayesrank.ranking.columns import Anchor, EloScale, elo_per_skill

NAMES, CATEGORIES = [f"m{i}" for i in range(6)], ["en", "ko", "de", "fr"]


def log(seed, number, shares=(0.4, 0.3, 0.2, 0.1), spread=0.4):
    """Battles of six models in four categories, and the models' skills in each."""
    rng = np.random.default_rng(seed)
    skills = 0.8 * rng.normal(size=6) + spread * rng.normal(size=(4, 6))
    first = rng.integers(6, size=number)
    second = (first + rng.integers(1, 6, number)) % 6
    within = rng.choice(4, number, p=shares)
    gap = skills[within, first] - skills[within, second] + np.sqrt(2.0) * rng.normal(size=number)
    pairs = np.where(gap[:, None] > 0, np.c_[first, second], np.c_[second, first])
    named = np.array(NAMES)[pairs]
    frame = pd.DataFrame({"winner": named[:, 0], "loser": named[:, 1]})
    return frame.assign(category=np.array(CATEGORIES)[within]), skills


@pytest.fixture(scope="module", params=["map", {"scale": 0.8, "category_scale": 0.4}])
def ranker(request) -> Ranker:
    return Ranker(items=NAMES, hyperparameters=request.param).fit(log(0, 600)[0])


def test_the_overall_skill_is_the_average_over_categories_by_their_battles(ranker):
    frame = log(0, 600)[0]
    shares = frame["category"].value_counts(normalize=True)
    within = [ranker.samples(name) for name in ranker.category_names_]
    average = np.tensordot([shares[name] for name in ranker.category_names_], within, 1)
    np.testing.assert_allclose(ranker.samples(), average, atol=1e-9)
    mean, sd = ranker.predict()
    np.testing.assert_allclose(average.mean(axis=0), mean, atol=1e-9)
    np.testing.assert_allclose(average.std(axis=0), sd, rtol=0.1)
    unseen = Ranker(overall="unseen", items=NAMES, hyperparameters=ranker.hyperparameters)
    unseen.fit(frame)
    assert (unseen.rank().sd > ranker.rank().sd).all()
    with pytest.raises(ValueError, match="overall is 'mean'"):
        Ranker(overall="mean").fit(frame)  # pyright: ignore[reportArgumentType]


def test_draws_of_categories_are_joint():
    """Their covariances are those of EP on the program itself."""
    frame, scales = log(1, 300)[0], {"scale": 0.8, "category_scale": 0.4}
    ranker = Ranker(items=NAMES, hyperparameters=scales, num_samples=20_000).fit(frame)
    pairs = frame[["winner", "loser"]].map(NAMES.index).to_numpy()
    codes = frame["category"].map(ranker.category_names_.index).to_numpy()
    said: dict[str, Any] = {"categories": codes, "num_categories": 4, "params": scales}
    result = EP(thurstone).run(jax.random.key(0), 6, pairs, **said)
    rows = np.zeros((2, 30))  # the first item in two categories: f, and what these add
    rows[:, 0] = 1.0
    start = list(result.shapes).index("category_skill") * 6
    rows[[0, 1], [start, start + 6]] = 1.0
    expected = rows @ result.joint_covariance @ rows.T
    drawn = [ranker.samples(name)[:, 0] for name in ranker.category_names_[:2]]
    np.testing.assert_allclose(np.cov(drawn), expected, rtol=0.05)
    assert expected[0, 1] < 0.8 * np.sqrt(expected[0, 0] * expected[1, 1])


@pytest.mark.slow
def test_intervals_of_the_overall_skill_cover_and_narrow_with_data():
    """Skills about their average in 60 logs of each size, by the program's own draws."""
    covered: dict[int, Any] = {}
    width: dict[int, Any] = {}
    unseen: dict[int, Any] = {}
    for number in (200, 2000):
        held = []
        for seed in range(60):
            frame, skills = log(1000 + seed, number)
            ranker = Ranker(items=NAMES, hyperparameters="map").fit(frame)
            shares = np.array([np.mean(frame["category"] == name) for name in CATEGORIES])
            true = shares @ skills - np.mean(shares @ skills)
            found = ranker.rank()
            true = true[found.indices]
            held.append((found.skill_lower <= true) & (true <= found.skill_upper))
            size = np.mean(found.skill_upper - found.skill_lower)
            width[number] = width.get(number, 0.0) + size / 60
            ranker.set_params(overall="unseen")
            found = ranker.rank()
            size = np.mean(found.skill_upper - found.skill_lower)
            unseen[number] = unseen.get(number, 0.0) + size / 60
        covered[number] = np.mean(held)
    for share in covered.values():
        assert 0.86 < share < 0.95
    assert width[2000] < 0.42 * width[200]
    assert unseen[2000] > 1.5 * width[2000]


def test_skills_from_an_anchor_have_intervals_of_differences(ranker):
    plain, found = ranker.rank(), ranker.rank(anchor="m2")
    at = found.names.index("m2")
    assert found.mean[at] == found.sd[at] == found.skill_lower[at] == found.skill_upper[at] == 0.0
    gaps = ranker.samples() - ranker.samples()[:, [2]]
    np.testing.assert_allclose(found.mean, gaps.mean(axis=0)[found.indices], atol=1e-9)
    np.testing.assert_allclose(found.sd, gaps.std(axis=0)[found.indices], rtol=0.08)
    ends = np.quantile(gaps, [0.05, 0.95], axis=0)[:, found.indices]
    np.testing.assert_allclose([found.skill_lower, found.skill_upper], ends, atol=0.06)
    assert found.names == plain.names and (found.rank_upper == plain.rank_upper).all()
    with pytest.raises(ValueError, match="name an item of fit"):
        ranker.rank(anchor="m9")


def test_a_skill_that_is_known_is_conditioned_on(ranker):
    """Against draws that weigh as they fit: of three anchors, and of a level with a flat prior."""
    scale, random = elo_per_skill(ranker.params_), np.random.default_rng(0)
    anchors = {"m0": (1000, 20), "m2": 1030.0, "m5": (900, 80)}
    found = ranker.rank(anchor=anchors)
    weights, means, covariances = ranker.posterior_.mixture(ranker._shares())
    assert len(weights) == 1
    draws = random.multivariate_normal(means[0], covariances[0], 400_000)
    points = scale * (draws - draws[:, [2]]) + 1030.0  # the exact one gives the level
    logs = -0.5 * ((points[:, 0] - 1000) / 20) ** 2 - 0.5 * ((points[:, 5] - 900) / 80) ** 2
    share = np.exp(logs - logs.max())
    share /= share.sum()
    mean = share @ points
    sd = np.sqrt(share @ (points - mean) ** 2)
    error = np.maximum(sd * np.sqrt((share**2).sum()), 1e-9)  # of a mean of weighted draws
    elo = found.to_dataframe().set_index("item").loc[[f"m{k}" for k in range(6)]]
    assert (np.abs(elo["elo"] - mean) < 5 * error).all()
    np.testing.assert_allclose(scale * elo["skill_sd"], sd, rtol=0.02, atol=1e-6)
    assert elo.loc["m2", "elo_lower"] == elo.loc["m2", "elo_upper"] == 1030.0
    drawn = ranker.samples(anchor=anchors)
    np.testing.assert_allclose(drawn.mean(axis=0), (elo["elo"] - 1000) / scale, atol=1e-9)
    np.testing.assert_allclose(drawn.std(axis=0), elo["skill_sd"], rtol=0.08, atol=1e-6)
    better = ranker.prob_better([("m0", "m5")], anchor=anchors)
    assert abs(better - share @ (points[:, 0] > points[:, 5])) < 0.01
    assert found.elo.meaning == "m0 1000 ± 20, m2 1030, m5 900 ± 80" and not found.elo.reference


def test_one_known_skill_sets_the_level_and_adds_its_error(ranker):
    plain, scale = ranker.rank(anchor="m2"), elo_per_skill(ranker.params_)
    exact, rough = ranker.rank(anchor={"m2": 1200}), ranker.rank(anchor={"m2": (1200, 50)})
    assert plain.elo is None and exact.elo == EloScale(scale, 1200.0, (Anchor("m2", 1200.0),))
    np.testing.assert_allclose(exact.mean, plain.mean, atol=1e-9)
    np.testing.assert_allclose(exact.sd, plain.sd, atol=1e-9)
    np.testing.assert_allclose(rough.sd**2, plain.sd**2 + (50 / scale) ** 2, atol=1e-9)
    assert "1200 (1200)" in str(exact) and "elo_lower" in exact.to_dataframe()


def test_anchors_that_contradict_the_comparisons_are_told(ranker):
    plain, scale = ranker.rank(), elo_per_skill(ranker.params_)
    best, last = plain.names[0], plain.names[-1]
    with pytest.warns(AccuracyWarning, match="anchors contradict the comparisons"):
        ranker.rank(anchor={best: 1000, last: 1000 + scale * 4})


@pytest.mark.parametrize(
    ("anchor", "message"),
    [
        ({"m9": 1000}, "name an item of fit"),
        ({}, "anchor is empty"),
        ({"m0": "high"}, "anchor gives 'm0' 'high'; pass Elo points, or"),
        ({"m0": (1000, -1)}, "pass Elo points"),
        ({"m0": (1000, 1, 2)}, "pass Elo points"),
        ({"m0": float("nan")}, "pass Elo points"),
    ],
)
def test_what_is_no_anchor_is_refused(ranker, anchor, message):
    with pytest.raises(ValueError, match=message):
        ranker.rank(anchor=anchor)


def test_a_log_that_memory_cannot_hold_is_refused_before_the_fit(monkeypatch):
    monkeypatch.setattr(_memory, "available", lambda: 10**5)
    said = "6 items and 600 comparisons in 4 categories take .* rank fewer items or categories"
    with pytest.raises(ValueError, match=said):
        Ranker().fit(log(0, 600)[0])
    with pytest.raises(ValueError, match="6 items and 600 comparisons take .* rank fewer items"):
        Ranker().fit(log(0, 600)[0][["winner", "loser"]])
