"""The state of EM between runs: plain arrays in the order of the observations."""

from __future__ import annotations

import hashlib
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import logistic, norm

from bayesrank._states import no_state, read_arrays, write_arrays
from bayesrank.solvers.collaborative.blocks import Block, Observations, restore, take
from bayesrank.solvers.collaborative.iterate import Setting, State
from bayesrank.solvers.collaborative.m_step import Base
from bayesrank.solvers.collaborative.posterior import Prior, UserState
from bayesrank.solvers.collaborative.thresholds import Theta

__all__ = ["EMState", "fingerprint", "initial_state", "pack", "unpack"]

Array = Any  # float64: NumPy's on the host, JAX's on devices

_FIRST_SPREAD = 0.3
# In units of the noise's: tastes may vary more than one rating scatters. Where that is too much,
# what is too much goes to single items, the part of the base that is like noise.
_BASE_VARIANCE = 4.0
# Individual models have nobody to learn the spread of deviations from.
_LONE_SPREAD = 1.0


class EMState(NamedTuple):
    """Everything that EM estimates, whatever the devices and blocks were.

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
        Of the users, shapes (n, p), (n,), (n,).
    model
        What it was made by, such as "probit, collaborative".
    fingerprint
        Of the observations that the sites belong to.
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
        write_arrays(path, self._asdict())

    @classmethod
    def load(cls, path: str | Path) -> EMState:
        """Read a state from a file.

        Raises
        ------
        ValueError
            If the file holds none.
        """
        fields = read_arrays(path, "EM")
        if set(fields) != set(cls._fields):
            lacking = ", ".join(sorted(set(cls._fields) - set(fields))) or "nothing, but holds more"
            raise no_state(path, "EM", f"it lacks {lacking}")
        return cls(**fields)

    def check(self, observations: Observations, model: str, num_kernels: int) -> None:
        """Refuse what the state was not made with.

        Raises
        ------
        ValueError
            If users, items, levels or their order differ, or the model, or the number of base
            kernels.
        """
        if str(self.fingerprint) != fingerprint(observations):
            raise ValueError(
                "init_state is of other observations; pass those that it was made with, in the "
                "same order, or leave it out"
            )
        if str(self.model) != model:
            raise ValueError(
                f"init_state is of the model {str(self.model)!r}, not {model!r}; pass a state of "
                "this model, or leave it out"
            )
        if len(self.scales) != num_kernels:
            raise ValueError(
                f"init_state has scales of {len(self.scales)} base kernels, not of {num_kernels}; "
                "pass the kernel that it was made with, or leave it out"
            )


def fingerprint(observations: Observations) -> str:
    """Short name of a set of observations, equal for equal ones."""
    digest = hashlib.sha256()
    for array in (observations.users, observations.items, observations.levels):
        digest.update(np.ascontiguousarray(array).tobytes())
    digest.update(repr((observations.num_users, observations.num_items)).encode())
    return digest.hexdigest()


def initial_state(
    setting: Setting,
    observations: Observations,
    kernels: Array,
    num_levels: int | None,
    users_differ: bool,
) -> EMState:
    """Where to start: half of what varies in numbers is the users' taste, and half is noise."""
    theta, level, variance = _first_likelihood(setting, observations, num_levels)
    diagonal = np.array([np.diagonal(k).mean() for k in kernels])
    scales = variance / len(kernels) / diagonal
    n, count = observations.num_users, len(observations.users)
    lone = not setting.collaborative
    spread = np.zeros(len(theta))
    if users_differ:
        spread[:] = _LONE_SPREAD if lone else _FIRST_SPREAD
        spread[-1] = 0.0 if lone else spread[-1]
        if setting.likelihood == "gaussian":
            spread[0] = 0.0  # the anchor is everybody's
    mixed = np.einsum("c,cij->ij", scales, kernels)
    return EMState(
        np.full(observations.num_items, level),
        mixed,
        np.asarray(level),
        scales,
        theta,
        spread,
        np.zeros(count),
        np.zeros(count),
        np.tile(theta, (n, 1)),
        np.zeros(n),
        np.ones(n),
        setting.model,
        fingerprint(observations),
    )


