"""EM on its way: the compiled steps, the state between them, and the objective so far."""

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh
from numpy.typing import NDArray

from bayesrank.infer.spi import jit
from bayesrank.solvers.collaborative.acceleration import Anderson
from bayesrank.solvers.collaborative.blocks import make_blocks
from bayesrank.solvers.collaborative.data import ItemOrder
from bayesrank.solvers.collaborative.e_step import expect, place
from bayesrank.solvers.collaborative.kernel_prior import (
    CoreConditional,
    all_items,
    condition_on_core,
)
from bayesrank.solvers.collaborative.m_step import log_prior, maximize
from bayesrank.solvers.collaborative.result import EMResult
from bayesrank.solvers.collaborative.state import (
    EMState,
    from_coordinates,
    pack,
    to_coordinates,
    unpack,
)
from bayesrank.solvers.collaborative.types import EStep, Observations, Setting, State

# Iterations that together change the objective by little: single ones do so again and again on the
# way, where acceleration pauses.
_QUIET = 10
# Nats per observation: EP's evidence is right at its fixed point only.
_SLACK = 1e-5

# The steps, compiled for each setting and all shapes, whichever engine asks. Each is a program of
# its own: with several blocks in one, XLA for CPUs may wait for ever.
_condition, _all_items = jit(condition_on_core), jit(all_items)
_expect = jit(expect, static_argnums=(0, 1))
_log_prior, _maximize = jit(log_prior, static_argnums=0), jit(maximize, static_argnums=0)


@jit
def _flat(state: State) -> Array:
    return ravel_pytree(to_coordinates(state))[0]


@jit
def _from_flat(point: Array, state: State) -> State:
    return from_coordinates(ravel_pytree(state)[1](point), state)


@jit
def _residual(before: State, after: State, unit: Array) -> Array:
    """Change of mean, kernel and shared parameters, in units that are alike."""
    old, new = to_coordinates(before), to_coordinates(after)
    factor = new.prior.kernel - old.prior.kernel
    logs = jnp.diagonal(factor)
    rest = (factor - jnp.diag(logs)).ravel()
    mean = new.prior.mean - old.prior.mean
    parts = mean / unit, rest / unit, logs, new.params.shared - old.params.shared
    return jnp.concatenate(parts)


