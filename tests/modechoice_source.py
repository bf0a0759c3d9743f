"""How the shipped travel data follow from statsmodels' `modechoice` (public domain).

Run as a script to write the two files anew: ``python tests/modechoice_source.py``.
"""

import csv
import io
from pathlib import Path

import numpy as np
import pandas as pd
from statsmodels.datasets import modechoice

MODES = ("air", "train", "bus", "car")
HEADER = ("option_a", "option_b", "option_c", "option_d", "choice")
FOLDER = Path(__file__).resolve().parents[1] / "bayesrank" / "datasets" / "data"


def _nearest(values, step):
    return (np.floor(values / step + 0.5) * step).astype(int)


def build() -> dict[str, str]:
    """Contents of the two files, by name."""
    table = pd.DataFrame(modechoice.load_pandas().data)
    hours = _nearest(table["invt"].to_numpy() / 60, 1)
    fare = _nearest(table["invc"].to_numpy(), 20)
    trips = list(zip(table["mode"].astype(int) - 1, hours.tolist(), fare.tolist(), strict=True))
    items = [
        [_label(trip), *(int(trip[0] == mode) for mode in range(len(MODES))), *trip[1:]]
        for trip in sorted(set(trips))
    ]
    chosen = table["choice"].to_numpy() == 1
    choices = []
    for rows in np.arange(len(trips)).reshape(-1, len(MODES)):  # four rows a traveller
        (choice,) = (trips[row] for row in rows if chosen[row])
        choices.append([*(_label(trips[row]) for row in rows), _label(choice)])
    return {
        "modechoice_items.csv": _csv([["item", *MODES, "hours", "fare"], *items]),
        "modechoice_choices.csv": _csv([HEADER, *choices]),
    }


def _label(trip) -> str:
    mode, hours, fare = trip
    return f"{MODES[mode]} {hours} h {f'${fare}' if fare else 'under $10'}"


def _csv(rows) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


if __name__ == "__main__":
    for name, text in build().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
