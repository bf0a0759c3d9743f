"""Gaussian-process building blocks on top of tinygp's kernels."""

from bayesrank.gp.graph_kernel import GraphKernel as GraphKernel
from bayesrank.gp.graph_kernel import graph_kernel as graph_kernel
from bayesrank.gp.graph_kernel import graph_prior as graph_prior
from bayesrank.gp.graphs import knn_graph as knn_graph
from bayesrank.gp.graphs import laplacian as laplacian
from bayesrank.gp.inducing import choose_num_inducing as choose_num_inducing
from bayesrank.gp.inducing import inducing_point_prior as inducing_point_prior
from bayesrank.gp.inducing import inducing_points as inducing_points
from bayesrank.gp.kernel_prior import KernelPrior as KernelPrior
from bayesrank.gp.kernel_prior import Tier as Tier
from bayesrank.gp.kernels import JITTER as JITTER
from bayesrank.gp.kernels import conditional as conditional
from bayesrank.gp.kernels import gram as gram
from bayesrank.gp.kernels import rbf as rbf
from bayesrank.gp.spectrum import spectral_components as spectral_components

__all__ = [
    "JITTER",
    "KernelPrior",
    "Tier",
    "GraphKernel",
    "conditional",
    "choose_num_inducing",
    "gram",
    "inducing_point_prior",
    "inducing_points",
    "knn_graph",
    "laplacian",
    "rbf",
    "spectral_components",
    "graph_kernel",
    "graph_prior",
]
