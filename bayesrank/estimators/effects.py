"""What decides comparisons beside skill: position, ties and judges, in numbers and in sentences."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtri

from bayesrank._validate import check_level
from bayesrank.estimators.skills import RankerPosterior
from bayesrank.ranking.columns import span
from bayesrank.solvers.comparisons.posterior import chances_of_margins

_NEXT_TO_NOTHING = 1e-12  # a variance, for quadrature divides by its root


class Effect(NamedTuple):
    """What something other than skill does to comparisons, with its interval."""

    name: str  # as in `bayesrank.models.judged_comparisons`
    label: str  # in words
    mean: float  # on the scale of skill, with its interval
    lower: float
    upper: float
    percent: float  # what it comes to between items of equal skill, in 100 comparisons
    percent_lower: float
    percent_upper: float


def effects_of(
    posterior: RankerPosterior,
    params: Mapping[str, Any],
    labels: Mapping[str, str],
    units: Mapping[str, float],
    level: float,
) -> list[Effect]:
    """Effects of the position, of covariates by their units, and of ties, by normal intervals."""
    tail = np.array([0.0, -1.0, 1.0]) * ndtri(0.5 + check_level(level) / 2.0)
    position, log_width, others = posterior.effects()
    widths = np.zeros(3) if log_width is None else np.exp(log_width[0] + tail * log_width[1])

    def chances(advantage: NDArray[np.float64], width: float) -> NDArray[np.float64]:
        known = {name: params[name] for name in params if name == "noise"}
        known |= {} if log_width is None else {"tie_width": width}
        exact = np.full(advantage.size, _NEXT_TO_NOTHING)
        return chances_of_margins(posterior.likelihood, known, advantage, exact)

    sides = [("position_effect", labels["position_effect"], position)] if position else []
    sides += [
        ("covariate_effect", f"{unit:.3g} more {name}", each)
        for (name, unit), each in zip(units.items(), others, strict=True)
    ]
    found = []
    for name, label, (mean, sd) in sides:
        ends = mean + tail * sd
        loss, _, win = chances(ends, float(widths[0])).T
        shares = 100.0 * win / (win + loss)
        found.append(Effect(name, label, *map(float, ends), *map(float, shares)))
    if log_width is not None:
        shares = [100.0 * float(chances(np.zeros(1), width)[0, 1]) for width in widths]
        found.append(Effect("tie_width", "ties", *map(float, widths), *shares))
    return found


def judges_of(
    posterior: RankerPosterior, names: list[Any], num_judged: Any, level: float
) -> pd.DataFrame:
    """Reliability and order bias of each judge, by their names, see `bayesrank.Ranker.judges`."""
    found, tail = posterior.judges, ndtri(0.5 + check_level(level) / 2.0)
    log, spread = found.log_reliability, np.sqrt(found.log_reliability_variance)
    columns: dict[str, Any] = {
        "comparisons": num_judged[: len(log)],
        "reliability": np.exp(log),
        "reliability_lower": np.exp(log - tail * spread),
        "reliability_upper": np.exp(log + tail * spread),
    }
    if len(found.bias):
        spread = np.sqrt(found.bias_variance)
        columns["bias"] = found.bias
        columns["bias_lower"] = found.bias - tail * spread
        columns["bias_upper"] = found.bias + tail * spread
    frame = pd.DataFrame(columns, index=pd.Index(names, name="judge"))
    return frame.sort_values("reliability", kind="stable")


def sentences_on(
    effects: list[Effect],
    judges: pd.DataFrame,
    num_categories: int,
    params: dict[str, Any],
    level: float,
) -> tuple[str, ...]:
    """Sentences on these for a person, see `bayesrank.Ranker.notes`."""
    said = []
    for effect in effects:
        ends = sorted((effect.percent_lower, effect.percent_upper))
        low, high = (f"{end:.0f}" for end in ends)
        known = effect.lower == effect.upper
        range_ = "taken as known" if known else f"{100 * level:g}% interval {span(low, high)}%"
        share = f"{effect.percent:.0f}% of"
        if effect.name != "tie_width":
            label = effect.label[0].upper() + effect.label[1:]
            said.append(f"{label} wins {share} comparisons between equal items ({range_}).")
        else:
            said.append(f"Equal items tie in {share} comparisons ({range_}).")
    if len(judges):
        said.append(_on_judges(judges, params, level))
    if num_categories:
        overall, own = params.get("scale", params.get("amplitude")), params["category_scale"]
        said.append(
            f"Skills in {num_categories:,} categories differ from overall skill by {own:.2f} (SD); "
            f"overall skill varies between items by {overall:.2f} (SD)."
        )
    return tuple(said)


def on_widening(column: str, widening: float) -> str:
    """A sentence on rows that agree more than the model says."""
    return (
        f"Rows of the same {column} agree more than others (design effect {widening**2:.1f}), so "
        f"intervals are {widening:.1f} times as wide as without that."
    )


def _on_judges(frame: pd.DataFrame, params: dict[str, Any], level: float) -> str:
    careless = int(np.sum(frame["reliability_upper"].to_numpy() < 0.5))
    low, high = np.exp(ndtri([0.05, 0.95]) * params["reliability_scale"])
    text = (
        f"{len(frame):,} judges: 90% are between {low:.2f} and {high:.2f} times as sensitive to "
        "skill as the typical judge"
    )
    if careless:
        count = "1 is" if careless == 1 else f"{careless:,} are"
        text += f"; {count} less than half as sensitive ({100 * level:g}% level)"
    if "taste_scale" in params:
        text += f"; their own likings of an item differ by {params['taste_scale']:.2f} (SD)"
    if "bias_scale" in params:
        text += f"; their order biases differ by {params['bias_scale']:.2f} (SD)"
    return text + "."
