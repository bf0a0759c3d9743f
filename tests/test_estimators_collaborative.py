"""The collaborative estimators: ids of any kind, predictions, and what they refuse."""

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from refusals import refused
from scipy.stats import norm
from sklearn.model_selection import GridSearchCV

from bayesrank import CollaborativeGP, CollaborativeOrdinalGP
from bayesrank.estimators.collaborative_features import BaseKernels, corating_kernel

pytestmark = pytest.mark.filterwarnings("ignore:EM has not converged")
NAMES = ["Anchovy", "Basil", "Chard", "Dill", "Endive"]


def share_of(model) -> Any:
    """Share of the numbers' variance that a fit took for noise."""
    return model.result.likelihood.share


@pytest.fixture(scope="module")
def table():
    """Two kinds of users, who like opposite items."""
    rng = np.random.default_rng(0)
    rows = []
    for user in range(24):
        for item in rng.permutation(5)[:4]:
            taste = (1 if user % 2 else -1) * (item - 2) + 0.4 * rng.normal()
            level = int(np.clip(np.round(taste / 1.2), -1, 1)) + 2
            rows.append((f"user {user}", NAMES[item], level))
    return pd.DataFrame(rows, columns=["user", "item", "rating"])


@pytest.fixture(scope="module")
def fitted(table):
    return CollaborativeOrdinalGP(max_iterations=30, strength=5.0).fit(table)


@pytest.fixture(scope="module")
def numbers(table):
    return CollaborativeGP(max_iterations=30, strength=5.0).fit(
        table.user, table.item, table.rating
    )


def test_unrated_items_are_predicted_by_taste(table, fitted):
    rated = set(zip(table.user, table.item, strict=True))
    right = [
        fitted.predict([f"user {u}"], [NAMES[i]])[0] == (3 if (i > 2) == bool(u % 2) else 1)
        for u in range(24)
        for i in (0, 4)
        if (f"user {u}", NAMES[i]) not in rated
    ]
    assert len(right) > 5 and np.mean(right) > 0.85


def test_predictions_are_of_the_probabilities(fitted):
    users, items = ["user 1", "user 2", "user 3"], ["Dill", "Chard", "Basil"]
    probability = fitted.predict_proba(users, items)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    np.testing.assert_array_equal(fitted.levels_, [1, 2, 3])
    mode = fitted.predict(users, items, kind="mode")
    np.testing.assert_array_equal(mode, probability.argmax(axis=1) + 1)
    below = np.cumsum(probability, axis=1)
    median = fitted.predict(users, items)
    for row, level in enumerate(median):
        assert below[row, level - 1] >= 0.5 and (level == 1 or below[row, level - 2] < 0.5)
    with pytest.raises(ValueError, match="kind is 'mean'"):
        fitted.predict(users, items, kind="mean")


def test_recommendations_leave_out_what_was_rated(table, fitted):
    rated = set(table.item[table.user == "user 1"])
    (best,) = fitted.recommend("user 1")
    assert best.item not in rated
    everything = fitted.recommend("user 1", exclude_rated=False)
    assert [x.mean for x in everything] == sorted((x.mean for x in everything), reverse=True)
    mean, sd = fitted.predict_latent(["user 1"], [best.item])
    np.testing.assert_allclose((best.mean, best.sd), (mean[0], sd[0]))


def test_similar_items_go_by_the_shared_kernel(fitted):
    assert fitted.similar("Anchovy", 1)[0].item == "Basil"
    assert fitted.similar("Anchovy")[-1].correlation < 0
    assert fitted.shared_mean_.shape == (5,)
    np.testing.assert_allclose(fitted.shared_kernel_, fitted.shared_kernel_.T)


def test_names_and_order_of_rows_mean_nothing(table, fitted):
    # Acceleration goes by the items' order, which is that of their first rows.
    shuffled = pd.concat([table[:8], table[8:].sample(frac=1.0, random_state=1)])
    users = [int(name.split()[1]) for name in shuffled.user]
    other = CollaborativeOrdinalGP(max_iterations=30, strength=5.0)
    other.fit(users, list(shuffled["item"]), list(shuffled.rating))
    np.testing.assert_allclose(
        other.predict_proba([3, 4], ["Dill", "Basil"]),
        fitted.predict_proba(["user 3", "user 4"], ["Dill", "Basil"]),
        atol=5e-4,  # after 30 iterations the end is near, and not reached
    )


