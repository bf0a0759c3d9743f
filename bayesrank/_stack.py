"""Where a warning points: at the line of the person who called, however deep the engine is."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_PACKAGE = f"{Path(__file__).parent}{os.sep}"


def outside() -> int:
    """The ``stacklevel`` at which a warning given here points outside the package."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    return level
