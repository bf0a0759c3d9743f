"""`Ranker` with columns of a log together: with features, over time, row by row, and refusals."""

import jax
import numpy as np
import pandas as pd
import pytest
from refusals import refused

from bayesrank import Ranker
from bayesrank.diagnostics import crosscheck

NAMES = np.array(["ash", "elm", "fir", "oak", "yew"])
PRIOR = {"scale": 1.0, "category_scale": 0.4, "tie_width": 0.3}


def games(count: int = 60) -> pd.DataFrame:
    """Games at home, some tied, of two kinds, over a year."""
    rng = np.random.default_rng(3)
    home, away = np.array([rng.choice(5, 2, replace=False) for _ in range(count)]).T
    margin = 0.4 * (away - home) + 0.5 + 1.4 * rng.normal(size=count)
    won = margin > 0
    return pd.DataFrame(
        {
            "winner": NAMES[np.where(won, home, away)],
            "loser": NAMES[np.where(won, away, home)],
            "tie": (np.abs(margin) < 0.4).astype(int),
            "position": np.where(won, 1, -1),
            "category": np.array(["cup", "league"])[rng.integers(2, size=count)],
            "time": np.sort(rng.random(count)).round(2),
        }
    )


@pytest.fixture(scope="module")
def over_time() -> Ranker:
    return Ranker(hyperparameters={**PRIOR, "lengthscale": 0.7}).fit(games())


def test_a_league_over_time_has_its_home_advantage(over_time):
    """As the solver and EP on the joint program have it, see `test_dynamic`."""
    assert over_time.time_range_ is not None and over_time.category_names_ == ["league", "cup"]
    home, _ = over_time.effects()
    assert 0.0 < home.lower < 0.7 < home.upper
    pair = [("ash", "elm")]
    chances = [over_time.predict_proba(pair, position=place)[0] for place in (1, 0, -1)]
    assert chances == sorted(chances, reverse=True)


@pytest.mark.slow
def test_items_with_features_have_positions_ties_and_categories_as_by_nuts():
    features = pd.DataFrame(np.arange(5.0)[:, None], index=NAMES, columns=["age"])
    given = {"amplitude": 1.0, "lengthscale": 1.0, "noise": 1.0}
    given |= {"category_scale": 0.4, "tie_width": 0.3}
    ranker = Ranker(item_features=features, hyperparameters=given).fit(games().drop(columns="time"))
    check = crosscheck(
        ranker.result,
        engines=("ep", "nuts"),
        rng_key=jax.random.key(0),
        num_warmup=300,
        num_samples=1000,
        num_chains=2,
        progress_bar=False,
        tolerance=0.2,
    )
    assert check.verdicts["ep"].status in ("agrees", "close"), check.verdicts["ep"].sentence
    mean, _ = ranker.predict()
    own = np.array([ranker.predict(category=name)[0] for name in ranker.category_names_])
    np.testing.assert_allclose(ranker.category_shares_ @ own, mean, atol=1e-9)


def test_a_score_is_of_what_is_said_row_by_row(over_time):
    table = games(8).assign(time=[1.0, 1.2] * 4)
    by_row = []
    for _, row in table.iterrows():
        said = {name: row[name] for name in ("position", "category", "time")}
        said["outcome"] = "tie" if row["tie"] else "win"
        by_row.append(over_time.predict_proba([(row["winner"], row["loser"])], **said))
    assert over_time.score(table) == pytest.approx(np.log(by_row).mean())
    pairs = table[["winner", "loser", "position", "category", "time"]]
    wins = over_time.predict_proba(pairs)
    decided = table["tie"].to_numpy() == 0
    np.testing.assert_allclose(wins[decided], np.ravel(by_row)[decided])
    refused("pairs has a column 'position' and", over_time.predict_proba, pairs, position=1)


def test_what_is_said_of_games_to_come_is_refused_by_name(over_time):
    pair = [("ash", "elm")]
    refused("category 'cups' was not in fit", over_time.predict_proba, pair, category="cups")
    refused("judge is 'Ann', but fit was given no col", over_time.predict_proba, pair, judge="Ann")
    refused("position is 2; pass 1, 0 or -1", over_time.predict_proba, pair, position=2)
    refused(
        "position has 2 entries; pass one, or 1", over_time.predict_proba, pair, position=[1, 0]
    )


def test_an_unknown_item_in_a_category_is_as_its_population(over_time):
    chances = [
        over_time.predict_proba([("new", "newer")], category="cup", unknown="population", outcome=o)
        for o in ("win", "tie", "loss")
    ]
    np.testing.assert_allclose(np.sum(chances), 1.0)
    assert chances[0] == pytest.approx(chances[2])


def test_effects_are_of_the_likelihood_that_was_fitted():
    """Between equals a logistic margin decides, whose chances have a closed form."""
    ranker = Ranker(likelihood="logit", hyperparameters={"scale": 1.0, "tie_width": 0.3})
    ranker.fit(games().drop(columns=["time", "category"]))
    home, tie = ranker.effects()
    win, loss = 1 / (1 + np.exp(-(np.array([home.mean, -home.mean]) - 0.3)))
    assert home.percent == pytest.approx(100 * win / (win + loss), abs=0.01)
    assert tie.percent == pytest.approx(100 * (1 - 2 / (1 + np.exp(0.3))), abs=0.01)
