"""The stress test of kills notices an answer that is lost."""

import pytest
from stress import kills


@pytest.mark.slow
def test_what_is_lost_is_found(monkeypatch):
    monkeypatch.setitem(kills._READERS, "state", lambda folder: -1)
    with pytest.raises(AssertionError, match="state: write .* was acknowledged, -1 is there"):
        kills.kill_writers("state", 1)
