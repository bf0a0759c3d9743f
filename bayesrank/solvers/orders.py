"""EP on programs of orders, whose result holds the skills alone."""

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpyro
from numpyro.primitives import Messenger

from bayesrank.infer import EP, EPResult
from bayesrank.infer.spi import Program, Traced, read_program
from bayesrank.models.orders import check_order_counts, preference_orders, thurstone_orders


class OrdersEP(EP):
    """EP on a program of `bayesrank.models.orders`: the same fixed point, with a smaller result.

    It integrates over the noise of every performance, which is among `marginalized_sites`. So a
    result grows with the items, not with the events. Equal events have equal sites, so an event
    with a count is worked out once.

    Parameters
    ----------
    model, **settings
        Those of `bayesrank.infer.EP`.

    Examples
    --------
    >>> import jax
    >>> from bayesrank.models.orders import events, thurstone_orders
    >>> data = events([[2, 0, 1], [2, (0, 1)]], 3, [10_000, 7])
    >>> engine = OrdersEP(thurstone_orders, hyperparameters="prior")
    >>> result = engine.run(jax.random.key(0), 3, *data)
    >>> result.latent_sites, result.marginalized_sites
    (('f',), ('noise',))
    """

    def trace(self, args: tuple, kwargs: Mapping[str, Any], params: Mapping[str, Any]) -> Traced:
        """Run the program once, with equal events as one."""
        engine = copy(self)
        if self.power == 1:  # shares of a site are those of its closed form
            engine.model, args, kwargs = _once(self.model, args, kwargs)
        return super(OrdersEP, engine).trace(args, kwargs, params)

    def read_source(self, source: Traced, params: Mapping[str, Any]) -> Program:
        """Read the program, and keep the skills."""
        settings: dict[str, Any] = {"power": self.power, "structure": self.structure}
        program = read_program(source, params, eliminates="events", **settings)
        prior: Any = program.problem.prior
        block: Any = program.problem.blocks[0]
        if block.repeats is not None:
            copies = block.repeats.reshape(len(prior.groups.latent), -1)[:, 0]
            prior = prior._replace(copies=copies)
        shapes = {"f": program.layout.shapes["f"]}
        layout = program.layout._replace(shapes=shapes, eliminated=("noise",))
        problem = program.problem._replace(prior=prior)
        return program._replace(layout=layout, problem=problem)


def each_order_once(result: EPResult) -> EPResult:
    """The same posterior, of a program with one event for each order and its count beside it.

    A result of another program stays as it is.
    """
    if result.model not in (thurstone_orders, preference_orders):
        return result
    model, args, kwargs = _once(result.model, result.model_args, result.model_kwargs)
    return replace(result, model=model, model_args=args, model_kwargs=kwargs)


def _once(
    model: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """A program of orders and its arguments, whose counts are no events but weights."""
    options = dict(kwargs)
    counts = options.pop("counts", None) if len(args) < 5 else args[4]
    if counts is None:
        return model, args, dict(kwargs)
    items = args[1] if len(args) > 1 else kwargs["items"]
    options["counts"] = check_order_counts(counts, len(items))
    return partial(_weighed, model), args[:4], options


def _weighed(model: Callable[..., Any], *args: Any, counts: Any, **kwargs: Any) -> None:
    numpyro.deterministic("counts", counts)
    with _Weights(counts):
        model(*args, **kwargs)


class _Weights(Messenger):
    """What NumPyro's ``scale`` does, of the observed site alone."""

    def __init__(self, counts: Any) -> None:
        super().__init__()
        self._counts = counts

    def process_message(self, msg: dict[str, Any]) -> None:
        if msg["name"] == "order":
            msg["scale"] = jnp.asarray(self._counts)[:, None]
