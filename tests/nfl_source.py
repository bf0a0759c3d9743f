"""How the shipped NFL results follow from the file that comes with `melo` (MIT licence).

Run as a script to write the file anew: ``python tests/nfl_source.py``.
"""

import csv
import io
from importlib import resources
from pathlib import Path

FIRST, LAST = "2018-09-01", "2018-12-31"
FILE = Path(__file__).resolve().parents[1] / "bayesrank" / "datasets" / "data" / "nfl_2018.csv"
TEAMS = {
    "ARI": "Arizona Cardinals",
    "ATL": "Atlanta Falcons",
    "BAL": "Baltimore Ravens",
    "BUF": "Buffalo Bills",
    "CAR": "Carolina Panthers",
    "CHI": "Chicago Bears",
    "CIN": "Cincinnati Bengals",
    "CLE": "Cleveland Browns",
    "DAL": "Dallas Cowboys",
    "DEN": "Denver Broncos",
    "DET": "Detroit Lions",
    "GB": "Green Bay Packers",
    "HOU": "Houston Texans",
    "IND": "Indianapolis Colts",
    "JAC": "Jacksonville Jaguars",
    "KC": "Kansas City Chiefs",
    "LAC": "Los Angeles Chargers",
    "LAR": "Los Angeles Rams",
    "MIA": "Miami Dolphins",
    "MIN": "Minnesota Vikings",
    "NE": "New England Patriots",
    "NO": "New Orleans Saints",
    "NYG": "New York Giants",
    "NYJ": "New York Jets",
    "OAK": "Oakland Raiders",
    "PHI": "Philadelphia Eagles",
    "PIT": "Pittsburgh Steelers",
    "SEA": "Seattle Seahawks",
    "SF": "San Francisco 49ers",
    "TB": "Tampa Bay Buccaneers",
    "TEN": "Tennessee Titans",
    "WAS": "Washington Redskins",
}


def build() -> str:
    """Contents of the file."""
    lines = resources.files("melo").joinpath("nfl.dat").read_text(encoding="utf-8").splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    games = [
        [date, TEAMS[home], TEAMS[away], home_score, away_score]
        for date, home, home_score, away, away_score in rows
        if FIRST <= date <= LAST
    ]
    text = io.StringIO(newline="")
    table = [["date", "home", "away", "home_score", "away_score"], *games]
    csv.writer(text, lineterminator="\n").writerows(table)
    return text.getvalue()


if __name__ == "__main__":
    FILE.write_text(build(), encoding="utf-8")
