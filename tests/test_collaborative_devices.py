"""EM's answer does not depend on how many devices, or processes, share the users."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.slow  # processes of their own, which compile everything anew

ROOT = Path(__file__).resolve().parents[1]

PROGRAM = """
import sys, warnings
import jax, numpy as np
warnings.simplefilter("ignore")
processes, rank, port, out = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
if processes > 1:
    jax.distributed.initialize(f"127.0.0.1:{port}", processes, rank)
from bayesrank.solvers.collaborative import EM
rng = np.random.default_rng(0)
items = np.argsort(rng.random((13, 5)), axis=1)[:, :3].ravel()  # one block of users compiles once
users = np.repeat(np.arange(13), 3)
levels = rng.integers(0, 3, size=len(users))
found = {}
for count in (1, 2, 4) if processes == 1 else (processes,):
    devices = np.array(jax.devices()[:count])
    mesh = jax.sharding.Mesh(devices, ("users",))
    engine = EM("probit", max_iterations=8)
    result = engine.run(users, items, levels, mesh=mesh, progress_bar=False)
    found[str(count)] = np.concatenate(
        [result.trace, result.mean, result.kernel.ravel(), result.state.tau, [result.log_evidence]]
    )
if rank == 0:
    np.savez(out, **found)
"""


def _environment(devices):
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    return {**os.environ, "XLA_FLAGS": flags, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}


def _start(processes, rank, port, out, devices):
    args = [sys.executable, "-c", PROGRAM, str(processes), str(rank), str(port), str(out)]
    return subprocess.Popen(args, env=_environment(devices), stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def on_devices(tmp_path_factory):
    out = tmp_path_factory.mktemp("devices") / "found.npz"
    process = _start(1, 0, 0, out, 4)
    _, error = process.communicate(timeout=300)
    assert process.returncode == 0, error
    with np.load(out) as file:
        return dict(file)


def test_one_two_and_four_devices_agree(on_devices):
    for count in ("2", "4"):
        np.testing.assert_allclose(on_devices[count], on_devices["1"], rtol=1e-6, atol=1e-7)


def test_two_processes_agree_with_one(on_devices, tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    out = tmp_path / "found.npz"
    both = [_start(2, rank, port, out, 1) for rank in (0, 1)]
    errors = [process.communicate(timeout=300)[1] for process in both]
    if any("Multiprocess computations aren't implemented" in error for error in errors):
        pytest.skip("this build of JAX has no collectives between processes on CPUs")
    assert [process.returncode for process in both] == [0, 0], errors
    with np.load(out) as file:
        np.testing.assert_allclose(file["2"], on_devices["1"], rtol=1e-6, atol=1e-7)
