"""Commands of the benchmarks of retrieval: CACM under one protocol, and speed."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np

K1 = (0.6, 0.9, 1.2, 1.6, 2.0, 2.5)
B = (0.3, 0.5, 0.75, 0.9)


class Cacm(NamedTuple):
    """Titles and whole texts, links, queries, and relevant documents of each query."""

    titles: list[str]
    texts: list[str]
    links: np.ndarray
    queries: list[str]
    relevant: np.ndarray


def read_cacm(folder: Path) -> Cacm:
    """Read cacm.all, query.text and qrels.text; links are those of type 5."""
    documents, links = _records((folder / "cacm.all").read_text("latin-1"))
    asked, _ = _records((folder / "query.text").read_text("latin-1"))
    judged = [line.split() for line in (folder / "qrels.text").read_text().split("\n") if line]
    labels: dict[int, set[int]] = {}
    for parts in judged:
        labels.setdefault(int(parts[0]), set()).add(int(parts[1]) - 1)
    queries = [number for number in asked if number in labels]
    relevant = np.zeros((len(queries), len(documents)), int)
    for row, number in enumerate(queries):
        relevant[row, list(labels[number])] = 1
    fields = [documents[number + 1] for number in range(len(documents))]
    texts = [" ".join(field.get(part, "") for part in "TWK") for field in fields]
    titles = [field.get("T", "") for field in fields]
    return Cacm(titles, texts, links, [asked[number].get("W", "") for number in queries], relevant)


def _records(text: str) -> tuple[dict[int, dict[str, str]], np.ndarray]:
    records: dict[int, dict[str, str]] = {}
    links, field, number = [], "", 0
    for line in text.splitlines():
        start = re.fullmatch(r"\.I (\d+)\s*", line)
        if start:
            number, field = int(start[1]), ""
            records[number] = {}
        elif re.fullmatch(r"\.[A-Z]\s*", line):
            field = line[1]
        elif field == "X":
            parts = line.split()
            if len(parts) == 3 and parts[1] == "5":
                links.append((int(parts[2]) - 1, int(parts[0]) - 1))
        elif field:
            records[number][field] = f"{records[number].get(field, '')} {line}"
    return records, np.array(links)


@click.group()
def retrieval() -> None:
    """BM25, LinkLearn, and links at search time."""


@retrieval.command()
@click.argument("folder", type=click.Path(path_type=Path))
def cacm(folder: Path) -> None:
    """Precision on the CACM collection in FOLDER, all choices by leave-one-query-out."""
    from bayesrank import LinkLearn
    from bayesrank.retrieval import BM25, learn_link_weight, links_of, term_counter

    data = read_cacm(folder)
    counter = term_counter(stop_words=None)
    counts = counter.fit_transform(data.texts)
    titles, queries = counter.transform(data.titles), counter.transform(data.queries)
    links = links_of(data.links, len(data.texts))
    grid = [BM25(k1=k1, b=b).fit(counts).scores(queries) for k1 in K1 for b in B]
    tuned = _held_out(grid, data.relevant)
    found = {"BM25, default": BM25().fit(counts).scores(queries), "BM25, tuned": tuned}
    learners = {
        "LinkLearn, as printed": LinkLearn(
            form="mlp", loss="hinge", query_side="document", num_unlinked=1
        ),
        "LinkLearn (okapi, softmax, titles)": LinkLearn(),
        "LinkLearn (basis, softmax, titles)": LinkLearn(form="basis"),
    }
    for name, learner in learners.items():
        found[name] = learner.fit(counts, data.links, titles).scores(queries)
    for name in ("BM25, tuned", "LinkLearn (okapi, softmax, titles)"):
        learned = learn_link_weight(found[name], links, data.relevant)
        found[f"{name} + links"] = learned.scores
    _print(found, data.relevant)
    _posterior(counts, queries, titles, links, data)


def _figures(scores: Any, relevant: np.ndarray) -> np.ndarray:
    """Average precision, precision at 10 and break-even point of each query, shape (3, q)."""
    from bayesrank.metrics import average_precision, break_even_point, precision_at

    given = scores.toarray()
    query = np.broadcast_to(np.arange(len(given))[:, None], given.shape).ravel()
    arguments = (given.ravel(), relevant.ravel())
    return np.array(
        [
            average_precision(*arguments, query=query).values,
            precision_at(*arguments, query=query, k=10).values,
            break_even_point(*arguments, query=query).values,
        ]
    )


def _held_out(candidates: list[Any], relevant: np.ndarray) -> Any:
    """Each query's scores by the candidate with the best MAP on all other queries."""
    from scipy import sparse

    values = np.array([_figures(scores, relevant)[0] for scores in candidates])
    others = values.sum(axis=1, keepdims=True) - values
    chosen = np.argmax(others, axis=0)
    rows = [candidates[best][[row]] for row, best in enumerate(chosen)]
    return sparse.csr_array(sparse.vstack(rows))


