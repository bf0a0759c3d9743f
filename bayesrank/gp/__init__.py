"""Gaussian-process building blocks on top of tinygp's kernels."""

from bayesrank.gp.conditional import conditional as conditional
from bayesrank.gp.features import enough_rank as enough_rank
from bayesrank.gp.features import features as features
from bayesrank.gp.features import inducing_points as inducing_points
from bayesrank.gp.graphs import knn_graph as knn_graph
from bayesrank.gp.graphs import laplacian as laplacian
from bayesrank.gp.kernel_prior import KernelPrior as KernelPrior
from bayesrank.gp.kernel_prior import Tier as Tier
from bayesrank.gp.kernels import JITTER as JITTER
from bayesrank.gp.kernels import gram as gram
from bayesrank.gp.kernels import rbf as rbf
from bayesrank.gp.spectrum import spectral_pieces as spectral_pieces
from bayesrank.gp.warped import Warped as Warped
from bayesrank.gp.warped import graph_log_normalizer as graph_log_normalizer
from bayesrank.gp.warped import warp as warp
from bayesrank.gp.warped import warped_prior as warped_prior

__all__ = [
    "JITTER",
    "KernelPrior",
    "Tier",
    "Warped",
    "conditional",
    "enough_rank",
    "features",
    "gram",
    "graph_log_normalizer",
    "inducing_points",
    "knn_graph",
    "laplacian",
    "rbf",
    "spectral_pieces",
    "warp",
    "warped_prior",
]
