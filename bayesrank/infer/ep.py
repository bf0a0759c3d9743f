"""Expectation propagation as an inference engine for plain NumPyro programs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from contextlib import nullcontext
from typing import Any, Literal

import jax
import numpy as np
from jax import Array, core, lax

from bayesrank._validate import check_choice, check_count, check_positive, check_share
from bayesrank.infer import sites
from bayesrank.infer.compiled import ONE_AT_A_TIME, compiled_call
from bayesrank.infer.decisions import decide
from bayesrank.infer.large_solution import match_margins, without_covariance
from bayesrank.infer.posterior import DensePosterior, KeptPosterior
from bayesrank.infer.reader.program import Program, read_program
from bayesrank.infer.reader.traced import Traced, trace
from bayesrank.infer.result import EPResult
from bayesrank.infer.running import BY_EVIDENCE, SweepCallback, check_run, sources_of, warn_of
from bayesrank.infer.sites import EPState, Sites
from bayesrank.infer.solution import (
    Limits,
    Solution,
    Static,
    SweepSettings,
    check_pure,
    found_of,
    packed,
    sweep_on,
)

_STRUCTURES = ("auto", "dense", "factorised", "probes", "low_rank")


class EP:
    """Expectation propagation on a NumPyro program.

    The program's unobserved real-valued sites must be jointly Gaussian at fixed hyperparameters.
    Each element of an observed site's log density sees them through one affine scalar predictor.
    EP finds predictors and likelihoods in the program's trace.

    Parameters
    ----------
    model
        The NumPyro program.
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
        log-concave it is then "factorised", with a warning.

    Examples
    --------
    >>> import jax, numpyro, numpyro.distributions as dist
    >>> from bayesrank.infer import EP
    >>> def model(winner, loser):
    ...     skill = numpyro.sample("skill", dist.Normal(0.0, 1.0).expand([3]))
    ...     numpyro.sample("win", dist.Bernoulli(logits=skill[winner] - skill[loser]), obs=1)
    >>> import numpy as np
    >>> result = EP(model).run(jax.random.key(0), np.array([0, 1]), np.array([1, 2]))
    >>> bool(result.mean["skill"][0] > result.mean["skill"][2])
    True

    References
    ----------
    Minka, T. (2001). A family of algorithms for approximate Bayesian inference. PhD thesis, MIT.
    """

    def __init__(
        self,
        model: Callable[..., Any],
        *,
        power: float = 1.0,
        damping: float = 1.0,
        max_sweeps: int = 200,
        tol: float = 1e-4,
        precision: Literal["float64", "float32"] = "float64",
        structure: Literal["auto", "dense", "factorised", "probes", "low_rank"] = "auto",
    ) -> None:
        _check_settings(power, damping, max_sweeps, tol, precision, structure)
        self.model = model
        self.power = float(power)
        self.damping = float(damping)
        self.max_sweeps = int(max_sweeps)
        self.tol = float(tol) if precision == "float64" else max(float(tol), 1e-3)
        self.precision = precision
        self.structure = structure

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of the engine."""
        names = ("power", "damping", "max_sweeps", "tol", "precision", "structure")
        return {name: getattr(self, name) for name in names}

    def with_settings(self, **changed: Any) -> EP:
        """Make an engine of the same class and program, with the same settings but for these."""
        return type(self)(self.model, **(self.settings | changed))

    # Whether `read_source` asks its source for the program's arguments.
    reads_arguments = False

    @property
    def identity(self) -> Hashable:
        """Equal for engines that can share compiled code; it is given `tol` and `max_sweeps`."""
        numbers = ("tol", "max_sweeps")
        return type(self), tuple((k, v) for k, v in self.settings.items() if k not in numbers)

    # ------------------------------------------------------------ pure functions

    def read_source(self, source: Traced, params: Mapping[str, Any]) -> Program:
        """Read a program with the sites in `params` fixed.

        An engine with another form of posterior overrides this method alone. Pure.
        """
        return read_program(source, params, power=self.power, structure=self.structure)

    def read(self, params: Mapping[str, Any], *args: Any, **kwargs: Any) -> Program:
        """Read the program at given hyperparameters; see `read_program`."""
        return self.read_source(self._checked(args, kwargs, params), params)

    def _checked(self, args: tuple, kwargs: Mapping[str, Any], params: Mapping[str, Any]) -> Traced:
        """`trace`, unless a parameter that is known lies outside of its domain."""
        program = self.trace(args, kwargs, params)
        for domain, holds in program.checked_domains(params):
            if not isinstance(holds, core.Tracer):
                domain.raise_unless(holds)
        return program

    def init(self, params: Mapping[str, Any], *args: Any, **kwargs: Any) -> EPState:
        """State before the first sweep. Pure; `params` fixes sites by name, as in `run`.

        Raises
        ------
        ValueError
            If the posterior has no covariances ("probes", "low_rank"): only `run` sweeps over it.
        """
        program = self.read(params, *args, **kwargs)
        check_pure(program)
        return sites.init(program.problem)

    def step(self, state: EPState, params: Mapping[str, Any], *args: Any, **kwargs: Any) -> EPState:
        """Make one sweep.  Pure, for use under `jit`, `vmap` and `lax.scan`, in JAX's precision."""
        problem = self.read(params, *args, **kwargs).problem
        return sites.step(problem, state, self.damping)

    def solve(
        self,
        params: Mapping[str, Any],
        *args: Any,
        init_sites: Sites | None = None,
        **kwargs: Any,
    ) -> tuple[Program, EPState]:
        """Sweep until convergence, and return the program as read with the last state.

        ``state.max_change`` says how far it came. Pure, like `step`.

        Parameters
        ----------
        params, *args, **kwargs
            As in `run`.
        init_sites
            Sites ``(tau, nu)`` to start from, as in ``state.tau, state.nu`` of an earlier solution.

        Raises
        ------
        ValueError
            If EP cannot take the program, or its posterior has no covariances, as in `init`.
        """
        program = self.read(params, *args, **kwargs)
        check_pure(program)
        return program, self.sweep(program, init_sites, self.limits)

    @property
    def limits(self) -> Limits:
        """Criteria for stopping the sweeps: numbers that compiled code is given."""
        return Limits(self.tol, self.max_sweeps)

    def sweep(
        self,
        program: Program,
        init_sites: Sites | None,
        limits: Limits,
        callback: SweepCallback | None = None,
    ) -> EPState:
        """Sweep over a program that was read, until convergence.  Pure."""
        return sweep_on(program.problem, SweepSettings(self.damping, limits, callback), init_sites)

    def log_evidence(self, params: Mapping[str, Any], *args: Any, **kwargs: Any) -> Array:
        """EP's log evidence, a scalar that can be differentiated; see `evidence_and_state`."""
        return self.evidence_and_state(params, *args, **kwargs)[0]

    def evidence_and_state(
        self,
        params: Mapping[str, Any],
        *args: Any,
        init_sites: Sites | None = None,
        **kwargs: Any,
    ) -> tuple[Array, EPState]:
        """EP's log evidence, differentiable, and the state that it was evaluated at.

        The evidence is the log of the integral of the program's density over its latents, without
        the prior density of the hyperparameters. Its derivative holds sites and cavities fixed, as
        it is stationary in them at EP's fixed point. The state has no derivative. Pure, like
        `step`.

        Parameters
        ----------
        params
            Values of hyperparameters (differentiable), by name; the others take their defaults.
        *args, **kwargs
            Arguments of the program.
        init_sites
            Sites to start from.
        """
        source = self._checked(args, kwargs, params)
        return self.evidence_of(source, params, init_sites, self.limits)[:2]

    def evidence_of(
        self,
        source: Traced,
        params: Mapping[str, Any],
        init_sites: Sites | None,
        limits: Limits,
    ) -> tuple[Array, EPState, Program]:
        """`evidence_and_state` of a source, and the program without derivative."""
        fixed = self.read_source(source.without_derivative(), _without_derivative(dict(params)))
        check_pure(fixed)
        state = self.sweep(fixed, init_sites, limits)
        program = self.read_source(source, params)
        return sites.evidence_at(program.problem, state, differentiable=True), state, fixed

    # ------------------------------------------------------------ running

    def run(
        self,
        rng_key: Array,
        *args: Any,
        params: Mapping[str, Any] | None = None,
        num_samples: int = 1000,
        callback: Callable[[int, float], None] | None = None,
        **kwargs: Any,
    ) -> EPResult:
        """Infer the latents of the program.

        Parameters
        ----------
        rng_key
            Random key of the posterior draws; the posterior itself is deterministic.
        *args, **kwargs
            Arguments of the program, which runs once. Programs that compute the same of arrays of
            the same shapes share compiled code.
        params
            Values of sites to fix, by name. Other hyperparameters take their initial value (`param`
            sites) or the median of their prior.
        num_samples
            Number of posterior draws of the result.
        callback
            Called after each sweep with its number and the largest move of a margin, in posterior
            standard deviations. An error in it is raised when the sweeps have ended. Later sweeps
            of "probes" and "low_rank" do not call it.

        Raises
        ------
        ValueError, TypeError
            If EP cannot take the program; the message names the site, the problem and the fix. If
            `rng_key` is not a random key, or an argument is being traced.

        Warns
        -----
        ConvergenceWarning
            If EP has not converged after `max_sweeps` sweeps.
        AccuracyWarning
            If the quadrature of a factor missed over 1% of its mass, or has its mean or standard
            deviation wrong by over 0.03 standard deviations.
        """
        sources = sources_of(params or {})
        params = dict(params or {})
        check_run(rng_key, num_samples, (params, args, kwargs))
        with jax.enable_x64(self.precision == "float64"):
            # What was learned is free, as in the search for it, whose code then serves here.
            given = {k: v for k, v in params.items() if sources[k] != BY_EVIDENCE}
            program = self.trace(args, kwargs, given)
            watched = callback is not None
            with _CALLBACK.passing_to(callback) if watched else nullcontext():
                found = self.solve_traced(program, params, watched=watched)
            result = self.result_of(found, program, rng_key, args, kwargs, num_samples, sources)
        warn_of(result, tol=self.tol, structure=self.structure)
        return result

    def trace(self, args: tuple, kwargs: Mapping[str, Any], params: Mapping[str, Any]) -> Traced:
        """Run the program once, and keep what it computes, see `bayesrank.infer.reader.traced`."""
        with ONE_AT_A_TIME:
            kept = self.reads_arguments
            program = trace(self.model, args, kwargs, params, keep_arguments=kept)
        return program if kept else decide(self, program, params)

    def result_of(
        self,
        found: tuple[Solution, Static],
        program: Traced,
        rng_key: Array,
        args: tuple,
        kwargs: Mapping[str, Any],
        num_samples: int = 1,
        sources: Mapping[str, str] | None = None,
    ) -> EPResult:
        """What compiled code has found, unless it is to be refused."""
        solved, (layout, refusals) = found
        for refusal, passed in zip(refusals, solved.checks, strict=True):
            refusal.raise_unless(np.asarray(passed))
        if solved.large is None:
            posterior = DensePosterior(np.asarray(solved.covariance, float))
        else:
            solved, posterior = self._kept(solved, layout.size, program)
        return EPResult(
            model=self.model,
            model_args=args,
            model_kwargs=dict(kwargs),
            power=self.power,
            sources=dict(sources or {}),
            num_samples=int(num_samples),
            rng_key=rng_key,
            posterior=posterior,
            **found_of(solved, layout, self.tol),
        )

    def solve_traced(
        self,
        program: Traced,
        params: Mapping[str, Any],
        init_sites: Sites | None = None,
        *,
        limits: Limits | None = None,
        watched: bool = False,
    ) -> tuple[Solution, Static]:
        """Sweep until convergence, as far as compiled code goes."""
        point = dict(params), init_sites, limits or self.limits
        return compiled_call(_solved, self, program, point, watched)

    def posterior_at(
        self, program: Traced, params: Mapping[str, Any], init_sites: Sites
    ) -> tuple[Solution, KeptPosterior | None]:
        """Sweep from given sites to a posterior without covariances, at hyperparameters `params`.

        The posterior is None if a check of the program fails at these hyperparameters, or its prior
        or rows are not numbers.
        """
        solved, (layout, _) = self.solve_traced(program, params)
        numbers = all(np.all(np.isfinite(array)) for array in jax.tree.leaves(solved.large))
        if not (numbers and all(np.all(passed) for passed in solved.checks)):
            return solved, None
        tau, nu = init_sites
        start = solved.state._replace(tau=tau, nu=nu)
        return self._kept(solved._replace(state=start), layout.size, program)

    def _kept(self, solved: Solution, size: int, program: Traced) -> tuple[Solution, KeptPosterior]:
        """Where EP ends, and the posterior of `size` latents without their joint covariance."""

        def rematch(*numbers: Any) -> Any:
            point = solved.hyperparameters, *numbers
            return compiled_call(_rematched, self, program, point)[0]

        return without_covariance(solved, self, size, rematch)


