"""Is the fast fit right? Importance sampling always, and NUTS where it is short.

Skills against NUTS where a program has further latents: judges, orders, times.

NUTS draws all latents at the hyperparameters of the fit; only the skills are compared.

The sizes of the program alone decide what runs, so a seed gives one verdict on every machine.
"""

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from bayesrank._memory import TooLargeError, check_memory
from bayesrank.datasets import ComparisonData
from bayesrank.datasets.outcomes import TIE, WIN
from bayesrank.diagnostics.crosscheck import crosscheck
from bayesrank.diagnostics.crosscheck_result import CrossCheck
from bayesrank.diagnostics.full_check import Chains, Claim, against_nuts
from bayesrank.infer import EPResult
from bayesrank.infer.spi import DensePosterior, ImportanceCheck, run_with
from bayesrank.models import judged_comparisons, preference_gp, thurstone
from bayesrank.solvers.comparisons import ArenaFit
from bayesrank.solvers.comparisons.terms import arguments_of

Array = NDArray[np.float64]

_EFFECTS = ("position_effect", "covariate_effect", "tie_width")
_OF_LOGS = ("category_skill", "reliability", "bias", "taste", *_EFFECTS)
_SCALE_DRAWS = 100  # by which NUTS's scale is set


def skills_of_log(data: ComparisonData, fit: ArenaFit) -> Claim:
    """The claim of the solver for logs; equal comparisons are one with a weight."""
    n, rows = fit.num_items, data.distinct()
    params = {name: np.asarray(value) for name, value in fit.scales.items()}
    width = fit.log_tie_width
    if width is not None and width[1] > 0.0:  # it was learned, and is uncertain
        del params["tie_width"]
    hidden = tuple(name for name in _OF_LOGS if name not in params)
    said = {**arguments_of(rows), **({} if fit.tasted is None else {"tastes": True})}
    called = judged_comparisons, (n, rows.comparisons), said, params
    return _claim(called, fit.mean[:n], fit.covariance[:n, :n], hidden)


def skills_of_result(result: Any) -> Claim:
    """The claim of a result of EP, at the hyperparameters that count most."""
    component = max(result.components(), key=lambda each: each.weight)
    moments, n = component.moments, int(np.prod(result.shapes["f"]))
    start = list(moments.shapes).index("f")
    first = sum(int(np.prod(shape)) for shape in list(moments.shapes.values())[:start])
    own = slice(first, first + n)
    params = {**result.params, **component.params}
    called = result.model, result.model_args, result.model_kwargs, params
    hidden = (*result.marginalized_sites, *(name for name in result.shapes if name != "f"))
    return _claim(called, moments.joint_mean[own], moments.joint_covariance[own, own], hidden)


def _claim(called: Any, mean: Array, covariance: Array, hidden: tuple[str, ...]) -> Claim:
    random = np.random.default_rng(0).standard_normal((_SCALE_DRAWS, len(mean)))
    draws = {"f": mean + random * np.sqrt(np.diagonal(covariance))}
    return Claim(called, mean, covariance, {"f": mean.shape}, draws, hidden)


def claim_size(claim: Claim) -> tuple[int, int]:
    """How many rows the program is called with, and how many latents it has."""
    columns = jax.tree.leaves(claim.called[1])
    rows = max(np.shape(column)[0] for column in columns if np.ndim(column))
    with jax.enable_x64(True):
        return rows, _num_latents(claim)


def _num_latents(claim: Claim) -> int:
    """Number of skills and of the latents beside them, by the program's shapes alone."""
    model, args, kwargs, params = claim.called

    def hidden() -> list[Any]:
        sites = run_with(model, args, kwargs, {**params, "f": claim.mean})
        return [sites[name]["value"] for name in claim.hidden if name in sites]

    return claim.mean.size + sum(each.size for each in jax.eval_shape(hidden))


NUTS: dict[str, Any] = {"num_warmup": 250, "num_samples": 500, "num_chains": 4, "tolerance": 0.15}
# Beyond these sizes NUTS takes longer than half a minute or so, and is run if asked for. Latents of
# judges, categories and times cost little.
MOST_ROWS, MOST_LATENTS, MOST_WITH_FURTHER = 2_000, 500, 2_000
_DRAWS = 2000
_IN_PYTHON = re.compile(r": run (?:it|again) with .*")


class Crosschecked(NamedTuple):
    """What the cross-check found; None for what was not possible, or takes too long."""

    importance: ImportanceCheck | None  # by importance sampling
    check: CrossCheck | None  # against NUTS

    def named(self, names: Sequence[str]) -> "Crosschecked":
        """The same as a person who ranks reads it.

        The sentences have the names of items, whose skills are the site `f`, and no advice on
        arguments that `rank` does not have.
        """
        if self.check is None:
            return self

        def skill(number: re.Match[str]) -> str:
            return f"the skill of {names[int(number[1])]}"

        verdicts = {
            engine: verdict._replace(
                sentence=re.sub(r"\bf\[(\d+)\]", skill, _IN_PYTHON.sub(".", verdict.sentence))
            )
            for engine, verdict in self.check.verdicts.items()
        }
        return self._replace(check=replace(self.check, verdicts=verdicts))


