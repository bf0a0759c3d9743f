"""Orders as events: the program, its elimination of performances, and Plackett-Luce."""

from itertools import permutations
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from numpyro.infer import MCMC, NUTS, Predictive
from refusals import refused
from scipy import stats

from bayesrank import Ranker, _memory, to_arviz
from bayesrank._memory import TooLargeError
from bayesrank.diagnostics import quick
from bayesrank.distributions import PlackettLuce, Thurstone
from bayesrank.infer import EP
from bayesrank.models.orders import STEP, events, thurstone_orders
from bayesrank.solvers.orders import OrdersEP

KEY = jax.random.key(0)


@pytest.mark.slow
def test_an_order_that_many_gave_is_so_many_events():
    """EP works out one of equal events; the program itself, as NUTS takes it, has all."""
    orders, counts = [[2, 0, 1], [0, (2, 1)], [2, 1], [1, 2]], [3, 1, 5, 2]
    many = [order for order, k in zip(orders, counts, strict=True) for _ in range(k)]
    params, exact = {"scale": 1.3}, {"max_sweeps": 500, "tol": 1e-10}
    whole = EP(thurstone_orders, **exact).run(KEY, 3, *events(many, 3), params=params)
    counted = events(orders, 3, counts)
    for engine in (OrdersEP, EP):
        found = engine(thurstone_orders, **exact).run(KEY, 3, *counted, params=params)
        assert_allclose(found.mean["f"], whole.mean["f"], atol=1e-8)
        assert_allclose(found.covariance["f"], whole.covariance["f"], atol=1e-8)
        assert_allclose(found.log_evidence, whole.log_evidence, atol=1e-8)
    assert found.mean["noise"].shape == (11, 3)


def test_ten_million_equal_orders_against_quadrature():
    """Orders of two items are comparisons, whose posterior is an integral over the gap."""
    counts, scale = np.array([10**7, 3 * 10**6]), np.sqrt(2.0 + 2.0 * STEP**2)
    ranker = Ranker(hyperparameters={"scale": 1.0})
    ranker.fit([["a", ["b"]], ["b", ["a"]]], sample_weight=counts)
    gap = np.linspace(1.03, 1.05, 20001)
    logs = counts @ np.stack([stats.norm.logcdf(gap / scale), stats.norm.logsf(gap / scale)])
    logs += stats.norm.logpdf(gap, 0.0, np.sqrt(2.0))
    weights = np.exp(logs - logs.max())
    evidence = logs.max() + np.log(weights.sum() * (gap[1] - gap[0]))
    weights /= weights.sum()
    mean = weights @ gap
    sd = np.sqrt(weights @ (gap - mean) ** 2)
    (first, second), covariance = ranker.predict()[0], ranker.result_.covariance["f"]
    spread = covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1]
    assert_allclose(first - second, mean, atol=1e-3 * sd)
    assert_allclose(np.sqrt(spread), sd, rtol=1e-3)
    assert_allclose(ranker.log_evidence_, evidence, atol=1e-3)


@pytest.mark.slow
def test_counts_stay_weights_in_draws_for_arviz_and_in_files(tmp_path):
    counts = [10**7, 3 * 10**6]
    ranker = Ranker(hyperparameters={"scale": 1.0}, num_samples=10)
    ranker.fit([["a", ["b"]], ["b", ["a"]]], sample_weight=counts)
    data = ranker.to_arviz()
    assert data.observed_data["order"].shape == (2, 1)
    assert data.constant_data["counts"].values.tolist() == counts
    ranker.save(tmp_path / "ranker.npz")
    assert (tmp_path / "ranker.npz").stat().st_size < 10_000
    again = Ranker.load(tmp_path / "ranker.npz")
    assert_allclose(again.predict(), ranker.predict())
    assert again.to_arviz().observed_data["order"].shape == (2, 1)
    again.result.print_summary()


def test_events_that_do_not_fit_into_memory_are_refused(monkeypatch):
    monkeypatch.setattr(_memory, "available", lambda: 10**9)
    program = numpyro.handlers.seed(thurstone_orders, 0)
    data = events([[0, 1], [1, 0]], 2, [10**7, 10**7])
    with pytest.raises(TooLargeError, match="20,000,000 events one by one take"):
        program(2, *data)


def test_counts_of_orders_are_positive_whole_numbers():
    orders = [[2, 0, 1], [1, (0, 2)]]
    wrong: list[Any] = [[1], [1, 0], [1, 1.5], ["1", "2"]]
    for counts in wrong:
        refused("pass a positive whole number for each of the 2", events, orders, 3, counts)
        program = numpyro.handlers.seed(thurstone_orders, 0)
        refused("pass a positive whole number", program, 3, *events(orders, 3)[:3], counts)


