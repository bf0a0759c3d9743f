"""`report.html`: the ranking, its checks and its pictures in one file, to be read anywhere."""

import base64
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bayesrank._names import shown
from bayesrank._version import __version__
from bayesrank.cli.outputs import DPI
from bayesrank.cli.tables import legend
from bayesrank.cli.trust import Check
from bayesrank.ranking import RankSummary
from bayesrank.ranking.columns import columns_of

if TYPE_CHECKING:
    from bayesrank.cli.pipeline import Ranked

_MOST_ROWS = 2000
_DOTS = 110  # of a picture's inch on the page
_TITLES = {
    "ranking.png": "Skills and ranks",
    "pairs.png": "Pairs",
    "crosscheck.png": "The fast fit beside simulation",
}


def report(
    rankings: "Sequence[Ranked]",
    checks: Sequence[Check],
    notes: Sequence[str],
    pictures: Mapping[str, bytes],
    elo: float | None = None,
) -> str:
    """Return the page: HTML that needs nothing else, and has no script."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    pages = Environment(
        loader=PackageLoader("bayesrank.cli", "pages"), autoescape=True, undefined=StrictUndefined
    )
    pages.filters["shown"] = shown
    return (
        pages.get_template("report.html.j2")
        .render(
            size=len(rankings[0].summary),
            rankings=[
                (each.category, each.conclusion, _table(each.summary, elo)) for each in rankings
            ],
            meaning=legend([each.summary for each in rankings], elo),
            checks=checks,
            notes=notes,
            pictures=[_picture(name, png) for name, png in pictures.items()],
            version=__version__,
        )
        .lstrip()
    )


def _table(summary: RankSummary, elo: float | None) -> dict[str, Any]:
    """Titles and cells of a ranking, and which rows begin a tier."""
    columns = columns_of(summary, elo)
    titles = [column.title for column in columns]
    count = min(len(summary), _MOST_ROWS)
    tiers = list(zip(summary.component.tolist(), summary.tier.tolist(), strict=True))
    rows = [
        ([column.cell(place) for column in columns], tiers.index(tiers[place]) == place)
        for place in range(count)
    ]
    more = len(summary) - count
    return {"titles": titles, "item": titles.index("Item"), "rows": rows, "more": more}


def _picture(name: str, png: bytes) -> dict[str, Any]:
    width = int.from_bytes(png[16:20], "big") * _DOTS // DPI  # as its header says
    data = base64.b64encode(png).decode()
    return {"title": _TITLES.get(name, name), "width": width, "data": data}
