"""Hyperparameters by maximum evidence, or by MAP where they have priors."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from jax import Array

from bayesrank._stack import outside
from bayesrank.infer.ep import EP
from bayesrank.infer.hyper.search import STEPS, TOLERANCE, Search, SearchEnd, check_settings
from bayesrank.infer.running import ConvergenceWarning, LearnedParams

# Nearer to an end of its domain than this share of it, a hyperparameter is at that end: it comes
# there on the unconstrained scale, where the way to the end itself has no end.
_EDGE = 1e-3


@dataclass(frozen=True)
class EvidenceMaximum:
    """The point of the largest evidence; unpacks as ``params, log_evidence``.

    Attributes
    ----------
    params
        Values of the hyperparameters, fixed ones included.
    log_evidence, log_prior
        EP's log evidence there, in nats; and, not part of it, the log prior density of the `sample`
        hyperparameters.
    log_evidence_error
        Standard error of `log_evidence` if it is an estimate, as without covariances; else 0.
    converged
        Whether the optimiser has converged, inside the bounds.
    at_bound
        Hyperparameters that stopped at the edge of the region searched, or of a domain with two
        ends.
    message, num_evaluations
        What the optimiser said; and how often it computed the evidence, over all restarts.
    restarts
        ``log_evidence + log_prior`` at the end of each start.
    other_modes
        Hyperparameters at other maxima that starts led to and that compete: they lie less than 4
        nats lower, beyond a valley.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesrank.infer import maximize_evidence
    >>> from bayesrank.models import thurstone
    >>> games = np.array([[0, 1], [1, 2], [0, 2]])  # (winner, loser)
    >>> found = maximize_evidence(thurstone, 3, games)
    >>> bool(found.converged), sorted(found.params)
    (True, ['scale'])
    """

    params: dict[str, np.ndarray]
    log_evidence: float
    log_prior: float
    log_evidence_error: float
    converged: bool
    at_bound: tuple[str, ...]
    message: str
    num_evaluations: int
    restarts: tuple[float, ...] = field(repr=False)
    other_modes: tuple[dict[str, np.ndarray], ...] = ()

    def __iter__(self) -> Iterator[Any]:
        yield self.params
        yield self.log_evidence


def maximize_evidence(
    model: Callable[..., Any] | EP,
    *args: Any,
    params: Mapping[str, Any] | None = None,
    init: Mapping[str, Any] | None = None,
    num_restarts: int = 0,
    rng_key: Array | None = None,
    max_steps: int = STEPS,
    tol: float = TOLERANCE,
    callback: Callable[[int, float], None] | None = None,
    **kwargs: Any,
) -> EvidenceMaximum:
    """Find the hyperparameters that make the data most probable.

    It maximises EP's log evidence plus the log prior density of the hyperparameters that are
    `sample` sites (their values' own density, as in `numpyro.infer.autoguide.AutoDelta`). `param`
    sites have no prior. SciPy's L-BFGS-B works on the unconstrained scale. Gradients hold EP's
    sites fixed; each evaluation starts from the sites of the one before it.

    Without covariances (`EP`'s `structure`) gradient and evidence are estimates, from the same
    random numbers at every point. The ascent then goes by the gradient alone, until a step would
    gain less than 0.001 nats. Its error is about 0.06 posterior standard deviations or less.

    Parameters
    ----------
    model
        The NumPyro program; or an `EP` engine of it, to use its settings and compiled code.
    *args, **kwargs
        Arguments of the program.
    params
        Values of sites to fix, by name.
    init
        Starting values by name; others start at their initial value or prior median.
    num_restarts
        Number of further starts, from points spread around the first by one unit on the
        unconstrained scale.
    rng_key
        Random key for these; by default ``jax.random.key(0)``.
    max_steps
        Number of steps after which a start is given up.
    tol
        A start has converged when a step gains less than this share of the objective; if that is an
        estimate, less than a thousand times this, in nats.
    callback
        Called after each evaluation with its number and the best objective so far.

    Raises
    ------
    ValueError
        If EP cannot take the program, it has no free hyperparameters, or `init` or a setting does
        not fit.

    Warns
    -----
    ConvergenceWarning
        If the optimiser has not converged, or stopped at an edge.
    UserWarning
        If starts led to other maxima that compete.
    """
    engine = model if isinstance(model, EP) else EP(model)
    check_settings(num_restarts, max_steps, tol)
    with jax.enable_x64(engine.precision == "float64"):
        given = dict(params or {})
        called = args, kwargs
        program = engine.trace(args, kwargs, given)
        search = Search(engine, program, called, given, dict(init or {}), callback)
        maximum = _report(search, search.ends(num_restarts, rng_key, max_steps, tol))
    for kind, message in _complaints(maximum):
        warnings.warn(message, kind, stacklevel=outside())
    return maximum


def _complaints(maximum: EvidenceMaximum) -> Iterator[tuple[type[Warning], str]]:
    if not maximum.converged:
        what = (
            f"stopped at an edge: {', '.join(maximum.at_bound)} would go further"
            if maximum.at_bound
            else f"has not converged: {maximum.message}"
        )
        yield (
            ConvergenceWarning,
            f"the search for hyperparameters {what}. Give it more max_steps, another init, "
            "num_restarts, or a prior on these hyperparameters",
        )
    if maximum.other_modes:
        yield (
            UserWarning,
            f"modes of the hyperparameters compete: {len(maximum.other_modes)} beside the highest, "
            "which alone is used. Average over them, by IntegratedEP or an estimator's "
            "hyperparameters='integrate'",
        )


def _report(search: Search, ends: list[SearchEnd]) -> EvidenceMaximum:
    """What was found at the best of several ends."""
    end, *others = search.modes(ends)
    inventory = search.free.inventory
    learned = search.free.named(end.outcome.x)
    edges = search.at_edge(end.outcome.x)
    at_bound = tuple(k for k, v in learned.items() if edges[k] or _at_end(v, inventory.supports[k]))
    fixed = {k: np.asarray(v) for k, v in inventory.hyperparameters.items()}
    params = LearnedParams({**fixed, **learned})
    params.learned = tuple(learned)
    return EvidenceMaximum(
        params=params,
        log_evidence=float(end.evaluation.log_evidence),
        log_prior=float(end.evaluation.log_prior),
        log_evidence_error=float(end.evaluation.log_evidence_error),
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
