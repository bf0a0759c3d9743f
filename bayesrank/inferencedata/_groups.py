"""The numbers of each ArviZ group, out of the draws and the program they belong to."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import metadata
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import Unit
from numpyro.handlers import seed, substitute, trace, uncondition
from numpyro.infer import MCMC, Predictive, log_likelihood

from bayesrank._version import __version__
from bayesrank.infer.spi import readable_arguments
from bayesrank.inferencedata._results import Arrays, PosteriorResult

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
        args, kwargs = readable_arguments(*called)
    return replace(posterior, args=args, kwargs=kwargs)
