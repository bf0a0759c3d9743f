"""Every term of a comparison: its sites, its arguments, and where comparisons to come look."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpyro import handlers

from bayesrank.datasets import ComparisonData
from bayesrank.models import thurstone
from bayesrank.solvers.comparisons import TERMS, Asked, EPSkills
from bayesrank.solvers.comparisons.terms import arguments_of, margin_rows

RNG = np.random.default_rng(1)
PAIRS = np.array([RNG.choice(4, 2, replace=False) for _ in range(9)])
NOTHING = ComparisonData(("a", "b", "c", "d"), PAIRS, np.zeros(9, bool))
COLUMNS = {
    "tied": {"tied": np.arange(9) % 3 == 0},
    "weights": {"weights": RNG.uniform(0.5, 2.0, 9)},
    "position": {"position": RNG.choice([-1.0, 0.0, 1.0], 9)},
    "categories": {"categories": RNG.integers(0, 2, 9), "category_names": ("g", "h")},
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
    columns: dict[str, Any] = COLUMNS["position"] | COLUMNS["categories"] | COLUMNS["tied"]
    data = replace(NOTHING, **columns)
    params: dict[str, Any] = {"scale": 1.2, "category_scale": 0.4, "tie_width": 0.3}
    shapes = {"f": (4,), "category_skill": (2, 4), "position_effect": ()}
    skills = EPSkills(SimpleNamespace(shapes=shapes))
    latents: dict[str, Any] = {name: RNG.normal(size=shape) for name, shape in shapes.items()}
    joint = np.concatenate([np.ravel(latents[name]) for name in shapes])
    with handlers.seed(rng_seed=0), handlers.substitute(data=latents | params):
        trace = handlers.trace(thurstone).get_trace(4, PAIRS, **arguments_of(data))
    for row, pair in enumerate(PAIRS):
        first, second = pair[:, None]
        asked = Asked(first, second, columns["position"][row], columns["categories"][row])
        values, at = margin_rows(asked, skills.at)
        found = np.sum(values[0] * joint[at[0]])
        np.testing.assert_allclose(found, trace["comparison"]["fn"].margin[row], rtol=1e-5)
