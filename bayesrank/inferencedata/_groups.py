"""The numbers of each ArviZ group, out of the draws and the program they belong to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import metadata
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from numpyro.distributions import Unit
from numpyro.handlers import seed, substitute, trace, uncondition
from numpyro.infer import MCMC, Predictive, log_likelihood

from bayesrank._version import __version__
from bayesrank.infer.spi import readable_arguments
from bayesrank.inferencedata._results import Arrays, PosteriorResult

if TYPE_CHECKING:
    import xarray as xr


def site_shape(site: Mapping[str, Any]) -> tuple[int, ...]:
    """Shape of a site's value; of an observed one, broadcast against its distribution."""
    shape = np.shape(site["value"])
    return np.broadcast_shapes(shape, site["fn"].shape()) if site["type"] == "sample" else shape


def site_dims(name: str, site: Mapping[str, Any], shape: tuple[int, ...]) -> list[str]:
    """Name each axis of a site's value: by its plate, by ``event_dims``, else by number."""
    labels = [f"{name}_dim_{axis}" for axis in range(len(shape))]
    event = site["fn"].event_dim if site["type"] == "sample" else 0
    batch = len(shape) - event
    for frame in site.get("cond_indep_stack", ()):
        axis = batch + frame.dim
        if 0 <= axis < batch and shape[axis] == frame.size:
            labels[axis] = frame.name
    named = list((site.get("infer") or {}).get("event_dims", ()))
    if named and len(named) == event:
        labels[batch:] = named
    return labels


class AxisLabels:
    """Dimension names of every site, checked against sizes and coordinates."""

    def __init__(
        self,
        sites: Mapping[str, Any],
        coords: Mapping[str, ArrayLike] | None,
        dims: Mapping[str, Sequence[str]] | None,
    ) -> None:
        self._dims = {k: [v] if isinstance(v, str) else list(v) for k, v in (dims or {}).items()}
        self._coords = {name: np.asarray(values) for name, values in (coords or {}).items()}
        self._sites = sites
        self._sizes: dict[str, tuple[int, str]] = {}
        self._check()

    def _check(self) -> None:
        unknown = sorted(set(self._dims) - set(self._sites))
        if unknown:
            raise ValueError(
                f"dims names {unknown}, which the program has not; its sites are "
                f"{sorted(self._sites)}"
            )
        for dim, values in self._coords.items():
            if dim in ("chain", "draw"):
                raise ValueError(f"coords cannot rename {dim!r}; the draws are numbered from 0")
            if values.ndim != 1:
                raise ValueError(f"coords[{dim!r}] must be one-dimensional, got {values.shape}")

    def of(self, name: str, shape: tuple[int, ...]) -> list[str]:
        """Names of the axes of site ``name``, or of its leading axes if ``shape`` has fewer."""
        site = self._sites.get(name, {"type": "param", "value": np.empty(shape)})
        whole = site_shape(site)
        labels = self._dims.get(name) or site_dims(name, site, whole)
        if len(labels) != len(whole):
            raise ValueError(
                f"dims[{name!r}] must name {len(whole)} axes, of shape {whole}, got {labels}"
            )
        labels = labels[: len(shape)]
        if len(set(labels)) < len(labels):
            raise ValueError(
                f"dims[{name!r}] uses a name twice: {labels}; give each axis its own name"
            )
        for dim, size in zip(labels, shape, strict=True):
            self._check_size(name, dim, size)
        return labels

    def _check_size(self, name: str, dim: str, size: int) -> None:
        """Refuse one dimension with two lengths, be it between sites or with its coordinate."""
        if dim in self._coords and len(self._coords[dim]) != size:
            raise ValueError(
                f"coords[{dim!r}] holds {len(self._coords[dim])} entries but site {name!r} "
                f"has {size} along {dim!r}"
            )
        known, owner = self._sizes.setdefault(dim, (size, name))
        if known != size:
            raise ValueError(
                f"dimension {dim!r} has length {known} in site {owner!r} but {size} in site "
                f"{name!r}; rename one of them with dims={{{name!r}: [...]}}"
            )

    def check_used(self) -> None:
        """Refuse coordinates that no site has; call it when all data sets are made."""
        unused = sorted(set(self._coords) - set(self._sizes))
        if unused:
            raise ValueError(
                f"coords {unused} fit no dimension; dimensions are {sorted(self._sizes)}. Say "
                f"which site has them with dims={{'site': {unused}}}"
            )

    def dataset(
        self, arrays: Arrays, attrs: Mapping[str, Any], draw: np.ndarray | None
    ) -> xr.Dataset:
        """Label the arrays; with ``draw``, their first two axes are chain and draw."""
        import xarray as xr  # a fit does not wait for it

        lead = [] if draw is None else ["chain", "draw"]
        variables, used = {}, set()
        for name, value in arrays.items():
            labels = self.of(name, value.shape[len(lead) :])
            variables[name] = (lead + labels, value)
            used.update(labels)
        coords = {}
        for dim in used:
            coords[dim] = self._coords.get(dim, np.arange(self._sizes[dim][0]))
        if draw is not None:
            coords["chain"] = np.arange(next(iter(arrays.values())).shape[0])
            coords["draw"] = draw
        return xr.Dataset(variables, coords, dict(attrs))


