"""EP's posterior for NumPyro's own engines: a guide for SVI, settings for NUTS.

They work on the unconstrained scale of the program's sites, on which a real-valued site is itself.
The slope at the mean carries EP's moments there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro import handlers
from numpyro.distributions import biject_to
from numpyro.infer import init_to_value
from numpyro.infer.autoguide import AutoMultivariateNormal
from scipy.linalg import block_diag

from bayesrank.infer.reader.traced import run_with

if TYPE_CHECKING:
    from bayesrank.infer.result import EPResult


# Of the largest variance, what is added to the diagonal of a covariance to be factored.
_JITTER = 1e-10


def conditioned_model(result: EPResult) -> Callable[..., Any]:
    """The program of its latents alone, other sites at the result's values without density."""
    if result.marginalized_sites:
        raise ValueError(
            f"the result keeps no posterior of {', '.join(result.marginalized_sites)}, so it "
            "cannot start another engine on them. Run EP on fewer data"
        )
    values: dict[str, Any] = dict(result.params)
    if result.dropped_sites:
        sites = _sites(result)
        values |= {name: sites[name]["value"] for name in result.dropped_sites}
    hidden = [name for name in values if name not in result.conditioned_sites]
    model = handlers.condition(result.model, data={k: values[k] for k in result.conditioned_sites})
    return handlers.block(handlers.substitute(model, data=values), hide=hidden)


def _sites(result: EPResult) -> dict[str, Any]:
    values = {**result.mean, **result.params}
    return run_with(result.model, result.model_args, result.model_kwargs, values)


class _Unconstrained(NamedTuple):
    """Mean of each latent site on its unconstrained scale, and the covariance of all."""

    means: dict[str, np.ndarray]
    covariance: np.ndarray

    def of(self, names: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of the sites laid end to end in another order."""
        ends = np.cumsum([mean.size for mean in self.means.values()])
        spans = {
            k: np.arange(e - v.size, e) for (k, v), e in zip(self.means.items(), ends, strict=True)
        }
        order = np.concatenate([spans[name] for name in names])
        loc = np.concatenate([self.means[name] for name in names])
        return loc, self.covariance[np.ix_(order, order)]


def _unconstrained(result: EPResult) -> _Unconstrained:
    means, slopes = {}, {}
    kept = result.joint_covariance  # refused of very many latents
    with jax.enable_x64(True):
        sites = _sites(result)
        for name in result.shapes:
            inverse, mean = biject_to(sites[name]["fn"].support).inv, jnp.asarray(result.mean[name])
            means[name] = np.asarray(inverse(mean)).reshape(-1)
            slopes[name] = np.asarray(jax.jacfwd(inverse)(mean)).reshape(-1, mean.size)
    slope = block_diag(*slopes.values())
    covariance = slope @ kept @ slope.T
    # What rounding may lack on the diagonal.
    covariance += _JITTER * np.max(np.diagonal(covariance)) * np.eye(len(covariance))
    return _Unconstrained(means, covariance)


def nuts_settings(result: EPResult) -> dict[str, Any]:
    """Arguments of `numpyro.infer.NUTS`, see `EPResult.nuts_settings`."""
    conditioned_model(result)  # refuses a result without a posterior of all latents
    names = tuple(result.shapes)
    values = {**result.mean, **result.params}
    return {
        "init_strategy": init_to_value(values=values),
        "inverse_mass_matrix": {names: jnp.asarray(_unconstrained(result).covariance)},
        "dense_mass": [names],
    }


class EPGuide(AutoMultivariateNormal):
    """NumPyro's `AutoMultivariateNormal` whose location and scale start at EP's posterior."""

    def __init__(self, result: EPResult, prefix: str = "auto") -> None:
        self.start = _unconstrained(result)
        start = init_to_value(values=result.mean)
        super().__init__(conditioned_model(result), prefix=prefix, init_loc_fn=start)
        # It learns what the sites are here, where the data are at hand: it may be called without.
        with handlers.block(), handlers.seed(rng_seed=0):
            self(*result.model_args, **result.model_kwargs)

    def _get_posterior(self) -> dist.MultivariateNormal:
        loc, covariance = self.start.of(tuple(self._init_locs))
        root = np.linalg.cholesky(covariance)
        constraint = self.scale_tril_constraint
        return dist.MultivariateNormal(
            numpyro.param(f"{self.prefix}_loc", jnp.asarray(loc)),
            scale_tril=numpyro.param(
                f"{self.prefix}_scale_tril", jnp.asarray(root), constraint=constraint
            ),
        )
