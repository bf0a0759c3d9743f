"""The unit of skill: what a difference is worth in comparisons, and on the scale of chess."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import expit, ndtr

# The logistic curve of this slope is nowhere further than 0.01 from the normal one.
_LOGITS_PER_PROBIT = 1.702

Params = Mapping[str, np.ndarray]


def win_chance(difference: Any, params: Params, likelihood: str = "probit") -> Any:
    """Chance that an item wins a comparison against one whose skill is lower by `difference`."""
    noise, width = _noise(params), float(params.get("tie_width", 0.0))
    if likelihood == "logit":
        return expit((difference - width) / noise)
    return ndtr((difference - width) / (np.sqrt(2.0) * noise))


def elo_per_skill(params: Params, likelihood: str = "probit") -> float:
    """Elo points of a unit of skill: 400 for odds of ten to one.

    With normal noise, those of the logistic curve that comes closest to the normal one.
    """
    points = 400.0 / np.log(10.0) / _noise(params)
    return points if likelihood == "logit" else points * _LOGITS_PER_PROBIT / np.sqrt(2.0)


def _noise(params: Params) -> float:
    return float(params.get("noise", 1.0))
