"""Comparisons in one of few shapes, so that small data of like size share compiled code.

Equal comparisons become one that counts several times. Rows that say nothing fill the table up to
the next size, and items that nobody compared come behind those that there are. The posterior of
the skills is the same.
"""

from typing import Any, NamedTuple

import numpy as np

from bayesrank._sizes import next_size
from bayesrank.datasets import ComparisonData
from bayesrank.infer import EPResult
from bayesrank.solvers.comparisons.terms import arguments_of

# The smallest size, and by how much the next is larger: a row costs little.
_ITEMS, _ROWS = (4, 2), (16, 4)
# Larger data take longer than their code takes to compile, and would pay for what is filled up.
_MOST_ITEMS, _MOST_ROWS = 64, 1_024


class Bucket(NamedTuple):
    """Arguments of a program of independent skills in a shape that others have, too."""

    num_items: int
    args: tuple[Any, ...]
    options: dict[str, Any]

    def without_filling(
        self, result: EPResult, args: tuple[Any, ...], options: dict[str, Any]
    ) -> EPResult:
        """A result at these arguments as that of the ones given."""
        per_item = ("f", "category_skill")
        shapes = {
            name: (*shape[:-1], self.num_items) if name in per_item else shape
            for name, shape in result.shapes.items()
        }
        return result.cut_to(shapes, args, options)


def in_bucket(data: ComparisonData, likelihood: str, laplacian: Any = None) -> Bucket:
    """Equal comparisons as one, in a shape that data of like size have, if they are small."""
    rows, num_items = data.distinct(), data.num_items
    columns = {"comparisons": rows.comparisons, **arguments_of(rows), "weights": rows.weights}
    size, count = num_items, rows.num_comparisons
    if size <= _MOST_ITEMS and count <= _MOST_ROWS:
        size, filled = next_size(size, *_ITEMS), next_size(count, *_ROWS)
        # What fills up is like the first row, so that EP watches no margin more than it did.
        at = np.where(np.arange(filled) < count, np.arange(filled), 0)
        columns = {k: v[at] if isinstance(v, np.ndarray) else v for k, v in columns.items()}
        columns["counted"] = np.arange(filled) < count
    if laplacian is not None:  # nobody's neighbours are independent of all others
        columns["laplacian"] = np.pad(laplacian, (0, size - num_items))
    return Bucket(
        num_items, (size, columns.pop("comparisons")), {"likelihood": likelihood, **columns}
    )
