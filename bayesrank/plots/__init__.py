"""Pictures of a ranking, for readers who need not know how it was computed.

Every function draws on ``ax`` or, without one, on a new figure of a fitting size, and returns the
axes; save with ``ax.figure.savefig(path)``. `plot_crosscheck`, `plot_question` and
`plot_semi_supervised` have several panels, always a new figure, and return that. The backend and
settings of Matplotlib are left alone.
"""

from bayesrank.plots.asking import plot_learning_curves, plot_question
from bayesrank.plots.crosscheck import plot_crosscheck
from bayesrank.plots.errors import plot_error_intervals, plot_metrics
from bayesrank.plots.pairs import plot_pairwise, plot_similarity
from bayesrank.plots.ranking import plot_ranking
from bayesrank.plots.ratings import plot_reliability, plot_tastes
from bayesrank.plots.semi_supervised import plot_semi_supervised
from bayesrank.plots.streams import plot_running_loss

__all__ = [
    "plot_crosscheck",
    "plot_error_intervals",
    "plot_metrics",
    "plot_learning_curves",
    "plot_pairwise",
    "plot_question",
    "plot_ranking",
    "plot_reliability",
    "plot_running_loss",
    "plot_semi_supervised",
    "plot_similarity",
    "plot_tastes",
]
