"""The state of EM between runs: plain arrays in the order of the observations."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayesrank._states import read_state, write_state
from bayesrank.solvers.collaborative.likelihoods import Likelihood
from bayesrank.solvers.collaborative.posteriors import Observations

Array = Any  # NumPy's, float64


class EMState(NamedTuple):
    """Everything that EM estimates.

    Attributes
    ----------
    mean, kernel
        ``h`` (m,) and ``Sigma`` (m, m).
    level, scales
        Of the base process: a scalar and (C,).
    shared_theta, spread
        Shared parameters of the likelihood and the users' spread about them, shape (p,).
    tau, nu
        Sites of the observations, shape (K,).
    theta, user_level, user_scale
        Each user's own parameters, shapes (n, p), (n,), (n,).
    model, fingerprint
        Names of the model, such as "probit, collaborative", and of the observations.

    Examples
    --------
    >>> from bayesrank.solvers.collaborative import EM
    >>> users, items = [0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 1]
    >>> result = EM(tol=1e-3).run(users, items, [0, 1, 0, 1, 1, 0], progress_bar=False)
    >>> result.state.kernel.shape
    (2, 2)
    """

    mean: Array
    kernel: Array
    level: Array
    scales: Array
    shared_theta: Array
    spread: Array
    tau: Array
    nu: Array
    theta: Array
    user_level: Array
    user_scale: Array
    model: Any
    fingerprint: Any

    def save(self, path: str | Path) -> None:
        """Write the state to a file (NumPy's .npz); a file that is there is replaced at once."""
        write_state(path, self, "EM")

    @classmethod
    def load(cls, path: str | Path) -> EMState:
        """Read a state from a file.

        Raises
        ------
        ValueError
            If the file holds none.
        """
        return read_state(path, "EM", (cls,))

    def check(self, fresh: EMState) -> None:
        """Refuse data or a model other than those of a state to start from.

        Raises
        ------
        ValueError
            If users, items, levels or their order differ, or the model, the number of base
            kernels, or how much users differ.
        """
        for name, what, fix in (
            ("fingerprint", "other observations", "pass those that it was made with, as ordered"),
            ("model", f"the model {self.model!r}, not {fresh.model!r}", "pass one of this model"),
        ):
            if getattr(self, name) != getattr(fresh, name):
                raise ValueError(f"init_state is of {what}; {fix}, or leave it out")
        if len(self.scales) != len(fresh.scales) or not np.array_equal(self.spread, fresh.spread):
            ours, theirs = (f"{len(x.scales)} and {x.spread.tolist()}" for x in (fresh, self))
            raise ValueError(
                f"init_state has base kernels and users' spread {theirs}, not {ours}; give kernel, "
                "user_thresholds or user_scales as it was made with, or leave it out"
            )


def fingerprint(observations: Observations) -> str:
    """Short name of a set of observations, equal for equal ones."""
    digest = hashlib.sha256()
    for array in (observations.users, observations.items, observations.levels):
        digest.update(np.ascontiguousarray(array).tobytes())
    digest.update(repr((observations.num_users, observations.num_items)).encode())
    return digest.hexdigest()


def initial_state(
    likelihood: Likelihood,
    observations: Observations,
    kernels: Array,
    num_levels: int | None,
    user_spread: float,
    *,
    collaborative: bool,
) -> EMState:
    """Where to start, by the likelihood; `user_spread` is that of users' own parameters."""
    kind: Any = {"collaborative": collaborative}
    theta, level, variance = likelihood.start(observations.levels, num_levels, **kind)
    scales = variance / len(kernels) / np.diagonal(kernels, axis1=1, axis2=2).mean(axis=1)
    n, count = observations.num_users, len(observations.users)
    return EMState(
        mean=np.full(observations.num_items, level),
        kernel=np.tensordot(scales, kernels, 1),
        level=np.asarray(level),
        scales=scales,
        shared_theta=theta,
        spread=likelihood.spread(len(theta), user_spread, **kind),
        tau=np.zeros(count),
        nu=np.zeros(count),
        theta=np.tile(theta, (n, 1)),
        user_level=np.zeros(n),
        user_scale=np.ones(n),
        model=f"{likelihood.name}, {'collaborative' if collaborative else 'individual'}",
        fingerprint=fingerprint(observations),
    )
