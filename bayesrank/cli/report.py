"""`report.html`: the ranking, its checks and its pictures in one file, to be read anywhere."""

import base64
import io
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from bayesrank._names import shown
from bayesrank._version import __version__
from bayesrank.cli.categories import CategoryRanking
from bayesrank.cli.tables import legend, ranking_cells, ranking_titles
from bayesrank.cli.trust import Check
from bayesrank.ranking import RankSummary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_ROWS = 2000
_TITLES = {
    "ranking.png": "Skills and ranks",
    "pairs.png": "Pairs",
    "crosscheck.png": "The fast fit beside simulation",
}
_CITATION = (
    "The bayesrank authors. bayesrank: rankings with honest uncertainty (version {version}). "
    "Software, Apache-2.0."
)
_METHODS = (
    "The fit is expectation propagation (T. P. Minka, 2001, Expectation propagation for "
    "approximate Bayesian inference, UAI); comparisons are noisy differences of skills (L. L. "
    "Thurstone, 1927, A law of comparative judgment, Psychological Review 34)."
)
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fff;
       max-width: 70rem; margin: 0 auto; padding: 0 1rem 3rem; }
h1 { font-size: 1.6rem; line-height: 1.2; }
h2 { font-size: 1.2rem; margin-top: 2rem; border-bottom: 1px solid #ccc; }
.verdict { font-size: 1.15rem; border-left: .3rem solid #1f77b4; padding: .2rem .8rem; }
.wide { overflow: auto; max-height: 85vh; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .6rem; text-align: right; white-space: nowrap; }
th.item, td.item { text-align: left; white-space: normal; min-width: 7rem; max-width: 20rem;
                   overflow-wrap: anywhere; }
th { border-bottom: 2px solid #222; position: sticky; top: 0; background: #fff; }
tbody tr { background: #fff; }
tbody tr:nth-child(even) { background: #f4f4f4; }
th.item, td.item { position: sticky; left: 0; }
td.item { background: inherit; }
th.item { z-index: 1; }
tbody tr.tier td { border-top: 1px solid #999; }
.answer { font-weight: bold; }
figure { margin: 1rem 0; overflow-x: auto; }
img { max-width: 100%; height: auto; }
p, li, dd { overflow-wrap: anywhere; }
dd { margin: 0 0 .6rem 1rem; }
small { color: #555; }
@media (max-width: 40rem) {
  table { font-size: .85rem; }
  th, td { padding: .15rem .3rem; }
  th.item, td.item { min-width: 5rem; max-width: 9rem; }
  img { max-width: none; min-width: 42rem; }
}
@media (prefers-color-scheme: dark) {
  tbody tr { background: #181818; }
  body { color: #ddd; background: #181818; }
  tbody tr:nth-child(even) { background: #242424; }
  th { border-color: #ddd; background: #181818; }
  img { background: #fff; }
  small { color: #aaa; }
}
"""


def report(
    summary: RankSummary,
    conclusion: str,
    checks: Sequence[Check],
    notes: Sequence[str],
    figures: Mapping[str, "Figure"],
    elo: float | None = None,
    categories: Sequence[CategoryRanking] = (),
) -> str:
    """Return the page: HTML that needs nothing else, and has no script.

    Parameters
    ----------
    summary
        The ranking.
    conclusion
        The verdict.
    checks
        The answers to the questions of trust.
    notes
        What else to say.
    figures
        The pictures by file name.
    elo
        Elo points of a unit of skill, where they are asked for.
    categories
        The ranking in each category, where they are asked for.
    """
    meaning = legend(summary, elo, [each.summary for each in categories])
    parts = [
        "<h1>Ranking</h1>",
        f'<p class="verdict">{_text(conclusion)}</p>',
        *_table(summary, elo),
        *(part for each in categories for part in _category(each, elo)),
        f"<p><small>{_text(meaning)}</small></p>",
        "<h2>How far to trust it</h2>",
        *_answers(checks),
        "<h2>What the numbers mean</h2>",
        *(f"<p>{_text(note)}</p>" for note in notes),
        *(part for name, figure in figures.items() for part in _picture(name, figure)),
        "<h2>How to cite</h2>",
        f"<p>{_text(_CITATION.format(version=__version__))}</p>",
        f"<p>{_text(_METHODS)}</p>",
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Ranking of {len(summary):,} items</title>\n<style>{_STYLE}</style>\n</head>\n"
        "<body>\n" + "\n".join(parts) + "\n</body>\n</html>\n"
    )


def _text(text: str) -> str:
    return escape(shown(text))


def _table(summary: RankSummary, elo: float | None) -> Iterable[str]:
    titles = ranking_titles(summary, elo)
    item = titles.index("Item")
    count = min(len(summary), _MOST_ROWS)
    yield '<div class="wide"><table>'
    yield f"<thead>{_row(titles, item, 'th')}</thead>"
    yield "<tbody>"
    begun = set()
    for place, cells in enumerate(ranking_cells(summary, range(count), elo)):
        tier = int(summary.component[place]), int(summary.tier[place])
        yield _row(cells, item, "td", "" if tier in begun else ' class="tier"')
        begun.add(tier)
    yield "</tbody></table></div>"
    if count < len(summary):
        yield f"<p>{len(summary) - count:,} more items are in ranking.csv.</p>"


def _category(category: CategoryRanking, elo: float | None) -> Iterable[str]:
    yield f"<h2>Category {_text(category.name)}</h2>"
    yield f"<p>{_text(category.conclusion)}</p>"
    yield from _table(category.summary, elo)


def _row(cells: Sequence[str], item: int, tag: str, attributes: str = "") -> str:
    kinds = [' class="item"' if place == item else "" for place in range(len(cells))]
    made = (f"<{tag}{kind}>{escape(cell)}</{tag}>" for kind, cell in zip(kinds, cells, strict=True))
    return f"<tr{attributes}>{''.join(made)}</tr>"


def _answers(checks: Sequence[Check]) -> Iterable[str]:
    yield "<dl>"
    for question, answer, sentence in checks:
        yield f'<dt>{_text(question)} <span class="answer">{_text(answer)}</span></dt>'
        yield f"<dd>{_text(sentence)}</dd>"
    yield "</dl>"


def _picture(name: str, figure: "Figure") -> Iterable[str]:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=110)
    data = base64.b64encode(file.getvalue()).decode()
    title = escape(_TITLES.get(name, name))
    yield f"<h2>{title}</h2>"
    yield f'<figure><img alt="{title}" src="data:image/png;base64,{data}"></figure>'
