"""The benchmark of kills notices an answer that is lost; that of surroundings, in short."""

import pytest

from benchmarks import kills, surroundings


@pytest.mark.slow
def test_what_is_lost_is_found(monkeypatch):
    monkeypatch.setitem(kills._READERS, "state", lambda folder: -1)
    with pytest.raises(AssertionError, match="state: write .* was acknowledged, -1 is there"):
        kills.kill_writers("state", 1)


@pytest.mark.slow
@pytest.mark.parametrize("memory", [None, 2**30, 3 * 2**30])
def test_hostile_names_narrow_terminals_and_little_memory(tmp_path, memory):
    surroundings.write_inputs(tmp_path)
    for command in ("search", "evaluate"):
        surroundings.check_command(tmp_path, command, memory)
