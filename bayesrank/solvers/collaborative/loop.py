"""EM on its way: the state, EM's own next where that is a proposal, and the objective so far."""

import numpy as np

from bayesrank.solvers.collaborative.acceleration import Anderson
from bayesrank.solvers.collaborative.state import Coordinates, EMState
from bayesrank.solvers.collaborative.steps import EMSteps, Expected

# Iterations that together change the objective by little: single ones do so again and again on the
# way, where acceleration pauses.
_QUIET = 10
# Nats per observation: EP's evidence is right at its fixed point only.
_SLACK = 1e-5
# With more items, the scales of the base are learned in so many iterations: their step takes half
# the time of one, and they settle before kernel and mean do.
_FEW_ITEMS, _LEARNING = 500, 15


class Loop:
    """The state, the objective at those so far, and whether it was no number (`broken`)."""

    def __init__(self, steps: EMSteps, state: EMState, anderson: Anderson | None) -> None:
        self.steps, self.state, self._anderson = steps, state, anderson
        self.trace: list[float] = []
        self.broken = False
        self._sound: EMState | None = None  # the last whose objective is known
        self._plain: EMState | None = None  # EM's own next, if the present state is a proposal
        likelihood, levels = steps.likelihood, steps.observations.levels
        self._count = len(levels)
        self._slack = 0.0 if likelihood.exact else _SLACK * self._count
        if steps.shared is not None:
            # Whatever unit numbers are in, the acceleration is the same.
            unit = 1.0 if likelihood.sets_unit else float(np.std(levels)) or 1.0
            sizes = np.diagonal(steps.shared.kernels.core, axis1=1, axis2=2).mean(axis=1)
            holds = steps.shared.learns and steps.shared.holds_size
            size = len(state.kernel)
            self._coordinates = Coordinates(size, unit, holds_size=sizes if holds else None)

    @property
    def per_observation(self) -> float:
        """Objective divided by the number of observations."""
        return self.trace[-1] / self._count

    def step(self) -> None:
        """Make one iteration, and note the objective at its beginning."""
        found = self._checked()
        if self.broken:
            return
        self.trace.append(self.log_evidence + self.log_prior)
        self._sound = self.state
        learn = len(self.state.kernel) <= _FEW_ITEMS or len(self.trace) <= _LEARNING
        new = self.steps.maximize(found, learn=learn)
        self._plain, self.state = self._further(self.state, new)

    def _further(self, old: EMState, new: EMState) -> tuple[EMState | None, EMState]:
        """Go beyond EM's own step, if there is a proposal; that step, then, and where to go."""
        if self._anderson is None:
            return None, new
        try:
            before, after = (self._coordinates.flat(x) for x in (old, new))
        except np.linalg.LinAlgError:  # which the next E-step finds and says
            return None, new
        residual = self._coordinates.residual(before, after, new)
        point = self._anderson.propose(after, residual)
        return (None, new) if point is None else (new, self._coordinates.state(point, new))

    def sweep(self, num_sweeps: int, tol: float = 0.0) -> float:
        """Improve the sites alone until they settle; return how far the last sweep moved them."""
        found = self._checked(gather=False)
        for _ in range(num_sweeps - 1):
            if found.delta <= tol:
                break
            self.state = found.state
            found = self.steps.expect(self.state, gather=False)
            self.log_evidence = found.log_evidence
        self.state = found.state
        return found.delta

    def _checked(self, *, gather: bool = True) -> Expected:
        """Make the E-step; take back a proposal that has lost, and what has no objective."""
        found, value = self.evaluate(gather=gather)
        if self._plain is not None and not value >= self.trace[-1] - self._slack:
            self.state = self._plain
            if self._anderson is not None:
                self._anderson.restart()
            found, value = self.evaluate(gather=gather)
        self._plain = None
        if found is not None and np.isfinite(value):
            return found
        if self._sound is None:
            raise ValueError(
                "the objective is not a number where EM starts: levels, kernel or a strength are "
                "too large or too small; rescale them"
            )
        self.state, self.broken = self._sound, True
        found = self.steps.expect(self.state, gather=gather)
        self.log_evidence, self.log_prior = found.log_evidence, self.steps.log_prior(self.state)
        return found

    def evaluate(self, *, gather: bool = True) -> tuple[Expected | None, float]:
        """The E-step and the objective of the state; no number where there is none."""
        try:
            found = self.steps.expect(self.state, gather=gather)
            log_prior = self.steps.log_prior(self.state)
        except np.linalg.LinAlgError:
            return None, np.nan
        self.log_evidence, self.log_prior = found.log_evidence, log_prior
        return found, found.log_evidence + log_prior

    def settled(self, tol: float) -> bool:
        """Whether the last iterations changed the objective by little."""
        return len(self.trace) > _QUIET and self.change < tol

    @property
    def change(self) -> float:
        """Change of the objective per observation, over the last iterations."""
        recent = self.trace[-_QUIET - 1 :]
        return float(np.ptp(recent)) / self._count if len(recent) > 1 else np.inf

    def leave(self) -> EMState:
        """The state of all items as they are numbered; EM's own for one proposed."""
        state = self.state if self._plain is None else self._plain
        return state if self.steps.shared is None else self.steps.shared.leave(state)
