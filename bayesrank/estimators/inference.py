"""How an estimator of one program infers: hyperparameters given, learned or averaged over."""

from collections.abc import Callable, Mapping
from typing import Any

import jax

from bayesrank.estimators.base import engine_of, integrator_of, prior_medians
from bayesrank.infer import EPResult, IntegratedEPResult, maximize_evidence


def inferred(
    program: Callable[..., Any],
    args: tuple[Any, ...],
    options: Mapping[str, Any],
    names: tuple[str, ...],
    fixed: Mapping[str, Any],
    choice: str,
    rng_key: jax.Array,
    search: Mapping[str, Any],
    **learning: Any,
) -> tuple[EPResult | IntegratedEPResult, dict[str, Any]]:
    """The posterior by a choice of `check_hyperparameters`, and its hyperparameters `names`."""
    if choice == "integrate":
        average = integrator_of(program).run(rng_key, *args, params=fixed, **search, **options)
        return average, {name: average.mean[name] for name in names} | dict(fixed)
    if choice == "map":
        fixed = learned(program, args, options, fixed, rng_key, search, **learning)
    else:
        fixed = prior_medians(engine_of(program), args, options, fixed)
    result = engine_of(program).run(rng_key, *args, params=fixed, **options)
    return result, dict(result.params)


def learned(
    program: Callable[..., Any],
    args: tuple[Any, ...],
    options: Mapping[str, Any],
    fixed: Mapping[str, Any],
    rng_key: jax.Array,
    search: Mapping[str, Any],
    **learning: Any,
) -> dict[str, Any]:
    """All hyperparameters: the fixed ones, and the others at the largest evidence."""
    return maximize_evidence(
        engine_of(program), *args, params=fixed, rng_key=rng_key, **search, **learning, **options
    ).params
