"""`report.html` and `card.png`: what `ranking.json` says as a page and as a picture."""

import io
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager

from bayesrank._names import count_of, shown
from bayesrank.cli.words import heading
from bayesrank.plots.figure import shorten
from bayesrank.ranking.columns import count_text, percent, score_text, whole_percent

_OPEN_ROWS, _MOST_ROWS = 20, 2000


def report(document: Mapping[str, Any]) -> str:
    """Return the page: HTML that needs nothing else, and has no script."""
    pages = Environment(
        loader=PackageLoader("bayesrank.cli", "pages"), autoescape=True, undefined=StrictUndefined
    )
    pages.filters |= {"shown": shown, "whole_percent": whole_percent}
    rankings = document["rankings"]
    items = rankings[0]["items"]
    measure = document["measure"]
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
            (_heading(each, measure), each["verdict"], ranking_rows(each["items"], measure))
            for each in rankings
        ],
        checks=checks,
        names=[item["item"] for item in items[: len(document["pairs"])]],
    )
    return page.lstrip()


def _heading(ranking: Mapping[str, Any], measure: str) -> str:
    """What stands above one of several rankings; nothing above that of all."""
    part = ranking.get("category", ranking.get("question"))
    return heading(measure, part) if part else ""


def _first(item: Mapping[str, Any]) -> bool:
    """Whether an item is tied for the first place of the largest component."""
    return item["tier"] == 1 and item.get("component", 1) == 1


def ranking_rows(items: Sequence[Mapping[str, Any]], measure: str = "skill") -> dict[str, Any]:
    """Title and rows of a ranking, its bars on one axis of 0 to 100."""
    scale = "elo" if "elo" in items[0] else "skill" if measure == "skill" else "score"
    mean = "elo" if scale == "elo" else f"{scale}_mean"
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
            "score": _number(item, scale, measure),
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


def _number(item: Mapping[str, Any], scale: str, measure: str) -> str:
    """The mean of a row as a text."""
    if scale == "score":
        return score_text(item["score_mean"], measure, item["score_sd"])
    return f"{item['elo']:.0f}" if scale == "elo" else f"{item['skill_mean']:+z.2f}"


def _ends(low: int, high: int) -> str:
    return f"{low}" if low == high else f"{low}–{high}"


def _chance(share: float | None) -> str:
    return "" if share is None else percent(share)


_WIDTH, _HEIGHT, _DPI = 1200, 630, 100
_ROWS, _TOP, _BOTTOM, _STEP = 10, 205, 575, 60
_LEFT, _NAME, _BAR, _RANKS, _RIGHT = 60, 90, 470, 1010, 1140  # columns, in pixels
_INK, _SOFT, _ACCENT, _GREY = "#1c1e21", "#5c636b", "#1f6fb2", "#9aa5b1"
# Matplotlib's own font, and those that may be there for what it cannot write.
_FONTS = (
    *("DejaVu Sans", "Noto Sans CJK SC", "Noto Sans CJK JP", "PingFang SC", "Hiragino Sans GB"),
    *("Microsoft YaHei", "WenQuanYi Zen Hei", "Arial Unicode MS", "Noto Emoji"),
)


def card(document: Mapping[str, Any]) -> bytes:
    """Return the picture of what `ranking.json` says, as PNG."""
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a box stands for it
        card_figure(document).savefig(file, format="png")
    return file.getvalue()


def card_figure(document: Mapping[str, Any]) -> Figure:
    """Draw the title, the verdict and the first ten items with their intervals."""
    figure = Figure(figsize=(_WIDTH / _DPI, _HEIGHT / _DPI), dpi=_DPI, facecolor="white")
    ax = figure.add_axes((0, 0, 1, 1), xlim=(0, _WIDTH), ylim=(_HEIGHT, 0))
    ax.set_axis_off()
    first = document["rankings"][0]
    level = f"{100 * document['level']:g}%"
    question = f" on {first['question']}" if "question" in first else ""
    table = ranking_rows(first["items"][:_ROWS], document["measure"])
    _write(ax, _LEFT, 68, document["title"], 44, width=_RIGHT - _LEFT, weight="bold")
    leaders = [row["item"]["item"] for row in table["rows"] if "first" in row["classes"].split()]
    verdict = first["verdict"].partition("\n")[0]
    for name in map(shown, leaders[:1]):
        verdict = verdict.replace(name, shorten(name))
    _write(ax, _LEFT, 122, verdict, 25, width=_RIGHT - _LEFT)
    for x, side, said in (
        (_BAR, "left", f"{table['title']}{question}, {level} interval"),
        (_RANKS, "center", f"{level} ranks"),
        (_RIGHT, "right", "P(best)"),
    ):
        _write(ax, x, _TOP - 37, said, 18, ha=side, color=_SOFT)
    for place, row in enumerate(table["rows"]):
        _draw_row(ax, _TOP + min(_STEP, (_BOTTOM - _TOP) / len(table["rows"])) * place, row)
    said = document["counts"] + (". Blue: statistically tied for first" if len(leaders) > 1 else "")
    if any(row["item"]["provisional"] for row in table["rows"]):
        said += ". Hollow: provisional"
    _write(ax, _LEFT, 598, said, 18, _SOFT, width=_RIGHT - 130 - _LEFT)
    _write(ax, _RIGHT, 598, "bayesrank", 18, _SOFT, ha="right", weight="bold")
    return figure


def _draw_row(ax: Axes, y: float, row: Mapping[str, Any]) -> None:
    """One item: rank, name, interval, likely ranks and P(best)."""
    tied, unsure = ("first" in row["classes"].split(), row["item"]["provisional"])
    color = _ACCENT if tied else _GREY
    low, middle, high = (_BAR + (_RANKS - 80 - _BAR) * end / 100 for end in row["bar"])
    ax.plot([low, high], [y, y], color=color, lw=6, alpha=0.5, solid_capstyle="round")
    ax.plot(middle, y, "o", ms=9, color=color, mfc="white" if unsure else color)
    _write(ax, _NAME - 12, y, str(row["item"]["rank"]), 22, _SOFT, ha="right")
    weight = "bold" if tied else "normal"
    _write(
        ax,
        _NAME,
        y,
        shorten(shown(row["item"]["item"])),
        24,
        width=_BAR - _NAME - 16,
        weight=weight,
    )
    _write(ax, _RANKS, y, row["ranks"], 22, ha="center")
    _write(ax, _RIGHT, y, row["best"], 22, ha="right")


def _write(
    ax: Axes, x: float, y: float, said: str, size: int, color: str = _INK, *, width: int = 0,
    **style: Any,
) -> None:  # fmt: skip
    """Write a text `size` pixels high; where it is wider than `width`, smaller, then cut."""
    known = set(fontManager.get_font_names())
    text = ax.text(
        x, y, shown(said)[:300], color=color, va="center_baseline", parse_math=False,
        family=[font for font in _FONTS if font in known], fontsize=72 / _DPI * size, **style,
    )  # fmt: skip
    points = 72 / _DPI * size
    while width and text.get_window_extent().width > width:
        if points > 54 / _DPI * size:
            points *= 0.95
            text.set_fontsize(points)
        else:
            text.set_text(text.get_text().rstrip("…")[:-1].rstrip() + "…")
