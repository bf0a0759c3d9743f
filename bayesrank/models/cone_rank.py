r"""Differences of features as mixtures of a few atoms: a cone seen from its inside.

If one item is better than another of its query, the difference :math:`z` of their features lies
near the simplex of :math:`K` atoms: :math:`z_j = \sum_k w_{jk} u_k` plus noise. The noise is the
smaller, the more the grades differ. Up to a constant, the log density is minus ConeRank's objective
over :math:`2 \sigma^2` [1]_. The bound of the atoms' lengths becomes a normal prior.

References
----------
.. [1] Tran, T. and Pham, D.-S. ConeRANK: ranking as learning generalized inequalities.
"""

import math

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.typing import ArrayLike

from bayesrank._validate import check_column, check_count, check_features, refuse_rows


def usual_num_atoms(num_features: int) -> int:
    """Half of the number of features, at least one and at most ten.

    More atoms than features can surround the origin; their cone is then the whole space.

    Examples
    --------
    >>> [usual_num_atoms(number) for number in (1, 6, 40)]
    [1, 3, 10]
    """
    return min(10, max(1, num_features // 2))


def cone_of_differences(
    z: ArrayLike,
    phi: ArrayLike | None = None,
    *,
    num_atoms: int | None = None,
    bound: ArrayLike = 1.0,
    noise: ArrayLike = 1.0,
    ridge: ArrayLike = 0.0,
    observed: bool = True,
) -> None:
    r"""Ordered differences as mixtures of atoms.

    ================ ===================================== =====================================
    site             prior                                 meaning
    ================ ===================================== =====================================
    ``U``            Normal(0, bound / sqrt N), (K, N)     atoms
    ``w``            Dirichlet(1), shape (J, K)            weights of the atoms in a difference
    ``direction``    deterministic, shape (N,)             of the score, ``U (U'U + ridge)^-1 1``
    ``z``            observed, shape (J, N)                differences
    ================ ===================================== =====================================

    Atoms can change names, so ``U`` has many modes; ``direction`` is the same in all of them.

    Parameters
    ----------
    z : ArrayLike
        Differences of features, better minus worse, shape (J, N).
    phi : ArrayLike, optional
        Weights of the differences, positive, shape (J,); ones without it. The noise of a difference
        is ``noise / sqrt(phi)``.
    num_atoms : int, optional
        Number of atoms K; see `usual_num_atoms` for the default.
    bound : ArrayLike
        Usual length of an atom.
    noise : ArrayLike
        Standard deviation of the noise, positive.
    ridge : ArrayLike
        Ridge of the direction, not negative.
    observed : bool, default True
        Whether `z` is observed. If not, it only says how many differences to draw.

    Raises
    ------
    ValueError
        If an argument cannot be used; the message names it and what to do.

    Examples
    --------
    >>> import jax, numpy as np
    >>> from numpyro.infer import Predictive
    >>> prior = Predictive(cone_of_differences, num_samples=5)
    >>> prior(jax.random.key(0), np.ones((4, 2)), num_atoms=2)["direction"].shape
    (5, 2)
    """
    z = check_features(z, "z")
    num_pairs, num_features = z.shape
    if num_atoms is None:
        num_atoms = usual_num_atoms(num_features)
    num_atoms = check_count(num_atoms, "num_atoms")
    weights = np.ones(num_pairs) if phi is None else phi
    weights = check_column(weights, "phi", num_pairs, "biuf", "a positive number for each row")
    refuse_rows(weights, lambda v: ~((v > 0) & (v < np.inf)), "phi", "pass positive numbers")
    scale = jnp.asarray(bound) / math.sqrt(num_features)
    prior = dist.Normal(0.0, scale).expand([num_atoms, num_features]).to_event(2)
    U = jnp.asarray(numpyro.sample("U", prior))
    gram = U @ U.T + jnp.asarray(ridge) * jnp.eye(num_atoms)
    numpyro.deterministic("direction", U.T @ jnp.linalg.solve(gram, jnp.ones(num_atoms)))
    with numpyro.plate("pairs", num_pairs):
        w = jnp.asarray(numpyro.sample("w", dist.Dirichlet(jnp.ones(num_atoms))))
        sd = jnp.asarray(noise) / jnp.sqrt(weights)
        distribution = dist.Normal(w @ U, sd[:, None]).to_event(1)
        numpyro.sample("z", distribution, obs=z if observed else None)
