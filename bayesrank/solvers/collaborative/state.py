"""The state of EM between runs: plain arrays in the order of the observations."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bayesrank._states import check_axes, check_covariances, read_state, write_state
from bayesrank.solvers.collaborative.blocks import restore, take
from bayesrank.solvers.collaborative.types import (
    Base,
    LikelihoodParams,
    Observations,
    Setting,
    SharedPrior,
    State,
    UserBlock,
    UserState,
)

_AXES = {
    "mean": "m",
    "kernel": "mm",
    "level": "",
    "scales": "c",
    "shared_theta": "p",
    "spread": "p",
    "tau": "k",
    "nu": "k",
    "theta": "np",
    "user_level": "n",
    "user_scale": "n",
}

Array = Any  # float64: NumPy's on the host, JAX's on devices


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
        write_state(path, "EM", self._asdict())

    @classmethod
    def load(cls, path: str | Path) -> EMState:
        """Read a state from a file.

        Raises
        ------
        ValueError
            If the file holds none.
        """
        return read_state(path, "EM", {"EM": cls._restored})

    @classmethod
    def _restored(cls, fields: dict[str, Any]) -> EMState:
        if set(fields) != set(cls._fields):
            lacking = ", ".join(sorted(set(cls._fields) - set(fields))) or "nothing, but holds more"
            raise ValueError(f"it lacks {lacking}")
        check_axes(fields, _AXES)
        check_covariances(fields, "kernel")
        for name in ("scales", "user_scale"):
            if not (fields[name] > 0.0).all():
                raise ValueError(f"its array {name!r} has numbers that are not positive")
        texts = {name: str(fields[name]) for name in ("model", "fingerprint")}
        return cls(**fields | texts)

    def check(
        self, observations: Observations, setting: Setting, num_kernels: int, user_spread: float
    ) -> None:
        """Refuse data or a model other than the state's.

        Raises
        ------
        ValueError
            If users, items, levels or their order differ, or the model, the number of base
            kernels, or how much users differ.
        """
        if str(self.fingerprint) != fingerprint(observations):
            raise ValueError(
                "init_state is of other observations; pass those that it was made with, in the "
                "same order, or leave it out"
            )
        if str(self.model) != setting.model:
            raise ValueError(
                f"init_state is of the model {str(self.model)!r}, not {setting.model!r}; pass a "
                "state of this model, or leave it out"
            )
        if len(self.scales) != num_kernels:
            raise ValueError(
                f"init_state has scales of {len(self.scales)} base kernels, not of {num_kernels}; "
                "pass the kernel that it was made with, or leave it out"
            )
        kind: Any = {"collaborative": setting.collaborative}
        spread = setting.likelihood.spread(len(self.spread), user_spread, **kind)
        if not np.array_equal(self.spread, spread):
            raise ValueError(
                f"init_state has the spread {self.spread.tolist()} of users' parameters, not "
                f"{spread.tolist()}; give user_thresholds or user_scales as it was made with"
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
    user_spread: float,
) -> EMState:
    """Where to start, by the likelihood; `user_spread` is that of users' own parameters."""
    kind: Any = {"collaborative": setting.collaborative}
    theta, level, variance = setting.likelihood.start(observations, num_levels, **kind)
    scales = variance / len(kernels) / np.array([np.diagonal(k).mean() for k in kernels])
    n, count = observations.num_users, len(observations.users)
    return EMState(
        mean=np.full(observations.num_items, level),
        kernel=np.einsum("c,cij->ij", scales, kernels),
        level=np.asarray(level),
        scales=scales,
        shared_theta=theta,
        spread=setting.likelihood.spread(len(theta), user_spread, **kind),
        tau=np.zeros(count),
        nu=np.zeros(count),
        theta=np.tile(theta, (n, 1)),
        user_level=np.zeros(n),
        user_scale=np.ones(n),
        model=setting.model,
        fingerprint=fingerprint(observations),
    )


def unpack(state: EMState, blocks: tuple[UserBlock, ...]) -> State:
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
        SharedPrior(state.mean, state.kernel),
        Base(state.level, state.scales),
        LikelihoodParams(state.shared_theta, state.spread),
        users,
    )


def pack(
    state: State, blocks: tuple[UserBlock, ...], observations: Observations, model: str
) -> EMState:
    """Undo `unpack`. Users without observations get what is shared."""
    prior, base, params, users = jax.tree.map(_on_host, state)
    n, count = observations.num_users, len(observations.users)
    own: list[Any] = [np.zeros(count), np.zeros(count), np.tile(params.shared, (n, 1))]
    own += [np.zeros(n), np.ones(n)]
    for block, user in zip(blocks, users, strict=True):
        places = block.entries, block.entries, *[block.users] * 3
        own = [restore(*arrays) for arrays in zip(own, user, places, strict=True)]
    estimate: list[Any] = [*prior, *base, *params, *own]
    return EMState(*estimate, model=model, fingerprint=fingerprint(observations))


def _on_host(array: Any) -> Array:
    """All of an array that may be spread over several processes."""
    if not array.is_fully_addressable:
        from jax.experimental import multihost_utils

        array = multihost_utils.process_allgather(array, tiled=True)
    return np.asarray(array)


def to_coordinates(state: State) -> State:
    """A state as logarithms and factors, of which every combination is a state; kernel first."""
    factor = jnp.linalg.cholesky(state.prior.kernel)
    diagonal = jnp.diagonal(factor)
    factor += jnp.diag(jnp.log(diagonal) - diagonal)
    return state._replace(
        prior=state.prior._replace(kernel=factor),
        base=state.base._replace(scales=jnp.log(state.base.scales)),
        users=tuple(user._replace(tau=_log(user.tau)) for user in state.users),
    )


def from_coordinates(point: State, state: State) -> State:
    """Undo `to_coordinates`; what is not a coordinate, or has no logarithm, is as in `state`."""
    diagonal = jnp.diagonal(point.prior.kernel)
    factor = point.prior.kernel + jnp.diag(jnp.exp(diagonal) - diagonal)
    differ, shared = state.params.spread > 0, point.params.shared
    users = tuple(
        new._replace(
            tau=jnp.where(old.tau > 0, jnp.exp(new.tau), old.tau),
            theta=jnp.where(differ, new.theta, shared),
            level=old.level,
            scale=old.scale,
        )
        for new, old in zip(point.users, state.users, strict=True)
    )
    return State(
        point.prior._replace(kernel=factor @ factor.T),
        point.base._replace(scales=jnp.exp(point.base.scales)),
        state.params._replace(shared=shared),
        users,
    )


def _log(values: Array) -> Array:
    return jnp.where(values > 0, jnp.log(jnp.where(values > 0, values, 1.0)), 0.0)
