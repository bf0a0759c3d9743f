"""What the engine refuses of its own arguments; of programs, see ``programs/program_expected``."""

from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro import handlers
from refusals import each, rows

from bayesrank.infer import EP
from bayesrank.infer.whitening.reparam import WhitenReparam

KEY = jax.random.key(0)


def level(y: Any = 0.0) -> None:
    scale: Any = numpyro.sample("s", dist.HalfNormal(1.0))
    share: Any = numpyro.sample("u", dist.Uniform(0.0, 0.5))
    wide: Any = numpyro.param("t", 1.0, constraint=dist.constraints.positive)
    f: Any = numpyro.sample("f", dist.Normal(0.0, scale))
    numpyro.sample("y", dist.Normal(share * f, wide), obs=y)


def whiten(fn: Any, obs: Any) -> None:
    def model():
        numpyro.sample("a", fn, obs=obs)

    white = handlers.reparam(model, config={"a": WhitenReparam()})
    handlers.trace(handlers.seed(white, KEY)).get_trace()


REFUSED = [
    *rows(
        lambda settings: EP(level, **settings),
        ({"power": 0.0}, "power is 0.0; pass a number above 0 and at most 1"),
        ({"power": 1.5}, "power is 1.5"),
        ({"power": "1"}, "power is '1'"),
        ({"damping": np.nan}, "damping is nan"),
        ({"max_sweeps": 0}, "max_sweeps is 0; pass a whole number from 1 on"),
        ({"max_sweeps": 2.5}, "max_sweeps is 2.5"),
        ({"tol": 0.0}, "tol is 0.0; pass a positive number"),
        ({"tol": np.array([1e-4, 1e-3])}, "tol is array"),
        ({"precision": "float16"}, "precision is 'float16'; choose 'float64' or 'float32'"),
        ({"structure": "sparse"}, "choose 'auto', 'dense'"),
        ({"hyperparameters": "maximum"}, "hyperparameters is 'maximum'; choose one of 'integrate'"),
    ),
    *rows(
        lambda options: EP(level).run(KEY, **options),
        *(
            ({"num_samples": n}, f"num_samples is '?{n}'?; pass a whole number")
            for n in (-1, 1.5, True, "10")
        ),
        *(
            ({name: count}, f"{name} is {count}; pass a whole number from 1")
            for name in ("num_warmup", "num_chains")
            for count in (0, 7.5)
        ),
        ({"target_accept_prob": 1.0}, "target_accept_prob is 1.0; pass a number above 0 and"),
    ),
    *rows(
        lambda options: EP(level, hyperparameters="map").run(KEY, **options),
        ({"init": {"s": -1.0}}, "init['s'] is -1.0, which is outside its domain Positive"),
        ({"init": {"t": np.nan}}, "init['t'] is nan, which is outside its domain"),
        ({"init": {"u": 0.7}}, "init['u'] is 0.7, which is outside its domain Interval"),
        ({"init": {"s": np.ones(2)}}, "init['s'] has shape (2,); pass shape ()"),
        ({"init": {"f": 1.0}}, "init names ['f']; the free hyperparameters are"),
        ({"num_restarts": -1}, "num_restarts is -1; pass a whole number from 0 on"),
        literal=True,
    ),
    *rows(
        lambda key: EP(level).run(cast(Any, key)),
        (np.ones((3, 2), int), r"rng_key is an array of shape \(3, 2\) .*jax.random.key"),
        (0, "rng_key is of type int; pass a random key"),
        kind=TypeError,
    ),
    *rows(
        lambda: jax.jit(lambda y: EP(level).run(KEY, y).mean["f"])(1.0),
        ("cannot be traced by jit.*solve, log_evidence",),
        kind=TypeError,
    ),
    *rows(
        whiten,
        (dist.Normal(0.0, 1.0), 1.0, "'a' is observed"),
        (dist.Gamma(1.0, 1.0), None, r"'a' \(Gamma\) cannot be whitened"),
        (dist.Normal(0.0, 1.0).mask(jnp.zeros((), bool)), None, "without a mask"),
    ),
]


@each(REFUSED)
def test_refused(refusal):
    refusal.check()
