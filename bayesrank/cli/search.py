"""The command `search`: documents, links and queries in; the best documents of each query out."""

import warnings
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
from rich.console import Console

from bayesrank._names import count_of, shown
from bayesrank.cli.job import blamed
from bayesrank.cli.outputs import give_tables, refuse_to_replace, table_rows
from bayesrank.cli.progress import Steps
from bayesrank.datasets import DataError, TextData, read_links, read_texts
from bayesrank.datasets.runs import read_qrels
from bayesrank.retrieval import BM25, learn_link_weight, links_of, term_counter, with_linked

_WEIGHT = 0.3


def search(
    documents: Path,
    queries: Path,
    links: Path | None,
    out: Path,
    method: str,
    link_weight: float | None,
    judged: Path | None,
    language: str,
    k: int,
    seed: int,
    quiet: bool,
) -> None:
    """Read the files, index, search, and write the scores."""
    _check_links(method, links, link_weight, judged)
    refuse_to_replace({"--out": out}, (documents, queries, links, judged))
    data, asked = read_texts(documents), read_texts(queries)
    pairs = None
    if links is not None:
        with blamed(links):
            pairs = links_of(read_links(links, data.names), len(data.names))
    relevant = None if judged is None else _relevance(judged, asked, data)
    steps = Steps(Console(stderr=True), quiet=quiet)
    with steps.running():
        with steps.step("Counting terms"):
            counter = _counter(language)
            try:
                counts = counter.fit_transform(data.whole)
            except ValueError:
                raise DataError(documents, "no text has a word", "give texts") from None
        with steps.step("Learning" if method == "link-learn" else "Indexing"):
            engine = _engine(links or documents, method, counter, counts, data, pairs, seed)
        with steps.step("Searching"):
            scores = _scores(engine, counter.transform(asked.whole), asked)
            weight = link_weight
            if pairs is not None:
                scores, weight = _with_links(scores, pairs, link_weight, relevant)
        with steps.step("Writing the scores"):
            give_tables([(out, table_rows(_table(scores, asked, data, k)))], "use --out")
    many, number = len(asked.names), count_of(len(data.names), "document")
    message = f"{many:,} {'query' if many == 1 else 'queries'}, {number}."
    message += "" if str(out) == "-" else f" Scores are in {out}."
    if relevant is not None:
        message += f" Links count {weight:g}, as the judged queries have it."
    click.echo(shown(message), err=str(out) == "-")


def _check_links(
    method: str, links: Path | None, link_weight: float | None, judged: Path | None
) -> None:
    """Refuse options that need a file of links."""
    if method == "link-learn" and links is None:
        raise click.UsageError("--method link-learn needs --links, a file of linked documents.")
    if link_weight is not None and links is None:
        raise click.UsageError("--link-weight needs --links, a file of linked documents.")
    if judged is not None and (links is None or link_weight is not None):
        raise click.UsageError("--judged needs --links, and takes the place of --link-weight.")


def _counter(language: str) -> Any:
    try:
        return term_counter(None if language == "none" else language)
    except ValueError as error:
        raise click.UsageError(f"--{error}") from None


def _engine(
    path: Path, method: str, counter: Any, counts: Any, data: TextData, links: Any, seed: int
) -> Any:
    from bayesrank.estimators import LinkLearn

    with blamed(path):
        if method == "bm25":
            return BM25().fit(counts)
        titled = 2 * sum(map(bool, data.titles)) > len(data.titles)
        engine = LinkLearn(query_side="title" if titled else "document", random_state=seed)
        titles = counter.transform(data.titles) if titled else None
        return engine.fit(counts, links.pairs, titles)


def _relevance(path: Path, asked: TextData, data: TextData) -> np.ndarray:
    """Labels of the queries' documents, shape (queries, documents)."""
    rows = {name: row for row, name in enumerate(asked.names)}
    columns = {name: column for column, name in enumerate(data.names)}
    relevant = np.zeros((len(rows), len(columns)), int)
    for (query, item), label in read_qrels(path).labels.items():
        if query in rows and item in columns:
            relevant[rows[query], columns[item]] = label
    if (relevant > 0).any(axis=1).sum() < 2:
        raise DataError(
            path, "fewer than two of the queries have a relevant document", "judge more of them"
        )
    return relevant


def _scores(engine: Any, queries: Any, asked: TextData) -> Any:
    """Scores of all documents, with a warning that goes by the names of queries."""
    known = queries @ (engine.collection_.document_frequency > 0)
    lost = [name for name, number in zip(asked.names, known, strict=True) if not number]
    if lost:
        more = f" and {len(lost) - 1} more have" if len(lost) > 1 else " has"
        warnings.warn(
            f"query {lost[0]!r}{more} no term that a document has; all documents score 0 there",
            UserWarning,
            stacklevel=2,
        )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "query .* no term that a document has", UserWarning)
        return engine.scores(queries)


def _with_links(scores: Any, links: Any, weight: float | None, relevant: Any) -> tuple[Any, float]:
    """Scores with links, and the weight of these for queries that are not judged."""
    if relevant is None:
        weight = _WEIGHT if weight is None else weight
        return with_linked(scores, links, weight), weight
    learned = learn_link_weight(scores, links, relevant)
    return learned.scores, learned.weight


def _table(scores: Any, queries: TextData, data: TextData, k: int) -> pd.DataFrame:
    """The k best documents of each query that share a term with it or have a link to one."""
    rows = []
    for number, name in enumerate(queries.names):
        low, high = scores.indptr[number : number + 2]
        found, values = scores.indices[low:high], scores.data[low:high]
        order = np.lexsort((found, -values))[:k]
        rows += [(name, data.names[found[i]], values[i]) for i in order]
    return pd.DataFrame(rows, columns=["query", "item", "score"])