class Loop:
    """The state, the objective at those so far, and whether it was no number (`broken`)."""

    def __init__(
        self,
        setting: Setting,
        observations: Observations,
        kernels: NDArray[np.float64],
        items: ItemOrder,
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
        prior, base, params = place(mesh, state[:3], split=False)
        self.state = State(prior, base, params, place(mesh, state.users, split=True))
        self.blocks = place(mesh, self.host_blocks, split=True)
        self.kernels = place(mesh, items.base_kernels(kernels), split=False)
        self.trace: list[float] = []
        self.broken = False
        self._sound: State | None = None  # the last whose objective is known
        self._plain: State | None = None  # EM's own next, if the present state is a proposal
        self._conditional: CoreConditional | None = None
        self._slack = 0.0 if setting.likelihood.exact else _SLACK * len(observations.users)
        # Whatever unit numbers are in, the acceleration is the same.
        own_unit = not setting.likelihood.sets_unit
        self._unit = (float(np.std(observations.levels)) or 1.0) if own_unit else 1.0
        self._anderson = Anderson() if accelerate and setting.collaborative else None

    @property
    def per_observation(self) -> float:
        """Objective divided by the number of observations."""
        return self.trace[-1] / len(self.observations.users)

    def step(self) -> None:
        """Make one iteration, and note the objective at its beginning."""
        e_step = self._checked()
        if self.broken:
            return
        self.trace.append(self.log_evidence + self.log_prior)
        self._sound = self.state
        new = _maximize(self.setting, self.state, e_step, self.blocks, self.kernels)
        self._plain, self.state = self._further(self.state, new)

    def _further(self, old: State, new: State) -> tuple[State | None, State]:
        """Go beyond EM's own step, if there is a proposal; that step, then, and where to go."""
        if self._anderson is None:
            return None, new
        residual = _residual(old, new, self._unit)
        point = self._anderson.propose(_flat(new), residual)
        return (None, new) if point is None else (new, _from_flat(point, new))

    def sweep(self, num_sweeps: int, tol: float = 0.0) -> float:
        """Improve the sites alone until they settle; return how far the last sweep moved them."""
        e_step, num_done = self._checked(), 1
        while num_done < num_sweeps and not float(e_step.sums.delta) <= tol:
            self.state = self.state._replace(users=e_step.users)
            e_step, num_done = self._e_step(), num_done + 1
        if num_done > 1:
            self.evaluate(e_step)
        self.state = self.state._replace(users=e_step.users)
        return float(e_step.sums.delta)

    def _checked(self) -> EStep:
        """Make the E-step; take back a proposal that has lost, and what has no objective."""
        e_step = self._e_step()
        value = self.evaluate(e_step)
        if self._plain is not None and not value >= self.trace[-1] - self._slack:
            self.state = self._plain
            if self._anderson is not None:
                self._anderson.restart()
            e_step = self._e_step()
            value = self.evaluate(e_step)
        self._plain = None
        if np.isfinite(value):
            return e_step
        if self._sound is None:
            raise ValueError(
                "the objective is not a number where EM starts: levels, kernel or a strength are "
                "too large or too small; rescale them"
            )
        self.state, self.broken = self._sound, True
        e_step = self._e_step()
        self.evaluate(e_step)
        return e_step

    def _e_step(self) -> EStep:
        """Make the E-step of all blocks."""
        prior = self._with_all_items(self.state).prior
        users, statistics = [], []
        sums: Any = None  # of no block
        for block, user in zip(self.blocks, self.state.users, strict=True):
            after, own, sums = _expect(self.setting, self.mesh, prior, user, block, sums)
            users.append(after)
            statistics.append(own)
        return EStep(tuple(users), tuple(statistics), sums, self._conditional)

    def _with_all_items(self, state: State) -> State:
        """Return the state with the kernel of all items."""
        if self._conditional is None or self.setting.learn_base:  # else it stays as it is
            self._conditional = _condition(state.base.scales, self.kernels)
        if len(state.prior.kernel) == len(state.prior.mean):
            return state
        return state._replace(prior=_all_items(state.prior, self._conditional))

    def evaluate(self, e_step: EStep) -> float:
        """Log evidence and log prior density of the state that the E-step was made at."""
        self.log_evidence = float(e_step.sums.log_evidence)
        self.log_prior = float(
            _log_prior(self.setting, self.state, e_step.conditional, self.blocks)
        )
        return self.log_evidence + self.log_prior

    def settled(self, tol: float) -> bool:
        """Whether the last iterations changed the objective by little."""
        return len(self.trace) > _QUIET and self.change < tol

    @property
    def change(self) -> float:
        """Change of the objective per observation, over the last iterations."""
        recent = self.trace[-_QUIET - 1 :]
        return float(np.ptp(recent)) / len(self.observations.users) if len(recent) > 1 else np.inf

    def packed(self) -> EMState:
        """The state as NumPy arrays, in the observations' order; EM's own for one proposed."""
        state = self._with_all_items(self.state if self._plain is None else self._plain)
        packed = pack(state, self.host_blocks, self.observations, self.setting.model)
        return self.items.leave(packed)

    def result(self, *, converged: bool) -> EMResult:
        """What there is to return, as last evaluated."""
        return EMResult(
            self.observations,
            self.setting,
            self.packed(),
            self.base_kernels,
            replace(self.setting.kernel_prior, items=tuple(self.items.order.tolist())),
            log_evidence=self.log_evidence,
            log_prior=self.log_prior,
            trace=np.asarray(self.trace),
            converged=converged,
        )
