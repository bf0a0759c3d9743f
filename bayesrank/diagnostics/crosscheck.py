"""Does EP get this program right? EP, NUTS and SVI on the same program, compared.

All engines infer the latents at the fixed hyperparameters of EP, so they approximate one posterior.
NUTS, which is right in the limit, is the reference. NUTS and SVI run in double precision on the
whitened program (`bayesrank.infer.whitening`). Its prior is standard normal, and the linear map to
the latents is ready-made, so no step factors a covariance. If EP has integrated over the
hyperparameters, NUTS draws them too.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import Array, lax
from numpy.typing import NDArray
from numpyro import optim, validation_enabled
from numpyro.distributions import constraints
from numpyro.infer import SVI, Trace_ELBO, autoguide, init_to_value

from bayesrank._memory import TooLargeError
from bayesrank._validate import check_choice, check_count, check_positive
from bayesrank.diagnostics.crosscheck_result import CrossCheck, EngineRun, NUTSResult
from bayesrank.diagnostics.full_check import Chains, against_nuts, claim_of
from bayesrank.diagnostics.verdict import (
    Comparison,
    Sizes,
    Verdict,
    compared,
    judge,
    judge_alone,
    references_of,
)
from bayesrank.infer import EP, EPResult
from bayesrank.infer.spi import (
    WhiteProgram,
    importance_sampler,
    jit,
    keys_from,
    run_nuts,
    split,
    white_posterior,
    without_stale_traces,
)

_CHUNK = 100
_FULL_RANK = 400  # beyond this number of latents the guide has low rank
_PARTICLES = 10
_STEP_SIZE = 0.02


def run_svi(
    program: WhiteProgram, rng_key: Array, num_steps: int, advance: Callable[[float], None]
) -> tuple[Array, Array]:
    """Mean (n,) and covariance (n, n) by SVI; of more than 400 latents by a guide of low rank."""
    small = program.size <= _FULL_RANK
    family = autoguide.AutoMultivariateNormal if small else autoguide.AutoLowRankMultivariateNormal
    zeros = jnp.zeros(program.size)

    def model() -> None:
        flat = dist.ImproperUniform(constraints.real_vector, (), (program.size,))
        numpyro.factor("log_joint", program.log_joint(jnp.asarray(numpyro.sample("z", flat))))

    guide = family(model, init_loc_fn=init_to_value(values={"z": zeros}), init_scale=0.5)

    def step_size(i: Array) -> Array:
        late = jnp.clip(2.0 * i / num_steps - 1.0, 0.0, 1.0)
        return _STEP_SIZE * 0.01**late

    svi = SVI(model, guide, optim.Adam(step_size), Trace_ELBO(num_particles=_PARTICLES))
    state = jit(svi.init)(rng_key)

    @jit
    def update(state: Any, number: Array) -> Any:
        return lax.fori_loop(0, number, lambda _, state: svi.update(state)[0], state)

    for first in range(0, num_steps, _CHUNK):
        done = min(first + _CHUNK, num_steps)
        state = update(state, done - first)
        jax.block_until_ready(state)
        advance(done / num_steps)

    @jit
    def moments(state: Any) -> tuple[Array, Array]:
        posterior = guide.get_posterior(svi.get_params(state))
        return posterior.mean, posterior.covariance_matrix

    return moments(state)


ShareReport = Callable[[str, float], None]

_ENGINES = ("ep", "nuts", "svi")


class _EngineFit(NamedTuple):
    """An engine's run, with importance weights, and its Gaussian: mean (n,), covariance (n, n)."""

    run: EngineRun
    mean: NDArray[np.float64]
    covariance: NDArray[np.float64]


