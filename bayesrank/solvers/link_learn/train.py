r"""Training of a term weight on links, by stochastic gradients.

Each epoch draws documents :math:`l^-` that are not linked with :math:`d`, for each linked pair
:math:`(d, l^+)`. With :math:`m = sim(d, l^+) - sim(d, l^-)` the losses are

- ``hinge``: :math:`\max(0, 1 - m)`, as printed (equation 7);
- ``softmax``: minus the log share of :math:`l^+` in the sum of :math:`e^{sim}` over all drawn;
- ``probit``: :math:`-\log \Phi(m)`.

The paper takes one gradient a document; here some hundred links share one, by Adam. As there,
training holds out some of the linked documents as queries, whose relevant documents are linked with
them. It stops when average precision on these no longer rises.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.scipy.stats import norm
from numpy.typing import NDArray
from numpyro.optim import Adam

from bayesrank._process import enter_jax
from bayesrank._sizes import next_size
from bayesrank.metrics import average_precision
from bayesrank.retrieval import Collection, Index, Links
from bayesrank.solvers.link_learn.forms import (
    Codes,
    Scales,
    TermWeight,
    form_inputs,
    overlaps,
    weigh_terms,
)

LOSSES = ("hinge", "softmax", "probit")

# Entries of shared terms that are prepared at once: some 200 MB with what is made of them.
_ENTRIES = 2_000_000
_VALIDATED = 200
_SHARE = 0.1
_PAIRS = 10_000  # that are looked at once for shared terms
_TOGETHER = 25  # queries whose scores of all documents are in memory at once


class Training(NamedTuple):
    """What training found.

    Attributes
    ----------
    params, precision
        Parameters of the form at the best epoch, and mean average precision on the held-out
        documents before training and after each epoch.

    Examples
    --------
    >>> from bayesrank.solvers.link_learn import Training
    >>> Training(params={}, precision=(0.2, 0.3)).precision[-1]
    0.3
    """

    params: Any
    precision: tuple[float, ...]


class Texts(NamedTuple):
    """What stands for each document as a query, and as a document: sparse counts, shape (n, V).

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from bayesrank.solvers.link_learn import Texts
    >>> counts = sp.csr_array([[1, 2], [0, 1]])
    >>> Texts(counts, counts).documents.shape
    (2, 2)
    """

    queries: Any
    documents: Any


class _Batches(NamedTuple):
    """Minibatches of entries of shared terms, shape (batches, entries)."""

    pair: Any
    query: Codes
    document: Codes
    counts: Any  # of the queries' terms


def fit_link_learn(
    form: TermWeight,
    loss: str,
    texts: Texts,
    links: Links,
    documents: Collection,
    *,
    num_unlinked: int,
    num_epochs: int,
    batch_size: int,
    learning_rate: float,
    patience: int,
    rng: np.random.Generator,
    callback: Callable[[int, float], None] | None = None,
    fold: tuple[int, int] | None = None,
) -> Training:
    """Learn the parameters of a form from links.

    Parameters
    ----------
    form, loss
        The weight, and one of `LOSSES`.
    texts, links, documents
        Counts of the queries and the documents, in the order of the links' numbers; links between
        the documents; and statistics of their terms.
    num_unlinked, num_epochs, patience, batch_size, learning_rate
        As for `bayesrank.LinkLearn`.
    rng
        Source of chance.
    callback
        Called with the number of epochs and the average precision after each.
    fold
        Number of the fold of linked documents to hold out, and of how many. Without it, a tenth is
        drawn.

    Raises
    ------
    ValueError
        If fewer than two documents have links and text, no linked documents share a term, or
        training overflows.
    """
    enter_jax()
    learned, held = _split(texts, links, rng, fold)
    _refuse_without_shared_terms(texts, learned)
    params: Any = jax.tree.map(jnp.asarray, form.init(rng))
    adam = Adam(learning_rate)
    state = adam.init(params)
    validate = partial(_precision, form, texts, links, documents, held)
    best, precision, entries = jax.tree.map(np.asarray, params), [validate(params)], 1024
    for epoch in range(num_epochs):
        pairs = rng.permutation(learned)
        for block in _blocks(pairs, texts, num_unlinked, batch_size):
            scales, batches, entries = _prepare(
                block, texts, links, documents, num_unlinked, batch_size, entries, rng
            )
            state = _descend(
                form, loss, num_unlinked, batch_size, learning_rate, state, scales, batches
            )
        params = adam.get_params(state)
        if not all(bool(jnp.isfinite(part).all()) for part in jax.tree.leaves(params)):
            raise ValueError(
                f"learning_rate is {learning_rate!r}, by which the weights leave the range of "
                "numbers; lower it"
            )
        precision.append(validate(params))
        if callback is not None:
            callback(epoch + 1, precision[-1])
        if precision[-1] >= max(precision):
            best = jax.tree.map(np.asarray, params)
        elif epoch + 1 - int(np.argmax(precision)) >= patience:
            break
    return Training(best, tuple(precision))


def _split(
    texts: Texts, links: Links, rng: np.random.Generator, fold: tuple[int, int] | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Linked pairs to learn from, and documents that are held out as queries."""
    has_text = np.diff(texts.queries.indptr) > 0
    linked = np.flatnonzero((np.diff(links.starts) > 0) & has_text)
    if len(linked) < 2:
        raise ValueError("links has fewer than two documents with text; give more links")
    if fold is None:
        count = min(max(1, int(_SHARE * len(linked))), _VALIDATED)
        held = np.sort(rng.choice(linked, count, replace=False))
    else:
        number, count = fold
        held = np.random.default_rng(0).permutation(linked)[number::count]
    usable = has_text[links.pairs[:, 0]] & ~np.isin(links.pairs[:, 0], held)
    return links.pairs[usable], held


