"""The two data sets of active learning, and the priors that were tried on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from tinygp import transforms
from tinygp.kernels import DotProduct, Kernel

from bayesrank import gp
from benchmarks.active_simulation import Model, Task

__all__ = ["BOSTON", "DIABETES", "boston", "diabetes", "prior"]


def boston() -> Task:
    """Boston housing, 506 x 13, standardised; the targets are the median prices."""
    from mlxtend.data import boston_housing_data

    X, target = boston_housing_data()
    return Task((X - X.mean(axis=0)) / X.std(axis=0), target)


def diabetes() -> Task:
    """scikit-learn's diabetes, 442 x 10, standardised; the targets are how far it progressed."""
    from sklearn.datasets import load_diabetes

    data: Any = load_diabetes()
    X = data["data"]
    return Task((X - X.mean(axis=0)) / X.std(axis=0), data["target"])


def prior(
    task: Task,
    *,
    linear: float = 0.0,
    smooth: float = 0.0,
    lengthscale: float = 1.0,
    item: float = 0.0,
    noise: float = 1.0,
    neighbors: int = 0,
) -> Model:
    """Skills as a sum of what is linear in the features, what is smooth, and the item's own.

    Parameters
    ----------
    task
        The items.
    linear, smooth, item
        Prior standard deviations of the three: ``linear`` for an item of the average square of the
        features, ``smooth`` of an RBF kernel with this ``lengthscale``, ``item`` independent.
    lengthscale
        Of the RBF kernel.
    noise
        Standard deviation of a performance.
    neighbors
        Warp the prior by the graph of so many nearest neighbours; 0 is no graph.
    """
    with jax.enable_x64(True):
        X = jnp.asarray(task.X, float)
        kernels: list[Kernel] = []
        if linear:
            scale = linear / np.sqrt(X.shape[1])
            kernels.append(transforms.Linear(jnp.asarray(scale), DotProduct()))
        if smooth:
            kernels.append(gp.rbf(smooth, lengthscale))
        kernel = sum(kernels[1:], start=kernels[0])
        if neighbors:
            kernel = gp.graph_kernel(kernel, X, gp.laplacian(gp.knn_graph(task.X, neighbors)))
        covariance = np.asarray(gp.gram(kernel, X))
    return Model(covariance + item**2 * np.eye(len(covariance)), noise)


def _paper(task: Task, neighbors: int = 0) -> Model:
    """Chu and Ghahramani's prior: ``kappa_o = kappa = 0.0625``, ``sigma^2 = 0.001``."""
    return prior(task, smooth=0.25, lengthscale=4.0, noise=0.001**0.5, neighbors=neighbors)


BOSTON: Mapping[str, Callable[[Task], Model]] = {
    "supervised": _paper,
    "semi-supervised": lambda task: _paper(task, neighbors=3),
    "linear + RBF + item": lambda task: prior(
        task, linear=0.5, smooth=0.5, lengthscale=5.0, item=0.7
    ),
}

DIABETES: Mapping[str, Callable[[Task], Model]] = {
    "RBF": lambda task: prior(task, smooth=1.0, lengthscale=10**0.5),
    "linear": lambda task: prior(task, linear=1.0),
    "linear + item": lambda task: prior(task, linear=0.7, item=0.7),
    "linear + RBF + item": lambda task: prior(
        task, linear=0.5, smooth=0.5, lengthscale=5.0, item=0.7
    ),
}
