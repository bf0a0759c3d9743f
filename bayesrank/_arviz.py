"""ArviZ of either generation, imported without a word."""

from __future__ import annotations

import warnings
from typing import Any


def import_arviz() -> Any:
    """Import ArviZ where it is needed; 0.23 announces its successor then."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"\s*ArviZ is undergoing", FutureWarning)
        import arviz

        return arviz
