"""`LinkLearn`: a search engine whose term weights are learned from links."""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from bayesrank._validate import check_choice, check_count, check_positive
from bayesrank.estimators.base import seed_of
from bayesrank.retrieval import (
    Collection,
    SearchEngine,
    check_counts,
    collection,
    links_of,
)
from bayesrank.solvers.link_learn import (
    FORMS,
    LOSSES,
    TermWeight,
    Texts,
    Training,
    fit_link_learn,
    weigh_terms,
)

_FOLDS = 3


class LinkLearn(SearchEngine):
    """Search by term weights that are learned from links between documents.

    Linked documents should be closer than others [1]_. The learner finds how a term's count, its
    rarity and a text's length make up its weight. It learns nothing about single words, so the
    weights serve other collections, see `index`.

    Parameters
    ----------
    form : {"okapi", "basis", "mlp", "printed"}, default "okapi"
        "okapi" is BM25 with four parameters learned; "basis" is BM25 times hat functions of count,
        idf and length; "mlp" is the paper's product of three networks, of logarithms, and positive;
        "printed" is that product as it is printed, of either sign, of the values themselves.
    loss : {"softmax", "hinge", "probit"}, default "softmax"
        See `bayesrank.solvers.link_learn`; the paper's is "hinge".
    query_side : {"title", "document"}, default "title"
        What stands for a document as a query: its title, which is as short as a query, or all of
        it, as in the paper.
    num_unlinked : int, default 40
        Number of unlinked documents that each linked pair competes with, at most all others.
    num_epochs, patience : int, default 30 and 5
        Passes over all links at the most, and how many without a gain end the training.
    batch_size : int, default 64
        Linked pairs a step.
    learning_rate : float or sequence of float, default 0.02
        Step size of Adam. If there are several, or several numbers of units, cross-validation
        over three folds of the linked documents chooses those with the best average precision.
    hidden : int or sequence of int, default 10
        Units of each network of "mlp" and "printed".
    random_state : int, RandomState instance or None, default 0
        Seed.

    Attributes
    ----------
    params_ : dict
        Parameters of the form.
    hidden_, learning_rate_ : int, float
        Those that were used.
    validation_ : list of float
        Mean average precision on the held-out tenth of the linked documents (200 at the most),
        before training and after each epoch.
    collection_, index_
        As for `bayesrank.retrieval.SearchEngine`.

    References
    ----------
    .. [1] Grangier, D. and Bengio, S. (2005). Exploiting hyperlinks to learn a retrieval model.
       NIPS Workshop on Learning to Rank.

    Examples
    --------
    >>> from bayesrank import LinkLearn
    >>> from bayesrank.retrieval import term_counter
    >>> texts = ["red fish", "red fish swim", "blue bird", "a blue bird sings"]
    >>> counter = term_counter()
    >>> counts = counter.fit_transform(texts)
    >>> engine = LinkLearn(query_side="document", num_unlinked=2, batch_size=4)
    >>> engine = engine.fit(counts, links=[(0, 1), (2, 3)])
    >>> engine.search(counter.transform(["fish"]), k=2).documents
    array([[0, 1]])
    """

    _learned = "params_"

    def __init__(
        self,
        *,
        form: Literal["okapi", "basis", "mlp", "printed"] = "okapi",
        loss: Literal["softmax", "hinge", "probit"] = "softmax",
        query_side: Literal["title", "document"] = "title",
        num_unlinked: int = 40,
        num_epochs: int = 30,
        patience: int = 5,
        batch_size: int = 64,
        learning_rate: float | Sequence[float] = 0.02,
        hidden: int | Sequence[int] = 10,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.form = form
        self.loss = loss
        self.query_side = query_side
        self.num_unlinked = num_unlinked
        self.num_epochs = num_epochs
        self.patience = patience
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.hidden = hidden
        self.random_state = random_state

    def fit(
        self,
        counts: Any,
        links: ArrayLike,
        titles: Any = None,
        *,
        callback: Callable[[int, float], None] | None = None,
    ) -> Self:
        """Learn the weights, and index the documents.

        Parameters
        ----------
        counts : sparse array of shape (documents, terms)
            Counts of terms, see `bayesrank.retrieval.term_counter`.
        links : array-like of shape (L, 2)
            Numbers of the documents of each link; which refers to which does not matter. Links of
            a document to itself say nothing and are left out.
        titles : sparse array of shape (documents, terms), optional
            Counts of the documents' titles, needed where `query_side` is "title".
        callback : callable, optional
            Called after each epoch with its number and the average precision.

        Raises
        ------
        ValueError
            If an argument or an option cannot be used; the message names it.
        """
        choices = self._check_options()
        rows = check_counts(counts)
        known = collection(rows)
        pairs = links_of(links, rows.shape[0])
        seed = seed_of(self.random_state)
        data = Texts(self._queries(rows, titles), rows), pairs, known
        self.hidden_, self.learning_rate_ = choices[0]
        if len(choices) > 1:
            folds = [(number, _FOLDS) for number in range(_FOLDS)]
            precision = [
                sum(max(self._train(data, choice, seed, fold=fold).precision) for fold in folds)
                for choice in choices
            ]
            self.hidden_, self.learning_rate_ = choices[int(np.argmax(precision))]
        chosen = self.hidden_, self.learning_rate_
        trained = self._train(data, chosen, seed, callback=callback)
        self.params_ = trained.params
        self.validation_ = list(trained.precision)
        self._form = TermWeight(self.form, self.hidden_)
        return self.index(rows)

    def _train(
        self, data: tuple[Any, ...], choice: tuple[int, float], seed: int, **options: Any
    ) -> Training:
        """Train with these units and rate."""
        hidden, rate = choice
        return fit_link_learn(
            TermWeight(self.form, hidden),
            self.loss,
            *data,
            num_unlinked=min(self.num_unlinked, data[0].documents.shape[0] - 2),
            num_epochs=self.num_epochs,
            batch_size=self.batch_size,
            learning_rate=rate,
            patience=self.patience,
            rng=np.random.default_rng(seed),
            **options,
        )

    def _check_options(self) -> list[tuple[int, float]]:
        """Return the numbers of units and the rates to choose from."""
        check_choice(self.form, "form", *FORMS)
        check_choice(self.loss, "loss", *LOSSES)
        check_choice(self.query_side, "query_side", "title", "document")
        for name in ("num_unlinked", "num_epochs", "patience", "batch_size"):
            check_count(getattr(self, name), name)
        choices = list(product(_several(self.hidden), _several(self.learning_rate)))
        if not choices:
            raise ValueError("hidden or learning_rate is empty; pass a number, or some")
        for hidden, rate in choices:
            check_count(hidden, "hidden")
            check_positive(rate, "learning_rate")
        return choices

    def _queries(self, rows: Any, titles: Any) -> Any:
        if self.query_side == "document":
            return rows
        if titles is None:
            raise ValueError("titles is missing; pass their counts, or query_side='document'")
        counted = check_counts(titles, "titles", num_terms=rows.shape[1])
        if counted.shape[0] != rows.shape[0]:
            raise ValueError(
                f"titles has {counted.shape[0]} rows and counts {rows.shape[0]}; pass one for each "
                "document"
            )
        return counted

    def _document_weights(self, rows: Any, known: Collection) -> Any:
        check_is_fitted(self, "params_")
        return weigh_terms(self._form, self.params_, rows, known)

    def _query_weights(self, rows: Any, known: Collection) -> Any:
        return weigh_terms(self._form, self.params_, rows, known) if self._form.both_sides else rows


def _several(option: Any) -> list[Any]:
    return list(option) if isinstance(option, list | tuple) else [option]
