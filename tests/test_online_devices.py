"""Members divided over devices: the same answer on 1, 2 and 4 of them."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from bayesrank.online import OAPBPM

ROOT = Path(__file__).resolve().parents[1]

PROGRAM = """
import jax, numpy as np
from sklearn.base import clone
from tinygp.kernels import ExpSquared
from bayesrank.online import OAPVoted
jax.config.update("jax_disable_most_optimizations", True)
rng = np.random.default_rng(0)
X = rng.normal(size=(1100, 7))
y = 1 + (X @ rng.normal(size=7) + rng.normal(size=1100) > [[-1.0], [0.0], [1.5]]).sum(0)
stored = {"kernel": ExpSquared(2.0), "budget": 40, "evict": "smallest"}
for options, size in ({}, len(X)), (stored, 200):
    answers = []
    for count in (1, 2, 4):
        mesh = jax.sharding.Mesh(jax.devices()[:count], "members")
        model = clone(OAPVoted(4, 12, 0.4, 5, mesh=mesh, **options))
        predictions = model.prequential(X[:size], y[:size], rounded=False)
        if count == 4:
            assert len(model.state_.weights.sharding.device_set) == 4
        answers.append([predictions, *(np.asarray(value) for value in model.state_)])
    assert np.unique(predictions).size > 20 and len(model.support_) == len(model.state_.support)
    for other in answers[1:]:
        for one, two in zip(answers[0], other, strict=True):
            assert one.tobytes() == two.tobytes()
alone = OAPVoted(4, 12, 0.4, 5, **stored).prequential(X[:size], y[:size], rounded=False)
assert alone.tobytes() == predictions.tobytes()
print(len(jax.devices()), "devices agree")
"""


def test_members_give_the_same_answer_on_1_2_and_4_devices():
    """Bit for bit, in a process with four forced host devices."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    environment = {**os.environ, "XLA_FLAGS": flags, "PYTHONPATH": path, "JAX_PLATFORMS": "cpu"}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True
    )
    assert run.stdout.split("\n")[0] == "4 devices agree", run.stderr


def test_meshes_that_cannot_be_used_are_refused():
    devices: Any = np.array(jax.devices()[:1])
    X, y = np.ones((2, 2)), [1, 2]
    with pytest.raises(ValueError, match="pass one axis whose size divides the 5 members"):
        OAPBPM(2, 5, mesh=jax.sharding.Mesh(devices[:, None], ("a", "b"))).partial_fit(X, y)
