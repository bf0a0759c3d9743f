"""Commands of the benchmarks of retrieval: CACM under one protocol, and speed."""

from __future__ import annotations

import re
import resource
import time
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np

__all__ = ["COMMANDS"]

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


@retrieval.command()
@click.option("--sets", default=100, show_default=True)
def coverage(sets: int) -> None:
    """How often 90% intervals of the program's unknowns hold, where a link is the best of five."""
    import jax

    from bayesrank.infer import EP
    from bayesrank.models import link_bm25

    rng = np.random.default_rng(0)
    engine = EP(link_bm25)
    held: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(sets):
        truth = np.append(rng.normal(1.0, 1.0), rng.normal(0.0, 0.5, 3))
        # The first function of a document is BM25's score, the others are its corrections.
        rows = rng.normal(size=(200, 5, 4)) * np.array([1.0, 0.7, 0.7, 0.7])
        score = rows @ truth + rng.normal(0.0, 0.5**0.5, (200, 5))
        rows = np.take_along_axis(rows, np.argsort(-score, axis=1)[..., None], axis=1)
        apart = rows[:, :1] - rows[:, 1:]
        for independent, rates in held.items():
            arguments = apart[..., 0], apart[..., 1:]
            result = engine.run(jax.random.key(0), *arguments, independent=independent)
            mean = np.append(result.mean["gain"], result.mean["theta"])
            sd = np.append(result.sd["gain"], result.sd["theta"])
            rates.append(float(np.mean(np.abs(truth - mean) < 1.645 * sd)))
    for independent, rates in held.items():
        name = "triples independent" if independent else "a linked pair an event"
        error = np.std(rates) / sets**0.5
        click.echo(f"{name}: {np.mean(rates):.3f} +- {error:.3f}")


@retrieval.command()
@click.option("--documents", default=30_000, show_default=True)
@click.option("--length", default=80, show_default=True)
def speed(documents: int, length: int) -> None:
    """Indexing, search and training on simulated documents, beside bm25s where it is installed."""
    from bayesrank import LinkLearn
    from bayesrank.retrieval import BM25, term_counter

    rng = np.random.default_rng(0)
    terms = 30_000
    shares = 1 / np.arange(1, terms + 1)
    shares /= shares.sum()
    words = np.array([f"w{number}x" for number in range(terms)])
    texts = [" ".join(words[rng.choice(terms, length, p=shares)]) for _ in range(documents)]
    asked = [" ".join(words[rng.choice(terms, 4, p=shares)]) for _ in range(200)]
    start = time.perf_counter()
    counter = term_counter(None)
    counts = counter.fit_transform(texts)
    counted = time.perf_counter()
    engine = BM25().fit(counts)
    indexed = time.perf_counter()
    queries = counter.transform(asked)
    engine.search(queries)
    found = time.perf_counter()
    click.echo(
        f"bayesrank: counting {counted - start:.2f} s, index {indexed - counted:.2f} s, "
        f"{(found - indexed) / 0.2:.2f} ms a query"
    )
    _peer(texts, asked)
    links = rng.integers(0, documents, (documents, 2))
    learner = LinkLearn(query_side="document", num_unlinked=9, num_epochs=1)
    start = time.perf_counter()
    learner.fit(counts, links)
    took = time.perf_counter() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    click.echo(
        f"LinkLearn: one epoch of {18 * documents:,} triples with its checks {took:.1f} s; "
        f"{memory:.2f} GB at the most"
    )


def _peer(texts: list[str], asked: list[str]) -> None:
    try:
        import bm25s
    except ImportError:
        click.echo("bm25s is not installed")
        return
    start = time.perf_counter()
    tokens = bm25s.tokenize(texts, stopwords=[], show_progress=False)
    counted = time.perf_counter()
    engine = bm25s.BM25(k1=1.2, b=0.75)
    engine.index(tokens, show_progress=False)
    indexed = time.perf_counter()
    engine.retrieve(
        bm25s.tokenize(asked, stopwords=[], show_progress=False), k=10, show_progress=False
    )
    found = time.perf_counter()
    click.echo(
        f"bm25s: counting {counted - start:.2f} s, index {indexed - counted:.2f} s, "
        f"{(found - indexed) / 0.2:.2f} ms a query"
    )


COMMANDS = (retrieval,)