_FIGURES = ("log_evidence", "converged", "num_sweeps", "skipped_sites")
_STAT_NAMES = {
    "accept_prob": "acceptance_rate",
    "adapt_state.step_size": "step_size",
    "num_steps": "n_steps",
    "potential_energy": "lp",
}


@dataclass(frozen=True)
class PosteriorDraws:
    """Draws ``(chain, draw, ...)`` of any engine, and the program that gives them meaning."""

    model: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    draws: Arrays
    fixed: Arrays
    stats: Arrays
    attrs: dict[str, Any]
    eliminated: bool = False  # whether latents are missing that observations depend on

    @property
    def shape(self) -> tuple[int, int]:
        """Number of chains, number of draws in each."""
        return next(iter(self.draws.values())).shape[:2]

    @property
    def is_double(self) -> bool:
        """Whether any draws are in double precision, in which the program is run then."""
        return any(value.dtype == np.float64 for value in self.draws.values())

    @cached_property
    def sites(self) -> dict[str, Any]:
        """Trace of the program at the first draw."""
        first = {k: jnp.asarray(v[0]) for k, v in self.rows(np.array([0])).items()}
        model = substitute(seed(self.model, jax.random.key(0)), data=first)
        return dict(trace(model).get_trace(*self.args, **self.kwargs))

    @property
    def observed(self) -> list[str]:
        """Names of the observed sites; a ``factor`` is not data."""
        return [
            name
            for name, site in self.sites.items()
            if site["type"] == "sample" and site["is_observed"] and not isinstance(site["fn"], Unit)
        ]

    @property
    def predicted(self) -> list[str]:
        """Names of the observed sites and of those that the engine left out: no data see them."""
        known = self.draws | self.fixed
        return self.observed + [
            name
            for name, site in self.sites.items()
            if site["type"] == "sample" and not site["is_observed"] and name not in known
        ]

    def rows(self, pick: np.ndarray) -> Arrays:
        """Stack the picked draws of all chains; repeat the fixed values."""
        rows = {}
        for name, value in self.draws.items():
            rows[name] = value[:, pick].reshape(-1, *value.shape[2:])
        count = self.shape[0] * len(pick)
        for name, value in self.fixed.items():
            rows[name] = np.broadcast_to(value, (count, *value.shape))
        return rows

    def by_chain(self, rows: dict[str, Any], names: list[str]) -> Arrays:
        """Undo `rows`: arrays ``(chain, draw, ...)`` of the named sites."""
        chains = self.shape[0]
        arrays = {name: np.asarray(rows[name]) for name in names}
        return {k: v.reshape(chains, v.shape[0] // chains, *v.shape[1:]) for k, v in arrays.items()}

    def deterministic(self) -> tuple[Arrays, Arrays]:
        """Values of ``deterministic`` sites that the draws lack: those that vary, the others."""
        names = [
            name
            for name, site in self.sites.items()
            if site["type"] == "deterministic" and name not in self.draws
        ]
        if not names:
            return {}, {}
        pick = np.arange(self.shape[1])
        predictive = Predictive(self.model, self.rows(pick), return_sites=names)
        values = self.by_chain(predictive(jax.random.key(0), *self.args, **self.kwargs), names)
        still = {k: v[0, 0] for k, v in values.items() if (v == v[:1, :1]).all()}
        return {k: v for k, v in values.items() if k not in still}, still

    def predictive(self, rng_key: jax.Array, pick: np.ndarray) -> Arrays:
        """Replicated observations at the picked draws of each chain."""
        names = self.predicted
        predictive = Predictive(uncondition(self.model), self.rows(pick), return_sites=names)
        try:
            values = predictive(rng_key, *self.args, **self.kwargs)
        except NotImplementedError as error:
            raise ValueError(
                f"one of the sites {names} has a distribution that cannot be sampled; pass "
                "num_predictive=0 to leave posterior_predictive out"
            ) from error
        return self.by_chain(values, names)

    def log_likelihood(self) -> Arrays:
        """Log density of each observation at each draw."""
        rows = self.rows(np.arange(self.shape[1]))
        model = seed(self.model, jax.random.key(0))  # for sites that no data depend on
        values = log_likelihood(model, rows, *self.args, **self.kwargs)
        return self.by_chain(values, self.observed)


def from_mcmc(mcmc: MCMC) -> PosteriorDraws:
    """Read the draws and the sampler's statistics of a finished ``MCMC`` run."""
    if mcmc.last_state is None:
        raise ValueError("the MCMC object holds no draws yet; call mcmc.run(...) first")
    model = getattr(mcmc.sampler, "model", None)
    if model is None:
        raise ValueError(
            "the MCMC sampler was built from potential_fn, so there is no program to read; "
            "build it from a model"
        )
    draws = {k: np.asarray(v) for k, v in mcmc.get_samples(group_by_chain=True).items()}
    stats = {}
    for name, value in mcmc.get_extra_fields(group_by_chain=True).items():
        if not isinstance(value, dict | tuple):
            array = np.asarray(value)
            stats[_STAT_NAMES.get(name, name)] = -array if name == "potential_energy" else array
    attrs = {
        "inference_library": "numpyro",
        "inference_library_version": metadata.version("numpyro"),
        "inference_method": f"MCMC with {type(mcmc.sampler).__name__}",
    }
    return PosteriorDraws(model, mcmc._args, mcmc._kwargs, draws, {}, stats, attrs)


def from_result(result: PosteriorResult) -> PosteriorDraws:
    """Read an EP result, an `SVIPosterior` or anything that keeps the same protocol."""
    fixed = {name: np.asarray(value) for name, value in result.params.items()}
    samples = result.get_samples(group_by_chain=True)
    draws = {name: np.asarray(v) for name, v in samples.items() if name not in fixed}
    attrs: dict[str, Any] = {
        "inference_library": "bayesrank",
        "inference_library_version": __version__,
        "inference_method": type(result).__name__,
    }
    for name in _FIGURES:
        if hasattr(result, name):
            value = getattr(result, name)
            attrs[name] = float(value) if name == "log_evidence" else int(value)
    if not draws:
        raise ValueError("the result holds no draws of a latent site: nothing to convert")
    eliminated = bool(getattr(result, "marginalized_sites", ()))
    posterior = PosteriorDraws(result.model, (), {}, draws, fixed, {}, attrs, eliminated)
    # The engines' arguments are in the precision of their draws.
    with jax.enable_x64(posterior.is_double):
        called = result.model, result.model_args, result.model_kwargs, result.params
        args, kwargs = readable_arguments(*called, vars(result).get("traced"))
    return replace(posterior, args=args, kwargs=kwargs)
