"""Pictures of a ranking, for readers who need not know how it was computed.

Every function draws on ``ax`` or, without one, on a new figure of a fitting size, and returns the
axes; save with ``ax.figure.savefig(path)``. `plot_crosscheck` has several panels, always a new
figure, and returns that. The backend and settings of Matplotlib are left alone.
"""

from bayesrank.plots.crosscheck import plot_crosscheck
from bayesrank.plots.ranking import plot_pairwise, plot_ranking, plot_similarity
from bayesrank.plots.ratings import plot_tastes
from bayesrank.plots.time import plot_skills_over_time

__all__ = [
    "plot_crosscheck",
    "plot_pairwise",
    "plot_ranking",
    "plot_similarity",
    "plot_skills_over_time",
    "plot_tastes",
]
