"""Laplace's method on `bayesrank.models.score_table`, checked against EP and NUTS."""

from bayesrank.solvers.scores.fit import ScoreResult as ScoreResult
from bayesrank.solvers.scores.fit import fit_scores as fit_scores
from bayesrank.solvers.scores.fit import normal_draws as normal_draws
from bayesrank.solvers.scores.tasks import Board as Board
from bayesrank.solvers.scores.tasks import Cells as Cells
from bayesrank.solvers.scores.tasks import Part as Part
from bayesrank.solvers.scores.tasks import Tasks as Tasks
from bayesrank.solvers.scores.tasks import score_thresholds as score_thresholds
from bayesrank.solvers.scores.tasks import shared_nodes as shared_nodes

__all__ = ["Board", "ScoreResult", "fit_scores"]
