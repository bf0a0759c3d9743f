"""The program behind a loop of questions: its prior, and hyperparameters learned from answers.

Learning pads the answers to a bucket and masks the padding, so that it compiles once for each
bucket (64, 128, 256, ... answers) and not at every answer. Where skills are a Gaussian process
without a graph, items that were never compared drop out of the evidence, and it is computed over
the compared ones alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpy.typing import NDArray
from numpyro.primitives import Messenger
from sklearn.preprocessing import StandardScaler

from bayesrank._validate import check_laplacian
from bayesrank.active.posterior.update import SkillPrior
from bayesrank.distributions import Thurstone, ThurstoneTies
from bayesrank.infer import EP, IntegratedEP, IntegratedEPResult, maximize_evidence
from bayesrank.infer.spi import Rows, take_inventory
from bayesrank.models import preference_gp, thurstone

__all__ = ["AnsweredProgram", "SkillProgram", "bucket_of", "skill_program"]

_SMALLEST_BUCKET = 64
# Covariances of all items that a loop holds at a time: before and after the answers, and in JAX.
_COVARIANCES = 4
_CHOICES = ("integrate", "maximum", "prior")
# Of the logarithm of annotators' noise: 9 of 10 are less than 2.3 times as noisy as the median.
_SPREAD = 0.5

Array = NDArray[np.float64]


def bucket_of(count: int) -> int:
    """Return the number of rows to which `count` answers are padded: 64, 128, 256, ..."""
    return max(_SMALLEST_BUCKET, 1 << (count - 1).bit_length()) if count else _SMALLEST_BUCKET


class AnsweredProgram:
    """A program of comparisons, some of them padding, or by noisier annotators than others.

    Parameters
    ----------
    program
        `bayesrank.models.preference_gp` or `thurstone`.
    """

    def __init__(self, program: Callable[..., Any]) -> None:
        self.program = program

    def __call__(
        self,
        *args: Any,
        counted: Any = None,
        noise_factor: Any = None,
        annotator: Any = None,
        num_annotators: int = 0,
        **kwargs: Any,
    ) -> None:
        """Run the program.

        Parameters
        ----------
        *args, **kwargs
            What the program is called with.
        counted
            Whether each comparison counts, shape (K,).
        noise_factor
            What the noise is multiplied with in each comparison, shape (K,).
        annotator
            Whose noise it is multiplied with, too: 1 to `num_annotators`, or 0 for that of nobody
            named, which is 1, shape (K,). By default all are as noisy.
        num_annotators
            Length of the site ``annotator_noise``, with the prior LogNormal(0.25, 0.5), whose mode
            is 1: until the answers say otherwise, nobody is noisier than the others.
        """
        if annotator is not None:
            prior = dist.LogNormal(_SPREAD**2, _SPREAD).expand([num_annotators]).to_event(1)
            noise = jnp.asarray(numpyro.sample("annotator_noise", prior))
            noise_factor = noise_factor * jnp.append(1.0, noise)[annotator]
        with _AnswerHandler(counted, noise_factor):
            self.program(*args, **kwargs)


class _AnswerHandler(Messenger):
    def __init__(self, counted: Any, noise_factor: Any) -> None:
        self.counted, self.noise_factor = counted, noise_factor
        super().__init__()

    def process_message(self, msg: dict[str, Any]) -> None:
        if msg["type"] != "sample" or msg["name"] != "comparison":
            return
        if self.noise_factor is not None:
            msg["fn"] = _noisier(msg["fn"], self.noise_factor)
        if self.counted is not None:
            msg["fn"] = msg["fn"].mask(self.counted)


def _noisier(likelihood: Thurstone | ThurstoneTies, factor: Any) -> Thurstone | ThurstoneTies:
    noise = likelihood.noise * factor
    if isinstance(likelihood, ThurstoneTies):
        return ThurstoneTies(likelihood.margin, likelihood.tie_width, noise)
    return Thurstone(likelihood.margin, noise)


@cache
def _engine(program: Callable[..., Any]) -> EP:
    """One engine for each program, so that what is compiled once serves every loop."""
    return EP(AnsweredProgram(program))


class SkillProgram:
    """Skills of items before and after some answers.

    Parameters
    ----------
    num_items, features
        The items; with features (n, d) their skills are a Gaussian process, else independent.
    options
        Further arguments of `bayesrank.models.preference_gp`: ``ard``, ``laplacian``.

    Attributes
    ----------
    defaults
        Values of the hyperparameters until others are learned.
    fixed
        Those that are given and not learned.

    Notes
    -----
    While no answer is a tie, the program knows of no ties, and has no ``tie_width``.
    """

    def __init__(
        self,
        num_items: int,
        features: Array | None,
        options: Mapping[str, Any],
    ) -> None:
        self.features, self.options = features, dict(options)
        self.num_items = num_items
        self.program = thurstone if features is None else preference_gp
        self._about = num_items if features is None else StandardScaler().fit_transform(features)
        self._engine = _engine(self.program)
        self.defaults: dict[str, Array] = self._read({})[1]
        self.fixed: dict[str, Array] = {}

    def fix(self, given: Mapping[str, Any]) -> None:
        """Hold some hyperparameters at given values.

        Raises
        ------
        ValueError
            If there is no such hyperparameter, or the value is not positive or of another shape.
        """
        for name, value in given.items():
            if name not in self.defaults:
                raise ValueError(f"hyperparameters names {name!r}; there are {(*self.defaults,)}")
            shape = self.defaults[name].shape
            try:
                array = np.array(value, float)
            except (TypeError, ValueError):
                array = np.array(np.nan)
            if array.shape != shape or not (np.isfinite(array) & (array > 0)).all():
                wanted = f"{shape[0]} positive numbers" if shape else "a positive number"
                raise ValueError(f"hyperparameters[{name!r}] is {value!r}; pass {wanted}")
            self.fixed[name] = array
        self.defaults = {**self.defaults, **self.fixed}

    def free(self, ties: bool) -> tuple[str, ...]:
        """Names of the hyperparameters that can be learned, with ties or without."""
        used = self.used(self.defaults, ties)
        return tuple(name for name in used if name not in self.fixed)

    def used(self, params: Mapping[str, Array], ties: bool) -> dict[str, Array]:
        """Those hyperparameters that the program has, with ties or without."""
        return {k: v for k, v in params.items() if ties or k != "tie_width"}

    def call(
        self, comparisons: NDArray[np.intp], tied: NDArray[np.bool_], factors: Array
    ) -> tuple[Callable[..., Any], tuple, dict[str, Any]]:
        """The program and its arguments for some answers, as a person would call it."""
        pairs = comparisons if len(comparisons) else None
        options = {**self.options, "outcomes": _outcomes(tied)} if tied.any() else self.options
        if np.all(factors == 1.0):
            return self.program, (self._about, pairs), options
        options = {**options, "noise_factor": factors}
        return AnsweredProgram(self.program), (self._about, pairs), options

    def prior(self, params: Mapping[str, Any]) -> SkillPrior:
        """Skills before the first answer at some hyperparameters."""
        return self._read(params)[0]

    def noise(self, params: Mapping[str, Any]) -> float:
        """Standard deviation of a performance."""
        return float(params.get("noise", 1.0))

    def learn(
        self,
        comparisons: NDArray[np.intp],
        tied: NDArray[np.bool_],
        factors: Array,
        start: Mapping[str, Any],
        annotator: NDArray[np.intp] | None = None,
    ) -> dict[str, Array]:
        """Hyperparameters under which the answers are most probable.

        Parameters
        ----------
        comparisons, tied, factors
            The answers, (K, 2), which of them are ties, and the factors of their noise, (K,).
        start
            Where the search starts; with `annotator`, ``annotator_noise`` is among it.
        annotator
            Whose noise is to be learned, too, see `AnsweredProgram`, (K,).

        Returns
        -------
        dict
            Their values; with `annotator`, ``annotator_noise`` is one of them.

        Warns
        -----
        ConvergenceWarning
            If the search has not converged.
        """
        about, pairs = self._compared_only(comparisons)
        ties = bool(tied.any())
        names, options = self.free(ties), self._padded(pairs, tied, factors)
        if annotator is not None:
            count = len(start["annotator_noise"])
            padded = np.zeros(len(options["noise_factor"]), np.intp)
            padded[: len(annotator)] = annotator
            names = (*names, "annotator_noise")
            options = {**options, "annotator": padded, "num_annotators": count}
        maximum = maximize_evidence(
            self._engine,
            about,
            params=self.used(self.fixed, ties),
            init={name: np.asarray(start[name], float) for name in names},
            **options,
        )
        return maximum.params

    def integrate(
        self,
        rng_key: jax.Array,
        comparisons: NDArray[np.intp],
        tied: NDArray[np.bool_],
        factors: Array,
        num_samples: int,
    ) -> IntegratedEPResult:
        """Skills of all items, whatever the hyperparameters that are free may be.

        Parameters
        ----------
        rng_key, num_samples
            Of the posterior draws.
        comparisons, tied, factors
            The answers, as for `learn`.

        Warns
        -----
        ConvergenceWarning
            If the result cannot be relied on.
        """
        return IntegratedEP(self._engine).run(
            rng_key,
            self._about,
            params=self.used(self.fixed, bool(tied.any())),
            num_samples=num_samples,
            **self._padded(comparisons, tied, factors),
        )

    def _padded(
        self, pairs: NDArray[np.intp], tied: NDArray[np.bool_], factors: Array
    ) -> dict[str, Any]:
        """Arguments of the program for answers in a bucket."""
        count, bucket = len(pairs), bucket_of(len(pairs))
        padded = np.tile(np.array([0, 1]), (bucket, 1))
        padded[:count] = pairs
        noise_factor = np.ones(bucket)
        noise_factor[:count] = factors
        options = {**self.options, "comparisons": padded, "noise_factor": noise_factor}
        if tied.any():
            options["outcomes"] = np.full(bucket, 2)
            options["outcomes"][:count] = _outcomes(tied)
        return {**options, "counted": np.arange(bucket) < count}

    def _compared_only(self, comparisons: NDArray[np.intp]) -> tuple[Any, NDArray[np.intp]]:
        """Leave out items that were never compared, down to a number that a bucket fixes."""
        kept = min(self.num_items, 2 * bucket_of(len(comparisons)))
        if "laplacian" in self.options or kept == self.num_items:
            return self._about, comparisons
        compared = np.unique(comparisons)
        others = np.setdiff1d(np.arange(self.num_items), compared)[: kept - compared.size]
        chosen = np.concatenate([compared, others])
        number = np.zeros(self.num_items, np.intp)
        number[chosen] = np.arange(kept)
        about = self._about[chosen] if isinstance(self._about, np.ndarray) else kept
        return about, number[comparisons]

    def _read(self, params: Mapping[str, Any]) -> tuple[SkillPrior, dict[str, Array]]:
        # The prior does not depend on the comparison; without one there is no factor to read.
        with jax.enable_x64(True):
            (mean, covariance, values), _ = self._engine.compiled(
                self._read_prior,
                dict(params),
                (self._about, np.array([[0, 1]])),
                {**self.options, "outcomes": np.array([2])},
            )
        prior = SkillPrior(np.asarray(mean), np.asarray(covariance))
        return prior, {k: np.array(v) for k, v in values.items()}

    def _read_prior(self, params: dict[str, Any], args: tuple, kwargs: dict[str, Any]) -> Any:
        # Until there are answers to learn from, all are at the medians of their priors.
        values = take_inventory(self._engine.model, args, kwargs, params).hyperparameters
        program = self._engine.read(values, *args, **kwargs)
        skills = Rows.identity(program.mean.size, program.mean.dtype)
        covariance = program.problem.prior.alone().covariance_of(skills, skills)
        return (program.mean, covariance, program.hyperparameters), None


def _outcomes(tied: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Outcomes as the programs have them: 1 is a tie, 2 says that the first item won."""
    return np.where(tied, 1, 2)


