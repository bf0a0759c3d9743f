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

if TYPE_CHECKING:
    from bayesrank.infer.result import EPResult


# Of the largest variance, what is added to the diagonal of a covariance to be factored.
_JITTER = 1e-10


def conditioned_model(result: EPResult) -> Callable[..., Any]:
    """The program of its latents alone, other sites at the result's values without density."""
    _refuse_marginalized(result)
    if result.mixture is not None:
        raise ValueError(
            "hyperparameters were averaged over, so there is no program of the latents alone. Run "
            "EP(model, hyperparameters='map'), or give them values"
        )
    values: dict[str, Any] = dict(result.params)
    if result.dropped_sites:
        sites = _sites(result)
        values |= {name: sites[name]["value"] for name in result.dropped_sites}
    hidden = [name for name in values if name not in result.conditioned_sites]
    model = handlers.condition(result.model, data={k: values[k] for k in result.conditioned_sites})
    return handlers.block(handlers.substitute(model, data=values), hide=hidden)


def _refuse_marginalized(result: EPResult) -> None:
    if result.marginalized_sites:
        raise ValueError(
            f"the result keeps no posterior of {', '.join(result.marginalized_sites)}, so it "
            "cannot start another engine on them. Run EP on fewer data"
        )


def _sites(result: EPResult) -> dict[str, Any]:
    return result.traced.sites(_start(result))


def _start(result: EPResult) -> dict[str, Any]:
    """Values of all sites, where the posterior has most weight."""
    component = max(result.components(), key=lambda each: each.weight)
    return {**component.moments.mean, **component.params}


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
        for name, start in result.split_sites(result.joint_mean).items():
            inverse, mean = biject_to(sites[name]["fn"].support).inv, jnp.asarray(start)
            means[name] = np.asarray(inverse(mean)).reshape(-1)
            slopes[name] = np.asarray(jax.jacfwd(inverse)(mean)).reshape(-1, mean.size)
    slope = block_diag(*slopes.values())
    covariance = slope @ kept @ slope.T
    # What rounding may lack on the diagonal.
    covariance += _JITTER * np.max(np.diagonal(covariance)) * np.eye(len(covariance))
    return _Unconstrained(means, covariance)


def nuts_settings(result: EPResult) -> dict[str, Any]:
    """Arguments of `numpyro.infer.NUTS`, see `EPResult.nuts_settings`."""
    _refuse_marginalized(result)
    latents, free = tuple(result.shapes), tuple(result.hyperparameters)
    matrices = {latents: jnp.asarray(_unconstrained(result).covariance)}
    if free:
        matrices[free] = jnp.asarray(_covariance_of_draws(result, free))
    return {
        "init_strategy": init_to_value(values=_start(result)),
        "inverse_mass_matrix": matrices,
        "dense_mass": list(matrices),
    }


def _covariance_of_draws(result: EPResult, names: tuple[str, ...]) -> np.ndarray:
    """Covariance of hyperparameters on their unconstrained scale, shrunk as Stan does it."""
    with jax.enable_x64(True):
        sites, columns = _sites(result), []
        for name in names:
            draws = jnp.asarray(result.get_samples()[name])
            inverse = jax.vmap(biject_to(sites[name]["fn"].support).inv)
            columns.append(np.asarray(inverse(draws)).reshape(len(draws), -1))
    joint = np.concatenate(columns, axis=1)
    covariance, count = np.atleast_2d(np.cov(joint, rowvar=False)), len(joint)
    return (count * covariance + 5e-3 * np.eye(len(covariance))) / (count + 5)


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
