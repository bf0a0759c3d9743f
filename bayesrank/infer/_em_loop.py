"""EM on its way: the compiled steps, the state between them, and the objective so far."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jax import Array
from jax.sharding import Mesh
from numpy.typing import NDArray

from bayesrank.infer._compile import jit
from bayesrank.infer._em_accelerate import Anderson
from bayesrank.infer._em_blocks import Block, Observations, make_blocks
from bayesrank.infer._em_carry import CoreKernels, carry, whole
from bayesrank.infer._em_estep import no_sums
from bayesrank.infer._em_items import Items
from bayesrank.infer._em_iterate import Found, Setting, State, density, expect, maximise, place
from bayesrank.infer._em_posterior import Prior
from bayesrank.infer._em_result import EMResult
from bayesrank.infer._em_state import EMState, pack, unpack

__all__ = ["Loop", "Steps", "compile_steps"]

# Iterations that together change the objective by little: single ones do so again and again on the
# way, where acceleration pauses.
_QUIET = 10
# Nats per observation: EP's evidence is right at its fixed point only.
_SLACK = 1e-5


class Steps(NamedTuple):
    """Compiled steps."""

    whole: Callable[..., Prior]
    expect_block: Callable[..., Any]
    maximise: Callable[..., State]
    density: Callable[..., Array]
    anderson: Anderson

    def expect(
        self, state: State, blocks: tuple[Block, ...], kernels: CoreKernels, *, shared: bool
    ) -> Found:
        """Make the E-step of all blocks."""
        prior = self.prior_of_all(state, kernels)
        sums = no_sums(len(state.prior.mean), shared=shared)
        users, own = [], []
        for block, user in zip(blocks, state.users, strict=True):
            after, found, sums = self.expect_block(prior, user, block, sums)
            users.append(after)
            own.append(found)
        return Found(tuple(users), tuple(own), sums)

    def prior_of_all(self, state: State, kernels: CoreKernels) -> Prior:
        """What users share, with the kernel of all items."""
        if len(state.prior.kernel) == len(state.prior.mean):
            return state.prior
        return self.whole(state.prior, state.base.scales, kernels)


def compile_steps(setting: Setting, mesh: Mesh | None) -> Steps:
    """Return compiled code of the steps, to be kept for data of the same shapes.

    Each is a program of its own: with several blocks in one, XLA for CPUs may wait for ever.
    """
    return Steps(
        jit(lambda prior, scales, kernels: whole(prior, carry(scales, kernels))),
        jit(lambda *args: expect(setting, mesh, *args)),
        jit(lambda *args: maximise(setting, *args)),
        jit(lambda *args: density(setting, *args)),
        Anderson(),
    )


class Loop:
    """The state on its way, and the objective so far."""

    def __init__(
        self,
        steps: Steps,
        setting: Setting,
        observations: Observations,
        kernels: NDArray[np.float64],
        items: Items,
        start: EMState,
        *,
        mesh: Mesh | None,
        accelerate: bool,
    ) -> None:
        self.observations, self.setting, self.base_kernels = observations, setting, kernels
        self.steps, self.items = steps, items
        multiple = 1 if mesh is None else mesh.size
        self.host_blocks = make_blocks(items.observations(observations), multiple=multiple)
        state = unpack(items.enter(start), self.host_blocks)
        self.state = State(
            place(mesh, state.prior, split=False),
            place(mesh, state.base, split=False),
            place(mesh, state.theta, split=False),
            place(mesh, state.users, split=True),
        )
        self.blocks = place(mesh, self.host_blocks, split=True)
        self.kernels = place(mesh, items.base_kernels(kernels), split=False)
        self.trace: list[float] = []
        self.anderson = self.steps.anderson if accelerate and setting.collaborative else None
        self.plain: State | None = None
        self.sound: State | None = None
        self.broken = False
        self.slack = 0.0 if setting.numbers else _SLACK * len(observations.users)
        # Whatever unit numbers are in, the acceleration is the same.
        spread = float(np.std(observations.levels)) if setting.numbers else 1.0
        self.steps.anderson.restart(spread or 1.0)

    @property
    def per_observation(self) -> float:
        """Objective divided by the number of observations."""
        return self.trace[-1] / len(self.observations.users)

    def step(self) -> None:
        """Make one iteration, and note the objective at its beginning.

        Where that is no number the state is the one before, and `broken` is true.

        Raises
        ------
        ValueError
            If it is none to begin with.
        """
        found = self._expect()
        value = self.evaluate(found)
        if self.plain is not None and not value >= self.trace[-1] - self.slack:
            # The last step went too far: take EM's own instead.
            self.state, self.plain = self.plain, None
            self.steps.anderson.reject()
            found = self._expect()
            value = self.evaluate(found)
        if not np.isfinite(value):
            if self.sound is None:
                raise ValueError(
                    "the objective is no number where EM starts: levels, kernel or a strength are "
                    "too large or too small; rescale them"
                )
            self.state, self.broken = self.sound, True
            return
        self.trace.append(value)
        self.sound = self.state
        new = self.steps.maximise(self.state, found, self.blocks, self.kernels)
        further = None if self.anderson is None else self.anderson.propose(self.state, new)
        self.plain, self.state = (None, new) if further is None else (new, further)

    def _expect(self) -> Found:
        shared = self.setting.collaborative
        return self.steps.expect(self.state, self.blocks, self.kernels, shared=shared)

    def evaluate(self, found: Found) -> float:
        """Log evidence and log prior density of the state that the E-step was made at."""
        self.log_evidence = float(found.sums.log_evidence)
        self.log_prior = float(self.steps.density(self.state, found.own, self.blocks, self.kernels))
        return self.log_evidence + self.log_prior

    def sweep(self, most: int, tol: float = 0.0) -> float:
        """Improve the sites alone until they settle; return how far the last sweep moved them."""
        found = self._expect()
        if self.sound is not None and not np.isfinite(self.evaluate(found)):
            self.state, self.broken = self.sound, True
            found = self._expect()
        for _ in range(most - 1):
            if found.sums.delta <= tol:
                break
            self.state = self.state._replace(users=found.users)
            found = self._expect()
        self.evaluate(found)
        self.state = self.state._replace(users=found.users)
        return float(found.sums.delta)

    def settled(self, tol: float) -> bool:
        """Whether the last iterations changed the objective by little."""
        return len(self.trace) > _QUIET and self.change < tol

    @property
    def change(self) -> float:
        """Of the objective per observation, over the last iterations."""
        recent = self.trace[-_QUIET - 1 :]
        return float(np.ptp(recent)) / len(self.observations.users) if len(recent) > 1 else np.inf

    def packed(self) -> EMState:
        """The state as NumPy arrays, in the order of the observations."""
        state = self.state._replace(prior=self.steps.prior_of_all(self.state, self.kernels))
        return self.items.leave(pack(state, self.host_blocks, self.observations))

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
