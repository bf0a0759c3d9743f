"""What killed writers leave, and that the stress test of kills notices what is lost."""

import pytest
from stress import kills


@pytest.mark.parametrize("kind", kills.WRITERS)
def test_killed_at_random_moments_writers_lose_nothing(kind):
    assert kills.kill_writers(kind, 4) > 0


@pytest.mark.slow
def test_what_is_lost_is_found(monkeypatch):
    monkeypatch.setitem(kills._READERS, "state", lambda folder: -1)
    with pytest.raises(AssertionError, match="state: write .* was acknowledged, -1 is there"):
        kills.kill_writers("state", 1)