def crosscheck(
    model: Callable[..., Any] | EPResult,
    *args: Any,
    engines: Sequence[str] | None = None,
    params: Mapping[str, Any] | None = None,
    rng_key: Array | None = None,
    num_warmup: int = 500,
    num_samples: int = 1000,
    num_chains: int = 4,
    num_steps: int = 2000,
    contrast: Literal["elements", "pairs"] = "elements",
    tolerance: float = 0.1,
    progress_bar: bool = True,
    progress: ShareReport | None = None,
    **kwargs: Any,
) -> CrossCheck:
    """Run several engines on one program and compare their posteriors.

    Parameters
    ----------
    model
        A program that EP can take, or a result of EP, which is checked at its own arguments and
        hyperparameters. Where these were averaged over, as by default, EP is compared with NUTS
        over latents and hyperparameters together. That takes longer than at fixed hyperparameters,
        since every step of NUTS makes the prior anew (and factors the covariance of a Gaussian
        process). The hyperparameters are compared on their unconstrained scale, of positive ones
        the logarithm.
    *args, **kwargs
        Arguments of the program.
    engines
        Which engines to run: "ep" and "svi" are checked against "nuts". Without "nuts" they are
        checked by importance sampling alone. By default all three; "ep" and "nuts" alone where
        hyperparameters were averaged over.
    params
        Values of sites to hold fixed, by name. All engines work at these same values.
    rng_key
        Random key; ``jax.random.key(0)`` if not given.
    num_warmup, num_samples, num_chains
        Steps of NUTS's adaptation and draws kept, of each chain, and number of chains, which run
        one after the other.
    num_steps
        Number of optimisation steps of SVI.
    contrast
        What to compare: "elements" of the latent sites, or "pairs", the differences ``f_i - f_j``
        within each site, which are all that a ranking depends on; of more than 1,000 pairs in a
        site, that many drawn at random.
    tolerance
        Largest error that does not matter: of means in posterior standard deviations, and of
        standard deviations relative to NUTS's.
    progress_bar
        Whether to show a progress bar on standard error.
    progress
        Called with the name of the engine at work and the share of its work that is done.

    Returns
    -------
    CrossCheck
        Print it for the table and the verdicts.

    Raises
    ------
    ValueError
        If an argument is out of range, EP cannot take the program, or it keeps no covariances of so
        many latents.

    Examples
    --------
    >>> import jax.numpy as jnp, numpyro, numpyro.distributions as dist
    >>> def model(winner, loser):
    ...     skill = numpyro.sample("skill", dist.Normal(0.0, 1.0).expand([3]))
    ...     margin = skill[winner] - skill[loser]
    ...     numpyro.sample("win", dist.Bernoulli(logits=margin), obs=jnp.ones(margin.shape))
    >>> winner, loser = np.array([0, 1, 0]), np.array([1, 2, 2])
    >>> check = crosscheck(model, winner, loser, engines=("ep",), progress_bar=False)
    >>> check.verdict.sentence
    'Importance sampling confirms EP (k-hat ..., divergence ...): use EP.'
    """
    _check_engines(engines, bool(getattr(model, "hyperparameters", {})))
    _check_settings(num_warmup, num_samples, num_chains, num_steps, contrast, tolerance)
    ep_key, nuts_key, svi_key = keys_from(jax.random.key(0) if rng_key is None else rng_key, 3)
    lengths = (num_warmup, num_samples, num_chains)
    with _reporting(progress, progress_bar) as report:
        ep, ep_seconds = _ep_result(model, ep_key, args, kwargs, params, report)
        chosen = _check_engines(engines, bool(ep.hyperparameters))
        if ep.hyperparameters:
            chains = Chains(nuts_key, lengths, lambda share: report("nuts", share))
            return against_nuts(claim_of(ep), chains, contrast == "pairs", tolerance, ep)
        _refuse_large(ep)
        keys = {"ep": ep_key, "nuts": nuts_key, "svi": svi_key}
        keys = {engine: keys[engine] for engine in chosen}
        fits, runs, nuts = _run_engines(ep, ep_seconds, keys, lengths, num_steps, report)
    references = () if nuts is None else references_of(nuts.draws, ep.shapes, contrast == "pairs")
    comparisons = tuple(
        compared(r, engine, fit.mean, fit.covariance, ep.shapes)
        for engine, fit in fits.items()
        for r in references
    )
    divergent = 0 if nuts is None else nuts.num_divergent
    sizes = Sizes(*lengths, divergent)
    return CrossCheck(
        runs={engine: runs[engine] for engine in chosen},
        references=references,
        comparisons=comparisons,
        verdicts={e: _judge(fit, comparisons, sizes, tolerance) for e, fit in fits.items()},
        params=ep.params,
        tolerance=float(tolerance),
        ep=ep if "ep" in fits else None,
        nuts=nuts,
    )


# ---------------------------------------------------------------- engines


def _ep_result(
    model: Any,
    rng_key: Array,
    args: tuple,
    kwargs: dict[str, Any],
    params: Mapping[str, Any] | None,
    report: ShareReport,
) -> tuple[Any, float]:
    """EP's result and the seconds it took; `model` is a program or such a result."""
    if not callable(model):
        _refuse_arguments(args, kwargs, params)
        return model, np.nan
    run = EP(model).run
    found = _timed(lambda advance: run(rng_key, *args, params=params, **kwargs), "ep", report)
    report("ep", 1.0)
    return found


def _timed(
    work: Callable[[Callable[[float], None]], Any], engine: str, report: ShareReport
) -> tuple[Any, float]:
    """What an engine finds, and the seconds it took; the work reports the share that is done."""
    start = time.perf_counter()
    report(engine, 0.0)
    found = work(lambda share: report(engine, share))
    return found, time.perf_counter() - start