@pytest.mark.slow
def test_new_users_need_few_ratings(fitted):
    new = fitted.with_users(["x", "x", "y"], ["Anchovy", "Endive", "Endive"], [3, 1, 3])
    x, _ = new.predict_latent(["x"] * 5, NAMES)
    y, _ = new.predict_latent(["y"] * 5, NAMES)
    assert x[1] > x[3] and y[3] > y[1]
    refused("level 4 is not one of", fitted.with_users, ["x"], ["Dill"], [4])
    with pytest.raises(ValueError, match="item 'Leek' is not known; add it by with_items"):
        fitted.with_users(["x"], ["Leek"], [1])


def test_new_items_come_by_their_features(table):
    features = pd.DataFrame({"position": np.arange(5.0)}, index=NAMES)
    model = CollaborativeOrdinalGP(max_iterations=15, strength=5.0)
    model.fit(table, item_features=features)
    more = model.with_items(["Fennel"], [[4.2]])
    odd, _ = more.predict_latent(["user 1"], ["Fennel"])
    even, _ = more.predict_latent(["user 2"], ["Fennel"])
    assert odd[0] > 0 > even[0] or odd[0] - even[0] > 0.5
    with pytest.raises(ValueError, match="item 'Fennel' is not known; add it by with_items"):
        model.predict(["user 1"], ["Fennel"])
    refused("item 'Dill' is known already", model.with_items, ["Dill"], [[1.0]])
    refused(r"item_features has shape \(1, 2\)", model.with_items, ["Fennel"], [[1.0, 2.0]])
    with pytest.raises(ValueError, match="item 'Endive' has no row in item_features"):
        model.fit(table, item_features=features.iloc[:4])
    kept = pickle.loads(pickle.dumps(model)).with_items(["Fennel"], {"Fennel": 4.2})
    np.testing.assert_array_equal(kept.predict_latent(["user 1"], ["Fennel"])[0], odd)
    # Rows of a table go by their ids, columns by their names.
    by_id = pd.DataFrame({"position": [0.1, 4.2]}, index=["Garlic", "Fennel"])
    both = model.with_items(["Fennel", "Garlic"], by_id)
    np.testing.assert_allclose(both.predict_latent(["user 1"], ["Fennel"])[0], odd)
    with pytest.raises(ValueError, match=r"the columns \['size'\]; those of fit were \['position'"):
        model.with_items(["Fennel"], pd.DataFrame({"size": [4.2]}, index=["Fennel"]))
    refused("items is 'Fennel'; pass a list of ids", model.with_items, "Fennel", [[4.2]])
    with pytest.raises(ValueError, match="item 'Fennel' is known already"):
        model.with_items(["Fennel", "Fennel"], [[4.2], [1.0]])


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ([[1.0], [2.0]], "item_features is a list; pass a DataFrame of pandas"),
        ({"x": [1.0, 2.0], "y": [1.0]}, "rows of unlike length"),
        (pd.DataFrame({"size": [1, 2, 3]}, index=["x", "y", "y"]), "two rows for item 'y'"),
        (pd.DataFrame({"size": [1, None]}, index=["x", "y"]), "has nan for item 'y' in column 's"),
        (pd.DataFrame({"size": [1, "big"]}, index=["x", "y"]), "has big for item 'y' in column"),
        (pd.DataFrame(index=["x", "y"]), r"item_features has shape \(2, 0\)"),
    ],
)
def test_features_that_cannot_be_used_are_named(features, message):
    refused(message, CollaborativeGP().fit, ["a", "b"], ["x", "y"], [1.0, 2.0], features)


