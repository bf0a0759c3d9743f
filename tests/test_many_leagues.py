"""The page on many leagues: its program runs, and maps to what each league gives by itself."""

import re
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

PAGE = Path(__file__).resolve().parents[1] / "docs" / "production.md"


@pytest.mark.slow
def test_each_league_is_as_it_is_by_itself():
    text = PAGE.read_text(encoding="utf-8")
    _, block = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    scope: dict[str, Any] = {"__name__": "page"}
    exec(compile(block, PAGE.name, "exec"), scope)
    for number in range(2):
        played = scope["played"][number]
        games = scope["games"][number][played]
        alone = scope["engine"].run(jax.random.key(0), games, np.ones(len(games), bool))
        np.testing.assert_allclose(scope["mean"][number], alone.mean["skill"], atol=1e-5)
        np.testing.assert_allclose(scope["sd"][number], alone.sd["skill"], atol=1e-5)
