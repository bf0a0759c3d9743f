"""Definitions of the metrics, written down slowly: the second route of the tests of metrics."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np


def sign(x: float) -> int:
    return int(x > 0) - int(x < 0)


def orders(scores: Sequence[float]) -> Iterator[tuple[int, ...]]:
    """Every ranking that agrees with the scores: all ways to break the ties, each as likely."""
    values = sorted(set(scores), reverse=True)
    groups = [[i for i, s in enumerate(scores) if s == value] for value in values]
    for parts in itertools.product(*(itertools.permutations(group) for group in groups)):
        yield tuple(itertools.chain.from_iterable(parts))


def expected(metric: Callable[[list[float]], float], scores, labels) -> float:
    """Mean of a metric of ranked labels over all ways to break the ties."""
    return float(np.mean([metric([labels[i] for i in order]) for order in orders(scores)]))


def dcg(ranked, k, gain) -> float:
    return sum(gain(y) / math.log2(rank + 2) for rank, y in enumerate(ranked[:k]))


def ndcg(ranked, k=None, gain=lambda y: 2.0**y - 1.0) -> float:
    return dcg(ranked, k, gain) / dcg(sorted(ranked, reverse=True), k, gain)


def average_precision(ranked, k=None) -> float:
    hits = [y >= 1 for y in ranked]
    precision = [sum(hits[: i + 1]) / (i + 1) for i in range(len(hits))]
    return sum(p for p, hit in zip(precision[:k], hits[:k], strict=True) if hit) / sum(hits)


def reciprocal_rank(ranked, k=None) -> float:
    rank = next(i for i, y in enumerate(ranked, start=1) if y >= 1)
    return 0.0 if k is not None and rank > k else 1.0 / rank


def winner_takes_all(ranked) -> float:
    return 0.0 if ranked[0] >= 1 else 1.0


def precision_at(ranked, k) -> float:
    return sum(y >= 1 for y in ranked[:k]) / k


def break_even_point(ranked) -> float:
    relevant = sum(y >= 1 for y in ranked)
    return precision_at(ranked, relevant)


def k_partite_error(scores, labels, alpha, tied=0.5) -> float:
    """Definition 1 of Rajaram and Agarwal, over all pairs."""
    wrong, pairs = 0.0, 0
    for (s, y), (t, z) in itertools.combinations(zip(scores, labels, strict=True), 2):
        if y != z:
            pairs += 1
            loss = tied if s == t else float(sign(s - t) != sign(y - z))
            wrong += abs(y - z) ** alpha * loss
    return wrong / pairs


def disagreement_error(scores, labels) -> float:
    """Equation (1) of Pahikkala et al.: ordered pairs, signs, and the two halves."""
    n = len(scores)
    total = sum(
        abs(sign(labels[i] - labels[j]) - sign(scores[i] - scores[j])) / 2
        for i in range(n)
        for j in range(n)
    )
    return total / 2 / math.comb(n, 2)


def bucket_places(values) -> list[int]:
    """First place of each item's group, from 0."""
    return [sum(w > v for w in values) for v in values]


def kendall_distance(scores, labels, k, penalty) -> float:
    """Fagin et al.: pairs of the items in either top list, in pairs."""
    n = len(scores)
    limit = n if k is None else k
    a = [min(p, limit) for p in bucket_places(scores)]
    b = [min(p, limit) for p in bucket_places(labels)]
    active = [i for i in range(n) if a[i] < limit or b[i] < limit]
    distance = 0.0
    for i, j in itertools.combinations(active, 2):
        x, y = sign(a[i] - a[j]), sign(b[i] - b[j])
        distance += 1.0 if x * y < 0 else penalty * (x != y)
    return distance


def spearman_footrule(scores, labels, k) -> float:
    """Distance of expected places, places after k counting as one."""
    limit = math.inf if k is None else k

    def places(values):
        ranks = [np.argsort(order) for order in orders(values)]
        return np.mean([np.minimum(rank, limit) for rank in ranks], axis=0)

    return float(np.abs(places(scores) - places(labels)).sum())
