"""Draw the picture at the top of the README: what `bayesrank demo` makes for sharing.

Run ``python docs/picture.py`` when the demo or its pictures change.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PICTURE = Path(__file__).parent / "images" / "ranking.png"


def draw(target: Path) -> None:
    """Run the demo and copy its `card.png`."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results"
        command = [sys.executable, "-m", "bayesrank", "demo", "--crosscheck", "none", "--quiet"]
        subprocess.run([*command, "--out", results], check=True, capture_output=True)
        shutil.copyfile(results / "card.png", target)


if __name__ == "__main__":
    draw(PICTURE)
