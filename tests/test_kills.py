"""The benchmark of kills itself, in its shortest form."""

import pytest
from click.testing import CliRunner

from benchmarks import kills


def test_the_shortest_form():
    result = CliRunner().invoke(kills.kills, ["--times", "1", "--commands", "0"])
    assert result.exit_code == 0, result.output
    assert result.output.count("none lost, none half") == 3


def test_what_is_lost_is_found(monkeypatch):
    monkeypatch.setitem(kills._READERS, "state", lambda folder: -1)
    with pytest.raises(AssertionError, match="state: write .* was acknowledged, -1 is there"):
        kills.kill_writers("state", 1)
