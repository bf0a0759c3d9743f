"""What EP returns: a Gaussian or a mixture of these, its evidence, and draws from it."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import Array

from bayesrank._memory import TooLargeError
from bayesrank._stack import outside
from bayesrank.infer.compiled import ONE_AT_A_TIME
from bayesrank.infer.export import EPGuide, conditioned_model, nuts_settings
from bayesrank.infer.margins import BoundedMargins, bounded_margins, square_root
from bayesrank.infer.mixture import Drawn, GaussianMoments, MixtureComponent, PosteriorMixture
from bayesrank.infer.posterior import DensePosterior
from bayesrank.infer.reader.traced import Traced, trace
from bayesrank.infer.seeds import generator
from bayesrank.infer.summary import as_html, as_text, draws_as_text
from bayesrank.infer.whitening.accuracy import (
    ImportanceCheck,
    importance_check,
    importance_check_of_draws,
)

# Up to here a look at the posterior's accuracy takes a few seconds.
_MOST_LATENTS, _MOST_ROWS = 500, 20_000


class AccuracyWarning(UserWarning):
    """A posterior may be wrong, or is known to be.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", AccuracyWarning)  # a doubtful fit raises
    ...     # EP(model).run(...)
    """


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class EPResult(GaussianMoments):
    """The posterior of a program under EP: a Gaussian, or a mixture of these.

    Attributes
    ----------
    model, model_args, model_kwargs
        The program and its arguments.
    params
        Values of the hyperparameters on which the posterior is conditional.
    defaulted_params, sources
        Hyperparameters that have the median of their prior, as the caller gave none; and where
        values of `params` came from, in words.
    shapes, joint_mean, posterior
        Of the latents. Where hyperparameters were averaged over, the moments of the mixture.
    support
        Lower and upper ends of the latents' supports; None if no support is bounded.
    mixture, walk
        Where hyperparameters were averaged over, EP's posteriors at some values of these; and the
        draws, if NUTS walked over them. The mixture then has some of the draws as its points.
    sites
        For each observed site, the site parameters ``(tau, nu)`` of its margins, measured from the
        prior mean. Of a mixture there are none; its components have them where latents are
        integrated out.
    log_evidence, log_evidence_error
        EP's approximation of the log evidence, in nats; and its standard error, if a log
        determinant is estimated. Of a mixture, the log of the integral of the program's density
        over latents and hyperparameters, by importance sampling of these.
    converged
        Whether the last sweep moved no margin beyond the tolerance and skipped no site. Of a
        mixture: whether EP converged at all points that count and the weights are reliable
        (`pareto_k` below 0.7, `errors` at most twice what was wanted). Of a walk: whether EP
        converged at every draw, no trajectory diverged, and R-hat is below 1.05.
    num_sweeps, power, max_change, skipped_sites
        Number of sweeps, and the power of EP; the largest move of a margin in the last sweep, in
        posterior standard deviations; and the number of site updates that an improper cavity
        prevented, over all sweeps.
    missed_mass, moment_errors
        Observed sites with a factor whose quadrature missed over 1% of the mass, with the largest
        share; and those with a factor whose mean or standard deviation is wrong by over 0.03
        standard deviations, with the largest error.
    dropped_sites, marginalized_sites, conditioned_sites
        Unobserved sites that are not Gaussian and have no data, outside of the posterior, and
        latents of groups that EP integrates out, such as performances on one occasion;
        `numpyro.infer.Predictive` draws both. Fixed sites whose density depends on latents, and so
        counts as a likelihood.
    computed_sites
        ``deterministic`` sites that vary with the latents and hyperparameters of the posterior.
    num_samples, rng_key
        Number of draws that `get_samples` returns, and their random key.
    log_prior, at_bound, restarts
        Of the most probable hyperparameters (``EP(hyperparameters="map")``): the log density of
        their priors there; those at the edge of the region searched, or of a domain with two ends;
        and log evidence plus log prior at the end of each start.
    num_evaluations
        Number of values of the hyperparameters at which EP was run.
    mode, other_modes, mode_shares
        Most probable hyperparameters of a mixture; other maxima that starts led to and that
        compete: they lie less than 4 nats lower, beyond a valley; and of a mixture the share of the
        weights near each of these.
    errors, effective_points, pareto_k
        Of weighted points: the Monte Carlo error of the mean of each hyperparameter, in posterior
        standard deviations; their effective number, ``1 / sum w^2``; and the tail shape of the
        importance weights, above 0.7 of which the evidence cannot be relied on. Points grow until
        errors are below 0.05 and standard deviations right to 10%, up to 1,024. With over 200
        latents or 10,000 data it is 0.1 and 20%, up to 128.
    num_unconverged, num_divergent
        Number of values of the hyperparameters at which EP did not converge, and of draws that
        ended a divergent trajectory.

    Notes
    -----
    Large models store no joint covariance (`structure`). Beyond 5,000 latents, the result refuses
    what needs all covariances.

    Examples
    --------
    >>> import jax, numpy as np
    >>> from bayesrank.infer import EP
    >>> from bayesrank.models import thurstone
    >>> games = np.array([[0, 1], [1, 2], [0, 2]])  # (winner, loser)
    >>> result = EP(thurstone).run(jax.random.key(0), 3, games)
    >>> int(result.mean["f"].argmax()), result.converged
    (0, True)
    """

    model: Callable[..., Any]
    model_args: tuple
    model_kwargs: dict[str, Any]
    params: dict[str, np.ndarray]
    defaulted_params: tuple[str, ...] = ()
    sources: dict[str, str] = field(default_factory=dict)
    support: tuple[np.ndarray, np.ndarray] | None = None
    mixture: PosteriorMixture | None = None
    walk: Drawn | None = None
    sites: dict[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    log_evidence: float
    log_evidence_error: float = 0.0
    converged: bool
    num_sweeps: int = 0
    power: float = 1.0
    max_change: float = 0.0
    skipped_sites: int = 0
    missed_mass: dict[str, float] = field(default_factory=dict)
    moment_errors: dict[str, float] = field(default_factory=dict)
    dropped_sites: tuple[str, ...] = ()
    marginalized_sites: tuple[str, ...] = ()
    conditioned_sites: tuple[str, ...] = ()
    computed_sites: tuple[str, ...] = ()
    num_samples: int
    rng_key: Array
    log_prior: float = 0.0
    at_bound: tuple[str, ...] = ()
    restarts: tuple[float, ...] = ()
    num_evaluations: int = 0
    mode: dict[str, np.ndarray] = field(default_factory=dict)
    other_modes: tuple[dict[str, np.ndarray], ...] = ()
    mode_shares: tuple[float, ...] = ()
    errors: dict[str, float] = field(default_factory=dict)
    effective_points: float = np.nan
    pareto_k: float = np.nan
    num_unconverged: int = 0
    num_divergent: int = 0

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if state.keys() != {each.name for each in fields(self)}:
            raise ValueError("its EPResult has other parts than this version's; fit again")
        vars(self).update(state)

    @cached_property
    def traced(self) -> Traced:
        """The program, and all that it had read when it was fitted; from a file, as it is now."""
        with jax.enable_x64(True), ONE_AT_A_TIME:
            return trace(self.model, self.model_args, self.model_kwargs, self.params)

    def of_program(self, program: Traced) -> Self:
        """The same result, which holds the program that was fitted."""
        varying = {*self.shapes, *self.weighted_points[0]}
        sites = program.computed_from({*varying, *self.params})
        found = replace(self, computed_sites=tuple(k for k in sites if k not in varying))
        vars(found)["traced"] = program.kept()
        return found

    def components(self) -> Iterator[MixtureComponent]:
        """The Gaussians that the posterior is a mixture of; one, if no hyperparameter varies."""
        if self.mixture is None:
            yield MixtureComponent(1.0, self.params, self, self.sites)
        else:
            yield from self.mixture.components(self.shapes, self.params)

    @property
    def weighted_points(self) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Values of the hyperparameters, shapes (K,) + their own, and their weights (K,)."""
        if self.walk is not None:
            flat = _in_one_chain(self.walk.hyperparameters)
            return flat, np.full(self.num_samples, 1.0 / self.num_samples)
        return (self.mixture.points, self.mixture.weights) if self.mixture else ({}, np.ones(1))

    @cached_property
    def _of_hyperparameters(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Posterior means and standard deviations of the hyperparameters that vary."""
        (points, weights), means, sds = self.weighted_points, {}, {}
        for name, values in points.items():
            means[name] = np.tensordot(weights, values, 1)
            sds[name] = np.sqrt(np.tensordot(weights, (values - means[name]) ** 2, 1))
        return means, sds

    @cached_property
    def _computed(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Means and standard deviations of `computed_sites`, over the draws of `get_samples`."""
        if not self.computed_sites:
            return {}, {}
        draws = self.get_samples()
        if self.support is None:  # with the mean that is known, that of a sum is without chance
            for name, mean in self.split_sites(self.joint_mean).items():
                draws[name] = draws[name] + (mean - draws[name].mean(axis=0))

        with jax.enable_x64(True):
            compute = partial(self.traced.compute, self.computed_sites)
            found = jax.jit(jax.vmap(compute))(draws)
        values = {name: np.asarray(value, float) for name, value in found.items()}
        means = {name: value.mean(axis=0) for name, value in values.items()}
        return means, {name: value.std(axis=0) for name, value in values.items()}

    @cached_property
    def mean(self) -> dict[str, np.ndarray]:
        """Posterior means of latents and hyperparameters that vary, each in its own shape.

        Those of `computed_sites` are over the draws of `get_samples`, exact where they are sums.
        """
        found = self.split_sites(self.joint_mean) | self._of_hyperparameters[0]
        return found | self._computed[0]

    @cached_property
    def sd(self) -> dict[str, np.ndarray]:
        """Posterior standard deviations of what `mean` has, right to 2% for `computed_sites`."""
        found = self.split_sites(np.sqrt(self.posterior.variances)) | self._of_hyperparameters[1]
        return found | self._computed[1]

    @property
    def hyperparameters(self) -> dict[str, np.ndarray]:
        """Draws of the hyperparameters that vary, shapes (chains, draws) + their own."""
        return {} if self.mixture is None else self.drawn.hyperparameters

    @property
    def draws(self) -> dict[str, np.ndarray]:
        """Draws of the latents, given those of `hyperparameters`, by site."""
        return self.drawn.latents

    @cached_property
    def drawn(self) -> Drawn:
        """Draws of hyperparameters and latents; the same ones whenever they are made."""
        if self.walk is not None:
            return self.walk
        if self.mixture is None:
            draws = self.joint_mean + self.posterior.sample(self.rng_key, self.num_samples)
            with jax.enable_x64(True):
                draws = np.asarray(self._within_support(draws))
            return Drawn({}, self.split_sites(draws[None]), np.zeros((1, len(draws))))
        with jax.ensure_compile_time_eval():  # a guide may be traced
            seed = int(generator(self.rng_key).integers(2**31))
        found = self.mixture.drawn(self.support, self.num_samples, np.random.default_rng(seed))
        owner, draws, logs = found
        values = {k: v[owner][None] for k, v in self.mixture.points.items()}
        return Drawn(values, self.split_sites(draws[None]), logs[None])

    def _within_support(self, draws: Any) -> Any:
        return draws if self._bounded is None else self._bounded.put(draws)

    @cached_property
    def _bounded(self) -> BoundedMargins | None:
        return bounded_margins(self.joint_mean, self.posterior.variances, self.support)

    def get_samples(self, group_by_chain: bool = False) -> dict[str, np.ndarray]:
        """Draws of latents and hyperparameters together; the same ones at every call.

        Each site has draws of shape (num_samples,) + its own. Fixed hyperparameters have their
        value, repeated, so `numpyro.infer.Predictive` and `numpyro.infer.log_likelihood` see all
        sites. They are independent, but for those of a walk. Given the hyperparameters, latents
        without bounds are jointly Gaussian. Those with bounds have a gamma or beta margin of EP's
        mean and standard deviation, so their draws stay within these.

        Parameters
        ----------
        group_by_chain
            Whether to have two axes in front, (chains, draws): one chain, but for a walk.
        """
        samples = self.drawn.latents | self.drawn.hyperparameters
        lead = self.drawn.log_proposals.shape
        for name, value in self.params.items():
            samples[name] = np.broadcast_to(value, (*lead, *np.shape(value)))
        return samples if group_by_chain else _in_one_chain(samples)

    def cut_to(
        self, shapes: Mapping[str, tuple[int, ...]], args: tuple, kwargs: dict[str, Any]
    ) -> Self:
        """The posterior of the first latents of each site, as that of the program's call for these.

        The latents beyond `shapes` have to be independent of the data and of the others.
        """
        start, kept = 0, []
        for name, shape in self.shapes.items():
            numbers = start + np.arange(math.prod(shape)).reshape(shape)
            kept.append(numbers[tuple(map(slice, shapes[name]))].ravel())
            start += numbers.size
        found = self._of_latents(np.concatenate(kept), dict(shapes))
        return replace(found, model_args=args, model_kwargs=kwargs)

    def without(self, site: str, model: Callable[..., Any]) -> Self:
        """The posterior without a standard normal latent that nothing depends on, of `model`."""
        own = self._spans[site]
        at = np.delete(np.arange(self.joint_mean.size), own)
        found = self._of_latents(at, {k: v for k, v in self.shapes.items() if k != site})
        walk = self.walk
        if walk is not None:
            others = {name: draws for name, draws in walk.latents.items() if name != site}
            logs = walk.log_proposals + 0.5 * (walk.latents[site] ** 2 + math.log(2.0 * math.pi))
            walk = Drawn(walk.hyperparameters, others, logs)
        return replace(found, model=model, walk=walk)

    def _of_latents(self, at: np.ndarray, shapes: dict[str, tuple[int, ...]]) -> Self:
        """The posterior of some of the latents, by their numbers."""
        return replace(
            self,
            shapes=shapes,
            joint_mean=self.joint_mean[at],
            posterior=DensePosterior(self.joint_covariance[np.ix_(at, at)]),
            mixture=None if self.mixture is None else self.mixture.of_latents(at),
            support=None if self.support is None else tuple(end[at] for end in self.support),
        )

    def quantiles(
        self, function: Callable[[dict[str, Any]], Any], probabilities: Sequence[float]
    ) -> np.ndarray:
        """Posterior quantiles of a function of the latents, from the draws of `get_samples`.

        The result has the shape (len(probabilities),) + that of the function's.

        Parameters
        ----------
        function
            Takes one draw of all sites by name, in their own shapes, and returns an array.
            `jax.vmap` maps it over the draws. For an event, use `probability`.
        probabilities
            Of the quantiles, each between 0 and 1.
        """
        return np.quantile(self._mapped(function), probabilities, axis=0)

    def probability(self, event: Callable[[dict[str, Any]], Any]) -> np.ndarray:
        """Posterior probability of an event, as the share of the draws of `get_samples`.

        Parameters
        ----------
        event
            Takes one draw of all sites by name, and returns an array of true and false, as
            ``lambda draw: draw["skill"][0] > draw["skill"][1]``. The result has its shape.
        """
        return np.mean(self._mapped(event), axis=0)

    def _mapped(self, function: Callable[[dict[str, Any]], Any]) -> np.ndarray:
        with jax.enable_x64(True):
            return np.asarray(jax.vmap(function)(self.get_samples()))

    def guide(self, *args: Any, **kwargs: Any) -> None:
        """Draw the latents from the posterior, as a NumPyro program.

        ``Predictive(model, guide=result.guide, params={}, num_samples=100)`` draws anew with it. It
        has fixed hyperparameters as sites too, so the model takes their values. Sites that EP
        dropped or integrated out are left to the model. It ignores its arguments.
        """
        if self.mixture is None:
            standard: Any = dist.Normal().expand(self.joint_mean.shape).to_event(1)
            white: Any = numpyro.sample("_white", standard, infer={"is_auxiliary": True})
            draw = self.joint_mean + square_root(self.joint_covariance) @ white
            values = self.split_sites(self._within_support(draw))
        else:  # one of the draws that there are
            even: Any = dist.Categorical(logits=jnp.zeros(self.num_samples))
            number: Any = numpyro.sample("_draw", even, infer={"is_auxiliary": True})
            drawn = _in_one_chain(self.draws | self.hyperparameters)
            values = {name: jnp.asarray(draws)[number] for name, draws in drawn.items()}
        for name, value in {**values, **self.params}.items():
            numpyro.sample(name, dist.Delta(value, event_dim=np.ndim(value)))

    def autoguide(self, prefix: str = "auto") -> EPGuide:
        """NumPyro's `AutoMultivariateNormal`, whose parameters start at this posterior.

        It starts SVI on the program of the latents alone, ``SVI(result.conditioned_model,
        result.autoguide(), optim, Trace_ELBO())``. It also serves as the guide of
        ``Predictive(result.conditioned_model, guide=result.autoguide(), params={},
        num_samples=100)``.

        Parameters
        ----------
        prefix
            Put before the names of its parameters.

        Raises
        ------
        ValueError
            If the result keeps no posterior of some latents (`marginalized_sites`), or averages
            over hyperparameters.
        """
        return EPGuide(self, prefix)

    @property
    def conditioned_model(self) -> Callable[..., Any]:
        """The program of the latents alone, its hyperparameters at the values of this result."""
        return conditioned_model(self)

    def nuts_settings(self) -> dict[str, Any]:
        """Arguments that start NUTS at this posterior, with its covariance as inverse mass matrix.

        In ``NUTS(model, **result.nuts_settings())`` hyperparameters vary, from their values here.
        ``NUTS(result.conditioned_model, ...)`` fixes them. Hyperparameters that were averaged over
        start where the posterior has most weight, and have a matrix of their own.

        Raises
        ------
        ValueError
            If the result keeps no posterior of some latents (`marginalized_sites`).
        """
        return nuts_settings(self)

    @cached_property
    def accuracy(self) -> ImportanceCheck:
        """How far the posterior can be trusted, by importance sampling.

        The density of the program that was fitted weighs draws from the posterior, when first asked
        for; of a mixture, those of `get_samples`. That takes about two seconds, more with many
        latents or data. There are 4,000 draws, and down to 1,000 of more than 2,500 rows. They miss
        a part of the posterior that none comes near, such as another mode far away.

        Raises
        ------
        ValueError, TooLargeError
            If the result keeps no posterior of some latents (`marginalized_sites`), or no
            covariances (see `approximation`).

        Warns
        -----
        AccuracyWarning
            If a mean is off by more than 0.1 standard deviations, a standard deviation by more than
            15%, or mass is missed; or if the weights are too uneven to tell.
        """
        if self.structure != "dense":
            raise TooLargeError(
                f"importance sampling does not check {self.joint_mean.size:,} latents; see "
                "approximation, or run EP(model, structure='dense') on fewer of them"
            )
        return warn_unless_good(self.marginalized_sites, self._judged)

    def _judged(self) -> ImportanceCheck:
        if self.mixture is None:
            found = importance_check(self, self.rng_key)
        else:
            draws = _in_one_chain(self.draws | self.hyperparameters)
            logs = self.drawn.log_proposals.reshape(-1)
            found = importance_check_of_draws(self.traced, draws, self.params, logs)
        return replace(
            found,
            missed=max(self.missed_mass.values(), default=0.0),
            error=max(self.moment_errors.values(), default=0.0),
            of_points=max(self.errors.values(), default=0.0),
            given=tuple(self.params),
        )

    @property
    def _is_cheap_to_judge(self) -> bool:
        kept = self.structure == "dense" and not self.marginalized_sites
        return kept and len(self.joint_mean) <= _MOST_LATENTS and self.traced.num_rows <= _MOST_ROWS

    def _known_accuracy(self) -> str:
        """What has been found out about the accuracy, or where to look."""
        if self.structure == "dense":
            return str(self.accuracy) if "accuracy" in self.__dict__ else ""
        if "approximation" in self.__dict__:
            return str(self.approximation)
        return f"{self.structure}, without covariances; see result.approximation"

    def __repr__(self) -> str:
        """Show the sites and what became of each, twenty at most."""
        return as_text(self, self._known_accuracy())

    def _repr_html_(self) -> str:
        return as_html(self, self._known_accuracy())

    def print_summary(self, level: float = 0.9) -> None:
        """Print a table of the latents, what became of each site, and how far to trust it.

        Up to 500 latents and 20,000 data, it computes `accuracy`.

        Parameters
        ----------
        level
            Probability of the interval shown, the narrowest that has it.
        """
        draws = self.hyperparameters | self.draws
        sys.stdout.write(draws_as_text(draws, level, chains=self.walk is not None))
        if self.mixture is not None and not self.converged:
            sys.stdout.write("It has not converged: the table describes the draws there are.\n")
        if self._is_cheap_to_judge:
            accuracy = str(self.accuracy)
        elif self.marginalized_sites:
            accuracy = "not checked, as some latents are integrated out"
        else:
            accuracy = (
                self._known_accuracy() or "not checked, as that takes long; see result.accuracy"
            )
        sys.stdout.write(as_text(self, accuracy, most=None) + "\n")


def warn_unless_good(
    eliminated: tuple[str, ...], judge: Callable[[], ImportanceCheck]
) -> ImportanceCheck:
    """Judge a posterior, and warn if it is not good."""
    if eliminated:
        raise ValueError(
            f"the accuracy cannot be checked: EP keeps no posterior of {', '.join(eliminated)}; "
            "compare with NUTS, or run EP(model) on fewer data"
        )
    found = judge()
    if not found.is_good:
        warnings.warn(f"EP's posterior is {found}", AccuracyWarning, stacklevel=outside())
    return found


def _in_one_chain(draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Draws (chains, draws, ...) one after the other."""
    return {name: each.reshape(-1, *each.shape[2:]) for name, each in draws.items()}
