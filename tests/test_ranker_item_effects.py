"""Items that differ beyond their features: programs, posteriors, newcomers, rankers."""

from typing import Any

import jax
import numpy as np
import pytest
from numpyro import handlers

from bayesrank import PreferenceGP, Ranker
from bayesrank.infer import EP
from bayesrank.models import preference_gp, preference_orders
from bayesrank.models.orders import events
from bayesrank.solvers.comparisons.posterior import EPSkills
from bayesrank.solvers.comparisons.skills import at_new_items, with_new_items

RNG = np.random.default_rng(5)
X, NEW = RNG.normal(size=(6, 2)), RNG.normal(size=(3, 2))
PAIRS = np.array([(0, 1), (1, 2), (0, 3), (4, 5), (3, 5), (0, 2), (4, 1)])
PARAMS: dict[str, Any] = {"amplitude": 1.2, "lengthscale": 0.8, "noise": 1.0, "item_share": 0.3}
KERNEL: dict[str, Any] = {key: PARAMS[key] for key in ("amplitude", "lengthscale", "item_share")}
ORDERS = events([[0, 1, 2], [3, (4, 5)]], 6)


def prior_of(program: Any, params: dict[str, Any], *args: Any, **options: Any) -> Any:
    """The prior of skills that a program samples, and that of new ones."""
    program = handlers.seed(handlers.substitute(program, params), 0)
    trace: Any = handlers.trace(program).get_trace(*args, item_effects=True, **options)
    return trace["f"]["fn"], trace.get("f_new", {}).get("fn"), trace["f"]["value"]


def covariance() -> np.ndarray:
    """That of old and new items, entry by entry."""
    items = np.concatenate([X, NEW])
    found = np.empty((9, 9))
    for i in range(9):
        for j in range(9):
            apart = np.sum((items[i] - items[j]) ** 2) / 0.8**2
            found[i, j] = 1.2**2 * (0.7 * np.exp(-apart / 2) + (0.3 if i == j else 0.0))
    return found


def test_a_program_adds_a_variance_of_each_item_alone():
    prior, new, f = prior_of(preference_gp, PARAMS, X, PAIRS, X_new=NEW)
    joint = covariance()
    np.testing.assert_allclose(prior.covariance_matrix, joint[:6, :6], atol=1e-5)
    weights = np.linalg.solve(joint[:6, :6], joint[:6, 6:])
    np.testing.assert_allclose(new.loc, weights.T @ np.asarray(f), atol=1e-5)
    left = joint[6:, 6:] - weights.T @ joint[:6, 6:]
    np.testing.assert_allclose(new.covariance_matrix, left, atol=1e-5)
    ordered, _, _ = prior_of(preference_orders, KERNEL, X, *ORDERS)
    np.testing.assert_allclose(ordered.covariance_matrix, joint[:6, :6], atol=1e-5)
    shared, _, _ = prior_of(preference_gp, PARAMS, X, PAIRS, rank=6)
    np.testing.assert_allclose(shared.covariance_matrix, joint[:6, :6], atol=1e-3)


def test_new_items_are_those_of_the_program_that_has_them():
    def run(**options: Any) -> Any:
        engine = EP(preference_gp, hyperparameters=PARAMS)
        return engine.run(jax.random.key(0), X, PAIRS, item_effects=True, **options)

    small = EPSkills(run())
    [part] = with_new_items(small, NEW)
    joint = run(X_new=NEW)
    np.testing.assert_allclose(part.mean[:6], small.result.mean["f"], atol=1e-5)
    np.testing.assert_allclose(part.covariance[:6, :6], small.result.covariance["f"], atol=1e-5)
    np.testing.assert_allclose(part.mean[6:], joint.mean["f_new"], atol=1e-5)
    np.testing.assert_allclose(np.diag(part.covariance)[6:], joint.sd["f_new"] ** 2, atol=1e-5)
    [alone] = at_new_items(small, NEW, joint=False)
    np.testing.assert_allclose(alone.covariance.own, np.diag(part.covariance)[6:], atol=1e-9)


def test_items_of_the_same_features_have_skills_of_their_own():
    """What all share cancels, so differences are those of independent skills."""
    same = {name: [1.0] for name in "abcdef"}
    games = [("abcdef"[i], "abcdef"[j]) for i, j in PAIRS]
    alike = Ranker(item_features=same, standardize=False, hyperparameters=PARAMS).fit(games)
    free = Ranker(items=list("abcdef"), hyperparameters={"scale": 1.2 * 0.3**0.5}).fit(games)
    found, true = (np.array(r.predict(list("abcdef"))[0]) for r in (alike, free))
    np.testing.assert_allclose(found - found.mean(), true - true.mean(), atol=2e-3)
    asked = [("a", "b"), ("c", "f")]
    np.testing.assert_allclose(alike.predict_proba(asked), free.predict_proba(asked), atol=2e-3)
    by_row = PreferenceGP(standardize=False, hyperparameters="prior").fit(np.ones((6, 1)), PAIRS)
    assert np.ptp(by_row.predict()[0]) < 0.01


@pytest.mark.slow
def test_effects_of_items_are_learned_where_they_are():
    """Wins that follow from nothing that features say, and wins that follow from them alone."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(12, 2))
    pairs = np.array([rng.choice(12, 2, replace=False) for _ in range(400)])
    shares = []
    for skill in (1.2 * rng.normal(size=12), 1.2 * features[:, 0]):
        margin = skill[pairs[:, 0]] - skill[pairs[:, 1]] + 1.4 * rng.normal(size=len(pairs))
        won = np.where(margin[:, None] > 0, pairs, pairs[:, ::-1])
        ranker = Ranker(items=range(12), item_features=features).fit(won)
        shares.append(float(ranker.params_["item_share"]))
    assert shares[0] > 4.0 * shares[1]
