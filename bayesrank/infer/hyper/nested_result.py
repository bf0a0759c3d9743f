"""What nested EP returns."""

from __future__ import annotations

from dataclasses import dataclass

from bayesrank.infer.hyper.mixture import MixtureResult

__all__ = ["NestedEPResult"]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class NestedEPResult(MixtureResult):
    """The posterior of latents and hyperparameters; `bayesrank.to_arviz` takes it.

    Attributes
    ----------
    converged
        Whether EP converged at every draw, no trajectory diverged, and R-hat (where there are
        several chains) is below 1.05 for every hyperparameter.
    num_divergent
        Number of draws that ended a divergent trajectory.

    Notes
    -----
    The other attributes are those of `bayesrank.infer.hyper.mixture.MixtureResult`.
    """

    num_divergent: int
