"""What is to be warned of in what a run of EP has come to."""

from __future__ import annotations

import warnings

import numpy as np

from bayesrank._stack import outside
from bayesrank.infer.result import AccuracyWarning, EPResult

__all__ = ["ConvergenceWarning", "warn_of"]

_KEPT_ALONE = (
    "a likelihood is not log-concave, so that EP keeps each latent alone (structure='factorised'): "
    "standard deviations of differences may be too narrow; result.approximation tells by how much"
)


class ConvergenceWarning(UserWarning):
    """An iterative method stopped before it converged."""


def warn_of(result: EPResult, *, tol: float, structure: str) -> None:
    """Warn where EP did not converge, or its answer has a fault that is seen.

    Parameters
    ----------
    result
        What a run has come to.
    tol, structure
        As of the `EP` that ran.
    """
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
        "jumps or heavy tails. The answer has the same fault. Where the factor is a mixture, write "
        "it as numpyro's MixtureSameFamily or MixtureGeneral; else use NUTS, from several starting "
        "points"
    )


def _not_converged(result: EPResult, tol: float) -> str:
    if not np.isfinite(result.log_evidence) and not result.skipped_sites:
        return (
            f"EP found no evidence of the data (its log is {result.log_evidence}). Check the "
            "model's arguments for values that are not finite, or that the model gives no density"
        )
    if not np.isfinite(result.delta):
        return (
            "EP has not converged: it found no proper posterior. A prior that is many orders of "
            "magnitude wider than what the data tell is lost in rounding where they leave a "
            "direction open. Give the latents narrower priors, or rescale the data"
        )
    return (
        f"EP has not converged after {result.num_sweeps} sweeps: the last one still moved a "
        f"margin by {result.delta:.2g} posterior standard deviations (tol={tol:.2g}), and "
        f"{result.skipped_sites} site updates were skipped. Of up to some hundreds of latents, "
        "result.trust tells how far the answer is off all the same; else compare it with NUTS. A "
        "smaller damping (0.5) or more max_sweeps help some programs only"
    )