def _run_engines(
    ep: EPResult,
    ep_seconds: float,
    keys: Mapping[str, Array],
    lengths: tuple[int, int, int],
    num_steps: int,
    report: ShareReport,
) -> tuple[dict[str, _EngineFit], dict[str, EngineRun], NUTSResult | None]:
    """Fits of EP and SVI, runs of all engines that have a key, and NUTS's draws."""
    fits, runs, nuts = {}, {}, None
    with jax.enable_x64(True), validation_enabled(False):
        program = without_stale_traces(lambda: white_posterior(ep))
        weigh = importance_sampler(program)
        if "ep" in keys:
            weights = weigh(keys["ep"], *program.whiten_moments(ep.joint_mean, ep.joint_covariance))
            run = EngineRun("ep", ep_seconds, ep.log_evidence, weights, _complaint(ep))
            fits["ep"] = _EngineFit(run, ep.joint_mean, ep.joint_covariance)
        if "nuts" in keys:
            chains = partial(run_nuts, program, keys["nuts"], *lengths)
            (flat, divergent), seconds = _timed(chains, "nuts", report)
            draws = {name: np.asarray(value) for name, value in split(flat, ep.shapes).items()}
            called = ep.model, ep.model_args, ep.model_kwargs, ep.params
            nuts, runs["nuts"] = NUTSResult(*called, divergent, draws), EngineRun("nuts", seconds)
        if "svi" in keys:
            steps = partial(run_svi, program, keys["svi"], num_steps)
            moments, seconds = _timed(steps, "svi", report)
            white = tuple(map(np.asarray, moments))
            weights = weigh(keys["svi"], *white)
            run = EngineRun("svi", seconds, weights.elbo, weights)
            fits["svi"] = _EngineFit(run, *program.colour_moments(*white))
    return fits, runs | {engine: fit.run for engine, fit in fits.items()}, nuts


def _refuse_large(ep: EPResult) -> None:
    """Refuse a posterior without covariances before NUTS and SVI take their time over it."""
    if ep.structure != "dense":
        raise TooLargeError(
            f"EP keeps no covariances of {ep.joint_mean.size:,} latents, and NUTS takes very long; "
            "see result.approximation, or check a smaller model"
        )


def _complaint(ep: EPResult) -> str | None:
    if ep.converged:
        return None
    return (
        f"has not converged after {ep.num_sweeps} sweeps: run it with power=0.5 or more "
        "max_sweeps, and give its result to crosscheck."
    )


# ---------------------------------------------------------------- comparison


def _judge(
    fit: _EngineFit, comparisons: Sequence[Comparison], sizes: Sizes, tolerance: float
) -> Verdict:
    weights: Any = fit.run.weights  # which NUTS alone has none of
    mine = [each for each in comparisons if each.engine == fit.run.engine]
    if mine:
        return judge(mine, sizes, tolerance, fit.run.warning)
    return judge_alone(fit.run.engine, weights, tolerance, fit.run.warning)


# ---------------------------------------------------------------- arguments and progress


def _refuse_arguments(
    args: tuple, kwargs: Mapping[str, Any], params: Mapping[str, Any] | None
) -> None:
    if args or kwargs or params:
        raise ValueError(
            "model is a result of EP, which has its own arguments and hyperparameters; leave out "
            "args, kwargs and params"
        )


def _check_engines(engines: Sequence[str] | None, mixture: bool) -> tuple[str, ...]:
    if engines is None:
        return _ENGINES[:2] if mixture else _ENGINES
    chosen = (engines,) if isinstance(engines, str) else tuple(engines)
    if mixture and set(chosen) != set(_ENGINES[:2]):
        raise ValueError(
            "engines must be 'ep' and 'nuts' where hyperparameters were integrated over, got "
            f"{chosen!r}; importance sampling alone is in the result's accuracy"
        )
    for engine in chosen:
        if engine not in _ENGINES or chosen.count(engine) > 1:
            raise ValueError(f"engines must be different ones of {_ENGINES}, got {chosen!r}")
    if not {"ep", "svi"} & set(chosen):
        raise ValueError(
            f"engines must name an engine to check, 'ep' or 'svi' or both, got {chosen!r}"
        )
    return chosen


def _check_settings(
    num_warmup: int,
    num_samples: int,
    num_chains: int,
    num_steps: int,
    contrast: str,
    tolerance: float,
) -> None:
    check_count(num_warmup, "num_warmup")
    check_count(num_samples, "num_samples", 4)
    check_count(num_chains, "num_chains")
    check_count(num_steps, "num_steps")
    check_choice(contrast, "contrast", "elements", "pairs")
    check_positive(tolerance, "tolerance")


@contextmanager
def _reporting(progress: ShareReport | None, progress_bar: bool) -> Iterator[ShareReport]:
    """What to call with an engine's name and the share of its work that is done."""
    if not progress_bar:
        yield progress or (lambda engine, share: None)
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bars:
        tasks = {}

        def report(engine: str, share: float) -> None:
            if engine not in tasks:
                tasks[engine] = bars.add_task(engine.upper(), total=1.0)
            bars.update(tasks[engine], completed=share)
            if progress is not None:
                progress(engine, share)

        yield report
