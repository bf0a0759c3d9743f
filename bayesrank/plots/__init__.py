"""Pictures of a ranking, for readers who need not know how it was computed.

Every function draws on ``ax`` or, without one, on a new figure of a fitting size, and returns the
axes; save with ``ax.figure.savefig(path)``. `plot_crosscheck` has two panels, always a new figure,
and returns that. Matplotlib is imported when a picture is drawn, and its backend and settings are
left alone.
"""

from bayesrank.plots._crosscheck import plot_crosscheck as plot_crosscheck
from bayesrank.plots._heatmaps import plot_pairwise as plot_pairwise
from bayesrank.plots._heatmaps import plot_rank_distribution as plot_rank_distribution
from bayesrank.plots._ranking import plot_ranking as plot_ranking

__all__ = ["plot_crosscheck", "plot_pairwise", "plot_rank_distribution", "plot_ranking"]