# What compiled sweeps call, and passes on to whom a run names.
_CALLBACK = SweepCallback()


def _solved(
    engine: EP,
    source: Traced,
    point: tuple[dict[str, Any], Sites | None, Limits],
    watched: bool,
) -> tuple[Solution, Static]:
    params, init_sites, limits = point
    program = engine.read_source(source, params)
    state = engine.sweep(program, init_sites, limits, _CALLBACK if watched else None)
    found = sites.evidence_at(program.problem, state)
    return packed(program, state, source.checked_domains(params), found)


def _rematched(engine: EP, source: Traced, point: tuple[Any, ...]) -> tuple[Any, None]:
    params, *numbers = point
    return match_margins(engine.read_source(source, params).problem, *numbers), None


def _without_derivative(tree: Any) -> Any:
    return jax.tree.map(lambda x: lax.stop_gradient(x) if isinstance(x, Array) else x, tree)


def _check_settings(
    power: float, damping: float, max_sweeps: int, tol: float, precision: str, structure: str
) -> None:
    check_share(power, "power", one=True)
    check_share(damping, "damping", one=True)
    check_count(max_sweeps, "max_sweeps")
    check_positive(tol, "tol")
    check_choice(precision, "precision", "float64", "float32")
    check_choice(structure, "structure", *_STRUCTURES)
