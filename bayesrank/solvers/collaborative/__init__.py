"""EM for many users who share a Gaussian-process prior; see `bayesrank.models.collaborative`."""

from bayesrank.solvers.collaborative.em import EM as EM
from bayesrank.solvers.collaborative.result import EMResult as EMResult
from bayesrank.solvers.collaborative.state import EMState as EMState

__all__ = ["EM", "EMResult", "EMState"]
