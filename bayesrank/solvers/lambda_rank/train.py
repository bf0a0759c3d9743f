"""Training along a field: linear scores and a small network by Adam, trees by LightGBM."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import NDArray
from numpyro.optim import Adam

from bayesrank._process import enter_jax
from bayesrank.datasets import QueryLists
from bayesrank.solvers.lambda_rank.lists import (
    Buckets,
    LambdaField,
    bucketed,
    field_of_lists,
    field_of_rows,
    padded_count,
)


def init_network(rng: np.random.Generator, num_features: int, hidden: tuple[int, ...]) -> Any:
    """Weights and biases of the layers; with no hidden layer zero weights, a linear score.

    Parameters
    ----------
    rng
        Source of the weights.
    num_features, hidden
        Number d of features, and the width of each hidden layer.
    """
    sizes = (num_features, *hidden, 1)
    scale = 1.0 if hidden else 0.0
    return [
        (scale * rng.normal(size=(a, b)) / np.sqrt(a), np.zeros(b))
        for a, b in zip(sizes[:-1], sizes[1:], strict=True)
    ]


def apply_network(layers: Any, X: Any) -> Array:
    """Scores of rows, shape (m,); layers are joined by tanh.

    Parameters
    ----------
    layers
        Weights and biases, as `init_network` makes them.
    X
        Features, shape (m, d).
    """
    values = jnp.asarray(X)
    for number, (weights, bias) in enumerate(layers):
        values = values @ weights + bias
        values = jnp.tanh(values) if number < len(layers) - 1 else values
    return values[:, 0]


def fit_differentiable(
    X: NDArray[np.float64],
    y: NDArray[np.float64],
    lists: QueryLists,
    field: LambdaField,
    layers: Any,
    *,
    num_steps: int,
    learning_rate: float,
    l2: float,
) -> Any:
    """Move the parameters along the field, by Adam; return them.

    Adam follows the sum of the field over rows, divided by the number of lists. `l2` pulls weights
    to zero: it takes ``l2 / 2`` times their squares off the objective, if there is one.

    Parameters
    ----------
    X, y, lists
        Features (m, d) and grades (m,), list after list, and the lists.
    field
        How scores should move, such as `Field`.
    layers
        Weights and biases to start from, see `init_network`.
    num_steps, learning_rate
        Steps of Adam, and their size at the start.
    l2
        Pull to zero, not negative.

    Returns
    -------
    list of tuple
        Weights and biases.

    Raises
    ------
    RuntimeError
        In a process that was forked after its parent had computed with JAX.
    """
    enter_jax()
    rows = np.zeros((padded_count(len(X)), X.shape[1]))
    rows[: len(X)] = X
    data = (rows, bucketed(field, lists, y, len(rows)))
    with jax.enable_x64(True):
        data, layers = jax.tree.map(jnp.asarray, (data, layers))
        options = (len(lists.sizes), num_steps, learning_rate, l2)
        return jax.tree.map(np.asarray, _adam(field, layers, data, *options))


@partial(jax.jit, static_argnums=0)
def _adam(
    field: LambdaField,
    start: Any,
    data: tuple[Array, Buckets],
    num_lists: Any,
    num_steps: Any,
    learning_rate: Any,
    l2: Any,
) -> Any:
    """Adam with a rate that falls to zero along half a cosine; compiled once for data of a size."""
    rows, buckets = data

    def rate(step: Any) -> Any:
        return learning_rate * (1.0 + jnp.cos(jnp.pi * step / num_steps)) / 2.0

    def against(layers: Any) -> Any:
        scores, back = jax.vjp(lambda p: apply_network(p, rows), layers)
        (moved,) = back(field_of_lists(field, buckets, scores)[0] / num_lists)
        return jax.tree.map(lambda g, p: l2 * p - g, moved, layers)

    adam = Adam(rate, b2=0.99, eps=1e-12)
    end = lax.fori_loop(
        0, num_steps, lambda _, s: adam.update(against(adam.get_params(s)), s), adam.init(start)
    )
    return adam.get_params(end)


def fit_trees(
    X: Any,
    y: NDArray[np.float64],
    lists: QueryLists,
    field: LambdaField,
    *,
    num_trees: int,
    params: Mapping[str, Any],
) -> Any:
    """Gradient-boosted trees along the field, by LightGBM's custom objective; return the booster.

    Parameters
    ----------
    X, y, lists, field
        As for `fit_differentiable`; features may be sparse.
    num_trees, params
        Number of trees, and parameters of LightGBM.

    Raises
    ------
    ImportError, ValueError, RuntimeError
        If LightGBM is not installed; if it refuses data or parameters; in a process that was
        forked after its parent had computed with JAX.
    """
    enter_jax()
    try:
        import lightgbm
    except ImportError:
        raise ImportError("model='trees' needs LightGBM: pip install 'bayesrank[trees]'") from None
    with jax.enable_x64(True):
        evaluate = field_of_rows(field, lists, y)

    def objective(scores: Any, _: Any) -> tuple[Any, Any]:
        with jax.enable_x64(True):
            lam, curvature = evaluate(jnp.asarray(scores, jnp.float64))
            return -np.asarray(lam), np.asarray(curvature)

    options = {"verbosity": -1, **params, "objective": objective}
    try:
        return lightgbm.train(options, lightgbm.Dataset(X, label=y), num_boost_round=num_trees)
    except lightgbm.basic.LightGBMError as error:
        own = "" if "Check failed" in str(error) else f": {error}"  # a line of its source
        raise ValueError(
            f"LightGBM grows no trees of X and tree_params{own}; where features split no rows, "
            "give more rows, or a smaller min_data_in_leaf and min_data_in_bin"
        ) from None