def _print(found: dict[str, Any], relevant: np.ndarray) -> None:
    """Figures with bootstrap intervals over queries, and a paired test against tuned BM25."""
    rng = np.random.default_rng(0)
    figures = {name: _figures(scores, relevant) for name, scores in found.items()}
    base = figures["BM25, tuned"][0]
    click.echo(f"{'':42} {'MAP':>22} {'P@10':>7} {'break-even':>11}  wins losses      p")
    for name, values in figures.items():
        again = values[0][rng.integers(0, len(base), (4000, len(base)))].mean(axis=1)
        low, high = np.quantile(again, [0.05, 0.95])
        apart = values[0] - base
        flipped = (rng.choice([-1.0, 1.0], (10_000, len(base))) * apart).mean(axis=1)
        p = float(np.mean(np.abs(flipped) >= abs(apart.mean()) - 1e-12))
        mean, top, even = values.mean(axis=1)
        click.echo(
            f"{name:42} {mean:.4f} ({low:.3f} to {high:.3f}) {top:7.3f} {even:11.3f} "
            f"{(apart > 1e-9).sum():5} {(apart < -1e-9).sum():6} {p:6.3f}"
        )


def _posterior(counts: Any, queries: Any, titles: Any, links: Any, data: Cacm) -> None:
    """The distribution of MAP over EP's posterior of the basis' corrections."""
    import jax

    from bayesrank.infer import EP
    from bayesrank.models import link_bm25
    from bayesrank.retrieval import check_counts, collection
    from bayesrank.solvers.link_learn import basis_scores, margin_features

    rng = np.random.default_rng(0)
    rows, known = check_counts(counts), collection(counts)
    titled = check_counts(titles)
    linked = links.pairs[np.diff(titled.indptr)[links.pairs[:, 0]] > 0]
    linked = linked[rng.permutation(len(linked))[:2750]]
    against = links.unlinked(linked[:, 0], 4, rng)
    margins, features = margin_features(titled, rows, known, linked, against)
    unit = margins.std()
    tables = [scores.toarray() for scores in basis_scores(check_counts(queries), rows, known)]
    for name, independent in (("triples independent", True), ("a linked pair an event", False)):
        start = time.perf_counter()
        result = EP(link_bm25).run(
            jax.random.key(0), margins / unit, features / unit, independent=independent
        )
        took = time.perf_counter() - start
        draws = result.get_samples()
        values = []
        for gain, theta in list(zip(draws["gain"], draws["theta"], strict=True))[:100]:
            scores = gain * tables[0] + np.tensordot(theta, np.array(tables[1:]), 1)
            values.append(_average_precision(scores, data.relevant))
        low, middle, high = np.quantile(values, [0.05, 0.5, 0.95])
        click.echo(
            f"posterior of MAP, {name}: {middle:.4f} ({low:.4f} to {high:.4f}); "
            f"{margins.size} triples, {took:.1f} s"
        )


def _average_precision(scores: np.ndarray, relevant: np.ndarray) -> float:
    from bayesrank.metrics import average_precision

    query = np.broadcast_to(np.arange(len(scores))[:, None], scores.shape).ravel()
    return float(average_precision(scores.ravel(), relevant.ravel(), query=query).mean)


COMMANDS = (retrieval,)