@pytest.mark.slow
def test_ids_are_of_any_kind(table, fitted):
    ids = [("user", int(name.split()[1])) for name in table.user]
    movielens = pd.DataFrame(
        {"userId": ids, "movieId": table["item"].astype("category"), "rating": table.rating}
    ).astype({"rating": "Int64"})
    other = CollaborativeOrdinalGP(max_iterations=30, strength=5.0).fit(movielens)
    theirs = other.predict_proba([("user", 3), ("user", 4)], ["Dill", "Basil"])
    ours = fitted.predict_proba(["user 3", "user 4"], ["Dill", "Basil"])
    np.testing.assert_allclose(theirs, ours, atol=1e-9)
    assert other.recommend(("user", 3))[0].item == fitted.recommend("user 3")[0].item
    new = fitted.with_users(pd.DataFrame({"user": ["x"], "item": ["Dill"], "rating": [3]}))
    assert list(new.users_) == ["x"] and repr(new.users_) == "Labels(['x'])"


def test_numbers_are_predicted_with_intervals(table, numbers):
    low, high = numbers.predict_interval(table.user, table.item, 0.9)
    inside = (low <= table.rating) & (table.rating <= high)
    assert 0.8 < inside.mean() <= 1.0
    predicted = numbers.predict(table.user, table.item)
    assert np.abs(predicted - table.rating).mean() < 0.5
    with pytest.raises(ValueError, match="levels is nan in row 1; remove the row"):
        CollaborativeGP().fit(["a", "b"], ["x", "y"], levels=[1.0, np.nan])
    with pytest.raises(ValueError, match="level is 90; pass a number above 0 and below 1"):
        numbers.predict_interval(["user 1"], ["Dill"], 90)
    with pytest.raises(ValueError, match="has no row in item_features"):
        numbers.fit(["a", "b"], ["x", "y"], [1.0, 2.0], {"x": 1.0})  # and keeps what it was
    np.testing.assert_array_equal(numbers.predict(table.user, table.item), predicted)


def test_individual_models_share_nothing(table):
    options = {"collaborative": False, "max_iterations": 20}
    whole = CollaborativeGP(**options).fit(table.user, table.item, table.rating)
    mine = table[table.user.isin(["user 1", "user 2"])]
    alone = CollaborativeGP(**options).fit(mine.user, mine.item, mine.rating)
    items = sorted(set(mine.item[mine.user == "user 1"]))
    users = ["user 1"] * len(items)
    np.testing.assert_allclose(whole.predict(users, items), alone.predict(users, items), atol=0.3)
    refused("individual models share nothing", whole.with_users, ["x"], ["Dill"], [1])


def test_arviz_gets_draws_with_users_and_items_as_coordinates(table, fitted):
    data = fitted.to_arviz(["user 3", "user 4"], num_samples=4000)
    f = data["posterior"]["f"]
    assert f.dims == ("chain", "draw", "user", "item")
    assert list(f.coords["user"].values) == ["user 3", "user 4"]
    names = list(f.coords["item"].values)
    mean, sd = fitted.predict_latent(["user 4"] * 5, names)
    draws = f.sel(user="user 4").values[0]
    assert np.all(np.abs(draws.mean(0) - mean) < 4.5 * sd / np.sqrt(4000))
    np.testing.assert_allclose(draws.std(0), sd, rtol=0.06)
    fixed, state = data["constant_data"], fitted.result.state
    assert fixed["Sigma"].dims == ("item", "item_other")
    assert float(fixed["level"]) == state.level
    np.testing.assert_array_equal(fixed["scales"], state.scales)
    seen, theirs = data["observed_data"], table[table.user.isin(["user 3", "user 4"])]
    np.testing.assert_array_equal(seen["rating"], theirs.rating)
    np.testing.assert_array_equal(seen["rating_item"], theirs["item"])
    refused(r"users is \[\]; name at least one, and each once", fitted.to_arviz, [])
    refused("num_samples is 0; pass a whole number from 1", fitted.to_arviz, num_samples=0)


