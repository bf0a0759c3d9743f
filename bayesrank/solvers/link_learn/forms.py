r"""Forms of the weight of a term in a text, and the pairs' overlaps that similarities depend on.

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

The basis form to first order: similarities that are linear in the unknowns.

The weight is BM25's times :math:`\exp(\sum_b \theta_b \phi_b)`, with hat functions :math:`\phi_b`.
To first order in :math:`\theta` a similarity is :math:`g (s_0 + \sum_b \theta_b s_b)`. Here
:math:`s_0` is BM25's, and :math:`s_b` is the same sum with each term's weight times :math:`\phi_b`.

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

from bayesrank.retrieval import Collection, Index


class Overlaps(NamedTuple):
    """One entry for each term that the two texts of a pair share, ordered by the pair.

    Attributes
    ----------
    pair, term
        Numbers of the pair and of the term, shape (E,).
    first, second
        Counts of the term in the two texts, shape (E,).

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from bayesrank.solvers.link_learn import overlaps
    >>> overlaps(sp.csr_array([[1, 2, 0]]), sp.csr_array([[0, 1, 1]])).term.tolist()
    [1]
    """

    pair: NDArray[np.int64]
    term: NDArray[np.int64]
    first: NDArray[np.float64]
    second: NDArray[np.float64]


def overlaps(first: Any, second: Any) -> Overlaps:
    """Return the terms that rows of two tables of counts share.

    Parameters
    ----------
    first, second
        Sparse counts by rows with sorted columns, both of shape (pairs, terms), one text a row.
    """
    here, there = (_ones(rows) for rows in (first, second))
    one, other = first.multiply(there).tocsr(), second.multiply(here).tocsr()
    pair = np.repeat(np.arange(one.shape[0]), np.diff(one.indptr))
    return Overlaps(pair, one.indices.astype(np.int64), one.data, other.data)


def _ones(rows: Any) -> Any:
    ones = rows.copy()
    ones.data = np.ones_like(ones.data)
    return ones


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


def basis_scores(queries: Any, counts: Any, documents: Collection) -> list[Any]:
    """BM25's scores, and those of each function of the basis: 17 arrays (queries, documents).

    A draw of ``gain`` and ``theta`` of `bayesrank.models.link_bm25` has the scores
    ``gain * first + sum(theta * others)``.

    Parameters
    ----------
    queries, counts
        Counts of terms, shapes (queries, terms) and (documents, terms).
    documents
        Statistics of the terms in the collection.
    """
    weights, functions = _weights(counts, documents)

    def scores(values: Values) -> Any:
        table = sparse.csr_array((values, counts.indices, counts.indptr), shape=counts.shape)
        return Index(table).scores(queries)

    return [scores(weights), *(scores(weights * column) for column in functions.T)]


def margin_features(
    queries: Any,
    counts: Any,
    documents: Collection,
    pairs: NDArray[np.int64],
    unlinked: NDArray[np.int64],
) -> tuple[Values, Values]:
    """Margins of linked pairs by BM25, (L, U), and how each function changes them, (L, U, 16).

    They are the arguments of `bayesrank.models.link_bm25`.

    Parameters
    ----------
    queries, counts, documents
        Counts of terms of each document as a query and as a document, (documents, terms); and
        statistics of the terms.
    pairs, unlinked
        Query and linked document, shape (L, 2), and unlinked documents of each, shape (L, U).
    """
    linked = _similarities(queries, counts, documents, pairs[:, 0], pairs[:, 1])
    others = _similarities(
        queries, counts, documents, np.repeat(pairs[:, 0], unlinked.shape[1]), unlinked.ravel()
    )
    apart = linked[:, None] - others.reshape(*unlinked.shape, -1)
    return apart[..., 0], apart[..., 1:]


def _similarities(
    queries: Any,
    counts: Any,
    documents: Collection,
    query: NDArray[np.int64],
    document: NDArray[np.int64],
) -> Values:
    """BM25's similarity and those of each function of the basis, shape (pairs, 17)."""
    shared = overlaps(queries[query], counts[document])
    length = counts.sum(axis=1)[document[shared.pair]]
    weights, functions = _elements(shared.second, shared.term, length, documents)
    parts = np.column_stack([weights, weights[:, None] * functions]) * shared.first[:, None]
    sums = [np.bincount(shared.pair, part, len(query)) for part in parts.T]
    return np.stack(sums, axis=1).astype(np.float64)


def _weights(counts: Any, documents: Collection) -> tuple[Values, Values]:
    lengths = np.repeat(counts.sum(axis=1), np.diff(counts.indptr))
    return _elements(counts.data, counts.indices, lengths, documents)


def _elements(
    tf: Values, term: NDArray[Any], length: Values, documents: Collection
) -> tuple[Values, Values]:
    """BM25's weights of elements, shape (E,), and the basis at them, shape (E, 16)."""
    scales, codes = form_inputs(tf, term, length, documents)
    functions = np.concatenate(
        [np.asarray(hats(getattr(scales, n), KNOTS[n]))[getattr(codes, n)] for n in KNOTS], axis=1
    )
    form = TermWeight("basis")
    plain = {**form.init(np.random.default_rng(0)), "log_gain": np.array(0.0)}
    return np.asarray(form.weight(plain, scales, codes), np.float64), functions
