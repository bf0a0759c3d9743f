"""Expectation propagation as an inference engine for plain NumPyro programs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.sharding import Mesh
from numpyro import validation_enabled

from bayesrank._stack import outside
from bayesrank.infer import messages, sites
from bayesrank.infer.arguments import check_run, sources_of
from bayesrank.infer.compiled import ONE_AT_A_TIME, CompileCache
from bayesrank.infer.equal import (
    Equal,
    collapsed,
    expanded,
    group_equal,
    may_have_equal_rows,
    traits_of,
)
from bayesrank.infer.gaussian.factorised import FactorisedGaussian
from bayesrank.infer.gaussian.sharded import ShardedRows, check_mesh
from bayesrank.infer.large import Large, LargeEPResult
from bayesrank.infer.large_solution import Kept, match_margins, without_covariance
from bayesrank.infer.missed import Faults
from bayesrank.infer.progress import SweepCallback
from bayesrank.infer.reader.inventory import take_inventory
from bayesrank.infer.reader.program import Program, read_program
from bayesrank.infer.reader.refusals import Refusal
from bayesrank.infer.result import AccuracyWarning, EPResult
from bayesrank.infer.sites import EPState, Sites
from bayesrank.infer.solution import ProgramLayout, Solution, found_of

__all__ = ["EP", "ConvergenceWarning"]


_FALLBACK_POWER = 0.5
_NOT_SHARDED = (
    "structure={!r} is not shared among devices; use EP(structure={!r}, mesh=...), or leave mesh "
    "out"
)
_KEPT_ALONE = (
    "a likelihood is not log-concave, so that EP keeps each latent alone (structure='factorised'): "
    "standard deviations of differences may be too narrow; result.approximation tells by how much"
)
_STRUCTURES = ("auto", "dense", "factorised", "probes", "low_rank")


class ConvergenceWarning(UserWarning):
    """An iterative method stopped before it converged."""


class EP:
    """Expectation propagation on a NumPyro program.

    The program is any NumPyro model whose unobserved real-valued sites are jointly Gaussian once
    its hyperparameters are fixed, and in which each element of an observed site's log density sees
    them through one affine scalar predictor.  It needs no mark: predictors and likelihoods are
    found in its trace, see `bayesrank.infer.reader.program`.

    Parameters
    ----------
    model
        The NumPyro program.
    power
        Power of EP in (0, 1]; 1 is EP, towards 0 it approaches a variational approximation. Where
        EP with power 1 does not settle, `run` tries 0.5; the result and its summary say so.
    damping
        Largest share of a proposed change that a sweep takes, in (0, 1].  Sweeps that make things
        worse shorten it.
    max_sweeps
        Number of parallel sweeps after which to give up.
    tol
        EP has converged when no margin's mean moves by more than this many posterior standard
        deviations in a sweep, nor its log variance by more than this.
    precision
        "float64" computes in double precision whatever JAX is configured to; "float32" in single
        precision, about twice as fast, with an accuracy near 1e-3 posterior standard deviations and
        a `tol` no smaller than 1e-3.
    structure
        How the posterior is kept. "dense" keeps the covariances of all latents. Where these are
        independent and each datum sees few of them, as players and games, "factorised" keeps a
        Gaussian for each alone, quickly, and leaves out what they have in common; "probes" keeps
        the sparse precision and solves with it by conjugate gradients, also where latents are drawn
        given few others, as in walks and hierarchies. "low_rank" does the same for a prior of low
        rank plus diagonal, as `bayesrank.gp.features` makes it. "auto" is dense up to 3,000
        latents, and of more takes "probes" or "low_rank" where it can; where latents are
        independent and a likelihood is not log-concave, "factorised", with a warning.
    mesh
        Devices that share the sites, of one process or of several (`jax.distributed`); each does
        its part of a sweep, and what they say of the latents is summed. It serves "dense" and
        "factorised". Every process makes the same calls with the same data, and has the result.

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
        precision: str = "float64",
        structure: str = "auto",
        mesh: Mesh | None = None,
    ) -> None:
        _check_settings(power, damping, max_sweeps, tol, precision, structure)
        check_mesh(mesh)
        self.model = model
        self.power = float(power)
        self.damping = float(damping)
        self.max_sweeps = int(max_sweeps)
        self.tol = float(tol) if precision == "float64" else max(float(tol), 1e-3)
        self.precision = precision
        self.structure = structure
        self.mesh = mesh
        self.compiled = CompileCache(model, mesh)
        self._sweep_callback: SweepCallback | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """What the engine was made with, but for the program."""
        names = ("power", "damping", "max_sweeps", "tol", "precision", "structure", "mesh")
        return {name: getattr(self, name) for name in names}

    def with_settings(self, **changed: Any) -> EP:
        """Make an engine of the same class and program, with the same settings but for these.

        A class whose constructor takes other arguments overrides this.
        """
        return type(self)(self.model, **(self.settings | changed))

    @cached_property
    def _watched(self) -> EP:
        """The same engine, with code that calls a function after each sweep."""
        watched = self.with_settings()
        watched._sweep_callback = SweepCallback()
        return watched

    @cached_property
    def _tempered(self) -> EP:
        """The engine that is tried where this one does not settle."""
        tempered = self.with_settings(power=_FALLBACK_POWER)
        tempered._sweep_callback = self._sweep_callback
        return tempered

    # ------------------------------------------------------------ pure functions

    def read(self, params: Mapping[str, Any], *args: Any, **kwargs: Any) -> Program:
        """Read the program at given hyperparameters; see `read_program`."""
        return read_program(self.model, args, kwargs, params, power=self.power)

    def init(self, params: Mapping[str, Any], *args: Any, **kwargs: Any) -> EPState:
        """State before the first sweep.  Pure; `params` holds sites fixed by name, as in `run`."""
        return sites.init(self.read(params, *args, **kwargs).problem)

    def step(self, state: EPState, params: Mapping[str, Any], *args: Any, **kwargs: Any) -> EPState:
        """Make one sweep.  Pure, for use under `jit`, `vmap` and `lax.scan`, in JAX's precision."""
        return sites.step(self.read(params, *args, **kwargs).problem, state, self.damping)

    def solve(
        self,
        params: Mapping[str, Any],
        *args: Any,
        init_sites: Sites | None = None,
        **kwargs: Any,
    ) -> tuple[Program, EPState]:
        """Sweep until convergence.  Pure, like `step`; ``state.delta`` tells how far it came.

        Parameters
        ----------
        params
            Values of sites to be held fixed, by name.
        *args, **kwargs
            Arguments of the program.
        init_sites
            Sites ``(tau, nu)`` to start from, as in ``state.tau, state.nu`` of an earlier solution.

        Returns
        -------
        tuple
            The program as read, and the last state.

        Raises
        ------
        ValueError
            If the program is not one that EP can take; or if its posterior is kept by its sparse
            precision or as low rank, which `run` alone sweeps over.
        """
        program = self._read(params, *args, **kwargs)
        if program.is_low_rank or program.is_linked:
            raise Refusal("only_run", ", ".join(program.shapes)).error()
        return program, self._sweep(program, init_sites)

    def _read(self, params: Mapping[str, Any], *args: Any, **kwargs: Any) -> Program:
        """Read the program for the structure, and the devices, that it is solved in."""
        if self.structure == "dense":
            program = self.read(params, *args, **kwargs)
        else:
            program = read_program(
                self.model, args, kwargs, params, power=self.power, structure=self.structure
            )
        if self.mesh is None:
            return program
        if program.is_low_rank or program.is_linked:
            how = "low_rank" if program.is_low_rank else "probes"
            raise ValueError(_NOT_SHARDED.format(how, "dense"))
        if program.is_factorised and self.structure != "factorised":
            raise ValueError(_NOT_SHARDED.format("probes", "factorised"))
        problem = program.problem
        blocks = tuple(
            block._replace(rows=ShardedRows.over(self.mesh, block.rows)) for block in problem.blocks
        )
        return program._replace(problem=problem._replace(blocks=blocks))

    def _sweep(self, program: Program, init_sites: Sites | None = None) -> EPState:
        problem = program.problem
        if program.is_factorised:
            return messages.solve(
                problem, self.damping, self.tol, self.max_sweeps, self._sweep_callback
            )
        if program.is_low_rank or program.is_linked:
            return sites.init(problem)
        state = sites.init(problem)
        if not problem.blocks:
            return state._replace(delta=jnp.zeros_like(state.delta))
        if init_sites is not None:
            state = sites.restart(problem, state, init_sites)
        if program.gaussian and self.power == self.damping == 1:
            # The tilted distributions are Gaussian themselves: one sweep is exact.
            unknown = state._replace(delta=jnp.full_like(state.delta, jnp.inf))
            state = sites.step(problem, unknown, self.damping)
            # A step that is not proper is not taken, and leaves it as it was.
            state = state._replace(delta=jnp.where(jnp.isfinite(state.delta), 0.0, jnp.inf))
            return self._reported(state)

        def unfinished(state: EPState) -> Array:
            moving = (state.delta > self.tol) | (state.skipped > 0)
            return moving & (state.sweep < self.max_sweeps)

        def sweep(state: EPState) -> EPState:
            return self._reported(sites.step(problem, state, self.damping))

        return lax.while_loop(unfinished, sweep, state)

    def _reported(self, state: EPState) -> EPState:
        if self._sweep_callback is not None:
            self._sweep_callback.after(state.sweep, state.delta)
        return state

    def log_evidence(self, params: Mapping[str, Any], *args: Any, **kwargs: Any) -> Array:
        """EP's log evidence, differentiable in the hyperparameters; see `evidence_and_state`.

        Returns
        -------
        Array
            A scalar.
        """
        return self.evidence_and_state(params, *args, **kwargs)[0]

    def evidence_and_state(
        self,
        params: Mapping[str, Any],
        *args: Any,
        init_sites: Sites | None = None,
        **kwargs: Any,
    ) -> tuple[Array, EPState]:
        """EP's log evidence, differentiable, and the state that it was evaluated at.

        The sites and their cavities are held fixed in the derivative, which at EP's fixed point is
        the total derivative: there the evidence is stationary in them.  Pure, like `step`.

        Parameters
        ----------
        params
            Values of hyperparameters (differentiable), by name; the others take their defaults.
        *args, **kwargs
            Arguments of the program.
        init_sites
            Sites to start from.

        Returns
        -------
        tuple
            The log of the integral of the program's density over its latents, at these
            hyperparameters (their own prior density is not part of it); and the state, without
            derivative.
        """
        fixed_params, fixed_args, fixed_kwargs = _without_derivative((dict(params), args, kwargs))
        _, state = self.solve(fixed_params, *fixed_args, init_sites=init_sites, **fixed_kwargs)
        program = self._read(params, *args, **kwargs)
        problem = program.problem
        if isinstance(state.posterior, FactorisedGaussian):
            return messages.log_evidence(problem, state.posterior.messages), state
        return sites.evidence_at(problem, state, differentiable=True), state

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
            Arguments of the program.  Code is compiled once for arguments of the same shapes.
        params
            Values of sites to be held fixed, by name.  Hyperparameters that are not named take
            their initial value (`param` sites) or the median of their prior.
        num_samples
            Number of posterior draws that the result keeps.
        callback
            Called after each sweep with its number and with how far it moved the margin that moved
            most, in posterior standard deviations: EP has converged where that is below `tol`.
            An error in it does not stop the sweeps, and is raised when they have ended.
            Code that calls it is compiled apart. Sweeps with ``structure="probes"`` and "low_rank"
            that follow the first ones do not call it.

        Returns
        -------
        EPResult

        Raises
        ------
        ValueError
            If the program is not one that EP can take; the message names the site, what is wrong
            and the cure.
        TypeError
            If `rng_key` is not a random key, or an argument is being traced.

        Warns
        -----
        ConvergenceWarning
            If EP has not converged after `max_sweeps` sweeps.
        AccuracyWarning
            If the quadrature of a factor missed more than a hundredth of its mass, or has its
            mean or standard deviation wrong by more than .03 standard deviations.
        """
        sources = sources_of(params or {})
        params = dict(params or {})
        check_run(rng_key, num_samples, (params, args, kwargs))
        with jax.enable_x64(self.precision == "float64"):
            with (
                ONE_AT_A_TIME,
                validation_enabled(False),
            ):  # of distributions; EP refuses with better reasons
                self.compiled.show_values(
                    lambda a, k: take_inventory(self.model, a, k, params), args, kwargs
                )

            def solved(engine: EP) -> EPResult:
                found = engine._equal_factors(params, args, kwargs)
                groups = tuple(None if each is None else each[0] for each in found)
                solution, layout = engine.compiled(
                    engine._solve_all, (params, groups), args, kwargs
                )
                solution = expanded(solution, found)
                for refusal, passed in zip(layout.refusals, solution.checks, strict=True):
                    refusal.raise_unless(np.asarray(passed))
                asked = num_samples, sources
                return engine._result(rng_key, solution, layout, args, kwargs, *asked)

            engine = self if callback is None else self._watched
            with engine._calling(callback):
                result = solved(engine)
                large = isinstance(result, LargeEPResult)
                unsettled = not large and not result.converged and 0 < result.delta < np.inf
                if unsettled and self.power == 1:
                    tempered = solved(engine._tempered)
                    result = tempered if tempered.converged else result
        if not result.converged:
            warnings.warn(_not_converged(result, self), ConvergenceWarning, stacklevel=outside())
        alone = isinstance(result, LargeEPResult) and result.posterior.structure == "factorised"
        if alone and self.structure == "auto":
            warnings.warn(_KEPT_ALONE, AccuracyWarning, stacklevel=outside())
        if result.missed_mass or result.moment_errors:
            warnings.warn(_at_fault(result), AccuracyWarning, stacklevel=outside())
        return result

    def _calling(self, callback: Callable[[int, float], None] | None) -> AbstractContextManager:
        """While it lasts, sweeps call a function."""
        if callback is None or self._sweep_callback is None:
            return nullcontext()
        return self._sweep_callback.passing_to(callback)

    def _equal_factors(self, params: dict[str, Any], args: tuple, kwargs: dict[str, Any]) -> Equal:
        """Groups of equal factors, for each block; nothing where the data have no equal rows."""
        if self.mesh is not None or not may_have_equal_rows((args, kwargs)):
            return ()
        traits, _ = self.compiled(self._traits, params, args, kwargs)
        found = tuple(group_equal(each) for each in traits)
        return () if all(each is None for each in found) else found

    def _traits(self, params: dict[str, Any], args: tuple, kwargs: dict[str, Any]) -> Any:
        return traits_of(self._read(params, *args, **kwargs).problem), None

    def _solve_all(
        self, known: tuple[dict[str, Any], Any], args: tuple, kwargs: dict[str, Any]
    ) -> tuple[Solution, ProgramLayout]:
        params, groups = known
        program = self._read(params, *args, **kwargs)
        if groups:
            program = program._replace(problem=collapsed(program.problem, groups))
        state = self._sweep(program)
        posterior, large = state.posterior, None
        if program.is_factorised or program.is_low_rank or program.is_linked:
            mean, covariance = program.mean + posterior.mean, None
            prior: Any = program.problem.prior
            rows: Any = tuple((b.rows.values, b.rows.columns) for b in program.problem.blocks)
            large = Large(program.mean, prior.variances, posterior.variances, rows)
            if program.is_low_rank:
                factor, residuals = prior.covariance
                large = large._replace(prior_variances=residuals, factor=factor)
                log_evidence = jnp.zeros(())  # it comes with the sweeps, outside of this code
            elif program.is_linked:
                links = prior.links.values, prior.links.columns
                large = large._replace(prior_variances=prior.spread, links=links)
                log_evidence = jnp.zeros(())
            else:
                log_evidence = messages.log_evidence(program.problem, posterior.messages)
            faults = tuple(Faults(jnp.zeros(()), jnp.zeros(())) for _ in program.problem.blocks)
        else:
            mean, covariance = program.all_latents(posterior)
            log_evidence = sites.evidence_at(program.problem, state)
            faults = sites.faults(program.problem, state)
        solution = Solution(
            state.tau,
            state.nu,
            state.delta,
            state.sweep,
            state.skipped,
            state.skipped_total,
            mean,
            covariance,
            log_evidence,
            faults,
            program.hyperparameters,
            tuple(passed for _, passed in program.checks),
            program.ends,
            large,
        )
        refusals = tuple(refusal for refusal, _ in program.checks)
        layout = ProgramLayout(
            program.shapes,
            program.sampled,
            program.dropped,
            program.eliminated,
            program.block_sites,
            refusals,
            program.given_factors,
        )
        return solution, layout

    def _result(
        self,
        rng_key: Array,
        solved: Solution,
        layout: ProgramLayout,
        args: tuple,
        kwargs: Mapping[str, Any],
        num_samples: int,
        sources: dict[str, str],
    ) -> EPResult:
        kept = None
        if solved.large is not None:
            solved, kept = self._kept(solved, args, kwargs)
        fields = dict(
            model=self.model,
            model_args=args,
            model_kwargs=dict(kwargs),
            power=self.power,
            sources=sources,
            num_samples=int(num_samples),
            rng_key=rng_key,
            **found_of(solved, layout, self.tol),
        )
        if kept is None:
            return EPResult(joint_covariance=np.asarray(solved.covariance, float), **fields)
        return LargeEPResult(**kept._asdict(), **fields)

    def _kept(
        self, solved: Solution, args: tuple, kwargs: Mapping[str, Any]
    ) -> tuple[Solution, Kept]:
        """What stands for the joint covariance that is not made."""

        def rematch(*numbers: Any) -> Any:
            point = solved.hyperparameters, *numbers
            return self.compiled(self._rematched, point, args, kwargs)[0]

        return without_covariance(
            solved,
            self.structure,
            rematch,
            damping=self.damping,
            tol=self.tol,
            max_sweeps=self.max_sweeps,
        )

    def _rematched(
        self, point: tuple[Any, ...], args: tuple, kwargs: dict[str, Any]
    ) -> tuple[Any, None]:
        params, *numbers = point
        return match_margins(self._read(params, *args, **kwargs).problem, *numbers), None


def _without_derivative(tree: Any) -> Any:
    return jax.tree.map(lambda x: lax.stop_gradient(x) if isinstance(x, Array) else x, tree)


def _at_fault(result: EPResult) -> str:
    said = []
    if missed := result.missed_mass:
        worst = max(missed, key=missed.__getitem__)
        said.append(f"missed at least {missed[worst]:.0%} of the mass of a factor of {worst!r}")
    if errors := result.moment_errors:
        worst = max(errors, key=errors.__getitem__)
        said.append(
            f"has the mean or the standard deviation of a factor of {worst!r} wrong by about "
            f"{errors[worst]:.0%} of that standard deviation"
        )
    return (
        f"EP's quadrature {', and '.join(said)}: such a factor has several narrow peaks, "
        "jumps or heavy tails. The answer has the same fault. Where the factor is a mixture, write "
        "it as numpyro's MixtureSameFamily or MixtureGeneral; else use NUTS, from several starting "
        "points"
    )


def _not_converged(result: EPResult, engine: EP) -> str:
    if not np.isfinite(result.log_evidence) and not result.skipped_sites:
        return (
            f"EP found no evidence of the data (its log is {result.log_evidence}). Check the "
            "model's arguments for values that are not finite, or that the model gives no density"
        )
    if not np.isfinite(result.delta):
        return (
            "EP has not converged: it found no proper posterior. A prior that is many orders of "
            "magnitude wider than what the data tell is lost in rounding where they leave a "
            "direction open. Give the latents narrower priors, or rescale the data"
        )
    return (
        f"EP has not converged after {result.num_sweeps} sweeps: the last one still moved a "
        f"margin by {result.delta:.2g} posterior standard deviations (tol={engine.tol:.2g}), and "
        f"{result.skipped_sites} site updates were skipped. Of up to some hundreds of latents, "
        "result.trust tells how far the answer is off all the same; else compare it with NUTS. A "
        "smaller damping (0.5) or more max_sweeps help some programs only"
    )


def _check_settings(
    power: float, damping: float, max_sweeps: int, tol: float, precision: str, structure: str
) -> None:
    for name, value in (("power", power), ("damping", damping)):
        if not 0 < value <= 1:
            raise ValueError(f"{name} must be in (0, 1], got {value}")
    if max_sweeps < 1:
        raise ValueError(f"max_sweeps must be at least 1, got {max_sweeps}")
    if not tol > 0:
        raise ValueError(f"tol must be positive, got {tol}")
    if precision not in ("float64", "float32"):
        raise ValueError(f"precision must be 'float64' or 'float32', got {precision!r}")
    if structure not in _STRUCTURES:
        raise ValueError(f"structure is {structure!r}; choose one of {_STRUCTURES}")