def _refuse_without_shared_terms(texts: Texts, pairs: NDArray[np.int64]) -> None:
    """Refuse links if no linked documents have a term in common: they could teach nothing."""
    for start in range(0, len(pairs), _PAIRS):
        some = pairs[start : start + _PAIRS]
        if len(overlaps(texts.queries[some[:, 0]], texts.documents[some[:, 1]]).pair):
            return
    raise ValueError(
        "links joins only documents that share no term, as query and as document; count terms of "
        "longer texts, or query_side='document'"
    )


def _precision(
    form: TermWeight,
    texts: Texts,
    links: Links,
    documents: Collection,
    held: NDArray[np.int64],
    params: Any,
) -> float:
    """Mean average precision of the held-out documents as queries; themselves are left out."""
    rows = texts.queries[held]
    queries = weigh_terms(form, params, rows, documents) if form.both_sides else rows
    scores = Index(weigh_terms(form, params, texts.documents, documents)).scores(queries)
    relevant = links.adjacency[held]
    values = []
    for start in range(0, len(held), _TOGETHER):
        part = slice(start, start + _TOGETHER)
        given, label = scores[part].toarray(), relevant[part].toarray()
        others = held[part, None] != np.arange(given.shape[1])
        query = np.broadcast_to(held[part, None], given.shape)
        figure = average_precision(
            given[others], label[others], query=query[others], undefined="raise"
        )
        values.append(figure.values)
    return float(np.mean(np.concatenate(values)))


def _blocks(
    pairs: NDArray[np.int64], texts: Texts, num_unlinked: int, batch_size: int
) -> Iterator[NDArray[np.int64]]:
    """Cut linked pairs into blocks of whole minibatches that fit into memory."""
    sizes = np.diff(texts.queries.indptr)[pairs[:, 0]]
    each = batch_size * max(1.0, float(sizes.mean())) * (1 + num_unlinked)
    count = batch_size * max(1, int(_ENTRIES / each))
    for start in range(0, len(pairs), count):
        block = pairs[start : start + count]
        # The last minibatch is filled up with pairs from the beginning.
        missing = -len(block) % batch_size
        yield np.concatenate([block, np.resize(pairs, (missing, 2))])


