"""`card.png`: a picture that can be posted, and three jobs from a file to it."""

import io
import json
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from cli_run import run
from matplotlib.image import imread

from bayesrank._names import shown
from bayesrank.cli.report import card, card_figure
from bayesrank.cli.words import headline
from bayesrank.ranking import summarize
from bayesrank.ranking.columns import EloScale, file_columns

LAYOUTS = Path(__file__).parent / "data" / "layouts"
NAMES = {
    "arena": [f"model-{letter}" for letter in "abcdefgh"],
    "league": [f"Team {i}" for i in range(32)],
    "survey": ["Tea", "Milk", "Water", "Juice", "Cola"],
    "long": [f"organisation/a-family-of-models-{i}-instruct-of-2025-v{i}" for i in range(139)],
    "scripts": ["日本", "한국", "😀 team", "العربية", "$x$ & <b>", "\x1b[31mred", "A" * 300],
}  # fmt: skip


def of_names(names, spread=3.0, elo=None):
    draws = np.random.default_rng(0).normal(size=(400, len(names))) * 0.4
    draws -= np.linspace(0, spread, len(names))
    summary = summarize(draws, names)
    columns = {name: np.asarray(v).tolist() for name, v in file_columns(summary, elo).items()}
    items = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    said = headline(summary, lambda tied: "They are close.")._asdict()
    return {
        **{
            "title": "A title " * 40,
            "counts": "8 items, 9 comparisons",
            "level": 0.9,
            "measure": "skill",
        },
        "rankings": [{"category": "", **said, "items": items}],
    }


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("elo", [None, EloScale(200.0)])
def test_names_stand_in_the_order_of_ranks_and_nothing_is_cut_off(kind, elo):
    found = of_names(NAMES[kind], elo=elo)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")
        figure = card_figure(found)
        boxes = [text.get_window_extent() for text in figure.axes[0].texts]
    texts = {text.get_text() for text in figure.axes[0].texts}
    assert min(box.x0 for box in boxes) > 20 and max(box.x1 for box in boxes) < 1180
    rows = [text for text in figure.axes[0].texts if round(text.get_position()[0]) == 90]
    names = [text.get_text() for text in sorted(rows, key=lambda text: text.get_position()[1])]
    ranked = [item["item"] for item in found["rankings"][0]["items"]][:10]
    assert len(names) == len(ranked) == len(figure.axes[0].lines) / 2
    for name, whole in zip(names, ranked, strict=True):
        head, _, tail = name.partition("…")
        assert shown(whole).startswith(head) and shown(whole).endswith(tail) and len(name) < 30
    scale = "Elo" if elo else "Skill"
    assert {"90% ranks", "P(best)", "bayesrank", f"{scale}, 90% interval"} <= texts


@pytest.mark.parametrize("kind", NAMES)
def test_it_has_the_size_of_a_card_and_no_font_is_spoken_of(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        picture = imread(io.BytesIO(card(of_names(NAMES[kind]))))
    assert picture.shape == (630, 1200, 4) and (picture[[0, -1]] == 1).all()
    assert len(np.unique(picture[::7, ::7].reshape(-1, 4), axis=0)) > 20


def test_the_colour_is_explained_where_items_share_the_first_place():
    tied, clear = (card_figure(of_names(NAMES["survey"], spread)) for spread in (0.1, 9.0))
    said = [[text.get_text() for text in figure.axes[0].texts] for figure in (tied, clear)]
    assert any("Blue: statistically tied" in text for text in said[0])
    assert not any("Blue" in text for text in said[1])
    assert "Tea is the best (probability >99%)." in said[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "job",
    ["arena_dump.json", "football_data.csv", "google_forms.csv"],
    ids=["arena", "league", "survey"],
)
def test_one_command_leads_from_a_file_to_a_card(job, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path(job).write_bytes((LAYOUTS / job).read_bytes())
    assert run("rank", job) == 0
    folder = Path("bayesrank-out")
    assert imread(folder / "card.png").shape == (630, 1200, 4)
    found = json.loads((folder / "ranking.json").read_text(encoding="utf-8"))
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert found["counts"] in page and f"<pre>bayesrank rank {job}</pre>" in page
    assert re.search(r"leads|Too few|is the best", capsys.readouterr().out)
