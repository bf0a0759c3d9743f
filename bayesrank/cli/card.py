"""`card.png`: the first items of a ranking as a picture that can be posted."""

import io
import warnings
from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager

from bayesrank._names import shown
from bayesrank.cli.report import ranking_rows
from bayesrank.plots.figure import shorten

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
    table = ranking_rows(first["items"][:_ROWS])
    _write(ax, _LEFT, 68, document["title"], 44, width=_RIGHT - _LEFT, weight="bold")
    leaders = [row["item"]["item"] for row in table["rows"] if "first" in row["classes"].split()]
    verdict = first["verdict"].partition("\n")[0]
    for name in map(shown, leaders[:1]):
        verdict = verdict.replace(name, shorten(name))
    _write(ax, _LEFT, 122, verdict, 25, width=_RIGHT - _LEFT)
    for x, side, said in (
        (_BAR, "left", f"{table['title']}, {level} interval"),
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
