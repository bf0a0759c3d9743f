"""Overall skills of a log with categories, draws of categories, and skills from an anchor."""

from typing import Any

import jax
import numpy as np
import pandas as pd
import pytest

from bayesrank import Ranker, _memory
from bayesrank.infer import EP
from bayesrank.models import thurstone

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


def test_a_log_that_memory_cannot_hold_is_refused_before_the_fit(monkeypatch):
    monkeypatch.setattr(_memory, "available", lambda: 10**5)
    said = "6 items and 600 comparisons in 4 categories take .* rank fewer items or categories"
    with pytest.raises(ValueError, match=said):
        Ranker().fit(log(0, 600)[0])
    with pytest.raises(ValueError, match="6 items and 600 comparisons take .* rank fewer items"):
        Ranker().fit(log(0, 600)[0][["winner", "loser"]])
