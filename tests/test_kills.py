"""The benchmark of kills notices an answer that is lost; those of what is unusual, in short."""

import multiprocessing
import re
from concurrent.futures import ProcessPoolExecutor

import pytest

from benchmarks import kills, notebook, sizes, surroundings, threads


@pytest.mark.slow
def test_what_is_lost_is_found(monkeypatch):
    monkeypatch.setitem(kills._READERS, "state", lambda folder: -1)
    with pytest.raises(AssertionError, match="state: write .* was acknowledged, -1 is there"):
        kills.kill_writers("state", 1)


@pytest.mark.slow
@pytest.mark.parametrize("memory", [None, 2**30, 3 * 2**30])
def test_hostile_names_narrow_terminals_and_little_memory(tmp_path, memory):
    surroundings.write_inputs(tmp_path)
    surroundings.check_command(tmp_path, "ask", memory)
    if memory is not None:  # `rate` takes more, and says so
        assert surroundings.check_command(tmp_path, "rate", memory) == 2


@pytest.mark.slow
def test_an_interrupt_of_a_notebook_ends_its_cell():
    assert not any(lost for _, lost in notebook.interrupt_kernel("one shape", 5))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "code", "said"),
    [("predict", 0, "answers"), ("rate", 2, "400 users and 20,000 items take 6.15 GiB of memory")],
)
def test_many_rows_are_answered_or_refused_in_one_sentence(command, code, said):
    found, (*_, words) = sizes.run_large(command, 20_000, 100_000, 4 * 2**30, 300.0)
    assert found == code
    assert re.search(said, words), words


@pytest.mark.slow
def test_eight_threads_where_nothing_is_compiled_and_precision_goes_to_and_fro():
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(threads.start_together, 0).result() == []