def simulated(count: int, num_items: int, length: int, seed: int) -> tuple[np.ndarray, list]:
    rng = np.random.default_rng(seed)
    skill = rng.normal(size=num_items)
    orders = []
    for _ in range(count):
        shown = rng.permutation(num_items)[:length]
        orders.append(shown[np.argsort(-(skill[shown] + rng.normal(size=length)))].tolist())
    return skill, orders


def test_events_state_the_conditions_between_neighbouring_groups():
    made = events([[2, 0, 1, 3], [1, (0, 2)], [(0, 3), (1, 2)]], 4)
    assert made.items.tolist() == [[2, 0, 1, 3], [1, 0, 2, -1], [0, 3, 1, 2]]
    pairs = [
        [(b, w) for b, w in zip(*row, strict=True) if b >= 0]
        for row in zip(made.better.tolist(), made.worse.tolist(), strict=True)
    ]
    assert pairs == [
        [(0, 1), (1, 2), (2, 3)],
        [(0, 1), (0, 2)],
        [(0, 2), (0, 3), (1, 2), (1, 3)],
    ]


@pytest.mark.parametrize(
    ("orders", "message"),
    [
        ([], "orders is empty"),
        ([[0, 1], [2]], "has 1 groups in event 1"),
        ([[0, ()]], "or an empty one"),
        ([[0, 1, 0]], "names \\[0, 1, 0\\] in event 0"),
        ([[0.9, 1.2]], "as event 0; pass the items' numbers"),
        ([[True, False]], "pass the items' numbers"),
        ([[0, 5]], "name different items, from 0 to 3"),
    ],
)
def test_refuses_what_are_no_events(orders, message):
    refused(message, events, orders, 4)


def test_the_program_refuses_events_of_other_items():
    with pytest.raises(ValueError, match="items is 3 in row 0, column 1; pass numbers from 0 to 2"):
        numpyro.handlers.seed(thurstone_orders, 0)(3, *events([[0, 3]], 4))
    with pytest.raises(ValueError, match=r"items has shape \(2,\)"):
        numpyro.handlers.seed(thurstone_orders, 0)(3, np.array([0, 1]), *np.array([[[0]], [[1]]]))


def test_posterior_of_one_order_is_that_of_simulation():
    """Skills and performances drawn from the prior, those in another order thrown away."""
    rng = np.random.default_rng(0)
    skill = rng.normal(size=(400_000, 3))
    performance = skill + rng.normal(size=skill.shape)
    kept = skill[(performance[:, 2] > performance[:, 0]) & (performance[:, 0] > performance[:, 1])]
    result = EP(thurstone_orders).run(KEY, 3, *events([[2, 0, 1]], 3), params={"scale": 1.0})
    error = kept.std(0) / np.sqrt(len(kept))
    assert_allclose(result.mean["f"], kept.mean(0), atol=4 * error.max() + 0.005)
    assert_allclose(result.sd["f"], kept.std(0), rtol=0.01)
    assert_allclose(np.exp(result.log_evidence), 1 / 6, rtol=0.01)


def joint(num_items, items, better, worse):
    """The program without the plate that says which performances belong together."""
    with numpyro.plate("items", num_items):
        f = jnp.asarray(numpyro.sample("f", dist.Normal(0.0, 1.2)))
    noise = numpyro.sample("noise", dist.Normal(0.0, 1.0).expand(items.shape).to_event(2))
    performance = f[jnp.maximum(items, 0)] + noise
    rows = np.arange(len(items))[:, None]
    margin = performance[rows, jnp.maximum(better, 0)] - performance[rows, jnp.maximum(worse, 0)]
    law = Thurstone(margin, 0.02).mask(better >= 0)
    numpyro.sample("order", law.to_event(2), obs=jnp.ones(better.shape, int))


@pytest.mark.slow
def test_elimination_gives_what_all_performances_together_give():
    _, orders = simulated(70, 6, 5, seed=1)
    orders += [[0, 3, (1, 2, 4, 5)], [5, (0, 1)]]
    data = events(orders, 6)
    fast = EP(thurstone_orders).run(KEY, 6, *data, params={"scale": 1.2}, num_samples=5)
    slow = EP(joint).run(KEY, 6, *data[:3], num_samples=5)
    assert fast.converged and slow.converged
    assert_allclose((fast.mean["f"] - slow.mean["f"]) / slow.sd["f"], 0, atol=1e-4)
    assert_allclose(fast.sd["f"], slow.sd["f"], rtol=1e-4)
    assert_allclose(fast.mean["noise"], slow.mean["noise"], atol=1e-3)
    assert_allclose(fast.log_evidence, slow.log_evidence, atol=1e-3)