def _prepare(
    pairs: NDArray[np.int64],
    texts: Texts,
    links: Links,
    documents: Collection,
    num_unlinked: int,
    batch_size: int,
    entries: int,
    rng: np.random.Generator,
) -> tuple[Scales, _Batches, int]:
    """Draw unlinked documents; return the shared terms, minibatch by minibatch."""
    against = links.unlinked(pairs[:, 0], num_unlinked, rng)
    target = np.concatenate([pairs[:, 1:], against], axis=1).ravel()
    query = np.repeat(pairs[:, 0], 1 + num_unlinked)
    shared = overlaps(texts.queries[query], texts.documents[target])
    lengths = [rows.sum(axis=1) for rows in texts]
    both = np.concatenate([shared.first, shared.second])
    length = np.concatenate([lengths[0][query[shared.pair]], lengths[1][target[shared.pair]]])
    scales, codes = form_inputs(both, np.tile(shared.term, 2), length, documents)

    width = batch_size * (1 + num_unlinked)
    batch, inside = np.divmod(shared.pair, width)
    sizes = np.bincount(batch, minlength=len(pairs) // batch_size)
    while entries < sizes.max(initial=1):
        entries = int(1.3 * entries)
    place = np.arange(len(batch)) - np.repeat(np.cumsum(sizes) - sizes, sizes)

    def laid(values: Any, fill: int) -> Any:
        table = np.full((len(sizes), entries), fill, values.dtype)
        table[batch, place] = values
        return table

    half = len(shared.pair)
    here = Codes(*(laid(code[:half], 0) for code in codes))
    there = Codes(*(laid(code[half:], 0) for code in codes))
    laid_pairs = laid(inside.astype(np.int32), width)
    counts = laid(shared.first.astype(np.float32), 0)
    return _padded(scales), _Batches(laid_pairs, here, there, counts), entries


def _padded(scales: Scales) -> Scales:
    """Repeat the last value up to a power of two, so that few shapes are compiled; none is zero."""
    some = (v if len(v) else np.zeros(1) for v in scales)
    return Scales(*(np.pad(v, (0, next_size(len(v)) - len(v)), "edge") for v in some))


@partial(jax.jit, static_argnums=(0, 1, 2, 3, 4))
def _descend(
    form: TermWeight,
    loss: str,
    num_unlinked: int,
    batch_size: int,
    learning_rate: float,
    state: Any,
    scales: Scales,
    batches: _Batches,
) -> Any:
    """One step of Adam for each minibatch."""
    scales = jax.tree.map(lambda v: jnp.asarray(v, jnp.float32), scales)

    def objective(params: Any, batch: _Batches) -> Array:
        weights = form.weight(params, scales, batch.document)
        own = form.weight(params, scales, batch.query) if form.both_sides else batch.counts
        width = batch_size * (1 + num_unlinked)
        sims = jax.ops.segment_sum(weights * own, batch.pair, width + 1, indices_are_sorted=True)[
            :-1
        ]
        return _loss(loss, sims.reshape(batch_size, 1 + num_unlinked))

    adam = Adam(learning_rate)

    def step(state: Any, batch: _Batches) -> tuple[Any, None]:
        return adam.update(jax.grad(objective)(adam.get_params(state), batch), state), None

    return lax.scan(step, state, batches)[0]


def _loss(kind: str, sims: Array) -> Array:
    """Mean loss; the linked document's similarity is the first of each row."""
    if kind == "softmax":
        return jnp.mean(jax.nn.logsumexp(sims, axis=1) - sims[:, 0])
    margins = sims[:, :1] - sims[:, 1:]
    if kind == "hinge":
        return jnp.mean(jax.nn.relu(1.0 - margins))
    return -jnp.mean(norm.logcdf(margins))
