"""Computes the references of the table of programs: ``python tests/programs/program_reference.py``.

Importance sampling on NumPyro's own joint density of the program, which EP's reader has no part in,
with a multivariate t distribution around EP's posterior as the proposal.  A bad proposal shows: the
effective sample size of the weights is stored with the numbers and held to a minimum.  Programs
whose density lives on a subspace (sums to zero) are sampled in coordinates of that.
"""

import json
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import handlers
from numpyro.infer.util import log_density
from program_table import PROGRAMS
from scipy.stats import multivariate_t

from bayesrank.infer import EP

STORE = Path(__file__).parent / "references.json"
_DRAWS, _CHUNK, _DEGREES = 100_000, 20_000, 9.0


def reference(name: str, draws: int = _DRAWS) -> dict[str, Any]:
    """Means, standard deviations and log evidence of a program, with what they can be off by."""
    model = PROGRAMS[name]
    result = EP(model).run(jax.random.key(0))
    shapes, dropped = result.shapes, result.dropped_sites

    def log_joint(latents: jax.Array) -> jax.Array:
        values, start = {}, 0
        for site, shape in shapes.items():
            size = int(np.prod(shape, dtype=int))
            values[site] = latents[start : start + size].reshape(shape)
            start += size
        seeded = handlers.block(handlers.seed(model, jax.random.key(0)), hide=list(dropped))
        density, trace = log_density(seeded, (), {}, values)
        inside = [jnp.all(trace[site]["fn"].support(values[site])) for site in shapes]
        return jnp.where(jnp.stack(inside).all(), density, -jnp.inf)

    with jax.enable_x64(True):
        values, vectors = np.linalg.eigh(result.joint_covariance)
        kept = values > 1e-10 * values.max()
        root = vectors[:, kept] * np.sqrt(1.1 * values[kept])
        return _weighted(jax.jit(jax.vmap(log_joint)), result.joint_mean, root, draws)


def _weighted(log_joint: Any, centre: np.ndarray, root: np.ndarray, draws: int) -> dict[str, Any]:
    rng, size = np.random.default_rng(0), root.shape[1]
    white = rng.normal(size=(draws, size)) / np.sqrt(
        rng.chisquare(_DEGREES, size=(draws, 1)) / _DEGREES
    )
    points = centre + white @ root.T
    log_target = np.concatenate(
        [np.asarray(log_joint(jnp.asarray(part))) for part in np.split(points, draws // _CHUNK)]
    )
    proposal: Any = multivariate_t
    log_proposal = proposal(np.zeros(size), np.eye(size), df=_DEGREES).logpdf(white)
    log_proposal -= 0.5 * np.linalg.slogdet(root.T @ root)[1]
    log_weight = np.where(np.isnan(log_target), -np.inf, log_target) - log_proposal
    weight = np.exp(log_weight - log_weight.max())
    total = weight.sum()
    mean = weight @ points / total
    deviation = points - mean
    variance = weight @ deviation**2 / total
    share = weight / total
    mean_error = np.sqrt(share**2 @ deviation**2)
    sd_error = np.sqrt(share**2 @ (deviation**2 - variance) ** 2) / (2 * np.sqrt(variance))
    effective = 1 / np.sum(share**2)
    return {
        "mean": mean.tolist(),
        "sd": np.sqrt(variance).tolist(),
        "log_evidence": float(np.log(total / draws) + log_weight.max()),
        "mean_error": float(np.max(mean_error / np.sqrt(variance))),
        "sd_error": float(np.max(sd_error / np.sqrt(variance))),
        "log_evidence_error": float(np.sqrt(1 / effective - 1 / draws)),
        "effective": int(effective),
        "draws": draws,
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
