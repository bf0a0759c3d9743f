"""EP on `bayesrank.models.dynamic_thurstone` with chains in place of a joint covariance."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from bayesrank._memory import check_memory
from bayesrank.infer import EPResult
from bayesrank.infer.spi import Program, Traced, compiled_call, read_program, trace
from bayesrank.models import dynamic_thurstone, thurstone
from bayesrank.solvers._engine import OwnPriorEP
from bayesrank.solvers.comparisons.chain import ChainPrior, Visits, rate_name

# The scale of what stands still beside moving skills; that of the position's effect is one.
_SPREADS = {"category_skill": "category_scale", "position_effect": "", "covariate_effect": ""}


class DynamicEP(OwnPriorEP):
    """EP on `bayesrank.models.dynamic_thurstone`: the same fixed point, by chains in time.

    `bayesrank.infer.EP` holds all items at all times in one covariance; this holds one time at a
    time. A sweep over K comparisons of n items takes time of order ``K n^2`` and memory for ``K n``
    numbers, whatever the number of times. The result holds the skills at the last time, site ``f``
    (and ``rate``); ``past`` is among its ``marginalized_sites``.
    It takes the settings of any engine.

    Parameters
    ----------
    **settings
        Those of `bayesrank.infer.EP`.

    Examples
    --------
    >>> import jax, numpy as np
    >>> wins = np.array([[0, 1], [1, 2], [1, 0]])
    >>> result = DynamicEP().run(
    ...     jax.random.key(0), 3, wins, times=np.array([0.0, 1.0]), period=np.array([0, 0, 1])
    ... )
    >>> result.mean["f"].shape, bool(result.mean["f"][1] > result.mean["f"][0])
    ((3,), True)
    """

    program = staticmethod(dynamic_thurstone)

    def build(self, inventory: Any, *args: Any, **kwargs: Any) -> Program:
        """Put chains in the place of the prior of the static program's factors."""
        return _read(inventory, self.power, *args, **kwargs)


def _read(
    inventory: Any,
    power: float,
    num_items: int,
    comparisons: ArrayLike,
    *,
    times: ArrayLike,
    period: ArrayLike | None = None,
    process: str = "walk",
    **options: Any,
) -> Program:
    """Put chains in the place of the static program's prior."""
    values, pace = inventory.hyperparameters, rate_name(process)
    held = {name: value for name, value in values.items() if name not in ("scale", pace)}
    options["scale"] = 1.0
    source = trace(thurstone, (num_items, comparisons), options, held)
    static = read_program(source, held, power=power)
    [block] = static.problem.blocks
    still = {name: shape for name, shape in static.layout.shapes.items() if name != "f"}
    names = list(still)
    spreads = [values.get(_SPREADS[name], jnp.ones(())) for name in names]
    scales = jnp.stack([values["scale"], values[pace], *spreads])
    owners = jnp.concatenate(
        [jnp.full(math.prod(still[name]), 2 + i) for i, name in enumerate(names)] or [jnp.zeros(0)]
    ).astype(int)
    sites = ("f", "rate") if process == "matern32" else ("f",)
    # Rates stand between skills and what stands still.
    columns: Any = block.rows.columns
    columns = jnp.where(columns < num_items, columns, columns + num_items * (len(sites) - 1))
    visits = _visits(block.rows.values, columns, times, period)
    prior = ChainPrior(process, num_items, scales, visits, owners)
    return static._replace(
        problem=static.problem._replace(prior=prior),
        mean=jnp.zeros(prior.size, prior.dtype),
        leaves=(),
        hyperparameters=values,
        layout=static.layout._replace(
            shapes=dict.fromkeys(sites, (num_items,)) | still,
            sampled=inventory.sampled,
            eliminated=("past",) if "past" in inventory.latents else (),
        ),
    )


class States(NamedTuple):
    """The latents at T times, given values of the hyperparameters."""

    weight: float  # share of these values
    params: Mapping[str, Any]
    means: Any  # shape (T, N)
    covariances: Any  # shape (T, N, N)


def states_at(result: EPResult, when: ArrayLike) -> Iterator[States]:
    """The states of the items, and what stands still, at times between those of the comparisons.

    All comparisons count, those before a time and those after it (Rauch, Tung and Striebel, 1965,
    AIAA Journal 3, 1445-1450). Given EP's sites the moments are exact.

    Parameters
    ----------
    result
        Of `DynamicEP`.
    when
        Times (T,), in any order, from the first to the last of the program.
    """
    engine, since = DynamicEP(), np.asarray(when, float) - result.model_kwargs["times"][0]
    program: Any = None
    with jax.enable_x64(True):
        for weight, params, _, sites in result.components():
            if program is None:
                program = engine.trace(result.model_args, result.model_kwargs, params)
            [messages] = sites.values()
            point = dict(params), messages, since
            found, _ = compiled_call(_states, engine, program, point)
            yield States(weight, params, *map(np.asarray, found))


def _states(engine: DynamicEP, source: Traced, point: tuple[Any, ...]) -> tuple[Any, None]:
    params, messages, since = point
    prior: Any = engine.read_source(source, params).problem.prior
    return prior.states_at(*messages, since), None


def _visits(values: Any, columns: Any, times: ArrayLike, period: ArrayLike | None) -> Visits:
    count = columns.shape[0]
    period = jnp.zeros(count, int) if period is None else jnp.asarray(period)
    order = jnp.argsort(period)
    moments = jnp.asarray(times, float)
    when: Array = moments[period[order]]
    gaps = jnp.diff(when, prepend=moments[:1])
    return Visits(order, gaps, values[order], columns[order], moments[-1:] - when[-1])


def check_room(num_items: int, num_comparisons: int, process: str) -> None:
    """Refuse what will not fit into memory, by a `ValueError` that says how much there is."""
    width = num_items * (2 if process == "matern32" else 1)
    what = f"{num_items:,} items with skills that move, and {num_comparisons:,} comparisons,"
    fix = "fit fewer items, or a later part of the comparisons, or leave time out"
    check_memory(8 * (2 * num_comparisons * width + 6 * width**2), what, fix)
