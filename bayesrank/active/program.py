"""The program behind a loop of questions: its prior, and hyperparameters learned from answers.

Learning compiles once for each bucket of 64, 128, 256, ... answers. It pads answers to a bucket
with rows that do not count. For a Gaussian process without a graph, the evidence leaves out items
that were never compared.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.typing import ArrayLike
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from bayesrank._memory import check_memory
from bayesrank._sizes import next_size
from bayesrank._validate import check_features, check_laplacian, check_positive_values
from bayesrank.active.settle import SkillPrior
from bayesrank.infer import EP, EPResult
from bayesrank.infer.spi import Traced, compiled_call, take_inventory
from bayesrank.models import preference_gp, thurstone
from bayesrank.models.comparisons import (
    feature_kernel,
    independent_skills,
    observe_comparisons,
    process_skills,
)

_SMALLEST_BUCKET = 64
# Covariances of all items that a loop holds at a time: before and after the answers, and in JAX.
_COVARIANCES = 4
_CHOICES = ("integrate", "map", "prior")
# Of the logarithm of judges' noise: 9 of 10 are less than 2.3 times as noisy as the median.
_SPREAD = 0.5

Array = NDArray[np.float64]


class AnswerArrays(NamedTuple):
    """K answers: two items each (K, 2), whether they are ties, and factors of their noise, (K,)."""

    comparisons: NDArray[np.intp]
    tied: NDArray[np.bool_]
    factors: Array


def answered(
    about: Any,
    comparisons: ArrayLike,
    *,
    noise_factor: ArrayLike = 1.0,
    judge: ArrayLike | None = None,
    num_judges: int = 0,
    outcomes: ArrayLike | None = None,
    counted: ArrayLike | None = None,
    ard: bool = False,
    laplacian: Any = None,
) -> None:
    """`bayesrank.models.preference_gp` or `thurstone`, with answers noisier than others.

    Two factors multiply the noise: `noise_factor` (K,) and that of `judge` (K,), 1 to `num_judges`,
    or 0 for nobody. ``judge_noise`` is LogNormal(0.25, 0.5), whose mode is 1.
    """
    noise: Any = noise_factor
    if judge is not None:
        prior = dist.LogNormal(_SPREAD**2, _SPREAD).expand([num_judges]).to_event(1)
        own = jnp.asarray(numpyro.sample("judge_noise", prior))
        noise = noise * jnp.append(1.0, own)[judge]
    if isinstance(about, int):
        skills = independent_skills(about)
    else:
        X = check_features(about, "X")
        kernel, _ = feature_kernel(X.shape[1], ard)
        noise = noise * numpyro.sample("noise", dist.LogNormal(0.0, 0.1))
        skills = process_skills(X, kernel, laplacian=laplacian)
    observe_comparisons(skills, comparisons, noise=noise, outcomes=outcomes, counted=counted)


class SkillProgram:
    """Skills of items before and after answers; `defaults` hold until learned, `fixed` always."""

    # While no answer is a tie, the program knows of no ties, and has no ``tie_width``.

    def __init__(self, num_items: int, features: Array | None, options: Mapping[str, Any]) -> None:
        self.options, self.num_items = dict(options), num_items
        self._about = num_items if features is None else StandardScaler().fit_transform(features)
        self.defaults: dict[str, Array] = self._read({})[1]
        self.fixed: dict[str, Array] = {}

    def fix(self, given: Mapping[str, Any]) -> None:
        """Hold some hyperparameters at given values."""
        shapes = {name: value.shape for name, value in self.defaults.items()}
        self.fixed = check_positive_values(given, shapes, "hyperparameters")
        self.defaults = {**self.defaults, **self.fixed}

    def free(self, ties: bool) -> tuple[str, ...]:
        """Names of the hyperparameters that can be learned, with ties or without."""
        return tuple(name for name in self.used(self.defaults, ties) if name not in self.fixed)

    def used(self, params: Mapping[str, Array], ties: bool) -> dict[str, Array]:
        """Hyperparameters in `params` that the program has, with ties or without."""
        return {k: v for k, v in params.items() if ties or k != "tie_width"}

    def call(self, arrays: AnswerArrays) -> tuple[Callable[..., Any], tuple, dict[str, Any]]:
        """The program and its arguments for some answers, as a person would call it."""
        pairs = arrays.comparisons if len(arrays.comparisons) else None
        options = self.options
        if arrays.tied.any():
            options = {**options, "outcomes": _outcomes(arrays.tied)}
        if np.all(arrays.factors == 1.0):
            program = thurstone if isinstance(self._about, int) else preference_gp
            return program, (self._about, pairs), options
        return answered, (self._about, pairs), {**options, "noise_factor": arrays.factors}

    def prior(self, params: Mapping[str, Any]) -> SkillPrior:
        """Skills before the first answer at some hyperparameters."""
        return self._read(params)[0]

    def noise(self, params: Mapping[str, Any]) -> float:
        """Standard deviation of a performance."""
        return float(params.get("noise", 1.0))

    def learn(
        self, arrays: AnswerArrays, start: Mapping[str, Any], judge: NDArray[np.intp] | None = None
    ) -> dict[str, Array]:
        """The most probable hyperparameters from a start, of judges (K,), too, if it has them."""
        about, pairs = self._compared_only(arrays.comparisons)
        ties = bool(arrays.tied.any())
        names, options = self.free(ties), self._padded(arrays._replace(comparisons=pairs))
        if judge is not None:
            padded = np.zeros(len(options["counted"]), np.intp)
            padded[: len(judge)] = judge
            names = (*names, "judge_noise")
            count = len(start["judge_noise"])
            options = {**options, "judge": padded, "num_judges": count}
        result: Any = EP(answered, hyperparameters="map").run(
            jax.random.key(0),
            about,
            params=self.used(self.fixed, ties),
            init={name: np.asarray(start[name], float) for name in names},
            num_samples=1,
            **options,
        )
        return result.params

    def integrate(self, rng_key: jax.Array, arrays: AnswerArrays, num_samples: int) -> EPResult:
        """Skills of all items, whatever the hyperparameters that are free may be."""
        result: Any = EP(answered).run(
            rng_key,
            self._about,
            params=self.used(self.fixed, bool(arrays.tied.any())),
            num_samples=num_samples,
            **self._padded(arrays),
        )
        return result

    def _padded(self, arrays: AnswerArrays) -> dict[str, Any]:
        """Arguments of the program for answers in a bucket."""
        count = len(arrays.comparisons)
        bucket = next_size(count, _SMALLEST_BUCKET)
        rows = np.tile(np.array([0, 1]), (bucket, 1))
        rows[:count] = arrays.comparisons
        factor = np.ones(bucket)
        factor[:count] = arrays.factors
        options = {**self.options, "comparisons": rows, "noise_factor": factor}
        if arrays.tied.any():
            options["outcomes"] = np.full(bucket, 2)
            options["outcomes"][:count] = _outcomes(arrays.tied)
        return {**options, "counted": np.arange(bucket) < count}

    def _compared_only(self, comparisons: NDArray[np.intp]) -> tuple[Any, NDArray[np.intp]]:
        """Leave out items that were never compared, down to a number that a bucket fixes."""
        kept = min(self.num_items, 2 * next_size(len(comparisons), _SMALLEST_BUCKET))
        if "laplacian" in self.options or kept == self.num_items:
            return self._about, comparisons
        compared = np.unique(comparisons)
        others = np.setdiff1d(np.arange(self.num_items), compared)[: kept - compared.size]
        chosen = np.concatenate([compared, others])
        number = np.zeros(self.num_items, np.intp)
        number[chosen] = np.arange(kept)
        about = kept if isinstance(self._about, int) else self._about[chosen]
        return about, number[comparisons]

    def _read(self, params: Mapping[str, Any]) -> tuple[SkillPrior, dict[str, Array]]:
        """The prior at some hyperparameters, the others being medians; and all of these."""
        # The prior does not depend on the comparison; without one there is no factor to read.
        args = self._about, np.array([[0, 1]])
        options = {**self.options, "outcomes": np.array([2])}
        with jax.enable_x64(True):
            engine = EP(answered)
            program = engine.trace(args, options, params)
            found = compiled_call(_read_prior, engine, program, dict(params))
        (mean, covariance, values), _ = found
        prior = SkillPrior(np.asarray(mean), np.asarray(covariance))
        return prior, {k: np.array(v) for k, v in values.items()}


def _read_prior(engine: EP, source: Traced, params: dict[str, Any]) -> Any:
    """Mean (n,) and covariance (n, n) of the skills, and all hyperparameters."""
    values = take_inventory(source, params).hyperparameters
    program = engine.read_source(source, values)
    prior: Any = program.problem.prior
    return (program.mean, prior.alone().covariance, program.hyperparameters), None


def _outcomes(tied: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Outcomes as the programs have them: 1 is a tie, 2 says that the first item won."""
    return np.where(tied, 1, 2)


def skill_program(
    num_items: int, features: Array | None, hyperparameters: Any, ard: bool, laplacian: Any
) -> SkillProgram:
    """The program for what a person asked for."""
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
    fix = (
        "make a loop of a few thousand of them, and carry its answers to the others by "
        "PreferenceGP, whose predict takes any features"
    )
    check_memory(_COVARIANCES * 8 * num_items**2, f"the covariances of {num_items:,} items", fix)
    program = SkillProgram(num_items, features, options)
    if isinstance(hyperparameters, Mapping):
        program.fix(hyperparameters)
    return program
