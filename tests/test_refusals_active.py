"""What questions, journals and loops refuse of their arguments."""

from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from refusals import Refusal, each, rows

from bayesrank.active import (
    Beliefs,
    FactoredBeliefs,
    QueryLoop,
    best_batch,
    best_pair,
    best_pairs,
    margin_variance,
    margins,
)
from bayesrank.active.acquisition import bald, pool_variance, top_gain

N = 5
BELIEFS = Beliefs(jnp.zeros(5), jnp.eye(5), 0.5)
FACTORED = FactoredBeliefs(np.zeros(2), np.zeros((2, 1)), np.ones(2))


def broken(value):
    return Partial(lambda beliefs, pairs: jnp.full(pairs.shape[:-1], value))


def chosen(change: Any, choose: Any) -> None:
    choose(**{"acquisition": margin_variance, "beliefs": BELIEFS, "q": 1, **change})


REFUSED = [
    *rows(
        lambda arguments, options: QueryLoop(*arguments, **options),
        ((["a"],), {}, "items holds 1 names"),
        (("ab",), {}, "items is 'ab'; pass names"),
        ((["a", "a"],), {}, "'a' twice"),
        (([["a"], ["b"]],), {}, "texts, numbers, or tuples"),
        (([object(), "b"],), {}, "not the same when a journal is opened again"),
        ((3, np.zeros((2, 2))), {}, r"shape \(2, 2\); pass \(3, d\)"),
        ((2, [["x"], ["y"]]), {}, "not a number"),
        ((2, [[1.0], [np.nan]]), {}, "nan in row 1, column 0"),
        ((3,), {"acquisition": "best"}, "acquisition is 'best'"),
        ((3,), {"goal": "best"}, "goal is 'best'; choose 'pair', 'order' or 'top'"),
        ((3,), {"goal": "top", "k": 3}, "k is 3; pass a number from 1 to 2"),
        (
            (3,),
            {"goal": "order", "acquisition": "bald"},
            "goal is 'order' and acquisition is given",
        ),
        ((3,), {"candidates": 0}, "at least one pair"),
        ((3,), {"candidates": [(0, 7)]}, "no item 7"),
        ((3,), {"hyperparameters": "mine"}, "choose 'integrate', 'map', 'prior'"),
        ((3,), {"hyperparameters": {"width": 1.0}}, "names 'width'"),
        ((3,), {"ard": True}, "ard is given without features"),
        ((3,), {"judge_noise": {"Bo": 0.0}}, r"judge_noise\['Bo'\]"),
        ((3,), {"judge_noise": {None: 2.0}}, "judge_noise names None"),
        ((300_000,), {"hyperparameters": "prior"}, "of 300,000 items take 2.62 TiB of memory"),
        ((3,), {"stop_gain": -1.0}, "stop_gain is -1.0"),
        ((3,), {"stop_gain": 1.0, "acquisition": "random"}, "stop_gain needs an acquisition"),
        ((3,), {"stop_top": 3}, "from 1 to 2"),
        ((3,), {"stop_top": 1, "stop_level": 1.0}, "above 0 and below 1"),
        (({"a", "b"},), {}, "an order that is the same tomorrow"),
        ((2.0,), {}, "items is 2.0; pass names"),
        (([np.nan, 1.0],), {}, "items names nan"),
        ((2, [[1.0], [1.0]]), {}, "the same for every item"),
        ((3,), {"candidates": [0, 1]}, "pairs of names"),
        ((3,), {"hyperparameters": {"scale": 0.0}}, r"\['scale'\] is 0.0; pass a positive number"),
        ((3,), {"hyperparameters": {"scale": "1 m"}}, r"\['scale'\] is '1 m'; pass a positive"),
        ((3, np.eye(3)), {"laplacian": np.ones((3, 3)) - np.eye(3)}, "not positive semi-definite"),
        ((3,), {"refit_after": 0}, "refit_after is 0; pass a whole"),
        ((3,), {"seed": -1}, "seed is -1"),
        ((3,), {"judge_noise": [2.0]}, "or a mapping"),
        ((3,), {"judge_noise": "guess"}, "judge_noise is 'guess'; pass 'learn', or a mapping"),
        (
            (3,),
            {"judge_noise": "learn", "hyperparameters": "prior"},
            "nothing is learned; pass the",
        ),
        ((3,), {"stop_top": 1.5}, "stop_top is 1.5"),
        ((3,), {"stop_gain": "0.1"}, "stop_gain is '0.1'"),
    ),
    Refusal(
        lambda: best_pairs(broken(jnp.nan), BELIEFS, chunk=4), "is not a number; look for beliefs"
    ),
    Refusal(lambda: best_batch(broken(jnp.nan), BELIEFS, 2), "is not a number"),
    *rows(
        lambda change, options: best_pair(FACTORED._replace(**change), **options),
        ({"mean": np.zeros(3)}, {}, "pass \\(n,\\), \\(n, M\\) and \\(n,\\)"),
        ({"diagonal": np.array([1.0, -1.0])}, {}, "-1.0 on the diagonal"),
        ({"noise": 0.0}, {}, "a noise of 0.0"),
        ({"mean": np.array([0.0, np.nan])}, {}, "not finite"),
        ({}, {"exclude": [(0, 2)]}, "exclude names item 2 in row 0"),
        ({}, {"candidates": [(0.0, 1.0)]}, "candidates has shape"),
        ({}, {"max_scored": 0}, "max_scored is 0"),
    ),
    *(
        row
        for choose in (best_pairs, best_batch)
        for row in rows(
            partial(chosen, choose=choose),
            ({"q": 0}, "q is 0; pass a whole number from 1 on"),
            ({"chunk": 2.5}, "chunk is 2.5"),
            ({"candidates": [[0, 5]]}, "candidates names item 5 in row 0, .* 0 to 4"),
            ({"exclude": [[-1, 2]]}, "exclude names item -1 in row 0"),
            ({"exclude": [0, 1]}, r"exclude has shape \(2,\)"),
            ({"candidates": [[0.0, 1.0]]}, "dtype float64; pass pairs of item"),
            ({"acquisition": "bald"}, "acquisition is 'bald'; pass a function"),
            ({"beliefs": Beliefs(jnp.zeros(3), jnp.eye(2))}, r"covariance of shape \(2, 2\)"),
            ({"beliefs": Beliefs(jnp.zeros(3), jnp.eye(3), 0.0)}, "noise of 0.0; pass a positive"),
            ({"beliefs": Beliefs(jnp.zeros(3), jnp.eye(3), -1.0)}, "noise of -1.0"),
            (
                {"beliefs": Beliefs(jnp.zeros(3), jnp.eye(3), 1.0, 0.0)},
                "tie width of 0.0; pass a pos",
            ),
            ({"beliefs": Beliefs(jnp.zeros(0), jnp.zeros((0, 0)))}, "about no item"),
        )
    ),
    *(
        Refusal(partial(score, BELIEFS, np.array([pair])), r"pairs (names item|has shape)")
        for score in (margins, bald, pool_variance, top_gain(1))
        for pair in ([0, N], [0, -1], [0.0, 1.0], [0, 1, 2])
    ),
]


@each(REFUSED)
def test_refused(refusal):
    refusal.check()
