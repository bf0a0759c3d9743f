"""`to_arviz`: any result to what the installed ArviZ works with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from numpy.typing import ArrayLike
from numpyro.infer import MCMC

from bayesrank._arviz import import_arviz
from bayesrank.infer.spi import without_stale_traces
from bayesrank.inferencedata._groups import (
    AxisLabels,
    PosteriorDraws,
    from_mcmc,
    from_result,
    site_shape,
)
from bayesrank.inferencedata._results import PosteriorResult

if TYPE_CHECKING:
    import xarray as xr


def to_arviz(
    result: PosteriorResult | MCMC,
    *,
    coords: Mapping[str, ArrayLike] | None = None,
    dims: Mapping[str, Sequence[str]] | None = None,
    num_predictive: int | None = None,
    log_likelihood: bool = True,
    rng_key: jax.Array | None = None,
) -> Any:
    """Convert a result to ArviZ, with named dimensions.

    Log likelihoods and replicated observations are computed in the precision of the draws: double
    for bayesrank's engines, whatever JAX is set to.

    Axes take the names of their plates, event axes those of the site's ``infer={"event_dims":
    [...]}``, and others ``site_dim_0`` and so on; ``dims`` overrides them.

    Parameters
    ----------
    result
        An ``EPResult``, a finished ``numpyro.infer.MCMC``, an `SVIPosterior`, or any
        `PosteriorResult`.
    coords
        Labels of a dimension's entries, such as ``{"item": names}``.
    dims
        Dimension names of a site's axes, such as ``{"f": ["item"]}``.
    num_predictive
        Draws of each chain, evenly spaced, that get replicated observations; all if not given,
        0 for no ``posterior_predictive`` group.
    log_likelihood
        Whether to compute ``log_likelihood``, which holds draws times observations numbers. It is
        left out if EP has eliminated latents of observations. It is zero for masked observations,
        which `bayesrank.diagnostics.compare` leaves out, but not ``az.loo``.
    rng_key
        Key of the replicated observations; ``jax.random.key(0)`` if not given.

    Returns
    -------
    arviz.InferenceData or xarray.DataTree
        ``InferenceData`` before ArviZ 1.0, else ``DataTree``; both have ``to_netcdf``. The groups
        are listed in `bayesrank.inferencedata`. Attributes of the ``posterior`` group tell the
        engine and, for EP, the log evidence, convergence, sweeps and skipped sites.

    Raises
    ------
    TypeError
        If ``result`` is none of the above.
    ValueError
        If ``dims`` or ``coords`` do not fit the program, ``num_predictive`` is out of range, the
        MCMC object has not been run, or the data have changed since EP's fit.

    Examples
    --------
    >>> import numpyro.distributions as dist
    >>> from numpyro import plate, sample
    >>> from bayesrank.infer import EP
    >>> def model(y):
    ...     with plate("item", 3):
    ...         sample("y", dist.Normal(sample("skill", dist.Normal(0.0, 1.0)), 1.0), obs=y)
    >>> result = EP(model).run(jax.random.key(0), np.arange(3.0), num_samples=10)
    >>> data = to_arviz(result, coords={"item": ["ann", "bob", "eve"]})
    >>> data.posterior["skill"].dims
    ('chain', 'draw', 'item')
    """
    if isinstance(result, MCMC):
        posterior = from_mcmc(result)
    elif isinstance(result, PosteriorResult):
        posterior = from_result(result)
    else:
        raise TypeError(
            f"result must be an EPResult, a numpyro MCMC object or an SVIPosterior, got "
            f"{type(result).__name__}; wrap a fitted SVI as SVIPosterior(svi, svi_result.params, "
            "model_args=...)"
        )
    pick = _predictive_draws(posterior.shape[1], num_predictive)
    key = jax.random.key(0) if rng_key is None else rng_key

    def label() -> dict[str, xr.Dataset]:
        labels = AxisLabels(posterior.sites, coords, dims)
        groups = _groups(posterior, labels, pick, log_likelihood, key)
        labels.check_used()
        return groups

    with jax.enable_x64(posterior.is_double):
        return _assemble(without_stale_traces(label))


def _predictive_draws(draws: int, wanted: int | None) -> np.ndarray:
    """Numbers of the evenly spaced draws that get replicated observations."""
    if wanted is None:
        return np.arange(draws)
    if not 0 <= wanted <= draws:
        raise ValueError(
            f"num_predictive must lie between 0 and the {draws} draws of a chain, got {wanted}"
        )
    return np.arange(wanted) * draws // max(wanted, 1)


def _groups(
    posterior: PosteriorDraws,
    labels: AxisLabels,
    pick: np.ndarray,
    log_likelihood: bool,
    rng_key: jax.Array,
) -> dict[str, xr.Dataset]:
    """Compute and label every group that is not empty, ``posterior`` first."""
    draw = np.arange(posterior.shape[1])
    varying, still = posterior.deterministic()
    seen = {name: posterior.sites[name] for name in posterior.observed}
    observed = {k: np.broadcast_to(v["value"], site_shape(v)) for k, v in seen.items()}
    contents = {
        "posterior": (posterior.draws | varying, draw),
        "sample_stats": (posterior.stats, draw),
        "observed_data": (observed, None),
        "constant_data": (posterior.fixed | still, None),
    }
    if posterior.predicted and len(pick):
        contents["posterior_predictive"] = (posterior.predictive(rng_key, pick), pick)
    if observed and log_likelihood and not posterior.eliminated:
        contents["log_likelihood"] = (posterior.log_likelihood(), draw)
    stamp = {"created_at": datetime.now(UTC).isoformat(), "creation_library": "bayesrank"}
    return {
        group: labels.dataset(arrays, stamp | posterior.attrs, axis)
        for group, (arrays, axis) in contents.items()
        if arrays
    }


def _assemble(groups: dict[str, xr.Dataset]) -> Any:
    """Put the groups into an ``InferenceData`` or, from ArviZ 1.0 on, a ``DataTree``."""
    import xarray as xr  # a fit does not wait for it

    contents = vars(import_arviz())  # ArviZ 1.x answers getattr, with a warning
    container = contents.get("InferenceData")
    return xr.DataTree.from_dict(groups) if container is None else container(**groups)
