"""Calibrated label ranking, example by example; see `bayesrank.models.label_ranking`."""

from bayesrank.solvers.label_ranking.engine import LabelRankingEP as LabelRankingEP
from bayesrank.solvers.label_ranking.engine import check_labels_room as check_labels_room

__all__ = ["LabelRankingEP", "check_labels_room"]
