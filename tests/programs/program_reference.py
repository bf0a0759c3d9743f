"""Computes the references of the table of programs: ``python tests/programs/program_reference.py``.

All are made from NumPyro's own joint density of the program, which EP's reader has no part in:

- where its log is quadratic, in closed form by one step of Newton's;
- of one or two latents without bounds, by a sum over a fine grid, which has to hold all the mass;
- else by importance sampling, with a multivariate t distribution around EP's posterior as the
  proposal.  A bad proposal shows: the effective sample size of the weights is stored.

Some have a second reference, by NumPyro's NUTS on the plain program, with its Monte Carlo error.

Programs whose density lives on a subspace (sums to zero) are looked at in coordinates of that.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import handlers
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin
from numpyro.infer import MCMC, NUTS
from numpyro.infer.util import log_density
from program_models import PROGRAMS
from scipy.stats import multivariate_t

from bayesrank.infer import EP

STORE = Path(__file__).parent / "references.json"
_DRAWS, _CHUNK, _DEGREES = 100_000, 20_000, 9.0
_GRID = {1: 200_001, 2: 501}
# Programs with a reference by NUTS as well: chains, warm-up, draws of each.
BY_NUTS = frozenset(
    "stochastic_volatility crossed_effects ordinal_mixed poisson_random_effects negative_binomial "
    "local_level autoregression_of_counts student_t_regression laplace_regression tobit "
    "positive_effects truncated_effects uniform_effects kinked_predictor laplace_jumps "
    "judged_comparisons collaborative_ordinal_gp".split()
)
_CHAINS, _WARMUP, _KEPT = 4, 1000, 5000
# In posterior standard deviations, on either side.
_REACH = {1: 60.0, 2: 14.0}


class Target(NamedTuple):
    """A program's joint density, in white coordinates of EP's posterior.

    Attributes
    ----------
    log_joint
        Of all latents laid end to end, shape (n,).
    centre, root
        A point with white coordinates ``w`` has the latents ``centre + root @ w``.
    bounded
        Whether some latent has bounded support.
    """

    log_joint: Callable[[jax.Array], jax.Array]
    centre: np.ndarray
    root: np.ndarray
    bounded: bool

    def log_white(self, points: np.ndarray) -> np.ndarray:
        """Log density in white coordinates, (N, k)."""
        volume = 0.5 * np.linalg.slogdet(self.root.T @ self.root)[1]
        latents = self.centre + points @ self.root.T
        run = jax.jit(jax.vmap(self.log_joint))
        parts = np.array_split(latents, -(-len(latents) // _CHUNK))
        found = np.concatenate([np.asarray(run(jnp.asarray(part))) for part in parts])
        return np.where(np.isnan(found), -np.inf, found) + volume


def target(name: str) -> Target:
    """The joint density of a program, by NumPyro."""
    model = PROGRAMS[name]
    result = EP(model, hyperparameters="prior").run(jax.random.key(0))
    shapes, hidden = result.shapes, list(result.dropped_sites)

    def run(values: dict[str, Any]) -> tuple[Any, Any]:
        seeded = handlers.block(handlers.seed(model, jax.random.key(0)), hide=hidden)
        return log_density(seeded, (), {}, values)

    def log_joint(latents: jax.Array) -> jax.Array:
        values, start = {}, 0
        for site, shape in shapes.items():
            size = int(np.prod(shape, dtype=int))
            values[site] = latents[start : start + size].reshape(shape)
            start += size
        density, trace = run(values)
        inside = [jnp.all(trace[site]["fn"].support(values[site])) for site in shapes]
        return jnp.where(jnp.stack(inside).all(), density, -jnp.inf)

    values, vectors = np.linalg.eigh(result.joint_covariance)
    kept = values > 1e-10 * values.max()
    root = vectors[:, kept] * np.sqrt(values[kept])
    _, trace = run({k: jnp.zeros(shape) for k, shape in shapes.items()})
    supports = [trace[site]["fn"].support for site in shapes]
    bounded = any(
        hasattr(_base(support), end)
        for support in supports
        for end in ("lower_bound", "upper_bound")
    )
    return Target(log_joint, result.joint_mean, root, bounded)


def _base(support: Any) -> Any:
    return getattr(support, "base_constraint", support)


def reference(name: str) -> dict[str, Any]:
    """Means, standard deviations and log evidence of a program, with what they can be off by."""
    with jax.enable_x64(True):
        found = target(name)
        exact = in_closed_form(found)
        if exact is not None:
            return exact
        small = found.root.shape[1] <= 2 and not found.bounded
        stored = on_grid(found) if small else by_importance(found)
        return stored | {"nuts": by_nuts(name)} if name in BY_NUTS else stored


def in_closed_form(found: Target) -> dict[str, Any] | None:
    """One step of Newton's, if the log density is quadratic."""
    if found.bounded:
        return None
    root, size = jnp.asarray(found.root), found.root.shape[1]

    def log_white(w: jax.Array) -> jax.Array:
        return found.log_joint(jnp.asarray(found.centre) + root @ w)

    places = np.random.default_rng(0).normal(size=(4, size))
    heights = np.stack([float(log_white(jnp.asarray(x))) for x in places])
    hessians = np.stack([np.asarray(jax.hessian(log_white)(jnp.asarray(x))) for x in places])
    first = [np.asarray(jax.grad(log_white)(jnp.asarray(x))) for x in places]
    steps = places - places[0]
    slopes = first[0] + steps @ hessians[0]
    levels = heights[0] + steps @ first[0] + 0.5 * np.sum(steps @ hessians[0] * steps, axis=1)
    # Pieces of straight lines have the same second derivatives everywhere, too; steps, all slopes.
    pairs = ((hessians, hessians[0]), (np.stack(first), slopes), (heights, levels))
    if not all(_same(*pair) for pair in pairs):
        return None
    covariance = np.linalg.inv(-hessians[0])
    mode = places[0] + covariance @ first[0]
    volume = 0.5 * np.linalg.slogdet(found.root.T @ found.root)[1]
    evidence = float(log_white(jnp.asarray(mode))) + volume + 0.5 * size * np.log(2 * np.pi)
    return _stored(
        "closed form",
        found.centre + found.root @ mode,
        np.sqrt(np.einsum("ij,jk,ik->i", found.root, covariance, found.root)),
        evidence + 0.5 * np.linalg.slogdet(covariance)[1],
    )


