"""Items with features: a Gaussian process on few inducing points against the process itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["AMPLITUDE", "LENGTHSCALE", "feature_errors", "feature_fit", "feature_games"]

_DIMENSIONS, AMPLITUDE, LENGTHSCALE = 5, 2.0, 0.5
# The process that skills are drawn from, as so many waves.
_WAVES = 2000


def feature_games(
    items: int, count: int, seed: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Features in a unit cube, skills that are smooth in them, and comparisons (winner, loser)."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(items, _DIMENSIONS))
    waves = rng.normal(size=(_DIMENSIONS, _WAVES)) / LENGTHSCALE
    phase = rng.uniform(0, 2 * np.pi, _WAVES)
    height = AMPLITUDE * np.sqrt(2 / _WAVES) * rng.normal(size=_WAVES)
    parts = np.array_split(X, 1 + items // 5000)
    skill = np.concatenate([np.cos(part @ waves + phase) @ height for part in parts])
    first = rng.integers(items, size=count)
    second = (first + 1 + rng.integers(items - 1, size=count)) % items
    won = skill[first] - skill[second] + np.sqrt(2.0) * rng.normal(size=count) > 0
    return X, skill, np.where(won, [first, second], [second, first]).T


def _engine(rank: int | None, structure: str) -> Any:
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    from bayesrank import gp
    from bayesrank.distributions import Thurstone
    from bayesrank.infer import EP

    def skills(X: Any, pairs: Any) -> None:
        kernel = gp.rbf(AMPLITUDE, LENGTHSCALE)
        if rank is None:
            prior: Any = dist.MultivariateNormal(covariance_matrix=gp.gram(kernel, X))
        else:
            prior = gp.inducing_point_prior(kernel, X, rank)
        f = jnp.asarray(numpyro.sample("f", prior))
        numpyro.sample("win", Thurstone(f[pairs[:, 0]] - f[pairs[:, 1]]), obs=1)

    return EP(skills, structure=structure)


def feature_fit(items: int, count: int, rank: int) -> Callable[[], Any]:
    """Fit of comparisons of items with features, on so many inducing points."""
    import jax

    X, _, pairs = feature_games(items, count)
    engine = _engine(rank, "low_rank")
    return lambda: engine.run(jax.random.key(0), X, pairs)


def feature_errors(items: int, count: int, ranks: tuple[int, ...]) -> list[dict[str, Any]]:
    """Errors on 500 pairs of random items against the dense posterior of the whole process."""
    import jax

    X, _, pairs = feature_games(items, count)
    first = np.random.default_rng(1).integers(items, size=500)
    second = (first + 1 + np.random.default_rng(2).integers(items - 1, size=500)) % items

    def told(rank: int | None, structure: str) -> tuple[Any, NDArray[Any], NDArray[Any]]:
        result = _engine(rank, structure).run(jax.random.key(0), X, pairs)
        return result, *result.difference(first, second)

    dense, mean, sd = told(None, "dense")
    rows = []
    for rank in ranks:
        result, told_mean, own = told(rank, "low_rank")
        rows.append(
            {
                "graph": f"features, {items:,} items, {count:,}",
                "how": f"low_rank, {rank}",
                "mean_error": float(np.sqrt(np.mean(((told_mean - mean) / sd) ** 2))),
                "sd_ratio": float(np.mean(own / sd)),
                "sd_spread": float(np.std(own / sd)),
                "evidence": float(result.log_evidence - dense.log_evidence),
            }
        )
    return rows
