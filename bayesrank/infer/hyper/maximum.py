"""Hyperparameters by maximum evidence, or by MAP where they have priors."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from bayesrank._stack import outside
from bayesrank.infer.engine import Engine
from bayesrank.infer.hyper.search import Search
from bayesrank.infer.result import EPResult
from bayesrank.infer.running import Call, ConvergenceWarning

# Nearer to an end of its domain than this share of it, a hyperparameter is at that end: it comes
# there on the unconstrained scale, where the way to the end itself has no end.
_EDGE = 1e-3
# Log evidences further apart than this, in nats, are those of two fixed points.
_APART = 0.1


class Maximum(NamedTuple):
    """The point of the largest evidence times prior."""

    params: dict[str, Any]  # values of all hyperparameters, fixed ones included
    log_evidence: float  # there, from where the search had come
    log_prior: float  # log prior density of the `sample` hyperparameters there
    converged: bool  # whether the optimiser has, inside the bounds
    # Those that stopped at the edge of the region searched, or of a domain with two ends.
    at_bound: tuple[str, ...]
    message: str  # what the optimiser said
    num_evaluations: int  # over all restarts
    restarts: tuple[float, ...]  # log evidence plus log prior at the end of each start
    other_modes: tuple[dict[str, np.ndarray], ...]  # that compete, as in `EPResult`

    def fields(self) -> dict[str, Any]:
        """What the result at the maximum holds of it."""
        names = ("log_prior", "at_bound", "num_evaluations", "restarts", "other_modes")
        return {name: getattr(self, name) for name in names}

    def complaints(self) -> Iterator[tuple[type[Warning], str]]:
        """Kinds of warnings, and what they say."""
        if not self.converged:
            what = (
                f"stopped at an edge: {', '.join(self.at_bound)} would go further"
                if self.at_bound
                else f"has not converged: {self.message}"
            )
            yield (
                ConvergenceWarning,
                f"the search for hyperparameters {what}. Give it another init, num_restarts, or a "
                "prior on these hyperparameters",
            )
        if self.other_modes:
            yield (
                UserWarning,
                f"modes of the hyperparameters compete: {len(self.other_modes)} beside the "
                "highest, which alone is used. Average over them with hyperparameters='integrate'",
            )


def warn_of_fixed_points(maximum: Maximum, result: EPResult) -> None:
    """Warn where EP comes to another evidence from a fresh start than the search came to."""
    error, found = result.log_evidence_error, (maximum.log_evidence, result.log_evidence)
    if abs(found[0] - found[1]) > _APART + 3.0 * error:
        warnings.warn(
            "EP has several fixed points at the hyperparameters that the search found: the log "
            f"evidence is {found[0]:.4g} where it ended and {found[1]:.4g} from a fresh start. The "
            "posterior has several modes; use NUTS from several starts",
            ConvergenceWarning,
            stacklevel=outside(),
        )


def maximize(engine: Engine, call: Call) -> Maximum:
    """Find the hyperparameters that make the data most probable.

    It maximises EP's log evidence plus the log prior density of the hyperparameters that are
    `sample` sites (their values' own density, as in `numpyro.infer.autoguide.AutoDelta`). `param`
    sites have no prior. SciPy's L-BFGS-B works on the unconstrained scale. Gradients hold EP's
    sites fixed; each evaluation starts from the sites of the one before it.

    Without covariances (`EP`'s `structure`) gradient and evidence are estimates, from the same
    random numbers at every point. The ascent then goes by the gradient alone, until a step would
    gain less than 0.001 nats. Its error is about 0.06 posterior standard deviations or less.
    """
    search = Search(engine, call)
    ends = search.ends()
    end, *others = search.modes(ends)
    inventory = search.free.inventory
    learned = search.free.named(end.outcome.x)
    edges = search.at_edge(end.outcome.x)
    at_bound = tuple(k for k, v in learned.items() if edges[k] or _at_end(v, inventory.supports[k]))
    fixed = {k: np.asarray(v) for k, v in inventory.hyperparameters.items()}
    return Maximum(
        params={**fixed, **learned},
        log_evidence=float(end.evaluation.log_evidence),
        log_prior=float(end.evaluation.log_prior),
        converged=bool(end.outcome.success) and not at_bound,
        at_bound=at_bound,
        message=str(end.outcome.message),
        num_evaluations=search.count,
        restarts=tuple(float(e.evaluation.objective) for e in ends),
        other_modes=tuple(search.free.named(other.outcome.x) for other in others),
    )


def _at_end(value: np.ndarray, support: Any) -> bool:
    """Whether a value is at an end of a domain that has two."""
    support = getattr(support, "base_constraint", support)  # that of each element of a vector
    low = np.asarray(getattr(support, "lower_bound", -np.inf), float)
    high = np.asarray(getattr(support, "upper_bound", np.inf), float)
    width = high - low
    near = np.minimum(value - low, high - value) < _EDGE * width
    return bool(np.any(np.isfinite(width) & near))
