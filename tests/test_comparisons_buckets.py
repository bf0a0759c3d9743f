"""Rankers fit small data in shapes that others have: the answer is that of the shape they have."""

from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pandas as pd
import pytest
from compilations import compilations
from numpy.testing import assert_allclose

from bayesrank import Ranker
from bayesrank.datasets import read_comparisons
from bayesrank.infer import EP
from bayesrank.models import thurstone
from bayesrank.solvers.comparisons.buckets import in_bucket


def log(num_items: int, count: int, seed: int = 0) -> pd.DataFrame:
    """Battles with ties, whole and broken weights, and two categories.

    Rows that count less than once take other steps to the same answer than those that are one.
    """
    rng = np.random.default_rng(seed)
    pairs = np.array([rng.choice(num_items, 2, replace=False) for _ in range(count)])
    # Every item is there, so that its name has the same number in each log.
    pairs[: num_items - 1] = np.stack([np.arange(num_items - 1), np.arange(1, num_items)], 1)
    outcome = rng.choice(["model_a", "model_b", "tie"], count)
    weight = rng.choice([1.0, 2.0, 1.7], count)
    category = rng.choice(["maths", "prose"], count)
    first, second = np.char.add("m", pairs.astype(str)).T
    columns = {"model_a": first, "model_b": second, "winner": outcome}
    return pd.DataFrame({**columns, "weight": weight, "category": category})


def assert_same(result: Any, direct: Any) -> None:
    assert result.shapes == direct.shapes
    assert_allclose(result.joint_mean, direct.joint_mean, atol=1e-9)
    assert_allclose(result.joint_covariance, direct.joint_covariance, atol=1e-9)
    assert_allclose(result.mixture.means, direct.mixture.means, atol=1e-9)
    assert_allclose(result.log_evidence, direct.log_evidence, atol=1e-9)
    assert_allclose(result.mean["scale"], direct.mean["scale"], rtol=1e-9)
    # Draws are of the shape that the program has, and their weights are of its density.
    for name, draws in direct.draws.items():
        assert_allclose(result.draws[name], draws, atol=1e-8)
    assert_allclose(result.drawn.log_proposals, direct.drawn.log_proposals, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("columns", [["model_a", "model_b", "winner"], slice(None)])
@pytest.mark.filterwarnings("ignore::bayesrank.datasets.ReadingNote")
def test_the_answer_is_that_of_the_program_with_the_data_as_they_came(columns):
    table = log(5, 40).loc[:, columns]
    result = Ranker(hyperparameters="integrate", random_state=0).fit(table).result
    assert len(result.model_args[1]) == 40 and "counted" not in result.model_kwargs
    kwargs = result.model_kwargs
    key = jax.random.key(np.random.RandomState(0).randint(2**31 - 1))
    direct = EP(thurstone).run(key, *result.model_args, num_samples=2000, **kwargs)
    assert_same(result, direct)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::bayesrank.datasets.ReadingNote")
def test_logs_of_like_size_share_what_is_compiled():
    columns = ["model_a", "model_b", "winner"]
    logs = [log(5, 40)[columns], log(7, 47, 1)[columns], log(8, 31, 2)[columns]]
    first, second, third = (replace(read_comparisons(each), position=None) for each in logs)
    Ranker().fit(first)
    with compilations() as events:
        Ranker().fit(second)
        Ranker().fit(third)
    assert events == []


def test_large_logs_are_not_filled_up():
    rng = np.random.default_rng(0)
    pairs = np.array([rng.choice(70, 2, replace=False) for _ in range(90)]).astype(str)
    table = pd.DataFrame(pairs, columns=["winner", "loser"])
    bucket = in_bucket(read_comparisons(table), "probit")
    items, comparisons = bucket.args
    assert items == bucket.num_items and "counted" not in bucket.options
    assert bucket.options["weights"].sum() == 90 and len(comparisons) <= 90