def _first_likelihood(
    setting: Setting, observations: Observations, num_levels: int | None
) -> tuple[Array, float, float]:
    """Parameters of the likelihood, level of the functions, and their variance."""
    if setting.likelihood == "pairwise":
        return np.zeros(0), 0.0, 1.0
    if setting.likelihood == "gaussian":
        variance = float(np.var(observations.levels)) or 1.0
        return (
            np.array([observations.levels.mean(), 0.0, 0.5 * np.log(0.5 * variance)]),
            float(observations.levels.mean()),
            0.5 * variance,
        )
    used, counts = np.unique(observations.levels, return_counts=True)
    top = int(used[-1])
    r = top + 1 if num_levels is None else num_levels
    if isinstance(r, bool) or not isinstance(r, Integral):
        raise ValueError(f"num_levels is {r!r}; pass a whole number from 2")
    if r < 2 or top >= r:
        raise ValueError(f"num_levels is {r}, but levels go up to {used[-1]:g}; pass at least two")
    if len(used) < r:
        unused = int(np.argmax(np.append(used, -1) != np.arange(len(used) + 1)))
        raise ValueError(f"nobody used level {unused}; number the levels in use without gaps")
    below = np.cumsum(counts)[:-1] / counts.sum()
    law, noise = (norm, 1.0) if setting.likelihood == "probit" else (logistic, np.pi**2 / 3)
    # Individual models learn their scale, and start small; what users share keeps its size.
    ratio = _BASE_VARIANCE if setting.collaborative else 1.0
    edges, variance = law.ppf(below) * np.sqrt(1.0 + ratio), ratio * noise
    return np.append(np.log(np.diff(edges)), 0.0), float(-edges.mean()), variance


def unpack(state: EMState, blocks: tuple[Block, ...]) -> State:
    """Lay the state out as the blocks."""
    users = tuple(
        UserState(
            take(state.tau, b.entries),
            take(state.nu, b.entries),
            take(state.theta, b.users),
            take(state.user_level, b.users),
            take(state.user_scale, b.users, empty=1.0),
        )
        for b in blocks
    )
    return State(
        Prior(state.mean, state.kernel),
        Base(state.level, state.scales),
        Theta(state.shared_theta, state.spread),
        users,
    )


def pack(
    state: State, blocks: tuple[Block, ...], observations: Observations, model: str
) -> EMState:
    """Undo `unpack`. Users without observations get what is shared."""
    n, count = observations.num_users, len(observations.users)
    shared = _whole(state.theta.shared)
    tau, nu = np.zeros(count), np.zeros(count)
    theta, level, scale = np.tile(shared, (n, 1)), np.zeros(n), np.ones(n)
    for block, user in zip(blocks, state.users, strict=True):
        user = UserState(*(_whole(x) for x in user))
        tau, nu = (
            restore(x, found, block.entries) for x, found in ((tau, user.tau), (nu, user.nu))
        )
        theta, level, scale = (
            restore(x, found, block.users)
            for x, found in ((theta, user.theta), (level, user.level), (scale, user.scale))
        )
    return EMState(
        _whole(state.prior.mean),
        _whole(state.prior.kernel),
        _whole(state.base.level),
        _whole(state.base.scales),
        shared,
        _whole(state.theta.spread),
        tau,
        nu,
        theta,
        level,
        scale,
        model,
        fingerprint(observations),
    )


def _whole(array: Any) -> Array:
    """All of an array that may be spread over several processes."""
    if not array.is_fully_addressable:
        from jax.experimental import multihost_utils

        array = multihost_utils.process_allgather(array, tiled=True)
    return np.asarray(array)