def _same(found: np.ndarray, expected: np.ndarray) -> bool:
    return np.allclose(found, expected, rtol=0, atol=1e-8 * np.abs(found).max())


def on_grid(found: Target) -> dict[str, Any]:
    """A sum over a grid of white coordinates."""
    size = found.root.shape[1]
    axis = np.linspace(-_REACH[size], _REACH[size], _GRID[size])
    points = np.stack(np.meshgrid(*[axis] * size, indexing="ij"), axis=-1)
    log_mass = found.log_white(points.reshape(-1, size)).reshape((axis.size,) * size)
    weight = np.exp(log_mass - log_mass.max())
    edge = weight.sum() - weight[(slice(1, -1),) * size].sum()
    if edge > 1e-9 * weight.sum():
        return by_importance(found)
    share = (weight / weight.sum()).reshape(-1)
    latents = found.centre + points.reshape(-1, size) @ found.root.T
    mean = share @ latents
    step = size * np.log(axis[1] - axis[0])
    sd = np.sqrt(share @ (latents - mean) ** 2)
    return _stored("grid", mean, sd, float(np.log(weight.sum()) + log_mass.max() + step))


def by_importance(found: Target) -> dict[str, Any]:
    """Importance sampling around EP's posterior."""
    rng, size = np.random.default_rng(0), found.root.shape[1]
    white = rng.normal(size=(_DRAWS, size)) / np.sqrt(
        rng.chisquare(_DEGREES, size=(_DRAWS, 1)) / _DEGREES
    )
    white *= np.sqrt(1.1)
    proposal: Any = multivariate_t
    log_proposal = proposal(np.zeros(size), 1.1 * np.eye(size), df=_DEGREES).logpdf(white)
    log_weight = found.log_white(white) - log_proposal
    weight = np.exp(log_weight - log_weight.max())
    total = weight.sum()
    share = weight / total
    points = found.centre + white @ found.root.T
    mean = share @ points
    deviation = points - mean
    variance = share @ deviation**2
    mean_error = np.sqrt(share**2 @ deviation**2)
    sd_error = np.sqrt(share**2 @ (deviation**2 - variance) ** 2) / (2 * np.sqrt(variance))
    effective = 1 / np.sum(share**2)
    evidence = float(np.log(total / _DRAWS) + log_weight.max())
    stored = _stored("importance sampling", mean, np.sqrt(variance), evidence)
    return stored | {
        "mean_error": float(np.max(mean_error / np.sqrt(variance))),
        "sd_error": float(np.max(sd_error / np.sqrt(variance))),
        "log_evidence_error": float(np.sqrt(1 / effective - 1 / _DRAWS)),
        "effective": int(effective),
    }


def by_nuts(name: str) -> dict[str, Any]:
    """NumPyro's NUTS on the plain program; EP tells the order of the sites."""
    model = PROGRAMS[name]
    kernel = NUTS(model, target_accept_prob=0.95)
    sampler = MCMC(
        kernel,
        num_warmup=_WARMUP,
        num_samples=_KEPT,
        num_chains=_CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )
    sampler.run(jax.random.key(0))
    draws = sampler.get_samples(group_by_chain=True)
    order = EP(model, hyperparameters="prior").run(jax.random.key(0)).shapes
    flat = np.concatenate(
        [np.asarray(draws[site]).reshape(_CHAINS, _KEPT, -1) for site in order], axis=2
    )
    mean = flat.mean((0, 1))
    square = (flat - mean) ** 2
    variance = square.mean((0, 1))
    effective = effective_sample_size(flat)
    variance_error = square.std((0, 1)) / np.sqrt(effective_sample_size(square))
    return {
        "mean": np.round(mean, 5).tolist(),
        "sd": np.round(np.sqrt(variance), 5).tolist(),
        "mean_error": float(np.max(1 / np.sqrt(effective))),
        "sd_error": float(np.max(0.5 * variance_error / variance)),
        "effective": int(np.min(effective)),
        "r_hat": float(np.max(split_gelman_rubin(flat))),
        "num_divergent": int(np.sum(sampler.get_extra_fields()["diverging"])),
    }


def _stored(how: str, mean: np.ndarray, sd: np.ndarray, log_evidence: float) -> dict[str, Any]:
    return {
        "how": how,
        "mean": np.round(mean, 7).tolist(),
        "sd": np.round(sd, 7).tolist(),
        "log_evidence": round(float(log_evidence), 7),
        "mean_error": 0.0,
        "sd_error": 0.0,
        "log_evidence_error": 0.0,
        "effective": None,
    }


def stored() -> dict[str, Any]:
    """All references, in the order of the table."""
    known = json.loads(STORE.read_text()) if STORE.exists() else {}
    return {name: known[name] for name in PROGRAMS if name in known}


def main(names: list[str]) -> None:
    """Compute the references named; without names, those that are missing."""
    for name in names or list(PROGRAMS):
        if not names and name in stored():
            continue
        found = reference(name)
        STORE.write_text(json.dumps(stored() | {name: found}, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
