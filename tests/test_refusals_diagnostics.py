"""What the diagnostics refuse."""

from typing import Any

import numpy as np
import numpyro
import numpyro.distributions as dist
from refusals import Refusal, each, rows
from scipy.special import ndtr

from bayesrank.diagnostics import crosscheck, randomized_pit, transitivity

X = np.linspace(0.0, 1.0, 4)
Y = np.array([0.1, 1.0, 0.7, 2.0])
LEVELS = np.arange(40) % 4
PROBABILITY = np.full((40, 4), 0.25)


def regression(x, y, noise):
    slope: Any = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Normal(slope * x, noise), obs=y)


REFUSED = [
    *rows(
        lambda change: crosscheck(regression, X, Y, 0.5, **change),
        ({"engines": ("ep", "laplace")}, "engines must be different ones of"),
        ({"engines": ("ep", "ep")}, "engines must be different ones of"),
        ({"engines": ("nuts",)}, "must name an engine to check"),
        ({"num_warmup": 0}, "num_warmup is 0; pass a whole number from 1"),
        ({"num_samples": 3}, "num_samples is 3; pass a whole number from 4"),
        ({"num_chains": 0}, "num_chains is 0; pass a whole"),
        ({"num_steps": 0}, "num_steps is 0; pass a whole"),
        ({"contrast": "triples"}, "contrast is 'triples'; choose 'elements' or 'pairs'"),
        ({"tolerance": 0.0}, "tolerance is 0.0; pass a positive number"),
    ),
    Refusal(lambda: randomized_pit(PROBABILITY, LEVELS[:3]), r"levels \(3,\)"),
    Refusal(lambda: randomized_pit(PROBABILITY[:, :3], LEVELS), "columns for 0 to 2"),
    *rows(
        lambda games: transitivity(games, np.zeros((10, 3)), ndtr),
        ([(0, 3)], "comparisons (names item|has shape)"),
        ([(0, -1)], "comparisons (names item|has shape)"),
        ([(0.0, 1.0)], "comparisons (names item|has shape)"),
    ),
    Refusal(
        lambda: transitivity([(0, 1), (1, 2)], np.zeros((10, 3)), ndtr, weights=[1.0, np.nan]),
        "weights is nan in row 1; pass finite numbers from zero",
    ),
]


@each(REFUSED)
def test_refused(refusal):
    refusal.check()
