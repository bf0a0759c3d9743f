"""EP's answer does not depend on how many devices, of one process or of two, share the sites."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

from bayesrank.infer import EP, maximize_evidence
from bayesrank.models import thurstone

ROOT = Path(__file__).resolve().parents[1]
ITEMS = 12

PROGRAM = """
import sys
import jax
rank, port, out = int(sys.argv[1]), sys.argv[2], sys.argv[3]
jax.distributed.initialize(f"127.0.0.1:{port}", 2, rank)
import numpy as np
from test_infer_mesh import answers
found = answers(jax.make_mesh((jax.device_count(),), ("sites",)))
found["devices"] = np.array(jax.device_count())
assert rank == 0 or not found["calls"].size
if rank == 0:
    np.savez(out, **found)
"""


def pairs():
    """Of 61 games: no number of devices but one shares them evenly."""
    rng = np.random.default_rng(0)
    drawn = np.sort(np.array([rng.choice(ITEMS, 2, replace=False) for _ in range(61)]), axis=1)
    return np.where(rng.random((61, 1)) < 0.7, drawn, drawn[:, ::-1])


def engine(structure, mesh):
    return EP(thurstone, structure=structure, mesh=mesh)


def answers(mesh):
    found, calls = {}, []

    def heard(sweep, moved):
        calls.append((sweep, np.float32(moved)))  # from several processes in single precision

    for structure, callback in (("factorised", heard), ("dense", None)):
        result = engine(structure, mesh).run(
            jax.random.key(0), ITEMS, pairs(), params={"scale": 1.3}, callback=callback
        )
        found[f"{structure} mean"], found[f"{structure} sd"] = result.mean["f"], result.sd["f"]
        [(tau, nu)] = result.sites.values()
        found[f"{structure} sites"] = np.stack([tau, nu])
        found[f"{structure} evidence"] = np.asarray(result.log_evidence)
    learned = maximize_evidence(engine("factorised", mesh), ITEMS, pairs())
    return found | {"learned": learned.params["scale"], "calls": np.array(calls)}


@pytest.mark.slow
def test_two_processes_with_two_devices_each_agree_with_one(tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"
    path = f"{ROOT}:{ROOT / 'tests'}"
    environment = {
        **os.environ, "XLA_FLAGS": flags, "PYTHONPATH": path, "JAX_PLATFORMS": "cpu"
    }  # fmt: skip
    out = tmp_path / "found.npz"
    both = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(rank), port, str(out)],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in (0, 1)
    ]
    try:
        errors = [process.communicate(timeout=300)[1] for process in both]
    finally:
        for process in both:
            process.kill()
    if any("Multiprocess computations aren't implemented" in error for error in errors):
        pytest.skip("this build of JAX has no collectives between processes on CPUs")
    assert [process.returncode for process in both] == [0, 0], errors
    with np.load(out) as file:
        found = dict(file)
    assert found.pop("devices") == 4
    alone = answers(None)
    assert found.keys() == alone.keys()
    for name, values in alone.items():
        assert_allclose(found[name], values, rtol=1e-10, atol=1e-10, err_msg=name)


def test_what_a_mesh_cannot_share_is_refused():
    with pytest.raises(ValueError, match=r"mesh is 2; pass a jax\.sharding\.Mesh"):
        EP(thurstone, mesh=2)  # pyright: ignore[reportArgumentType]
    mesh = jax.make_mesh((1,), ("sites",))
    with pytest.raises(ValueError, match="structure='probes' is not shared among devices"):
        engine("probes", mesh).run(jax.random.key(0), ITEMS, pairs(), params={"scale": 1.0})
