"""Draw the picture of each how-to page, from what the programs of the page compute.

Run ``python docs/pictures.py`` when a page or its pictures change, or with the names of pages.
"""

import itertools
import os
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import pyplot as plt

from bayesrank import plots
from bayesrank.online import OnlineBayesPoint, PRank

PAGES = Path(__file__).resolve().parent / "howto"
Scope = dict[str, Any]


def _ranking(scope: Scope) -> None:
    plots.plot_ranking(scope["ranker"].rank(), max_items=10)


def _as_drawn(scope: Scope) -> None:
    """What the programs themselves have drawn."""


def _loop(scope: Scope) -> None:
    plots.plot_ranking(scope["ranking"])


def _bars(names: Any, middle: Any, half: Any, label: str) -> None:
    """Points with intervals, one row each."""
    _, ax = plt.subplots(figsize=(6, 0.5 * len(names) + 1), layout="constrained")
    ax.errorbar(middle, np.arange(len(names)), xerr=half, fmt="o", capsize=3)
    ax.set(yticks=range(len(names)), yticklabels=names, xlabel=label, ylim=(len(names) - 0.5, -0.5))


def _judges(scope: Scope) -> None:
    judges = scope["ranker"].judges()
    middle = judges["reliability"]
    ends = [middle - judges["reliability_lower"], judges["reliability_upper"] - middle]
    _bars(judges.index, middle, ends, "reliability (1: the typical judge), 90% interval")


def _pairs(scope: Scope) -> None:
    ranker = scope["ranker"]
    summary = ranker.rank()
    pairs = list(itertools.product(summary.names, repeat=2))
    plots.plot_pairwise(summary, ranker.prob_better(pairs).reshape(len(summary), -1))


def _similar(scope: Scope) -> None:
    model = scope["model"]
    plots.plot_similarity(model.shared_kernel_, list(model.items_))


def _lists(scope: Scope) -> None:
    names = [f"item {i + 1}" for i in range(5)]
    _bars(names, scope["score"], 1.645 * scope["sd"], "score in the first list, 90% interval")


def _label_ranks(scope: Scope) -> None:
    ranker, names = scope["ranker"], scope["names"]
    shares = ranker.rank_distribution(scope["X"][:1])[0]
    _, ax = plt.subplots(figsize=(4.5, 3), layout="constrained")
    ax.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for (row, column), share in np.ndenumerate(shares):
        ax.text(column, row, f"{share:.0%}", ha="center", va="center")
    ax.set(yticks=range(3), yticklabels=ranker.labels_, xticks=range(3), xticklabels=(1, 2, 3))
    ax.set(xlabel=f"rank of each of {len(names)} labels, for one example")


def _texts(scope: Scope) -> None:
    _, ax = plt.subplots(figsize=(6, 2.2), layout="constrained")
    ax.barh(scope["texts"], scope["scores"].toarray()[0])
    ax.set(xlabel='BM25 score for the query "fish"')
    ax.invert_yaxis()


def _losses(scope: Scope) -> None:
    X, levels = scope["X"], scope["levels"]
    learners = {"OnlineBayesPoint": OnlineBayesPoint(3), "PRank": PRank(3)}
    losses = {n: np.abs(each.prequential(X, levels) - levels) for n, each in learners.items()}
    _, ax = plt.subplots(figsize=(6, 3), layout="constrained")
    for name, loss in losses.items():
        ax.plot(loss.cumsum() / np.arange(1, len(loss) + 1), label=name)
    ax.set(xlabel="examples", ylabel="average rank loss so far", ylim=(0, None))
    ax.legend(frameon=False)


# How many programs of the page run first, and what is drawn then.
PICTURES: dict[str, tuple[int, Callable[[Scope], None]]] = {
    "arena": (1, _ranking),
    "best-worst": (1, _ranking),
    "features": (1, _ranking),
    "labels": (1, _label_ranks),
    "leagues": (1, _ranking),
    "lists": (1, _lists),
    "next": (1, _loop),
    "orders": (1, _ranking),
    "over-time": (3, _as_drawn),
    "panel": (1, _judges),
    "predictions": (1, _pairs),
    "ratings": (1, _similar),
    "streams": (1, _losses),
    "texts": (1, _texts),
}


# Second pictures, and the pages that have them.
_PAGE_OF = {"over-time": "leagues"}


def draw(name: str, target: Path) -> None:
    """Run the programs of a page, and save its picture."""
    number, picture = PICTURES[name]
    page = _PAGE_OF.get(name, name)
    text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
    scope: Scope = {"__name__": page}
    for program in re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)[:number]:
        exec(compile(program, page, "exec"), scope)
    picture(scope)
    plt.savefig(target, dpi=80, bbox_inches="tight")
    plt.close("all")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name in sys.argv[1:] or PICTURES:
            draw(name, PAGES / "images" / f"{name}.png")
