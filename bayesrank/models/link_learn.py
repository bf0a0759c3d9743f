r"""Which document a text is linked with, by similarities that are linear in unknown corrections.

BM25 weighs a term of a document by a formula. Here the weight is BM25's times
:math:`1 + \sum_b \theta_b \phi_b`, the first order of :math:`\exp(\sum_b \theta_b \phi_b)`, with
fixed functions :math:`\phi_b` of the term's count, its idf and the document's length. So the margin
by which a linked document beats an unlinked one is linear, and all unknowns are Gaussian.
`bayesrank.solvers.link_learn.margin_features` makes the margins.

A linked pair is one event [1]_: the linked document performs once, at its score plus noise, and
beats the performances of all unlinked documents that it is set against. Its triples share that
performance. Taken as independent, they make intervals far too narrow.

References
----------
.. [1] Grangier, D. and Bengio, S. (2005). Exploiting hyperlinks to learn a retrieval model. NIPS
   Workshop on Learning to Rank.
"""

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax.typing import ArrayLike

from bayesrank.distributions import Thurstone

_NOISE = 0.5**0.5  # of a document, so that the noise of a margin has standard deviation one


def link_bm25(
    margins: ArrayLike,
    features: ArrayLike,
    *,
    scale: ArrayLike = 0.5,
    independent: bool = False,
) -> None:
    """Corrections of BM25's term weight, from linked documents that beat unlinked ones.

    ================ ================================== =========================================
    site             prior                              meaning
    ================ ================================== =========================================
    ``gain``         Normal(1, 1)                       factor of BM25's margins
    ``theta``        Normal(0, scale), shape (B,)       corrections, times the gain
    ``performance``  Normal(0, 0.5**0.5), (L, 1)        of each linked document, about its score
    ``order``        observed, shape (L, U)             1: the linked document is the closer one
    ================ ================================== =========================================

    Parameters
    ----------
    margins : ArrayLike
        BM25's margins of L linked pairs over U unlinked documents each, shape (L, U), in units of
        the noise: divide them by their standard deviation.
    features : ArrayLike
        How each function changes them, in the same units, shape (L, U, B).
    scale : ArrayLike
        Prior standard deviation of a correction, positive.
    independent : bool
        Whether the linked document performs anew in each triple, as in the paper's loss.

    Raises
    ------
    ValueError
        If the shapes do not fit together.

    Examples
    --------
    >>> import jax, numpy as np
    >>> from bayesrank.infer import EP
    >>> features = np.array([[[1.0], [2.0]], [[0.5], [1.0]]])
    >>> result = EP(link_bm25).run(jax.random.key(0), np.ones((2, 2)), features)
    >>> bool(result.mean["theta"][0] > 0)
    True
    """
    start, rows = jnp.asarray(margins), jnp.asarray(features)
    if start.ndim != 2 or rows.shape[:-1] != start.shape or 0 in rows.shape:
        raise ValueError(
            f"margins has shape {start.shape} and features {rows.shape}; pass (L, U) and "
            "(L, U, B), a row for each linked pair and a column for each unlinked document"
        )
    gain = jnp.asarray(numpyro.sample("gain", dist.Normal(1.0, 1.0)))
    prior = dist.Normal(0.0, scale).expand([rows.shape[2]]).to_event(1)
    margin = gain * start + rows @ jnp.asarray(numpyro.sample("theta", prior))
    links = numpyro.plate("links", start.shape[0], dim=-2)
    # Thurstone's scale is that of each of two performances, of which one is drawn apart here.
    noise = _NOISE
    if not independent:
        noise = _NOISE / 2**0.5
        with links:
            margin = margin + jnp.asarray(numpyro.sample("performance", dist.Normal(0.0, _NOISE)))
    with links, numpyro.plate("unlinked", start.shape[1], dim=-1):
        numpyro.sample("order", Thurstone(margin, noise), obs=jnp.ones(start.shape, int))
