"""Expectation propagation as an inference engine for plain NumPyro programs."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import Array
from threadpoolctl import threadpool_limits

from bayesrank._stack import outside
from bayesrank._validate import check_count
from bayesrank.infer.engine import CALLBACK, Engine
from bayesrank.infer.hyper.hyperparameters import traced_inventory
from bayesrank.infer.hyper.integration import integrate
from bayesrank.infer.hyper.maximum import Maximum, maximize, warn_of_fixed_points
from bayesrank.infer.hyper.nested import WalkSettings, walk
from bayesrank.infer.reader.inventory import Inventory, NoLatentsError
from bayesrank.infer.reader.refusals import Refusal
from bayesrank.infer.result import EPResult
from bayesrank.infer.running import Call, check_run_arguments, warn_of

# More hyperparameters than this, elements counted, take too many points; NUTS walks over them.
_MOST_BY_POINTS = 20


COMPANION = "bayesrank_companion"
"""The latent of programs that have none of their own."""


@dataclass(frozen=True)
class Accompanied:
    """A program, and a standard normal latent that nothing depends on."""

    model: Callable[..., Any]

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Run the program."""
        numpyro.sample(COMPANION, dist.Normal(0.0, 1.0))
        self.model(*args, **kwargs)


class EP(Engine):
    """Expectation propagation on a NumPyro program.

    The program's unobserved real-valued sites must be jointly Gaussian at fixed hyperparameters.
    Each element of an observed site's log density sees them through one or two affine predictors.
    EP finds predictors and likelihoods in the program's trace. Factors of two predictors are
    integrated over the plane; see `bayesrank.infer.pairs`.

    Parameters
    ----------
    model
        The NumPyro program.
    hyperparameters
        What to do about the sites that make the latents Gaussian once they have values.
        "integrate" averages over them: by weighted points; and by NUTS if there are over 20
        numbers, their prior depends on latents, or 1,024 points are too few. "nuts" always walks.
        "map" takes the most probable values, which maximise EP's log evidence plus their log prior
        density. "prior" holds them at the medians of their priors, so the posterior leaves their
        uncertainty out. A mapping holds the sites it names and averages over the others. `param`
        sites have no prior: they take the values with the largest evidence, and their initial
        value with "prior".
    power
        Power of EP in (0, 1]; 1 is EP, towards 0 it approaches a variational approximation. Some
        programs that do not settle with 1 do so with 0.5.
    damping
        Largest share of a proposed change that a sweep takes, in (0, 1]. Sweeps that make things
        worse shorten it.
    max_sweeps
        Number of parallel sweeps after which to give up.
    tol
        Largest move of a margin in the last sweep: of means in posterior standard deviations, and
        of log variances.
    precision
        "float64" computes in double precision whatever JAX is configured to. "float32" is about
        twice as fast, accurate to about 1e-3 posterior standard deviations, with a `tol` of at
        least 1e-3.
    structure
        How to represent the posterior. "dense" has all covariances. "factorised" is quick, with a
        Gaussian for each of independent latents alone. "probes" has a sparse precision, of latents
        that are independent or drawn given few others (walks, hierarchies). "low_rank" is for a
        prior of low rank plus diagonal (`bayesrank.gp.inducing_point_prior`), or few latents that
        all data share beside many others (``Phi @ w + e``). "auto" is dense up to 3,000 latents,
        and "probes" or "low_rank" beyond. With independent latents and a likelihood that is not
        log-concave it is then "factorised", with a warning. Only "dense" averages over
        hyperparameters.

    Examples
    --------
    >>> import jax, numpyro, numpyro.distributions as dist
    >>> from bayesrank.infer import EP
    >>> def schools(effect):
    ...     spread = numpyro.sample("spread", dist.HalfNormal(10.0))
    ...     f = numpyro.sample("f", dist.Normal(0.0, spread).expand([len(effect)]))
    ...     numpyro.sample("effect", dist.Normal(f, 12.0), obs=effect)
    >>> import numpy as np
    >>> effect = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    >>> result = EP(schools).run(jax.random.key(0), effect)
    >>> result.mean["spread"], result.sd["f"]
    (...)

    References
    ----------
    Minka, T. (2001). A family of algorithms for approximate Bayesian inference. PhD thesis, MIT.
    """

    def run(
        self,
        rng_key: Array,
        *args: Any,
        params: Mapping[str, Any] | None = None,
        init: Mapping[str, Any] | None = None,
        num_restarts: int = 0,
        num_samples: int = 1000,
        num_warmup: int = 100,
        num_chains: int = 2,
        target_accept_prob: float = 0.7,
        callback: Callable[[int, float], None] | None = None,
        **kwargs: Any,
    ) -> EPResult:
        """Infer the latents of the program, and its hyperparameters.

        Parameters
        ----------
        rng_key
            Random key of the posterior draws, of further starts and of a walk. The posterior itself
            is deterministic, unless NUTS walks over the hyperparameters.
        *args, **kwargs
            Arguments of the program, which runs once. Programs that compute the same of arrays of
            the same shapes share compiled code.
        params
            Values of sites to fix in this call, by name.
        init
            Where the search for the most probable hyperparameters starts, by name; others start at
            their initial value or prior median.
        num_restarts
            Number of further starts of that search, from points spread around the first by one unit
            on the unconstrained scale.
        num_samples
            Number of posterior draws of the result.
        num_warmup, num_chains, target_accept_prob
            Of NUTS over the hyperparameters: steps that each chain discards, number of chains, and
            the share of proposals to accept; nearer to 1 the steps are shorter.
        callback
            Called after each sweep at fixed hyperparameters with its number and the largest move of
            a margin, in posterior standard deviations. An error in it is raised when the sweeps
            have ended. Later sweeps of "probes" and "low_rank" do not call it. A search calls it
            after each evaluation with its number and the best log density so far; a walk with the
            number of draws made and the share of the work done.

        Returns
        -------
        EPResult
            One Gaussian where no hyperparameter varies, else a mixture of these.

        Raises
        ------
        ValueError, TypeError
            If EP cannot take the program; the message names the site, the problem and the fix. If
            `rng_key` is not a random key, an argument is being traced, or a number makes no sense.

        Warns
        -----
        ConvergenceWarning
            If EP has not converged after `max_sweeps` sweeps, the search for hyperparameters has
            not, or the average over them cannot be relied on.
        AccuracyWarning
            If the quadrature of a factor missed over 1% of its mass, or has its mean or standard
            deviation wrong by over 0.03 standard deviations.
        """
        given = self.given(params)
        check_run_arguments(rng_key, num_samples, (given, args, kwargs))
        check_count(num_restarts, "num_restarts", 0)
        nuts = WalkSettings.checked(num_warmup, num_chains, target_accept_prob)
        # Factorisations are small and many: threads inside one of them only get in the way.
        with jax.enable_x64(self.precision == "float64"):
            program = self.trace(args, kwargs, given)
            call = Call(program, args, kwargs, given, rng_key, num_samples, dict(init or {}))
            call = call._replace(num_restarts=num_restarts, callback=callback)
            try:
                result = self._inferred(call, nuts)
            except NoLatentsError:
                if self.hyperparameters == "prior" or not program.initial:
                    raise
                result = self._of_hyperparameters(call, nuts)
            return result.of_program(program)

    def _of_hyperparameters(self, call: Call, nuts: WalkSettings) -> EPResult:
        """The posterior of a program without latents, beside one that nothing depends on."""
        engine = type(self)(Accompanied(self.model), **self.settings)
        program = engine.trace(call.args, call.kwargs, call.params)
        found = engine._inferred(call._replace(program=program), nuts)
        return found.without(COMPANION, self.model)

    def _inferred(self, call: Call, nuts: WalkSettings) -> EPResult:
        """The posterior, with hyperparameters treated as chosen."""
        given = call.params
        if not call.program.initial:  # no hyperparameters, so nothing is compiled to find them
            return self._held(call, given)
        inventory = traced_inventory(self, call.program, given)
        if not inventory.supports:
            return self._held(call, given)
        if self.hyperparameters == "prior":
            return self._at_medians(call, inventory)
        learned = {k for k in inventory.supports if k not in inventory.sampled}
        if self.hyperparameters == "map" or not inventory.sampled:
            return self._at_maximum(call)
        if learned:  # `param` sites, which have no prior to average over
            best = maximize(self, call).params
            call = call._replace(params={**given, **{k: best[k] for k in learned}}, init={})
        with threadpool_limits(1, user_api="blas"):
            return self._averaged(call, inventory, nuts)

    def _averaged(self, call: Call, inventory: Inventory, nuts: WalkSettings) -> EPResult:
        """The posterior with all free hyperparameters averaged over."""
        numbers = sum(math.prod(np.shape(inventory.hyperparameters[k])) for k in inventory.sampled)
        result = None
        if self.hyperparameters != "nuts" and numbers <= _MOST_BY_POINTS:
            result = integrate(self, call)
        return walk(self, call, nuts) if result is None else result

    def _at_medians(self, call: Call, inventory: Inventory) -> EPResult:
        """The posterior at the medians of the priors; vectors of these only by name."""
        medians = {k: inventory.hyperparameters[k] for k in inventory.sampled}
        vectors = {k: v for k, v in medians.items() if np.size(v) > 1}
        result = self._held(call, {**call.params, **vectors})
        for name in sorted({*vectors} & {*result.conditioned_sites}):
            raise Refusal("prior_of_hyperparameter", name, "the latents").error()
        return replace(result, defaulted_params=inventory.sampled)

    def _at_maximum(self, call: Call) -> EPResult:
        """The posterior at the most probable hyperparameters."""
        found = maximize(self, call)
        for kind, message in found.complaints():
            warnings.warn(message, kind, stacklevel=outside())
        result = self._held(call, found.params, found)
        if found.converged and result.converged:
            warn_of_fixed_points(found, result)
        return result

    def _held(
        self, call: Call, params: Mapping[str, Any], maximum: Maximum | None = None
    ) -> EPResult:
        """The posterior at values of hyperparameters; those without one have their median."""
        callback = call.callback if maximum is None else None
        with CALLBACK.passing_to(callback) if callback else nullcontext():
            found = self.solve_traced(call.program, params, watched=callback is not None)
        result = self.result_of(found, call, maximum.params if maximum else call.params)
        warn_of(result, tol=self.tol, structure=self.structure)
        if maximum is None:
            return result
        settled = result.converged and maximum.converged
        return replace(result, converged=settled, **maximum.fields())
