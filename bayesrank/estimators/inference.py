"""How an estimator of one program infers: hyperparameters given, learned or averaged over."""

from collections.abc import Callable, Mapping
from typing import Any

import jax

from bayesrank.estimators.base import engine_of
from bayesrank.infer import EPResult, IntegratedEPResult


def inferred(
    program: Callable[..., Any],
    args: tuple[Any, ...],
    options: Mapping[str, Any],
    names: tuple[str, ...],
    fixed: Mapping[str, Any],
    choice: str,
    rng_key: jax.Array,
    search: Mapping[str, Any],
) -> tuple[EPResult | IntegratedEPResult, dict[str, Any]]:
    """The posterior by a choice of `check_hyperparameters`, and its hyperparameters `names`."""
    engine = engine_of(program, choice)
    result: Any = engine.run(rng_key, *args, params=fixed, **search, **options)
    means = {name: result.mean[name] for name in result.hyperparameters if name in names}
    return result, {**result.params, **means}
