"""What counts beside skill: covariates as a position, by NUTS, from files, and refusals."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd
import pytest
from cli_run import run
from numpyro.handlers import condition
from numpyro.infer import MCMC, NUTS
from refusals import refused
from scipy.stats import norm

from bayesrank import Ranker
from bayesrank.datasets import ColumnNames, DataError, read_comparisons
from bayesrank.diagnostics import crosscheck
from bayesrank.infer import EP
from bayesrank.models import thurstone

NAMES = np.array(["ash", "elm", "fir", "oak", "yew"])
HELD = {"scale": 1.0, "tie_width": 0.3}


def battles(count: int = 80) -> pd.DataFrame:
    """Battles of answers, of which the longer ones please."""
    rng = np.random.default_rng(1)
    one, two = np.array([rng.choice(5, 2, replace=False) for _ in range(count)]).T
    length = rng.integers(50, 400, (count, 2))
    margin = 0.3 * (two - one) + 0.005 * (length[:, 0] - length[:, 1]) + rng.normal(size=count)
    winner = np.where(margin > 0.4, "model_a", np.where(margin < -0.4, "model_b", "tie"))
    sides = {"model_a": NAMES[one], "model_b": NAMES[two], "winner": winner}
    return pd.DataFrame({**sides, "length_a": length[:, 0], "length_b": length[:, 1]})


@pytest.fixture(scope="module")
def data():
    return read_comparisons(battles(), columns=ColumnNames(covariates=("length",)))


@pytest.fixture(scope="module")
def ranker(data):
    return Ranker(hyperparameters=HELD).fit(data)


def test_a_covariate_of_ones_is_a_position(data):
    """Both have the same prior, and the solver for logs has no covariates."""
    pairs, tied = np.array(data.names)[data.comparisons], data.tied
    first = Ranker(hyperparameters=HELD).fit(pairs, ties=tied, position=data.position)
    other = Ranker(hyperparameters=HELD).fit(pairs, ties=tied, covariates={"x": data.position})
    np.testing.assert_allclose(other.predict(), first.predict(), atol=2e-3)
    (home, _), (more, _) = first.effects(), other.effects()
    assert more.percent == pytest.approx(home.percent, abs=0.1) and more.label == "1 more x"
    pair = [(NAMES[0], NAMES[1])]
    by_place = first.predict_proba(pair, position=1)
    np.testing.assert_allclose(other.predict_proba(pair, covariates={"x": 1}), by_place, atol=1e-3)


@pytest.mark.slow
def test_effects_and_skills_by_logistic_noise_are_as_by_nuts(data):
    check = crosscheck(
        Ranker(likelihood="logit", hyperparameters=HELD).fit(data).result,
        engines=("ep", "nuts"),
        rng_key=jax.random.key(0),
        num_warmup=300,
        num_samples=1000,
        num_chains=2,
        progress_bar=False,
        tolerance=0.2,
    )
    assert check.verdicts["ep"].status in ("agrees", "close"), check.verdicts["ep"].sentence


def test_a_log_at_equal_covariates_is_as_by_ep(data, ranker):
    """The solver for logs and the engine, on one program at the same scales."""
    [unit] = ranker.covariate_units_.values()
    said = {"outcomes": np.where(data.tied, 1, 2), "position": data.position}
    said["covariates"] = data.covariates / unit
    result = EP(thurstone).run(jax.random.key(0), 5, data.comparisons, params=HELD, **said)
    mean, sd = ranker.predict()
    np.testing.assert_allclose(mean, result.mean["f"], atol=2e-3)
    np.testing.assert_allclose(sd, result.sd["f"], rtol=2e-3)
    more = next(each for each in ranker.effects() if each.name == "covariate_effect")
    assert more.mean == pytest.approx(result.mean["covariate_effect"][0], abs=2e-3)
    rows = np.r_[result.mean["f"][0] - result.mean["f"][1] + 2 * result.mean["covariate_effect"]]
    chance = ranker.predict_proba([data.names[:2]], covariates={"length": 2 * unit})
    assert 0.0 < chance[0] < norm.cdf((rows[0] - 0.3) / np.sqrt(2)) + 0.05


@pytest.mark.slow
def test_judges_see_covariates_as_by_nuts(data):
    judges = np.arange(80) % 4
    told = replace(data, judges=judges, judge_names=("u", "v", "w", "x"), position=None)
    held = {**HELD, "reliability_scale": 0.3}
    ranker = Ranker(hyperparameters=held).fit(told)
    [unit] = ranker.covariate_units_.values()
    program = condition(thurstone, {k: np.asarray(v) for k, v in held.items()})
    mcmc = MCMC(NUTS(program), num_warmup=300, num_samples=2000, progress_bar=False)
    said = {"outcomes": np.where(data.tied, 1, 2), "judges": judges, "num_judges": 4}
    said["covariates"] = data.covariates / unit
    with jax.enable_x64(True):
        mcmc.run(jax.random.key(0), 5, data.comparisons, **said)
        draws = {name: np.asarray(v) for name, v in mcmc.get_samples().items()}
    table = ranker.rank()
    apart = (draws["f"] - draws["f"].mean(1, keepdims=True))[:, table.indices]
    np.testing.assert_allclose((apart.mean(0) - table.mean) / table.sd, 0.0, atol=0.15)
    np.testing.assert_allclose(apart.std(0), table.sd, rtol=0.15)
    [more] = [each for each in ranker.effects() if each.name == "covariate_effect"]
    spread = (more.upper - more.lower) / 2 / 1.645
    effect = draws["covariate_effect"][:, 0]
    assert abs(effect.mean() - more.mean) < 0.15 * spread
    assert effect.std() == pytest.approx(spread, rel=0.1)


def test_a_table_is_read_by_name_whatever_its_unit_and_its_sides(data, ranker):
    table = battles()
    by_name: Any = Ranker(hyperparameters=HELD)
    with pytest.warns(match="read as model_a,model_b,winner"):
        by_name.fit(table, covariates=["length"])
    np.testing.assert_allclose(by_name.predict(), ranker.predict(), atol=1e-9)
    single = table.assign(more=table["length_a"] - table["length_b"]).drop(
        columns=["length_a", "length_b"]
    )
    read = read_comparisons(single, columns=ColumnNames(covariates=("more",)))
    np.testing.assert_array_equal(read.covariates, data.covariates)
    assert "more" not in read.ignored_columns and "length_a" not in data.ignored_columns
    with pytest.warns(match="read as"):
        named = by_name.score(table, covariates=["length"])
    assert named == pytest.approx(ranker.score(data))
    [unit] = ranker.covariate_units_.values()
    assert unit == pytest.approx(np.sqrt(np.mean(data.covariates**2)))
    pair, none = [("ash", "elm")], ranker.predict_proba([("ash", "elm")])
    longer = ranker.predict_proba(pair, covariates={"length": [200.0]})
    assert longer > none > ranker.predict_proba(pair, covariates={"length": -200.0})


def test_equal_rows_are_counted_and_ties_have_no_first_side(data):
    twice = data.where(np.r_[np.arange(80), np.arange(80)])
    assert twice.distinct().num_comparisons == data.distinct().num_comparisons
    tied = data.where(np.flatnonzero(data.tied)[:1])
    turned = Ranker(hyperparameters=HELD).fit(
        np.array(tied.names)[tied.comparisons[:, ::-1]], ties=[1], covariates=-tied.covariates
    )
    as_read = Ranker(hyperparameters=HELD).fit(
        np.array(tied.names)[tied.comparisons], ties=[1], covariates=tied.covariates
    )
    np.testing.assert_allclose(turned.predict(), as_read.predict(), atol=1e-6)


def test_files_and_draws_keep_covariates(ranker, data, tmp_path):
    ranker.save(tmp_path / "r.npz")
    again = Ranker.load(tmp_path / "r.npz")
    assert again.covariate_units_ == ranker.covariate_units_ and again.score(data) == ranker.score(
        data
    )
    posterior = ranker.to_arviz()["posterior"]
    assert posterior["covariate_effect"].dims[-1] == "covariate"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["width"], "covariates names 'width'; the comparisons have numbers of both sides of: le"),
        (np.zeros(80), "'covariate 1' is the same for both sides in all rows; leave it out"),
        (np.full(80, np.inf), "covariates has inf in row 0; pass finite numbers"),
        (np.ones(79), r"covariates has shape \(79, 1\); pass \(80, D\)"),
        ({"x": ["far"] * 80}, "covariates are not numbers of one length"),
    ],
)
def test_what_is_no_covariate_is_refused(given, message, data):
    table: Any = battles() if isinstance(given, list) else np.array(data.names)[data.comparisons]
    if isinstance(given, list):
        with pytest.warns(match="read as"), pytest.raises(ValueError, match=message):
            Ranker().fit(table, covariates=given)
    else:
        refused(message, Ranker().fit, table, covariates=given)


def test_a_covariate_can_have_an_effect_in_each_category():
    """As by EP with covariates that are zero in all other categories."""
    table = battles(120).assign(category=np.array(["code", "law", "verse"])[np.arange(120) % 3])
    held = {**HELD, "category_scale": 0.3}
    read = read_comparisons(table, columns=ColumnNames(covariates=("length:category",)))
    apart = Ranker(hyperparameters=held).fit(read)
    gaps, unit = np.asarray(read.covariates)[:, 0], apart.covariate_units_["length in law"]
    assert unit == pytest.approx(np.sqrt(np.mean(gaps**2)))
    assert list(apart.covariate_units_) == [f"length in {name}" for name in read.category_names]
    own = gaps[:, None] / unit * (np.asarray(read.categories)[:, None] == np.arange(3))
    said: dict[str, Any] = {"categories": read.categories, "num_categories": 3, "covariates": own}
    outcomes = np.where(read.tied, 1, 2)
    engine = EP(thurstone, hyperparameters=held)
    result = engine.run(jax.random.key(0), 5, read.comparisons, outcomes=outcomes, **said)
    effects = [each.mean for each in apart.effects() if each.name == "covariate_effect"]
    np.testing.assert_allclose(effects, result.mean["covariate_effect"], rtol=5e-3)
    pair: Any = [("ash", "elm")]
    longer = apart.predict_proba(pair, category="law", covariates={"length in law": 99})
    assert longer > apart.predict_proba(pair, category="law")
    assert apart.score(read) > -1.1
    with pytest.warns(match="read as"):
        again: Any = Ranker(hyperparameters=held).fit(table, covariates=["length:category"])
    assert again.covariate_units_ == apart.covariate_units_
    with pytest.warns(match="read as"):
        named = again.score(table, covariates=["length:category"])
        assert named == pytest.approx(again.score(read))
        refused("names 'length' twice", again.fit, table, covariates=["length", "length:category"])
        few = table.drop(columns="category")
        refused("have no categories; pass", again.fit, few, covariates=["length:category"])


def test_differences_to_come_are_refused_by_name(ranker):
    pair = [("ash", "elm")]
    refused("pass how much more", ranker.predict_proba, pair, covariates={"width": 1.0})


def test_a_name_that_no_columns_have_is_refused_in_a_file():
    with pytest.raises(DataError, match=r"how much more of 'width' .* name one of both sides .le"):
        read_comparisons(battles(), columns=ColumnNames(covariates=("width",)))


@pytest.mark.slow
def test_the_command_ranks_at_equal_covariates(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    battles(400).to_csv("b.csv", index=False)
    assert run("rank", "b.csv", "--out", "plain", "--quiet", "--crosscheck", "none") == 0
    assert "--covariate length" in capsys.readouterr().out.replace("\n", " ")
    told = ("rank", "b.csv", "--covariate", "length", "--out", "o", "--crosscheck", "none")
    assert run(*told) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "more length wins" in said and Path("o/ranking.csv").exists()
    assert "length counts as skill" not in said
