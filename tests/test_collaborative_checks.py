"""What EM refuses, with one message each."""

import numpy as np
import pytest

from bayesrank.gp import KernelPrior, Tier
from bayesrank.solvers.collaborative import EM


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"likelihood": "cauchit"}, "likelihood is 'cauchit'"),
        ({"strength": -1.0}, "strength is .*; pass a number from 0 on"),
        ({"strength": "many"}, "strength is 'many'; pass a number from 0 on"),
        ({"user_thresholds": True}, "user_thresholds is True; pass a number"),
        ({"user_scales": -0.1}, "user_scales is .*; pass a number from 0 on"),
        ({"noise_share": 0.3}, "noise_share is 0.3, but noise is of numbers; leave it out"),
        ({"likelihood": "gaussian", "noise_share": 1}, "noise_share is 1; pass"),
        ({"max_iterations": 0}, "max_iterations is 0; pass a whole number from 1"),
        ({"max_iterations": 2.5}, "max_iterations is 2.5; pass a whole number from 1"),
        ({"tol": 0.0}, "tol is 0.0; pass a positive number"),
        ({"tol": "small"}, "tol is 'small'; pass a positive number"),
    ],
)
def test_settings_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        EM(**options)


@pytest.mark.parametrize(
    ("args", "options", "message"),
    [
        (([0, 0], [1, 1], [0, 1]), {}, "user 0 has rated item 1 before row 1"),
        (([0, -1], [0, 1], [0, 1]), {}, "users is -1 in row 1; they are numbered"),
        (
            ([0, 1], [0, 9], [0, 1]),
            {"num_items": 3},
            "items is 9 .* numbered 0 to 2",
        ),
        (
            ([0, 1], [0, 1], [0, 1.5]),
            {},
            "levels has .* dtype float64; pass .2,., integers",
        ),
        (([0, 1], [0, 1], [0, 2]), {}, "nobody used level 1"),
        (([0, 1], [0, 1], [0, 10**12]), {}, "nobody used level 1"),
        (([0, 1], [0, 1], [0, 1e300]), {}, "levels has shape .* dtype float64"),
        (([0, 10**9], [0, 1], [0, 1]), {}, "users goes up to 1000000000, but few .*numpy.unique"),
        (([0, 1], [0, 1], [0, 1]), {"num_levels": 3}, "nobody used level 2"),
        (([0, 1], [0, 1], [0, 1]), {"num_levels": 2.0}, "num_levels is 2.0; pass a whole number"),
        (([0, 1], [0, 1], [0, np.nan]), {}, "levels is nan in row 1"),
        (([0, 1], [0, 1], ["0", "1"]), {}, "levels has shape .2,. and dtype <U1; pass"),
        (([0, 1], [0, 1], [0, 1]), {"num_users": 2.5}, "num_users is 2.5; pass a whole number"),
        (([0, 1], [0, 1], [0, 1]), {"num_items": 0}, "num_items is 0; pass a whole number"),
        (([0, 1], [0, 1], None), {}, "levels has shape"),
        (([0, 1], [0], [0, 1]), {}, "items has shape"),
        (([0.0, 1.0], [0, 1], [0, 1]), {}, "users has shape .* dtype float64"),
        (([0, 1], [0, 1], [0, 1]), {"num_levels": 1}, "num_levels is 1"),
        (([0, 1], [0, 1], [0, 1]), {"kernel": np.eye(3)}, "kernel has shape"),
        (([0, 1], [0, 1], [0, 1]), {"kernel": np.array([[1.0, 0.5], [0.1, 1.0]])}, "symmetric"),
        (([0, 1], [0, 1], [0, 1]), {"kernel": np.ones((2, 2))}, "positive definite"),
        (([0, 1], [0, 1], [0, 1]), {"kernel": [[1j, 0], [0, 1]]}, "kernel has dtype complex"),
        (
            ([0, 1], [0, 1], [0, 1]),
            {"kernel": np.stack([np.eye(2), np.zeros((2, 2))])},
            "kernel 1 of 2 is zero; leave it out",
        ),
        (
            ([0, 1], [0, 1], [0, 1]),
            {"kernel": np.stack([2 * np.eye(2), [[1.0, 1.5], [1.5, 1.0]]])},
            "kernel 1 of 2 has a negative eigenvalue; pass covariances",
        ),
    ],
)
def test_observations_are_checked(args, options, message):
    with pytest.raises(ValueError, match=message):
        EM().run(*args, progress_bar=False, **options)


def test_runs_are_checked():
    data = [0, 1], [0, 1], [0, 1]
    with pytest.raises(ValueError, match="checkpoint_every is 0; pass a whole number from 1"):
        EM("gaussian").run(*data, checkpoint="state.npz", checkpoint_every=0)
    with pytest.raises(ValueError, match="checkpoint is 3; pass the path of a file"):
        EM("gaussian").run(*data, checkpoint=3)  # pyright: ignore[reportArgumentType]
    for path in ("no folder/state.npz", "."):
        with pytest.raises(ValueError, match="checkpoint is .*, which cannot be written; pass"):
            EM("gaussian").run(*data, checkpoint=path)
    for start in (3, b"state.npz", (1.0, 2.0)):
        with pytest.raises(ValueError, match="init_state is .*; pass the state of an earlier"):
            EM("gaussian").run(*data, init_state=start)  # pyright: ignore[reportArgumentType]


def test_tiers_are_of_the_items_there_are():
    for prior in (KernelPrior.for_items(3, 1.0), KernelPrior((Tier(0, 2, 1.0),), (1, 0))):
        with pytest.raises(ValueError, match="strength has an order of items, or tiers of . items"):
            EM("gaussian", strength=prior).run([0, 1], [0, 1], [0.0, 1.0], progress_bar=False)


def test_comparisons_are_checked():
    with pytest.raises(ValueError, match="losers is 1 in row 0, and so is winners"):
        EM("pairwise").run([0], [[1, 1]], progress_bar=False)
    with pytest.raises(ValueError, match="levels is given for comparisons"):
        EM("pairwise").run([0], [[1, 0]], [1], progress_bar=False)
