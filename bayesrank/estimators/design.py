"""Who meets whom: whether a design looks matched, and the prior that takes opponents to be alike.

Where near-equals meet, few comparisons say how far the strong are from the weak. Independent skills
then learn too small a scale, and far ends look equal. A prior along the graph of the comparisons
does not (`bayesrank.models.thurstone`).
"""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bayesrank import gp
from bayesrank._validate import check_choice
from bayesrank.datasets import ComparisonData
from bayesrank.estimators.skills import FitSettings, RankerFit, fit_skills
from bayesrank.infer.spi import MOST_DENSE
from bayesrank.ranking import connected_components
from bayesrank.solvers.comparisons.skills import Independent, Skills

DesignChoice = Literal["auto", "random", "matched"]
"""What is known of who meets whom."""

_MOST_ITEMS = 600  # beyond, averaging takes several times as long
_LOOSE = 0.5  # of the gap that random draws have


def check_design(design: DesignChoice, data: ComparisonData) -> None:
    """Refuse a design that is none, or "matched" of what has no graph of comparisons."""
    check_choice(design, "design", "auto", "random", "matched")
    if design != "matched":
        return
    for there, what in ((data.orders, "orders"), (data.features, "item_features")):
        if there is not None:
            raise ValueError(f"design is 'matched', which does not go with {what}; leave it out")
    if data.num_items > MOST_DENSE:
        raise ValueError(
            f"design is 'matched', and there are {data.num_items:,} items, over {MOST_DENSE:,}; "
            "pass design='random', or rank fewer items"
        )


def fit_by_design(
    data: ComparisonData,
    skills: Skills,
    settings: FitSettings,
    design: DesignChoice,
    callback: Callable[[int, float], None] | None = None,
) -> RankerFit:
    """Learn skills that are independent, or alike where items meet; "auto" by their evidence."""
    if design == "matched":
        if not isinstance(skills, Independent):
            raise ValueError(
                "design is 'matched', and skills move; leave it out, or pass time=None"
            )
        return fit_skills(data, _alike(data), settings, callback)
    found = fit_skills(data, skills, settings, callback)
    asked = design == "auto" and settings.hyperparameters == "integrate"
    if not (asked and isinstance(skills, Independent) and looks_matched(data)):
        return found
    other = fit_skills(data, _alike(data), settings, callback)
    return max(found, other, key=lambda fit: fit.result.log_evidence)


def looks_matched(data: ComparisonData) -> bool:
    r"""Whether comparisons alone are known, and tie items together far more loosely than by chance.

    The measure is the spectral gap of the graph of comparisons, the smallest positive eigenvalue
    of its normalised Laplacian. Graphs of random draws of d comparisons an item have about
    :math:`1 - 2 \sqrt{d - 1} / d`.
    """
    if data.is_log or data.num_items > _MOST_ITEMS:
        return False
    graph = _graph(data)
    degrees = graph.sum(axis=1)
    mean = float(degrees[degrees > 0].mean())
    by_chance = 1.0 - 2.0 * np.sqrt(max(mean - 1.0, 0.0)) / mean
    if mean <= 2.0 or by_chance <= 0.0:
        return False
    values = np.linalg.eigvalsh(gp.laplacian(graph, normalized=True).toarray())
    parts = int(connected_components(data.comparisons, data.num_items).max()) + 1
    return parts < data.num_items and bool(values[parts] < _LOOSE * by_chance)


def _alike(data: ComparisonData) -> Independent:
    """Items that are alike where they meet."""
    return Independent(data.num_items, gp.laplacian(_graph(data)).toarray())


def _graph(data: ComparisonData) -> Any:
    """How often any two items met, ties included, a sparse array of shape (n, n)."""
    counts = np.ones(data.num_comparisons) if data.weights is None else data.weights
    pairs: NDArray[np.int64] = data.comparisons
    met: Any = sparse.csr_array((counts, (pairs[:, 0], pairs[:, 1])), shape=(data.num_items,) * 2)
    return met + met.T