@pytest.mark.parametrize(
    ("args", "options", "message"),
    [
        ((["a", "a"], ["x", "x"], [1, 2]), {}, "user 'a' rates item 'x' in row 0 and again in row"),
        ((["a", "b"], ["x", "y"], [1.5, 2]), {}, "levels is 1.5 in row 0; pass whole numbers"),
        ((["a", "b"], ["x", "y"], [1, 3]), {}, "nobody used level 2 of 1 to 3"),
        ((["a", "b"], ["x", "y"], [2, 2]), {}, "levels are all the same"),
        ((["a", "b"], ["x", "y"], ["u", "v"]), {}, "levels has dtype"),
        ((["a", "b"], ["x", "y"], [1, None]), {}, "levels is nan in row 1; remove the row"),
        ((["a", "b"], ["x", "y"], [1, 10**12]), {}, "nobody used level 2 of 1 to 1000000000000"),
        ((["a", "b"], ["x"], [1, 2]), {}, "there are 2 users, 1 items"),
        ((["a", None], ["x", "y"], [1, 2]), {}, "users has no id in row 1; remove the row"),
        ((["a", "b"], [np.nan, "y"], [1, 2]), {}, "items has no id in row 0"),
        ((["a", "b"], [["x"], ["y"]], [1, 2]), {}, "items has a list in row 0; an id is one"),
        (("ab", ["x", "y"], [1, 2]), {}, "users is 'ab'; pass a list of ids"),
        ((np.ones((3, 3)),), {}, "items is missing; pass users, items and levels, or a DataFrame"),
        ((pd.DataFrame({"user": ["a"]}), ["x"], [1]), {}, "users is a table; leave items"),
        ((pd.DataFrame([["a", "b"]], columns=["user", "User"]),), {}, "has two columns 'user'"),
        ((pd.DataFrame({"user": ["a"], "thing": ["x"]}),), {}, "the table has no column 'item'"),
    ],
)
def test_what_cannot_be_used_is_said(args, options, message):
    refused(message, CollaborativeOrdinalGP().fit, *args, **options)


def test_what_a_fit_does_not_know_is_refused(fitted):
    refused("user 'Zoe' is not known; add it by with_users", fitted.recommend, "Zoe")
    refused("there are 2 users but 1 items", fitted.predict_latent, ["user 1", "user 2"], ["Dill"])
    refused("fit was given no item_features", fitted.with_items, ["Fennel"], [[1.0]])
    with pytest.raises(ValueError, match="likelihood is 'cauchit'"):
        wrong: Any = "cauchit"
        CollaborativeOrdinalGP(likelihood=wrong).fit(["a", "b"], ["x", "y"], [1, 2])


@pytest.mark.parametrize("ask", ["recommend", "similar"])
def test_numbers_of_items_are_counts(fitted, ask):
    who = {"recommend": "user 1", "similar": "Dill"}[ask]
    assert len(getattr(fitted, ask)(who, 0)) == 0 < len(getattr(fitted, ask)(who, 99)) < 5
    for n in (-1, 2.5, True):
        refused(f"n is {n}; pass a whole number from 0", getattr(fitted, ask), who, n)


def test_who_rated_both_is_a_kernel():
    """Columns of the table divided by the root of their sums, and centred by user."""
    rng = np.random.default_rng(0)
    rated = rng.random((30, 6)) < np.linspace(0.2, 0.9, 6)
    rated[:, 2] = False
    users, items = np.nonzero(rated)
    table = rated / np.sqrt(np.maximum(rated.sum(axis=0), 1))
    table -= table.mean(axis=1, keepdims=True)
    dense, there = table.T @ table, np.arange(6) != 2
    dense /= np.diagonal(dense)[there].mean()
    found = corating_kernel(users, items, 6)
    np.testing.assert_allclose(found[there][:, there], dense[there][:, there], atol=1e-8)
    np.testing.assert_array_equal(found[2], np.eye(6)[2])
    assert np.linalg.eigvalsh(found).min() > 0
    users, items = np.indices((4, 3)).reshape(2, -1)
    everything = corating_kernel(users, items, 3)
    np.testing.assert_array_equal(everything, np.eye(3))  # who rated all tells nothing


