"""What a ranking comes to, in one or two sentences."""

from collections.abc import Callable

import numpy as np

from bayesrank._names import shown
from bayesrank.ranking import RankSummary, comparisons_needed
from bayesrank.ranking.columns import percent

_MOST = 100_000  # beyond this, a number of comparisons is no help
_NAMED = 5


def conclusion(summary: RankSummary, skills: np.ndarray, chance: Callable[[float], float]) -> str:
    """Say whether there is a winner, a tie, or not enough evidence, and what would settle it."""
    group = summary.component == 0
    tier = np.flatnonzero(group & (summary.tier == 1))
    said = ""
    if summary.num_components > 1:
        said = (
            f"No comparison links the {summary.num_components} components that the items fall "
            "into: there is no winner of them all. Of component 1, the largest: "
        )
    size, first = int(group.sum()), shown(summary.names[0])
    if size == 1:
        return f"{said}it holds one item."
    if len(tier) == 1:
        return f"{said}{first} is the best ({percent(float(summary.prob_best[0]))} sure)."
    if summary.provisional[0]:
        said += "There is not enough evidence to say which item is the best: "
        said += f"{len(tier):,} of {size:,} may be."
    else:
        names = ", ".join(shown(summary.names[i]) for i in tier[:_NAMED])
        more = ", ..." if len(tier) > _NAMED else "."
        said += f"A tie of {len(tier):,} of {size:,} items at the top: {names}{more}"
    return f"{said} {_what_would_tell(skills[:, summary.indices[tier]], chance)}"


def _what_would_tell(skills: np.ndarray, chance: Callable[[float], float]) -> str:
    number = comparisons_needed(skills, chance)
    if number > _MOST:
        return "They are estimated too close to say how many more comparisons would tell."
    digits = max(0, len(str(int(number))) - 2)
    rough = max(1, round(number / 10**digits) * 10**digits)
    more = "comparison" if rough == 1 else "comparisons"
    return (
        f"Roughly {rough:,} more {more} of the first with the others would tell, if they "
        "differ by what is estimated now."
    )
