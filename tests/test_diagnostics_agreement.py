"""Design effects, effects of traits and the sensitivity of an order, in worlds with and without."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr

from bayesrank.cli.trust import trust_checks
from bayesrank.cli.words import method
from bayesrank.datasets import ComparisonData, OrderEvents, read_comparisons
from bayesrank.diagnostics import agreement
from bayesrank.diagnostics.agreement import (
    OrderResiduals,
    Residuals,
    clusters_of,
    mean_margins,
    order_scores,
)
from bayesrank.diagnostics.sensitivity import order_under_wide_prior
from bayesrank.estimators import Ranker
from bayesrank.solvers.comparisons import JudgedSkills, fit_arena
from bayesrank.solvers.comparisons.terms import arguments_of


def chance(margin):
    return ndtr(margin / np.sqrt(2.0))


def world(seed, n=12, rows=600, judges=0, tastes=0.0, style=0.0, near=0.0):
    """A log of n items; judges with tastes, a trait that counts, and near-equals matched."""
    rng = np.random.default_rng(seed)
    skills = 0.6 * rng.normal(size=n)
    odds = np.ones((n, n)) - np.eye(n)
    if near:
        odds *= np.exp(-((skills[:, None] - skills) ** 2) / (2.0 * near**2))
    pairs = np.array(np.divmod(rng.choice(n * n, rows, p=odds.ravel() / odds.sum()), n))
    margin, said = skills[pairs[0]] - skills[pairs[1]], {}
    if judges:
        judge, own = rng.integers(judges, size=rows), tastes * rng.normal(size=(judges, n))
        margin += own[judge, pairs[0]] - own[judge, pairs[1]]
        said = {"judges": judge, "judge_names": tuple(map(str, range(judges)))}
    gap = rng.normal(size=rows)
    wins = margin + style * gap + np.sqrt(2.0) * rng.normal(size=rows) > 0.0
    pairs = np.where(wins, pairs, pairs[::-1]).T
    said["contrasts"] = {"length": np.where(wins, gap, -gap)}
    return ComparisonData(tuple(map(str, range(n))), pairs, np.zeros(rows, bool), **said)


def residuals(data):
    fit = fit_arena(data.num_items, data.comparisons, **arguments_of(data))
    return Residuals(data, JudgedSkills(fit), chance, fit.scales["scale"]), fit


def test_copies_of_rows_have_the_design_effect_of_their_number():
    data = world(0)
    twice = data.where(np.tile(np.arange(600), 2))
    rows, _ = residuals(twice)
    found = rows.design_effect("row", np.tile(np.arange(600), 2))
    assert found.value == pytest.approx(600 / 599 * 1199 / 600) and found.by_chance < 1.3
    assert rows.design_effect("alone", np.arange(1200)).value == pytest.approx(1.0)
    # as weights say it
    weighted, _ = residuals(replace(data, weights=np.full(600, 2.0)))
    again = weighted.design_effect("row", np.arange(600))
    assert again.value == pytest.approx(2.0)


def test_the_design_effect_against_sums_over_clusters():
    data = replace(world(1, n=5, rows=80), tied=np.arange(80) % 4 == 0)
    rows, fit = residuals(data)
    codes, skills = np.random.default_rng(0).integers(9, size=80), fit.mean[:5]
    margin = skills[data.comparisons[:, 0]] - skills[data.comparisons[:, 1]]
    np.testing.assert_allclose(mean_margins(data, JudgedSkills(fit)), margin)
    contrast = np.zeros((80, 5))
    contrast[np.arange(80), data.comparisons[:, 0]] = 1.0
    contrast[np.arange(80), data.comparisons[:, 1]] = -1.0
    slope = np.exp(-(margin**2) / 4.0) / np.sqrt(4.0 * np.pi)
    inverse = np.linalg.inv(
        contrast.T @ (slope[:, None] * contrast) + np.eye(5) / fit.scales["scale"] ** 2
    )
    center = np.eye(5) - 0.2
    errors = (np.where(data.tied, 0.5, 1.0) - chance(margin))[:, None] * contrast @ inverse @ center
    clusters = np.array([errors[codes == k].sum(axis=0) for k in range(9)])
    expected = 9 / 8 * 79 / 80 * np.sum(clusters**2) / np.sum(errors**2)
    assert rows.design_effect("codes", codes).value == pytest.approx(expected, rel=1e-6)


def checks(data, **options) -> dict[str, Any]:
    ranker = Ranker(hyperparameters="map", **options).fit(data)
    found = trust_checks(
        data, ranker.rank(), ranker.samples(), ranker.params_, "skipped", ranker.result
    )
    return {check.name: check for check in found}


def test_in_the_world_of_the_model_no_check_warns():
    for seed in range(3):
        data = replace(world(seed, judges=10), clusters={"question": np.arange(600) // 3})
        found = checks(data)
        names = ("Independent rows", "Other traits", "Prior")
        assert {name: found[name].status for name in names} == dict.fromkeys(names, "ok")


def test_both_orders_of_one_verdict_are_found_by_the_column_that_shows_them():
    data = world(3)
    both = data.where(np.repeat(np.arange(600), 2))
    found = checks(replace(both, clusters={"question_id": np.repeat(np.arange(600), 2)}))
    said = found["Independent rows"]
    assert said.status == "warning" and "design effect 2.0" in said.sentence
    assert "so intervals are 1.4 times as wide as without that" in said.sentence
    assert "to have narrower ones, keep one row for each question_id" in said.sentence
    assert found["One ranking"].status != "warning"  # what cycles there are come of the copies


def test_tastes_of_few_judges_are_found():
    data = world(4, rows=1500, judges=10, tastes=0.6)
    assert set(clusters_of(data)) == {"judge", "judge and pair"}
    said = checks(data, tastes=False)["Independent rows"]
    assert said.status == "warning" and "agree (design effect 2.7), so intervals" in said.sentence
    assert checks(data)["Independent rows"].status == "ok"


GRID = np.linspace(-9.0, 9.0, 1201)


def density(skill):
    return np.exp(-((GRID - skill) ** 2) / 2.0) / np.sqrt(2.0 * np.pi) * (GRID[1] - GRID[0])


def chance_of_set(f):
    """That item 0 of four performs best and item 3 worst, by quadrature."""
    between = [ndtr(GRID[:, None] - f[k]) - ndtr(GRID - f[k]) for k in (1, 2)]
    inside = np.tril(between[0] * between[1], -1)
    return density(f[0]) @ inside @ density(f[3])


def chance_of_choice(f):
    """That item 0 of three performs best."""
    return density(f[0]) @ (ndtr(GRID - f[1]) * ndtr(GRID - f[2]))


@pytest.mark.parametrize(
    ("groups", "chance_of"),
    [
        (((0,), (1, 2), (3,)), chance_of_set),
        (((3,), (2, 1), (0,)), lambda f: chance_of_set(f[::-1])),
        (((0,), (1, 2)), chance_of_choice),
        (((0,), (1,)), lambda f: ndtr((f[0] - f[1]) / np.sqrt(2.0))),
    ],
)
def test_the_score_of_an_order_is_the_derivative_of_its_log_probability(
    groups, chance_of, monkeypatch
):
    monkeypatch.setattr(agreement, "_DRAWS", 40_000)
    skills = np.array([0.3, -0.2, 0.9, 0.1])
    found = order_scores(OrderEvents((groups,), np.ones(1, int)), skills).toarray()
    expected = [
        (np.log(chance_of(skills + step)) - np.log(chance_of(skills - step))) / 2e-4
        for step in 1e-4 * np.eye(4)
    ]
    np.testing.assert_allclose(found[0], expected, atol=0.03)


def best_worst(seed, tastes):
    """Rows of 25 respondents who answer six sets of four items, and the true skills."""
    rng = np.random.default_rng(seed)
    skills, rows = np.linspace(0.6, -0.6, 6), []
    for person in range(25):
        own = skills + tastes * rng.normal(size=6)
        for task in range(6):
            shown = rng.choice(6, 4, replace=False)
            felt = own[shown] + rng.normal(size=4)
            marks = np.arange(4) == felt.argmax(), np.arange(4) == felt.argmin()
            rows += [
                (person, task, f"i{k}", int(b), int(w))
                for k, b, w in zip(shown, *marks, strict=True)
            ]
    return pd.DataFrame(rows, columns=["respondent", "task", "item", "best", "worst"]), skills


def test_several_orders_of_one_person_have_a_design_effect():
    for seed in range(3):
        for tastes in (0.0, 0.8):
            frame, skills = best_worst(seed, tastes)
            data = read_comparisons(frame)
            orders, people = data.orders, data.clusters["respondent"]
            assert orders is not None and orders.answers is not None
            assert orders.answers.shape == (150, 2) and orders.answers[:, 1].sum() == 150
            assert np.bincount(orders.answers[:, 0]).tolist() == orders.counts.tolist()
            assert np.bincount(people).tolist() == [6] * 25
            skills = skills[[int(name[1]) for name in data.names]]
            draws = skills + 0.1 * np.random.default_rng(0).normal(size=(2000, 6))
            found = OrderResiduals(orders, draws).design_effect("respondent", people)
            assert (found.value > max(1.3, found.by_chance)) == (tastes > 0)


def test_copies_of_orders_have_the_design_effect_of_their_number():
    orders = ["a > b > c", "b > c > a", "c > a > b", "a > c > b"]
    more = {"who": list("wxyzwxyz"), "why": [*range(5), 5, 6, 6]}
    data = read_comparisons(pd.DataFrame({"order": orders * 2, **more}))
    assert data.clusters.keys() == {"why"}  # four cells of `who` say nothing
    draws = np.random.default_rng(0).normal(size=(500, 3))
    assert data.orders is not None
    rows = OrderResiduals(data.orders, draws)
    assert rows.design_effect("who", np.arange(8) % 4).value == pytest.approx(4 / 3 * 7 / 8 * 2)
    assert rows.design_effect("row", np.arange(8)).value == pytest.approx(1.0)
    twice = read_comparisons(pd.DataFrame({"order": orders, "weight": 2}))
    assert twice.orders is not None
    again = OrderResiduals(twice.orders, draws).design_effect("row", np.arange(4))
    assert again.value == pytest.approx(2.0)


@pytest.mark.slow
@pytest.mark.parametrize("tastes", [0.0, 0.8])
def test_pooled_respondents_are_said_and_checked(tastes):
    data = read_comparisons(best_worst(0, tastes)[0])
    assert data.unused_column_hints[0].startswith("Orders have no judges yet: several of one resp")
    said = checks(data)["Independent rows"]
    assert said.status == ("warning" if tastes else "ok")
    if tastes:
        assert "orders of the same respondent agree (design effect 1." in said.sentence
        assert "keep one order for each respondent, or rank groups that agree" in said.sentence


@pytest.mark.parametrize("style", [0.4, -0.4])
def test_a_trait_of_the_sides_that_counts_is_found(style):
    said = checks(world(5, style=style))["Other traits"]
    side = "more" if style > 0 else "less"
    assert said.status == "warning"
    assert f"between equals, the side with {side} of it (1 SD) wins " in said.sentence


def test_a_difference_that_all_rows_share_is_measured_by_its_size():
    """The rounding error of its standard deviation is no unit."""
    rows, _ = residuals(world(0, rows=60))
    half, tenth = (rows.sway("length", np.full(60, size)) for size in (0.5, 0.1))
    assert np.full(60, 0.1).std() > 0.0
    np.testing.assert_allclose(tenth[1:], half[1:])


def test_an_order_that_rests_on_the_prior_is_found():
    found = [order_under_wide_prior(world(s, n=20, rows=1500, near=0.2), 0.1) for s in range(4)]
    assert max(each.tau for each in found) < 0.8 and max(each.sure for each in found) < 0.9
    said = checks(world(1, n=20, rows=1500, near=0.2))["Prior"]
    assert said.status == "warning" and "Kendall's tau" in said.sentence
    assert order_under_wide_prior(world(0, n=20, rows=1500), 0.6).tau > 0.95


@pytest.mark.slow
def test_items_that_nobody_tells_apart_may_change_places():
    """Equal items, and near-equals of few random comparisons, have an order by chance."""
    found = [order_under_wide_prior(world(s, n=20, rows=100), 0.3) for s in range(6)]
    assert min(each.tau for each in found) < 0.8 < 0.9 < min(each.sure for each in found)
    pairs = np.array([(a, b) for a in range(4) for b in range(4) if a != b])
    equal = ComparisonData(tuple("abcd"), pairs, np.zeros(12, bool))
    assert np.isnan(order_under_wide_prior(equal, 0.2).sure)
    assert checks(equal)["Prior"].status == "ok"


@pytest.mark.parametrize("layout", ["sides", "winners"])
def test_a_file_says_which_rows_belong_together_and_how_the_sides_differ(layout):
    frame = pd.DataFrame({
        "a": list("xyzxyz"), "b": list("yzxzxy"), "won": ["model_a", "model_b", "tie"] * 2,
        "question_id": [1, 1, 2, 3, 4, 5], "one": 1, "all": range(6), "text": list("abcdea"),
        "length_1": [3, 1, 2, 5, 5, 5], "length_2": [1.5, 2, 2, 2, 2, 2], "odd_1": list("abcabc"),
        "odd_2": 1,
    })  # fmt: skip
    if layout == "sides":
        frame = frame.rename(columns={"a": "model_a", "b": "model_b", "won": "winner"})
        expected = [1.5, 1.0, 0.0, 3.0, -3.0, 3.0]
    else:
        frame = frame.drop(columns="won").rename(columns={"a": "winner", "b": "loser"})
        expected = [1.5, -1.0, 0.0, 3.0, 3.0, 3.0]
    data = read_comparisons(frame)
    assert set(data.clusters) == {"question_id", "text"}
    assert data.clusters["question_id"].tolist() == [0, 0, 1, 2, 3, 4]
    assert set(data.contrasts) == {"length"}
    np.testing.assert_allclose(data.contrasts["length"], expected)
    part = data.where(np.arange(6) > 2)
    np.testing.assert_allclose(part.contrasts["length"], expected[3:])
    assert not data.distinct().clusters


def test_position_is_a_warning_only_where_the_file_has_it():
    data = world(6, n=5, rows=60)
    assert checks(data)["Position"].status == "n/a"
    left_out = replace(data, position_label="being shown first")
    assert checks(left_out)["Position"].status == "warning"
    known = replace(left_out, position=np.where(np.arange(60) % 2, 1.0, -1.0))
    assert checks(known)["Position"].status == "ok"


@pytest.mark.parametrize("judges", [0, 4])
def test_the_page_says_what_intervals_of_a_log_include(judges):
    data = replace(world(7, n=5, rows=60, judges=judges), tied=np.arange(60) % 5 == 0)
    data = replace(data, position=np.ones(60))
    params = Ranker(hyperparameters="map").fit(data).params_
    include, *_ = method(data, params, None)[0].split(", and none in the prior scales;")
    own = "in the judges' reliabilities and order biases, " if judges else ""
    assert include == f"Intervals include uncertainty in the skills, {own}in the tie width"
