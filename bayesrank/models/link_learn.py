r"""Which document a text is linked with, by similarities that are linear in unknown corrections.

BM25 weighs a term of a document by a formula. Here the weight is BM25's times
:math:`1 + \sum_b \theta_b \phi_b`, the first order of :math:`\exp(\sum_b \theta_b \phi_b)`, with
fixed functions :math:`\phi_b` of the term's count, its idf and the document's length. So the margin
by which a linked document beats an unlinked one is linear, and all that is unknown is Gaussian:
`bayesrank.solvers.link_learn.margin_features` makes the margins.

Triples that share a linked pair are not independent: whatever makes the two documents alike beyond
their words is in all of them. ``link`` gives each linked pair an effect of its own. Without it
intervals are too narrow.

References
----------
.. [1] Grangier, D. and Bengio, S. (2005). Exploiting hyperlinks to learn a retrieval model. NIPS
   Workshop on Learning to Rank.
"""

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax.typing import ArrayLike

from bayesrank._validate import check_count, check_features, known
from bayesrank.distributions import Thurstone

__all__ = ["link_margins"]

# Of each of the two documents, so that the noise of a margin has standard deviation one.
_NOISE = 0.5**0.5


def link_margins(
    margins: ArrayLike,
    features: ArrayLike,
    link: ArrayLike | None = None,
    num_links: int | None = None,
    *,
    scale: ArrayLike = 0.5,
    link_scale: ArrayLike = 1.0,
) -> None:
    """Corrections of BM25's term weight, from linked documents that beat unlinked ones.

    ================ ================================== =========================================
    site             prior                              meaning
    ================ ================================== =========================================
    ``gain``         Normal(1, 1)                       factor of BM25's margins
    ``theta``        Normal(0, scale), shape (B,)       corrections, times the gain
    ``closeness``    Normal(0, link_scale), shape (L,)  of each linked pair (with `link`)
    ``order``        observed, shape (N,)               1: the linked document is the closer one
    ================ ================================== =========================================

    Parameters
    ----------
    margins : ArrayLike
        BM25's margins in units of the noise, shape (N,): divide them by their standard deviation.
    features : ArrayLike
        How each function changes them, in the same units, shape (N, B).
    link : ArrayLike, optional
        Number of the linked pair of each triple, shape (N,), from 0 on.
    num_links : int, optional
        Number of linked pairs L; needed with `link`.
    scale : ArrayLike
        Prior standard deviation of a correction, positive.
    link_scale : ArrayLike
        Prior standard deviation of a linked pair's closeness, positive, in units of the noise.

    Raises
    ------
    ValueError
        If an argument cannot be used; the message names it and what to do.

    Examples
    --------
    >>> import jax, numpy as np
    >>> from bayesrank.infer import EP
    >>> features = np.array([[1.0], [2.0], [0.5]])
    >>> result = EP(link_margins).run(jax.random.key(0), np.ones(3), features)
    >>> bool(result.mean["theta"][0] > 0)
    True
    """
    rows = check_features(features, "features")
    start = jnp.asarray(margins)
    if start.shape != (rows.shape[0],):
        raise ValueError(f"`margins` has shape {start.shape}; pass one for each row of `features`.")
    gain = jnp.asarray(numpyro.sample("gain", dist.Normal(1.0, 1.0)))
    prior = dist.Normal(0.0, scale).expand([rows.shape[1]]).to_event(1)
    theta = jnp.asarray(numpyro.sample("theta", prior))
    margin = gain * start + rows @ theta
    if link is not None:
        count = check_count(num_links, "num_links")
        owners = known(link)
        if owners.shape != start.shape or owners.dtype.kind not in "iu":
            raise ValueError("`link` is to number the linked pair of each row of `features`.")
        with numpyro.plate("links", count):
            closeness = numpyro.sample("closeness", dist.Normal(0.0, link_scale))
        margin = margin + jnp.asarray(closeness)[jnp.asarray(link)]
    with numpyro.plate("triples", rows.shape[0]):
        numpyro.sample("order", Thurstone(margin, _NOISE), obs=jnp.ones(rows.shape[0], int))
