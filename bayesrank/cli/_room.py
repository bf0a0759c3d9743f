"""What will not fit into memory is refused as soon as the data are read, with numbers and cure.

The bounds are of what the work needs at the least, so that nothing is refused that would fit.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bayesrank._memory import available, size_of

if TYPE_CHECKING:
    from bayesrank.datasets import ComparisonData, ListData, RatingData
    from bayesrank.datasets.runs import Qrels, Run

_DRAWS, _FEWEST_DRAWS = 2000, 200
_NUMBERS_DRAWN = 20_000_000  # 160 MB, several times over
_LARGEST_DENSE = 5000  # side of a matrix that RankRLS decomposes
_LANCZOS = 50  # vectors that it keeps beyond that
_ATOMS = 10  # of ConeRank


def num_draws(num_items: int) -> int:
    """How many posterior draws a ranking takes: 2,000, of very many items fewer, 200 at least."""
    return max(_FEWEST_DRAWS, min(_DRAWS, _NUMBERS_DRAWN // num_items))


def refuse_large_ranking(path: Path, data: "ComparisonData") -> None:
    """Three matrices of covariances where there are features, and draws of the skills.

    The covariances of very many items are those of inducing points, 800 at the most.
    """
    n = data.num_items
    pairs = 0 if data.features is None else 3 * n * min(n, 800)
    if data.times is not None:
        pairs = 6 * n**2 + 2 * n * data.num_comparisons
    need = 8 * (pairs + 3 * num_draws(n) * n + 10 * data.num_comparisons)
    what = f"{n:,} items and {data.num_comparisons:,} comparisons"
    if data.judges is not None or data.groups is not None:
        latents = n * (1 + len(data.group_names)) + 2
        need += 8 * latents * (4 * latents + 7 * len(data.judge_names))
    if data.orders is not None:
        # Each event has the covariances of its performances, and their loadings on all skills.
        count = int(data.orders.counts.sum())
        longest = max(sum(map(len, order)) for order in data.orders.groups)
        need += 8 * count * longest * (longest + n)
        what = f"{n:,} items and {count:,} orders"
    if data.times is not None:
        cure = "rank fewer items, or the later comparisons, or leave out --time"
        return _refuse(path, need, what, cure)
    cure = "rank fewer items" if data.features is None else "rank fewer items, or without --items"
    _refuse(path, need, what, cure)


def refuse_large_prediction(path: Path, data: "RatingData", num_items: int) -> None:
    """Mean, variance, order and marks of every pair of user and item, and two kernels of items."""
    users = len(data.users)
    need = 25 * users * num_items + 16 * num_items**2
    _refuse(
        path,
        need,
        f"{users:,} users and {num_items:,} items",
        "leave out users or items of few ratings, or fit by bayesrank.CollaborativeOrdinalGP, "
        "which predicts the pairs that you ask for",
    )


def refuse_large_run(run: "Run", qrels: "Qrels") -> None:
    """Scores of all draws, in the order of the file and in that of the ranks."""
    draws = len({draw for draw, _, _ in run.scores})
    pairs = len({(query, item) for _, query, item in run.scores} | qrels.labels.keys())
    what = f"{draws:,} draws of the scores of {pairs:,} items in their queries"
    _refuse(run.path, 16 * draws * pairs, what, "give fewer draws, or divide the queries")


def refuse_large_learning(path: Path, method: str, learned: "ListData", judged: "ListData") -> None:
    """Matrices of the smaller side; dense features; or differences of all ordered pairs."""
    m, d = learned.X.shape
    side = min(m, d)
    what = f"{m:,} items with features up to number {learned.first + d - 1:,}"
    cure = "number the features without gaps, or give fewer items or features"
    need = 3 * d
    if method == "cone-rank":
        pairs = _ordered_pairs(learned)
        need += pairs * (3 * d + 4 * _ATOMS)
        what = f"{pairs:,} pairs of items with features up to number {learned.first + d - 1:,}"
    elif method == "lambda-rank":
        need += 3 * d * max(m, judged.X.shape[0]) + int(_sizes(learned).max()) ** 2
    elif side > _LARGEST_DENSE:
        need += _LANCZOS * max(m, d)
    else:
        need += 5 * side**2
    _refuse(path, 8 * need, what, cure)


def _sizes(data: "ListData") -> np.ndarray:
    """Number of items of each query."""
    return np.unique(np.array(data.query, object), return_counts=True)[1]


def _ordered_pairs(data: "ListData") -> int:
    """Number of pairs of items of one query with different grades."""
    query = np.unique(np.array(data.query, object), return_inverse=True)[1]
    each = np.unique(np.stack([query, data.y.astype(int)]), axis=1, return_counts=True)[1]
    return int((np.sum(_sizes(data) ** 2) - np.sum(each**2)) // 2)


def _refuse(path: Path, need: int, what: str, cure: str) -> None:
    from bayesrank.datasets import DataError

    room = available()
    if room is not None and need > room:
        problem = f"{what} take at least {size_of(need)} of memory, and {size_of(room)} are free"
        raise DataError(path, problem, cure)
