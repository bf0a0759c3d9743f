"""Intervals are widened where rows that belong together agree more than the model says."""

import numpy as np
import pandas as pd
import pytest

from bayesrank import Ranker

NAMES = ["ant", "bee", "cat", "dog", "elk"]
HELD = {"scale": 1.0}
# Of 400 rows in 200 clusters, with what is left over by estimated means.
TWICE = (2.0 * (200 / 199) * (399 / 400)) ** 0.5

pytestmark = pytest.mark.filterwarnings("ignore:comparisons is read as winner,loser")


def games(count=200, seed=0):
    random = np.random.default_rng(seed)
    skills = random.normal(size=5)
    pairs = np.array([random.choice(5, 2, replace=False) for _ in range(count)])
    margin = skills[pairs[:, 0]] - skills[pairs[:, 1]] + 2**0.5 * random.normal(size=count)
    pairs = np.where(margin[:, None] > 0, pairs, pairs[:, ::-1])
    names = np.array(NAMES)[pairs]
    asked = {"question_id": [f"q{k}" for k in range(count)]}
    return pd.DataFrame({"winner": names[:, 0], "loser": names[:, 1], **asked})


@pytest.fixture(scope="module")
def twice():
    """Every verdict is there twice, under its question."""
    return pd.concat([games(), games()], ignore_index=True)


def test_rows_that_are_there_twice_have_the_deviations_of_rows_that_count_twice(twice):
    ranker = Ranker(items=NAMES, hyperparameters=HELD).fit(twice)
    assert ranker.widening_ == pytest.approx(TWICE, rel=1e-9)
    plain = Ranker(items=NAMES, hyperparameters=HELD).fit(twice[["winner", "loser"]])
    mean, sd = ranker.predict()
    np.testing.assert_allclose(mean, plain.predict()[0])
    np.testing.assert_allclose(sd, TWICE * plain.predict()[1])
    # As wide as those of the rows without copies, but for what the prior says.
    once = Ranker(items=NAMES, hyperparameters=HELD).fit(games())
    np.testing.assert_allclose(ranker.rank().sd, once.rank().sd, rtol=0.06)
    assert ranker.notes()[-1] == (
        "Rows of the same question_id agree more than others (design effect 2.0), so intervals are "
        "1.4 times as wide as without that."
    )


def test_all_answers_have_the_wider_intervals(twice):
    ranker = Ranker(items=NAMES, hyperparameters=HELD).fit(twice)
    plain = Ranker(items=NAMES, hyperparameters=HELD).fit(twice[["winner", "loser"]])
    np.testing.assert_allclose(
        ranker.samples().std(axis=0), TWICE * plain.samples().std(axis=0), rtol=0.06
    )
    pair = [tuple(ranker.rank().names[:2])]
    assert ranker.prob_better(pair) < plain.prob_better(pair)
    assert ranker.predict_proba(pair) < plain.predict_proba(pair)


def test_judges_and_positions_are_widened_alike(twice):
    random = np.random.default_rng(1)
    # The column of positions is read beside a column of questions, too.
    placed = twice.assign(position=np.tile(random.choice([-1, 1], 200), 2))
    ranker = Ranker(items=NAMES, hyperparameters="prior").fit(placed)
    plain = Ranker(items=NAMES, hyperparameters="prior").fit(placed.drop(columns="question_id"))
    wide, narrow = (each.effects()[0] for each in (ranker, plain))
    ratio = (wide.upper - wide.lower) / (narrow.upper - narrow.lower)
    assert ratio == pytest.approx(ranker.widening_, rel=1e-6)
    np.testing.assert_allclose(ranker.predict()[1], ranker.widening_ * plain.predict()[1])


def test_saved_rankers_stay_wide(twice, tmp_path):
    ranker = Ranker(items=NAMES, hyperparameters=HELD).fit(twice)
    ranker.save(tmp_path / "ranker.npz")
    loaded = Ranker.load(tmp_path / "ranker.npz")
    np.testing.assert_allclose(loaded.rank().sd, ranker.rank().sd)
    assert loaded.notes() == ranker.notes()


def test_rows_that_agree_no_more_are_left_alone():
    shuffled = games()
    shuffled["question_id"] = np.random.default_rng(2).integers(0, 40, 200)
    assert Ranker(items=NAMES, hyperparameters=HELD).fit(shuffled).widening_ == 1.0
    # A fit without clusters forgets those of the one before it.
    ranker = Ranker(items=NAMES, hyperparameters=HELD).fit(pd.concat([games()] * 2))
    assert ranker.widening_ > 1.0
    assert ranker.fit(games()[["winner", "loser"]]).widening_ == 1.0
