"""The package's own programs, each with all that its data may have, on small data.

Importing this enters them into the table.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpyro import handlers
from program_table import LEVEL, Y
from program_unusual import PROGRAMS

from bayesrank import models
from bayesrank.models.comparisons import SCALES

__all__ = ["OWN", "PROGRAMS"]

OWN: list[str] = []
"""Names of these programs in the table."""

RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(6, 2))
FIRST = np.arange(24) % 6
PAIRS = np.stack([FIRST, (FIRST + 1 + np.arange(24) // 6) % 6], axis=1)
PAIRS[::3] = PAIRS[::3, ::-1]
USERS, ITEMS = np.array([0, 0, 1, 1, 2]), np.array([0, 1, 1, 2, 0])
ROOT = RNG.normal(size=(3, 3))
SHARED = {"h": np.array([0.3, -0.2, 0.5]), "Sigma": ROOT @ ROOT.T + np.eye(3)}
PROCESS = {"amplitude": 1.2, "lengthscale": 0.9}
MEDIANS = {name: prior.median for name, prior in SCALES.items()}
GAPS = {"gaps": np.array([0.8])}
LISTS = np.repeat([0, 1], 5)
LIST_ROWS = RNG.normal(size=(10, 3))


def _enter(
    name: str, says: str, model: Callable[..., Any], *args: Any, given: dict[str, Any], **data: Any
) -> None:
    """Enter a program with its data, its hyperparameters at given values."""
    held = handlers.condition(model, given)

    def program() -> None:
        held(*args, **data)

    program.__doc__ = says
    PROGRAMS[name] = program
    OWN.append(name)


_enter(
    "preference_gp",
    "Comparisons of items with features.",
    models.preference_gp,
    FEATURES,
    PAIRS,
    given={**PROCESS, "noise": 1.0},
)
_enter(
    "judged_comparisons",
    "Comparisons by judges, in an order, in categories, with ties.",
    models.judged_comparisons,
    6,
    PAIRS,
    given={**MEDIANS, "reliability": np.array([0.6, 1.0, 1.5])},
    outcomes=np.arange(24) % 3,
    position=np.tile([1, -1, 0, 1], 6),
    judges=np.arange(24) % 3,
    num_judges=3,
    categories=np.arange(24) // 12,
    num_categories=2,
)
_enter(
    "dynamic_thurstone",
    "Skills of four items that move.",
    models.dynamic_thurstone,
    4,
    np.array([[0, 1], [1, 2], [3, 2], [0, 3]] * 3),
    given={"scale": 1.0, "drift": 1.0},
    times=np.array([0.0, 0.07, 0.5, 1.0]),
    period=np.arange(12) % 3,
)
_enter(
    "ordinal_gp_of_levels",
    "Levels that one person gave.",
    models.ordinal_gp,
    FEATURES,
    LEVEL[:6],
    given={**PROCESS, **GAPS},
    ard=False,
)
_enter(
    "ordinal_gp_of_numbers",
    "Numbers that one person gave.",
    models.ordinal_gp,
    FEATURES,
    Y[:6],
    given={**PROCESS, "noise": 0.5},
    likelihood="gaussian",
    ard=False,
)
_enter(
    "collaborative_rating_gp",
    "Numbers that three users gave.",
    models.collaborative_rating_gp,
    USERS,
    ITEMS,
    np.array([0.0, 2.0, 1.0, 1.0, 0.0]),
    3,
    3,
    given={**SHARED, "noise": 0.7},
)
_enter(
    "collaborative_ordinal_gp",
    "Levels that three users gave.",
    models.collaborative_ordinal_gp,
    USERS,
    ITEMS,
    np.array([0, 2, 1, 1, 0]),
    3,
    3,
    given={**SHARED, **GAPS},
)
_enter(
    "collaborative_preference_gp",
    "Comparisons by three users.",
    models.collaborative_preference_gp,
    USERS,
    ITEMS,
    (ITEMS + 1) % 3,
    3,
    3,
    given=SHARED,
)
_enter(
    "rank_rls_gp",
    "Grades in two lists, seen through their differences.",
    models.rank_rls_gp,
    LIST_ROWS,
    Y,
    list(LISTS),
    given={"scale": 0.8, "noise": 0.5},
)
_enter(
    "link_bm25",
    "Linked documents, each the best of several.",
    models.link_bm25,
    np.abs(RNG.normal(size=(8, 3))),
    RNG.normal(size=(8, 3, 2)),
    given={},
)
