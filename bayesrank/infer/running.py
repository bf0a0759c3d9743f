"""What surrounds a run of EP: checks before it, calls after each sweep, warnings at its end."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, core

from bayesrank._stack import outside
from bayesrank._validate import check_count
from bayesrank.infer.reader.traced import Traced
from bayesrank.infer.result import AccuracyWarning, EPResult


def check_run_arguments(rng_key: Any, num_samples: Any, arguments: Any) -> None:
    """Refuse anything but a key and a number of draws, and arguments that are traced."""
    if any(isinstance(leaf, core.Tracer) for leaf in jax.tree.leaves((rng_key, arguments))):
        raise TypeError(
            "run returns NumPy arrays, so it cannot be traced by jit, vmap or grad; use the pure "
            "functions solve, log_evidence, or init and step there"
        )
    if not _is_key(rng_key):
        raise TypeError(
            f"rng_key is {_described(rng_key)}; pass a random key, jax.random.key(0) say, before "
            "the program's own arguments"
        )
    check_count(num_samples, "num_samples", 0)


def _is_key(value: Any) -> bool:
    dtype, ndim = getattr(value, "dtype", None), getattr(value, "ndim", None)
    if dtype is None:
        return False
    if jnp.issubdtype(dtype, jax.dtypes.prng_key):
        return ndim == 0
    return dtype == jnp.uint32 and ndim == 1  # of `jax.random.PRNGKey`


def _described(value: Any) -> str:
    if hasattr(value, "dtype"):
        return f"an array of shape {value.shape} and dtype {value.dtype}"
    return f"of type {type(value).__name__}"


class Call(NamedTuple):
    """One call of `EP.run`: the program that was traced, and what the caller asks of it."""

    program: Traced
    args: tuple
    kwargs: dict[str, Any]
    params: dict[str, Any]  # values of sites that are fixed
    rng_key: Array
    num_samples: int
    init: dict[str, Any] = {}  # noqa: RUF012
    num_restarts: int = 0
    callback: Callable[[int, float], None] | None = None

    def source_of(self, name: str) -> str:
        """Where a value of a hyperparameter came from, in words."""
        return "as given" if name in self.params else "by evidence"


class SweepCallback:
    """What compiled sweeps call: it passes on to whom a run names, so that runs share the code."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._function: Callable[[int, float], None] | None = None
        self._failure: Exception | None = None

    def after(self, sweep: Array, delta: Array) -> None:
        """To be traced: call the function with a sweep's number and how far it moved margins."""
        jax.debug.callback(self._call, sweep, delta)

    def _call(self, sweep: Any, delta: Any) -> None:
        if self._function is None or self._failure is not None:
            return
        try:
            self._function(int(sweep), float(delta))
        except Exception as failure:  # compiled code cannot raise it
            self._failure = failure

    @contextmanager
    def passing_to(self, function: Callable[[int, float], None]) -> Iterator[None]:
        """Pass on to a function, and raise at the end what it raised."""
        with self._lock:
            self._function, self._failure = function, None
            try:
                yield
                jax.effects_barrier()
            finally:
                self._function = None
            if self._failure is not None:
                raise self._failure


_KEPT_ALONE = (
    "a likelihood is not log-concave, so EP treats latents as independent (structure='factorised') "
    "and standard deviations of differences may be too small; see result.approximation"
)


class ConvergenceWarning(UserWarning):
    """An iterative method stopped before it converged.

    Examples
    --------
    >>> import warnings
    >>> from bayesrank.infer import ConvergenceWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", ConvergenceWarning)  # a fit that does not settle raises
    ...     # EP(model).run(...)
    """


def warn_of(result: EPResult, *, tol: float, structure: str) -> None:
    """Warn where EP did not converge, or its answer has a fault that is seen."""
    if not result.converged:
        warnings.warn(_not_converged(result, tol), ConvergenceWarning, stacklevel=outside())
    alone = result.structure == "factorised"
    if alone and structure == "auto":
        warnings.warn(_KEPT_ALONE, AccuracyWarning, stacklevel=outside())
    if result.missed_mass or result.moment_errors:
        warnings.warn(_at_fault(result), AccuracyWarning, stacklevel=outside())


def _at_fault(result: EPResult) -> str:
    said = []
    if missed := result.missed_mass:
        worst = max(missed, key=missed.__getitem__)
        said.append(f"missed at least {missed[worst]:.0%} of the mass of a factor of {worst!r}")
    if errors := result.moment_errors:
        worst = max(errors, key=errors.__getitem__)
        said.append(
            f"has the mean or the standard deviation of a factor of {worst!r} wrong by about "
            f"{errors[worst]:.0%} of that standard deviation"
        )
    return (
        f"EP's quadrature {', and '.join(said)}: such a factor has several narrow peaks, "
        "jumps or heavy tails. The answer has the same fault. If the factor is a mixture, write it "
        "as numpyro's MixtureSameFamily or MixtureGeneral; if not, use NUTS from several starts"
    )


def _not_converged(result: EPResult, tol: float) -> str:
    if not np.isfinite(result.log_evidence) and not result.skipped_sites:
        return (
            f"EP found no evidence of the data (its log is {result.log_evidence}). Check "
            "that the model's arguments are finite, and that it gives them a density"
        )
    if not np.isfinite(result.max_change):
        return (
            "EP has not converged: it found no proper posterior. Rounding loses a prior that is "
            "many orders of magnitude wider than the posterior. Give the latents narrower "
            "priors, or rescale the data"
        )
    if not np.isfinite(result.log_evidence):
        return (
            f"EP has not converged: {result.skipped_sites} site updates were skipped, and the log "
            f"evidence is {result.log_evidence}. A factor has no density where the sweeps look for "
            "it, as beyond a limit that moves with the latents. Use NUTS: the answer is wrong"
        )
    return (
        f"EP has not converged after {result.num_sweeps} sweeps: the last one still moved a "
        f"margin by {result.max_change:.2g} posterior standard deviations (tol={tol:.2g}), and "
        f"{result.skipped_sites} site updates were skipped. See result.accuracy (for up to "
        "a few hundred latents) or compare with NUTS: the answer may still do. A smaller damping "
        "(0.5) or more max_sweeps help some programs only"
    )
