"""`report.html`: well formed, needs nothing from elsewhere, and a browser shows all of it."""

import html.parser
import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from bayesrank.cli.report import ranking_rows, report
from bayesrank.ranking import count_records, pairwise_probability, summarize
from bayesrank.ranking.columns import EloScale, file_columns

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
VOID = {"meta", "img", "br", "hr", "link", "input"}


class Page(html.parser.HTMLParser):
    """Checks that tags are closed in order, and collects what the page holds."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.rows, self.words = [], [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data
        self.words.append(data)


NAMES = ["<script>alert(1)</script>", 'A & "B"', "c" * 80, "日本", "e"]


HEADLINE = {"standing": "far <ahead>", "verdict": "A <b> wins."}


def make(n=5, elo=None):
    draws = np.random.default_rng(0).normal(size=(400, n)) - np.arange(n)
    records = count_records([(i, i + 1) for i in range(n - 1)], n)
    names = (NAMES + [f"item {i}" for i in range(n)])[:n]
    summary = summarize(draws, names, records=records)
    columns = {name: np.asarray(v).tolist() for name, v in file_columns(summary, elo).items()}
    items = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    items[-1]["prob_better_than_next"] = None
    found = {
        **{"bayesrank": "0.1.0", "title": "Drinks & <co>", "date": "2026-01-02"},
        **{"command": "bayesrank rank drinks.csv", "input": "", "num_items": n, "level": 0.9},
        "measure": "skill",
        "counts": f"{n} items, {n - 1} comparisons",
        **{"num_comparisons": n - 1, "num_ties": 0, "notes": ["A note."]},
        "rankings": [
            {"category": "", **HEADLINE, "leader": summary.names[0], "items": items},
        ],
        "pairs": pairwise_probability(draws[:, :20]).tolist(),
        "checks": [{"name": "Right", "status": "warning", "sentence": "As x < y & z."}],
    }
    return summary, report(found)


def cells(page, title):
    """Cells of a column of the first table."""
    place = page.rows[0].index(title)
    return [row[place] for row in page.rows[1:] if len(row) == len(page.rows[0])]


def test_the_page_is_well_formed_and_holds_everything():
    summary, text = make()
    page = Page(text)
    assert page.open == []
    titles = "#|Item|Skill, 90% interval|Mean|90% ranks|P(best)|P(beats next)|Won-lost"
    assert page.rows[0] == titles.split("|")
    assert [name.rstrip("*") for name in cells(page, "Item")] == summary.names
    assert cells(page, "Mean") == [f"{mean:+.2f}" for mean in summary.mean]
    ends = zip(summary.rank_lower, summary.rank_upper, strict=True)
    assert cells(page, "90% ranks") == [f"{a}" if a == b else f"{a}–{b}" for a, b in ends]
    assert ">99" in page.rows[8] and not any("100" in row for row in page.rows)
    words = " ".join(page.words)
    for said in ("Drinks & <co>", "A <b> wins.", "As x < y & z.", "A note.", "How to cite"):
        assert said in words
    for said in ("5 items, 4 comparisons · 2026-01-02", "1 warning", "bayesrank rank drinks.csv"):
        assert said in words
    assert dict(page.attributes)["name"] == "color-scheme" and "viewport" in text


def test_bars_stand_where_the_intervals_are():
    summary, text = make()
    bars = re.findall(r'<line x1="([\d.]+)%" x2="([\d.]+)%".*?<circle cx="([\d.]+)%"', text)
    low, high = summary.skill_lower.min(), summary.skill_upper.max()
    ends = np.stack([summary.skill_lower, summary.skill_upper, summary.mean], axis=1)
    np.testing.assert_allclose(
        np.array(bars, float), 2 + 96 * (ends - low) / (high - low), atol=0.06
    )


def test_items_that_are_tied_for_first_are_marked():
    summary, text = make()
    marked = [
        "first" in c.split() for c in re.findall(r'<tr class="([^"]*)"><td class="rank"', text)
    ]
    assert marked == (summary.tier == 1).tolist() and 0 < sum(marked) < 5
    tile = Page(text).words
    assert tile[tile.index("Leader") + 1 :][:2] == [summary.names[0], "far <ahead>"]


def test_the_page_needs_nothing_from_elsewhere():
    _, text = make()
    page = Page(text)
    assert not {"script", "link", "iframe", "object", "img"} & set(page.tags)
    addresses = [v for name, v in page.attributes if name in ("src", "href", "srcset", "action")]
    assert addresses == ["#checks"]
    style = text.partition("<style>")[2].partition("</style>")[0]
    assert "url(" not in style and "@import" not in style
    assert not any(name.startswith("on") for name, _ in page.attributes)


def test_groups_are_told_apart_and_one_alone_has_no_rank():
    draws = np.random.default_rng(0).normal(size=(400, 5))
    summary = summarize(draws, list("abcde"), components=np.array([0, 0, 0, 1, 2]))
    columns = {name: np.asarray(v).tolist() for name, v in file_columns(summary).items()}
    items = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    rows = ranking_rows([item | {"prob_better_than_next": None} for item in items])["rows"]
    assert [row["group"] for row in rows] == [1, None, None, 2, 3]
    assert [row["best"] == row["ranks"] == "-" for row in rows] == [False] * 3 + [True] * 2
    assert ranking_rows(items[:3])["rows"][0]["group"] is None


@pytest.mark.slow
def test_a_long_ranking_says_where_the_rest_is():
    _, text = make(2003)
    page = Page(text)
    assert len(cells(page, "Item")) == 2000 and "Show all 2,000 rows" in text
    assert "3 more items are in ranking.csv" in text


def test_elo_in_the_page():
    summary, text = make(elo=EloScale(200.0))
    assert "Elo, 90% interval" in text
    assert cells(Page(text), "Mean") == [f"{1500 + 200 * mean:.0f}" for mean in summary.mean]


@pytest.mark.skipif(BROWSER is None, reason="there is no Chromium to look at the page with")
@pytest.mark.parametrize("width", [390, 1280])
def test_a_browser_shows_it_without_scrolling_sideways(tmp_path, width):
    """The page measures itself, in a copy with a script."""
    _, text = make(25)
    probe = (
        "<script>addEventListener('load', () => { document.title = JSON.stringify({"
        "page: document.documentElement.scrollWidth, view: innerWidth, "
        "rows: [...document.querySelectorAll('.ranking tbody tr')].filter("
        "r => r.offsetHeight).length, "
        "widest: Math.max(...[...document.querySelectorAll('body *')].map("
        "e => e.getBoundingClientRect().right)), "
        "ranks: document.querySelector('td.ranks').offsetWidth}); });</script>"
    )
    page = tmp_path / "report.html"
    frame = f'<iframe id="f" width="{width}" height="800" src="report.html"></iframe>'
    page.write_text(text.replace("</head>", probe + "</head>"), encoding="utf-8")
    reading = (
        "<script>f.onload = () => setTimeout(() => { document.body.append("
        "f.contentDocument.title); }, 200);</script>"
    )
    outer = tmp_path / "outer.html"
    outer.write_text(f"<!DOCTYPE html><body>{frame}{reading}</body>", encoding="utf-8")
    done = subprocess.run(
        [
            str(BROWSER),
            *FLAGS,
            "--allow-file-access-from-files",
            f"--user-data-dir={tmp_path / 'browser'}",
            "--virtual-time-budget=3000",
            "--dump-dom",
            outer.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    found = re.search(r'\{"page".*?\}', done.stdout)
    assert found, done.stderr[-2000:]
    measured = json.loads(found.group())
    assert measured["page"] <= measured["view"] <= width
    assert measured["widest"] <= width and measured["ranks"] > 30
    assert measured["rows"] == 20  # the others are a click away


@pytest.mark.skipif(BROWSER is None, reason="there is no Chromium to look at the page with")
@pytest.mark.slow
def test_all_rows_are_printed(tmp_path):
    """A page of more rows takes more sheets, though they do not show on a screen."""
    sheets = []
    for n in (20, 120):
        page, out = tmp_path / f"{n}.html", tmp_path / f"{n}.pdf"
        page.write_text(make(n)[1], encoding="utf-8")
        data = f"--user-data-dir={tmp_path / 'browser'}"
        call = [str(BROWSER), *FLAGS, data, f"--print-to-pdf={out}", page.as_uri()]
        subprocess.run(call, capture_output=True, timeout=120, check=True)
        sheets.append(len(re.findall(rb"/Type\s*/Page\b", out.read_bytes())))
    assert sheets[1] >= sheets[0] + 2
