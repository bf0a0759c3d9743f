"""Pictures of a ranking, for readers who need not know how it was computed.

Every function draws on ``ax`` or, without one, on a new figure of a fitting size, and returns the
axes; save with ``ax.figure.savefig(path)``. `plot_crosscheck`, `plot_question` and
`plot_semi_supervised` have several panels, always a new figure, and return that; `plot_pit` is
always a new figure, too. Matplotlib is
imported when a picture is drawn, and its backend and settings are left alone.
"""

from bayesrank.plots._active import plot_gain_surface as plot_gain_surface
from bayesrank.plots._active import plot_learning_curves as plot_learning_curves
from bayesrank.plots._active import plot_skill_surface as plot_skill_surface
from bayesrank.plots._bounds import plot_bound_curves as plot_bound_curves
from bayesrank.plots._bounds import plot_bound_parts as plot_bound_parts
from bayesrank.plots._bounds import plot_coverage as plot_coverage
from bayesrank.plots._bounds import plot_error_intervals as plot_error_intervals
from bayesrank.plots._bounds import plot_figure_posterior as plot_figure_posterior
from bayesrank.plots._crosscheck import plot_crosscheck as plot_crosscheck
from bayesrank.plots._figures import plot_figures as plot_figures
from bayesrank.plots._heatmaps import plot_pairwise as plot_pairwise
from bayesrank.plots._heatmaps import plot_rank_distribution as plot_rank_distribution
from bayesrank.plots._online import plot_running_loss as plot_running_loss
from bayesrank.plots._pit import plot_pit as plot_pit
from bayesrank.plots._pit import randomized_pit as randomized_pit
from bayesrank.plots._question import plot_question as plot_question
from bayesrank.plots._ranking import plot_ranking as plot_ranking
from bayesrank.plots._ratings import plot_reliability as plot_reliability
from bayesrank.plots._ratings import plot_tastes as plot_tastes
from bayesrank.plots._semi_supervised import plot_semi_supervised as plot_semi_supervised
from bayesrank.plots._similarity import plot_similarity as plot_similarity

__all__ = [
    "plot_bound_curves",
    "plot_bound_parts",
    "plot_coverage",
    "plot_crosscheck",
    "plot_error_intervals",
    "plot_figure_posterior",
    "plot_figures",
    "plot_gain_surface",
    "plot_learning_curves",
    "plot_pairwise",
    "plot_pit",
    "plot_question",
    "plot_rank_distribution",
    "plot_ranking",
    "plot_reliability",
    "plot_running_loss",
    "plot_semi_supervised",
    "plot_similarity",
    "plot_skill_surface",
    "plot_tastes",
    "randomized_pit",
]