def test_new_items_have_covariances_of_what_is_known_of_them():
    features = np.array([[0.0], [1.0], [3.0]])
    kernels = BaseKernels(features, corated=True)
    known = kernels.known(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 2]), 3)
    assert known is not None
    across, own = kernels.extended(known, np.array([[1.0], [5.0]]), 2)
    np.testing.assert_allclose(across[:, :, 0], [[1.0] * 3, known[1, 1], [0.0] * 3, [0.0] * 3])
    np.testing.assert_array_equal(own[[0, 2, 3]], [np.ones((2, 2)), np.eye(2), np.eye(2)])
    assert own[1, 0, 1] == pytest.approx(known[1, 1, 2] ** 4)  # twice as far


@pytest.mark.slow
def test_items_of_the_same_users_are_taken_to_be_alike():
    """Two circles of users rate their own items, and few of the others, which they dislike."""
    rng, rows = np.random.default_rng(1), []
    for user in range(60):
        for item in range(16):
            mine = user % 2 == item % 2
            if rng.random() < (0.5 if mine else 0.1):
                level = int(np.clip(np.round(3 + (0.9 if mine else -0.9) + rng.normal()), 1, 5))
                rows.append((user, item, level))
    train = pd.DataFrame(rows, columns=["user", "item", "rating"])
    test = [(u, i, 4 if u % 2 == i % 2 else 2) for u in range(60) for i in range(16)]
    test = pd.DataFrame(sorted(set(test) - set(rows)), columns=["user", "item", "rating"])
    scores = [
        CollaborativeOrdinalGP(implicit=implicit).fit(train).score(test)
        for implicit in (True, False)
    ]
    assert scores[0] > scores[1] + 0.01


@pytest.mark.slow
def test_intervals_of_numbers_cover_what_they_say():
    """60 users of 30 items, half of them rated; with learned noise, 90% intervals cover 80%."""
    covered, shares = [], []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(30, 3))
        kernel = np.exp(-((X[:, None] - X) ** 2).sum(-1) / 6) + 0.02 * np.eye(30)
        f = 0.7 * rng.normal(size=30) + rng.normal(size=(60, 30)) @ np.linalg.cholesky(kernel).T
        said = f + rng.normal(size=f.shape) * np.exp(0.3 * rng.normal(size=(60, 1)))
        told = np.argsort(rng.random(f.shape), axis=1) < 15
        rater, rated = np.nonzero(told)
        model = CollaborativeGP().fit(rater, rated, said[told])
        rater, rated = np.nonzero(~told)
        low, high = model.predict_interval(rater, rated)
        covered.append((low < said[~told]) & (said[~told] < high))
        shares.append(share_of(model))
    assert 0.86 < np.mean(covered) < 0.94
    assert set(shares) <= {0.3, 0.5}


def test_noise_may_be_held(table, numbers):
    """At a share of the variance of all numbers."""
    options: dict[str, Any] = {"max_iterations": 5, "strength": 5.0}
    model = CollaborativeGP(noise_share=0.25, **options).fit(table)
    shared = model.result.state.shared_theta
    assert np.exp(2.0 * shared[2]) == pytest.approx(0.25 * np.var(table.rating))
    assert share_of(numbers) in (0.02, 0.1, 0.3, 0.5, None)
    assert share_of(CollaborativeGP(noise_share="learned", **options).fit(table)) is None
    wrong: Any
    for wrong, message in (("some", "is 'some'; choose"), (1.5, "noise_share is 1.5; pass")):
        refused(message, CollaborativeGP(noise_share=wrong, **options).fit, table)


@pytest.mark.slow
def test_few_ratings_are_answered():
    """One rating a user, and an item that all rate alike."""
    users, items = list("abcdef"), list("xyxyxy")
    model = CollaborativeGP(max_iterations=40).fit(users, items, [1.0, 2.0, 1.5, 2.5, 1.0, 3.0])
    low, high = model.predict_interval(["a"], ["y"])
    assert low[0] < 2.5 < high[0] and share_of(model) == 0.3
    levels = CollaborativeOrdinalGP(max_iterations=40).fit(
        users * 2, ["all"] * 6 + items, [3] * 6 + [1, 2, 3, 1, 2, 3]
    )
    probability = levels.predict_proba(["new"], ["all"], unknown="population")[0]
    assert probability.argmax() == 2 and probability[2] < 0.99


