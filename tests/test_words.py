"""Words that readers stumbled over do not come back in the documentation."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/README.md"]
BANNED = re.compile(
    r"\b[Tt]old\b|\b[Mm]end(s|ed|ing)?\b|\b[Cc]ure[sd]?\b|\b[Cc]ircles\b|\bNO\b|[Hh]olds? the truth"
    r"|(?<!there )(?<!There )\bis no\b(?! (longer|larger|smaller|further|more|less)\b)"
)


def _found(text: str) -> list[str]:
    return [match.group() for match in BANNED.finditer(" ".join(text.split()))]


def test_the_list_finds_what_it_bans():
    text = "told mended Cure circles NO 'x' is no item; intervals hold the truth"
    assert len(_found(text)) == 7
    assert not _found("there is no item; this is no longer so; a circle; notes of NOAA; untold")


def test_pages_use_the_words_of_the_field():
    pages = [ROOT / name for name in PAGES]
    pages += [page for page in (ROOT / "docs").rglob("*.md") if "_build" not in page.parts]
    found = {page.name: words for page in pages if (words := _found(page.read_text("utf-8")))}
    assert found == {}
