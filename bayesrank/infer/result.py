"""What EP returns: a Gaussian posterior, its evidence, and draws from it."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import Array
from numpy.typing import ArrayLike

from bayesrank._memory import TooLargeError
from bayesrank._stack import outside
from bayesrank.infer.export import EPGuide, conditioned_model, nuts_settings
from bayesrank.infer.margins import BoundedMargins, bounded_margins, square_root
from bayesrank.infer.posterior import Approximation, KeptPosterior
from bayesrank.infer.summary import as_html, as_text, draws_as_text
from bayesrank.infer.whitening.accuracy import ImportanceCheck, importance_check

# Up to here a look at the posterior's accuracy takes a few seconds.
_MOST_LATENTS = 500
_MOST_FACTORS = 20_000


class AccuracyWarning(UserWarning):
    """A posterior may be wrong, or is known to be.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", AccuracyWarning)  # a doubtful fit raises
    ...     # EP(model).run(...)
    """


@dataclass(frozen=True, eq=False, kw_only=True)
class GaussianMoments:
    """Mean and covariance of the latents of a program."""

    # Shape of every latent site, in the order of the joint posterior.
    shapes: dict[str, tuple[int, ...]]
    # Of all latents laid end to end, shape (n,), float64.
    joint_mean: np.ndarray = field(repr=False)
    posterior: KeptPosterior = field(repr=False)  # their covariances, or what stands for these

    @property
    def structure(self) -> str:
        """Form of the posterior, as in `EP`; "dense" wherever it has all covariances."""
        return self.posterior.structure

    @property
    def joint_covariance(self) -> np.ndarray:
        """Covariances of all latents, shape (n, n); raises `TooLargeError` if they are too many."""
        return self.posterior.covariance()

    @cached_property
    def approximation(self) -> Approximation:
        """How EP represents the posterior, and what that costs in accuracy.

        Without covariances it solves 32 pairs one by one, in some seconds.
        """
        return self.posterior.approximation()

    @property
    def latent_sites(self) -> tuple[str, ...]:
        """Names of the latent sites."""
        return tuple(self.shapes)

    @cached_property
    def mean(self) -> dict[str, np.ndarray]:
        """Posterior mean of each latent site, in its own shape."""
        return self.split_sites(self.joint_mean)

    @cached_property
    def covariance(self) -> dict[str, np.ndarray]:
        """Posterior covariance of each latent site, in its own shape twice over."""
        return {
            k: self.joint_covariance[s, s].reshape(self.shapes[k] * 2)
            for k, s in self._spans.items()
        }

    @cached_property
    def sd(self) -> dict[str, np.ndarray]:
        """Posterior standard deviation of each latent site, in its own shape."""
        return self.split_sites(np.sqrt(self.posterior.variances))

    @property
    def _spans(self) -> dict[str, slice]:
        start, spans = 0, {}
        for name, shape in self.shapes.items():
            size = math.prod(shape)
            spans[name] = slice(start, start + size)
            start += size
        return spans

    def difference(
        self,
        first: ArrayLike,
        second: ArrayLike,
        *,
        site: str | None = None,
        exact: bool = True,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Posterior means and standard deviations of latents `first` minus latents `second`.

        Parameters
        ----------
        first, second
            Numbers of latents in their site, laid end to end: integers, or arrays of shape (m,);
            the results have the same shape.
        site
            Name of the site, needed if there are several.
        exact
            Without covariances, whether to solve for each pair. That is right given EP's sites, and
            takes some tens of milliseconds a pair. If not, standard deviations are as good as
            `approximation` says, and take a second for a million pairs.

        Raises
        ------
        ValueError
            If `site` is missing or unknown, or a number is not an integer or out of range.
        """
        first, second = self._numbers(first, second, site)
        flat = first.ravel(), second.ravel()
        variance = self.posterior.pair_variances(*flat, exact=exact).reshape(first.shape)
        return self.joint_mean[first] - self.joint_mean[second], np.sqrt(variance)

    def _numbers(
        self, first: ArrayLike, second: ArrayLike, site: str | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of latents of a site among all."""
        if site is None and len(self.shapes) == 1:
            [site] = self.shapes
        if site is None or site not in self.shapes:
            raise ValueError(f"site is {site!r}; choose one of {list(self.shapes)}")
        span = self._spans[site]
        first, second = np.broadcast_arrays(np.asarray(first), np.asarray(second))
        for name, numbers in (("first", first), ("second", second)):
            count = span.stop - span.start
            if not np.issubdtype(numbers.dtype, np.integer):
                raise ValueError(f"{name} holds {numbers.dtype}; pass integers")
            if numbers.size and not (0 <= numbers.min() and numbers.max() < count):
                raise ValueError(f"{name} is out of range: {site!r} has latents 0 to {count - 1}")
        return span.start + first, span.start + second

    def split_sites(self, draws: Any) -> dict[str, Any]:
        """Cut joint draws of shape (..., n) into those of each site."""
        return {
            k: draws[..., s].reshape((*draws.shape[:-1], *self.shapes[k]))
            for k, s in self._spans.items()
        }


class MixtureComponent(NamedTuple):
    """The posterior at one value of the hyperparameters."""

    weight: float  # its share of the mixture
    params: dict[str, np.ndarray]  # values of all hyperparameters, those held fixed included
    moments: GaussianMoments  # mean and covariance of the latents given these


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class EPResult(GaussianMoments):
    """The posterior of a program's latents under EP.

    Attributes
    ----------
    model, model_args, model_kwargs
        The program and its arguments.
    params
        Values of the hyperparameters on which the posterior is conditional.
    defaulted_params
        Hyperparameters that the caller did not give: they have the median of their prior.
    sites
        For each observed site, the site parameters ``(tau, nu)`` of its margins, measured from the
        prior mean.
    log_evidence, log_evidence_error
        EP's approximation of the log evidence, in nats; and its standard error, if a log
        determinant is estimated.
    missed_mass
        Observed sites with a factor whose quadrature missed over 1% of the mass, with the largest
        share.
    moment_errors
        Observed sites with a factor whose mean or standard deviation is wrong by over 0.03 standard
        deviations, with the largest error.
    converged
        Whether the last sweep moved no margin beyond the tolerance and skipped no site.
    num_sweeps, power
        Number of sweeps, and the power of EP.
    skipped_sites
        Number of site updates that an improper cavity prevented, over all sweeps.
    max_change
        Largest move of a margin in the last sweep, in posterior standard deviations.
    dropped_sites
        Unobserved sites that are not Gaussian and have no data, outside of the posterior;
        `numpyro.infer.Predictive` draws them.
    marginalized_sites
        Latents of groups that EP integrates out, group by group, such as performances on one
        occasion; `numpyro.infer.Predictive` draws them anew.
    sources
        Where values of `params` came from, in words.
    conditioned_sites
        Fixed sites whose density depends on latents, and so counts as a likelihood.
    support
        Lower and upper ends of the latents' supports; None if no support is bounded.
    num_samples, rng_key
        Number of draws that `get_samples` returns, and their random key.
    log_prior, at_bound, num_evaluations, restarts, other_modes
        Of the most probable hyperparameters (``EP(hyperparameters="map")``): the log density of
        their priors there; those at the edge of the region searched, or of a domain with two ends;
        how often the search computed the evidence; log evidence plus log prior at the end of each
        start; and other maxima that starts led to and that compete: they lie less than 4 nats
        lower, beyond a valley.

    Notes
    -----
    Large models store no joint covariance (`structure`). Means, standard deviations, differences
    and draws remain available. Beyond 5,000 latents, the result refuses what needs all covariances.

    Examples
    --------
    >>> import jax, numpy as np
    >>> from bayesrank.infer import EP
    >>> from bayesrank.models import thurstone
    >>> games = np.array([[0, 1], [1, 2], [0, 2]])  # (winner, loser)
    >>> result = EP(thurstone).run(jax.random.key(0), 3, games, params={"scale": 1.0})
    >>> int(result.mean["f"].argmax()), result.converged
    (0, True)
    """

    model: Callable[..., Any]
    model_args: tuple
    model_kwargs: dict[str, Any]
    params: dict[str, np.ndarray]
    defaulted_params: tuple[str, ...]
    sites: dict[str, tuple[np.ndarray, np.ndarray]] = field(repr=False)
    log_evidence: float
    missed_mass: dict[str, float] = field(default_factory=dict)
    moment_errors: dict[str, float] = field(default_factory=dict)
    converged: bool
    num_sweeps: int
    power: float = 1.0
    skipped_sites: int
    max_change: float
    dropped_sites: tuple[str, ...]
    marginalized_sites: tuple[str, ...] = ()
    sources: dict[str, str] = field(default_factory=dict)
    conditioned_sites: tuple[str, ...] = ()
    support: tuple[np.ndarray, np.ndarray] | None = field(default=None, repr=False)
    num_samples: int
    rng_key: Array = field(repr=False)
    log_evidence_error: float = 0.0
    log_prior: float = 0.0
    at_bound: tuple[str, ...] = ()
    num_evaluations: int = 0
    restarts: tuple[float, ...] = field(default=(), repr=False)
    other_modes: tuple[dict[str, np.ndarray], ...] = ()

    @property
    def hyperparameters(self) -> dict[str, np.ndarray]:
        """Draws of hyperparameters: there are none, as `params` are fixed."""
        return {}

    def components(self) -> Iterator[MixtureComponent]:
        """The Gaussians that the posterior is a mixture of: one."""
        yield MixtureComponent(1.0, self.params, self)

    def get_samples(self, group_by_chain: bool = False) -> dict[str, np.ndarray]:
        """Independent draws from the posterior; the same ones at every call.

        Each latent site has draws of shape (num_samples,) + its own. Hyperparameters have their
        value, repeated, so `numpyro.infer.Predictive` and `numpyro.infer.log_likelihood` see all
        sites. Latents without bounds are jointly Gaussian. Those with bounds have a gamma or beta
        margin of EP's mean and standard deviation, so their draws stay within these.

        Parameters
        ----------
        group_by_chain
            Whether to put a leading axis of one chain before the draws.
        """
        samples = dict(self._draws)
        for name, value in self.params.items():
            samples[name] = np.broadcast_to(value, (self.num_samples, *np.shape(value)))
        return {k: v[None] for k, v in samples.items()} if group_by_chain else samples

    @cached_property
    def _draws(self) -> dict[str, np.ndarray]:
        draws = self.joint_mean + self.posterior.sample(self.rng_key, self.num_samples)
        with jax.enable_x64(True):
            return self.split_sites(np.asarray(self._within_support(draws)))

    def _within_support(self, draws: Any) -> Any:
        return draws if self._bounded is None else self._bounded.put(draws)

    @cached_property
    def _bounded(self) -> BoundedMargins | None:
        return bounded_margins(self.joint_mean, self.posterior.variances, self.support)

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
        white: Any = numpyro.sample(
            "_white",
            dist.Normal(0.0, 1.0).expand(self.joint_mean.shape).to_event(1),
            infer={"is_auxiliary": True},
        )
        joint = self._within_support(self.joint_mean + square_root(self.joint_covariance) @ white)
        for name, value in {**self.split_sites(joint), **self.params}.items():
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
            If the result keeps no posterior of some latents (`marginalized_sites`).
        """
        return EPGuide(self, prefix)

    @property
    def conditioned_model(self) -> Callable[..., Any]:
        """The program of the latents alone, its hyperparameters at the values of this result."""
        return conditioned_model(self)

    def nuts_settings(self) -> dict[str, Any]:
        """Arguments that start NUTS at this posterior, with its covariance as inverse mass matrix.

        In ``NUTS(model, **result.nuts_settings())`` hyperparameters vary, from their values here.
        ``NUTS(result.conditioned_model, ...)`` fixes them.

        Raises
        ------
        ValueError
            If the result keeps no posterior of some latents (`marginalized_sites`).
        """
        return nuts_settings(self)

    @cached_property
    def accuracy(self) -> ImportanceCheck:
        """How far the posterior can be trusted, by importance sampling.

        The program's own density weighs draws from the posterior, when first asked for. That takes
        about two seconds, more with many latents or data. There are 4,000 draws, and down to 1,000
        if the data have more than 2,500 rows. They miss a part of the posterior that none of them
        comes near, such as another mode far away.

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
        missed = max(self.missed_mass.values(), default=0.0)
        error = max(self.moment_errors.values(), default=0.0)
        return warn_unless_good(
            self.marginalized_sites,
            lambda: replace(
                importance_check(self, self.rng_key),
                missed=missed,
                error=error,
                given=tuple(self.params),
            ),
        )

    @property
    def _is_cheap_to_judge(self) -> bool:
        factors = sum(np.size(tau) for tau, _ in self.sites.values())
        few = self.joint_mean.size <= _MOST_LATENTS and factors <= _MOST_FACTORS
        return few and self.structure == "dense" and not self.marginalized_sites

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

        It computes `accuracy` if that is cheap: up to 500 latents and 20,000 data.

        Parameters
        ----------
        level
            Probability of the interval shown, the narrowest that has it.
        """
        draws = {name: each[None] for name, each in self._draws.items()}
        sys.stdout.write(draws_as_text(draws, level, chains=False))
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
