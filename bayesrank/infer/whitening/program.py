"""A program at fixed hyperparameters as one density of a white vector, for engines to share."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import Array, lax
from numpy.typing import NDArray
from numpyro import handlers
from numpyro.infer import NUTS
from numpyro.infer.util import log_density

from bayesrank.infer.compiled import jit
from bayesrank.infer.reader.densities import log_density_of
from bayesrank.infer.reader.jaxpr import evaluated, needed_equations
from bayesrank.infer.reader.traced import Traced
from bayesrank.infer.whitening.reparam import whiten

if TYPE_CHECKING:
    from bayesrank.infer.result import EPResult


def as_model(
    source: Traced,
    fixed: Mapping[str, Any],
    latents: Collection[str],
    data: Collection[str] = (),
) -> Callable[[], None]:
    """Make a NumPyro program without arguments, whose unobserved sites are `latents`.

    Sites in `fixed` have these values, and no density unless `data` names them; all others have
    their initial value and none. Latents that follow from each other within a scan, and one value
    of several elements of a plate, come without a density, which is a factor.
    """
    places = jax.tree.unflatten(source.tree, range(len(source.outputs)))
    numbers = {name: given.number for name, given in source.inputs.items()}
    counted = [
        name
        for name, message in source.messages.items()
        if message["type"] == "sample" and (name not in numbers or name in {*latents, *data})
    ]

    def model() -> None:
        known = source.known(fixed, besides=latents)

        def needs(place: Any) -> tuple[list[Any], list[Any]]:
            outputs = [source.outputs[k] for k in jax.tree.leaves(place)]
            return outputs, list(needed_equations(source.equations, outputs, known))

        def computed(place: Any) -> Any:
            outputs, equations = needs(place)
            found = evaluated(equations, outputs, known)
            return jax.tree.unflatten(jax.tree.structure(place), found)

        def draw(name: str, fn: dist.Distribution) -> None:
            shape = source.inputs[name].shape
            shape = shape[: len(shape) - len(fn.shape())]
            known[numbers[name]] = numpyro.sample(name, fn, sample_shape=shape)

        def draw_without_density(name: str) -> None:
            draw(name, dist.Normal().expand(source.inputs[name].shape).mask(False))

        for name in counted:
            density = {k: places[name][k] for k in ("fn", "scale")}
            outputs, equations = needs(density)
            read = {number for number in outputs if isinstance(number, int)}
            read = read.union(*(e.variables for e in equations))
            first = [k for k in latents if numbers[k] in read and numbers[k] not in known]
            for each in first:
                draw_without_density(each)
            if name in latents and numbers[name] not in known:
                site = computed(density)
                shape, own = source.inputs[name].shape, site["fn"].shape()
                if shape[len(shape) - len(own) :] == own and len(own) <= len(shape):
                    scale = site["scale"]
                    with nullcontext() if scale is None else handlers.scale(scale=scale):
                        draw(name, site["fn"])
                    continue
                draw_without_density(name)
            site = computed(places[name])
            inside = jnp.all(site["fn"].support(site["value"])) if name in latents else True
            numpyro.factor(f"{name}_density", jnp.where(inside, log_density_of(site), -jnp.inf))

    return model


Matrix = NDArray[np.float64]
Shapes = dict[str, tuple[int, ...]]


class Density(Protocol):
    """A density of a vector ``z`` (`size`,), by its `log_joint`, whose integral is the evidence."""

    @property
    def log_joint(self) -> Callable[..., Any]: ...  # noqa: D102

    @property
    def size(self) -> int: ...  # noqa: D102

    def colour(self, white: Any) -> Any:
        """Carry vectors (..., n) to the scale on which draws are wanted."""
        ...


class WhiteProgram(NamedTuple):
    """A program with its hyperparameters fixed, as a density of a white vector ``z``.

    Its prior is standard normal where the site can be whitened. Latents are ``loc + root @ z``,
    shapes (n,) and (n, size), or (n,) where ``root`` is diagonal, of sites of `shapes`.
    """

    log_joint: Callable[[Array], Array]
    loc: Matrix
    root: Matrix
    shapes: Shapes

    @property
    def size(self) -> int:
        """Length of ``z``."""
        return self.root.shape[-1]

    def colour(self, white: Any) -> Any:
        """Latents from white vectors, both (..., n)."""
        return self.loc + (white * self.root if self.root.ndim == 1 else white @ self.root.T)

    def whiten_moments(self, mean: Matrix, covariance: Matrix) -> tuple[Matrix, Matrix]:
        """Mean (n,) and covariance (n, n) of ``z`` from those of the latents."""
        if self.root.ndim == 1:
            return (mean - self.loc) / self.root, covariance / np.outer(self.root, self.root)
        # A singular Gaussian has fewer white numbers than latents.
        solve: Any = np.linalg.solve if self.size == mean.size else _least_squares
        half = solve(self.root, covariance)
        both = solve(self.root, half.T)
        centred = solve(self.root, mean - self.loc)
        return centred.astype(float), (0.5 * (both + both.T)).astype(float)

    def colour_moments(self, mean: Matrix, covariance: Matrix) -> tuple[Matrix, Matrix]:
        """Mean and covariance of the latents from those of ``z``."""
        if self.root.ndim == 1:
            return self.colour(mean), covariance * np.outer(self.root, self.root)
        return self.colour(mean), self.root @ covariance @ self.root.T


def white_posterior(result: EPResult) -> WhiteProgram:
    """Whiten the program of a result at its hyperparameters, whose densities do not count."""
    return white_program(result.traced, result.params, result.shapes, result.conditioned_sites)


def white_program(
    source: Traced, params: Mapping[str, Any], shapes: Shapes, data: tuple[str, ...] = ()
) -> WhiteProgram:
    """Whiten a program whose latents are jointly Gaussian given `params`, some of them `data`."""
    white = whiten(handlers.seed(as_model(source, params, shapes, data), jax.random.key(0)))

    def white_sites() -> dict[str, Array]:
        with handlers.block():
            traced = handlers.trace(white).get_trace()
        return {name: jnp.asarray(s["value"]) for name, s in traced.items() if _is_latent(s)}

    white_shapes = {name: value.shape for name, value in jax.eval_shape(white_sites).items()}

    def latents(z: Array) -> Array:
        with handlers.block():
            chosen = handlers.substitute(white, data=split(z, white_shapes))
            traced = handlers.trace(chosen).get_trace()
        return jnp.concatenate([traced[name]["value"].reshape(-1) for name in shapes])

    zeros = jnp.zeros(sum(map(math.prod, white_shapes.values())))
    loc, root = jit(lambda z: (latents(z), jax.jacfwd(latents)(z)))(zeros)
    program = WhiteProgram(lambda z: z, np.asarray(loc), _diagonal_if_so(np.asarray(root)), shapes)

    def log_joint(z: Array) -> Array:
        # The latents are given as well, so that no engine factors a covariance at every step.
        values = split(z, white_shapes) | split(program.colour(z), shapes)
        with handlers.block():
            density, traced = log_density(white, (), {}, values)
        # A latent with bounded support has a density, of NumPyro's, outside of it as well.
        inside = [jnp.all(s["fn"].support(s["value"])) for s in traced.values() if _is_latent(s)]
        return jnp.where(jnp.stack(inside).all(), density, -jnp.inf)

    return program._replace(log_joint=log_joint)


def _is_latent(site: dict[str, Any]) -> bool:
    if site["type"] != "sample" or site["is_observed"]:
        return False
    return not isinstance(site["fn"], dist.Delta)


def split(vectors: Any, shapes: Shapes) -> dict[str, Any]:
    """Values of the sites from vectors (..., n) of all of them laid end to end."""
    start, values = 0, {}
    for name, shape in shapes.items():
        part = vectors[..., start : start + math.prod(shape)]
        values[name] = part.reshape((*vectors.shape[:-1], *shape))
        start += math.prod(shape)
    return values


def _least_squares(matrix: Matrix, right: Matrix) -> Any:
    return np.linalg.lstsq(matrix, right)[0]


def _diagonal_if_so(matrix: Matrix) -> Matrix:
    if matrix.shape[0] != matrix.shape[1]:
        return matrix
    diagonal = np.diagonal(matrix)
    return diagonal if np.count_nonzero(matrix) == np.count_nonzero(diagonal) else matrix


ProgressCallback = Callable[[float], None]

_NUTS_CHUNK = 25


def run_nuts(
    program: Density,
    rng_key: Array,
    num_warmup: int,
    num_samples: int,
    num_chains: int,
    advance: ProgressCallback,
    target_accept_prob: float = 0.8,
) -> tuple[np.ndarray, int]:
    """Draws (chains, draws, n) by NUTS, one chain after the other; and how many diverged."""
    kernel = NUTS(
        potential_fn=lambda z: -program.log_joint(z), target_accept_prob=target_accept_prob
    )

    @jit
    def init(rng_key: Array, chain: int) -> Any:
        key, start_key = jax.random.split(jax.random.split(rng_key, num_chains)[chain])
        start = jax.random.uniform(start_key, (program.size,), minval=-2.0, maxval=2.0)
        return kernel.init(key, num_warmup, start, (), {})

    @jit
    def sample(state: Any, number: Array) -> tuple[Any, Array, Array]:
        def body(i: Array, carry: tuple[Any, Array, Array]) -> tuple[Any, Array, Array]:
            state, draws, diverging = carry
            state = kernel.sample(state, (), {})
            return state, draws.at[i].set(state.z), diverging.at[i].set(state.diverging)

        draws = jnp.zeros((_NUTS_CHUNK, program.size))
        return lax.fori_loop(0, number, body, (state, draws, jnp.zeros(_NUTS_CHUNK, bool)))

    total = num_chains * (num_warmup + num_samples)
    done, divergent, chains = 0, 0, []
    for chain in range(num_chains):
        state, kept = init(rng_key, chain), []
        for phase, length in (("warmup", num_warmup), ("sample", num_samples)):
            for first in range(0, length, _NUTS_CHUNK):
                number = min(_NUTS_CHUNK, length - first)
                state, draws, diverging = sample(state, number)
                if phase == "sample":
                    kept.append(program.colour(np.asarray(draws)[:number]))
                    divergent += int(np.asarray(diverging)[:number].sum())
                done += number
                advance(done / total)
        chains.append(np.concatenate(kept))
    return np.stack(chains), divergent
