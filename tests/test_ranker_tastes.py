"""Tastes: each judge likes each item more or less than others do."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from numpyro.handlers import condition
from numpyro.infer import MCMC, NUTS
from refusals import refused
from scipy.special import ndtr

from bayesrank import Ranker
from bayesrank.distributions import Thurstone
from bayesrank.infer import EP, ConvergenceWarning
from bayesrank.models import judged_comparisons, thurstone
from bayesrank.solvers.comparisons import Asked, JudgedSkills, fit_arena
from bayesrank.solvers.comparisons.judged_rows import judged_rows

SURE = {"scale": 1.0, "taste_scale": 0.8, "reliability_scale": 1e-3}  # all judges are typical
HELD: dict[str, Any] = {**SURE, "reliability_scale": 0.3, "bias_scale": 0.3}


def battles(num_items, num_judges, count, taste, seed=0):
    """Pairs (winner, loser) and judges."""
    random = np.random.default_rng(seed)
    skills, likings = random.normal(size=num_items), random.normal(size=(num_judges, num_items))
    pairs = np.array([random.choice(num_items, 2, replace=False) for _ in range(count)])
    judges = random.integers(0, num_judges, count)
    seen = skills + taste * likings[judges]
    rows = np.arange(count)
    margin = seen[rows, pairs[:, 0]] - seen[rows, pairs[:, 1]] + 2**0.5 * random.normal(size=count)
    return np.where(margin[:, None] > 0, pairs, pairs[:, ::-1]), judges


def table(*args, **options):
    pairs, judges = battles(*args, **options)
    names = np.array([f"item {i}" for i in range(pairs.max() + 1)])
    named = {"winner": names[pairs[:, 0]], "loser": names[pairs[:, 1]]}
    return pd.DataFrame({**named, "judge": [f"judge {j}" for j in judges]})


@pytest.fixture(scope="module")
def opinionated():
    return table(6, 5, 400, 1.0)


def typical_judges(num_items, num_judges, pairs, judges):
    """The program as a statistician writes it, where all judges are equally reliable."""
    with numpyro.plate("items", num_items):
        skills = numpyro.sample("f", dist.Normal(0.0, 1.0))
    prior = dist.Normal(0.0, 0.8).expand([num_judges, num_items]).to_event(2)
    taste = numpyro.sample("taste", prior)
    seen = jnp.asarray(skills) + jnp.asarray(taste)[judges]
    rows = jnp.arange(len(pairs))
    with numpyro.plate("battles", len(pairs)):
        margin = seen[rows, pairs[:, 0]] - seen[rows, pairs[:, 1]]
        numpyro.sample("won", Thurstone(margin), obs=jnp.ones(len(pairs), int))


def test_typical_judges_are_as_by_the_engine():
    pairs, judges = battles(5, 4, 60, 0.8)
    fit = fit_arena(5, pairs, judges=judges, num_judges=5, scales=SURE, tolerance=1e-6)
    result = EP(typical_judges).run(jax.random.key(0), 5, 5, pairs, judges)
    np.testing.assert_allclose(fit.mean, result.mean["f"], atol=2e-4)
    np.testing.assert_allclose(np.sqrt(np.diagonal(fit.covariance)), result.sd["f"], rtol=5e-4)
    everyone, items = np.indices((5, 5))
    found = JudgedSkills(fit).tastes(everyone, items)
    np.testing.assert_allclose(found, result.mean["taste"], atol=2e-4)
    assert (found[4] == 0.0).all()  # who has judged nothing has none that is known


def test_chances_are_those_of_the_judge():
    pairs, judges = battles(5, 4, 60, 0.8)
    fit = fit_arena(5, pairs, judges=judges, num_judges=4, scales=SURE, tolerance=1e-6)
    result = EP(typical_judges).run(jax.random.key(0), 5, 4, pairs, judges)
    skills, asked = JudgedSkills(fit), Asked(np.array([0, 3]), np.array([1, 2]))
    draws = result.get_samples()
    for judge in (2, None):
        if judge is None:  # tastes of a stranger
            liked = 0.8 * np.random.default_rng(0).normal(size=draws["f"].shape)
        else:
            liked = np.asarray(draws["taste"])[:, judge]
        seen = np.asarray(draws["f"]) + liked
        wins = ndtr((seen[:, asked.first] - seen[:, asked.second]) / 2**0.5)
        error = 4 * wins.std(axis=0) / len(wins) ** 0.5
        found = skills.chances(asked._replace(judge=judge))[:, 2]
        assert (np.abs(found - wins.mean(axis=0)) < error + 1e-3).all()


@pytest.mark.slow
def test_tastes_beside_reliabilities_and_biases_are_as_by_nuts():
    pairs, judges = battles(5, 4, 150, 0.8)
    position = np.random.default_rng(1).choice([-1.0, 1.0], 150)
    said = {"judges": judges, "num_judges": 4, "position": position}
    fit = fit_arena(5, pairs, scales=HELD, **said)
    chains = MCMC(
        NUTS(condition(judged_comparisons, HELD)),
        num_warmup=500,
        num_samples=4000,
        progress_bar=False,
    )
    with jax.enable_x64(True):
        chains.run(jax.random.key(0), 5, pairs, tastes=True, **said)
        draws = {k: np.asarray(v) for k, v in chains.get_samples().items()}
    mean, covariance = fit.skills()
    about = np.eye(5) - 0.2
    sd, drawn = np.sqrt(np.diagonal(about @ covariance @ about)), draws["f"] @ about
    assert (np.abs(drawn.mean(axis=0) - about @ mean) < 0.12 * sd).all()
    np.testing.assert_allclose(drawn.std(axis=0), sd, rtol=0.12)
    skills = JudgedSkills(fit)
    off = draws["taste"].mean(axis=0) - skills.tastes(*np.indices((4, 5)))
    assert (np.abs(off) < 0.12 * draws["taste"].std(axis=0)).all()


def test_a_judge_tastes_what_it_has_seen():
    rows = judged_rows(4, [(0, 1), (2, 3), (0, 2)], judges=[0, 0, 2], num_judges=3, tastes=True)
    assert rows.tasted is not None
    assert rows.tasted.tolist() == [[0, 1, 2, 3], [-1, -1, -1, -1], [0, 2, -1, -1]]
    assert rows.own.shape == (3, 5)


def test_tastes_are_learned_where_judges_disagree(opinionated):
    ranker = Ranker().fit(opinionated)
    assert 0.5 < ranker.params_["taste_scale"] < 1.6
    assert "their own likings of an item differ by" in ranker.notes()[0]
    assert ranker.widening_ == 1.0
    without = Ranker(tastes=False).fit(opinionated)
    assert "taste_scale" not in without.params_ and without.widening_ > 1.2
    assert without.notes()[-1].startswith("Rows of the same judge agree more than others")
    alike = Ranker().fit(table(6, 5, 400, 0.0))
    assert "taste_scale" not in alike.params_


def test_what_is_held_counts(opinionated):
    given = Ranker(hyperparameters={"taste_scale": 0.7}).fit(opinionated)
    assert given.params_["taste_scale"] == 0.7
    assert "taste_scale" not in Ranker(hyperparameters="prior").fit(opinionated).params_
    prior = Ranker(hyperparameters="prior", tastes=True).fit(opinionated)
    assert prior.params_["taste_scale"] == 0.3


def test_saved_rankers_keep_tastes(opinionated, tmp_path):
    ranker = Ranker().fit(opinionated)
    ranker.save(tmp_path / "ranker.npz")
    loaded = Ranker.load(tmp_path / "ranker.npz")
    pair = [("item 0", "item 1")]
    of_each = [loaded.predict_proba(pair, judge=f"judge {j}")[0] for j in range(5)]
    assert of_each == [ranker.predict_proba(pair, judge=f"judge {j}")[0] for j in range(5)]
    assert np.ptp(of_each) > 0.1
    constant = ranker.to_arviz()["constant_data"]
    assert constant["taste"].dims == ("judge", "item")


def test_tastes_need_judges(opinionated):
    pairs = opinionated[["winner", "loser"]]
    refused("tastes is True, and comparisons name no judges", Ranker(tastes=True).fit, pairs)
    odd: Any = "yes"
    refused("tastes is 'yes'; choose 'auto', True or False", Ranker(tastes=odd).fit, pairs)
    with numpyro.handlers.seed(rng_seed=0):
        refused("tastes is True, and there are no judges", thurstone, 3, [(0, 1)], tastes=True)


def test_a_log_that_has_not_settled_is_not_asked_for_tastes():
    """A slope of the evidence says nothing there; on one such log its matrix was indefinite."""
    pairs, judges = battles(6, 5, 400, 1.0)
    said: dict[str, Any] = {"judges": judges, "num_judges": 5, "tastes": "auto"}
    assert "taste_scale" in fit_arena(6, pairs, **said).scales
    with pytest.warns(ConvergenceWarning, match="after 2 sweeps"):
        assert "taste_scale" not in fit_arena(6, pairs, **said, max_sweeps=2).scales
