"""Bad conditions in short: disks that fill up. `python -m stress trials` has the long forms."""

import contextlib
import os

import numpy as np
import pandas as pd
import pytest
import xarray as xr

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
