"""`report.html`: what `ranking.json` says as one page, to be read anywhere."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from bayesrank._names import count_of, shown
from bayesrank.ranking.columns import count_text, percent, whole_percent

_OPEN_ROWS, _MOST_ROWS = 20, 2000


def report(document: Mapping[str, Any]) -> str:
    """Return the page: HTML that needs nothing else, and has no script."""
    pages = Environment(
        loader=PackageLoader("bayesrank.cli", "pages"), autoescape=True, undefined=StrictUndefined
    )
    pages.filters |= {"shown": shown, "whole_percent": whole_percent}
    rankings = document["rankings"]
    items = rankings[0]["items"]
    checks = [list(check.values()) for check in document["checks"]]
    leader = items[0]
    page = pages.get_template("report.html.j2").render(
        document=document,
        leader=leader,
        best=percent(leader["prob_best"]),
        ranks=_ends(leader["rank_lower"], leader["rank_upper"]),
        provisional=any(item["provisional"] for each in rankings for item in each["items"]),
        statuses=[
            count_of(n, status) if status == "warning" else f"{n} {status}"
            for status, n in Counter(c[1] for c in checks).items()
        ],
        rankings=[
            (each["category"], each["verdict"], ranking_rows(each["items"])) for each in rankings
        ],
        checks=checks,
        names=[item["item"] for item in items[: len(document["pairs"])]],
    )
    return page.lstrip()


def _first(item: Mapping[str, Any]) -> bool:
    """Whether an item is tied for the first place of the largest component."""
    return item["tier"] == 1 and item.get("component", 1) == 1


def ranking_rows(items: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Title and rows of a ranking, its bars on one axis of 0 to 100."""
    scale = "elo" if "elo" in items[0] else "skill"
    mean = "elo" if scale == "elo" else "skill_mean"
    low = min(item[f"{scale}_lower"] for item in items)
    width = max(item[f"{scale}_upper"] for item in items) - low or 1.0
    kept = items[:_MOST_ROWS]
    tied = any(item.get("ties") for item in items)
    counts = ("wins", "losses", *(["ties"] if tied else []))
    groups = [item.get("component", 1) for item in items]
    sizes = Counter(groups)
    tiers = [(group, item["tier"]) for group, item in zip(groups, kept, strict=False)]
    rows = [
        {
            "item": item,
            "group": group if len(sizes) > 1 and group not in groups[:place] else None,
            "classes": " ".join(
                name
                for name, holds in (
                    ("first", _first(item)),
                    ("tier", 0 < place and tiers[place] not in tiers[:place]),
                    ("unsure", item["provisional"]),
                    ("rest", place >= _OPEN_ROWS),
                )
                if holds
            ),
            "bar": [
                2 + 96 * (item[name] - low) / width
                for name in (f"{scale}_lower", mean, f"{scale}_upper")
            ],
            "score": f"{item[mean]:.0f}" if scale == "elo" else f"{item[mean]:+z.2f}",
            "ranks": "-" if sizes[group] == 1 else _ends(item["rank_lower"], item["rank_upper"]),
            "best": "-" if sizes[group] == 1 else percent(item["prob_best"]),
            "next": _chance(item["prob_better_than_next"]),
            "record": "-".join(count_text(item[name]) for name in counts if name in item),
        }
        for place, (item, group) in enumerate(zip(kept, groups, strict=False))
    ]
    record = "Won-lost-tied" if tied else "Won-lost"
    more = len(items) - len(kept)
    return {"title": scale.capitalize(), "record": record, "rows": rows, "more": more}


def _ends(low: int, high: int) -> str:
    return f"{low}" if low == high else f"{low}–{high}"


def _chance(share: float | None) -> str:
    return "" if share is None else percent(share)
