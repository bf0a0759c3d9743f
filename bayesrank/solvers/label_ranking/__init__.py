"""Calibrated label ranking, example by example; see `bayesrank.models.label_ranking`."""

from bayesrank.solvers.label_ranking.engine import LabelRankingEP as LabelRankingEP
from bayesrank.solvers.label_ranking.engine import check_label_memory as check_label_memory

__all__ = ["LabelRankingEP", "check_label_memory"]
