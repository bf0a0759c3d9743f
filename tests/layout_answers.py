"""What a file of comparisons says, in one line, as the page on files and its tests write it."""

import numpy as np

from bayesrank.datasets import ComparisonData


def said(data: ComparisonData) -> str:
    """Comparisons as `2 x a > b`, ties as `a = b`, orders as `a > b = c`; times behind `at`."""
    if data.orders is not None:
        orders = [
            " > ".join(" = ".join(data.names[i] for i in group) for group in groups)
            for groups in data.orders.groups
        ]
        return "; ".join(map(_times, orders, data.orders.counts))
    found = []
    for k, pair in enumerate(data.comparisons):
        text = (" = " if data.tied[k] else " > ").join(data.names[i] for i in pair)
        found.append(_times(text, 1.0 if data.weights is None else data.weights[k]))
        if data.times is not None:
            found[-1] += f" at {str(data.times[k]).removesuffix('T00:00:00.000000')}"
    return "; ".join(found)


def _times(text: str, count: np.floating | float) -> str:
    return text if count == 1 else f"{count:g} x {text}"
