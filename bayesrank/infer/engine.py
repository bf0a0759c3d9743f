"""Expectation propagation on a NumPyro program whose hyperparameters have values."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Literal, Self

import jax
import numpy as np
from jax import Array, core, lax

from bayesrank._validate import check_choice, check_count, check_positive, check_share
from bayesrank.infer import sites
from bayesrank.infer.compiled import ONE_AT_A_TIME, compiled_call
from bayesrank.infer.decisions import resolve_structure
from bayesrank.infer.large_solution import match_margins, without_covariance
from bayesrank.infer.posterior import DensePosterior, KeptPosterior
from bayesrank.infer.reader.freeze import frozen
from bayesrank.infer.reader.program import Program, read_program
from bayesrank.infer.reader.traced import Traced, trace
from bayesrank.infer.result import EPResult
from bayesrank.infer.running import Call, SweepCallback
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

_WAYS = ("integrate", "nuts", "map", "prior")
_STRUCTURES = ("auto", "dense", "factorised", "probes", "low_rank")


class Engine:
    """EP at given hyperparameters, as pure functions and as compiled code; see `EP` for `run`.

    Parameters
    ----------
    model, hyperparameters, power, damping, max_sweeps, tol, precision, structure
        As of `EP`.
    """

    def __init__(
        self,
        model: Callable[..., Any],
        *,
        hyperparameters: Literal["integrate", "nuts", "map", "prior"]
        | Mapping[str, Any] = "integrate",
        power: float = 1.0,
        damping: float = 1.0,
        max_sweeps: int = 200,
        tol: float = 1e-4,
        precision: Literal["float64", "float32"] = "float64",
        structure: Literal["auto", "dense", "factorised", "probes", "low_rank"] = "auto",
    ) -> None:
        _check_settings(power, damping, max_sweeps, tol, precision, structure)
        self.model = model
        self.hyperparameters = _checked_choice(hyperparameters)
        self.power = float(power)
        self.damping = float(damping)
        self.max_sweeps = int(max_sweeps)
        self.tol = float(tol) if precision == "float64" else max(float(tol), 1e-3)
        self.precision = precision
        self.structure = structure

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of the engine."""
        names = (
            "hyperparameters",
            "power",
            "damping",
            "max_sweeps",
            "tol",
            "precision",
            "structure",
        )
        return {name: getattr(self, name) for name in names}

    def with_settings(self, **changed: Any) -> Self:
        """Make an engine of the same class and program, with the same settings but for these."""
        return type(self)(self.model, **(self.settings | changed))

    # Whether `read_source` asks its source for the program's arguments.
    reads_arguments = False

    @property
    def identity(self) -> Hashable:
        """Equal for engines that can share compiled code: their class and attributes.

        Code is given `tol`, `max_sweeps` and values of hyperparameters, which are left out.
        """
        given = ("model", "hyperparameters", "tol", "max_sweeps")
        return type(self), frozen({k: v for k, v in vars(self).items() if k not in given})

    def given(self, params: Mapping[str, Any] | None) -> dict[str, Any]:
        """Values of sites that are fixed: by the engine's `hyperparameters`, and by a call."""
        choice = self.hyperparameters
        return {**({} if isinstance(choice, str) else choice), **(params or {})}

    # ------------------------------------------------------------ pure functions

    def read_source(self, source: Traced, params: Mapping[str, Any]) -> Program:
        """Read a program with the sites in `params` fixed.

        An engine with another form of posterior overrides this method alone. Pure.
        """
        return read_program(source, params, power=self.power, structure=self.structure)

    def read(self, params: Mapping[str, Any], *args: Any, **kwargs: Any) -> Program:
        """Read the program at given hyperparameters; see `read_program`."""
        params = self.given(params)
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
        program = self.read(params, *args, **kwargs)
        check_pure(program)
        return sites.step(program.problem, state, self.damping)

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
        params = self.given(params)
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

    # ------------------------------------------------------------ compiled code

    def trace(self, args: tuple, kwargs: Mapping[str, Any], params: Mapping[str, Any]) -> Traced:
        """Run the program once, and keep what it computes, see `bayesrank.infer.reader.traced`."""
        with ONE_AT_A_TIME:
            kept = self.reads_arguments
            program = trace(self.model, args, kwargs, params, keep_arguments=kept)
        return program if kept else resolve_structure(self, program, params)

    def result_of(
        self, found: tuple[Solution, Static], call: Call, params: Mapping[str, Any]
    ) -> EPResult:
        """What compiled code has found at values of sites, unless it is to be refused."""
        solved, (layout, refusals) = found
        for refusal, passed in zip(refusals, solved.checks, strict=True):
            refusal.raise_unless(np.asarray(passed))
        if solved.large is None:
            posterior = DensePosterior(np.asarray(solved.covariance, float))
        else:
            solved, posterior = self._kept(solved, layout.size, call.program)
        return EPResult(
            model=self.model,
            model_args=call.args,
            model_kwargs=call.kwargs,
            power=self.power,
            sources={name: call.source_of(name) for name in params},
            num_samples=int(call.num_samples),
            rng_key=call.rng_key,
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
CALLBACK = SweepCallback()


def _solved(
    engine: Engine,
    source: Traced,
    point: tuple[dict[str, Any], Sites | None, Limits],
    watched: bool,
) -> tuple[Solution, Static]:
    params, init_sites, limits = point
    program = engine.read_source(source, params)
    state = engine.sweep(program, init_sites, limits, CALLBACK if watched else None)
    found = sites.evidence_at(program.problem, state)
    return packed(program, state, source.checked_domains(params), found)


def _rematched(engine: Engine, source: Traced, point: tuple[Any, ...]) -> tuple[Any, None]:
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


def _checked_choice(hyperparameters: Any) -> Any:
    """One of the ways to treat hyperparameters, or values of some by name."""
    if isinstance(hyperparameters, Mapping):
        return dict(hyperparameters)
    if isinstance(hyperparameters, str) and hyperparameters in _WAYS:
        return hyperparameters
    raise ValueError(
        f"hyperparameters is {hyperparameters!r}; choose one of {', '.join(map(repr, _WAYS))}, or "
        "pass a mapping from names of sites to values"
    )