def skill_program(
    num_items: int, features: Array | None, hyperparameters: Any, ard: bool, laplacian: Any
) -> SkillProgram:
    """The program for what a person asked for.

    Raises
    ------
    ValueError
        If the arguments make no sense, or not together.
    """
    if not isinstance(hyperparameters, Mapping) and hyperparameters not in _CHOICES:
        raise ValueError(
            f"hyperparameters is {hyperparameters!r}; choose {', '.join(map(repr, _CHOICES))}, or "
            "a mapping from names to values"
        )
    options: dict[str, Any] = {"ard": True} if ard else {}
    if laplacian is not None:
        options["laplacian"] = laplacian
    if options and features is None:
        raise ValueError(f"{next(iter(options))} is given without features; pass features")
    if laplacian is not None:  # compiled code does not see its values
        check_laplacian(laplacian, num_items)
    _check_memory(num_items)
    program = SkillProgram(num_items, features, options)
    if isinstance(hyperparameters, Mapping):
        program.fix(hyperparameters)
    return program


def _check_memory(num_items: int) -> None:
    needed, there = _COVARIANCES * 8 * num_items**2, _memory()
    if needed > there:
        raise ValueError(
            f"items holds {num_items} names, whose covariances take {needed / 1e9:.0f} GB of the "
            f"{there / 1e9:.0f} GB that this machine has; make a loop of a few thousand of them, "
            "and carry its answers to the others by PreferenceGP, whose predict takes any features"
        )


def _memory() -> float:
    """Bytes of memory that the machine has, or infinity if it does not say."""
    if not hasattr(os, "sysconf"):
        return float("inf")
    return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