@pytest.mark.slow
def test_many_performances_are_integrated_over_and_not_kept():
    skill, orders = simulated(900, 8, 5, seed=2)
    result = EP(thurstone_orders).run(KEY, 8, *events(orders, 8), params={"scale": 1.0})
    assert result.marginalized_sites == ("noise",) and set(result.mean) == {"f"}
    draws = result.get_samples()["f"]
    centred = draws - draws.mean(axis=1, keepdims=True)
    off = (skill - skill.mean() - centred.mean(0)) / centred.std(0)
    assert (np.abs(off) < 3.5).all()
    data = to_arviz(result, num_predictive=0)
    assert "f" in data.posterior
    groups = getattr(data, "children", None) or data.groups()
    assert "log_likelihood" not in groups


def across(y):
    level = numpyro.sample("level", dist.Normal(0.0, 1.0))
    with numpyro.plate("groups", len(y)):
        own = numpyro.sample("own", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Bernoulli(logits=level + own + jnp.roll(own, 1)), obs=y)


@pytest.mark.slow
def test_refuses_a_plate_whose_elements_see_each_other():
    match = "'y' stands in plate 'groups' and sees latents of it across"
    with pytest.raises(ValueError, match=match):
        EP(across).run(KEY, np.arange(400) % 2)


def test_effects_of_groups_are_found_in_any_program():
    """Elimination of effects of raters gives the Gaussian posterior in closed form."""
    rng = np.random.default_rng(4)
    item, y = rng.integers(4, size=(350, 3)), rng.normal(size=(350, 3))

    def ratings(item, y):
        with numpyro.plate("items", 4):
            f = jnp.asarray(numpyro.sample("f", dist.Normal(0.0, 1.0)))
        with numpyro.plate("raters", 350, dim=-2):
            level = numpyro.sample("level", dist.Normal(0.0, 0.7))
            with numpyro.plate("each", 3):
                numpyro.sample("y", dist.Normal(f[item] + level, 0.5), obs=y)

    result = EP(ratings).run(KEY, item, y)
    rows = np.zeros((1050, 354))
    rows[np.arange(1050), item.ravel()] = 1
    rows[np.arange(1050), 4 + np.arange(1050) // 3] = 1
    prior = np.r_[np.ones(4), np.full(350, 0.7**-2)]
    covariance = np.linalg.inv(np.diag(prior) + 4 * rows.T @ rows)
    assert_allclose(result.covariance["f"], covariance[:4, :4], atol=1e-9)
    assert_allclose(result.joint_mean, covariance @ (4 * rows.T @ y.ravel()), atol=1e-8)


UTILITIES = np.log([0.5, 0.2, 0.2, 0.1])


@pytest.mark.parametrize("length", [1, 2, 4])
def test_plackett_luce_is_a_distribution_of_orders(length):
    law = PlackettLuce(UTILITIES, length)
    every = np.array(list(permutations(range(4), length)))
    probability = np.exp(jax.jit(law.log_prob)(every))
    assert_allclose(probability.sum(), 1.0, rtol=1e-5)
    worth = np.exp(UTILITIES)
    for order, p in zip(every, probability, strict=True):
        left, expected = worth.sum(), 1.0
        for item in order:
            expected, left = expected * worth[item] / left, left - worth[item]
        assert_allclose(p, expected, rtol=1e-5)
    draws = np.asarray(jax.jit(lambda key: law.sample(key, (20_000,)))(KEY))
    seen = np.array([(draws == order).all(1).sum() for order in every])
    assert stats.chisquare(seen, probability / probability.sum() * len(draws)).pvalue > 1e-3


@pytest.mark.slow
def test_plackett_luce_broadcasts_and_refuses():
    law = PlackettLuce(jnp.zeros((3, 4)))
    assert law.sample(KEY, (2,)).shape == (2, 3, 4)
    assert_allclose(law.log_prob(np.arange(4)), -np.log(24) * np.ones(3), rtol=1e-6)
    assert law.log_prob(np.array([0, 0, 1, 2]))[0] == -np.inf
    for wrong in ([0, 1, 2, 4], [0, 1, 2, -1]):
        law = PlackettLuce(jnp.zeros((3, 4)), validate_args=False)
        assert law.log_prob(np.array(wrong))[0] == -np.inf
    refused("length is 5; pass how many of the 4 items", PlackettLuce, jnp.zeros(4), 5)
    refused("pass a random key", law.sample, None)


def luce(orders=None):
    u = numpyro.sample("u", dist.Normal(0.0, 1.0).expand([4]).to_event(1))
    with numpyro.plate("orders", 12):
        numpyro.sample("order", PlackettLuce(u), obs=orders)


@pytest.mark.slow
def test_plackett_luce_under_nuts():
    """Against draws from the prior, weighted by the likelihood."""
    drawn = Predictive(luce, num_samples=2)(jax.random.key(3))["order"]
    assert drawn.shape == (2, 12, 4)
    orders = drawn[0]
    slope = jax.grad(lambda u: PlackettLuce(u).log_prob(orders).sum())(jnp.zeros(4))
    assert np.isfinite(slope).all()
    assert_allclose(slope.sum(), 0.0, atol=1e-4)
    prior = np.random.default_rng(0).normal(size=(50_000, 4))
    logs = np.asarray(PlackettLuce(prior[:, None]).log_prob(orders).sum(1))
    weights = np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum()
    mean = weights @ prior
    sd = np.sqrt(weights @ (prior - mean) ** 2)
    mcmc = MCMC(NUTS(luce), num_warmup=150, num_samples=500, progress_bar=False)
    mcmc.run(KEY, orders)
    draws = np.asarray(mcmc.get_samples()["u"])
    error = 4.0 * np.sqrt((weights**2).sum())
    assert_allclose((draws.mean(0) - mean) / sd, 0.0, atol=error + 0.2)
    assert_allclose(draws.std(0), sd, rtol=0.2)


@pytest.mark.slow
def test_ep_refuses_plackett_luce():
    orders = np.tile(np.arange(4), (12, 1))
    refused("'order' depends on more than two affine.*or use NUTS", EP(luce).run, KEY, orders)


ORDERS = [["tea", "coffee", "milk"], ["coffee", ["tea", "milk"]], ["tea", "milk"], ["milk", "tea"]]
NUMBERS = [[2, 0, 1], [0, (2, 1)], [2, 1], [1, 2]]  # of coffee, milk, tea


@pytest.fixture(scope="module")
def ranker():
    return Ranker(hyperparameters={"scale": 1.3}).fit(ORDERS, sample_weight=[3, 1, 1, 2])


def test_the_estimator_is_the_program_by_names(ranker):
    data = events(NUMBERS, 3, [3, 1, 1, 2])
    result = OrdersEP(thurstone_orders).run(KEY, 3, *data, params={"scale": 1.3})
    assert ranker.names_ == ["coffee", "milk", "tea"]
    mean, sd = ranker.predict()
    assert_allclose(mean, result.mean["f"], atol=1e-8)
    assert_allclose(sd, result.sd["f"], atol=1e-8)
    assert_allclose(ranker.predict(["tea"])[0], mean[2])
    variance = result.covariance["f"]
    margin = variance[2, 2] + variance[1, 1] - 2 * variance[2, 1]
    expected = stats.norm.cdf((mean[2] - mean[1]) / np.sqrt(2.0 + margin))
    assert_allclose(ranker.predict_proba([("tea", "milk")]), [expected], rtol=1e-6)
    assert ranker.rank().names[0] == "tea"


def test_a_check_against_nuts_that_would_never_end_is_left_out_or_refused(monkeypatch):
    ranker = Ranker(hyperparameters={"scale": 1.0})
    ranker.fit([["a", ["b"]], ["b", ["a"]]], sample_weight=[10**7, 10**7])
    claim = quick.skills_of_result(ranker.result)
    monkeypatch.setattr(_memory, "available", lambda: 2 * 10**10)  # for the events, not the draws
    assert quick.crosschecked_skills(claim, "quick", 0, print).check is None
    with pytest.raises(TooLargeError, match=r"NUTS's draws of 40,000,002 latents take"):
        quick.crosschecked_skills(claim, "full", 0, print)


@pytest.mark.slow
def test_the_estimator_averages_over_the_scale():
    """Against the average over a grid of scales, weighted by evidence and prior."""
    ranker = Ranker(random_state=1).fit(ORDERS, sample_weight=[3, 1, 1, 2])
    data, engine = events(NUMBERS, 3, [3, 1, 1, 2]), EP(thurstone_orders)
    logs, means = [], []
    grid = np.linspace(-3.0, 3.0, 25)
    for value in grid:
        result = engine.run(KEY, 3, *data, params={"scale": np.exp(value)}, num_samples=1)
        logs.append(result.log_evidence + stats.norm.logpdf(value))
        means.append(result.mean["f"])
    weights = np.exp(np.array(logs) - max(logs))
    weights /= weights.sum()
    assert_allclose(ranker.predict()[0], weights @ np.array(means), atol=0.02)
    scale = weights @ np.exp(grid)
    spread = np.sqrt(weights @ (np.exp(grid) - scale) ** 2)
    assert_allclose(ranker.params_["scale"], scale, atol=0.1 * spread)


@pytest.mark.slow
def test_skills_of_items_with_features():
    """Features so far apart that the process is independent from item to item."""
    X = np.array([[-1.0], [0.0], [1.0]])
    given = {"amplitude": 1.3, "lengthscale": 0.01}
    ranker = Ranker(item_features=X, hyperparameters=given).fit(NUMBERS)
    alone = Ranker(hyperparameters={"scale": 1.3}).fit(NUMBERS)
    assert_allclose(ranker.predict(), alone.predict(), atol=1e-4)
    assert ranker.names_ == [0, 1, 2]
    table = pd.DataFrame({"x": [1.0, 0.0, -1.0]}, index=["tea", "milk", "coffee"])
    options = {"standardize": False, "ard": True, "hyperparameters": "prior"}
    named = Ranker(item_features=table, **options).fit(ORDERS)
    assert named.names_ == ["tea", "milk", "coffee"]
    again = Ranker(item_features=table.to_numpy(), items=["tea", "milk", "coffee"], **options).fit(
        ORDERS
    )
    assert_allclose(named.predict(), again.predict())


def test_the_estimator_reads_groups_in_arrays_and_predicts_means_alone(ranker):
    arrays = [np.array(ORDERS[0]), ["coffee", np.array(["tea", "milk"])], *map(tuple, ORDERS[2:])]
    same = Ranker(hyperparameters={"scale": 1.3}).fit(arrays, sample_weight=[3, 1, 1, 2])
    assert_allclose(same.predict(["milk"], return_std=False), ranker.predict(["milk"])[0])


def test_a_file_grows_with_the_items_and_not_with_the_orders(ranker, tmp_path):
    """Noise of performances is integrated over: neither the result nor the file has it."""
    assert ranker.result.latent_sites == ("f",)
    assert ranker.result.marginalized_sites == ("noise",)
    ranker.save(tmp_path / "ranker.npz")
    assert (tmp_path / "ranker.npz").stat().st_size < 10_000
    with pytest.raises(ValueError, match="EP keeps no posterior of noise; compare with NUTS"):
        _ = ranker.result.accuracy


REFUSED: list[tuple[dict[str, Any], Any, str]] = [
    ({}, "abc", "comparisons is a str; pass a table, pairs"),
    (
        {},
        [["a", "b", "c"], ["a", {"b": 1}]],
        "the order in row 1 has a dict in row 0; an id is one",
    ),
    ({}, pd.DataFrame({"first": ["a"], "second": ["b"]}), "none of the columns .first., .second."),
    ({}, [[]], "the order in row 0 has no names; pass a list of names"),
    ({}, [["a", "b"], ["a", "b", "a"]], "the order in row 1 names 'a' twice; keep one"),
    ({}, [*np.ma.masked_equal([[1, 2, 3], [1, 2, 9]], 9)], "the order in row 1 has no id in row 0"),
    ({}, [["a"]], "there is one item, 'a'"),
    (
        {"items": ["tea", "milk"]},
        [["tea", "milk", "water"]],
        "name 'water', which is not among the items",
    ),
    ({"items": ["tea"], "item_features": np.eye(2)}, ORDERS, "names 1, but item_features has 2"),
]


@pytest.mark.parametrize(("options", "orders", "message"), REFUSED)
def test_the_estimator_refuses(options, orders, message):
    refused(message, Ranker(hyperparameters="prior", **options).fit, orders)


@pytest.mark.parametrize(("weight", "fix"), [(-1, "from zero on"), (1.5, "how many people gave")])
def test_weights_of_orders_are_counts_of_people(weight, fix):
    with pytest.raises(ValueError, match=f"sample_weight is {weight} in row 1; pass .*{fix}"):
        Ranker().fit(ORDERS, sample_weight=[1, weight, 1, 1])


def test_an_item_that_was_in_no_order_is_not_known(ranker):
    refused("item 'water' in row 0 is not known; name an item", ranker.predict, ["water"])
