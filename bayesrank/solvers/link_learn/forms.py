r"""Forms of the weight of a term in a text.

A term occurs :math:`tf` times in a text of length :math:`l`, and in :math:`df` of :math:`N`
documents of mean length :math:`L`. Its weight depends on :math:`\log(1 + tf)`, :math:`\log(N / df)`
and :math:`\log(l / L)`, and on no word as such: what one collection teaches serves another.

- ``mlp``: the product of three small networks, one of each [1]_, for both texts of a pair. Outputs
  are positive, since a negative length factor of a query would reverse its ranking.
- ``printed``: that product as printed, with outputs of either sign, of :math:`tf`, the idf and
  :math:`l / L` themselves. The first layer's weights make up for the unit of the length.
- ``okapi``: BM25 with its :math:`k_1`, :math:`b`, a power of the idf, and a scale to be learned.
- ``basis``: BM25 times the exponential of a sum of hat functions of each of the three.

In the last two a query's weight is its count, as in BM25.

References
----------
.. [1] Grangier, D. and Bengio, S. (2005). Exploiting hyperlinks to learn a retrieval model. NIPS
   Workshop on Learning to Rank. Equation (3).
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray
from scipy import sparse

from bayesrank.retrieval import Collection

Values = NDArray[np.float64]

FORMS = ("mlp", "printed", "okapi", "basis")
K1, B = 1.2, 0.75

KNOTS = {
    "tf": np.log1p(np.array([1.0, 2.0, 3.0, 5.0, 10.0])),
    "idf": np.array([1.0, 2.5, 4.0, 5.5, 7.0, 8.5]),
    "length": np.log(np.array([0.1, 0.3, 1.0, 2.0, 4.0])),
}
"""Where the hat functions of the basis are one."""


class Scales(NamedTuple):
    """Different values of what a form sees; elements refer to them by number."""

    tf: Any  # ``log(1 + tf)``, in any order
    idf: Any  # ``log(N / df)``
    length: Any  # ``log(l / L)``


class Codes(NamedTuple):
    """Numbers of the values of each element in `Scales`."""

    tf: Any
    idf: Any
    length: Any


def hats(values: Any, knots: Any) -> Array:
    """Hat functions at values, shape (m, knots): they add up to one, constant beyond the ends."""
    return jax.vmap(
        lambda unit: jnp.interp(jnp.asarray(values), jnp.asarray(knots), unit), out_axes=1
    )(jnp.eye(len(knots)))


@dataclass(frozen=True)
class TermWeight:
    """A form of the term weight.

    Parameters
    ----------
    kind, hidden
        One of `FORMS`, and units of the hidden layer of each network of "mlp" and "printed".

    Examples
    --------
    >>> from bayesrank.solvers.link_learn import FORMS, TermWeight
    >>> TermWeight("okapi").kind in FORMS
    True
    """

    kind: str
    hidden: int = 10

    @property
    def both_sides(self) -> bool:
        """Whether a query's terms are weighed as a document's are."""
        return self.kind in ("mlp", "printed")

    def init(self, rng: np.random.Generator) -> dict[str, Any]:
        """Parameters to start from: those of BM25, or random networks."""
        if self.kind == "okapi":
            return {
                "log_k1": np.log(K1),
                "logit_b": np.log(B / (1.0 - B)),
                "log_power": np.array(0.0),
                "log_gain": np.array(-1.0),
            }
        if self.kind == "basis":
            parts = {name: np.zeros(len(knots)) for name, knots in KNOTS.items()}
            return {**parts, "log_gain": np.array(-1.0)}
        return {name: _init_network(rng, self.hidden) for name in ("tf", "idf", "length")}

    def weight(self, params: Any, scales: Scales, codes: Codes) -> Array:
        """Weights of elements in the shape of the codes; only "printed" can make them negative."""
        if self.both_sides:
            seen, squash = scales, jax.nn.softplus
            if self.kind == "printed":
                raw = (jnp.expm1(scales.tf), scales.idf, jnp.exp(scales.length))
                seen, squash = Scales(*raw), _as_it_is
            factors = (squash(_network(params[name], getattr(seen, name))) for name in KNOTS)
            tf, idf, length = factors
            return tf[codes.tf] * idf[codes.idf] * length[codes.length]
        tf = jnp.expm1(scales.tf)[codes.tf]
        ratio = jnp.exp(scales.length)[codes.length]
        if self.kind == "okapi":
            k1, b = jnp.exp(params["log_k1"]), jax.nn.sigmoid(params["logit_b"])
            power = jnp.exp(params["log_power"])
            log_idf = jnp.log(jnp.maximum(scales.idf, 1e-9))
            idf = jnp.exp(params["log_gain"] + power * log_idf)[codes.idf]
            return idf * _saturated(tf, ratio, k1, b)
        correction = params["log_gain"] + sum(
            (hats(getattr(scales, name), KNOTS[name]) @ params[name])[getattr(codes, name)]
            for name in KNOTS
        )
        return scales.idf[codes.idf] * _saturated(tf, ratio, K1, B) * jnp.exp(correction)


def _saturated(tf: Any, ratio: Any, k1: Any, b: Any) -> Any:
    return (k1 + 1.0) * tf / (k1 * (1.0 - b + b * ratio) + tf)


def _init_network(rng: np.random.Generator, hidden: int) -> dict[str, Any]:
    return {
        "inner": rng.normal(size=hidden),
        "shift": rng.normal(size=hidden),
        "outer": rng.normal(size=hidden) / np.sqrt(hidden),
        "level": np.array(0.0),
    }


def _network(params: Any, values: Any) -> Array:
    layer = jnp.tanh(jnp.asarray(values)[:, None] * params["inner"] + params["shift"])
    return layer @ params["outer"] + params["level"]


def _as_it_is(values: Array) -> Array:
    return values


def form_inputs(tf: Values, term: NDArray[Any], length: Values, documents: Collection) -> Any:
    """What a form sees of elements, (E,) each: `Scales` and `Codes` by the collection."""
    df = np.maximum(documents.document_frequency[term], 1.0)
    kinds, numbers = zip(
        *(np.unique(part, return_inverse=True) for part in (tf, df, length)), strict=True
    )
    scales = Scales(
        np.log1p(kinds[0]),
        np.log(documents.num_documents / kinds[1]),
        np.log(kinds[2] / documents.mean_length),
    )
    return scales, Codes(*(number.astype(np.int32) for number in numbers))


def weigh_terms(form: TermWeight, params: Any, counts: Any, documents: Collection) -> Any:
    """Return weights of terms, sparse, in the shape of the counts; zero if no document has one.

    Parameters
    ----------
    form, params
        A form of weights, and its parameters, as `fit_link_learn` returns them.
    counts
        How often each text has each term, sparse, shape (n, terms).
    documents
        The collection, whose frequencies and lengths of documents count.
    """
    if not counts.nnz:
        return counts.copy()
    sizes = np.diff(counts.indptr)
    lengths = np.repeat(counts.sum(axis=1), sizes)
    scales, codes = form_inputs(counts.data, counts.indices, lengths, documents)
    with jax.enable_x64(True):
        weights = np.asarray(form.weight(params, Scales(*map(jnp.asarray, scales)), codes))
    weights = np.where(documents.document_frequency[counts.indices] > 0, weights, 0.0)
    return sparse.csr_array((weights, counts.indices, counts.indptr), shape=counts.shape)
