"""Trials under bad conditions, in short; `python -m stress trials` has the long forms."""

import contextlib
import os
import shutil
import subprocess
import sys
import textwrap

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from stress import disk, kills, trials

from bayesrank.cli.outputs import OutputError, netcdf, output_folder, write
from bayesrank.estimators import ConeRank

needs_limits = pytest.mark.skipif(os.name != "posix", reason="limits of files are POSIX")


@contextlib.contextmanager
def longest_file(most):
    """No file can be longer, as on a disk that fills up."""
    import resource

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@needs_limits
@pytest.mark.parametrize("kind", ["page", "picture", "table", "ranker"])
def test_results_are_whole_or_as_they_were_where_the_disk_fills_up(tmp_path, kind):
    thing = {
        "page": "<p>" * 9000,
        "picture": b"PNG" * 9000,
        "table": pd.DataFrame({"item": [f"i{k}" for k in range(5000)]}),
        "ranker": ConeRank(num_atoms=1).fit(np.eye(4), np.arange(4.0), ["a"] * 4),
    }[kind]

    def publish():
        with output_folder(tmp_path / "out", ("old", "new")) as folder:
            write(folder / "old", "older")
            write(folder / "new", thing)

    publish()
    (tmp_path / "out" / "old").write_text("old")
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    size = len(before["new"])
    for most in (0, 1, size // 2, size - 1):
        with longest_file(most), pytest.raises(OutputError, match="cannot be written .File too"):
            publish()
        assert {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()} == before
        assert [path.name for path in tmp_path.iterdir()] == ["out"]
    with longest_file(size):
        publish()
    assert (tmp_path / "out" / "old").read_text() == "older"


@needs_limits
def test_a_posterior_is_made_without_a_disk(tmp_path):
    """HDF5 ends a process that it cannot write for."""
    draws = np.random.default_rng(0).normal(size=(1, 900, 3))
    skill = xr.Dataset({"skill": (("chain", "draw", "item"), draws)})
    posterior = xr.DataTree.from_dict({"posterior": skill})
    with longest_file(0):
        raw = netcdf(posterior)
    (tmp_path / "posterior.nc").write_bytes(raw)
    back = xr.load_dataset(tmp_path / "posterior.nc", group="posterior")
    np.testing.assert_allclose(back["skill"], draws, rtol=1e-6)


@pytest.fixture
def in_this_process(monkeypatch):
    """Let trials run commands here, where JAX is loaded."""

    def run(folder, line, **env):
        code, out, err = disk.command(folder, line)
        assert "Traceback" not in err
        return subprocess.CompletedProcess(line, code, out, err)

    monkeypatch.setattr(trials, "run", run)


@pytest.mark.slow
def test_names_may_be_long(tmp_path, in_this_process):
    trials.names(tmp_path, 1)


@pytest.mark.slow
def test_many_orders_give_the_skills_that_made_them(tmp_path, in_this_process):
    trials.orders(tmp_path, 1)


needs_c = pytest.mark.skipif(not shutil.which("cc"), reason="needs a compiler of C")


@pytest.mark.slow
@needs_c
def test_a_system_without_file_locks_is_refused_in_one_line(tmp_path):
    trials.locks(tmp_path, 1)


@pytest.mark.slow
@needs_c
@pytest.mark.parametrize("number", [0, 1], ids=["an hour back at each look", "1970"])
@pytest.mark.parametrize("kind", kills.WRITERS)
def test_nothing_is_lost_where_the_clock_is_wrong(tmp_path, monkeypatch, kind, number):
    for name, value in trials.bad_clocks(tmp_path)[number].items():
        monkeypatch.setenv(name, value)
    assert kills.kill_writers(kind, 1) > 0


@pytest.mark.slow
def test_nothing_read_depends_on_the_locale_or_the_time_zone(tmp_path):
    try:
        trials.turkish(tmp_path)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("localedef makes no Turkish locale here")
    said = trials.read_everywhere(tmp_path)
    assert "('i', 'ı', 'İ')" in said and "2024-03-31T00:30" in said


@pytest.mark.slow
def test_interrupted_fits_leave_the_fit_before_or_the_new_one(tmp_path):
    assert trials.interrupts(tmp_path, 4).startswith("4 interrupts")


@pytest.mark.slow
def test_compiled_code_of_many_shapes_is_dropped_and_answers_stay(tmp_path):
    """As where the regions of memory come near to what Linux allows; by the closed form."""
    code = """
        import warnings
        import jax, numpy as np, numpyro, numpyro.distributions as dist
        from bayesrank import _process
        from bayesrank.infer import EP

        def model(y):
            x = numpyro.sample("x", dist.Normal(0.0, 1.0))
            with numpyro.plate("rows", len(y)):
                numpyro.sample("y", dist.Normal(x, 1.0), obs=y)

        _process._BETWEEN, _process._MOST_REGIONS = 1, 0
        dropped = 0
        for n in (2, 3, 2, 4):
            y = np.arange(1.0, 1.0 + n)
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                mean = EP(model).run(jax.random.key(0), y).mean["x"]
            np.testing.assert_allclose(mean, y.sum() / (n + 1), rtol=1e-5)
            dropped += any("compiled code was dropped" in str(each.message) for each in said)
        print(dropped)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) >= 3


@pytest.mark.parametrize("kind", kills.WRITERS)
def test_killed_at_random_moments_writers_lose_nothing(kind):
    assert kills.kill_writers(kind, 4) > 0


@pytest.mark.slow
def test_what_is_lost_is_found(monkeypatch):
    monkeypatch.setitem(kills._READERS, "state", lambda folder: -1)
    with pytest.raises(AssertionError, match="state: write .* was acknowledged, -1 is there"):
        kills.kill_writers("state", 1)
