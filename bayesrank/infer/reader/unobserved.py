"""A handler that makes the values of unobserved sites unknowns of a trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array, core
from jax.extend.core import Primitive
from numpyro import handlers
from numpyro.primitives import Messenger

from bayesrank.infer.reader.densities import given_value, median, starts_at_zero
from bayesrank.infer.reader.precision import as_number
from bayesrank.infer.reader.prior import unwrap
from bayesrank.infer.reader.refusals import Refusal

# The value of an unobserved site: it stands in a trace until it becomes one of its inputs.
site_value = Primitive("site_value")
site_value.def_abstract_eval(lambda *, name, shape, dtype: core.ShapedArray(shape, dtype))


class Unobserved(Messenger):
    """Makes the value of each unobserved site an unknown; those of scans come with their shapes."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        super().__init__(None)
        self.params = params
        self.late: dict[str, tuple[tuple[int, ...], Any]] = {}
        self.held: dict[str, Any] = {}
        self.restart()

    def restart(self) -> None:
        """Forget the sites of a run."""
        self.names: list[str] = []
        self.initial: dict[str, Callable[[], Any]] = {}
        self.computed: dict[str, Any] = {}

    def run(
        self, model: Callable[..., Any], args: tuple, kwargs: Mapping[str, Any]
    ) -> dict[str, Any]:
        """NumPyro's trace of the program, with unknowns."""
        messages = self._run(model, args, kwargs)
        if self.late:
            self.restart()
            messages = self._run(model, args, kwargs)
        said = [m for m in messages.values() if m["type"] == "deterministic"]
        numbers = [m for m in said if isinstance(m["value"], jax.Array | np.ndarray | float)]
        self.computed = {message["name"]: message["value"] for message in numbers}
        return {k: m for k, m in messages.items() if m["type"] in ("sample", "param", "plate")}

    def _run(
        self, model: Callable[..., Any], args: tuple, kwargs: Mapping[str, Any]
    ) -> dict[str, Any]:
        values = {name: _unknown(name, *what) for name, what in self.late.items()}
        with handlers.trace() as tracer, self, handlers.substitute(data=values):
            with handlers.seed(rng_seed=jax.random.key(0)):
                model(*args, **kwargs)
        return dict(tracer)

    def process_message(self, msg: dict[str, Any]) -> None:
        """Put an unknown in the place of a value."""
        if msg["type"] == "param":
            self._take_param(msg)
        elif msg["type"] == "sample":
            self._take_sample(msg)

    def _take_param(self, msg: dict[str, Any]) -> None:
        value = given_value(self.params, msg)
        if value is None:
            value = msg["value"]
            value = msg["fn"](*msg["args"], **msg["kwargs"]) if value is None else value
            self.initial[msg["name"]] = lambda: value
        self._put(msg, jnp.shape(value), as_number(value).dtype)

    def _take_sample(self, msg: dict[str, Any]) -> None:
        value, name, fn = given_value(self.params, msg), msg["name"], msg["fn"]
        if msg["is_observed"] or (value is None and isinstance(unwrap(fn)[0], dist.Delta)):
            return
        shape = fn.shape(msg["kwargs"].get("sample_shape", ()))
        discrete, dtype, draw = fn.support.is_discrete, jnp.result_type(float), value
        if discrete:
            draw = fn(*msg["args"], **msg["kwargs"]) if draw is None else draw
            dtype = draw.dtype
        if name in self.late:
            shape, dtype = self.late[name]
        elif msg["value"] is not None:
            self.late[name] = jnp.shape(msg["value"]), dtype
            if not msg.get("_control_flow_done"):
                self.held[name] = msg["value"]
        if value is None and (name in self.held or discrete):
            self.initial[name] = partial(self.held.get, name, draw)
        elif value is None and isinstance(unwrap(fn)[0], dist.ImproperUniform):
            raise Refusal("improper", name).error()
        elif value is None and not starts_at_zero(fn):
            self.initial[name] = partial(median, fn, msg["kwargs"].get("rng_key"), shape)
        self._put(msg, shape, dtype)

    def _put(self, msg: dict[str, Any], shape: tuple[int, ...], dtype: Any) -> None:
        self.names.append(msg["name"])
        if msg["name"] not in self.late:
            msg["value"] = _unknown(msg["name"], shape, dtype)


def _unknown(name: str, shape: tuple[int, ...], dtype: Any) -> Array:
    return site_value.bind(name=name, shape=tuple(shape), dtype=np.dtype(dtype))
