"""EM on its way: the compiled steps, the state between them, and the objective so far."""

from __future__ import annotations

from typing import Any

import numpy as np
from jax.sharding import Mesh
from numpy.typing import NDArray

from bayesrank.infer.compiled import jit
from bayesrank.solvers.collaborative.acceleration import Anderson
from bayesrank.solvers.collaborative.blocks import Observations, make_blocks
from bayesrank.solvers.collaborative.carry import Carried, carry, whole
from bayesrank.solvers.collaborative.items import Items
from bayesrank.solvers.collaborative.iterate import (
    Found,
    Setting,
    State,
    density,
    expect,
    maximise,
    place,
)
from bayesrank.solvers.collaborative.posterior import Prior
from bayesrank.solvers.collaborative.result import EMResult
from bayesrank.solvers.collaborative.state import EMState, pack, unpack

__all__ = ["Loop"]

# Iterations that together change the objective by little: single ones do so again and again on the
# way, where acceleration pauses.
_QUIET = 10
# Nats per observation: EP's evidence is right at its fixed point only.
_SLACK = 1e-5

# The steps, compiled for each setting and all shapes, whichever engine asks. Each is a program of
# its own: with several blocks in one, XLA for CPUs may wait for ever.
_carry, _whole = jit(carry), jit(whole)
_expect = jit(expect, static_argnums=(0, 1))
_density, _maximise = jit(density, static_argnums=0), jit(maximise, static_argnums=0)


class Loop:
    """The state on its way, and the objective so far.

    Attributes
    ----------
    state
        The present one, which nobody may have looked at yet.
    trace
        The objective at the states so far.
    broken
        Whether the objective was no number, and the state is the one before.
    """

    def __init__(
        self,
        setting: Setting,
        observations: Observations,
        kernels: NDArray[np.float64],
        items: Items,
        start: EMState,
        *,
        mesh: Mesh | None,
        accelerate: bool,
    ) -> None:
        self.setting, self.observations, self.base_kernels = setting, observations, kernels
        self.items, self.mesh = items, mesh
        multiple = 1 if mesh is None else mesh.size
        self.host_blocks = make_blocks(items.observations(observations), multiple=multiple)
        state = unpack(items.enter(start), self.host_blocks)
        prior, base, theta = place(mesh, state[:3], split=False)
        self.state = State(prior, base, theta, place(mesh, state.users, split=True))
        self.blocks = place(mesh, self.host_blocks, split=True)
        self.kernels = place(mesh, items.base_kernels(kernels), split=False)
        self.trace: list[float] = []
        self.broken = False
        self._sound: State | None = None  # the last whose objective is known
        self._plain: State | None = None  # EM's own next, if the present state is a proposal
        self._carried: Carried | None = None
        self._slack = 0.0 if setting.numbers else _SLACK * len(observations.users)
        # Whatever unit numbers are in, the acceleration is the same.
        unit = float(np.std(observations.levels)) if setting.numbers else 1.0
        self._anderson = Anderson(unit or 1.0)
        self._accelerate = accelerate and setting.collaborative

    @property
    def per_observation(self) -> float:
        """Objective divided by the number of observations."""
        return self.trace[-1] / len(self.observations.users)

    def step(self) -> None:
        """Make one iteration, and note the objective at its beginning."""
        found = self._checked()
        if self.broken:
            return
        self.trace.append(self.log_evidence + self.log_prior)
        self._sound = self.state
        new = _maximise(self.setting, self.state, found, self.blocks, self.kernels)
        further = self._anderson.propose(self.state, new) if self._accelerate else None
        self._plain, self.state = (None, new) if further is None else (new, further)

    def sweep(self, most: int, tol: float = 0.0) -> float:
        """Improve the sites alone until they settle; return how far the last sweep moved them."""
        found, swept = self._checked(), 1
        while swept < most and not float(found.sums.delta) <= tol:
            self.state = self.state._replace(users=found.users)
            found, swept = self._expect(), swept + 1
        if swept > 1:
            self.evaluate(found)
        self.state = self.state._replace(users=found.users)
        return float(found.sums.delta)

    def _checked(self) -> Found:
        """Make the E-step; take back a proposal that has lost, and what has no objective.

        Raises
        ------
        ValueError
            If it has none where EM starts.
        """
        found = self._expect()
        value = self.evaluate(found)
        if self._plain is not None and not value >= self.trace[-1] - self._slack:
            self.state = self._plain
            self._anderson.reject()
            found = self._expect()
            value = self.evaluate(found)
        self._plain = None
        if np.isfinite(value):
            return found
        if self._sound is None:
            raise ValueError(
                "the objective is no number where EM starts: levels, kernel or a strength are too "
                "large or too small; rescale them"
            )
        self.state, self.broken = self._sound, True
        found = self._expect()
        self.evaluate(found)
        return found

    def _expect(self) -> Found:
        """Make the E-step of all blocks."""
        prior, carried = self._prior(self.state)
        users, own = [], []
        sums: Any = None  # of no block
        for block, user in zip(self.blocks, self.state.users, strict=True):
            after, its, sums = _expect(self.setting, self.mesh, prior, user, block, sums)
            users.append(after)
            own.append(its)
        return Found(tuple(users), tuple(own), sums, carried)

    def _prior(self, state: State) -> tuple[Prior, Carried]:
        """What users share, with the kernel of all items, and how these follow the core."""
        carried = self._carried
        if carried is None or self.setting.learn_base:  # else it stays as it is
            self._carried = carried = _carry(state.base.scales, self.kernels)
        every = len(state.prior.kernel) == len(state.prior.mean)
        return state.prior if every else _whole(state.prior, carried), carried

    def evaluate(self, found: Found) -> float:
        """Log evidence and log prior density of the state that the E-step was made at."""
        self.log_evidence = float(found.sums.log_evidence)
        self.log_prior = float(_density(self.setting, self.state, found, self.blocks))
        return self.log_evidence + self.log_prior

    def settled(self, tol: float) -> bool:
        """Whether the last iterations changed the objective by little."""
        return len(self.trace) > _QUIET and self.change < tol

    @property
    def change(self) -> float:
        """Of the objective per observation, over the last iterations."""
        recent = self.trace[-_QUIET - 1 :]
        return float(np.ptp(recent)) / len(self.observations.users) if len(recent) > 1 else np.inf

    def packed(self) -> EMState:
        """The state as NumPy arrays, in the order of the observations.

        Nobody has looked at a proposal yet, which may be bad: EM's own state stands for it.
        """
        state = self.state if self._plain is None else self._plain
        state = state._replace(prior=self._prior(state)[0])
        return self.items.leave(
            pack(state, self.host_blocks, self.observations, self.setting.model)
        )

    def result(self, *, converged: bool) -> EMResult:
        """What there is to return, as last evaluated."""
        return EMResult(
            self.observations,
            self.setting,
            self.packed(),
            self.base_kernels,
            log_evidence=self.log_evidence,
            log_prior=self.log_prior,
            trace=np.asarray(self.trace),
            converged=converged,
        )