def test_unknown_users_and_items_are_as_the_population(table, fitted):
    refused("user 'nobody' is not known", fitted.predict, ["nobody"], ["Basil"])
    # A user who was counted in `fit` but said nothing is the population itself.
    result = fitted.result
    mean, kernel = result.mean, result.kernel
    edges = np.cumsum(np.exp(result.state.shared_theta[:-1]))
    edges = np.append(0.0, edges) - np.append(0.0, edges).mean()
    noise = np.exp(result.state.shared_theta[-1])
    place = list(fitted.items_).index("Basil")
    rows = result.num_fitted + result.kernel_prior.tiers[0].strength
    unsure = rows / (rows - 2.0) * (1.0 + 1.0 / (result.num_fitted + result.mean_strength))
    sd = np.sqrt(noise**2 + unsure * kernel[place, place])
    expected = np.diff(norm.cdf((edges - mean[place]) / sd), prepend=0.0, append=1.0)
    guess = fitted.predict_proba(["nobody"], ["Basil"], unknown="population")[0]
    np.testing.assert_allclose(guess, expected, atol=1e-6)
    both = fitted.predict_proba(["user 1", "nobody"], ["Fennel", "Fennel"], unknown="population")
    np.testing.assert_allclose(both.sum(axis=1), 1.0)
    known = fitted.predict_proba(["user 1"], ["Dill"])
    again = fitted.predict_proba(["user 1", "x"], ["Dill", "y"], unknown="population")
    np.testing.assert_allclose(again[:1], known, atol=1e-9)
    share = np.log(again[0, 2])
    assert fitted.score(["user 1"], ["Dill"], [3]) == pytest.approx(share)
    refused("unknown is 'mean'; choose", fitted.predict, ["nobody"], ["Basil"], unknown="mean")
    alone = CollaborativeOrdinalGP(collaborative=False, max_iterations=2).fit(table)
    with pytest.raises(ValueError, match="individual models share nothing"):
        alone.predict(["nobody"], ["Basil"], unknown="population")


def test_features_in_an_array_are_of_items_by_number(table):
    numbers = [NAMES.index(name) for name in table.item]
    features = np.arange(5.0)[:, None]
    options = {"max_iterations": 3, "strength": 5.0}
    model = CollaborativeOrdinalGP(**options).fit(table.user, numbers, table.rating, features)
    mapping = {number: features[number] for number in range(5)}
    other = CollaborativeOrdinalGP(**options).fit(table.user, numbers, table.rating, mapping)
    np.testing.assert_array_equal(model.shared_mean_, other.shared_mean_)
    with pytest.raises(ValueError, match="item 9 is not known; add it by with_items, with its"):
        model.predict(["user 1"], [9], unknown="population")


def test_a_fit_can_be_watched_and_taken_up_again(table, tmp_path):
    seen, path = [], tmp_path / "state.npz"
    numbers = table.assign(rating=table.rating * 1.0)
    first = CollaborativeGP(max_iterations=3, strength=5.0).fit(
        numbers, checkpoint=path, callback=lambda *args: seen.append(args)
    )
    assert [number for number, _ in seen] == [1, 2, 3]
    second = CollaborativeGP(max_iterations=3, strength=5.0).fit(numbers, init_state=path)
    assert second.result.trace[0] > first.result.trace[0]


@pytest.mark.slow
def test_held_out_ratings_choose_between_models(table):
    numbers = table.assign(rating=table.rating * 1.0)
    search = GridSearchCV(
        CollaborativeGP(max_iterations=5, strength=5.0), {"collaborative": [True]}, cv=2
    ).fit(numbers)
    assert np.isfinite(search.best_score_)
    best = search.best_estimator_
    mean, half = best.predict(table.user, table.item), best.predict_interval(table.user, table.item)
    sd = (half[1] - half[0]) / (2.0 * norm.ppf(0.95))
    expected = norm.logpdf(numbers.rating, mean, sd).mean()
    assert best.score(numbers) == pytest.approx(expected)


def test_one_item_tells_nothing_of_others():
    model = CollaborativeGP(max_iterations=2).fit(["a", "b", "c"], ["x"] * 3, [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="one item tells nothing of other items"):
        model.predict(["a"], ["y"], unknown="population")