def crosschecked(
    result: EPResult, how: str, seed: int, progress: Callable[[float], None]
) -> Crosschecked:
    """Check a result by importance sampling, and by NUTS where it is small or `how` is "full"."""
    result = with_distinct_rows(result)
    with warnings.catch_warnings():  # what they say is in the sentence on the check
        warnings.simplefilter("ignore")
        importance = result.accuracy
    if how != "full" and not _is_small(result):
        return Crosschecked(importance, None)
    full = how == "full"
    check = _against_nuts(result, full, seed, lambda engine, share: progress(share))
    return Crosschecked(importance, check)


def crosschecked_skills(
    fit: Claim, how: str, seed: int, progress: Callable[[float], None]
) -> Crosschecked:
    """Check skills of a program with further latents, by NUTS where it is small."""
    full = how == "full"
    # A step costs more than where skills are all that is drawn.
    num_samples = NUTS["num_samples"] if full else NUTS["num_samples"] // 2
    try:
        rows, latents = claim_size(fit)
        what = f"NUTS's draws of {latents:,} latents"
        check_memory(8 * NUTS["num_chains"] * num_samples * latents, what, "leave this check out")
    except TooLargeError:
        if full:
            raise
        return Crosschecked(None, None)
    if not full and (rows > MOST_ROWS or latents > MOST_WITH_FURTHER):
        return Crosschecked(None, None)
    lengths = NUTS["num_warmup"], num_samples, NUTS["num_chains"]
    chains = Chains(jax.random.key(seed), lengths, progress)
    return Crosschecked(None, against_nuts(fit, chains, True, NUTS["tolerance"]))


def _is_small(result: EPResult) -> bool:
    rows = max(len(column) for column in map(np.atleast_1d, jax.tree.leaves(result.model_args)))
    return rows <= MOST_ROWS and result.joint_mean.size <= MOST_LATENTS


def _against_nuts(
    result: EPResult,
    full: bool,
    seed: int,
    progress: Callable[[str, float], None],
) -> CrossCheck:
    """Compare EP with NUTS; unless in full, a mixture at the scales that count most."""
    return crosscheck(
        heaviest(result) if result.hyperparameters and not full else result,
        engines=("ep", "nuts"),
        contrast="pairs",
        rng_key=jax.random.key(seed),
        progress_bar=False,
        progress=progress,
        **NUTS,
    )


def heaviest(result: Any) -> EPResult:
    """The component of a mixture that counts most, as what EP returns there.

    NUTS judges it; that EP did not converge at other values of the hyperparameters says nothing of
    it.
    """
    component = max(result.components(), key=lambda each: each.weight)
    return EPResult(
        shapes=result.shapes,
        joint_mean=component.moments.joint_mean,
        posterior=component.moments.posterior,
        model=result.model,
        model_args=result.model_args,
        model_kwargs=result.model_kwargs,
        params=component.params,
        converged=True,
        log_evidence=np.nan,
        num_samples=result.num_samples,
        rng_key=jax.random.key(0),
    )


def result_of_log(data: ComparisonData, fit: ArenaFit) -> EPResult:
    """The fit of a log without judges and categories, at its scales, as what EP returns there."""
    n, rows = fit.num_items, data.distinct()
    mean, covariance = fit.mean, fit.covariance
    params = {name: np.asarray(value) for name, value in fit.scales.items()}
    if fit.with_ties:  # its width is held where it is most probable
        last, (mean, covariance) = covariance[-1], (mean[:-1], covariance[:-1, :-1])
        covariance = covariance - np.outer(last[:-1], last[:-1]) / (last[-1] or np.inf)
    return EPResult(
        shapes={
            "f": (n,),
            **({"covariate_effect": (fit.num_covariates,)} if fit.num_covariates else {}),
            **({"position_effect": ()} if fit.with_position else {}),
        },
        joint_mean=mean,
        posterior=DensePosterior(covariance),
        model=thurstone,
        model_args=(n, rows.comparisons),
        model_kwargs=arguments_of(rows),
        params=params,
        converged=fit.converged,
        log_evidence=np.nan,
        num_samples=_DRAWS,
        rng_key=jax.random.key(0),
    )


def with_distinct_rows(result: EPResult) -> EPResult:
    """The same posterior, of a program that gets equal comparisons as one with a weight."""
    if result.model not in (preference_gp, thurstone):
        return result
    items, pairs = result.model_args
    kwargs = dict(result.model_kwargs)
    outcomes = kwargs.get("outcomes")
    tied = np.zeros(len(pairs), bool) if outcomes is None else np.asarray(outcomes) == TIE
    columns = ("weights", "position", "judges", "categories", "covariates")
    said: dict[str, Any] = {
        name: np.array(kwargs[name]) for name in columns if kwargs.get(name) is not None
    }
    names: Any = tuple(range(int(np.max(pairs, initial=-1)) + 1))
    every = ComparisonData(names, np.array(pairs), tied, **said)
    data = every.distinct()
    if data.num_comparisons == every.num_comparisons:
        return result
    kwargs |= {name: getattr(data, name) for name in (*said, "weights")}
    if outcomes is not None:
        kwargs["outcomes"] = np.where(data.tied, TIE, WIN)
    return replace(result, model_args=(items, data.comparisons), model_kwargs=kwargs)
