"""`report.html`: well formed, needs nothing from elsewhere, and a browser shows all of it."""

import html.parser
import json
import re
import shutil
import subprocess

import numpy as np
import pytest
from matplotlib.figure import Figure

from bayesrank.cli.outputs import drawn
from bayesrank.cli.pipeline import Ranked
from bayesrank.cli.report import report
from bayesrank.cli.trust import Check
from bayesrank.ranking import count_records, summarize

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
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


def make(n=5, elo=None):
    draws = np.random.default_rng(0).normal(size=(400, n)) - np.arange(n)
    records = count_records([(i, i + 1) for i in range(n - 1)], n)
    names = (NAMES + [f"item {i}" for i in range(n)])[:n]
    figure = Figure(figsize=(3, 2))
    figure.subplots().plot([0, 1])
    checks = [Check("Right?", "NO", "Because x < y & z.")]
    summary = summarize(draws, names, records=records)
    pictures = {"ranking.png": drawn(lambda: figure)}
    ranked = Ranked("", summary, "A <b> wins.")
    text = report([ranked], checks, ["A note."], pictures, elo)
    return summary, text


def test_the_page_is_well_formed_and_holds_everything():
    summary, text = make()
    page = Page(text)
    assert page.open == []
    titles = "Rank,Item,Tier,Skill ± sd,P(best),P(> next),90% ranks,Record"
    assert page.rows[0] == titles.split(",")
    assert [row[1] for row in page.rows[1:]] == summary.names
    words = " ".join(page.words)
    for said in ("A <b> wins.", "Because x < y & z.", "A note.", "NO", "How to cite"):
        assert said in words
    pictures = [value for name, value in page.attributes if name == "src"]
    assert len(pictures) == 1 and pictures[0].startswith("data:image/png;base64,iVBOR")
    assert dict(page.attributes)["name"] == "viewport"


def test_the_page_needs_nothing_from_elsewhere():
    _, text = make()
    page = Page(text)
    assert not {"script", "link", "iframe", "object"} & set(page.tags)
    addresses = [v for name, v in page.attributes if name in ("src", "href", "srcset", "action")]
    assert all(address.startswith("data:") for address in addresses)
    style = text.partition("<style>")[2].partition("</style>")[0]
    assert "url(" not in style and "@import" not in style
    assert not any(name.startswith("on") for name, _ in page.attributes)


@pytest.mark.slow
def test_a_long_ranking_says_where_the_rest_is():
    _, text = make(2003)
    assert len(Page(text).rows) == 2001
    assert "3 more items are in ranking.csv" in text


def test_elo_in_the_page():
    _, text = make(elo=200.0)
    assert Page(text).rows[0][3] == "Elo"


@pytest.mark.skipif(BROWSER is None, reason="there is no Chromium to look at the page with")
@pytest.mark.parametrize("width", [390, 1200])
def test_a_browser_shows_it_without_scrolling_sideways(tmp_path, width):
    """The page measures itself, in a copy with a script; the table alone may scroll."""
    _, text = make(12)
    probe = (
        "<script>addEventListener('load', () => { document.title = JSON.stringify({"
        "page: document.documentElement.scrollWidth, view: innerWidth, "
        "rows: document.querySelectorAll('tbody tr').length, "
        "widest: Math.max(...[...document.images].map(i => i.width)), "
        "pictures: [...document.images].filter(i => i.naturalWidth > 0).length}); });</script>"
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
    assert measured["rows"] == 12 and measured["pictures"] == 1
    # On a phone a picture is not made too small to read: it scrolls by itself.
    assert (measured["widest"] > width) == (width < 640)
