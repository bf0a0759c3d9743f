"""Every term of a comparison: its sites, its arguments, and where comparisons to come look."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
from numpyro import handlers

from bayesrank.datasets import ComparisonData
from bayesrank.infer import EP
from bayesrank.models import thurstone
from bayesrank.models.comparisons import SCALES
from bayesrank.solvers.comparisons import TERMS, Asked, EPSkills
from bayesrank.solvers.comparisons.posterior import _KeptApart
from bayesrank.solvers.comparisons.terms import MarginRows, arguments_of, margin_rows

RNG = np.random.default_rng(1)
PAIRS = np.array([RNG.choice(4, 2, replace=False) for _ in range(9)])
NOTHING = ComparisonData(("a", "b", "c", "d"), PAIRS, np.zeros(9, bool))
COLUMNS = {
    "tied": {"tied": np.arange(9) % 3 == 0},
    "weights": {"weights": RNG.uniform(0.5, 2.0, 9)},
    "position": {"position": RNG.choice([-1.0, 0.0, 1.0], 9)},
    "categories": {"categories": RNG.integers(0, 2, 9), "category_names": ("g", "h")},
    "covariates": {"covariates": RNG.normal(size=(9, 2)), "covariate_names": ("x", "y")},
    "judges": {"judges": RNG.integers(0, 3, 9), "judge_names": ("u", "v", "w")},
}


def sites(data):
    trace = handlers.trace(handlers.seed(thurstone, 0)).get_trace(
        data.num_items, data.comparisons, **arguments_of(data)
    )
    return {k for k, s in trace.items() if s["type"] == "sample" and not s["is_observed"]}


def test_each_column_is_one_term():
    assert sorted(term.column for term in TERMS) == sorted(COLUMNS)


@pytest.mark.parametrize("term", TERMS, ids=lambda term: term.column)
def test_the_program_draws_the_sites_of_a_term_where_its_column_is_there(term):
    assert term.arguments(NOTHING) == {} and term.sites(NOTHING) == ()
    data = replace(NOTHING, **COLUMNS[term.column])
    assert sites(data) - sites(NOTHING) == set(term.sites(data))
    everything = replace(NOTHING, **{k: v for each in COLUMNS.values() for k, v in each.items()})
    without = replace(everything, **{name: getattr(NOTHING, name) for name in COLUMNS[term.column]})
    assert set(term.sites(everything)) <= sites(everything)
    assert not set(term.sites(everything)) & sites(without)


def test_rows_of_comparisons_to_come_are_those_of_the_program():
    said: dict[str, Any] = {
        k: v for name in COLUMNS if name != "judges" for k, v in COLUMNS[name].items()
    }
    data: Any = replace(NOTHING, **said)
    trace = handlers.trace(handlers.seed(thurstone, 0)).get_trace(4, PAIRS, **arguments_of(data))
    drawn = {k: s["value"] for k, s in trace.items() if k not in SCALES and s["type"] == "sample"}
    latents = {k: np.asarray(value) for k, value in drawn.items() if k != "comparison"}
    joint = np.concatenate([value.ravel() for value in latents.values()])
    moments = SimpleNamespace(
        structure="dense", joint_mean=joint, joint_covariance=np.eye(joint.size)
    )
    shapes = {k: value.shape for k, value in latents.items()}
    result = SimpleNamespace(shapes=shapes, components=lambda: [(1.0, {}, moments, {})])
    skills = EPSkills(result)
    for row, pair in enumerate(PAIRS):
        shares = np.eye(len(data.category_names))[data.categories[row]]
        told = {"position": float(data.position[row]), "covariates": data.covariates[[row]]}
        asked = Asked(*pair[:, None], shares=shares, **told)
        [part] = skills.components(shares)
        found = part.margins(margin_rows(asked, skills.at))[0][0]
        np.testing.assert_allclose(found, trace["comparison"]["fn"].margin[row], rtol=1e-5)


def test_variances_of_rows_with_more_than_skills_where_covariances_are_not_kept():
    """Skills come second among the latents; the position in the rows is independent of them."""
    pairs = np.array([(0, 1), (1, 2), (0, 2), (2, 3)])
    result: Any = EP(thurstone).run(
        jax.random.key(0), 4, pairs, position=np.ones(4), params={"scale": 1.0}
    )
    skills = EPSkills(result)
    at, known = skills.at, result.joint_covariance
    rows = margin_rows(Asked(np.array([0, 3]), np.array([2, 1]), 1.0), at)
    apart = _KeptApart(result).variances(rows)
    i, j, p = rows.columns.T
    own = np.diagonal(known)
    np.testing.assert_allclose(apart, own[i] + own[j] - 2.0 * known[i, j] + own[p], rtol=1e-6)
    one = MarginRows.of(4, (1.0, at["f"]))
    np.testing.assert_allclose(_KeptApart(result).variances(one), own[at["f"]])
