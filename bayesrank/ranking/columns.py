"""The columns of a ranking: the one list that screens, pages, files and `print` read."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bayesrank._names import shown

if TYPE_CHECKING:
    from bayesrank.ranking._summary import RankSummary


# The logistic curve of this slope is nowhere further than 0.01 from the normal one.
_LOGITS_PER_PROBIT = 1.702


class Anchor(NamedTuple):
    """An item whose Elo points are known, perhaps with an error."""

    item: Hashable
    points: float
    sd: float = 0.0

    def __str__(self) -> str:
        """Its name and points."""
        error = f" ± {self.sd:g}" if self.sd else ""
        return f"{shown(str(self.item))} {self.points:.0f}{error}"


class EloScale(NamedTuple):
    """Elo points: those of a unit of skill, and those of a skill of zero."""

    per_skill: float
    origin: float = 1500.0
    anchors: tuple[Anchor, ...] = ()  #: whose points are known; without them, the average is zero

    @property
    def meaning(self) -> str:
        """Whose points are known."""
        return ", ".join(map(str, self.anchors)) or f"average item {self.origin:.0f}"

    @property
    def reference(self) -> str:
        """The item that intervals are of differences to, if it is one."""
        exact = len(self.anchors) == 1 and not self.anchors[0].sd
        return shown(str(self.anchors[0].item)) if exact else ""

    def of(self, skill: Any) -> Any:
        """Points of skills."""
        return self.origin + self.per_skill * skill


def elo_per_skill(params: Mapping[str, Any], likelihood: str = "probit") -> float:
    """Elo points of a unit of skill, by the nearest logistic curve; 400 are odds of ten to one."""
    noise = float(params.get("noise", 1.0))
    logit = noise if likelihood == "logit" else np.sqrt(2.0) * noise / _LOGITS_PER_PROBIT
    return 400.0 / np.log(10.0) / logit


class RankingColumn(NamedTuple):
    """A column: its title and the text of its cell in a row."""

    title: str
    cell: Callable[[int], str]


def columns_of(summary: RankSummary, elo: EloScale | None = None) -> list[RankingColumn]:
    """Columns of a ranking from the left; with `elo`, on that scale."""
    s, elo = summary, elo or summary.elo
    alone = np.bincount(s.component)[s.component] == 1

    def ranks(i: int) -> str:
        return "-" if alone[i] else span(f"{s.rank_lower[i]}", f"{s.rank_upper[i]}")

    def chance(shares: np.ndarray) -> Callable[[int], str]:
        return lambda i: "-" if alone[i] or np.isnan(shares[i]) else percent(float(shares[i]))

    columns = [
        RankingColumn("Rank", lambda i: str(s.rank[i])),
        RankingColumn(f"{100 * s.level:g}% ranks", ranks),
        RankingColumn("Item", lambda i: shown(s.names[i])),
        _skill(s, elo),
        RankingColumn("P(best)", chance(s.prob_best)),
        RankingColumn("P(beats next)", chance(s.prob_better_than_next)),
        RankingColumn("Tier", lambda i: "*" if s.provisional[i] else str(s.tier[i])),
    ]
    if s.records is not None:
        wins, losses, ties = s.records
        parts, tied = ((wins, losses, ties), "-tied") if ties.any() else ((wins, losses), "")
        columns.append(
            RankingColumn(
                f"Won-lost{tied}", lambda i: "-".join(count_text(float(n[i])) for n in parts)
            )
        )
    if s.num_components > 1:
        columns.insert(0, RankingColumn("Group", lambda i: str(s.component[i] + 1)))
    return columns


def file_columns(summary: RankSummary, elo: EloScale | None = None) -> dict[str, Any]:
    """Columns of files by name, shape (n,) each, whatever the data; Elo comes last."""
    s, elo = summary, elo or summary.elo
    columns: dict[str, Any] = {"rank": s.rank, "item": s.names}
    name = "skill" if s.measure == "skill" else "score"
    columns |= {f"{name}_mean": s.mean, f"{name}_sd": s.sd}
    columns |= {f"{name}_lower": s.skill_lower, f"{name}_upper": s.skill_upper}
    columns |= {"prob_best": s.prob_best, f"prob_top_{s.k}": s.prob_top_k}
    columns |= {"prob_better_than_next": s.prob_better_than_next, "expected_rank": s.expected_rank}
    columns |= {"rank_lower": s.rank_lower, "rank_upper": s.rank_upper}
    columns |= {"tier": s.tier, "provisional": s.provisional}
    if s.records is not None:
        columns |= s.records._asdict() | {"comparisons": s.records.comparisons}
    columns["component"] = s.component + 1
    if elo is not None:
        skills = {"": s.mean, "_lower": s.skill_lower, "_upper": s.skill_upper}
        columns |= {f"elo{end}": elo.of(skill) for end, skill in skills.items()}
    return columns


def text_table(summary: RankSummary, most: int) -> str:
    """A table of at most `most` rows, which leaves out the middle of a longer one and says so."""
    rows, head, left_out = _shown_rows(summary, most)
    columns = [_padded(column, rows) for column in columns_of(summary)]
    lines = ["  ".join(cells).rstrip() for cells in zip(*columns, strict=True)]
    if left_out:
        lines.insert(head + 1, left_out)
    return "\n".join(lines)


def html_table(summary: RankSummary, most: int) -> str:
    """The same for notebooks."""
    rows, head, left_out = _shown_rows(summary, most)
    columns = columns_of(summary)
    lines = [f"<td>{'</td><td>'.join(escape(c.cell(i)) for c in columns)}</td>" for i in rows]
    if left_out:
        lines.insert(head, f'<td colspan="{len(columns)}">{left_out}</td>')
    title = "".join(f"<th>{escape(column.title)}</th>" for column in columns)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><thead><tr>{title}</tr></thead><tbody>{body}</tbody></table>"


def _shown_rows(summary: RankSummary, most: int) -> tuple[list[int], int, str]:
    """Rows to show, how many of them come before the gap, and a line about those left out."""
    n = len(summary)
    head = n if n <= most else most - 10
    rows = [*range(head), *range(max(head, n - 10), n)]
    return rows, head, f"... {n - len(rows)} more ..." if len(rows) < n else ""


def percent(share: float) -> str:
    """Return a probability as a whole percentage, as 2,000 draws know it to 1%."""
    return f"{whole_percent(share)}%"


def exact_percent(share: float) -> str:
    """Return a probability that is known without draws as a percentage; never 0 or 100."""
    if share < 0.001:
        return "<0.1%"
    return f"{100 * share:.1f}%" if share <= 0.999 else ">99.9%"


def whole_percent(share: float) -> str:
    """Return a probability as a whole number of percent, but for 0 and 100."""
    if share <= 0.005:
        return "<1"
    return f"{100 * share:.0f}" if share < 0.995 else ">99"


def score_text(score: float, measure: str, sd: float) -> str:
    """Return a score as 2,000 draws of this standard deviation know it: a share in percent."""
    if measure == "share":
        return f"{100 * score:.{int(sd < 0.02)}f}%"
    digits = max(0, 1 - int(np.floor(np.log10(sd)))) if sd > 0 else 2
    return f"{score:.{digits}f}"


def count_text(number: float) -> str:
    """Return a sum of weights, which is a whole number where weights are, as a text."""
    return f"{number:.2f}".rstrip("0").rstrip(".")


def span(low: str, high: str) -> str:
    """An interval as text, one number where both ends are the same."""
    return low if low == high else f"{low}–{high}"  # noqa: RUF001


def _skill(s: RankSummary, elo: EloScale | None) -> RankingColumn:
    def skill(i: int) -> str:
        if s.measure == "skill":
            return f"{s.mean[i]:+z.2f} ± {s.sd[i]:.2f}"
        mean, sd = (score_text(each[i], s.measure, s.sd.min()) for each in (s.mean, s.sd))
        return f"{mean.removesuffix('%')} ± {sd}"

    if elo is None and s.measure != "skill":
        return RankingColumn("Score ± SD", skill)
    if elo is None:
        return RankingColumn("Skill ± SD", skill)

    def points(i: int) -> str:
        numbers = [s.mean[i], s.skill_lower[i], s.skill_upper[i]]
        mean, low, high = (f"{elo.of(number):.0f}" for number in numbers)
        return f"{mean} ({span(low, high)})"

    return RankingColumn("Elo", points)


def _padded(column: RankingColumn, rows: Sequence[int]) -> list[str]:
    """Title and cells of one width; names stand at the left."""
    cells = [column.title, *map(column.cell, rows)]
    width = max(map(len, cells))
    return [c.ljust(width) if column.title == "Item" else c.rjust(width) for c in cells]
